"""Cut a plan into waves.

Each wave is a valid plan by itself: a partition changes in one wave only, so it is either at its old or at its new
list when a wave ends (replication and racks hold in both), and no broker's disk passes its limit while old and new
copies exist side by side.

Rule: most urgent first, each into the earliest wave that has room; then the rest, largest first, each into the wave
where the busier end of its copies (bytes into a target, bytes out of the *leader*, which every copy is read from)
stays smallest: a wave lasts as long as its busiest broker. Reorders go into the last wave: leadership should follow
onto brokers that hold their copies.
"""

import math
from dataclasses import dataclass

import numpy as np

from optimizer.domain import Bools, Ints
from optimizer.schedule.changes import URGENCY, Changes
from optimizer.schedule.estimate import traffic
from optimizer.schedule.throttle_rate import BYTES_PER_MB
from optimizer.settings import Schedule

UNPLACED = 0
NO_LIMIT = 2**62
# A KRaft controller refuses more in one request: QuorumController.MAX_RECORDS_PER_USER_OP, one record a partition.
PARTITIONS_PER_REQUEST = 10_000
_REORDER = URGENCY.index("leader")
_BALANCE = URGENCY.index("balance")
_TRIES = 8


@dataclass
class _Board:
    """Waves being filled: bytes in and out and the highest disk use, each (B, waves); copies per wave."""

    incoming: Ints
    outgoing: Ints
    disk_peak: Ints
    copies: Ints
    partitions: Ints

    @classmethod
    def empty(cls, n_waves: int, disk_used: Ints) -> "_Board":
        shape = (len(disk_used), n_waves)
        return cls(
            incoming=np.zeros(shape, dtype=np.int64),
            outgoing=np.zeros(shape, dtype=np.int64),
            disk_peak=np.repeat(disk_used[:, None], n_waves, axis=1),
            copies=np.zeros(n_waves, dtype=np.int64),
            partitions=np.zeros(n_waves, dtype=np.int64),
        )

    def endpoint(self, source: int, targets: Ints, size: int) -> Ints:
        """Bytes at the busier end of one partition's copies if it joined each wave, (waves,)."""
        into: Ints = self.incoming[targets].max(axis=0, initial=0) + size * bool(len(targets))
        if source < 0:
            return into
        return np.maximum(into, self.outgoing[source] + size * len(targets))

    def fits_disk(self, targets: Ints, size: int, limit: Ints) -> Bools:
        """Waves in which, and after which, every target holds the copy within its limit, (waves,)."""
        later = np.maximum.accumulate(self.disk_peak[targets, ::-1], axis=1)[:, ::-1]
        return np.asarray((later + size <= limit[targets, None]).all(axis=0), dtype=np.bool_)

    def place(self, wave: int, source: int, targets: Ints, removed: Ints, size: int) -> None:
        self.incoming[targets, wave] += size
        if source >= 0:
            self.outgoing[source, wave] += size * len(targets)
        self.disk_peak[targets, wave:] += size
        self.disk_peak[removed, wave + 1 :] -= size
        self.copies[wave] += len(targets)
        self.partitions[wave] += 1


@dataclass(frozen=True)
class _Budget:
    """What one wave may hold: bytes at one broker's end, and copies."""

    endpoint_bytes: float
    copies: float


def _fill(
    changes: Changes, order: Ints, disk_used: Ints, disk_limit: Ints, n_waves: int, budget: _Budget
) -> tuple[Ints, Ints]:
    """Place every change but reorders; returns waves from 1 (0: no room) and the busiest bytes of each wave."""
    board = _Board.empty(n_waves, disk_used)
    wave_of = np.zeros(len(changes), dtype=np.int64)
    waiting = order
    while len(waiting):
        before = len(waiting)
        waiting = np.array(
            [i for i in waiting if not _place(changes, int(i), board, wave_of, disk_limit, budget)], dtype=np.int64
        )
        if len(waiting) == before:
            break
    busiest: Ints = np.maximum(board.incoming, board.outgoing).max(axis=0, initial=0)
    return wave_of, busiest


