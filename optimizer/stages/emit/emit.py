"""Stage 7, emit: plan, moves, waves, findings and what they come from -> documents, and the files of each cluster."""

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from itertools import groupby
from operator import attrgetter
from typing import Any

import pandas as pd
from pyspark.sql import functions as F

from optimizer.declared import DECLARED
from optimizer.emit import rows
from optimizer.emit.cluster_plan import ClusterPlan
from optimizer.emit.decision_text import NAME as DECISION
from optimizer.emit.documents import documents
from optimizer.emit.goals import NOT_REACHED
from optimizer.emit.manifest import NAME as MANIFEST
from optimizer.emit.requested import requested_of
from optimizer.folders import write_cluster
from optimizer.planning.late_waves import MOMENTS
from optimizer.schedule.throttle_rate import copy_rate_bytes_per_s
from optimizer.settings import Settings
from optimizer.stages.emit.audit_gate import gate
from optimizer.stages.emit.gather import Tables, tables_of
from optimizer.stages.shared.gathered import gather_rows
from optimizer.stages.stage import Frames, Run
from schemas.keys import PARTITION
from schemas.output import DOCUMENTS, PLAN
from schemas.planning import INSTANCE
from schemas.spark import conform, schema_of

__all__ = [
    "build",
    "decision_of_cluster",
    "gate",
    "has_reassignment",
    "manifest_sha256",
    "missed_in_words",
    "publish",
    "written_paths",
]


def _plan(tables: Tables, settings: Settings, code_version: str) -> ClusterPlan:
    host = tables["instance_brokers"][0]
    waves = rows.WaveRow.of(tables["waves"])
    return ClusterPlan(
        cluster_id=host["cluster_id"],
        run_id=host["run_id"],
        throttle_style=settings.emit.throttle_style,
        plan_log_dirs=settings.emit.plan_log_dirs,
        copy_bytes_per_s=max(
            (wave.copy_bytes_per_s for wave in waves if not wave.inside_brokers),
            default=copy_rate_bytes_per_s(settings.schedule),
        ),
        changed=rows.PlanRow.of(tables["plan"]),
        moves=rows.MoveRow.of(tables["moves"]),
        waves=waves,
        throttles=rows.ThrottleRow.of(tables["throttles"]),
        throttles_found=rows.EarlierThrottleRow.of(tables["throttles_found"]),
        balance=rows.LoadRow.of(tables["broker_balance"]),
        summary=rows.FigureRow.of(tables["plan_summary"]),
        bounds=rows.BoundRow.of(tables["bounds"]),
        findings=rows.FindingRow.of([*tables["wave_findings"], *tables["findings"]]),
        quality=rows.QualityRow.of(tables["quality_results"]),
        input_findings=rows.InputFindingRow.of(tables["input_findings"]),
        brokers=rows.BrokerRow.of(tables["instance_brokers"]),
        sources=rows.SourceRow.of(tables["sources"]),
        code_version=code_version,
        requested=requested_of(settings, host["cluster_id"]),
        cross_rack_price_per_gb=settings.policy.cross_rack_price_per_gb,
        batch_kb=settings.schedule.batch_kb,
        rack_flow=rows.RackFlowRow.of(tables["rack_flow"]),
        broker_waves=rows.BrokerWaveRow.of(tables["broker_waves"]),
        alternatives=rows.AlternativeRow.of(tables["alternatives"]),
        curve=rows.CurveRow.of(tables["curve"]),
        directories=rows.DirectoryRow.of(tables["dir_balance"]),
        dir_moves=rows.DirMoveRow.of(tables["dir_moves"]),
        consumer_groups=rows.ConsumerImpactRow.of(tables["consumer_impact"]),
        consumer_members=rows.ConsumerLoadRow.of(tables["consumer_load"]),
        disk_headroom=settings.policy.disk_headroom,
        window_hours=settings.schedule.window_hours,
        valid_hours=settings.schedule.valid_hours,
    )


