"""Nights of windows have their true lengths, and each wave has a place of its own in one of them."""

import math
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from itertools import islice, pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optimizer.schedule.windows import (
    BETWEEN_WAVES_SECONDS,
    Night,
    Slot,
    least_capacity,
    nights,
    place_waves,
)
from optimizer.windows_setting import DAYS, Window

HOUR = 3600
RATE = 50 * 10**6
PAUSE = timedelta(seconds=BETWEEN_WAVES_SECONDS)


def window(start: str, end: str, days: tuple[str, ...] = DAYS, zone: str = "Europe/Dublin") -> Window:
    """A window, by default of every night in Dublin."""
    return Window(days=days, start=start, end=end, time_zone=zone)


def utc(text: str) -> datetime:
    """A time such as "2026-10-24 21:00"."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def first_nights(windows: list[Window], first: str, number: int = 1) -> list[Night]:
    """The first nights from a local date."""
    return list(islice(nights(windows, first=date.fromisoformat(first)), number))


def placed(hours: list[float], windows: list[Window], first: str) -> list[Slot]:
    """Places of waves with these lengths, which are the same at every rate."""
    endless = nights(windows, first=date.fromisoformat(first))
    return place_waves(lambda wave, _: hours[wave - 1] * HOUR, len(hours), [RATE] * len(windows), endless)


def shown(slots: list[Slot]) -> list[tuple[str, str, bool]]:
    """Start and end of places in UTC, and which are late."""
    return [
        (f"{slot.start:%m-%d %H:%M}", f"{slot.end:%m-%d %H:%M}" if slot.end else "never", slot.is_late)
        for slot in slots
    ]


@pytest.mark.parametrize(
    ("first", "start", "end", "hours"),
    [
        ("2026-10-23", "2026-10-23 21:00", "2026-10-24 05:00", 8),
        ("2026-10-24", "2026-10-24 21:00", "2026-10-25 06:00", 9),
        ("2026-10-25", "2026-10-25 22:00", "2026-10-26 06:00", 8),
        ("2027-03-26", "2027-03-26 22:00", "2027-03-27 06:00", 8),
        ("2027-03-27", "2027-03-27 22:00", "2027-03-28 05:00", 7),
        ("2027-03-28", "2027-03-28 21:00", "2027-03-29 05:00", 8),
    ],
)
def test_a_night_is_as_long_as_the_time_that_passes(first: str, start: str, end: str, hours: int) -> None:
    """22:00 to 06:00 in Dublin has 9 hours when summer time ends, and 7 when it begins."""
    (night,) = first_nights([window("22:00", "06:00")], first)
    assert night == Night(utc(start), utc(end), 0)
    assert night.seconds == hours * HOUR


@pytest.mark.parametrize(
    ("start", "end", "first", "expected"),
    [
        # The clock jumps from 01:00 to 02:00, at 01:00 UTC.
        ("01:30", "06:00", "2027-03-28", ("2027-03-28 01:00", "2027-03-28 05:00")),
        ("22:00", "01:30", "2027-03-27", ("2027-03-27 22:00", "2027-03-28 01:00")),
        ("01:00", "02:00", "2027-03-28", ("2027-03-29 00:00", "2027-03-29 01:00")),
        ("01:15", "01:45", "2027-03-28", ("2027-03-29 00:15", "2027-03-29 00:45")),
        # The clock shows 01:00 to 02:00 twice, from 00:00 UTC and from 01:00 UTC.
        ("01:30", "06:00", "2026-10-25", ("2026-10-25 00:30", "2026-10-25 06:00")),
        ("22:00", "01:30", "2026-10-24", ("2026-10-24 21:00", "2026-10-25 00:30")),
        ("01:30", "02:00", "2026-10-25", ("2026-10-25 00:30", "2026-10-25 02:00")),
    ],
)
def test_times_that_do_not_exist_or_exist_twice(start: str, end: str, first: str, expected: tuple[str, str]) -> None:
    """A skipped time is the moment of the jump, a repeated one the first; a night in the skipped hour is left out."""
    (night,) = first_nights([window(start, end)], first)
    assert (night.start, night.end) == tuple(map(utc, expected))


def test_a_gap_of_half_an_hour_ends_where_the_clock_jumps() -> None:
    """Lord Howe Island jumps from 02:00 to 02:30, at 15:30 UTC."""
    (night,) = first_nights([window("02:10", "06:00", zone="Australia/Lord_Howe")], "2026-10-04")
    assert (night.start, night.seconds) == (utc("2026-10-03 15:30"), 3.5 * HOUR)


def test_a_night_across_midnight_on_sunday() -> None:
    """It belongs to the day on which it starts: on a Monday, the next night is that of the next Sunday."""
    sundays = [window("22:00", "06:00", ("sun",))]
    assert [night.start for night in first_nights(sundays, "2026-11-23", 2)] == [
        utc("2026-11-29 22:00"),
        utc("2026-12-06 22:00"),
    ]
    (night,) = islice(nights(sundays, after=utc("2026-11-22 22:00")), 1)
    assert (night.start, night.end) == (utc("2026-11-22 22:00"), utc("2026-11-23 06:00"))
    (later,) = islice(nights(sundays, after=utc("2026-11-22 22:01")), 1)
    assert later.start == utc("2026-11-29 22:00")


def test_an_end_at_the_start_is_a_whole_day() -> None:
    """The end is on the next day, so nights of all days have no gaps."""
    found = first_nights([window("06:00", "06:00")], "2027-03-26", 3)
    assert [night.seconds / HOUR for night in found] == [24, 23, 24]
    assert all(one.end == other.start for one, other in pairwise(found))


def test_the_first_date_is_that_of_each_zone() -> None:
    """The date in Auckland begins a day earlier in UTC; with a time as well, both apply."""
    both = [window("01:00", "02:00"), window("01:00", "02:00", zone="Pacific/Auckland")]
    assert [(night.start, night.window) for night in first_nights(both, "2026-11-27", 2)] == [
        (utc("2026-11-26 12:00"), 1),
        (utc("2026-11-27 01:00"), 0),
    ]
    after = islice(nights(both, first=date(2026, 11, 27), after=utc("2026-11-26 12:30")), 1)
    assert [night.window for night in after] == [0]
    late = islice(nights(both, first=date(2026, 11, 29), after=utc("2026-11-26 12:30")), 1)
    assert [night.start for night in late] == [utc("2026-11-28 12:00")]
    with pytest.raises(ValueError, match="need a time or a date"):
        nights(both)


def test_nights_of_two_windows_share_no_time() -> None:
    """The later one begins when the earlier one has ended; if it is inside the earlier one, it is left out."""
    windows = [
        window("22:00", "06:00", ("fri",)),
        window("00:00", "12:00", ("sat",)),
        window("23:00", "05:00", ("fri",)),
        window("22:00", "23:00", ("fri", "sun")),
    ]
    assert [(night.start, night.end, night.window) for night in first_nights(windows, "2026-11-27", 3)] == [
        (utc("2026-11-27 22:00"), utc("2026-11-28 06:00"), 0),
        (utc("2026-11-28 06:00"), utc("2026-11-28 12:00"), 1),
        (utc("2026-11-29 22:00"), utc("2026-11-29 23:00"), 3),
    ]


def test_waves_share_a_night_if_they_end_inside() -> None:
    """With a pause between them. A wave that would end later begins the next night, and one that just fits does not."""
    pause = BETWEEN_WAVES_SECONDS / HOUR
    assert shown(placed([3, 5 - pause, 3, 5, 8], [window("22:00", "06:00")], "2026-11-23")) == [
        ("11-23 22:00", "11-24 01:00", False),
        ("11-24 01:05", "11-24 06:00", False),
        ("11-24 22:00", "11-25 01:00", False),
        ("11-25 22:00", "11-26 03:00", False),
        ("11-26 22:00", "11-27 06:00", False),
    ]


def test_a_night_without_an_hour_is_passed_over() -> None:
    """A wave of 7.5 hours does not fit in the night of 7, also if that is the only one of its week."""
    daily, weekly = [window("22:00", "06:00")], [window("22:00", "06:00", ("sat",))]
    assert shown(placed([7.5, 7.5], daily, "2027-03-26")) == [
        ("03-26 22:00", "03-27 05:30", False),
        ("03-28 21:00", "03-29 04:30", False),
    ]
    assert shown(placed([7.5, 7.5], weekly, "2027-03-20")) == [
        ("03-20 22:00", "03-21 05:30", False),
        ("04-03 21:00", "04-04 04:30", False),
    ]
    mixed = [*weekly, window("01:00", "04:00", ("mon", "tue", "wed", "thu", "fri"))]
    assert shown(placed([7.5, 7.5], mixed, "2027-03-20"))[1:] == [("04-03 21:00", "04-04 04:30", False)]
    assert shown(placed([7.5], weekly, "2027-03-27")) == [("04-03 21:00", "04-04 04:30", False)]


def test_a_wave_waits_for_a_longer_night() -> None:
    """Not for long: a wave that fits in no usual night is late in the longest one."""
    windows = [window("22:00", "06:00", ("mon", "tue")), window("20:00", "06:00", ("sat",))]
    assert shown(placed([9, 11, 1], windows, "2026-11-23")) == [
        ("11-28 20:00", "11-29 05:00", False),
        ("12-05 20:00", "12-06 07:00", True),
        ("12-07 22:00", "12-07 23:00", False),
    ]


def test_a_late_wave_does_not_wait_for_the_end_of_summer_time() -> None:
    """The night of 9 hours is in the second week: a wave that fits in it waits, a longer one begins at once."""
    daily = [window("22:00", "06:00")]
    assert shown(placed([8.5], daily, "2026-10-13")) == [("10-24 21:00", "10-25 05:30", False)]
    assert shown(placed([9.5], daily, "2026-10-13")) == [("10-13 21:00", "10-14 06:30", True)]
    assert shown(placed([9.5], daily, "2026-10-20")) == [("10-24 21:00", "10-25 06:30", True)]


def test_a_part_of_a_second_counts_as_a_second() -> None:
    """The calendar has whole seconds, and a wave never ends before its time."""
    (slot,) = placed([8 + 0.4 / HOUR], [window("22:00", "06:00")], "2026-11-23")
    assert slot.is_late
    assert slot.end == utc("2026-11-24 06:00") + timedelta(seconds=1)


def test_waves_follow_a_late_one() -> None:
    """The next wave begins in the night after; if the late wave is still running then, after its end."""
    assert shown(placed([9, 1, 30, 1, 240, 1], [window("22:00", "06:00")], "2026-11-02")) == [
        ("11-02 22:00", "11-03 07:00", True),
        ("11-03 22:00", "11-03 23:00", False),
        ("11-04 22:00", "11-06 04:00", True),
        ("11-06 04:05", "11-06 05:05", False),
        ("11-06 22:00", "11-16 22:00", True),
        ("11-16 22:05", "11-16 23:05", False),
    ]
    assert shown(placed([50 * 24, 1], [window("22:00", "06:00")], "2026-11-02")) == [
        ("11-02 22:00", "12-22 22:00", True),
        ("12-22 22:05", "12-22 23:05", False),
    ]


@pytest.mark.parametrize("hours", [math.inf, 1e9, 2.0**53, 2401])
def test_a_wave_without_an_end_is_late(hours: float) -> None:
    """It gets the longest night of the week, and the next wave the night after."""
    windows = [window("22:00", "06:00", ("mon", "tue")), window("20:00", "06:00", ("sat",))]
    assert shown(placed([hours, 1], windows, "2026-11-23")) == [
        ("11-28 20:00", "never", True),
        ("11-30 22:00", "11-30 23:00", False),
    ]


def test_a_wave_takes_as_long_as_the_rate_of_its_night() -> None:
    """It waits for the window that is quick enough; if none is, it gets the one in which it is late by least."""
    windows = [window("22:00", "08:00", ("mon",)), window("22:00", "06:00", ("tue",))]
    size = 9 * HOUR * 100

    def place(bytes_of_wave: float) -> list[tuple[str, str, bool]]:
        endless = nights(windows, first=date(2026, 11, 23))
        return shown(place_waves(lambda wave, rate: bytes_of_wave / rate, 1, [50, 200], endless))

    assert place(size) == [("11-24 22:00", "11-25 02:30", False)]
    assert place(2 * size) == [("11-24 22:00", "11-25 07:00", True)]
    assert place(size / 3) == [("11-23 22:00", "11-24 04:00", False)]


def test_a_time_is_computed_once_and_only_if_it_is_needed() -> None:
    """Each is a simulation: a wave that fits in the first night needs the rate of that night only."""
    calls: list[tuple[int, int]] = []

    def most_seconds(wave: int, rate: int) -> float:
        calls.append((wave, rate))
        return 7 * HOUR if wave < 3 else 9 * HOUR

    windows = [window("22:00", "06:00", ("mon", "tue", "wed")), window("22:00", "06:00", ("sun",))]
    place_waves(most_seconds, 3, [1, 2], nights(windows, first=date(2026, 11, 23)))
    assert calls == [(1, 1), (2, 1), (3, 1), (3, 2)]


def test_the_search_for_a_night_ends() -> None:
    """After two weeks and a day, or after 400 nights if there are more."""
    quarters = [f"{minute // 60:02}:{minute % 60:02}" for minute in range(0, 24 * 60, 15)]
    many = [window(start, end) for start, end in pairwise([*quarters, "00:00"])]
    for windows, most in (([window("22:00", "06:00")], 16), (many, 400)):
        taken: list[Night] = []
        counted = (taken.append(night) or night for night in nights(windows, first=date(2026, 11, 23)))  # type: ignore[func-returns-value]
        (slot,) = place_waves(lambda *_: 10 * HOUR, 1, [RATE] * len(windows), counted)
        assert slot.is_late
        assert slot.night == taken[0]
        assert len(taken) == most


def test_a_wave_without_copies_takes_no_time() -> None:
    """It begins and ends at one moment."""
    just_before_the_end = 8 - BETWEEN_WAVES_SECONDS / HOUR
    assert shown(placed([just_before_the_end, 0], [window("22:00", "06:00")], "2026-11-23"))[1:] == [
        ("11-24 22:00", "11-24 22:00", False)
    ]
    assert shown(placed([0, 8, 0], [window("22:00", "06:00")], "2026-11-23")) == [
        ("11-23 22:00", "11-23 22:00", False),
        ("11-24 22:00", "11-25 06:00", False),
        ("11-25 22:00", "11-25 22:00", False),
    ]


def test_many_late_waves_end_before_the_last_year() -> None:
    """As many waves as the settings allow, each as long as a wave with an end can be; 200 stand for 10,000."""
    slots = placed([2400] * 200, [window("22:00", "06:00")], "2999-12-31")
    assert all(slot.end for slot in slots)
    assert slots[-1].start.year + (10_000 / 200) * (slots[-1].start.year - 2999) < 9999


def test_the_least_capacity_is_that_of_hours_and_rate() -> None:
    """Eight hours at half the rate copy less than six at the whole; a whole day has 24 hours."""
    windows = [window("22:00", "06:00"), window("10:00", "16:00"), window("06:00", "06:00")]
    assert least_capacity(windows, [50, 100, 50]) == (8 * HOUR, 50)
    assert least_capacity(windows, [100, 100, 100]) == (6 * HOUR, 100)
    assert least_capacity(windows[2:], [7]) == (24 * HOUR, 7)


ZONES = ["Europe/Dublin", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata", "UTC", "America/Santiago"]
TIMES = st.builds(lambda hour, minute: f"{hour:02}:{minute:02}", st.integers(0, 23), st.sampled_from([0, 15, 30, 45]))


@st.composite
def some_windows(draw: st.DrawFn) -> list[Window]:
    """Up to three windows, which may overlap."""
    days = st.lists(st.sampled_from(DAYS), min_size=1, unique=True).map(tuple)
    one = st.builds(window, TIMES, TIMES, days, st.sampled_from(ZONES))
    return draw(st.lists(one, min_size=1, max_size=3))


DATES = st.dates(date(2026, 1, 1), date(2028, 12, 31))


def clock_moments(of: Window, day: date) -> tuple[datetime, datetime]:
    """Start and end of the night of one day, found by watching the clock; it jumps at a quarter of an hour only."""
    zone = ZoneInfo(of.time_zone)
    ends = day + timedelta(days=of.end <= of.start)
    found = []
    for on, text in ((day, of.start), (ends, of.end)):
        wanted = datetime.combine(on, datetime.strptime(text, "%H:%M").time())
        moment = wanted.replace(tzinfo=UTC) - timedelta(hours=15)
        while moment.astimezone(zone).replace(tzinfo=None) < wanted:
            moment += timedelta(minutes=15)
        found.append(moment)
    return found[0], found[1]


@given(windows=some_windows(), first=DATES)
@settings(deadline=None)
def test_nights_are_those_of_the_clock(windows: list[Window], first: date) -> None:
    """Every night that a clock shows, in order, without what an earlier one covers; none is empty."""
    found = list(islice(nights(windows, first=first), 6))
    days = [first + timedelta(days=i) for i in range((found[-1].end.date() - first).days + 2)]
    on_clocks = [
        (*clock_moments(of, day), i) for i, of in enumerate(windows) for day in days if DAYS[day.weekday()] in of.days
    ]
    expected: list[Night] = []
    for start, end, i in sorted(on_clocks, key=lambda shown: (shown[0], shown[2])):
        begin = max(start, expected[-1].end) if expected else start
        expected += [Night(begin, end, i)] if begin < end else []
    assert found == expected[: len(found)]


@given(windows=some_windows(), first=DATES, hours=st.lists(st.floats(0, 30), max_size=12))
@settings(deadline=None)
def test_every_wave_has_a_place(windows: list[Window], first: date, hours: list[float]) -> None:
    """In order, apart by a pause, as long as they are; only late ones end outside, and those fit in no night ahead."""
    rates = [RATE * (i + 1) for i in range(len(windows))]

    def most_seconds(wave: int, rate: int) -> float:
        return hours[wave - 1] * HOUR * RATE / rate

    slots = place_waves(most_seconds, len(hours), rates, nights(windows, first=first))
    assert len(slots) == len(hours)
    all_nights = list(islice(nights(windows, first=first), 1000))
    for wave, slot in enumerate(slots, 1):
        assert slot.end
        needed = most_seconds(wave, rates[slot.night.window])
        assert 0 <= (slot.end - slot.start).total_seconds() - needed <= 1
        assert slot.night in all_nights
        assert slot.night.start <= slot.start < slot.night.end
        assert slot.is_late == (slot.end > slot.night.end)
    for one, other in pairwise(slots):
        assert one.end
        assert other.start >= one.end + PAUSE
        assert other.start in (one.end + PAUSE, other.night.start)
    check_order(slots, all_nights, lambda wave, night: most_seconds(wave, rates[night.window]))


def check_order(slots: list[Slot], all_nights: list[Night], seconds: Callable[[int, Night], float]) -> None:
    """No earlier night has space for a wave; a late one has none in the two weeks after the next night."""
    free_from = all_nights[0].start
    for wave, slot in enumerate(slots, 1):
        fresh = next(night.start for night in all_nights if night.start >= free_from)
        before = [
            night
            for night in all_nights
            if free_from < night.end
            and (night.start <= fresh + timedelta(days=14) if slot.is_late else night.start < slot.night.start)
        ]
        for night in before:
            assert (night.end - max(night.start, free_from)).total_seconds() < math.ceil(seconds(wave, night))
        assert slot.end
        free_from = slot.end + PAUSE
