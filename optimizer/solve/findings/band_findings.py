"""Bands and pins that are not kept: why, where that can be told cheaply, and what would make it feasible."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from optimizer.domain import FREE, Bands, Bools, Brokers, Cause, FindingCode, Floats, Ints, Partitions
from optimizer.settings import Policy
from optimizer.solve.findings.finding import (
    LET_MOVE,
    RUN_AGAIN,
    SHOWN,
    Finding,
    of_partition,
    partition_name,
    unused_pattern,
)
from optimizer.solve.rules import resources
from optimizer.solve.rules.bands import (
    broker_loads,
    demand_of,
    excess,
    is_outside,
    reachable_means,
    replica_weights,
)
from optimizer.solve.rules.mobility import moves_if_it_must, stays
from optimizer.solve.rules.pins import PinGroups, group_by_pins
from optimizer.solve.rules.resources import DISK
from optimizer.units import agree, human_count, human_rate, plural

Why = tuple[Cause | None, str]
WIDTH_ROUNDING = 1e-10  # thousandths: what floating point may add to a width that is a whole number of them
UNKNOWN: Why = (None, "")
_LABELS = {"in": "bytes in", "out": "bytes out"}  # of resources whose name alone says too little


def pin_room(brokers: Brokers, partitions: Partitions, groups: PinGroups) -> Ints:
    """Brokers that may hold each partition after the plan: those of its pin that accept replicas, or keep theirs."""
    accepting = (groups.allowed & brokers.accepts_replicas).sum(axis=1)
    host = np.maximum(partitions.replicas, 0)
    keeps = (partitions.replicas >= 0) & ~brokers.accepts_replicas[host] & ~brokers.must_empty[host]
    return np.asarray(accepting[groups.of] + (keeps & ~groups.outside_pin(partitions.replicas)).sum(axis=1))


def pin_findings(brokers: Brokers, partitions: Partitions, after: Ints) -> Iterator[Finding]:
    """Pins that match nothing, that leave too few brokers, and replicas that stay outside theirs."""
    if not brokers.pins:
        return
    groups = group_by_pins(brokers, partitions.topic)
    used = {pattern for patterns in groups.patterns for pattern in patterns}
    for pattern in (pin.topics for pin in brokers.pins if pin.topics not in used):
        yield unused_pattern(FindingCode.PIN_UNUSED, pattern)
    room = pin_room(brokers, partitions, groups)
    short = (groups.of > 0) & (room < partitions.replication_factor)
    yield from _short_pins(brokers, partitions, groups, room, short)
    for p, j in zip(*np.nonzero(groups.outside_pin(after) & ~short[:, None]), strict=True):
        broker = int(brokers.ids[after[p, j]])
        detail = f"a replica stays on broker {broker}, outside the pin {' and '.join(groups.patterns[groups.of[p]])}"
        free = partitions.mobility[p] == FREE
        remedy = RUN_AGAIN if free else LET_MOVE
        yield Finding(
            FindingCode.NOT_PINNED,
            f"{partition_name(partitions, p)} on {broker}",
            "both",
            detail,
            remedy,
            cause=Cause.NO_MORE_ROUNDS if free else Cause.NOT_FREE,
            **of_partition(partitions, p),
            broker_id=broker,
        )


def _short_pins(
    brokers: Brokers, partitions: Partitions, groups: PinGroups, room: Ints, short: Bools
) -> Iterator[Finding]:
    """Topics whose pins leave fewer brokers than they have replicas: one finding a topic."""
    for topic in dict.fromkeys(partitions.topic[short]):
        rows = np.flatnonzero(short & (partitions.topic == topic))
        worst = rows[np.argmax(partitions.replication_factor[rows] - room[rows])]
        factor, left = int(partitions.replication_factor[worst]), int(room[worst])
        ids = brokers.ids[groups.allowed[groups.of[worst]]].tolist()
        named = f"{ids[:SHOWN]}{' and more' if len(ids) > SHOWN else ''}"
        pins = " and ".join(groups.patterns[groups.of[worst]])
        detail = (
            f"the pin {pins} allows brokers {named}: {left} of them can hold a replica, "
            f"{factor} {agree(factor, 'is', 'are')} needed. "
            f"{plural(len(rows), 'partition')} cannot move"
        )
        remedy = f"let the pin allow {plural(factor - left, 'more broker')} that can take replicas"
        remedy += f"; or ask for {plural(left, 'replica')}" if left else ""
        yield Finding(
            FindingCode.PIN,
            str(topic),
            "both",
            detail,
            remedy,
            cause=Cause.TOO_FEW_BROKERS,
            topic=str(topic),
            amount=left,
            limit=factor,
        )


def amount(resource: str, load: float) -> str:
    """A load of a resource, as people read it."""
    human = {one.name: one.human for one in resources.PLACEMENT} | {"leaders": human_count, "out": human_rate}
    return human[resource](load)


def distance(resource: str, load: float, gap: float, end: float, why: str) -> str:
    """How far a load is above (gap > 0) or below its band, where that ends, and why where that can be told."""
    side, verb = ("above", "ends") if gap > 0 else ("below", "begins")
    load_told, far, end_told = (amount(resource, value) for value in (load, abs(gap), end))
    label = _LABELS.get(resource, resource)
    return f"{label}: {load_told}, {far} {side} the band, which {verb} at {end_told}{'; ' if why else ''}{why}"


def least_widths(loads: Floats, mean: Floats) -> Floats:
    """The least width, in thousandths, of a band that holds each load, (B, D); nan where no width does."""
    around = np.where(mean > 0, mean, np.nan)
    return np.asarray(np.ceil(np.abs(loads / around - 1) * 1000 - WIDTH_ROUNDING) / 1000)


@dataclass(frozen=True)
class _Facts:
    """What the causes are read from; loads are (B, D), absolute.

    Parameters
    ----------
    stuck : dict of str to (B, D) float64
        Load that may not leave, by its cause.
    placed : (P, W) int64
        Replicas after the plan.
    may_move : (P,) bool
    held_by : str
        What keeps partitions that may not move for balance, in words.
    """

    brokers: Brokers
    partitions: Partitions
    bands: Bands
    after: Floats
    mean: Floats
    weights: Floats
    stuck: dict[str, Floats]
    placed: Ints
    may_move: Bools
    groups: PinGroups
    held_by: str

    def on(self, b: int) -> Ints:
        """Partitions with a replica on a broker."""
        return np.flatnonzero((self.placed == b).any(axis=1))

    def rack(self, values: Floats, b: int, d: int) -> float:
        """Sum of values (B, D) over the brokers of the rack that take part in the balance."""
        rack = self.brokers.rack == self.brokers.rack[b] if self.brokers.racks_matter else np.ones(len(values), bool)
        return float(values[rack & self.brokers.accepts_replicas, d].sum())

    def amount(self, load: float, d: int) -> str:
        """A load of a resource, as people read it."""
        return amount(self.bands.resources[d], load)

    def in_rack(self, b: int, d: int, held: float, ends: float, side: str) -> str:
        """What the rack of a broker holds, against the sum of the ends of its brokers' bands."""
        rack, held_told, ends_told = self.rack_name(b), self.amount(held, d), self.amount(ends, d)
        return f"{rack} holds {held_told} in all, but the {side} ends of its brokers' bands add up to {ends_told}"

    def rack_name(self, b: int) -> str:
        """The rack of a broker; the cluster where racks are not used."""
        return f"rack {self.brokers.rack_names[self.brokers.rack[b]]}" if self.brokers.racks_matter else "the cluster"


