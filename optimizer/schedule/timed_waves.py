"""Waves with the rate of their copies, and with their places in the windows of the schedule.

Without windows, the waves are as long as ``window_hours`` allows at the rate that the network has room for. With
windows, waves are cut for the window that copies least, so that each fits into any of them. The end of the interval of
its time, not the expected time, should be inside. The cut counts bytes over rate, so if a wave of the first cut may
take longer, all are cut once more, shorter by the largest ratio of both times. Then each wave gets a place: behind the
one before in the same night, or at the start of the next night that is long enough.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial

import numpy as np

from optimizer.domain import Ints
from optimizer.schedule.balanced_waves import balanced_waves
from optimizer.schedule.estimate import traffic
from optimizer.schedule.network_room import NetworkRoom, rates_with_room
from optimizer.schedule.sharing import copies_of, copy_rates
from optimizer.schedule.simulate import WaveTime, wave_time
from optimizer.schedule.throttle_rate import (
    BYTES_PER_KB,
    BYTES_PER_MB,
    copy_rate_bytes_per_s,
    rates_in_style,
    rates_of_windows,
)
from optimizer.schedule.wave_changes import WaveChanges, bytes_per_broker
from optimizer.schedule.waves import UNPLACED
from optimizer.schedule.windows import Slot, coming_nights, least_capacity, place_waves
from optimizer.settings import Schedule
from optimizer.windows_setting import LEAST_MB_PER_S

_LEAST_HOURS = 0.01  # of a window: the least that ``Schedule`` takes


@dataclass(frozen=True)
class TimedWaves:
    """The waves of a plan.

    Parameters
    ----------
    wave_of : (N,) int64
        From 1; ``UNPLACED`` without one.
    rates, requested : mapping
        Bytes per second of each wave's copies, per broker and direction: as planned, and as the settings request.
    slots : mapping
        The place of each wave; empty without windows.
    """

    wave_of: Ints
    rates: Mapping[int, int]
    requested: Mapping[int, int]
    slots: Mapping[int, Slot]


def seconds_of(part: WaveChanges, n_brokers: int, copy_bytes_per_s: int, *, style: str, batch_kb: float) -> WaveTime:
    """The time of one wave at a rate of its copies.

    Parameters
    ----------
    style : str
        Of the throttles: careful or kafka.
    batch_kb : float
        Size of the producers' batches.
    """
    load = traffic(part, n_brokers)
    rates = rates_in_style(load, copy_bytes_per_s, style)
    free = copy_rates(load, leader_rate=rates.leader, follower_rate=rates.follower)
    return wave_time(copies_of(part), free, batch_bytes=round(batch_kb * BYTES_PER_KB))


@dataclass(frozen=True)
class Cuts:
    """How the changes of one cluster may be cut into waves.

    Parameters
    ----------
    changes : WaveChanges
    disk_used, disk_limit : (B,) int64
        As for ``balanced_waves``.
    schedule : Schedule
    style : str
        Of the throttles: careful or kafka.
    round_of : (N,) int64, optional
        Changes of a round come in waves after those of the round before (``directory_plan.Rounds``).
    """

    changes: WaveChanges
    disk_used: Ints
    disk_limit: Ints
    schedule: Schedule
    style: str
    round_of: Ints | None = None

    def most_seconds(self, wave_of: Ints, wave: int, rate: int) -> float:
        """The end of the interval of a wave's time."""
        part, batch_kb = self.changes.select(wave_of == wave), self.schedule.batch_kb
        return seconds_of(part, len(self.disk_used), rate, style=self.style, batch_kb=batch_kb).most_seconds

    def inside(self, seconds: float, rate: int) -> Ints:
        """Waves that end in so many seconds, also at the ends of their intervals, if their number is automatic."""
        wave_of = self.of_length(seconds, rate)
        slowest = max((self._slowness(wave_of, wave, seconds, rate) for wave in _numbers(wave_of)), default=1.0)
        if self.schedule.waves or slowest == 1:
            return wave_of
        shorter = self.of_length(seconds / slowest, rate)
        return wave_of if (shorter == UNPLACED).any() else shorter

    def _slowness(self, wave_of: Ints, wave: int, seconds: float, rate: int) -> float:
        """The end of the interval of a wave that may take longer over its bytes at the rate; else 1."""
        busiest = int(traffic(self.changes.select(wave_of == wave), len(self.disk_used)).busiest.max())
        most = self.most_seconds(wave_of, wave, rate)
        return most * rate / busiest if busiest and seconds < most < np.inf else 1.0

    def of_length(self, seconds: float, rate: int) -> Ints:
        """Waves that end in so many seconds by their bytes at the rate, (N,)."""
        limits = Schedule(
            waves=self.schedule.waves,
            window_hours=max(seconds / 3600, _LEAST_HOURS),
            throttle_mb_per_s=max(rate / BYTES_PER_MB, LEAST_MB_PER_S),
            max_moves_per_wave=self.schedule.max_moves_per_wave,
        )
        if self.round_of is None:
            return balanced_waves(self.changes, disk_used=self.disk_used, disk_limit=self.disk_limit, schedule=limits)
        return self._by_round(self.round_of, limits)

    def _by_round(self, round_of: Ints, limits: Schedule) -> Ints:
        """Waves of each round after those of the round before; of a fixed number each later round has one."""
        wave_of, used, first = np.full(len(self.changes), UNPLACED, dtype=np.int64), self.disk_used, 0
        later, least = int(round_of.max()), min(limits.waves, 1)  # 0: their number is automatic
        for number in range(later + 1):
            part = round_of == number
            changes = self.changes.select(part)
            n_waves = least if number else max(limits.waves - later, least)
            waves = balanced_waves(
                changes, disk_used=used, disk_limit=self.disk_limit, schedule=replace(limits, waves=n_waves)
            )
            wave_of[part] = np.where(waves == UNPLACED, UNPLACED, first + waves)
            first += int(waves.max(initial=0))
            used = used + bytes_per_broker(changes.added, changes.size_bytes, len(used))
            used = used - bytes_per_broker(changes.removed, changes.size_bytes, len(used))
        return wave_of


