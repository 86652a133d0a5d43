"""The plans of one price on moves: the rounded relaxation, and second looks where its plan is far from its bound.

A second look decides a few whole replicas first. The rest is then solved again to the bands that remain, and rounds
nearly exactly.

- The scarcest brokers (``scarce_decided``). At the prices of a relaxation each partition has a cheapest option that
  changes a broker's load, and a cheapest one that does not. Which of them change it is a small problem of its own
  (``one_broker``).
- The largest replicas (``largest_decided``). Rounding them shifts loads by more than the improvement can repair.

References
----------
T. Berthold, Primal heuristics for mixed integer programs, diploma thesis, TU Berlin 2006: diving.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from optimizer.domain import Bands, Bools, Floats, Ints
from optimizer.solve.rules.bands import SETTLED
from optimizer.solve.rules.resources import REPLICAS
from optimizer.solve.shard.choice import State, free_moves, moved_bytes, seed, violation
from optimizer.solve.shard.improve import Neighbourhood, best_rounding
from optimizer.solve.shard.legal_options import Options, charges
from optimizer.solve.shard.one_broker import cheapest, scarcest
from optimizer.solve.shard.relaxation import HALF, Proof, Relaxation, prove, relax
from optimizer.solve.shard.shard_problem import ShardProblem

FEW_MOVES_PRICE = 0.3  # from here on a plan has few moves: each rounding is quick, and they differ
MANY_MOVES = 400  # a shard with more averages out
FEW_BROKERS = 3  # scarce ones: what is decided for one leaves less to the next (with five, 14 % over the bound)
LARGEST_SHARE = 0.15  # of the partitions that the relaxation moves are decided first: the largest
MOVES_AT_ALL = 0.01  # part of a replica that counts as moved


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


@dataclass(frozen=True)
class _Change:
    """What changing one broker's load costs each partition beside not changing it.

    Parameters
    ----------
    touches : (K, n) bool
        Options that change the broker's load.
    stay, change : (m,) float64
        Least charge without and with a change; infinite where there is no such option.
    effect : (m, D) float64
        Change of the broker's load.
    """

    touches: Bools
    stay: Floats
    change: Floats
    effect: Floats


def _changes(problem: ShardProblem, options: Options, prices: Floats, broker: int) -> _Change:
    charge = charges(problem, options, options.cost, prices)
    leaves = options.source == broker
    touches = leaves[:, None] | (np.arange(len(problem.members.rack)) == broker)
    stay = np.where(options.needed, np.inf, 0.0)
    change = np.full(len(stay), np.inf)
    np.minimum.at(stay, options.partition, np.where(touches, np.inf, charge).min(axis=1))
    np.minimum.at(change, options.partition, np.where(touches, charge, np.inf).min(axis=1))
    sign = np.ones(len(stay))
    sign[options.partition[leaves]] = -1.0
    return _Change(touches, stay, change, sign[:, None] * problem.rows.weights)


def _broker_decided(
    problem: ShardProblem, options: Options, prices: Floats, broker: int
) -> tuple[Options, Ints] | None:
    """The options, and which rows they are, once it is decided what changes a broker: that must, and nothing else may;
    None where no choice is inside its bands."""
    members = problem.members
    others = prices.copy()
    others[broker] = 0.0
    found = _changes(problem, options, others, broker)
    must = np.isinf(found.stay) & np.isfinite(found.change)
    free = np.flatnonzero(np.isfinite(found.stay) & np.isfinite(found.change))
    load = members.loads[broker] + found.effect[must].sum(axis=0)
    # Counts are whole: half a replica of slack allows no other choice, and absorbs rounding.
    spare = np.zeros(len(load))
    spare[REPLICAS] = 0.5 / members.scale[REPLICAS]
    low, high = members.lower[broker] - load - spare, members.upper[broker] - load + spare
    whole = cheapest(
        found.change[free] - found.stay[free],
        found.effect[free],
        low,
        high,
        close=problem.tuning.scarce_close,
        for_bound=False,
    )
    if whole is None:
        return None
    goes = must.copy()
    goes[free[whole.takes]] = True
    return options.only(found.touches == goes[options.partition][:, None], goes)


def scarce_decided(problem: ShardProblem, options: Options, prices: Floats) -> tuple[Options, Ints] | None:
    """The options, and which rows they are, once the scarce brokers are decided, one after the other; None where these
    are not few, or nothing comes of it."""
    members = problem.members
    scarce = scarcest(
        prices,
        members.loads,
        Bands((), members.lower, members.upper),
        members.must_empty,
    )
    if not 0 < len(scarce) <= FEW_BROKERS:
        return None
    rows, any_ = np.arange(len(options.partition)), False
    for broker in scarce:
        decided = _broker_decided(problem, options, prices, broker)
        if decided:
            options, kept = decided
            rows, any_ = rows[kept], True
    return (options, rows) if any_ else None


def largest_decided(relaxation: Relaxation, options: Options) -> tuple[Options, Ints]:
    """The options, and which rows they are, without those of the largest partitions that the relaxation moves, in part
    or whole: each of these has to take its largest value where that is a half, and else stays if it may."""
    master = relaxation.master
    moves = master.moves
    value, partition = relaxation.value[: len(moves)], options.partition[moves // options.allowed.shape[1]]
    size = master.problem.rows.size
    moved = np.flatnonzero(np.bincount(partition, value, len(size)) > MOVES_AT_ALL)
    largest = np.zeros(len(size), dtype=bool)
    largest[moved[np.argsort(-size[moved], kind="stable")][: round(LARGEST_SHARE * len(moved))]] = True
    order = np.lexsort((np.arange(len(moves)), -value, partition))
    first = order[np.r_[True, np.diff(partition[order]) > 0]] if len(order) else order
    taken = first[(value[first] >= HALF) & largest[partition[first]]]
    open_ = np.zeros(options.allowed.shape, dtype=bool)
    open_.flat[moves[taken]] = True
    goes = np.zeros(len(size), dtype=bool)
    goes[partition[taken]] = True
    based = master.base.replica >= 0  # what is not in the columns of these stays with their base
    undecided = ~largest | ((options.needed | based) & ~goes)
    return options.only(open_ | undecided[options.partition][:, None], goes)
