"""How many examples the properties get that plan whole clusters: fewer in the quick tests."""

from hypothesis import settings

USUAL = 100


def examples(wanted: int) -> int:
    """The share of them that the profile makes: all in the whole suite, a few in ``make quick``."""
    return max(3, wanted * settings().max_examples // USUAL)
