"""One broker's bands with whole replicas: the choice that is cheapest, what it proves, and plans that it decides."""

import itertools
import math
from dataclasses import replace
from random import Random

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from benchmarks.generate import generate
from benchmarks.planned import cluster_of, solve
from optimizer.configuration import build, read_toml
from optimizer.domain import FIXED, FREE, Bands, Cluster, Floats
from optimizer.settings import Policy
from optimizer.solve.bounds.bound import usable_prices, widen
from optimizer.solve.bounds.terms import partition_terms, split_terms
from optimizer.solve.bounds.tighter_bounds import best_whole_bound, whole_bound
from optimizer.solve.rules.bands import bands, broker_loads, demand_of, load_scale, replica_weights
from optimizer.solve.rules.resources import DISK
from optimizer.solve.shard import trials
from optimizer.solve.shard.assemble import ClusterFrame
from optimizer.solve.shard.one_broker import Whole, cheapest, scarcest
from optimizer.solve.shard.shard_solver import solve_shard
from optimizer.solve.shard.trials import scarce_decided
from optimizer.solve.tuning import TUNED, Tuning
from setup.paths import HOME
from tests.solve.clusters import (
    ALONE,
    SEARCH,
    legal_sets,
    make_brokers,
    make_cluster,
    make_partitions,
    moved_bytes,
    one_shard,
    plan_cluster,
    tiny_clusters,
    tiny_with_policies,
)
from tests.solve.test_plans import RELAXED
from tests.solve.test_swaps import as_shard

EIGHTH = 0.125
MOST_PLANS = 400
SETTINGS = build(read_toml(HOME / "conf" / "default.toml"))


CLOSE = TUNED.scarce_close


def choice(cost: Floats, effect: Floats, low: Floats, high: Floats, *, for_bound: bool) -> Whole | None:
    """The cheapest choice, as near to its bound as the solver asks."""
    return cheapest(cost, effect, low, high, close=CLOSE, for_bound=for_bound)


