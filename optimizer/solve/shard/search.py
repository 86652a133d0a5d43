"""The plans tried on a shard: one for each price on moves, and more if the first one is far from its bound."""

from dataclasses import dataclass

import numpy as np

from optimizer.solve.ortools.glop import OutOfTime
from optimizer.solve.rules.bands import SETTLED
from optimizer.solve.shard.choice import State, free_moves, moved_cost, violation
from optimizer.solve.shard.legal_options import Options
from optimizer.solve.shard.relaxation import Proof
from optimizer.solve.shard.shard_problem import ShardProblem
from optimizer.solve.shard.trials import MANY_MOVES, plans_at

FREE_SHARE = 0.01  # share of the moves: if fewer are optional, a price on moves can't save any
FEW_MOVES = 10  # for each broker; a shard with more moves gets a rougher curve
ROUGH_PRICES = (0.1, 0.3, 0.8)  # in mean replica sizes: the further prices for a shard with many moves


@dataclass(frozen=True)
class Search:
    """How a shard is searched.

    Parameters
    ----------
    move_prices : tuple of float
        Prices of one move, in mean replica sizes. The first gives the bound; an improving round tries no other.
    bytes_tolerance : float
        Share of the least bytes that may be spent on fewer moves.
    lp_time_limit : float
        Limit of one linear program, in deterministic time.
    gap : float
        More plans are tried if the plan for the least bytes is above its bound by more than this share of the bytes.
    improves : bool
        Look for fewer bytes although every band is met and nothing must move.
    is_last : bool
        No round follows, so the steps for a stuck round are made now.
    """

    move_prices: tuple[float, ...]
    bytes_tolerance: float
    lp_time_limit: float
    gap: float
    improves: bool
    is_last: bool


@dataclass(frozen=True)
class CurvePoint:
    """One plan of a shard: ``moves`` copies, ``cost`` and ``violation`` in mean broker loads."""

    move_price: float
    moves: int
    cost: float
    violation: float


@dataclass(frozen=True)
class ShardPlan:
    """A choice of a shard's options, and its point on the curve."""

    point: CurvePoint
    state: State


def plans_of(problem: ShardProblem, options: Options, search: Search) -> tuple[list[ShardPlan], Proof | None]:
    """At least one plan for each price on moves that is tried, and the proof of the first relaxation.

    Raises
    ------
    OutOfTime
        If the time ends before the first plan; later plans are left out instead.
    """
    plans: list[ShardPlan] = []
    proof: Proof | None = None
    try:
        for price in search.move_prices[:1] if search.improves else search.move_prices:
            if plans and not _is_tried(problem, options, plans[0].state, price, search):
                continue
            for state, proven in plans_at(
                problem, options, price, proof, lp_time_limit=search.lp_time_limit, gap=search.gap
            ):
                proof = proven
                plans.append(ShardPlan(_point(problem, options, price, state), state))
    except OutOfTime:
        if not plans:
            raise
    return plans, proof


def _is_tried(problem: ShardProblem, options: Options, first: State, price: float, search: Search) -> bool:
    """Whether a price is tried after the first plan.

    With more than ``MANY_MOVES`` moves only a cluster that is one shard is tried further, and only if more than
    ``FREE_SHARE`` of the moves are optional.
    """
    if first.moves > MANY_MOVES:
        may_be_fewer = free_moves(options, first) > FREE_SHARE * first.moves
        makes_curve = problem.is_cluster and search.move_prices == problem.tuning.curve_prices
        return may_be_fewer and makes_curve and price in ROUGH_PRICES
    return first.moves <= FEW_MOVES * len(first.loads) or price in problem.tuning.plan_prices or price in ROUGH_PRICES


def best_of(plans: list[ShardPlan], bytes_tolerance: float) -> tuple[tuple[CurvePoint, ...], State]:
    """The curve, with the best plan of each price; and the chosen plan (``choose``)."""
    points = tuple(plan.point for plan in plans)
    taken = choose(points, bytes_tolerance)
    ahead = sorted(points, key=lambda p: (p.move_price, max(p.violation - SETTLED, 0), p.cost))
    best = {point.move_price: point for point in reversed(ahead)}
    curve = tuple(points[taken] if price == points[taken].move_price else best[price] for price in sorted(best))
    return curve, plans[taken].state


def _point(problem: ShardProblem, options: Options, move_price: float, state: State) -> CurvePoint:
    moved = np.flatnonzero(state.replica >= 0)
    copies = int(options.copies[state.replica[moved], state.target[moved]].sum())
    return CurvePoint(move_price, copies, moved_cost(options, state), violation(problem, state.loads))


def choose(points: tuple[CurvePoint, ...], bytes_tolerance: float) -> int:
    """Index of the chosen point: least violation, then fewest moves within the tolerance of the least bytes."""
    least = min(p.violation for p in points)
    level = [i for i, p in enumerate(points) if p.violation <= least + SETTLED]
    bytes_ = min(points[i].cost for i in level)
    close = [i for i in level if points[i].cost <= bytes_ + bytes_tolerance * abs(bytes_)]
    return min(close, key=lambda i: (points[i].moves, points[i].cost, i))
