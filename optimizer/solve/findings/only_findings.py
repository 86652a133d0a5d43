"""Requests of the policy that ``only`` excludes from this plan: one finding for each kind."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from optimizer.cluster_policy import DEMOTE, DIRS, DRAIN, LEADERS, RACKS, ClusterPolicy
from optimizer.domain import Brokers, Cause, FindingCode, Ints, Partitions
from optimizer.solve.findings.finding import Finding

# What ``only`` leaves, by the code of its findings; NOT_EMPTIED is reported by broker.
_LEFT_BY_CODE = {
    FindingCode.BAND: "bands",
    FindingCode.LEADER_BAND: "bands of leaders",
    FindingCode.RACK_SPREAD: "racks",
    FindingCode.NOT_PINNED: "pins",
}
_LEFT = (*_LEFT_BY_CODE, FindingCode.NOT_EMPTIED)
_Left = tuple[str, int, Mapping[str, Any]]  # kind, count, further facts
_REQUESTED_BY = {
    DRAIN: FindingCode.NOT_EMPTIED,
    RACKS: FindingCode.RACK_SPREAD,
    LEADERS: FindingCode.LEADER_BAND,
    DEMOTE: None,
    DIRS: None,
}


def with_only(
    findings: Iterable[Finding],
    cluster_policy: ClusterPolicy,
    brokers: Brokers,
    partitions: Partitions,
    final: Ints,
    *,
    is_excluded: Callable[[str], bool],
    start_at: float = 0.0,
) -> list[Finding]:
    """With ``only``, replace the findings of each excluded kind by one; problems caused by the plan keep theirs.

    Parameters
    ----------
    final : (P, W) int64
        Replicas after the plan.
    start_at : float
        Of the policy: with ``only`` a cluster does not wait.
    """
    if not cluster_policy.only:
        return list(findings)
    kept, left = list[Finding](), Counter[FindingCode]()
    for finding in findings:
        if finding.when == "both" and finding.code in _LEFT and not _is_requested(finding, cluster_policy):
            left[finding.code] += 1
        else:
            kept.append(finding)
    by_code: list[_Left] = [(name, left[code], {}) for code, name in _LEFT_BY_CODE.items() if left[code]]
    undone = [
        *by_code,
        *_on_brokers(cluster_policy, brokers, final),
        *_factors(cluster_policy, is_excluded, partitions),
        *([("start_at", 1, {"start_at": start_at})] if start_at else []),
    ]
    return [*kept, *(_left_by_only(cluster_policy, *args) for args in undone)]


def _left_by_only(cluster_policy: ClusterPolicy, left: str, count: int, facts: Mapping[str, Any]) -> Finding:
    named = {"left": left, "only": cluster_policy.only, **facts}
    return Finding(FindingCode.NOT_ASKED_NOW, "both", cause=Cause.ONLY, amount=count, facts=named)


def _is_requested(finding: Finding, cluster_policy: ClusterPolicy) -> bool:
    if cluster_policy.only == DEMOTE and finding.code == FindingCode.LEADER_BAND:
        return finding.broker_id in cluster_policy.demote_brokers
    return finding.code == _REQUESTED_BY[cluster_policy.only]


def _on_brokers(cluster_policy: ClusterPolicy, brokers: Brokers, final: Ints) -> Iterator[_Left]:
    """Replicas on brokers to empty, and preferred leaders on brokers to demote."""
    leaves = np.isin(brokers.ids, cluster_policy.drain_brokers) | np.array([state == "dead" for state in brokers.state])
    held = np.bincount(final[final >= 0], minlength=len(brokers)) * leaves
    if cluster_policy.only != DRAIN and held.any():
        yield "drain_brokers", int(held.sum()), {"brokers": brokers.ids[held > 0].tolist()}
    led = np.bincount(final[:, 0], minlength=len(brokers)) * np.isin(brokers.ids, cluster_policy.demote_brokers)
    if cluster_policy.only in (DRAIN, RACKS, DIRS) and led.any():
        yield "demote_brokers", int(led.sum()), {"brokers": brokers.ids[led > 0].tolist()}


def _factors(
    cluster_policy: ClusterPolicy, is_excluded: Callable[[str], bool], partitions: Partitions
) -> Iterator[_Left]:
    """Partitions for which the policy requests more or fewer replicas."""
    topics = dict.fromkeys(partitions.topic)
    excluded = {t for t in topics if is_excluded(t)}
    requested = {
        topic: topic_factor.factor
        for topic_factor in cluster_policy.replication_factors
        for topic in topics
        if re.fullmatch(topic_factor.topics, topic)
    }
    now = (partitions.replicas >= 0).sum(axis=1)
    differs = [
        topic not in excluded and requested.get(topic, factor) != factor
        for topic, factor in zip(partitions.topic, now.tolist(), strict=True)
    ]
    if any(differs):
        yield "replication_factors", sum(differs), {}
