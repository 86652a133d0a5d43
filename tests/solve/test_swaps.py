"""Swaps of whole replicas between two brokers, where no single move helps."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from optimizer.domain import FIXED, FREE, Cluster, Ints
from optimizer.settings import Policy
from optimizer.solve.rules.bands import broker_loads, excess, replica_weights
from optimizer.solve.shard.choice import State, apply_choice, seed, violation
from optimizer.solve.shard.legal_options import Options, legal_options
from optimizer.solve.shard.shard_problem import ShardProblem
from optimizer.solve.shard.shard_solver import solve_shard
from optimizer.solve.shard.swaps import with_swaps
from optimizer.solve.tuning import TUNED, Tuning
from tests.examples import examples
from tests.solve.clusters import (
    ALONE,
    SEARCH,
    make_brokers,
    make_cluster,
    make_partitions,
    middling_clusters,
    one_shard,
    plan_cluster,
)

RELAXED = settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])


def as_shard(cluster: Cluster, policy: Policy, tuning: Tuning = TUNED) -> tuple[ShardProblem, Options]:
    """All brokers as one shard, before any move."""
    problem = one_shard(cluster, policy, tuning)
    return problem, legal_options(problem)


def chosen(problem: ShardProblem, options: Options, moves: dict[int, int]) -> State:
    """The state in which these partitions have moved their first replica to these members."""
    replica, target = (np.full(len(problem.rows.hosts), -1) for _ in range(2))
    for partition, member in moves.items():
        replica[partition] = np.flatnonzero((options.partition == partition) & (options.slot == 0))[0]
        target[partition] = member
    return apply_choice(problem, options, replica, target)


def targets(state: State) -> Ints:
    """Where each partition goes, (m,); -1 where it stays."""
    return np.where(state.replica >= 0, state.target, -1)


TWO_BIG_EACH = make_cluster(make_brokers([0, 1]), make_partitions([[0], [0], [1], [1]], [120, 110, 100, 90]))
TIGHT = Policy(disk_band=0.05, replicas_band=0.1, in_band=0.1)


def test_two_replicas_change_places_where_no_single_move_fits() -> None:
    """230 and 190 with a band from 200 to 220: only swaps fit, and 110 for 90 is the one that copies least."""
    problem, options = as_shard(TWO_BIG_EACH, TIGHT)
    state = with_swaps(problem, options, chosen(problem, options, {}))
    assert violation(problem, state.loads) == 0
    assert targets(state).tolist() == [-1, 1, -1, 0]


def test_moved_replicas_go_home_where_that_is_the_cheapest_swap() -> None:
    """190 and 215 with a band from 198.5 to 206.5: 100 for 90 would do, but to take back 115 for 100 copies nothing."""
    cluster = make_cluster(make_brokers([0, 1]), make_partitions([[0], [0], [1], [1]], [115, 90, 100, 100]))
    problem, options = as_shard(cluster, Policy(disk_band=0.02, replicas_band=0.1, in_band=0.1))
    moved = chosen(problem, options, {0: 1, 2: 0})
    assert violation(problem, moved.loads) > 0
    state = with_swaps(problem, options, moved)
    assert violation(problem, state.loads) == 0
    assert targets(state).tolist() == [-1] * 4


def test_brokers_that_accept_nothing_take_no_part() -> None:
    """A broker that is excluded is not swapped with."""
    cluster = replace(TWO_BIG_EACH, brokers=make_brokers([0, 1], excluded=(1,)))
    problem, options = as_shard(cluster, TIGHT)
    assert targets(with_swaps(problem, options, chosen(problem, options, {}))).tolist() == [-1] * 4


def behind_giants(giants: int) -> Cluster:
    """Forty brokers: some with a replica larger than a band, one pair that only a swap brings inside, the rest even."""
    rest = (40 - giants * 1.15) / (40 - giants)
    held = [[1.15]] * giants + [[0.57, 0.50], [0.457, 2 * rest - 0.57 - 0.50 - 0.457]]
    held += [[rest / 2] * 2 for _ in range(38 - giants)]
    replicas = [[broker] for broker, sizes in enumerate(held) for _ in sizes]
    sizes = [round(size * 1e6) for on_broker in held for size in on_broker]
    return make_cluster(make_brokers([0] * 40), make_partitions(replicas, sizes))


@pytest.mark.parametrize("giants", [0, 3, 8])
def test_brokers_beyond_help_hide_no_other(giants: int) -> None:
    """However many brokers no swap can help, one that a swap can help is helped."""
    cluster = behind_giants(giants)
    planned = plan_cluster(cluster, Policy(disk_band=0.05, replicas_band=3.0, in_band=3.0), brief=True)
    loads = broker_loads(40, planned.replicas, replica_weights(cluster.partitions))
    outside = np.flatnonzero((np.abs(excess(loads, planned.bands)) > 1e-9).any(axis=1))
    assert outside.tolist() == list(range(giants))


def test_bytes_that_come_back_buy_no_load_outside() -> None:
    """A swap back would copy a mean load less and leave slightly more outside: bands come first."""
    partitions = make_partitions([[0], [1], [0], [1]], [500_020, 500_000, 550_010, 449_970])
    partitions = replace(partitions, mobility=np.array([FREE, FREE, FIXED, FIXED]))
    policy = Policy(disk_band=0.05, replicas_band=0.5, in_band=0.5)
    problem, options = as_shard(make_cluster(make_brokers([0, 1]), partitions), policy)
    state = chosen(problem, options, {0: 1, 1: 0})
    assert violation(problem, state.loads) > 0
    assert targets(with_swaps(problem, options, state)).tolist() == targets(state).tolist()


# Numbers of the draws, and whether the search of small clusters is needed.
@pytest.mark.parametrize(("seed", "searched"), [(10, False), (11, False), (13, False), (1, True), (4, True)])
def test_the_last_round_does_what_a_stuck_one_does(seed: int, searched: bool) -> None:
    """A round that comes closer to the bands leaves the rest to the next one; where there is none, swaps or the search
    bring all brokers inside."""
    draws = np.random.default_rng(seed)
    brokers, count = int(draws.integers(3, 7)), int(draws.integers(6, 16))
    lists = [[int(draws.integers(0, brokers) * draws.random())] for _ in range(count)]
    partitions = make_partitions(lists, draws.integers(50, 150, count).tolist())
    cluster = make_cluster(make_brokers([b % 2 for b in range(brokers)]), partitions)
    policy = Policy(disk_band=0.05, replicas_band=0.7, in_band=0.5)
    problem, _ = as_shard(cluster, policy, TUNED if searched else ALONE)
    found, last = solve_shard(problem, SEARCH), solve_shard(problem, replace(SEARCH, is_last=True))
    assert 1e-9 < found.violation_after < found.violation_before
    assert last.violation_after < 1e-9


@RELAXED
@given(middling_clusters())
def test_swaps_keep_the_rules_and_never_leave_more_outside(cluster: Cluster) -> None:
    """Every choice is a legal one, what must move still moves, loads are those of the choice, bands come closer."""
    problem, options = as_shard(cluster, Policy())
    start = seed(problem, options)
    state = with_swaps(problem, options, start)
    moved = np.flatnonzero(state.replica >= 0)
    assert options.allowed[state.replica[moved], state.target[moved]].all()
    assert (options.partition[state.replica[moved]] == moved).all()
    assert (state.replica[options.needed] >= 0).all()
    assert violation(problem, state.loads) <= violation(problem, start.loads) + 1e-9
    again = apply_choice(problem, options, state.replica, state.target)
    assert np.array_equal(again.loads, state.loads)
