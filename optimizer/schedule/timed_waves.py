"""Waves with the rate of their copies, and with their places in the windows of the schedule.

Without windows, the waves are as long as ``window_hours`` allows at the rate that the network has room for. With
windows, waves are cut for the window that copies least, so that each fits into any of them. The end of the interval of
its time, not the expected time, should be inside. The cut counts bytes over rate, so if a wave of the first cut may
take longer, all are cut once more, shorter by the largest ratio of both times. Then each wave gets a place: behind the
one before in the same night, or at the start of the next night that is long enough.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime

import numpy as np

from optimizer.domain import Ints
from optimizer.schedule.balanced_waves import balanced_waves
from optimizer.schedule.estimate import traffic
from optimizer.schedule.network_room import NetworkRoom, rates_with_room
from optimizer.schedule.sharing import copies_of, copy_rates
from optimizer.schedule.simulate import WaveTime, wave_time
from optimizer.schedule.throttle_rate import BYTES_PER_KB, BYTES_PER_MB, copy_rate_bytes_per_s, rates_in_style
from optimizer.schedule.wave_changes import WaveChanges
from optimizer.schedule.waves import UNPLACED
from optimizer.schedule.windows import Slot, least_capacity, nights, place_waves
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


def timed_waves(
    changes: WaveChanges,
    *,
    disk_used: Ints,
    disk_limit: Ints,
    schedule: Schedule,
    room: NetworkRoom | None,
    style: str,
    captured_at: datetime | None,
) -> TimedWaves:
    """Cut a plan into waves and place them.

    Parameters
    ----------
    disk_used, disk_limit : (B,) int64
        As for ``balanced_waves``.
    captured_at : datetime, optional
        UTC, of the snapshot. The first night starts then or later, unless the schedule names a first night. Without
        both, waves have no place.
    """
    n_brokers, requested = len(disk_used), copy_rate_bytes_per_s(schedule)
    windows = schedule.windows
    asked = [round(window.throttle_mb_per_s * BYTES_PER_MB) or requested for window in windows] or [requested]
    rates = rates_with_room(asked, room)

    def cut(seconds: float, rate: int) -> Ints:
        return balanced_waves(
            changes, disk_used=disk_used, disk_limit=disk_limit, schedule=_without_windows(schedule, seconds, rate)
        )

    def most_seconds(wave: int, rate: int) -> float:
        part = changes.select(wave_of == wave)
        return seconds_of(part, n_brokers, rate, style=style, batch_kb=schedule.batch_kb).most_seconds

    def slowness(wave: int) -> float:
        """The end of the interval of a wave that may overrun over its bytes at the rate; else 1."""
        busiest, most = int(traffic(changes.select(wave_of == wave), n_brokers).busiest.max()), most_seconds(wave, rate)
        return most * rate / busiest if busiest and seconds < most < np.inf else 1.0

    usual_seconds = schedule.window_hours * 3600
    seconds, rate = least_capacity(windows, rates) if windows else (usual_seconds, rates[0])
    wave_of = cut(seconds, rate)
    if windows and not schedule.waves:
        shorter = cut(seconds / max(map(slowness, _numbers(wave_of)), default=1.0), rate)
        wave_of = wave_of if (shorter == UNPLACED).any() else shorter
    if (wave_of == UNPLACED).any():  # ``solve`` has tried the requested rate and length: they place every change
        wave_of = cut(usual_seconds, requested)
    numbers, first = _numbers(wave_of), date.fromisoformat(schedule.first_night) if schedule.first_night else None
    if not windows or (first is None and captured_at is None):
        return TimedWaves(wave_of, dict.fromkeys(numbers, rate), dict.fromkeys(numbers, asked[0]), {})
    coming = nights(windows, after=None if first else captured_at, first=first)
    slots = dict(zip(numbers, place_waves(most_seconds, len(numbers), rates, coming), strict=True))
    planned, requests = (
        {wave: by_window[slot.night.window] for wave, slot in slots.items()} for by_window in (rates, asked)
    )
    return TimedWaves(wave_of, planned, requests, slots)


def _numbers(wave_of: Ints) -> list[int]:
    return list(range(1, int(wave_of.max(initial=0)) + 1))


def _without_windows(schedule: Schedule, seconds: float, rate: int) -> Schedule:
    """The same limits, with another length and rate."""
    return Schedule(
        waves=schedule.waves,
        window_hours=max(seconds / 3600, _LEAST_HOURS),
        throttle_mb_per_s=max(rate / BYTES_PER_MB, LEAST_MB_PER_S),
        max_moves_per_wave=schedule.max_moves_per_wave,
    )
