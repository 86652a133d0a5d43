"""From the relaxation to whole moves: round it, then improve the result by transfers, the best first.

A *transfer* shifts load delta from member a to member b by changing the choices of one or two partitions. One partition
takes an option, drops it, or changes its target. Or two partitions exchange: a moved replica returns and another one
from the same source moves instead, or two moved replicas swap their targets. An exchange changes a broker's load by the
difference of two sizes, which single moves can't. The merit is
``Tuning.violation_bytes * (load outside bands) + bytes``: violation strictly first.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np

from optimizer.domain import Bools, Floats, Ints
from optimizer.solve.shard.choice import State, apply_choice, member_violations, moved_bytes, moved_cost, violation
from optimizer.solve.shard.legal_options import Options
from optimizer.solve.shard.shard_problem import Members, ShardProblem

STEPS = 400  # most batches of a stage, so that it ends; instances S and M take up to 37
BATCH = 1500  # best steps tried before all gains (up to 20,000) are computed again: each step changes others
SWAP_LIMIT = 100  # replicas on brokers outside bands that are paired with all moved ones; more would be millions
CLOSE = 1e-4  # share of the bound: a plan this near to it needs no other rounding
EPSILON = 1e-10  # mean broker loads: a smaller value may be rounding


@dataclass(frozen=True)
class Transfers:
    """Candidate steps: ``delta`` goes from member ``a`` to member ``b``; ``first`` and ``second`` get new choices.

    Parameters
    ----------
    a, b : (N,) int64
    delta : (N, D) float64
    cost : (N,) float64
        Change of bytes, in mean broker loads.
    first, first_replica, first_target, second, second_replica, second_target : (N,) int64
        ``second`` is -1 if only one partition changes.
    """

    a: Ints
    b: Ints
    delta: Floats
    cost: Floats
    first: Ints
    first_replica: Ints
    first_target: Ints
    second: Ints
    second_replica: Ints
    second_target: Ints

    def rows(self, rows: Ints | list[int]) -> "Transfers":
        """Some of the steps."""
        return Transfers(*(getattr(self, field.name).take(rows, axis=0) for field in fields(self)))


def _concat(parts: list[tuple[Ints | Floats, ...]]) -> Transfers:
    return Transfers(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


class Neighbourhood:
    """Candidate transfers around a state, drawn from a pool of options."""

    def __init__(self, problem: ShardProblem, options: Options, pool_replica: Ints, pool_target: Ints) -> None:
        self.problem, self.options = problem, options
        self.k, self.t = pool_replica, pool_target
        self.p, self.s = options.partition[pool_replica], options.source[pool_replica]
        self.pair = self.s * len(problem.members.rack) + self.t

    def _plain(self, a: Ints, b: Ints, p: Ints, cost: Floats, k: Ints, t: Ints) -> tuple[Ints | Floats, ...]:
        none = np.full(len(p), -1)
        return a, b, self.problem.rows.weights[p], cost, p, k, t, none, none, none

    def takes(self, state: State) -> tuple[Ints | Floats, ...]:
        """A partition that stays takes an option."""
        i = np.flatnonzero(state.replica[self.p] < 0)
        return self._plain(
            self.s[i], self.t[i], self.p[i], self.options.cost[self.k[i], self.t[i]], self.k[i], self.t[i]
        )

    def drops(self, state: State) -> tuple[Ints | Floats, ...]:
        """A partition that need not move returns to its source."""
        p = np.flatnonzero((state.replica >= 0) & ~self.options.needed)
        k, t = state.replica[p], state.target[p]
        none = np.full(len(p), -1)
        return self._plain(t, self.options.source[k], p, -self.options.cost[k, t], none, none)

    def retargets(self, state: State) -> tuple[Ints | Floats, ...]:
        """A moved replica goes to another target."""
        i = np.flatnonzero((state.replica[self.p] == self.k) & (state.target[self.p] != self.t))
        p, k, t = self.p[i], self.k[i], self.t[i]
        old = state.target[p]
        return self._plain(old, t, p, self.options.cost[k, t] - self.options.cost[k, old], k, t)

    def switches(self, state: State) -> tuple[Ints | Floats, ...]:
        """Another replica of the same partition moves to the same target instead."""
        chosen = state.replica[self.p]
        i = np.flatnonzero((chosen >= 0) & (chosen != self.k) & (state.target[self.p] == self.t))
        p, k, t = self.p[i], self.k[i], self.t[i]
        gain = self.options.cost[k, t] - self.options.cost[chosen[i], t]
        return self._plain(self.s[i], self.options.source[chosen[i]], p, gain, k, t)

    def exchanges(self, state: State) -> tuple[Ints | Floats, ...]:
        """A moved replica returns, and another one from the same source moves to the same target."""
        moved = np.flatnonzero((state.replica >= 0) & ~self.options.needed)
        pair_of = self.options.source[state.replica[moved]] * len(self.problem.members.rack) + state.target[moved]
        idle = np.flatnonzero(state.replica[self.p] < 0)
        idle = idle[np.argsort(self.pair[idle], kind="stable")]
        low = np.searchsorted(self.pair[idle], pair_of, side="left")
        count = np.searchsorted(self.pair[idle], pair_of, side="right") - low
        home = np.repeat(moved, count)
        within = np.arange(len(home)) - np.repeat(np.cumsum(count) - count, count)
        i = idle[np.repeat(low, count) + within]
        weights, cost = self.problem.rows.weights, self.options.cost
        back = cost[state.replica[home], state.target[home]]
        none = np.full(len(home), -1)
        delta = weights[self.p[i]] - weights[home]
        gain = cost[self.k[i], self.t[i]] - back
        return self.s[i], self.t[i], delta, gain, self.p[i], self.k[i], self.t[i], home, none, none

    def swaps(self, state: State, focus: Bools) -> tuple[Ints | Floats, ...]:
        """Two moved replicas swap their targets; at least one target is in ``focus`` (outside its band)."""
        moved = np.flatnonzero(state.replica >= 0)
        near = moved[focus[state.target[moved]]][:SWAP_LIMIT]
        p1, p2 = (x.ravel() for x in np.meshgrid(near, moved, indexing="ij"))
        keep = state.target[p1] != state.target[p2]
        p1, p2 = p1[keep], p2[keep]
        k1, k2, t1, t2 = state.replica[p1], state.replica[p2], state.target[p1], state.target[p2]
        legal = self.options.allowed[k1, t2] & self.options.allowed[k2, t1]
        p1, p2, k1, k2, t1, t2 = (x[legal] for x in (p1, p2, k1, k2, t1, t2))
        cost = self.options.cost
        gain = cost[k1, t2] + cost[k2, t1] - cost[k1, t1] - cost[k2, t2]
        return t1, t2, self.problem.rows.weights[p1] - self.problem.rows.weights[p2], gain, p1, k1, t2, p2, k2, t1

    def transfers(self, state: State) -> Transfers:
        """All candidate steps except the swaps."""
        kinds = (self.takes, self.drops, self.retargets, self.switches, self.exchanges)
        return _concat([kind(state) for kind in kinds])

    def swaps_outside_bands(self, state: State) -> Transfers:
        """Swaps that touch a broker outside its band; there are many, so they are tried last."""
        bad = member_violations(self.problem, np.arange(len(state.loads)), state.loads) > EPSILON
        return _concat([self.swaps(state, bad)])


def _hopeful(problem: ShardProblem, state: State, steps: Transfers) -> Transfers:
    """Steps that may help: those that touch a broker outside its band or save bytes."""
    bad = member_violations(problem, np.arange(len(state.loads)), state.loads) > EPSILON
    hopeful = np.flatnonzero(bad[steps.a] | bad[steps.b] | (steps.cost < -EPSILON))
    return steps.rows(hopeful)


def gains(problem: ShardProblem, state: State, steps: Transfers, penalty: float) -> Floats:
    """Change of merit by each step, (N,): negative is better."""
    now = member_violations(problem, np.arange(len(state.loads)), state.loads)
    at_a, at_b = state.loads.take(steps.a, axis=0), state.loads.take(steps.b, axis=0)
    after = member_violations(problem, steps.a, at_a - steps.delta) + member_violations(
        problem, steps.b, at_b + steps.delta
    )
    return penalty * (after - now[steps.a] - now[steps.b]) + steps.cost


def commit(state: State, steps: Transfers, i: int) -> None:
    """Take one step."""
    state.loads[steps.a[i]] -= steps.delta[i]
    state.loads[steps.b[i]] += steps.delta[i]
    state.replica[steps.first[i]], state.target[steps.first[i]] = steps.first_replica[i], steps.first_target[i]
    if steps.second[i] >= 0:
        state.replica[steps.second[i]], state.target[steps.second[i]] = steps.second_replica[i], steps.second_target[i]


def _gain_now(problem: ShardProblem, state: State, steps: Transfers, i: int, penalty: float) -> float:
    """Change of merit by one step; ``gains`` computes many."""
    change, delta = 0.0, steps.delta[i].tolist()
    for member, sign in ((steps.a[i], -1.0), (steps.b[i], 1.0)):
        rows = (
            state.loads[member].tolist(),
            problem.members.lower[member].tolist(),
            problem.members.upper[member].tolist(),
            delta,
        )
        for load, low, high, by in zip(*rows, strict=True):
            then = load + sign * by
            change += max(then - high, low - then, 0.0) - max(load - high, low - load, 0.0)
    return penalty * change + float(steps.cost[i])


def _take(problem: ShardProblem, state: State, steps: Transfers, gain: Floats, penalty: float) -> int:
    """Commit the best steps in order, at most one for each partition; returns their number.

    If the brokers of a step have changed meanwhile, its gain must still be at least half of the computed gain.
    """
    order = np.lexsort((np.arange(len(gain)), gain))[:BATCH]
    batch = steps.rows(order)
    changed, taken = np.zeros(len(problem.members.rack), dtype=bool), 0
    done: set[int] = set()
    for i, promised in enumerate(gain[order]):
        pair = {int(batch.first[i]), int(batch.second[i])} - {-1}
        if pair & done:
            continue
        a, b = batch.a[i], batch.b[i]
        if (changed[a] or changed[b]) and _gain_now(problem, state, batch, i, penalty) > promised / 2:
            continue
        commit(state, batch, i)
        changed[a] = changed[b] = True
        done |= pair
        taken += 1
    return taken


def improve(neighbourhood: Neighbourhood, state: State) -> int:
    """Apply the best steps until none helps: first those that cost no bytes, then all.

    Returns the number of steps.
    """
    tuning = neighbourhood.problem.tuning
    if not tuning.exchanges:
        return 0
    taken = _descend(neighbourhood, state, tuning.violation_bytes, free_only=True)
    return taken + sum(_descend(neighbourhood, state, penalty, free_only=False) for penalty in tuning.penalties)


def _descend(neighbourhood: Neighbourhood, state: State, penalty: float, *, free_only: bool) -> int:
    taken = 0
    for _ in range(STEPS):
        step = 0
        for candidates in (neighbourhood.transfers, neighbourhood.swaps_outside_bands):
            if not step:
                step = _step(neighbourhood.problem, state, candidates(state), penalty, free_only=free_only)
        if not step:
            break
        taken += step
    return taken


def _step(problem: ShardProblem, state: State, steps: Transfers, penalty: float, *, free_only: bool) -> int:
    steps = _hopeful(problem, state, steps)
    gain = gains(problem, state, steps, penalty)
    better = np.flatnonzero((gain < -EPSILON) & ((steps.cost <= EPSILON) | (not free_only)))
    return _take(problem, state, steps.rows(better), gain[better], penalty) if len(better) else 0


def merit(problem: ShardProblem, options: Options, state: State) -> float:
    """The objective, less is better: load outside bands first, then cost."""
    return problem.tuning.violation_bytes * violation(problem, state.loads) + moved_cost(options, state)


def _improved(neighbourhood: Neighbourhood, start: State) -> State:
    """Improve a state; if brokers stay outside their bands, improve for slightly narrower bands, then for the true.

    A broker may be stuck because the brokers that could help it are filled exactly to the ends of their bands. With
    narrower bands these have space again, for slightly more bytes.
    """
    problem, options = neighbourhood.problem, neighbourhood.options
    state = apply_choice(problem, options, start.replica, start.target)
    improve(neighbourhood, state)
    first = apply_choice(problem, options, state.replica, state.target)
    if violation(problem, first.loads) <= EPSILON:
        return first
    narrower = replace(problem, members=_narrower(problem.members, problem.tuning.spare))
    improve(Neighbourhood(narrower, options, neighbourhood.k, neighbourhood.t), state)
    improve(neighbourhood, state)
    second = apply_choice(problem, options, state.replica, state.target)
    return min(first, second, key=lambda state: merit(problem, options, state))


def _narrower(members: Members, spare: float) -> Members:
    """The members with slightly narrower bands."""
    bounded = np.isfinite(members.upper)
    less = np.minimum(spare, np.where(bounded, members.upper - members.lower, 0.0) / 2)
    upper = np.where(bounded, members.upper - less, members.upper)
    return replace(members, lower=members.lower + less, upper=upper)


def best_rounding(neighbourhood: Neighbourhood, base: State, starts: Sequence[State], bound: float) -> State:
    """Improve each start and return the best by merit; stop early at one within ``CLOSE`` of the bound on bytes.

    Parameters
    ----------
    base : State
        Returned if no start leads to a better state.
    starts : sequence of State
        Roundings of the relaxation; not changed.
    bound : float
        Least bytes, in mean broker loads.
    """
    problem, options = neighbourhood.problem, neighbourhood.options
    best, best_merit = base, merit(problem, options, base)
    for start in starts:
        state = _improved(neighbourhood, start)
        reached = merit(problem, options, state)
        if reached < best_merit - EPSILON:
            best, best_merit = state, reached
        inside = violation(problem, state.loads) <= EPSILON
        if inside and moved_bytes(options, state) <= bound + CLOSE * abs(bound):
            break
    return best
