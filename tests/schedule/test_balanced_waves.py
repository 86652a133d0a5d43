"""Waves of the plan stage: shorter than those of ``assign_waves``, with the same limits."""

from typing import Any
from unittest.mock import patch

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from optimizer.cluster_policy import NO_LIMIT
from optimizer.domain import REASONS, Ints
from optimizer.schedule import requests
from optimizer.schedule.balanced_waves import LONGEST, balanced_waves
from optimizer.schedule.estimate import traffic
from optimizer.schedule.throttle_rate import BYTES_PER_MB
from optimizer.schedule.wave_bound import ends_of, least_total_bytes
from optimizer.schedule.wave_changes import WaveChanges, bytes_per_broker
from optimizer.schedule.waves import UNPLACED, assign_waves
from optimizer.settings import Schedule
from tests.schedule.test_waves import GB, Row, changes_from_rows

BALANCE, REORDER = REASONS.index("balance"), REASONS.index("leader")
KB = 1_000
Case = tuple[WaveChanges, Ints, Ints, Schedule]
# Few enough for the requests of generated plans to reach them.
SMALL_REQUESTS: dict[str, Any] = {"PARTITIONS_PER_REQUEST": 5, "TOPICS_PER_REQUEST": 2, "LIST_CHARACTERS": 40}


@st.composite
def plans(draw: st.DrawFn, reasons: tuple[str, ...] = REASONS) -> Case:
    """A plan with urgent changes, reorders, several topics, and brokers that may be nearly full."""
    n = draw(st.integers(3, 6))
    rows: list[Row] = []
    for _ in range(draw(st.integers(0, 20))):
        hosts = draw(st.permutations(range(n)))
        reason = draw(st.sampled_from(reasons))
        copies = 0 if reason == "leader" else draw(st.sampled_from([1, 1, 1, 2, 0]))
        removed = 0 if reason == "leader" else draw(st.integers(0, max(copies, 1)))
        added, removed_from = list(hosts[:copies]), list(hosts[copies : copies + removed])
        rows.append((reason, KB * draw(st.integers(0, 50)), draw(st.integers(-1, n - 1)), added, removed_from))
    changes = changes_from_rows(rows, n)
    changes.topic[:] = [draw(st.integers(0, 4)) for _ in rows]
    changes.list_characters[:, :] = np.array([draw(st.integers(4, 20)) for _ in rows], dtype=np.int64)[:, None]
    used = bytes_per_broker(changes.removed, changes.size_bytes, n)
    spare = draw(st.sampled_from([60, 150, 10**6]))
    limit = used + KB * np.array([draw(st.integers(-20, spare)) for _ in range(n)], dtype=np.int64)
    schedule = Schedule(
        waves=draw(st.integers(0, 6)),
        max_moves_per_wave=draw(st.integers(1, 8)),
        window_hours=0.01,
        throttle_mb_per_s=0.001 * draw(st.integers(1, 9)),
    )
    return changes, used, limit, schedule


def both(case: Case) -> tuple[Ints, Ints]:
    """The waves of ``assign_waves`` and those of the plan stage."""
    changes, used, limit, schedule = case
    return (
        assign_waves(changes, disk_used=used, disk_limit=limit, schedule=schedule),
        balanced_waves(changes, disk_used=used, disk_limit=limit, schedule=schedule),
    )


def lengths(changes: WaveChanges, wave_of: Ints, n_brokers: int) -> list[int]:
    """Bytes of the busiest end of each wave that has more than reorders."""
    waves = np.unique(wave_of[(wave_of != UNPLACED) & (changes.urgency != REORDER)])
    return [int(traffic(changes.select(wave_of == wave), n_brokers).busiest.max()) for wave in waves]


def longest_change(changes: WaveChanges, n_brokers: int) -> int:
    """Bytes of the longest wave of a single change."""
    return int(ends_of(changes, n_brokers).length_bytes.max(initial=0))


