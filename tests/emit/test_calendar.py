"""The calendar of a plan: days and times of the window's own time zone."""

import re
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from optimizer.domain import FindingCode
from optimizer.emit.calendar import CalendarLine, calendar, nights_in_words
from optimizer.emit.cluster_plan import ClusterPlan
from optimizer.emit.summary import execution
from optimizer.solve.findings.finding import Finding
from optimizer.units import NEVER_SECONDS
from optimizer.wording.in_words import in_words
from tests.emit.test_pages import page, synthetic

ZONE = "Europe/Dublin"


def at(day: int, hour: int, minute: int = 0) -> int:
    """Seconds of Unix time in October 2026, UTC."""
    return int(datetime(2026, 10, day, hour, minute, tzinfo=UTC).timestamp())


def placed(*times: tuple[int, int | None, int]) -> ClusterPlan:
    """A plan with a wave for each start, end and end of the night."""
    plan = synthetic(3, partitions=100 * len(times))
    rows = [
        replace(row, starts_at=start, ends_at=end, night_ends_at=night_end, time_zone=ZONE)
        for row, (start, end, night_end) in zip(plan.waves, times, strict=True)
    ]
    return replace(plan, waves=rows)


# The clock is set back at 01:00 UTC of the 25th: the night from 22:00 to 06:00 ends at 06:00 UTC.
AUTUMN = placed((at(24, 21), at(25, 1, 30), at(25, 6)), (at(25, 1, 35), at(25, 7), at(25, 6)))


def test_times_are_those_of_the_window() -> None:
    """Start and end are local times on both sides of the change of the clock; a late end has its day."""
    assert calendar(AUTUMN) == [
        CalendarLine("wave-01", "Sat 2026-10-24", "22:00", "01:30 GMT", "06:00 GMT", ZONE, is_late=False),
        CalendarLine("wave-02", "Sun 2026-10-25", "01:35", "Sun 2026-10-25 07:00", "06:00", ZONE, is_late=True),
    ]


def test_the_hour_that_comes_twice_hides_no_late_wave() -> None:
    """The window ends at 01:30, before the clock is set back; the wave ends at 01:10, after it: 40 minutes too late."""
    (line,) = calendar(placed((at(24, 21), at(25, 1, 10), at(25, 0, 30))))
    assert (line.night_ends, line.ends_by, line.is_late) == ("01:30", "Sun 2026-10-25 01:10 GMT", True)


def test_a_wave_without_an_end_says_so() -> None:
    """It takes over 100 days, or never ends."""
    (line,) = calendar(placed((at(5, 21), None, at(6, 5))))
    assert (line.ends_by, line.is_late) == ("open", True)


@pytest.mark.parametrize(
    ("plan", "words"),
    [
        (AUTUMN, "1 night from Sat 2026-10-24 to Sun 2026-10-25; 1 wave may overrun the window"),
        (placed((at(5, 7), at(5, 8), at(5, 9)), (at(5, 21), at(5, 22), at(6, 5))), "2 nights on Mon 2026-10-05"),
        (placed((at(5, 21), at(6, 3), at(6, 5))), "1 night on Mon 2026-10-05"),
        (synthetic(3), ""),
    ],
)
def test_the_sentence_about_time_has_the_nights(plan: ClusterPlan, words: str) -> None:
    """Without windows it says nothing of them."""
    assert nights_in_words(plan) == words
    assert words in execution(plan)
    assert ("night" in execution(plan)) == bool(words)


def test_the_pages_have_the_calendar() -> None:
    """A row for each wave in runbook and report, and none without windows."""
    runbook, report = (page(AUTUMN, name) for name in ("runbook.md", "report.html"))
    assert "| wave-01 | Sat 2026-10-24 | 22:00 | 01:30 GMT | 06:00 GMT | Europe/Dublin |" in runbook
    assert "| Sun 2026-10-25 07:00 (too late) | 06:00 |" in runbook
    assert re.findall(r"<td class=\"line\">(Sat 2026-10-24 22:00)</td>", report)
    ends = re.findall(r"<td class=\"line\">(?:<b[^>]*>)?(fits|may overrun|may never end)", report)
    assert ends == ["may never end", "may overrun"]
    assert "Calendar" not in page(synthetic(3), "runbook.md")
    assert '</th><td class="line">-</td>' in page(synthetic(3), "report.html")


@pytest.mark.parametrize(
    ("most", "detail"),
    [
        (40_000, "it may take 11 h 07 min, and its window has 8 h 00 min"),
        (NEVER_SECONDS, "it never ends at its rate, and its window has 8 h 00 min"),
    ],
)
def test_a_late_wave_is_a_finding_with_its_hours(most: int, detail: str) -> None:
    """Its own time and that of its window."""
    facts = {"wave": 3}
    words = in_words(Finding(FindingCode.WAVE_TOO_LONG, "during", amount=most, limit=8 * 3600, facts=facts))
    assert (words.subject, words.detail) == ("wave 3", detail)
