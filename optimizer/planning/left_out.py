"""Changes that a plan leaves for later: a limit does not allow them, or no order of copies has disk space for them.

The waves depend only on net moves and their reasons, which follow from the solved placement. So the schedule can be
tried before leaders, findings and bounds are made; these then describe the final plan.
"""

import numpy as np
import pandas as pd

from optimizer.domain import REASONS, REORDERED, Bools, Brokers, Ints, Partitions
from optimizer.planning.arrays import replica_lists, split_rows, to_partitions
from optimizer.schedule.wave_changes import WaveChanges, bytes_per_broker, wave_changes_between
from optimizer.schedule.wave_order import disk_limits, unschedulable
from optimizer.settings import Policy, Settings
from optimizer.solve.bounds.bound import copies_of, only_in
from optimizer.solve.findings.net_moves import reasons, settle
from optimizer.solve.limit.limit import plan_changes
from optimizer.solve.limit.limit_choice import keep_within
from optimizer.solve.limit.second_choice import second_choices
from optimizer.solve.rounds.solved_cluster import SolvedCluster
from optimizer.solve.rules.bands import disk_limit
from optimizer.solve.rules.resources import DISK


def reduce_to_limits(
    rows: pd.DataFrame, differs: Bools, cluster: SolvedCluster, policy: Policy
) -> tuple[list[list[int]], Bools]:
    """Reduce the plan of one cluster to its limits.

    Parameters
    ----------
    rows : DataFrame
        Rows of ``instance`` with ``current``, ascending by topic and partition: all partitions that change, and at
        least the other partitions of topics with a limit.
    differs : (P,) bool
        The partitions that change.

    Returns
    -------
    tuple
        Lists of broker ids of the partitions that change, in their order; and whether each of these is held back: its
        change is left out, at least in part.
    """
    brokers, over_limits = cluster.brokers, cluster.over_limits
    _, partitions, planned = split_rows(rows[differs], brokers.ids)
    if over_limits is None:
        return replica_lists(planned, brokers.ids), np.zeros(len(partitions), dtype=bool)
    unchanged = to_partitions(rows[~differs], brokers.ids)
    changes = plan_changes(
        brokers,
        partitions,
        planned,
        unchanged=unchanged,
        bands=cluster.bands,
        loads=cluster.loads_before,
        scale=cluster.scale,
        disk_limit=disk_limit(brokers, policy),
        allowed=over_limits.limit,
    )
    kept = keep_within(changes)
    lists, held_back = np.where(kept[:, None], planned, partitions.replicas), ~kept
    if over_limits.disk_headroom is not None:
        lists, held_back = second_choices(
            brokers,
            partitions,
            kept,
            planned=planned,
            unchanged=unchanged,
            room_bytes=changes.disk_limit - changes.loads_with(kept)[:, DISK],
            allowed=changes.remaining(kept),
            frees_disk=True,
        )
    return replica_lists(lists, brokers.ids), held_back


def left_by_order(frame: pd.DataFrame, cluster: SolvedCluster, settings: Settings) -> pd.DataFrame:
    """The partitions of one cluster that no order of the copies has disk space for, and those with a second choice.

    Parameters
    ----------
    frame : DataFrame
        Rows of ``instance`` with ``current``, the solved lists.

    Returns
    -------
    DataFrame
        topic, partition, ``is_left``, and ``second``: another list, or null.
    """
    brokers = cluster.brokers
    rows, partitions, chosen = split_rows(frame, brokers.ids)
    settled = settle(partitions.replicas, chosen)
    left = _left_out(brokers, partitions, settled, settings)
    base = np.where(left[:, None], partitions.replicas, settled)
    lists = _with_second_choices(cluster, partitions, base, settings) if left.any() else base
    is_second = (lists != base).any(axis=1)
    at = np.flatnonzero(left | is_second)
    ids = replica_lists(lists[at], brokers.ids)
    second = [replicas if is_new else None for replicas, is_new in zip(ids, is_second[at], strict=True)]
    result = rows.loc[at, ["topic", "partition"]].assign(is_left=left[at])
    return result.assign(second=pd.Series(second, index=result.index, dtype=object))


def _with_second_choices(cluster: SolvedCluster, partitions: Partitions, base: Ints, settings: Settings) -> Ints:
    """Add second choices for partitions that must change and are left out, (P, W).

    First those that fit in addition to all old and new copies; then those for which there is an order of copies.
    """
    brokers, old, size = cluster.brokers, partitions.replicas, partitions.size_bytes
    disk, limit = disk_limit(brokers, settings.policy), cluster.cluster_policy.move_limit
    for frees_disk in (False, True):
        kept, copies = (base != old).any(axis=1), copies_of(old, base)
        arriving = bytes_per_broker(np.where(only_in(base, old), base, -1), size, len(brokers))
        peak = bytes_per_broker(old, size, len(brokers)) + arriving
        spent = np.array([int((copies * size).sum()), int(copies.sum())])
        lists, _ = second_choices(
            brokers,
            partitions,
            kept,
            planned=base,
            unchanged=partitions.rows(np.zeros(0, dtype=np.int64)),
            room_bytes=disk - (bytes_per_broker(base, size, len(brokers)) if frees_disk else peak),
            allowed=np.array([limit.moved_bytes, limit.moves]) - spent,
            frees_disk=frees_disk,
        )
        settled = settle(old, lists)
        still_left = _left_out(brokers, partitions, settled, settings)
        while (still_left & ~kept).any():
            settled = np.where((still_left & ~kept)[:, None], old, settled)
            still_left = _left_out(brokers, partitions, settled, settings)
        if not still_left.any():
            base = settled
    return base


def _left_out(brokers: Brokers, partitions: Partitions, settled: Ints, settings: Settings) -> Bools:
    """Partitions to leave out, (P,), because no order of the copies has disk space for them."""
    changed = (settled != partitions.replicas).any(axis=1)
    left = np.zeros(len(partitions), dtype=bool)
    if not changed.any():
        return left
    changes = _changes(brokers, partitions, settled, changed)
    used = bytes_per_broker(partitions.replicas, partitions.size_bytes, len(brokers))
    limit = disk_limits(brokers.disk_capacity_bytes, settings.policy.disk_headroom)
    left[changed] = unschedulable(changes, disk_used=used, disk_limit=limit, schedule=settings.schedule)
    return left


def _changes(brokers: Brokers, partitions: Partitions, settled: Ints, changed: Bools) -> WaveChanges:
    """The changes as input of the schedule; live traffic does not influence their order, so it is 0."""
    urgency = np.full(len(partitions), len(REASONS), dtype=np.int64)
    for move in reasons(brokers, partitions, settled):
        urgency[move.row] = min(urgency[move.row], REASONS.index(move.reason))
    rows = partitions.rows(np.flatnonzero(changed))
    no_traffic = np.zeros(len(rows), dtype=np.int64)
    return wave_changes_between(
        rows.replicas,
        settled[changed],
        brokers.ids,
        topic=rows.topic,
        partition=rows.partition,
        size_bytes=rows.size_bytes,
        in_bytes_per_s=no_traffic,
        leader=rows.leader,
        in_sync_followers=no_traffic,
        urgency=np.minimum(urgency[changed], REASONS.index(REORDERED)),
    )
