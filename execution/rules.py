"""The rules of ``approve --by-rules``: what they say about a plan. It reads no table and no clock."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from functools import partial
from typing import Any
from zoneinfo import ZoneInfo

from execution.planned import in_words
from optimizer.approval_setting import ApprovalRules, freeze_dates, freeze_hours
from optimizer.units import (
    SECONDS_PER_HOUR,
    human_bytes,
    human_count,
    human_hours,
    human_percent,
    listed,
)

_NO_END = 10**9  # seconds, 31 years: copies that take longer have no end that a calendar needs
DAYS = {"most_bytes_per_week": 7, "most_bytes_per_month": 30}
Period = tuple[datetime, datetime | None]  # begin and latest end of copies; None if they have no end


@dataclass(frozen=True)
class Facts:
    """What the rules are about.

    Parameters
    ----------
    decision : mapping
        ``decision.json`` of the plan.
    moved_before : mapping of int to float
        Bytes between brokers of the cluster in so many days, without this plan; of each period with a limit.
    now : datetime
    """

    decision: Mapping[str, Any]
    moved_before: Mapping[int, float]
    now: datetime

    def figure(self, name: str, side: str = "after") -> float | None:
        """A figure of the plan; None if it has no value."""
        value: float | None = self.decision["figures"].get(name, {}).get(side)
        return value


@dataclass(frozen=True)
class _Limit:
    """One limit: what the plan does, in words, with a place for the value; how the value is shown and found."""

    words: str
    show: Callable[[float], str]
    read: Callable[[Facts], float | None]


def _figure(name: str, facts: Facts) -> float | None:
    return facts.figure(name)


def _of_decision(name: str, facts: Facts) -> float | None:
    value: float | None = facts.decision[name]
    return value


def _hours(facts: Facts) -> float:
    return float(facts.decision["copying"]["seconds"][1]) / SECONDS_PER_HOUR


def _added(name: str, facts: Facts) -> float | None:
    before, worst = facts.figure(name, "before"), facts.figure(name, "worst_moment")
    return None if before is None or worst is None else worst - before


def _groups(facts: Facts) -> float | None:
    counts = facts.decision.get("consumer_groups")
    return counts["noticing"] if counts else None


def _with_earlier(days: int, facts: Facts) -> float | None:
    moved = facts.figure("moved_bytes")
    return None if moved is None else facts.moved_before[days] + moved


def _stopped(figure: str, by: str) -> _Limit:
    words = f"stops {{}} more partitions {by} at its worst moment than before"
    return _Limit(words, human_count, partial(_added, figure))


_LIMITS = {
    "most_moved_bytes": _Limit("moves {}", human_bytes, partial(_figure, "moved_bytes")),
    "most_inside_bytes": _Limit("moves {} inside brokers", human_bytes, partial(_of_decision, "inside_bytes")),
    "most_moved_share_percent": _Limit("moves {} of all bytes", human_percent, partial(_figure, "moved_share_percent")),
    "most_hours": _Limit("copies for up to {}", human_hours, _hours),
    "most_leader_changes": _Limit("changes {} preferred leaders", human_count, partial(_figure, "leader_changes")),
    "most_cross_rack_bytes": _Limit("moves {} between racks", human_bytes, partial(_figure, "cross_rack_bytes")),
    "most_gap_percent": _Limit("moves {} more than the proven minimum", human_percent, partial(_figure, "gap_percent")),
    "most_added_stopped_without_loss": _stopped("stopped_without_loss", "without a failure"),
    "most_added_stopped_by_some_broker": _stopped("stopped_by_some_broker", "by some broker's failure"),
    "most_added_stopped_by_worst_broker": _stopped("stopped_by_worst_broker", "by the worst broker's failure"),
    "most_added_stopped_by_some_rack": _stopped("stopped_by_some_rack", "by some rack's failure"),
    "most_added_stopped_by_worst_rack": _stopped("stopped_by_worst_rack", "by the worst rack's failure"),
    "most_peak_disk_percent": _Limit(
        "fills the fullest disk to {}", human_percent, partial(_of_decision, "peak_disk_percent")
    ),
    "most_groups_noticing": _Limit("is noticed by {} consumer groups", human_count, _groups),
    **{
        name: _Limit(f"with it the cluster moves {{}} in {days} days", human_bytes, partial(_with_earlier, days))
        for name, days in DAYS.items()
    },
}


def figures(rules: ApprovalRules, facts: Facts) -> dict[str, float | None]:
    """The value of each limit that is set, by the name of the limit."""
    return {name: _LIMITS[name].read(facts) for name in rules.limits()}


def objections(rules: ApprovalRules, facts: Facts) -> list[str]:
    """Why the rules do not approve the plan, a line for each rule; empty if they approve it."""
    values = figures(rules, facts)
    exceeded = (
        _compared(name, values[name], limit)
        for name, limit in rules.limits().items()
        if not _is_within(values[name], limit)
    )
    return [*_goals(facts), *_requests(rules, facts), *_notes(rules, facts), *exceeded, *_freezes(rules, facts)]


def _is_within(value: float | None, limit: float) -> bool:
    return value is not None and value <= limit


def _compared(name: str, value: float | None, limit: float) -> str:
    known = _LIMITS.get(name)
    if known is None:  # the rule of a later release
        return f"{name} = {value}, the limit is {limit}"
    if value is None:
        return f"the figure of {name} is unknown, the limit is {known.show(limit)}"
    show = known.show if known.show(value) != known.show(limit) or value <= limit else repr
    return f"{known.words.format(show(value))}, the limit is {show(limit)}"


def _goals(facts: Facts) -> Iterator[str]:
    missed = [goal["name"] for goal in facts.decision["goals"] if not goal["is_reached"]]
    yield from (f"not reached: {name}" for name in missed)
    verdict = facts.decision["verdict"]
    if verdict["state"] == "red" and not missed:
        yield f"its state is red: {verdict['headline']}"


def _requests(rules: ApprovalRules, facts: Facts) -> Iterator[str]:
    may = rules.may or ()
    if others := [name for name in facts.decision["requests"] if name not in may]:
        yield f"the policy requests {listed(others)}, the rules may approve {listed(may)}"


def _notes(rules: ApprovalRules, facts: Facts) -> Iterator[str]:
    shown = {note["code"]: f": {note['subject']} {note['text']}" for note in facts.decision["notes"]}
    for code in dict.fromkeys(facts.decision["note_codes"]):
        if code not in (rules.allow_notes or ()):
            yield f"note {code}{shown.get(code, '')}"


def _freezes(rules: ApprovalRules, facts: Facts) -> Iterator[str]:
    if found := next(filter(None, (frozen(rules, *period) for period in _periods(facts))), None):
        yield found


def _periods(facts: Facts) -> Iterator[Period]:
    """When the plan copies: in the nights of its calendar, or else from now on.

    Waves whose begin is past take as long as planned, one after the other from now on.
    """
    calendar, free = facts.decision.get("calendar"), facts.now
    if not calendar:
        yield period_of(free, facts.decision["copying"]["seconds"][1])
    for first, last in calendar or ():
        begin, end = _moment(first), _moment(last) if last else None
        if begin < facts.now:
            begin, end = free, end and free + (end - begin)
            free = end or free
        yield begin, end


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


def period_of(begin: datetime, seconds: float) -> Period:
    """The period of copies that begin at a time and take at most so many seconds."""
    return begin, begin + timedelta(seconds=seconds) if seconds < _NO_END else None


def frozen(rules: ApprovalRules, begin: datetime, end: datetime | None) -> str | None:
    """Why nothing may be copied in this period, in words; None if no freeze touches it."""
    if not rules.freeze:
        return None
    if end is None:
        return f"its copies have no predicted end, and the freeze {rules.freeze[0]} needs one"
    zone = ZoneInfo(rules.time_zone or "UTC")
    for text in rules.freeze:
        if any(_touches(span, begin, end) for span in _spans(text, zone, begin, end)):
            return f"it may copy from {in_words(begin)} to {in_words(end)}, in the freeze {text} ({zone.key})"
    return None


def _touches(span: tuple[datetime, datetime], begin: datetime, end: datetime) -> bool:
    first, last = span
    return max(first, begin) < min(last, end) or first <= begin < last


def _spans(text: str, zone: ZoneInfo, begin: datetime, end: datetime) -> Iterator[tuple[datetime, datetime]]:
    """Begin and end of a freeze in UTC: one span of days, or the hours of the days around the period."""
    day = timedelta(days=1)
    if dates := freeze_dates(text):
        first, last = (datetime(d.year, d.month, d.day, tzinfo=zone) for d in dates)
        yield first.astimezone(UTC), (last + day).astimezone(UTC)
    elif hours := freeze_hours(text):
        first_day, last_day = begin.astimezone(zone).date() - day, end.astimezone(zone).date()
        for number in range(min((last_day - first_day).days, 2) + 1):  # a longer period has the hours of a whole day
            begin_day = first_day + number * day
            end_day = begin_day + day if hours[1] <= hours[0] else begin_day
            yield min(_in_utc(begin_day, hours[0], zone)), max(_in_utc(end_day, hours[1], zone))


def _in_utc(day: date, hour: time, zone: ZoneInfo) -> list[datetime]:
    """Both readings of a time of the clock: they differ in the hour that a change of the clock repeats or skips."""
    return [datetime.combine(day, hour.replace(fold=fold), zone).astimezone(UTC) for fold in (0, 1)]


def to_json(rules: ApprovalRules, facts: Facts) -> str:
    """The rules and the figures of their limits, for column ``rules`` of table ``approvals``."""
    return json.dumps({"rules": rules.given(), "figures": figures(rules, facts)})


def frozen_by(approvals: Sequence[Mapping[str, Any]], period: Period) -> str | None:
    """Why no approval by rules lets a wave copy in this period; None if one does."""
    found = None
    for row in approvals:
        content = json.loads(row["rules"])["rules"]
        freeze = ApprovalRules(freeze=tuple(content.get("freeze", ())) or None, time_zone=content.get("time_zone"))
        found = frozen(freeze, *period)
        if found is None:
            return None
    return found


def describe(text: str) -> Iterator[str]:
    """Column ``rules`` as lines: each limit with its figure, then the other rules."""
    content = json.loads(text)
    for name, rule in content["rules"].items():
        if name in content["figures"]:
            yield _compared(name, content["figures"][name], rule)
        else:
            yield f"{name} = {', '.join(rule) if isinstance(rule, Sequence) and not isinstance(rule, str) else rule}"
