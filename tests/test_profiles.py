"""Which examples properties get: in the suite and the quick tests the same on every run, in a search others."""

import pytest
from hypothesis import settings

from tests.examples import examples


@pytest.mark.parametrize(("profile", "is_the_same"), [("suite", True), ("quick", True), ("search", False)])
def test_only_a_search_is_left_to_chance(profile: str, is_the_same: bool) -> None:
    """A test that fails in the suite fails again; a search finds what the suite never draws."""
    assert settings.get_profile(profile).derandomize is is_the_same


def test_the_suite_has_its_profile_unless_another_is_asked_for(pytestconfig: pytest.Config) -> None:
    """What runs is what the option names, else ``suite``."""
    asked = pytestconfig.getoption("--hypothesis-profile") or "suite"
    assert settings.get_current_profile_name().startswith(asked)


@pytest.mark.parametrize(("profile", "made"), [("suite", 20), ("quick", 3), ("search", 40)])
def test_costly_properties_get_their_share(profile: str, made: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the examples that a property wants a search makes all, the suite half, and the quick tests a few."""
    monkeypatch.setattr("tests.examples.settings", lambda: settings.get_profile(profile))
    assert examples(40) == made
