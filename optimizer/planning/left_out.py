"""Changes that a plan leaves for later: a limit does not allow them, or no order of copies has space for them.

The waves depend only on net moves and their reasons, which follow from the solved placement. So the schedule can be
tried before leaders, findings and bounds are made; these then describe the final plan.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from optimizer.domain import REASONS, REORDERED, Bools, Brokers, Floats, Ints, Partitions, only_in
from optimizer.planning.arrays import replica_lists, split_rows, to_partitions
from optimizer.schedule.directory_plan import NO_ROUND, DirectoryPlan, directory_plan
from optimizer.schedule.throttle_rate import copy_rate_bytes_per_s
from optimizer.schedule.timed_waves import Cuts
from optimizer.schedule.wave_changes import WaveChanges, bytes_per_broker, wave_changes_between
from optimizer.schedule.wave_order import disk_limits, unschedulable
from optimizer.schedule.waves import UNPLACED
from optimizer.settings import Policy, Settings
from optimizer.solve.bounds.bound import copied_bytes, copies_of
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
            completion=cluster.completion,
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
        topic, partition, ``is_left``, ``second``: another list, or null; and ``full_broker``: the broker whose log
        directories have no room, or null.
    """
    brokers = cluster.brokers
    rows, partitions, chosen = split_rows(frame, brokers.ids)
    settled = settle(partitions.replicas, chosen)
    order = _Order(brokers, partitions, rows["log_dirs"].to_list(), settings)
    left, full_broker = order.left_out(settled)
    base = np.where(left[:, None], partitions.replicas, settled)
    lists = _with_second_choices(cluster, order, base) if left.any() else base
    is_second = (lists != base).any(axis=1)
    at = np.flatnonzero(left | is_second)
    ids = replica_lists(lists[at], brokers.ids)
    second = [replicas if is_new else None for replicas, is_new in zip(ids, is_second[at], strict=True)]
    full = [int(brokers.ids[broker]) if broker >= 0 else None for broker in full_broker[at]]
    result = rows.loc[at, ["topic", "partition"]].assign(is_left=left[at])
    return result.assign(
        second=pd.Series(second, index=result.index, dtype=object),
        full_broker=pd.Series(full, index=result.index, dtype=object),
    )


def _with_second_choices(cluster: SolvedCluster, order: "_Order", base: Ints) -> Ints:
    """Add second choices for partitions that must change and are left out, (P, W).

    First those that fit in addition to all old and new copies; then those for which there is an order of copies.
    """
    brokers, old, size = cluster.brokers, order.partitions.replicas, order.partitions.size_bytes
    disk, limit = disk_limit(brokers, order.settings.policy), cluster.cluster_policy.move_limit
    for frees_disk in (False, True):
        kept, spent_bytes = (base != old).any(axis=1), copied_bytes(brokers, order.partitions, base)
        arriving = bytes_per_broker(np.where(only_in(base, old), base, -1), size, len(brokers))
        peak = bytes_per_broker(old, size, len(brokers)) + arriving
        spent = np.array([int(spent_bytes.sum()), int(copies_of(old, base).sum())])
        lists, _ = second_choices(
            brokers,
            order.partitions,
            kept,
            planned=base,
            unchanged=order.partitions.rows(np.zeros(0, dtype=np.int64)),
            room_bytes=disk - (bytes_per_broker(base, size, len(brokers)) if frees_disk else peak),
            allowed=np.array([limit.moved_bytes, limit.moves]) - spent,
            frees_disk=frees_disk,
            completion=cluster.completion,
            most_bytes=order.most_bytes(base),
        )
        settled = settle(old, lists)
        still_left, _ = order.left_out(settled)
        while (still_left & ~kept).any():
            settled = np.where((still_left & ~kept)[:, None], old, settled)
            still_left, _ = order.left_out(settled)
        if not still_left.any():
            base = settled
    return base


@dataclass(frozen=True)
class _Order:
    """Finds the changes of one cluster that no order of the copies has space for.

    Parameters
    ----------
    log_dirs : of each partition
        The directory of each replica before the plan.
    """

    brokers: Brokers
    partitions: Partitions
    log_dirs: Sequence[Sequence[str]]
    settings: Settings

    def left_out(self, settled: Ints) -> tuple[Bools, Ints]:
        """Partitions to leave out, (P,); and a broker whose directories have no room for each, (P,), or -1."""
        changed = (settled != self.partitions.replicas).any(axis=1)
        kept, full_broker = changed.copy(), np.full(len(changed), -1, dtype=np.int64)
        while kept.any():
            left = np.zeros(len(changed), dtype=bool)
            left[kept] = self._without_disk(settled, kept)
            kept &= ~left
            if not self._has_directories:
                break
            if not left.any() and kept.any():
                left[kept], full_broker[kept] = self._without_directory(settled, kept)
                kept &= ~left
            if not left.any():
                break
        return changed & ~kept, full_broker

    @property
    def _has_directories(self) -> bool:
        return any(len(dirs) > 1 for dirs in self.brokers.log_dirs)

    def most_bytes(self, settled: Ints) -> Floats:
        """The largest replica that a broker's directories take after these changes, (B,); +inf on other brokers."""
        most = np.full(len(self.brokers), np.inf)
        if self._has_directories:
            changed = (settled != self.partitions.replicas).any(axis=1)
            for broker, size_bytes in self._directory_plan(settled, changed).rounds().most_bytes.items():
                most[broker] = size_bytes
        return most

    def _without_disk(self, settled: Ints, kept: Bools) -> Bools:
        """Changes that no order of the copies has disk space for, (N,)."""
        changes = _changes(self.brokers, self.partitions, settled, kept)
        return unschedulable(changes, disk_used=self._used, disk_limit=self._limit, schedule=self.settings.schedule)

    def _without_directory(self, settled: Ints, kept: Bools) -> tuple[Bools, Ints]:
        """Changes that find no directory, or no wave in the order of the rounds, (N,).

        And a broker whose directories have no room for each, (N,), or -1.
        """
        plan, schedule = self._directory_plan(settled, kept), self.settings.schedule
        rounds = plan.rounds()
        too_late = rounds.round_of >= schedule.waves if schedule.waves else np.zeros(len(plan.changes), dtype=bool)
        left = (rounds.round_of == NO_ROUND) | too_late
        full_broker = np.where(left, rounds.full_broker, -1)
        if not left.any() and rounds.round_of.any():
            cuts = Cuts(plan.changes, self._used, self._limit, schedule, style="careful", round_of=rounds.round_of)
            left = cuts.of_length(schedule.window_hours * 3600, copy_rate_bytes_per_s(schedule)) == UNPLACED
        return left, full_broker

    def _directory_plan(self, settled: Ints, kept: Bools) -> DirectoryPlan:
        changes = _changes(self.brokers, self.partitions, settled, kept)
        paths = [self.log_dirs[row] for row in np.flatnonzero(kept).tolist()]
        return directory_plan(changes, self.brokers.log_dirs, paths, self.settings.policy.disk_headroom)

    @cached_property
    def _used(self) -> Ints:
        return bytes_per_broker(self.partitions.replicas, self.partitions.size_bytes, len(self.brokers))

    @cached_property
    def _limit(self) -> Ints:
        return disk_limits(self.brokers.disk_capacity_bytes, self.settings.policy.disk_headroom)


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
        copy_bytes=rows.bytes_to(brokers.skips_tiered[settled[changed]]),
        in_bytes_per_s=no_traffic,
        leader=rows.leader,
        in_sync_followers=no_traffic,
        urgency=np.minimum(urgency[changed], REASONS.index(REORDERED)),
    )
