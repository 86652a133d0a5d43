"""The head of every page: what the policy requests, whether the plan reaches it, and what was read."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from itertools import chain

from optimizer.approval_setting import BALANCE, FACTORS, PINS
from optimizer.cluster_policy import DEMOTE, DIRS, DRAIN, LEADERS, RACKS
from optimizer.domain import NOT_LIVE, FindingCode
from optimizer.emit.cluster_plan import ClusterPlan
from optimizer.emit.rows import FindingRow, LoadRow
from optimizer.kafka.versions import tools_needed, unknown_release
from optimizer.topic_policy import is_excluded
from optimizer.units import agree, clause, first_of, human_moment, human_rate, listed, plural

REACHED, NOT_REACHED = "reached", "NOT reached"
_NAMED = 10  # brokers or topics in a line
_SOURCES = 12  # files in a line: enough for most folders
_ONLY = {
    DRAIN: "only brokers are emptied",
    RACKS: "only racks are repaired",
    LEADERS: "only leaders are balanced",
    DEMOTE: "only brokers are demoted",
    DIRS: "only log directories are balanced",
}
# Words that count the findings of a request: noun, verb for one, verb for several.
_MISSED = {
    FindingCode.NOT_PINNED: ("replica", "stays outside its pin", "stay outside their pins"),
    FindingCode.PIN: ("topic", "has too few brokers in its pin", "have too few brokers in their pins"),
    FindingCode.PIN_UNUSED: ("pin", "matches no topic", "match no topic"),
    FindingCode.REPLICATION_FACTOR: ("topic", "can't have it", "can't have it"),
    FindingCode.NOT_RESIZED: ("partition", "keeps its factor", "keep their factor"),
    FindingCode.FACTOR_UNUSED: ("pattern", "matches no topic", "match no topic"),
    FindingCode.DIRS_NOT_BALANCED: ("broker", "is not balanced inside", "are not balanced inside"),
}


@dataclass(frozen=True)
class Goal:
    """One request of the policy and its result."""

    name: str
    is_reached: bool
    detail: str

    @property
    def state(self) -> str:
        """REACHED or NOT_REACHED, as pages print it."""
        return REACHED if self.is_reached else NOT_REACHED


def goals(plan: ClusterPlan) -> list[Goal]:
    """The requests of the policy, the most important first."""
    return [*chain.from_iterable(_goals_by_request(plan).values()), *_limits(plan)]


def requests(plan: ClusterPlan) -> tuple[str, ...]:
    """What the policy requests, of ``REQUESTS``: leaders and log directories belong to the balance."""
    part_of = {LEADERS: BALANCE, DIRS: BALANCE}
    return tuple(dict.fromkeys(part_of.get(name, name) for name, found in _goals_by_request(plan).items() if found))


def _goals_by_request(plan: ClusterPlan) -> dict[str, list[Goal]]:
    goals_by_request = {
        DRAIN: _drain(plan),
        RACKS: _racks(plan),
        DEMOTE: _demote(plan),
        PINS: _pins(plan),
        FACTORS: _factors(plan),
        BALANCE: _balance(plan),
        LEADERS: _leaders(plan),
        DIRS: _directories(plan),
    }
    only = plan.requested.only
    return {name: list(found) for name, found in goals_by_request.items() if only in ("", name)}


def missed_goals(plan: ClusterPlan) -> list[str]:
    """Names of the goals that are not reached."""
    return [goal.name for goal in goals(plan) if not goal.is_reached]


def verdict(plan: ClusterPlan) -> str:
    """What the plan does, and which goals it does not reach."""
    missed, effects = missed_goals(plan), ", ".join(_effects(plan))
    done = f"{effects[:1].upper()}{effects[1:]}"
    restricted = f" ({_ONLY[plan.requested.only]})" if plan.requested.only else ""
    if missed:
        return f"{f'{done}. ' if done else ''}NOT reached{restricted}: {'; '.join(missed)}."
    if waits := waiting(plan):
        return f"The cluster waits to start{restricted}: {waits[0].detail}."
    return f"{done or 'The plan reaches all goals'}{restricted}."


def _effects(plan: ClusterPlan) -> Iterator[str]:
    """What the plan changes for the better, in clauses."""
    before, after = (
        {row.broker_id: row.replicas for row in plan.balance if row.placement == side} for side in ("before", "after")
    )
    broken, outside = (
        [plan.number(name, side) for side in ("before", "after")]
        for name in ("rack_violations", "brokers_outside_bands")
    )
    emptied = sorted(b.broker_id for b in plan.brokers if b.must_empty and before.get(b.broker_id))
    if emptied and not any(after.get(broker) for broker in emptied):
        yield f"{_brokers(emptied)} will be empty"
    filled = sorted(broker for broker, replicas in after.items() if replicas and not before.get(broker))
    if filled:
        verb = agree(len(filled), "gets replicas", "get replicas")
        share = agree(len(filled), "takes its share", "take their share")
        yield f"{_brokers(filled)} {verb if outside[1] else share}"
    if broken[0] and not broken[1]:
        yield "no partition breaks the rack rule"
    if outside[0] and not outside[1]:
        yield "no broker is outside its bands"


def _brokers(brokers: Sequence[int]) -> str:
    """``broker 5``, ``brokers 5 and 7``, or the first of many."""
    names = first_of(brokers, _NAMED) if len(brokers) > _NAMED else listed([*map(str, brokers)])
    return f"{agree(len(brokers), 'broker', 'brokers')} {names}"


def _counts(
    plan: ClusterPlan, brokers: Sequence[int], count: Callable[[LoadRow], int], placement: str
) -> dict[int, int]:
    """Replicas or leaders by broker, ascending; without brokers that have none."""
    counts = {row.broker_id: count(row) for row in plan.balance if row.placement == placement}
    return {broker: counts[broker] for broker in sorted(brokers) if counts.get(broker)}


def _replicas(row: LoadRow) -> int:
    return row.replicas


def _leader_count(row: LoadRow) -> int:
    return row.leaders


def _drain(plan: ClusterPlan) -> Iterator[Goal]:
    states = {row.broker_id: row.state for row in plan.brokers if row.state in NOT_LIVE}
    leaving = sorted(row.broker_id for row in plan.brokers if row.must_empty)
    if not leaving:
        if plan.requested.only == DRAIN:
            yield Goal("empty brokers", True, "no broker is dead or to be emptied")
        return
    before, after = (_counts(plan, leaving, _replicas, side) for side in ("before", "after"))
    names = [f"{broker} ({states[broker]})" if broker in states else broker for broker in leaving]
    name = f"empty {agree(len(leaving), 'broker', 'brokers')} {first_of(names, _NAMED)}"
    replicas = sum(before.values())
    if after:
        where = (
            first_of((f"{count:,} on {broker}" for broker, count in after.items()), _NAMED) if len(leaving) > 1 else ""
        )
        staying = sum(after.values())
        detail = f"{staying:,} of {plural(replicas, 'replica')} {agree(staying, 'stays', 'stay')}"
        yield Goal(name, False, f"{detail}: {where}" if where else detail)
    else:
        yield Goal(name, True, clause(replicas, "replica", "leaves", "leave"))


def _racks(plan: ClusterPlan) -> Iterator[Goal]:
    if not plan.has_racks:
        if plan.requested.only == RACKS:
            yield Goal("racks", False, "no broker has a known rack")
        return
    before, after = (int(plan.number("rack_violations", side)) for side in ("before", "after"))
    remaining = _remaining_racks(plan)
    if after:
        broken = f"{clause(after, 'partition', 'breaks', 'break')} the rack rule"
        yield Goal("racks", False, f"{broken}, {before:,} before{remaining}")
    else:
        repaired = f"{clause(before, 'partition', 'is', 'are')} repaired"
        yield Goal("racks", True, f"{repaired if before else 'no partition broke the rack rule'}{remaining}")


def _remaining_racks(plan: ClusterPlan) -> str:
    """How many racks remain if the plan empties one; else empty."""
    if all(row.code != FindingCode.RACK_EMPTIED for row in plan.findings):
        return ""
    racks = {row.rack for row in plan.brokers if row.rack}
    remaining = {row.rack for row in plan.brokers if row.rack and row.accepts_replicas}
    return f"; {len(remaining)} of {plural(len(racks), 'rack')} {agree(len(remaining), 'remains', 'remain')}"


def _demote(plan: ClusterPlan) -> Iterator[Goal]:
    if not plan.requested.demote:
        return
    before, after = (_counts(plan, plan.requested.demote, _leader_count, side) for side in ("before", "after"))
    leaders, staying = sum(before.values()), sum(after.values())
    name = f"demote {agree(len(plan.requested.demote), 'broker', 'brokers')} {first_of(plan.requested.demote, _NAMED)}"
    if staying:
        yield Goal(
            name, False, f"{staying:,} of {plural(leaders, 'preferred leader')} {agree(staying, 'stays', 'stay')}"
        )
    else:
        yield Goal(name, True, f"{clause(leaders, 'preferred leader', 'moves', 'move')} to other brokers")


def _pins(plan: ClusterPlan) -> Iterator[Goal]:
    if plan.requested.pins:
        missed = _missed(plan, FindingCode.NOT_PINNED, FindingCode.PIN, FindingCode.PIN_UNUSED)
        yield Goal(
            f"pins {first_of(plan.requested.pins, _NAMED)}", not missed, missed or "every replica is inside its pin"
        )


def _factors(plan: ClusterPlan) -> Iterator[Goal]:
    if plan.requested.factors:
        codes = (FindingCode.REPLICATION_FACTOR, FindingCode.NOT_RESIZED, FindingCode.FACTOR_UNUSED)
        missed, changes = _missed(plan, *codes), int(plan.number("factor_changes"))
        changed = f"{clause(changes, 'partition', 'gets', 'get')} the requested factor"
        detail = ", ".join(filter(None, [changed, missed]))
        yield Goal(f"replication factors {first_of(plan.requested.factors, _NAMED)}", not missed, detail)


def _missed(plan: ClusterPlan, *codes: FindingCode) -> str:
    """The findings of these codes, counted; empty if there are none."""
    counts = Counter(row.code for row in plan.findings)
    return ", ".join(clause(counts[code], *_MISSED[code]) for code in codes if counts[code])


def _balance(plan: ClusterPlan) -> Iterator[Goal]:
    before, after = (int(plan.number("brokers_outside_bands", side)) for side in ("before", "after"))
    outside = f"{plural(after, 'broker')} outside {agree(after, 'its', 'their')}" if after else "no broker outside its"
    bands, wait = ("start bands", "; the cluster waits to start") if waiting(plan) else ("bands", "")
    yield Goal("balance", not after, f"{outside} {bands} (replicas, disk, bytes in), {before:,} before{wait}")


def waiting(plan: ClusterPlan) -> list[FindingRow]:
    """The finding of a cluster that waits to start."""
    return [row for row in plan.findings if row.code == FindingCode.WAITS_TO_START]


def _leaders(plan: ClusterPlan) -> Iterator[Goal]:
    leaders, out = plan.number("leaders_outside"), plan.number("out_outside_bytes_per_s")
    parts = [plural(int(leaders), "leader") if leaders else "", f"{human_rate(out)} of bytes out" if out else ""]
    outside = " and ".join(filter(None, parts))
    verb = "are" if out else agree(int(leaders), "is", "are")
    detail = f"{outside} {verb} outside the bands" if outside else "no broker outside its bands (leaders, bytes out)"
    yield Goal("leaders", not outside, detail)


def _directories(plan: ClusterPlan) -> Iterator[Goal]:
    """Nothing without ``balance_dirs``. Brokers whose directories cannot be balanced are only counted."""
    missed = _missed(plan, FindingCode.DIRS_NOT_BALANCED)
    if plan.figure("dirs_outside_bands") is None:
        if plan.requested.only == DIRS:
            yield Goal("directories", not missed, missed or "no broker has log directories to balance")
        return
    before, after = (int(plan.number("dirs_outside_bands", side)) for side in ("before", "after"))
    ends = agree(after, "log directory outside its band or limit", "log directories outside their bands or limits")
    detail = f"{f'{after:,} {ends}' if after else 'no log directory outside its band'}, {before:,} before"
    yield Goal("directories", not after, "; ".join(filter(None, (detail, missed))))


def _limits(plan: ClusterPlan) -> Iterator[Goal]:
    for limit in plan.requested.limits:
        yield Goal(
            f"at most {limit} copied",
            True,
            "the limit reduces the plan" if plan.limit_finding else "the plan is within the limit",
        )


def validity(plan: ClusterPlan) -> str:
    """Until when the plan can be approved and started."""
    return "never expires" if plan.valid_until is None else f"valid until {human_moment(plan.valid_until)}"


def origin(plan: ClusterPlan) -> str:
    """Capture time, validity, Kafka release and sources, in one sentence."""
    times = plan.capture_times
    ends = [f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M}" for at in (min(times), max(times))] if times else []
    when = " to ".join(dict.fromkeys(ends)) + " UTC" if times else "unknown time"
    release = plan.requested.kafka_version
    version = (
        " ".join(filter(None, ("Kafka", release, unknown_release(release)))) if release else "Kafka version unknown"
    )
    version = "; ".join(filter(None, (version, tools_needed(release))))
    names = [f"{row.source} {row.records:,}" for row in plan.sources]
    origin_name = f" from {plan.requested.source}" if plan.requested.source else ""
    read = f"{plural(len(names), 'source')} read{origin_name} (records of each): {first_of(names, _SOURCES)}"
    return f"Snapshot of {when}, {validity(plan)}; {version}; {read if names else 'sources unknown'}."


def exclusions(plan: ClusterPlan) -> str:
    """What the policy excludes, and what the plan still moves of it; empty if the policy excludes nothing."""
    requested = plan.requested
    if not requested.exclusions:
        return ""
    copied = Counter(row.topic for row in plan.changed if {*row.proposed_replicas} != {*row.current_replicas})
    excluded = partial(is_excluded, topics=requested.topics, exclude_topics=requested.exclude_topics)
    moved = sum(count for topic, count in copied.items() if excluded(topic))
    codes = (FindingCode.TOPICS_UNUSED, FindingCode.EXCLUDE_UNUSED)
    unused = [row.subject for row in plan.findings if row.code in codes]
    parts = [
        f"Excluded as requested: {'; '.join(requested.exclusions)}.",
        f"{clause(moved, 'partition', 'of these topics still moves', 'of these topics still move')}, because "
        "replicas must leave their brokers."
        if moved
        else "",
        f"{agree(len(unused), 'This pattern matches', 'These patterns match')} no topic: {first_of(unused, _NAMED)}."
        if unused
        else "",
    ]
    return " ".join(filter(None, parts))
