"""Whether a cluster gets another round."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from optimizer.configuration import build
from optimizer.settings import Policy, Settings
from optimizer.solve.rounds.cluster_round import ClusterRound
from optimizer.solve.rounds.next_round import next_round
from optimizer.solve.rounds.progress import Progress, after_round, curve_of
from optimizer.solve.rounds.sharding import shard_counts
from optimizer.solve.rules.bands import bands, broker_loads, demand_of, load_scale, replica_weights
from optimizer.solve.shard.search import CurvePoint
from optimizer.solve.shard.shard_status import ShardStatus
from optimizer.solve.tuning import TUNED
from tests.solve.clusters import make_brokers, make_cluster, make_partitions, solved_cluster


def shard_status(
    moves: int = 0, violation_after: float = 0.0, disordered: int = 0, status: str = "FEASIBLE", **known: Any
) -> ShardStatus:
    """What a round says of its only shard."""
    counts = {"brokers": 6, "partitions": 12, "candidates": 0, "objective_bytes": 0, "peak_memory_bytes": 0}
    nothing = {"message": None, "bound_bytes": None, "search_bytes": None, "violation_before": 0.0, "cpu_seconds": 0.0}
    lists: dict[str, Any] = {"broker_ids": (), "prices": (), "curve": ()}
    outcome = {"moves": moves, "violation_after": violation_after, "disordered": disordered, "status": status}
    return ShardStatus(**{"cluster_id": "c", "shard": 0, **counts, **nothing, **lists, **outcome, **known})


class History:
    """A cluster of six brokers on three racks, round after round."""

    def __init__(self, draining: tuple[int, ...] = ()) -> None:
        partitions = make_partitions([[i % 6, (i + 1) % 6] for i in range(12)], [10] * 12)
        cluster = make_cluster(make_brokers([0, 0, 1, 1, 2, 2], draining=draining), partitions)
        loads = broker_loads(6, partitions.replicas, replica_weights(partitions))
        demand = demand_of(partitions)
        scale = load_scale(cluster.brokers, demand)
        self.cluster = solved_cluster(
            cluster.brokers, bands(cluster, Policy()), loads, loads, demand=demand, scale=scale
        )
        self.number = 0

    @property
    def progress(self) -> Progress:
        """Where its rounds stand."""
        return self.cluster.progress

    def next(self, settings: Settings | None = None, first: int = 0) -> ClusterRound:
        """How it is cut in its next round."""
        return next_round(self.cluster, settings or Settings(), "c", self.number, first, TUNED)

    def close(self, statuses: Sequence[ShardStatus], settings: Settings | None = None) -> None:
        """The next round, with what its shards say."""
        done = after_round(self.progress, statuses, self.next(settings), self.cluster.loads)
        self.cluster = replace(self.cluster, progress=done)
        self.number += 1


@pytest.mark.parametrize(
    ("rounds", "another"),
    [
        pytest.param([shard_status(3)], False, id="all is done"),
        pytest.param([shard_status(3, 0.2)], True, id="a band is broken"),
        pytest.param([shard_status(0, 0.2)], False, id="a band is broken and nothing can move"),
        pytest.param([shard_status(3, 0.2), shard_status(3, 0.2)], True, id="one round did not repair the band"),
        pytest.param(
            [shard_status(3, 0.2), shard_status(3, 0.2), shard_status(3, 0.2)], False, id="two rounds have not"
        ),
        pytest.param(
            [shard_status(3, 0.2), shard_status(3, 0.2), shard_status(3, 0.1)],
            True,
            id="the second repaired some of it",
        ),
        pytest.param([shard_status(0, 0.0, 1)], True, id="racks are broken and nothing moves: other shards may do it"),
        pytest.param([shard_status(0, 0.0, 1), shard_status(0, 0.0, 1)], False, id="twice"),
        pytest.param([shard_status(0, 0.2, 0, "FAILED")], True, id="a shard has failed"),
        pytest.param([shard_status(0, 0.2, 0, "OUT_OF_TIME")], True, id="a shard was out of time"),
    ],
)
def test_another_round(rounds: list[ShardStatus], another: bool) -> None:
    """Rounds continue while they repair something, and once more if other shards may."""
    state = History()
    for status in rounds:
        state.close([status])
    assert state.progress.open == another


def test_the_curve_waits_for_a_round_without_failures() -> None:
    """Prices of shards that were solved stay, the points are those of the first round that all shards took part in."""
    state = History()
    point = CurvePoint(0.0, 2, 0.5, 0.0)
    ids, prices = tuple(range(6)), tuple(float(i + 1) for i in range(18))
    good = shard_status(2, broker_ids=ids, prices=prices, curve=(point,))
    state.close([good, shard_status(0, 0.2, status="FAILED")])
    again = state.next()
    assert state.progress.open
    assert again.search.move_prices == TUNED.curve_prices
    settled = shard_status(1, broker_ids=ids, prices=(0.0,) * 18, curve=(CurvePoint(0.0, 1, 0.25, 0.0),))
    state.close([settled])
    assert [p.moves for p in state.progress.curve] == [1]
    assert state.progress.prices.ravel().tolist() == list(prices)


@pytest.mark.parametrize(
    ("rounds", "another"),
    [
        pytest.param([shard_status(3, objective_bytes=1000, bound_bytes=995.0)], False, id="near its bound"),
        pytest.param([shard_status(3, objective_bytes=1000, bound_bytes=900.0)], True, id="far above it"),
        pytest.param([shard_status(3, objective_bytes=1000)], False, id="nothing is proven"),
        pytest.param(
            [shard_status(3, 0.0, 0, objective_bytes=1000, bound_bytes=900.0)] * 2, False, id="nothing was saved"
        ),
        pytest.param(
            [
                shard_status(3, objective_bytes=1000, bound_bytes=800.0),
                shard_status(3, objective_bytes=-90, bound_bytes=-190.0),
            ],
            True,
            id="something was saved, and more is left",
        ),
        pytest.param(
            [
                shard_status(3, objective_bytes=1000, bound_bytes=800.0),
                shard_status(3, objective_bytes=-190, bound_bytes=-195.0),
            ],
            False,
            id="what is left is little",
        ),
    ],
)
def test_rounds_that_search_for_fewer_bytes(rounds: list[ShardStatus], another: bool) -> None:
    """If all is met but shards are far above their own bounds, rounds continue while they save bytes."""
    state, settings = History(), build({"solver": {"shard_brokers": 2}})
    for number, status in enumerate(rounds):
        task = state.next(settings)
        assert task.search.improves is (number > 0)
        state.close([status], settings)
    assert state.progress.open is another


@pytest.mark.parametrize(("shard_brokers", "another"), [(6, True), (2, False)])
def test_a_cluster_of_one_shard_goes_on_at_a_smaller_gap(shard_brokers: int, another: bool) -> None:
    """Half a percent above the bound is worth another round where that is one task."""
    state, settings = History(), build({"solver": {"shard_brokers": shard_brokers}})
    state.close([shard_status(3, objective_bytes=1000, bound_bytes=995.0)], settings)
    assert state.progress.improving is another


def test_bytes_above_the_bound_are_remembered_until_the_bands_hold() -> None:
    """A shard far above its bound in one round asks for fewer bytes after one that only ended the breach of a band."""
    state = History()
    first = [shard_status(3, objective_bytes=1000, bound_bytes=500.0), shard_status(2, 0.2, objective_bytes=10)]
    state.close(first)
    assert state.progress.open and not state.progress.improving
    state.close([shard_status(0, bound_bytes=0.0), shard_status(1)])
    assert state.progress.open and state.progress.improving


@pytest.mark.parametrize(("tolerance", "another"), [(0.0, True), (0.01, False)])
def test_bytes_spent_on_fewer_moves_are_not_searched(tolerance: float, another: bool) -> None:
    """Half a percent above the bound is no reason for another round where the policy lets a percent be spent."""
    state, settings = History(), build({"policy": {"bytes_tolerance": tolerance}})
    state.close([shard_status(3, objective_bytes=1000, bound_bytes=995.0)], settings)
    assert state.progress.improving is another


def test_a_round_for_fewer_bytes_has_a_smaller_gap() -> None:
    """It takes a second look where a round before would not."""
    state = History()
    first = state.next()
    state.close([shard_status(3, objective_bytes=1000, bound_bytes=900.0)])
    improving = state.next()
    assert improving.search.improves
    assert improving.search.gap < first.search.gap


@pytest.mark.parametrize(("disordered", "working"), [(0, 3), (1, 6)])
def test_later_rounds_have_the_shards_that_need_work(disordered: int, working: int) -> None:
    """If only bands are unmet, brokers of shards inside their bands take no part."""
    state, settings = History(), build({"solver": {"shard_brokers": 2, "rack_shard_brokers": 2}})
    first = state.next(settings)
    assert sorted(first.shard) == [0, 0, 0, 1, 1, 1]
    state.close([shard_status(3, 0.2, disordered)])
    loads = state.cluster.loads * np.where(np.arange(6) == 3, 1.1, 1.0)[:, None]
    state.cluster = replace(state.cluster, loads=loads)
    shard = state.next(settings, 7).shard
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
def test_shards_are_smaller_where_brokers_hold_many_replicas(most: int, within: bool, counts: list[int]) -> None:
    """A task compares all pairs of its brokers and replicas: 6 brokers with 6 replicas each are 216 pairs."""
    brokers = make_brokers([0, 0, 0, 1, 1, 1] if not within else [0] * 6 + [1] * 6)
    shards = shard_counts(
        brokers, 6.0 * len(brokers), shard_brokers=50, within_racks=within, tuning=replace(TUNED, wide_cells=most)
    )
    assert shards.tolist() == counts


def test_the_last_round_knows_that_it_is_the_last() -> None:
    """There are as many rounds as configured, plus one for each replica of the longest list; then it is closed."""
    state, settings = History(), build({"solver": {"rounds": 1}})
    for number in range(3):
        task = state.next(settings)
        assert task.search.is_last is (number == 2)
        state.close([shard_status(3, 0.2 / (number + 1))], settings)
    assert not state.progress.open


@pytest.mark.parametrize(("limit", "points"), [(6, TUNED.curve_prices), (5, TUNED.short_curve_prices)])
def test_the_first_round_has_the_curve(limit: int, points: tuple[float, ...]) -> None:
    """A longer one up to the limit on brokers; later rounds try what the plan needs."""
    state, settings = History(), build({"solver": {"curve_brokers": limit}})
    task = state.next(settings)
    assert task.search.move_prices == points
    state.close([shard_status(3, 0.2)], settings)
    assert state.next(settings).search.move_prices == TUNED.plan_prices


def test_copies_made_before_belong_to_the_curve() -> None:
    """What was copied when the first balancing round starts is part of each point."""
    state, point = History(), CurvePoint(0.1, 2, 3.0, 0.0)
    copied = replace(state.progress, copied_moves=5, copied_bytes=700)
    state.cluster = replace(state.cluster, progress=copied)
    state.close([shard_status(2, curve=(point,))])
    assert [(p.moves, p.cost) for p in state.progress.curve] == [(7, 700 + 3.0 * state.cluster.scale[1])]


def test_the_curve_has_the_prices_that_all_shards_tried() -> None:
    """A sum over some of the shards is a point of no plan; shards with nothing to do have no points."""
    few, many = (
        shard_status(2, curve=(CurvePoint(0.1, 2, 3.0, 0.5), CurvePoint(price, 1, 1.0, 0.0))) for price in (1.0, 2.0)
    )
    points = curve_of([few, many, shard_status()], 10.0, moves=5, bytes_=700)
    assert points == (CurvePoint(0.1, 9, 760.0, 1.0),)


def test_the_best_that_searches_prove_is_kept() -> None:
    """The largest of what is proven, also where a later round searches nothing."""
    state = History()
    state.close([shard_status(3, 0.2, search_bytes=10), shard_status(3, 0.2, search_bytes=20), shard_status()])
    assert state.progress.search_bytes == 20
    state.close([shard_status(3, 0.1)])
    assert state.progress.search_bytes == 20


def test_the_owner_of_a_partition_changes_from_round_to_round() -> None:
    """Where nothing is urgent the shards of all its replicas have their turn, whatever its number is."""
    partitions = make_partitions([[i % 6, (i + 2) % 6] for i in range(6)], [10] * 6)
    task = replace(History().next(), shard=np.arange(6))
    ties = np.array([0, 1, 0, 1, 0, 1])
    owners = [
        replace(task, round=number)
        .shards_of(partitions.replicas, np.zeros((6, 2), dtype=bool), partitions.replication_factor, ties)[1]
        .tolist()
        for number in range(3)
    ]
    assert owners == [[0, 3, 2, 5, 4, 1], [2, 1, 4, 3, 0, 5], [0, 3, 2, 5, 4, 1]]


def test_replicas_on_a_broker_to_empty_need_another_round() -> None:
    """A cluster is open while a broker to empty holds something."""
    state = History(draining=(5,))
    state.close([shard_status(1)])
    assert state.progress.open
    loads = np.where(np.arange(6)[:, None] == 5, 0.0, state.cluster.loads)
    state.cluster = replace(state.cluster, loads=loads)
    state.close([shard_status(1)])
    assert not state.progress.open
