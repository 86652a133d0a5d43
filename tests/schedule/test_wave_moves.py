"""Single moves between waves: which are made, and which limits stop them."""

import math
from typing import Any

import numpy as np
import pytest

from optimizer.domain import Ints
from optimizer.schedule.balanced_waves import improve
from optimizer.schedule.wave_bound import ends_of
from optimizer.schedule.wave_state import FilledWaves, WaveLimits
from tests.schedule.test_waves import Row, changes_from_rows

BROKERS = 8


def improved(rows: list[Row], waves: list[int], n_waves: int, **limits: Any) -> FilledWaves:
    """Waves from 0 that were filled as given, after the moves."""
    changes = changes_from_rows(rows, BROKERS)
    free: dict[str, Any] = {
        "latest": np.full(len(rows), n_waves - 1),
        "disk_used": np.full(BROKERS, 100),
        "disk_limit": np.full(BROKERS, 10**6),
        "most_bytes": math.inf,
        "most_copies": math.inf,
    }
    filled = FilledWaves(
        WaveLimits(changes=changes, ends=ends_of(changes, BROKERS), n_waves=n_waves, **{**free, **limits})
    )
    for i, wave in enumerate(waves):
        filled.put(i, wave)
    improve(filled)
    return filled


def on(**changed: int) -> Ints:
    """A limit of 10^6 bytes for each broker, except those named b0, b1, ..."""
    limit = np.full(BROKERS, 10**6)
    for name, size in changed.items():
        limit[int(name[1:])] = size
    return limit


PAIR: list[Row] = [("balance", 10, 0, [1], [2]), ("balance", 10, 0, [1], [2])]
LONG: list[Row] = [("balance", 20, 4, [5], [])]


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        pytest.param({}, [0, 1], id="moves to the wave that is long anyway"),
        pytest.param({"latest": np.array([0, 0, 1])}, [0, 0], id="not later than allowed"),
        pytest.param({"latest": np.array([1, 0, 1])}, [1, 0], id="the one that may be later"),
        pytest.param({"most_copies": 1}, [0, 0], id="no more copies than allowed"),
        pytest.param({"most_copies": 2}, [0, 1], id="as many copies as allowed"),
    ],
)
def test_a_move_meets_the_limits(limits: dict[str, Any], expected: list[int]) -> None:
    """Of two copies between the same brokers one moves to another wave, unless a limit forbids it."""
    waves = improved([*PAIR, *LONG], [0, 0, 1], 2, **limits)
    assert sorted(waves.wave_of[:2].tolist()) == sorted(expected)
    assert waves.total_bytes == (40 if expected == [0, 0] else 30)


@pytest.mark.parametrize(("limit", "total"), [(109, 40), (110, 30)])
def test_what_a_later_change_removes_stays_longer(limit: int, total: int) -> None:
    """Broker 2 loses both replicas before a copy to it starts; if one stayed, it would hold 110 bytes."""
    rows = [*PAIR, ("balance", 20, 6, [2], [])]
    assert improved(rows, [0, 0, 1], 2, disk_limit=on(b2=limit)).total_bytes == total


@pytest.mark.parametrize(("limit", "total"), [(109, 40), (110, 30)])
def test_a_copy_that_comes_sooner_needs_its_space_sooner(limit: int, total: int) -> None:
    """Broker 1 holds 100 bytes until the first wave has ended, so a copy of 10 to it needs 110 there."""
    rows: list[Row] = [("balance", 20, 4, [5], [1]), *PAIR]
    assert improved(rows, [0, 1, 1], 2, disk_limit=on(b1=limit)).total_bytes == total


def test_several_busiest_ends_are_relieved_one_after_the_other() -> None:
    """Two pairs of brokers are equally busy: the first move shortens nothing, the second shortens the wave."""
    rows: list[Row] = [*PAIR, ("balance", 10, 2, [3], []), ("balance", 10, 2, [3], []), *LONG]
    waves = improved(rows, [0, 0, 0, 0, 1], 2)
    assert waves.length.tolist() == [10, 20]


def test_an_empty_wave_gets_the_smallest_change_of_a_wave_that_keeps_another() -> None:
    """The wave of a single change stays; no change is later than it may be."""
    rows: list[Row] = [("balance", size, 2 * k, [2 * k + 1], []) for k, size in enumerate((1, 5, 3, 9))]
    waves = improved(rows, [0, 1, 1, 1], 3)
    assert waves.wave_of.tolist() == [0, 1, 2, 1]
    assert improved(rows, [0, 1, 1, 1], 3, latest=np.array([2, 2, 1, 1])).wave_of.tolist() == [0, 2, 1, 1]


def test_a_wave_that_is_too_long_becomes_shorter_at_the_cost_of_the_sum() -> None:
    """A wave of 20 may be 15 long at most, so one of its changes moves although the other wave grows by as much."""
    rows: list[Row] = [*PAIR, ("balance", 5, 0, [1], [])]
    assert improved(rows, [0, 0, 1], 2).length.tolist() == [20, 5]
    assert improved(rows, [0, 0, 1], 2, most_bytes=15.0).length.tolist() == [10, 15]
