"""Makes warehouses with the plan of one cluster, as the job writes them, but without Spark."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from execution.planned import Plan, load, wave_documents
from execution.tables import Warehouse
from execution.wave import Wave, build_wave
from optimizer.emit.cluster_plan import ClusterPlan, Document
from optimizer.emit.kafka_files import kafka_documents
from optimizer.emit.manifest import manifest
from optimizer.emit.rows import SourceRow, ThrottleRow
from optimizer.emit.throttle_files import throttle_documents
from tests.emit.throttled import EARLIER, throttled_plan

CLUSTER, RUN = "c", "r"
# 2026-11-01 00:00 UTC
CAPTURED_AT = 1793491200
Changes = Mapping[tuple[str, int], tuple[list[int], list[int]]]
STAYS = "stays-id"


def plan_of(waves: Sequence[Changes], *, topic_ids: Mapping[str, str], rate: int | None = None) -> ClusterPlan:
    """A plan of several waves from the replica lists before and after each."""
    parts = [throttled_plan(changes) for changes in waves]
    first = parts[0]
    for wave in first.waves:
        rate = rate or wave.throttle_bytes_per_s

    def with_rate(row: ThrottleRow) -> ThrottleRow:
        return replace(row, config_value=str(rate)) if row.entity_type == "brokers" else row

    numbered = list(enumerate(parts, start=1))
    changed = [replace(row, topic_id=topic_ids.get(row.topic), wave=n) for n, part in numbered for row in part.changed]
    throttles = [replace(with_rate(row), wave=n) for n, part in numbered for row in part.throttles]
    return replace(
        first,
        changed=sorted(changed, key=lambda row: (row.topic, row.partition)),
        waves=[replace(row, wave=n) for n, part in numbered for row in part.waves],
        throttles=throttles,
        sources=[SourceRow("x", captured_at=CAPTURED_AT, records=1)],
        code_version="v1",
    )


def usual_plan() -> ClusterPlan:
    """Two waves of the topic ``stays``, on a cluster where an operator had set throttles."""
    return plan_of([{("stays", 0): ([1, 2], [1, 3])}, {("stays", 1): ([2, 1], [2, 4])}], topic_ids={"stays": STAYS})


def without_previous_throttles(plan: ClusterPlan) -> ClusterPlan:
    """The plan for a cluster that had no throttles before."""
    rows = [replace(row, previous_value=None) for row in plan.throttles]
    return replace(plan, throttles_found=(), throttles=rows)


def documents(plan: ClusterPlan) -> list[Document]:
    """The executable documents of a plan, and its manifest."""
    executable = [*kafka_documents(plan), *throttle_documents(plan)]
    return [*executable, manifest(plan, executable)]


def write_plan(folder: Path, plan: ClusterPlan, *, verdict: str = "planned", attempt: int = 1) -> Warehouse:
    """A new warehouse with the documents of a plan and the verdict of an attempt."""
    warehouse = Warehouse(str(folder))
    key = {"cluster_id": CLUSTER, "run_id": RUN}
    rows = [
        {**key, "path": d.path, "kind": d.kind, "wave": d.wave, "content": d.content, "sha256": _sha256(d.content)}
        for d in documents(plan)
    ]
    warehouse.append("documents", rows)
    add_verdict(warehouse, _sha256(documents(plan)[-1].content), verdict=verdict, attempt=attempt)
    return warehouse


def add_waves(warehouse: Warehouse, run_id: str, cluster: str, number: int, **figures: int) -> None:
    """Store a number of waves for a plan, each with these figures."""
    names = ("partitions", "replicas_moved", "moved_bytes", "busiest_bytes", "throttle_bytes_per_s", "peak_disk_bytes")
    zero = dict.fromkeys((*names, "estimated_seconds"), 0)
    row = {"cluster_id": cluster, "run_id": run_id, **zero, "busiest_broker": None, "below_floor": False, **figures}
    warehouse.append("waves", [{**row, "wave": wave} for wave in range(1, number + 1)])


def add_verdict(
    warehouse: Warehouse,
    manifest_sha256: str | None,
    *,
    verdict: str,
    attempt: int,
    exit_code: int = 0,
    reason: str | None = None,
) -> None:
    """Store a verdict of an attempt at the run."""
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


def load_plan(warehouse: Warehouse) -> Plan:
    """The plan of a warehouse."""
    return load(warehouse, cluster_id=CLUSTER, run_id=RUN)


def load_wave(warehouse: Warehouse, number: int) -> Wave:
    """A wave of the plan of a warehouse."""
    plan = load_plan(warehouse)
    return build_wave(number, plan.manifest, wave_documents(warehouse, plan, number))


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


__all__ = [
    "CLUSTER",
    "EARLIER",
    "RUN",
    "STAYS",
    "add_verdict",
    "add_waves",
    "documents",
    "load_plan",
    "load_wave",
    "plan_of",
    "usual_plan",
    "without_previous_throttles",
]
