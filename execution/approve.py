"""The approval of a plan, and its revocation."""

import socket
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from execution.in_charge import is_alive, on_other_host
from execution.journal import Hold, Journal, WaveId
from execution.planned import Plan, describe_revocation, in_words
from optimizer.emit.cluster_plan import YOUR_CONFIG, run_command
from optimizer.units import human_times, listed, plural
from stored.runs import StoredRun
from stored.tables import Warehouse
from stored.verdicts import Refused


def approve(
    warehouse: Warehouse,
    plan: Plan,
    *,
    manifest_sha256: str,
    by: str,
    max_hours: float | None = None,
    rules: str | None = None,
    after: int | None = None,
    config: str | None = None,
) -> str:
    """Store the approval; returns a description of the approved plan for the operator.

    Parameters
    ----------
    manifest_sha256 : str
        Sha256 of the manifest that the approver has read, or its first characters; empty approves the current plan.
    by : str
        Name of the approver.
    max_hours : float, optional
        Limit of the snapshot's age; by default the plan's own time of expiry counts.
    rules : str, optional
        Rules that approve and the figures of their limits, as JSON.
    after : int, optional
        Approve only if table ``approvals`` still has this version.
    config : str, optional
        The configuration file of the operator.

    Raises
    ------
    Refused
        When the plan has another manifest, has expired, or another plan was executed since its snapshot.
    Overtaken
        When another process has written the table since.
    """
    plan.check_manifest(manifest_sha256, "read this plan before you approve it")
    check_may_start(warehouse, plan, max_hours)
    lines = [*_describe_approval(warehouse, plan, by, config)]  # an unusable table is refused before the write
    _append(warehouse, plan, by, is_revocation=False, rules=rules, after=after)
    return "\n".join(lines)


def check_may_start(warehouse: Warehouse, plan: Plan, max_hours: float | None) -> None:
    """Raise ``Refused`` if ``run`` would refuse the plan as expired or out of date; names the oldest source."""
    ledger = Journal(warehouse, plan.cluster_id).look()
    if ledger.holder and ledger.holder.is_of(plan):
        return
    try:
        ledger.check_may_start(plan, WaveId(1), max_hours)
    except Refused as refused:
        rows = StoredRun(warehouse, plan.run_id, plan.cluster_id).rows("sources")
        times = sorted((row["captured_at"], row["source"]) for row in rows if row["has_state"] and row["captured_at"])
        oldest = f". Its oldest source is {times[0][1]}" if times else ""
        raise Refused(*(f"{problem}{oldest}" for problem in refused.problems)) from None


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


def _append(
    warehouse: Warehouse,
    plan: Plan,
    by: str,
    *,
    is_revocation: bool,
    rules: str | None = None,
    after: int | None = None,
) -> None:
    row = {
        "cluster_id": plan.cluster_id,
        "run_id": plan.run_id,
        "manifest_sha256": plan.manifest_sha256,
        "approved_by": by,
        "approved_at": _next_time(plan),
        "approved_from": socket.gethostname(),
        "is_revocation": is_revocation,
        "rules": rules,
    }
    warehouse.append("approvals", [row], after=after)


def _next_time(plan: Plan) -> datetime:
    """Now; but later than the plan's other rows, because the newest row decides and clocks of machines differ."""
    rows = [plan.revocation] if plan.revocation else plan.approvals
    return max([datetime.now(tz=UTC), *(row["approved_at"] + timedelta(microseconds=1) for row in rows)])


def _describe_approval(warehouse: Warehouse, plan: Plan, by: str, config: str | None) -> Iterator[str]:
    yield f"Approved by {by}: run {plan.run_id}, cluster {plan.cluster_id}, manifest {plan.manifest_sha256[:8]}"
    stored = StoredRun(warehouse, plan.run_id, plan.cluster_id)
    if stored.copied and stored.waves:
        time = human_times(*(sum(row[name] for row in stored.waves) for name in ("least_seconds", "most_seconds")))
        yield f"It copies {stored.copied.words()} in {plural(len(stored.waves), 'wave')}, {time}."
    if unreached := [goal["name"] for goal in plan.manifest["goals"] if not goal["is_reached"]]:
        yield f"Not reached: {'; '.join(unreached)}."
    decision = stored.decision
    for note in decision["notes"] if decision else ():
        yield f"{note['kind']}: {note['subject']} {note['text']}"
    if stored.waves:
        where = "" if config else YOUR_CONFIG  # an option that was given is added to each command
        yield f"To execute it: {run_command(plan.run_id, plan.cluster_id, where)}"
    if plan.valid_until and plan.valid_until < datetime.now(tz=UTC):
        yield (
            f"The plan expired at {in_words(plan.valid_until)}. Its first wave refuses it too: "
            "give --max-plan-age-hours to `run`, or to the steps preflight and throttle."
        )


def _describe_revoked(warehouse: Warehouse, plan: Plan, by: str) -> Iterator[str]:
    yield f"Revoked by {by}: run {plan.run_id}, cluster {plan.cluster_id}, manifest {plan.manifest_sha256[:8]}"
    approvers = listed(sorted({row["approved_by"] for row in plan.approvals}))
    yield (
        f"{approvers} had approved it. Its steps refuse now, except wave off, wave status and rollback. A living run "
        "ends after its current wave."
    )
    journal = Journal(warehouse, plan.cluster_id)
    hold = journal.look().holder
    if hold and hold.is_of(plan):
        name = hold.wave.name
        yield (
            f"{name[0].upper()}{name[1:]} still holds the cluster ({hold.by_since}): copies that run go on. "
            f"To end the wave: {_ending(journal, hold)}"
        )


def _ending(journal: Journal, hold: Hold) -> str:
    """The command that ends the wave that holds a cluster; ``wave off`` ends no wave that a run executes."""
    if is_alive(journal) or on_other_host(journal):
        return (
            f"./ballast cancel --cluster {hold.cluster_id} (it stops the copies; the run that executes the wave ends)"
        )
    also = "" if hold.wave.is_rollback else " (add --on-failure cancel to stop its copies)"
    return f"{hold.ending_command()}{also}"
