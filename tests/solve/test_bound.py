"""The parts of the lower bounds, on figures small enough to reckon by hand."""

from dataclasses import replace

import numpy as np
import pytest

from optimizer.domain import FIXED, FORCED_ONLY, FREE, Bands
from optimizer.solve.bounds.bound import (
    band_price,
    copies_of,
    flow_bytes,
    flow_prices,
    forced_bytes,
    usable_prices,
    widen,
)
from tests.solve.clusters import make_brokers, make_partitions


def disks(*loads: float) -> np.ndarray:
    """Loads of brokers, or ends of their bands, in bytes; those of the other resources are far larger."""
    return np.array([[1000.0, load, 1000.0] for load in loads])


def between(lower: float, upper: float) -> Bands:
    """The same disk band for three brokers."""
    return Bands(("replicas", "disk", "in"), disks(*[lower] * 3), disks(*[upper] * 3))


@pytest.mark.parametrize(
    ("loads", "grown", "least"),
    [
        ((100, 40, 40), 0, 50),
        ((100, 20, 0), 0, 50),
        ((60, 10, 5), 0, 45),
        ((100, 40, 40), 7, 57),
        ((60, 10, 5), -9, 45),
    ],
)
def test_what_is_above_leaves_and_what_is_below_arrives(loads: tuple[float, ...], grown: float, least: int) -> None:
    """The larger of both must be copied; what changed replication factors add is copied too."""
    after = disks(*loads) + disks(grown, 0, 0) * np.array([0, 1, 0])
    assert flow_bytes(disks(*loads), between(30, 50), after) == least


@pytest.mark.parametrize(
    ("loads", "prices"),
    [
        ((100, 40, 40), [1, 0, 0]),
        ((60, 10, 5), [0, -1, -1]),
        ((60, 20, 40), [1, 0, 0]),
        ((50, 30, 40), [0, 0, 0]),
        ((50, 29, 40), [0, -1, 0]),
    ],
)
def test_prices_of_the_flow(loads: tuple[float, ...], prices: list[float]) -> None:
    """The side that moves more bytes has the prices: 1 above the band, else -1 below it; other resources have none."""
    flow = flow_prices(disks(*loads), between(30, 50))
    assert flow.tolist() == [[0, price, 0] for price in prices]


def test_only_bands_that_end_are_priced() -> None:
    """An upper limit that is infinite costs nothing and can't be charged; a lower one can."""
    prices = np.array([[2.0], [-3.0], [1.0], [-1.0]])
    ends = Bands(("x",), np.array([[1.0], [4.0], [2.0], [5.0]]), np.array([[10.0], [5.0], [np.inf], [np.inf]]))
    assert usable_prices(prices, ends).tolist() == [[2], [-3], [0], [-1]]
    assert band_price(prices, ends) == 2 * 10 - 3 * 4 - 1 * 5


def test_bands_widen_to_what_a_plan_reached() -> None:
    """A band holds its own ends and the loads after the plan."""
    widened = widen(between(30, 50), disks(20, 40, 60))
    assert widened.lower[:, 1].tolist() == [20, 30, 30]
    assert widened.upper[:, 1].tolist() == [50, 50, 60]


def test_copies_are_replicas_on_brokers_that_held_none() -> None:
    """Another order copies nothing, and neither does padding."""
    before = np.array([[0, 1, -1], [0, 1, 2], [3, 1, -1]])
    after = np.array([[1, 0, 2], [2, 0, -1], [0, 2, -1]])
    assert copies_of(before, after).tolist() == [1, 0, 2]


@pytest.mark.parametrize(
    ("mobility", "replicas", "draining", "forced"),
    [
        (FREE, [0, 1, 2], (), 10),
        (FREE, [0, 2, 4], (), 0),
        (FREE, [0, 2, 4], (4,), 10),
        (FORCED_ONLY, [0, 1, 2], (), 0),
        (FORCED_ONLY, [0, 2, 4], (4,), 10),
        (FIXED, [0, 2, 4], (4,), 0),
        (FIXED, [0, 1, 2], (), 0),
    ],
)
def test_what_every_plan_copies(mobility: int, replicas: list[int], draining: tuple[int, ...], forced: int) -> None:
    """Replicas of brokers to empty leave, those above a rack's cap too where the partition is free; fixed ones stay."""
    partitions = replace(make_partitions([replicas], [10]), mobility=np.array([mobility]))
    brokers = make_brokers([0, 0, 1, 1, 2, 2], draining=draining)
    assert forced_bytes(brokers, partitions, np.array([[1, 3, 5]])).tolist() == [forced]
    assert forced_bytes(brokers, partitions, np.array([replicas])).tolist() == [0]
