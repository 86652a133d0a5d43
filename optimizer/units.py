"""Figures as people read them: decimal units (1 TB = 10^12 bytes), fixed places, thousands separated."""

_UNITS = (("PB", 10**15), ("TB", 10**12), ("GB", 10**9), ("MB", 10**6), ("kB", 10**3))  # powers of 1000
NEVER_SECONDS = 2**53  # the last whole number of a float: what has no end


def human_bytes(value: float) -> str:
    """Bytes in the largest unit that leaves at least one before the point.

    >>> human_bytes(1_234_000_000)
    '1.23 GB'
    """
    for unit, size in _UNITS:
        if abs(value) >= size:
            return f"{value / size:.2f} {unit}"
    return f"{value:.0f} B"


def human_rate(bytes_per_s: float) -> str:
    """Bytes per second."""
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
    """A percentage: two places under ten, where they matter."""
    return f"{value:.2f} %" if abs(value) < 10 else f"{value:.0f} %"


def human_ratio(value: float) -> str:
    """A ratio to the mean or between two plans."""
    return f"{value:.2f}x" if value < 100 else f"{value:.0f}x"


def plural(count: int, noun: str) -> str:
    """``1 wave``, ``2 waves``; nouns in -ch and -s are not used."""
    return f"{count:,} {agree(count, noun, f'{noun}s')}"


def agree(count: int, one: str, more: str) -> str:
    """The form of a word that goes with a count.

    >>> f"{plural(1, 'wave')} {agree(1, 'is', 'are')} done"
    '1 wave is done'
    """
    return one if count == 1 else more


def clause(count: int, noun: str, one: str, more: str) -> str:
    """A count with its noun and the words after it.

    >>> clause(2, "wave", "is done", "are done")
    '2 waves are done'
    """
    return f"{plural(count, noun)} {agree(count, one, more)}"
