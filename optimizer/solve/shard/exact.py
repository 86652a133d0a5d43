"""Solve small clusters to proven optimality: all placements of all replicas at once, by CP-SAT.

Variables y_pb in {0, 1} say that member b holds a replica of partition p::

    minimise   sum_pb copy_pb y_pb     over members that did not hold p before the plan; at equal bytes, fewest copies;
                                       then fewest replicas out of sync that stay although one of their list must leave
    subject to sum_b y_pb = RF_p, rack caps and floors, the spread of topics, every band, enough replicas in sync

The model does not depend on the round: domain and costs are those before the plan, so a proof is valid for the plan as
a whole. Sizes, loads and limits are whole bytes and bytes per second. A limit is rounded away from the band by at most
its own rounding error as a float, so no placement inside the bands is excluded. One worker, a fixed seed and a limit in
deterministic time give the same answer on every machine. If the search reaches its time limit, its bound is still
valid.

References
----------
L. Perron, F. Didier, S. Gay, The CP-SAT-LP solver, CP 2023.
"""

from dataclasses import dataclass

import numpy as np
from ortools.sat.python import cp_model

from optimizer.cluster_policy import NO_LIMIT
from optimizer.domain import FORCED_ONLY, RACKS_ONLY, Bands, Bools, Ints
from optimizer.solve.ortools.cp_sat import careful_solver
from optimizer.solve.rules.mobility import stays
from optimizer.solve.shard.legal_options import rack_broken
from optimizer.solve.shard.shard_problem import PAD, ShardProblem
from optimizer.solve.tuning import Tuning

DUST = 1e-15  # share of a limit: rounding by scaling it and back


@dataclass(frozen=True)
class ExactPlan:
    """A placement inside every band, and the least bytes that any such placement copies.

    Parameters
    ----------
    holds : (m, n) bool
    least_bytes : int
        Lower bound for any placement inside the bands; if the search finished, this placement copies just that.
    """

    holds: Bools
    least_bytes: int


def is_small_cluster(problem: ShardProblem) -> bool:
    """Whether the shard is a whole cluster, small enough for the search, and may be balanced.

    The search can't model partitions that may only repair their racks.
    """
    small = is_small(problem.tuning, *problem.rows.original.shape)
    return problem.is_cluster and small and not (problem.rows.mobility == RACKS_ONLY).any()


def is_small(tuning: Tuning, partitions: int, brokers: int) -> bool:
    """Whether a cluster is small enough to search all its placements."""
    return partitions * brokers <= tuning.exact_cells


