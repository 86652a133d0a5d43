"""Small clusters to proven optimality: every placement of every replica at once, by CP-SAT.

Variables y_pb in {0, 1} say that member b holds a replica of partition p::

    minimise   sum_pb (size_p + a trifle) y_pb      over members that did not hold p before the plan
    subject to sum_b y_pb = RF_p, rack caps and floors, the spread of topics, every band

Loads are scaled to whole numbers against the band (they round up under an upper limit and down over a lower one), so
that no plan leaves its band by rounding. One worker, a fixed seed and a limit in deterministic time: the same answer
on every machine.
"""

from dataclasses import dataclass

import numpy as np
from ortools.sat.python import cp_model

from optimizer.domain import FIXED, FORCED_ONLY, Bools, Floats, Ints
from optimizer.settings import NO_LIMIT
from optimizer.solve.shard import OUTSIDE, PAD, ShardProblem

LOAD_UNITS = 10**12
MOST_CELLS = 500
DETERMINISTIC_SECONDS = 2.0


@dataclass(frozen=True)
class Placement:
    """A placement inside every band, and whether no other moves fewer bytes.

    Parameters
    ----------
    holds : (m, n) bool
    optimal : bool
    """

    holds: Bools
    optimal: bool


def is_small_cluster(problem: ShardProblem) -> bool:
    """Whether the shard is a cluster of its own, and small enough."""
    return not (problem.hosts == OUTSIDE).any() and problem.original.size <= MOST_CELLS


def solve_small(problem: ShardProblem, hint: Bools) -> Placement | None:
    """The least bytes over all placements inside the bands; None where none was found.

    Parameters
    ----------
    problem : ShardProblem
        One row for each partition.
    hint : (m, n) bool
        A placement to start from.
    """
    model = cp_model.CpModel()
    may, must = _domain(problem)
    ranges = zip(must.astype(int).tolist(), may.astype(int).tolist(), strict=True)
    holds = [[model.new_int_var(a, b, "") for a, b in zip(low, high, strict=True)] for low, high in ranges]
    _replicas_and_racks(model, holds, problem, must)
    _topics(model, holds, problem, must)
    _bands(model, holds, problem)
    copied = np.rint(problem.size * LOAD_UNITS).astype(np.int64)[:, None] * len(hint) * 8 + 1
    cost = np.where(problem.original, 0, copied)
    flat = [variable for row in holds for variable in row]
    model.minimize(cp_model.LinearExpr.weighted_sum(flat, cost.ravel().tolist()))
    for variable, value in zip(flat, hint.ravel().tolist(), strict=True):
        model.add_hint(variable, value)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = 1
    solver.parameters.max_deterministic_time = DETERMINISTIC_SECONDS
    status = solver.solve(model)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return None
    found = np.array([solver.value(variable) for variable in flat], dtype=bool).reshape(hint.shape)
    return Placement(found, status == cp_model.OPTIMAL)


def _domain(problem: ShardProblem) -> tuple[Bools, Bools]:
    """Where a replica may be, and where it must: (m, n) each."""
    now = problem.held
    inside = problem.pin_allows[problem.pin]
    may = (problem.accepts[None, :] | now) & ~problem.must_empty[None, :] & inside
    fixed = problem.mobility == FIXED
    stays = (problem.mobility == FORCED_ONLY)[:, None] & now & may
    return np.where(fixed[:, None], now, may), np.where(fixed[:, None], now, stays)


def _replicas_and_racks(
    model: cp_model.CpModel, holds: list[list[cp_model.IntVar]], problem: ShardProblem, must: Bools
) -> None:
    counts = (problem.hosts != PAD).sum(axis=1)
    racks = [np.flatnonzero(problem.rack == r) for r in np.unique(problem.rack)]
    for p, row in enumerate(holds):
        model.add(sum(row) == int(counts[p]))
        for members in racks:
            there = sum(row[b] for b in members)
            size = int(problem.rack_size[problem.pin[p], problem.rack[members[0]]])
            model.add(there <= max(int(problem.cap[p]), int(must[p, members].sum())))
            model.add(there >= min(int(problem.floor[p]), size))


def _topics(model: cp_model.CpModel, holds: list[list[cp_model.IntVar]], problem: ShardProblem, must: Bools) -> None:
    """No member has more of a topic than its most, or than what must stay there."""
    spread = problem.spread
    for topic in np.flatnonzero(spread.most < NO_LIMIT) if spread else ():
        rows = np.flatnonzero(problem.topic == topic)
        for b in range(len(problem.rack)):
            stuck, most = int(must[rows, b].sum()), int(problem.topic_most[rows[0]])
            model.add(sum(holds[p][b] for p in rows) <= max(stuck, most))


def _bands(model: cp_model.CpModel, holds: list[list[cp_model.IntVar]], problem: ShardProblem) -> None:
    weight = problem.weights * LOAD_UNITS
    for b in range(len(problem.rack)):
        column = [row[b] for row in holds]
        for d in range(weight.shape[1]):
            if np.isfinite(problem.upper[b, d]):
                load = cp_model.LinearExpr.weighted_sum(column, np.ceil(weight[:, d]).astype(int).tolist())
                model.add(load <= _whole(problem.upper[b, d], len(column)))
            load = cp_model.LinearExpr.weighted_sum(column, np.floor(weight[:, d]).astype(int).tolist())
            model.add(load >= _whole(problem.lower[b, d], 0))


def _whole(limit: Floats, slack: int) -> int:
    """A limit in load units; an upper one with room for what rounding up has added."""
    return int(np.floor(float(limit) * LOAD_UNITS)) + slack


def changes(problem: ShardProblem, holds: Bools) -> tuple[Ints, Ints, Ints]:
    """Row, slot and target of each replica that a placement moves."""
    rows: list[int] = []
    slots: list[int] = []
    targets: list[int] = []
    now = problem.held
    for p in np.flatnonzero((now != holds).any(axis=1)):
        arriving = np.flatnonzero(holds[p] & ~now[p])
        leaving = [j for j, b in enumerate(problem.hosts[p]) if b >= 0 and not holds[p, b]]
        rows += [int(p)] * len(arriving)
        slots += leaving
        targets += arriving.tolist()
    return np.array(rows, dtype=np.int64), np.array(slots, dtype=np.int64), np.array(targets, dtype=np.int64)
