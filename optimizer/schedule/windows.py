"""The nights in which waves may run, and a place in one of them for each wave.

A night is one occurrence of a window. Its length is the difference of two UTC times: from 22:00 to 06:00 in Dublin pass
7 hours in the night when summer time begins, and 9 hours when it ends.

A local time is the first moment at which the clock shows it or a later time. So a time that the clock skips is the
moment of the jump, and a time that the clock shows twice is the first of the two. A night that starts and ends in the
skipped hour does not exist.
"""

import math
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from functools import cache
from heapq import merge
from itertools import count
from zoneinfo import ZoneInfo

from optimizer.settings import Schedule
from optimizer.windows_setting import DAYS, Window

# Seconds between two waves: people check the first one, and the throttles are changed.
BETWEEN_WAVES_SECONDS = 300
# Days to search for a night that is long enough: they have two nights of every window, because one may be short. A day
# is added, because two weeks of local time may have an hour more.
_DAYS_AHEAD = 15
_NIGHTS_AHEAD = 400  # most nights to search for one wave; many windows would make the search long
# Seconds; a wave that takes longer has no end in the calendar. With 10,000 waves this long it still ends before the
# year 9999, the last one of Python's dates.
_LONGEST_SECONDS = 100 * 24 * 3600
_DAY = timedelta(days=1)  # the end of a night may be on the day after its start
_WEEK = timedelta(days=7)  # every window has a night in it; a late wave does not wait longer for a longer night


@dataclass(frozen=True)
class Night:
    """One occurrence of a window.

    Parameters
    ----------
    start, end : datetime
        UTC.
    window : int
        Index of its window.
    """

    start: datetime
    end: datetime
    window: int

    @property
    def seconds(self) -> float:
        """The time that passes."""
        return (self.end - self.start).total_seconds()


@dataclass(frozen=True)
class Slot:
    """The place of a wave.

    Parameters
    ----------
    night : Night
    start : datetime
        UTC.
    end : datetime or None
        UTC; None if the wave takes longer than 100 days, or never ends.
    is_late : bool
        It does not end inside its night.
    """

    night: Night
    start: datetime
    end: datetime | None
    is_late: bool


def _moment(day: date, text: str, zone: ZoneInfo) -> datetime:
    """The first moment, in UTC, at which the clock shows this time of this day or later."""
    local = datetime.combine(day, time.fromisoformat(text), tzinfo=zone)
    moment = local.astimezone(UTC)
    if moment.astimezone(zone).replace(tzinfo=None) == local.replace(tzinfo=None):
        return moment
    # The clock skips this time. Of the two readings, the offset before and the offset after the jump, the later moment
    # is after the jump and the earlier one is before it.
    before = local.replace(fold=1).astimezone(UTC)
    old_offset = before.astimezone(zone).utcoffset()
    seconds = range(round((moment - before).total_seconds()))
    jump = bisect_left(
        seconds, True, key=lambda i: (before + timedelta(seconds=i)).astimezone(zone).utcoffset() != old_offset
    )
    return before + timedelta(seconds=jump)


def _nights_of(window: Window, index: int, first: date) -> Iterator[Night]:
    """The nights of one window from a local date; a night in the skipped hour is empty."""
    zone, weekdays = ZoneInfo(window.time_zone), {DAYS.index(day) for day in window.days}
    days_to_end = _DAY if window.end <= window.start else timedelta()
    for i in count():
        day = first + i * _DAY
        if day.weekday() in weekdays:
            yield Night(_moment(day, window.start, zone), _moment(day + days_to_end, window.end, zone), index)


def _first_date(window: Window, after: datetime | None, first: date | None) -> date:
    """The earliest local date on which a night may start."""
    dates = [first] if first else []
    if after:
        dates.append(after.astimezone(ZoneInfo(window.time_zone)).date())
    return max(dates)


def nights(windows: Sequence[Window], *, after: datetime | None = None, first: date | None = None) -> Iterator[Night]:
    """All nights from a time or a date, without end, by start and then by window; no two of them overlap.

    Where nights of two windows overlap, the later one begins when the earlier one has ended. It is left out if nothing
    of it is left.

    Parameters
    ----------
    after : datetime, optional
        UTC; nights that start at this time or later.
    first : date, optional
        Nights whose local start is on this date or later. Give ``after``, ``first`` or both.
    """
    if after is None and first is None:
        raise ValueError("nights need a time or a date to begin from")
    streams = (_nights_of(window, i, _first_date(window, after, first)) for i, window in enumerate(windows))
    ascending = merge(*streams, key=lambda night: night.start)  # equal starts stay in the order of the windows
    return _apart(night for night in ascending if after is None or night.start >= after)