def _facts(
    brokers: Brokers,
    bands: Bands,
    before: Floats,
    after: Floats,
    *,
    partitions: Partitions,
    placed: Ints,
    only: str,
) -> _Facts:
    weights, n = replica_weights(partitions), len(brokers)
    held_by = "what policy.only leaves" if only else "excluded topics"
    groups = group_by_pins(brokers, partitions.topic)
    tight = (groups.of > 0) & (pin_room(brokers, partitions, groups) <= partitions.replication_factor)
    free = partitions.mobility == FREE
    causes = {
        "fixed partitions": stays(partitions.mobility),
        held_by: moves_if_it_must(partitions.mobility),
        "pinned topics that have no other broker": free & tight,
    }
    stuck = {cause: broker_loads(n, np.where(rows[:, None], placed, -1), weights) for cause, rows in causes.items()}
    mean = reachable_means(brokers, demand_of(partitions), before)
    return _Facts(brokers, partitions, bands, after, mean, weights, stuck, placed, free & ~tight, groups, held_by)


def _why_above(facts: _Facts, b: int, d: int, policy: Policy) -> Why:
    upper, lower, load = facts.bands.upper[b, d], facts.bands.lower[b, d], facts.after[b, d]
    if _at_disk_limit(facts, b, d, policy):
        why = f"the band ends at the disk limit (disk_headroom = {policy.disk_headroom:g})"
        return Cause.BAND_ENDS_AT_DISK, why
    stuck = {cause: loads[b, d] for cause, loads in facts.stuck.items() if loads[b, d] > 0}
    if sum(stuck.values()) > upper:
        causes = ", ".join(f"{cause} {facts.amount(value, d)}" for cause, value in stuck.items())
        return Cause.MAY_NOT_LEAVE, f"the replicas that may not leave it already exceed the band: {causes}"
    rows = facts.on(b)
    largest = rows[np.argmax(facts.weights[rows, d])]
    if facts.weights[largest, d] > upper:
        name = partition_name(facts.partitions, largest)
        return Cause.LARGE_PARTITION, f"{name} alone ({facts.amount(facts.weights[largest, d], d)}) is above the band"
    held, most = facts.rack(facts.after, b, d), facts.rack(facts.bands.upper, b, d)
    if held > most:
        return Cause.WHOLE_RACK, facts.in_rack(b, d, held, most, "upper")
    rows = rows[facts.may_move[rows]]
    if len(rows) and facts.weights[rows, d].min() > load - lower:
        least = rows[np.argmin(facts.weights[rows, d])]
        size = facts.amount(facts.weights[least, d], d)
        name = partition_name(facts.partitions, least)
        return (
            Cause.STEPS_TOO_LARGE,
            f"moving its smallest movable replica ({name}, {size}) would take it below the band",
        )
    return UNKNOWN


