"""Lower bounds on the bytes that any plan within the bands must move; the largest is the certificate.

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
    for *any* prices; separable by partition, so one pass over the partitions certifies it. The prices come from the
    shards' relaxations.

Where a plan leaves a partition as no rule allows - a replica on a broker to empty or outside its pin, a broken rack -
because nothing better exists, its term is taken at the plan's own placement if that is smaller: a smaller term is a
bound too.

A plan may leave brokers outside their bands where no plan can do better; the bands are then widened to what the plan
reached, and the bound reads: no plan that is at least as balanced, broker by broker, moves fewer bytes.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from optimizer.domain import FIXED, FORCED_ONLY, FREE, Bands, Bools, Brokers, Floats, Ints, Partitions
from optimizer.solve.bands import DISK, replica_weights
from optimizer.solve.pins import PinGroups, group_by_pins, must_leave, rack_rule
from optimizer.solve.racks import rack_histogram

FORBIDDEN = 1e30
CHUNK_CELLS = 2_000_000


def widen(limits: Bands, after: Floats) -> Bands:
    """Bands that hold the loads of a plan."""
    return Bands(limits.resources, np.minimum(limits.lower, after), np.maximum(limits.upper, after))


def copies_of(before: Ints, after: Ints) -> Ints:
    """Replicas of each partition on brokers that held none before, (P,)."""
    return np.asarray(((after[:, :, None] != before[:, None, :]).all(axis=2) & (after >= 0)).sum(axis=1))


def forced_bytes(brokers: Brokers, partitions: Partitions, reached: Ints) -> Ints:
    """Bytes that each partition must copy whatever else happens, (P,).

    Parameters
    ----------
    reached : (P, W) int64
        Replicas after the plan.
    """
    groups = group_by_pins(brokers, partitions.topic)
    leaving = must_leave(brokers, partitions, groups, partitions.replicas)
    cap, floor, sizes = _rack_limits(brokers, partitions, groups)
    histogram = rack_histogram(np.where(leaving, -1, partitions.replicas), brokers.rack, len(brokers.rack_names))
    staying = np.minimum(histogram, cap[:, None]).sum(axis=1)
    arriving = np.maximum(np.minimum(floor[:, None], sizes[groups.of]) - histogram, 0).sum(axis=1)
    copies = np.maximum(partitions.replication_factor - staying, arriving)
    copies = np.where(partitions.mobility == FIXED, 0, copies)
    return np.asarray(np.minimum(copies, copies_of(partitions.replicas, reached)) * partitions.size_bytes)


def _rack_limits(brokers: Brokers, partitions: Partitions, groups: PinGroups) -> tuple[Ints, Ints, Ints]:
    """Most and least replicas of each partition in a rack, (P,) each, and brokers of each rack by group, (G, R).

    Of partitions that are not free nothing is asked.
    """
    rule = rack_rule(brokers, groups, partitions.replication_factor)
    cap = np.where(partitions.mobility == FORCED_ONLY, partitions.replication_factor, rule.cap)
    return cap, np.where(partitions.mobility == FREE, rule.floor, 0), rule.sizes


def flow_bytes(loads: Floats, limits: Bands, after: Floats) -> int:
    """Bytes that must leave brokers above and be copied, or enter brokers below, their disk band.

    Parameters
    ----------
    loads, after : (B, D) float64
        Before the plan and after it: their sums tell by how much changed replication factors change the whole.
    """
    grown = after[:, DISK].sum() - loads[:, DISK].sum()
    shed = np.maximum(loads[:, DISK] - limits.upper[:, DISK], 0).sum() + grown
    take = np.maximum(limits.lower[:, DISK] - loads[:, DISK], 0).sum()
    return int(max(shed, take))


def flow_prices(loads: Floats, limits: Bands) -> Floats:
    """Prices that make the Lagrangian about what ``flow_bytes`` says, bytes per absolute unit, (B, D): of disk alone, 1
    on brokers that must shed, or -1 on those that must receive, whichever are more bytes."""
    shed = np.maximum(loads[:, DISK] - limits.upper[:, DISK], 0)
    take = np.maximum(limits.lower[:, DISK] - loads[:, DISK], 0)
    prices = np.zeros_like(loads)
    prices[:, DISK] = shed > 0 if shed.sum() >= take.sum() else -1.0 * (take > 0)
    return prices


def band_price(prices: Floats, limits: Bands) -> float:
    """What the bands are worth at the prices: the constant of the Lagrangian."""
    upper = np.where(np.isfinite(limits.upper), limits.upper, 0.0)
    rising = np.where(np.isfinite(limits.upper), np.maximum(prices, 0), 0.0)
    return float((rising * upper).sum() - (np.maximum(-prices, 0) * limits.lower).sum())


def usable_prices(prices: Floats, limits: Bands) -> Floats:
    """Prices without those of absent bands: an infinite upper limit can't be charged."""
    return np.where(np.isfinite(limits.upper), prices, np.minimum(prices, 0.0))


