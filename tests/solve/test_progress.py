"""Whether a cluster gets another round."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytest

from optimizer.configuration import build
from optimizer.settings import Policy, Settings
from optimizer.solve import sharding
from optimizer.solve.bands import bands, broker_loads, demand_of, load_scale, replica_weights
from optimizer.solve.progress import ClusterState, close_round, next_round
from optimizer.solve.search import CURVE_PRICES, PLAN_PRICES, SHORT_CURVE_PRICES, CurvePoint
from optimizer.solve.sharding import shard_counts
from tests.solve.clusters import make_brokers, make_cluster, make_partitions


@dataclass
class Status:
    """What a round says of its only shard."""

    moves: int = 0
    violation_after: float = 0.0
    disordered: int = 0
    status: str = "FEASIBLE"
    objective_bytes: int = 0
    bound_bytes: float | None = None
    search_bytes: int | None = None
    broker_ids: Sequence[int] = ()
    prices: Sequence[float] = ()
    curve: Sequence[CurvePoint] = ()


def state_of(draining: tuple[int, ...] = ()) -> ClusterState:
    """A cluster of six brokers on three racks before its first round."""
    partitions = make_partitions([[i % 6, (i + 1) % 6] for i in range(12)], [10] * 12)
    cluster = make_cluster(make_brokers([0, 0, 1, 1, 2, 2], draining=draining), partitions)
    loads = broker_loads(6, partitions.replicas, replica_weights(partitions))
    demand = demand_of(partitions)
    limits, scale = bands(cluster, Policy()), load_scale(cluster.brokers, demand)
    return ClusterState(cluster.brokers, demand, limits, scale, loads, loads, np.zeros_like(loads), resized=False)


@pytest.mark.parametrize(
    ("rounds", "another"),
    [
        pytest.param([Status(3)], False, id="all is done"),
        pytest.param([Status(3, 0.2)], True, id="a band is broken"),
        pytest.param([Status(0, 0.2)], False, id="a band is broken and nothing can move"),
        pytest.param([Status(3, 0.2), Status(3, 0.2)], True, id="one round has not mended the band"),
        pytest.param([Status(3, 0.2), Status(3, 0.2), Status(3, 0.2)], False, id="two rounds have not"),
        pytest.param([Status(3, 0.2), Status(3, 0.2), Status(3, 0.1)], True, id="the second has mended some of it"),
        pytest.param([Status(0, 0.0, 1)], True, id="racks are broken and nothing moves: other shards may do it"),
        pytest.param([Status(0, 0.0, 1), Status(0, 0.0, 1)], False, id="twice"),
        pytest.param([Status(0, 0.2, 0, "FAILED")], True, id="a shard has failed"),
        pytest.param([Status(0, 0.2, 0, "OUT_OF_TIME")], True, id="a shard was out of time"),
    ],
)
def test_another_round(rounds: list[Status], another: bool) -> None:
    """Rounds go on while they mend something, and once more where other shards may."""
    state = state_of()
    for number, status in enumerate(rounds):
        close_round(state, [status], next_round(state, Settings(), "c", number, 0))
    assert state.open == another


def test_the_curve_waits_for_a_round_without_failures() -> None:
    """Prices of shards that were solved stay, the points are those of the first round that all shards took part in."""
    state = state_of()
    point = CurvePoint(0.0, 2, 0.5, 0.0)
    ids, prices = tuple(range(6)), tuple(float(i + 1) for i in range(18))
    good = Status(2, broker_ids=ids, prices=prices, curve=(point,))
    close_round(state, [good, Status(0, 0.2, status="FAILED")], next_round(state, Settings(), "c", 0, 0))
    again = next_round(state, Settings(), "c", 1, 0)
    assert state.open
    assert again.search.move_prices == CURVE_PRICES
    settled = Status(1, broker_ids=ids, prices=(0.0,) * 18, curve=(CurvePoint(0.0, 1, 0.25, 0.0),))
    close_round(state, [settled], again)
    assert [p.moves for p in state.curve] == [1]
    assert state.prices.ravel().tolist() == list(prices)


@pytest.mark.parametrize(
    ("rounds", "another"),
    [
        pytest.param([Status(3, objective_bytes=1000, bound_bytes=995.0)], False, id="near its bound"),
        pytest.param([Status(3, objective_bytes=1000, bound_bytes=900.0)], True, id="far above it"),
        pytest.param([Status(3, objective_bytes=1000)], False, id="nothing is proven"),
        pytest.param([Status(3, 0.0, 0, objective_bytes=1000, bound_bytes=900.0)] * 2, False, id="nothing was saved"),
        pytest.param(
            [Status(3, objective_bytes=1000, bound_bytes=800.0), Status(3, objective_bytes=-90, bound_bytes=-190.0)],
            True,
            id="something was saved, and more is left",
        ),
        pytest.param(
            [Status(3, objective_bytes=1000, bound_bytes=800.0), Status(3, objective_bytes=-190, bound_bytes=-195.0)],
            False,
            id="what is left is little",
        ),
    ],
)
def test_rounds_that_look_for_fewer_bytes(rounds: list[Status], another: bool) -> None:
    """Where all is done but shards lie far above their own bounds, rounds go on while they save bytes."""
    state, settings = state_of(), build({"solver": {"shard_brokers": 2}})
    for number, status in enumerate(rounds):
        task = next_round(state, settings, "c", number, 0)
        assert task.search.improves is (number > 0)
        close_round(state, [status], task)
    assert state.open is another


@pytest.mark.parametrize(("shard_brokers", "another"), [(6, True), (2, False)])
def test_a_cluster_of_one_shard_goes_on_at_a_smaller_gap(shard_brokers: int, another: bool) -> None:
    """Half a percent above the bound is worth another round where that is one task."""
    state, settings = state_of(), build({"solver": {"shard_brokers": shard_brokers}})
    close_round(state, [Status(3, objective_bytes=1000, bound_bytes=995.0)], next_round(state, settings, "c", 0, 0))
    assert state.improving is another


def test_bytes_above_the_bound_are_remembered_until_the_bands_hold() -> None:
    """A shard far above its bound in one round asks for fewer bytes after one that only ended the breach of a band."""
    state = state_of()
    first = [Status(3, objective_bytes=1000, bound_bytes=500.0), Status(2, 0.2, objective_bytes=10)]
    close_round(state, first, next_round(state, Settings(), "c", 0, 0))
    assert state.open and not state.improving
    close_round(state, [Status(0, bound_bytes=0.0), Status(1)], next_round(state, Settings(), "c", 1, 0))
    assert state.open and state.improving


@pytest.mark.parametrize(("tolerance", "another"), [(0.0, True), (0.01, False)])
def test_bytes_spent_on_fewer_moves_are_not_looked_for(tolerance: float, another: bool) -> None:
    """Half a percent above the bound is no reason for another round where the policy lets a percent be spent."""
    state, settings = state_of(), build({"policy": {"bytes_tolerance": tolerance}})
    close_round(state, [Status(3, objective_bytes=1000, bound_bytes=995.0)], next_round(state, settings, "c", 0, 0))
    assert state.improving is another


def test_a_round_for_fewer_bytes_looks_closer() -> None:
    """It takes a second look where a round before would not."""
    state = state_of()
    first = next_round(state, Settings(), "c", 0, 0)
    close_round(state, [Status(3, objective_bytes=1000, bound_bytes=900.0)], first)
    improving = next_round(state, Settings(), "c", 1, 0)
    assert improving.search.improves
    assert improving.search.gap < first.search.gap


@pytest.mark.parametrize(("disordered", "working"), [(0, 3), (1, 6)])
def test_later_rounds_have_the_shards_that_need_work(disordered: int, working: int) -> None:
    """Where only bands are left to mend, brokers of shards that are inside theirs take no part."""
    state, settings = state_of(), build({"solver": {"shard_brokers": 2, "rack_shard_brokers": 2}})
    first = next_round(state, settings, "c", 0, 0)
    assert sorted(first.shard) == [0, 0, 0, 1, 1, 1]
    close_round(state, [Status(3, 0.2, disordered)], first)
    state.loads = state.loads * np.where(np.arange(6) == 3, 1.1, 1.0)[:, None]
    shard = next_round(state, settings, "c", 1, 7).shard
    assert (shard >= 0).sum() == working
    assert shard[3] >= 7
    assert set(shard[shard >= 0]) == set(range(7, 7 + working // 3))


@pytest.mark.parametrize(
    ("most", "within", "counts"),
    [
        (6 * 6 * 6, False, [1]),
        (6 * 6 * 6 - 1, False, [2]),
        (6 * 3 * 3, False, [2]),
        (1, True, [6, 6]),
        (150, True, [2, 2]),
    ],
)
def test_shards_are_smaller_where_brokers_hold_many_replicas(
    monkeypatch: pytest.MonkeyPatch, most: int, within: bool, counts: list[int]
) -> None:
    """So many brokers that a task looks at all their pairs: 6 of them with 6 replicas each are 216 pairs."""
    monkeypatch.setattr(sharding, "MOST_CELLS", most)
    brokers = make_brokers([0, 0, 0, 1, 1, 1] if not within else [0] * 6 + [1] * 6)
    found = shard_counts(brokers, 6.0 * len(brokers), shard_brokers=50, within_racks=within)
    assert found.tolist() == counts


def test_the_last_round_knows_that_it_is_the_last() -> None:
    """There are so many rounds as asked for, and one more for each replica of a list; then the cluster is closed."""
    state, settings = state_of(), build({"solver": {"rounds": 1}})
    for number in range(3):
        task = next_round(state, settings, "c", number, 0)
        assert task.search.is_last is (number == 2)
        close_round(state, [Status(3, 0.2 / (number + 1))], task)
    assert not state.open


@pytest.mark.parametrize(("limit", "points"), [(6, CURVE_PRICES), (5, SHORT_CURVE_PRICES)])
def test_the_first_round_has_the_curve(limit: int, points: tuple[float, ...]) -> None:
    """A longer one up to the limit on brokers; later rounds try what the plan needs."""
    state, settings = state_of(), build({"solver": {"curve_brokers": limit}})
    task = next_round(state, settings, "c", 0, 0)
    assert task.search.move_prices == points
    close_round(state, [Status(3, 0.2)], task)
    assert next_round(state, settings, "c", 1, 0).search.move_prices == PLAN_PRICES


def test_copies_made_before_belong_to_the_curve() -> None:
    """What was copied when the first balancing round starts is part of each point."""
    state, point = state_of(), CurvePoint(0.1, 2, 3.0, 0.0)
    state.copied_moves, state.copied_bytes = 5, 700
    close_round(state, [Status(2, curve=(point,))], next_round(state, Settings(), "c", 0, 0))
    assert [(p.moves, p.cost) for p in state.curve] == [(7, 700 + 3.0 * state.scale[1])]


def test_replicas_on_a_broker_to_empty_ask_for_another_round() -> None:
    """A cluster is open while a broker to empty holds something."""
    state = state_of(draining=(5,))
    close_round(state, [Status(1)], next_round(state, Settings(), "c", 0, 0))
    assert state.open
    state.loads = np.where(np.arange(6)[:, None] == 5, 0.0, state.loads)
    close_round(state, [Status(1)], next_round(state, Settings(), "c", 1, 0))
    assert not state.open
