"""The placement of all clusters in Spark: a row for each partition, with ``replicas`` (old) and ``current`` (new).

``optimizer.planning`` works on one cluster; here Spark tasks call it for all clusters.
"""

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import reduce
from typing import Self

import numpy as np
import pandas as pd
from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql import types as T

import schemas
from optimizer.domain import MOBILITY, STAYING, Brokers, Floats, Ints
from optimizer.kafka.partition_state import CompletionRule
from optimizer.planning.arrays import replica_lists, split_rows, to_partitions
from optimizer.planning.classes import KEY, classes_from, named_bins, resource_names
from optimizer.planning.finish import TABLES, finish_or_leave
from optimizer.planning.left_out import reduce_to_limits
from optimizer.settings import Settings
from optimizer.solve.bounds.class_prices import Classes
from optimizer.solve.bounds.terms import Terms, sum_of_terms
from optimizer.solve.findings.order_findings import LeftForDisk
from optimizer.solve.placement import BOUND_LEFT_OUT, ClusterFunction, Totals
from optimizer.solve.rounds.cluster_round import ClusterRound
from optimizer.solve.rounds.progress import Copies
from optimizer.solve.rounds.solved_cluster import Clusters
from optimizer.solve.rounds.start import size_and_pin_lists
from optimizer.solve.rules import resources
from optimizer.solve.rules.bands import Demand
from optimizer.solve.rules.resources import REPLICAS
from optimizer.solve.shard.shard_status import ShardStatus
from optimizer.stages.shared.gathered import rows_field, table_of
from optimizer.stages.solve.shard_rounds import ROW_COLUMNS, apply_moves, solve_round, statuses_of
from optimizer.stages.stage import Frames
from schemas.keys import PARTITION
from schemas.spark import compute_once, small_frame

ROWS_PER_CHUNK = 10_000  # partitions of a task: a few seconds of work
_NEEDS_NEW_LIST = (
    "size(replicas) != replication_factor"
    " OR pinned_brokers IS NOT NULL AND size(array_except(replicas, pinned_brokers)) > 0"
)
_HAS_STUCK = f"size(isr) < size(replicas) AND mobility NOT IN ({', '.join(repr(MOBILITY[m]) for m in STAYING)})"
# As ``kafka.partition_state.reassignments_end``: a list that keeps its brokers ends at once.
_KEEPS_BROKERS = "array_sort(current) = array_sort(replicas)"
_STAYING = "array_intersect(current, replicas)"
_HAS_ANY = f"(size(array_except(current, replicas)) > 0 OR arrays_overlap({_STAYING}, isr))"
_HAS_ALL = f"size(array_except({_STAYING}, isr)) = 0"
SQL_ENDS = {
    CompletionRule.ADDED: f"{_KEEPS_BROKERS} OR {_HAS_ANY}",
    CompletionRule.TARGET: f"{_KEEPS_BROKERS} OR {_HAS_ANY} AND {_HAS_ALL}",
    CompletionRule.TARGET_IF_FEWER: (
        f"{_KEEPS_BROKERS} OR {_HAS_ANY} AND (size(current) >= size(replicas) OR {_HAS_ALL})"
    ),
}
_SIZED = "cluster_id string, topic string, partition int, sized array<int>"
_REDUCED = "cluster_id string, topic string, partition int, reduced array<int>, held_back boolean"
_LEFT = "cluster_id string, topic string, partition int, is_left boolean, second array<int>"
_TERMS = (
    "cluster_id string, prices int, moved_bytes bigint, forced_bytes bigint, tiered_bytes bigint, "
    "lagrangian_bytes bigint"
)
_RESULT = "cluster_id string, problem string, result array<double>"
_LOG = logging.getLogger(__name__)


