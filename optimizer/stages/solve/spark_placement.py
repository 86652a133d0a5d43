"""The placement of a fleet in Spark: one row a partition, with ``replicas`` (before the plan) and ``current`` (now)."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from optimizer.domain import Brokers, Floats
from optimizer.settings import Settings
from optimizer.solve.bounds.class_prices import Classes
from optimizer.solve.bounds.terms import Terms
from optimizer.solve.findings.order_findings import LeftForDisk
from optimizer.solve.placement import OfCluster, Totals
from optimizer.solve.rounds.cluster_round import ClusterRound
from optimizer.solve.rounds.progress import Copies
from optimizer.solve.rounds.solved_cluster import Clusters
from optimizer.solve.rules.bands import Demand
from optimizer.solve.shard.shard_status import ShardStatus
from optimizer.stages.solve.copy_order import without_left
from optimizer.stages.solve.cut import without_cut
from optimizer.stages.solve.finish import finish
from optimizer.stages.solve.partition_classes import classes_of
from optimizer.stages.solve.resource_sums import resource_columns, resource_names, resource_sums
from optimizer.stages.solve.shard_rounds import apply_moves, solve_round, statuses_of
from optimizer.stages.solve.started import started
from optimizer.stages.solve.whole_clusters import each_cluster, terms_of
from optimizer.stages.stage import Frames


@dataclass(frozen=True)
class SparkPlacement:
    """The partitions of all clusters (``solve.placement.Placement``).

    Parameters
    ----------
    frame : DataFrame
        Rows of ``instance`` with ``current``, computed.
    brokers : by cluster
    run_id : str
    """

    frame: DataFrame
    brokers: Mapping[str, Brokers]
    run_id: str

    def _now(self, frame: DataFrame) -> Self:
        """The same partitions elsewhere."""
        return replace(self, frame=frame.localCheckpoint())

    def totals(self) -> dict[str, Totals]:
        """Demand by replication factor, and whether a list is to change its length."""
        resized = F.size("replicas") != F.col("replication_factor")
        sums = self.frame.groupBy("cluster_id", "replication_factor").agg(
            *resource_sums(),
            F.max(resized).alias("resized"),
        )
        rows: dict[str, list[Row]] = {}
        for row in sums.orderBy("cluster_id", "replication_factor").collect():
            rows.setdefault(row.cluster_id, []).append(row)
        return {cluster_id: _totals(group) for cluster_id, group in rows.items()}

    def loads(self) -> dict[str, Floats]:
        """Sums of integers, so order can't matter."""
        hosts = self.frame.select("cluster_id", F.explode("current").alias("broker_id"), *resource_columns())
        sums = hosts.groupBy("cluster_id", "broker_id").agg(*resource_sums())
        names = resource_names()
        loads = {cluster_id: np.zeros((len(b), len(names))) for cluster_id, b in self.brokers.items()}
        for row in sums.collect():
            at = int(np.searchsorted(self.brokers[row.cluster_id].ids, row.broker_id))
            loads[row.cluster_id][at] = [row[name] for name in names]
        return loads

    def copies(self, cluster_ids: Collection[str]) -> dict[str, Copies]:
        """Replicas that are new, and their bytes."""
        new = F.size(F.array_except("current", "replicas"))
        sums = self.frame.where(F.col("cluster_id").isin(*cluster_ids)).groupBy("cluster_id")
        rows = sums.agg(F.sum(new).alias("moves"), F.sum(new * F.col("size_bytes")).alias("moved_bytes"))
        return {row.cluster_id: Copies(row.moves, row.moved_bytes) for row in rows.orderBy("cluster_id").collect()}

    def started(self, clusters: Clusters) -> Self:
        """One task a cluster."""
        return self._now(started(self.frame, clusters))

    def after_round(self, tasks: Mapping[str, ClusterRound]) -> tuple[Self, list[ShardStatus]]:
        """One task a shard."""
        solved = solve_round(self.frame, dict(tasks))
        statuses = statuses_of(solved)
        moved = any(one.moves for one in statuses)
        return (self._now(apply_moves(self.frame, solved)) if moved else self), statuses

    def given_back(self, broker_ids: Mapping[str, Sequence[int]]) -> Self:
        """By a condition that names them all."""
        keeps = F.lit(False)
        for cluster_id, ids in broker_ids.items():
            gone = F.array(*(F.lit(int(b)).cast("int") for b in ids))
            keeps = keeps | ((F.col("cluster_id") == cluster_id) & F.arrays_overlap("current", gone))
        current = F.when(keeps, F.col("replicas")).otherwise(F.col("current"))
        return self._now(self.frame.withColumn("current", current))

    def cut(self, clusters: Clusters, settings: Settings) -> Self:
        """One task a cluster; column ``held_back`` tells what is left."""
        return self._now(without_cut(self.frame, clusters, settings))

    def without(self, left: Mapping[str, LeftForDisk]) -> Self:
        """By a join with their names."""
        return self._now(without_left(self.frame, left))

    def classes(self, clusters: Clusters) -> dict[str, Classes]:
        """Two small aggregates."""
        return classes_of(self.frame, clusters)

    def terms(self, clusters: Clusters, prices: Mapping[str, Sequence[Floats]]) -> dict[str, Terms]:
        """Chunks of partitions, each a task."""
        return terms_of(self.frame, clusters, prices)

    def each_cluster(self, cluster_ids: Collection[str], found_by: OfCluster) -> dict[str, Sequence[float]]:
        """One task a cluster."""
        return each_cluster(self.frame, {c: self.brokers[c].ids for c in cluster_ids}, found_by)

    def finished(self, clusters: Clusters, settings: Settings) -> tuple[Frames, dict[str, LeftForDisk]]:
        """One task a cluster."""
        return finish(self.frame, clusters, settings, self.run_id)


def _totals(rows: Sequence[Row]) -> Totals:
    factors = np.array([r.replication_factor for r in rows], dtype=np.int64)
    loads = np.array([[row[name] for name in resource_names()] for row in rows], dtype=np.float64)
    return Totals(Demand(factors, loads), any(r.resized for r in rows))
