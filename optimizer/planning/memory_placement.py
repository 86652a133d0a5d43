"""The placement of a fleet in this process, without Spark: for measurements and tests of the algorithm."""

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from optimizer.domain import Bools, Brokers, Floats, Ints, Partitions
from optimizer.planning.arrays import replica_lists, replica_matrix, stable_number, to_partitions
from optimizer.planning.classes import KEY, classes_from, named_bins, resource_names
from optimizer.planning.finish import TABLES, finish_or_leave
from optimizer.planning.left_out import cut_rows
from optimizer.settings import Settings
from optimizer.solve.bounds.bound import copies_of
from optimizer.solve.bounds.class_prices import Classes
from optimizer.solve.bounds.terms import Terms, sum_of_terms
from optimizer.solve.findings.order_findings import LeftForDisk
from optimizer.solve.placement import LEFT_OUT, OfCluster, Totals
from optimizer.solve.rounds.cluster_round import ClusterRound, must_change_racks
from optimizer.solve.rounds.progress import Copies
from optimizer.solve.rounds.shard_task import ShardTask, with_status
from optimizer.solve.rounds.solved_cluster import Clusters, SolvedCluster
from optimizer.solve.rounds.start import start
from optimizer.solve.rules.bands import broker_loads, demand_of, replica_weights
from optimizer.solve.rules.pins import group_by_pins
from optimizer.solve.shard.shard_status import ShardStatus

_LOG = logging.getLogger(__name__)
Tables = Mapping[str, pd.DataFrame]


