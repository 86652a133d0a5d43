"""The choice of each partition in a shard (stay, or take one option), and the loads that follow."""

from dataclasses import dataclass

import numpy as np

from optimizer.domain import Floats, Ints
from optimizer.solve.shard.legal_options import Options
from optimizer.solve.shard.shard_problem import ShardProblem

OVERFULL = 2.0  # load over the end of the band: such a broker sheds replicas before the relaxation
NO_ROOM = 1e-9  # mean broker loads: divides in place of an upper end of 0
GOLDEN = 0.618033988749895  # golden ratio: steps of this part of a turn mix replicas of all sizes


@dataclass
class State:
    """The choice of each partition and the loads that follow.

    Parameters
    ----------
    replica, target : (m,) int64
        Chosen option of each partition; -1 when it stays.
    loads : (n, D) float64
    """

    replica: Ints
    target: Ints
    loads: Floats

    @property
    def moves(self) -> int:
        """Replicas that move."""
        return int(np.count_nonzero(self.replica >= 0))


def member_violations(problem: ShardProblem, members: Ints, loads: Floats) -> Floats:
    """Load of the given members outside their bands, (N,) (formula 13 of docs/solver.md)."""
    total = np.zeros(len(members))
    # Column by column: rows of three numbers gathered at once take six times as long.
    for load, lower, upper in zip(loads.T, problem.members.lower.T, problem.members.upper.T, strict=True):
        beyond = np.maximum(load - upper.take(members), lower.take(members) - load)
        total += np.maximum(beyond, 0)
    return total


def violation(problem: ShardProblem, loads: Floats) -> float:
    """Load of all members outside their bands, in mean broker loads (formula 13 of docs/solver.md)."""
    return float(member_violations(problem, np.arange(len(loads)), loads).sum())


def apply_choice(problem: ShardProblem, options: Options, replica: Ints, target: Ints) -> State:
    """The state of a choice."""
    loads = problem.members.loads.copy()
    p = np.flatnonzero(replica >= 0)
    np.add.at(loads, target[p], problem.rows.weights[p])
    np.subtract.at(loads, options.source[replica[p]], problem.rows.weights[p])
    return State(replica.copy(), target.copy(), loads)


def moved_cost(options: Options, state: State) -> float:
    """Cost of the choice, in mean broker loads: bytes, plus the price on moves if the options have one."""
    p = np.flatnonzero(state.replica >= 0)
    return float(options.cost[state.replica[p], state.target[p]].sum())


def free_moves(options: Options, state: State) -> int:
    """Optional moves of the choice."""
    return state.moves - int(np.count_nonzero(options.needed))


def moved_bytes(options: Options, state: State) -> float:
    """Bytes of the choice, in mean broker loads."""
    p = np.flatnonzero(state.replica >= 0)
    return float(options.copied[state.replica[p], state.target[p]].sum())


def repaired(problem: ShardProblem, options: Options) -> State:
    """A state in which every partition that must move takes a first option.

    The largest replicas go first, from the fullest broker to the emptiest. Fullness is the load divided by the upper
    end of the band, for the resource with the largest ratio.
    """
    rows = problem.rows
    stay = np.full(len(rows.hosts), -1)
    state = apply_choice(problem, options, stay, stay)
    order = np.argsort(options.partition, kind="stable")
    edge = np.searchsorted(options.partition[order], np.arange(len(rows.hosts) + 1))
    needed = np.flatnonzero(options.needed)
    for p in needed[np.argsort(-rows.weights[needed].max(axis=1), kind="stable")]:
        _take_emptiest(problem, options, state, order[edge[p] : edge[p + 1]])
    return state


def seed(problem: ShardProblem, options: Options) -> State:
    """A state in which every partition that must move takes a first option, and overfull brokers shed replicas."""
    state = repaired(problem, options)
    _shed(problem, options, state)
    return state


def _shed(problem: ShardProblem, options: Options, state: State) -> None:
    """Move replicas of all sizes off overfull brokers until these are inside their bands."""
    members = problem.members
    upper = np.where(np.isfinite(members.upper), members.upper, np.inf)
    for broker in np.flatnonzero((members.loads > OVERFULL * upper).any(axis=1) & members.accepts):
        rows = np.flatnonzero((options.source == broker) & ~options.needed[options.partition])
        for row in rows[np.argsort(np.arange(len(rows)) * GOLDEN % 1.0, kind="stable")]:
            if (state.loads[broker] <= upper[broker]).all():
                break
            if state.replica[options.partition[row]] < 0:
                _take_emptiest(problem, options, state, np.array([row]))


def _take_emptiest(problem: ShardProblem, options: Options, state: State, rows: Ints) -> None:
    """Take the option of one partition, among its rows, that moves from the fullest broker to the emptiest."""
    members = problem.members
    p = options.partition[rows[0]]
    weight = problem.rows.weights[p]
    ceiling = np.where(np.isfinite(members.upper), np.maximum(members.upper, NO_ROOM), np.inf)
    source = options.source[rows]
    arrive = ((state.loads + weight) / ceiling).max(axis=1)
    leave = (state.loads[source] / ceiling[source]).max(axis=1)
    score = np.where(options.allowed[rows], arrive[None, :] - leave[:, None], np.inf)
    i, target = divmod(int(score.argmin()), len(members.rack))
    state.replica[p], state.target[p] = rows[i], target
    state.loads[target] += weight
    state.loads[source[i]] -= weight
