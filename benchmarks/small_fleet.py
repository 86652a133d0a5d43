"""300 small odd clusters through the stages from the snapshot to the waves, those under one policy as one fleet.

What the benchmark's own instances do not reach: pins, changed replication factors, limits, spreads, demoted, dead and
fenced brokers, partitions that are fixed or excluded, disks that nobody knows, no racks.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pyspark.sql import DataFrame, SparkSession

import schemas
from benchmarks.fuzz.fleet import local_session
from benchmarks.fuzz.odd_clusters import OddCluster, odd_cluster
from optimizer.settings import ClusterInput, Settings
from optimizer.stages.baseline import baseline
from optimizer.stages.plan import plan
from optimizer.stages.solve import solve
from optimizer.stages.stage import Run
from schemas.spark import schema_of, small_frame

POLICIES, CLUSTERS = 6, 50  # fleets, one a policy, and clusters of each: every rule is met by several
RUN = "fuzz"
Rows = Sequence[Mapping[str, Any]]


def planned_fleet() -> dict[str, dict[str, Rows]]:
    """Rows of the tables of stages baseline, solve and plan, by policy."""
    with local_session() as spark:
        return {f"policy-{number}": _planned(spark, number) for number in range(POLICIES)}


def policy_fleet(number: int) -> tuple[Settings, dict[str, OddCluster]]:
    """The clusters under one policy, with their settings: those whose seeds follow the policy's own."""
    first = 1000 * (number + 1)
    asked = odd_cluster(first).settings
    clusters = {f"c{seed}": odd_cluster(seed, asked) for seed in range(first, first + CLUSTERS)}
    return replace(asked, clusters=tuple(ClusterInput(id=name, input="/unused") for name in clusters)), clusters


def _planned(spark: SparkSession, number: int) -> dict[str, Rows]:
    settings, clusters = policy_fleet(number)
    run = Run(spark, RUN, settings, "as before")
    inputs = instance_frames(spark, clusters)
    made = {**inputs, **_kept(baseline.build(inputs, run))}
    made |= _kept(solve.build(made, run))
    made |= _kept(plan.build(made, run))
    rows: dict[str, Rows] = {
        name: [row.asDict(recursive=True) for row in made[name].collect()] for name in made if name not in inputs
    }
    spark.catalog.clearCache()
    return rows


def _kept(frames: Mapping[str, DataFrame]) -> dict[str, DataFrame]:
    """Computed once, as tables are written once."""
    return {name: frame.localCheckpoint() for name, frame in frames.items()}


def instance_frames(spark: SparkSession, clusters: Mapping[str, OddCluster]) -> dict[str, DataFrame]:
    """Inputs of the stages after the snapshot."""
    rows: dict[str, list[dict[str, Any]]] = {"instance": [], "instance_brokers": [], "throttles_found": []}
    for name, cluster in clusters.items():
        rows["instance"] += [{**row, "cluster_id": name, "run_id": RUN} for row in cluster.partitions]
        rows["instance_brokers"] += [{**row, "cluster_id": name, "run_id": RUN} for row in cluster.brokers]
    return {table: _frame(spark, table, found) for table, found in rows.items()}


def _frame(spark: SparkSession, table: str, rows: Sequence[Mapping[str, Any]]) -> DataFrame:
    schema = schema_of(schemas.ALL[table])
    return small_frame(spark, [{name: row.get(name) for name in schema.fieldNames()} for row in rows], schema)