def solve_small(problem: ShardProblem, hint: Bools) -> ExactPlan | None:
    """The best placement inside the bands that the search finds, and its bound; None if it finds no placement.

    Parameters
    ----------
    problem : ShardProblem
        One row for each partition.
    hint : (m, n) bool
        A placement that the search starts from.
    """
    model = cp_model.CpModel()
    may, must = _domain(problem)
    ranges = zip(must.astype(int).tolist(), may.astype(int).tolist(), strict=True)
    holds = [[model.new_int_var(a, b, "") for a, b in zip(low, high, strict=True)] for low, high in ranges]
    _replicas_and_racks(model, holds, problem, must)
    _topics(model, holds, problem, must)
    _bands(model, holds, problem)
    _in_sync(model, holds, problem)
    most_copies, avoided = int((problem.rows.hosts != PAD).sum()), _stuck_to_remove(problem)
    unit = int(avoided.sum()) + 1  # one copy, in replicas out of sync that stay
    cost = np.where(problem.rows.original, avoided, (problem.copy_bytes * (most_copies + 1) + 1) * unit)
    flat = [variable for row in holds for variable in row]
    model.minimize(cp_model.LinearExpr.weighted_sum(flat, cost.ravel().tolist()))
    for variable, value in zip(flat, hint.ravel().tolist(), strict=True):
        model.add_hint(variable, value)
    tuning = problem.tuning
    solver = careful_solver(tuning.exact_time_limit if meets_rules(problem, hint) else tuning.feasible_time_limit)
    status = solver.solve(model)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return None
    placement = np.array([solver.value(variable) for variable in flat], dtype=bool).reshape(hint.shape)
    if status == cp_model.OPTIMAL:
        return ExactPlan(placement, copied_bytes(problem, placement))
    # The objective is (bytes * (most_copies + 1) + copies) * unit + stuck replicas, and its bound a float.
    bound = int(np.floor(solver.best_objective_bound - 2 * np.spacing(abs(solver.best_objective_bound)))) // unit
    return ExactPlan(placement, max(0, -((most_copies - bound) // (most_copies + 1))))


def _domain(problem: ShardProblem) -> tuple[Bools, Bools]:
    """Members that may hold a replica, and members that must, (m, n) each."""
    members, rows = problem.members, problem.rows
    before = rows.original
    staying = before & ~members.must_empty[None, :]
    inside = members.pin_allows[rows.pin]
    takes = members.accepts[None, :] & inside
    fixed, forced_only = stays(rows.mobility)[:, None], rows.mobility[:, None] == FORCED_ONLY
    may = np.where(fixed, before, takes | (staying & (inside | forced_only)))
    return may, np.where(fixed, before, staying & forced_only)


def _most_stuck(problem: ShardProblem) -> Ints:
    """The most replicas out of sync that each partition may keep, (m,): a shorter list keeps as many in sync as it can
    (formula 33 of docs/solver.md)."""
    rows = problem.rows
    in_sync = (rows.original & ~rows.stuck).sum(axis=1)
    factor = rows.partitions.replication_factor
    return np.where(rows.partitions.shrinks, factor - np.minimum(in_sync, factor), rows.hosts.shape[1])


def _in_sync(model: cp_model.CpModel, holds: list[list[cp_model.IntVar]], problem: ShardProblem) -> None:
    """Limit the replicas out of sync that a shorter list keeps; a list that must lose them all, or change nothing, has
    a variable for that."""
    most, rows = _most_stuck(problem), problem.rows
    for p in np.flatnonzero((rows.stuck.sum(axis=1) > most) | rows.removes_stuck):
        stuck = [holds[p][b] for b in np.flatnonzero(rows.stuck[p])]
        model.add(sum(stuck) <= int(most[p]))
        if rows.removes_stuck[p]:
            changes = model.new_bool_var("")
            model.add(sum(stuck) == 0).only_enforce_if(changes)
            kept, all_kept = sum(holds[p][b] for b in np.flatnonzero(rows.original[p])), int(rows.original[p].sum())
            model.add(kept == all_kept).only_enforce_if(~changes)


def _reassignments_end(problem: ShardProblem, holds: Bools) -> Bools:
    """Whether lists that must lose their replicas out of sync do, or are as before, (m,)."""
    rows = problem.rows
    is_same, loses_all = (holds == rows.original).all(axis=1), ~(holds & rows.stuck).any(axis=1)
    return ~rows.removes_stuck | is_same | loses_all


def _stuck_to_remove(problem: ShardProblem) -> Bools:
    """Replicas out of sync of lists that must lose a replica: to repair racks or because they are too long, (m, n)."""
    rows = problem.rows
    broken = rack_broken(problem, _by_rack(problem, rows.original))
    return rows.stuck & (broken | rows.partitions.shrinks)[:, None]


def _by_rack(problem: ShardProblem, holds: Bools) -> Ints:
    """Replicas of each partition in each rack, (m, R)."""
    counts = np.zeros((len(holds), problem.rack_size.shape[1]), dtype=np.int64)
    row, member = np.nonzero(holds)
    np.add.at(counts, (row, problem.members.rack[member]), 1)
    return counts


def _rack_limits(problem: ShardProblem, must: Bools) -> tuple[Ints, Ints]:
    """Least and most replicas of each partition in each rack, (m, R) each; fixed replicas always satisfy them."""
    rows = problem.rows
    stuck = _by_rack(problem, must)
    least = np.minimum(rows.floor[:, None], problem.rack_size[rows.pin])
    fixed = stays(rows.mobility)[:, None]
    return np.where(fixed, 0, least), np.maximum(rows.cap[:, None], stuck)


def _whole_weights(problem: ShardProblem) -> Ints:
    """Load of one replica in whole units, (m, D)."""
    return np.rint(problem.rows.weights * problem.members.scale).astype(np.int64)


def whole_ends(bands: Bands) -> tuple[Ints, Ints]:
    """Least and largest whole load inside the bands, (n, D) each; ``NO_LIMIT`` if a band has no upper end."""
    bounded = np.isfinite(bands.upper)
    upper = np.where(bounded, bands.upper, 0.0)
    most = np.where(bounded, np.floor(upper * (1 + DUST) + DUST), float(NO_LIMIT))
    return np.ceil(bands.lower * (1 - DUST) - DUST).astype(np.int64), most.astype(np.int64)


def _replicas_and_racks(
    model: cp_model.CpModel, holds: list[list[cp_model.IntVar]], problem: ShardProblem, must: Bools
) -> None:
    counts = (problem.rows.hosts != PAD).sum(axis=1).tolist()
    least, most = _rack_limits(problem, must)
    racks = [(r, np.flatnonzero(problem.members.rack == r)) for r in np.unique(problem.members.rack)]
    for p, row in enumerate(holds):
        model.add(sum(row) == counts[p])
        for rack, members in racks:
            model.add_linear_constraint(sum(row[b] for b in members), int(least[p, rack]), int(most[p, rack]))


def _topic_limits(problem: ShardProblem, must: Bools) -> tuple[Ints, Ints]:
    """Topics that have a limit, (L,), and the limit on each member, (L, n): at least the replicas that must stay."""
    spread = problem.rows.spread
    topics = np.flatnonzero(spread.most < NO_LIMIT) if spread else np.zeros(0, dtype=np.int64)
    stuck = _by_topic(problem, must)[topics]
    return topics, np.maximum(stuck, spread.most[topics][:, None]) if spread else stuck


def _by_topic(problem: ShardProblem, holds: Bools) -> Ints:
    """Replicas of each topic on each member, (T, n)."""
    counts = np.zeros((int(problem.rows.topic.max(initial=0)) + 1, holds.shape[1]), dtype=np.int64)
    np.add.at(counts, problem.rows.topic, holds.astype(np.int64))
    return counts


def _topics(model: cp_model.CpModel, holds: list[list[cp_model.IntVar]], problem: ShardProblem, must: Bools) -> None:
    """Limit the replicas of each topic on each member."""
    for topic, most in zip(*_topic_limits(problem, must), strict=True):
        rows = np.flatnonzero(problem.rows.topic == topic)
        for b, limit in enumerate(most.tolist()):
            model.add(sum(holds[p][b] for p in rows) <= limit)


def _bands(model: cp_model.CpModel, holds: list[list[cp_model.IntVar]], problem: ShardProblem) -> None:
    weight = _whole_weights(problem)
    lower, upper = _ends(problem)
    for b in range(len(problem.members.rack)):
        column = [row[b] for row in holds]
        for d in range(weight.shape[1]):
            load = cp_model.LinearExpr.weighted_sum(column, weight[:, d].tolist())
            model.add(load >= int(lower[b, d]))
            if upper[b, d] < NO_LIMIT:
                model.add(load <= int(upper[b, d]))


def _ends(problem: ShardProblem) -> tuple[Ints, Ints]:
    members = problem.members
    return whole_ends(Bands((), members.lower * members.scale, members.upper * members.scale))


def meets_rules(problem: ShardProblem, holds: Bools) -> bool:
    """Whether a placement meets the rules of the search: domain, racks, topics and bands."""
    may, must = _domain(problem)
    counts, (least, most) = _by_rack(problem, holds), _rack_limits(problem, must)
    loads, (lower, upper) = holds.T.astype(np.int64) @ _whole_weights(problem), _ends(problem)
    topics, most_of = _topic_limits(problem, must)
    inside = (holds <= may).all() and (holds >= must).all() and (counts >= least).all() and (counts <= most).all()
    inside &= (_by_topic(problem, holds)[topics] <= most_of).all()
    few_stuck = (holds & problem.rows.stuck).sum(axis=1) <= _most_stuck(problem)
    inside &= (few_stuck & _reassignments_end(problem, holds)).all()
    return bool(inside and (loads >= lower).all() and (loads <= upper).all())


def copied_bytes(problem: ShardProblem, holds: Bools) -> int:
    """Whole bytes that a placement copies, compared with the placement before the plan."""
    return int((problem.copy_bytes * (holds & ~problem.rows.original)).sum())


def replica_moves(problem: ShardProblem, holds: Bools) -> tuple[Ints, Ints, Ints]:
    """Row, slot and target of each replica that a placement moves."""
    rows: list[int] = []
    slots: list[int] = []
    targets: list[int] = []
    now = problem.rows.held
    for p in np.flatnonzero((now != holds).any(axis=1)):
        arriving = np.flatnonzero(holds[p] & ~now[p])
        leaving = [j for j, b in enumerate(problem.rows.hosts[p]) if b >= 0 and not holds[p, b]]
        rows += [int(p)] * len(arriving)
        slots += leaving
        targets += arriving.tolist()
    return np.array(rows, dtype=np.int64), np.array(slots, dtype=np.int64), np.array(targets, dtype=np.int64)
