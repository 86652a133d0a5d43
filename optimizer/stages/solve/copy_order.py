"""The last look at a plan before it is written down: partitions that no order of copies has room for keep their lists.

What the waves will be depends on net moves and their reasons alone, which the solved placement gives; so the schedule
can be tried before leaders, findings and bounds are made, and all of these speak of what is left.
"""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from optimizer.domain import REASONS, REORDERED, Bools, Brokers, Ints, Partitions
from optimizer.schedule.wave_changes import WaveChanges, bytes_per_broker, changes_of
from optimizer.schedule.wave_order import disk_limits, stuck
from optimizer.settings import Settings
from optimizer.solve.findings.net_moves import reasons, settle
from optimizer.solve.findings.order_findings import LeftForDisk
from optimizer.stages.shared.arrays import placed
from schemas.keys import PARTITION
from schemas.spark import small_frame

_LEFT = "cluster_id string, topic string, partition int, is_left boolean"


def without_left(placement: DataFrame, left: Mapping[str, LeftForDisk]) -> DataFrame:
    """The placement with the old lists of partitions that are left."""
    rows = [
        {"cluster_id": cluster_id, "topic": topic, "partition": number, "is_left": True}
        for cluster_id, of_cluster in left.items()
        for topic, number in sorted(of_cluster.keys)
    ]
    keys = F.broadcast(small_frame(placement.sparkSession, rows, _LEFT))
    joined = placement.join(keys, PARTITION, "left")
    return joined.withColumn("current", F.when(F.col("is_left"), F.col("replicas")).otherwise(F.col("current"))).drop(
        "is_left"
    )


def left_by_order(frame: pd.DataFrame, brokers: Brokers, settings: Settings) -> pd.DataFrame:
    """Keys of the partitions of one cluster that are left: topic, partition.

    Parameters
    ----------
    frame : DataFrame
        Rows of ``instance`` with ``current``, the lists as solved.
    """
    rows, partitions, chosen = placed(frame, brokers.ids)
    settled = settle(partitions.replicas, chosen)
    return rows.loc[_left(brokers, partitions, settled, settings), ["topic", "partition"]]


def _left(brokers: Brokers, partitions: Partitions, settled: Ints, settings: Settings) -> Bools:
    """Partitions that are left, (P,); at once where all copies fit beside what is there."""
    changed = (settled != partitions.replicas).any(axis=1)
    left = np.zeros(len(partitions), dtype=bool)
    if not changed.any():
        return left
    changes = _changes(brokers, partitions, settled, changed)
    used = bytes_per_broker(partitions.replicas, partitions.size_bytes, len(brokers))
    limit = disk_limits(brokers.disk_capacity_bytes, settings.policy.disk_headroom)
    left[changed] = stuck(changes, disk_used=used, disk_limit=limit, schedule=settings.schedule)
    return left


def _changes(brokers: Brokers, partitions: Partitions, settled: Ints, changed: Bools) -> WaveChanges:
    """The changes as the schedule will see them; live traffic has no part in their order."""
    urgency = np.full(len(partitions), len(REASONS), dtype=np.int64)
    for move in reasons(brokers, partitions, settled):
        urgency[move.row] = min(urgency[move.row], REASONS.index(move.reason))
    rows = partitions.rows(np.flatnonzero(changed))
    nothing = np.zeros(len(rows), dtype=np.int64)
    return changes_of(
        rows.replicas,
        settled[changed],
        brokers.ids,
        topic=rows.topic,
        partition=rows.partition,
        size_bytes=rows.size_bytes,
        in_bytes_per_s=nothing,
        leader=rows.leader,
        in_sync_followers=nothing,
        urgency=np.minimum(urgency[changed], REASONS.index(REORDERED)),
    )
