"""What ``policy.only`` leaves as it is though the policy asks for it: a finding each."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from optimizer.cluster_policy import DEMOTE, DRAIN, LEADERS, RACKS, ClusterPolicy
from optimizer.domain import Brokers, Cause, FindingCode, Ints, Partitions
from optimizer.solve.findings.finding import Finding

# What is left, by the code of its findings; NOT_EMPTIED is reported by broker.
_LEFT_BY_CODE = {
    FindingCode.BAND: "bands",
    FindingCode.LEADER_BAND: "bands of leaders",
    FindingCode.RACK_SPREAD: "racks",
    FindingCode.NOT_PINNED: "pins",
}
_LEFT = (*_LEFT_BY_CODE, FindingCode.NOT_EMPTIED)
_Left = tuple[str, int, Mapping[str, Any]]  # what is left, how many of it, more facts
_MENDED_BY = {
    DRAIN: FindingCode.NOT_EMPTIED,
    RACKS: FindingCode.RACK_SPREAD,
    LEADERS: FindingCode.LEADER_BAND,
    DEMOTE: None,
}


def with_only(
    findings: Iterable[Finding],
    cluster_policy: ClusterPolicy,
    brokers: Brokers,
    partitions: Partitions,
    final: Ints,
    *,
    is_excluded: Callable[[str], bool],
) -> list[Finding]:
    """The findings; with ``only``, one finding stands for all of a kind that it leaves. What the plan itself causes
    keeps its findings.

    Parameters
    ----------
    final : (P, W) int64
        Replicas after the plan.
    """
    if not cluster_policy.only:
        return list(findings)
    kept, left = list[Finding](), Counter[FindingCode]()
    for finding in findings:
        if finding.when == "both" and finding.code in _LEFT and not _is_asked(finding, cluster_policy):
            left[finding.code] += 1
        else:
            kept.append(finding)
    of_codes: list[_Left] = [(name, left[code], {}) for code, name in _LEFT_BY_CODE.items() if left[code]]
    undone = [
        *of_codes,
        *_on_brokers(cluster_policy, brokers, final),
        *_factors(cluster_policy, is_excluded, partitions),
    ]
    return [*kept, *(_left_by_only(cluster_policy, *args) for args in undone)]


def _left_by_only(cluster_policy: ClusterPolicy, left: str, count: int, facts: Mapping[str, Any]) -> Finding:
    named = {"left": left, "only": cluster_policy.only, **facts}
    return Finding(FindingCode.NOT_ASKED_NOW, "both", cause=Cause.ONLY, amount=count, facts=named)


def _is_asked(finding: Finding, cluster_policy: ClusterPolicy) -> bool:
    if cluster_policy.only == DEMOTE and finding.code == FindingCode.LEADER_BAND:
        return finding.broker_id in cluster_policy.demote_brokers
    return finding.code == _MENDED_BY[cluster_policy.only]


def _on_brokers(cluster_policy: ClusterPolicy, brokers: Brokers, final: Ints) -> Iterator[_Left]:
    """What stays on brokers to empty and on brokers to demote."""
    leaves = np.isin(brokers.ids, cluster_policy.drain_brokers) | np.array([state == "dead" for state in brokers.state])
    held = np.bincount(final[final >= 0], minlength=len(brokers)) * leaves
    if cluster_policy.only != DRAIN and held.any():
        yield "drain_brokers", int(held.sum()), {"brokers": brokers.ids[held > 0].tolist()}
    led = np.bincount(final[:, 0], minlength=len(brokers)) * np.isin(brokers.ids, cluster_policy.demote_brokers)
    if cluster_policy.only in (DRAIN, RACKS) and led.any():
        yield "demote_brokers", int(led.sum()), {"brokers": brokers.ids[led > 0].tolist()}


def _factors(
    cluster_policy: ClusterPolicy, is_excluded: Callable[[str], bool], partitions: Partitions
) -> Iterator[_Left]:
    """Partitions for which the policy requests more or fewer replicas."""
    topics = dict.fromkeys(partitions.topic)
    excluded = {t for t in topics if is_excluded(t)}
    asked = {t: one.factor for one in cluster_policy.replication_factors for t in topics if re.fullmatch(one.topics, t)}
    now = (partitions.replicas >= 0).sum(axis=1)
    other = [
        t not in excluded and asked.get(t, has) != has for t, has in zip(partitions.topic, now.tolist(), strict=True)
    ]
    if any(other):
        yield "replication_factors", sum(other), {}
