"""The verdicts of finished runs: the last attempt counts."""

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from optimizer.errors import BallastError, StageError, bullets
from optimizer.similar import did_you_mean
from schemas.verdicts import REPLACED, REPLACED_REASON, WITH_PLAN
from stored.tables import Warehouse

Verdict = Mapping[str, Any]
_TIME = re.compile(r"\d{8}T\d{6}Z?")  # run ids that jobs and Airflow choose
_REPLACED = {
    **dict.fromkeys(("manifest_sha256", "moved_bytes", "valid_until")),
    **{"verdict": REPLACED, "reason": REPLACED_REASON, "exit_code": StageError.exit_code},
}
_NO_RUN_HINT = (
    "A job that ends before its first stage stores no run: its log says why (for example a configuration error, a "
    "missing input, or a cluster that cannot be reached)"
)


class Refused(BallastError):
    """The command does nothing, because of these problems."""

    exit_code = 3

    def __init__(self, *problems: str) -> None:
        self.problems = problems
        listed = f"{len(problems)} problems to fix first:{bullets(problems)}"
        super().__init__(problems[0] if len(problems) == 1 else listed)


class NoManifest(Refused):
    """The manifest of a plan is missing, was changed after the run, or has another format."""


def verdicts_by_cluster(warehouse: Warehouse, run_id: str, cluster_id: str | None = None) -> dict[str, Verdict]:
    """The verdict of the last attempt at a run, for each of its clusters or for one.

    Raises
    ------
    StageError
        When the run is unknown, or has no such cluster.
    """
    try:
        verdicts = {row["cluster_id"]: row for row in last_verdicts(warehouse.required_rows("verdicts", run_id=run_id))}
    except StageError as error:
        raise StageError(f"{error}. {_NO_RUN_HINT}") from error
    if not verdicts:
        # For a time the most similar run id is another night: no useful suggestion.
        similar = () if _TIME.fullmatch(run_id) else {row["run_id"] for row in warehouse.rows("verdicts")}
        raise unknown_name(warehouse.path, "run", run_id, similar, f"./ballast show lists the runs. {_NO_RUN_HINT}")
    if cluster_id is None:
        return verdicts
    if cluster_id not in verdicts:
        where, remedy = f"run {run_id!r} in {warehouse.path}", f"./ballast show --run-id {run_id} shows its clusters"
        raise unknown_name(where, "cluster", cluster_id, verdicts, remedy)
    return {cluster_id: verdicts[cluster_id]}


def check_planned(verdict: Verdict, *, allowed: Collection[str] = WITH_PLAN, with_reason: bool = True) -> None:
    """Raise ``Refused`` unless a cluster has a verdict that is allowed: by default one of a finished plan.

    Parameters
    ----------
    verdict : mapping
        Row of ``verdicts``.
    with_reason : bool
        Whether the message has the reason of the verdict.
    """
    if verdict["verdict"] not in allowed:
        reason = f": {verdict['reason']}" if with_reason and verdict["reason"] else ""
        raise Refused(
            f"run {verdict['run_id']!r} has no plan for cluster {verdict['cluster_id']!r}, "
            f"its verdict is {verdict['verdict']}{reason}"
        )


def last_verdicts(rows: Iterable[Verdict]) -> list[Verdict]:
    """The row of the last attempt for each run and cluster, sorted by run and cluster.

    Parameters
    ----------
    rows : iterable of mapping
        All rows of the runs: a plan is ``replaced`` if the last attempt at its run had other clusters.
    """
    by_attempt = sorted(rows, key=lambda row: int(row["attempt"]))
    attempts = {row["run_id"]: row["attempt"] for row in by_attempt}
    last = {(row["run_id"], row["cluster_id"]): row for row in by_attempt}
    return [
        row if row["attempt"] == attempts[run_id] or row["verdict"] not in WITH_PLAN else {**row, **_REPLACED}
        for (run_id, _), row in sorted(last.items())
    ]


def unknown_name(where: str, kind: str, name: str, known: Iterable[str], remedy: str) -> StageError:
    """The error for an unknown run or cluster; it suggests the most similar known name."""
    return StageError(f"{where} has no {kind} {name!r}{did_you_mean(name, known)}; {remedy}")
