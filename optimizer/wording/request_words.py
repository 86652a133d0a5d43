"""Texts of findings about requests of the policy that the plan does not meet, or that match nothing."""

from math import ceil

from optimizer.cluster_policy import BYTES_PER_GB
from optimizer.domain import FindingCode
from optimizer.solve.findings.finding import Finding
from optimizer.units import agree, clause, first_of, human_bytes, plural
from optimizer.wording import remedies
from optimizer.wording.words import Words, ids

# A noun, and its predicate in the singular and the plural.
_LEFT_BY_LIMIT = {
    FindingCode.BAND: ("load", "outside a band that the whole plan meets", "outside bands that the whole plan meets"),
    FindingCode.NOT_EMPTIED: ("replica", "on a broker to empty", "on brokers to empty"),
    FindingCode.NOT_PINNED: ("replica", "outside its pin", "outside their pin"),
    FindingCode.RACK_SPREAD: ("partition", "that breaks the rack rule", "that break the rack rule"),
}
_COUNTED = {"max_moved_bytes": "moved_bytes", "max_moves": "moves"}  # what a limit counts
_LEFT_BY_ONLY = {
    "bands": ("load", "of a broker is outside its band", "of brokers are outside their bands"),
    "bands of leaders": ("load", "of leaders is outside its band", "of leaders are outside their bands"),
    "racks": ("partition", "breaks the rack rule", "break the rack rule"),
    "pins": ("replica", "is outside its pin", "are outside their pin"),
    "drain_brokers": ("replica", "is on brokers to empty", "are on brokers to empty"),
    "demote_brokers": ("preferred leader", "is on brokers to demote", "are on brokers to demote"),
    "replication_factors": (
        "partition",
        "has another replication factor than requested",
        "have another replication factor than requested",
    ),
}


def limited(finding: Finding) -> Words:
    """Facts ``exceeded`` (limits), ``moved_bytes`` and ``moves`` of the whole plan, and ``left`` (findings by code).

    Amount: changes that the plan leaves out.
    """
    facts, exceeded = finding.facts, finding.facts["exceeded"]
    limits = {
        "max_moved_bytes": ("max_moved_gb", f"{exceeded.get('max_moved_bytes', 0) / BYTES_PER_GB:.12g}"),
        "max_moves": ("max_moves", exceeded.get("max_moves")),
        "disk_headroom": ("disk_headroom", exceeded.get("disk_headroom")),
    }
    names = ", ".join("{} = {}".format(*limits[name]) for name in limits if name in exceeded)
    shares = [facts[what] / exceeded[limit] for limit, what in _COUNTED.items() if exceeded.get(limit)]
    runs = f", about {ceil(max(shares))} runs with this limit" if shares else ""
    whole = f"the whole plan would copy {human_bytes(facts['moved_bytes'])} in {plural(facts['moves'], 'move')}{runs}"
    out = clause(int(finding.amount or 0), "least important change", "is", "are")
    rest = ", ".join(clause(count, *_LEFT_BY_LIMIT[code]) for code, count in facts["left"].items() if count)
    detail = f"{whole}; the {out} left out{': ' if rest else ''}{rest}"
    return Words(names, detail, remedies.remedy_for_limits(finding))


def not_asked_now(finding: Finding) -> Words:
    """Facts ``left`` (the kind), ``only``, and ``brokers`` or ``start_at`` if it is about these; amount: count."""
    facts = finding.facts
    if "start_at" in facts:
        detail = f'only = "{facts["only"]}" does not wait: start_at = {facts["start_at"]:g} is ignored'
        return Words("start_at", detail, "run without only to wait")
    brokers = f" ({ids(facts['brokers'])})" if "brokers" in facts else ""
    unmet = clause(int(finding.amount or 0), *_LEFT_BY_ONLY[facts["left"]])
    detail = f'{unmet}{brokers}: only = "{facts["only"]}" leaves that as it is'
    return Words(facts["left"], detail, "execute the plan and run again without only")


def pin(finding: Finding) -> Words:
    """Facts ``patterns``, ``brokers`` (the first ones), ``more_brokers`` and ``partitions``.

    Amount: brokers that can hold a replica; limit: replicas.
    """
    facts, hosts, factor = finding.facts, int(finding.amount or 0), int(finding.limit or 0)
    named = f"{facts['brokers']}{' and more' if facts['more_brokers'] else ''}"
    detail = (
        f"the pin {' and '.join(facts['patterns'])} allows brokers {named}: {hosts} of them can hold a replica, "
        f"{factor} {agree(factor, 'is', 'are')} needed. {plural(facts['partitions'], 'partition')} cannot move"
    )
    remedy = f"let the pin allow {plural(factor - hosts, 'more broker')} that can accept replicas"
    fewer = f"; or request {plural(hosts, 'replica')}" if hosts else ""
    return Words(str(finding.topic), detail, remedy + fewer)


