"""The limits of the audit for a cluster's plan, and findings of partitions that the audit can't explain."""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from optimizer.audit import AuditBroker, AuditLimits, AuditLogDir, partitions_from_rows, unexplained
from optimizer.cluster_policy import ClusterPolicy
from optimizer.domain import Brokers, FindingCode, Ints, Partitions
from optimizer.kafka.versions import completion_rule
from optimizer.planning.arrays import replica_lists
from optimizer.settings import Settings
from optimizer.solve.findings.finding import Finding


def audit_limits(settings: Settings, cluster_id: str) -> AuditLimits:
    """Limits from the settings, except ``max_unexplained``, which does not influence a plan."""
    most_moves = None if settings.schedule.waves else settings.schedule.max_moves_per_wave
    move_limit = settings.cluster_policies().get(cluster_id, ClusterPolicy()).move_limit
    return AuditLimits(
        disk_headroom=settings.policy.disk_headroom,
        rack_spread=settings.policy.rack_policy == "spread",
        max_moves_per_wave=most_moves,
        max_moved_bytes=move_limit.moved_bytes,
        max_moves=move_limit.moves,
        fixed_waves=settings.schedule.waves > 0,
        completion=completion_rule(settings.kafka_versions().get(cluster_id, "")),
    )


def audit_brokers(brokers: Brokers) -> tuple[AuditBroker, ...]:
    """The brokers of a cluster in the form of the audit."""
    return tuple(
        AuditBroker(
            broker_id=int(brokers.ids[b]),
            rack=(brokers.rack_names[brokers.rack[b]] or None) if brokers.racks_matter else None,
            state=brokers.state[b],
            accepts_replicas=bool(brokers.accepts_replicas[b]),
            accepts_leadership=bool(brokers.accepts_leadership[b]),
            must_empty=bool(brokers.must_empty[b]),
            disk_capacity_bytes=int(brokers.disk_capacity_bytes[b]),
            log_dirs=tuple(
                AuditLogDir(path=d.path, capacity_bytes=d.capacity_bytes, used_bytes=d.used_bytes, is_open=d.is_open)
                for d in (brokers.log_dirs[b] if brokers.log_dirs else ())
            ),
        )
        for b in range(len(brokers))
    )


def unexplained_findings(
    rows: pd.DataFrame, brokers: Brokers, partitions: Partitions, final: Ints, limits: AuditLimits
) -> Iterator[Finding]:
    """One finding for each partition that stays without a reason that the audit accepts.

    Parameters
    ----------
    rows : DataFrame
        Rows of ``instance``, one for each of the partitions in their order.
    final : (P, W) int64
        Lists after the plan.
    """
    changed = np.flatnonzero((final != partitions.replicas).any(axis=1))
    lists = zip(changed, replica_lists(final[changed], brokers.ids), strict=True)
    left = unexplained(
        brokers=audit_brokers(brokers),
        partitions=partitions_from_rows({str(k): v for k, v in row.items()} for row in rows.to_dict("records")),
        targets={(str(partitions.topic[p]), int(partitions.partition[p])): tuple(replicas) for p, replicas in lists},
        limits=limits,
    )
    for (topic, partition), violation in left.items():
        facts = {"detail": violation.detail}
        yield Finding(FindingCode.UNEXPLAINED, "after", topic=topic, partition=partition, facts=facts)
