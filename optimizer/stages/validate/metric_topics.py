"""Samples of metrics under the topics' names: some exporters print '.' as '_', as Kafka's own metrics once did."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from optimizer.stages.shared.sql_words import plural
from schemas import bronze
from schemas.keys import CLUSTER_RUN
from schemas.spark import conform


def from_records(records: DataFrame) -> DataFrame:
    """Samples of a text exposition: bronze_records of kind ``metric`` as bronze_metrics."""
    payload = "metric string, topic string, partition int, broker_id int, observed_at timestamp, value double"
    parsed = records.where(F.col("kind") == "metric").withColumn("p", F.from_json("payload", payload))
    return conform(parsed.select(*CLUSTER_RUN, "source", "line", "p.*"), bronze.BRONZE_METRICS)


def resolve_topics(bronze_metrics: DataFrame, topics: DataFrame) -> tuple[DataFrame, DataFrame]:
    """Give every sample the topic's name in the cluster.

    The exact name comes first; a name that no topic has is taken for the one topic that is spelt so with dots as
    underscores. Where several topics are, the samples are left out and reported; where a topic has the exact name and
    another is spelt the same, the samples are kept for the exact one and a warning says so.

    Parameters
    ----------
    bronze_metrics : DataFrame
    topics : DataFrame
        cluster_id, run_id, topic: the topics of each cluster.

    Returns
    -------
    (bronze_metrics, quarantine)
        The second has one row for each name that may mean several topics. Names of no topic stay as they are.
    """
    names = _names(bronze_metrics, topics)
    kept = bronze_metrics.join(F.broadcast(names), [*CLUSTER_RUN, "topic"], "left").where(
        "candidates IS NULL OR resolved IS NOT NULL"
    )
    resolved = kept.withColumn("topic", F.coalesce("resolved", "topic"))
    return conform(resolved, bronze.BRONZE_METRICS), conform(_reports(bronze_metrics, names), bronze.QUARANTINE)


def _names(metrics: DataFrame, topics: DataFrame) -> DataFrame:
    """Each exported name with the topics that it may mean, and the one that is taken: null where several may be."""
    spelt = topics.select(
        *CLUSTER_RUN, F.translate("topic", ".", "_").alias("spelt"), F.col("topic").alias("known")
    ).distinct()
    exported = metrics.where("topic IS NOT NULL").select(
        *CLUSTER_RUN, "topic", F.translate("topic", ".", "_").alias("spelt")
    )
    fits = (F.col("known") == F.col("topic")) | (F.col("topic") == F.col("spelt"))
    meant = (
        exported.distinct()
        .join(spelt, [*CLUSTER_RUN, "spelt"], "inner")
        .where(fits)
        .groupBy(*CLUSTER_RUN, "topic")
        .agg(F.array_sort(F.collect_set("known")).alias("candidates"))
    )
    exact, single = F.array_contains("candidates", F.col("topic")), F.size("candidates") == 1
    return meant.withColumn("resolved", F.when(exact, F.col("topic")).when(single, F.get("candidates", F.lit(0))))


def _reports(metrics: DataFrame, names: DataFrame) -> DataFrame:
    doubtful = names.where("size(candidates) > 1")
    places = metrics.groupBy(*CLUSTER_RUN, "topic").agg(
        F.min(F.struct("source", "line")).alias("first"), F.count(F.lit(1)).alias("n")
    )
    may_be = F.array_join("candidates", ", ")
    taken = "if(resolved IS NULL, ', left out', ', used for the exact name')"
    samples = F.expr(f"concat({plural('n', 'sample')}, {taken})")
    return places.join(F.broadcast(doubtful), [*CLUSTER_RUN, "topic"], "inner").select(
        *CLUSTER_RUN,
        "first.source",
        "first.line",
        F.lit("metric").alias("kind"),
        F.lit("topic_spelling").alias("rule"),
        F.when(F.col("resolved").isNull(), "error").otherwise("warning").alias("severity"),
        F.concat(F.lit("the name may mean "), may_be, F.lit(": "), samples).alias("reason"),
        F.lit("export the topic's name as it is, with its dots").alias("remedy"),
        F.col("topic").alias("payload"),
    )
