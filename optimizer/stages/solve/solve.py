"""Stage 5, solve: instance, instance_brokers -> the plan of every cluster, its lower bounds and its findings.

Function ``build`` lists all tables. The algorithm is in ``solve.driver``. Partitions stay in Spark
(``spark_placement``).
"""

import logging
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import schemas
from optimizer.domain import Brokers
from optimizer.planning.arrays import to_brokers
from optimizer.planning.solved_rows import Rows, small_tables
from optimizer.solve import driver
from optimizer.solve.tuning import TUNED, Tuning
from optimizer.stages.solve.spark_placement import SparkPlacement
from optimizer.stages.stage import Frames, Run
from schemas.spark import compute_once, nullable_struct_of, small_frame

_LOG = logging.getLogger(__name__)


def read_brokers(table: DataFrame) -> dict[str, Brokers]:
    """Brokers of each cluster, from ``instance_brokers``."""
    frame = table.toPandas()
    return {str(cluster_id): to_brokers(rows) for cluster_id, rows in frame.groupby("cluster_id", sort=True)}


def _frame(rows: Rows, table: str, run: Run) -> DataFrame:
    """A small frame of rows in driver memory, with the column types of the table's contract."""
    contract = schemas.ALL[table]
    with_run = ({**row, "run_id": run.run_id} for row in rows)
    ordered = [{name: row[name] for name in contract.names} for row in with_run]
    return small_frame(run.spark, ordered, nullable_struct_of(contract.columns))


def placement_of(inputs: Frames, run: Run) -> SparkPlacement:
    """The placement of all clusters before the plan, from ``instance`` and ``instance_brokers``."""
    start = compute_once(inputs["instance"].drop("run_id").withColumn("current", F.col("replicas")))
    return SparkPlacement(start, read_brokers(inputs["instance_brokers"]), run.run_id)


def tables_of(solved: driver.Solved[Any], run: Run) -> Frames:
    """All tables of the stage."""
    for warning in solved.bounds.warnings:
        _LOG.warning(warning)
    return {**solved.tables, **{name: _frame(rows, name, run) for name, rows in small_tables(solved).items()}}


def build(inputs: Frames, run: Run, tuning: Tuning = TUNED) -> Frames:
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
    return tables_of(driver.solve(placement_of(inputs, run), run.settings, tuning, started=run.started), run)
