"""Unmet bands: the cause, if it is cheap to find, and the width that would be enough."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from optimizer.domain import FREE, Bands, Bools, Brokers, Cause, FindingCode, Floats, Ints, Partitions
from optimizer.settings import Policy
from optimizer.solve.findings.finding import Finding, partition_name
from optimizer.solve.findings.pin_findings import pin_room
from optimizer.solve.rules.bands import (
    Demand,
    broker_loads,
    demand_of,
    disk_limit,
    excess,
    is_outside,
    reachable_means,
    replica_weights,
)
from optimizer.solve.rules.mobility import moves_only_if_forced, stays
from optimizer.solve.rules.pins import PinGroups, group_by_pins
from optimizer.solve.rules.resources import DISK

Why = tuple[Cause | None, Mapping[str, Any]]
WIDTH_ROUNDING = 1e-10  # thousandths: rounding of a width that is a whole number of thousandths
UNKNOWN: Why = (None, {})


def least_widths(loads: Floats, mean: Floats) -> Floats:
    """The least width of a band that includes each load, rounded up to thousandths, (B, D); nan if there is none."""
    around = np.where(mean > 0, mean, np.nan)
    return np.asarray(np.ceil(np.abs(loads / around - 1) * 1000 - WIDTH_ROUNDING) / 1000)


@dataclass(frozen=True)
class _Facts:
    """The data that causes are derived from; loads are (B, D), absolute.

    Parameters
    ----------
    stuck : mapping of (B, D) float64
        Load that may not leave, by the reason: fixed, forced_only or pinned.
    placed : (P, W) int64
        Replicas after the plan.
    may_move : (P,) bool
    only : str
        ``ClusterPolicy.only``.
    """

    brokers: Brokers
    partitions: Partitions
    bands: Bands
    after: Floats
    mean: Floats
    weights: Floats
    stuck: Mapping[str, Floats]
    placed: Ints
    may_move: Bools
    groups: PinGroups
    only: str

    def on(self, b: int) -> Ints:
        """Partitions with a replica on a broker."""
        return np.flatnonzero((self.placed == b).any(axis=1))

    def rack_sum(self, values: Floats, b: int, d: int) -> float:
        """Sum of values, (B, D), over the brokers of a broker's rack that take part in the balance."""
        rack = self.brokers.rack == self.brokers.rack[b] if self.brokers.racks_matter else np.ones(len(values), bool)
        return float(values[rack & self.brokers.accepts_replicas, d].sum())

    def whole_rack(self, b: int, held: float, ends: float) -> Why:
        """The load of a broker's rack (of the cluster, if racks are not used), and the sum of its bands' ends."""
        rack = self.brokers.rack_names[self.brokers.rack[b]] if self.brokers.racks_matter else None
        return Cause.WHOLE_RACK, {"rack": rack, "rack_holds": held, "rack_ends": ends}

    def one_partition(self, row: int | np.integer, d: int) -> Mapping[str, Any]:
        """The name of a partition, and its load."""
        return {"name": partition_name(self.partitions, row), "load": float(self.weights[row, d])}


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
    groups = group_by_pins(brokers, partitions.topic)
    tight = (groups.of > 0) & (pin_room(brokers, partitions, groups) <= partitions.replication_factor)
    free = partitions.mobility == FREE
    held = {"fixed": stays(partitions.mobility), "forced_only": moves_only_if_forced(partitions.mobility)}
    held["pinned"] = free & tight
    stuck = {reason: broker_loads(n, np.where(rows[:, None], placed, -1), weights) for reason, rows in held.items()}
    mean = reachable_means(brokers, demand_of(partitions), before)
    return _Facts(brokers, partitions, bands, after, mean, weights, stuck, placed, free & ~tight, groups, only)


def _why_above(facts: _Facts, b: int, d: int, policy: Policy) -> Why:
    upper, lower, load = facts.bands.upper[b, d], facts.bands.lower[b, d], facts.after[b, d]
    if _at_disk_limit(facts, b, d, policy):
        return Cause.BAND_ENDS_AT_DISK, {"disk_headroom": policy.disk_headroom}
    stuck = {reason: float(loads[b, d]) for reason, loads in facts.stuck.items() if loads[b, d] > 0}
    if sum(stuck.values()) > upper:
        return Cause.MAY_NOT_LEAVE, {"stuck": stuck, "only": facts.only}
    rows = facts.on(b)
    largest = rows[np.argmax(facts.weights[rows, d])]
    if facts.weights[largest, d] > upper:
        return Cause.LARGE_PARTITION, facts.one_partition(largest, d)
    held, most = facts.rack_sum(facts.after, b, d), facts.rack_sum(facts.bands.upper, b, d)
    if held > most:
        return facts.whole_rack(b, held, most)
    rows = rows[facts.may_move[rows]]
    if len(rows) and facts.weights[rows, d].min() > load - lower:
        return Cause.STEPS_TOO_LARGE, facts.one_partition(rows[np.argmin(facts.weights[rows, d])], d)
    return UNKNOWN


def _why_below(facts: _Facts, b: int, d: int) -> Why:
    held, least = facts.rack_sum(facts.after, b, d), facts.rack_sum(facts.bands.lower, b, d)
    if held < least:
        return facts.whole_rack(b, held, least)
    hosts = facts.groups.allowed[facts.groups.of, b]
    is_on_broker = (facts.placed == b).any(axis=1)
    reach = facts.weights[(hosts & facts.may_move) | is_on_broker, d].sum()
    if reach < facts.bands.lower[b, d]:
        return Cause.MAY_NOT_COME, {"reach": float(reach), "only": facts.only}
    come = np.flatnonzero(hosts & facts.may_move & ~is_on_broker)
    room = facts.bands.upper[b, d] - facts.after[b, d]
    if len(come) and facts.weights[come, d].min() > room:
        return Cause.STEPS_TOO_LARGE, facts.one_partition(come[np.argmin(facts.weights[come, d])], d)
    return UNKNOWN


def start_finding(brokers: Brokers, bands: Bands, demand: Demand, loads: Floats) -> Finding:
    """A cluster waits until a load is outside these bands: the load that is nearest to the end of its band, if any.

    Amount and limit: load and end of the band, as shares above (positive) or below the mean.
    """
    mean = reachable_means(brokers, demand, loads)
    ends = np.where(loads > mean, bands.upper, bands.lower)
    counts = (mean > 0) & ~is_outside(loads, bands) & (ends != mean)
    if not counts.any():
        return Finding(FindingCode.WAITS_TO_START, "both")
    nearness = np.divide(loads - mean, ends - mean, out=np.full_like(loads, -1), where=counts)
    b, d = np.unravel_index(nearness.argmax(), nearness.shape)
    return Finding(
        FindingCode.WAITS_TO_START,
        "both",
        broker_id=int(brokers.ids[b]),
        resource=bands.resources[d],
        amount=float(loads[b, d] / mean[b, d] - 1),
        limit=float(ends[b, d] / mean[b, d] - 1),
    )


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
    """Brokers outside a band after the plan: the cause, if it is known, and a width that is enough.

    Replicas that stay on brokers to empty have other findings.
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
        yield Finding(
            FindingCode.BAND,
            when,
            cause=cause,
            broker_id=int(brokers.ids[b]),
            resource=resource,
            amount=float(after[b, d]),
            limit=float(end),
            facts={**why, "width": float(widths[b, d]), "widest": float(widest[d])},
        )
