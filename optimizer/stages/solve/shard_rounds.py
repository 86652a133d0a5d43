"""One round of the solver in Spark: each shard of every cluster is a Spark task.

A round sends each partition to the shards that hold one of its replicas, solves each shard in a grouped pandas
function, and applies the moves.
"""

import re
from collections.abc import Collection, Iterable
from dataclasses import asdict, fields

import numpy as np
import pandas as pd
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from optimizer.domain import Bools, Brokers
from optimizer.errors import WorkerGone
from optimizer.planning.arrays import (
    PARTITION_COLUMNS,
    column_names,
    replica_matrix,
    split_rows,
    stable_number,
    stuck_replicas,
)
from optimizer.solve.rounds.cluster_round import ClusterRound, must_change_racks
from optimizer.solve.rounds.shard_task import ShardTask, StatusFields, with_status
from optimizer.solve.shard.search import CurvePoint
from optimizer.solve.shard.shard_status import ShardStatus
from schemas.keys import PARTITION
from schemas.planning import INSTANCE
from schemas.spark import compute_once

# Columns of a placement that its partitions, and their replicas before and after, are made of.
ROW_COLUMNS = ("cluster_id", *PARTITION_COLUMNS, "current")
_PARTITION = ", ".join(f"{name} {INSTANCE.type_of(name)}" for name in PARTITION_COLUMNS)
SHARD_INPUT = f"shard int, cluster_id string, owner boolean, {_PARTITION}, current array<int>"
SHARD_OUTPUT = (
    "shard int, cluster_id string, "
    "moved array<struct<topic:string,partition:int,from_broker:int,to_broker:int>>, "
    "status string, message string, brokers int, partitions int, candidates int, moves int, objective_bytes bigint, "
    "bound_bytes double, search_bytes bigint, violation_before double, violation_after double, disordered int, "
    "cpu_seconds double, peak_memory_bytes bigint, broker_ids array<int>, prices array<double>, "
    "curve array<struct<move_price:double,moves:int,cost:double,violation:double>>"
)
_STATUS = tuple(field.name for field in fields(ShardStatus))
# Spark's message when it gives up a task because its Python process died at every attempt. The shard has the number of
# the task. If an executor is lost, checkpoints of other steps are lost, too: such a run fails and can be started again.
_TASK = re.compile(r"Task (\d+) in stage [\d.]+ failed \d+ times")


def _must_change_racks(frame: pd.DataFrame, brokers: Brokers) -> Bools:
    factor = frame["replication_factor"].to_numpy(dtype=np.int64)
    return must_change_racks(brokers, replica_matrix(frame["current"], brokers.ids), factor)


def _expand_cluster(frame: pd.DataFrame, task: ClusterRound) -> pd.DataFrame:
    """Rows of one cluster, once for each shard that holds a replica."""
    brokers = task.frame.brokers
    if task.repairs_racks:
        frame = frame[_must_change_racks(frame, brokers)]
    current = replica_matrix(frame["current"], brokers.ids)
    factor = frame["replication_factor"].to_numpy(dtype=np.int64)
    stuck = stuck_replicas(frame, current, brokers.ids)
    shard, owner = task.shards_of(current, stuck, factor, stable_number(frame["topic"], frame["partition"]))
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

    # Only what a shard needs goes to Python.
    return placement.select(*ROW_COLUMNS).mapInPandas(rows, SHARD_INPUT)


def _solve(frame: pd.DataFrame, task: ClusterRound, shard: int) -> tuple[pd.DataFrame, StatusFields]:
    """Solve the shard of these rows of SHARD_INPUT."""
    ids = task.frame.brokers.ids
    rows, partitions, current = split_rows(frame, ids)
    moves, status = ShardTask(task, shard, partitions, current, rows["owner"].to_numpy(dtype=bool)).solve()
    moved = pd.DataFrame(
        {
            "topic": partitions.topic[moves.row],
            "partition": partitions.partition[moves.row],
            "from_broker": ids[current[moves.row, moves.slot]],
            "to_broker": ids[moves.target],
        }
    )
    return moved, status


def solve_group(frame: pd.DataFrame, tasks: dict[str, ClusterRound], gone: Collection[int] = ()) -> pd.DataFrame:
    """Solve one shard, unless its worker is ``gone``: one row with the columns of SHARD_OUTPUT."""
    cluster_id, shard = str(frame["cluster_id"].iloc[0]), int(frame["shard"].iloc[0])
    task = tasks[cluster_id]

    def attempt() -> tuple[pd.DataFrame, StatusFields]:
        if shard in gone:
            raise WorkerGone("the shard")
        return _solve(frame, task, shard)

    moves, status = with_status(cluster_id, task, shard, partitions=len(frame), attempt=attempt)
    moved = [] if moves is None else moves.to_dict("records")
    row = {**vars(status), "curve": [asdict(point) for point in status.curve], "shard": shard, "moved": moved}
    # As objects: pandas would turn integers with a missing value into floats, which are not exact above 2^53.
    return pd.DataFrame([row], columns=column_names(SHARD_OUTPUT), dtype=object)


def statuses_of(solved: DataFrame) -> list[ShardStatus]:
    """The statuses of the shards of a round, ordered by shard number."""
    rows = solved.select(*_STATUS).orderBy("shard").collect()
    return [ShardStatus(**{**row.asDict(), "curve": [CurvePoint(**p.asDict()) for p in row.curve]}) for row in rows]


def solve_shards(placement: DataFrame, tasks: dict[str, ClusterRound], gone: Collection[int] = ()) -> DataFrame:
    """A row for every shard of the round, each from its own task; shards in ``gone`` are not solved."""
    n_shards = 1 + max(int(task.shard.max()) for task in tasks.values())

    def solve(frame: pd.DataFrame) -> pd.DataFrame:
        return solve_group(frame, tasks, gone)

    expanded = expand(placement, tasks).repartitionById(n_shards, F.col("shard"))
    return expanded.groupBy("shard").applyInPandas(solve, SHARD_OUTPUT)


def solve_round(placement: DataFrame, tasks: dict[str, ClusterRound]) -> DataFrame:
    """``solve_shards``, computed.

    If the worker of a task dies at every attempt, Spark gives up all tasks. They run a second time, because the task
    may belong to the step that distributes the partitions. If it fails again, they run without that shard.
    """
    died: set[int] = set()
    gone: set[int] = set()
    while True:
        try:
            return compute_once(solve_shards(placement, tasks, sorted(gone)))
        except (PySparkException, Py4JJavaError) as error:
            shard = shard_without_worker(str(error))
            if shard is None or shard in gone:
                raise
            (gone if shard in died else died).add(shard)


def shard_without_worker(message: str) -> int | None:
    """The shard that Spark gave up because its process died at every attempt; None after another error."""
    task = _TASK.search(message)
    return int(task[1]) if task and WorkerGone.spark_message in message else None


def apply_moves(placement: DataFrame, solved: DataFrame) -> DataFrame:
    """The placement after the moves of a round."""
    moves = solved.select("cluster_id", F.explode("moved").alias("move")).select("cluster_id", "move.*")
    swaps = moves.groupBy(*PARTITION).agg(
        F.map_from_entries(F.array_sort(F.collect_list(F.struct("from_broker", "to_broker")))).alias("swaps")
    )
    moved = F.transform("current", lambda broker: F.coalesce(F.element_at("swaps", broker), broker))
    joined = placement.join(swaps, on=PARTITION, how="left")
    return joined.withColumn("current", F.when(F.col("swaps").isNull(), F.col("current")).otherwise(moved)).drop(
        "swaps"
    )