def timed_waves(cuts: Cuts, *, room: NetworkRoom | None, captured_at: datetime | None) -> TimedWaves:
    """Cut a plan into waves and place them.

    Parameters
    ----------
    captured_at : datetime, optional
        UTC, of the snapshot. The first night starts then or later, unless the schedule names a first night. Without
        both, waves have no place.
    """
    schedule, windows = cuts.schedule, cuts.schedule.windows
    usual_seconds, usual_rate = schedule.window_hours * 3600, copy_rate_bytes_per_s(schedule)
    asked = rates_of_windows(schedule) or [usual_rate]
    rates = rates_with_room(asked, room)
    wave_of = cuts.inside(*least_capacity(windows, rates)) if windows else cuts.of_length(usual_seconds, rates[0])
    if (wave_of == UNPLACED).any():  # ``solve`` has tried the requested rate and length: they place every change
        wave_of = cuts.of_length(usual_seconds, usual_rate)
    numbers, coming = _numbers(wave_of), coming_nights(schedule, captured_at)
    if coming is None:
        return TimedWaves(wave_of, dict.fromkeys(numbers, min(rates)), dict.fromkeys(numbers, min(asked)), {})
    placed = place_waves(partial(cuts.most_seconds, wave_of), len(numbers), rates, coming)
    slots = dict(zip(numbers, placed, strict=True))
    planned, requested = (
        {wave: by_window[slot.night.window] for wave, slot in slots.items()} for by_window in (rates, asked)
    )
    return TimedWaves(wave_of, planned, requested, slots)


def _numbers(wave_of: Ints) -> list[int]:
    return list(range(1, int(wave_of.max(initial=0)) + 1))
