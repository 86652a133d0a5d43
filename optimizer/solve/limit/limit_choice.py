"""Which changes that are not urgent a limited plan keeps: a linear program over z in [0, 1], then whole changes.

The program has a row for each limit beside those of the bands, and many more changes than rows: few of its values are
not whole. Those that are 1 are kept; then changes are kept or left one by one, whichever mends most for its share of
the limit, and at last by pairs. The same is done from those that are at least a half, and the better choice counts.
Urgent changes that found no room take part with a reward, so that what makes room for them is kept with them.
"""

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from optimizer.domain import Bools, Floats, Ints
from optimizer.solve.limit.limit import PlanChanges, urgent_first
from optimizer.solve.ortools.glop import minimise
from optimizer.solve.rules.resources import DISK
from optimizer.solve.rules.urgency import BALANCE

REWARD = 100.0  # mean broker loads: an urgent change is worth more than what it may do to the bands
BYTES_TIE = 1e-6  # of equal balance the fewer bytes
WHOLE = 1e-7  # part of a change: from so near to 1 on it is a whole one
ROUND_FROM = (1 - WHOLE, 0.5)  # parts of a change from which on it is kept: whole ones alone, and the larger half
LEAST_SHARE = 1e-6  # of the limit: what copies less, or gives back, is not told apart
LEAST_FREED = 1e-9  # of what is too much: divides in place of 0 where leaving a change frees none of it
POOL = 200  # changes that the improvement tries: those nearest to being worth it
STEPS = 400  # steps of the improvement at most: an end for what might go on, at two for each change of the pool
GAIN = 1e-9  # mean loads: a gain that is no rounding


def keep_within(changes: PlanChanges) -> Bools:
    """The changes to keep, (N,) (formula 21 of docs/solver.md): all of them where the limits allow it."""
    everything = np.ones(len(changes), dtype=bool)
    over = changes.overfull(everything, changes.loads_with(everything))
    if (changes.left(everything) >= 0).all() and not over.any():
        return everything
    urgent = urgent_first(changes)
    rows = np.flatnonzero(~urgent)
    try:
        values, reduced_cost = relaxed(changes, urgent)
    except ArithmeticError:  # without the program the changes are chosen one by one
        return _improved(changes, urgent, rows, rows[:POOL])
    whole = np.abs(values - np.round(values)) < WHOLE
    near = rows[np.argsort(np.where(whole, np.abs(reduced_cost), -1), kind="stable")[:POOL]]
    choices = [_improved(changes, urgent | _at(changes, rows, values >= level), rows, near) for level in ROUND_FROM]
    best = max(choices, key=lambda kept: _merit(changes, kept))
    if _merit(changes, best) > _merit(changes, urgent):
        return best
    return _improved(changes, urgent, rows, near)


def _at(changes: PlanChanges, rows: Ints, chosen: Bools) -> Bools:
    """Some of the rows as a mask of all changes, (N,)."""
    mask = np.zeros(len(changes), dtype=bool)
    mask[rows[chosen]] = True
    return mask


def reward_of(changes: PlanChanges) -> Floats:
    """What keeping each change is worth beside the bands, (N,): twice as much at each level that is more urgent."""
    return np.where(changes.level < BALANCE, REWARD * 2.0 ** (BALANCE - changes.level), 0.0)


def _merit(changes: PlanChanges, kept: Bools) -> float:
    return float(reward_of(changes)[kept].sum()) - changes.violation(changes.loads_with(kept))


def relaxed(changes: PlanChanges, kept: Bools) -> tuple[Floats, Floats]:
    """The linear program over the changes that are not kept yet: their values and reduced costs.

    Rows are in mean broker loads and in mean costs; the slack of a disk row ends where the disk does.
    """
    rows, now = np.flatnonzero(~kept), changes.loads_with(kept)
    effects = _effects(changes, rows)
    bands, binding = now.size, np.flatnonzero(changes.left(np.ones(len(changes), dtype=bool)) < 0)
    unit = np.maximum(changes.costs[rows][:, binding].mean(axis=0), 1.0)
    slack = sp.eye_array(bands, format="csr")
    spent = sp.csr_matrix((changes.costs[rows][:, binding] / unit).T)
    matrix = sp.vstack(
        [sp.hstack([effects, slack, -slack]), sp.hstack([spent, sp.csr_matrix((len(binding), 2 * bands))])]
    ).tocsr()
    low = np.concatenate([((changes.lower - now) / changes.scale).ravel(), np.zeros(len(binding))])
    high = np.concatenate([((changes.upper - now) / changes.scale).ravel(), changes.left(kept)[binding] / unit])
    tie = BYTES_TIE * changes.weights[rows, DISK] / changes.scale[DISK]
    cost = np.concatenate([tie - reward_of(changes)[rows], np.ones(2 * bands)])
    most = np.concatenate([np.ones(len(rows)), np.full(bands, np.inf), _over(changes).ravel()])
    values, duals, _ = minimise(cost, most, low, high, matrix)
    return values[: len(rows)], (cost - matrix.T @ duals)[: len(rows)]


