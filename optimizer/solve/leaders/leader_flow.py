"""Which brokers may lead which partitions, and the min-cost flow that chooses.

References
----------
A. V. Goldberg, An efficient implementation of a scaling minimum-cost flow algorithm, Journal of Algorithms 22 (1997).
"""

from dataclasses import dataclass, replace

import numpy as np
from ortools.graph.python import min_cost_flow

from optimizer.domain import Bands, Bools, Floats, Ints
from optimizer.solve.rules.bands import excess, is_outside

PRICE_UNITS = 10**6  # whole units for one change: a flow needs whole costs
# OR-Tools rejects costs that overflow 64 bits when multiplied by the number of nodes; the rest is spare for its sums.
LARGEST_COST = 2**59
CROWD_CHAINS = 4  # one leader above a topic's limit costs as much as this many chains of changes


@dataclass(frozen=True)
class LeaderBands:
    """Bands of leaders and of bytes out per second.

    Parameters
    ----------
    lower, upper : (B, 2) float64
    mean : (B, 2) float64
        The share of each broker, around which its band is.
    scale : (2,) float64
        Mean load of a broker that may lead.
    """

    lower: Floats
    upper: Floats
    mean: Floats
    scale: Floats

    def widened(self, loads: Floats) -> "LeaderBands":
        """Bands widened to include these loads, (B, 2)."""
        return replace(self, lower=np.minimum(self.lower, loads), upper=np.maximum(self.upper, loads))

    def excess(self, loads: Floats) -> Floats:
        """Load above (positive) or below (negative) the bands, (B, 2); ends of bands are rounded to whole numbers."""
        return excess(loads, self._whole)

    def is_outside(self, loads: Floats) -> Bools:
        """Whether a load counts as outside these bands, (B, 2)."""
        return is_outside(loads, self._whole)

    @property
    def _whole(self) -> Bands:
        return Bands((), np.floor(self.lower), np.ceil(self.upper))


