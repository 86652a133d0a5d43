"""Loads, bands and what is outside of them, on clusters small enough to reckon by hand."""

from dataclasses import replace

import numpy as np
import pytest

from optimizer.domain import Bands, Brokers
from optimizer.settings import Policy
from optimizer.solve.rules.bands import (
    bands,
    broker_violations,
    broker_weights,
    demand_of,
    disk_limit,
    excess,
    fullness,
    is_outside,
    leader_loads,
    leader_weights,
    load_scale,
    pour,
)
from optimizer.solve.rules.resources import DISK, REPLICAS
from tests.solve.clusters import make_brokers, make_cluster, make_partitions

OPEN = Policy(disk_band=0.5, replicas_band=0.5, in_band=0.5, disk_headroom=0.15)


def with_capacities(brokers: Brokers, disk: list[int], *, network: list[int] | None = None) -> Brokers:
    """The brokers with disks, and if given with networks of the same capacity in and out."""
    known = replace(brokers, disk_capacity_bytes=np.array(disk))
    if network is None:
        return known
    rates = np.array(network)
    return replace(known, in_capacity_bytes_per_s=rates, out_capacity_bytes_per_s=rates)


def test_headroom_stays_free_on_known_disks() -> None:
    """A broker may hold its disk less headroom; without a known disk there is no limit."""
    brokers = with_capacities(make_brokers([0, 0, 0]), [1000, 0, -1])
    assert disk_limit(brokers, Policy(disk_headroom=0.2)).tolist() == [800.0, np.inf, np.inf]


@pytest.mark.parametrize(("headroom", "lower", "upper"), [(0.15, 40, 85), (0.0, 40, 100), (0.7, 30, 30)])
def test_headroom_ends_the_disk_band(headroom: float, lower: float, upper: float) -> None:
    """The band of 80 bytes and half as much ends where a disk of 100 has its headroom, at its lower end too."""
    cluster = make_cluster(
        with_capacities(make_brokers([0, 1]), [100, 100]), make_partitions([[0], [1]], [90, 70], [6, 2])
    )
    ends = bands(cluster, replace(OPEN, disk_headroom=headroom))
    assert ends.lower[:, DISK].tolist() == pytest.approx([lower, lower])
    assert ends.upper[:, DISK].tolist() == pytest.approx([upper, upper])
    assert (ends.lower[0, 2], ends.upper[0, 2]) == (2.0, 6.0)


@pytest.mark.parametrize(
    ("partitions", "width", "lower", "upper"), [(5, 0.1, 2, 3), (4, 0.1, 2, 2), (20, 0.4, 6, 14), (20, 0.45, 6, 14)]
)
def test_bands_of_replicas_are_whole_and_hold_the_mean(partitions: int, width: float, lower: int, upper: int) -> None:
    """The band includes the whole numbers inside it, at least those around the mean."""
    cluster = make_cluster(
        make_brokers([0, 1]), make_partitions([[n % 2] for n in range(partitions)], [1] * partitions)
    )
    ends = bands(cluster, replace(OPEN, replicas_band=width))
    assert ends.lower[:, REPLICAS].tolist() == [lower, lower]
    assert ends.upper[:, REPLICAS].tolist() == [upper, upper]


def test_brokers_outside_the_balance_have_no_band() -> None:
    """One to empty may hold nothing, one that takes nothing keeps what it has, and the others share the rest."""
    brokers = make_brokers([0, 0, 0, 0], draining=(2,), excluded=(3,))
    partitions = make_partitions([[0], [1], [2], [3]], [10, 20, 30, 40])
    ends = bands(make_cluster(brokers, partitions), OPEN)
    assert ends.lower[:, DISK].tolist() == [15, 15, 0, 0]
    assert ends.upper[:, DISK].tolist() == [45, 45, 0, np.inf]


def test_small_racks_are_filled_and_the_others_take_the_rest() -> None:
    """A rack of one broker holds one replica of each partition at most; the mean of the other brokers is higher."""
    partitions = make_partitions([[0, 1], [1, 2]], [10, 10])
    ends = bands(make_cluster(make_brokers([0, 1, 1]), partitions), OPEN)
    assert (ends.lower[:, DISK] * 2).tolist() == pytest.approx([20, 10, 10])


def test_loads_of_leaders() -> None:
    """The first replica leads: it sends what consumers read and one copy to each follower."""
    partitions = make_partitions([[0, 1], [1, 0, 2]], [1, 1], [1, 2])
    assert leader_loads(3, partitions.replicas, partitions).tolist() == [[1, 3], [1, 8], [0, 0]]


