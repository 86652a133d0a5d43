"""Changes that a plan leaves for later: what a limit does not allow, and what no order of copies has room for.

What the waves will be depends on net moves and their reasons alone, which the solved placement gives. So the schedule
can be tried before leaders, findings and bounds are made, and all of these speak of what is left.
"""

import numpy as np
import pandas as pd

from optimizer.domain import REASONS, REORDERED, Bools, Brokers, Ints, Partitions
from optimizer.planning.arrays import placed, replica_lists, to_partitions
from optimizer.schedule.wave_changes import WaveChanges, bytes_per_broker, wave_changes_between
from optimizer.schedule.wave_order import disk_limits, stuck
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
    """Lists of broker ids that the limits leave to the changed partitions of one cluster, in their order; and those
    that they hold back: what had to change about them has not, or not all of it.

    Parameters
    ----------
    rows : DataFrame
        Rows of ``instance`` with ``current``, ascending by topic and partition: all that differ, and at least the
        others of topics that are to be spread, whose replicas count.
    differs : (P,) bool
    cluster : SolvedCluster
        With the cut.
    """
    brokers, cut = cluster.brokers, cluster.over_limits
    _, partitions, planned = placed(rows[differs], brokers.ids)
    if cut is None:
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
        allowed=cut.limit,
    )
    kept = keep_within(changes)
    lists, held_back = np.where(kept[:, None], planned, partitions.replicas), ~kept
    if cut.disk_headroom is not None:
        lists, held_back = second_choices(
            brokers,
            partitions,
            kept,
            planned=planned,
            unchanged=unchanged,
            room_bytes=changes.disk_limit - changes.loads_with(kept)[:, DISK],
            allowed=changes.remaining(kept),
        )
    return replica_lists(lists, brokers.ids), held_back


def left_by_order(frame: pd.DataFrame, cluster: SolvedCluster, settings: Settings) -> pd.DataFrame:
    """The partitions of one cluster that no order of copies has room for, and those that get another list instead:
    topic, partition, ``is_left``, and ``second``, that list or null.

    Parameters
    ----------
    frame : DataFrame
        Rows of ``instance`` with ``current``, the lists as solved.
    """
    brokers = cluster.brokers
    rows, partitions, chosen = placed(frame, brokers.ids)
    settled = settle(partitions.replicas, chosen)
    left = _left(brokers, partitions, settled, settings)
    base = np.where(left[:, None], partitions.replicas, settled)
    lists = _with_second(cluster, partitions, base, settings) if left.any() else base
    is_second = (lists != base).any(axis=1)
    at = np.flatnonzero(left | is_second)
    ids = replica_lists(lists[at], brokers.ids)
    second = [replicas if is_new else None for replicas, is_new in zip(ids, is_second[at], strict=True)]
    found = rows.loc[at, ["topic", "partition"]].assign(is_left=left[at])
    return found.assign(second=pd.Series(second, index=found.index, dtype=object))


def _with_second(cluster: SolvedCluster, partitions: Partitions, base: Ints, settings: Settings) -> Ints:
    """Lists with second choices of what must change and does not, (P, W): first where they fit beside all copies, old
    and new, then where there is an order for them."""
    brokers, old, size = cluster.brokers, partitions.replicas, partitions.size_bytes
    disk, limit = disk_limit(brokers, settings.policy), cluster.cluster_policy.move_limit
    for frees_disk in (False, True):
        kept, copies = (base != old).any(axis=1), copies_of(old, base)
        arriving = bytes_per_broker(np.where(only_in(base, old), base, -1), size, len(brokers))
        beside = bytes_per_broker(old, size, len(brokers)) + arriving
        spent = np.array([int((copies * size).sum()), int(copies.sum())])
        lists, _ = second_choices(
            brokers,
            partitions,
            kept,
            planned=base,
            unchanged=partitions.rows(np.zeros(0, dtype=np.int64)),
            room_bytes=disk - (bytes_per_broker(base, size, len(brokers)) if frees_disk else beside),
            allowed=np.array([limit.moved_bytes, limit.moves]) - spent,
        )
        settled = settle(old, lists)
        stuck_again = _left(brokers, partitions, settled, settings)
        if stuck_again.any():
            settled = np.where((stuck_again & ~kept)[:, None], old, settled)
            stuck_again = _left(brokers, partitions, settled, settings)
        if not stuck_again.any():
            base = settled
    return base


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
    return wave_changes_between(
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
