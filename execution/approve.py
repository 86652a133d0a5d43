"""The approval of a plan by a person, and its revocation."""

import socket
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from execution import claims
from execution.in_charge import is_alive, on_other_host
from execution.planned import Plan, describe_revocation, in_words
from optimizer.units import human_time, listed, plural
from stored.runs import StoredRun
from stored.tables import Warehouse
from stored.verdicts import Refused


def approve(warehouse: Warehouse, plan: Plan, *, manifest_sha256: str, by: str, max_hours: float | None = None) -> str:
    """Store the approval; returns a description of the approved plan for the operator.

    Parameters
    ----------
    manifest_sha256 : str
        Sha256 of the manifest that the approver has read, or its first characters; empty approves the current plan.
    by : str
        Name of the approver.
    max_hours : float, optional
        Limit of the snapshot's age; by default the plan's own time of expiry counts.

    Raises
    ------
    Refused
        When the plan has another manifest, or has expired.
    """
    plan.check_manifest(manifest_sha256, "read this plan before you approve it")
    plan.check_age(max_hours)
    description = "\n".join(_describe_approval(warehouse, plan, by))  # an unusable table is refused before the write
    _append(warehouse, plan, by, is_revocation=False)
    return description


def revoke(warehouse: Warehouse, plan: Plan, *, manifest_sha256: str, by: str) -> str:
    """Store that the plan's approval is revoked; returns a description for the operator.

    Parameters
    ----------
    manifest_sha256 : str
        Sha256 of the plan's manifest, or its first characters; empty revokes the approval of the current plan.
    by : str
        Name of the person who revokes.

    Raises
    ------
    Refused
        When the plan has another manifest, or no approval is in force.
    """
    plan.check_manifest(manifest_sha256, "nothing is revoked")
    if plan.revocation:
        raise Refused(f"{describe_revocation(plan.revocation)}: there is nothing to revoke")
    if not plan.approvals:
        raise Refused("this plan is not approved: there is nothing to revoke")
    _append(warehouse, plan, by, is_revocation=True)
    return "\n".join(_describe_revoked(warehouse, plan, by))


def _append(warehouse: Warehouse, plan: Plan, by: str, *, is_revocation: bool) -> None:
    row = {
        "cluster_id": plan.cluster_id,
        "run_id": plan.run_id,
        "manifest_sha256": plan.manifest_sha256,
        "approved_by": by,
        "approved_at": _next_time(plan),
        "approved_from": socket.gethostname(),
        "is_revocation": is_revocation,
    }
    warehouse.append("approvals", [row])


def _next_time(plan: Plan) -> datetime:
    """Now; but later than the plan's other rows, because the newest row decides and clocks of machines differ."""
    rows = [plan.revocation] if plan.revocation else plan.approvals
    return max([datetime.now(tz=UTC), *(row["approved_at"] + timedelta(microseconds=1) for row in rows)])


def _describe_approval(warehouse: Warehouse, plan: Plan, by: str) -> Iterator[str]:
    yield f"Approved by {by}: run {plan.run_id}, cluster {plan.cluster_id}, manifest {plan.manifest_sha256}"
    stored = StoredRun(warehouse, plan.run_id, plan.cluster_id)
    if stored.copied and stored.waves:
        time = human_time(sum(row["estimated_seconds"] for row in stored.waves))
        yield f"It copies {stored.copied.words()} in {plural(len(stored.waves), 'wave')}, about {time}."
    if unreached := [goal["name"] for goal in plan.manifest["goals"] if not goal["is_reached"]]:
        yield f"Not reached: {'; '.join(unreached)}."
    decision = stored.decision
    for note in decision["notes"] if decision else ():
        yield f"{note['kind']}: {note['subject']} {note['text']}"
    if plan.valid_until and plan.valid_until < datetime.now(tz=UTC):
        yield (
            f"The plan expired at {in_words(plan.valid_until)}. Its first wave refuses it too: "
            "give --max-plan-age-hours to `run`, or to the steps preflight and throttle."
        )


def _describe_revoked(warehouse: Warehouse, plan: Plan, by: str) -> Iterator[str]:
    yield f"Revoked by {by}: run {plan.run_id}, cluster {plan.cluster_id}, manifest {plan.manifest_sha256}"
    approvers = listed(sorted({row["approved_by"] for row in plan.approvals}))
    yield (
        f"{approvers} had approved it. Its steps refuse now, except wave off, wave status and rollback. A living run "
        "ends after its current wave."
    )
    last = claims.last_event(warehouse, plan.cluster_id)
    if last and claims.is_held_for(last, plan, last["wave"]):
        name = claims.wave_name(last["wave"])
        yield (
            f"{name[0].upper()}{name[1:]} still holds the cluster ({last['holder']}; {last['event']} at "
            f"{in_words(last['happened_at'])}): copies that run go on. To end the wave: {_ending(warehouse, last)}"
        )


def _ending(warehouse: Warehouse, last: claims.Row) -> str:
    """The command that ends the wave that holds a cluster; ``wave off`` ends no wave that a run executes."""
    cluster_id = str(last["cluster_id"])
    if is_alive(warehouse, cluster_id) or on_other_host(warehouse, cluster_id):
        return f"./ballast cancel --cluster {cluster_id} (it stops the copies; the run that executes the wave ends)"
    also = " (add --on-failure cancel to stop its copies)" if last["wave"] > 0 else ""
    return f"{claims.ending_command(last)}{also}"
