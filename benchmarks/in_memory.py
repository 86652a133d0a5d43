"""An instance planned without Spark: the same rounds, shards and solver, one shard after the other.

For measurements of the solver alone (``benchmarks.ablations``) and for tests of plans in several shards.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.run import BAND_NAMES
from optimizer.domain import Cluster, Floats, Ints
from optimizer.frames.cluster import to_cluster
from optimizer.frames.cluster_bounds import frame_of, has_wide_gap, may_be_whole
from optimizer.frames.rounds import stable_number
from optimizer.settings import Policy, Settings
from optimizer.solve.assemble import assemble
from optimizer.solve.bands import DISK, bands_for, broker_loads, demand_of, load_scale, replica_weights
from optimizer.solve.bound import band_price, copies_of, flow_bytes, forced_bytes, usable_prices
from optimizer.solve.cluster_prices import cluster_prices
from optimizer.solve.ownership import must_change_racks
from optimizer.solve.pins import group_by_pins
from optimizer.solve.progress import ClusterRound, ClusterState, close_round, next_round
from optimizer.solve.proposal import disorder
from optimizer.solve.search import CurvePoint
from optimizer.solve.shard_solver import mend_shard, solve_shard
from optimizer.solve.start import start
from optimizer.solve.terms import partition_terms
from optimizer.solve.whole_bound import best_whole_bound

MB, KB = 1 << 20, 1 << 10


@dataclass(frozen=True)
class Outcome:
    """A plan and what it took.

    Parameters
    ----------
    replicas : (P, W) int64
        Broker indices after the plan, slot by slot against those before.
    moved_bytes, bound_bytes : int
        The bound is the best of forced, flow and the Lagrangian at the prices of the shards or, where these leave a
        gap, of the cluster.
    violation : float
        Load outside the bands, in mean broker loads.
    cpu_seconds : float
        Of the shards alone.
    curve : tuple of CurvePoint
        Moves against bytes, ``cost`` in bytes.
    """

    replicas: Ints
    moved_bytes: int
    bound_bytes: int
    moves: int
    violation: float
    rounds: int
    shards: int
    cpu_seconds: float
    curve: tuple[CurvePoint, ...]


@dataclass
class _Status:
    """One shard of a round, as ``progress.ShardStatus`` asks."""

    status: str
    moves: int
    disordered: int
    violation_after: float
    objective_bytes: int
    bound_bytes: float | None
    search_bytes: int | None
    broker_ids: Sequence[int]
    prices: Sequence[float]
    curve: Sequence[CurvePoint]


def cluster_of(instance: Mapping[str, Any], name: str) -> Cluster:
    """The cluster of an instance (``benchmarks.generate``)."""
    leaving = set(instance.get("decommission") or [])
    brokers = [
        {
            "broker_id": b["id"],
            "rack": b["rack"],
            "state": "draining" if b["id"] in leaving else "alive",
            "accepts_replicas": b["id"] not in leaving,
            "accepts_leadership": b["id"] not in leaving,
            "must_empty": b["id"] in leaving,
            "disk_capacity_bytes": int(b["disk_capacity_mb"] * MB) if "disk_capacity_mb" in b else None,
            "in_capacity_bytes_per_s": int(b["nw_in_capacity"] * KB) if "nw_in_capacity" in b else None,
            "out_capacity_bytes_per_s": int(b["nw_out_capacity"] * KB) if "nw_out_capacity" in b else None,
            "pinned_topics": [],
        }
        for b in instance["brokers"]
    ]
    partitions = [
        {
            "topic": p["topic"],
            "partition": p["partition"],
            "replicas": p["replicas"],
            "leader": p["leader"],
            "replication_factor": len(p["replicas"]),
            "size_bytes": int(p["size_mb"] * MB),
            "in_bytes_per_s": int(p["nw_in_kbps"] * KB),
            "out_bytes_per_s": int(p["nw_out_kbps"] * KB),
            "mobility": "free",
            "topic_most_replicas": None,
            "topic_most_leaders": None,
        }
        for p in instance["partitions"]
    ]
    return to_cluster(pd.DataFrame(partitions), pd.DataFrame(brokers), name)


def policy_of(instance: Mapping[str, Any], policy: Policy) -> Policy:
    """The policy with the widths of bands that an instance asks for."""
    asked = (instance.get("meta") or {}).get("bands") or {}
    widths: dict[str, Any] = {BAND_NAMES[name]: float(width) for name, width in asked.items() if name in BAND_NAMES}
    return replace(policy, **widths)


def solve(cluster: Cluster, settings: Settings) -> Outcome:
    """Plan a cluster in rounds of shards."""
    partitions, started = cluster.partitions, time.process_time()
    solved = solve_rounds(cluster, settings)
    spent = time.process_time() - started
    copies = copies_of(partitions.replicas, solved.replicas)
    return Outcome(
        replicas=solved.replicas,
        moved_bytes=int((copies * partitions.size_bytes).sum()),
        bound_bytes=best_bound(cluster, solved.state, solved.replicas),
        moves=int(copies.sum()),
        violation=solved.state.violation,
        rounds=solved.rounds,
        shards=solved.shards,
        cpu_seconds=spent,
        curve=tuple(solved.state.curve),
    )


@dataclass(frozen=True)
class Solved:
    """What the rounds leave: their state, broker indices by partition, and how many rounds and shards there were."""

    state: ClusterState
    replicas: Ints
    rounds: int
    shards: int


def solve_rounds(cluster: Cluster, settings: Settings) -> Solved:
    """The rounds alone, from where lists have their length and are inside their pins."""
    brokers, partitions = cluster.brokers, cluster.partitions
    weights, demand = replica_weights(partitions), demand_of(partitions)
    before = broker_loads(len(brokers), partitions.replicas, weights)
    limits, scale = bands_for(brokers, demand, before, settings.policy), load_scale(brokers, demand)
    resized = bool(((partitions.replicas >= 0).sum(axis=1) != partitions.replication_factor).any())
    state = ClusterState(brokers, demand, limits, scale, before, before, np.zeros_like(before), resized=resized)
    current, number, shards = _begun(cluster, state), 0, 0
    state.loads = broker_loads(len(brokers), current, weights)
    while state.open:
        task = next_round(state, settings, cluster.cluster_id, number, 0)
        if not (task.mends or state.balanced):
            copies = copies_of(partitions.replicas, current)
            state.copied_moves, state.copied_bytes = int(copies.sum()), int((copies * partitions.size_bytes).sum())
        statuses = _round(cluster, task, current)
        shards += len(statuses)
        state.loads = broker_loads(len(brokers), current, weights)
        close_round(state, statuses, task)
        number += 1
    return Solved(state, current, number, shards)


def _begun(cluster: Cluster, state: ClusterState) -> Ints:
    """Lists of the length asked for, inside their pins (``frames.start``)."""
    brokers, partitions = cluster.brokers, cluster.partitions
    away = group_by_pins(brokers, partitions.topic).outside(partitions.replicas).any(axis=1)
    wrong = np.flatnonzero(away | ((partitions.replicas >= 0).sum(axis=1) != partitions.replication_factor))
    current = partitions.replicas.copy()
    if len(wrong):
        placed = start(brokers, partitions.rows(wrong), state.limits, state.loads)
        current[wrong] = np.pad(placed, ((0, 0), (0, current.shape[1] - placed.shape[1])), constant_values=-1)
    return current


def _round(cluster: Cluster, task: ClusterRound, current: Ints) -> list[_Status]:
    """Solve the shards of a round; ``current`` becomes the placement after it."""
    brokers, partitions = cluster.brokers, cluster.partitions
    factor = partitions.replication_factor
    tie = stable_number(pd.Series(partitions.topic), pd.Series(partitions.partition))
    shard, owner = task.shards_of(current, factor, tie)
    taking_part = must_change_racks(brokers, current, factor) if task.mends else np.ones(len(factor), dtype=bool)
    start, statuses = current.copy(), []
    for number in range(int(task.shard.max()) + 1):
        members = np.flatnonzero(task.shard == number)
        rows = np.flatnonzero((shard == number).any(axis=1) & taking_part)
        if not len(rows):
            continue
        mine = owner[rows] == number
        problem = assemble(task.frame, members, partitions.rows(rows), start[rows], mine)
        found = mend_shard(problem) if task.mends else solve_shard(problem, task.search)
        current[rows[found.partition], found.slot] = members[found.target]
        left = disorder(brokers, partitions.rows(rows), current[rows])[mine] > 0
        ids, prices = brokers.ids[members].tolist(), found.prices.ravel().tolist()
        per_load = float(task.frame.scale[DISK])
        statuses.append(
            _Status(
                status=found.status,
                moves=len(found.partition),
                disordered=int(left.sum()),
                violation_after=found.violation_after,
                objective_bytes=round(found.cost * per_load),
                bound_bytes=None if found.bound is None else found.bound * per_load,
                search_bytes=found.search_bytes,
                broker_ids=ids,
                prices=prices,
                curve=found.curve,
            )
        )
    return statuses


def best_bound(cluster: Cluster, state: ClusterState, after: Ints) -> int:
    """The best of forced, flow and Lagrangian bounds on the bytes of plans that are as balanced."""
    brokers, partitions = cluster.brokers, cluster.partitions
    frame = frame_of(state)
    limits = frame.bands
    moved = int((copies_of(partitions.replicas, after) * partitions.size_bytes).sum())

    def proven(prices: Floats) -> tuple[float, Floats]:
        usable = usable_prices(prices * state.scale[DISK] / state.scale, limits)
        return partition_terms(brokers, partitions, usable, after).sum() - band_price(usable, limits), usable

    lagrangian, prices = proven(state.prices)
    if has_wide_gap(state, moved, lagrangian):
        of_cluster = proven(cluster_prices(frame, partitions, after))
        lagrangian, prices = max((lagrangian, prices), of_cluster, key=lambda bound: bound[0])
    if may_be_whole(state, moved, lagrangian):
        lagrangian = max(lagrangian, best_whole_bound(frame, partitions, prices, after)[0])
    forced = int(forced_bytes(brokers, partitions, after).sum())
    return max(forced, flow_bytes(state.loads_before, limits, state.loads), int(np.floor(lagrangian)))
