"""Which non-urgent changes a limited plan keeps: a linear program over z in [0, 1], then whole changes.

The program has a row for each band and each limit, and many more changes than rows, so nearly all its values are whole.
Changes with the value 1 are kept. Then changes are kept or removed one by one: the one that improves the bands most for
its share of the limit. At last pairs are tried. The same is done from the changes with at least 0.5, and the better
choice counts. Urgent changes that did not fit take part with a reward, so that changes that make space for them are
kept together with them.
"""

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from optimizer.domain import Bools, Floats, Ints
from optimizer.solve.limit.limit import PlanChanges, urgent_first
from optimizer.solve.ortools.glop import minimise
from optimizer.solve.rules.resources import DISK
from optimizer.solve.rules.urgency import BALANCE

REWARD = 100.0  # mean broker loads: an urgent change is worth more than any damage to the bands
BYTES_TIE = 1e-6  # tie-break: fewer bytes at equal balance
WHOLE = 1e-7  # a value this near to a whole number counts as whole
ROUND_FROM = (1 - WHOLE, 0.5)  # least values of kept changes, both are tried: only whole ones; from a half on
LEAST_SHARE = 1e-6  # share of the limit: divides in place of smaller or negative shares
LEAST_FREED = 1e-9  # share of the excess: divides in place of 0 if removing a change frees nothing
POOL = 200  # changes that the improvement tries: those with the least reduced cost
STEPS = 400  # most steps of the improvement, so that it ends: two for each change of the pool
GAIN = 1e-9  # mean loads: a smaller gain may be rounding


def keep_within(changes: PlanChanges) -> Bools:
    """The changes to keep, (N,) (formula 21 of docs/solver.md): all of them if the limits allow it."""
    everything = np.ones(len(changes), dtype=bool)
    over = changes.overfull(everything, changes.loads_with(everything))
    if (changes.remaining(everything) >= 0).all() and not over.any():
        return everything
    urgent = urgent_first(changes)
    rows = np.flatnonzero(~urgent)
    try:
        values, reduced_cost = relaxed(changes, urgent)
    except ArithmeticError:  # The linear program failed: choose the changes one by one.
        return _improved(changes, urgent, rows, rows[:POOL])
    whole = np.abs(values - np.round(values)) < WHOLE
    near = rows[np.argsort(np.where(whole, np.abs(reduced_cost), -1), kind="stable")[:POOL]]
    choices = [_improved(changes, urgent | _mask(changes, rows, values >= level), rows, near) for level in ROUND_FROM]
    best = max(choices, key=lambda kept: _merit(changes, kept))
    if _merit(changes, best) > _merit(changes, urgent):
        return best
    return _improved(changes, urgent, rows, near)


def _mask(changes: PlanChanges, rows: Ints, chosen: Bools) -> Bools:
    """The chosen rows as a mask over all changes, (N,)."""
    mask = np.zeros(len(changes), dtype=bool)
    mask[rows[chosen]] = True
    return mask


def reward_of(changes: PlanChanges) -> Floats:
    """Reward for keeping each change, in addition to the bands, (N,): doubled with each more urgent level."""
    return np.where(changes.level < BALANCE, REWARD * 2.0 ** (BALANCE - changes.level), 0.0)


def _merit(changes: PlanChanges, kept: Bools) -> float:
    return float(reward_of(changes)[kept].sum()) - changes.violation(changes.loads_with(kept))


def relaxed(changes: PlanChanges, kept: Bools) -> tuple[Floats, Floats]:
    """Solve the linear program over the changes that are not kept yet; returns their values and reduced costs.

    Rows are in mean broker loads and in mean costs. The slack of a disk row ends at the disk limit.
    """
    rows, now = np.flatnonzero(~kept), changes.loads_with(kept)
    effects = _effects(changes, rows)
    bands, binding = now.size, np.flatnonzero(changes.remaining(np.ones(len(changes), dtype=bool)) < 0)
    unit = np.maximum(changes.costs[rows][:, binding].mean(axis=0), 1.0)
    slack = sp.eye_array(bands, format="csr")
    spent = sp.csr_matrix((changes.costs[rows][:, binding] / unit).T)
    matrix = sp.vstack(
        [sp.hstack([effects, slack, -slack]), sp.hstack([spent, sp.csr_matrix((len(binding), 2 * bands))])]
    ).tocsr()
    low = np.concatenate([((changes.lower - now) / changes.scale).ravel(), np.zeros(len(binding))])
    high = np.concatenate([((changes.upper - now) / changes.scale).ravel(), changes.remaining(kept)[binding] / unit])
    tie = BYTES_TIE * changes.weights[rows, DISK] / changes.scale[DISK]
    cost = np.concatenate([tie - reward_of(changes)[rows], np.ones(2 * bands)])
    most = np.concatenate([np.ones(len(rows)), np.full(bands, np.inf), _slack_above_bands(changes).ravel()])
    values, duals, _ = minimise(cost, most, low, high, matrix)
    return values[: len(rows)], (cost - matrix.T @ duals)[: len(rows)]


def _slack_above_bands(changes: PlanChanges) -> Floats:
    """The load that each broker may have above its band, (B, D), in mean broker loads."""
    room = np.full(changes.upper.shape, np.inf)
    finite = np.isfinite(changes.disk_limit) & np.isfinite(changes.upper[:, DISK])
    over = changes.disk_limit[finite] - changes.upper[finite, DISK]
    room[finite, DISK] = np.maximum(over, 0) / changes.scale[DISK]
    return room


