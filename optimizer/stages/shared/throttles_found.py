"""Throttles that were set before the plan, by somebody else or an earlier wave: the table, and a finding about it."""

from collections.abc import Iterator
from itertools import groupby
from operator import attrgetter
from typing import Any

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from optimizer.kafka.throttle import FOLLOWER_RATE, FOLLOWER_REPLICAS, LEADER_RATE, LEADER_REPLICAS, LOG_DIR_RATE

RULE = "throttle_set"
LISTS = (LEADER_REPLICAS, FOLLOWER_REPLICAS)
RATES = (LEADER_RATE, FOLLOWER_RATE, LOG_DIR_RATE)
_KEY = ("cluster_id", "run_id", "entity_type", "entity_name", "config_name")
# kafka-configs.sh --all shows this value for a broker without a rate.
_UNLIMITED = str(2**63 - 1)
_LONGEST = 60  # characters of a value in the detail: lists of throttles are long
_NAMED = 5  # entries in the detail: more make a line too long to read
_DURING_WAVES = (
    "A wave that touches these topics and brokers sets its own values while it runs; its unthrottle script restores "
    "the old ones"
)


def build(headers: DataFrame, configs: DataFrame) -> DataFrame:
    """Rows of ``throttles_found``: each throttle entry of config listings and topic headers, once.

    Parameters
    ----------
    headers, configs : DataFrame
        Typed records of the kinds ``topic`` and ``config``.

    Notes
    -----
    The newest source counts. Of the same time, the config listing counts before the header, because Kafka may shorten
    a header's value.
    """
    is_throttle = F.col("name").isin(*LISTS, *RATES) & F.col("value").isNotNull() & ~F.col("value").isin("", _UNLIMITED)
    listed = configs.where(is_throttle & F.col("entity_type").isin("topics", "brokers", "cluster")).select(
        *_KEY[:4],
        F.col("name").alias("config_name"),
        F.col("value").alias("config_value"),
        F.coalesce("is_static", F.lit(False)).alias("is_static"),
        *("source", "line", "captured_at"),
        F.lit(0).alias("rank"),
    )
    rows = listed.unionByName(_of_headers(headers))
    newest = Window.partitionBy(*_KEY).orderBy(F.desc("captured_at"), "rank", "source", "line", "config_value")
    return rows.withColumn("rank_of_source", F.row_number().over(newest)).where("rank_of_source = 1")


def _of_headers(headers: DataFrame) -> DataFrame:
    """Throttle lists in the ``Configs:`` text of topic headers. Such a list ends at a comma before a config name."""
    parts = [_of_header(headers, name) for name in LISTS]
    return parts[0].unionByName(parts[1]).where("config_value <> ''")


def _of_header(headers: DataFrame, config_name: str) -> DataFrame:
    pattern = rf"(?:^|[,\s]){config_name.replace('.', '[.]')}=(\*|[0-9:,]*[0-9])"
    return headers.select(
        *_KEY[:2],
        F.lit("topics").alias("entity_type"),
        F.col("topic").alias("entity_name"),
        F.lit(config_name).alias("config_name"),
        F.regexp_extract(F.coalesce("configs", F.lit("")), pattern, 1).alias("config_value"),
        F.lit(False).alias("is_static"),
        *("source", "line", "captured_at"),
        F.lit(1).alias("rank"),
    )


def to_restore(throttles_found: DataFrame) -> DataFrame:
    """The entries that a plan restores.

    A value of a broker's file needs no restoring: it is in effect again when the plan's own value is removed.
    """
    return throttles_found.where("NOT is_static AND entity_type <> 'cluster'")


def findings_of(throttles_found: DataFrame) -> Iterator[dict[str, Any]]:
    """Rows of ``input_findings`` without run id: one for each cluster where throttles were set before the plan."""
    entry = _describe_entry().alias("entry")
    rows = throttles_found.select("cluster_id", entry).orderBy("cluster_id", "entry").collect()
    for cluster_id, of_cluster in groupby(rows, key=attrgetter("cluster_id")):
        entries = list(of_cluster)
        first = "; ".join(row.entry for row in entries[:_NAMED])
        rest = f"; and {len(entries) - _NAMED} more" if len(entries) > _NAMED else ""
        yield {
            "cluster_id": cluster_id,
            "rule": RULE,
            "standing": "noted",
            "subject": cluster_id,
            "detail": f"throttles were set before the plan: {first}{rest}. {_DURING_WAVES}",
            "remedy": "if an earlier wave left them behind, remove them, collect the inputs again and plan again; "
            "otherwise there is nothing to do",
            "rows": len(entries),
        }


def _describe_entry() -> Column:
    """``topic t: leader.replication.throttled.replicas = *``; long values are shortened."""
    value = F.col("config_value")
    shortened = F.concat(
        F.substring("config_value", 1, _LONGEST), F.lit("... ("), F.length(value).cast("string"), F.lit(" characters)")
    )
    entity = (
        F.when(F.col("entity_type") == "topics", F.concat(F.lit("topic "), "entity_name"))
        .when(F.col("entity_type") == "brokers", F.concat(F.lit("broker "), "entity_name"))
        .otherwise("every broker")
    )
    shown = F.when(F.length(value) > _LONGEST, shortened).otherwise(value)
    return F.concat(entity, F.lit(": "), "config_name", F.lit(" = "), shown)
