"""Shorten waves by moving single changes between them."""

import numpy as np

from optimizer.domain import Bools, Ints
from optimizer.schedule.wave_state import NOWHERE, FilledWaves

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
