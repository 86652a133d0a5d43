"""How many examples the properties get that plan whole clusters."""

from hypothesis import settings

SEARCH = 200  # examples of a property in the profile ``search``


def examples(wanted: int) -> int:
    """All in the profile ``search``; half in the whole suite, the same on every run; a few in ``make quick``."""
    return max(3, wanted * settings().max_examples // SEARCH)
