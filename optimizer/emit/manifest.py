"""``manifest.json``: what a person approves, and what must not have changed when it is executed."""

import json
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from optimizer.domain import WHOLE_PLAN
from optimizer.emit.cluster_plan import ClusterPlan, Document, wave_folder
from optimizer.emit.goals import goals

FORMAT = 1  # of the file: one more where what reads it must change
NAME = "manifest.json"
# Documents that change a cluster; the others are read by people.
EXECUTED = ("reassignment", "rollback", "rollback_not_possible", "leader_election", "throttle")


def manifest(plan: ClusterPlan, made: Sequence[Document]) -> Document:
    """The manifest of a plan; paths are relative to the cluster's folder.

    Neither attempt nor versions of tables are in it: equal inputs give an equal one, whatever was tried in between.
    Tables ``verdicts`` and ``runs`` have them.

    Parameters
    ----------
    made : sequence of Document
        All other documents of the plan.
    """
    reached = goals(plan)
    content: dict[str, Any] = {
        "format": FORMAT,
        "cluster_id": plan.cluster_id,
        "run_id": plan.run_id,
        "code_version": plan.code_version,
        "captured_at": _captured_at(plan),
        "is_reached": all(goal.is_reached for goal in reached),
        "goals": [vars(goal) for goal in reached],
        "throttle_style": plan.throttle_style,
        "dead_brokers": sorted(b.broker_id for b in plan.brokers if b.state == "dead"),
        "throttles_found": sorted(_found(plan)),
        "topic_ids": {row.topic: row.topic_id for row in plan.changed},
        "waves": {str(row.wave): wave_folder(row.wave, len(plan.waves)) for row in plan.waves},
        "sha256": dict(_digests(plan.folder, made)),
    }
    text = json.dumps(content, indent=1, ensure_ascii=False) + "\n"
    return Document(f"{plan.folder}/{NAME}", "manifest", WHOLE_PLAN, text)


def _captured_at(plan: ClusterPlan) -> str | None:
    """When the oldest of the sources was captured: the plan is as old as that."""
    times = plan.capture_times
    return datetime.fromtimestamp(min(times), tz=UTC).isoformat() if times else None


def _found(plan: ClusterPlan) -> Iterable[list[str]]:
    """Throttles that were set before the plan, by somebody else."""
    return (
        [row.entity_type, row.entity_name, row.config_name, row.config_value]
        for row in plan.throttles_found
        if not row.is_static
    )


def _digests(folder: str, made: Sequence[Document]) -> Iterable[tuple[str, str]]:
    for document in sorted(made, key=lambda one: one.path):
        if document.kind in EXECUTED:
            path = document.path.removeprefix(f"{folder}/")
            yield path, document.sha256
