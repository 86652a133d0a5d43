"""Solve one shard: list its legal options, try plans, choose one; the solution has a proof."""

from dataclasses import dataclass, replace

import numpy as np

from optimizer.domain import Bools, Floats, Ints
from optimizer.solve.rules.bands import SETTLED
from optimizer.solve.rules.resources import DISK
from optimizer.solve.shard.choice import State, apply_choice, moved_cost, repaired, violation
from optimizer.solve.shard.exact import copied_bytes, is_small_cluster, meets_rules, replica_moves, solve_small
from optimizer.solve.shard.legal_options import Options, legal_options
from optimizer.solve.shard.relaxation import Proof
from optimizer.solve.shard.search import CurvePoint, Search, best_of, choose, plans_of
from optimizer.solve.shard.shard_problem import ShardProblem
from optimizer.solve.shard.swaps import with_swaps

OPTIMAL, FEASIBLE, UNCHANGED = "OPTIMAL", "FEASIBLE", "UNCHANGED"
NOT_SOLVED = FAILED, OUT_OF_TIME = "FAILED", "OUT_OF_TIME"
PROVEN_GAP = 1e-6  # share of the cost: the precision of linear programs
PROVEN_DUST = 1e-8  # mean broker loads: the precision of linear programs near 0
PROGRESS = 0.999  # share of the load outside bands before: a round that leaves more is stuck
SPREAD_TRIES = 3  # most further solves, if several moves together exceed a topic's limit on a member


@dataclass(frozen=True)
class ShardSolution:
    """Moves of one shard.

    Parameters
    ----------
    status : str
        OPTIMAL: every band is met and no moves of the shard cost fewer bytes, by ``search_bytes`` or else by its own
        bound over single moves (to a millionth); FEASIBLE; UNCHANGED.
    partition, slot, target : (M,) int64
        Of each moved replica: index of its partition among those given, slot in its list, and target member.
    prices : (n, D) float64
        Prices of the relaxation, bytes per mean broker load; the certificate uses them.
    cost, bound : float
        Bytes copied and their lower bound, in mean broker loads: over all placements if ``search_bytes`` is known, else
        over single moves. There is no bound if a band is unmet or topic limits exclude moves.
    violation_before, violation_after : float
    candidates : int
        Number of legal options.
    curve : tuple of CurvePoint
        The best plan for each price on moves that was tried.
    search_bytes : int, optional
        For a small cluster: least whole bytes that any placement inside the bands copies, proven by search (``exact``).
    """

    status: str
    partition: Ints
    slot: Ints
    target: Ints
    prices: Floats
    cost: float
    bound: float | None
    violation_before: float
    violation_after: float
    candidates: int
    curve: tuple[CurvePoint, ...]
    search_bytes: int | None = None


def _unchanged(problem: ShardProblem, before: float, bound: float | None = None) -> ShardSolution:
    none = np.zeros(0, dtype=np.int64)
    return ShardSolution(
        UNCHANGED, none, none, none, np.zeros_like(problem.members.loads), 0.0, bound, before, before, 0, ()
    )


def _nothing_to_do(problem: ShardProblem, before: float) -> ShardSolution:
    """The solution if nothing has to move: 0 bytes is the bound, unless undoing a paid copy could save some."""
    nothing_paid = bool((problem.rows.on_original | (problem.rows.hosts < 0)).all())
    return _unchanged(problem, before, 0.0 if nothing_paid else None)


def solve_shard(problem: ShardProblem, search: Search) -> ShardSolution:
    """Find the cheapest moves that bring the shard's brokers into their bands and repair broken rules.

    These are single moves; for a small cluster, a search over all placements may improve them.
    """
    before = violation(problem, problem.members.loads)
    options = legal_options(problem)
    settled = before <= SETTLED and not options.needed.any() and not search.improves
    if not is_small_cluster(problem):
        return _nothing_to_do(problem, before) if settled else _by_single_moves(problem, options, before, search)
    whole = replace(problem, rows=problem.rows.one_per_partition())
    if settled and meets_rules(whole, whole.rows.held):
        return _nothing_to_do(problem, before)
    solution = _by_single_moves(problem, options, before, search)
    makes_progress = solution.violation_after > SETTLED and not _is_stuck(before, solution.violation_after, search)
    return solution if makes_progress else _with_search(whole, solution, search)


def _is_stuck(before: float, after: float, search: Search) -> bool:
    """Whether brokers are outside their bands, and there is no next round or it would not help."""
    return after > SETTLED and (search.is_last or after >= PROGRESS * before)


def _by_single_moves(problem: ShardProblem, options: Options, before: float, search: Search) -> ShardSolution:
    """The plan of the relaxations.

    Each price on moves gives at least one plan. Among the plans with the least violation, and with bytes within the
    tolerance of the least, the plan with the fewest moves is chosen. If its moves together exceed a topic's limit on a
    member, these options are closed and the shard is solved again.
    """
    if not len(options.partition):
        return _unchanged(problem, before)
    plans, proof = plans_of(problem, options, search)
    points, state = best_of(plans, search.bytes_tolerance)
    for _ in range(SPREAD_TRIES):
        over_limit = moves_over_topic_limit(problem, options, state)
        if not len(over_limit):
            break
        closed = options_to_close(problem, options, state, over_limit)
        options = options.only(~closed, np.zeros(len(options.needed), dtype=bool))[0]
        if not len(options.partition):
            return _unchanged(problem, before)
        plans, _ = plans_of(problem, options, search)
        points, state = best_of(plans, search.bytes_tolerance)
    if _is_stuck(before, violation(problem, state.loads), search):
        state = with_swaps(problem, options, state)
    state = within_topic_limits(problem, options, state)
    if violation(problem, state.loads) > before + SETTLED and not options.needed.any():
        return _unchanged(problem, before)
    if search.improves and moved_cost(options, state) >= -SETTLED:
        return _unchanged(problem, before, proof.bound if proof and not options.narrowed else None)
    return _solution(problem, options, state, before, proof, points)


