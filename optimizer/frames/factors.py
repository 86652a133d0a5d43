"""Replication factors in the snapshot: which one is asked for a topic, and what to do where patterns disagree."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from optimizer.errors import ConfigError
from optimizer.frames.pins import matches
from optimizer.settings import Settings, TopicFactor

TOO_FEW = "replicas asked for, brokers that can hold them:"
_NAMED = 5


def asked_factor(settings: Settings) -> Column:
    """The replication factor asked for, of columns cluster_id and topic; null where no pattern matches."""
    asked = [F.when(_matched(c, one), one.factor) for c, factors in _asked(settings).items() for one in factors]
    return F.coalesce(*asked, F.lit(None).cast("int"))


def check_factors(replicas: DataFrame, settings: Settings) -> None:
    """Refuse patterns that ask different factors for one topic.

    Raises
    ------
    ConfigError
        Names the first topics with the patterns that match them.
    """
    if all(len({one.factor for one in factors}) < 2 for factors in settings.replication_factors().values()):
        return
    said = [
        F.when(_matched(c, one), F.struct(F.lit(one.factor).alias("factor"), F.lit(one.topics).alias("pattern")))
        for c, factors in _asked(settings).items()
        for one in factors
    ]
    topics = replicas.select("cluster_id", "topic").distinct().withColumn("said", F.array_compact(F.array(*said)))
    torn = topics.where(F.size(F.array_distinct("said.factor")) > 1).orderBy("cluster_id", "topic")
    rows = torn.limit(_NAMED).collect()
    if rows:
        told = "; ".join(
            f"{row.topic} of cluster {row.cluster_id}: "
            + ", ".join(f"{one.factor} by {one.pattern!r}" for one in row.said)
            for row in rows
        )
        raise ConfigError(f"replication_factors ask different factors for one topic: {told}; let one pattern match it")


def _asked(settings: Settings) -> dict[str, tuple[TopicFactor, ...]]:
    return {cluster_id: factors for cluster_id, factors in settings.replication_factors().items() if factors}


def _matched(cluster_id: str, asked: TopicFactor) -> Column:
    return (F.col("cluster_id") == cluster_id) & matches([asked.topics])
