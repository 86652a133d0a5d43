"""What people are told of topics that crowd on brokers, with replicas or leaders: what the plan mends, and leaves."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from optimizer.domain import Brokers, FindingCode, Ints, Partitions
from optimizer.solve.findings.finding import SHOWN, Finding
from optimizer.units import agree, plural
from optimizer.wishes import NO_LIMIT


@dataclass(frozen=True)
class _Spread:
    """The spread of topics or of leaders, and the words of its findings."""

    code: FindingCode
    things: str
    remedy: str


REPLICAS = _Spread(
    FindingCode.TOPIC_SPREAD,
    "replicas",
    "let partitions of the topic move, let more brokers accept replicas, or raise topic_spread; else run again",
)
LEADERS = _Spread(
    FindingCode.TOPIC_LEADER_SPREAD,
    "leaders",
    "spread the topic's replicas with topic_spread, let more brokers lead, or raise topic_leader_spread",
)


def spread_findings(brokers: Brokers, partitions: Partitions, after: Ints) -> Iterator[Finding]:
    """Brokers with more replicas of a topic than allowed, and brokers that lead more of it; ``after`` is (P, W)."""
    yield from _findings(REPLICAS, brokers, partitions, partitions.topic_most_replicas, after)
    yield from _findings(LEADERS, brokers, partitions, partitions.topic_most_leaders, after[:, :1])


def _findings(
    spread: _Spread, brokers: Brokers, partitions: Partitions, topic_most: Ints, after: Ints
) -> Iterator[Finding]:
    """Brokers with more of a topic than allowed: those that the plan fills over it, each; of the rest the worst."""
    rows = np.flatnonzero(topic_most < NO_LIMIT)
    if not len(rows):
        return
    topics, first, topic = np.unique(partitions.topic[rows], return_index=True, return_inverse=True)
    most = topic_most[rows][first]
    total = np.bincount(topic, (after[rows] >= 0).sum(axis=1)).astype(np.int64)
    placed_before = partitions.replicas[:, : after.shape[1]]
    had, has = (_counts(brokers, topic, placed[rows]) for placed in (placed_before, after))
    crowded_before, crowded = (_crowded(counts, most) for counts in (had, has))
    mended = len(set(crowded_before) - set(crowded))
    if mended:
        detail = f"in {plural(mended, 'case')} a broker had too many {spread.things} of a topic; the plan mends that"
        yield Finding(
            spread.code, "mended topics", "before", detail, "execute the plan", resource=spread.things, amount=mended
        )
    old = 0
    for t, b in crowded:
        was, now = had.get((t, b), 0), has[t, b]
        old += now <= was
        if now > was or old <= SHOWN:
            subject, when = f"{topics[t]} on broker {brokers.ids[b]}", "both" if was > most[t] else "after"
            what = f"broker {brokers.ids[b]} has {now} of the {total[t]} {spread.things} of topic {topics[t]}"
            yield Finding(
                spread.code,
                subject,
                when,
                f"{what}; at most {most[t]} {agree(most[t], 'is', 'are')} allowed",
                spread.remedy,
                topic=str(topics[t]),
                broker_id=int(brokers.ids[b]),
                resource=spread.things,
                amount=now,
                limit=int(most[t]),
            )
    if old > SHOWN:
        cases = f"in {plural(old - SHOWN, 'more case')} a broker has too many {spread.things} of a topic"
        detail = f"{cases}, by fewer than in the cases named"
        yield Finding(
            spread.code, "further topics", "both", detail, spread.remedy, resource=spread.things, amount=old - SHOWN
        )


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
