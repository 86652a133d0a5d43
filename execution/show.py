"""Shows the result of a run from its tables: verdict and ended waves of each cluster, and the summary of one."""

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from execution import claims
from execution.planned import check_planned, load, verdicts_by_cluster
from execution.tables import Warehouse
from optimizer.units import NEVER_SECONDS, human_time
from schemas.verdicts import PLANNED

Row = Mapping[str, Any]


def show(warehouse: Warehouse, run_id: str, cluster_id: str | None = None) -> Iterator[str]:
    """Lines with verdict, approvals and ended waves of each cluster of a run; for one cluster also its summary.

    Raises
    ------
    StageError
        When the run is unknown, or has no such cluster.
    Refused
        After the lines, when the one cluster has no plan.
    """
    last = verdicts_by_cluster(warehouse, run_id, cluster_id)
    approvals = warehouse.rows("approvals", run_id=run_id)
    wave_times = _describe_times(warehouse, run_id)
    for cluster, verdict in sorted(last.items()):
        yield from _describe_verdict(cluster, verdict, [row for row in approvals if row["cluster_id"] == cluster])
        yield from wave_times.get(cluster, ())
    if cluster_id is not None:
        # The lines above already have the reason.
        check_planned(last[cluster_id], reason="")
        yield from _summary(warehouse, last[cluster_id])


def as_json(warehouse: Warehouse, run_id: str, cluster_id: str) -> str:
    """The plan of one cluster as one line of JSON, for schedulers; ``waves`` is 0 if there is nothing to do.

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
    return json.dumps({**key, **outcome, "waves": waves, "approved_by": by, "summary": summary})


def _describe_verdict(cluster: str, verdict: Row, approvals: list[dict[str, Any]]) -> Iterator[str]:
    stage = f" in {verdict['stage']}" if verdict["stage"] else ""
    reason = f": {verdict['reason']}" if verdict["reason"] else ""
    yield f"{cluster}: {verdict['verdict']}{stage}{reason}"
    if verdict["verdict"] == PLANNED:
        by = [row["approved_by"] for row in approvals if row["manifest_sha256"] == verdict["manifest_sha256"]]
        yield f"  manifest {verdict['manifest_sha256']}"
        yield f"  approved by {', '.join(dict.fromkeys(by))}" if by else "  not approved"


def _describe_times(warehouse: Warehouse, run_id: str) -> dict[str, list[str]]:
    """By cluster, a line for each wave that has ended and was not cancelled: its predicted and its measured time."""
    measured = claims.copy_seconds(warehouse.rows("executions", run_id=run_id))
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
    return f"{human_time(seconds) if seconds < NEVER_SECONDS else 'no end'} {how}"


def _summary(warehouse: Warehouse, verdict: Row) -> Iterator[str]:
    path = f"{verdict['cluster_id']}/summary.txt"
    for row in warehouse.required_rows("documents", run_id=verdict["run_id"], path=path):
        yield str(row["content"])
