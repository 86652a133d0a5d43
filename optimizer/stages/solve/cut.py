"""After the rounds of solve: plans that copy more than is allowed, or fill a disk, are cut, one task a cluster."""

import numpy as np
import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from optimizer.domain import Bools
from optimizer.settings import Policy, Settings
from optimizer.solve.limit.limit import changes_of
from optimizer.solve.limit.limit_choice import keep_within
from optimizer.solve.rounds.solved_cluster import Clusters, SolvedCluster
from optimizer.solve.rules.bands import disk_limit
from optimizer.stages.shared.arrays import placed, to_partitions
from schemas.keys import PARTITION

_KEPT = "cluster_id string, topic string, partition int, kept boolean"


def kept_rows(rows: pd.DataFrame, differs: Bools, cluster: SolvedCluster, policy: Policy) -> Bools:
    """Which of the changed partitions of one cluster keep their change, in their order.

    Parameters
    ----------
    rows : DataFrame
        Rows of ``instance`` with ``current``, ascending by topic and partition: all that differ, and at least the
        others of topics that are to be spread, whose replicas count.
    differs : (P,) bool
    cluster : SolvedCluster
        With the cut.
    """
    if cluster.cut is None:
        return np.ones(int(differs.sum()), dtype=bool)
    ids = cluster.brokers.ids
    _, partitions, planned = placed(rows[differs], ids)
    changes = changes_of(
        cluster.brokers,
        partitions,
        planned,
        unchanged=to_partitions(rows[~differs], ids),
        bands=cluster.bands,
        loads=cluster.loads_before,
        scale=cluster.scale,
        disk_limit=disk_limit(cluster.brokers, policy),
        allowed=cluster.cut.limit,
    )
    return keep_within(changes)


def without_cut(placement: DataFrame, clusters: Clusters, settings: Settings) -> DataFrame:
    """The placement with column ``held_back``: what the limits leave for a later run is where it was.

    Parameters
    ----------
    placement : DataFrame
        Rows of ``instance`` with ``current``, as the rounds end.
    clusters : by cluster
        Those whose plans are cut.
    """
    policy = settings.policy

    def of_cluster(frame: pd.DataFrame) -> pd.DataFrame:
        rows = frame.sort_values(["topic", "partition"], kind="stable")
        differs = rows["differs"].to_numpy(dtype=bool)
        kept = kept_rows(rows, differs, clusters[str(frame["cluster_id"].iloc[0])], policy)
        return rows.loc[differs, PARTITION].assign(kept=kept)

    differs = F.array_sort("current") != F.array_sort("replicas")
    cut = placement.where(F.col("cluster_id").isin(*clusters)).withColumn("differs", differs)
    known = cut.where("differs OR topic_most_replicas IS NOT NULL").groupBy("cluster_id")
    joined = placement.join(known.applyInPandas(of_cluster, _KEPT), on=PARTITION, how="left")
    joined = joined.withColumn("held_back", ~F.coalesce("kept", F.lit(True)))
    current = F.when(F.col("held_back"), F.col("replicas")).otherwise(F.col("current"))
    return joined.withColumn("current", current).drop("kept")
