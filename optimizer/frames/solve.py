"""Stage solve: instance -> proposal, moves, leaders, leader_bounds, shard_results, bounds, curve, findings.

Rounds of disjoint shards until every band holds and nothing is left to mend, then leaders, then the bounds. Brokers
and their loads (a row per broker) are small and live on the driver; partitions never do.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql import types as T

import schemas
from optimizer.domain import Bands, Brokers, Floats
from optimizer.frames.certificate import bound_rows
from optimizer.frames.cluster import to_brokers
from optimizer.frames.finish import ClusterFacts, finish
from optimizer.frames.pin_start import started
from optimizer.frames.rounds import ClusterRound, apply_moves, broker_loads_now, solve_shards
from optimizer.settings import Settings
from optimizer.solve.assemble import ClusterFrame
from optimizer.solve.bands import DISK, Demand, bands_for, load_scale
from optimizer.solve.proposal import Finding
from optimizer.solve.shard_solver import CURVE_PRICES, FAILED, PLAN_PRICES, CurvePoint, Search
from optimizer.solve.sharding import make_shards, replicas_stay_in_racks, seed_of, shard_counts
from optimizer.stages import Frames, Run

SETTLED = 1e-9


@dataclass
class ClusterState:
    """What the driver knows of one cluster while it is solved."""

    brokers: Brokers
    demand: Demand
    limits: Bands
    scale: Floats
    loads_before: Floats
    loads: Floats
    prices: Floats
    open: bool = True
    to_mend: bool = True
    balanced: bool = False
    balanced_within: bool = False
    unsettled: bool = False
    curve: list[CurvePoint] = field(default_factory=list)
    search_bytes: int | None = None


def _demands(placement: DataFrame) -> dict[str, Demand]:
    """Demand of each cluster by replication factor."""
    sums = placement.groupBy("cluster_id", "replication_factor").agg(
        F.count("*").alias("n"), F.sum("size_bytes").alias("size"), F.sum("in_bytes_per_s").alias("in")
    )
    rows: dict[str, list[Row]] = {}
    for row in sums.orderBy("cluster_id", "replication_factor").collect():
        rows.setdefault(row.cluster_id, []).append(row)
    return {
        cluster_id: Demand(
            np.array([r.replication_factor for r in group], dtype=np.int64),
            np.array([(r.n, r.size, r["in"]) for r in group], dtype=np.float64),
        )
        for cluster_id, group in rows.items()
    }


def read_brokers(table: DataFrame) -> dict[str, Brokers]:
    """Brokers of each cluster, from ``instance_brokers``."""
    frame = table.toPandas()
    return {str(cluster_id): to_brokers(rows) for cluster_id, rows in frame.groupby("cluster_id", sort=True)}


def _states(placement: DataFrame, brokers: dict[str, Brokers], settings: Settings) -> dict[str, ClusterState]:
    loads = broker_loads_now(placement, brokers)
    states = {}
    for cluster_id, demand in _demands(placement).items():
        hosts, now = brokers[cluster_id], loads[cluster_id]
        limits = bands_for(hosts, demand, now, settings.policy)
        scale = load_scale(hosts, demand)
        states[cluster_id] = ClusterState(hosts, demand, limits, scale, now, now, np.zeros_like(now))
    return states


def _search(state: ClusterState, settings: Settings) -> Search:
    """The prices on moves that are tried: the policy's, or a few; on smaller clusters the first round has the curve."""
    policy = settings.policy
    if policy.move_price > 0:
        return Search((policy.move_price,), policy.bytes_tolerance)
    curve = not state.balanced and len(state.brokers) <= settings.solver.curve_brokers
    return Search(CURVE_PRICES if curve else PLAN_PRICES, policy.bytes_tolerance)


