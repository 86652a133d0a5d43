"""Preferred leaders over chosen replica sets: min-cost flow on counts, then transfers priced for bytes out.

Each partition sends one unit through one of its replicas' brokers to the sink::

    minimise    sum_pb change_pb f_pb - REWARD sum_b (units up to lower_b) + REWARD sum_b (units over upper_b)
    subject to  one unit leaves every partition; f over the partition's replicas that may lead

change_pb is 0 where b is the preferred leader now and 1 elsewhere, so among the best-balanced answers the flow
changes the fewest leaders. Every partition has an arc and the sink takes any number, so the flow is always feasible.
"""

from dataclasses import dataclass

import numpy as np
from ortools.graph.python import min_cost_flow

from optimizer.domain import FORCED_ONLY, FREE, Bools, Brokers, Floats, Ints, Partitions
from optimizer.solve.bands import leader_loads, pour

REWARD = 1000
VIOLATION = 1e4
STEPS = 2000


@dataclass(frozen=True)
class LeaderBands:
    """Bands of leaders and bytes out per second, (B, 2) each, and the mean load of a broker that may lead, (2,)."""

    lower: Floats
    upper: Floats
    scale: Floats


def leader_bands(
    brokers: Brokers, replicas: Ints, partitions: Partitions, *, leaders_band: float, out_band: float
) -> LeaderBands:
    """Bands around the mean over brokers that may lead; whole numbers for the count."""
    may = brokers.accepts_leadership & np.isin(np.arange(len(brokers)), replicas)
    total = leader_loads(len(brokers), replicas, partitions).sum(axis=0)
    weight = may.astype(np.float64)
    most = np.bincount(replicas[replicas >= 0], minlength=len(brokers)).astype(np.float64)
    count = pour(total[0], weight, np.zeros(len(brokers)), most)
    out = weight * total[1] / max(int(may.sum()), 1)
    mean = np.stack([count, out], axis=1)
    width = np.array([leaders_band, out_band])
    lower, upper = mean * (1 - np.minimum(width, 1)), mean * (1 + width)
    lower[:, 0] = np.minimum(np.ceil(lower[:, 0] - 1e-9), np.floor(mean[:, 0]))
    upper[:, 0] = np.maximum(np.floor(upper[:, 0] + 1e-9), np.ceil(mean[:, 0]))
    scale = np.maximum(total / max(int(may.sum()), 1), 1.0)
    return LeaderBands(lower, upper, scale)


def may_lead(brokers: Brokers, replicas: Ints, partitions: Partitions) -> Bools:
    """Which slots may lead, (P, W).

    Brokers that accept leadership; the first slot alone where none does, where the partition may not be reordered, or
    where its list names a broker that is not live, which Kafka's tool would refuse.
    """
    held = replicas >= 0
    host = np.maximum(replicas, 0)
    may = held & brokers.accepts_leadership[host]
    same = (replicas == partitions.replicas).all(axis=1)
    first_stays = (replicas[:, 0] == partitions.replicas[:, 0]) & may[:, 0]
    frozen = (partitions.mobility != FREE) & same
    frozen |= (partitions.mobility == FORCED_ONLY) & first_stays
    stuck = ~may.any(axis=1) | frozen | (held & ~brokers.is_live[host]).any(axis=1)
    may[stuck] = False
    may[stuck, 0] = True
    return may


def _flow(n_brokers: int, row: Ints, slot: Ints, host: Ints, change: Ints, limits: LeaderBands, n: int) -> Ints:
    """Chosen slot of each partition, (P,)."""
    low = limits.lower[:, 0].astype(np.int64)
    span = limits.upper[:, 0].astype(np.int64) - low
    brokers_at = n + np.arange(n_brokers)
    sink = n + n_brokers
    tails = np.concatenate([row, np.tile(brokers_at, 3)])
    heads = np.concatenate([n + host, np.full(3 * n_brokers, sink)])
    capacity = np.concatenate([np.ones(len(row), dtype=np.int64), low, span, np.full(n_brokers, n)])
    cost = np.concatenate(
        [change, np.full(n_brokers, -REWARD), np.zeros(n_brokers, dtype=np.int64), np.full(n_brokers, REWARD)]
    )
    solver = min_cost_flow.SimpleMinCostFlow()
    arcs = solver.add_arcs_with_capacity_and_unit_cost(tails, heads, capacity, cost)
    solver.set_nodes_supplies(
        np.arange(sink + 1), np.r_[np.ones(n, dtype=np.int64), np.zeros(n_brokers, dtype=np.int64), -n]
    )
    status = solver.solve()
    if status != solver.OPTIMAL:
        raise ArithmeticError(f"min-cost flow of {n} leaders ended with status {status}")
    used = solver.flows(arcs[: len(row)]) > 0
    chosen = np.zeros(n, dtype=np.int64)
    chosen[row[used]] = slot[used]
    return chosen


