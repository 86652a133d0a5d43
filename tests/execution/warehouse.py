"""Warehouses with the plan of one cluster, as the job leaves them: made without Spark."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from execution.planned import Plan, documents_of, load
from execution.tables import Warehouse
from execution.wave import Wave, wave_of
from optimizer.emit.cluster_plan import ClusterPlan, Document
from optimizer.emit.kafka_files import kafka_documents
from optimizer.emit.manifest import manifest
from optimizer.emit.rows import SourceRow, ThrottleRow
from optimizer.emit.throttle_files import throttle_documents
from tests.emit.throttled import FOUND, throttled_plan

CLUSTER, RUN = "c", "r"
# 2026-11-01 00:00 UTC
CAPTURED_AT = 1793491200
Changes = Mapping[tuple[str, int], tuple[list[int], list[int]]]
STAYS = "stays-id"


def plan_of(waves: Sequence[Changes], *, topic_ids: Mapping[str, str], rate: int | None = None) -> ClusterPlan:
    """A plan of several waves: lists before and after."""
    parts = [throttled_plan(changes) for changes in waves]
    first = parts[0]
    for wave in first.waves:
        rate = rate or wave.throttle_bytes_per_s

    def in_throttle(row: ThrottleRow) -> ThrottleRow:
        return replace(row, config_value=str(rate)) if row.entity_type == "brokers" else row

    numbered = list(enumerate(parts, start=1))
    changed = [replace(row, topic_id=topic_ids.get(row.topic), wave=n) for n, part in numbered for row in part.changed]
    throttles = [replace(in_throttle(row), wave=n) for n, part in numbered for row in part.throttles]
    return replace(
        first,
        changed=sorted(changed, key=lambda row: (row.topic, row.partition)),
        waves=[replace(row, wave=n) for n, part in numbered for row in part.waves],
        throttles=throttles,
        sources=[SourceRow("x", captured_at=CAPTURED_AT, records=1)],
        code_version="v1",
    )


def usual() -> ClusterPlan:
    """Two waves of the topic ``stays``, over throttles that an operator had set."""
    return plan_of([{("stays", 0): ([1, 2], [1, 3])}, {("stays", 1): ([2, 1], [2, 4])}], topic_ids={"stays": STAYS})


def undisturbed(plan: ClusterPlan) -> ClusterPlan:
    """The same where nobody had set a throttle before."""
    rows = [replace(row, previous_value=None) for row in plan.throttles]
    return replace(plan, throttles_found=(), throttles=rows)


def documents(plan: ClusterPlan) -> list[Document]:
    """What is executed, and the manifest."""
    made = [*kafka_documents(plan), *throttle_documents(plan)]
    return [*made, manifest(plan, made)]


def written(folder: Path, plan: ClusterPlan, *, verdict: str = "planned", attempt: int = 1) -> Warehouse:
    """A warehouse with the plan, and the verdict of an attempt."""
    warehouse = Warehouse(str(folder))
    key = {"cluster_id": CLUSTER, "run_id": RUN}
    rows = [
        {**key, "path": d.path, "kind": d.kind, "wave": d.wave, "content": d.content, "sha256": _sha256(d.content)}
        for d in documents(plan)
    ]
    warehouse.append("documents", rows)
    told(warehouse, _sha256(documents(plan)[-1].content), verdict=verdict, attempt=attempt)
    return warehouse


def add_waves(warehouse: Warehouse, run_id: str, cluster: str, number: int, **figures: int) -> None:
    """Store that a plan has so many waves, each with these figures."""
    names = ("partitions", "replicas_moved", "moved_bytes", "busiest_bytes", "throttle_bytes_per_s", "peak_disk_bytes")
    zero = dict.fromkeys((*names, "estimated_seconds"), 0)
    row = {"cluster_id": cluster, "run_id": run_id, **zero, "busiest_broker": None, "below_floor": False, **figures}
    warehouse.append("waves", [{**row, "wave": wave} for wave in range(1, number + 1)])


def told(
    warehouse: Warehouse,
    manifest_sha256: str | None,
    *,
    verdict: str,
    attempt: int,
    exit_code: int = 0,
    reason: str | None = None,
) -> None:
    """Another verdict."""
    row = {
        "cluster_id": CLUSTER,
        "run_id": RUN,
        "attempt": attempt,
        "verdict": verdict,
        "stage": None,
        "exit_code": exit_code,
        "reason": reason,
        "manifest_sha256": manifest_sha256,
    }
    warehouse.append("verdicts", [row])


def loaded(warehouse: Warehouse) -> Plan:
    """Its plan."""
    return load(warehouse, cluster_id=CLUSTER, run_id=RUN)


def wave(warehouse: Warehouse, number: int) -> Wave:
    """One of its waves."""
    plan = loaded(warehouse)
    return wave_of(number, plan.manifest, documents_of(warehouse, plan, number))


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


__all__ = [
    "CLUSTER",
    "FOUND",
    "RUN",
    "STAYS",
    "add_waves",
    "documents",
    "loaded",
    "plan_of",
    "told",
    "undisturbed",
    "usual",
    "wave",
]
