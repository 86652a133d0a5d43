"""The plans tried on a shard: one for each price on moves, and more where the first one is far from its bound."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from optimizer.domain import Ints
from optimizer.solve.choice import State, moved_bytes, moved_cost, seed, violation
from optimizer.solve.dive import largest_decided
from optimizer.solve.glop import OutOfTime
from optimizer.solve.improve import Neighbourhood, best_rounding
from optimizer.solve.relaxation import Proof, Relaxation, prove, relax
from optimizer.solve.shard import Options, ShardProblem

SETTLED = 1e-9
THRESHOLDS = (0.5, 0.9)
MORE_THRESHOLDS = (0.5, 0.9, 0.3, 0.7)
FEW_MOVES_PRICE = 0.3  # from here on a plan has few moves: each rounding is quick, and they differ
TIE_BREAK = 0.001
FEW_MOVES_TIE_BREAK = 0.0003  # many small replicas round well, but each is a move
GAP_TIE_BREAK = 0.005  # smaller replicas still: more moves, and less lost when they are rounded
GAP = 1e-3  # of the bound: where a plan of few moves is further away, more is tried
MANY_MOVES = 400  # a shard with more has one plan, but for the curve of a cluster that is one shard
FEW_MOVES = 10  # a broker: a shard with more is asked for a rougher curve
PLAN_PRICES = (0.003, 0.03, 0.1)
SHORT_CURVE_PRICES = (*PLAN_PRICES, 0.8, 4.0)
ROUGH_PRICES = (0.003, 0.1, 0.3, 0.8)
CURVE_PRICES = (0.003, 0.03, 0.1, 0.3, 0.8, 2.0, 4.0, 8.0)


@dataclass(frozen=True)
class Search:
    """What is tried on a shard.

    Parameters
    ----------
    move_prices : tuple of float
        Prices of one move, in mean replica sizes; the first gives the bound.
    bytes_tolerance : float
        Share of the least bytes that may be spent on fewer moves.
    lp_seconds : float
        Most that one linear program may take, in deterministic time.
    improves : bool
        Look for fewer bytes where every band holds and nothing has to move.
    is_last : bool
        No round follows: what comes where a round is stuck comes now.
    """

    move_prices: tuple[float, ...] = PLAN_PRICES
    bytes_tolerance: float = 0.001
    lp_seconds: float = np.inf
    improves: bool = False
    is_last: bool = False


@dataclass(frozen=True)
class CurvePoint:
    """One plan of a shard: ``moves`` copies, ``cost`` and ``violation`` in mean broker loads."""

    move_price: float
    moves: int
    cost: float
    violation: float


@dataclass(frozen=True)
class Plan:
    """A choice of a shard's options, and where it lies on the curve."""

    point: CurvePoint
    state: State


def plans_of(problem: ShardProblem, options: Options, search: Search) -> tuple[list[Plan], Proof | None]:
    """A plan or more for each price on moves, and the proof of the first relaxation.

    Raises
    ------
    OutOfTime
        Before there is a plan; later ones are only left out.
    """
    plans: list[Plan] = []
    proof: Proof | None = None
    try:
        for price in search.move_prices:
            if plans and not _is_tried(problem, plans[0].state, price, search):
                continue
            for state, proven in _tried(problem, options, price, proof, search.lp_seconds):
                proof = proven
                plans.append(Plan(_point(problem, options, price, state), state))
    except OutOfTime:
        if not plans:
            raise
    return plans, proof


def _tried(
    problem: ShardProblem, options: Options, price: float, proof: Proof | None, lp_seconds: float
) -> Iterator[tuple[State, Proof]]:
    """The plans of one price on moves, each with the proof of the first relaxation."""
    base, for_bytes = seed(problem, options), price <= PLAN_PRICES[0]
    priced = options.priced(problem.size, price * float(problem.size.mean()))
    relaxation = relax(problem, priced, base, TIE_BREAK if for_bytes else FEW_MOVES_TIE_BREAK, lp_seconds)
    starts = [relaxation.rounded(at) for at in (THRESHOLDS if price < FEW_MOVES_PRICE else MORE_THRESHOLDS)]
    decided = largest_decided(relaxation, priced) if for_bytes else None  # of the columns that a proof takes away
    proof = proof or prove(relaxation, options)
    first = _rounded(problem, priced, base, relaxation, starts, proof.bound)
    yield first, proof
    if decided and _is_far(problem, options, first, proof.bound):
        yield _dived(problem, *decided, proof.bound, lp_seconds), proof
        again = relax(problem, priced, base, GAP_TIE_BREAK, lp_seconds)
        yield _rounded_twice(problem, priced, base, again, proof.bound), proof


def _moves(state: State) -> int:
    return int(np.count_nonzero(state.replica >= 0))


def _is_tried(problem: ShardProblem, first: State, price: float, search: Search) -> bool:
    """Whether a price is tried after the first plan: where there are many moves, hardly fewer are to be had, and only a
    cluster that is one shard is shown so."""
    moves = _moves(first)
    if moves > MANY_MOVES:
        return problem.is_cluster and search.move_prices == CURVE_PRICES and price in ROUGH_PRICES
    return moves <= FEW_MOVES * len(first.loads) or price in PLAN_PRICES or price in ROUGH_PRICES


def _is_far(problem: ShardProblem, options: Options, state: State, bound: float) -> bool:
    """Whether a plan of few moves has a gap, or leaves a broker outside its bands."""
    broken = violation(problem, state.loads) > SETTLED
    far = broken or moved_bytes(problem, options, state) > bound + GAP * abs(bound)
    return far and _moves(state) <= MANY_MOVES


def _rounded(
    problem: ShardProblem, options: Options, base: State, relaxation: Relaxation, starts: list[State], bound: float
) -> State:
    pool = Neighbourhood(problem, options, relaxation.near_replica, relaxation.near_target)
    return best_rounding(pool, base, starts, bound)


def _rounded_twice(problem: ShardProblem, options: Options, base: State, relaxation: Relaxation, bound: float) -> State:
    """The plan of a relaxation of which nothing is proven."""
    return _rounded(problem, options, base, relaxation, [relaxation.rounded(at) for at in THRESHOLDS], bound)


def _dived(problem: ShardProblem, decided: Options, rows: Ints, bound: float, lp_seconds: float) -> State:
    """The plan once the largest replicas are decided, as a choice of the options whose ``rows`` these are."""
    base = seed(problem, decided)
    relaxation = relax(problem, decided, base, TIE_BREAK, lp_seconds)
    found = _rounded_twice(problem, decided, base, relaxation, bound)
    return State(np.where(found.replica >= 0, rows[found.replica], -1), found.target, found.loads)


def best_of(plans: list[Plan], bytes_tolerance: float) -> tuple[tuple[CurvePoint, ...], State]:
    """The curve, of each price its best plan, and the plan that is taken (``choose``)."""
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
    """Index of the fewest moves within the tolerance of the least bytes, among the least violation."""
    least = min(p.violation for p in points)
    level = [i for i, p in enumerate(points) if p.violation <= least + SETTLED]
    bytes_ = min(points[i].cost for i in level)
    close = [i for i in level if points[i].cost <= bytes_ + bytes_tolerance * abs(bytes_)]
    return min(close, key=lambda i: (points[i].moves, points[i].cost, i))
