"""One round of the solver in Spark: shards of every cluster, each in a task of its own.

The placement is one row per partition with ``replicas`` (before the plan) and ``current`` (now). A round expands
each partition
to the shards that hold one of its replicas, solves each shard in a grouped pandas function, and applies the moves.
"""

import re
import resource
import time
from collections.abc import Collection, Iterable
from dataclasses import asdict, replace

import numpy as np
import pandas as pd
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from optimizer.domain import Bools, Brokers, Floats, Ints
from optimizer.errors import WorkerGone
from optimizer.frames.cluster import column_names, replica_matrix, to_partitions, with_nulls
from optimizer.solve.assemble import assemble
from optimizer.solve.bands import outside
from optimizer.solve.glop import OutOfTime
from optimizer.solve.ownership import must_change_racks
from optimizer.solve.progress import ClusterRound
from optimizer.solve.proposal import disorder
from optimizer.solve.shard import ShardProblem
from optimizer.solve.shard_solver import FAILED, OUT_OF_TIME, ShardSolution, mend_shard, solve_shard
from optimizer.wishes import NO_LIMIT

PLACEMENT_COLUMNS = (
    "topic string, partition int, replicas array<int>, leader int, replication_factor int, "
    "size_bytes bigint, in_bytes_per_s bigint, out_bytes_per_s bigint, mobility string, "
    "topic_most_replicas int, topic_most_leaders int, current array<int>"
)
SHARD_INPUT = f"shard int, cluster_id string, owner boolean, {PLACEMENT_COLUMNS}"
SHARD_OUTPUT = (
    "shard int, cluster_id string, kind string, topic string, partition int, from_broker int, to_broker int, "
    "status string, message string, brokers int, partitions int, candidates int, moves int, objective_bytes bigint, "
    "bound_bytes double, search_bytes bigint, violation_before double, violation_after double, disordered int, "
    "cpu_seconds double, peak_memory_bytes bigint, broker_ids array<int>, prices array<double>, "
    "curve array<struct<move_price:double,moves:int,cost:double,violation:double>>"
)
# What Spark says when it gives up a task because its Python process was gone each time; a shard has the number of its
# task. An executor that is lost takes checkpoints of other steps along: such a run fails, and can be started again.
_TASK = re.compile(r"Task (\d+) in stage [\d.]+ failed \d+ times")


def stable_number(topic: pd.Series, partition: pd.Series) -> Ints:
    """A number per partition that depends on its name alone."""
    hashed = pd.util.hash_array(topic.to_numpy(dtype=object)) >> np.uint64(33)
    return hashed.astype(np.int64) + partition.to_numpy(dtype=np.int64)


def _to_mend(frame: pd.DataFrame, brokers: Brokers) -> Bools:
    factor = frame["replication_factor"].to_numpy(dtype=np.int64)
    return must_change_racks(brokers, replica_matrix(frame["current"], brokers.ids), factor)


def _expand_cluster(frame: pd.DataFrame, task: ClusterRound) -> pd.DataFrame:
    """Rows of one cluster, once for each shard that holds a replica."""
    brokers = task.frame.brokers
    if task.mends:
        frame = frame[_to_mend(frame, brokers)]
    current = replica_matrix(frame["current"], brokers.ids)
    factor = frame["replication_factor"].to_numpy(dtype=np.int64)
    shard, owner = task.shards_of(current, factor, stable_number(frame["topic"], frame["partition"]))
    ordered = np.sort(shard, axis=1)
    first = np.concatenate([np.ones((len(shard), 1), dtype=bool), ordered[:, 1:] != ordered[:, :-1]], axis=1)
    row, column = np.nonzero(first & (ordered >= 0))
    expanded = frame.iloc[row].copy()
    expanded["shard"] = ordered[row, column]
    expanded["owner"] = ordered[row, column] == owner[row]
    return expanded


