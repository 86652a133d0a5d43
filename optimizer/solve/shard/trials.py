"""The plans for one price on moves: the rounded relaxation, and second tries if its plan is far from its bound.

A second try decides a few whole replicas first. The rest is solved again for the remaining bands, and rounds nearly
exactly. The replicas to decide first are:

- those of the scarcest brokers (``scarce_decided``). At the prices of a relaxation each partition has a cheapest option
  that changes a broker's load, and a cheapest one that does not. Choosing between them is a small problem of its own
  (``one_broker``).
- the largest ones (``largest_decided``). Rounding them changes loads by more than the improvement can repair.

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

FEW_MOVES_PRICE = 0.3  # from this price on, plans have few moves: roundings are quick, and they differ
MANY_MOVES = 400  # with more moves, rounding errors average out
FEW_BROKERS = 3  # most scarce brokers to decide: each decision limits the next (with five, 14 % over the bound)
LARGEST_SHARE = 0.15  # share of the partitions that the relaxation moves; the largest are decided first
MOVES_AT_ALL = 0.01  # least part of a replica that counts as moved


@dataclass(frozen=True)
class _Trial:
    """One price on moves on a shard.

    Parameters
    ----------
    options, priced : Options
        Without and with the price on moves.
    base : State
        The state that each relaxation starts from.
    lp_time_limit : float
        Limit of one linear program, in deterministic time.
    gap : float
        A plan above its bound by more than this share of the bytes gets a second try.
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

    def after_decision(self, decided: Options, rows: Ints, bound: float) -> State:
        """The plan after some replicas are decided; ``rows`` are the rows of ``decided`` in the trial's options."""
        rest = replace(self, priced=decided, base=seed(self.problem, decided))
        relaxation = rest.relaxed(self.problem.tuning.tie_break)
        state = rest.rounded(relaxation, _roundings(relaxation, self.problem.tuning.thresholds), bound)
        return State(np.append(rows, -1)[state.replica], state.target, state.loads)

    def is_far(self, state: State, bound: float) -> bool:
        """Whether a plan has a gap (as a share of all bytes copied) or leaves a broker outside its bands."""
        gap = moved_bytes(self.options, state) - bound
        copied = self.problem.paid + max(bound, 0.0)
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
    """The plans for a price on moves, each with the proof of the first relaxation.

    Parameters
    ----------
    price : float
        In mean replica sizes.
    proof : Proof, optional
        Of the first price, if there was one.
    lp_time_limit, gap : float
        See ``search.Search``.
    """
    priced = options.priced(price * float(problem.rows.size.mean()))
    trial = _Trial(problem, options, priced, seed(problem, options), lp_time_limit, gap)
    tuning = problem.tuning
    for_bytes = price <= tuning.bytes_price
    relaxation = trial.relaxed(tuning.tie_break if for_bytes else tuning.few_moves_tie_break)
    starts = _roundings(relaxation, tuning.thresholds if price < FEW_MOVES_PRICE else tuning.more_thresholds)
    largest = largest_decided(relaxation, priced) if for_bytes else None  # Before ``prove`` drops columns.
    proof = proof or prove(relaxation, options)
    first = trial.rounded(relaxation, starts, proof.bound)
    yield first, proof
    if largest and trial.is_far(first, proof.bound):
        for state in _second_tries(trial, first, largest, proof):
            yield state, proof


