"""Changes that no order of copies has room for: as few as it takes are left."""

import numpy as np
import pytest

from optimizer.cluster_policy import NO_LIMIT
from optimizer.schedule.wave_order import disk_limits, unschedulable
from optimizer.schedule.waves import UNPLACED, assign_waves
from optimizer.settings import Schedule
from tests.schedule.test_waves import GB, Row, changes_from_rows

SWAP: list[Row] = [("balance", 60, 0, [1], [0]), ("drain", 60, 1, [0], [1])]
CHAIN: list[Row] = [("pin", 60, 1, [2], [1]), ("drain", 50, 0, [1], [0])]


def left_out(rows: list[Row], *, used: list[int], limit: list[int], knobs: Schedule | None = None) -> list[int]:
    """Numbers of the rows that are left; the rest must find waves."""
    pad = 6 - len(used)
    disk_used, disk_limit = np.array([*used, *[0] * pad]), np.array([*limit, *[NO_LIMIT] * pad])
    changes, schedule = changes_from_rows(rows), knobs or Schedule()
    found = unschedulable(changes, disk_used=disk_used, disk_limit=disk_limit, schedule=schedule)
    rest = assign_waves(changes.select(~found), disk_used=disk_used, disk_limit=disk_limit, schedule=schedule)
    assert (rest != UNPLACED).all()
    return np.flatnonzero(found).tolist()


@pytest.mark.parametrize(
    ("rows", "used", "limit", "knobs", "expected"),
    [
        pytest.param([], [], [], Schedule(), [], id="nothing changes"),
        pytest.param(SWAP, [60, 60], [120, 120], Schedule(), [], id="there is room for both copies"),
        pytest.param(SWAP, [60, 60], [100, 100], Schedule(), [0, 1], id="each waits for the other"),
        pytest.param(SWAP, [60, 60], [120, 100], Schedule(), [], id="one goes first"),
        pytest.param(CHAIN, [50, 90, 0], [100, 100, 100], Schedule(), [], id="two waves, one behind the other"),
        pytest.param(CHAIN, [50, 90, 0], [100, 100, 100], Schedule(waves=1), [1], id="one wave: the second is left"),
        pytest.param(
            [*SWAP, ("balance", 1, 2, [3], [2])], [60, 60, 1, 0], [100] * 4, Schedule(), [0, 1], id="others go"
        ),
        pytest.param(
            [("balance", 30, 2, [1], [2]), ("drain", 40, 0, [1], [0])],
            *([40, 30, 30], [100, 100, 100]),
            *(Schedule(), []),
            id="both fit to the byte",
        ),
        pytest.param(
            [("drain", 40, 0, [1], [0]), ("balance", 40, 2, [1], [2])],
            *([40, 30, 40], [100, 100, 100]),
            *(Schedule(), [1]),
            id="the one that is not urgent is left",
        ),
    ],
)
def test_as_few_as_it_takes_are_left(
    rows: list[Row], used: list[int], limit: list[int], knobs: Schedule, expected: list[int]
) -> None:
    """What waits for itself is left, what another can make room for is not, and of two the less urgent."""
    assert left_out(rows, used=used, limit=limit, knobs=knobs) == expected


@pytest.mark.parametrize("reason", ["balance", "rack"])
def test_one_change_is_left_rather_than_three(reason: str) -> None:
    """Where one change takes the room of three more urgent ones, it alone is left."""
    rows: list[Row] = [(reason, 60, 2, [1], [2]), *[("drain", 20, 0, [1], [0])] * 3]
    assert left_out(rows, used=[60, 30, 60], limit=[100, 100, 100]) == [0]


def test_a_change_that_would_block_a_cycle_goes_last() -> None:
    """The second needs space on broker 1 that the third frees, the third space that the second frees; the first would
    take the last space of broker 1."""
    rows: list[Row] = [("drain", 5, 3, [1], [3]), ("drain", 5, 2, [1], [2]), ("balance", 5, 1, [2], [1])]
    used, limit = np.array([0, 35, 40, 20, 0, 0]), np.array([40, 40, 40, 40, 0, 0])
    assert left_out(rows, used=[0, 35, 40, 20], limit=[40, 40, 40, 40]) == []
    waves = assign_waves(changes_from_rows(rows), disk_used=used, disk_limit=limit, schedule=Schedule())
    assert waves.tolist() == [3, 1, 2]
    tight = assign_waves(changes_from_rows(rows), disk_used=used, disk_limit=limit - 1, schedule=Schedule())
    assert UNPLACED in tight.tolist()


def test_what_has_room_after_all_comes_back() -> None:
    """A change that lost its space to another change is kept if that other change is left out."""
    rows: list[Row] = [
        ("pin", 60, 2, [0], [2]),
        ("pin", 30, 2, [1], [2]),
        ("balance", 20, 3, [2], [3]),
        ("balance", 40, 1, [2], [1]),
        ("pin", 10, 1, [2], [3]),
        ("drain", 10, 1, [2], [3]),
        ("drain", 20, 2, [1], [2]),
        ("pin", 10, 0, [2], [0]),
    ]
    assert left_out(rows, used=[10, 40, 180, 80], limit=[20, 100, 210, 80], knobs=Schedule(waves=2)) == [0, 3]


def test_partitions_of_many_copies_find_waves() -> None:
    """Where a partition copies more than a wave may start, waves are tried although no disk is near its limit."""
    rows: list[Row] = [("replication", GB, 0, [1, 2, 3], []), *[("balance", GB, 0, [4], [5])] * 4]
    assert left_out(rows, used=[0], limit=[NO_LIMIT], knobs=Schedule(max_moves_per_wave=2)) == []


def test_disk_limits_are_whole_bytes() -> None:
    """A disk less its headroom, rounded down; none where the capacity is unknown, as in bands and in the audit."""
    assert disk_limits(np.array([-1, 101, 0]), 0.1).tolist() == [NO_LIMIT, 90, NO_LIMIT]
