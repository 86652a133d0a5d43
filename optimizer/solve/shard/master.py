"""The restricted master model of a shard's relaxation: the columns generated so far, around a base state.

In the *base* every partition that must move takes one of its options, and the others stay. Variables x_kt in
[0, 1] leave the base for option (k, t), or go home from it; u_bd, v_bd >= 0 are band violations::

    minimise   sum_kt (c_kt - c_base) x_kt + PENALTY (sum_bd u_bd + v_bd)
    subject to lower_bd <= base load_bd + sum_kt (effect_kt - effect_base)_bd x_kt + u_bd - v_bd <= upper_bd
               sum_{kt of p} x_kt <= 1                        for each partition

The rows of partitions are thousands and would take nearly all of the time, so they are left out. If a solution breaks
such a row, its partition keeps a single column (``thin_out``). Which target a replica goes to hardly matters, as long
as the targets are spread; other replicas fill the gaps.
"""

import numpy as np
import scipy.sparse as sp

from optimizer.domain import Bools, Floats, Ints
from optimizer.solve.ortools.glop import minimise
from optimizer.solve.shard.choice import State, apply_choice
from optimizer.solve.shard.legal_options import Options, tie_broken_cost
from optimizer.solve.shard.shard_problem import ShardProblem

# Penalty in bytes for a unit of load outside its band, both in mean broker loads: the largest possible price.
# It decides the plan, so it is well above any price of a band that can be met; the one of class_prices may be lower.
PENALTY = 200.0
TAKEN = 1e-9  # part of a replica: a smaller value may be rounding
TWICE = 1e-7  # sum of a partition's columns above 1; a smaller excess may be GLOP's tolerance, 1e-8 for each
EQUAL_DIGITS = 6  # values that agree in these digits are equal, and the turn decides
STRIDE = 7919  # members; a prime, so that each turn has its own target and successive turns are far apart


