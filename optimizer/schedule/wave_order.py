"""Find the changes to leave out because no order of the copies has disk space for them, as few as possible.

If leaving out one change is enough, it is the least urgent and smallest such change. Else all changes that do not fit
are left out, repeatedly, until the others fit. Then each of them is added again, the most urgent first, if it fits.
"""

import numpy as np

from optimizer.cluster_policy import NO_LIMIT
from optimizer.domain import Bools, Ints, less_headroom
from optimizer.kafka.size_limits import PARTITIONS_PER_REQUEST
from optimizer.schedule.wave_changes import WaveChanges, bytes_per_broker, compete_for_targets
from optimizer.schedule.waves import UNPLACED, assign_waves
from optimizer.settings import Schedule

MOST_TRIALS = 200  # of each kind: a trial schedules the whole plan again


def disk_limits(capacity_bytes: Ints, headroom: float) -> Ints:
    """Most bytes on each broker at any time, (B,); ``NO_LIMIT`` if the disk is unknown."""
    return np.minimum(less_headroom(capacity_bytes, headroom), NO_LIMIT).astype(np.int64)


def unschedulable(changes: WaveChanges, *, disk_used: Ints, disk_limit: Ints, schedule: Schedule) -> Bools:
    """The changes to leave out, (N,); for parameters see ``waves.assign_waves``."""

    def unplaced(kept: Bools) -> Bools:
        result = np.zeros(len(changes), dtype=bool)
        part = changes.select(kept)
        waves = assign_waves(part, disk_used=disk_used, disk_limit=disk_limit, schedule=schedule)
        result[np.flatnonzero(kept)[waves == UNPLACED]] = True
        return result

    kept = np.ones(len(changes), dtype=bool)
    first_unplaced = kept & False if _any_order_fits(changes, disk_used, disk_limit, schedule) else unplaced(kept)
    if not first_unplaced.any():
        return first_unplaced
    least_urgent_first = np.lexsort((changes.endpoint_bytes, -changes.urgency))
    for change in least_urgent_first[_may_block(changes, first_unplaced)[least_urgent_first]][:MOST_TRIALS]:
        only_this = np.arange(len(changes)) == change
        if not unplaced(~only_this).any():
            return only_this
    while (still_unplaced := unplaced(kept)).any():
        kept &= ~still_unplaced
    most_urgent_first = least_urgent_first[::-1]
    for change in most_urgent_first[~kept[most_urgent_first]][:MOST_TRIALS]:
        kept[change] = not unplaced(kept | (np.arange(len(changes)) == change)).any()
    return ~kept


def _any_order_fits(changes: WaveChanges, disk_used: Ints, disk_limit: Ints, schedule: Schedule) -> bool:
    """Whether every order fits: disks have space for all copies and old replicas, and no wave is too small."""
    peak = disk_used + bytes_per_broker(changes.added, changes.size_bytes, len(disk_used))
    narrow = 2 * int(changes.copies.max(initial=0)) > schedule.max_moves_per_wave and not schedule.waves
    return bool((peak <= disk_limit).all()) and not narrow and len(changes) <= PARTITIONS_PER_REQUEST


def _may_block(changes: WaveChanges, unplaced: Bools) -> Bools:
    """The unplaced changes, and those that copy to a broker that an unplaced change needs, (N,)."""
    return unplaced | compete_for_targets(changes, unplaced)