def replication_factor(finding: Finding) -> Words:
    """Fact ``reason``; amount: partitions."""
    count = int(finding.amount or 0)
    keep = f"{plural(count, 'partition')} {agree(count, 'keeps its', 'keep their')} replication factor"
    return Words(str(finding.topic), f"{finding.facts['reason']}; {keep}", remedies.remedy_if_fixed(finding.cause))


def no_spare_replica(finding: Finding) -> Words:
    """Amount: replicas that are requested."""
    factor = int(finding.amount or 0)
    return Words(
        str(finding.topic),
        f"{plural(factor, 'replica')} requested, min.insync.replicas: {factor}; one broker down stops its writers",
        "request one more replica, or lower min.insync.replicas",
    )


def one_replica(finding: Finding) -> Words:
    """Amount: partitions; fact ``topics``."""
    stops = ("of one replica stops with its broker", "of one replica stop with its broker")
    stop = clause(int(finding.amount or 0), "partition", *stops)
    return Words(first_of(finding.facts["topics"]), stop, "request more replicas with policy.replication_factors")


def copied_for_sync(finding: Finding) -> Words:
    """Amount: replicas; facts ``bytes``, ``partitions``, and ``brokers`` of the removed replicas."""
    facts, count = finding.facts, int(finding.amount or 0)
    return Words(
        plural(facts["partitions"], "partition"),
        f"their shorter lists lose replicas that are out of sync (brokers {ids(facts['brokers'])}) instead of others "
        f"that must move: that copies {plural(count, 'replica')}, {human_bytes(facts['bytes'])}",
        "wait until they are in sync and plan again, to copy less",
    )


def topic_spread(finding: Finding) -> Words:
    """Fact ``total`` of the topic. Without a topic, amount: cases that the plan repairs, or more cases than listed."""
    remedy = "let partitions of the topic move, let more brokers accept replicas, or raise topic_spread; or run again"
    return _crowded(finding, remedy)


def topic_leader_spread(finding: Finding) -> Words:
    """The facts of ``topic_spread``."""
    remedy = "spread the topic's replicas with topic_spread, let more brokers lead, or raise topic_leader_spread"
    return _crowded(finding, remedy)


def _crowded(finding: Finding, remedy: str) -> Words:
    resource, count, broker = finding.resource, int(finding.amount or 0), finding.broker_id
    if finding.topic is not None:
        most = int(finding.limit or 0)
        has = f"broker {broker} has {count} of the {finding.facts['total']} {resource} of topic {finding.topic}"
        detail = f"{has}; at most {most} {agree(most, 'is', 'are')} allowed"
        return Words(f"{finding.topic} on broker {broker}", detail, remedy)
    if finding.when == "before":
        detail = f"in {plural(count, 'case')} a broker has too many {resource} of a topic; the plan repairs that"
        return Words("repaired topics", detail, remedies.EXECUTE)
    cases = f"in {plural(count, 'more case')} a broker has too many {resource} of a topic"
    return Words("further topics", f"{cases}, by fewer than in the cases listed", remedy)


def unused_pattern(finding: Finding) -> Words:
    """Fact ``pattern``."""
    remedy = "a pattern must match a topic's whole name: correct it, or remove it"
    return Words(finding.facts["pattern"], "no topic matches this pattern", remedy)


BY_CODE = {
    FindingCode.LIMITED: limited,
    FindingCode.NOT_ASKED_NOW: not_asked_now,
    FindingCode.PIN: pin,
    FindingCode.REPLICATION_FACTOR: replication_factor,
    FindingCode.NO_SPARE_REPLICA: no_spare_replica,
    FindingCode.ONE_REPLICA: one_replica,
    FindingCode.COPIED_FOR_SYNC: copied_for_sync,
    FindingCode.TOPIC_SPREAD: topic_spread,
    FindingCode.TOPIC_LEADER_SPREAD: topic_leader_spread,
    FindingCode.PIN_UNUSED: unused_pattern,
    FindingCode.FACTOR_UNUSED: unused_pattern,
    FindingCode.TOPICS_UNUSED: unused_pattern,
    FindingCode.EXCLUDE_UNUSED: unused_pattern,
    FindingCode.ACKS_UNUSED: unused_pattern,
}
