"""Throttles that were set before the plan, by whom nobody can tell: the table, and the findings about it."""

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
# A broker that has no rate shows this one where all of its configs are listed.
_UNLIMITED = str(2**63 - 1)
_LONGEST = 60  # characters of a value in a detail: lists of throttles are long
_NAMED = 5  # topics or brokers in a detail: more do not fit a line that is read
_MEANWHILE = (
    "A wave that touches these topics and brokers sets its own values while it runs; its unthrottle script puts the "
    "old ones back"
)


def build(headers: DataFrame, configs: DataFrame) -> DataFrame:
    """Rows of ``throttles_found``: what config listings and the headers of topics say, each entry once.

    Parameters
    ----------
    headers, configs : DataFrame
        Typed records of the kinds ``topic`` and ``config``.

    Notes
    -----
    Of several sources the newest counts; of one time the config listing before the header, whose value may be cut.
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
    return rows.withColumn("place", F.row_number().over(newest)).where("place = 1")


def _of_headers(headers: DataFrame) -> DataFrame:
    """Throttle lists in the opaque ``Configs:`` of topic headers: a list ends where a name follows its comma."""
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


def with_previous(throttles: DataFrame, found: DataFrame) -> DataFrame:
    """Throttle entries of a plan with the value that was set before; null where none was.

    What a broker's file sets needs no putting back: it holds again when the plan's own value is removed.
    """
    own = found.where("NOT is_static AND entity_type <> 'cluster'")
    before = own.select(*_KEY, F.col("config_value").alias("previous_value"))
    return throttles.join(before, list(_KEY), "left")


def told(found: DataFrame) -> Iterator[dict[str, Any]]:
    """Rows of ``input_findings`` without run id: one for each cluster where throttles were set before the plan."""
    rows = found.select("cluster_id", _entry().alias("entry")).orderBy("cluster_id", "entry").collect()
    for cluster_id, of_cluster in groupby(rows, key=attrgetter("cluster_id")):
        entries = list(of_cluster)
        named = "; ".join(row.entry for row in entries[:_NAMED])
        more = f"; and {len(entries) - _NAMED} more" if len(entries) > _NAMED else ""
        yield {
            "cluster_id": cluster_id,
            "rule": RULE,
            "standing": "noted",
            "subject": cluster_id,
            "detail": f"set before the plan, by whom is not known: {named}{more}. {_MEANWHILE}",
            "remedy": "if an earlier wave left them behind, remove them, collect the inputs again and plan again; "
            "else nothing is to be done",
            "rows": len(entries),
        }


def _entry() -> Column:
    """``topic t: leader.replication.throttled.replicas = *``, long values cut."""
    value = F.col("config_value")
    cut = F.concat(
        F.substring("config_value", 1, _LONGEST), F.lit("... ("), F.length(value).cast("string"), F.lit(" characters)")
    )
    whose = (
        F.when(F.col("entity_type") == "topics", F.concat(F.lit("topic "), "entity_name"))
        .when(F.col("entity_type") == "brokers", F.concat(F.lit("broker "), "entity_name"))
        .otherwise("every broker")
    )
    short = F.when(F.length(value) > _LONGEST, cut).otherwise(value)
    return F.concat(whose, F.lit(": "), "config_name", F.lit(" = "), short)
