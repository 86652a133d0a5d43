"""Makes warehouses with the plan of one cluster, as the job writes them, but without Spark."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from execution.observed import Throttle
from execution.planned import Plan, load, wave_documents
from execution.wave import Wave, build_wave
from optimizer.emit.cluster_plan import ClusterPlan, Document
from optimizer.emit.decision_text import NAME as DECISION
from optimizer.emit.kafka_files import kafka_documents
from optimizer.emit.manifest import manifest
from optimizer.emit.rows import DirMoveRow, EarlierThrottleRow, PlanRow, SourceRow, ThrottleRow
from optimizer.emit.throttle_files import STYLES, throttle_documents
from optimizer.kafka.reassignment_json import ANY_DIR
from optimizer.kafka.throttle import LOG_DIR_RATE
from stored.tables import Warehouse
from tests.emit.throttled import EARLIER, throttled_plan

CLUSTER, RUN = "c", "r"
# 2026-11-01 00:00 UTC
CAPTURED_AT = 1793491200
VALID_HOURS = 10.0**6  # hours: a plan of the tests does not expire before the year 2140
Changes = Mapping[tuple[str, int], tuple[list[int], list[int]]]
# Of each partition its replicas, and of some brokers the directories before and after.
Inside = Mapping[tuple[str, int], tuple[Sequence[int], Mapping[int, tuple[str, str]]]]
STAYS = "stays-id"


def plan_of(
    waves: Sequence[Changes],
    *,
    topic_ids: Mapping[str, str],
    rate: int | None = None,
    log_dirs: Mapping[tuple[str, int, int], str] | None = None,
    inside: Sequence[Inside] = (),
) -> ClusterPlan:
    """A plan of several waves from the replica lists before and after each.

    Parameters
    ----------
    inside : sequence of mapping
        Further waves, which move replicas inside brokers.
    log_dirs : mapping of (topic, partition, broker) to path
        Old directories of replicas that are there, planned ones of those that arrive. Then each broker has
        several.
    """
    parts = [throttled_plan(changes) for changes in waves]
    first = parts[0] if parts else throttled_plan({})
    for wave in first.waves:
        rate = rate or wave.throttle_bytes_per_s

    def with_rate(row: ThrottleRow) -> ThrottleRow:
        return replace(row, config_value=str(rate)) if row.entity_type == "brokers" else row

    numbered = list(enumerate(parts, start=1))
    changed = [replace(row, topic_id=topic_ids.get(row.topic), wave=n) for n, part in numbered for row in part.changed]
    if log_dirs is not None:
        changed = [_with_dirs(row, log_dirs) for row in changed]
        dirs = [{"path": path, "is_open": True} for path in sorted({*log_dirs.values(), "/another"})]
        first = replace(first, brokers=[replace(row, log_dirs=dirs) for row in first.brokers])
    throttles = [replace(with_rate(row), wave=n) for n, part in numbered for row in part.throttles]
    plan = replace(
        first,
        changed=sorted(changed, key=lambda row: (row.topic, row.partition)),
        waves=[replace(row, wave=n, copy_bytes_per_s=rate or 0) for n, part in numbered for row in part.waves],
        throttles=throttles,
        sources=[SourceRow("x", captured_at=CAPTURED_AT, records=1)],
        code_version="v1",
    )
    for moves in inside:
        plan = _with_inside(plan, moves, topic_ids, rate or 1)
    return plan


def _with_inside(plan: ClusterPlan, moves: Inside, topic_ids: Mapping[str, str], rate: int) -> ClusterPlan:
    """The plan with one more wave, which moves replicas inside brokers."""
    number = len(plan.waves) + 1
    rows = [
        DirMoveRow(topic, partition, broker, replicas, before, after, 1, number, topic_ids.get(topic))
        for (topic, partition), (replicas, paths) in sorted(moves.items())
        for broker, (before, after) in sorted(paths.items())
    ]
    rates = [
        ThrottleRow("brokers", str(broker), LOG_DIR_RATE, str(rate), previous_value=None, wave=number, style=style)
        for style in STYLES
        for broker in sorted({row.broker_id for row in rows})
    ]
    wave = replace(throttled_plan().waves[0], wave=number, copy_bytes_per_s=rate, inside_brokers=True)
    return replace(
        plan,
        dir_moves=[*plan.dir_moves, *rows],
        throttles=[*plan.throttles, *rates],
        waves=[*plan.waves, wave],
    )


def _with_dirs(row: PlanRow, log_dirs: Mapping[tuple[str, int, int], str]) -> PlanRow:
    def paths(brokers: Sequence[int]) -> list[str]:
        return [log_dirs.get((row.topic, row.partition, broker), ANY_DIR) for broker in brokers]

    planned = [
        ANY_DIR if broker in row.current_replicas else path
        for broker, path in zip(row.proposed_replicas, paths(row.proposed_replicas), strict=True)
    ]
    return replace(row, log_dirs=paths(row.current_replicas), planned_log_dirs=planned)


def usual_plan() -> ClusterPlan:
    """Two waves of the topic ``stays``, on a cluster where an operator had set throttles. It has not expired."""
    waves = [{("stays", 0): ([1, 2], [1, 3])}, {("stays", 1): ([2, 1], [2, 4])}]
    return replace(plan_of(waves, topic_ids={"stays": STAYS}), valid_hours=VALID_HOURS)


def with_previous_throttles(plan: ClusterPlan, found: Mapping[Throttle, str]) -> ClusterPlan:
    """The plan for a cluster that had these throttles before."""
    rows = [
        replace(row, previous_value=found.get((row.entity_type, row.entity_name, row.config_name)))
        for row in plan.throttles
    ]
    earlier = [EarlierThrottleRow(*key, value, is_static=False) for key, value in sorted(found.items())]
    return replace(plan, throttles_found=earlier, throttles=rows)


def documents(plan: ClusterPlan, decision: Mapping[str, Any] | None = None) -> list[Document]:
    """The executable documents of a plan, a decision that the manifest names, and the manifest."""
    written = [*kafka_documents(plan), *throttle_documents(plan)]
    if decision is not None:
        written.append(Document(f"{CLUSTER}/{DECISION}", "decision", 0, json.dumps(decision)))
    return [*written, manifest(plan, written)]


# What commands and pages read of ``decision.json``.
DECISION_CONTENT = {
    "title": "c: 1 B",
    "notes": [],
    "captured_at": "2026-10-05T02:00:00+00:00",
    "valid_until": None,
    "verdict": {"state": "green", "headline": "c: 1 B"},
    "goals": [{"name": "racks", "is_reached": True}, {"name": "balance", "is_reached": False}],
    "cards": [{"value": "75 → 51 %", "label": "fullest disk", "remark": ""}],
    "copying": {"waves": 0, "nights": None, "words": ""},
    "has_racks": False,
    "figures": {},
}


def write_plan(
    folder: Path,
    plan: ClusterPlan,
    *,
    verdict: str = "planned",
    attempt: int = 1,
    run_id: str = RUN,
    decision: Mapping[str, Any] | None = None,
) -> Warehouse:
    """A warehouse with the documents of a plan, its decision or a short one, and the verdict of an attempt."""
    warehouse = Warehouse(str(folder))
    key = {"cluster_id": CLUSTER, "run_id": run_id}
    written = documents(replace(plan, run_id=run_id), decision)
    rows = [
        {**key, "path": d.path, "kind": d.kind, "wave": d.wave, "content": d.content, "sha256": _sha256(d.content)}
        for d in written
    ]
    short = {**key, "path": f"{CLUSTER}/{DECISION}", "kind": "decision", "wave": 0, "sha256": ""}
    unnamed = [{**short, "content": json.dumps(DECISION_CONTENT)}] if decision is None else []
    warehouse.append("documents", [*rows, *unnamed])
    until = datetime.fromtimestamp(plan.valid_until, UTC) if plan.valid_until else None
    sha256 = _sha256(written[-1].content)
    add_verdict(warehouse, sha256, verdict=verdict, attempt=attempt, until=until, run_id=run_id)
    return warehouse


def add_waves(warehouse: Warehouse, run_id: str, cluster: str, number: int, **figures: int) -> None:
    """Store a number of waves for a plan, each with these figures."""
    names = (
        *("partitions", "replicas_moved", "moved_bytes", "busiest_bytes", "throttle_bytes_per_s", "peak_disk_bytes"),
        *("estimated_seconds", "copy_bytes_per_s", "requested_bytes_per_s"),
    )
    span = dict.fromkeys(("least_seconds", "most_seconds"), figures.get("estimated_seconds", 0))
    flags = {"below_floor": False, "inside_brokers": False}
    row = {"cluster_id": cluster, "run_id": run_id, **dict.fromkeys(names, 0), **span, **flags, **figures}
    warehouse.append("waves", [{**row, "wave": wave} for wave in range(1, number + 1)])


def add_verdict(
    warehouse: Warehouse,
    manifest_sha256: str | None,
    *,
    verdict: str,
    attempt: int,
    exit_code: int = 0,
    reason: str | None = None,
    until: datetime | None = None,
    run_id: str = RUN,
) -> None:
    """Store a verdict of an attempt at the run."""
    row = {
        "cluster_id": CLUSTER,
        "run_id": run_id,
        "attempt": attempt,
        "verdict": verdict,
        "stage": None,
        "exit_code": exit_code,
        "reason": reason,
        "manifest_sha256": manifest_sha256,
        "valid_until": until,
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
    "CAPTURED_AT",
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
    "with_previous_throttles",
]