def _effects(changes: PlanChanges, rows: Ints) -> sp.csr_matrix:
    """Effects of the changes of some rows on loads, (B * D, n), in mean broker loads."""
    (brokers, d), at = changes.loads.shape, np.flatnonzero(np.isin(changes.change, rows))
    column = np.searchsorted(rows, changes.change[at])
    row = (changes.broker[at][:, None] * d + np.arange(d)).ravel()
    load = (changes.effects[at] / changes.scale).ravel()
    return sp.csr_matrix((load, (row, np.repeat(column, d))), shape=(brokers * d, len(rows)))


@dataclass
class _Choice:
    """The changes kept so far, and the loads that follow. A *flip* keeps a change that was left out, or the reverse."""

    kept: Bools
    loads: Floats


class _Flips:
    """Flips of some of the changes."""

    def __init__(self, changes: PlanChanges, rows: Ints) -> None:
        self.changes, self.rows = changes, rows
        entries = np.flatnonzero(np.isin(changes.change, rows))
        self.at = np.searchsorted(rows, changes.change[entries])
        self.entries, self.broker, self.effects = entries, changes.broker[entries], changes.effects[entries]
        self.sign, self.spot = changes.sign[entries], changes.spot[entries]
        self.reward, self.costs = reward_of(changes)[rows], changes.costs[rows]

    def _direction(self, choice: _Choice) -> Floats:
        return np.where(choice.kept[self.rows], -1.0, 1.0)

    def gains(self, choice: _Choice) -> Floats:
        """Violation that each flip removes, plus its reward, (n,)."""
        direction = self._direction(choice)
        now = choice.loads[self.broker]
        then = now + direction[self.at][:, None] * self.effects
        removed = self.changes.violations_at(self.broker, now) - self.changes.violations_at(self.broker, then)
        return np.bincount(self.at, removed, len(self.rows)) + direction * self.reward

    def spent(self, choice: _Choice) -> Ints:
        """Additional bytes and replicas that each flip copies, (n, 2)."""
        return np.asarray(np.where(choice.kept[self.rows], -1, 1)[:, None] * self.costs)

    def fits(self, choice: _Choice) -> Bools:
        """Flips that bring no disk and no (topic, broker) pair over its limit, (n,)."""
        direction = self._direction(choice)[self.at]
        disk = direction * self.effects[:, DISK]
        full = (disk > 0) & (choice.loads[self.broker, DISK] + disk > self.changes.disk_limit[self.broker])
        full |= (direction * self.sign > 0) & (self.changes.gains(choice.kept) >= self.changes.room)[self.spot]
        return np.asarray(np.bincount(self.at, full, len(self.rows)) == 0)

    def legal(self, choice: _Choice, remaining: Ints) -> Bools:
        """Flips that fit, and copy no more than the remaining bytes and replicas, (n,)."""
        return self.fits(choice) & (self.spent(choice) <= remaining).all(axis=1)

    def flip(self, choice: _Choice, i: int) -> _Choice:
        """The choice after a flip."""
        kept, loads, entries = choice.kept.copy(), choice.loads.copy(), self.at == i
        loads[self.broker[entries]] += self._direction(choice)[i] * self.effects[entries]
        kept[self.rows[i]] ^= True
        return _Choice(kept, loads)

    def removable(self, choice: _Choice) -> Bools:
        """Kept changes that add to an overfull broker, or all kept changes if the plan copies too much, (n,)."""
        over = self.changes.overfull(choice.kept, choice.loads)[self.entries]
        fills = np.bincount(self.at, over & (self.sign > 0), len(self.rows)) > 0
        if (self.changes.remaining(choice.kept) < 0).any():
            fills = np.ones(len(self.rows), dtype=bool)
        return fills & choice.kept[self.rows]


def _improved(changes: PlanChanges, kept: Bools, rows: Ints, near: Ints) -> Bools:
    """Make the choice legal, then improve it by single flips, then by pairs of flips of the ``near`` changes."""
    flips, pairs = _Flips(changes, rows), _Flips(changes, np.sort(near))
    choice = _trimmed(flips, _Choice(kept.copy(), changes.loads_with(kept)))
    for _ in range(STEPS):
        gains = flips.gains(choice)
        legal = flips.legal(choice, changes.remaining(choice.kept)) & (gains > GAIN)
        if legal.any():
            share = (flips.spent(choice) / np.maximum(changes.allowed, 1)).max(axis=1)
            choice = flips.flip(choice, int(np.where(legal, gains / np.maximum(share, LEAST_SHARE), 0).argmax()))
            continue
        better = _best_pair(pairs, choice)
        if better is None:
            break
        choice = better
    return choice.kept


def _trimmed(flips: _Flips, choice: _Choice) -> _Choice:
    """Remove changes until every limit is met: first those that lose least for the excess that they free."""
    while (candidates := np.flatnonzero(flips.removable(choice))).size:
        excess = -np.minimum(flips.changes.remaining(choice.kept), 0)
        freed = np.minimum(flips.costs[candidates], np.maximum(excess, 1)) / np.maximum(excess, 1)
        value = flips.gains(choice)[candidates] / np.maximum(freed.max(axis=1), LEAST_FREED)
        choice = flips.flip(choice, int(candidates[value.argmax()]))
    return choice


def _best_pair(flips: _Flips, choice: _Choice) -> _Choice | None:
    """The choice after the two flips that improve it most together; None if none improves it."""
    best, result = GAIN, None
    singles, remaining = flips.gains(choice), flips.changes.remaining(choice.kept)
    # Of two flips, the one that frees space comes first.
    for i in np.flatnonzero(flips.fits(choice)).tolist():
        after = flips.flip(choice, i)
        gains = singles[i] + flips.gains(after)
        legal = flips.legal(after, remaining - flips.spent(choice)[i])
        legal[i] = False
        gains = np.where(legal, gains, -np.inf)
        if gains.max(initial=0) > best:
            best, result = float(gains.max()), flips.flip(after, int(gains.argmax()))
    return result
