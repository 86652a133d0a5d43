"""The brokers, racks and instances that the tables of ingest name."""

from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from optimizer.planning.policy.refusals import Known
from optimizer.stages.shared.records import typed

_NAMING = "broker_id BIGINT, rack STRING, replicas ARRAY<BIGINT>"
_KINDS = ("broker", "partition", "assignment", "log_dir")


def known_of_records(records: DataFrame) -> dict[str, Known]:
    """Brokers and racks in the records, by cluster; without clusters that have unreadable input.

    There a name may be missing because its file was not read: the quality gate reports that. Metric tables are not
    searched: they add no broker.
    """
    fields = F.from_json("payload", _NAMING)
    parsed = records.where(F.col("kind").isin(*_KINDS)).select("cluster_id", "kind", fields.alias("fields"))
    ids = F.concat(F.array("fields.broker_id"), F.coalesce("fields.replicas", F.array().cast("array<bigint>")))
    rack = F.when(F.col("kind") == "broker", F.nullif(F.trim("fields.rack"), F.lit(""))).alias("rack")
    of_state = (F.coalesce("severity", F.lit("error")) == "error") & F.col("is_sample").isNull()
    unread = typed(records, "malformed").where(of_state)
    left_out = {row.cluster_id for row in unread.select("cluster_id").distinct().collect()}
    named = parsed.select("cluster_id", F.explode(ids).alias("broker_id"), rack)
    sets = (F.array_sort(F.collect_set(name)).alias(name) for name in ("broker_id", "rack"))
    rows = named.groupBy("cluster_id").agg(*sets).orderBy("cluster_id").collect()
    known = {row.cluster_id: Known(tuple(row.broker_id), tuple(row.rack)) for row in rows}
    return {cluster_id: names for cluster_id, names in known.items() if cluster_id not in left_out}


def known_instances(frames: Mapping[str, DataFrame]) -> dict[str, tuple[str, ...]]:
    """The instances in the metrics of each cluster, ascending."""
    of_records = frames["bronze_records"].where("kind = 'metric'")
    instance = F.get_json_object("payload", "$.instance").alias("instance")
    both = of_records.select("cluster_id", instance).union(frames["bronze_metrics"].select("cluster_id", "instance"))
    rows = both.groupBy("cluster_id").agg(F.array_sort(F.collect_set("instance")).alias("names")).collect()
    return {row.cluster_id: tuple(row.names) for row in rows}
