"""Records as typed columns: a frame for each kind, with the source and line of each row."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

# Columns of every typed frame: where a record comes from, and the record itself.
SOURCE_COLUMNS = ("cluster_id", "run_id", "kind", "source", "line", "ordinal", "captured_at", "written_at", "payload")

# Sizes and rates are read as text: a number over int64 would become null, and the rules must see it.
_FIELDS = {
    "broker": "broker_id BIGINT, host STRING, port BIGINT, rack STRING, fenced BOOLEAN, is_controller BOOLEAN",
    "topic": "topic STRING, topic_id STRING, partition_count BIGINT, configs STRING, marked_for_deletion BOOLEAN",
    "partition": "topic STRING, partition BIGINT, leader BIGINT, replicas ARRAY<BIGINT>, isr ARRAY<BIGINT>, "
    "adding ARRAY<BIGINT>, removing ARRAY<BIGINT>, log_dirs ARRAY<STRING>, elr ARRAY<BIGINT>, "
    "last_known_elr ARRAY<BIGINT>, observers ARRAY<BIGINT>",
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
    "offset": "topic STRING, partition BIGINT, time STRING, broker_id BIGINT, offset STRING",
    "cluster_id": "kafka_cluster_id STRING",
    "consumer_group": "group STRING, protocol STRING, state STRING, assignor STRING, coordinator_id BIGINT, "
    "members BIGINT, epoch BIGINT, is_complete BOOLEAN",
    "consumer_offset": "group STRING, topic STRING, partition BIGINT, lag BIGINT, member_id STRING, host STRING, "
    "client_id STRING",
    "consumer_member": "group STRING, member_id STRING, instance_id STRING, host STRING, client_id STRING, "
    "partitions BIGINT, assigned ARRAY<STRUCT<topic: STRING, partitions: ARRAY<BIGINT>>>, protocol STRING",
    "malformed": "expected STRING, rule STRING, severity STRING, reason STRING, remedy STRING, text STRING, "
    "is_sample BOOLEAN",
}

# Largest size or rate that is accepted: 9 PB, far more than any broker has. Up to it a double holds every integer
# exactly, and sums stay within int64.
LARGEST = 2**53


def typed(records: DataFrame, kind: str) -> DataFrame:
    """Records of a kind with the fields of their payload as columns; a value of a wrong type is null."""
    parsed = records.where(F.col("kind") == kind).withColumn("fields", F.from_json("payload", _FIELDS[kind]))
    return parsed.select(*SOURCE_COLUMNS, "fields.*")


def newest_first() -> tuple[Column, ...]:
    """Sort order of outputs, the newest first: by time of capture, time of the file, and name (the last is newest)."""
    name = F.regexp_replace("source", r"\.[^./]*$", "")
    return F.desc("captured_at"), F.desc("written_at"), F.desc(name), F.desc("source")


def placements(records: DataFrame) -> DataFrame:
    """Partitions from ``--describe``, a live cluster and assignment documents, with the same columns.

    An assignment document has neither leader nor ISR: its partitions count as healthy, led by their first replica.
    ``knows_moves``: whether the source lists reassignments in flight; kcat does not.
    """
    kinds = F.col("kind").isin("partition", "assignment")
    fields = F.from_json("payload", _FIELDS["partition"])
    parsed = records.where(kinds).withColumn("fields", fields).select(*SOURCE_COLUMNS, "fields.*")
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
    """SQL that casts a text column to BIGINT; null if the text is no number or too large."""
    return f"try_cast(try_cast({text} AS DECIMAL(38,0)) AS BIGINT)"
