"""``manifest.json``: what a person approves. Execution checks that nothing in it has changed."""

import json
from collections.abc import Iterable, Sequence
from typing import Any

from optimizer.domain import WHOLE_PLAN
from optimizer.emit.cluster_plan import ClusterPlan, Document, wave_folder
from optimizer.emit.goals import goals
from optimizer.units import iso_time

FORMAT = 1  # version of the file format; raise it if readers must change
NAME = "manifest.json"
SUMS = "SHA256SUMS"
DECISION = "decision"  # kind of the document that approval by rules reads
# Documents that change a cluster; the others are for people.
EXECUTED = (
    *("reassignment", "rollback", "rollback_not_possible", "leader_election", "throttle", "log_dirs"),
    *("dir_moves", "rollback_dir_moves"),
)


def manifest(plan: ClusterPlan, documents: Sequence[Document]) -> Document:
    """The manifest of a plan; paths are relative to the cluster's folder.

    It has no attempt and no table versions, so equal inputs give an equal manifest. The tables ``verdicts`` and
    ``runs`` have them.

    Parameters
    ----------
    documents : sequence of Document
        All other documents of the plan.
    """
    plan_goals = goals(plan)
    content: dict[str, Any] = {
        "format": FORMAT,
        "cluster_id": plan.cluster_id,
        "run_id": plan.run_id,
        "kafka_cluster_id": plan.kafka_cluster_id,
        "code_version": plan.code_version,
        "captured_at": iso_time(plan.captured_at),
        "valid_until": iso_time(plan.valid_until),
        "is_reached": all(goal.is_reached for goal in plan_goals),
        "goals": [vars(goal) for goal in plan_goals],
        "throttle_style": plan.throttle_style,
        "dead_brokers": sorted(b.broker_id for b in plan.brokers if b.state == "dead"),
        "throttles_found": sorted(_earlier_throttles(plan)),
        "topic_ids": plan.topic_ids,
        "waves": {str(row.wave): wave_folder(row.wave, len(plan.waves)) for row in plan.waves},
        "wave_seconds": {str(row.wave): row.estimated_seconds for row in plan.waves},
        "sha256": dict(_digests(plan.folder, documents)),
    }
    if plan.drained:
        content["drain_brokers"] = plan.drained
    if tiered := _tiered_copies(plan):
        content["tiered_copies"] = tiered
    if plan.dir_moves:
        content["dir_move_waves"] = sorted({row.wave for row in plan.dir_moves})
    if plan.directories:
        content["fullest_directory_percent"] = {
            side: plan.figure("fullest_directory_percent", side) for side in ("before", "after", "worst_moment")
        }
    decision = next((document for document in documents if document.kind == DECISION), None)
    if decision:
        content["decision_sha256"] = decision.sha256
    counts = plan.consumer_counts
    if counts:
        content["consumer_groups"] = vars(counts)
    text = json.dumps(content, indent=1, ensure_ascii=False) + "\n"
    return Document(f"{plan.folder}/{NAME}", "manifest", WHOLE_PLAN, text)


def sums(plan: ClusterPlan, documents: Sequence[Document]) -> Document | None:
    """The digests of the manifest as input of ``sha256sum -c``; None if the plan has no document for Kafka's tools."""
    text = "".join(f"{digest}  {path}\n" for path, digest in _digests(plan.folder, documents))
    return Document(f"{plan.folder}/{SUMS}", "sums", WHOLE_PLAN, text) if text else None


def _earlier_throttles(plan: ClusterPlan) -> Iterable[list[str]]:
    """Throttles that were set before the plan."""
    return (
        [row.entity_type, row.entity_name, row.config_name, row.config_value]
        for row in plan.throttles_found
        if not row.is_static
    )


def _tiered_copies(plan: ClusterPlan) -> list[tuple[str, int, int, int]]:
    """Topic, partition, broker and bytes of each copy, there or back, that skips what is in tiered storage."""
    skipping = {broker.broker_id for broker in plan.brokers if broker.skips_tiered}
    return [
        (row.topic, row.partition, broker, row.tiered_copy_bytes)
        for row in plan.changed
        if row.tiered_copy_bytes is not None
        for broker in sorted(skipping.intersection([*row.current_replicas, *row.proposed_replicas]))
    ]


def _digests(folder: str, documents: Sequence[Document]) -> Iterable[tuple[str, str]]:
    for document in sorted(documents, key=lambda document: document.path):
        if document.kind in EXECUTED:
            path = document.path.removeprefix(f"{folder}/")
            yield path, document.sha256
