"""The placement of a fleet in this process, without Spark: for benchmarks and tests of the algorithm."""

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from optimizer.domain import Bools, Brokers, Floats, Ints, Partitions
from optimizer.kafka.partition_state import reassignments_end
from optimizer.planning.arrays import replica_lists, replica_matrix, stable_number, to_partitions
from optimizer.planning.classes import KEY, classes_from, named_bins, resource_names
from optimizer.planning.finish import TABLES, finish_or_leave
from optimizer.planning.left_out import reduce_to_limits
from optimizer.settings import Settings
from optimizer.solve.bounds.bound import copied_bytes, copies_of
from optimizer.solve.bounds.class_prices import Classes
from optimizer.solve.bounds.terms import Terms, sum_of_terms
from optimizer.solve.findings.order_findings import LeftForDisk
from optimizer.solve.placement import BOUND_LEFT_OUT, ClusterFunction, Totals
from optimizer.solve.rounds.cluster_round import ClusterRound, must_change_racks
from optimizer.solve.rounds.progress import Copies
from optimizer.solve.rounds.shard_task import ShardTask, with_status
from optimizer.solve.rounds.solved_cluster import Clusters, SolvedCluster
from optimizer.solve.rounds.start import size_and_pin_lists
from optimizer.solve.rules.bands import broker_loads, demand_of, replica_weights
from optimizer.solve.rules.mobility import stays
from optimizer.solve.rules.pins import group_by_pins
from optimizer.solve.shard.shard_status import ShardStatus

_LOG = logging.getLogger(__name__)
Tables = Mapping[str, pd.DataFrame]


@dataclass(frozen=True)
class ClusterPlacement:
    """The replicas of one cluster, before the plan and now.

    Parameters
    ----------
    rows : DataFrame
        Of ``instance``, ascending by topic and partition.
    partitions : Partitions
    current : (P, W) int64
        Broker indices now.
    held_back : (P,) bool
        A limit leaves the partition for a later run.
    """

    rows: pd.DataFrame
    partitions: Partitions
    current: Ints
    held_back: Bools

    def with_old_lists(self, restored: Bools) -> "ClusterPlacement":
        """Give some partitions, (P,), their old lists."""
        return replace(self, current=np.where(restored[:, None], self.partitions.replicas, self.current))

    def frame(self, ids: Ints) -> pd.DataFrame:
        """Rows of ``instance`` with ``current`` and ``held_back``."""
        lists = pd.Series(replica_lists(self.current, ids), index=self.rows.index, dtype=object)
        return self.rows.assign(current=lists, held_back=self.held_back)


