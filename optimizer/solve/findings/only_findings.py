"""What ``policy.only`` leaves as it is though the policy asks for it: a finding each."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator

import numpy as np

from optimizer.domain import Brokers, Cause, FindingCode, Ints, Partitions
from optimizer.solve.findings.finding import Finding
from optimizer.units import clause
from optimizer.wishes import DEMOTE, DRAIN, LEADERS, RACKS, Wishes

REMEDY = "execute the plan and run again without only"
# The wish, then a thing, and what one or several of it do.
_TOLD = {
    FindingCode.BAND: ("bands", "load", "of a broker is outside its band", "of brokers are outside their bands"),
    FindingCode.LEADER_BAND: (
        "bands of leaders",
        "load",
        "of leaders is outside its band",
        "of leaders are outside their bands",
    ),
    FindingCode.RACK_SPREAD: ("racks", "partition", "breaks the rack rule", "break the rack rule"),
    FindingCode.NOT_PINNED: ("pins", "replica", "is outside its pin", "are outside their pin"),
}
_LEFT = (*_TOLD, FindingCode.NOT_EMPTIED)  # the last is told by broker
_MENDED_BY = {
    DRAIN: FindingCode.NOT_EMPTIED,
    RACKS: FindingCode.RACK_SPREAD,
    LEADERS: FindingCode.LEADER_BAND,
    DEMOTE: None,
}


def with_only(
    findings: Iterable[Finding],
    wishes: Wishes,
    brokers: Brokers,
    partitions: Partitions,
    final: Ints,
    *,
    is_excluded: Callable[[str], bool],
) -> list[Finding]:
    """The findings, where ``only`` is asked with what it leaves in one finding each: what the plan itself brings about
    is told as ever.

    Parameters
    ----------
    final : (P, W) int64
        Replicas after the plan.
    """
    if not wishes.only:
        return list(findings)
    kept, left = list[Finding](), Counter[FindingCode]()
    for finding in findings:
        if finding.when == "both" and finding.code in _LEFT and not _is_asked(finding, wishes):
            left[finding.code] += 1
        else:
            kept.append(finding)
    found = ((left[code], name, words) for code, (name, *words) in _TOLD.items() if left[code])
    of_codes = [(name, count, clause(count, *words)) for count, name, words in found]
    undone = [*of_codes, *_on_brokers(wishes, brokers, final), *_factors(wishes, is_excluded, partitions)]
    told = (
        Finding(
            FindingCode.NOT_ASKED_NOW,
            name,
            "both",
            f'{what}: only = "{wishes.only}" leaves that as it is',
            REMEDY,
            cause=Cause.ONLY,
            amount=count,
        )
        for name, count, what in undone
    )
    return [*kept, *told]


def _is_asked(finding: Finding, wishes: Wishes) -> bool:
    if wishes.only == DEMOTE and finding.code == FindingCode.LEADER_BAND:
        return finding.broker_id in wishes.demote_brokers
    return finding.code == _MENDED_BY[wishes.only]


def _on_brokers(wishes: Wishes, brokers: Brokers, final: Ints) -> Iterator[tuple[str, int, str]]:
    """What stays on brokers to empty and on brokers to demote."""
    leaves = np.isin(brokers.ids, wishes.drain_brokers) | np.array([state == "dead" for state in brokers.state])
    held = np.bincount(final[final >= 0], minlength=len(brokers)) * leaves
    if wishes.only != DRAIN and held.any():
        count, named = int(held.sum()), _named(brokers.ids[held > 0])
        yield "drain_brokers", count, f"{clause(count, 'replica', 'is', 'are')} on brokers to empty ({named})"
    led = np.bincount(final[:, 0], minlength=len(brokers)) * np.isin(brokers.ids, wishes.demote_brokers)
    if wishes.only in (DRAIN, RACKS) and led.any():
        count, named = int(led.sum()), _named(brokers.ids[led > 0])
        yield (
            "demote_brokers",
            count,
            f"{clause(count, 'preferred leader', 'is', 'are')} on brokers to demote ({named})",
        )


def _named(ids: Ints) -> str:
    return ", ".join(str(broker) for broker in ids)


def _factors(
    wishes: Wishes, is_excluded: Callable[[str], bool], partitions: Partitions
) -> Iterator[tuple[str, int, str]]:
    """Partitions that are asked to have more or fewer replicas."""
    topics = dict.fromkeys(partitions.topic)
    excluded = {t for t in topics if is_excluded(t)}
    asked = {t: one.factor for one in wishes.replication_factors for t in topics if re.fullmatch(one.topics, t)}
    now = (partitions.replicas >= 0).sum(axis=1)
    other = [
        t not in excluded and asked.get(t, has) != has for t, has in zip(partitions.topic, now.tolist(), strict=True)
    ]
    if any(other):
        what = f"{clause(sum(other), 'partition', 'has', 'have')} another replication factor than asked for"
        yield "replication_factors", sum(other), what