def _second_tries(trial: _Trial, first: State, largest: tuple[Options, Ints], proof: Proof) -> Iterator[State]:
    """Further plans, if the first one is far from its bound.

    If all bands are met and few moves are optional, the replicas of the scarcest brokers are decided first. If that
    plan is still far and few replicas move, two more follow: one with the largest replicas decided first, and one with
    a stronger tie-break towards small replicas.
    """
    tuning = trial.problem.tuning
    # If a band is unmet, the next round may repair it at fewer bytes.
    few = free_moves(trial.options, first) <= MANY_MOVES and violation(trial.problem, first.loads) <= SETTLED
    if few and tuning.decides_scarce:
        scarce = scarce_decided(trial.problem, trial.priced, proof.prices)
        if scarce:
            state = trial.after_decision(*scarce, proof.bound)
            yield state
            if not trial.is_far(state, proof.bound):
                return
    if first.moves <= MANY_MOVES:
        yield trial.after_decision(*largest, proof.bound)
        relaxation = trial.relaxed(tuning.gap_tie_break)
        yield trial.rounded(relaxation, _roundings(relaxation, tuning.thresholds), proof.bound)


@dataclass(frozen=True)
class _BrokerCharges:
    """For each partition, the charge of changing one broker's load, and of not changing it.

    Parameters
    ----------
    touches : (K, n) bool
        Options that change the broker's load.
    stay, change : (m,) float64
        Least charge without and with a change; infinite if there is no such option.
    effect : (m, D) float64
        Change of the broker's load.
    """

    touches: Bools
    stay: Floats
    change: Floats
    effect: Floats


def _broker_charges(problem: ShardProblem, options: Options, prices: Floats, broker: int) -> _BrokerCharges:
    charge = charges(problem, options, options.cost, prices)
    leaves = options.source == broker
    touches = leaves[:, None] | (np.arange(len(problem.members.rack)) == broker)
    stay = np.where(options.needed, np.inf, 0.0)
    change = np.full(len(stay), np.inf)
    np.minimum.at(stay, options.partition, np.where(touches, np.inf, charge).min(axis=1))
    np.minimum.at(change, options.partition, np.where(touches, charge, np.inf).min(axis=1))
    sign = np.ones(len(stay))
    sign[options.partition[leaves]] = -1.0
    return _BrokerCharges(touches, stay, change, sign[:, None] * problem.rows.weights)


def _broker_decided(
    problem: ShardProblem, options: Options, prices: Floats, broker: int
) -> tuple[Options, Ints] | None:
    """Decide which options change a broker's load: these must be taken, and no others may change it.

    Returns the remaining options and their rows; None if no choice is inside the broker's bands.
    """
    members = problem.members
    others = prices.copy()
    others[broker] = 0.0
    broker_charges = _broker_charges(problem, options, others, broker)
    must = np.isinf(broker_charges.stay) & np.isfinite(broker_charges.change)
    free = np.flatnonzero(np.isfinite(broker_charges.stay) & np.isfinite(broker_charges.change))
    load = members.loads[broker] + broker_charges.effect[must].sum(axis=0)
    # Counts are whole, so half a replica of slack allows no other choice; it absorbs rounding.
    spare = np.zeros(len(load))
    spare[REPLICAS] = 0.5 / members.scale[REPLICAS]
    low, high = members.lower[broker] - load - spare, members.upper[broker] - load + spare
    whole = cheapest(
        broker_charges.change[free] - broker_charges.stay[free],
        broker_charges.effect[free],
        low,
        high,
        close=problem.tuning.scarce_close,
        for_bound=False,
    )
    if whole is None:
        return None
    goes = must.copy()
    goes[free[whole.takes]] = True
    return options.only(broker_charges.touches == goes[options.partition][:, None], goes)


def scarce_decided(problem: ShardProblem, options: Options, prices: Floats) -> tuple[Options, Ints] | None:
    """Decide the replicas of the scarce brokers, one broker after the other.

    Returns the remaining options and their rows; None if there are no or too many scarce brokers, or no decision.
    """
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
    """Decide the largest partitions that the relaxation moves, in part or as a whole.

    Each takes the option with its largest value if that is at least a half; else it stays if it may. Returns the
    remaining options and their rows.
    """
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
    based = master.base.replica >= 0  # The part that is not in the columns of these stays with their base.
    undecided = ~largest | ((options.needed | based) & ~goes)
    return options.only(open_ | undecided[options.partition][:, None], goes)
