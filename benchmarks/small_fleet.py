"""300 small unusual clusters through the stages from the snapshot to the waves; one fleet per policy.

They have what the benchmark's instances lack: pins, changed replication factors, limits, spreads, demoted, dead and
fenced brokers, partitions that are fixed or excluded, unknown disks, no racks.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pyspark.sql import DataFrame, SparkSession

import schemas
from benchmarks.fuzz.fleet import local_session
from benchmarks.fuzz.unusual_clusters import UnusualCluster, unusual_cluster
from optimizer.settings import ClusterInput, Settings
from optimizer.stages.baseline import baseline
from optimizer.stages.plan import plan
from optimizer.stages.solve import solve
from optimizer.stages.stage import Run
from schemas.spark import schema_of, small_frame

POLICIES, CLUSTERS = 6, 50  # fleets, one per policy, and clusters of each, so that several clusters meet each rule
RUN = "fuzz"
Rows = Sequence[Mapping[str, Any]]


def planned_fleet() -> dict[str, dict[str, Rows]]:
    """Rows of the tables of stages baseline, solve and plan, by policy."""
    with local_session() as spark:
        return {f"policy-{number}": _planned(spark, number) for number in range(POLICIES)}


def policy_fleet(number: int) -> tuple[Settings, dict[str, UnusualCluster]]:
    """The settings of a policy, and its clusters. Their seeds follow the policy's seed."""
    first_seed = 1000 * (number + 1)
    settings = unusual_cluster(first_seed).settings
    clusters = {f"c{seed}": unusual_cluster(seed, settings) for seed in range(first_seed, first_seed + CLUSTERS)}
    return replace(settings, clusters=tuple(ClusterInput(id=name, input="/unused") for name in clusters)), clusters


def _planned(spark: SparkSession, number: int) -> dict[str, Rows]:
    settings, clusters = policy_fleet(number)
    run = Run(spark, RUN, settings, "as before")
    inputs = instance_frames(spark, clusters)
    frames = {**inputs, **_checkpointed(baseline.build(inputs, run))}
    frames |= _checkpointed(solve.build(frames, run))
    frames |= _checkpointed(plan.build(frames, run))
    rows: dict[str, Rows] = {
        name: [row.asDict(recursive=True) for row in frames[name].collect()] for name in frames if name not in inputs
    }
    spark.catalog.clearCache()
    return rows


_OF_CONSUMERS = ("consumer_groups", "consumer_members")


def _checkpointed(frames: Mapping[str, DataFrame]) -> dict[str, DataFrame]:
    """Frames that are computed once, like tables that are written once."""
    return {name: frame.localCheckpoint() for name, frame in frames.items()}


def instance_frames(spark: SparkSession, clusters: Mapping[str, UnusualCluster]) -> dict[str, DataFrame]:
    """Inputs of the stages after the snapshot."""
    tables = ("instance", "instance_brokers", "throttles_found", "sources", "brokers", *_OF_CONSUMERS)
    rows: dict[str, list[dict[str, Any]]] = {table: [] for table in tables}
    for name, cluster in clusters.items():
        rows["instance"] += [{**row, "cluster_id": name, "run_id": RUN} for row in cluster.partitions]
        rows["instance_brokers"] += [{**row, "cluster_id": name, "run_id": RUN} for row in cluster.brokers]
    return {table: _frame(spark, table, table_rows) for table, table_rows in rows.items()}


def _frame(spark: SparkSession, table: str, rows: Sequence[Mapping[str, Any]]) -> DataFrame:
    schema = schema_of(schemas.ALL[table])
    return small_frame(spark, [{name: row.get(name) for name in schema.fieldNames()} for row in rows], schema)
