"""Replication factors in the snapshot: the requested factor of each topic, and what happens if patterns disagree."""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from optimizer.domain import Cause
from optimizer.errors import BallastError, ConfigError
from optimizer.settings import Settings
from optimizer.stages.shared.sql_words import plural
from optimizer.stages.snapshot.pinned_brokers import is_excluded, matches
from optimizer.topic_policy import TopicFactor

_NAMED = 5  # topics in a message: more make a line too long to read


def with_requested_factor(partitions: DataFrame, topics: DataFrame, settings: Settings) -> DataFrame:
    """Partitions with ``requested_factor`` and ``min_isr``; the latter is null if unknown or no pattern is set.

    Parameters
    ----------
    partitions : DataFrame
        With cluster_id, topic and ``replicas``. Excluded topics keep their factor.
    topics : DataFrame
        Rows of ``topics``.
    """
    current = F.size("replicas")
    requested = [
        F.when(_matches(cluster_id, pattern), pattern.factor)
        for cluster_id, patterns in _patterns(settings).items()
        for pattern in patterns
    ]
    if not requested:
        return partitions.withColumns({"requested_factor": current, "min_isr": F.lit(None).cast("int")})
    excluded = is_excluded(settings.policy)
    min_isr = topics.select("cluster_id", "topic", F.col("min_insync_replicas").alias("min_isr"))
    factor = F.when(~excluded, F.coalesce(*requested, current)).otherwise(current)
    return partitions.withColumn("requested_factor", factor).join(F.broadcast(min_isr), ["cluster_id", "topic"], "left")


def refused_factor() -> dict[str, Column]:
    """Why a partition keeps its replication factor, as a code and in words; null if it gets the requested one.

    Uses the columns of ``with_requested_factor`` and ``with_pins``.
    """
    current, requested, usable = F.size("replicas"), F.col("requested_factor"), F.col("usable_brokers")
    too_few = (requested != current) & (usable < requested)
    under_min_isr = (requested < current) & (requested < F.col("min_isr"))
    replicas, brokers = plural("requested_factor", "replica"), plural("usable_brokers", "broker")
    too_few_words = F.expr(f"concat({replicas}, ' requested, but only ', {brokers}, ' can hold them')")
    under_words = F.expr(f"concat({replicas}, ' requested, but min.insync.replicas is ', min_isr)")
    return {
        "factor_cause": F.when(too_few, Cause.TOO_FEW_BROKERS.value).when(under_min_isr, Cause.UNDER_MIN_IN_SYNC.value),
        "factor_refused": F.when(too_few, too_few_words).when(under_min_isr, under_words),
    }


def check_factors(replicas: DataFrame, settings: Settings) -> dict[str, BallastError]:
    """Clusters with patterns that request different factors for a topic; the error names the first topics."""
    if all(len({pattern.factor for pattern in patterns}) < 2 for patterns in _patterns(settings).values()):
        return {}
    matching = [
        F.when(
            _matches(cluster_id, pattern),
            F.struct(F.lit(pattern.factor).alias("factor"), F.lit(pattern.topics).alias("pattern")),
        )
        for cluster_id, patterns in _patterns(settings).items()
        for pattern in patterns
    ]
    topics = replicas.select("cluster_id", "topic").distinct()
    topics = topics.withColumn("matching", F.array_compact(F.array(*matching)))
    number = F.row_number().over(Window.partitionBy("cluster_id").orderBy("topic"))
    conflicts = topics.where(F.size(F.array_distinct("matching.factor")) > 1).withColumn("number", number)
    rows = conflicts.where(F.col("number") <= _NAMED).orderBy("cluster_id", "topic").collect()
    texts: dict[str, list[str]] = {}
    for row in rows:
        factors = ", ".join(f"{match.factor} by {match.pattern!r}" for match in row.matching)
        texts.setdefault(row.cluster_id, []).append(f"{row.topic} of cluster {row.cluster_id}: {factors}")
    problem = "patterns of replication_factors request different factors for the same topic"
    remedy = "let only one pattern match the topic"
    return {cluster: ConfigError(f"{problem}: {'; '.join(topics)}; {remedy}") for cluster, topics in texts.items()}


def _patterns(settings: Settings) -> dict[str, tuple[TopicFactor, ...]]:
    policies = settings.cluster_policies().items()
    return {cluster_id: policy.replication_factors for cluster_id, policy in policies if policy.replication_factors}


def _matches(cluster_id: str, pattern: TopicFactor) -> Column:
    return (F.col("cluster_id") == cluster_id) & matches([pattern.topics])