def _why_below(facts: _Facts, b: int, d: int) -> Why:
    held, least = facts.rack(facts.after, b, d), facts.rack(facts.bands.lower, b, d)
    if held < least:
        return Cause.WHOLE_RACK, facts.in_rack(b, d, held, least, "lower")
    hosts = facts.groups.allowed[facts.groups.of, b]
    here = (facts.placed == b).any(axis=1)
    reach = facts.weights[(hosts & facts.may_move) | here, d].sum()
    if reach < facts.bands.lower[b, d]:
        why = f"pins, fixed partitions and {facts.held_by} let it hold at most {facts.amount(reach, d)}"
        return Cause.MAY_NOT_COME, why
    come = np.flatnonzero(hosts & facts.may_move & ~here)
    room = facts.bands.upper[b, d] - facts.after[b, d]
    if len(come) and facts.weights[come, d].min() > room:
        smallest = come[np.argmin(facts.weights[come, d])]
        size = facts.amount(facts.weights[smallest, d], d)
        name = partition_name(facts.partitions, smallest)
        return (
            Cause.STEPS_TOO_LARGE,
            f"the smallest replica that may come ({name}, {size}) would take it above the band",
        )
    return UNKNOWN


def _at_disk_limit(facts: _Facts, b: int, d: int, policy: Policy) -> bool:
    """Whether the disk, not the width, ends the band below the load."""
    capacity = int(facts.brokers.disk_capacity_bytes[b])
    return d == DISK and 0 < capacity * (1 - policy.disk_headroom) < facts.after[b, d]


def band_findings(
    brokers: Brokers,
    bands: Bands,
    before: Floats,
    after: Floats,
    *,
    partitions: Partitions,
    placed: Ints,
    policy: Policy,
    only: str,
) -> Iterator[Finding]:
    """Brokers outside a band after the plan: the distance, why where it can be told, and a width that is enough.

    Parameters
    ----------
    only : str
        Of the cluster's wishes: what alone is mended.
    """
    gap, was_outside = excess(after, bands), is_outside(before, bands)
    outside = is_outside(after, bands) & ~brokers.must_empty[:, None]
    if not outside.any():
        return
    facts = _facts(brokers, bands, before, after, partitions=partitions, placed=placed, only=only)
    widths = least_widths(after, facts.mean)
    widest = np.nanmax(np.where(outside, widths, 0), axis=0)
    for b, d in zip(*(index.tolist() for index in np.nonzero(outside)), strict=True):
        above, resource = gap[b, d] > 0, bands.resources[d]
        end = (bands.upper if above else bands.lower)[b, d]
        cause, why = _why_above(facts, b, d, policy) if above else _why_below(facts, b, d)
        when = "both" if was_outside[b, d] else "after"
        if above and _at_disk_limit(facts, b, d, policy):
            room = facts.amount(gap[b, d], d)
            remedy = f"no width is enough: add disk, lower disk_headroom, or free {room}"
        else:
            remedy = _remedy(resource, widths[b, d], widest[d])
        detail = distance(resource, after[b, d], gap[b, d], end, why)
        yield Finding(
            FindingCode.BAND,
            f"broker {brokers.ids[b]} {resource}",
            when,
            detail,
            remedy,
            cause=cause,
            broker_id=int(brokers.ids[b]),
            resource=resource,
            amount=float(after[b, d]),
            limit=float(end),
        )


def _remedy(resource: str, width: float, widest: float) -> str:
    if not np.isfinite(width):
        return f"widen {resource}_band, let fixed partitions move, or add capacity"
    every = "" if widest <= width else f", {widest:g} is enough for every broker"
    return (
        f"{resource}_band = {width:g} is enough for this broker{every}; or let fixed partitions move, or add capacity"
    )
