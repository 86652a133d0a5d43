"""Stage 7, emit: plan, moves, waves, findings and what they come from -> documents, and the files of each cluster."""

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Any

import pandas as pd
from pyspark.sql import functions as F

from optimizer import folders
from optimizer.declared import DECLARED
from optimizer.domain import REORDERED
from optimizer.emit import rows
from optimizer.emit.cluster_plan import ClusterPlan
from optimizer.emit.documents import documents
from optimizer.emit.goals import NOT_REACHED
from optimizer.emit.manifest import NAME as MANIFEST
from optimizer.emit.requested import requested_of
from optimizer.planning.late_waves import MOMENTS
from optimizer.schedule.throttle_rate import copy_rate_bytes_per_s
from optimizer.settings import Settings
from optimizer.stages.emit.audit_gate import gate
from optimizer.stages.emit.gather import Tables, gather_rows, tables_of
from optimizer.stages.stage import Frames, Run
from schemas.keys import PARTITION
from schemas.output import DOCUMENTS, PLAN
from schemas.planning import INSTANCE
from schemas.spark import conform, schema_of

Rows = Iterable[Mapping[str, Any]]
__all__ = ["build", "gate", "has_reassignment", "manifest_hash_and_missed_goals", "publish", "written_paths"]


def _plan(tables: Tables, settings: Settings, code_version: str) -> ClusterPlan:
    host, requested_rate = tables["instance_brokers"][0], copy_rate_bytes_per_s(settings.schedule)
    waves = rows.WaveRow.of(tables["waves"])
    return ClusterPlan(
        cluster_id=host["cluster_id"],
        run_id=host["run_id"],
        throttle_style=settings.emit.throttle_style,
        plan_log_dirs=settings.emit.plan_log_dirs,
        copy_bytes_per_s=max((wave.copy_bytes_per_s or requested_rate for wave in waves), default=requested_rate),
        changed=rows.PlanRow.of(_with_codes(tables["plan"], tables["moves"])),
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
    )


def _with_codes(changed: Rows, moves: Rows) -> Iterator[Mapping[str, Any]]:
    """Changed partitions with ``reason_codes``; rows of an older release, which lack them, get those of their moves."""
    move_reasons: dict[tuple[str, int], set[str]] = {}
    for move in moves:
        move_reasons.setdefault((move["topic"], move["partition"]), set()).add(move["reason"])
    for row in changed:
        codes = row["reason_codes"]
        if codes is None:
            codes = sorted(move_reasons.get((row["topic"], row["partition"]), {REORDERED}))
        yield {**row, "reason_codes": codes}


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
    prepared = ("plan", "instance", "sources", "topics", "waves")
    unchanged = {name: inputs[name] for name in DECLARED["emit"].reads if name not in prepared}
    used = {**unchanged, "plan": changed, "sources": sources, "waves": waves}
    settings, code_version = run.settings, run.code_version

    def of_cluster(group: pd.DataFrame) -> pd.DataFrame:
        return write_documents(group, settings=settings, code_version=code_version)

    rows_of_documents = gather_rows(used).groupBy("cluster_id").applyInPandas(of_cluster, schema_of(DOCUMENTS))
    return {"documents": conform(rows_of_documents, DOCUMENTS)}


def _write_cluster(folder: Path, cluster_id: str, rows: Iterable[Any]) -> None:
    unfinished = folders.partial(folder, cluster_id)
    for row in rows:
        target = unfinished / Path(row.path).relative_to(cluster_id)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(row.content, encoding="utf-8", newline="\n")
    folders.publish(unfinished, folder / cluster_id)


def publish(frames: Frames, run: Run) -> None:
    """Write the documents below ``<output>/<run_id>/<cluster_id>``; a cluster's folder appears complete."""
    rows = frames["documents"].repartition(1).sortWithinPartitions("cluster_id", "path").toLocalIterator()
    for cluster_id, of_cluster in groupby(rows, key=attrgetter("cluster_id")):
        _write_cluster(run.folder, cluster_id, of_cluster)


def has_reassignment(run: Run, cluster_id: str) -> bool:
    """Whether the published plan of a cluster has anything to execute."""
    return any((run.folder / cluster_id).rglob("reassignment*.json"))


def manifest_hash_and_missed_goals(run: Run, cluster_id: str) -> tuple[str, str | None]:
    """SHA-256 of the published manifest, which approvals name, and the goals not reached; None if all are reached."""
    manifest = (run.folder / cluster_id / MANIFEST).read_bytes()
    missed = [f"{goal['name']}: {goal['detail']}" for goal in json.loads(manifest)["goals"] if not goal["is_reached"]]
    reason = f"{NOT_REACHED}: {'; '.join(missed)}" if missed else None
    return hashlib.sha256(manifest).hexdigest(), reason


def written_paths(run: Run, clusters: Iterable[str]) -> str:
    """Text for the end of a run: the summary of each published cluster, and the folder of their files."""
    texts = [(run.folder / cluster / "summary.txt").read_text(encoding="utf-8") for cluster in clusters]
    return "\n".join([*texts, f"Files are below {run.folder}{os.sep}\n"]) if texts else ""
