"""The shard's linear relaxation, solved by column generation with OR-Tools' GLOP (model: ``master``).

Costs are the bytes of a copy with a tie-break towards small replicas. Every set of replicas that adds up to a broker's
excess costs the same bytes, but a set of many small ones rounds nearly exactly, and a few very large ones do not. The
duals price *all* options, so no column is missed by sampling.

References
----------
M. E. Lübbecke, J. Desrosiers, Selected topics in column generation, Operations Research 53 (2005).
"""

from dataclasses import dataclass

import numpy as np

from optimizer.domain import Floats, Ints
from optimizer.solve.shard.choice import State, violation
from optimizer.solve.shard.legal_options import Options, charges, dual_value
from optimizer.solve.shard.master import TAKEN, Master
from optimizer.solve.shard.shard_problem import ShardProblem

ITERATIONS = 60  # most solves; STOP_GAP should end it earlier
BOUND_ITERATIONS = 6  # most further solves for the bound by bytes alone: it has its columns, and mostly needs one
AROUND_ITERATIONS = 10  # most solves around a plan, with all brokers: they are slow, and any prices prove a bound
STOP_GAP = 5e-4  # share of the cost: a gap this small ends column generation
BROKEN = 0.2  # load outside bands over cost, of the rounded plan: more needs more columns, less is repaired later
HALF = 0.5  # part of a replica that is rounded up
NEARLY = 0.05  # share of the cost: below this gap, partitions that move twice keep only one column
REDUCED = 1e-9  # bytes in mean broker loads: a smaller reduced cost may be rounding
LEAST_COST = 1e-9  # bytes in mean broker loads: gaps are measured against at least this cost
DOUBLINGS = 4  # of the options that a pair gets at a time: a long generation needs more, sixteenfold is enough
NEAR = 0.02  # bytes in mean broker loads: the improvement tries options this near to the best


@dataclass(frozen=True)
class Relaxation:
    """Solution of the relaxation.

    Parameters
    ----------
    master : Master
        The model, with its columns and its base; ``prove`` continues with it.
    value : (C,) float64
        x of each column.
    near_replica, near_target : (N,) int64
        Options that the improvement tries: the columns, and others with nearly their reduced cost.
    """

    master: Master
    value: Floats
    near_replica: Ints
    near_target: Ints

    def rounded(self, threshold: float) -> State:
        """Whole moves: each partition's largest x if it reaches the threshold. Call it before ``prove``."""
        return self.master.rounded(self.value, threshold)


@dataclass(frozen=True)
class Proof:
    """Prices and lower bound from a relaxation.

    Parameters
    ----------
    prices : (n, D) float64
        Price of one unit of load on each broker, in bytes per mean broker loads.
    bound : float
        Lower bound on the bytes of any single moves within the bands, in mean broker loads.
    """

    prices: Floats
    bound: float


def _best_per_pair(options: Options, gain: Floats, per_pair: int) -> Ints:
    """Flat indices of the most negative gains, at most ``per_pair`` for each (source, target)."""
    k, t = np.nonzero(gain < -REDUCED)
    n = gain.shape[1]
    pair = options.source[k] * n + t
    order = np.lexsort((k, gain[k, t], pair))
    pair = pair[order]
    first = np.r_[True, pair[1:] != pair[:-1]] if len(pair) else np.zeros(0, dtype=bool)
    start = np.flatnonzero(first)
    rank = np.arange(len(pair)) - np.repeat(start, np.diff(np.r_[start, len(pair)]))
    chosen = order[rank < per_pair]
    return np.sort(k[chosen] * n + t[chosen])


def _generate(master: Master, iterations: int, *, for_rounding: bool) -> tuple[Floats, Proof]:
    """Solve and add columns until the bound meets the objective; returns the last values and the best proof.

    With ``for_rounding``, the rounded values must also come near the bands.
    """
    problem, options = master.problem, master.options
    best, best_prices = -np.inf, np.zeros_like(problem.members.loads)
    for iteration in range(iterations):
        values, prices, objective = master.solve()
        charge = charges(problem, options, master.cost, prices)
        dual = dual_value(problem, options, charge, prices)
        if dual > best:
            best, best_prices = dual, prices
        size = max(abs(objective), LEAST_COST)
        broken = violation(problem, master.rounded(values, HALF).loads) if for_rounding else 0.0
        settled = objective - best <= STOP_GAP * size and broken <= BROKEN * size
        if settled or iteration == iterations - 1:
            break
        gain = master.gains(charge)
        thinned = for_rounding and objective - best <= NEARLY * size and master.thin_out(values)
        gain = np.where(master.open, gain, np.inf)
        per_pair = problem.tuning.per_pair << min(iteration, DOUBLINGS)
        new = np.setdiff1d(_best_per_pair(options, gain, per_pair), master.pool)
        if not (thinned or len(new)):
            break
        master.pool = np.union1d(master.pool, new)
    return values, Proof(best_prices, best)


def _seed_prices(problem: ShardProblem) -> Floats:
    members = problem.members
    middle = np.where(np.isfinite(members.upper), (members.lower + members.upper) / 2, members.loads)
    return np.clip(members.loads - middle, -1, 1)


def _near(master: Master, prices: Floats, per_pair: int) -> Ints:
    """The options with the least reduced cost, for each (source, target)."""
    gain = master.gains(charges(master.problem, master.options, master.cost, prices))
    return _best_per_pair(master.options, gain - NEAR, per_pair)


def relax(problem: ShardProblem, options: Options, base: State, tie_break: float, lp_time_limit: float) -> Relaxation:
    """Solve the relaxation by column generation, with a tie-break for rounding (``legal_options.tie_broken_cost``).

    Raises
    ------
    OutOfTime
        If a linear program needs more than ``lp_time_limit`` of deterministic time; ``prove`` has the same limit.
    """
    master = Master(problem, options, base, tie_break, lp_time_limit)
    start = charges(problem, options, master.cost, _seed_prices(problem))
    master.pool = np.union1d(master.pool, _best_per_pair(options, master.gains(start), problem.tuning.per_pair))
    values, proof = _generate(master, ITERATIONS, for_rounding=True)
    near = np.divmod(
        np.union1d(master.moves, _near(master, proof.prices, problem.tuning.near_per_pair)), len(problem.members.rack)
    )
    return Relaxation(master, values, *near)


def prove(relaxation: Relaxation, options: Options) -> Proof:
    """Prices and bound from the columns of a relaxation, by bytes alone: no tie-break, no price on moves."""
    master = relaxation.master
    master.cost = options.cost
    master.keep(relaxation.value > TAKEN)
    _, proof = _generate(master, BOUND_ITERATIONS, for_rounding=False)
    return proof


def prove_around(problem: ShardProblem, options: Options, base: State, columns: Ints) -> Proof:
    """Prices and bound by bytes alone, from the columns that a plan took: flat indices into (K, n).

    The better of two: without the rows that let a partition move only once, and with one column for each partition
    that broke its row.
    """
    master = Master(problem, options, base, 0.0)
    master.cost = options.cost
    master.pool = np.union1d(master.pool, columns)
    _, plain = _generate(master, AROUND_ITERATIONS, for_rounding=False)
    _, thinned = _generate(master, AROUND_ITERATIONS, for_rounding=True)
    return max(plain, thinned, key=lambda proof: proof.bound)
