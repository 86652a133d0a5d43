"""What people are told of topics that crowd on brokers: what the plan mends, and what it leaves."""

from collections.abc import Iterator

import numpy as np

from optimizer.domain import Brokers, Ints, Partitions
from optimizer.settings import NO_LIMIT
from optimizer.solve.proposal import Finding

SHOWN = 10
RULE = "topic_spread"
REMEDY = "free partitions of the topic, let more brokers accept replicas, or raise topic_spread; else run again"


def spread_findings(brokers: Brokers, partitions: Partitions, after: Ints) -> Iterator[Finding]:
    """Brokers with more of a topic than allowed: those that the plan fills over it, each; of the rest the worst."""
    rows = np.flatnonzero(partitions.topic_most_replicas < NO_LIMIT)
    if not len(rows):
        return
    topics, first, topic = np.unique(partitions.topic[rows], return_index=True, return_inverse=True)
    most = partitions.topic_most_replicas[rows][first]
    replicas = np.bincount(topic, (after[rows] >= 0).sum(axis=1)).astype(np.int64)
    had, has = (_counts(brokers, topic, placed[rows]) for placed in (partitions.replicas, after))
    crowded_before, crowded = (_crowded(counts, most) for counts in (had, has))
    mended = len(set(crowded_before) - set(crowded))
    if mended:
        detail = f"{mended} times a broker held more of a topic than is its most; the plan mends them"
        yield Finding(RULE, "mended topics", "before", detail, "execute the plan")
    old = 0
    for t, b in crowded:
        was, now = had.get((t, b), 0), has[t, b]
        old += now <= was
        if now > was or old <= SHOWN:
            what = f"broker {brokers.ids[b]} holds {now} of {replicas[t]} replicas of topic {topics[t]}"
            when = "both" if was > most[t] else "after"
            yield Finding(
                RULE, f"{topics[t]} on broker {brokers.ids[b]}", when, f"{what}, {most[t]} are its most", REMEDY
            )
    if old > SHOWN:
        detail = f"{old - SHOWN} times more a broker holds more of a topic than is its most, by less than those named"
        yield Finding(RULE, "further topics", "both", detail, REMEDY)


def _counts(brokers: Brokers, topic: Ints, replicas: Ints) -> dict[tuple[int, int], int]:
    """Replicas of each topic on each broker that may keep some."""
    row, slot = np.nonzero((replicas >= 0) & ~brokers.must_empty[np.maximum(replicas, 0)])
    pairs, counts = np.unique(topic[row] * len(brokers) + replicas[row, slot], return_counts=True)
    keys = zip(*(part.tolist() for part in np.divmod(pairs, len(brokers))), strict=True)
    return dict(zip(keys, counts.tolist(), strict=True))


def _crowded(counts: dict[tuple[int, int], int], most: Ints) -> list[tuple[int, int]]:
    """Topics and brokers with more than the most, the worst first."""
    over = {pair: count - int(most[pair[0]]) for pair, count in counts.items()}
    return sorted((pair for pair in over if over[pair] > 0), key=lambda pair: (-over[pair], pair))
