"""Replicas of each broker by class of partitions; the prices of the whole cluster are computed from these."""

import numpy as np
import pandas as pd

from optimizer.solve.bounds.class_prices import RATE_CLASSES, SIZE_CLASSES, Classes, class_of_bins
from optimizer.solve.rounds.solved_cluster import SolvedCluster
from optimizer.solve.rules import resources
from optimizer.solve.rules.resources import DISK, REPLICAS

KEY = ["cluster_id", "grows", "size_bin", "rate_bin"]


def resource_names() -> list[str]:
    """Names of the placement resources; their sums have the same names."""
    return [resource.name for resource in resources.PLACEMENT_RESOURCES]


def named_bins(bins: pd.DataFrame) -> pd.DataFrame:
    """The bins, ascending by KEY, with the number of their class."""
    named = bins.assign(**{"class": -1})
    for _, rows in bins.groupby(["cluster_id", "grows"], sort=True):
        count = rows[resource_names()[REPLICAS]].to_numpy(dtype=np.int64)
        of_bins = class_of_bins(rows["size_bin"].to_numpy(), rows["rate_bin"].to_numpy(), count)
        named.loc[rows.index, "class"] = (1 + rows["grows"]) * SIZE_CLASSES * RATE_CLASSES + of_bins
    return named


def classes_from(held: pd.DataFrame, bins: pd.DataFrame, cluster: SolvedCluster) -> Classes:
    """Classes of one cluster, from the sums of each (broker, class) pair and the sums of each bin."""
    brokers, scale = cluster.brokers, cluster.scale
    loads = resource_names()
    total = bins.groupby("class", sort=True)[[*loads, "growth"]].sum()
    at = np.searchsorted(total.index.to_numpy(), held["class"].to_numpy())
    load = np.zeros((len(brokers), len(total), len(loads)))
    load[np.searchsorted(brokers.ids, held["broker_id"].to_numpy()), at] = held[loads].to_numpy(dtype=np.float64)
    mean = total[loads].to_numpy(dtype=np.float64) / total[[loads[REPLICAS]]].to_numpy(dtype=np.float64)
    growth = total["growth"].to_numpy(dtype=np.float64)
    return Classes(load / scale, mean / scale, growth / scale[DISK])
