"""Divide a plan into waves.

Each wave is a valid plan by itself. A partition changes in one wave only, so at the end of a wave it has its old list
or its new list; both meet the rules of replication and racks. No disk passes its limit while old and new copies exist
at the same time.

Urgent changes come first, each in the earliest wave that has room. The others follow, largest first, each in the wave
in which the busier end of its copies stays smallest. The ends are the targets (bytes in) and the *leader* (bytes out),
the source of every copy: a wave lasts as long as its busiest broker. Reorders come in the last wave, when the new
leaders hold their copies.
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
from optimizer.schedule.wave_changes import WaveChanges, bytes_per_broker, compete_for_targets
from optimizer.settings import Schedule

UNPLACED = 0  # in no wave; waves are numbered from 1
_REORDER = REASONS.index(REORDERED)
_BALANCE = REASONS.index("balance")
_MOST_TRIALS = 20  # most changes to try as the last one; each trial schedules the whole plan again
_TRIES = 8  # most numbers of waves to try; fewer are enough in practice


@dataclass
class _Waves:
    """Waves while they are filled.

    Parameters
    ----------
    incoming, outgoing, disk_peak : (B, waves) int64
        Bytes received, bytes sent, and the largest number of bytes on the disk.
    busiest, copies : (waves,) int64
        Bytes at the busiest end of a broker, which decide the wave's duration; replicas copied.
    requests : Requests
        Sizes of the requests, for Kafka's limits.
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

    def endpoint(self, source: int, targets: Ints, copied: Ints) -> Ints:
        """Bytes at the busier end of one partition's copies, if it were added to each wave, (waves,)."""
        into: Ints = (self.incoming[targets] + copied[:, None]).max(axis=0, initial=0)
        if source < 0:
            return into
        return np.maximum(into, self.outgoing[source] + copied.sum())

    def fits_disk(self, targets: Ints, size: int, limit: Ints) -> Bools:
        """Waves in which every target has disk space for the copy, also in all later waves, (waves,)."""
        later = np.maximum.accumulate(self.disk_peak[targets, ::-1], axis=1)[:, ::-1]
        return np.asarray((later + size <= limit[targets, None]).all(axis=0), dtype=np.bool_)

    def add(self, wave: int, source: int, targets: Ints, removed: Ints, *, size: int, copied: Ints, load: int) -> None:
        self.busiest[wave] = max(self.busiest[wave], load)
        self.incoming[targets, wave] += copied
        if source >= 0:
            self.outgoing[source, wave] += copied.sum()
        self.disk_peak[targets, wave:] += size
        self.disk_peak[removed, wave + 1 :] -= size
        self.copies[wave] += len(targets)


@dataclass(frozen=True)
class _Budget:
    """Limits of one wave: bytes at one end of a broker, for urgent changes and for all changes; copies."""

    endpoint_bytes: float
    window_bytes: float
    copies: float


def _fill(
    changes: WaveChanges, order: Ints, disk_used: Ints, disk_limit: Ints, n_waves: int, budget: _Budget
) -> tuple[Ints, Ints]:
    """Assign a wave to every change except reorders; returns waves (0: no room), and the busiest bytes of each wave."""
    waves = _Waves.empty(changes, n_waves, disk_used)
    wave_of = np.zeros(len(changes), dtype=np.int64)
    waiting = order
    while len(waiting):
        before = len(waiting)
        waiting = np.array(
            [i for i in waiting if not _assign_wave(changes, int(i), waves, wave_of, disk_limit, budget)],
            dtype=np.int64,
        )
        if len(waiting) == before:
            break
    return wave_of, waves.busiest


def _assign_wave(changes: WaveChanges, i: int, waves: _Waves, wave_of: Ints, disk_limit: Ints, budget: _Budget) -> bool:
    targets, removed = changes.added[i], changes.removed[i]
    copied, targets, removed = changes.copy_bytes[i][targets >= 0], targets[targets >= 0], removed[removed >= 0]
    size, source = int(changes.size_bytes[i]), int(changes.source[i])
    load = waves.endpoint(source, targets, copied)
    room = (waves.copies + len(targets) <= budget.copies) | (waves.copies == 0)
    room &= waves.requests.has_room(changes, i)
    if len(targets):
        room &= waves.fits_disk(targets, size, disk_limit)
    if not room.any():
        return False
    early = room & (load <= budget.endpoint_bytes)
    urgent = bool(changes.urgency[i] < _BALANCE and early.any())
    wave = int(early.argmax()) if urgent else _shortest(waves, load, room, budget)
    waves.add(wave, source, targets, removed, size=size, copied=copied, load=int(load[wave]))
    waves.requests.add(changes, i, wave)
    wave_of[i] = wave + 1
    return True


