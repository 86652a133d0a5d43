"""Solve one shard: its options, the plans tried on them, the one taken; the result carries its proof."""

from dataclasses import dataclass, replace

import numpy as np

from optimizer.domain import Bools, Floats, Ints
from optimizer.solve.rules.bands import SETTLED
from optimizer.solve.rules.resources import DISK
from optimizer.solve.shard.choice import State, apply_choice, mended, moved_cost, violation
from optimizer.solve.shard.exact import changes, copied_bytes, is_small_cluster, keeps_rules, solve_small
from optimizer.solve.shard.legal_options import Options, legal_options
from optimizer.solve.shard.relaxation import Proof
from optimizer.solve.shard.search import CurvePoint, Search, best_of, choose, plans_of
from optimizer.solve.shard.shard_problem import ShardProblem
from optimizer.solve.shard.swaps import with_swaps

OPTIMAL, FEASIBLE, UNCHANGED = "OPTIMAL", "FEASIBLE", "UNCHANGED"
NOT_SOLVED = FAILED, OUT_OF_TIME = "FAILED", "OUT_OF_TIME"
PROVEN_GAP = 1e-6  # share of the cost: as exact as linear programs are
PROVEN_DUST = 1e-8  # mean broker loads: what linear programs may be off by
PROGRESS = 0.999  # of what was outside before: a round that leaves more is stuck
SPREAD_TRIES = 3  # solves more where several moves together bring too many of a topic to one member