def moves_over_topic_limit(problem: ShardProblem, options: Options, state: State) -> Ints:
    """Rows with moves that exceed a topic's limit on a member, except those that push in."""
    rows = problem.rows
    spread = rows.spread
    if spread is None:
        return np.zeros(0, dtype=np.int64)
    moved = _first_of_each(problem, state)
    source, target = options.source[state.replica[moved]], state.target[moved]
    over = spread.moves_over_limit(rows.topic[moved], source, target, rows.size[moved], options.needed[moved])
    return moved[over & ~options.pushes[state.replica[moved]]]


def options_to_close(problem: ShardProblem, options: Options, state: State, over_limit: Ints) -> Bools:
    """Options to close, (K, n): those of topics and members over their limit, except the chosen ones within it."""
    rows = problem.rows
    full = np.zeros((int(rows.topic.max()) + 1, len(problem.members.rack)), dtype=bool)
    full[rows.topic[over_limit], state.target[over_limit]] = True
    closed = full[rows.topic[options.partition]]
    kept = np.setdiff1d(np.flatnonzero(state.replica >= 0), over_limit)
    closed[state.replica[kept], state.target[kept]] = False
    return closed


def within_topic_limits(problem: ShardProblem, options: Options, state: State) -> State:
    """Drop moves until all topic limits are met; a dropped replica stays, so further moves may exceed a limit then."""
    while len(over_limit := moves_over_topic_limit(problem, options, state)):
        replica = state.replica.copy()
        replica[over_limit] = -1
        state = apply_choice(problem, options, replica, state.target)
    return state


def _with_search(problem: ShardProblem, solution: ShardSolution, search: Search) -> ShardSolution:
    """Add the bound of a search over all placements of a small cluster, and its placement if that is better."""
    rows = problem.rows
    hint = rows.held.copy()
    hint[solution.partition, rows.hosts[solution.partition, solution.slot]] = False
    hint[solution.partition, solution.target] = True
    placement = solve_small(problem, hint)
    if placement is None:
        return solution
    keeps_solution = meets_rules(problem, hint) and _is_as_good(problem, hint, placement.holds, search)
    holds = hint if keeps_solution else placement.holds
    paid, copied = (copied_bytes(problem, x) for x in (rows.held, holds))
    bytes_per_load = float(problem.members.scale[DISK])
    partition, slot, target = replica_moves(problem, holds)
    stays_optimal = keeps_solution and solution.status == OPTIMAL and copied <= copied_bytes(problem, placement.holds)
    return replace(
        solution,
        status=OPTIMAL if copied == placement.least_bytes or stays_optimal else FEASIBLE,
        partition=partition,
        slot=slot,
        target=target,
        cost=(copied - paid) / bytes_per_load,
        bound=(placement.least_bytes - paid) / bytes_per_load,
        violation_after=violation(problem, holds.T @ rows.weights),
        search_bytes=placement.least_bytes,
    )


def _is_as_good(problem: ShardProblem, planned: Bools, cheapest: Bools, search: Search) -> bool:
    """Whether a plan is preferred to the one with the least bytes.

    It is if it has fewer moves within the tolerance, or was made at the policy's price on moves.
    """
    points = tuple(
        CurvePoint(0.0, int((holds & ~problem.rows.original).sum()), copied_bytes(problem, holds), 0.0)
        for holds in (planned, cheapest)
    )
    return len(search.move_prices) == 1 or choose(points, search.bytes_tolerance) == 0


def _first_of_each(problem: ShardProblem, state: State) -> Ints:
    """Rows that move; if two replicas of a partition chose the same target, only the first."""
    moved = np.flatnonzero(state.replica >= 0)
    pair = problem.rows.of[moved] * len(problem.members.rack) + state.target[moved]
    return moved[np.sort(np.unique(pair, return_index=True)[1])]


def _solution(
    problem: ShardProblem,
    options: Options,
    state: State,
    before: float,
    proof: Proof | None,
    curve: tuple[CurvePoint, ...],
) -> ShardSolution:
    moved = _first_of_each(problem, state)
    after, cost = violation(problem, state.loads), moved_cost(options, state)
    bound = proof.bound if proof and after <= SETTLED and not options.narrowed else None
    proven = bound is not None and cost <= bound + PROVEN_GAP * max(cost, 0.0) + PROVEN_DUST
    return ShardSolution(
        status=OPTIMAL if proven else FEASIBLE if len(moved) else UNCHANGED,
        partition=problem.rows.of[moved],
        slot=options.slot[state.replica[moved]],
        target=state.target[moved],
        prices=proof.prices if proof else np.zeros_like(problem.members.loads),
        cost=cost,
        bound=bound,
        violation_before=before,
        violation_after=after,
        candidates=int(options.allowed.sum()),
        curve=curve,
    )


def repair_shard(problem: ShardProblem) -> ShardSolution:
    """Move only the partitions that must move, by a first option each (``choice.repaired``); balance nothing."""
    before = violation(problem, problem.members.loads)
    options = legal_options(problem)
    if not options.needed.any():
        return _unchanged(problem, before)
    return _solution(problem, options, repaired(problem, options), before, None, ())
