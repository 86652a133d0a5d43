"""``./ballast approve --by-rules``: approves each plan that keeps the rules of ``[approval]``."""

import argparse
import hashlib
import json
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from execution import journal
from execution.approve import approve, check_may_start
from execution.planned import Plan, describe_revocation, load
from execution.rules import DAYS, Facts, objections, to_json
from optimizer.approval_setting import Approval
from optimizer.errors import ConfigError
from optimizer.settings import Settings
from optimizer.similar import did_you_mean
from schemas.verdicts import NOTHING_TO_DO, PLANNED
from stored.approvals import in_force
from stored.runs import StoredRun, StoredRuns, last_run
from stored.tables import Overtaken, Warehouse
from stored.verdicts import Refused

_TRIES = 10  # another process may approve another cluster at the same time
_REFUSED = Refused.exit_code


@dataclass(frozen=True)
class Answer:
    """What the rules say about one cluster of a run.

    Parameters
    ----------
    refusals : sequence of str
        Why the plan is not approved.
    text : str
        What is approved, or that there is nothing to do; empty if the plan is not approved.
    """

    run_id: str
    cluster_id: str
    is_approved: bool = False
    refusals: Sequence[str] = ()
    text: str = ""

    def lines(self) -> list[str]:
        """For people: a line for each reason."""
        return [self.text] if self.text else [f"{self.cluster_id}: not approved: {line}" for line in self.refusals]

    def to_json(self) -> str:
        """For schedulers."""
        key = {"run_id": self.run_id, "cluster_id": self.cluster_id}
        return json.dumps({**key, "approved": self.is_approved, "text": self.text, "reasons": [*self.refusals]})


def check_options(options: argparse.Namespace) -> None:
    """Raise ``ConfigError`` with all options of ``approve`` that do not fit together."""
    if options.by_rules:
        needs_cluster = {"--json": options.json, "--manifest": options.manifest}
        missing = [name for name, value in needs_cluster.items() if value and options.cluster is None]
        problems = [
            *(["--by-rules reads [approval] of the configuration: give --config FILE"] if not options.config else ()),
            *([f"--by {options.by!r} names a person: leave out --by or --by-rules"] if options.by else ()),
            *(f"{name} is about one cluster: name it with --cluster ID" for name in missing),
        ]
    else:
        only_rules = {"--dry-run": options.dry_run, "--json": options.json}
        problems = [f"{name} needs --by-rules" for name, value in only_rules.items() if value]
    if problems:
        raise ConfigError(*problems)


def approve_by_rules(
    options: argparse.Namespace, settings: Settings, warehouse: Warehouse, say: Callable[[str], None]
) -> int:
    """Approve the plans of one run that keep the rules; returns the exit code, with ``--json`` always 0.

    Raises
    ------
    ConfigError
        When the configuration has no rules, or rules for an unknown cluster.
    StageError
        When the run or the cluster is unknown.
    """
    approval = _rules(settings, options.config)
    run_id = options.run_id or last_run(warehouse, options.cluster)
    answers = []
    for stored in StoredRuns(warehouse, run_id, options.cluster):
        answer = _answer(options, approval, stored)
        answers.append(answer)
        for line in [answer.to_json()] if options.json else answer.lines():
            say(line)
    return _REFUSED if any(answer.refusals for answer in answers) and not options.json else 0


def has_nothing_to_do(warehouse: Warehouse, run_id: str, cluster_id: str) -> bool:
    """Whether the plan of a cluster changes nothing: a quiet night needs no approval and no execution."""
    return bool(StoredRun(warehouse, run_id, cluster_id).verdict["verdict"] == NOTHING_TO_DO)


def _rules(settings: Settings, config: str) -> Approval:
    if settings.approval is None:
        raise ConfigError(f"{config} has no section [approval]: add it with at least one limit, or approve by hand")
    known = [cluster.id for cluster in settings.clusters]
    unknown = [cluster.id for cluster in settings.approval.clusters if known and cluster.id not in known]
    if unknown:
        remedy = f"use ids of [[clusters]]{did_you_mean(unknown[0], known)}"
        raise ConfigError(f"[[approval.clusters]] id = {unknown} is not usable: {remedy}")
    return settings.approval


def _answer(options: argparse.Namespace, approval: Approval, stored: StoredRun) -> Answer:
    run_id, cluster_id = stored.run_id, stored.cluster_id
    if stored.verdict["verdict"] == NOTHING_TO_DO:
        return Answer(run_id, cluster_id, text=f"{cluster_id}: nothing to do")
    for _ in range(_TRIES):
        try:
            text = _approve(options, approval, stored)
        except Refused as refused:
            return Answer(run_id, cluster_id, refusals=refused.problems)
        except Overtaken:
            continue
        return Answer(run_id, cluster_id, is_approved=True, text=text)
    raise Overtaken(f"other processes wrote table approvals of {stored.warehouse.path} {_TRIES} times: try again")


