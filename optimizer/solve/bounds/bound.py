"""Lower bounds on the bytes that any plan as balanced as this one must move; the largest is the certificate.

forced
    Replicas on brokers that must empty or outside their pin, and per partition the replicas over the rack caps, as far
    as the replication factor asks for as many, and those that are missing to it or to the least of a rack: each must be
    copied somewhere.
flow
    Brokers above their disk band must shed the difference, brokers below must receive it; whichever sum is larger.
    Where replication factors change, what is shed need not all be copied, or more is: the difference of all disks.
lagrangian
    For any prices pi of load per broker and resource: ``sum_p min_T (bytes(T) + sum_{b in T} pi_b . w_p) - sum_b
    (pi+ . upper - pi- . lower)``, the minimum over replica sets that keep pins and the rack rule. Weak duality: valid
    for *any* prices; separable by partition, so one pass over the partitions certifies it (``terms``). Where the
    prices come from: ``certificate``. The bands of one broker may be kept whole instead of priced (``tighter_bounds``).

If the plan itself breaks a rule for a partition, because nothing better exists (a replica on a broker to empty or
outside its pin, a broken rack), its term is the smaller of the least that keeps the rules and the plan's own cost. A
smaller term keeps the bound valid.

A plan may leave brokers outside their bands. The bands are then widened to what the plan reached, whether or not
another plan would do better, and the bound reads: no plan that is at least as balanced, broker by broker, moves fewer
bytes.

References
----------
A. M. Geoffrion, Lagrangean relaxation for integer programming, Mathematical Programming Study 2 (1974).
M. L. Fisher, The Lagrangian relaxation method for solving integer programming problems, Management Science 27 (1981).
"""

import numpy as np

from optimizer.domain import FORCED_ONLY, Bands, Bools, Brokers, Floats, Ints, Partitions
from optimizer.solve.rules.mobility import may_repair_racks, stays
from optimizer.solve.rules.pins import PinGroups, group_by_pins, must_leave, rack_rule
from optimizer.solve.rules.racks import rack_histogram
from optimizer.solve.rules.resources import DISK


def widen(bands: Bands, after: Floats) -> Bands:
    """Bands that hold the loads of a plan."""
    return Bands(bands.resources, np.minimum(bands.lower, after), np.maximum(bands.upper, after))


def only_in(lists: Ints, others: Ints) -> Bools:
    """Replicas on brokers that other lists of the same partitions do not name, (P, W)."""
    return np.asarray((lists[:, :, None] != others[:, None, :]).all(axis=2) & (lists >= 0))


def copies_of(before: Ints, after: Ints) -> Ints:
    """Copies of each partition: replicas on brokers that held none before, (P,) (formula 14 of docs/solver.md)."""
    return np.asarray(only_in(after, before).sum(axis=1))


def forced_bytes(brokers: Brokers, partitions: Partitions, reached: Ints) -> Ints:
    """Bytes that each partition must copy whatever else happens, (P,) (formula 16 of docs/solver.md).

    Parameters
    ----------
    reached : (P, W) int64
        Replicas after the plan.
    """
    groups = group_by_pins(brokers, partitions.topic)
    leaving = must_leave(brokers, partitions, groups, partitions.replicas)
    cap, floor, sizes = rack_limits(brokers, partitions, groups)
    histogram = rack_histogram(np.where(leaving, -1, partitions.replicas), brokers.rack, len(brokers.rack_names))
    staying = np.minimum(histogram, cap[:, None]).sum(axis=1)
    arriving = np.maximum(np.minimum(floor[:, None], sizes[groups.of]) - histogram, 0).sum(axis=1)
    copies = np.maximum(partitions.replication_factor - staying, arriving)
    copies = np.where(stays(partitions.mobility), 0, copies)
    return np.asarray(np.minimum(copies, copies_of(partitions.replicas, reached)) * partitions.size_bytes)


def rack_limits(brokers: Brokers, partitions: Partitions, groups: PinGroups) -> tuple[Ints, Ints, Ints]:
    """Most and least replicas of each partition in a rack, (P,) each, and brokers of each rack by group, (G, R).

    Of partitions whose racks the plan does not look after nothing is asked.
    """
    rule = rack_rule(brokers, groups, partitions.replication_factor)
    cap = np.where(partitions.mobility == FORCED_ONLY, partitions.replication_factor, rule.cap)
    return cap, np.where(may_repair_racks(partitions.mobility), rule.floor, 0), rule.sizes


def flow_bytes(loads: Floats, bands: Bands, after: Floats) -> int:
    """Bytes that must leave brokers above and be copied, or enter brokers below, their disk band
    (formula 17 of docs/solver.md).

    Parameters
    ----------
    loads, after : (B, D) float64
        Before the plan and after it: their sums tell by how much changed replication factors change the whole.
    """
    grown = after[:, DISK].sum() - loads[:, DISK].sum()
    shed = np.maximum(loads[:, DISK] - bands.upper[:, DISK], 0).sum() + grown
    take = np.maximum(bands.lower[:, DISK] - loads[:, DISK], 0).sum()
    return int(max(shed, take))


def flow_prices(loads: Floats, bands: Bands) -> Floats:
    """Prices that make the Lagrangian about what ``flow_bytes`` says, bytes per absolute unit, (B, D): of disk alone, 1
    on brokers that must shed, or -1 on those that must receive, whichever are more bytes."""
    shed = np.maximum(loads[:, DISK] - bands.upper[:, DISK], 0)
    take = np.maximum(bands.lower[:, DISK] - loads[:, DISK], 0)
    prices = np.zeros_like(loads)
    prices[:, DISK] = shed > 0 if shed.sum() >= take.sum() else -1.0 * (take > 0)
    return prices


def band_price(prices: Floats, bands: Bands) -> float:
    """What the bands are worth at the prices: the constant of the Lagrangian (formula 18 of docs/solver.md)."""
    upper = np.where(np.isfinite(bands.upper), bands.upper, 0.0)
    rising = np.where(np.isfinite(bands.upper), np.maximum(prices, 0), 0.0)
    return float((rising * upper).sum() - (np.maximum(-prices, 0) * bands.lower).sum())


def usable_prices(prices: Floats, bands: Bands) -> Floats:
    """Prices without those of absent bands: an infinite upper end can't be charged."""
    return np.where(np.isfinite(bands.upper), prices, np.minimum(prices, 0.0))
