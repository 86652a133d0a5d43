"""The calendar of a plan: the night of each wave, in the time zone of its window."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from optimizer.emit.cluster_plan import ClusterPlan, wave_folder
from optimizer.units import plural

_DAY, _TIME = "%a %Y-%m-%d", "%H:%M"


@dataclass(frozen=True)
class CalendarLine:
    """One wave: its name, the day and time of its start, the times of its end at the latest and of the night's end.

    ``is_late`` says that it may not end in its night. Then ``ends_by`` has the day too, or says that the end is open.
    """

    wave: str
    day: str
    starts: str
    ends_by: str
    night_ends: str
    time_zone: str
    is_late: bool


def calendar(plan: ClusterPlan) -> list[CalendarLine]:
    """A line for each wave; none without windows."""
    return list(_lines(plan))


def _lines(plan: ClusterPlan) -> Iterator[CalendarLine]:
    for row in plan.waves:
        if row.starts_at is None or row.night_ends_at is None or row.time_zone is None:
            continue
        start, night_end = (_local(seconds, row.time_zone) for seconds in (row.starts_at, row.night_ends_at))
        end = None if row.ends_at is None else _local(row.ends_at, row.time_zone)
        is_late = row.ends_at is None or row.ends_at > row.night_ends_at
        yield CalendarLine(
            wave_folder(row.wave, len(plan.waves)),
            start.strftime(_DAY),
            start.strftime(_TIME),
            "open" if end is None else end.strftime(f"{_DAY} {_time(start, end)}" if is_late else _time(start, end)),
            night_end.strftime(_time(start, night_end)),
            row.time_zone,
            is_late,
        )


def _time(start: datetime, moment: datetime) -> str:
    """The format of a time; with its zone if the clock is set between the start and it."""
    return _TIME if start.utcoffset() == moment.utcoffset() else f"{_TIME} %Z"


def _local(seconds: int, time_zone: str) -> datetime:
    return datetime.fromtimestamp(seconds, UTC).astimezone(ZoneInfo(time_zone))


def night_count(plan: ClusterPlan) -> int:
    """In how many nights waves start; 0 without windows."""
    return len({(row.night_ends_at, row.time_zone) for row in plan.waves if row.night_ends_at is not None})


def nights_in_words(plan: ClusterPlan) -> str:
    """How many nights, and from when to when; empty without windows."""
    lines = calendar(plan)
    if not lines:
        return ""
    first, last = lines[0].day, lines[-1].day
    when = f"from {first} to {last}" if first != last else f"on {first}"
    late = sum(line.is_late for line in lines)
    overrun = f"; {plural(late, 'wave')} may overrun the window" if late else ""
    return f"{plural(night_count(plan), 'night')} {when}{overrun}"
