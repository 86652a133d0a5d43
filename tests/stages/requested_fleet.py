"""A fleet in which each cluster has another request, planned once from its rows to its documents."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import schemas
from optimizer.configuration import build
from optimizer.settings import Settings
from optimizer.stages.baseline import baseline
from optimizer.stages.emit import emit
from optimizer.stages.plan import plan
from optimizer.stages.solve import solve
from optimizer.stages.stage import Frames, Run
from schemas.spark import conform, schema_of
from tests.stages.planned import EMPTY
from tests.stages.test_solve import SOLVER, frames_of, rows_of

LIMIT_GB = 60
HEADROOM, SPARE = 0.1, 1.02
CLUSTERS: list[dict[str, Any]] = [
    {"id": "limited", "input": "/x", "max_moved_gb": LIMIT_GB},
    {"id": "free", "input": "/x"},
    {"id": "full", "input": "/x"},
    {"id": "factors", "input": "/x"},
    {"id": "giant", "input": "/x"},
]
FACTORS = {"t0": 4, "t1": 2, "t2": 5, "t3": 1}
GIANT, MOST, MOST_LED = "giant", 12, 4
Rows = dict[str, list[dict[str, Any]]]


def settings_with(clusters: list[dict[str, Any]]) -> Settings:
    """Small shards, a short curve."""
    return build({"solver": SOLVER, "clusters": clusters})


def run_of(spark: SparkSession, clusters: list[dict[str, Any]] = CLUSTERS) -> Run:
    """A run of the clusters."""
    return Run(spark, "r", settings_with(clusters), "test")


def planned(spark: SparkSession) -> Frames:
    """Every table of the fleet, from solve to emit."""
    run = run_of(spark)
    rows = (
        rows_of("limited", seed=1),
        rows_of("free", seed=2),
        with_full_disks(rows_of("full", seed=3)),
        with_factors(rows_of("factors", seed=1)),
        with_giant(rows_of("giant", seed=1)),
    )
    tables = dict(frames_of(spark, *rows))
    for name in EMPTY:
        tables[name] = spark.createDataFrame([], schema_of(schemas.ALL[name]))
    for stage in (solve, baseline, plan, emit):
        made = {n: conform(f, schemas.ALL[n]).localCheckpoint() for n, f in stage.build(tables, run).items()}
        tables |= made
    return tables


def of(tables: Frames, cluster_id: str) -> Frames:
    """The rows of one cluster."""
    return {name: frame.where(F.col("cluster_id") == cluster_id) for name, frame in tables.items()}


def disk_bytes(partitions: list[dict[str, Any]], lists: str) -> Mapping[int, int]:
    """Bytes on each broker."""
    held: Counter[int] = Counter()
    for row in partitions:
        held.update(dict.fromkeys(row[lists], row["size_bytes"]))
    return held


def with_full_disks(rows: Rows) -> Rows:
    """The cluster with nearly full disks: too little space for the replicas of the broker to empty."""
    held = disk_bytes(rows["instance"], "replicas")
    for broker in rows["instance_brokers"]:
        broker["disk_capacity_bytes"] = int(max(held[broker["broker_id"]], 10**9) * SPARE / (1 - HEADROOM))
    return rows


def with_factors(rows: Rows) -> Rows:
    """The cluster with some topics with more, or fewer, replicas requested."""
    for partition in rows["instance"]:
        partition["replication_factor"] = FACTORS.get(partition["topic"], 3)
    return rows


def with_giant(rows: Rows) -> Rows:
    """The cluster with 60 partitions of one topic that are all on six of 22 brokers: 8.2 each is fair."""
    for number, row in enumerate(rows["instance"][::6]):
        replicas = [104 + (number + r) % 4 + 4 * (number % 2 * (r < 2)) for r in range(3)]
        row |= {"topic": GIANT, "partition": number, "replicas": replicas, "leader": replicas[0]}
        row |= {"isr": sorted(replicas), "size_bytes": 10**6 + number, "in_bytes_per_s": 1, "out_bytes_per_s": 1}
        row |= {"topic_most_replicas": MOST, "topic_most_leaders": MOST_LED}
    return rows
