"""Small clusters as records, and records as the table bronze_records."""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from optimizer.settings import ClusterInput, Settings
from optimizer.stages.stage import Run
from sources.record import Record
from tests.stages.tables import table

CAPTURED_AT = datetime(2026, 1, 31, 2, tzinfo=UTC)
RACKS = {1: "a", 2: "b", 3: "c"}
# Of topic t: ordered replicas by partition.
LISTS = {0: [1, 2, 3], 1: [2, 3, 1], 2: [3, 1, 2], 3: [1, 3, 2]}


def broker(broker_id: int, rack: str | None, **more: Any) -> Record:
    """A registered broker."""
    payload = {"broker_id": broker_id, "host": f"h{broker_id}", "port": 9092, "rack": rack, "fenced": False}
    return Record("broker", 1, {**payload, "is_controller": None, **more})


def partition(number: int, replicas: Sequence[int], **more: Any) -> Record:
    """A partition of topic t, led by its first replica, all in sync."""
    payload = {"topic": "t", "partition": number, "leader": replicas[0] if replicas else None, "replicas": replicas}
    moving = {"isr": list(replicas), "adding": [], "removing": [], "offline": None}
    return Record("partition", 2, {**payload, **moving, **more})


def size(broker_id: int, number: int, size_bytes: Any, **more: Any) -> Record:
    """The log of one replica of topic t."""
    payload = {"broker_id": broker_id, "log_dir": "/d", "topic": "t", "partition": number, "size_bytes": size_bytes}
    return Record("log_dir_replica", 3, {**payload, "offset_lag": 0, "is_future": False, **more})


def directory(broker_id: int, log_dir: str = "/d", total_bytes: int | None = None, error: str | None = None) -> Record:
    """A log directory."""
    fields = {"broker_id": broker_id, "log_dir": log_dir, "error": error, "total_bytes": total_bytes}
    return Record("log_dir", 3, {**fields, "usable_bytes": None})


def capacity(broker_id: int, disk_bytes: int | None, log_dir: str | None = None) -> Record:
    """A capacity of disk alone."""
    rates = {"in_bytes_per_s": None, "out_bytes_per_s": None}
    return Record("capacity", 4, {"broker_id": broker_id, "log_dir": log_dir, "disk_bytes": disk_bytes, **rates})


def load(number: int, **more: Any) -> Record:
    """Finished rates of a partition of topic t."""
    fields = {"topic": "t", "partition": number, "size_bytes": None, "in_bytes_per_s": 10, "out_bytes_per_s": 20}
    return Record("partition_load", 5, {**fields, **more})


def topic(partition_count: int) -> Record:
    """The header of topic t."""
    fields = {"topic": "t", "topic_id": "id", "partition_count": partition_count, "replication_factor": 3}
    return Record("topic", 1, {**fields, "configs": "min.insync.replicas=2", "marked_for_deletion": False})


def brokers(racks: Mapping[int, str | None] = RACKS) -> list[Record]:
    """Registered brokers with their directories."""
    return [record for b, rack in racks.items() for record in (broker(b, rack), directory(b))]


def partitions(lists: Mapping[int, Sequence[int]] = LISTS) -> list[Record]:
    """Topic t with its header."""
    return [topic(len(lists)), *(partition(number, replicas) for number, replicas in lists.items())]


def sizes(lists: Mapping[int, Sequence[int]] = LISTS) -> list[Record]:
    """A log of 100 bytes, and of one more for each place behind the first, on every replica."""
    return [size(b, p, 100 + place) for p, replicas in lists.items() for place, b in enumerate(dict.fromkeys(replicas))]


def healthy() -> list[Record]:
    """Three brokers on three racks with four partitions; nothing is wrong."""
    return [*brokers(), *partitions(), *sizes(), capacity(-1, 10_000), *(load(p) for p in LISTS)]


def without(records: Sequence[Record], kind: str) -> list[Record]:
    """The records but for one kind."""
    return [record for record in records if record.kind != kind]


def bronze(spark: SparkSession, clusters: Mapping[str, Sequence[Record]]) -> DataFrame:
    """Rows of bronze_records of run r1; each cluster has one source."""
    rows = [
        (
            name,
            "r1",
            ordinal,
            record.kind,
            f"{name}.txt",
            record.line,
            CAPTURED_AT,
            json.dumps(dict(record.payload)),
            None,
        )
        for name, records in clusters.items()
        for ordinal, record in enumerate(records)
    ]
    return table(spark, "bronze_records", rows)


def metrics(
    spark: SparkSession, rows: Sequence[tuple[str, str, int | None, float]], *, observed_at: datetime = CAPTURED_AT
) -> DataFrame:
    """Rows of bronze_metrics of run r1: cluster, topic, partition (None for the topic), bytes in per second."""
    full = [
        (c, "r1", "m.csv", line, "in_bytes_per_s", topic, number, None, observed_at, value)
        for line, (c, topic, number, value) in enumerate(rows, start=2)
    ]
    return table(spark, "bronze_metrics", full)


def run_of(spark: SparkSession, settings: Settings) -> Run:
    """Run r1."""
    return Run(spark, "r1", settings, "test")


def settings_of(clusters: Sequence[str], **sections: Any) -> Settings:
    """Settings with these clusters."""
    return Settings(clusters=tuple(ClusterInput(id=name, input="/unused") for name in clusters), **sections)
