"""Which examples properties get: the same on every run, except in a search."""

import pytest
from hypothesis import settings

from tests.examples import examples


@pytest.mark.parametrize(
    ("profile", "is_the_same"), [("suite", True), ("daily", True), ("quick", True), ("search", False)]
)
def test_only_a_search_is_left_to_chance(profile: str, is_the_same: bool) -> None:
    """A test that fails in the suite fails again; a search finds what the suite never draws."""
    assert settings.get_profile(profile).derandomize is is_the_same


def test_the_suite_has_its_profile_unless_another_is_asked_for(pytestconfig: pytest.Config) -> None:
    """What runs is what the option names, else ``suite``."""
    asked = pytestconfig.getoption("--hypothesis-profile") or "suite"
    assert settings.get_current_profile_name().startswith(asked)


@pytest.mark.parametrize(("profile", "made"), [("suite", 20), ("daily", 6), ("quick", 3), ("search", 40)])
def test_costly_properties_get_their_share(profile: str, made: int) -> None:
    """A search makes all that a property wants, the suite half, the daily tier a third of that, ``quick`` a few."""
    current = settings.get_current_profile_name()
    settings.load_profile(profile)
    try:
        assert examples(40) == made
    finally:
        settings.load_profile(current)
