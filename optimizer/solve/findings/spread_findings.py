"""Findings of brokers with too many replicas or leaders of a topic: cases that the plan fixes, cases that remain."""

from collections.abc import Iterator

import numpy as np

from optimizer.cluster_policy import NO_LIMIT
from optimizer.domain import Brokers, FindingCode, Ints, Partitions
from optimizer.solve.findings.finding import SHOWN, Finding

_RESOURCES = {FindingCode.TOPIC_SPREAD: "replicas", FindingCode.TOPIC_LEADER_SPREAD: "leaders"}


def spread_findings(brokers: Brokers, partitions: Partitions, after: Ints, *, waits: bool = False) -> Iterator[Finding]:
    """Brokers with more replicas of a topic than allowed, and with more leaders than allowed; ``after`` is (P, W).

    If the cluster waits, it has no findings of replicas, and of leaders only if the plan changes a leader.
    """
    leaders = after[:, :1]
    if not waits:
        yield from _findings(FindingCode.TOPIC_SPREAD, brokers, partitions, partitions.topic_most_replicas, after)
    if not waits or (leaders != partitions.replicas[:, :1]).any():
        most = partitions.topic_most_leaders
        yield from _findings(FindingCode.TOPIC_LEADER_SPREAD, brokers, partitions, most, leaders)


def _findings(
    code: FindingCode, brokers: Brokers, partitions: Partitions, topic_most: Ints, after: Ints
) -> Iterator[Finding]:
    """Brokers with more of a topic than allowed: all that the plan brings over it, and the worst of the others."""
    rows, resource = np.flatnonzero(topic_most < NO_LIMIT), _RESOURCES[code]
    if not len(rows):
        return
    topics, first, topic = np.unique(partitions.topic[rows], return_index=True, return_inverse=True)
    most = topic_most[rows][first]
    total = np.bincount(topic, (after[rows] >= 0).sum(axis=1)).astype(np.int64)
    placed_before = partitions.replicas[:, : after.shape[1]]
    had, has = (_counts(brokers, topic, placed[rows]) for placed in (placed_before, after))
    crowded_before, crowded = (_crowded(counts, most) for counts in (had, has))
    fixed = len(set(crowded_before) - set(crowded))
    if fixed:
        yield Finding(code, "before", resource=resource, amount=fixed)
    old = 0
    for t, b in crowded:
        was, now = had.get((t, b), 0), has[t, b]
        old += now <= was
        if now > was or old <= SHOWN:
            yield Finding(
                code,
                "both" if was > most[t] else "after",
                topic=str(topics[t]),
                broker_id=int(brokers.ids[b]),
                resource=resource,
                amount=now,
                limit=int(most[t]),
                facts={"total": int(total[t])},
            )
    if old > SHOWN:
        yield Finding(code, "both", resource=resource, amount=old - SHOWN)


def _counts(brokers: Brokers, topic: Ints, replicas: Ints) -> dict[tuple[int, int], int]:
    """Replicas of each topic on each broker that may keep some."""
    row, slot = np.nonzero((replicas >= 0) & ~brokers.must_empty[np.maximum(replicas, 0)])
    pairs, counts = np.unique(topic[row] * len(brokers) + replicas[row, slot], return_counts=True)
    keys = zip(*(part.tolist() for part in np.divmod(pairs, len(brokers))), strict=True)
    return dict(zip(keys, counts.tolist(), strict=True))


def _crowded(counts: dict[tuple[int, int], int], most: Ints) -> list[tuple[int, int]]:
    """(topic, broker) pairs above the limit, the worst first."""
    over = {pair: count - int(most[pair[0]]) for pair, count in counts.items()}
    return sorted((pair for pair in over if over[pair] > 0), key=lambda pair: (-over[pair], pair))
