"""Moves against bytes: what a price on moves buys, on clusters of 30 brokers and 3,000 partitions."""

from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from benchmarks.generate import generate
from benchmarks.planned import cluster_of, solve
from optimizer.settings import Policy, Settings, Solver
from optimizer.solve.ortools.glop import OutOfTime
from optimizer.solve.shard import trials
from optimizer.solve.shard.relaxation import Relaxation, relax
from optimizer.solve.shard.search import CurvePoint, choose
from optimizer.solve.shard.shard_problem import ShardProblem
from optimizer.solve.shard.shard_solver import solve_shard
from optimizer.solve.tuning import TUNED
from tests.solve.clusters import SEARCH, one_shard


def problem_of(seed: int, scenario: str = "drift") -> ShardProblem:
    """A cluster as one shard."""
    return one_shard(cluster_of(generate("S", scenario, seed), scenario), Policy())


@cache
def curve_of(seed: int) -> tuple[tuple[CurvePoint, ...], float]:
    """The curve of a drifted cluster and its bound, in mean broker loads."""
    solution = solve_shard(problem_of(seed), replace(SEARCH, move_prices=TUNED.curve_prices))
    assert solution.bound is not None
    return solution.curve, solution.bound


@pytest.mark.all_only
@pytest.mark.parametrize(("seed", "moves", "gap"), [(1, 92, 0.0044), (1, 20, 0.0145), (2, 80, 0.078), (2, 16, 0.091)])
def test_curve_passes_below_what_other_planners_reach(seed: int, moves: int, gap: float) -> None:
    """For so many moves, some point of the curve costs no more over the bound, with every band held."""
    curve, bound = curve_of(seed)
    assert any(p.moves <= moves and p.cost <= (1 + gap) * bound and p.violation < 1e-6 for p in curve)


@pytest.mark.all_only
def test_a_grown_cluster_has_a_curve_of_four_points() -> None:
    """Where hundreds of replicas must move a few prices are tried: the operator sees that there is hardly a choice."""
    cluster = cluster_of(generate("S", "expand", 1), "expand")
    plan = solve(cluster, Settings())
    points = plan.curve
    assert len(points) == 4
    assert min(p.moves for p in points) > 0.9 * max(p.moves for p in points) > 700


def test_where_nearly_all_moves_must_be_there_is_one_plan() -> None:
    """Other prices on moves would only leave brokers outside their bands."""
    found = solve_shard(problem_of(2, "legacy"), replace(SEARCH, move_prices=TUNED.curve_prices))
    assert found.violation_after < 1e-9
    assert [point.move_price for point in found.curve] == [TUNED.curve_prices[0]]


@pytest.mark.all_only
def test_curve_of_shards_passes_below_what_another_planner_reaches() -> None:
    """On 100 brokers, 50 moves at 13 % over the bound are above the curve, also above the short one."""
    settings = Settings(solver=Solver(curve_brokers=99))
    found = solve(cluster_of(generate("M", "drift", 1), "drift"), settings)
    assert len(found.curve) == 5
    assert any(p.moves <= 50 and p.cost <= 1.13 * found.bound_bytes and p.violation < 1e-6 for p in found.curve)


def test_a_plan_stands_though_later_ones_are_out_of_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without time for a program there is no plan; with time for the first price alone, its plan stands."""
    problem, calls = problem_of(1), []
    with pytest.raises(OutOfTime, match=r"did not end in 1e-05 of deterministic time"):
        solve_shard(problem, replace(SEARCH, lp_time_limit=1e-5))

    def late(*arguments: Any) -> Relaxation:
        calls.append(arguments)
        if len(calls) > 1:
            raise OutOfTime("late")
        return relax(*arguments)

    monkeypatch.setattr(trials, relax.__name__, late)
    found = solve_shard(problem, SEARCH)
    assert len(calls) == 2
    assert [point.move_price for point in found.curve] == [SEARCH.move_prices[0]]
    assert found.violation_after < 1e-9
    assert found.bound is not None
    assert 0 < found.bound <= found.cost


def test_fewest_moves_within_the_tolerance_are_chosen() -> None:
    """Violation comes first, then bytes up to the tolerance, then moves."""
    points = (CurvePoint(0, 90, 1.0, 0.0), CurvePoint(1, 40, 1.0009, 0.0), CurvePoint(2, 9, 1.2, 0.0))
    assert choose(points, 0.001) == 1
    assert choose(points, 0.0) == 0
    assert choose((*points, CurvePoint(3, 1, 0.5, 0.1)), 0.5) == 2