def _task(state: ClusterState, settings: Settings, cluster_id: str, number: int, first: int) -> ClusterRound:
    """How a cluster is cut in a round.

    Where replicas stay in racks, shards are of one rack: first what must change racks is mended in shards over all
    racks, and a round over all racks also follows one that left a band broken.
    """
    within = replicas_stay_in_racks(state.brokers, state.demand.replication_factor)
    mends = within and state.to_mend
    within = within and not mends and not (state.balanced_within and state.unsettled)
    knobs = settings.solver
    size = knobs.rack_shard_brokers if within else knobs.shard_brokers
    shard = make_shards(
        state.brokers,
        state.loads,
        state.limits,
        state.scale,
        counts=shard_counts(state.brokers, shard_brokers=size, within_racks=within),
        seed=seed_of(knobs.seed, cluster_id, number),
    )
    state.balanced_within = within
    frame = ClusterFrame(state.brokers, state.limits, state.loads, state.scale)
    return ClusterRound(frame, shard + first, number, mends, _search(state, settings))


def _tasks(states: dict[str, ClusterState], settings: Settings, number: int) -> dict[str, ClusterRound]:
    """Shards of the open clusters, numbered over the fleet."""
    tasks, first = {}, 0
    for cluster_id, state in states.items():
        if state.open:
            tasks[cluster_id] = _task(state, settings, cluster_id, number, first)
            first = int(tasks[cluster_id].shard.max()) + 1
    return tasks


def curve_of(statuses: list[Row], bytes_per_load: float) -> list[CurvePoint]:
    """Points of all shards of a round added up by price, where every shard has one; ``cost`` in bytes."""
    sums: dict[float, list[float]] = {}
    tried = [{p.move_price for p in row.curve} for row in statuses if row.curve]
    everywhere = set.intersection(*tried) if tried else set()
    for point in (p for row in statuses for p in row.curve if p.move_price in everywhere):
        total = sums.setdefault(point.move_price, [0, 0.0, 0.0])
        for i, value in enumerate((point.moves, point.cost * bytes_per_load, point.violation)):
            total[i] += value
    return [CurvePoint(price, int(n), cost, violation) for price, (n, cost, violation) in sorted(sums.items())]


def _curve_rows(states: dict[str, ClusterState], run: Run) -> list[dict[str, object]]:
    return [
        {
            "cluster_id": cluster_id,
            "run_id": run.run_id,
            "move_price": point.move_price,
            "moves": point.moves,
            "moved_bytes": round(point.cost),
            "violation": point.violation,
        }
        for cluster_id, state in states.items()
        for point in state.curve
    ]


def _close(state: ClusterState, statuses: list[Row], task: ClusterRound) -> None:
    """Note the prices of the first balancing round, and whether the cluster needs another round."""
    moved = any(r.moves for r in statuses)
    if task.mends:
        state.to_mend = moved and any(r.disordered for r in statuses)
        return
    if not state.balanced:
        for row in (r for r in statuses if r.prices):
            at = np.searchsorted(state.brokers.ids, row.broker_ids)
            state.prices[at] = np.array(row.prices).reshape(len(at), -1)
        state.curve = curve_of(statuses, state.scale[DISK])
    state.balanced = True
    searched = [r.search_bytes for r in statuses if r.search_bytes is not None]
    state.search_bytes = max(searched, default=state.search_bytes)
    outside = sum(r.violation_after for r in statuses) > SETTLED
    stranded = bool(state.loads[state.brokers.must_empty].any())
    failed = any(r.status == FAILED for r in statuses)
    state.unsettled = outside or stranded or failed or any(r.disordered for r in statuses)
    state.open = state.unsettled and (failed or moved or state.balanced_within)


def _rounds(placement: DataFrame, states: dict[str, ClusterState], run: Run) -> tuple[DataFrame, list[tuple[int, Row]]]:
    """Run the rounds; returns the final placement and (round, status row) of every shard.

    A partition makes one move a round, so there may be as many more rounds as the largest replication factor.
    """
    results: list[tuple[int, Row]] = []
    most = max((int(s.demand.replication_factor.max()) for s in states.values()), default=1)
    for number in range(run.settings.solver.rounds + most):
        tasks = _tasks(states, run.settings, number)
        if not tasks:
            break
        solved = solve_shards(placement, tasks).localCheckpoint()
        statuses = solved.where("kind = 'status'").orderBy("shard").collect()
        results.extend((number, row) for row in statuses)
        if any(row.moves for row in statuses):
            placement = apply_moves(placement, solved).localCheckpoint()
            loads = broker_loads_now(placement, {c: s.brokers for c, s in states.items()})
            for cluster_id, state in states.items():
                state.loads = loads[cluster_id]
        for cluster_id in tasks:
            _close(states[cluster_id], [r for r in statuses if r.cluster_id == cluster_id], tasks[cluster_id])
    return placement, results


