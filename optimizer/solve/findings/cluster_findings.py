"""What is found of a whole cluster: what is not known of it, broken racks, brokers that are away or not emptied."""

from collections.abc import Iterator

import numpy as np

from optimizer.domain import Brokers, Cause, FindingCode, Ints, Partitions
from optimizer.solve.findings.finding import LET_MOVE, RUN_AGAIN, Finding, of_partition, partition_name
from optimizer.solve.findings.pin_findings import pin_room
from optimizer.solve.rules.mobility import mends_racks, stays
from optimizer.solve.rules.pins import group_by_pins, rack_breaks, rack_rule
from optimizer.solve.rules.racks import rack_histogram
from optimizer.units import agree, clause, plural

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
        named = f"{unknown} of {plural(count, 'broker')}"
        equal = "" if unknown == count else ", and all brokers count as equally large"
        have = agree(unknown, "it has", "they have")
        detail = f"the disk capacity of {named} is unknown: {have} no disk limit{equal}"
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
    ways = (("in", "inbound", brokers.in_capacity_bytes_per_s), ("out", "outbound", brokers.out_capacity_bytes_per_s))
    for way, told, capacity in ways:
        known, count = int((capacity[brokers.accepts_replicas] > 0).sum()), int(brokers.accepts_replicas.sum())
        if 0 < known < count:
            detail = f"{told} network capacity is known for only {known} of {count} brokers, so shares follow disk size"
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


def rack_findings(brokers: Brokers, partitions: Partitions, after: Ints) -> Iterator[Finding]:
    """Partitions that broke the rack rule before: mended in one line, not mended one by one."""
    broken = rack_breaks(brokers, partitions, partitions.replicas) > 0
    breaks = rack_breaks(brokers, partitions, after)
    still = breaks > 0
    mended = int((broken & ~still).sum())
    if mended:
        detail = f"{plural(mended, 'partition')} broke the rack rule; the plan mends that"
        yield Finding(FindingCode.RACK_SPREAD, "mended partitions", "before", detail, "execute the plan", amount=mended)
    rows, may_mend = np.flatnonzero(still), mends_racks(partitions.mobility)
    for row, detail in zip(rows, _rack_words(brokers, partitions.rows(rows), after[rows]), strict=True):
        when = "both" if broken[row] else "after"
        remedy = f"add brokers to other racks; else {RUN_AGAIN}" if may_mend[row] else LET_MOVE
        yield Finding(
            FindingCode.RACK_SPREAD,
            partition_name(partitions, row),
            when,
            detail,
            remedy,
            cause=None if may_mend[row] else Cause.NOT_FREE,
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
        over = [
            f"rack {names[r]} holds {plural(count[r], 'replica')} (at most {most})"
            for r in np.flatnonzero(count > most)
        ]
        short = [f"rack {names[r]} holds {count[r]} (at least {least[r]})" for r in np.flatnonzero(count < least)]
        yield ", ".join([*over, *short])


def stranded_findings(brokers: Brokers, partitions: Partitions, after: Ints) -> Iterator[Finding]:
    """Replicas that stay on brokers that should be empty."""
    held, length = stays(partitions.mobility), (after >= 0).sum(axis=1)
    row, slot = np.nonzero((after >= 0) & brokers.must_empty[np.maximum(after, 0)])
    room = pin_room(brokers, partitions, group_by_pins(brokers, partitions.topic)) if len(row) else length
    for p, j in zip(row, slot, strict=True):
        broker = int(brokers.ids[after[p, j]])
        detail = f"a replica stays on broker {broker} ({brokers.state[after[p, j]]})"
        remedy, cause = f"add a broker that may take it; else {RUN_AGAIN}", None
        if held[p]:
            remedy, cause = LET_MOVE, Cause.NOT_FREE
        elif room[p] < length[p]:
            detail += f": {plural(int(length[p]), 'replica')}, brokers that can hold them: {room[p]}"
            remedy, cause = "ask for fewer replicas, drain fewer brokers, or add one", Cause.TOO_FEW_BROKERS
        yield Finding(
            FindingCode.NOT_EMPTIED,
            f"{partition_name(partitions, p)} on {broker}",
            "both",
            detail,
            remedy,
            cause=cause,
            **of_partition(partitions, p),
            broker_id=broker,
        )


def emptied_racks(brokers: Brokers, before: Ints, after: Ints) -> Iterator[Finding]:
    """Racks that lose their last replica, and of which no broker may hold one.

    Parameters
    ----------
    before, after : (P, W) int64
        Replicas, as indices of brokers.
    """
    if not brokers.racks_matter:
        return
    racks = len(brokers.rack_names)
    # Dead brokers may have no rack: what they share is none.
    named = np.array([bool(name) for name in brokers.rack_names])
    usable = named & (np.bincount(brokers.rack[brokers.accepts_replicas], minlength=racks) > 0)
    held = [np.bincount(brokers.rack[lists[lists >= 0]], minlength=racks) for lists in (before, after)]
    left = int(usable.sum())
    for rack in np.flatnonzero(named & (held[0] > 0) & (held[1] == 0) & ~usable):
        ids = brokers.ids[brokers.rack == rack].tolist()
        members = f"{agree(len(ids), 'broker', 'brokers')} {', '.join(map(str, ids))}"
        yield Finding(
            FindingCode.RACK_EMPTIED,
            f"rack {brokers.rack_names[rack]}",
            "after",
            f"the plan empties the whole rack ({members}): replicas are spread over {plural(left, 'rack')} only",
            "keep or add a broker in this rack, unless the rack is given up",
            amount=left,
            limit=int(named.sum()),
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
            stay = f"{clause(left, 'replica', 'stays', 'stay')} on it"
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