@dataclass(frozen=True)
class MemoryPlacement:
    """The partitions of all clusters (``solve.placement.FleetPlacement``).

    Parameters
    ----------
    brokers, fleet : by cluster
    """

    brokers: Mapping[str, Brokers]
    fleet: Mapping[str, ClusterPlacement]

    def totals(self) -> dict[str, Totals]:
        """Demand by replication factor; whether a list changes its length, or has replicas out of sync."""
        return {
            c: Totals(
                demand_of(cluster.partitions), bool(_resized(cluster.partitions).any()), _has_stuck(cluster.partitions)
            )
            for c, cluster in self._sorted()
        }

    def loads(self) -> dict[str, Floats]:
        """Sums over all replicas."""
        return {
            c: broker_loads(len(self.brokers[c]), cluster.current, replica_weights(cluster.partitions))
            for c, cluster in self._sorted()
        }

    def copies(self, cluster_ids: Collection[str]) -> dict[str, Copies]:
        """New replicas, and their bytes."""
        copies = {}
        for c in sorted(cluster_ids):
            partitions, current = self.fleet[c].partitions, self.fleet[c].current
            new = copies_of(partitions.replicas, current)
            copies[c] = Copies(int(new.sum()), int(copied_bytes(self.brokers[c], partitions, current).sum()))
        return copies

    def with_sized_and_pinned_lists(self, clusters: Clusters) -> "MemoryPlacement":
        """Cluster by cluster."""
        return self._with({c: _sized_and_pinned(cluster, clusters[c]) for c, cluster in self._sorted()})

    def after_round(self, tasks: Mapping[str, ClusterRound]) -> tuple["MemoryPlacement", list[ShardStatus]]:
        """Shard by shard."""
        statuses: list[ShardStatus] = []
        moved = {}
        for cluster_id, task in tasks.items():
            cluster = self.fleet[cluster_id]
            current = cluster.current.copy()
            for rows, shard in _shards(cluster, task):
                count, number = len(rows), shard.shard
                moves, status = with_status(cluster_id, task, number, partitions=count, attempt=shard.solve)
                statuses.append(status)
                if moves:
                    current[rows[moves.row], moves.slot] = moves.target
            moved[cluster_id] = replace(cluster, current=current)
        return self._with(moved), sorted(statuses, key=lambda status: status.shard)

    def restore_impossible_lists(self, clusters: Clusters) -> "MemoryPlacement":
        """By arrays."""
        restored = {}
        for c, cluster in clusters.items():
            partitions, current = self.fleet[c].partitions, self.fleet[c].current
            names_one = ((current >= 0) & ~cluster.brokers.is_live[np.maximum(current, 0)]).any(axis=1)
            in_sync = ~partitions.stuck(partitions.replicas)
            ends = reassignments_end(partitions.replicas, current, in_sync, cluster.completion)
            restored[c] = self.fleet[c].with_old_lists(np.asarray(names_one | ~ends))
        return self._with(restored)

    def reduce_to_limits(self, clusters: Clusters, settings: Settings) -> "MemoryPlacement":
        """Cluster by cluster."""
        return self._with({c: _reduced_to_limits(self.fleet[c], cluster, settings) for c, cluster in clusters.items()})

    def restore_left_for_disk(self, left: Mapping[str, LeftForDisk]) -> "MemoryPlacement":
        """By topic and partition."""
        restored = {}
        for c, left_in_cluster in left.items():
            partitions, ids = self.fleet[c].partitions, self.brokers[c].ids
            keys = [*zip(partitions.topic, partitions.partition.tolist(), strict=True)]
            cluster = self.fleet[c].with_old_lists(np.array([key in left_in_cluster.keys for key in keys]))
            rows = [row for row, key in enumerate(keys) if key in left_in_cluster.second]
            lists = pd.Series([left_in_cluster.second[keys[row]] for row in rows], dtype=object)
            cluster.current[rows] = replica_matrix(lists, ids, width=cluster.current.shape[1])
            restored[c] = cluster
        return self._with(restored)

    def partition_classes(self, clusters: Clusters) -> dict[str, Classes]:
        """Sums over all partitions."""
        return {c: _classes(cluster.partitions, clusters[c]) for c, cluster in self._sorted()}

    def bound_terms(self, clusters: Clusters, prices: Mapping[str, Sequence[Floats]]) -> dict[str, Terms]:
        """Sums over all partitions."""
        terms = {}
        for c, cluster_prices in prices.items():
            terms[c] = sum_of_terms(self.brokers[c], self.fleet[c].partitions, cluster_prices, self.fleet[c].current)
        return terms

    def for_each_cluster(self, cluster_ids: Collection[str], function: ClusterFunction) -> dict[str, Sequence[float]]:
        """One after the other."""
        results = {}
        for c in cluster_ids:
            try:
                results[c] = function(c, self.fleet[c].partitions, self.fleet[c].current)
            except Exception as error:
                _LOG.warning(BOUND_LEFT_OUT, c, f"{type(error).__name__}: {error}")
        return results

    def result_tables(self, clusters: Clusters, settings: Settings) -> tuple[Tables, dict[str, LeftForDisk]]:
        """Rows of each table, and the partitions that stay."""
        by_cluster, left = list[Tables](), dict[str, LeftForDisk]()
        for c, cluster in self._sorted():
            frame = cluster.frame(self.brokers[c].ids).assign(cluster_id=c)
            cluster_tables, left_rows = finish_or_leave(frame, clusters[c], settings, c)
            if cluster_tables:
                by_cluster.append({table: rows.assign(cluster_id=c) for table, rows in cluster_tables.items()})
            else:
                left[c] = LeftForDisk.from_rows(left_rows.itertuples(index=False), settings)
        parts = {table: [tables[table] for tables in by_cluster] for table in TABLES}
        tables = {table: pd.concat(rows, ignore_index=True) for table, rows in parts.items() if rows}
        return tables or dict.fromkeys(TABLES, pd.DataFrame()), left

    def _sorted(self) -> Iterator[tuple[str, ClusterPlacement]]:
        return iter(sorted(self.fleet.items()))

    def _with(self, changed: Mapping[str, ClusterPlacement]) -> "MemoryPlacement":
        return replace(self, fleet={**self.fleet, **changed})


def in_memory(instance: pd.DataFrame, brokers: Mapping[str, Brokers]) -> MemoryPlacement:
    """The placement of a fleet before its plan, from rows of ``instance``."""
    fleet = {}
    for cluster_id, frame in instance.groupby("cluster_id", sort=True):
        rows = frame.sort_values(["topic", "partition"], kind="stable").reset_index(drop=True)
        partitions = to_partitions(rows, brokers[str(cluster_id)].ids)
        fleet[str(cluster_id)] = ClusterPlacement(
            rows, partitions, partitions.replicas.copy(), np.zeros(len(rows), dtype=bool)
        )
    return MemoryPlacement(brokers, fleet)