_LEFT_PARTITION = (
    T.StructType()
    .add("topic", T.StringType())
    .add("partition", T.IntegerType())
    .add("is_left", T.BooleanType())
    .add("second", T.ArrayType(T.IntegerType()))
    .add("full_broker", T.IntegerType())
)
# One row for each cluster: the rows of each table, and the partitions that no order of copies has disk space for.
_CLUSTER_ROW = T.StructType(
    [
        T.StructField("cluster_id", T.StringType()),
        *(rows_field(schemas.ALL[table]) for table in TABLES),
        T.StructField("left", T.ArrayType(_LEFT_PARTITION)),
    ]
)


@dataclass(frozen=True)
class SparkPlacement:
    """The partitions of all clusters (``solve.placement.FleetPlacement``).

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

    def _with_frame(self, frame: DataFrame) -> Self:
        return replace(self, frame=compute_once(frame))

    def totals(self) -> dict[str, Totals]:
        """Demand by replication factor; whether a list changes its length, or has replicas out of sync."""
        resized = F.size("replicas") != F.col("replication_factor")
        sums = self.frame.groupBy("cluster_id", "replication_factor").agg(
            *resource_sums(),
            F.max(resized).alias("resized"),
            F.expr(f"max({_HAS_STUCK})").alias("has_stuck"),
        )
        rows: dict[str, list[Row]] = {}
        for row in sums.orderBy("cluster_id", "replication_factor").collect():
            rows.setdefault(row.cluster_id, []).append(row)
        return {cluster_id: _totals(group) for cluster_id, group in rows.items()}

    def loads(self) -> dict[str, Floats]:
        """Loads of the brokers. They are sums of integers, so the order of rows does not matter."""
        replicas = self.frame.select("cluster_id", F.explode("current").alias("broker_id"), *resource_columns())
        sums = replicas.groupBy("cluster_id", "broker_id").agg(*resource_sums())
        names = resource_names()
        loads = {cluster_id: np.zeros((len(b), len(names))) for cluster_id, b in self.brokers.items()}
        for row in sums.collect():
            index = int(np.searchsorted(self.brokers[row.cluster_id].ids, row.broker_id))
            loads[row.cluster_id][index] = [row[name] for name in names]
        return loads

    def copies(self, cluster_ids: Collection[str]) -> dict[str, Copies]:
        """Number of new replicas, and their bytes."""
        added = F.array_except("current", "replicas")
        copied = reduce(Column.__add__, [_copied_bytes(added, c, self.brokers[c]) for c in cluster_ids])
        clusters = self.frame.where(F.col("cluster_id").isin(*cluster_ids)).groupBy("cluster_id")
        rows = clusters.agg(F.sum(F.size(added)).alias("moves"), F.sum(copied).alias("moved_bytes"))
        return {row.cluster_id: Copies(row.moves, row.moved_bytes) for row in rows.orderBy("cluster_id").collect()}

    def with_sized_and_pinned_lists(self, clusters: Clusters) -> Self:
        """Lists with their requested length and inside their pins; one Spark task for each cluster."""
        return self._with_frame(sized_and_pinned_lists(self.frame, clusters))

    def after_round(self, tasks: Mapping[str, ClusterRound]) -> tuple[Self, list[ShardStatus]]:
        """Solve each shard in its own Spark task."""
        solved = solve_round(self.frame, dict(tasks))
        statuses = statuses_of(solved)
        moved = any(status.moves for status in statuses)
        return (self._with_frame(apply_moves(self.frame, solved)) if moved else self), statuses

    def restore_impossible_lists(self, clusters: Clusters) -> Self:
        """By a column expression."""
        restored = F.lit(False)
        for cluster_id, cluster in clusters.items():
            ids = cluster.brokers.ids[~cluster.brokers.is_live].tolist()
            not_live = F.array(*(F.lit(b).cast("int") for b in ids)).cast("array<int>")
            is_impossible = F.arrays_overlap("current", not_live) | ~F.expr(SQL_ENDS[cluster.completion])
            restored = restored | ((F.col("cluster_id") == cluster_id) & is_impossible)
        current = F.when(restored, F.col("replicas")).otherwise(F.col("current"))
        return self._with_frame(self.frame.withColumn("current", current))

    def reduce_to_limits(self, clusters: Clusters, settings: Settings) -> Self:
        """One Spark task for each cluster; column ``held_back`` marks partitions that are left for a later run."""
        return self._with_frame(_reduce_to_limits(self.frame, clusters, settings))

    def restore_left_for_disk(self, left: Mapping[str, LeftForDisk]) -> Self:
        """Restore partitions by a join with their names."""
        return self._with_frame(_restore_left_for_disk(self.frame, left))

    def partition_classes(self, clusters: Clusters) -> dict[str, Classes]:
        """Replicas by class, from two aggregates with few rows."""
        return _classes_of(self.frame, clusters)

    def bound_terms(self, clusters: Clusters, prices: Mapping[str, Sequence[Floats]]) -> dict[str, Terms]:
        """Terms of the bounds; each task sums a chunk of partitions."""
        return _terms_of(self.frame, clusters, prices)

    def for_each_cluster(self, cluster_ids: Collection[str], function: ClusterFunction) -> dict[str, Sequence[float]]:
        """The function runs in one Spark task for each cluster."""
        return _for_each_cluster(self.frame, {c: self.brokers[c].ids for c in cluster_ids}, function)

    def result_tables(self, clusters: Clusters, settings: Settings) -> tuple[Frames, dict[str, LeftForDisk]]:
        """The tables of the stage; one Spark task for each cluster."""
        return _finish(self.frame, clusters, settings, self.run_id)


def _copied_bytes(added: Column, cluster_id: str, brokers: Brokers) -> Column:
    """Bytes of the copies to the brokers of a list, if it is of this cluster; else 0."""
    skipping = F.array(*(F.lit(b).cast("int") for b in brokers.ids[brokers.skips_tiered].tolist())).cast("array<int>")
    plain = F.coalesce("copy_bytes", "size_bytes")
    tail = F.coalesce("tiered_copy_bytes", plain)
    copied = F.size(F.array_except(added, skipping)) * plain + F.size(F.array_intersect(added, skipping)) * tail
    return F.when(F.col("cluster_id") == cluster_id, copied).otherwise(F.lit(0))


def _totals(rows: Sequence[Row]) -> Totals:
    factors = np.array([r.replication_factor for r in rows], dtype=np.int64)
    loads = np.array([[row[name] for name in resource_names()] for row in rows], dtype=np.float64)
    return Totals(Demand(factors, loads), any(r.resized for r in rows), any(r.has_stuck for r in rows))


def resource_columns() -> list[str]:
    """Columns of ``instance`` that ``resource_sums`` needs."""
    return [resource.column for resource in resources.PLACEMENT_RESOURCES if resource.column is not None]


def resource_sums() -> list[Column]:
    """Sums of the resources. They are sums of integers, so the order of rows does not matter."""
    sums = [
        (resource.name, F.count("*") if resource.column is None else F.sum(resource.column))
        for resource in resources.PLACEMENT_RESOURCES
    ]
    return [total.alias(name) for name, total in sums]


def sized_and_pinned_lists(placement: DataFrame, clusters: Clusters) -> DataFrame:
    """The placement with lists ``current`` of the requested length, inside the pins.

    Parameters
    ----------
    placement : DataFrame
        Rows of ``instance`` with ``current``, the same as ``replicas``.
    """
    facts = {cluster_id: (cluster.brokers, cluster.bands, cluster.loads) for cluster_id, cluster in clusters.items()}

    def of_cluster(frame: pd.DataFrame) -> pd.DataFrame:
        brokers, bands, loads = facts[str(frame["cluster_id"].iloc[0])]
        rows = frame.sort_values(["topic", "partition"], kind="stable")
        placed = size_and_pin_lists(brokers, to_partitions(rows, brokers.ids), bands, loads)
        return rows[PARTITION].assign(sized=pd.Series(replica_lists(placed, brokers.ids), index=rows.index))

    moved = placement.where(_NEEDS_NEW_LIST).groupBy("cluster_id").applyInPandas(of_cluster, _SIZED)
    joined = placement.join(moved, on=PARTITION, how="left")
    return joined.withColumn("current", F.coalesce("sized", "current")).drop("sized")


def _reduce_to_limits(placement: DataFrame, clusters: Clusters, settings: Settings) -> DataFrame:
    """The placement as limits and disks allow it; ``held_back`` marks partitions that are left for a later run.

    Parameters
    ----------
    placement : DataFrame
        Rows of ``instance`` with ``current``, after the last round.
    clusters : by cluster
        Clusters with limited plans.
    """
    policy = settings.policy

    def of_cluster(frame: pd.DataFrame) -> pd.DataFrame:
        rows = frame.sort_values(["topic", "partition"], kind="stable")
        differs = rows["differs"].to_numpy(dtype=bool)
        lists, held_back = reduce_to_limits(rows, differs, clusters[str(frame["cluster_id"].iloc[0])], policy)
        changed = rows.loc[differs, PARTITION]
        return changed.assign(reduced=pd.Series(lists, index=changed.index, dtype=object), held_back=held_back)

    differs = F.array_sort("current") != F.array_sort("replicas")
    limited = placement.where(F.col("cluster_id").isin(*clusters)).withColumn("differs", differs)
    needed = limited.where("differs OR topic_most_replicas IS NOT NULL").groupBy("cluster_id")
    joined = placement.join(needed.applyInPandas(of_cluster, _REDUCED), on=PARTITION, how="left")
    chosen = {"current": F.coalesce("reduced", "current"), "held_back": F.coalesce("held_back", F.lit(False))}
    return joined.withColumns(chosen).drop("reduced")


def _restore_left_for_disk(placement: DataFrame, left: Mapping[str, LeftForDisk]) -> DataFrame:
    """The placement with the old lists, or the second choices, of partitions that no order of copies has space for."""
    rows = [
        {"cluster_id": c, "topic": key[0], "partition": key[1], "is_left": True, "second": of_cluster.second.get(key)}
        for c, of_cluster in left.items()
        for key in sorted(of_cluster.keys | of_cluster.second.keys())
    ]
    keys = F.broadcast(small_frame(placement.sparkSession, rows, _LEFT))
    joined = placement.join(keys, PARTITION, "left")
    current = F.when(F.col("is_left"), F.coalesce("second", "replicas")).otherwise(F.col("current"))
    return joined.withColumn("current", current).drop("is_left", "second")


def _binned(placement: DataFrame) -> DataFrame:
    """Partitions with the bin of their size (half octaves) and of bytes in over size (octaves), and the sign of the
    change of their replication factor (-1, 0, 1)."""

    def octaves(value: Column) -> Column:
        return F.floor(F.log2(value)).cast("int")

    added = F.col("replication_factor") - F.size("replicas")
    size, rate = F.greatest("size_bytes", F.lit(1)), F.greatest("in_bytes_per_s", F.lit(1))
    return placement.select(
        "cluster_id",
        F.col("replicas"),
        *resource_columns(),
        (F.col("size_bytes") * added).alias("growth"),
        F.signum(added).cast("int").alias("grows"),
        octaves(size.cast("double") * size.cast("double")).alias("size_bin"),
        octaves(rate.cast("double") / size).alias("rate_bin"),
    )


def _classes_of(placement: DataFrame, clusters: Clusters) -> dict[str, Classes]:
    """Classes of each cluster in its mean broker loads, from the placement before the plan."""
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


def _terms_of(placement: DataFrame, clusters: Clusters, prices: Mapping[str, Sequence[Floats]]) -> dict[str, Terms]:
    """Sums of each cluster that has prices; the largest cluster decides the number of chunks."""
    hosts = {cluster_id: clusters[cluster_id].brokers for cluster_id in prices}

    def chunk(frame: pd.DataFrame) -> pd.DataFrame:
        cluster_id = str(frame["cluster_id"].iloc[0])
        brokers = hosts[cluster_id]
        _, partitions, reached = split_rows(frame, brokers.ids)
        terms = sum_of_terms(brokers, partitions, prices[cluster_id], reached)
        return pd.DataFrame({"cluster_id": cluster_id, "prices": range(len(terms.lagrangian_bytes)), **asdict(terms)})

    most = max((int(cluster.demand.load[:, REPLICAS].sum()) for cluster in clusters.values()), default=1)
    chunks = max(1, -(-most // ROWS_PER_CHUNK))
    priced = placement.where(F.col("cluster_id").isin(*prices)).select(*ROW_COLUMNS)
    keyed = priced.withColumn("chunk", F.pmod(F.xxhash64("topic", "partition"), F.lit(chunks)))
    sums = keyed.groupBy("cluster_id", "chunk").applyInPandas(chunk, _TERMS).groupBy("cluster_id", "prices")
    kinds = ("moved", "forced", "tiered", "lagrangian")
    total = sums.agg(*(F.sum(f"{kind}_bytes").alias(kind) for kind in kinds))
    terms: dict[str, list[Row]] = {}
    for row in total.orderBy("cluster_id", "prices").collect():
        terms.setdefault(row.cluster_id, []).append(row)
    return {
        c: Terms(rows[0].moved, rows[0].forced, rows[0].tiered, tuple(row.lagrangian for row in rows))
        for c, rows in terms.items()
    }


def _for_each_cluster(
    placement: DataFrame, hosts: Mapping[str, Ints], function: ClusterFunction
) -> dict[str, Sequence[float]]:
    """The result of a function for each cluster, given the ids of its brokers.

    If the function fails, the cluster has no entry and a warning is logged; the other bounds remain valid.
    """
    if not hosts:
        return {}

    def of_cluster(frame: pd.DataFrame) -> pd.DataFrame:
        cluster_id = str(frame["cluster_id"].iloc[0])
        _, partitions, reached = split_rows(frame, hosts[cluster_id])
        row: dict[str, object] = {"cluster_id": cluster_id, "problem": None, "result": None}
        try:
            row["result"] = list(function(cluster_id, partitions, reached))
        except Exception as error:
            row["problem"] = f"{type(error).__name__}: {error}"
        return pd.DataFrame([row], dtype=object)

    selected = placement.where(F.col("cluster_id").isin(*hosts)).select(*ROW_COLUMNS)
    rows = selected.groupBy("cluster_id").applyInPandas(of_cluster, _RESULT).collect()
    for row in rows:
        if row.problem:
            _LOG.warning(BOUND_LEFT_OUT, row.cluster_id, row.problem)
    return {row.cluster_id: row.result for row in rows if not row.problem}


def _finish(
    placement: DataFrame, clusters: Clusters, settings: Settings, run_id: str
) -> tuple[Frames, dict[str, LeftForDisk]]:
    """``proposal``, ``moves``, ``leaders``, ``leader_bounds`` and ``findings`` of the final placement, and the
    partitions that no order of copies has disk space for. Clusters with such partitions produce no tables."""

    def of_cluster(frame: pd.DataFrame) -> pd.DataFrame:
        cluster_id = str(frame["cluster_id"].iloc[0])
        made, left = finish_or_leave(frame, clusters[cluster_id], settings, cluster_id)
        rows = {table: made[table].to_dict("records") if made else [] for table in TABLES}
        return pd.DataFrame([{"cluster_id": cluster_id, **rows, "left": left.to_dict("records")}])

    stored = compute_once(placement.groupBy("cluster_id").applyInPandas(of_cluster, _CLUSTER_ROW))
    left = {
        row.cluster_id: LeftForDisk.from_rows(row.left, settings)
        for row in stored.where(F.size("left") > 0).select("cluster_id", "left").collect()
    }
    of_run = stored.withColumn("run_id", F.lit(run_id))
    return {table: table_of(of_run, schemas.ALL[table]) for table in TABLES}, left