def coming_nights(schedule: Schedule, captured_at: datetime | None) -> Iterator[Night] | None:
    """The nights of a plan: from the first one that the schedule names, or else after the capture of the snapshot.

    None without windows, or if neither is known.
    """
    first = date.fromisoformat(schedule.first_night) if schedule.first_night else None
    if not schedule.windows or (first is None and captured_at is None):
        return None
    return nights(schedule.windows, after=None if first else captured_at, first=first)


def _apart(ascending: Iterator[Night]) -> Iterator[Night]:
    """The nights without what an earlier one covers, and without empty ones."""
    end = None
    for night in ascending:
        start = max(night.start, end) if end else night.start
        if start < night.end:
            yield replace(night, start=start)
            end = night.end


def place_waves(
    most_seconds: Callable[[int, int], float],
    n_waves: int,
    copy_rates_bytes_per_s: Sequence[int],
    nights: Iterator[Night],
    *,
    ends_at: datetime | None = None,
) -> list[Slot]:
    """Give each wave a place, in order.

    A wave follows the one before in the same night if it ends inside, else it begins the next night that is long
    enough. If none of the next nights is, it gets the one in which it is late by least, and is late: with one rate for
    all windows, that is the longest night of the next week.

    Parameters
    ----------
    most_seconds : callable
        ``most_seconds(wave, rate)``: the time to allow for a wave at a copy rate; waves are numbered from 1.
    copy_rates_bytes_per_s : sequence of int
        The rate of each window.
    nights : iterator of Night
        As from ``nights``: without end.
    ends_at : datetime, optional
        UTC: the end of other waves, which the first one follows.
    """
    slots: list[Slot] = []
    seconds = cache(most_seconds)
    ahead: deque[Night] = deque()
    between = timedelta(seconds=BETWEEN_WAVES_SECONDS)
    free_from = ends_at + between if ends_at else datetime.min.replace(tzinfo=UTC)
    for wave in range(1, n_waves + 1):
        _look_ahead(ahead, nights, free_from)
        trials = (_slot(night, free_from, seconds(wave, copy_rates_bytes_per_s[night.window])) for night in ahead)
        slots.append(_first_inside(trials))
        end = slots[-1].end or slots[-1].night.end
        free_from = end + between
    return slots


def _look_ahead(ahead: deque[Night], nights: Iterator[Night], free_from: datetime) -> None:
    """Remove the nights that are over, and add the next ones."""
    while ahead and ahead[0].end <= free_from:
        ahead.popleft()
    while not ahead or (len(ahead) < _NIGHTS_AHEAD and ahead[-1].start < ahead[0].start + _DAYS_AHEAD * _DAY):
        night = next(nights)
        if night.end > free_from:
            ahead.append(night)


def _first_inside(trials: Iterator[Slot]) -> Slot:
    """The first place that ends inside its night, else the one of the first week that is late by least."""
    late = []
    for slot in trials:
        if not slot.is_late:
            return slot
        late.append(slot)
    return min((slot for slot in late if slot.start < late[0].start + _WEEK), key=_lateness)


def _slot(night: Night, free_from: datetime, seconds: float) -> Slot:
    """The place of a wave in this night, in whole seconds."""
    start = max(night.start, free_from)
    end = start + timedelta(seconds=math.ceil(seconds)) if seconds <= _LONGEST_SECONDS else None
    return Slot(night, start, end, is_late=end is None or end > night.end)


def _lateness(slot: Slot) -> tuple[float, float]:
    """How late a wave ends; for waves without an end, the longest night first."""
    late = (slot.end - slot.night.end).total_seconds() if slot.end else math.inf
    return late, -(slot.night.end - slot.start).total_seconds()


def least_capacity(windows: Sequence[Window], copy_rates_bytes_per_s: Sequence[int]) -> tuple[int, int]:
    """Seconds and rate of the window that copies least in its usual hours, those of the clock."""
    lengths = (window.usual_seconds for window in windows)
    capacities = zip(lengths, copy_rates_bytes_per_s, strict=True)
    return min(capacities, key=lambda capacity: capacity[0] * capacity[1])
