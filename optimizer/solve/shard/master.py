"""The restricted model of a shard's relaxation: the columns generated so far, around a base.

Every partition that must move starts with one of its options, every other one stays: the *base*. Variables x_kt in
[0, 1] leave the base for option (k, t), or go home from it; u_bd, v_bd >= 0 are band violations::

    minimise   sum_kt (c_kt - c_base) x_kt + PENALTY (sum_bd u_bd + v_bd)
    subject to lower_bd <= base load_bd + sum_kt (effect_kt - effect_base)_bd x_kt + u_bd - v_bd <= upper_bd
               sum_{kt of p} x_kt <= 1                        for each partition

The rows of the partitions are thousands and would cost nearly all of the time. They are left out, and where a solution
breaks one, its partition is left a single column (``thin_out``): which target a replica goes to hardly matters as long
as the targets are spread, and others fill what is left.
"""

import numpy as np
import scipy.sparse as sp

from optimizer.domain import Bools, Floats, Ints
from optimizer.solve.ortools.glop import minimise
from optimizer.solve.shard.choice import State, apply_choice
from optimizer.solve.shard.legal_options import Options, tie_broken_cost
from optimizer.solve.shard.shard_problem import ShardProblem

# Bytes that a unit of load outside its band is worth, both in mean broker loads: the most that a price can be.
# It decides the plan, so it is over any price of a band that can be met, with more to spare than that of class_prices.
PENALTY = 200.0
TAKEN = 1e-9  # part of a replica that is more than rounding
TWICE = 1e-7  # part of a replica over one: less is what GLOP may be off by, 1e-8, in a few columns of a partition
ALIKE = 6  # digits of a value: values that agree in them are equal, and the turn decides
STRIDE = 7919  # members: a prime, so that each turn has a target of its own, and turns that follow each other lie apart


class Master:
    """The restricted model over the columns and rows generated so far, around a base.

    A column is an option k * n + t, or K * n + p: partition p goes home from its base.
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

    def of_base(self, table: Floats) -> Floats:
        """Values of the base's options in a (K, n) table, by partition; 0 where the base stays."""
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
        base_cost = self.of_base(self.cost)
        cost = np.concatenate([self._taken(self.cost) - base_cost[self.partitions()], np.full(2 * bands, PENALTY)])
        upper = np.concatenate([np.ones(len(self.pool)), np.full(2 * bands, np.inf)])
        rows = self.ends[:bands], self.ends[bands:]
        values, duals, objective = minimise(cost, upper, *rows, matrix, time_limit=self.lp_time_limit)
        return values[: len(self.pool)], -duals.reshape(shape), objective + float(base_cost.sum())

    def _taken(self, table: Floats) -> Floats:
        """Value of each column in a (K, n) table; 0 for the way home."""
        moves = self.moves
        return np.concatenate([table.ravel()[moves], np.zeros(len(self.pool) - len(moves))])

    def keep(self, wanted: Bools) -> None:
        """Go on with some of the columns, and the ways home."""
        self.pool = self.pool[wanted | (self.pool >= self.first_home)]

    def thin_out(self, values: Floats) -> bool:
        """Leave one column to each partition that the values take more than once; returns whether there was any.

        Which target it keeps hardly matters, as long as they are spread: the largest value, then a turn by partition.
        """
        partition = self.partitions()
        total = np.bincount(partition, values, len(self.problem.rows.hosts))
        at = np.flatnonzero((total > 1 + TWICE)[partition] & (values > TAKEN))
        if not len(at):
            return False
        n = len(self.problem.members.rack)
        turn = (self.pool[at] + partition[at]) % n
        order = at[np.lexsort((self.pool[at], turn * STRIDE % n, -np.round(values[at], ALIKE), partition[at]))]
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
        least = self.of_base(charge)
        np.minimum.at(least, self.partitions(), self._taken(charge))
        return least

    def gains(self, charge: Floats) -> Floats:
        """Charge of every option over the least in the pool of its partition, its base among them, (K, n)."""
        return np.asarray(charge - self._least(charge)[self.options.partition][:, None])

    def rounded(self, values: Floats, threshold: float) -> State:
        """The base changed by each partition's largest x where it reaches the threshold; where the partition must
        move, where it exceeds what is left for the base."""
        partition, (replica, target) = self.partitions(), self._choices()
        order = np.lexsort((np.arange(len(partition)), -values, partition))
        first = order[np.r_[True, partition[order][1:] != partition[order][:-1]]] if len(order) else order
        left = 1.0 - np.bincount(partition, values, len(self.problem.rows.hosts))
        level = np.where(self.options.needed, left, threshold)[partition[first]]
        keep = first[values[first] >= level]
        chosen_replica, chosen_target = self.base.replica.copy(), self.base.target.copy()
        chosen_replica[partition[keep]], chosen_target[partition[keep]] = replica[keep], target[keep]
        return apply_choice(self.problem, self.options, chosen_replica, chosen_target)

    def _choices(self) -> tuple[Ints, Ints]:
        """Replica and target of each column; -1 for the way home."""
        k, t = np.divmod(self.moves, len(self.problem.members.rack))
        home = np.full(len(self.pool) - len(k), -1)
        return np.concatenate([k, home]), np.concatenate([t, home])
