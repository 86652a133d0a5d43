"""Whole swaps, where the steps of ``improve`` are stuck: a replica on a broker outside its band for one of any other.

Both sides may be replicas that no plan has touched, so a swap reaches what no pool of the relaxation holds: it changes
a broker by the difference of two loads, and so fits into bands that no single replica fits into. All pairs of two
brokers are looked at, so it comes last, and only where a band is broken.
"""

from dataclasses import dataclass

import numpy as np

from optimizer.domain import Bools, Floats, Ints
from optimizer.solve.shard.choice import State, apply_choice, member_violations
from optimizer.solve.shard.improve import EPSILON, Transfers, commit, gains
from optimizer.solve.shard.legal_options import Options
from optimizer.solve.shard.shard_problem import ShardProblem

MOST_REPLICAS = 400  # of a broker: of more, every second, third, ...
WORTH = 0.05  # of what the broker has outside its band: a swap is two copies, and less would take too many


@dataclass(frozen=True)
class _MemberReplicas:
    """Replicas on one member that may go elsewhere.

    Parameters
    ----------
    rows : (N,) int64
        Their options.
    moved : (N,) bool
        They came here by the plan.
    """

    rows: Ints
    moved: Bools


def with_swaps(problem: ShardProblem, options: Options, state: State) -> State:
    """The state after the swaps that bring brokers into their bands: the broker nearest to its band first, because one
    far outside may be beyond help; each with its best swap."""
    state = apply_choice(problem, options, state.replica, state.target)
    pairs, stuck = 0, problem.members.must_empty.copy()
    while pairs < problem.tuning.swap_pairs:
        beyond = member_violations(problem, np.arange(len(state.loads)), state.loads)
        open_ = np.flatnonzero((beyond > EPSILON) & ~stuck)
        if not len(open_):
            break
        nearest = int(open_[np.argmin(beyond[open_])])
        swap, looked_at = _best_swap(problem, options, state, nearest, WORTH * beyond[nearest])
        pairs += looked_at
        if swap is None:
            stuck[nearest] = True
        else:
            commit(state, swap, 0)
    return apply_choice(problem, options, state.replica, state.target)


def _best_swap(
    problem: ShardProblem, options: Options, state: State, member: int, worth: float
) -> tuple[Transfers | None, int]:
    """The swap with another member that takes most load to inside the bands, of equal ones at the least bytes; and how
    many were looked at."""
    here = _held(problem, options, state, member)
    best, best_gain, looked_at, penalty = None, np.inf, 0, problem.tuning.violation_bytes
    for other in np.flatnonzero(problem.members.accepts & (np.arange(len(problem.members.rack)) != member)).tolist():
        steps = _swaps(problem, options, (member, here), (other, _held(problem, options, state, other)))
        looked_at += len(steps.a)
        gain = gains(problem, state, steps, penalty)
        gain[(gain - steps.cost) / penalty > -worth] = np.inf
        if len(gain) and gain.min() < best_gain:
            best, best_gain = steps.rows([int(gain.argmin())]), float(gain.min())
    return best, looked_at


def _held(problem: ShardProblem, options: Options, state: State, member: int) -> _MemberReplicas:
    chosen = state.replica[options.partition]
    moved = chosen == np.arange(len(options.partition))
    rows = np.flatnonzero(np.where(moved, state.target[options.partition] == member, options.source == member))
    rows = rows[moved[rows] | (chosen[rows] < 0)]
    rows = rows[np.argsort(problem.rows.size[options.partition[rows]], kind="stable")]
    rows = rows[:: -(-len(rows) // MOST_REPLICAS) or 1]
    return _MemberReplicas(rows, moved[rows])


def _costs(options: Options, held: _MemberReplicas, member: int, other: int) -> Floats:
    """Bytes for each replica going from one member to another, (N,); infinite where it may not."""
    rows, price = held.rows, np.zeros(len(held.rows))
    price[held.moved] = options.cost[rows[held.moved], member]
    home = held.moved & (options.source[rows] == other)
    may = np.where(home, ~options.needed[options.partition[rows]], options.allowed[rows, other])
    return np.where(may, np.where(home, 0.0, options.cost[rows, other]) - price, np.inf)


def _swaps(
    problem: ShardProblem, options: Options, one: tuple[int, _MemberReplicas], two: tuple[int, _MemberReplicas]
) -> Transfers:
    """All legal swaps of a replica on one member for one on the other."""
    (a, held_a), (b, held_b) = one, two
    out, back = _costs(options, held_a, a, b), _costs(options, held_b, b, a)
    i, j = (x.ravel() for x in np.meshgrid(np.flatnonzero(out < np.inf), np.flatnonzero(back < np.inf), indexing="ij"))
    first, second = options.partition[held_a.rows[i]], options.partition[held_b.rows[j]]
    goes_home = held_a.moved[i] & (options.source[held_a.rows[i]] == b)
    comes_home = held_b.moved[j] & (options.source[held_b.rows[j]] == a)
    return Transfers(
        a=np.full(len(i), a),
        b=np.full(len(i), b),
        delta=problem.rows.weights[first] - problem.rows.weights[second],
        cost=out[i] + back[j],
        first=first,
        first_replica=np.where(goes_home, -1, held_a.rows[i]),
        first_target=np.where(goes_home, -1, b),
        second=second,
        second_replica=np.where(comes_home, -1, held_b.rows[j]),
        second_target=np.where(comes_home, -1, a),
    )
