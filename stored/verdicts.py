"""The verdicts of finished runs: the last attempt counts."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from optimizer.errors import BallastError, StageError, bullets
from schemas.verdicts import REPLACED, REPLACED_REASON, WITH_PLAN

Verdict = Mapping[str, Any]
_REPLACED = {
    **dict.fromkeys(("manifest_sha256", "moved_bytes", "valid_until")),
    **{"verdict": REPLACED, "reason": REPLACED_REASON, "exit_code": StageError.exit_code},
}


class Refused(BallastError):
    """The command does nothing, because of these problems."""

    exit_code = 3

    def __init__(self, *problems: str) -> None:
        self.problems = problems
        listed = f"{len(problems)} problems to fix first:{bullets(problems)}"
        super().__init__(problems[0] if len(problems) == 1 else listed)


class NoManifest(Refused):
    """The manifest of a plan is missing, was changed after the run, or has another format."""


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
