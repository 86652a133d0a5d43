"""Shows the result of a run from its tables: verdict and ended waves of each cluster, and the summary of one."""

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime

from execution import claims
from execution.planned import in_words, load
from optimizer.units import NEVER_SECONDS, human_measured
from schemas.verdicts import PLANNED
from stored.approvals import in_force, revocation
from stored.runs import StoredRun, StoredRuns
from stored.tables import Warehouse
from stored.verdicts import check_planned


def show(warehouse: Warehouse, run_id: str, cluster_id: str | None = None) -> Iterator[str]:
    """Lines with verdict, approvals, validity and ended waves of each cluster; for one cluster also its summary.

    Raises
    ------
    StageError
        When the run is unknown, or has no such cluster.
    Refused
        After the lines, when the one cluster has no plan.
    """
    all_clusters = [*StoredRuns(warehouse, run_id, cluster_id)]
    measured = claims.copy_seconds(claims.events(warehouse, run_id=run_id))
    for stored in all_clusters:
        yield from _describe_verdict(stored)
        yield from _describe_times(stored, measured)
    if cluster_id is not None:
        [stored] = all_clusters
        # The lines above already have the reason.
        check_planned(stored.verdict, with_reason=False)
        yield from stored.documents("summary")


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
    stored = StoredRun(warehouse, run_id, cluster_id).planned()
    is_planned = stored.verdict["verdict"] == PLANNED
    plan = load(warehouse, run_id=run_id, cluster_id=cluster_id) if is_planned else None
    until = plan.valid_until.isoformat() if plan and plan.valid_until else None
    content = {
        "run_id": run_id,
        "cluster_id": cluster_id,
        **{name: stored.verdict[name] for name in ("verdict", "reason", "manifest_sha256")},
        "waves": len(plan.waves) if plan else 0,
        "approved_by": sorted({row["approved_by"] for row in plan.approvals}) if plan else [],
        "valid_until": until,
        "valid_hours": plan.valid_hours if plan else None,
        "decision": stored.decision,
        "summary": "".join(stored.documents("summary")),
    }
    return json.dumps(content)


def _describe_verdict(stored: StoredRun) -> Iterator[str]:
    verdict = stored.verdict
    stage = f" in {verdict['stage']}" if verdict["stage"] else ""
    reason = f": {verdict['reason']}" if verdict["reason"] else ""
    yield f"{stored.cluster_id}: {verdict['verdict']}{stage}{reason}"
    if verdict["verdict"] == PLANNED:
        yield f"  manifest {verdict['manifest_sha256']}"
        yield _describe_approval(stored)
        yield _describe_validity(verdict["valid_until"])


def _describe_approval(stored: StoredRun) -> str:
    rows = stored.approvals
    if by := dict.fromkeys(row["approved_by"] for row in in_force(rows)):
        return f"  approved by {', '.join(by)}"
    if revoked := revocation(rows):
        return f"  not approved: revoked by {revoked['approved_by']} at {in_words(revoked['approved_at'])}"
    return "  not approved"


def _describe_validity(until: datetime | None) -> str:
    if until is None:
        return "  never expires, because its inputs have no capture time"
    return f"  {'expired at' if until < datetime.now(tz=UTC) else 'valid until'} {in_words(until)}"


def _describe_times(stored: StoredRun, measured: Mapping[claims.WaveKey, float | None]) -> Iterator[str]:
    """A line for each wave that has ended and was not cancelled: its predicted and its measured time."""
    predicted = {int(row["wave"]): row["estimated_seconds"] for row in stored.waves}
    for key, seconds in sorted(measured.items()):
        if key[:2] == (stored.run_id, stored.cluster_id):
            times = _describe_time(predicted.get(key[2]), "predicted"), _describe_time(seconds, "measured")
            yield f"  wave {key[2]}: {', '.join(times)}"


def _describe_time(seconds: float | None, how: str) -> str:
    if seconds is None:
        return f"not {how}"
    return f"{human_measured(seconds) if seconds < NEVER_SECONDS else 'no end'} {how}"
