"""The approval of a plan by a person."""

import socket
from collections.abc import Iterator
from datetime import UTC, datetime

from execution.options import MAX_PLAN_AGE_HOURS
from execution.planned import Plan, Refused
from execution.tables import Warehouse
from optimizer.units import human_bytes, human_time, plural


def approve(warehouse: Warehouse, plan: Plan, *, manifest_sha256: str, by: str) -> str:
    """Store the approval; returns a description of the approved plan for the operator.

    Parameters
    ----------
    manifest_sha256 : str
        Sha256 of the manifest that the approver has read, or its first characters; empty approves the current plan.
    by : str
        Name of the approver.

    Raises
    ------
    Refused
        When the plan has another manifest.
    """
    if not plan.manifest_sha256.startswith(manifest_sha256):
        raise Refused(
            f"the plan's manifest is {plan.manifest_sha256}, not {manifest_sha256}: "
            "read this plan before you approve it"
        )
    row = {
        "cluster_id": plan.cluster_id,
        "run_id": plan.run_id,
        "manifest_sha256": plan.manifest_sha256,
        "approved_by": by,
        "approved_at": datetime.now(tz=UTC),
        "approved_from": socket.gethostname(),
    }
    warehouse.append("approvals", [row])
    return "\n".join(_describe_approval(warehouse, plan, by))


def _describe_approval(warehouse: Warehouse, plan: Plan, by: str) -> Iterator[str]:
    yield f"Approved by {by}: run {plan.run_id}, cluster {plan.cluster_id}, manifest {plan.manifest_sha256}"
    waves = warehouse.rows("waves", cluster_id=plan.cluster_id, run_id=plan.run_id)
    if waves:
        copied = human_bytes(sum(row["moved_bytes"] for row in waves))
        time = human_time(sum(row["estimated_seconds"] for row in waves))
        yield f"It copies {copied} in {plural(len(waves), 'wave')}, about {time}."
    if unreached := [goal["name"] for goal in plan.manifest["goals"] if not goal["is_reached"]]:
        yield f"Not reached: {'; '.join(unreached)}."
    age = plan.age_hours()
    if age > MAX_PLAN_AGE_HOURS:
        yield (
            f"The snapshot is {human_time(3600 * age)} old. Waves refuse snapshots older than "
            f"{MAX_PLAN_AGE_HOURS:g} h: plan again, or give --max-plan-age-hours to the steps preflight and throttle."
        )