def expand(placement: DataFrame, tasks: dict[str, ClusterRound]) -> DataFrame:
    """Partitions of the clusters of this round, once per shard that holds a replica."""
    columns = column_names(SHARD_INPUT)

    def rows(batches: Iterable[pd.DataFrame]) -> Iterable[pd.DataFrame]:
        for batch in batches:
            for cluster_id, frame in batch.groupby("cluster_id", sort=True):
                task = tasks.get(str(cluster_id))
                if task:
                    yield _expand_cluster(frame, task)[columns]

    return placement.mapInPandas(rows, SHARD_INPUT)


def _solve(frame: pd.DataFrame, task: ClusterRound, shard: int) -> tuple[ShardSolution, Ints, pd.DataFrame, int]:
    rows = frame.sort_values(["topic", "partition"], kind="stable").reset_index(drop=True)
    brokers = task.frame.brokers
    partitions = to_partitions(rows, brokers.ids)
    current = replica_matrix(rows["current"], brokers.ids, width=partitions.replicas.shape[1])
    members = np.flatnonzero(task.shard == shard)
    owner = rows["owner"].to_numpy(dtype=bool)
    if task.mends:  # Not every partition of a topic takes part, so nobody knows its spread.
        partitions = replace(partitions, topic_most_replicas=np.full(len(partitions), NO_LIMIT))
    problem = assemble(task.frame, members, partitions, current, owner)
    solution = mend_shard(problem) if task.mends else solve_shard(problem, task.search)
    after = current.copy()
    after[solution.partition, solution.slot] = members[solution.target]
    left = int((disorder(brokers, partitions, after)[owner] > 0).sum()) + _overfull(problem, solution)
    moves = pd.DataFrame(
        {
            "topic": partitions.topic[solution.partition],
            "partition": partitions.partition[solution.partition],
            "from_broker": brokers.ids[current[solution.partition, solution.slot]],
            "to_broker": brokers.ids[members[solution.target]],
        }
    )
    return solution, members, moves, left


def _overfull(problem: ShardProblem, solution: ShardSolution) -> int:
    """Members that hold too many replicas of a topic after the moves, summed over topics."""
    if problem.spread is None:
        return 0
    each = problem.one_row_each()
    hosts = each.hosts.copy()
    hosts[solution.partition, solution.slot] = solution.target
    spread = replace(each, hosts=hosts).spread
    return 0 if spread is None else int((spread.surplus[:, ~problem.must_empty] > 0).sum())


def _status_row(task: ClusterRound, solution: ShardSolution, members: Ints, left: int) -> dict[str, object]:
    bytes_per_load = float(task.frame.scale[1])
    return {
        "status": solution.status,
        "brokers": len(members),
        "candidates": solution.candidates,
        "moves": len(solution.partition),
        "objective_bytes": round(solution.cost * bytes_per_load),
        "bound_bytes": None if solution.bound is None else solution.bound * bytes_per_load,
        "search_bytes": solution.search_bytes,
        "violation_before": solution.violation_before,
        "violation_after": solution.violation_after,
        "disordered": left,
        "broker_ids": task.frame.brokers.ids[members].tolist(),
        "prices": solution.prices.ravel().tolist(),
        "curve": [asdict(point) for point in solution.curve],
    }


def _failed_row(task: ClusterRound, shard: int, error: Exception) -> dict[str, object]:
    """A shard that fails, or is out of time, keeps its replicas where they are, and says so."""
    members = task.shard == shard
    left = float(outside(task.frame.loads, task.frame.bands, task.frame.scale)[members].sum())
    return {
        "status": OUT_OF_TIME if isinstance(error, OutOfTime) else FAILED,
        "message": f"{type(error).__name__}: {error}",
        "brokers": int(members.sum()),
        "candidates": 0,
        "moves": 0,
        "objective_bytes": 0,
        "violation_before": left,
        "violation_after": left,
        "disordered": 0,
        "broker_ids": [],
        "prices": [],
        "curve": [],
    }


