"""Findings of a whole cluster: unknown values, broken rack rules, brokers that are down or not emptied."""

from collections import Counter
from collections.abc import Iterator

import numpy as np

from optimizer.domain import Brokers, Cause, FindingCode, Ints, Partitions, only_in
from optimizer.solve.findings.finding import Finding, of_partition
from optimizer.solve.findings.pin_findings import pin_room
from optimizer.solve.rules.mobility import may_repair_racks, stays
from optimizer.solve.rules.pins import group_by_pins, rack_breaks, rack_rule
from optimizer.solve.rules.racks import rack_histogram

_DOWN = {"dead": FindingCode.DEAD_BROKER, "fenced": FindingCode.FENCED_BROKER}


def rate_findings(partitions: Partitions) -> Iterator[Finding]:
    """A finding if all rates are unknown or zero: the plan does not balance the network."""
    if len(partitions) and not partitions.in_bytes_per_s.any() and not partitions.out_bytes_per_s.any():
        yield Finding(FindingCode.NO_RATES, "both")


def disk_findings(brokers: Brokers) -> Iterator[Finding]:
    """A finding if brokers that accept replicas have disks of unknown size: the plan could fill these."""
    accepting = brokers.accepts_replicas
    unknown, count = int((accepting & (brokers.disk_capacity_bytes <= 0)).sum()), int(accepting.sum())
    if unknown:
        known = count - unknown
        yield Finding(FindingCode.NO_DISK_CAPACITY, "both", resource="disk", amount=known, limit=count)


def network_findings(brokers: Brokers) -> Iterator[Finding]:
    """Network capacities that are known for some brokers only, and are therefore not used."""
    for direction, capacity in (("in", brokers.in_capacity_bytes_per_s), ("out", brokers.out_capacity_bytes_per_s)):
        known, count = int((capacity[brokers.accepts_replicas] > 0).sum()), int(brokers.accepts_replicas.sum())
        if 0 < known < count:
            yield Finding(FindingCode.NO_NETWORK_CAPACITY, "both", resource=direction, amount=known, limit=count)


def rack_findings(brokers: Brokers, partitions: Partitions, after: Ints) -> Iterator[Finding]:
    """Partitions that break the rack rule: one finding for all that the plan repairs, one for each of the others."""
    broken = rack_breaks(brokers, partitions, partitions.replicas) > 0
    breaks = rack_breaks(brokers, partitions, after)
    still = breaks > 0
    fixed = int((broken & ~still).sum())
    if fixed:
        yield Finding(FindingCode.RACK_SPREAD, "before", amount=fixed)
    rows, may_move = np.flatnonzero(still), may_repair_racks(partitions.mobility)
    for row, racks in zip(rows, _broken_racks(brokers, partitions.rows(rows), after[rows]), strict=True):
        yield Finding(
            FindingCode.RACK_SPREAD,
            "both" if broken[row] else "after",
            cause=None if may_move[row] else Cause.NOT_FREE,
            **of_partition(partitions, row),
            amount=int(breaks[row]),
            limit=0,
            facts=racks,
        )


def _broken_racks(
    brokers: Brokers, partitions: Partitions, after: Ints
) -> Iterator[dict[str, list[tuple[str, int, int]]]]:
    """Racks with too many or too few replicas of each partition: name, replicas, and the most or the least allowed."""
    groups, names = group_by_pins(brokers, partitions.topic), brokers.rack_names
    rule = rack_rule(brokers, groups, (after >= 0).sum(axis=1))
    for row, count in enumerate(rack_histogram(after, brokers.rack, len(names))):
        most, least = rule.cap[row], np.minimum(rule.floor[row], rule.sizes[groups.of[row]])
        yield {
            "over": [(names[r], int(count[r]), int(most)) for r in np.flatnonzero(count > most)],
            "under": [(names[r], int(count[r]), int(least[r])) for r in np.flatnonzero(count < least)],
        }


def stranded_findings(brokers: Brokers, partitions: Partitions, after: Ints) -> Iterator[Finding]:
    """Replicas that stay on brokers that should be empty."""
    held, length = stays(partitions.mobility), (after >= 0).sum(axis=1)
    row, slot = np.nonzero((after >= 0) & brokers.must_empty[np.maximum(after, 0)])
    room = pin_room(brokers, partitions, group_by_pins(brokers, partitions.topic)) if len(row) else length
    for p, j in zip(row, slot, strict=True):
        too_few = Cause.TOO_FEW_BROKERS if room[p] < length[p] else None
        yield Finding(
            FindingCode.NOT_EMPTIED,
            "both",
            cause=Cause.NOT_FREE if held[p] else too_few,
            **of_partition(partitions, p),
            broker_id=int(brokers.ids[after[p, j]]),
            facts={"state": brokers.state[after[p, j]], "replicas": int(length[p]), "hosts": int(room[p])},
        )


