"""Bands that are not kept: why, where that can be told cheaply, and what would make it feasible."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from optimizer.domain import FREE, Bands, Bools, Brokers, Cause, FindingCode, Floats, Ints, Partitions
from optimizer.settings import Policy
from optimizer.solve.findings.finding import Finding, partition_name
from optimizer.solve.findings.pin_findings import pin_room
from optimizer.solve.rules import resources
from optimizer.solve.rules.bands import (
    broker_loads,
    demand_of,
    disk_limit,
    excess,
    is_outside,
    reachable_means,
    replica_weights,
)
from optimizer.solve.rules.mobility import moves_if_it_must, stays
from optimizer.solve.rules.pins import PinGroups, group_by_pins
from optimizer.solve.rules.resources import DISK
from optimizer.units import human_count, human_rate

Why = tuple[Cause | None, str]
WIDTH_ROUNDING = 1e-10  # thousandths: what floating point may add to a width that is a whole number of them
UNKNOWN: Why = (None, "")
_LABELS = {"in": "bytes in", "out": "bytes out"}  # of resources whose name alone says too little


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
    stuck : sequence of (str, (B, D) float64)
        Load that may not leave: what holds it, in words, and how much.
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
    stuck: Sequence[tuple[str, Floats]]
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
    held_by = "partitions left by policy.only" if only else "excluded topics"
    groups = group_by_pins(brokers, partitions.topic)
    tight = (groups.of > 0) & (pin_room(brokers, partitions, groups) <= partitions.replication_factor)
    free = partitions.mobility == FREE
    held = (
        ("fixed partitions", stays(partitions.mobility)),
        (held_by, moves_if_it_must(partitions.mobility)),
        ("pinned topics that have no other broker", free & tight),
    )
    stuck = [(what, broker_loads(n, np.where(rows[:, None], placed, -1), weights)) for what, rows in held]
    mean = reachable_means(brokers, demand_of(partitions), before)
    return _Facts(brokers, partitions, bands, after, mean, weights, stuck, placed, free & ~tight, groups, held_by)


def _why_above(facts: _Facts, b: int, d: int, policy: Policy) -> Why:
    upper, lower, load = facts.bands.upper[b, d], facts.bands.lower[b, d], facts.after[b, d]
    if _at_disk_limit(facts, b, d, policy):
        why = f"the band ends at the disk limit (disk_headroom = {policy.disk_headroom:g})"
        return Cause.BAND_ENDS_AT_DISK, why
    stuck = [(what, loads[b, d]) for what, loads in facts.stuck if loads[b, d] > 0]
    if sum(load for _, load in stuck) > upper:
        told = ", ".join(f"{what} {facts.amount(load, d)}" for what, load in stuck)
        return Cause.MAY_NOT_LEAVE, f"the replicas that may not leave it already exceed the band: {told}"
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
        why = f"it can hold at most {facts.amount(reach, d)}: pins, fixed partitions or {facts.held_by} rule out more"
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
    return d == DISK and bool(disk_limit(facts.brokers, policy)[b] < facts.after[b, d])


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

    What stays on brokers to empty has findings of its own, one for each replica.

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
