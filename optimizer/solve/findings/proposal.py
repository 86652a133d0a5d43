"""From chosen replica sets and leaders to ordered lists, net moves with reasons, and findings."""

from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass
from typing import TypedDict

import numpy as np

from optimizer.domain import URGENCY, Brokers, Cause, FindingCode, Ints, Partitions
from optimizer.solve.rules.pins import group_by_pins, must_leave, rack_breaks, rack_rule
from optimizer.solve.rules.racks import rack_histogram
from optimizer.units import plural

# What brokers are that do not live, and what helps: a plan does not wait for a dead one, but for a fenced one.
_AWAY = {
    "dead": (
        FindingCode.DEAD_BROKER,
        "replica lists name it, but it serves nothing",
        "if it is to come back, start it and plan again",
    ),
    "fenced": (
        FindingCode.FENCED_BROKER,
        "it is registered, but serves nothing",
        "start it; if it never comes back, drain it (--drain {broker}), execute that plan, and then unregister it: "
        "kafka-cluster.sh unregister --id {broker}",
    ),
}


@dataclass(frozen=True)
class NetMove:
    """One replica that changes its broker, comes or goes: row of the partition, broker indices, and why.

    Parameters
    ----------
    from_broker, to_broker : int
        -1 where the replication factor grows, and where it shrinks: then nothing is copied.
    """

    row: int
    from_broker: int
    to_broker: int
    reason: str


@dataclass(frozen=True)
class Finding:
    """What was broken before the plan, or is after it: in words, and in fields for code to compare.

    Parameters
    ----------
    code : FindingCode
    subject, when, detail, remedy : str
        For people; of these, code may compare ``when`` alone: before, after or both.
    cause : Cause, optional
        Why, where that is known.
    topic, partition, broker_id, resource : optional
        What it is about, as far as it is about one.
    amount, limit : float, optional
        How much there is, in the resource's unit or counted, and how much there may or must be.
    """

    code: FindingCode
    subject: str
    when: str
    detail: str
    remedy: str
    _: KW_ONLY
    cause: Cause | None = None
    topic: str | None = None
    partition: int | None = None
    broker_id: int | None = None
    resource: str | None = None
    amount: float | None = None
    limit: float | None = None


def settle(original: Ints, chosen: Ints) -> Ints:
    """Chosen replica sets in the order of the original lists, (P, W): who stays keeps the place, newcomers fill the
    gaps in order; where more come than go the others follow, where fewer come the gaps close."""
    settled = original.copy()
    changed = np.flatnonzero((np.sort(original, axis=1) != np.sort(chosen, axis=1)).any(axis=1))
    for row in changed:
        before, after = (held[held >= 0].tolist() for held in (original[row], chosen[row]))
        arriving = [b for b in after if b not in before]
        gaps = iter(arriving)
        kept = [b if b in after else next(gaps, -1) for b in before]
        ordered = [b for b in [*kept, *gaps] if b >= 0]
        settled[row] = ordered + [-1] * (original.shape[1] - len(ordered))
    return settled


def reasons(brokers: Brokers, partitions: Partitions, settled: Ints) -> Iterator[NetMove]:
    """Net moves of settled lists, by row: those who come in the order of the new list, each for one who goes.

    Where more go than come, those that had to leave anyway go for the smaller replication factor.
    """
    groups = group_by_pins(brokers, partitions.topic)
    caps = rack_rule(brokers, groups, partitions.replication_factor).cap
    outside = groups.outside_pin(partitions.replicas)
    counts = rack_histogram(partitions.replicas, brokers.rack, len(brokers.rack_names))

    def why(p: int, j: int) -> str:
        source = int(partitions.replicas[p, j])
        causes = {
            "dead": brokers.must_empty[source] and brokers.state[source] == "dead",
            "rack": counts[p, brokers.rack[source]] > caps[p] and not outside[p, j],  # a pin's racks count inside it
            "drain": brokers.must_empty[source],
            "pin": outside[p, j],
        }
        return next((cause for cause in URGENCY if causes.get(cause)), "balance")

    for p in np.flatnonzero((settled != partitions.replicas).any(axis=1)).tolist():
        before, after = partitions.replicas[p].tolist(), settled[p].tolist()
        leaving = [(why(p, j), b) for j, b in enumerate(before) if b >= 0 and b not in after]
        coming = [b for b in after if b >= 0 and b not in before]
        fewer = max(len(leaving) - len(coming), 0)
        given_up = sorted(leaving, key=lambda item: item[0] == "balance")[:fewer]
        yield from (NetMove(p, source, -1, "replication") for _, source in given_up)
        replaced = [item for item in leaving if item not in given_up]
        replaced += [("replication", -1)] * (len(coming) - len(replaced))
        for target, (reason, source) in zip(coming, replaced, strict=True):
            yield NetMove(p, source, target, reason)


