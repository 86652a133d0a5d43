"""The rate of copies is no higher than what every broker's network has left."""

import numpy as np
import pytest

from optimizer.domain import Ints
from optimizer.schedule.network_room import (
    UNKNOWN,
    NetworkLoad,
    NetworkRoom,
    network_room,
    rates_with_room,
)
from optimizer.schedule.wave_changes import WaveChanges, wave_changes_between

# Broker 0 leads partition 0, which gets replicas on 2 and 3; broker 1 leads partition 1, which only changes its order.
BEFORE, AFTER = [[0, 1, -1], [1, 0, -1]], [[0, 2, 3], [0, 1, -1]]


def changes(before: list[list[int]] = BEFORE, after: list[list[int]] = AFTER) -> WaveChanges:
    """Both partitions take 10 bytes per second."""
    n = len(before)
    return wave_changes_between(
        np.array(before),
        np.array(after),
        np.arange(4),
        topic=np.array(["t"] * n, dtype=object),
        partition=np.arange(n),
        size_bytes=np.full(n, 1000),
        copy_bytes=np.full((n, 1), 1000),
        in_bytes_per_s=np.full(n, 10),
        leader=np.array(before)[:, 0],
        in_sync_followers=np.ones(n, dtype=np.int64),
        urgency=np.zeros(n, dtype=np.int64),
    )


def load(capacity: list[list[int]], used: Ints | None = None) -> NetworkLoad:
    """In and out of brokers 0 to 3."""
    return NetworkLoad(np.array(capacity), np.zeros((4, 2), dtype=np.int64) if used is None else used)


WIDE = [[1000, 1000]] * 4


@pytest.mark.parametrize(
    ("broker", "direction", "capacity", "left"),
    [
        (0, 1, 500, 480),  # the leader sends what is produced to both new replicas
        (2, 0, 500, 490),
        (3, 0, 5, -5),
        (0, 0, 5, 980),  # neither end of a copy: the leader's own bytes in do not grow
        (1, 1, 5, 980),  # its partition is only reordered
        (2, 1, 5, 980),
    ],
)
def test_the_end_with_least_room_decides(broker: int, direction: int, capacity: int, left: int) -> None:
    """Only the direction that a copy uses counts, less what the new replicas will need."""
    capacities = [list(row) for row in WIDE]
    capacities[broker][direction] = capacity
    room = network_room(changes(), load(capacities))
    assert room == NetworkRoom(broker if left != 980 else 0, left)


def test_what_is_used_is_not_left() -> None:
    """By producers, consumers and replication, before the plan."""
    used = np.zeros((4, 2), dtype=np.int64)
    used[3, 0] = 700
    assert network_room(changes(), load(WIDE, used)) == NetworkRoom(3, 290)


def test_unknown_capacities_leave_no_room_to_state() -> None:
    """An unknown end does not count; without a known end there is no figure, and neither without copies."""
    some = [[UNKNOWN, UNKNOWN], [1000, 1000], [UNKNOWN, 1000], [300, 1000]]
    assert network_room(changes(), load(some)) == NetworkRoom(3, 290, is_known=False)
    others = [[UNKNOWN, 1000], [UNKNOWN, UNKNOWN], [1000, UNKNOWN], [300, UNKNOWN]]
    assert network_room(changes(), load(others)) == NetworkRoom(3, 290)
    assert network_room(changes(), load([[UNKNOWN, UNKNOWN]] * 4)) is None
    assert network_room(changes([[0, 1]], [[1, 0]]), load(WIDE)) is None


@pytest.mark.parametrize(("left", "rate"), [(None, 100), (500, 100), (99, 99), (11, 11), (9, 10), (-50, 10)])
def test_the_rate_is_the_smaller_but_copies_end(left: int | None, rate: int) -> None:
    """A full network slows copies down to a tenth of the requested rate, not to nothing."""
    assert rates_with_room([100], None if left is None else NetworkRoom(0, left)) == [rate]


def test_a_fast_window_gets_no_more_than_what_is_left() -> None:
    """The tenth is that of the smallest request: a window that asks for more does not get more."""
    assert rates_with_room([20, 200], NetworkRoom(0, 3)) == [3, 3]
    assert rates_with_room([20, 200], NetworkRoom(0, -40)) == [2, 2]
    assert rates_with_room([20, 200], NetworkRoom(0, 80)) == [20, 80]
