"""Shows the result of a run from its tables: verdict and ended waves of each cluster, and the summary of one."""

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from execution import claims
from execution.approvals import in_force, revocation
from execution.planned import check_planned, in_words, load, stored_decision, valid_until, verdicts_by_cluster
from execution.tables import Warehouse
from optimizer.units import NEVER_SECONDS, human_measured
from schemas.verdicts import PLANNED

Row = Mapping[str, Any]


def show(warehouse: Warehouse, run_id: str, cluster_id: str | None = None) -> Iterator[str]:
    """Lines with verdict, approvals, validity and ended waves of each cluster; for one cluster also its summary.

    Raises
    ------
    StageError
        When the run is unknown, or has no such cluster.
    Refused
        After the lines, when the one cluster has no plan.
    """
    last = verdicts_by_cluster(warehouse, run_id, cluster_id)
    approvals = warehouse.rows("approvals", run_id=run_id)
    wave_times, manifests = _describe_times(warehouse, run_id), _manifests(warehouse, run_id, cluster_id)
    for cluster, verdict in sorted(last.items()):
        yield from _describe_verdict(cluster, verdict, [row for row in approvals if row["cluster_id"] == cluster])
        if verdict["verdict"] == PLANNED and cluster in manifests:
            yield _describe_validity(valid_until(manifests[cluster]))
        yield from wave_times.get(cluster, ())
    if cluster_id is not None:
        # The lines above already have the reason.
        check_planned(last[cluster_id], reason="")
        yield from _summary(warehouse, last[cluster_id])


def as_json(warehouse: Warehouse, run_id: str, cluster_id: str) -> str:
    """The plan of one cluster as one line of JSON, for schedulers: its state, decision, figures and summary.

    ``waves`` is 0 if there is nothing to do.

    Raises
    ------
    StageError
        When the run is unknown, or has no such cluster.
    Refused
        When the cluster has no plan.
    """
    key = {"run_id": run_id, "cluster_id": cluster_id}
    verdict = verdicts_by_cluster(warehouse, run_id, cluster_id)[cluster_id]
    check_planned(verdict, reason=verdict["reason"])
    summary = "".join(_summary(warehouse, verdict))
    plan = load(warehouse, **key) if verdict["verdict"] == PLANNED else None
    outcome = {name: verdict[name] for name in ("verdict", "reason", "manifest_sha256")}
    by = sorted({row["approved_by"] for row in plan.approvals}) if plan else []
    waves = len(plan.waves) if plan else 0
    until = plan.valid_until.isoformat() if plan and plan.valid_until else None
    validity = {"valid_until": until, "valid_hours": plan.valid_hours if plan else None}
    state = {"waves": waves, "approved_by": by, **validity}
    return json.dumps({**key, **outcome, **state, "decision": stored_decision(warehouse, **key), "summary": summary})


def _describe_verdict(cluster: str, verdict: Row, approvals: list[dict[str, Any]]) -> Iterator[str]:
    stage = f" in {verdict['stage']}" if verdict["stage"] else ""
    reason = f": {verdict['reason']}" if verdict["reason"] else ""
    yield f"{cluster}: {verdict['verdict']}{stage}{reason}"
    if verdict["verdict"] == PLANNED:
        yield f"  manifest {verdict['manifest_sha256']}"
        yield _describe_approval([row for row in approvals if row["manifest_sha256"] == verdict["manifest_sha256"]])


def _describe_approval(rows: list[dict[str, Any]]) -> str:
    if by := dict.fromkeys(row["approved_by"] for row in in_force(rows)):
        return f"  approved by {', '.join(by)}"
    if revoked := revocation(rows):
        return f"  not approved: revoked by {revoked['approved_by']} at {in_words(revoked['approved_at'])}"
    return "  not approved"


def _manifests(warehouse: Warehouse, run_id: str, cluster_id: str | None) -> dict[str, Row]:
    """The manifest of each plan of a run, or of one cluster, by cluster."""
    filters: dict[str, Any] = {"run_id": run_id, "kind": "manifest"}
    filters |= {"cluster_id": cluster_id} if cluster_id else {}
    rows = warehouse.table("documents", columns=("cluster_id", "content"), **filters).to_pylist()
    return {row["cluster_id"]: json.loads(row["content"]) for row in rows}


def _describe_validity(until: datetime | None) -> str:
    if until is None:
        return "  never expires, because its inputs have no capture time"
    return f"  {'expired at' if until < datetime.now(tz=UTC) else 'valid until'} {in_words(until)}"


def _describe_times(warehouse: Warehouse, run_id: str) -> dict[str, list[str]]:
    """By cluster, a line for each wave that has ended and was not cancelled: its predicted and its measured time."""
    measured = claims.copy_seconds(claims.events(warehouse, run_id=run_id))
    rows = warehouse.rows("waves", run_id=run_id) if measured else []
    predicted = {(run_id, row["cluster_id"], int(row["wave"])): row["estimated_seconds"] for row in rows}
    lines = defaultdict(list)
    for wave in sorted(measured):
        _, cluster, number = wave
        times = _describe_time(predicted.get(wave), "predicted"), _describe_time(measured[wave], "measured")
        lines[cluster].append(f"  wave {number}: {', '.join(times)}")
    return lines


def _describe_time(seconds: float | None, how: str) -> str:
    if seconds is None:
        return f"not {how}"
    return f"{human_measured(seconds) if seconds < NEVER_SECONDS else 'no end'} {how}"


def _summary(warehouse: Warehouse, verdict: Row) -> Iterator[str]:
    path = f"{verdict['cluster_id']}/summary.txt"
    for row in warehouse.required_rows("documents", run_id=verdict["run_id"], path=path):
        yield str(row["content"])
