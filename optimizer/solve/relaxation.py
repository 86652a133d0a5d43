"""The shard's linear relaxation, solved by column generation with OR-Tools' GLOP.

Variables x_kt in [0, 1] for options (k, t), u_bd, v_bd >= 0 band violations, e_p >= 0 a needed move not made::

    minimise   sum_kt c_kt x_kt + PENALTY (sum_bd u_bd + v_bd) + MISSED sum_p e_p                       (1)
    subject to lower_bd <= load_bd + sum_kt w_pd ([t=b] - [source_k=b]) x_kt + u_bd - v_bd <= upper_bd    (2)
               sum_{kt of p} x_kt <= 1                        for partitions that may move                (3)
               sum_{kt of p} x_kt + e_p = 1                   for partitions that must move               (4)

c_kt is the bytes of the copy with a tie-break towards small replicas: every set of replicas that adds up to a
broker's excess
costs the same bytes, and a set of many middling ones rounds nearly exactly, a few giants do not. Columns are priced
over *all* options by the duals, so none is missed by sampling.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from ortools.linear_solver.python import model_builder_helper as mbh

from optimizer.domain import Floats, Ints
from optimizer.solve.shard import Options, ShardProblem

PENALTY = 200.0
MISSED = 2000.0
TIE_BREAK = 0.005
FIXED_COST = 1e-7
ITERATIONS = 25
BOUND_ITERATIONS = 4
PER_PAIR = 24
STOP_GAP = 1e-4
DUAL_SHARE = 0.25  # dual simplex is five times faster where bands decide, primal where most partitions must move


@dataclass(frozen=True)
class Relaxation:
    """Solution of the relaxation.

    Parameters
    ----------
    replica, target : (C,) int64
        The generated columns as options.
    value : (C,) float64
        x of each column.
    prices : (n, D) float64
        Price of one unit of load on each broker, in bytes per mean broker loads.
    objective : float
        Value of (1) with the tie-break.
    bound : float
        Lower bound on the bytes of any single moves within the bands, in mean broker loads.
    """

    replica: Ints
    target: Ints
    value: Floats
    prices: Floats
    objective: float
    bound: float


def tie_broken_cost(problem: ShardProblem, options: Options) -> Floats:
    """Cost of each option, (K, n), with the tie-break towards small replicas."""
    size = problem.size
    moving = size[size > 0]
    mean = float(moving.mean()) if len(moving) else 1.0
    factor = 1.0 + TIE_BREAK * size / mean
    return np.asarray(options.cost * factor[options.partition][:, None] + FIXED_COST)


def _seed_prices(problem: ShardProblem) -> Floats:
    middle = np.where(np.isfinite(problem.upper), (problem.lower + problem.upper) / 2, problem.loads)
    return np.clip(problem.loads - middle, -1, 1)


class _Master:
    """The restricted LP over the columns generated so far."""

    def __init__(self, problem: ShardProblem, options: Options) -> None:
        self.problem, self.options = problem, options
        self.cost = tie_broken_cost(problem, options)
        n, d = problem.loads.shape
        self.bands = n * d
        self.limits = np.concatenate([problem.lower.ravel(), problem.upper.ravel()]) - np.tile(problem.loads.ravel(), 2)
        self.pool = np.zeros(0, dtype=np.int64)

    def add(self, flat: Ints) -> int:
        """Add options by flat index k * n + t; returns how many were new."""
        grown = np.union1d(self.pool, flat)
        added = len(grown) - len(self.pool)
        self.pool = grown
        return added

    def _columns(self) -> sp.csr_matrix:
        n, d = self.problem.loads.shape
        k, t = np.divmod(self.pool, n)
        p, s = self.options.partition[k], self.options.source[k]
        column = np.repeat(np.arange(len(k)), d)
        resource = np.tile(np.arange(d), len(k))
        weight = self.problem.weights[p].ravel()
        rows = np.concatenate(
            [np.repeat(t, d) * d + resource, np.repeat(s, d) * d + resource, self.bands + self.row_of[p]]
        )
        cols = np.concatenate([column, column, np.arange(len(k))])
        data = np.concatenate([weight, -weight, np.ones(len(k))])
        shape = (self.bands + len(self.rows), len(k))
        return sp.csr_matrix((data, (rows, cols)), shape=shape)

    def solve(self) -> tuple[Floats, Floats, Floats, float]:
        """Solve the restricted LP: values (C,), band prices (n, D), partition duals (m,), objective."""
        m = len(self.problem.hosts)
        k, t = np.divmod(self.pool, len(self.problem.rack))
        needed = np.flatnonzero(self.options.needed)
        self.rows = np.union1d(self.options.partition[k], needed)
        self.row_of = np.full(m, -1)
        self.row_of[self.rows] = np.arange(len(self.rows))
        slack = sp.eye_array(self.bands + len(self.rows), self.bands, format="csr")
        missed = sp.csr_matrix(
            (np.ones(len(needed)), (self.bands + self.row_of[needed], np.arange(len(needed)))),
            shape=(self.bands + len(self.rows), len(needed)),
        )
        matrix = sp.hstack([self._columns(), slack, -slack, missed]).tocsr()
        extra = 2 * self.bands + len(needed)
        cost = np.concatenate([self.cost[k, t], np.full(2 * self.bands, PENALTY), np.full(len(needed), MISSED)])
        upper = np.concatenate([np.ones(len(k)), np.full(extra, np.inf)])
        must = self.options.needed[self.rows].astype(np.float64)
        row_low = np.concatenate([self.limits[: self.bands], np.where(must > 0, 1.0, 0.0)])
        row_high = np.concatenate([self.limits[self.bands :], np.ones(len(self.rows))])
        few_needed = len(needed) < DUAL_SHARE * len(self.rows)
        values, duals, objective = solve_lp(cost, upper, row_low, row_high, matrix, dual_simplex=few_needed)
        partition_dual = np.zeros(m)
        partition_dual[self.rows] = duals[self.bands :]
        return values[: len(k)], -duals[: self.bands].reshape(self.problem.loads.shape), partition_dual, objective

    def reduced_costs(self, prices: Floats, partition_dual: Floats) -> Floats:
        """Reduced cost of every option, (K, n); +inf where not allowed."""
        options = self.options
        weight = self.problem.weights[options.partition]
        price = weight @ prices.T
        paid = np.take_along_axis(price, options.source[:, None], axis=1)
        reduced = self.cost + price - paid - partition_dual[options.partition][:, None]
        return np.where(options.allowed, reduced, np.inf)


def solve_lp(
    cost: Floats, upper: Floats, row_low: Floats, row_high: Floats, matrix: sp.csr_matrix, *, dual_simplex: bool
) -> tuple[Floats, Floats, float]:
    """Minimise cost x, 0 <= x <= upper, row_low <= matrix x <= row_high: values, duals, objective.

    Raises
    ------
    ArithmeticError
        When GLOP does not end OPTIMAL.
    """
    helper = mbh.ModelBuilderHelper()
    model: tuple[Any, ...] = (np.zeros(len(cost)), upper, cost, row_low, row_high, matrix)
    helper.fill_model_from_sparse_data(*model)
    solver = mbh.ModelSolverHelper("GLOP")
    solver.set_solver_specific_parameters(f"use_dual_simplex: {str(dual_simplex).lower()}")
    solver.solve(helper)
    if solver.status() != mbh.SolveStatus.OPTIMAL:
        raise ArithmeticError(f"GLOP ended {solver.status()} on {matrix.shape[0]} rows and {matrix.shape[1]} columns")
    return np.array(solver.variable_values()), np.array(solver.dual_values()), float(solver.objective_value())


def _best_per_pair(options: Options, reduced: Floats, threshold: float, per_pair: int) -> Ints:
    """Flat indices of the most negative reduced costs, at most ``per_pair`` for each (source, target)."""
    k, t = np.nonzero(reduced < threshold)
    if not len(k):
        return np.zeros(0, dtype=np.int64)
    n = reduced.shape[1]
    pair = options.source[k] * n + t
    order = np.lexsort((k, reduced[k, t], pair))
    pair = pair[order]
    start = np.flatnonzero(np.r_[True, pair[1:] != pair[:-1]])
    rank = np.arange(len(pair)) - np.repeat(start, np.diff(np.r_[start, len(pair)]))
    chosen = order[rank < per_pair]
    return np.sort(k[chosen] * n + t[chosen])


def lagrangian(problem: ShardProblem, options: Options, prices: Floats) -> float:
    """Bytes that any single moves within the bands must cost, by weak duality at the given prices (module docstring,
    (2)).

    Every partition takes its cheapest option at the prices, or stays where it may; the bands are paid for.
    """
    price = problem.weights[options.partition] @ prices.T
    paid = np.take_along_axis(price, options.source[:, None], axis=1)
    value = np.where(options.allowed, options.cost + price - paid, np.inf).min(axis=1)
    best = np.where(options.needed, np.inf, 0.0)
    np.minimum.at(best, options.partition, value)
    upper = np.where(np.isfinite(problem.upper), problem.upper, 0.0)
    rising = np.where(np.isfinite(problem.upper), np.maximum(prices, 0), 0.0)
    falling = np.maximum(-prices, 0)
    return float(
        best.sum() + (rising * (problem.loads - upper)).sum() - (falling * (problem.loads - problem.lower)).sum()
    )


def _generate(master: _Master, iterations: int) -> tuple[Floats, Floats, float]:
    """Solve and add columns until the bound meets the objective: values, prices and objective of the last solve."""
    problem, options = master.problem, master.options
    best_bound = -np.inf
    for iteration in range(iterations):
        values, prices, dual, objective = master.solve()
        if iteration == iterations - 1:
            break
        reduced = master.reduced_costs(prices, dual)
        per_partition = np.zeros(len(problem.hosts))
        np.minimum.at(per_partition, options.partition, np.minimum(reduced.min(axis=1), 0.0))
        best_bound = max(best_bound, objective + float(per_partition.sum()))
        if objective - best_bound <= STOP_GAP * max(abs(objective), 1e-9):
            break
        if not master.add(_best_per_pair(options, reduced, -1e-9, PER_PAIR << min(iteration, 6))):
            break
    return values, prices, objective


def relax(problem: ShardProblem, options: Options) -> Relaxation:
    """Solve the relaxation by column generation: first with the tie-break, for rounding, then without, for the
    bound."""
    master = _Master(problem, options)
    prices = _seed_prices(problem)
    start = master.reduced_costs(prices, np.zeros(len(problem.hosts)))
    forced = np.where(options.needed[options.partition][:, None], start, np.inf)
    master.add(np.union1d(_best_per_pair(options, start, 0.0, PER_PAIR), _cheapest_of_needed(options, forced)))
    values, _, objective = _generate(master, ITERATIONS)
    replica, target = np.divmod(master.pool, len(problem.rack))
    master.cost = options.cost
    _, prices, _ = _generate(master, BOUND_ITERATIONS)
    return Relaxation(replica, target, values, prices, objective, lagrangian(problem, options, prices))


def _cheapest_of_needed(options: Options, reduced: Floats) -> Ints:
    """For each partition that must move, its cheapest option of every movable replica."""
    k = np.flatnonzero(np.isfinite(reduced).any(axis=1))
    return k * reduced.shape[1] + reduced[k].argmin(axis=1)