@pytest.mark.parametrize(
    ("total", "weight", "low", "high", "shares"),
    [
        (10, [1, 1], [0, 0], [99, 99], [5, 5]),
        (10, [1, 4], [0, 0], [99, 99], [2, 8]),
        (10, [1, 1], [0, 0], [3, 99], [3, 7]),
        (10, [1, 1], [8, 0], [99, 99], [8, 2]),
        (10, [0, 1], [0, 0], [99, 99], [0, 10]),
        (10, [1, 1], [0, 9], [3, 99], [1, 9]),
        (12, [1, 1, 1], [0, 0, 0], [2, 4.5, 99], [2, 4.5, 5.5]),
        (10, [1, 1], [0, 0], [3, 4], [3, 4]),
        (10, [1, 1], [8, 8], [99, 99], [8, 8]),
        (10, [1, 1], [0, 7], [3, 99], [3, 7]),
    ],
)
def test_pouring(total: float, weight: list[float], low: list[float], high: list[float], shares: list[float]) -> None:
    """Shares go by weight, within their limits; what one can't hold goes to the others."""
    poured = pour(total, *(np.array(x, dtype=np.float64) for x in (weight, low, high)))
    assert poured.tolist() == pytest.approx(shares)


def test_capacities_weigh_brokers_where_all_are_known() -> None:
    """Twice the disk carries twice the load; networks weigh bytes in and leaders where each has one."""
    brokers, all_ = make_brokers([0, 0, 0], draining=(2,)), np.array([True, True, False])
    assert broker_weights(brokers, all_).tolist() == [[1, 1, 1], [1, 1, 1], [0, 0, 0]]
    disks = with_capacities(brokers, [300, 100, -1])
    assert broker_weights(disks, all_).tolist() == [[1.5, 1.5, 1.5], [0.5, 0.5, 0.5], [0, 0, 0]]
    assert leader_weights(disks, all_).tolist() == [1.5, 0.5, 0]
    networks = with_capacities(brokers, [300, 100, -1], network=[10, 30, -1])
    assert broker_weights(networks, all_).tolist() == [[1.5, 1.5, 0.5], [0.5, 0.5, 1.5], [0, 0, 0]]
    assert leader_weights(networks, all_).tolist() == [0.5, 1.5, 0]
    assert broker_weights(with_capacities(brokers, [300, 0, 7]), all_)[:, DISK].tolist() == [1, 1, 0]
    assert broker_weights(disks, np.zeros(3, dtype=bool)).tolist() == [[0, 0, 0]] * 3


def test_rounding_is_not_outside() -> None:
    """A load that floating point puts past an end of its band, by less than any byte, is inside; a byte is not."""
    gb = 10.0**9
    ends = Bands(("disk",), np.full((4, 1), gb), np.full((4, 1), 2 * gb))
    loads = np.array([[np.nextafter(gb, 0)], [np.nextafter(2 * gb, np.inf)], [gb - 1], [2 * gb + 1]])
    assert is_outside(loads, ends).ravel().tolist() == [False, False, True, True]


def test_what_is_outside_of_bands() -> None:
    """Excess is positive above, negative below; the violation is in mean loads; fullness is of the fullest resource."""
    lower, upper = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 0.0]]), np.array([[4.0, np.inf], [2.0, 10.0], [0.0, 0.0]])
    ends = Bands(("a", "b"), lower, upper)
    loads = np.array([[0.0, 5.0], [3.0, 12.0], [0.0, 0.0]])
    assert excess(loads, ends).tolist() == [[-1, 0], [1, 2], [0, 0]]
    assert broker_violations(loads, ends, np.array([1.0, 4.0])).tolist() == [1, 1.5, 0]
    assert fullness(loads, ends).tolist() == [0, 1.5, 0]
    assert fullness(np.array([[2.0, 0.0], [1.0, 12.0], [0.0, 1.0]]), ends).tolist() == [0.5, 1.2, np.inf]


def test_the_scale_is_the_mean_load_of_those_that_take_part() -> None:
    """Nothing is divided by less than one, by brokers that leave, or by none."""
    partitions = make_partitions([[0, 1], [1, 2]], [10, 30])
    brokers = make_brokers([0, 0, 0], draining=(2,))
    assert load_scale(brokers, demand_of(partitions)).tolist() == [2, 40, 1]
    assert load_scale(make_brokers([0], draining=(0,)), demand_of(partitions)).tolist() == [4, 80, 1]