def _approve(options: argparse.Namespace, approval: Approval, stored: StoredRun) -> str:
    """Approve one plan; returns what is approved. Raises ``Refused`` with a line for each rule that says no."""
    warehouse, cluster_id = stored.warehouse, stored.cluster_id
    # Before the sums: an approval of another plan in between must be counted.
    version = None if options.dry_run else warehouse.version("approvals")
    plan = load(warehouse, cluster_id=cluster_id, run_id=stored.run_id)
    plan.check_manifest(options.manifest, "the plan was made again")
    if plan.approvals:
        return f"{cluster_id}: run {plan.run_id} is already approved by {plan.approvals[0]['approved_by']}"
    if plan.revocation:
        raise Refused(f"{describe_revocation(plan.revocation)}: only a person approves it again")
    rules = approval.rules_of(cluster_id)
    if not rules.limits():
        raise Refused("[approval] has no limit for this cluster: add one, or approve the plan by hand")
    facts = _facts(warehouse, plan, [days for name, days in DAYS.items() if name in rules.limits()])
    try:
        check_may_start(warehouse, plan, options.max_plan_age_hours)
        late: Sequence[str] = ()
    except Refused as refused:
        late = refused.problems
    if lines := [*late, *objections(rules, facts)]:
        raise Refused(*lines)
    by = f"rules {approval.sha256()[:8]}"
    if options.dry_run:
        return f"{cluster_id}: run {plan.run_id} would be approved by {by}"
    max_hours, content = options.max_plan_age_hours, to_json(rules, facts)
    manifest, config = options.manifest, options.config
    return approve(
        warehouse,
        plan,
        manifest_sha256=manifest,
        by=by,
        max_hours=max_hours,
        rules=content,
        after=version,
        config=config,
    )


def _facts(warehouse: Warehouse, plan: Plan, periods: Collection[int]) -> Facts:
    now = datetime.now(tz=UTC)
    return Facts(_decision(warehouse, plan), moved_before(warehouse, plan, now, periods), now)


def _decision(warehouse: Warehouse, plan: Plan) -> dict[str, Any]:
    """``decision.json``, if it is the one that the manifest names."""
    signed = plan.manifest.get("decision_sha256")
    if signed is None:
        raise Refused("a release without rules made the plan: plan again, or approve it by hand")
    contents = StoredRun(warehouse, plan.run_id, plan.cluster_id).documents("decision")
    if [hashlib.sha256(content.encode()).hexdigest() for content in contents] != [signed]:
        raise Refused("decision.json differs from the manifest: it was changed after the run; plan again")
    decision: dict[str, Any] = json.loads(contents[0])
    return decision


def moved_before(warehouse: Warehouse, plan: Plan, now: datetime, periods: Collection[int]) -> dict[int, float]:
    """Bytes between brokers of the cluster without this plan, by the number of days until now.

    A wave counts from its last start, also if it was cancelled, and so does its rollback. Waves that were never started
    count if their plan may still start them; see ``_waiting_since``.
    """
    if not periods:
        return {}
    stored = StoredRuns(warehouse, cluster_id=plan.cluster_id)
    ledger = journal.fold(journal.events(warehouse, cluster_id=plan.cluster_id))
    size = {
        (run_id, row["wave"]): row["moved_bytes"]
        for (run_id, _), rows in stored.rows("waves", "wave", "moved_bytes", "inside_brokers").items()
        for row in rows
        if run_id != plan.run_id and not row["inside_brokers"]
    }
    started = {
        (row["run_id"], row["wave"]): row["happened_at"]
        for row in ledger.rows
        if row["event"] in (journal.STARTING, journal.EXECUTED)
    }
    since = _waiting_since(stored, now, _begun(ledger))
    times = {key: since[key[0]] for key in size if key[0] in since} | started
    return {
        days: sum(
            size.get((run_id, abs(wave)), 0) for (run_id, wave), at in times.items() if at > now - timedelta(days=days)
        )
        for days in periods
    }


def _begun(ledger: journal.Ledger) -> str | None:
    """The run that has begun and may go on although it has expired: no other run has started copies since."""
    started = [row["run_id"] for row in ledger.rows if row["event"] in (journal.STARTING, journal.EXECUTED)]
    begun = {run_id for run_id, *_ in ledger.executed} | ({ledger.holder.run_id} if ledger.holder else set())
    return started[-1] if started and started[-1] in begun else None


def _waiting_since(stored: StoredRuns, now: datetime, begun: str | None) -> dict[str, datetime]:
    """The time from which waves that wait count, by run: only of approved plans.

    It is now for a plan that has begun or has not expired, and the approval for a plan that never expires.
    """
    times = {}
    for run in stored:
        until, approvals = run.verdict["valid_until"], in_force(run.approvals)
        if run.verdict["verdict"] != PLANNED or not approvals:
            continue
        if run.run_id == begun or (until and until >= now):
            times[run.run_id] = now
        elif not until:
            times[run.run_id] = approvals[-1]["approved_at"]
    return times
