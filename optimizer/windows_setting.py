"""The windows of a schedule: the days, times and time zone in which waves may run."""

import re
from dataclasses import dataclass, field
from datetime import date, time
from functools import cache, partial
from zoneinfo import available_timezones

from optimizer.setting_checks import Problems, refuse
from optimizer.similar import did_you_mean

DAY_SECONDS = 24 * 3600  # of a day on which the clock is not set
DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
# MB (10^6 bytes) per second: a rate of copies outside this range is a mistake in the unit.
LEAST_MB_PER_S, MOST_MB_PER_S = 0.001, 10**6
# Years of a first night: every date of a calendar that starts in them is one that Python can hold (years 1 to 9999).
FIRST_NIGHT_YEARS = range(2000, 3000)
# Names that Python lists and that are no place: the zone of this machine, and the one of a machine that is not set up.
_NO_ZONES = frozenset(("localtime", "Factory"))
# Names that Python lists and Java 17 may not know, each with a name for the same time: Java leaves out the first, and
# the second is newer than some of its releases. Spark needs them for the times of samples.
_UNKNOWN_TO_JAVA = {"ROC": "Asia/Taipei", "America/Coyhaique": "America/Punta_Arenas"}


@cache
def _time_zones() -> frozenset[str]:
    """Names of the IANA database; reading them takes some 30 ms."""
    return frozenset(available_timezones() - _NO_ZONES - _UNKNOWN_TO_JAVA.keys())


def _seconds(text: str) -> int:
    moment = time.fromisoformat(text)
    return moment.hour * 3600 + moment.minute * 60


@dataclass(frozen=True, kw_only=True)
class Window:
    """Times in which waves may run, every week.

    Parameters
    ----------
    days : tuple of str
        Days on which the window starts, of ``DAYS``.
    start, end : str
        Local times, "HH:MM". An end at or before the start is on the next day.
    time_zone : str
        IANA name.
    throttle_mb_per_s : float
        Copy rate per broker and direction, 10^6 bytes per second; 0: that of the schedule.
    """

    section = "[[schedule.windows]]"

    days: tuple[str, ...] = field(default=(), metadata={"example": '"fri"'})
    start: str = field(metadata={"example": '"22:00"'})
    end: str = field(metadata={"example": '"06:00"'})
    time_zone: str = field(metadata={"example": '"Europe/Dublin"'})
    throttle_mb_per_s: float = 0.0

    @property
    def usual_seconds(self) -> int:
        """The length by the clock; a night in which the clock is set has another one."""
        return (_seconds(self.end) - self.start_seconds) % DAY_SECONDS or DAY_SECONDS

    @property
    def start_seconds(self) -> int:
        """The start, in seconds after midnight."""
        return _seconds(self.start)

    def __post_init__(self) -> None:
        problems = Problems()
        check_zone = partial(check_time_zone, f"{self.section} time_zone", self.time_zone)
        for check in (self._check_days, self._check_times, check_zone, self._check_rate):
            problems.collect(check)
        problems.raise_any()

    def _check_days(self) -> None:
        unknown = [day for day in self.days if day not in DAYS]
        if unknown:
            refuse(f"{self.section} days", unknown, f"use {', '.join(DAYS)}")
        if not self.days or len(set(self.days)) < len(self.days):
            remedy = 'name at least one day on which the window starts, each once, such as ["fri", "sat"]'
            refuse(f"{self.section} days", list(self.days), remedy)

    def _check_times(self) -> None:
        problems = Problems()
        for name in ("start", "end"):
            problems.collect(partial(self._check_time, name))
        problems.raise_any()

    def _check_time(self, name: str) -> None:
        text = getattr(self, name)
        if not re.fullmatch(r"([01][0-9]|2[0-3]):[0-5][0-9]", text):
            refuse(f"{self.section} {name}", text, "give a time from 00:00 to 23:59, two digits each, such as 06:00")

    def _check_rate(self) -> None:
        rate = self.throttle_mb_per_s
        if rate != 0 and not LEAST_MB_PER_S <= rate <= MOST_MB_PER_S:
            remedy = f"give a number from {LEAST_MB_PER_S:g} to {MOST_MB_PER_S:g}, or 0 for that of [schedule]"
            refuse(f"{self.section} throttle_mb_per_s", rate, remedy)


def check_time_zone(name: str, time_zone: str) -> None:
    """Refuse a time zone that Python or Spark does not know."""
    if time_zone in _UNKNOWN_TO_JAVA:
        remedy = f"Spark may not know this name: give {_UNKNOWN_TO_JAVA[time_zone]}, which has the same time"
        refuse(name, time_zone, remedy)
    if time_zone not in _time_zones():
        suggestion = did_you_mean(time_zone, _time_zones())
        remedy = f"no time zone has this name{suggestion}: give one of the IANA database, such as Europe/Dublin"
        refuse(name, time_zone, remedy)


def check_first_night(text: str) -> None:
    """Refuse a text that is not a date of ``FIRST_NIGHT_YEARS``."""
    try:
        is_date = bool(re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", text)) and (
            date.fromisoformat(text).year in FIRST_NIGHT_YEARS
        )
    except ValueError:
        is_date = False
    if not is_date:
        years = f"{FIRST_NIGHT_YEARS[0]} to {FIRST_NIGHT_YEARS[-1]}"
        refuse("[schedule] first_night", text, f"give a date of the years {years}, such as 2026-11-27")
