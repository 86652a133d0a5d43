"""Waves have the rate that the network allows, and end inside the windows of the schedule."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest

from optimizer.domain import REASONS
from optimizer.schedule.network_room import NetworkRoom
from optimizer.schedule.timed_waves import Cuts, TimedWaves, timed_waves
from optimizer.schedule.wave_changes import WaveChanges, wave_changes_between
from optimizer.settings import Schedule
from optimizer.windows_setting import DAYS, Window

GB = 10**9
N_BROKERS = 12
FRIDAY = datetime(2026, 11, 27, 12, tzinfo=UTC)
NIGHT = Window(days=DAYS, start="22:00", end="02:00", time_zone="Europe/Dublin")


def dense(count: int, size_bytes: int = 20 * GB) -> WaveChanges:
    """Partitions led by every broker in turn, each with one copy to another broker."""
    leader = np.arange(count) % N_BROKERS
    before = np.stack([leader, (leader + 1) % N_BROKERS], axis=1)
    after = np.stack([leader, (leader + 2 + np.arange(count) // N_BROKERS % 9) % N_BROKERS], axis=1)
    return wave_changes_between(
        before,
        after,
        np.arange(N_BROKERS),
        topic=np.array(["t"] * count, dtype=object),
        partition=np.arange(count),
        size_bytes=np.full(count, size_bytes),
        copy_bytes=np.full((count, 1), size_bytes),
        in_bytes_per_s=np.zeros(count, dtype=np.int64),
        leader=leader,
        in_sync_followers=np.ones(count, dtype=np.int64),
        urgency=np.full(count, REASONS.index("balance")),
    )


def timed(changes: WaveChanges, *windows: Window, room: NetworkRoom | None = None, **schedule: Any) -> TimedWaves:
    """The waves of a snapshot of Friday noon."""
    settings: dict[str, Any] = {"windows": windows, "throttle_mb_per_s": 50, **schedule}
    used, limit = np.zeros(N_BROKERS, dtype=np.int64), np.full(N_BROKERS, 10**15)
    cuts = Cuts(changes, used, limit, Schedule(**settings), "careful")
    return timed_waves(cuts, room=room, captured_at=FRIDAY)


def local_days(waves: TimedWaves) -> list[int]:
    """The day of November or December on which each wave starts."""
    return [slot.start.day for slot in waves.slots.values()]


def test_the_end_of_the_interval_is_inside_the_window() -> None:
    """Dense waves may take 1.3 times bytes over rate, so more waves are cut than bytes over rate would need."""
    changes = dense(1200)
    waves = timed(changes, NIGHT)
    assert not any(slot.is_late for slot in waves.slots.values())
    assert all(slot.end and slot.end <= slot.night.end for slot in waves.slots.values())
    assert list(waves.slots) == list(range(1, 1 + waves.wave_of.max()))
    unaware = timed(changes, window_hours=4)
    assert waves.wave_of.max() > unaware.wave_of.max()
    assert unaware.slots == {}


def test_a_wave_has_the_rate_of_its_window() -> None:
    """The slower window decides the size of the waves; in the faster one, several follow each other in a night."""
    slow = Window(days=DAYS[:5], start="22:00", end="02:00", time_zone="UTC", throttle_mb_per_s=20)
    fast = Window(days=DAYS[5:], start="12:00", end="23:00", time_zone="UTC", throttle_mb_per_s=100)
    waves = timed(dense(300), slow, fast)
    rates = [waves.rates[wave] for wave in waves.slots]
    windows = [slot.night.window for slot in waves.slots.values()]
    assert rates == [(20 * 10**6, 100 * 10**6)[window] for window in windows]
    assert waves.requested == waves.rates
    assert windows[0] == 0  # Friday night
    saturday = [slot for slot in waves.slots.values() if slot.start.day == 28]
    assert len(saturday) > 1
    assert all(slot.end and slot.end <= slot.night.end for slot in saturday)


@pytest.mark.parametrize(("left", "rate"), [(10**9, 50_000_000), (30_000_000, 30_000_000)])
def test_the_network_limits_the_rate_of_every_window(left: int, rate: int) -> None:
    """A lower rate makes more waves, with and without windows."""
    room = NetworkRoom(0, left)
    for windows in ((), (NIGHT,)):
        waves = timed(dense(600), *windows, room=room, window_hours=4)
        assert set(waves.rates.values()) == {rate}
    assert (timed(dense(600), room=room).wave_of.max() > timed(dense(600)).wave_of.max()) == (rate < 50_000_000)


def test_a_first_night_comes_before_the_snapshot_or_after_it() -> None:
    """The calendar begins on the given date, whatever the time of the snapshot."""
    assert local_days(timed(dense(12), NIGHT)) == [27]
    assert local_days(timed(dense(12), NIGHT, first_night="2026-12-05")) == [5]
    assert local_days(timed(dense(12), NIGHT, first_night="2026-11-20")) == [20]


def test_a_change_that_no_window_holds_is_late() -> None:
    """A terabyte takes five and a half hours; what is short stays in its night."""
    changes, size = dense(2), np.array([10**12, GB])
    changes = replace(changes, size_bytes=size, copy_bytes=np.where(changes.added >= 0, size[:, None], 0))
    waves = timed(changes, NIGHT, waves=2)
    late = {wave: slot.is_late for wave, slot in waves.slots.items()}
    assert late == {int(waves.wave_of[0]): True, int(waves.wave_of[1]): False}


def test_a_full_network_and_a_low_rate_still_give_a_plan() -> None:
    """The tenth of 5 kB/s is below the least that a setting may have."""
    waves = timed(dense(12, 10**6), room=NetworkRoom(0, -1), throttle_mb_per_s=0.005)
    assert set(waves.rates.values()) == {500}
    assert set(waves.requested.values()) == {5000}


def ratios(waves: TimedWaves) -> Sequence[float]:
    """How much of its night each wave may take."""
    return [(slot.end - slot.start).total_seconds() / slot.night.seconds for slot in waves.slots.values() if slot.end]


def test_the_windows_are_used() -> None:
    """The second cut shortens the waves only as far as the interval needs: most of each full night is used."""
    used = sorted(ratios(timed(dense(1200), NIGHT)))
    assert used[len(used) // 2] > 0.75
