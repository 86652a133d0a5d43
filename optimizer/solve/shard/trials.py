"""The plans of one price on moves: the rounded relaxation, and second looks where its plan is far from its bound."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from optimizer.domain import Ints
from optimizer.solve.rules.bands import SETTLED
from optimizer.solve.shard.choice import State, free_moves, moved_bytes, seed, violation
from optimizer.solve.shard.decide import scarce_decided
from optimizer.solve.shard.dive import largest_decided
from optimizer.solve.shard.improve import Neighbourhood, best_rounding
from optimizer.solve.shard.legal_options import Options
from optimizer.solve.shard.relaxation import Proof, Relaxation, prove, relax
from optimizer.solve.shard.shard_problem import ShardProblem

FEW_MOVES_PRICE = 0.3  # from here on a plan has few moves: each rounding is quick, and they differ
MANY_MOVES = 400  # a shard with more averages out


@dataclass(frozen=True)
class _Trial:
    """One price on moves on a shard.

    Parameters
    ----------
    options, priced : Options
        Without and with the price on moves.
    base : State
        Where each relaxation starts.
    lp_time_limit : float
        Most that one linear program may take, in deterministic time.
    gap : float
        Share of the bytes copied that a plan may lie above its bound without a second look.
    """

    problem: ShardProblem
    options: Options
    priced: Options
    base: State
    lp_time_limit: float
    gap: float

    def relaxed(self, tie_break: float) -> Relaxation:
        return relax(self.problem, self.priced, self.base, tie_break, self.lp_time_limit)

    def rounded(self, relaxation: Relaxation, starts: Sequence[State], bound: float) -> State:
        pool = Neighbourhood(self.problem, self.priced, relaxation.near_replica, relaxation.near_target)
        return best_rounding(pool, self.base, starts, bound)

    def once(self, decided: Options, rows: Ints, bound: float) -> State:
        """The plan once some replicas are decided, as a choice of the options whose ``rows`` these are."""
        rest = replace(self, priced=decided, base=seed(self.problem, decided))
        relaxation = rest.relaxed(self.problem.tuning.tie_break)
        found = rest.rounded(relaxation, _roundings(relaxation, self.problem.tuning.thresholds), bound)
        return State(np.append(rows, -1)[found.replica], found.target, found.loads)

    def is_far(self, state: State, bound: float) -> bool:
        """Whether a plan has a gap, measured by all that is copied, or leaves a broker outside its bands."""
        gap = moved_bytes(self.problem, self.options, state) - bound
        copied = self.problem.rows.paid + max(bound, 0.0)
        return violation(self.problem, state.loads) > SETTLED or gap > self.gap * copied


def _roundings(relaxation: Relaxation, thresholds: Sequence[float]) -> list[State]:
    return [relaxation.rounded(threshold) for threshold in thresholds]


def plans_at(
    problem: ShardProblem,
    options: Options,
    price: float,
    proof: Proof | None,
    *,
    lp_time_limit: float,
    gap: float,
) -> Iterator[tuple[State, Proof]]:
    """The plans of a price on moves, in mean replica sizes, each with the proof of the first relaxation of all; for the
    limit and the gap see ``search.Search``."""
    priced = options.priced(problem.rows.size, price * float(problem.rows.size.mean()))
    trial = _Trial(problem, options, priced, seed(problem, options), lp_time_limit, gap)
    tuning = problem.tuning
    for_bytes = price <= tuning.bytes_price
    relaxation = trial.relaxed(tuning.tie_break if for_bytes else tuning.few_moves_tie_break)
    starts = _roundings(relaxation, tuning.thresholds if price < FEW_MOVES_PRICE else tuning.more_thresholds)
    largest = largest_decided(relaxation, priced) if for_bytes else None  # before ``prove`` drops columns
    proof = proof or prove(relaxation, options)
    first = trial.rounded(relaxation, starts, proof.bound)
    yield first, proof
    if largest and trial.is_far(first, proof.bound):
        for state in _second_looks(trial, first, largest, proof):
            yield state, proof


def _second_looks(trial: _Trial, first: State, largest: tuple[Options, Ints], proof: Proof) -> Iterator[State]:
    """Other plans for a first one that is far from its bound.

    If all bands hold and few moves are optional, what changes the scarcest brokers is decided first. If the plan is
    still far and few replicas move, two more follow: one with the largest replicas decided first, and one with a
    stronger tie-break towards small replicas.
    """
    tuning = trial.problem.tuning
    # Where a band is left broken the next round may mend it for less.
    few = free_moves(trial.options, first) <= MANY_MOVES and violation(trial.problem, first.loads) <= SETTLED
    if few and tuning.decides_scarce:
        scarce = scarce_decided(trial.problem, trial.priced, proof.prices)
        if scarce:
            found = trial.once(*scarce, proof.bound)
            yield found
            if not trial.is_far(found, proof.bound):
                return
    if first.moves <= MANY_MOVES:
        yield trial.once(*largest, proof.bound)
        again = trial.relaxed(tuning.gap_tie_break)
        yield trial.rounded(again, _roundings(again, tuning.thresholds), proof.bound)
