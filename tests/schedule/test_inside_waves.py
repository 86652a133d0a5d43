"""Waves of moves inside brokers: what fits into a window, and how long it takes."""

from datetime import UTC, datetime

import numpy as np
import pytest

from optimizer.schedule.inside_waves import InsideWaves, busiest_bytes, inside_waves, span_seconds
from optimizer.settings import Schedule
from optimizer.windows_setting import Window

MB = 10**6
NIGHTLY = Window(days=("mon", "tue", "wed", "thu", "fri", "sat", "sun"), start="01:00", end="02:00", time_zone="UTC")


def waves(
    moves: list[tuple[int, int, str]],
    schedule: Schedule,
    ends_at: datetime | None = None,
    captured_at: datetime | None = None,
) -> InsideWaves:
    """Of moves: broker, MB and partition."""
    broker, size = (np.array([move[i] for move in moves], dtype=np.int64) for i in (0, 1))
    partitions = [partition for *_, partition in moves]
    return inside_waves(broker, size * MB, partitions, schedule, ends_at=ends_at, captured_at=captured_at)


@pytest.mark.parametrize(
    ("moves", "wave_of"),
    [
        ([(1, 50, "a"), (2, 50, "b")], [1, 1]),
        ([(1, 50, "a"), (1, 50, "b"), (1, 2, "c")], [1, 2, 1]),
        ([(1, 50, "a"), (2, 50, "b"), (2, 50, "a")], [1, 2, 1]),
        ([(1, 500, "a"), (1, 1, "b")], [1, 2]),
        ([], []),
    ],
    ids=["brokers do not wait", "a broker is full", "a partition stays together", "too large for any", "nothing"],
)
def test_a_wave_is_what_brokers_can_copy_in_a_window(moves: list[tuple[int, int, str]], wave_of: list[int]) -> None:
    """72 seconds at 1 MB/s: 15 % and eleven seconds are left free."""
    schedule = Schedule(throttle_mb_per_s=1, window_hours=0.02)
    placed = waves(moves, schedule)
    assert placed.wave_of.tolist() == wave_of
    assert placed.rates == (MB,) * max(wave_of, default=0)
    assert placed.slots == ()


def test_a_fixed_number_of_waves_leaves_one_for_moves_inside_brokers() -> None:
    """However long it takes, and however many moves it has."""
    schedule = Schedule(waves=3, throttle_mb_per_s=1, window_hours=0.02, max_moves_per_wave=1)
    assert waves([(1, 50, "a"), (1, 50, "b")], schedule).wave_of.tolist() == [1, 1]


@pytest.mark.parametrize(
    ("captured", "ends", "starts"),
    [
        ("27 22:00", None, ["28 01:00", "29 01:00"]),
        ("27 22:00", "28 01:10", ["28 01:15", "29 01:00"]),
        ("28 01:00", None, ["28 01:00", "29 01:00"]),
        ("28 01:30", None, ["29 01:00", "30 01:00"]),
        (None, None, []),
    ],
)
def test_waves_follow_each_other_in_the_nights(captured: str | None, ends: str | None, starts: list[str]) -> None:
    """Five minutes behind the waves before, in the same night if there is time; else in the next one."""
    schedule = Schedule(windows=(NIGHTLY,), throttle_mb_per_s=1)
    times = [None if time is None else datetime.fromisoformat(f"2026-11-{time}+00:00") for time in (ends, captured)]
    placed = waves([(1, 2200, "a"), (1, 2000, "b")], schedule, *times)
    assert placed.wave_of.tolist() == [1, 2]
    assert [f"{slot.start:%d %H:%M}" for slot in placed.slots] == starts


def test_a_first_night_counts_also_if_the_snapshot_is_younger() -> None:
    """As for the other waves."""
    schedule = Schedule(windows=(NIGHTLY,), throttle_mb_per_s=1, first_night="2026-11-28")
    placed = waves([(1, 1, "a")], schedule, captured_at=datetime(2026, 11, 28, 1, 30, tzinfo=UTC))
    assert [f"{slot.start:%d %H:%M}" for slot in placed.slots] == ["28 01:00"]


def test_a_wave_is_one_request() -> None:
    """Of 10,000 partitions, also if the number of waves is fixed."""
    moves = [(broker, 1, f"{broker}") for broker in range(10_001)]
    for schedule in (Schedule(waves=1), Schedule(max_moves_per_wave=50_000)):
        assert np.bincount(waves(moves, schedule).wave_of).tolist() == [0, 10_000, 1]


def test_the_interval_of_the_time() -> None:
    """15 % and eleven seconds on both sides; never below 0."""
    assert span_seconds(100 * MB, MB) == pytest.approx((74, 126))
    assert span_seconds(5 * MB, MB)[0] == 0
    assert busiest_bytes(np.array([3, 1, 3]), np.array([5, 8, 6])) == 11
    assert busiest_bytes(np.array([], dtype=np.int64), np.array([], dtype=np.int64)) == 0
