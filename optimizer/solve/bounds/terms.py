"""The terms of the Lagrangian bound (``bound``): the cheapest placement of each partition at given prices of load.

References
----------
A. M. Geoffrion, Lagrangean relaxation for integer programming, Mathematical Programming Study 2 (1974).
M. L. Fisher, The Lagrangian relaxation method for solving integer programming problems, Management Science 27 (1981).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from optimizer.domain import FORCED_ONLY, Bools, Brokers, Floats, Ints, Partitions
from optimizer.solve.bounds.bound import copied_bytes, forced_bytes, rack_limits, tiered_bytes
from optimizer.solve.rules.bands import replica_weights
from optimizer.solve.rules.mobility import stays
from optimizer.solve.rules.pins import group_by_pins, must_leave

FORBIDDEN = 1e30  # cost of a broker that may not hold a replica: more than any sum of bytes
CHUNK_CELLS = 2_000_000  # (partition, broker) pairs at a time: 16 MB for each array of them


@dataclass(frozen=True)
class Terms:
    """Sums over partitions of a cluster, in bytes.

    Parameters
    ----------
    moved_bytes : int
        Bytes that the plan copies.
    forced_bytes : int
        Bytes that any plan must copy.
    tiered_bytes : int
        Bytes of replicas that any plan need not copy, because they are in tiered storage.
    lagrangian_bytes : tuple of int
        The terms of the Lagrangian bound, one for each set of prices; each partition's term is rounded down.
    """

    moved_bytes: int
    forced_bytes: int
    tiered_bytes: int
    lagrangian_bytes: tuple[int, ...]


def sum_of_terms(brokers: Brokers, partitions: Partitions, prices: Sequence[Floats], reached: Ints) -> Terms:
    """Sums over some partitions, for several sets of prices; see ``partition_terms``."""
    terms = (partition_terms(brokers, partitions, price_set, reached) for price_set in prices)
    return Terms(
        int(copied_bytes(brokers, partitions, reached).sum()),
        int(forced_bytes(brokers, partitions, reached).sum()),
        int(tiered_bytes(brokers, partitions, reached).sum()),
        tuple(int(np.floor(of_partitions).astype(np.int64).sum()) for of_partitions in terms),
    )


def partition_terms(brokers: Brokers, partitions: Partitions, prices: Floats, reached: Ints) -> Floats:
    """The Lagrangian's term of each partition, bytes, (P,) (formula 18 of docs/solver.md).

    Parameters
    ----------
    prices : (B, D) float64
        Bytes per absolute unit of load.
    reached : (P, W) int64
        Replicas after the plan.
    """
    parts = [part.least() for part in _chunks(brokers, partitions, prices)]
    own = _own_terms(brokers, partitions, prices, reached)
    return np.asarray(np.minimum(np.concatenate([np.zeros(0), *parts]), own))


def split_terms(brokers: Brokers, partitions: Partitions, prices: Floats, reached: Ints, broker: int) -> Floats:
    """The Lagrangian's terms of placements without a broker, and with it, (P, 2); infinite if there is none."""
    terms = np.concatenate([np.zeros((0, 2)), *(part.split(broker) for part in _chunks(brokers, partitions, prices))])
    row, holds = np.arange(len(terms)), (reached == broker).any(axis=1).astype(np.int64)
    terms[row, holds] = np.minimum(terms[row, holds], _own_terms(brokers, partitions, prices, reached))
    return terms


def _own_terms(brokers: Brokers, partitions: Partitions, prices: Floats, reached: Ints) -> Floats:
    """Bytes and prices of the plan's own placement, (P,)."""
    weights = replica_weights(partitions)
    charge = np.where(reached >= 0, np.einsum("pd,pwd->pw", weights, prices[np.maximum(reached, 0)]), 0.0)
    return np.asarray(charge.sum(axis=1) + copied_bytes(brokers, partitions, reached))


@dataclass(frozen=True)
class _Chunk:
    """Some partitions, and the costs of their replicas.

    Parameters
    ----------
    cost : (N, B) float64
        Cost of a replica on each broker: its price, plus its bytes if the broker held none before.
    home : (N,) float64
        Cost of the placement before the plan.
    frozen : (N,) bool
        The partition has no other placement.
    """

    cost: Floats
    home: Floats
    frozen: Bools
    replicas: Ints
    replication_factor: Ints
    rack: Ints
    sets: "_RackSets"

    def least(self) -> Floats:
        """Cost of the cheapest placement, (N,)."""
        cheapest = self.sets.cheapest(self.cost, self.rack, self.replication_factor)
        return np.asarray(np.where(self.frozen | (cheapest >= FORBIDDEN / 2), self.home, cheapest))

    def split(self, broker: int) -> Floats:
        """Cost of the cheapest placement without a broker and with it, (N, 2)."""
        others = self.cost.copy()
        others[:, broker] = FORBIDDEN
        without = self.sets.cheapest(others, self.rack, self.replication_factor)
        rest = self.sets.cheapest(others, self.rack, self.replication_factor - 1, taken=int(self.rack[broker]))
        both = np.stack([without, self.cost[:, broker] + rest], axis=1)
        both[both >= FORBIDDEN / 2] = np.inf
        stays = np.flatnonzero(self.frozen | np.isinf(both).all(axis=1))
        both[stays] = np.inf
        both[stays, (self.replicas[stays] == broker).any(axis=1).astype(np.int64)] = self.home[stays]
        return both


