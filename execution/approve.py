"""A person's yes to a plan."""

import socket
from datetime import UTC, datetime

from execution.planned import Plan, Refused
from execution.tables import Warehouse


def approve(warehouse: Warehouse, plan: Plan, *, manifest_sha256: str, by: str) -> str:
    """Store the approval; returns what was done in one line.

    Parameters
    ----------
    manifest_sha256 : str
        What was looked at: its first characters are enough, eight or more; empty takes the plan as it is.
    by : str
        Who says yes.

    Raises
    ------
    Refused
        When the plan is another than the one that was looked at.
    """
    if not plan.manifest_sha256.startswith(manifest_sha256):
        raise Refused(f"the plan's manifest is {plan.manifest_sha256}, not {manifest_sha256}: look at it again")
    row = {
        "cluster_id": plan.cluster_id,
        "run_id": plan.run_id,
        "manifest_sha256": plan.manifest_sha256,
        "approved_by": by,
        "approved_at": datetime.now(tz=UTC),
        "approved_from": socket.gethostname(),
    }
    warehouse.append("approvals", [row])
    return f"{by} approves run {plan.run_id} of cluster {plan.cluster_id}, manifest {plan.manifest_sha256}"
