"""The rack rule by itself: brokers of racks, caps, floors, and what breaks them."""

import numpy as np
import pandas as pd
import pytest

from benchmarks.rows import broker_row
from optimizer.planning.arrays import to_brokers
from optimizer.solve.rules.racks import (
    busiest_share,
    hosting_rack_sizes,
    live_rack_sizes,
    rack_caps,
    rack_disorder,
    rack_floors,
    rack_histogram,
)
from tests.solve.clusters import make_brokers


def test_brokers_to_empty_count_in_no_rack_and_excluded_ones_as_hosts() -> None:
    """A draining broker makes no room in its rack; one that takes nothing and keeps its replicas is a host of them."""
    brokers = make_brokers([0, 0, 1, 1, 1, 2], draining=(0,), excluded=(2,))
    assert live_rack_sizes(brokers).tolist() == [1, 2, 1]
    assert hosting_rack_sizes(brokers).tolist() == [1, 3, 1]


@pytest.mark.parametrize(
    ("dead", "rack", "names"),
    [
        ({}, [0, 1, 1], ("a", "b")),
        ({9: None}, [1, 2, 2, 0], ("", "a", "b")),
        ({8: None, 9: None}, [2, 3, 3, 0, 1], ("", "", "a", "b")),
        ({0: None, 8: "b", 9: None}, [0, 2, 3, 3, 3, 1], ("", "", "a", "b")),
    ],
)
def test_dead_brokers_without_a_rack_are_no_rack(
    dead: dict[int, str | None], rack: list[int], names: tuple[str, ...]
) -> None:
    """Two of them may hold one partition's replicas: that breaks no rack rule."""
    rows = [broker_row(b, rack=r) for b, r in ((1, "a"), (2, "b"), (3, "b"))]
    rows += [broker_row(b, rack=r, state="dead") for b, r in dead.items()]
    brokers = to_brokers(pd.DataFrame(rows))
    assert (brokers.rack.tolist(), brokers.rack_names) == (rack, names)


@pytest.mark.parametrize(
    ("factor", "sizes", "hosts", "cap"),
    [
        (3, [2, 2, 2], [2, 2, 2], 1),
        (4, [2, 2, 2], [2, 2, 2], 2),
        (3, [1, 5], [1, 5], 2),
        (4, [1, 5], [1, 5], 3),
        (4, [1, 3], [4, 4], 3),
        (5, [0, 4], [1, 4], 4),
        (5, [2, 2], [3, 2], 3),
        (5, [1, 3], [3, 3], 3),
        (5, [1, 3], [1, 3], 3),
        (3, [], [], 1),
    ],
)
def test_a_cap_is_the_least_with_which_all_replicas_have_a_place(
    factor: int, sizes: list[int], hosts: list[int], cap: int
) -> None:
    """Small racks raise the cap; hosts that take nothing count only where those that accept are too few."""
    found = rack_caps(np.array([factor, 1, factor]), np.array(sizes, dtype=int), np.array(hosts, dtype=int))
    assert found.tolist() == [cap, 1, cap]


@pytest.mark.parametrize(
    ("factor", "sizes", "share"),
    [(3, [3, 3, 3], 1 / 3), (2, [1, 4, 4], 2 / 9), (3, [1, 4, 4], 1), (2, [0, 4, 4], 1 / 4), (4, [1, 2], 1)],
)
def test_the_share_of_the_busiest_broker(factor: int, sizes: list[int], share: float) -> None:
    """Small racks, even with one broker, take what they can; empty racks take nothing; a broker holds at most one."""
    assert busiest_share(factor, np.array(sizes)) == pytest.approx(share)


@pytest.mark.parametrize(
    ("factor", "sizes", "floor"),
    [(3, [2, 2, 2], 0), (4, [2, 2, 2], 1), (7, [2, 2, 2], 2), (2, [1, 0, 1], 0), (3, [1, 0, 1], 1), (2, [0, 0], 2)],
)
def test_a_floor_begins_above_the_number_of_racks_with_brokers(factor: int, sizes: list[int], floor: int) -> None:
    """Up to one replica a rack nothing is owed to any; racks without brokers are none."""
    assert rack_floors(np.array([factor]), np.array(sizes)).tolist() == [floor]


def test_replicas_are_counted_by_rack() -> None:
    """Padding counts nowhere."""
    rack = np.array([0, 0, 1, 1])
    assert rack_histogram(np.array([[0, 2, -1], [3, 2, 1]]), rack, 3).tolist() == [[1, 1, 0], [1, 2, 0]]


def test_disorder_is_what_is_over_the_cap_and_what_is_missing_to_the_floor() -> None:
    """A rack owes no more replicas than it has brokers."""
    histogram = np.array([[3, 0, 0], [2, 1, 0], [2, 0, 0], [4, 2, 0]])
    cap, floor = np.array([2, 2, 2, 2]), np.array([1, 1, 2, 0])
    assert rack_disorder(histogram, cap, floor, np.array([3, 1, 0])).tolist() == [2, 0, 1, 2]
