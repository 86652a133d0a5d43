"""Records as typed columns: one frame a kind, with the place that each row came from."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

# Columns that every typed frame keeps.
PLACE = ("cluster_id", "run_id", "kind", "source", "line", "ordinal", "captured_at", "payload")

# Sizes and rates are read as text: a JSON number over int64 must reach the rules, not become null on the way.
_FIELDS = {
    "broker": "broker_id BIGINT, host STRING, port BIGINT, rack STRING, fenced BOOLEAN, is_controller BOOLEAN",
    "topic": "topic STRING, topic_id STRING, partition_count BIGINT, configs STRING, marked_for_deletion BOOLEAN",
    "partition": "topic STRING, partition BIGINT, leader BIGINT, replicas ARRAY<BIGINT>, isr ARRAY<BIGINT>, "
    "adding ARRAY<BIGINT>, removing ARRAY<BIGINT>, log_dirs ARRAY<STRING>, elr ARRAY<BIGINT>, "
    "last_known_elr ARRAY<BIGINT>",
    "reassignment": "topic STRING, partition BIGINT, replicas ARRAY<BIGINT>, adding ARRAY<BIGINT>, "
    "removing ARRAY<BIGINT>",
    "log_dir": "broker_id BIGINT, log_dir STRING, error STRING, total_bytes STRING, is_cordoned BOOLEAN",
    "log_dir_replica": "broker_id BIGINT, log_dir STRING, topic STRING, partition BIGINT, size_bytes STRING, "
    "is_future BOOLEAN",
    "config": "entity_type STRING, entity_name STRING, name STRING, value STRING, sensitive BOOLEAN, is_static BOOLEAN",
    "capacity": "broker_id BIGINT, log_dir STRING, disk_bytes STRING, in_bytes_per_s STRING, out_bytes_per_s STRING, "
    "as_written STRING, doubt STRING",
    "partition_load": "topic STRING, partition BIGINT, size_bytes STRING, in_bytes_per_s STRING, "
    "out_bytes_per_s STRING",
    "cluster_id": "kafka_cluster_id STRING",
    "malformed": "expected STRING, rule STRING, severity STRING, reason STRING, remedy STRING, text STRING, "
    "is_sample BOOLEAN",
}

# Largest size or rate that is believed: 9 PB, far over any broker, and the largest whole number that a double holds
# exactly. Sums of them stay within int64.
LARGEST = 2**53


def typed(records: DataFrame, kind: str) -> DataFrame:
    """Records of one kind with the fields of their payload; a field that does not fit its type is null."""
    parsed = records.where(F.col("kind") == kind).withColumn("fields", F.from_json("payload", _FIELDS[kind]))
    return parsed.select(*PLACE, "fields.*")


def placements(records: DataFrame) -> DataFrame:
    """Partitions as ``--describe`` (or a live cluster) and assignment documents show them, in one shape.

    An assignment document knows neither leader nor ISR: it is read as a healthy partition, led by its first replica.
    ``knows_moves`` says whether the source tells what is in flight: kcat does not.
    """
    kinds = F.col("kind").isin("partition", "assignment")
    fields = F.from_json("payload", _FIELDS["partition"])
    parsed = records.where(kinds).withColumn("fields", fields).select(*PLACE, "fields.*")
    healthy = F.col("kind") == "assignment"
    none = F.expr("CAST(array() AS ARRAY<BIGINT>)")
    leader = F.when(healthy, F.get("replicas", F.lit(0))).when(F.col("leader") >= 0, F.col("leader"))
    return parsed.withColumns(
        {
            "leader": leader,
            "isr": F.when(healthy, F.col("replicas")).otherwise(F.coalesce("isr", "replicas")),
            "knows_moves": F.col("adding").isNotNull() & F.col("removing").isNotNull(),
            "adding": F.coalesce("adding", none),
            "removing": F.coalesce("removing", none),
        }
    )


def whole_number(text: str) -> str:
    """SQL for a column of digits as BIGINT; null where it is none or too large."""
    return f"try_cast(try_cast({text} AS DECIMAL(38,0)) AS BIGINT)"