def _shortest(waves: _Waves, load: Ints, room: Bools, budget: _Budget) -> int:
    """The wave that becomes least longer; among equals, the one in which these brokers have least to do."""
    inside = room & (load <= budget.window_bytes)
    allowed = inside if inside.any() else room
    added_bytes = np.where(allowed, np.maximum(load - waves.busiest, 0), NO_LIMIT)
    return int(np.where(added_bytes == added_bytes.min(), load, NO_LIMIT).argmin())


def _with_one_last(
    changes: WaveChanges, order: Ints, wave_of: Ints, disk_used: Ints, limit: Ints, n_waves: int, budget: _Budget
) -> Ints:
    """Try to place every change by putting a single one into a wave after all others; else ``wave_of``.

    A change that takes the last space of a disk can stop others that would free it. The least urgent goes last.
    """
    unplaced = np.zeros(len(changes), dtype=bool)
    unplaced[order] = wave_of[order] == 0
    may_block = compete_for_targets(changes, unplaced)
    for last in order[may_block[order]][::-1][:_MOST_TRIALS].tolist():
        others = order[order != last]
        result, _ = _fill(changes, others, disk_used, limit, n_waves, budget)
        if not (result[others] > 0).all():
            continue
        targets = changes.added[last][changes.added[last] >= 0]
        after = disk_used + bytes_per_broker(changes.added[others], changes.size_bytes[others], len(disk_used))
        after -= bytes_per_broker(changes.removed[others], changes.size_bytes[others], len(disk_used))
        if (after[targets] + changes.size_bytes[last] <= limit[targets]).all():
            result[last] = result.max() + 1
            return result
    return wave_of


def renumber(wave_of: Ints) -> Ints:
    """Number the waves from 1 without gaps; 0 stays."""
    used = np.unique(wave_of[wave_of > 0])
    return np.where(wave_of > 0, np.searchsorted(used, wave_of) + 1, UNPLACED)


def append_reorders(changes: WaveChanges, wave_of: Ints, reorders: Ints) -> Ints:
    """Put reorders into the last wave; if its requests are full, into further waves after it."""
    last = max(int(wave_of.max(initial=0)), 1)
    requests = Requests.empty(changes, 1 + least_waves(changes))
    for i in np.flatnonzero(wave_of == last):
        requests.add(changes, int(i), 0)
    result = wave_of.copy()
    for i in reorders:
        wave = int(requests.has_room(changes, int(i)).argmax())
        requests.add(changes, int(i), wave)
        result[i] = last + wave
    return result


def _attempts(changes: WaveChanges, n_brokers: int, schedule: Schedule) -> Iterator[tuple[int, _Budget]]:
    """Numbers of waves to try, with the limits of each wave, until every change fits inside the window.

    With a fixed number of waves, the copies are first spread evenly; if disks don't allow that, without this limit. The
    number is larger if Kafka's limits require more waves.
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
    """Wave of each change, from 1; ``UNPLACED`` if no order has disk space for its old and new copies.

    Parameters
    ----------
    disk_used : (B,) int64
        Bytes on each broker before the plan.
    disk_limit : (B,) int64
        Most bytes on each broker at any time; ``NO_LIMIT`` if unknown. A broker already over its limit may not grow.
    schedule : Schedule
        ``waves`` fixes the number, unless Kafka's limits require more. Else window, throttle and ``max_moves_per_wave``
        decide it.

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
    if not schedule.waves and not (wave_of[order] > 0).all():
        wave_of = _with_one_last(changes, order, wave_of, disk_used, limit, n_waves, budget)
    return append_reorders(changes, renumber(wave_of), np.flatnonzero(changes.urgency == _REORDER))
