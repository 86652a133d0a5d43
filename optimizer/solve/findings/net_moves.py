"""Turn chosen replica sets into ordered lists, and into net moves with their reasons."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from optimizer.domain import URGENCY, Brokers, Ints, Partitions
from optimizer.solve.rules.urgency import BALANCE, RACK, REPLICATION, urgency


@dataclass(frozen=True)
class NetMove:
    """One replica that moves, is added or is removed: row of the partition, broker indices, and reason.

    Parameters
    ----------
    from_broker, to_broker : int
        ``from_broker`` is -1 for an added replica, ``to_broker`` is -1 for a removed one (nothing is copied).
    """

    row: int
    from_broker: int
    to_broker: int
    reason: str


def settle(original: Ints, chosen: Ints) -> Ints:
    """Chosen replica sets in the order of the original lists, (P, W).

    Replicas that stay keep their position, and new ones fill the gaps in order. Further new replicas follow at the end;
    gaps without a new replica close.
    """
    settled = original.copy()
    changed = np.flatnonzero((np.sort(original, axis=1) != np.sort(chosen, axis=1)).any(axis=1))
    for row in changed:
        before, after = (held[held >= 0].tolist() for held in (original[row], chosen[row]))
        arriving = [b for b in after if b not in before]
        gaps = iter(arriving)
        filled = [b if b in after else next(gaps, -1) for b in before]
        ordered = [b for b in [*filled, *gaps] if b >= 0]
        settled[row] = ordered + [-1] * (original.shape[1] - len(ordered))
    return settled


def reasons(brokers: Brokers, partitions: Partitions, settled: Ints) -> Iterator[NetMove]:
    """Net moves of settled lists, by row: each new replica, in the order of the new list, replaces one that leaves.

    If more replicas leave than arrive, those that had to leave anyway are the ones removed. A replica that arrives in a
    rack with too few has reason ``rack``.
    """
    urgencies, rack = urgency(brokers, partitions), brokers.rack

    def why(p: int, source: int, target: int, level: int) -> str:
        repairs_rack = urgencies.is_short[p, rack[target]] and (source < 0 or rack[source] != rack[target])
        return URGENCY[min(level, RACK) if repairs_rack else level]

    for p in np.flatnonzero((settled != partitions.replicas).any(axis=1)).tolist():
        before, after = partitions.replicas[p].tolist(), settled[p].tolist()
        leaving = [(int(urgencies.leaving[p, j]), b) for j, b in enumerate(before) if b >= 0 and b not in after]
        coming = [b for b in after if b >= 0 and b not in before]
        fewer = max(len(leaving) - len(coming), 0)
        removed = sorted(leaving, key=lambda item: item[0] == BALANCE)[:fewer]
        yield from (NetMove(p, source, -1, URGENCY[REPLICATION]) for _, source in removed)
        replaced = [item for item in leaving if item not in removed]
        replaced += [(REPLICATION, -1)] * (len(coming) - len(replaced))
        for target, (level, source) in zip(coming, replaced, strict=True):
            yield NetMove(p, source, target, why(p, source, target, level))
