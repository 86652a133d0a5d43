"""Plan an instance without Spark, to measure only the solver and to test plans of several shards."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from benchmarks.rows import broker_row, partition_row, partition_rows
from benchmarks.run import BAND_NAMES
from optimizer.domain import Brokers, Cluster, Ints
from optimizer.planning.arrays import to_cluster
from optimizer.planning.memory_placement import in_memory
from optimizer.settings import ClusterInput, Policy, Settings
from optimizer.solve import driver
from optimizer.solve.rules.bands import broker_violations
from optimizer.solve.shard.search import CurvePoint
from optimizer.solve.tuning import TUNED, Tuning

MB, KB = 1 << 20, 1 << 10  # bytes in the MB and kB of an instance


@dataclass(frozen=True)
class Outcome:
    """A plan and its cost.

    Parameters
    ----------
    replicas : (P, W) int64
        Broker indices after the plan, slot by slot against those before.
    moved_bytes, bound_bytes : int
        The bound is the best one.
    violation : float
        Load outside the bands, in mean broker loads.
    cpu_seconds : float
        Of the shards only.
    curve : tuple of CurvePoint
        Moves against bytes, ``cost`` in bytes.
    """

    replicas: Ints
    moved_bytes: int
    bound_bytes: int
    moves: int
    violation: float
    rounds: int
    shards: int
    cpu_seconds: float
    curve: tuple[CurvePoint, ...]


def cluster_of(instance: Mapping[str, Any], name: str) -> Cluster:
    """The cluster of an instance (``benchmarks.generate``)."""
    leaving = set(instance.get("decommission") or [])
    brokers = [
        broker_row(
            b["id"],
            rack=b["rack"],
            state="draining" if b["id"] in leaving else "alive",
            disk_capacity_bytes=int(b["disk_capacity_mb"] * MB) if "disk_capacity_mb" in b else None,
            in_capacity_bytes_per_s=int(b["nw_in_capacity"] * KB) if "nw_in_capacity" in b else None,
            out_capacity_bytes_per_s=int(b["nw_out_capacity"] * KB) if "nw_out_capacity" in b else None,
        )
        for b in instance["brokers"]
    ]
    partitions = [
        partition_row(
            p["replicas"],
            topic=p["topic"],
            partition=p["partition"],
            leader=p["leader"],
            size_bytes=int(p["size_mb"] * MB),
            in_bytes_per_s=int(p["nw_in_kbps"] * KB),
            out_bytes_per_s=int(p["nw_out_kbps"] * KB),
        )
        for p in instance["partitions"]
    ]
    return to_cluster(pd.DataFrame(partitions), pd.DataFrame(brokers), name)


def policy_of(instance: Mapping[str, Any], policy: Policy) -> Policy:
    """The policy with the band widths of an instance."""
    widths_by_name = (instance.get("meta") or {}).get("bands") or {}
    widths: dict[str, Any] = {
        BAND_NAMES[name]: float(width) for name, width in widths_by_name.items() if name in BAND_NAMES
    }
    return replace(policy, **widths)


def rows_of(cluster: Cluster) -> pd.DataFrame:
    """Rows of ``instance`` for the partitions of a cluster, all free to move."""
    return pd.DataFrame(partition_rows(cluster), dtype=object)


def solve(cluster: Cluster, settings: Settings, tuning: Tuning = TUNED) -> Outcome:
    """Plan a cluster in rounds of shards, and prove its bounds."""
    return solve_fleet(rows_of(cluster), {cluster.cluster_id: cluster.brokers}, settings, tuning)[cluster.cluster_id]


def solve_fleet(
    rows: pd.DataFrame, brokers: Mapping[str, Brokers], settings: Settings, tuning: Tuning = TUNED
) -> dict[str, Outcome]:
    """Plan several clusters at once, from their rows of ``instance``; the policy applies to each."""
    fleet_settings = replace(settings, clusters=tuple(ClusterInput(id=name, input="/unused") for name in brokers))
    solved = driver.solve(in_memory(rows, brokers), fleet_settings, tuning)
    copies = solved.placement.copies(list(brokers))

    def outcome(name: str) -> Outcome:
        shards = [shard for shard in solved.shards if shard.status.cluster_id == name]
        cluster = solved.clusters[name]
        return Outcome(
            replicas=solved.placement.fleet[name].current,
            moved_bytes=copies[name].moved_bytes,
            bound_bytes=max(row.bound_bytes for row in solved.bounds.rows[name]),
            moves=copies[name].moves,
            violation=float(broker_violations(cluster.loads, cluster.bands, cluster.scale).sum()),
            rounds=1 + max((shard.round for shard in shards), default=-1),
            shards=len(shards),
            cpu_seconds=sum(shard.status.cpu_seconds for shard in shards),
            curve=cluster.progress.curve,
        )

    return {name: outcome(name) for name in brokers}