def partition_terms(brokers: Brokers, partitions: Partitions, prices: Floats, reached: Ints) -> Floats:
    """The Lagrangian's term of each partition, bytes, (P,).

    Parameters
    ----------
    prices : (B, D) float64
        Bytes per absolute unit of load.
    reached : (P, W) int64
        Replicas after the plan.
    """
    weights = replica_weights(partitions)
    groups = group_by_pins(brokers, partitions.topic)
    cap, floor, sizes = _rack_limits(brokers, partitions, groups)
    leaving = must_leave(brokers, partitions, groups, partitions.replicas)
    terms = np.zeros(len(partitions))
    step = max(1, CHUNK_CELLS // max(len(brokers), 1))
    for start in range(0, len(partitions), step):
        rows = slice(start, start + step)
        charge = weights[rows] @ prices.T
        sets = _RackSets(cap[rows], floor[rows], sizes, groups.of[rows])
        terms[rows] = _chunk(brokers, partitions, charge, sets, groups, leaving[rows], rows)
    return np.asarray(np.minimum(terms, _own_terms(partitions, weights, prices, reached)))


def _own_terms(partitions: Partitions, weights: Floats, prices: Floats, reached: Ints) -> Floats:
    """Bytes and prices of the plan's own placement, (P,)."""
    charge = np.where(reached >= 0, np.einsum("pd,pwd->pw", weights, prices[np.maximum(reached, 0)]), 0.0)
    return np.asarray(charge.sum(axis=1) + copies_of(partitions.replicas, reached) * partitions.size_bytes)


def _chunk(
    brokers: Brokers,
    partitions: Partitions,
    charge: Floats,
    sets: "_RackSets",
    groups: PinGroups,
    must_go: Bools,
    rows: slice,
) -> Floats:
    cost = charge + partitions.size_bytes[rows][:, None]
    cost[:, ~brokers.accepts_replicas] = FORBIDDEN
    if groups.any:
        cost[~groups.allowed[groups.of[rows]]] = FORBIDDEN
    replicas, mobility = partitions.replicas[rows], partitions.mobility[rows]
    row, slot = np.nonzero(replicas >= 0)
    host = replicas[row, slot]
    stay = charge[row, host]
    cost[row, host] = np.where(must_go[row, slot], FORBIDDEN, stay)
    home = np.bincount(row, stay, len(replicas))
    frozen = (mobility == FIXED) | ((mobility == FORCED_ONLY) & ~must_go.any(axis=1))
    cheapest = sets.cheapest(cost, brokers.rack, partitions.replication_factor[rows])
    return np.asarray(np.where(frozen | (cheapest >= FORBIDDEN), home, cheapest))


@dataclass(frozen=True)
class _RackSets:
    """The replica sets that the rack rule allows: at most ``cap`` and at least ``floor`` in each rack, as far as its
    brokers go; (P,), (P,), (G, R), and the group of each partition, (P,)."""

    cap: Ints
    floor: Ints
    sizes: Ints
    group: Ints

    def cheapest(self, cost: Floats, rack: Ints, replication_factor: Ints) -> Floats:
        """Cheapest RF hosts of each partition, (P,); cost (P, B)."""
        order = np.argsort(rack, kind="stable")
        edges = np.searchsorted(rack[order], np.arange(int(rack.max(initial=0)) + 2))
        blocks = {r: cost[:, order[a:b]] for r, (a, b) in enumerate(pairwise(edges)) if b > a}
        total = np.zeros(len(cost))
        group = np.where(self.floor > 0, self.group, 0)
        parts = (self.cap, replication_factor, self.floor, group)
        shape = tuple(int(part.max(initial=0)) + 1 for part in parts)
        rules, of = np.unique(np.ravel_multi_index(parts, shape), return_inverse=True)
        for number, (cap, rf, floor, g) in enumerate(zip(*np.unravel_index(rules, shape), strict=True)):
            rows = of == number
            asked = {r: min(floor, int(self.sizes[g, r])) for r in blocks}
            kept = {r: np.sort(_smallest(block[rows], cap), axis=1) for r, block in blocks.items()}
            least = [kept[r][:, :n] for r, n in asked.items() if n]
            rest = np.concatenate([kept[r][:, n:] for r, n in asked.items()], axis=1)
            free = _smallest(rest, rf - sum(asked.values()))
            total[rows] = np.concatenate([*least, free], axis=1).sum(axis=1)
        return total


def _smallest(values: Floats, k: int) -> Floats:
    if k == 0 or values.shape[1] <= k:
        return values[:, :k]
    return values.min(axis=1, keepdims=True) if k == 1 else np.partition(values, k - 1, axis=1)[:, :k]