def _acceptable(placement: DataFrame, states: dict[str, ClusterState]) -> DataFrame:
    """Give partitions that still name a broker which is not live their old list: Kafka's tool would refuse a new
    one."""
    keeps = F.lit(False)
    for cluster_id, state in states.items():
        gone = [F.lit(int(b)).cast("int") for b in state.brokers.ids[~state.brokers.is_live]]
        if gone:
            keeps = keeps | ((F.col("cluster_id") == cluster_id) & F.arrays_overlap("current", F.array(*gone)))
    kept = placement.withColumn("current", F.when(keeps, F.col("replicas")).otherwise(F.col("current")))
    loads = broker_loads_now(kept, {c: s.brokers for c, s in states.items()})
    for cluster_id, state in states.items():
        state.loads = loads[cluster_id]
    return kept


def _failures(results: list[tuple[int, Row]]) -> dict[str, list[Finding]]:
    """Shards that failed, as findings of their clusters."""
    found: dict[str, list[Finding]] = {}
    for number, row in results:
        if row.status == FAILED:
            detail = f"a shard of {row.brokers} brokers failed and left its replicas where they are: {row.message}"
            subject = f"shard {row.shard} of round {number}"
            finding = Finding(
                "shard_failed", subject, "after", detail, "see shard_results; report it with the run's tables"
            )
            found.setdefault(row.cluster_id, []).append(finding)
    return found


def _shard_rows(results: list[tuple[int, Row]], run: Run) -> Iterator[dict[str, object]]:
    names = [c.name for c in schemas.ALL["shard_results"].columns]
    firsts: dict[tuple[int, str], int] = {}
    for number, row in results:
        first = firsts.setdefault((number, row.cluster_id), row.shard)
        values = {**row.asDict(), "run_id": run.run_id, "round": number, "shard_id": row.shard - first}
        yield {name: values[name] for name in names}


def _frame(rows: list[dict[str, object]], table: str, run: Run) -> DataFrame:
    """A small frame of driver rows, typed by the contract."""
    schema = T.StructType([T.StructField(c.name, c.dataType, True) for c in schemas.ALL[table].columns])
    names = schema.fieldNames()
    return run.spark.createDataFrame([tuple(row[name] for name in names) for row in rows], schema)


def build(inputs: Frames, run: Run) -> Frames:
    """Solve every cluster of the run.

    Parameters
    ----------
    inputs : mapping
        ``instance`` and ``instance_brokers``.

    Returns
    -------
    mapping
        ``proposal, moves, leaders, leader_bounds, shard_results, bounds, curve, findings``.
    """
    brokers = read_brokers(inputs["instance_brokers"])
    start = inputs["instance"].drop("run_id").withColumn("current", F.col("replicas")).localCheckpoint()
    states = _states(start, brokers, run.settings)
    if any(state.brokers.pins for state in states.values()):
        start = started(start, states).localCheckpoint()
        for cluster_id, loads in broker_loads_now(start, brokers).items():
            states[cluster_id].loads = loads
    placement, results = _rounds(start, states, run)
    if not all(state.brokers.is_live.all() for state in states.values()):
        placement = _acceptable(placement, states).localCheckpoint()
    failed = _failures(results)
    frames = {
        cluster_id: ClusterFacts(s.brokers, s.limits, s.loads_before, s.loads, tuple(failed.get(cluster_id, ())))
        for cluster_id, s in states.items()
    }
    finished = finish(placement, frames, run)
    bounds = bound_rows(placement, states, run)
    shard_rows = list(_shard_rows(results, run))
    return {
        **finished,
        "shard_results": _frame(shard_rows, "shard_results", run),
        "bounds": _frame(bounds, "bounds", run),
        "curve": _frame(_curve_rows(states, run), "curve", run),
    }


__all__ = ["ClusterState", "build", "read_brokers"]