def _outside(loads: Floats, limits: LeaderBands, at: Ints) -> Floats:
    over = np.maximum(loads - limits.upper[at], 0) + np.maximum(limits.lower[at] - loads, 0)
    return np.asarray((over / limits.scale).sum(axis=1))


def _repair(replicas: Ints, chosen: Ints, may: Bools, changed: Floats, weight: Floats, limits: LeaderBands) -> None:
    """Hand leadership over, one partition at a time, while the bands of count and bytes out come closer."""
    rows = np.arange(len(replicas))
    loads = np.zeros_like(limits.lower)
    np.add.at(loads, replicas[rows, chosen], weight)
    row, slot = np.nonzero(may)
    host = replicas[row, slot]
    for _ in range(STEPS):
        at = replicas[row, chosen[row]]
        bad = _outside(loads, limits, np.arange(len(loads))) > 1e-9
        i = np.flatnonzero((slot != chosen[row]) & (bad[at] | bad[host]))
        if not len(i):
            return
        a, b, w = at[i], host[i], weight[row[i]]
        gain = (
            _outside(loads[a] - w, limits, a)
            + _outside(loads[b] + w, limits, b)
            - _outside(loads[a], limits, a)
            - _outside(loads[b], limits, b)
        )
        gain = VIOLATION * gain + changed[row[i], slot[i]] - changed[row[i], chosen[row[i]]]
        better = np.flatnonzero(gain < -1e-6)
        if not len(better):
            return
        used = np.zeros(len(loads), dtype=bool)
        for j in better[np.lexsort((better, gain[better]))][:1000]:
            if not (used[a[j]] or used[b[j]]):
                used[a[j]] = used[b[j]] = True
                loads[a[j]] -= w[j]
                loads[b[j]] += w[j]
                chosen[row[i[j]]] = slot[i[j]]


def assign_leaders(
    brokers: Brokers, partitions: Partitions, replicas: Ints, *, leaders_band: float, out_band: float
) -> Ints:
    """Slot of the preferred leader of each partition in ``replicas``, (P,).

    Parameters
    ----------
    partitions : Partitions
        ``replicas`` as before the plan: its first column is the preferred leader now.
    replicas : (P, W) int64
        Chosen replicas, broker indices padded with -1.
    """
    n = len(partitions)
    if n == 0:
        return np.zeros(0, dtype=np.int64)
    limits = leader_bands(brokers, replicas, partitions, leaders_band=leaders_band, out_band=out_band)
    may = may_lead(brokers, replicas, partitions)
    changed = (replicas != partitions.replicas[:, :1]).astype(np.float64)
    row, slot = np.nonzero(may)
    chosen = _flow(len(brokers), row, slot, replicas[row, slot], changed[row, slot].astype(np.int64), limits, n)
    followers = (replicas >= 0).sum(axis=1) - 1
    out = partitions.out_bytes_per_s + followers * partitions.in_bytes_per_s
    weight = np.stack([np.ones(n), out.astype(np.float64)], axis=1)
    _repair(replicas, chosen, may, changed, weight, limits)
    return chosen


def lead_with(replicas: Ints, slot: Ints) -> Ints:
    """Replica lists with the chosen slot first and the others in their order, (P, W)."""
    order = np.argsort(np.where(np.arange(replicas.shape[1])[None, :] == slot[:, None], -1, 0), axis=1, kind="stable")
    return np.take_along_axis(replicas, order, axis=1)
