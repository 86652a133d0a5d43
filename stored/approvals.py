"""Which approvals of a plan are in force: those after its last revocation."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from optimizer.errors import AlreadyApproved

Row = Mapping[str, Any]


def in_force(rows: Iterable[Row]) -> list[Row]:
    """The approvals that nobody has revoked since, oldest first for each plan.

    Parameters
    ----------
    rows : iterable of mapping
        All rows of ``approvals`` for one plan or for several plans.
    """
    approvals = defaultdict[tuple[str, str, str], list[Row]](list)
    for row in sorted(rows, key=_order):
        of_plan = approvals[row["cluster_id"], row["run_id"], row["manifest_sha256"]]
        if row["is_revocation"]:
            of_plan.clear()
        else:
            of_plan.append(row)
    return [row for of_plan in approvals.values() for row in of_plan]


def revocation(rows: Iterable[Row]) -> Row | None:
    """The newest of one plan's rows if it is a revocation; None otherwise."""
    newest = max(rows, key=_order, default=None)
    return newest if newest and newest["is_revocation"] else None


def check_none(rows: Iterable[Row], run_id: str) -> None:
    """Check that nobody has approved a plan of a run; a revocation does not change that, its waves may still run.

    Raises
    ------
    AlreadyApproved
    """
    newest = max((row for row in rows if not row["is_revocation"]), key=_order, default=None)
    if newest:
        raise AlreadyApproved(
            f"{newest['approved_by']} has approved the plan of run {run_id!r} for cluster {newest['cluster_id']}, "
            "so this run is not planned again: give another --run-id"
        )


def _order(row: Row) -> tuple[Any, bool]:
    """Sorts by time; of two rows with the same time the revocation is the newer one."""
    return row["approved_at"], row["is_revocation"]
