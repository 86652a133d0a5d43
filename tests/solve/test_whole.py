"""One broker's bands with whole replicas: the choice that is cheapest, what it proves, and plans that it decides."""

import itertools
from dataclasses import replace
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.generate import generate
from benchmarks.in_memory import cluster_of, solve
from optimizer.configuration import build, read_toml
from optimizer.domain import Bands, Cluster
from optimizer.settings import Policy
from optimizer.solve.assemble import ClusterFrame
from optimizer.solve.bands import broker_loads, replica_weights
from optimizer.solve.one_broker import CLOSE, cheapest, scarcest
from optimizer.solve.terms import partition_terms, split_terms
from optimizer.solve.whole_bound import best_whole_bound
from setup.paths import HOME
from tests.solve.clusters import (
    bounds,
    legal_sets,
    make_brokers,
    make_cluster,
    make_partitions,
    moved_bytes,
    plan_one_shard,
    tiny_clusters,
    tiny_with_policies,
)
from tests.solve.test_plans import RELAXED

EIGHTH = 0.125
SETTINGS = build(read_toml(HOME / "conf" / "default.toml"))


@st.composite
def choices(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Cost, effect, low and high of up to eight candidates and two resources; in eighths, which are whole units."""
    count = draw(st.integers(1, 8))
    eighths = st.integers(-20, 20).map(lambda n: n * EIGHTH)
    cost = draw(st.lists(eighths, min_size=count, max_size=count))
    effect = draw(st.lists(st.tuples(eighths, eighths), min_size=count, max_size=count))
    low = draw(st.tuples(eighths, st.just(-np.inf) | eighths))
    width = draw(st.tuples(st.integers(0, 30), st.integers(0, 30) | st.just(np.inf)))
    high = [a + n * EIGHTH if np.isfinite(a) and np.isfinite(n) else np.inf for a, n in zip(low, width, strict=True)]
    return np.array(cost), np.array(effect), np.array(low), np.array(high)


@RELAXED
@given(choices(), st.booleans())
def test_cheapest_choice_is_the_one_found_by_trying_all(
    drawn: tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray], for_bound: bool
) -> None:
    """There is none where none is inside the limits; else what is taken is inside, and costs as little as any."""
    cost, effect, low, high = drawn
    tried = [np.array(takes) for takes in itertools.product([False, True], repeat=len(cost))]
    inside = [takes for takes in tried if ((takes @ effect >= low) & (takes @ effect <= high)).all()]
    found = cheapest(cost, effect, low, high, for_bound=for_bound)
    assert (found is None) is (not inside)
    if found:
        optimum = min(float(takes @ cost) for takes in inside)
        assert any((found.takes == takes).all() for takes in inside)
        assert optimum - CLOSE <= found.least <= optimum <= found.takes @ cost <= optimum + CLOSE


@pytest.mark.parametrize(("for_bound", "inside"), [(True, True), (False, False)])
def test_rounding_lets_everything_in_for_a_bound_and_nothing_out_for_a_plan(for_bound: bool, inside: bool) -> None:
    """A load that meets its limit to a hundredth of a unit counts as inside for a bound, and as outside for a plan."""
    load = np.array([[1 / 3]])
    found = cheapest(np.array([-1.0]), load, np.array([-np.inf]), load[0], for_bound=for_bound)
    assert found is not None
    assert found.takes.tolist() == [inside]


@RELAXED
@given(tiny_clusters() | tiny_with_policies(), st.integers(0, 3), st.randoms(use_true_random=False))
def test_terms_without_and_with_a_broker_are_the_least_of_their_sets(
    cluster: Cluster, broker: int, random: Random
) -> None:
    """Each is the least over all legal sets that do not hold, or hold, the broker; the lesser one is the term."""
    brokers, partitions = cluster.brokers, cluster.partitions
    prices = np.array([[random.randint(-9, 9) for _ in range(3)] for _ in range(len(brokers))], dtype=np.float64)
    reached = partitions.replicas
    split = split_terms(brokers, partitions, prices, reached, broker)
    assert split.min(axis=1).tolist() == partition_terms(brokers, partitions, prices, reached).tolist()
    weights = replica_weights(partitions)
    for row in range(len(partitions)):
        held = set(reached[row].tolist())
        for chosen in legal_sets(cluster, row):
            copied = len(set(chosen) - held) * int(partitions.size_bytes[row])
            priced = sum(float(prices[b] @ weights[row]) for b in chosen)
            assert split[row, int(broker in chosen)] <= copied + priced + 1e-9


def shed_by_whole_replicas() -> Cluster:
    """Eight brokers with ten replicas of 40 each, and the first with four more: three of them must go."""
    replicas = [[b] for b in range(8) for _ in range(10)] + [[0]] * 4
    return make_cluster(make_brokers([0] * 8), make_partitions(replicas, [40] * len(replicas)))


def test_whole_replicas_prove_what_prices_cannot() -> None:
    """Prices prove the part of a replica that is over the band; whole replicas what the plan copies, to a byte."""
    cluster = shed_by_whole_replicas()
    planned = plan_one_shard(cluster, Policy(disk_band=0.1, replicas_band=2.0, in_band=9.0))
    _, _, lagrangian, whole = bounds(cluster, planned, planned.replicas)
    assert lagrangian < 100 < whole
    assert moved_bytes(cluster, planned.replicas) == 120 == whole + 1


def test_the_bound_names_the_broker_that_it_keeps() -> None:
    """It is the one that is short of something at the prices; where none is, nothing is proven."""
    cluster = shed_by_whole_replicas()
    planned = plan_one_shard(cluster, Policy(disk_band=0.1, replicas_band=2.0, in_band=9.0))
    loads = broker_loads(8, cluster.partitions.replicas, replica_weights(cluster.partitions))
    frame = ClusterFrame(cluster.brokers, planned.limits, loads, planned.scale)
    prices = np.zeros((8, 3))
    assert best_whole_bound(frame, cluster.partitions, prices, planned.replicas) == (-np.inf, None)
    prices[0, 1] = 1.0
    bound, broker_id = best_whole_bound(frame, cluster.partitions, prices, planned.replicas)
    assert (int(bound), broker_id) == (119, 0)


def test_brokers_with_a_price_come_by_what_their_breach_costs() -> None:
    """Then by what all their load costs. Without a price it costs nothing; a broker to empty has no band to keep."""
    loads, ones = np.array([[3.0], [2.0], [9.0], [1.0], [5.0]]), np.ones((5, 1))
    prices = np.array([[1.0], [4.0], [0.0], [7.0], [1.0]])
    leaving = np.array([False, False, False, False, True])
    assert scarcest(prices, loads, Bands((), ones, ones), leaving) == [1, 0, 3]


@pytest.mark.slow
@pytest.mark.parametrize("seed", [2, 3])
def test_few_whole_replicas_beside_many_forced_ones_leave_no_gap(seed: int) -> None:
    """Two brokers are emptied and another has to shed a few replicas: prices alone leave a gap of 0.2 %."""
    cluster = cluster_of(generate("S", "decom", seed), "decom")
    found = solve(cluster, replace(SETTINGS, solver=replace(SETTINGS.solver, curve_brokers=0)))
    assert found.violation < 1e-6
    assert found.bound_bytes <= found.moved_bytes <= 1.0005 * found.bound_bytes