def write_documents(group: pd.DataFrame, *, settings: Settings, code_version: str) -> pd.DataFrame:
    """Rows of ``documents`` of one cluster, from the gathered rows of its tables."""
    tables = tables_of(group)
    if not tables["instance_brokers"]:
        return pd.DataFrame(columns=DOCUMENTS.names)
    plan = _plan(tables, settings, code_version)
    records = [
        {
            "cluster_id": plan.cluster_id,
            "run_id": plan.run_id,
            "path": document.path,
            "kind": document.kind,
            "wave": document.wave,
            "content": document.content,
            "sha256": document.sha256,
        }
        for document in documents(plan)
    ]
    return pd.DataFrame(records)


def build(inputs: Frames, run: Run) -> Frames:
    """The table ``documents``."""
    columns = [name for name in rows.PlanRow.columns() if name in INSTANCE.names and name not in PLAN.names]
    instance = inputs["instance"].select(*PARTITION, *columns)
    topic_ids = inputs["topics"].select("cluster_id", "topic", "topic_id")
    changed = inputs["plan"].filter("is_changed").join(instance, PARTITION, "left")
    changed = changed.join(topic_ids, ["cluster_id", "topic"], "left")
    sources = inputs["sources"].withColumn("captured_at", F.unix_seconds("captured_at"))
    waves = inputs["waves"].withColumns({name: F.unix_seconds(name) for name in MOMENTS})
    dir_moves = inputs["dir_moves"].join(topic_ids, ["cluster_id", "topic"], "left")
    prepared = ("plan", "instance", "sources", "topics", "waves", "dir_moves")
    unchanged = {name: inputs[name] for name in DECLARED["emit"].reads if name not in prepared}
    used = {**unchanged, "plan": changed, "sources": sources, "waves": waves, "dir_moves": dir_moves}
    settings, code_version = run.settings, run.code_version

    def of_cluster(group: pd.DataFrame) -> pd.DataFrame:
        return write_documents(group, settings=settings, code_version=code_version)

    rows_of_documents = gather_rows(used).groupBy("cluster_id").applyInPandas(of_cluster, schema_of(DOCUMENTS))
    return {"documents": conform(rows_of_documents, DOCUMENTS)}


def publish(frames: Frames, run: Run) -> None:
    """Write the documents below ``<output>/<run_id>/<cluster_id>``; a cluster's folder appears complete."""
    rows = frames["documents"].repartition(1).sortWithinPartitions("cluster_id", "path").toLocalIterator()
    for cluster_id, of_cluster in groupby(rows, key=attrgetter("cluster_id")):
        write_cluster(run.folder, cluster_id, ((row.path, row.content) for row in of_cluster))


def has_reassignment(run: Run, cluster_id: str) -> bool:
    """Whether the published plan of a cluster has anything to execute."""
    names = ("reassignment*.json", "dir-moves.json")
    return any(path for name in names for path in (run.folder / cluster_id).rglob(name))


def decision_of_cluster(run: Run, cluster_id: str) -> dict[str, Any]:
    """The published ``decision.json`` of a cluster."""
    decision: dict[str, Any] = json.loads((run.folder / cluster_id / DECISION).read_bytes())
    return decision


def manifest_sha256(run: Run, cluster_id: str) -> str:
    """SHA-256 of the published manifest, which approvals name."""
    return hashlib.sha256((run.folder / cluster_id / MANIFEST).read_bytes()).hexdigest()


def missed_in_words(decision: Mapping[str, Any]) -> str | None:
    """The goals that a plan does not reach; None if it reaches all."""
    missed = [f"{goal['name']}: {goal['detail']}" for goal in decision["goals"] if not goal["is_reached"]]
    return f"{NOT_REACHED}: {'; '.join(missed)}" if missed else None


def written_paths(run: Run, clusters: Iterable[str]) -> str:
    """Text for the end of a run: the summary of each published cluster, and the folder of their files."""
    texts = [(run.folder / cluster / "summary.txt").read_text(encoding="utf-8") for cluster in clusters]
    return "\n".join([*texts, f"Files are below {run.folder}{os.sep}\n"]) if texts else ""