def _chunks(brokers: Brokers, partitions: Partitions, prices: Floats) -> Iterator[_Chunk]:
    weights = replica_weights(partitions)
    groups = group_by_pins(brokers, partitions.topic)
    cap, floor, sizes = rack_limits(brokers, partitions, groups)
    leaving = must_leave(brokers, partitions, groups, partitions.replicas)
    step = max(1, CHUNK_CELLS // max(len(brokers), 1))
    for start in range(0, len(partitions), step):
        rows = slice(start, start + step)
        replicas, mobility, must_go = partitions.replicas[rows], partitions.mobility[rows], leaving[rows]
        charge = weights[rows] @ prices.T
        cost = charge + partitions.rows(np.arange(len(partitions))[rows]).bytes_to(brokers.skips_tiered)
        cost[:, ~brokers.accepts_replicas] = FORBIDDEN
        if groups.any:
            cost[~groups.allowed[groups.of[rows]]] = FORBIDDEN
        row, slot = np.nonzero(replicas >= 0)
        host = replicas[row, slot]
        stay = charge[row, host]
        cost[row, host] = np.where(must_go[row, slot], FORBIDDEN, stay)
        yield _Chunk(
            cost=cost,
            home=np.asarray(np.bincount(row, stay, len(replicas)), dtype=np.float64),
            frozen=stays(mobility) | ((mobility == FORCED_ONLY) & ~must_go.any(axis=1)),
            replicas=replicas,
            replication_factor=partitions.replication_factor[rows],
            rack=brokers.rack,
            sets=_RackSets(cap[rows], floor[rows], sizes, groups.of[rows]),
        )


@dataclass(frozen=True)
class _RackSets:
    """The replica sets that the rack rule allows: at most ``cap`` and at least ``floor`` replicas in each rack.

    Parameters
    ----------
    cap, floor : (P,) int64
    sizes : (G, R) int64
        Brokers of each rack, by group; the floor is no larger.
    group : (P,) int64
    """

    cap: Ints
    floor: Ints
    sizes: Ints
    group: Ints

    def cheapest(self, cost: Floats, rack: Ints, replicas: Ints, taken: int = -1) -> Floats:
        """Cost of the cheapest hosts for some replicas of each partition, (P,).

        Parameters
        ----------
        cost : (P, B) float64
        rack : (B,) int64
        replicas : (P,) int64
            Replicas to place.
        taken : int
            Rack that holds one more replica already; -1 for none.
        """
        order = np.argsort(rack, kind="stable")
        edges = np.searchsorted(rack[order], np.arange(int(rack.max(initial=0)) + 2))
        blocks = {r: cost[:, order[a:b]] for r, (a, b) in enumerate(pairwise(edges)) if b > a}
        total = np.zeros(len(cost))
        group = np.where(self.floor > 0, self.group, 0)
        parts = (self.cap, replicas, self.floor, group)
        shape = tuple(int(part.max(initial=0)) + 1 for part in parts)
        rules, of = np.unique(np.ravel_multi_index(parts, shape), return_inverse=True)
        for number, (cap, count, floor, g) in enumerate(zip(*np.unravel_index(rules, shape), strict=True)):
            rows = of == number
            required = {r: max(min(floor, int(self.sizes[g, r])) - (r == taken), 0) for r in blocks}
            if sum(required.values()) > count:
                total[rows] = FORBIDDEN
                continue
            candidates = {r: np.sort(_smallest(block[rows], cap - (r == taken)), axis=1) for r, block in blocks.items()}
            least = [candidates[r][:, :n] for r, n in required.items() if n]
            rest = np.concatenate([candidates[r][:, n:] for r, n in required.items()], axis=1)
            free = _smallest(rest, count - sum(required.values()))
            total[rows] = np.concatenate([*least, free], axis=1).sum(axis=1)
        return total


def _smallest(values: Floats, k: int) -> Floats:
    if k == 0 or values.shape[1] <= k:
        return values[:, :k]
    return values.min(axis=1, keepdims=True) if k == 1 else np.partition(values, k - 1, axis=1)[:, :k]