class Master:
    """The restricted model over the columns and rows generated so far, around a base.

    A column is an option k * n + t, or K * n + p: partition p returns from its base to its source.
    """

    def __init__(
        self,
        problem: ShardProblem,
        options: Options,
        base: State,
        tie_break: float,
        lp_time_limit: float = np.inf,
    ) -> None:
        self.problem, self.options, self.lp_time_limit = problem, options, lp_time_limit
        self.cost = tie_broken_cost(problem, options, tie_break)
        self.first_home = options.allowed.size
        self.base = base
        self.open = options.allowed.copy()
        ends = np.concatenate([problem.members.lower.ravel(), problem.members.upper.ravel()])
        self.ends = ends - np.tile(base.loads.ravel(), 2)
        self.based = np.flatnonzero(base.replica >= 0)
        self.pool = self.first_home + self.based[~options.needed[self.based]]

    def base_values(self, table: Floats) -> Floats:
        """Values of the base's options in a (K, n) table, by partition; 0 if the base stays."""
        values = np.zeros(len(self.problem.rows.hosts))
        values[self.based] = table[self.base.replica[self.based], self.base.target[self.based]]
        return values

    @property
    def moves(self) -> Ints:
        """Columns of the pool that are options."""
        return self.pool[self.pool < self.first_home]

    def partitions(self) -> Ints:
        """Partition of each column, (C,)."""
        moves = self.options.partition[self.moves // len(self.problem.members.rack)]
        return np.concatenate([moves, self.pool[len(moves) :] - self.first_home])

    def _columns(self) -> sp.csr_matrix:
        """Effects of the columns on the loads."""
        n, d = self.problem.members.loads.shape
        k, t = np.divmod(self.moves, n)
        p = self.partitions()
        move, leave = np.arange(len(k)), np.flatnonzero(self.base.replica[p] >= 0)
        back = self.options.source[self.base.replica[p[leave]]]
        broker = np.concatenate([t, self.options.source[k], self.base.target[p[leave]], back])
        at = np.concatenate([move, move, leave, leave])
        sign = np.repeat([1.0, -1.0, -1.0, 1.0], [len(k), len(k), len(leave), len(leave)])
        load = self.problem.rows.weights[p[at]] * sign[:, None]
        rows = (broker[:, None] * d + np.arange(d)).ravel()
        return sp.csr_matrix((load.ravel(), (rows, np.repeat(at, d))), shape=(n * d, len(p)))

    def solve(self) -> tuple[Floats, Floats, float]:
        """Solve the restricted model: values (C,), band prices (n, D), objective; raises ``glop.OutOfTime``."""
        shape = self.problem.members.loads.shape
        bands = shape[0] * shape[1]
        slack = sp.eye_array(bands, format="csr")
        matrix = sp.hstack([self._columns(), slack, -slack]).tocsr()
        base_cost = self.base_values(self.cost)
        cost = np.concatenate([self._taken(self.cost) - base_cost[self.partitions()], np.full(2 * bands, PENALTY)])
        upper = np.concatenate([np.ones(len(self.pool)), np.full(2 * bands, np.inf)])
        rows = self.ends[:bands], self.ends[bands:]
        values, duals, objective = minimise(cost, upper, *rows, matrix, time_limit=self.lp_time_limit)
        return values[: len(self.pool)], -duals.reshape(shape), objective + float(base_cost.sum())

    def _taken(self, table: Floats) -> Floats:
        """Value of each column in a (K, n) table; 0 for columns that return to the source."""
        moves = self.moves
        return np.concatenate([table.ravel()[moves], np.zeros(len(self.pool) - len(moves))])

    def keep(self, kept: Bools) -> None:
        """Drop the other columns, except those that return to the source."""
        self.pool = self.pool[kept | (self.pool >= self.first_home)]

    def thin_out(self, values: Floats) -> bool:
        """Keep only one column of each partition that moves more than once; returns whether there was one.

        It is the column with the largest value; among equals a turn by partition decides, which spreads the targets.
        """
        partition = self.partitions()
        total = np.bincount(partition, values, len(self.problem.rows.hosts))
        at = np.flatnonzero((total > 1 + TWICE)[partition] & (values > TAKEN))
        if not len(at):
            return False
        n = len(self.problem.members.rack)
        turn = (self.pool[at] + partition[at]) % n
        order = at[np.lexsort((self.pool[at], turn * STRIDE % n, -np.round(values[at], EQUAL_DIGITS), partition[at]))]
        kept = order[np.r_[True, partition[order][1:] != partition[order][:-1]]]
        single = np.zeros(len(total), dtype=bool)
        single[partition[kept]] = True
        stays = ~single[partition]
        stays[kept] = True
        self.open &= ~single[self.options.partition][:, None]
        self.pool = self.pool[stays]
        return True

    def _least(self, charge: Floats) -> Floats:
        """Least charge of each partition over the pool and its base, (m,)."""
        least = self.base_values(charge)
        np.minimum.at(least, self.partitions(), self._taken(charge))
        return least

    def gains(self, charge: Floats) -> Floats:
        """Charge of every option minus the least charge in the pool and base of its partition, (K, n)."""
        return np.asarray(charge - self._least(charge)[self.options.partition][:, None])

    def rounded(self, values: Floats, threshold: float) -> State:
        """Round to whole moves: apply each partition's largest x to the base if it reaches the threshold.

        For a partition that must move, the largest x counts if it exceeds the part that stays with the base.
        """
        partition, (replica, target) = self.partitions(), self._choices()
        order = np.lexsort((np.arange(len(partition)), -values, partition))
        first = order[np.r_[True, partition[order][1:] != partition[order][:-1]]] if len(order) else order
        base_part = 1.0 - np.bincount(partition, values, len(self.problem.rows.hosts))
        level = np.where(self.options.needed, base_part, threshold)[partition[first]]
        keep = first[values[first] >= level]
        chosen_replica, chosen_target = self.base.replica.copy(), self.base.target.copy()
        chosen_replica[partition[keep]], chosen_target[partition[keep]] = replica[keep], target[keep]
        return apply_choice(self.problem, self.options, chosen_replica, chosen_target)

    def _choices(self) -> tuple[Ints, Ints]:
        """Replica and target of each column; -1 if it returns to the source."""
        k, t = np.divmod(self.moves, len(self.problem.members.rack))
        home = np.full(len(self.pool) - len(k), -1)
        return np.concatenate([k, home]), np.concatenate([t, home])