def _place(changes: Changes, i: int, board: _Board, wave_of: Ints, disk_limit: Ints, budget: _Budget) -> bool:
    targets, removed = changes.added[i], changes.removed[i]
    targets, removed = targets[targets >= 0], removed[removed >= 0]
    size, source = int(changes.size_bytes[i]), int(changes.source[i])
    load = board.endpoint(source, targets, size)
    room = (board.copies + len(targets) <= budget.copies) | (board.copies == 0)
    room &= board.partitions < PARTITIONS_PER_REQUEST
    if len(targets):
        room &= board.fits_disk(targets, size, disk_limit)
    if not room.any():
        return False
    early = room & (load <= budget.endpoint_bytes)
    if changes.urgency[i] < _BALANCE and early.any():
        wave = int(early.argmax())
    else:
        wave = int(np.where(room, load, np.iinfo(np.int64).max).argmin())
    board.place(wave, source, targets, removed, size)
    wave_of[i] = wave + 1
    return True


def _renumber(wave_of: Ints) -> Ints:
    """Waves from 1 without gaps; 0 stays."""
    used = np.unique(wave_of[wave_of > 0])
    return np.where(wave_of > 0, np.searchsorted(used, wave_of) + 1, UNPLACED)


def _append_reorders(wave_of: Ints, reorders: Ints) -> Ints:
    """Put reorders into the last wave, and what one request can't hold into waves behind it."""
    last = max(int(wave_of.max(initial=0)), 1)
    room = PARTITIONS_PER_REQUEST - int((wave_of == last).sum())
    result = wave_of.copy()
    result[reorders] = last + (np.arange(len(reorders)) + PARTITIONS_PER_REQUEST - room) // PARTITIONS_PER_REQUEST
    return result


def assign_waves(changes: Changes, *, disk_used: Ints, disk_limit: Ints, schedule: Schedule) -> Ints:
    """Wave of each change, from 1; ``UNPLACED`` where a disk has no room for both copies in any order.

    Parameters
    ----------
    disk_used : (B,) int64
        Bytes on each broker before the plan.
    disk_limit : (B,) int64
        Most bytes on each broker at any time; ``NO_LIMIT`` where unknown. A broker already over it may not grow.
    schedule : Schedule
        ``waves`` fixes the number; else as many as window, throttle and most moves per wave ask for.

    Returns
    -------
    (N,) int64
    """
    limit = np.maximum(disk_limit, disk_used)
    copying = np.flatnonzero(changes.urgency != _REORDER)
    order = copying[
        np.lexsort((copying, -changes.endpoint_bytes[copying], np.minimum(changes.urgency[copying], _BALANCE)))
    ]
    total = int(traffic(changes, len(disk_used)).busiest.max(initial=0))
    largest = int(changes.endpoint_bytes.max(initial=0))
    window_bytes = schedule.throttle_mb_per_s * BYTES_PER_MB * schedule.window_hours * 3600
    allowed = max(window_bytes, largest)
    most_copies = math.inf if schedule.waves else float(schedule.max_moves_per_wave)
    asked = max(1, math.ceil(total / allowed), math.ceil(changes.copies.sum() / most_copies))
    n_waves = schedule.waves or asked
    wave_of = np.zeros(len(changes), dtype=np.int64)
    for _ in range(_TRIES):
        budget = _Budget(min(allowed, max(total / n_waves, largest)), most_copies)
        wave_of, busiest = _fill(changes, order, disk_used, limit, n_waves, budget)
        if schedule.waves or ((wave_of[order] > 0).all() and busiest.max(initial=0) <= allowed):
            break
        n_waves += max(1, n_waves // 8)
    return _append_reorders(_renumber(wave_of), np.flatnonzero(changes.urgency == _REORDER))
