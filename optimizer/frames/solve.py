"""Stage solve: instance -> proposal, moves, leaders, leader_bounds, shard_results, bounds, curve, findings.

Rounds of disjoint shards until every band holds and nothing is left to mend, then leaders, then the bounds. Brokers
and their loads (a row per broker) are small and live on the driver; partitions never do.
"""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql import types as T

import schemas
from optimizer.domain import Brokers
from optimizer.frames.certificate import bound_rows
from optimizer.frames.cluster import to_brokers
from optimizer.frames.finish import ClusterFacts, finish
from optimizer.frames.limit import within_limits
from optimizer.frames.order import without_left
from optimizer.frames.rounds import apply_moves, broker_loads_now, solve_round
from optimizer.frames.start import started
from optimizer.frames.unexplained import audit_limits
from optimizer.settings import Settings
from optimizer.solve.bands import Demand, bands_for, load_scale
from optimizer.solve.limit_findings import Cut
from optimizer.solve.only import wishes_of
from optimizer.solve.progress import ClusterRound, ClusterState, close_round, next_round
from optimizer.solve.proposal import Finding
from optimizer.solve.shard_solver import FAILED, NOT_SOLVED, OUT_OF_TIME
from optimizer.stages import Frames, Run
from schemas.table import small_frame

DIGITS = 9  # of a violation: less is what sums of floats are off by
TROUBLES = {
    FAILED: (
        "shard_failed",
        "failed",
        "if its process was ended, lower solver.shard_brokers; else report it with the run's tables",
    ),
    OUT_OF_TIME: ("shard_out_of_time", "was out of time", "raise solver.lp_seconds, or lower solver.shard_brokers"),
}


@dataclass(frozen=True)
class _Solved:
    """One shard of a round: its number in its cluster, and its status row."""

    round: int
    shard_id: int
    row: Row


