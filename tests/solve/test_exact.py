"""The proof over all placements of a small cluster: whole bytes, from the placement before the plan, or no claim."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from optimizer.domain import FIXED, FORCED_ONLY, FREE, Bands, Cluster
from optimizer.settings import Policy
from optimizer.solve.rules.bands import broker_loads, replica_weights
from optimizer.solve.shard.assemble import ClusterFrame, assemble
from optimizer.solve.shard.exact import copied_bytes, meets_rules, solve_small, whole_ends
from optimizer.solve.shard.search import Search
from optimizer.solve.shard.shard_problem import ShardProblem
from optimizer.solve.shard.shard_solver import ShardSolution, solve_shard
from optimizer.solve.tuning import TUNED, Tuning
from tests.examples import examples
from tests.solve.clusters import (
    ALONE,
    SEARCH,
    brute_force,
    is_in_order,
    make_brokers,
    make_cluster,
    make_partitions,
    moved_bytes,
    one_shard,
    plan_cluster,
    tiny_clusters,
    with_pins,
)

WIDE = Policy(disk_band=0.6, replicas_band=1.0, in_band=2.0)
RELAXED = settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])


def first_round(cluster: Cluster, policy: Policy, search: Search, tuning: Tuning = TUNED) -> ShardSolution:
    """The first round, all brokers in one shard."""
    return solve_shard(one_shard(cluster, policy, tuning), search)


@pytest.mark.parametrize("limit", [2.0, 1e-4])
@RELAXED
@given(cluster=tiny_clusters() | tiny_clusters(largest_bytes=10**12) | with_pins(tiny_clusters()))
def test_searched_bytes_are_no_more_than_the_optimum(limit: float, cluster: Cluster) -> None:
    """What a search has proven is the least of all placements inside the bands, or less where it met its limit."""
    planned = plan_cluster(cluster, WIDE, tuning=replace(TUNED, exact_time_limit=limit))
    if planned.search_bytes is not None:
        optimum = brute_force(cluster, planned.bands, planned.scale)
        assert optimum is not None
        assert planned.search_bytes <= optimum <= moved_bytes(cluster, planned.replicas)
        assert planned.search_bytes == optimum or limit < 1


def test_placement_at_the_very_edge_of_a_band_counts() -> None:
    """Nine of ten replicas a broker is just inside a band of a tenth: no proof leaves such a placement out."""
    replicas = [[0]] * 13 + [[1]] * 9 + [[2]] * 8
    cluster = make_cluster(make_brokers([0, 0, 0]), make_partitions(replicas, [7] * 30))
    planned = plan_cluster(cluster, Policy(disk_band=0.1, replicas_band=0.1))
    assert planned.search_bytes == moved_bytes(cluster, planned.replicas) == 2 * 7


def test_no_claim_where_the_bands_cannot_be_met() -> None:
    """One replica as large as all others: no placement is inside the bands, and nothing is said to be exact."""
    cluster = make_cluster(make_brokers([0, 0, 0]), make_partitions([[0], [0], [1]], [90, 1, 1]))
    assert plan_cluster(cluster, Policy()).search_bytes is None


@pytest.mark.parametrize(("mobility", "least"), [(FREE, 40), (FORCED_ONLY, 40), (FIXED, None)])
def test_proof_knows_how_free_partitions_are(mobility: int, least: int | None) -> None:
    """Broker 0 drains: its four replicas leave it whether the partitions are free or only forced; fixed ones can't."""
    partitions = make_partitions([[0, 1]] * 2 + [[0, 2]] * 2, [10] * 4)
    partitions.mobility[:] = mobility
    cluster = make_cluster(make_brokers([0, 1, 2, 3], draining=(0,)), partitions)
    assert first_round(cluster, Policy(disk_band=10, replicas_band=10, in_band=10), SEARCH).search_bytes == least


def test_policy_price_on_moves_keeps_its_plan_beside_the_proof() -> None:
    """At a high price on moves one large replica moves instead of two small ones of fewer bytes; the proof is of
    the fewer bytes."""
    cluster = make_cluster(make_brokers([0, 0]), make_partitions([[0]] * 10 + [[1]] * 4, [31, *[10] * 9, *[17] * 4]))
    policy = Policy(disk_band=0.17, replicas_band=1.0, in_band=10)
    cheap = first_round(cluster, policy, SEARCH)
    few = first_round(cluster, policy, replace(SEARCH, move_prices=(20.0,)))
    assert (len(cheap.partition), cheap.search_bytes) == (2, 20)
    assert (len(few.partition), few.search_bytes) == (1, 20)
    assert few.status == "FEASIBLE"


