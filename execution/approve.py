"""A person's yes to a plan."""

import socket
from collections.abc import Iterator
from datetime import UTC, datetime

from execution.options import MOST_HOURS
from execution.planned import Plan, Refused
from execution.tables import Warehouse
from optimizer.units import human_bytes, human_time, plural


def approve(warehouse: Warehouse, plan: Plan, *, manifest_sha256: str, by: str) -> str:
    """Store the approval; returns what is approved.

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
    return "\n".join(_lines(warehouse, plan, by))


def _lines(warehouse: Warehouse, plan: Plan, by: str) -> Iterator[str]:
    """Whose plan it is, what it costs, what it does not reach, and whether it is too old to begin."""
    yield f"Approved by {by}: run {plan.run_id}, cluster {plan.cluster_id}, manifest {plan.manifest_sha256}"
    waves = warehouse.rows("waves", cluster_id=plan.cluster_id, run_id=plan.run_id)
    if waves:
        copied = human_bytes(sum(row["moved_bytes"] for row in waves))
        time = human_time(sum(row["estimated_seconds"] for row in waves))
        yield f"It copies {copied} in {plural(len(waves), 'wave')}, about {time}."
    if missed := [goal["name"] for goal in plan.manifest["goals"] if not goal["is_reached"]]:
        yield f"Not reached: {'; '.join(missed)}."
    age = plan.age_hours()
    if age > MOST_HOURS:
        remedy = "plan again, or give the waves --max-plan-age-hours"
        yield f"The snapshot is {human_time(3600 * age)} old, and waves begin up to {MOST_HOURS:g} h: {remedy}."