@dataclass(frozen=True)
class ShardSolution:
    """Moves of one shard.

    Parameters
    ----------
    status : str
        OPTIMAL: every band holds and no moves of the shard cost fewer bytes, by ``search_bytes`` or else by its own
        bound over single moves (to a millionth); FEASIBLE; UNCHANGED.
    partition, slot, target : (M,) int64
        Rows of the partitions handed in, their slot, and the member that each moved replica goes to.
    prices : (n, D) float64
        Of the relaxation, bytes per mean broker load: the certificate is made of them.
    cost, bound : float
        Bytes copied and their lower bound over single moves, or over all placements where ``search_bytes`` is known, in
        mean broker loads; no bound where a band is not met or the spread of topics rules out moves.
    violation_before, violation_after : float
    candidates : int
        Legal options, all of them priced.
    curve : tuple of CurvePoint
        The best plan of each price on moves that was tried.
    search_bytes : int, optional
        Of a small cluster: whole bytes that any placement inside the bands copies against the one before the plan,
        proven by search (``exact``).
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


def _nothing(problem: ShardProblem, before: float, bound: float | None = None) -> ShardSolution:
    none = np.zeros(0, dtype=np.int64)
    return ShardSolution(
        UNCHANGED, none, none, none, np.zeros_like(problem.members.loads), 0.0, bound, before, before, 0, ()
    )


def _settled(problem: ShardProblem, before: float) -> ShardSolution:
    """Nothing has to move: no bytes is the least, unless a copy that is paid might be given back."""
    nothing_paid = bool((problem.rows.on_original | (problem.rows.hosts < 0)).all())
    return _nothing(problem, before, 0.0 if nothing_paid else None)


def solve_shard(problem: ShardProblem, search: Search) -> ShardSolution:
    """Find the cheapest moves that bring the shard's brokers into their bands and mend what must be mended.

    The cheapest single moves, and for a small cluster the best placement of all that a search finds.
    """
    before = violation(problem, problem.members.loads)
    options = legal_options(problem)
    settled = before <= SETTLED and not options.needed.any() and not search.improves
    if not is_small_cluster(problem):
        return _settled(problem, before) if settled else _by_single_moves(problem, options, before, search)
    whole = replace(problem, rows=problem.rows.one_each())
    if settled and keeps_rules(whole, whole.rows.held):
        return _settled(problem, before)
    found = _by_single_moves(problem, options, before, search)
    goes_on = found.violation_after > SETTLED and not _is_stuck(before, found.violation_after, search)
    return found if goes_on else _exact(whole, found, search)


def _is_stuck(before: float, after: float, search: Search) -> bool:
    """Whether brokers are left outside their bands, and there is no next round or it could do no more."""
    return after > SETTLED and (search.is_last or after >= PROGRESS * before)


def _by_single_moves(problem: ShardProblem, options: Options, before: float, search: Search) -> ShardSolution:
    """The plan of the relaxations.

    Each price on moves gives a plan or more, as long as there are few moves; of those with the least violation and
    bytes within the tolerance of the least, the one with the fewest moves is taken. Where its moves together bring more
    of a topic to a member than there may be, the ones without room are closed and it is solved again.
    """
    if not len(options.partition):
        return _nothing(problem, before)
    plans, proof = plans_of(problem, options, search)
    points, state = best_of(plans, search.bytes_tolerance)
    for _ in range(SPREAD_TRIES):
        over = without_room(problem, options, state)
        if not len(over):
            break
        closed = closed_by(problem, options, state, over)
        options = options.only(~closed, np.zeros(len(options.needed), dtype=bool))[0]
        if not len(options.partition):
            return _nothing(problem, before)
        plans, _ = plans_of(problem, options, search)
        points, state = best_of(plans, search.bytes_tolerance)
    if _is_stuck(before, violation(problem, state.loads), search):
        state = with_swaps(problem, options, state)
    state = with_room(problem, options, state)
    if violation(problem, state.loads) > before + SETTLED and not options.needed.any():
        return _nothing(problem, before)
    if search.improves and moved_cost(options, state) >= -SETTLED:
        return _nothing(problem, before, proof.bound if proof and not options.narrowed else None)
    return _solution(problem, options, state, before, proof, points)


def without_room(problem: ShardProblem, options: Options, state: State) -> Ints:
    """Rows whose moves make more of a topic on a member than there may be, but for those that push in."""
    rows = problem.rows
    spread = rows.spread
    if spread is None:
        return np.zeros(0, dtype=np.int64)
    moved = _first_of_each(problem, state)
    source, target = options.source[state.replica[moved]], state.target[moved]
    over = spread.without_room(rows.topic[moved], source, target, rows.size[moved], options.needed[moved])
    return moved[over & ~options.pushes[state.replica[moved]]]


def closed_by(problem: ShardProblem, options: Options, state: State, over: Ints) -> Bools:
    """Options to close, (K, n): those of the topics and members that are over, but for the ones that have room."""
    rows = problem.rows
    full = np.zeros((int(rows.topic.max()) + 1, len(problem.members.rack)), dtype=bool)
    full[rows.topic[over], state.target[over]] = True
    closed = full[rows.topic[options.partition]]
    kept = np.setdiff1d(np.flatnonzero(state.replica >= 0), over)
    closed[state.replica[kept], state.target[kept]] = False
    return closed


def with_room(problem: ShardProblem, options: Options, state: State) -> State:
    """The state without moves that have no room; one that is dropped stays, so others may have none then."""
    while len(over := without_room(problem, options, state)):
        replica = state.replica.copy()
        replica[over] = -1
        state = apply_choice(problem, options, replica, state.target)
    return state


def _exact(problem: ShardProblem, found: ShardSolution, search: Search) -> ShardSolution:
    """The solution of a small cluster, if need be a cheaper one, with what any placement copies at least."""
    rows = problem.rows
    hint = rows.held.copy()
    hint[found.partition, rows.hosts[found.partition, found.slot]] = False
    hint[found.partition, found.target] = True
    placement = solve_small(problem, hint)
    if placement is None:
        return found
    keeps = keeps_rules(problem, hint) and _is_worth(problem, hint, placement.holds, search)
    holds = hint if keeps else placement.holds
    paid, copied = (copied_bytes(problem, x) for x in (rows.held, holds))
    bytes_per_load = float(problem.members.scale[DISK])
    partition, slot, target = changes(problem, holds)
    stands = keeps and found.status == OPTIMAL and copied <= copied_bytes(problem, placement.holds)
    return replace(
        found,
        status=OPTIMAL if copied == placement.least_bytes or stands else FEASIBLE,
        partition=partition,
        slot=slot,
        target=target,
        cost=(copied - paid) / bytes_per_load,
        bound=(placement.least_bytes - paid) / bytes_per_load,
        violation_after=violation(problem, holds.T @ rows.weights),
        search_bytes=placement.least_bytes,
    )


def _is_worth(problem: ShardProblem, found: Bools, cheapest: Bools, search: Search) -> bool:
    """Whether a plan stays beside one of the least bytes: it has fewer moves within the tolerance, or was made at the
    price on moves that the policy asks for."""
    points = tuple(
        CurvePoint(0.0, int((holds & ~problem.rows.original).sum()), copied_bytes(problem, holds), 0.0)
        for holds in (found, cheapest)
    )
    return len(search.move_prices) == 1 or choose(points, search.bytes_tolerance) == 0


def _first_of_each(problem: ShardProblem, state: State) -> Ints:
    """Rows that move; of two replicas of a partition that chose the same target, the first."""
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
    """Give every partition that must move its first option (``choice.mended``), and balance nothing."""
    before = violation(problem, problem.members.loads)
    options = legal_options(problem)
    if not options.needed.any():
        return _nothing(problem, before)
    return _solution(problem, options, mended(problem, options), before, None, ())