def _demands(placement: DataFrame) -> dict[str, tuple[Demand, bool]]:
    """Demand of each cluster by replication factor, and whether a list is to change its length."""
    resized = F.size("replicas") != F.col("replication_factor")
    sums = placement.groupBy("cluster_id", "replication_factor").agg(
        F.count("*").alias("n"),
        F.sum("size_bytes").alias("size"),
        F.sum("in_bytes_per_s").alias("in"),
        F.max(resized).alias("resized"),
    )
    rows: dict[str, list[Row]] = {}
    for row in sums.orderBy("cluster_id", "replication_factor").collect():
        rows.setdefault(row.cluster_id, []).append(row)
    return {
        cluster_id: (
            Demand(
                np.array([r.replication_factor for r in group], dtype=np.int64),
                np.array([(r.n, r.size, r["in"]) for r in group], dtype=np.float64),
            ),
            any(r.resized for r in group),
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
    for cluster_id, (demand, resized) in _demands(placement).items():
        hosts, now = brokers[cluster_id], loads[cluster_id]
        limits = bands_for(hosts, demand, now, settings.policy)
        scale = load_scale(hosts, demand)
        states[cluster_id] = ClusterState(hosts, demand, limits, scale, now, now, np.zeros_like(now), resized)
    return states


def _tasks(states: dict[str, ClusterState], settings: Settings, number: int) -> dict[str, ClusterRound]:
    """Shards of the open clusters, numbered over the fleet."""
    tasks, first = {}, 0
    for cluster_id, state in states.items():
        if state.open:
            tasks[cluster_id] = next_round(state, settings, cluster_id, number, first)
            first = int(tasks[cluster_id].shard.max()) + 1
    return tasks


def _curve_rows(states: dict[str, ClusterState], run: Run) -> list[dict[str, object]]:
    return [
        {
            "cluster_id": cluster_id,
            "run_id": run.run_id,
            "move_price": point.move_price,
            "moves": point.moves,
            "moved_bytes": round(point.cost),
            "violation": round(point.violation, DIGITS),
        }
        for cluster_id, state in states.items()
        for point in state.curve
    ]


def _note_copies(placement: DataFrame, states: dict[str, ClusterState]) -> None:
    """The copies that clusters have made before they are balanced: by the rounds that mend, and by longer lists."""
    new = F.size(F.array_except("current", "replicas"))
    sums = placement.where(F.col("cluster_id").isin(*states)).groupBy("cluster_id")
    for row in sums.agg(F.sum(new).alias("moves"), F.sum(new * F.col("size_bytes")).alias("bytes")).collect():
        states[row.cluster_id].copied_moves, states[row.cluster_id].copied_bytes = row.moves, row.bytes


def _rounds(placement: DataFrame, states: dict[str, ClusterState], run: Run) -> tuple[DataFrame, list[_Solved]]:
    """Run the rounds; returns the final placement and what became of every shard."""
    results: list[_Solved] = []
    for number in itertools.count():
        tasks = _tasks(states, run.settings, number)
        if not tasks:
            break
        first = {c: states[c] for c, task in tasks.items() if not (task.mends or states[c].balanced)}
        if (number and first) or any(state.resized for state in first.values()):
            _note_copies(placement, first)
        solved = solve_round(placement, tasks)
        statuses = solved.where("kind = 'status'").orderBy("shard").collect()
        results.extend(_Solved(number, row.shard - tasks[row.cluster_id].first, row) for row in statuses)
        if any(row.moves for row in statuses):
            placement = apply_moves(placement, solved).localCheckpoint()
            loads = broker_loads_now(placement, {c: s.brokers for c, s in states.items()})
            for cluster_id, state in states.items():
                state.loads = loads[cluster_id]
        for cluster_id in tasks:
            close_round(states[cluster_id], [r for r in statuses if r.cluster_id == cluster_id], tasks[cluster_id])
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


def _failures(results: Sequence[_Solved]) -> dict[str, list[Finding]]:
    """Shards that failed or were out of time, as findings of their clusters."""
    last = {one.row.cluster_id: one.round for one in results}
    found: dict[str, list[Finding]] = {}
    for one in results:
        if one.row.status in NOT_SOLVED:
            cluster_id = one.row.cluster_id
            rule, what, remedy = TROUBLES[one.row.status]
            left = "where they are" if one.round == last[cluster_id] else "to the next round"
            detail = f"a shard of {one.row.brokers} brokers {what} and left its replicas {left}: {one.row.message}"
            finding = Finding(rule, f"shard {one.shard_id} of round {one.round}", "after", detail, remedy)
            found.setdefault(cluster_id, []).append(finding)
    return found


def _facts(
    states: dict[str, ClusterState], failed: dict[str, list[Finding]], cuts: dict[str, Cut], settings: Settings
) -> dict[str, ClusterFacts]:
    """What the last step needs of each cluster."""
    asked = settings.replication_factors()
    return {
        c: ClusterFacts(
            s.brokers,
            s.limits,
            s.loads_before,
            s.loads,
            failures=tuple(failed.get(c, ())),
            factor_patterns=tuple(one.topics for one in asked.get(c, ())),
            cut=cuts.get(c),
            wishes=wishes_of(settings, c),
            audit=audit_limits(settings, c),
        )
        for c, s in states.items()
    }


def _shard_rows(results: Sequence[_Solved], run: Run) -> Iterator[dict[str, object]]:
    names = [c.name for c in schemas.ALL["shard_results"].columns]
    for one in results:
        values = {**one.row.asDict(), "run_id": run.run_id, "round": one.round, "shard_id": one.shard_id}
        yield {name: values[name] for name in names}


def _frame(rows: list[dict[str, object]], table: str, run: Run) -> DataFrame:
    """A small frame of driver rows, typed by the contract."""
    schema = T.StructType([T.StructField(c.name, c.dataType, True) for c in schemas.ALL[table].columns])
    return small_frame(run.spark, rows, schema)


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
    if any(state.brokers.pins or state.resized for state in states.values()):
        start = started(start, states).localCheckpoint()
        for cluster_id, loads in broker_loads_now(start, brokers).items():
            states[cluster_id].loads = loads
    placement, results = _rounds(start, states, run)
    if not all(state.brokers.is_live.all() for state in states.values()):
        placement = _acceptable(placement, states).localCheckpoint()
    placement, cuts = within_limits(placement, states, run.settings)
    for cluster_id, loads in broker_loads_now(placement, brokers).items() if cuts else ():
        states[cluster_id].loads = loads
    facts = _facts(states, _failures(results), cuts, run.settings)
    finished, left = finish(placement, facts, run)
    if left:
        placement = without_left(placement, left, run).localCheckpoint()
        for cluster_id, loads in broker_loads_now(placement, brokers).items():
            states[cluster_id].loads = loads
        facts = {c: replace(f, after=states[c].loads, left=left.get(c)) for c, f in facts.items()}
        finished, _ = finish(placement, facts, run)
    bounds = bound_rows(placement, states, run)
    shard_rows = list(_shard_rows(results, run))
    return {
        **finished,
        "shard_results": _frame(shard_rows, "shard_results", run),
        "bounds": _frame(bounds, "bounds", run),
        "curve": _frame(_curve_rows(states, run), "curve", run),
    }


__all__ = ["build", "read_brokers"]
