"""``manifest.json``: what a person approves. Execution checks that nothing in it has changed."""

import json
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from optimizer.domain import WHOLE_PLAN
from optimizer.emit.cluster_plan import ClusterPlan, Document, wave_folder
from optimizer.emit.goals import goals

FORMAT = 1  # version of the file format; raise it if readers must change
NAME = "manifest.json"
# Documents that change a cluster; the others are for people.
EXECUTED = ("reassignment", "rollback", "rollback_not_possible", "leader_election", "throttle")


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
        "code_version": plan.code_version,
        "captured_at": _captured_at(plan),
        "is_reached": all(goal.is_reached for goal in plan_goals),
        "goals": [vars(goal) for goal in plan_goals],
        "throttle_style": plan.throttle_style,
        "dead_brokers": sorted(b.broker_id for b in plan.brokers if b.state == "dead"),
        "throttles_found": sorted(_earlier_throttles(plan)),
        "topic_ids": {row.topic: row.topic_id for row in plan.changed},
        "waves": {str(row.wave): wave_folder(row.wave, len(plan.waves)) for row in plan.waves},
        "sha256": dict(_digests(plan.folder, documents)),
    }
    text = json.dumps(content, indent=1, ensure_ascii=False) + "\n"
    return Document(f"{plan.folder}/{NAME}", "manifest", WHOLE_PLAN, text)


def _captured_at(plan: ClusterPlan) -> str | None:
    """Capture time of the oldest source, which is the age of the plan."""
    times = plan.capture_times
    return datetime.fromtimestamp(min(times), tz=UTC).isoformat() if times else None


def _earlier_throttles(plan: ClusterPlan) -> Iterable[list[str]]:
    """Throttles that were set before the plan."""
    return (
        [row.entity_type, row.entity_name, row.config_name, row.config_value]
        for row in plan.throttles_found
        if not row.is_static
    )


def _digests(folder: str, documents: Sequence[Document]) -> Iterable[tuple[str, str]]:
    for document in sorted(documents, key=lambda document: document.path):
        if document.kind in EXECUTED:
            path = document.path.removeprefix(f"{folder}/")
            yield path, document.sha256