def _over(changes: PlanChanges) -> Floats:
    """How far each load may go above its band, (B, D), in mean broker loads."""
    room = np.full(changes.upper.shape, np.inf)
    finite = np.isfinite(changes.disk_limit) & np.isfinite(changes.upper[:, DISK])
    over = changes.disk_limit[finite] - changes.upper[finite, DISK]
    room[finite, DISK] = np.maximum(over, 0) / changes.scale[DISK]
    return room


def _effects(changes: PlanChanges, rows: Ints) -> sp.csr_matrix:
    """Loads that the changes of some rows shift, (B * D, n), in mean broker loads."""
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
        """Violation that each flip mends, with its reward, (n,)."""
        direction = self._direction(choice)
        now = choice.loads[self.broker]
        then = now + direction[self.at][:, None] * self.effects
        mended = self.changes.violations_at(self.broker, now) - self.changes.violations_at(self.broker, then)
        return np.bincount(self.at, mended, len(self.rows)) + direction * self.reward

    def spent(self, choice: _Choice) -> Ints:
        """Bytes and replicas that each flip copies more, (n, 2)."""
        return np.asarray(np.where(choice.kept[self.rows], -1, 1)[:, None] * self.costs)

    def fits(self, choice: _Choice) -> Bools:
        """Flips that fill no disk over its limit and bring no topic more to a broker than there may be, (n,)."""
        direction = self._direction(choice)[self.at]
        disk = direction * self.effects[:, DISK]
        full = (disk > 0) & (choice.loads[self.broker, DISK] + disk > self.changes.disk_limit[self.broker])
        full |= (direction * self.sign > 0) & (self.changes.gains(choice.kept) >= self.changes.room)[self.spot]
        return np.asarray(np.bincount(self.at, full, len(self.rows)) == 0)

    def legal(self, choice: _Choice, left: Ints) -> Bools:
        """Flips that find room and copy no more than what is left, (n,)."""
        return self.fits(choice) & (self.spent(choice) <= left).all(axis=1)

    def flip(self, choice: _Choice, i: int) -> _Choice:
        """The choice after a flip."""
        kept, loads, mine = choice.kept.copy(), choice.loads.copy(), self.at == i
        loads[self.broker[mine]] += self._direction(choice)[i] * self.effects[mine]
        kept[self.rows[i]] ^= True
        return _Choice(kept, loads)

    def too_much(self, choice: _Choice) -> Bools:
        """Kept changes that go where too much is, or all kept ones where the plan copies too much, (n,)."""
        over = self.changes.overfull(choice.kept, choice.loads)[self.entries]
        fills = np.bincount(self.at, over & (self.sign > 0), len(self.rows)) > 0
        if (self.changes.left(choice.kept) < 0).any():
            fills = np.ones(len(self.rows), dtype=bool)
        return fills & choice.kept[self.rows]


def _improved(changes: PlanChanges, kept: Bools, rows: Ints, near: Ints) -> Bools:
    """The choice made legal, then better flip by flip, then by pairs of flips of the changes that were near."""
    flips, pairs = _Flips(changes, rows), _Flips(changes, np.sort(near))
    choice = _trimmed(flips, _Choice(kept.copy(), changes.loads_with(kept)))
    for _ in range(STEPS):
        gains = flips.gains(choice)
        legal = flips.legal(choice, changes.left(choice.kept)) & (gains > GAIN)
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
    """Leave changes, those first that lose least for what they cost, until the limit holds and nothing is overfull."""
    while (candidates := np.flatnonzero(flips.too_much(choice))).size:
        excess = -np.minimum(flips.changes.left(choice.kept), 0)
        freed = np.minimum(flips.costs[candidates], np.maximum(excess, 1)) / np.maximum(excess, 1)
        value = flips.gains(choice)[candidates] / np.maximum(freed.max(axis=1), LEAST_FREED)
        choice = flips.flip(choice, int(candidates[value.argmax()]))
    return choice


def _best_pair(flips: _Flips, choice: _Choice) -> _Choice | None:
    """The choice after the two flips that mend most together, where they mend anything."""
    best, result = GAIN, None
    singles, left = flips.gains(choice), flips.changes.left(choice.kept)
    # Of two flips the one that makes room comes first.
    for i in np.flatnonzero(flips.fits(choice)).tolist():
        after = flips.flip(choice, i)
        gains = singles[i] + flips.gains(after)
        legal = flips.legal(after, left - flips.spent(choice)[i])
        legal[i] = False
        gains = np.where(legal, gains, -np.inf)
        if gains.max(initial=0) > best:
            best, result = float(gains.max()), flips.flip(after, int(gains.argmax()))
    return result