def _resized(partitions: Partitions) -> Bools:
    return np.asarray((partitions.replicas >= 0).sum(axis=1) != partitions.replication_factor)


def _has_stuck(partitions: Partitions) -> bool:
    return bool(partitions.stuck(partitions.replicas)[~stays(partitions.mobility)].any())


def _sized_and_pinned(placement: ClusterPlacement, cluster: SolvedCluster) -> ClusterPlacement:
    partitions, current = placement.partitions, placement.current.copy()
    outside_pin = group_by_pins(cluster.brokers, partitions.topic).outside_pin(partitions.replicas).any(axis=1)
    wrong = np.flatnonzero(outside_pin | _resized(partitions))
    if len(wrong):
        placed = size_and_pin_lists(cluster.brokers, partitions.rows(wrong), cluster.bands, cluster.loads)
        current[wrong] = np.pad(placed, ((0, 0), (0, current.shape[1] - placed.shape[1])), constant_values=-1)
    return replace(placement, current=current)


def _shards(placement: ClusterPlacement, task: ClusterRound) -> Iterator[tuple[Ints, ShardTask]]:
    """The shards of one cluster that have partitions, each with the rows of its partitions."""
    partitions, brokers = placement.partitions, task.frame.brokers
    factor = partitions.replication_factor
    tie = stable_number(pd.Series(partitions.topic), pd.Series(partitions.partition))
    shard, owner = task.shards_of(placement.current, partitions.stuck(placement.current), factor, tie)
    takes_part = (
        must_change_racks(brokers, placement.current, factor)
        if task.repairs_racks
        else np.ones(len(factor), dtype=bool)
    )
    for number in np.unique(task.shard[task.shard >= 0]).tolist():
        rows = np.flatnonzero((shard == number).any(axis=1) & takes_part)
        if len(rows):
            members = _trimmed(partitions.rows(rows))
            current = placement.current[rows][:, : members.replicas.shape[1]]
            yield rows, ShardTask(task, number, members, current, owner[rows] == number)


def _trimmed(partitions: Partitions) -> Partitions:
    """Lists as wide as these partitions need."""
    longest = int((partitions.replicas >= 0).sum(axis=1).max())
    width = max(longest, int(partitions.replication_factor.max()))
    return replace(partitions, replicas=partitions.replicas[:, :width])


def _reduced_to_limits(placement: ClusterPlacement, cluster: SolvedCluster, settings: Settings) -> ClusterPlacement:
    rows = placement.frame(cluster.brokers.ids)
    differs = (np.sort(placement.current, axis=1) != np.sort(placement.partitions.replicas, axis=1)).any(axis=1)
    known = differs | rows["topic_most_replicas"].notna().to_numpy()
    lists, changed_held_back = reduce_to_limits(rows[known], differs[known], cluster, settings.policy)
    current, held_back = placement.current.copy(), np.zeros(len(rows), dtype=bool)
    current[differs] = replica_matrix(pd.Series(lists, dtype=object), cluster.brokers.ids, width=current.shape[1])
    held_back[differs] = changed_held_back
    return replace(placement, current=current, held_back=held_back)


def _classes(partitions: Partitions, cluster: SolvedCluster) -> Classes:
    """The same classes as ``_classes_of`` of ``stages.solve.spark_placement``."""
    size, rate = np.maximum(partitions.size_bytes, 1), np.maximum(partitions.in_bytes_per_s, 1)
    names = resource_names()
    added = partitions.replication_factor - (partitions.replicas >= 0).sum(axis=1)
    table = pd.DataFrame(
        {
            "cluster_id": "",
            "grows": np.sign(added),
            "size_bin": _octaves(size.astype(np.float64) * size),
            "rate_bin": _octaves(rate.astype(np.float64) / size),
            **dict(zip(names, replica_weights(partitions).T.astype(np.int64), strict=True)),
            "growth": partitions.size_bytes * added,
        }
    )
    bins = named_bins(table.groupby(KEY, as_index=False, sort=True).sum())
    named = table.merge(bins[[*KEY, "class"]], on=KEY, how="left")
    row, slot = np.nonzero(partitions.replicas >= 0)
    hosts = named.loc[row, ["class", *names]]
    hosts = hosts.assign(broker_id=cluster.brokers.ids[partitions.replicas[row, slot]])
    return classes_from(hosts.groupby(["broker_id", "class"], as_index=False).sum(), bins, cluster)


def _octaves(value: Floats) -> Ints:
    """Computed by natural logarithms, as Spark does."""
    return np.floor(np.log(value) / np.log(2.0)).astype(np.int64)
