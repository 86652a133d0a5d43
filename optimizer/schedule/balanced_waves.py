"""Shorten the waves of a plan: the same changes in as many waves, in less time.

``assign_waves`` decides which changes find a wave; ``solve`` asks it hundreds of times, so it is quick. The plan stage
starts from its waves, and from waves of its own (``_spread``). Each start is improved: a change leaves the busiest end
of a wave for the wave that makes the sum of the lengths smallest. The best result counts, in this order: fewer changes
without a wave; as many waves with a change as requested; no wave longer than ``LONGEST`` times the least that the
longest can be; the smaller sum of lengths.

Always kept: disks hold old and new copies at once, Kafka's limits of requests, ``max_moves_per_wave`` and the window if
the number of waves is automatic, reorders last. An urgent change is in no later wave than ``assign_waves`` has it, or
than the bytes of its class need.
"""

import math
from collections.abc import Iterator

import numpy as np

from optimizer.domain import REASONS, REORDERED, Bools, Floats, Ints
from optimizer.schedule.throttle_rate import BYTES_PER_MB
from optimizer.schedule.wave_bound import Ends, ends_of, least_total_bytes
from optimizer.schedule.wave_changes import WaveChanges
from optimizer.schedule.wave_state import NOWHERE, FilledWaves, WaveLimits
from optimizer.schedule.waves import UNPLACED, append_reorders, assign_waves, renumber
from optimizer.settings import Schedule

_MOST_CANDIDATES = 64  # changes to compare for one move
# Waves to compare with the one that a change leaves, over all moves: a limit of CPU time. A comparison with 50 waves
# takes about 0.2 ms. 40,000 changes on 1,000 brokers needed less than half.
_MOST_COMPARED = 2_000_000


