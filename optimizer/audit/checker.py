"""The audit of one cluster's plan: documents in, verdict out.

The audit does not trust the planner: it recomputes placements, bytes and leaders from the documents and the instance.
Rules that were broken before the plan may stay broken, and the figures count them. A plan may not make them worse.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from itertools import chain

from optimizer.audit import plan_rules
from optimizer.audit.claims import (
    FIXED,
    LEFT_AGAIN,
    AuditBroker,
    AuditClaims,
    AuditLimits,
    AuditPartition,
    AuditReport,
    Excess,
    Key,
    Violation,
)
from optimizer.audit.excuses import Repairs, find_repairs
from optimizer.audit.instance import Instance
from optimizer.audit.read_documents import Entry, PlanDocument, read_document, read_parts
from optimizer.audit.spread import Targets, crowded
from optimizer.units import agree, plural


def audit_plan(
    *,
    brokers: Sequence[AuditBroker],
    partitions: Sequence[AuditPartition],
    waves: Sequence[str],
    whole: str | None,
    rollback: str | Sequence[str] | None,
    limits: AuditLimits,
    claims: AuditClaims | None,
    dir_moves: Sequence[str] = (),
) -> AuditReport:
    """Check a plan from its documents.

    Parameters
    ----------
    brokers, partitions : sequences
        The cluster before the plan.
    waves : sequence of str
        Reassignment documents in the order of execution; empty when there is nothing to do.
    whole, rollback : str, optional
        The reassignment document of the whole plan, and its rollback or the parts of it; None if there is nothing to
        do.
    limits : AuditLimits
    claims : AuditClaims, optional
        Figures to compare with the recomputed ones.
    dir_moves : sequence of str
        Documents of the waves inside brokers. Only the figures count them: ``audit_files`` checks their rules.

    Returns
    -------
    AuditReport
        Violations in the order of the rules, and the recomputed figures.

    References
    ----------
    What Kafka accepts: org.apache.kafka.tools.reassign.ReassignPartitionsCommand, Kafka 4.3.
    """
    instance = Instance(brokers=brokers, partitions=partitions, limits=limits)
    plan = None if whole is None else read_document(whole, label="the whole plan")
    rollback_document = None if rollback is None else read_parts(rollback, label="the rollback")
    steps = [read_document(text, label=f"wave {i}") for i, text in enumerate(waves, start=1)]
    targets = {e.key: e.replicas for e in plan.entries if e.key in instance.partitions} if plan else {}
    repairs = find_repairs(instance, targets)
    figures = _figures(instance, targets, repairs, len(steps) + len(dir_moves)) | _dir_move_figures(instance, dir_moves)
    entries = list(_entry_violations(instance, plan, steps))
    reported = {(v.rule, key) for key, v in entries}
    unexplained = repairs.unexplained.items() if _leaves_too_much(repairs, limits) else ()
    unexplained_violations = (replace(v, is_left=True) for key, v in unexplained if (v.rule, key) not in reported)
    violations = chain(
        _identities(brokers, partitions),
        chain.from_iterable(d.violations for d in (plan, rollback_document, *steps) if d),
        (v for _, v in entries),
        plan_rules.check_waves(plan, steps),
        plan_rules.check_rollback(instance, plan, rollback_document),
        unexplained_violations,
        plan_rules.check_capacity(instance, steps),
        plan_rules.check_wave_sizes(instance, steps),
        _limit_violations(limits, figures),
        _claim_violations(claims, figures),
    )
    return AuditReport(tuple(violations), figures, _remark(repairs, limits))


def _leaves_too_much(repairs: Repairs, limits: AuditLimits) -> bool:
    return repairs.share > limits.max_unexplained


def _remark(repairs: Repairs, limits: AuditLimits) -> str:
    if not _leaves_too_much(repairs, limits):
        return ""
    count = len(repairs.unexplained)
    share = f"{count} of {plural(repairs.repairable, 'partition')} that could be fixed {agree(count, 'stays', 'stay')}"
    remedy = f"add space to full disks, or raise it and run emit again; {LEFT_AGAIN}"
    return f"  {share} without a reason, over [policy] max_unexplained = {limits.max_unexplained:g}: {remedy}"


def _identities(brokers: Sequence[AuditBroker], partitions: Sequence[AuditPartition]) -> Iterator[Violation]:
    """The instance must list each broker and partition once, or the verdict means nothing."""
    if len({b.broker_id for b in brokers}) < len(brokers):
        yield Violation("instance", "brokers", "a broker is listed twice")
    if len({p.key for p in partitions}) < len(partitions):
        yield Violation("instance", "partitions", "a partition is listed twice")


def _entry_violations(
    instance: Instance, plan: PlanDocument | None, steps: Sequence[PlanDocument]
) -> Iterator[tuple[Key, Violation]]:
    """Check every different entry by the rules for one partition; yields the key with each violation."""
    checked: set[Entry] = set()
    for document in (plan, *steps):
        for entry in document.entries if document else ():
            if entry not in checked:
                checked.add(entry)
                yield from ((entry.key, violation) for violation in plan_rules.check_entry(instance, entry))


def _figures(instance: Instance, targets: Targets, repairs: Repairs, n_waves: int) -> dict[str, int]:
    changes = [(instance.partitions[key], replicas) for key, replicas in targets.items()]
    added = [(p, len(set(replicas) - set(p.replicas))) for p, replicas in changes]
    staying = plan_rules.on_brokers_to_empty(instance, targets)
    return {
        "partitions_changed": len(changes),
        "replicas_moved": sum(n for _, n in added),
        "moved_bytes": sum(instance.copied_bytes(p, replicas) for p, replicas in changes),
        "leader_changes": sum(replicas[0] != p.replicas[0] for p, replicas in changes),
        "rack_violations_before": _rack_violations(instance, {}),
        "rack_violations_after": _rack_violations(instance, targets),
        "partitions_left_on_brokers_to_empty": len(staying),
        "fixed_partitions_left_on_brokers_to_empty": sum(p.mobility == FIXED for p in staying),
        "partitions_left_outside_their_pin": len(plan_rules.outside_pins(instance, targets)),
        "crowded_topics_before": crowded(instance, {}),
        "crowded_topics_after": crowded(instance, targets),
        "brokers_over_disk_limit_before": sum(_over_limit(instance, b, n) for b, n in instance.disk_bytes.items()),
        "repaired": repairs.repaired,
        "unexplained": len(repairs.unexplained),
        "waves": n_waves,
    }


def _dir_move_figures(instance: Instance, texts: Sequence[str]) -> dict[str, int]:
    """Replicas that move inside their brokers, and their bytes; partitions that the cluster lacks do not count."""
    entries = chain.from_iterable(read_document(text, label="moves inside brokers").entries for text in texts)
    moved = [(instance.partitions[e.key].size_bytes, len(e.named)) for e in entries if e.key in instance.partitions]
    return {"dir_moves": sum(n for _, n in moved), "dir_moved_bytes": sum(n * size for size, n in moved)}


def _rack_violations(instance: Instance, targets: Mapping[Key, tuple[int, ...]]) -> int:
    lists = ((p, targets.get(key, p.replicas)) for key, p in instance.partitions.items())
    return sum(instance.rack_misses(replicas, len(replicas), p.pinned_brokers) > 0 for p, replicas in lists)


def _over_limit(instance: Instance, broker_id: int, held_bytes: int) -> bool:
    limit = instance.disk_limit(broker_id)
    return limit is not None and held_bytes > limit


def _limit_violations(limits: AuditLimits, figures: Mapping[str, int]) -> Iterator[Violation]:
    """The whole plan copies no more bytes and replicas than the policy allows."""
    for figure, most in (("moved_bytes", limits.max_moved_bytes), ("replicas_moved", limits.max_moves)):
        if most is not None and figures[figure] > most:
            detail = f"the plan copies {figures[figure]}, the policy allows {most}"
            yield Violation("limit", figure, detail, excess=Excess(figures[figure], most))


def _claim_violations(claims: AuditClaims | None, figures: Mapping[str, int]) -> Iterator[Violation]:
    if claims is None:
        return
    for figure in (field.name for field in fields(claims) if field.name != "bound_bytes"):
        claimed = getattr(claims, figure)
        if claimed is not None and claimed != figures[figure]:
            yield Violation("claims", figure, f"the plan states {claimed}, the documents have {figures[figure]}")
    bound = claims.bound_bytes
    if bound is not None and bound > figures["moved_bytes"]:
        detail = f"the stated minimum for this balance is {bound}, but the plan copies {figures['moved_bytes']}"
        yield Violation("bound", "moved_bytes", detail)
