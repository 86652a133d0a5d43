"""Throttles that were set before the plan, by whom nobody can tell: the table, and the findings about it."""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from optimizer.kafka.throttle import FOLLOWER_RATE, FOLLOWER_REPLICAS, LEADER_RATE, LEADER_REPLICAS, LOG_DIR_RATE

RULE = "throttle_set"
LISTS = (LEADER_REPLICAS, FOLLOWER_REPLICAS)
RATES = (LEADER_RATE, FOLLOWER_RATE, LOG_DIR_RATE)
_KEY = ("cluster_id", "run_id", "entity_type", "entity_name", "config_name")
# A broker that has no rate shows this one where all of its configs are listed.
_UNLIMITED = str(2**63 - 1)
_LONGEST = 60


def throttles_found(headers: DataFrame, configs: DataFrame) -> DataFrame:
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


def findings(found: DataFrame) -> DataFrame:
    """One finding for each entity that a throttle was set on: cluster_id, run_id, rule, subject, detail, remedy."""
    entries = F.array_sort(F.collect_list(F.concat("config_name", F.lit(" = "), _short("config_value"))))
    return (
        found.groupBy(*_KEY[:4])
        .agg(F.concat_ws(", ", entries).alias("set"), F.bool_and("is_static").alias("is_static"))
        .select(
            *_KEY[:2],
            F.lit(RULE).alias("rule"),
            _subject().alias("subject"),
            F.concat("set", F.lit(" was set before the plan, by whom is not known: "), _meanwhile()).alias("detail"),
            F.lit(
                "if an earlier wave left it behind, remove it, collect the inputs again and plan again; "
                "else nothing is to be done"
            ).alias("remedy"),
        )
    )


def _subject() -> Column:
    return (
        F.when(F.col("entity_type") == "topics", F.concat(F.lit("topic "), "entity_name"))
        .when(F.col("entity_type") == "brokers", F.concat(F.lit("broker "), "entity_name"))
        .otherwise("every broker")
    )


def _meanwhile() -> Column:
    """What becomes of it while the plan is executed."""
    return (
        F.when(F.col("is_static") | (F.col("entity_type") == "cluster"), "a wave's own rates go before it meanwhile")
        .when(F.col("entity_type") == "topics", "a wave that names the topic sets its own lists, then puts these back")
        .otherwise("a wave that names the broker sets its own rates, then puts these back")
    )


def _short(column: str) -> Column:
    long = F.concat(F.substring(column, 1, _LONGEST), F.lit("... ("), F.length(column), F.lit(" characters)"))
    return F.when(F.length(column) > _LONGEST, long).otherwise(F.col(column))
