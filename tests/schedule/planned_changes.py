"""The changes of whole plans, made in memory, as input of waves."""

from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from benchmarks.generate import generate
from benchmarks.planned import cluster_of, policy_of, solve
from optimizer.configuration import build
from optimizer.domain import REASONS, Ints
from optimizer.schedule.estimate import traffic
from optimizer.schedule.wave_changes import WaveChanges, bytes_per_broker, wave_changes_between
from optimizer.schedule.wave_order import disk_limits
from optimizer.shipped import defaults
from optimizer.solve.findings.net_moves import reasons, settle


@dataclass(frozen=True)
class PlannedChanges:
    """The changes of a plan, with bytes on each broker before it and the most at any time, (B,).

    Parameters
    ----------
    tight_limit : (B,) int64
        Another limit: 1 % over the fullest broker after the plan.
    """

    changes: WaveChanges
    disk_used: Ints
    disk_limit: Ints
    tight_limit: Ints

    def lengths(self, wave_of: Ints) -> Ints:
        """Bytes of the busiest end of each wave, (waves,)."""
        parts = [self.changes.select(wave_of == wave) for wave in range(1, int(wave_of.max(initial=0)) + 1)]
        return np.array([traffic(part, len(self.disk_used)).busiest.max() for part in parts], dtype=np.int64)


@cache
def planned_changes(size: str, scenario: str) -> PlannedChanges:
    """The changes of the plan of ``generate(size, scenario, 1)``."""
    instance = generate(size, scenario, 1)
    cluster, settings = cluster_of(instance, scenario), build(defaults())
    settings = replace(settings, policy=policy_of(instance, settings.policy))
    brokers, partitions = cluster.brokers, cluster.partitions
    settled = settle(partitions.replicas, solve(cluster, settings).replicas)
    urgency = np.full(len(partitions), len(REASONS) - 1, dtype=np.int64)
    for move in reasons(brokers, partitions, settled):
        urgency[move.row] = min(urgency[move.row], REASONS.index(move.reason))
    changed = np.flatnonzero((settled != partitions.replicas).any(axis=1))
    rows = partitions.rows(changed)
    changes = wave_changes_between(
        rows.replicas,
        settled[changed],
        brokers.ids,
        topic=rows.topic,
        partition=rows.partition,
        size_bytes=rows.size_bytes,
        copy_bytes=rows.copy_bytes[:, None],
        in_bytes_per_s=rows.in_bytes_per_s,
        leader=rows.leader,
        in_sync_followers=(rows.replicas >= 0).sum(axis=1) - 1,
        urgency=urgency[changed],
    )
    used, after = (
        bytes_per_broker(lists, partitions.size_bytes, len(brokers)) for lists in (partitions.replicas, settled)
    )
    limit = disk_limits(brokers.disk_capacity_bytes, settings.policy.disk_headroom)
    return PlannedChanges(changes, used, limit, np.full(len(brokers), after.max() * 101 // 100, dtype=np.int64))
