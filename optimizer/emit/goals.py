"""What was asked, whether the plan reaches it, and what it was made from: the head of every page."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

from optimizer.cluster_policy import DEMOTE, DRAIN, LEADERS, RACKS
from optimizer.domain import NOT_LIVE, FindingCode
from optimizer.emit.cluster_plan import ClusterPlan
from optimizer.emit.rows import LoadRow
from optimizer.kafka.versions import tools_needed, unknown_release
from optimizer.topic_policy import is_excluded
from optimizer.units import agree, clause, human_rate, plural

REACHED, NOT_REACHED = "reached", "NOT reached"
_NAMED = 10  # brokers or topics in a line
_SOURCES = 12  # files in a line: all of a usual folder
_ONLY = {
    DRAIN: "only brokers are emptied",
    RACKS: "only racks are mended",
    LEADERS: "only leaders are balanced",
    DEMOTE: "only brokers are demoted",
}
# What findings of a wish are about, one each: a thing, and what becomes of one or of more.
_MISSED = {
    FindingCode.NOT_PINNED: ("replica", "stays outside its pin", "stay outside their pins"),
    FindingCode.PIN: ("topic", "has too few brokers in its pin", "have too few brokers in their pins"),
    FindingCode.PIN_UNUSED: ("pin", "matches no topic", "match no topic"),
    FindingCode.REPLICATION_FACTOR: ("topic", "can't have it", "can't have it"),
    FindingCode.NOT_RESIZED: ("partition", "keeps what it has", "keep what they have"),
    FindingCode.FACTOR_UNUSED: ("pattern", "matches no topic", "match no topic"),
}


@dataclass(frozen=True)
class Goal:
    """One thing that was asked for, and what becomes of it."""

    name: str
    is_reached: bool
    detail: str

    @property
    def state(self) -> str:
        """REACHED or NOT_REACHED, as pages print it."""
        return REACHED if self.is_reached else NOT_REACHED


def goals(plan: ClusterPlan) -> list[Goal]:
    """What was asked for, in the order in which it matters."""
    only = plan.asked.only
    made = {
        DRAIN: _drain(plan),
        RACKS: _racks(plan),
        DEMOTE: _demote(plan),
        "pins": _pins(plan),
        "factors": _factors(plan),
        "balance": _balance(plan),
        LEADERS: _leaders(plan),
    }
    wanted = made.values() if not only else [made[only]]
    return [*(goal for one in wanted for goal in one), *_limits(plan)]


def verdict(plan: ClusterPlan) -> str:
    """Whether all that was asked for is reached, in one sentence."""
    missed = [goal.name for goal in goals(plan) if not goal.is_reached]
    restricted = f" ({_ONLY[plan.asked.only]})" if plan.asked.only else ""
    if missed:
        return f"NOT reached{restricted}: {'; '.join(missed)}."
    return f"All that was asked is reached{restricted}."


def _named(names: Sequence[object]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(map(str, names[:_NAMED])) + more


def _on(plan: ClusterPlan, brokers: Sequence[int], held: Callable[[LoadRow], int], placement: str) -> dict[int, int]:
    """Replicas or leaders on some brokers, where there are any, ascending."""
    counts = {row.broker_id: held(row) for row in plan.balance if row.placement == placement}
    return {broker: counts[broker] for broker in sorted(brokers) if counts.get(broker)}


def _replicas(row: LoadRow) -> int:
    return row.replicas


def _led(row: LoadRow) -> int:
    return row.leaders


def _drain(plan: ClusterPlan) -> Iterator[Goal]:
    away = {row.broker_id: row.state for row in plan.brokers if row.state in NOT_LIVE}
    leaving = sorted(row.broker_id for row in plan.brokers if row.must_empty)
    if not leaving:
        if plan.asked.only == DRAIN:
            yield Goal("empty brokers", True, "no broker is dead or to be emptied")
        return
    before, after = (_on(plan, leaving, _replicas, side) for side in ("before", "after"))
    names = [f"{broker} ({away[broker]})" if broker in away else broker for broker in leaving]
    name = f"empty {agree(len(leaving), 'broker', 'brokers')} {_named(names)}"
    held = sum(before.values())
    if after:
        where = _named([f"{count:,} on {broker}" for broker, count in after.items()]) if len(leaving) > 1 else ""
        left = sum(after.values())
        stay = f"{left:,} of {plural(held, 'replica')} {agree(left, 'stays', 'stay')}"
        yield Goal(name, False, f"{stay}: {where}" if where else stay)
    else:
        yield Goal(name, True, clause(held, "replica", "leaves", "leave"))


def _racks(plan: ClusterPlan) -> Iterator[Goal]:
    if not any(row.rack for row in plan.brokers):
        if plan.asked.only == RACKS:
            yield Goal("racks", False, "no broker has a known rack")
        return
    before, after = (int(plan.number("rack_violations", side)) for side in ("before", "after"))
    left = _racks_left(plan)
    if after:
        broken = f"{clause(after, 'partition', 'breaks', 'break')} the rack rule"
        yield Goal("racks", False, f"{broken}, {before:,} before{left}")
    else:
        mended = f"{clause(before, 'partition', 'is', 'are')} mended"
        yield Goal("racks", True, f"{mended if before else 'no partition broke the rack rule'}{left}")


def _racks_left(plan: ClusterPlan) -> str:
    """How many racks are left, where the plan empties one; else empty."""
    if all(row.code != FindingCode.RACK_EMPTIED for row in plan.findings):
        return ""
    racks = {row.rack for row in plan.brokers if row.rack}
    left = {row.rack for row in plan.brokers if row.rack and row.accepts_replicas}
    return f"; {len(left)} of {plural(len(racks), 'rack')} {agree(len(left), 'is', 'are')} left"


def _demote(plan: ClusterPlan) -> Iterator[Goal]:
    if not plan.asked.demote:
        return
    before, after = (_on(plan, plan.asked.demote, _led, side) for side in ("before", "after"))
    led, left = sum(before.values()), sum(after.values())
    name = f"demote {agree(len(plan.asked.demote), 'broker', 'brokers')} {_named(plan.asked.demote)}"
    if left:
        yield Goal(name, False, f"{left:,} of {plural(led, 'preferred leader')} {agree(left, 'stays', 'stay')}")
    else:
        yield Goal(name, True, f"{clause(led, 'preferred leader', 'moves', 'move')} to other brokers")


def _pins(plan: ClusterPlan) -> Iterator[Goal]:
    if plan.asked.pins:
        missed = _missed(plan, FindingCode.NOT_PINNED, FindingCode.PIN, FindingCode.PIN_UNUSED)
        yield Goal(f"pins {_named(plan.asked.pins)}", not missed, missed or "every replica is inside its pin")


def _factors(plan: ClusterPlan) -> Iterator[Goal]:
    if plan.asked.factors:
        codes = (FindingCode.REPLICATION_FACTOR, FindingCode.NOT_RESIZED, FindingCode.FACTOR_UNUSED)
        missed, changes = _missed(plan, *codes), int(plan.number("factor_changes"))
        changed = f"{clause(changes, 'partition', 'gets', 'get')} the factor asked for"
        detail = ", ".join(filter(None, [changed, missed]))
        yield Goal(f"replication factors {_named(plan.asked.factors)}", not missed, detail)


def _missed(plan: ClusterPlan, *codes: FindingCode) -> str:
    """What findings of these codes are about, counted; empty where there are none."""
    counts = Counter(row.code for row in plan.findings)
    return ", ".join(clause(counts[code], *_MISSED[code]) for code in codes if counts[code])


def _balance(plan: ClusterPlan) -> Iterator[Goal]:
    before, after = (int(plan.number("brokers_outside_bands", side)) for side in ("before", "after"))
    what = f"{plural(after, 'broker')} outside {agree(after, 'its', 'their')}" if after else "no broker outside its"
    yield Goal("balance", not after, f"{what} bands (replicas, disk, bytes in), {before:,} before")


def _leaders(plan: ClusterPlan) -> Iterator[Goal]:
    led, out = plan.number("leaders_outside"), plan.number("out_outside_bytes_per_s")
    parts = [plural(int(led), "leader") if led else "", f"{human_rate(out)} of bytes out" if out else ""]
    outside = " and ".join(filter(None, parts))
    lie = "lie" if out else agree(int(led), "lies", "lie")
    detail = f"{outside} {lie} outside the bands" if outside else "no broker outside its bands (leaders, bytes out)"
    yield Goal("leaders", not outside, detail)


def _limits(plan: ClusterPlan) -> Iterator[Goal]:
    for limit in plan.asked.limits:
        yield Goal(f"at most {limit} copied", True, "the plan is cut" if plan.cut else "the plan is within it")


def origin(plan: ClusterPlan) -> str:
    """When the cluster was read, its release, and from what, in one sentence."""
    times = plan.capture_times
    ends = [f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M}" for at in (min(times), max(times))] if times else []
    when = " to ".join(dict.fromkeys(ends)) + " UTC" if times else "unknown time"
    given = plan.asked.kafka_version
    version = " ".join(filter(None, ("Kafka", given, unknown_release(given)))) if given else "Kafka version unknown"
    version = "; ".join(filter(None, (version, tools_needed(given))))
    names = [f"{row.source} {row.records:,}" for row in plan.sources]
    more = f" and {len(names) - _SOURCES} more" if len(names) > _SOURCES else ""
    place = f" from {plan.asked.place}" if plan.asked.place else ""
    read = f"{plural(len(names), 'source')} read{place} (records of each): {', '.join(names[:_SOURCES])}{more}"
    return f"Snapshot of {when}; {version}; {read if names else 'sources unknown'}."


def kept_out(plan: ClusterPlan) -> str:
    """What was to be left alone, and what of it the plan moves all the same; empty where nothing was."""
    asked = plan.asked
    if not asked.kept_out:
        return ""
    copied = Counter(row.topic for row in plan.changed if {*row.proposed_replicas} != {*row.current_replicas})
    kept = partial(is_excluded, topics=asked.topics, exclude_topics=asked.exclude_topics)
    moved = sum(count for topic, count in copied.items() if kept(topic))
    codes = (FindingCode.TOPICS_UNUSED, FindingCode.EXCLUDE_UNUSED)
    unused = [row.subject for row in plan.findings if row.code in codes]
    parts = [
        f"Left alone as asked: {'; '.join(asked.kept_out)}.",
        f"{clause(moved, 'partition', 'of these topics moves', 'of these topics move')} all the same, because "
        "replicas must leave their brokers."
        if moved
        else "",
        f"{agree(len(unused), 'This pattern matches', 'These patterns match')} no topic: {_named(unused)}."
        if unused
        else "",
    ]
    return " ".join(filter(None, parts))
