"""Finds the topic and the broker of each metric sample: some exporters print '.' as '_', as old Kafka metrics did."""

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from optimizer.settings import ClusterInput
from optimizer.stages.shared.sql_words import plural
from schemas import bronze
from schemas.keys import CLUSTER_RUN
from schemas.spark import conform, small_frame


def from_records(records: DataFrame) -> DataFrame:
    """Samples of a text exposition: bronze_records of kind ``metric`` as bronze_metrics."""
    fields = "topic string, partition int, broker_id int, observed_at timestamp, value double, instance string"
    parsed = records.where(F.col("kind") == "metric").withColumn(
        "p", F.from_json("payload", f"metric string, {fields}")
    )
    return conform(parsed.select(*CLUSTER_RUN, "source", "line", "p.*"), bronze.BRONZE_METRICS)


def with_brokers(bronze_metrics: DataFrame, clusters: Sequence[ClusterInput]) -> DataFrame:
    """The samples; those of an instance in its cluster's ``instances`` have the broker that is given there."""
    given = [(cluster.id, entry.instance, entry.broker) for cluster in clusters for entry in cluster.instances]
    if not given:
        return bronze_metrics
    brokers = small_frame(bronze_metrics.sparkSession, given, "cluster_id string, instance string, given int")
    joined = bronze_metrics.join(F.broadcast(brokers), ["cluster_id", "instance"], "left")
    return conform(joined.withColumn("broker_id", F.coalesce("given", "broker_id")), bronze.BRONZE_METRICS)


def resolve_topics(bronze_metrics: DataFrame, topics: DataFrame) -> tuple[DataFrame, DataFrame]:
    """Replace the topic of every sample by the topic's name in the cluster.

    An exact name counts first. If no topic has the name, the topic with dots in place of its underscores counts. If
    there are several such topics, the samples are left out and reported. If a topic has the exact name and another one
    is spelt the same, the samples count for the exact one, with a warning.

    Parameters
    ----------
    bronze_metrics : DataFrame
    topics : DataFrame
        cluster_id, run_id, topic: the topics of each cluster.

    Returns
    -------
    (bronze_metrics, quarantine)
        The second has one row for each name that may mean several topics. Names without a topic stay as they are.
    """
    names = _candidates(bronze_metrics, topics)
    samples = bronze_metrics.join(F.broadcast(names), [*CLUSTER_RUN, "topic"], "left").where(
        "candidates IS NULL OR resolved IS NOT NULL"
    )
    resolved = samples.withColumn("topic", F.coalesce("resolved", "topic"))
    return conform(resolved, bronze.BRONZE_METRICS), conform(_reports(bronze_metrics, names), bronze.QUARANTINE)


def _candidates(metrics: DataFrame, topics: DataFrame) -> DataFrame:
    """Each exported name with the topics that it may mean, and the chosen topic; null if the name is ambiguous."""
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
    ambiguous = names.where("size(candidates) > 1")
    sources = metrics.groupBy(*CLUSTER_RUN, "topic").agg(
        F.min(F.struct("source", "line")).alias("first"), F.count(F.lit(1)).alias("n")
    )
    candidates = F.array_join("candidates", ", ")
    use = "if(resolved IS NULL, ' left out', ' used for the exact name')"
    samples = F.expr(f"concat({plural('n', 'sample')}, {use})")
    return sources.join(F.broadcast(ambiguous), [*CLUSTER_RUN, "topic"], "inner").select(
        *CLUSTER_RUN,
        "first.source",
        "first.line",
        F.lit("metric").alias("kind"),
        F.lit("topic_spelling").alias("rule"),
        F.when(F.col("resolved").isNull(), "error").otherwise("warning").alias("severity"),
        F.concat(F.lit("the name may mean "), candidates, F.lit(": "), samples).alias("reason"),
        F.lit("export the topic's name with its dots, not with underscores").alias("remedy"),
        F.col("topic").alias("payload"),
    )