@st.composite
def choices(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Cost, effect, low and high of up to eight candidates and two resources, in whole units; costs in eighths, or in
    steps so small that the first choice found may be near enough."""
    count = draw(st.integers(1, 8))
    eighths = st.integers(-20, 20).map(lambda n: n * EIGHTH)
    step = draw(st.sampled_from([EIGHTH, CLOSE / 16]))
    cost = [n * step for n in draw(st.lists(st.integers(-20, 20), min_size=count, max_size=count))]
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
    whole = choice(cost, effect, low, high, for_bound=for_bound)
    assert (whole is None) is (not inside)
    if whole:
        optimum = min(float(takes @ cost) for takes in inside)
        assert any((whole.takes == takes).all() for takes in inside)
        assert optimum - CLOSE <= whole.least <= optimum <= whole.takes @ cost <= optimum + CLOSE


def test_a_choice_that_is_near_enough_proves_no_more_than_the_best() -> None:
    """If the search ends early, the bound is that of the search, not the cost of its choice."""
    generator, early = np.random.default_rng(1), 0
    for _ in range(20):
        cost, effect = (generator.integers(1, 30, (2, 9)) * EIGHTH).astype(np.float64)
        tried = np.array(list(itertools.product([False, True], repeat=9)))
        optimum = (tried @ cost)[tried @ effect >= 7].min()
        whole = cheapest(cost, effect[:, None], np.array([7.0]), np.array([np.inf]), close=2.0**20, for_bound=True)
        assert whole is not None
        assert whole.least <= optimum <= whole.takes @ cost
        early += optimum < whole.takes @ cost
    assert early


def test_numbers_that_a_float_could_not_distinguish_are_not_tried() -> None:
    """The bound is in units of 2^-30 and a float: exact up to 2^53 of them."""
    effect, free = np.array([[1.0]]), np.array([np.inf])
    assert choice(np.array([2.0**22]), effect, -free, free, for_bound=True) is not None
    assert choice(np.array([2.0**22 + 1]), effect, -free, free, for_bound=True) is None


@pytest.mark.parametrize(("for_bound", "inside"), [(True, True), (False, False)])
def test_rounding_lets_everything_in_for_a_bound_and_nothing_out_for_a_plan(for_bound: bool, inside: bool) -> None:
    """A load that meets its limit to a hundredth of a unit counts as inside for a bound, and as outside for a plan."""
    load = np.array([[1 / 3]])
    whole = choice(np.array([-1.0]), load, np.array([-np.inf]), load[0], for_bound=for_bound)
    assert whole is not None
    assert whole.takes.tolist() == [inside]


def stranded() -> Cluster:
    """RF 2 on two racks; the second has a broker that only keeps what it holds, and one that is to be emptied."""
    return make_cluster(make_brokers([0, 1, 0, 1], draining=(3,), excluded=(1,)), make_partitions([[0, 1]], [1]))


@RELAXED
@example(stranded(), 1, Random(1))
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


@RELAXED
@given(tiny_clusters() | tiny_with_policies(), st.randoms(use_true_random=False))
def test_no_plan_as_balanced_moves_less_than_a_whole_bound(cluster: Cluster, random: Random) -> None:
    """At any prices, for any broker, and of all placements that keep the rules and the bands of one of them."""
    brokers, partitions = cluster.brokers, cluster.partitions
    choices = [legal_sets(cluster, row) for row in range(len(partitions))]
    assume(0 < math.prod(len(sets) for sets in choices) <= MOST_PLANS)
    width, weights = partitions.replicas.shape[1], replica_weights(partitions)
    plans = [np.array([[*s, *[-1] * (width - len(s))] for s in sets]) for sets in itertools.product(*choices)]
    loads = np.array([broker_loads(len(brokers), plan, weights) for plan in plans])
    reached = random.randrange(len(plans))
    limits, scale = widen(bands(cluster, Policy()), loads[reached]), load_scale(brokers, demand_of(partitions))
    inside = ((loads >= limits.lower) & (loads <= limits.upper)).all(axis=(1, 2))
    least = min(moved_bytes(cluster, plans[i]) for i in np.flatnonzero(inside))
    before = broker_loads(len(brokers), partitions.replicas, weights)
    frame = ClusterFrame(brokers, limits, before, scale, TUNED)
    drawn = np.array([[random.choice([0, random.uniform(-9, 9)]) for _ in range(3)] for _ in range(len(brokers))])
    prices = usable_prices(drawn * scale[DISK] / scale, limits)
    for broker in range(len(brokers)):
        assert np.floor(whole_bound(frame, partitions, prices, plans[reached], broker)) <= least


def shed_by_whole_replicas() -> Cluster:
    """Eight brokers with ten replicas of 40 each, and the first with four more: three of them must go."""
    replicas = [[b] for b in range(8) for _ in range(10)] + [[0]] * 4
    return make_cluster(make_brokers([0] * 8), make_partitions(replicas, [40] * len(replicas)))


def test_whole_replicas_prove_what_prices_cannot() -> None:
    """Prices prove the part of a replica that is over the band; whole replicas what the plan copies, to a byte."""
    cluster = shed_by_whole_replicas()
    planned = plan_cluster(cluster, Policy(disk_band=0.1, replicas_band=2.0, in_band=9.0))
    lagrangian = planned.bounds(replace(TUNED, whole_gap=np.inf))["lagrangian"]
    whole = planned.bounds()["lagrangian"]
    assert lagrangian < 100 < whole
    assert moved_bytes(cluster, planned.replicas) == 120 == whole + 1


def test_what_may_not_leave_the_broker_is_part_of_its_load() -> None:
    """With half of its replicas fixed, the others prove the same."""
    cluster = shed_by_whole_replicas()
    planned = plan_cluster(cluster, Policy(disk_band=0.1, replicas_band=2.0, in_band=9.0))
    mobility = np.where(np.arange(len(cluster.partitions)) % 2, FIXED, FREE)
    staying = replace(cluster.partitions, mobility=np.where(planned.replicas[:, 0] == 0, mobility, FREE))
    loads = broker_loads(8, staying.replicas, replica_weights(staying))
    frame = ClusterFrame(cluster.brokers, planned.bands, loads, planned.scale, TUNED)
    prices = np.zeros((8, 3))
    prices[0, DISK] = 1.0
    assert int(whole_bound(frame, staying, prices, planned.replicas, 0)) == 119


def test_the_bound_names_the_broker_that_it_keeps() -> None:
    """It is the one that is short of something at the prices; where none is, nothing is proven."""
    cluster = shed_by_whole_replicas()
    planned = plan_cluster(cluster, Policy(disk_band=0.1, replicas_band=2.0, in_band=9.0))
    loads = broker_loads(8, cluster.partitions.replicas, replica_weights(cluster.partitions))
    frame = ClusterFrame(cluster.brokers, planned.bands, loads, planned.scale, TUNED)
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


def test_a_scarce_broker_gives_up_the_least_bytes_that_do() -> None:
    """Of replicas of many sizes those leave that bring the broker into its band at the least bytes, and only they may;
    each row is still of the partition that it was of."""
    sizes = [37, 41, 53, 59, 61, 67, 71, 73, 79, 83]
    replicas = [[b] for b in range(1, 6) for _ in range(5)] + [[0]] * len(sizes)
    cluster = make_cluster(make_brokers([0] * 6), make_partitions(replicas, [60] * 25 + sizes))
    problem, options = as_shard(cluster, Policy(disk_band=0.1, replicas_band=9.0, in_band=9.0))
    prices = np.zeros((6, 3))
    prices[0, DISK] = 1.0
    decision = scarce_decided(problem, options, prices)
    assert decision is not None
    decided, rows = decision
    assert (options.partition[rows] == decided.partition).all()
    assert (options.allowed[rows] | ~decided.allowed).all()
    go = np.flatnonzero(decided.needed) - 25
    over = float((problem.members.loads[0] - problem.members.upper[0])[DISK] * problem.members.scale[DISK])
    fits = (sum(c) for n in range(len(sizes) + 1) for c in itertools.combinations(sizes, n) if sum(c) >= over)
    assert sum(sizes[i] for i in go) == min(fits)
    assert set(decided.partition[decided.source == 0].tolist()) == set((go + 25).tolist())
    assert not decided.allowed[:, 0].any()


def test_rows_are_those_of_the_first_options_after_two_decisions() -> None:
    """What the first broker closes is gone when the second is decided."""
    sizes = [37, 41, 53, 59, 61, 67, 71, 73, 79, 83]
    replicas = [[0]] * len(sizes) + [[b] for b in range(2, 9) for _ in range(5)] + [[1]] * len(sizes)
    cluster = make_cluster(make_brokers([0] * 9), make_partitions(replicas, [*sizes, *[60] * 35, *sizes]))
    problem, options = as_shard(cluster, Policy(disk_band=0.1, replicas_band=9.0, in_band=9.0))
    prices = np.zeros((9, 3))
    prices[:2, DISK] = 1.0
    found = scarce_decided(problem, options, prices)
    assert found is not None
    decided, rows = found
    assert set(decided.source[decided.needed[decided.partition]].tolist()) == {0, 1}
    assert (options.partition[rows] == decided.partition).all()
    assert (options.source[rows] == decided.source).all()


def test_a_band_of_replicas_may_be_filled_to_its_end() -> None:
    """A broker that must end with just so many replicas is decided, though a third of a load has no whole number."""
    cluster = make_cluster(make_brokers([0] * 3), make_partitions([[0]] * 5 + [[1], [2]], [60] * 7))
    problem, options = as_shard(cluster, Policy(disk_band=9.0, replicas_band=0.0, in_band=9.0))
    most = np.array([[3.0, 9.0, 9.0], [2.0, 9.0, 9.0], [2.0, 9.0, 9.0]])
    members, scale = problem.members, problem.members.scale[0]
    exact = replace(problem, members=replace(members, lower=most * [1, 0, 0] / scale, upper=most / scale))
    prices = np.zeros((3, 3))
    prices[0, 0] = 1.0
    found = scarce_decided(exact, options, prices)
    assert found is not None
    assert found[0].needed.sum() == 2


def test_brokers_that_are_not_few_are_not_decided() -> None:
    """What is decided for one leaves less to the next."""
    cluster = shed_by_whole_replicas()
    problem, options = as_shard(cluster, Policy(disk_band=0.1))
    assert scarce_decided(problem, options, np.ones((8, 3))) is None
    assert scarce_decided(problem, options, np.zeros((8, 3))) is None


def test_bytes_that_are_paid_count_once_for_a_partition() -> None:
    """Also for one with several rows: one for each of its replicas that must leave a broker, and one for the rest."""
    replicas = [[0, 1], [2, 3], [2, 4], [3, 4]]
    cluster = make_cluster(make_brokers([0] * 5, draining=(0, 1)), make_partitions(replicas, [100, 10, 10, 10]))
    problem, _ = as_shard(cluster, Policy())
    assert len(problem.rows.of) > len(np.unique(problem.rows.of))
    rows = problem.rows
    moved = replace(rows, on_original=rows.on_original & (rows.of > 0)[:, None])
    assert problem.paid == 0
    assert replace(problem, rows=moved).paid * problem.members.scale[DISK] == pytest.approx(200)


def test_a_plan_that_decides_a_scarce_broker_first_loses_half() -> None:
    """One round on 30 brokers, two of them to be emptied: 0.11 % above the bound, and 0.21 % without the decision."""
    cluster = cluster_of(generate("S", "decom", 2), "decom")

    def gap(tuning: Tuning) -> float:
        found = solve_shard(one_shard(cluster, Policy(), tuning), SEARCH)
        assert found.bound is not None
        return found.cost / found.bound - 1

    assert gap(TUNED) < 0.0015 < 0.0018 < gap(replace(TUNED, decides_scarce=False))


@pytest.mark.parametrize(("band", "may_decide"), [(0.17, True), (0.02, False)])
def test_nothing_is_decided_while_a_band_is_broken(
    monkeypatch: pytest.MonkeyPatch, band: float, may_decide: bool
) -> None:
    """The next round may repair the bands that a shard left unmet, at fewer bytes."""
    asked = []
    monkeypatch.setattr(trials, "scarce_decided", lambda *_: asked.append(1))
    cluster = make_cluster(make_brokers([0, 0]), make_partitions([[0]] * 10 + [[1]] * 4, [31, *[10] * 9, *[17] * 4]))
    solve_shard(one_shard(cluster, Policy(disk_band=band, replicas_band=1.0, in_band=10), ALONE), SEARCH)
    assert bool(asked) is may_decide


@pytest.mark.all_only
@pytest.mark.parametrize("seed", [2, 3])
def test_few_whole_replicas_beside_many_forced_ones_leave_no_gap(seed: int) -> None:
    """Two brokers are emptied and another has to shed a few replicas: prices alone leave a gap of 0.2 %."""
    cluster = cluster_of(generate("S", "decom", seed), "decom")
    found = solve(cluster, replace(SETTINGS, solver=replace(SETTINGS.solver, curve_brokers=0)))
    assert found.violation < 1e-6
    assert found.bound_bytes <= found.moved_bytes <= 1.0005 * found.bound_bytes