def improve(waves: FilledWaves) -> None:
    """Give each empty wave a change, then move changes while that is better, from the longest wave first.

    A wave from which no move is better is left until another move changes it. When all are left, each is tried again.
    """
    _fill_empty(waves)
    is_done, has_changed = np.zeros(len(waves.length), dtype=bool), False
    for _ in range(_MOST_COMPARED // len(waves.length)):
        if is_done.all():
            if not has_changed:
                return
            is_done[:], has_changed = False, False
        wave = int(np.where(is_done, -1, waves.length).argmax())
        other = _move(waves, wave)
        is_done[wave] = other < 0
        if other >= 0:
            is_done[other], has_changed = False, True


def _fill_empty(waves: FilledWaves) -> None:
    """Move the smallest possible change into each wave that has none, from a wave that keeps another."""
    smallest_first = np.argsort(waves.limits.ends.length_bytes, kind="stable")
    for wave in np.flatnonzero(waves.changes == 0).tolist():
        placed = smallest_first[waves.wave_of[smallest_first] != NOWHERE]
        shared = waves.changes[waves.wave_of[placed]] > 1
        for i in placed[shared & (waves.limits.latest[placed] >= wave)].tolist():
            if waves.has_disk_after_move(np.array([i]), int(waves.wave_of[i]))[wave, 0]:
                waves.move(i, wave)
                break


def _candidates(waves: FilledWaves, wave: int) -> Ints:
    """Changes with a part in the busiest end of a wave; if there are many, some of every size."""
    members = waves.limits.ends.rows_at(int(waves.loads[wave].argmax()))
    members = members[waves.wave_of[members] == wave]
    if len(members) <= _MOST_CANDIDATES:
        return members
    return members[np.linspace(0, len(members) - 1, _MOST_CANDIDATES).astype(np.int64)]


def _move(waves: FilledWaves, wave: int) -> int:
    """Move the change that makes the sum of the lengths smallest; returns its new wave, or -1 if no move is better.

    A wave that is too long gets shorter even if the sum grows. If several ends are the busiest, a change leaves one of
    them even if the sum stays: then fewer ends are as busy as their wave is long, so this comes to an end.
    """
    limits, rows = waves.limits, _candidates(waves, wave)
    if waves.changes[wave] < 2 or not waves.length[wave]:
        return -1
    shorter = waves.length_without(rows, wave) - waves.length[wave]
    loads = waves.loads_with(rows)
    growth = np.maximum(loads - waves.length[:, None], 0) + shorter
    fewer_busiest = (growth == 0) & (loads < waves.length[:, None])
    is_long = waves.length[wave] > limits.most_bytes
    better = (growth < 0) | fewer_busiest | (is_long & (shorter < 0) & (loads <= limits.most_bytes))
    allowed: Bools = better & (loads <= np.maximum(waves.length, limits.most_bytes)[:, None])
    allowed[wave] = False
    allowed &= waves.may_join(rows)
    if not allowed.any():
        return -1
    allowed &= waves.has_disk_after_move(rows, wave)
    worst = np.iinfo(np.int64).max
    growth = np.where(allowed, growth, worst)
    while growth.min() < worst:
        new_wave, row = divmod(int(growth.argmin()), len(rows))
        if waves.requests.has_room(limits.changes, int(rows[row]))[new_wave]:
            waves.move(int(rows[row]), new_wave)
            return new_wave
        growth[new_wave, row] = worst
    return -1


LONGEST = 1.3  # longest wave, in shares of the least that it can be: the reserve of a night
_NEAR_BOUND = 1.005  # sum of lengths over its bound; estimates of times are less exact
_NORM = 8  # of the loads of all ends: near the maximum, but it sees the ends below it, too
_BALANCE = REASONS.index("balance")
_REORDER = REASONS.index(REORDERED)


def balanced_waves(changes: WaveChanges, *, disk_used: Ints, disk_limit: Ints, schedule: Schedule) -> Ints:
    """Wave of each change, from 1; ``UNPLACED`` if none has room for it. For parameters see ``waves.assign_waves``.

    Returns
    -------
    (N,) int64
        No worse than ``assign_waves`` by the order of this module.
    """
    assigned = assign_waves(changes, disk_used=disk_used, disk_limit=disk_limit, schedule=schedule)
    copying = changes.urgency != _REORDER
    if not copying.any():
        return assigned
    limits = _limits(changes.select(copying), assigned[copying], disk_used, disk_limit, schedule)
    best = min(_results(limits, assigned[copying]), key=lambda waves: waves.rank)
    wave_of = np.full(len(changes), UNPLACED, dtype=np.int64)
    wave_of[copying] = renumber(best.wave_of - NOWHERE)
    return append_reorders(changes, wave_of, np.flatnonzero(~copying))


def _results(limits: WaveLimits, assigned: Ints) -> Iterator[FilledWaves]:
    """The assigned waves, then each start improved, until one is near the bound."""
    yield _as_assigned(limits, assigned)
    near = _NEAR_BOUND * least_total_bytes(limits.changes, len(limits.disk_used), limits.n_waves)
    for waves in _starts(limits, assigned):
        improve(waves)
        yield waves
        if waves.rank <= (0, 0, 0.0, near):
            return


def _starts(limits: WaveLimits, assigned: Ints) -> Iterator[FilledWaves]:
    """The assigned waves, and those of ``_spread`` if they have every change."""
    yield _as_assigned(limits, assigned)
    for target_bytes in _target_lengths(limits):
        waves = _spread(limits, target_bytes)
        if (waves.wave_of != NOWHERE).all():
            yield waves


def _limits(changes: WaveChanges, assigned: Ints, disk_used: Ints, disk_limit: Ints, schedule: Schedule) -> WaveLimits:
    n_waves = max(int(assigned.max()), min(schedule.waves, len(changes)), 1)
    ends = ends_of(changes, len(disk_used))
    largest = int(ends.length_bytes.max())
    window = math.inf if schedule.waves else schedule.throttle_mb_per_s * BYTES_PER_MB * schedule.window_hours * 3600
    return WaveLimits(
        changes=changes,
        ends=ends,
        n_waves=n_waves,
        latest=_latest(changes, ends, assigned, n_waves),
        disk_used=disk_used,
        disk_limit=np.maximum(disk_limit, disk_used),
        most_bytes=min(LONGEST * max(ends.busiest_bytes / n_waves, largest), max(window, largest)),
        most_copies=math.inf if schedule.waves else schedule.max_moves_per_wave,
    )


def _latest(changes: WaveChanges, ends: Ends, assigned: Ints, n_waves: int) -> Ints:
    """Latest wave of each change, from 0: any, or for an urgent change its own or the last that its class needs.

    A class needs the share of the waves that its bytes and those of more urgent classes have of the busiest end's.
    """
    latest = np.full(len(changes), n_waves - 1, dtype=np.int64)
    total = ends.busiest_bytes
    for urgency in np.unique(changes.urgency[changes.urgency < _BALANCE]).tolist():
        busiest = int(ends.loads(changes.urgency <= urgency).max())
        needed = -(-busiest * n_waves // total) if total else 0
        latest[changes.urgency == urgency] = max(needed, 1) - 1
    return np.where(assigned == UNPLACED, n_waves - 1, np.maximum(latest, assigned - 1))


def _as_assigned(limits: WaveLimits, assigned: Ints) -> FilledWaves:
    waves = FilledWaves(limits)
    for i in np.flatnonzero(assigned != UNPLACED).tolist():
        waves.put(i, int(assigned[i]) - 1)
    return waves


def _spread(limits: WaveLimits, target_bytes: Floats) -> FilledWaves:
    """Put urgent changes first, then the largest, each where the norm of the loads of all ends grows least.

    A change waits while the disks have no space for it, as long as others find waves meanwhile. Loads count in shares
    of ``target_bytes``, (waves, 1).
    """
    changes, waves = limits.changes, FilledWaves(limits)
    order = np.lexsort((-limits.ends.length_bytes, np.minimum(changes.urgency, _BALANCE)))
    waiting = order.tolist()
    while waiting:
        rest = [i for i in waiting if not _put_by_norm(waves, i, target_bytes)]
        if len(rest) == len(waiting):
            break
        waiting = rest
    return waves


def _target_lengths(limits: WaveLimits) -> Iterator[Floats]:
    """Lengths to aim at, (waves, 1): equal ones; and if a change is larger, the first as long as that."""
    total, largest = limits.ends.busiest_bytes, float(limits.ends.length_bytes.max())
    equal = total / limits.n_waves
    yield np.full((limits.n_waves, 1), max(equal, 1.0))
    if largest > equal:
        others = (total - largest) / (limits.n_waves - 1)  # a single wave is as long as the total, never shorter
        yield np.maximum([[largest], *[[others]] * (limits.n_waves - 1)], 1.0)


def _put_by_norm(waves: FilledWaves, i: int, target_bytes: Floats) -> bool:
    """Put a change into its best wave; False if none has room."""
    limits, row = waves.limits, np.array([i])
    room = waves.may_join(row)[:, 0] & waves.has_disk(i) & waves.requests.has_room(limits.changes, i)
    if not room.any():
        return False
    loads = waves.loads[:, limits.ends.column[i]]
    grown = loads + limits.ends.size_bytes[i]
    short = room & (grown.max(axis=1) <= limits.most_bytes)
    norm = (((grown / target_bytes) ** _NORM - (loads / target_bytes) ** _NORM) * target_bytes).sum(axis=1)
    waves.put(i, int(np.where(short if short.any() else room, norm, np.inf).argmin()))
    return True
