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
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from optimizer.cluster_policy import NO_LIMIT
from optimizer.domain import REASONS, REORDERED, Bools, Ints
from optimizer.schedule.estimate import traffic
from optimizer.schedule.requests import Requests, least_waves
from optimizer.schedule.throttle_rate import BYTES_PER_MB
from optimizer.schedule.wave_changes import WaveChanges
from optimizer.settings import Schedule

UNPLACED = 0  # of no wave yet: waves count from 1
_REORDER = REASONS.index(REORDERED)
_BALANCE = REASONS.index("balance")
_TRIES = 8  # times that a wave is filled anew with what was left: a wave is full sooner


@dataclass
class _Waves:
    """Waves being filled.

    Parameters
    ----------
    incoming, outgoing, disk_peak : (B, waves) int64
        Bytes received, bytes sent, most bytes on the disk.
    busiest, copies : (waves,) int64
        Bytes at the busiest broker's end, which set the wave's time; replicas copied.
    requests : Requests
        What Kafka's limits leave room for.
    """

    incoming: Ints
    outgoing: Ints
    disk_peak: Ints
    busiest: Ints
    copies: Ints
    requests: Requests

    @classmethod
    def empty(cls, changes: WaveChanges, n_waves: int, disk_used: Ints) -> "_Waves":
        shape = (len(disk_used), n_waves)
        return cls(
            incoming=np.zeros(shape, dtype=np.int64),
            outgoing=np.zeros(shape, dtype=np.int64),
            disk_peak=np.repeat(disk_used[:, None], n_waves, axis=1),
            busiest=np.zeros(n_waves, dtype=np.int64),
            copies=np.zeros(n_waves, dtype=np.int64),
            requests=Requests.empty(changes, n_waves),
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

    def place(self, wave: int, source: int, targets: Ints, removed: Ints, size: int, load: int) -> None:
        self.busiest[wave] = max(self.busiest[wave], load)
        self.incoming[targets, wave] += size
        if source >= 0:
            self.outgoing[source, wave] += size * len(targets)
        self.disk_peak[targets, wave:] += size
        self.disk_peak[removed, wave + 1 :] -= size
        self.copies[wave] += len(targets)


@dataclass(frozen=True)
class _Budget:
    """What one wave may hold: bytes at one broker's end of what is urgent, and of all; copies."""

    endpoint_bytes: float
    window_bytes: float
    copies: float


def _fill(
    changes: WaveChanges, order: Ints, disk_used: Ints, disk_limit: Ints, n_waves: int, budget: _Budget
) -> tuple[Ints, Ints]:
    """Place every change but reorders; returns waves from 1 (0: no room) and the busiest bytes of each wave."""
    waves = _Waves.empty(changes, n_waves, disk_used)
    wave_of = np.zeros(len(changes), dtype=np.int64)
    waiting = order
    while len(waiting):
        before = len(waiting)
        waiting = np.array(
            [i for i in waiting if not _place(changes, int(i), waves, wave_of, disk_limit, budget)], dtype=np.int64
        )
        if len(waiting) == before:
            break
    return wave_of, waves.busiest


def _place(changes: WaveChanges, i: int, waves: _Waves, wave_of: Ints, disk_limit: Ints, budget: _Budget) -> bool:
    targets, removed = changes.added[i], changes.removed[i]
    targets, removed = targets[targets >= 0], removed[removed >= 0]
    size, source = int(changes.size_bytes[i]), int(changes.source[i])
    load = waves.endpoint(source, targets, size)
    room = (waves.copies + len(targets) <= budget.copies) | (waves.copies == 0)
    room &= waves.requests.room(changes, i)
    if len(targets):
        room &= waves.fits_disk(targets, size, disk_limit)
    if not room.any():
        return False
    early = room & (load <= budget.endpoint_bytes)
    urgent = bool(changes.urgency[i] < _BALANCE and early.any())
    wave = int(early.argmax()) if urgent else _shortest(waves, load, room, budget)
    waves.place(wave, source, targets, removed, size, int(load[wave]))
    waves.requests.place(changes, i, wave)
    wave_of[i] = wave + 1
    return True


def _shortest(waves: _Waves, load: Ints, room: Bools, budget: _Budget) -> int:
    """The wave that gets least longer; among equals the one where these brokers have least to do."""
    inside = room & (load <= budget.window_bytes)
    allowed = inside if inside.any() else room
    longer = np.where(allowed, np.maximum(load - waves.busiest, 0), NO_LIMIT)
    return int(np.where(longer == longer.min(), load, NO_LIMIT).argmin())


def _renumber(wave_of: Ints) -> Ints:
    """Waves from 1 without gaps; 0 stays."""
    used = np.unique(wave_of[wave_of > 0])
    return np.where(wave_of > 0, np.searchsorted(used, wave_of) + 1, UNPLACED)


def _append_reorders(changes: WaveChanges, wave_of: Ints, reorders: Ints) -> Ints:
    """Put reorders into the last wave, and what its requests can't hold into waves behind it."""
    last = max(int(wave_of.max(initial=0)), 1)
    requests = Requests.empty(changes, 1 + least_waves(changes))
    for i in np.flatnonzero(wave_of == last):
        requests.place(changes, int(i), 0)
    result = wave_of.copy()
    for i in reorders:
        wave = int(requests.room(changes, int(i)).argmax())
        requests.place(changes, int(i), wave)
        result[i] = last + wave
    return result


def _attempts(changes: WaveChanges, n_brokers: int, schedule: Schedule) -> Iterator[tuple[int, _Budget]]:
    """Numbers of waves to try, with what each wave may hold, until everything has a place inside the window.

    A fixed number first spreads the copies evenly; where disks don't allow that, as they do. It is a larger one where
    Kafka's limits ask for more waves.
    """
    least = least_waves(changes)
    total = int(traffic(changes, n_brokers).busiest.max(initial=0))
    largest, copies = int(changes.endpoint_bytes.max(initial=0)), int(changes.copies.sum())
    window = max(schedule.throttle_mb_per_s * BYTES_PER_MB * schedule.window_hours * 3600, largest)
    if schedule.waves:
        n_waves = max(schedule.waves, least)
        even = math.ceil(copies / n_waves) + int(changes.copies.max(initial=1)) - 1
        for most in (even, math.inf):
            yield n_waves, _Budget(max(total / n_waves, largest), window, most)
        return
    n_waves = max(least, math.ceil(total / window), math.ceil(copies / schedule.max_moves_per_wave))
    for _ in range(_TRIES):
        yield n_waves, _Budget(min(window, max(total / n_waves, largest)), window, schedule.max_moves_per_wave)
        n_waves += max(1, n_waves // 8)


def assign_waves(changes: WaveChanges, *, disk_used: Ints, disk_limit: Ints, schedule: Schedule) -> Ints:
    """Wave of each change, from 1; ``UNPLACED`` where a disk has no room for both copies in any order.

    Parameters
    ----------
    disk_used : (B,) int64
        Bytes on each broker before the plan.
    disk_limit : (B,) int64
        Most bytes on each broker at any time; ``NO_LIMIT`` where unknown. A broker already over it may not grow.
    schedule : Schedule
        ``waves`` fixes the number, but for Kafka's limits; else as many as window, throttle and most moves per wave ask
        for.

    Returns
    -------
    (N,) int64
    """
    limit = np.maximum(disk_limit, disk_used)
    copying = np.flatnonzero(changes.urgency != _REORDER)
    order = copying[
        np.lexsort((copying, -changes.endpoint_bytes[copying], np.minimum(changes.urgency[copying], _BALANCE)))
    ]
    wave_of = np.zeros(len(changes), dtype=np.int64)
    for n_waves, budget in _attempts(changes.select(changes.urgency != _REORDER), len(disk_used), schedule):
        wave_of, busiest = _fill(changes, order, disk_used, limit, n_waves, budget)
        if (wave_of[order] > 0).all() and (schedule.waves or busiest.max(initial=0) <= budget.window_bytes):
            break
    return _append_reorders(changes, _renumber(wave_of), np.flatnonzero(changes.urgency == _REORDER))
