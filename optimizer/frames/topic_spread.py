"""The spread of topics in the snapshot: how many replicas of a topic one broker may hold."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from optimizer.frames.cluster import to_brokers
from optimizer.settings import Settings
from optimizer.solve.racks import busiest_share, live_rack_sizes

SHARE_UNITS = 10**9  # whole numbers, so that their order does not matter to the sum
DIGITS = 6
_SHARES = "cluster_id string, replication_factor int, share bigint"


def with_topic_most(partitions: DataFrame, brokers: DataFrame, settings: Settings) -> DataFrame:
    """Partitions with ``topic_most_replicas``: null where nothing is asked, and for topics with a pin.

    Parameters
    ----------
    partitions : DataFrame
        With cluster_id, topic, ``replication_factor`` and ``pinned_brokers``.
    brokers : DataFrame
        Rows of ``instance_brokers``.
    """
    wanted = settings.policy.topic_spread
    if not wanted:
        return partitions.withColumn("topic_most_replicas", F.lit(None).cast("int"))
    most = F.ceil(F.round(F.lit(wanted) * F.sum("share") / SHARE_UNITS, DIGITS)).cast("int")
    topics = (
        partitions.where("pinned_brokers IS NULL")
        .join(F.broadcast(_shares(partitions, brokers)), ["cluster_id", "replication_factor"])
        .groupBy("cluster_id", "topic")
        .agg(most.alias("topic_most_replicas"))
    )
    return partitions.join(topics, ["cluster_id", "topic"], "left")


def _shares(partitions: DataFrame, brokers: DataFrame) -> DataFrame:
    """What the busiest broker must expect of one partition, in parts of ``SHARE_UNITS``, by replication factor."""
    hosts = brokers.toPandas()
    sizes = {str(c): live_rack_sizes(to_brokers(rows)) for c, rows in hosts.groupby("cluster_id", sort=True)}
    factors = partitions.select("cluster_id", "replication_factor").distinct()
    rows = [
        (c, factor, round(busiest_share(factor, sizes[c]) * SHARE_UNITS))
        for c, factor in sorted(tuple(row) for row in factors.collect())
    ]
    return partitions.sparkSession.createDataFrame(rows, _SHARES)