def needed(changes: WaveChanges, urgency: int, n_brokers: int, n_waves: int) -> int:
    """Waves that the bytes of a class and of more urgent ones need, if every wave takes its share of the whole."""
    whole = int(traffic(changes.select(changes.urgency != REORDER), n_brokers).busiest.max())
    part = int(traffic(changes.select(changes.urgency <= urgency), n_brokers).busiest.max())
    return max(1, -(-part * n_waves // max(whole, 1)))


@settings(max_examples=150, deadline=None)
@given(plans())
def test_every_wave_respects_disks_and_copies(case: Case) -> None:
    """In every wave disks hold old and new copies, and an automatic number of waves keeps its limits."""
    changes, used, limit, schedule = case
    today, wave_of = both(case)
    allowed, now = np.maximum(limit, used), used.copy()
    last = int(wave_of.max(initial=0))
    assert set(range(1, last + 1)) <= set(wave_of.tolist()) or last <= 1
    for wave in range(1, last + 1):
        part = changes.select(wave_of == wave)
        peak = now + bytes_per_broker(part.added, part.size_bytes, len(used))
        assert (peak <= allowed).all()
        now = peak - bytes_per_broker(part.removed, part.size_bytes, len(used))
        if not schedule.waves:
            assert part.copies.sum() <= schedule.max_moves_per_wave or (part.copies > 0).sum() == 1
    if not schedule.waves and len(changes):
        window = schedule.throttle_mb_per_s * BYTES_PER_MB * 36
        most = max(window, longest_change(changes, len(used)))
        assert max(lengths(changes, wave_of, len(used)), default=0) <= max(
            most, max(lengths(changes, today, len(used)), default=0)
        )


@settings(max_examples=150, deadline=None)
@given(plans())
def test_requests_stay_within_kafkas_limits(case: Case) -> None:
    """No wave names more partitions or topics, or longer lists, than Kafka accepts."""
    with patch.multiple(requests, **SMALL_REQUESTS):
        _, wave_of = both(case)
    changes = case[0]
    for wave in range(1, int(wave_of.max(initial=0)) + 1):
        part = changes.select(wave_of == wave)
        assert len(part) <= SMALL_REQUESTS["PARTITIONS_PER_REQUEST"]
        assert len(np.unique(part.topic)) <= SMALL_REQUESTS["TOPICS_PER_REQUEST"]
        for topic in np.unique(part.topic):
            characters = part.list_characters[part.topic == topic].sum(axis=0)
            assert (characters <= SMALL_REQUESTS["LIST_CHARACTERS"]).all()


@settings(max_examples=150, deadline=None)
@given(plans())
def test_urgent_changes_are_not_later(case: Case) -> None:
    """Each is in the wave of ``assign_waves`` at the latest, or in the last that its class needs; reorders are last."""
    changes, used, _, schedule = case
    today, wave_of = both(case)
    copying = changes.urgency != REORDER
    n_waves = max(int(today[copying].max(initial=0)), min(schedule.waves, int(copying.sum())))
    for i in np.flatnonzero((changes.urgency < BALANCE) & (today != UNPLACED)):
        assert wave_of[i] <= max(today[i], needed(changes, int(changes.urgency[i]), len(used), n_waves))
    if (~copying).any():
        assert wave_of[~copying].min() >= wave_of[copying].max(initial=0)


@settings(max_examples=150, deadline=None)
@given(plans())
def test_waves_are_never_worse(case: Case) -> None:
    """As few changes without a wave, as many waves, no more bytes over the longest length, and then no longer sum."""
    changes, used, _, schedule = case
    today, wave_of = both(case)
    assert (wave_of == UNPLACED).sum() <= (today == UNPLACED).sum()
    before, after = (lengths(changes, waves, len(used)) for waves in (today, wave_of))
    assert len(after) >= len(before)
    if len(after) != len(before) or (today == UNPLACED).sum() != (wave_of == UNPLACED).sum() or not before:
        return
    copying = changes.select(changes.urgency != REORDER)
    busiest, largest = int(traffic(copying, len(used)).busiest.max()), longest_change(copying, len(used))
    window = np.inf if schedule.waves else schedule.throttle_mb_per_s * BYTES_PER_MB * 36
    n_waves = max(len(before), min(schedule.waves, len(copying)))
    most = min(LONGEST * max(busiest / n_waves, largest), max(window, largest))
    over_before, over_after = (sum(max(length - most, 0) for length in waves) for waves in (before, after))
    assert (over_after, sum(after)) <= (over_before, sum(before))
    if (wave_of != UNPLACED).all():
        assert sum(after) >= least_total_bytes(copying, len(used), len(after))


@settings(max_examples=75, deadline=None)
@given(plans(reasons=("balance",)), st.integers(1, 12))
def test_every_wave_has_a_change_if_there_are_enough(case: Case, waves: int) -> None:
    """Where disks have space and nothing is urgent, there are as many waves as requested, or as there are changes."""
    changes, used, _, _ = case
    free = np.full(len(used), NO_LIMIT, dtype=np.int64)
    _, wave_of = both((changes, used, free, Schedule(waves=waves)))
    assert len(set(wave_of.tolist())) == min(waves, len(changes))


@settings(max_examples=30, deadline=None)
@given(plans())
def test_equal_plans_get_equal_waves(case: Case) -> None:
    """The same changes always get the same waves."""
    assert both(case)[1].tolist() == both(case)[1].tolist()


def waves_of(
    rows: list[Row], *, used: list[int] | None = None, limit: list[int] | None = None, knobs: Schedule
) -> list[int]:
    """Waves of the rows; disks are unlimited unless given."""
    return balanced_waves(
        changes_from_rows(rows, 6),
        disk_used=np.array(used or [0] * 6, dtype=np.int64),
        disk_limit=np.array(limit or [NO_LIMIT] * 6, dtype=np.int64),
        schedule=knobs,
    ).tolist()


def test_no_change_needs_no_wave() -> None:
    """An empty plan has no waves; reorders alone need one."""
    assert waves_of([], knobs=Schedule()) == []
    assert waves_of([("leader", GB, 0, [], [])] * 2, knobs=Schedule(waves=3)) == [1, 1]