def solve_group(frame: pd.DataFrame, tasks: dict[str, ClusterRound], gone: Collection[int] = ()) -> pd.DataFrame:
    """Solve one shard, unless its worker is ``gone``: its moves and one status row, columns of SHARD_OUTPUT."""
    columns = column_names(SHARD_OUTPUT)
    cluster_id, shard = str(frame["cluster_id"].iloc[0]), int(frame["shard"].iloc[0])
    task = tasks[cluster_id]
    started = time.process_time()
    try:
        if shard in gone:
            raise WorkerGone("the shard")
        solution, members, moves, left = _solve(frame, task, shard)
        status = _status_row(task, solution, members, left)
    except Exception as error:
        moves, status = pd.DataFrame(), _failed_row(task, shard, error)
    status["partitions"] = len(frame)
    status["cpu_seconds"] = time.process_time() - started
    status["peak_memory_bytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    # Objects: a whole number beside a missing one would become a float, and wrong above 2^53.
    parts = (moves.astype(object).assign(kind="move"), pd.DataFrame([status], dtype=object).assign(kind="status"))
    result = pd.concat(parts, ignore_index=True)
    result = result.assign(cluster_id=cluster_id, shard=shard).reindex(columns=columns)
    return with_nulls(result)


def solve_shards(placement: DataFrame, tasks: dict[str, ClusterRound], gone: Collection[int] = ()) -> DataFrame:
    """Moves and status rows of every shard of the round, one task a shard; shards that are ``gone`` are not tried."""
    n_shards = 1 + max(int(task.shard.max()) for task in tasks.values())

    def solve(frame: pd.DataFrame) -> pd.DataFrame:
        return solve_group(frame, tasks, gone)

    expanded = expand(placement, tasks).repartitionById(n_shards, F.col("shard"))
    return expanded.groupBy("shard").applyInPandas(solve, SHARD_OUTPUT)


def solve_round(placement: DataFrame, tasks: dict[str, ClusterRound]) -> DataFrame:
    """``solve_shards``, computed. Spark gives up all tasks with the one whose worker does not survive it: they are run
    once more, as the task may be of the step that hands out the partitions; then without that shard."""
    died: set[int] = set()
    gone: set[int] = set()
    while True:
        try:
            return solve_shards(placement, tasks, sorted(gone)).localCheckpoint()
        except (PySparkException, Py4JJavaError) as error:
            shard = shard_without_worker(str(error))
            if shard is None or shard in gone:
                raise
            (gone if shard in died else died).add(shard)


def shard_without_worker(message: str) -> int | None:
    """The shard whose task Spark gave up because its process was gone at every attempt; None after another error."""
    task = _TASK.search(message)
    return int(task[1]) if task and WorkerGone.said_by_spark in message else None


def apply_moves(placement: DataFrame, solved: DataFrame) -> DataFrame:
    """The placement after the moves of a round."""
    key = ["cluster_id", "topic", "partition"]
    moves = solved.where("kind = 'move'").groupBy(*key)
    swaps = moves.agg(
        F.map_from_entries(F.array_sort(F.collect_list(F.struct("from_broker", "to_broker")))).alias("swaps")
    )
    moved = F.transform("current", lambda b: F.coalesce(F.element_at("swaps", b), b))
    joined = placement.join(swaps, on=key, how="left")
    return joined.withColumn("current", F.when(F.col("swaps").isNull(), F.col("current")).otherwise(moved)).drop(
        "swaps"
    )


def broker_loads_now(placement: DataFrame, brokers: dict[str, Brokers]) -> dict[str, Floats]:
    """Replicas, disk and bytes in of each broker of each cluster, (B, 3), absolute; sums of integers, so order can't
    matter."""
    hosts = placement.select("cluster_id", F.explode("current").alias("broker_id"), "size_bytes", "in_bytes_per_s")
    sums = hosts.groupBy("cluster_id", "broker_id").agg(
        F.count("*").alias("replicas"), F.sum("size_bytes").alias("disk"), F.sum("in_bytes_per_s").alias("in")
    )
    loads = {cluster_id: np.zeros((len(b), 3)) for cluster_id, b in brokers.items()}
    for row in sums.collect():
        at = int(np.searchsorted(brokers[row.cluster_id].ids, row.broker_id))
        loads[row.cluster_id][at] = (row.replicas, row.disk, row["in"])
    return loads
