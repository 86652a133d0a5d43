"""Solve one shard: options, relaxation, rounding and improvement; the result carries its proof."""

from dataclasses import dataclass

import numpy as np

from optimizer.domain import Floats, Ints
from optimizer.solve.choice import State, moved_cost, seed, violation
from optimizer.solve.improve import best_rounding
from optimizer.solve.relaxation import Relaxation, relax
from optimizer.solve.shard import Options, ShardProblem, legal_options

OPTIMAL, FEASIBLE, UNCHANGED, FAILED = "OPTIMAL", "FEASIBLE", "UNCHANGED", "FAILED"
SETTLED = 1e-9
PROVEN_GAP = 1e-6


@dataclass(frozen=True)
class ShardSolution:
    """Moves of one shard.

    Parameters
    ----------
    status : str
        OPTIMAL: every band holds and the bytes are within a millionth of the shard's own bound; FEASIBLE; UNCHANGED.
    partition, slot, target : (M,) int64
        Rows of the partitions handed in, their slot, and the member that each moved replica goes to.
    prices : (n, D) float64
        Of the relaxation, bytes per mean broker load: the certificate is made of them.
    cost, bound : float
        Bytes copied and their lower bound over single moves, in mean broker loads; no bound where a band is not met.
    violation_before, violation_after : float
    candidates : int
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


def _nothing(problem: ShardProblem, before: float) -> ShardSolution:
    none = np.zeros(0, dtype=np.int64)
    return ShardSolution(UNCHANGED, none, none, none, np.zeros_like(problem.loads), 0.0, 0.0, before, before, 0)


def _first_of_each(problem: ShardProblem, state: State) -> Ints:
    """Rows that move; of two replicas of a partition that chose the same target, the first."""
    moved = np.flatnonzero(state.replica >= 0)
    pair = problem.row[moved] * len(problem.rack) + state.target[moved]
    return moved[np.sort(np.unique(pair, return_index=True)[1])]


def _solution(
    problem: ShardProblem, options: Options, state: State, before: float, relaxation: Relaxation | None
) -> ShardSolution:
    moved = _first_of_each(problem, state)
    after, cost = violation(problem, state.loads), moved_cost(options, state)
    bound = relaxation.bound if relaxation and after <= SETTLED else None
    proven = bound is not None and cost <= bound + PROVEN_GAP * max(cost, 1.0)
    return ShardSolution(
        status=OPTIMAL if proven else FEASIBLE if len(moved) else UNCHANGED,
        partition=problem.row[moved],
        slot=options.slot[state.replica[moved]],
        target=state.target[moved],
        prices=relaxation.prices if relaxation else np.zeros_like(problem.loads),
        cost=cost,
        bound=bound,
        violation_before=before,
        violation_after=after,
        candidates=len(relaxation.value) if relaxation else 0,
    )


def solve_shard(problem: ShardProblem) -> ShardSolution:
    """Find the cheapest single moves that bring the shard's brokers into their bands and mend what must be mended."""
    before = violation(problem, problem.loads)
    options = legal_options(problem)
    if not len(options.partition) or (before <= SETTLED and not options.needed.any()):
        return _nothing(problem, before)
    base = seed(problem, options)
    relaxation = relax(problem, options, base)
    state = best_rounding(problem, options, relaxation)
    return _solution(problem, options, state, before, relaxation)


def mend_shard(problem: ShardProblem) -> ShardSolution:
    """Give every partition that must move its first option (``choice.seed``), and balance nothing."""
    before = violation(problem, problem.loads)
    options = legal_options(problem)
    if not options.needed.any():
        return _nothing(problem, before)
    state = seed(problem, options)
    return _solution(problem, options, state, before, None)
