"""Topic limits in the snapshot: how many replicas of a topic one broker may hold, and how many it may lead."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from optimizer.planning.arrays import to_brokers
from optimizer.settings import Settings
from optimizer.solve.rules.racks import busiest_share, live_rack_sizes
from schemas.spark import small_frame

SHARE_UNITS = 10**9  # shares are summed as integers, so that the order of rows does not matter
DIGITS = 6  # after the decimal point: an error of floating point must not round a share up
_SHARES = "cluster_id string, replication_factor int, share bigint"


def with_topic_most(partitions: DataFrame, brokers: DataFrame, settings: Settings) -> DataFrame:
    """Partitions with ``topic_most_replicas`` and ``topic_most_leaders``; null without a policy and for pinned topics.

    Parameters
    ----------
    partitions : DataFrame
        With cluster_id, topic, ``replication_factor`` and ``pinned_brokers``.
    brokers : DataFrame
        Rows of ``instance_brokers``.
    """
    policy, none = settings.policy, F.lit(None).cast("int")
    if not (policy.topic_spread or policy.topic_leader_spread):
        return partitions.withColumns({"topic_most_replicas": none, "topic_most_leaders": none})
    leaders = brokers.groupBy("cluster_id").agg(F.count_if("accepts_leadership").alias("may_lead"))
    topics = (
        partitions.where("pinned_brokers IS NULL")
        .join(F.broadcast(_shares(partitions, brokers)), ["cluster_id", "replication_factor"])
        .join(F.broadcast(leaders), ["cluster_id"])
        .groupBy("cluster_id", "topic")
        .agg(
            _most(policy.topic_spread, F.sum("share") / SHARE_UNITS).alias("topic_most_replicas"),
            _most(policy.topic_leader_spread, F.count("*") / F.max("may_lead")).alias("topic_most_leaders"),
        )
    )
    return partitions.join(topics, ["cluster_id", "topic"], "left")


def _most(spread: float, fair_share: Column) -> Column:
    """``spread`` times the fair share, rounded up (formulas 9 and 22 of docs/solver.md); null without a spread or
    without a broker."""
    return F.ceil(F.round(F.lit(spread or None).cast("double") * fair_share, DIGITS)).cast("int")


def _shares(partitions: DataFrame, brokers: DataFrame) -> DataFrame:
    """Expected replicas of a partition on the busiest broker, in parts of ``SHARE_UNITS``, by replication factor."""
    hosts = brokers.toPandas()
    sizes = {str(c): live_rack_sizes(to_brokers(rows)) for c, rows in hosts.groupby("cluster_id", sort=True)}
    factors = partitions.select("cluster_id", "replication_factor").distinct()
    rows = [
        (c, factor, round(busiest_share(factor, sizes[c]) * SHARE_UNITS))
        for c, factor in sorted(tuple(row) for row in factors.collect())
    ]
    return small_frame(partitions.sparkSession, rows, _SHARES)
