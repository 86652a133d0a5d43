"""Which changes have to be left because no order of copies has room for them, and as few as that takes.

Rule: where one change is enough, that one, the least urgent and smallest that does. Else all that find no room, again
and again until the others are in order; then each of them comes back, most urgent first, where it has room after all.
"""

import numpy as np

from optimizer.cluster_policy import NO_LIMIT
from optimizer.domain import Bools, Ints, less_headroom
from optimizer.kafka.size_limits import PARTITIONS_PER_REQUEST
from optimizer.schedule.wave_changes import WaveChanges, bytes_per_broker
from optimizer.schedule.waves import UNPLACED, assign_waves
from optimizer.settings import Schedule

MOST_TRIALS = 200  # of each kind: a trial orders the whole plan anew


def disk_limits(capacity_bytes: Ints, headroom: float) -> Ints:
    """Most bytes on each broker at any time, (B,); ``NO_LIMIT`` where the disk is unknown."""
    return np.minimum(less_headroom(capacity_bytes, headroom), NO_LIMIT).astype(np.int64)


def stuck(changes: WaveChanges, *, disk_used: Ints, disk_limit: Ints, schedule: Schedule) -> Bools:
    """The changes that are left, (N,); parameters as ``waves.assign_waves``."""

    def waiting(kept: Bools) -> Bools:
        found = np.zeros(len(changes), dtype=bool)
        part = changes.select(kept)
        waves = assign_waves(part, disk_used=disk_used, disk_limit=disk_limit, schedule=schedule)
        found[np.flatnonzero(kept)[waves == UNPLACED]] = True
        return found

    kept = np.ones(len(changes), dtype=bool)
    first = kept & False if _is_roomy(changes, disk_used, disk_limit, schedule) else waiting(kept)
    if not first.any():
        return first
    urgent = np.lexsort((changes.endpoint_bytes, -changes.urgency))
    for one in urgent[_may_block(changes, first)[urgent]][:MOST_TRIALS]:
        alone = np.arange(len(changes)) == one
        if not waiting(~alone).any():
            return alone
    while (more := waiting(kept)).any():
        kept &= ~more
    left = urgent[::-1][~kept[urgent[::-1]]]
    for one in left[:MOST_TRIALS]:
        kept[one] = not waiting(kept | (np.arange(len(changes)) == one)).any()
    return ~kept


def _is_roomy(changes: WaveChanges, disk_used: Ints, disk_limit: Ints, schedule: Schedule) -> bool:
    """Whether every order will do: all copies fit beside what is there, and no wave is too small for some of them."""
    peak = disk_used + bytes_per_broker(changes.added, changes.size_bytes, len(disk_used))
    narrow = 2 * int(changes.copies.max(initial=0)) > schedule.max_moves_per_wave and not schedule.waves
    return bool((peak <= disk_limit).all()) and not narrow and len(changes) <= PARTITIONS_PER_REQUEST


def _may_block(changes: WaveChanges, waiting: Bools) -> Bools:
    """Changes that take room where those that wait want it, and these themselves, (N,)."""
    brokers = int(max(changes.added.max(initial=-1), changes.removed.max(initial=-1))) + 1
    wanted = np.append(
        bytes_per_broker(changes.added[waiting], np.ones(int(waiting.sum()), np.int64), brokers) > 0, False
    )
    return waiting | wanted[changes.added].any(axis=1)
