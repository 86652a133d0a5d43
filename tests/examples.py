"""The number of examples for property tests that plan whole clusters."""

from hypothesis import settings

SEARCH = 200  # examples of a property in the profile ``search``
DAILY = "daily"  # the profile of ``./run-tests.sh`` without arguments


def is_daily() -> bool:
    """Whether the daily tier runs."""
    return settings.get_current_profile_name().startswith(DAILY)


def examples(wanted: int) -> int:
    """All in the profile ``search``, half in the suite, a sixth in the daily tier, a few in ``make quick``."""
    count = wanted * settings().max_examples // SEARCH
    return max(3, count // 3 if is_daily() else count)