def disorder(brokers: Brokers, partitions: Partitions, replicas: Ints) -> Ints:
    """Replicas of each partition that break the rack rule or sit outside their pin, under a placement, (P,)."""
    groups = group_by_pins(brokers, partitions.topic)
    away = must_leave(brokers, partitions, groups, replicas) & groups.outside_pin(replicas)
    return np.asarray(rack_breaks(brokers, partitions, replicas) + away.sum(axis=1))


def rate_findings(partitions: Partitions) -> Iterator[Finding]:
    """Clusters whose rates are all unknown or zero: the network takes no part in the plan."""
    if len(partitions) and not partitions.in_bytes_per_s.any() and not partitions.out_bytes_per_s.any():
        detail = "no partition has a rate: bytes in and out are not balanced, and times do not count live traffic"
        yield Finding(
            FindingCode.NO_RATES, "cluster", "both", detail, "give rates by partition: see docs/formats-metrics.md"
        )


def disk_findings(brokers: Brokers) -> Iterator[Finding]:
    """Brokers that may get replicas on disks of unknown size: nothing keeps the plan from filling those."""
    wanted = brokers.accepts_replicas
    unknown, count = int((wanted & (brokers.disk_capacity_bytes <= 0)).sum()), int(wanted.sum())
    if unknown:
        named = f"all {count}" if unknown == count else f"{unknown} of {count}"
        equal = "" if unknown == count else ", and all brokers count as equally large"
        detail = f"the disk capacity of {named} brokers is unknown: they have no disk limit{equal}"
        yield Finding(
            FindingCode.NO_DISK_CAPACITY,
            "cluster",
            "both",
            detail,
            "give a capacity file: see docs/formats.md",
            resource="disk",
            amount=count - unknown,
            limit=count,
        )


def network_findings(brokers: Brokers) -> Iterator[Finding]:
    """Capacities of the network that are known of some brokers only, and so not used."""
    for way, capacity in (("in", brokers.in_capacity_bytes_per_s), ("out", brokers.out_capacity_bytes_per_s)):
        known, count = int((capacity[brokers.accepts_replicas] > 0).sum()), int(brokers.accepts_replicas.sum())
        if 0 < known < count:
            detail = f"network capacity {way} is known for {known} of {count} brokers: all count by their disks instead"
            remedy = "give it for every broker: see docs/formats.md"
            yield Finding(
                FindingCode.NO_NETWORK_CAPACITY,
                f"cluster {way}",
                "both",
                detail,
                remedy,
                resource=way,
                amount=known,
                limit=count,
            )


def partition_name(partitions: Partitions, row: int | np.integer) -> str:
    """Topic and number, as Kafka writes them."""
    return f"{partitions.topic[row]}-{partitions.partition[row]}"


class OfPartition(TypedDict):
    """Fields of a finding that name a partition."""

    topic: str
    partition: int


def of_partition(partitions: Partitions, row: int | np.integer) -> OfPartition:
    """Topic and number, as findings hold them."""
    return {"topic": str(partitions.topic[row]), "partition": int(partitions.partition[row])}


