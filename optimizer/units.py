"""Figures as people read them: three significant digits, decimal units (1 TB = 10^12 bytes), thousands separated."""

import math
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

BYTE_UNITS = (("PB", 10**15), ("TB", 10**12), ("GB", 10**9), ("MB", 10**6), ("kB", 10**3))  # powers of 1000
SECONDS_PER_MINUTE = 60  # options and limits are in minutes, times are computed in seconds
SECONDS_PER_HOUR = 3600  # figures and windows are in hours, times are computed in seconds
_TIME_UNITS = ((SECONDS_PER_HOUR, "h"), (SECONDS_PER_MINUTE, "min"), (1, "s"))  # seconds and names
_WHOLE_SECONDS = 10 * SECONDS_PER_MINUTE  # seconds: up to here measured times are in seconds
_WHOLE_HOURS = 10 * SECONDS_PER_HOUR  # seconds: from here on hours are shown without a digit after the point
NEVER_SECONDS = 2**53  # largest integer that a double holds exactly; used for "never"
_LEAST_PERCENT, _WHOLE_PERCENT = 0.001, 10  # least percentage that is shown; from 10 on percentages are whole
_DIGITS = 3  # significant digits


def _rounded(value: float) -> float:
    """The value with the digits that people see."""
    return float(f"{value:.{_DIGITS - 1}e}")


def three_digits(value: float) -> str:
    """A number with three significant digits; all digits of its whole part have a place.

    >>> three_digits(33.352), three_digits(0.00281), three_digits(999.9), three_digits(0)
    ('33.4', '0.00281', '1,000', '0')
    """
    rounded = _rounded(value)
    places = _DIGITS - 1 - math.floor(math.log10(abs(rounded))) if rounded else 0
    return f"{rounded:,.{max(places, 0)}f}"


def human_bytes(value: float) -> str:
    """Bytes in the largest unit that gives a number of at least 1.

    >>> human_bytes(1_234_000_000), human_bytes(999_960_000_000)
    ('1.23 GB', '1.00 TB')
    """
    rounded = _rounded(value)
    for unit, size in BYTE_UNITS:
        if abs(rounded) >= size:
            return f"{three_digits(rounded / size)} {unit}"
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


def human_measured(seconds: float) -> str:
    """A measured duration: up to ten minutes in seconds, because two of them are compared.

    >>> human_measured(88.4)
    '88 s'
    """
    return f"{seconds:.0f} s" if seconds < _WHOLE_SECONDS else human_time(seconds)


def human_times(least_seconds: float, most_seconds: float) -> str:
    """An interval of durations, or one duration if both ends have the same text."""
    return " to ".join(dict.fromkeys((human_time(least_seconds), human_time(most_seconds))))


def human_predicted(least_seconds: float, most_seconds: float) -> str:
    """An interval of durations that is compared with a measured one.

    >>> human_predicted(88, 96)
    '88 s to 96 s predicted'
    """
    if most_seconds >= NEVER_SECONDS:
        return "no end predicted"
    return " to ".join(dict.fromkeys(map(human_measured, (least_seconds, most_seconds)))) + " predicted"


def human_hours(hours: float) -> str:
    """A duration in hours, as ``human_time`` shows it."""
    return human_time(hours * SECONDS_PER_HOUR)


def human_percent(value: float) -> str:
    """A percentage: whole from 10 on, with three significant digits below. Only 0 is shown as 0 %.

    >>> human_percent(58.9), human_percent(9.999), human_percent(7.692), human_percent(0.00281), human_percent(1e-9)
    ('59 %', '10 %', '7.69 %', '0.00281 %', '0.00100 %')
    """
    shown = max(value, _LEAST_PERCENT) if value > 0 else value
    return f"{shown:.0f} %" if abs(_rounded(shown)) >= _WHOLE_PERCENT else f"{three_digits(shown)} %"


def human_ratio(value: float) -> str:
    """A ratio, such as ``1.05x``."""
    return f"{three_digits(value)}x"


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


def short_times(least_seconds: float, most_seconds: float) -> str:
    """An interval of time in one unit, rounded.

    >>> short_times(136_800, 201_600), short_times(18_660, 24_480), short_times(1800, 2400), short_times(4, 4)
    ('38 to 56 h', '5.2 to 6.8 h', '30 to 40 min', '4 s')
    """
    if most_seconds >= NEVER_SECONDS:
        return "no end"
    size, unit = next((size, unit) for size, unit in _TIME_UNITS if most_seconds >= size or size == 1)
    digits = 1 if unit == "h" and most_seconds < _WHOLE_HOURS else 0
    ends = (f"{seconds / size:,.{digits}f}" for seconds in (least_seconds, most_seconds))
    return f"{' to '.join(dict.fromkeys(ends))} {unit}"


def listed(names: Sequence[str]) -> str:
    """Names with commas, and "and" before the last.

    >>> listed(["a", "b", "c"])
    'a, b and c'
    """
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last


def first_of(names: Iterable[object], shown: int = 1, *, total: int | None = None, separator: str = ", ") -> str:
    """The first of some names, and the number of the others.

    >>> first_of(["a", "b", "c"]), first_of("abcd", 2), first_of("ab", 2), first_of("ab", 2, total=9)
    ('a and 2 more', 'a, b and 2 more', 'a, b', 'a, b and 7 more')

    Parameters
    ----------
    total : int, optional
        The number of all names, if ``names`` has only some of them.
    """
    texts = [*map(str, names)]
    more = (total or len(texts)) - min(shown, len(texts))
    return separator.join(texts[:shown]) + (f" and {more:,} more" if more else "")


def human_moment(unix_seconds: int | None) -> str:
    """A time to the minute, in UTC; ``unknown`` for None.

    >>> human_moment(0)
    '1970-01-01 00:00 UTC'
    """
    return "unknown" if unix_seconds is None else f"{datetime.fromtimestamp(unix_seconds, UTC):%Y-%m-%d %H:%M} UTC"


def iso_time(unix_seconds: int | None) -> str | None:
    """A time in ISO form, in UTC.

    >>> iso_time(0)
    '1970-01-01T00:00:00+00:00'
    """
    return None if unix_seconds is None else datetime.fromtimestamp(unix_seconds, tz=UTC).isoformat()