def sync_findings(brokers: Brokers, partitions: Partitions, after: Ints) -> Iterator[Finding]:
    """A finding if shorter lists lose replicas out of sync, and replicas are copied that could have been removed."""
    removed = only_in(np.where(partitions.stuck(partitions.replicas), partitions.replicas, -1), after)
    spared = np.minimum(removed.sum(axis=1), only_in(after, partitions.replicas).sum(axis=1)) * partitions.shrinks
    if spared.any():
        stuck = partitions.replicas[removed & (spared > 0)[:, None]]
        facts = {
            "bytes": int(spared @ partitions.copy_bytes),
            "partitions": int((spared > 0).sum()),
            "brokers": brokers.ids[np.unique(stuck)].tolist(),
        }
        yield Finding(FindingCode.COPIED_FOR_SYNC, "after", amount=int(spared.sum()), facts=facts)


def emptied_racks(brokers: Brokers, before: Ints, after: Ints) -> Iterator[Finding]:
    """Racks that lose their replicas and have no broker that may hold one, even if some replicas may not move.

    Parameters
    ----------
    before, after : (P, W) int64
        Replicas, as indices of brokers.
    """
    if not brokers.racks_matter:
        return
    racks = len(brokers.rack_names)
    # Dead brokers may have no rack; such brokers do not share one.
    named = np.array([bool(name) for name in brokers.rack_names])
    usable = named & (np.bincount(brokers.rack[brokers.accepts_replicas], minlength=racks) > 0)
    held = [np.bincount(brokers.rack[lists[lists >= 0]], minlength=racks) for lists in (before, after)]
    remaining = int(usable.sum())
    stays = np.bincount(brokers.rack[~brokers.must_empty], minlength=racks) > 0
    is_emptied = (held[1] == 0) | ((held[1] < held[0]) & ~stays)
    for rack in np.flatnonzero(named & (held[0] > 0) & is_emptied & ~usable):
        ids = brokers.ids[brokers.rack == rack].tolist()
        facts = {"rack": brokers.rack_names[rack], "brokers": ids, "held": int(held[1][rack])}
        yield Finding(FindingCode.RACK_EMPTIED, "after", amount=remaining, limit=int(named.sum()), facts=facts)


def broker_findings(brokers: Brokers, after: Ints) -> Iterator[Finding]:
    """Dead and fenced brokers; ``when`` is before if the plan moves all their replicas away.

    Parameters
    ----------
    after : (P, W) int64
        Replicas after the plan.
    """
    held = np.bincount(after[after >= 0], minlength=len(brokers))
    for broker, state, count in zip(brokers.ids, brokers.state, held.tolist(), strict=True):
        if state in _DOWN:
            yield Finding(_DOWN[state], "both" if count else "before", broker_id=int(broker), amount=count, limit=0)


def no_rack_findings(brokers: Brokers) -> Iterator[Finding]:
    """A finding if the policy spreads replicas over racks, and no broker has a rack."""
    if not brokers.racks_matter:
        yield Finding(FindingCode.NO_RACKS, "both")


def nested_rack_findings(brokers: Brokers) -> Iterator[Finding]:
    """A finding if each rack has one broker, and names such as ``az1/r2`` show that several share a larger rack."""
    parts = [name.strip("/").split("/") for name in brokers.rack_names if name]
    of_parent = Counter(names[0] for names in parts)
    shared = [parent for parent, racks in sorted(of_parent.items()) if racks > 1]
    is_single = np.bincount(brokers.rack[brokers.is_live]).max(initial=0) == 1
    if not (brokers.racks_matter and is_single and shared and len(of_parent) > 1 and all(len(p) > 1 for p in parts)):
        return
    named = [(int(b), brokers.rack_names[r]) for b, r in zip(brokers.ids, brokers.rack, strict=True)]
    first = [(broker, name) for broker, name in named if name.strip("/").split("/")[0] == shared[0]][:2]
    facts = {
        "racks": [name for _, name in first],
        "shared": shared[0],
        "lines": [f"{broker},{shared[0]}" for broker, _ in first],
    }
    yield Finding(FindingCode.NESTED_RACKS, "both", amount=len(parts), facts=facts)
