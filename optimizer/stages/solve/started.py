"""Before the rounds of solve: lists get the length asked for and go inside their pins, one task a cluster."""

import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from optimizer.solve.rounds.solved_cluster import Clusters
from optimizer.solve.rounds.start import start
from optimizer.stages.shared.arrays import replica_lists, to_partitions
from schemas.keys import PARTITION

_TO_START = (
    "size(replicas) != replication_factor"
    " OR pinned_brokers IS NOT NULL AND size(array_except(replicas, pinned_brokers)) > 0"
)
_STARTED = "cluster_id string, topic string, partition int, started array<int>"


def started(placement: DataFrame, clusters: Clusters) -> DataFrame:
    """The placement with ``current`` of the length asked for, inside the pins.

    Parameters
    ----------
    placement : DataFrame
        Rows of ``instance`` with ``current``, the same as ``replicas``.
    """
    facts = {cluster_id: (one.brokers, one.bands, one.loads) for cluster_id, one in clusters.items()}

    def of_cluster(frame: pd.DataFrame) -> pd.DataFrame:
        brokers, bands, loads = facts[str(frame["cluster_id"].iloc[0])]
        rows = frame.sort_values(["topic", "partition"], kind="stable")
        placed = start(brokers, to_partitions(rows, brokers.ids), bands, loads)
        return rows[PARTITION].assign(started=pd.Series(replica_lists(placed, brokers.ids), index=rows.index))

    moved = placement.where(_TO_START).groupBy("cluster_id").applyInPandas(of_cluster, _STARTED)
    joined = placement.join(moved, on=PARTITION, how="left")
    return joined.withColumn("current", F.coalesce("started", "current")).drop("started")
