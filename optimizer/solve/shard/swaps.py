"""Swap two replicas of two brokers, one of them outside its band; used if the steps of ``improve`` are stuck.

A swap may use replicas that no plan moved, so it goes beyond the options of the relaxation. It changes a broker by the
difference of two loads, so it fits into bands that no single replica fits into. All pairs of replicas on two brokers
are compared, so swaps come last, and only if a band is unmet.
"""

from dataclasses import dataclass

import numpy as np

from optimizer.domain import Bools, Floats, Ints
from optimizer.solve.shard.choice import State, apply_choice, member_violations
from optimizer.solve.shard.improve import EPSILON, Transfers, commit, gains
from optimizer.solve.shard.legal_options import Options
from optimizer.solve.shard.shard_problem import ShardProblem

MOST_REPLICAS = 400  # most replicas of a broker to compare; of more, every second, third, ...
WORTH = 0.05  # share of the broker's load outside its band that a swap must remove: a swap is two copies


@dataclass(frozen=True)
class _MemberReplicas:
    """Replicas on one member that may go elsewhere.

    Parameters
    ----------
    rows : (N,) int64
        Their rows in the options.
    moved : (N,) bool
        The plan moved them here.
    """

    rows: Ints
    moved: Bools


def with_swaps(problem: ShardProblem, options: Options, state: State) -> State:
    """Swap replicas to bring brokers into their bands.

    The broker nearest to its band comes first, because one far outside may never get there. Each step makes its best
    swap.
    """
    state = apply_choice(problem, options, state.replica, state.target)
    pairs, stuck = 0, problem.members.must_empty.copy()
    while pairs < problem.tuning.swap_pairs:
        beyond = member_violations(problem, np.arange(len(state.loads)), state.loads)
        open_ = np.flatnonzero((beyond > EPSILON) & ~stuck)
        if not len(open_):
            break
        nearest = int(open_[np.argmin(beyond[open_])])
        swap, compared = _best_swap(problem, options, state, nearest, WORTH * beyond[nearest])
        pairs += compared
        if swap is None:
            stuck[nearest] = True
        else:
            commit(state, swap, 0)
    return apply_choice(problem, options, state.replica, state.target)


def _best_swap(
    problem: ShardProblem, options: Options, state: State, member: int, worth: float
) -> tuple[Transfers | None, int]:
    """The swap with another member that removes most load outside bands, then copies least bytes; and how many swaps
    were compared."""
    replicas = _member_replicas(problem, options, state, member)
    best, best_gain, compared, penalty = None, np.inf, 0, problem.tuning.violation_bytes
    for other in np.flatnonzero(problem.members.accepts & (np.arange(len(problem.members.rack)) != member)).tolist():
        steps = _swaps(problem, options, (member, replicas), (other, _member_replicas(problem, options, state, other)))
        compared += len(steps.a)
        gain = gains(problem, state, steps, penalty)
        gain[(gain - steps.cost) / penalty > -worth] = np.inf
        if len(gain) and gain.min() < best_gain:
            best, best_gain = steps.rows([int(gain.argmin())]), float(gain.min())
    return best, compared


def _member_replicas(problem: ShardProblem, options: Options, state: State, member: int) -> _MemberReplicas:
    chosen = state.replica[options.partition]
    moved = chosen == np.arange(len(options.partition))
    rows = np.flatnonzero(np.where(moved, state.target[options.partition] == member, options.source == member))
    rows = rows[moved[rows] | (chosen[rows] < 0)]
    rows = rows[np.argsort(problem.rows.size[options.partition[rows]], kind="stable")]
    rows = rows[:: -(-len(rows) // MOST_REPLICAS) or 1]
    return _MemberReplicas(rows, moved[rows])


def _costs(options: Options, held: _MemberReplicas, member: int, other: int) -> Floats:
    """Bytes to move each replica from one member to another, (N,); infinite if it may not move there."""
    rows, price = held.rows, np.zeros(len(held.rows))
    price[held.moved] = options.cost[rows[held.moved], member]
    home = held.moved & (options.source[rows] == other)
    may = np.where(home, ~options.needed[options.partition[rows]], options.allowed[rows, other])
    return np.where(may, np.where(home, 0.0, options.cost[rows, other]) - price, np.inf)


def _swaps(
    problem: ShardProblem, options: Options, side_a: tuple[int, _MemberReplicas], side_b: tuple[int, _MemberReplicas]
) -> Transfers:
    """All legal swaps of a replica on one member for a replica on the other."""
    (a, held_a), (b, held_b) = side_a, side_b
    out, back = _costs(options, held_a, a, b), _costs(options, held_b, b, a)
    i, j = (x.ravel() for x in np.meshgrid(np.flatnonzero(out < np.inf), np.flatnonzero(back < np.inf), indexing="ij"))
    first, second = options.partition[held_a.rows[i]], options.partition[held_b.rows[j]]
    a_returns = held_a.moved[i] & (options.source[held_a.rows[i]] == b)
    b_returns = held_b.moved[j] & (options.source[held_b.rows[j]] == a)
    return Transfers(
        a=np.full(len(i), a),
        b=np.full(len(i), b),
        delta=problem.rows.weights[first] - problem.rows.weights[second],
        cost=out[i] + back[j],
        first=first,
        first_replica=np.where(a_returns, -1, held_a.rows[i]),
        first_target=np.where(a_returns, -1, b),
        second=second,
        second_replica=np.where(b_returns, -1, held_b.rows[j]),
        second_target=np.where(b_returns, -1, a),
    )