@dataclass(frozen=True)
class Held:
    """The partitions of one cluster.

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

    def back(self, given: Bools) -> "Held":
        """Some partitions with their old lists."""
        return replace(self, current=np.where(given[:, None], self.partitions.replicas, self.current))

    def frame(self, ids: Ints) -> pd.DataFrame:
        """Rows with ``current`` and ``held_back``."""
        lists = pd.Series(replica_lists(self.current, ids), index=self.rows.index, dtype=object)
        return self.rows.assign(current=lists, held_back=self.held_back)


@dataclass(frozen=True)
class MemoryPlacement:
    """The partitions of all clusters (``solve.placement.Placement``).

    Parameters
    ----------
    brokers, fleet : by cluster
    """

    brokers: Mapping[str, Brokers]
    fleet: Mapping[str, Held]

    def totals(self) -> dict[str, Totals]:
        """Demand by replication factor, and whether a list is to change its length."""
        return {c: Totals(demand_of(one.partitions), bool(_resized(one.partitions).any())) for c, one in self._all()}

    def loads(self) -> dict[str, Floats]:
        """Sums over all replicas."""
        return {
            c: broker_loads(len(self.brokers[c]), one.current, replica_weights(one.partitions))
            for c, one in self._all()
        }

    def copies(self, cluster_ids: Collection[str]) -> dict[str, Copies]:
        """Replicas that are new, and their bytes."""
        found = {}
        for c in sorted(cluster_ids):
            partitions, current = self.fleet[c].partitions, self.fleet[c].current
            new = copies_of(partitions.replicas, current)
            found[c] = Copies(int(new.sum()), int((new * partitions.size_bytes).sum()))
        return found

    def started(self, clusters: Clusters) -> "MemoryPlacement":
        """Cluster by cluster."""
        return self._now({c: _started(one, clusters[c]) for c, one in self._all()})

    def after_round(self, tasks: Mapping[str, ClusterRound]) -> tuple["MemoryPlacement", list[ShardStatus]]:
        """Shard by shard."""
        statuses: list[ShardStatus] = []
        moved = {}
        for cluster_id, task in tasks.items():
            one = self.fleet[cluster_id]
            current = one.current.copy()
            for rows, shard in _shards(one, task):
                count, number = len(rows), shard.shard
                moves, status = with_status(cluster_id, task, number, partitions=count, attempt=shard.solved)
                statuses.append(status)
                if moves:
                    current[rows[moves.row], moves.slot] = moves.target
            moved[cluster_id] = replace(one, current=current)
        return self._now(moved), sorted(statuses, key=lambda one: one.shard)

    def given_back(self, broker_ids: Mapping[str, Sequence[int]]) -> "MemoryPlacement":
        """By a mask of brokers."""
        found = {}
        for c, ids in broker_ids.items():
            gone = np.isin(self.brokers[c].ids, ids)
            current = self.fleet[c].current
            named = ((current >= 0) & gone[np.maximum(current, 0)]).any(axis=1)
            found[c] = self.fleet[c].back(np.asarray(named))
        return self._now(found)

    def cut(self, clusters: Clusters, settings: Settings) -> "MemoryPlacement":
        """Cluster by cluster."""
        return self._now({c: _cut(self.fleet[c], one, settings) for c, one in clusters.items()})

    def without(self, left: Mapping[str, LeftForDisk]) -> "MemoryPlacement":
        """By their names."""
        found = {}
        for c, of_cluster in left.items():
            partitions, ids = self.fleet[c].partitions, self.brokers[c].ids
            names = [*zip(partitions.topic, partitions.partition.tolist(), strict=True)]
            back = self.fleet[c].back(np.array([name in of_cluster.keys for name in names]))
            rows = [row for row, name in enumerate(names) if name in of_cluster.second]
            lists = pd.Series([of_cluster.second[names[row]] for row in rows], dtype=object)
            back.current[rows] = replica_matrix(lists, ids, width=back.current.shape[1])
            found[c] = back
        return self._now(found)

    def classes(self, clusters: Clusters) -> dict[str, Classes]:
        """Sums over all partitions."""
        return {c: _classes(one.partitions, clusters[c]) for c, one in self._all()}

    def terms(self, clusters: Clusters, prices: Mapping[str, Sequence[Floats]]) -> dict[str, Terms]:
        """Sums over all partitions."""
        found = {}
        for c, tried in prices.items():
            found[c] = sum_of_terms(self.brokers[c], self.fleet[c].partitions, tried, self.fleet[c].current)
        return found

    def each_cluster(self, cluster_ids: Collection[str], found_by: OfCluster) -> dict[str, Sequence[float]]:
        """One after the other."""
        found = {}
        for c in cluster_ids:
            try:
                found[c] = found_by(c, self.fleet[c].partitions, self.fleet[c].current)
            except Exception as error:
                _LOG.warning(LEFT_OUT, c, f"{type(error).__name__}: {error}")
        return found

    def finished(self, clusters: Clusters, settings: Settings) -> tuple[Tables, dict[str, LeftForDisk]]:
        """Rows of each table, and what is left."""
        made, left = list[Tables](), dict[str, LeftForDisk]()
        for c, one in self._all():
            frame = one.frame(self.brokers[c].ids).assign(cluster_id=c)
            found, keys = finish_or_leave(frame, clusters[c], settings, c)
            if found:
                made.append({table: rows.assign(cluster_id=c) for table, rows in found.items()})
            else:
                left[c] = LeftForDisk.of(keys.itertuples(index=False), settings)
        tables = {table: [one[table] for one in made] for table in TABLES}
        every = {name: pd.concat(rows, ignore_index=True) for name, rows in tables.items() if rows}
        return every or dict.fromkeys(TABLES, pd.DataFrame()), left

    def _all(self) -> Iterator[tuple[str, Held]]:
        return iter(sorted(self.fleet.items()))

    def _now(self, moved: Mapping[str, Held]) -> "MemoryPlacement":
        """The same partitions, some elsewhere."""
        return replace(self, fleet={**self.fleet, **moved})


def in_memory(instance: pd.DataFrame, brokers: Mapping[str, Brokers]) -> MemoryPlacement:
    """The placement of a fleet before its plan, from rows of ``instance``."""
    fleet = {}
    for cluster_id, frame in instance.groupby("cluster_id", sort=True):
        rows = frame.sort_values(["topic", "partition"], kind="stable").reset_index(drop=True)
        partitions = to_partitions(rows, brokers[str(cluster_id)].ids)
        fleet[str(cluster_id)] = Held(rows, partitions, partitions.replicas.copy(), np.zeros(len(rows), dtype=bool))
    return MemoryPlacement(brokers, fleet)


def _resized(partitions: Partitions) -> Bools:
    return np.asarray((partitions.replicas >= 0).sum(axis=1) != partitions.replication_factor)


def _started(one: Held, cluster: SolvedCluster) -> Held:
    partitions, current = one.partitions, one.current.copy()
    outside = group_by_pins(cluster.brokers, partitions.topic).outside_pin(partitions.replicas).any(axis=1)
    wrong = np.flatnonzero(outside | _resized(partitions))
    if len(wrong):
        placed = start(cluster.brokers, partitions.rows(wrong), cluster.bands, cluster.loads)
        current[wrong] = np.pad(placed, ((0, 0), (0, current.shape[1] - placed.shape[1])), constant_values=-1)
    return replace(one, current=current)


def _shards(one: Held, task: ClusterRound) -> Iterator[tuple[Ints, ShardTask]]:
    """The shards of one cluster that have partitions, and the rows of these."""
    partitions, brokers = one.partitions, task.frame.brokers
    factor = partitions.replication_factor
    tie = stable_number(pd.Series(partitions.topic), pd.Series(partitions.partition))
    shard, owner = task.shards_of(one.current, factor, tie)
    takes_part = must_change_racks(brokers, one.current, factor) if task.mends else np.ones(len(factor), dtype=bool)
    for number in np.unique(task.shard[task.shard >= 0]).tolist():
        rows = np.flatnonzero((shard == number).any(axis=1) & takes_part)
        if len(rows):
            mine = _trimmed(partitions.rows(rows))
            current = one.current[rows][:, : mine.replicas.shape[1]]
            yield rows, ShardTask(task, number, mine, current, owner[rows] == number)


def _trimmed(partitions: Partitions) -> Partitions:
    """Lists as wide as these partitions need."""
    longest = int((partitions.replicas >= 0).sum(axis=1).max())
    width = max(longest, int(partitions.replication_factor.max()))
    return replace(partitions, replicas=partitions.replicas[:, :width])


def _cut(one: Held, cluster: SolvedCluster, settings: Settings) -> Held:
    rows = one.frame(cluster.brokers.ids)
    differs = (np.sort(one.current, axis=1) != np.sort(one.partitions.replicas, axis=1)).any(axis=1)
    known = differs | rows["topic_most_replicas"].notna().to_numpy()
    lists, held = cut_rows(rows[known], differs[known], cluster, settings.policy)
    current, held_back = one.current.copy(), np.zeros(len(rows), dtype=bool)
    current[differs] = replica_matrix(pd.Series(lists, dtype=object), cluster.brokers.ids, width=current.shape[1])
    held_back[differs] = held
    return replace(one, current=current, held_back=held_back)


def _classes(partitions: Partitions, cluster: SolvedCluster) -> Classes:
    """As ``_classes_of`` of ``stages.solve.spark_placement`` makes them in Spark."""
    size, rate = np.maximum(partitions.size_bytes, 1), np.maximum(partitions.in_bytes_per_s, 1)
    names = resource_names()
    more = partitions.replication_factor - (partitions.replicas >= 0).sum(axis=1)
    table = pd.DataFrame(
        {
            "cluster_id": "",
            "grows": np.sign(more),
            "size_bin": _octaves(size.astype(np.float64) * size),
            "rate_bin": _octaves(rate.astype(np.float64) / size),
            **dict(zip(names, replica_weights(partitions).T.astype(np.int64), strict=True)),
            "growth": partitions.size_bytes * more,
        }
    )
    bins = named_bins(table.groupby(KEY, as_index=False, sort=True).sum())
    named = table.merge(bins[[*KEY, "class"]], on=KEY, how="left")
    row, slot = np.nonzero(partitions.replicas >= 0)
    hosts = named.loc[row, ["class", *names]]
    hosts = hosts.assign(broker_id=cluster.brokers.ids[partitions.replicas[row, slot]])
    return classes_from(hosts.groupby(["broker_id", "class"], as_index=False).sum(), bins, cluster)


def _octaves(value: Floats) -> Ints:
    """As Spark computes them: by natural logarithms."""
    return np.floor(np.log(value) / np.log(2.0)).astype(np.int64)
