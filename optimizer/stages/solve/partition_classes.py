"""Replicas of each broker by class of partitions: what the prices of the whole cluster are made of."""

import numpy as np
import pandas as pd
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from optimizer.solve.bounds.class_prices import RATE_CLASSES, SIZE_CLASSES, Classes, class_of_bins
from optimizer.solve.rounds.solved_cluster import Clusters, SolvedCluster
from optimizer.solve.rules.resources import DISK, REPLICAS
from optimizer.stages.solve.resource_sums import resource_columns, resource_names, resource_sums

KEY = ["cluster_id", "grows", "size_bin", "rate_bin"]


def _binned(placement: DataFrame) -> DataFrame:
    """Partitions with the bin of their size (half octaves) and of bytes in over size (octaves), and whether the
    replication factor that is asked for is smaller (-1), as it is, or larger (1)."""

    def octaves(value: Column) -> Column:
        return F.floor(F.log2(value)).cast("int")

    more = F.col("replication_factor") - F.size("replicas")
    size, rate = F.greatest("size_bytes", F.lit(1)), F.greatest("in_bytes_per_s", F.lit(1))
    return placement.select(
        "cluster_id",
        F.col("replicas"),
        *resource_columns(),
        (F.col("size_bytes") * more).alias("growth"),
        F.signum(more).cast("int").alias("grows"),
        octaves(size.cast("double") * size.cast("double")).alias("size_bin"),
        octaves(rate.cast("double") / size).alias("rate_bin"),
    )


def classes_of(placement: DataFrame, clusters: Clusters) -> dict[str, Classes]:
    """Classes of each cluster, in its mean broker loads, of the placement before the plan."""
    binned = _binned(placement)
    summed = binned.groupBy(*KEY).agg(*resource_sums(), F.sum("growth").alias("growth"))
    bins = named_bins(summed.toPandas().sort_values(KEY, kind="stable"))
    spark = placement.sparkSession
    names = F.broadcast(spark.createDataFrame(bins[[*KEY, "class"]]))
    hosts = binned.join(names, on=KEY).select(
        "cluster_id", F.explode("replicas").alias("broker_id"), "class", *resource_columns()
    )
    held = hosts.groupBy("cluster_id", "broker_id", "class").agg(*resource_sums()).toPandas()
    return {
        str(c): classes_from(held[held["cluster_id"] == c], rows, clusters[str(c)])
        for c, rows in bins.groupby("cluster_id", sort=True)
    }


def named_bins(bins: pd.DataFrame) -> pd.DataFrame:
    """Bins with the number of their class, ascending by KEY."""
    named = bins.assign(**{"class": -1})
    for _, rows in bins.groupby(["cluster_id", "grows"], sort=True):
        count = rows[resource_names()[REPLICAS]].to_numpy(dtype=np.int64)
        of_bins = class_of_bins(rows["size_bin"].to_numpy(), rows["rate_bin"].to_numpy(), count)
        named.loc[rows.index, "class"] = (1 + rows["grows"]) * SIZE_CLASSES * RATE_CLASSES + of_bins
    return named


def classes_from(held: pd.DataFrame, bins: pd.DataFrame, cluster: SolvedCluster) -> Classes:
    """Classes of one cluster from the sums of each broker and class, and of each bin."""
    brokers, scale = cluster.brokers, cluster.scale
    loads = resource_names()
    total = bins.groupby("class", sort=True)[[*loads, "growth"]].sum()
    at = np.searchsorted(total.index.to_numpy(), held["class"].to_numpy())
    load = np.zeros((len(brokers), len(total), len(loads)))
    load[np.searchsorted(brokers.ids, held["broker_id"].to_numpy()), at] = held[loads].to_numpy(dtype=np.float64)
    mean = total[loads].to_numpy(dtype=np.float64) / total[[loads[REPLICAS]]].to_numpy(dtype=np.float64)
    growth = total["growth"].to_numpy(dtype=np.float64)
    return Classes(load / scale, mean / scale, growth / scale[DISK])
