"""When the disks are too small, if every partition grows at a monthly rate: with this plan alone, and with plans."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from asking.answer import Answer, answer
from asking.fitting import Shortage, shortage
from asking.question import Question, instance_for
from asking.run_facts import RunFacts
from optimizer.errors import ConfigError
from optimizer.planning.in_memory import records
from optimizer.planning.plan_figures import AFTER

MOST_MONTHS = 120  # ten years: nobody plans disks for longer


@dataclass(frozen=True)
class Growth:
    """How long the disks last.

    Parameters
    ----------
    percent : float
        Growth in a month.
    months : int
        The last month that was looked at.
    first : tuple or None
        Months until the first broker or directory passes its limit with this plan alone, and which; None: not in time.
    short : tuple or None
        Months until no plan fits, and why; None: not in time.
    answers : sequence of Answer
        The plan now, and that of the last month in which the disks are large enough.
    """

    captured_at: datetime
    percent: float
    months: int
    first: tuple[int, str] | None
    short: tuple[int, Shortage] | None
    answers: Sequence[Answer]

    def words(self) -> str:
        """One sentence."""
        if self.short and not self.short[0]:
            return f"Before any growth it {self.short[1].words()}."
        last = self.short[0] - 1 if self.short else self.months
        alone = f"{self.first[1]} passes its limit in {self._month(self.first[0])}" if self.first else "no disk is full"
        until = "" if self.first else f" until {self._month(last)}"
        then = f", then {self.short[1].words().removeprefix('does not fit: ')}" if self.short else ""
        more = f"with more plans the disks suffice until {self._month(last)}{then}"
        return f"At {self.percent:g} % a month {alone} with this plan alone{until}; {more}."

    def _month(self, months: int) -> str:
        return month_after(self.captured_at, months)


def month_after(moment: datetime, months: int) -> str:
    """The month so many months later, as 2027-05."""
    total = moment.year * 12 + moment.month - 1 + months
    return f"{total // 12}-{total % 12 + 1:02d}"


def grow(facts: RunFacts, base: Question, *, percent: float, until: str = "") -> Growth:
    """Look month by month at the sums of what must be held; only the first and the last fitting plan are solved.

    Parameters
    ----------
    base : Question
        Other requests, another cluster.
    percent : float
        Growth of sizes and rates in a month.
    until : str
        The last month to look at, as 2027-12; without it five years.

    Raises
    ------
    ConfigError
        When a capacity is unknown, or ``until`` is not after the snapshot.
    """
    captured_at = facts.captured_at or datetime.now(tz=UTC)
    months = _months(captured_at, until)
    now = answer(facts, base)
    limits = _limits(facts, base, now)
    first, short = None, None
    for month in range(months + 1):
        full = [name for name, (held, limit) in limits.items() if held * _factor(month, percent) > limit]
        first = first or ((month, full[0]) if full else None)
        settings, instance, hosts = instance_for(facts, _grown(base, month, percent))
        if missing := shortage(instance, hosts, headroom=settings.policy.disk_headroom):
            short = (month, missing)
            break
    last = (short[0] - 1) if short else months
    answers = [now, *([answer(facts, _grown(base, last, percent))] if last > 0 else [])]
    return Growth(captured_at, percent, months, first, short, answers)


def _months(captured_at: datetime, until: str) -> int:
    if not until:
        return 60
    year, _, month = until.partition("-")
    months = (int(year) - captured_at.year) * 12 + int(month) - captured_at.month
    if not 0 < months <= MOST_MONTHS:
        first, last = month_after(captured_at, 1), month_after(captured_at, MOST_MONTHS)
        raise ConfigError(
            f"--until {until}: the snapshot is of {captured_at:%Y-%m}; give a month from {first} to {last}"
        )
    return months


def _factor(months: int, percent: float) -> float:
    return (1 + percent / 100) ** months


def _grown(base: Question, months: int, percent: float) -> Question:
    factor = _factor(months, percent)
    sizes, rates = base.size_factor * factor, base.rate_factor * factor
    return replace(base, name=f"month {months}", size_factor=sizes, rate_factor=rates)


def _limits(facts: RunFacts, base: Question, now: Answer) -> dict[str, tuple[float, float]]:
    """What each broker and each of its log directories holds after the plan, and may hold; the fullest first.

    A directory keeps its share of the bytes of its broker.
    """
    if now.plan is None:
        return {}
    settings, _, hosts = instance_for(facts, base)
    measured = now.plan.tables["measured"]
    rows = measured[measured["placement"] == AFTER].merge(
        hosts[["broker_id", "disk_capacity_bytes", "log_dirs"]], on="broker_id"
    )
    if rows["disk_capacity_bytes"].isna().any():
        raise ConfigError("--grow needs the disk capacity of every broker: see docs/formats.md")
    share = 1 - settings.policy.disk_headroom
    pairs = {}
    for row in records(rows):
        held = float(row["disk_bytes"])
        pairs[f"broker {row['broker_id']}"] = (held, row["disk_capacity_bytes"] * share)
        dirs = row["log_dirs"] or []
        used = sum(each["used_bytes"] for each in dirs)
        for each in dirs if len(dirs) > 1 and used else []:
            if each["capacity_bytes"]:
                part = held * each["used_bytes"] / used
                name = f"directory {each['path']} of broker {row['broker_id']}"
                pairs[name] = (part, each["capacity_bytes"] * share)
    return dict(sorted(pairs.items(), key=lambda item: -item[1][0] / max(item[1][1], 1.0)))