def rack_findings(brokers: Brokers, partitions: Partitions, after: Ints) -> Iterator[Finding]:
    """Partitions that broke the rack rule before: mended in one line, not mended one by one."""
    broken = rack_breaks(brokers, partitions, partitions.replicas) > 0
    breaks = rack_breaks(brokers, partitions, after)
    still = breaks > 0
    mended = int((broken & ~still).sum())
    if mended:
        detail = f"{plural(mended, 'partition')} broke the rack rule; the plan mends that"
        yield Finding(FindingCode.RACK_SPREAD, "mended partitions", "before", detail, "execute the plan", amount=mended)
    rows = np.flatnonzero(still)
    for row, detail in zip(rows, _rack_words(brokers, partitions.rows(rows), after[rows]), strict=True):
        when = "both" if broken[row] else "after"
        remedy = "free the partition, or add brokers to other racks"
        yield Finding(
            FindingCode.RACK_SPREAD,
            partition_name(partitions, row),
            when,
            detail,
            remedy,
            **of_partition(partitions, row),
            amount=int(breaks[row]),
            limit=0,
        )


def _rack_words(brokers: Brokers, partitions: Partitions, after: Ints) -> Iterator[str]:
    """Of each partition the racks that hold too many or too few replicas."""
    groups, names = group_by_pins(brokers, partitions.topic), brokers.rack_names
    rule = rack_rule(brokers, groups, (after >= 0).sum(axis=1))
    for row, count in enumerate(rack_histogram(after, brokers.rack, len(names))):
        most, least = rule.cap[row], np.minimum(rule.floor[row], rule.sizes[groups.of[row]])
        over = [f"rack {names[r]} holds {count[r]} replicas (at most {most})" for r in np.flatnonzero(count > most)]
        short = [f"rack {names[r]} holds {count[r]} (at least {least[r]})" for r in np.flatnonzero(count < least)]
        yield ", ".join([*over, *short])


def stranded_findings(brokers: Brokers, partitions: Partitions, after: Ints) -> Iterator[Finding]:
    """Replicas that stay on brokers that should be empty."""
    row, slot = np.nonzero((after >= 0) & brokers.must_empty[np.maximum(after, 0)])
    for p, j in zip(row, slot, strict=True):
        broker = int(brokers.ids[after[p, j]])
        detail = f"a replica stays on broker {broker} ({brokers.state[after[p, j]]})"
        remedy = "free the partition, or add a broker that may take it"
        yield Finding(
            FindingCode.NOT_EMPTIED,
            f"{partition_name(partitions, p)} on {broker}",
            "both",
            detail,
            remedy,
            **of_partition(partitions, p),
            broker_id=broker,
        )


def broker_findings(brokers: Brokers, after: Ints) -> Iterator[Finding]:
    """Dead and fenced brokers: mended where the plan takes every replica off them.

    Parameters
    ----------
    after : (P, W) int64
        Replicas after the plan.
    """
    held = np.bincount(after[after >= 0], minlength=len(brokers))
    for broker, state, left in zip(brokers.ids, brokers.state, held.tolist(), strict=True):
        if state in _AWAY:
            code, what, remedy = _AWAY[state]
            stay = f"{plural(left, 'replica')} {'stays' if left == 1 else 'stay'} on it"
            stays = stay if left else "the plan takes its replicas off it"
            detail = f"broker {broker} is {state}: {what}; {stays}"
            when = "both" if left else "before"
            yield Finding(
                code,
                f"broker {broker}",
                when,
                detail,
                remedy.format(broker=broker),
                broker_id=int(broker),
                amount=left,
                limit=0,
            )


def no_rack_findings(brokers: Brokers) -> Iterator[Finding]:
    """Racks that are to be looked after and are not known."""
    if not brokers.racks_matter:
        detail = "no broker has a rack: replicas are spread over brokers only"
        yield Finding(FindingCode.NO_RACKS, "cluster", "both", detail, "set broker.rack on every broker")