@dataclass(frozen=True)
class LeaderChoices:
    """Arcs from partitions to brokers that may lead them, ascending by partition and slot.

    Each partition has at least one arc.

    Parameters
    ----------
    row, slot, host : (A,) int64
    change : (A,) int64
        1 if another broker is the preferred leader now.
    out : (P,) int64
        Bytes out per second of the leader: to consumers and followers.
    bands : LeaderBands
    crowd : (A,) int64
        Number of the arc's (topic, broker) pair if the topic has a leader limit; else -1.
    most : (C,) int64
        Leader limit of each such pair.
    """

    row: Ints
    slot: Ints
    host: Ints
    change: Ints
    out: Ints
    bands: LeaderBands
    crowd: Ints
    most: Ints

    def __len__(self) -> int:
        return len(self.out)

    @property
    def first(self) -> Ints:
        """First arc of each partition, (P,)."""
        return np.searchsorted(self.row, np.arange(len(self)))

    @property
    def weight(self) -> Floats:
        """Leaders (1) and bytes out of each arc, (A, 2)."""
        return np.stack([np.ones(len(self.row)), self.out[self.row].astype(np.float64)], axis=1)

    def chain(self, highest: int) -> int:
        """More than any chain of hand-overs can cost, if no arc costs more than ``highest``.

        A chain visits each broker and each (topic, broker) pair at most once.
        """
        longest = min(len(self.bands.lower) + len(self.most), len(self)) + 1
        return 1 + 2 * longest * highest

    def priced(self, prices: Floats) -> tuple[Ints, int]:
        """Cost of each arc in whole units, (A,): changes plus the price of bytes out; and the units of one change.

        Costs are rounded down. One change is PRICE_UNITS, or fewer if the flow's costs would be too large. Prices,
        (B,), are in changes per mean broker load.
        """
        cost = self.change + prices[self.host] * (self.out[self.row] / self.bands.scale[1])
        nodes = len(self) + len(self.bands.lower) + len(self.most) + 1
        highest = int(np.ceil(np.abs(cost).max(initial=1)))
        units = max(1, min(PRICE_UNITS, LARGEST_COST // (CROWD_CHAINS * nodes * self.chain(highest))))
        return np.floor(units * cost).astype(np.int64), units


def host_loads(choices: LeaderChoices, arc: Ints) -> Floats:
    """Leaders and bytes out of each broker if partitions use these arcs, (B, 2)."""
    n = len(choices.bands.lower)
    counts = np.bincount(choices.host[arc], minlength=n).astype(np.float64)
    return np.stack([counts, np.bincount(choices.host[arc], choices.out, n)], axis=1)


def crowd_counts(choices: LeaderChoices, arc: Ints) -> Ints:
    """Leaders of each (topic, broker) pair with a limit if partitions use these arcs, (C,)."""
    of = choices.crowd[arc]
    return np.bincount(of[of >= 0], minlength=len(choices.most))


def _solved(network: tuple[Ints, Ints, Ints], cost: Ints, supply: Ints) -> tuple[min_cost_flow.SimpleMinCostFlow, Ints]:
    solver = min_cost_flow.SimpleMinCostFlow()
    arcs = solver.add_arcs_with_capacity_and_unit_cost(*network, cost)
    solver.set_nodes_supplies(np.arange(len(supply)), supply)
    status = solver.solve()
    if status != solver.OPTIMAL:
        raise ArithmeticError(f"min-cost flow of {len(supply)} nodes ended with status {status}")
    return solver, arcs


def _network(choices: LeaderChoices, through: Ints, lower: Ints, upper: Ints, most: int) -> tuple[Ints, Ints, Ints]:
    """Tails, heads and capacities of arcs: partitions to brokers, brokers to the sink (below, inside, above bands)."""
    n, brokers = len(choices), len(lower)
    at = n + np.arange(brokers)
    tails = np.concatenate([choices.row, np.tile(at, 3)])
    heads = np.concatenate([n + choices.host, np.full(3 * brokers, n + brokers)])
    return tails, heads, np.concatenate([through, lower, upper - lower, np.full(brokers, most)])


def _with_crowds(choices: LeaderChoices, network: tuple[Ints, Ints, Ints]) -> tuple[Ints, Ints, Ints]:
    """Add a node for each (topic, broker) pair with a leader limit, with two arcs to its broker: within and over it."""
    tails, heads, capacity = network
    arcs, crowds = len(choices.row), len(choices.most)
    at = len(choices) + len(choices.bands.lower) + 1 + np.arange(crowds)
    joined = np.flatnonzero(choices.crowd >= 0)
    broker = np.zeros(crowds, dtype=np.int64)
    broker[choices.crowd[joined]] = heads[joined]
    onto = heads[:arcs].copy()
    onto[joined] = at[choices.crowd[joined]]
    return (
        np.concatenate([tails, at, at]),
        np.concatenate([onto, heads[arcs:], broker, broker]),
        np.concatenate([capacity, choices.most, np.full(crowds, len(choices))]),
    )


def flow(choices: LeaderChoices, cost: Ints, bands: LeaderBands) -> Ints:
    """The arc of each partition, (P,).

    The flow has the fewest leaders above topic limits, then the least violation of the count's bands, then the least
    cost.

    A unit of violation costs more than any chain of hand-overs. A leader above the limit of its topic costs more than a
    chain that also changes the violation at both ends.
    """
    n, brokers, crowds = len(choices), len(bands.lower), len(choices.most)
    lower, upper = bands.lower[:, 0].astype(np.int64), bands.upper[:, 0].astype(np.int64)
    network = _with_crowds(choices, _network(choices, np.ones(len(choices.row), dtype=np.int64), lower, upper, n))
    chain = choices.chain(int(np.abs(cost).max(initial=1)))
    band_cost = np.repeat(np.array([-chain, 0, chain]), brokers)
    crowd_cost = np.repeat(np.array([0, CROWD_CHAINS * chain]), crowds)
    supply = np.concatenate(
        [np.ones(n, dtype=np.int64), np.zeros(brokers, dtype=np.int64), [-n], np.zeros(crowds, dtype=np.int64)]
    )
    solver, arcs = _solved(network, np.concatenate([cost, band_cost, crowd_cost]), supply)
    return np.flatnonzero(solver.flows(arcs[: len(choices.row)]) > 0)


def least_out_violation(choices: LeaderChoices, lower: Ints, upper: Ints) -> int:
    """Least bytes out per second outside their bands for any leaders; several brokers may share a partition's lead.

    Parameters
    ----------
    lower, upper : (B,) int64
        Whole bytes per second.
    """
    brokers, total = len(lower), int(choices.out.sum())
    network = _network(choices, choices.out[choices.row], lower, upper, total)
    cost = np.concatenate([np.zeros(len(choices.row), dtype=np.int64), np.repeat(np.array([-1, 0, 1]), brokers)])
    supply = np.concatenate([choices.out, np.zeros(brokers, dtype=np.int64), [-total]])
    solver, _ = _solved(network, cost, supply)
    return int(solver.optimal_cost()) + int(lower.sum())
