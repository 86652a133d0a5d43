"""Loads, bands and broken racks of every broker: before the plan, with Kafka's default, and after the plan."""

from collections.abc import Collection

import numpy as np
import pandas as pd

from optimizer.domain import Bands, Cluster, Ints
from optimizer.planning.arrays import replica_matrix, to_cluster
from optimizer.planning.crossings import COLUMNS as CROSSINGS
from optimizer.planning.crossings import Crossings, crossings
from optimizer.settings import Policy
from optimizer.solve.rules.bands import bands, broker_loads, is_outside, leader_loads, replica_weights
from optimizer.solve.rules.pins import rack_breaks
from schemas.output import BROKER_BALANCE

PLACEMENTS = {"before": "current_replicas", "baseline": "baseline_replicas", "after": "proposed_replicas"}
# Measures of each broker, for the summary. A partition that breaks the rack rule counts at its first replica's broker.
# What copies send is null before the plan, and if racks are unknown.
MEASURES = ("rack_violations", *CROSSINGS)
COLUMNS = (*BROKER_BALANCE.names, "accepts_replicas", "must_empty", *MEASURES)


def broken_racks(cluster: Cluster, replicas: Ints) -> Ints:
    """Partitions that break the rack rule, counted at the broker of their first replica, (B,)."""
    brokers = cluster.brokers
    if not brokers.racks_matter:
        return np.zeros(len(brokers), dtype=np.int64)
    broken = rack_breaks(brokers, cluster.partitions, replicas) > 0
    return np.bincount(replicas[broken, 0], minlength=len(brokers)).astype(np.int64)


def _rows(cluster: Cluster, replicas: Ints, placement: str, bands: Bands, crossing: Crossings | None) -> pd.DataFrame:
    brokers, partitions = cluster.brokers, cluster.partitions
    loads = broker_loads(len(brokers), replicas, replica_weights(partitions))
    leading = leader_loads(len(brokers), replicas, partitions)
    count, disk, rate_in = (bands.resources.index(name) for name in ("replicas", "disk", "in"))
    return pd.DataFrame(
        {
            "broker_id": brokers.ids,
            "placement": placement,
            "replicas": loads[:, count].astype(np.int64),
            "leaders": leading[:, 0].astype(np.int64),
            "disk_bytes": loads[:, disk].astype(np.int64),
            "in_bytes_per_s": loads[:, rate_in].astype(np.int64),
            "out_bytes_per_s": leading[:, 1].astype(np.int64),
            "disk_lower_bytes": bands.lower[:, disk].round().astype(np.int64),
            "disk_upper_bytes": np.where(np.isfinite(bands.upper[:, disk]), bands.upper[:, disk], -1).round(),
            "in_band": ~is_outside(loads, bands).any(axis=1),
            "rack_violations": broken_racks(cluster, replicas),
            **{name: pd.array(_known(crossing, name, len(brokers)), dtype="Int64") for name in CROSSINGS},
        }
    )


def _known(crossing: Crossings | None, name: str, n_brokers: int) -> Ints | list[None]:
    return [None] * n_brokers if crossing is None else getattr(crossing, name)


def measure_plan(
    compared: pd.DataFrame, instance: pd.DataFrame, hosts: pd.DataFrame, policy: Policy, placements: Collection[str]
) -> pd.DataFrame:
    """As ``measure``, for a plan in memory and any bands.

    Parameters
    ----------
    compared : DataFrame
        That table of the plan.
    instance : DataFrame
        Rows of ``instance``.
    """
    key = ["topic", "partition"]
    return measure(instance.merge(compared[[*key, *PLACEMENTS.values()]], on=key), hosts, policy, placements)


def measure(
    partitions: pd.DataFrame, hosts: pd.DataFrame, policy: Policy, placements: Collection[str] = tuple(PLACEMENTS)
) -> pd.DataFrame:
    """Rows of ``COLUMNS`` for one cluster.

    Parameters
    ----------
    partitions : DataFrame
        Columns of ``instance`` and the three lists of ``PLACEMENTS``. An empty baseline list means that Kafka refused
        the topic: then the current list is used.
    hosts : DataFrame
        Rows of ``instance_brokers``.
    placements : collection of str
        Of ``PLACEMENTS``, those to measure.
    """
    if hosts.empty:
        return pd.DataFrame(columns=list(COLUMNS))
    cluster = to_cluster(partitions, hosts, str(hosts["cluster_id"].iloc[0]))
    cluster_bands = bands(cluster, policy)
    ordered = partitions.sort_values(["topic", "partition"], kind="stable")
    known = ordered["baseline_replicas"].map(len) > 0
    ordered["baseline_replicas"] = ordered["baseline_replicas"].where(known, ordered["current_replicas"])
    lists = {placement: replica_matrix(ordered[name], cluster.brokers.ids) for placement, name in PLACEMENTS.items()}
    rows = [
        _rows(
            cluster,
            replicas,
            placement,
            cluster_bands,
            None if placement == "before" else crossings(cluster, lists["before"], replicas, cluster.partitions.isr),
        )
        for placement, replicas in lists.items()
        if placement in placements
    ]
    facts = hosts[["cluster_id", "run_id", "broker_id", "rack", "state", "accepts_replicas", "must_empty"]]
    return pd.concat(rows).merge(facts, on="broker_id", validate="many_to_one")[list(COLUMNS)]
