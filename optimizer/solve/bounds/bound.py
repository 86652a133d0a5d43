"""Lower bounds on the bytes that any plan as balanced as this one must copy; the largest is the certificate.

forced
    Replicas that must be copied: those on brokers to empty or outside their pin, those over the rack caps, and those
    missing to the replication factor or to a rack's least number.
flow
    Brokers above their disk band must shed the difference, brokers below must receive it; the larger sum counts. If
    replication factors change, the bytes shed are corrected by the difference of the sums of all disks.
lagrangian
    For any prices pi of load per broker and resource: ``sum_p min_T (bytes(T) + sum_{b in T} pi_b . w_p) - sum_b
    (pi+ . upper - pi- . lower)``. The minimum is over replica sets T that meet pins and the rack rule. By weak duality
    the bound is valid for *any* prices; ``certificate`` says where they come from. It is separable by partition, so one
    pass over the partitions computes it (``terms``). The bands of one broker may be kept whole instead of priced
    (``tighter_bounds``).

If the plan itself breaks a rule for a partition because nothing better exists (a replica on a broker to empty or
outside its pin, a broken rack rule), the partition's term is the smaller of the least cost that meets the rules and the
plan's own cost. A smaller term keeps the bound valid.

If the plan leaves brokers outside their bands, the bands are widened to the loads that the plan reached. The bound then
says: no plan that is at least as balanced, broker by broker, copies fewer bytes.

References
----------
A. M. Geoffrion, Lagrangean relaxation for integer programming, Mathematical Programming Study 2 (1974).
M. L. Fisher, The Lagrangian relaxation method for solving integer programming problems, Management Science 27 (1981).
"""

import numpy as np

from optimizer.domain import FORCED_ONLY, Bands, Brokers, Floats, Ints, Partitions, only_in
from optimizer.solve.rules.mobility import may_repair_racks, stays
from optimizer.solve.rules.pins import PinGroups, group_by_pins, must_leave, rack_rule
from optimizer.solve.rules.racks import rack_histogram
from optimizer.solve.rules.resources import DISK


def widen(bands: Bands, after: Floats) -> Bands:
    """Bands widened to include the loads of a plan."""
    return Bands(bands.resources, np.minimum(bands.lower, after), np.maximum(bands.upper, after))


def copies_of(before: Ints, after: Ints) -> Ints:
    """Copies of each partition: replicas on brokers that held none before, (P,) (formula 14 of docs/solver.md)."""
    return np.asarray(only_in(after, before).sum(axis=1))


def copied_bytes(brokers: Brokers, partitions: Partitions, after: Ints) -> Ints:
    """Bytes that the copies of each partition transfer, by their targets, (P,) (formula 14 of docs/solver.md)."""
    copies = only_in(after, partitions.replicas)
    return np.asarray((partitions.bytes_to(brokers.skips_tiered[after]) * copies).sum(axis=1))


def least_copy_bytes(brokers: Brokers, partitions: Partitions) -> Ints:
    """Least bytes of one copy of each partition to any broker that may get one, (P,)."""
    any_skips = np.array([(brokers.skips_tiered & brokers.accepts_replicas).any()])
    return partitions.bytes_to(any_skips)[:, 0]


def tiered_bytes(brokers: Brokers, partitions: Partitions, reached: Ints) -> Ints:
    """Most bytes that copies of each partition can be smaller than its replicas, (P,): in any plan."""
    most = np.maximum(partitions.replication_factor, (reached >= 0).sum(axis=1))
    return np.asarray(most * (partitions.size_bytes - least_copy_bytes(brokers, partitions)))


def forced_bytes(brokers: Brokers, partitions: Partitions, reached: Ints) -> Ints:
    """Bytes that each partition must copy in any plan, (P,) (formula 16 of docs/solver.md).

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
    copies = np.minimum(copies, copies_of(partitions.replicas, reached))
    return np.asarray(copies * least_copy_bytes(brokers, partitions))


def rack_limits(brokers: Brokers, partitions: Partitions, groups: PinGroups) -> tuple[Ints, Ints, Ints]:
    """Most and least replicas of each partition in a rack, (P,) each, and brokers of each rack by group, (G, R).

    Partitions with racks that the plan may not repair have no limits.
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
        Before and after the plan. The difference of their sums comes from changed replication factors.
    """
    grown = after[:, DISK].sum() - loads[:, DISK].sum()
    shed = np.maximum(loads[:, DISK] - bands.upper[:, DISK], 0).sum() + grown
    take = np.maximum(bands.lower[:, DISK] - loads[:, DISK], 0).sum()
    return int(max(shed, take))


def flow_prices(loads: Floats, bands: Bands) -> Floats:
    """Prices at which the Lagrangian is about ``flow_bytes``, in bytes per absolute unit, (B, D).

    Only disk has a price: 1 on brokers that must shed, or -1 on brokers that must receive, whichever are more bytes.
    """
    shed = np.maximum(loads[:, DISK] - bands.upper[:, DISK], 0)
    take = np.maximum(bands.lower[:, DISK] - loads[:, DISK], 0)
    prices = np.zeros_like(loads)
    prices[:, DISK] = shed > 0 if shed.sum() >= take.sum() else -1.0 * (take > 0)
    return prices


def band_price(prices: Floats, bands: Bands) -> float:
    """The price of the bands: the constant of the Lagrangian (formula 18 of docs/solver.md)."""
    upper = np.where(np.isfinite(bands.upper), bands.upper, 0.0)
    rising = np.where(np.isfinite(bands.upper), np.maximum(prices, 0), 0.0)
    return float((rising * upper).sum() - (np.maximum(-prices, 0) * bands.lower).sum())


def usable_prices(prices: Floats, bands: Bands) -> Floats:
    """Prices without those of absent bands: an infinite upper end can't have a price."""
    return np.where(np.isfinite(bands.upper), prices, np.minimum(prices, 0.0))