@pytest.mark.parametrize("least", [10**7, 10**10])
def test_twice_the_bound_is_not_called_optimal(least: int) -> None:
    """However small the only replica that may move is against the load of a broker: its band needs half of it."""
    tera, sizes = 10**12, [10**12] * 19 + [10**12 - least] + [10**12] * 10 + [least]
    cluster = make_cluster(
        make_brokers([0, 0, 0]), make_partitions([[b] for b in (0, 1, 2) for _ in range(10)] + [[0]], sizes)
    )
    solution = first_round(cluster, Policy(disk_band=0.05 * least / tera, replicas_band=5, in_band=9), SEARCH, ALONE)
    assert (len(solution.partition), solution.violation_after, solution.status) == (1, 0.0, "FEASIBLE")
    assert solution.bound == pytest.approx(solution.cost / 2, rel=1e-3)


@given(st.integers(0, 10**14), st.floats(0.0, 1.0))
def test_whole_ends_lose_no_whole_load(load: int, width: float) -> None:
    """A load inside a band is inside its whole ends, however the ends are scaled and back."""
    edge = float(load)
    ends = Bands((), np.array([[edge / 3.7 * 3.7]]), np.array([[edge / 3.7 * 3.7 * (1 + width)]]))
    lower, upper = whole_ends(ends)
    assert lower[0, 0] <= load <= upper[0, 0]
    assert lower[0, 0] >= load - 1


@pytest.mark.parametrize("seed", range(12))
def test_bands_that_can_be_met_are_met(seed: int) -> None:
    """Where single moves are stuck outside the bands, a placement inside them is found for a small cluster."""
    draws = np.random.default_rng(seed)
    brokers, count = int(draws.integers(6, 9)), int(draws.integers(10, 30))
    lists = [draws.choice(brokers, int(draws.integers(1, 4)), replace=False).tolist() for _ in range(count)]
    sizes, rates = draws.integers(1, 60, count).tolist(), draws.integers(0, 9, count).tolist()
    cluster = make_cluster(make_brokers([b % 3 for b in range(brokers)]), make_partitions(lists, sizes, rates))
    policy = Policy(disk_band=0.15, replicas_band=0.2, in_band=0.25)
    planned = plan_cluster(cluster, policy)
    whole = one_row_each(one_shard(cluster, policy))
    assert is_in_order(cluster, planned) is (solve_small(whole, whole.rows.held) is not None)


def one_row_each(problem: ShardProblem) -> ShardProblem:
    """The problem with one row for each partition."""
    return replace(problem, rows=problem.rows.one_per_partition())


def small_problem(seed: int) -> tuple[ShardProblem, ShardProblem]:
    """A small skewed cluster as one shard, before its plan and after one of single moves alone."""
    draws = np.random.default_rng(seed)
    brokers, count = int(draws.integers(5, 9)), int(draws.integers(30, 50))
    skew = draws.dirichlet(np.full(brokers, 1.5))
    lists = [draws.choice(brokers, int(f), replace=False, p=skew).tolist() for f in draws.integers(1, 4, count)]
    sizes = (draws.lognormal(3, 1.2, count) * 1e9).astype(int).tolist()
    rates = (draws.lognormal(2, 1, count) * 1e5).astype(int).tolist()
    racks = [b % int(2 + seed % 3) for b in range(brokers)]
    cluster = make_cluster(make_brokers(racks), make_partitions(lists, sizes, rates))
    policy = Policy(disk_band=0.25, replicas_band=0.25, in_band=0.25)
    planned = plan_cluster(cluster, policy, brief=True, tuning=ALONE)
    problems = []
    for placed in (cluster.partitions.replicas, planned.replicas):
        loads = broker_loads(brokers, placed, replica_weights(cluster.partitions))
        frame = ClusterFrame(cluster.brokers, planned.bands, loads, planned.scale, TUNED)
        owner = np.ones(count, dtype=bool)
        problems.append(one_row_each(assemble(frame, np.arange(brokers), cluster.partitions, placed, owner)))
    return problems[0], problems[1]


@pytest.mark.parametrize("seed", [2, 22])
def test_a_placement_that_keeps_the_rules_is_never_called_impossible(seed: int) -> None:
    """A solver with presolve reports these clusters as infeasible although a plan meets their bands."""
    before, after = small_problem(seed)
    assert meets_rules(after, after.rows.held)
    placement = solve_small(before, after.rows.held)
    assert placement is not None
    assert meets_rules(before, placement.holds)
    assert placement.least_bytes <= copied_bytes(before, placement.holds) <= copied_bytes(before, after.rows.held)
