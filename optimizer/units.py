"""Figures as people read them: decimal units (1 TB = 10^12 bytes), fixed places, thousands separated."""

_UNITS = (("PB", 10**15), ("TB", 10**12), ("GB", 10**9), ("MB", 10**6), ("kB", 10**3))  # powers of 1000
NEVER_SECONDS = 2**53  # largest integer that a double holds exactly; used for "never"


def human_bytes(value: float) -> str:
    """Bytes in the largest unit that gives a number of at least 1.

    >>> human_bytes(1_234_000_000)
    '1.23 GB'
    """
    for unit, size in _UNITS:
        if abs(value) >= size:
            return f"{value / size:.2f} {unit}"
    return f"{value:.0f} B"


def human_rate(bytes_per_s: float) -> str:
    """Bytes per second, in the same units as ``human_bytes``."""
    return f"{human_bytes(bytes_per_s)}/s"


def human_count(value: float) -> str:
    """A whole number with thousands separated."""
    return f"{value:,.0f}"


def human_time(seconds: float) -> str:
    """A duration in its two largest units.

    >>> human_time(5400)
    '1 h 30 min'
    """
    if seconds >= NEVER_SECONDS:
        return "never"
    minutes = round(seconds / 60)
    if minutes < 1:
        return f"{seconds:.0f} s"
    if minutes < 60:
        return f"{minutes} min"
    hours, rest = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {rest:02d} min"
    days, hours = divmod(round(minutes / 60), 24)
    return f"{days} d {hours} h"


def human_percent(value: float) -> str:
    """A percentage, with two decimal places below 10."""
    return f"{value:.2f} %" if abs(value) < 10 else f"{value:.0f} %"


def human_ratio(value: float) -> str:
    """A ratio, such as ``1.05x``, with two decimal places below 100."""
    return f"{value:.2f}x" if value < 100 else f"{value:.0f}x"


def plural(count: int, noun: str) -> str:
    """``1 wave``, ``2 waves``; only for nouns with a plural in -s."""
    return f"{count:,} {agree(count, noun, f'{noun}s')}"


def agree(count: int, singular: str, plural_form: str) -> str:
    """The singular or the plural form, depending on a count.

    >>> f"{plural(1, 'wave')} {agree(1, 'is', 'are')} done"
    '1 wave is done'
    """
    return singular if count == 1 else plural_form


def clause(count: int, noun: str, singular: str, plural_form: str) -> str:
    """A count, its noun, and the words after it in the right form.

    >>> clause(2, "wave", "is done", "are done")
    '2 waves are done'
    """
    return f"{plural(count, noun)} {agree(count, singular, plural_form)}"
