"""Replication factors in the snapshot: which one is asked for a topic, and what to do where patterns disagree."""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from optimizer.domain import Cause
from optimizer.errors import BallastError, ConfigError
from optimizer.settings import Settings
from optimizer.stages.shared.sql_words import plural
from optimizer.stages.snapshot.pinned_brokers import is_excluded, matches
from optimizer.topic_policy import TopicFactor

_NAMED = 5  # topics in a message: more do not fit a line that is read


def with_asked(partitions: DataFrame, topics: DataFrame, settings: Settings) -> DataFrame:
    """Partitions with ``asked``, the replication factor, and ``min_isr``, null where unknown or nothing is asked.

    Parameters
    ----------
    partitions : DataFrame
        With cluster_id, topic and ``replicas``; excluded topics keep what they have.
    topics : DataFrame
        Rows of ``topics``.
    """
    now = F.size("replicas")
    asked = [F.when(_matched(c, one), one.factor) for c, factors in _asked(settings).items() for one in factors]
    if not asked:
        return partitions.withColumns({"asked": now, "min_isr": F.lit(None).cast("int")})
    excluded = is_excluded(settings.policy)
    least = topics.select("cluster_id", "topic", F.col("min_insync_replicas").alias("min_isr"))
    return partitions.withColumn("asked", F.when(~excluded, F.coalesce(*asked, now)).otherwise(now)).join(
        F.broadcast(least), ["cluster_id", "topic"], "left"
    )


def refused_factor() -> dict[str, Column]:
    """Why a partition keeps what it has, as code and in words, of the columns of ``with_asked`` and ``with_pins``; null
    where it need not."""
    now, asked, room = F.size("replicas"), F.col("asked"), F.col("room")
    few, under = (asked != now) & (room < asked), (asked < now) & (asked < F.col("min_isr"))
    wanted = f"{plural('asked', 'replica')}, ' asked for, "
    few_words = F.expr(f"concat({wanted}brokers that can hold them: ', room)")
    under_words = F.expr(f"concat({wanted}min.insync.replicas: ', min_isr)")
    return {
        "factor_cause": F.when(few, Cause.TOO_FEW_BROKERS.value).when(under, Cause.UNDER_MIN_IN_SYNC.value),
        "factor_refused": F.when(few, few_words).when(under, under_words),
    }


def check_factors(replicas: DataFrame, settings: Settings) -> dict[str, BallastError]:
    """Clusters where patterns ask different factors for one topic: the first topics, with the patterns."""
    if all(len({one.factor for one in factors}) < 2 for factors in _asked(settings).values()):
        return {}
    said = [
        F.when(_matched(c, one), F.struct(F.lit(one.factor).alias("factor"), F.lit(one.topics).alias("pattern")))
        for c, factors in _asked(settings).items()
        for one in factors
    ]
    topics = replicas.select("cluster_id", "topic").distinct().withColumn("said", F.array_compact(F.array(*said)))
    place = F.row_number().over(Window.partitionBy("cluster_id").orderBy("topic"))
    torn = topics.where(F.size(F.array_distinct("said.factor")) > 1).withColumn("place", place)
    rows = torn.where(F.col("place") <= _NAMED).orderBy("cluster_id", "topic").collect()
    told: dict[str, list[str]] = {}
    for row in rows:
        asked = ", ".join(f"{one.factor} by {one.pattern!r}" for one in row.said)
        told.setdefault(row.cluster_id, []).append(f"{row.topic} of cluster {row.cluster_id}: {asked}")
    what, remedy = "replication_factors ask different factors for one topic", "let one pattern match it"
    return {cluster: ConfigError(f"{what}: {'; '.join(some)}; {remedy}") for cluster, some in told.items()}


def _asked(settings: Settings) -> dict[str, tuple[TopicFactor, ...]]:
    policies = settings.cluster_policies().items()
    return {cluster_id: policy.replication_factors for cluster_id, policy in policies if policy.replication_factors}


def _matched(cluster_id: str, asked: TopicFactor) -> Column:
    return (F.col("cluster_id") == cluster_id) & matches([asked.topics])
