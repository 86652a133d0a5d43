"""A small cluster and documents for the audit's tests."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from optimizer.audit import AuditBroker, AuditClaims, AuditLimits, AuditLogDir, AuditPartition, AuditReport, audit_plan

LIMITS = AuditLimits(disk_headroom=0.1)
Lists = Mapping[tuple[str, int], Sequence[int]]


def broker(broker_id: int, rack: str | None, **changes: Any) -> AuditBroker:
    """A living broker with a disk of 1,000 bytes."""
    fields: dict[str, Any] = {
        "state": "alive",
        "accepts_replicas": True,
        "accepts_leadership": True,
        "must_empty": False,
        "disk_capacity_bytes": 1000,
    }
    return AuditBroker(broker_id=broker_id, rack=rack, **fields | changes)


def draining(broker_id: int, rack: str | None, **changes: Any) -> AuditBroker:
    """A broker to empty."""
    leave: dict[str, Any] = {
        "state": "draining",
        "accepts_replicas": False,
        "accepts_leadership": False,
        "must_empty": True,
    }
    return broker(broker_id, rack, **leave | changes)


def partition(number: int, *replicas: int, **changes: Any) -> AuditPartition:
    """Partition ``t-number`` of 100 bytes a replica."""
    fields: dict[str, Any] = {"size_bytes": 100, "replication_factor": len(replicas), "mobility": "free"}
    return AuditPartition(topic="t", partition=number, replicas=replicas, **fields | changes)


def log_dir(path: str, used: int = 0, capacity: int | None = 1000, *, is_open: bool = True) -> AuditLogDir:
    """A directory; its limit is 900 bytes."""
    return AuditLogDir(path=path, capacity_bytes=capacity, used_bytes=used, is_open=is_open)


def document(lists: Lists) -> str:
    """Reassignment JSON."""
    rows = [{"topic": t, "partition": p, "replicas": list(r)} for (t, p), r in lists.items()]
    return json.dumps({"version": 1, "partitions": rows})


def audit(
    brokers: Sequence[AuditBroker],
    partitions: Sequence[AuditPartition],
    targets: Mapping[int, Sequence[int]],
    *,
    limits: AuditLimits = LIMITS,
    claims: AuditClaims | None = None,
    waves: Sequence[Sequence[int]] | None = None,
) -> AuditReport:
    """Audit the plan that gives partition ``t-number`` the replicas of ``targets``; one wave by default.

    The rollback leaves out partitions that were on a broker that is down.
    """
    lists = {("t", number): replicas for number, replicas in targets.items()}
    before = {p.key: p.replicas for p in partitions}
    living = {b.broker_id for b in brokers if b.state not in ("dead", "fenced")}
    rollback_lists = {
        key: before.get(key, (1,)) for key in lists if key not in before or living.issuperset(before[key])
    }
    steps = [[n for n in targets]] if waves is None else waves
    return audit_plan(
        brokers=brokers,
        partitions=partitions,
        waves=[document({("t", n): targets[n] for n in wave}) for wave in steps if wave],
        whole=document(lists) if lists else None,
        rollback=document(rollback_lists) if rollback_lists else None,
        limits=limits,
        claims=claims,
    )


def rules_broken(report: AuditReport) -> set[str]:
    """Names of the rules that do not hold."""
    return {v.rule for v in report.violations}
