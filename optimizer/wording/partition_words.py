"""Texts of findings about partitions that stay as they are or break a rule."""

from optimizer.audit import LEFT_AGAIN
from optimizer.domain import Cause, FindingCode
from optimizer.solve.findings.finding import Finding
from optimizer.units import agree, plural
from optimizer.wording import remedies
from optimizer.wording.words import Words, ids, partition_of


def not_free(finding: Finding) -> Words:
    """Fact ``reason``. For lost partitions, by topic: facts ``brokers`` and ``partitions``; amount: lost partitions.
    For replicas out of sync, by broker: fact ``kafka_version``; amount: partitions."""
    if finding.cause == Cause.OUT_OF_SYNC:
        return _out_of_sync(finding)
    if finding.cause != Cause.ALL_REPLICAS_DEAD:
        return Words(partition_of(finding), finding.facts["reason"], remedies.remedy_if_fixed(finding.cause))
    count = f"{finding.amount:,} of {plural(finding.facts['partitions'], 'partition')}"
    return Words(
        str(finding.topic),
        f"{count}: every replica is on a dead broker ({ids(finding.facts['brokers'])})",
        "start one of these brokers again, or delete the topic",
    )


def _out_of_sync(finding: Finding) -> Words:
    version, count = finding.facts["kafka_version"], int(finding.amount or 0)
    kafka = f"Kafka {version}" if version else "Kafka"
    unknown = "" if version else " (the version is unknown, and releases before 4.3 would not: give kafka_version)"
    return Words(
        f"broker {finding.broker_id}",
        f"{plural(count, 'replica')} of it {agree(count, 'is', 'are')} out of sync: {kafka} would not end a "
        f"reassignment of {agree(count, 'this partition', 'these partitions')} that keeps it{unknown}",
        remedies.remedy_if_fixed(finding.cause),
    )


def unexplained(finding: Finding) -> Words:
    """Fact ``detail``, the audit's sentence."""
    remedy = f"execute the plan and run again; if it stays again, {LEFT_AGAIN}"
    return Words(partition_of(finding), finding.facts["detail"], remedy)


def rack_spread(finding: Finding) -> Words:
    """Facts ``over`` and ``under``: rack, its replicas, and the most or least allowed.

    Without a partition, amount: partitions that the plan repairs.
    """
    if finding.partition is None:
        count = int(finding.amount or 0)
        breaks = f"{plural(count, 'partition')} {agree(count, 'breaks', 'break')} the rack rule; the plan repairs that"
        return Words("repaired partitions", breaks, remedies.EXECUTE)
    facts = finding.facts
    over = (f"rack {rack} holds {plural(count, 'replica')} (at most {most})" for rack, count, most in facts["over"])
    under = (f"rack {rack} holds {count} (at least {least})" for rack, count, least in facts["under"])
    detail = ", ".join([*over, *under])
    return _with_cause(
        finding, partition_of(finding), detail, f"add brokers to other racks; otherwise {remedies.RUN_AGAIN}"
    )


def not_emptied(finding: Finding) -> Words:
    """Facts ``state`` of the broker, ``replicas`` of the partition, and ``hosts``: brokers that can hold them."""
    facts, name = finding.facts, partition_of(finding)
    subject, detail = f"{name} on {finding.broker_id}", f"broker {finding.broker_id} ({facts['state']}) keeps {name}"
    if finding.cause == Cause.TOO_FEW_BROKERS:
        too_few = f"{plural(facts['replicas'], 'replica')}, brokers that can hold them: {facts['hosts']}"
        return Words(subject, f"{detail}: {too_few}", "request fewer replicas, drain fewer brokers, or add a broker")
    return _with_cause(finding, subject, detail, f"add a broker that may hold it; otherwise {remedies.RUN_AGAIN}")


def not_pinned(finding: Finding) -> Words:
    """Fact ``patterns`` of its pins."""
    name, pins = partition_of(finding), " and ".join(finding.facts["patterns"])
    detail = f"broker {finding.broker_id} keeps {name}, outside the pin {pins}"
    return _with_cause(finding, f"{name} on {finding.broker_id}", detail, remedies.RUN_AGAIN)


def not_resized(finding: Finding) -> Words:
    """Amount: current replicas; limit: requested replicas."""
    now, factor = int(finding.amount or 0), int(finding.limit or 0)
    detail = f"{factor} {agree(factor, 'is', 'are')} requested"
    return _with_cause(finding, f"{partition_of(finding)} on {plural(now, 'replica')}", detail)


def left_for_disk(finding: Finding) -> Words:
    """Facts ``disk_headroom`` and ``waves``; of directories also ``full_broker`` and ``log_dirs``."""
    return _with_cause(finding, partition_of(finding), "it keeps its replicas")


def _with_cause(finding: Finding, subject: str, detail: str, remedy: str = "") -> Words:
    """Add the cause, if there is one, and use its remedy instead of ``remedy``."""
    if finding.cause in remedies.WHY_LEFT:
        return Words(subject, f"{detail}; {remedies.WHY_LEFT[finding.cause]}", remedies.remedy_if_left(finding))
    if finding.cause == Cause.NOT_FREE:
        reason, fixed_remedy = remedies.why_fixed(finding), remedies.remedy_if_fixed(finding.facts["fixed_cause"])
        return Words(subject, f"{detail}: {reason}", fixed_remedy)
    return Words(subject, detail, remedy)


BY_CODE = {
    FindingCode.NOT_FREE: not_free,
    FindingCode.UNEXPLAINED: unexplained,
    FindingCode.RACK_SPREAD: rack_spread,
    FindingCode.NOT_EMPTIED: not_emptied,
    FindingCode.NOT_PINNED: not_pinned,
    FindingCode.NOT_RESIZED: not_resized,
    FindingCode.LEFT_FOR_DISK: left_for_disk,
}
