"""Moves inside one broker: step by step, and by CP-SAT where that may be better."""

from collections.abc import Callable

import numpy as np
from ortools.sat.python import cp_model

from optimizer.domain import Bools, Ints
from optimizer.solve.dirs.dir_bands import NO_MOVE, DirBands, moved_loads
from optimizer.solve.ortools.cp_sat import careful_solver

MOST_CHOICES = 400  # pairs of a replica and a directory: a model this small takes some hundredths of a CPU second
_MOST_UNITS = 2**40  # of all replicas together: sums of products stay far below 2^63
_DETERMINISTIC_TIME = 0.2  # of OR-Tools: limit of each of the two steps for one broker


def least_bytes(bands: DirBands, load_bytes: Ints, *, size_bytes: Ints, directory: Ints) -> Ints | None:
    """The new directory of each replica, as from ``few_bytes``; None if there are too many, or nothing was found."""
    n_dirs, n = len(load_bytes), len(size_bytes)
    if not n or n * (n_dirs - 1) > MOST_CHOICES:
        return None
    unit = -(-int(load_bytes.sum()) // _MOST_UNITS) or 1
    model = cp_model.CpModel()
    x = {
        (i, d): model.new_bool_var("")
        for i in range(n)
        for d in range(n_dirs)
        if d != directory[i] and load_bytes[d] + size_bytes[i] <= bands.limit_bytes[d]
    }
    for i in range(n):
        model.add_at_most_one(x[i, d] for d in range(n_dirs) if (i, d) in x)
    least, most = size_bytes // unit, -(-size_bytes // unit)
    outside = []
    for d in range(n_dirs):
        arrives, leaves = [i for i in range(n) if (i, d) in x], [key for key in x if directory[key[0]] == d]
        up, down = (
            sum(there[i] * x[i, d] for i in arrives) - sum(here[i] * x[i, e] for i, e in leaves)
            for there, here in ((most.tolist(), least.tolist()), (least.tolist(), most.tolist()))
        )
        over, under = (model.new_int_var(0, 2 * _MOST_UNITS, "") for _ in range(2))
        outside += [over, under]
        load = int(load_bytes[d])
        model.add(up <= (int(bands.upper_bytes[d]) - load) // unit + over)
        model.add(down >= -((load - int(bands.lower_bytes[d])) // unit) - under)
        if arrives:
            space = (int(bands.limit_bytes[d]) - load) // unit
            model.add(sum(int(most[i]) * x[i, d] for i in arrives) <= space)
    model.minimize(sum(outside))
    solver = careful_solver(_DETERMINISTIC_TIME)
    if solver.solve(model) not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return None
    model.add(sum(outside) <= round(solver.objective_value))
    for variable in (*x.values(), *outside):
        model.add_hint(variable, solver.value(variable))
    model.minimize(sum(int(most[i]) * variable for (i, _), variable in x.items()))
    solver = careful_solver(_DETERMINISTIC_TIME)
    if solver.solve(model) not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return None
    target = np.full(n, NO_MOVE, dtype=np.int64)
    for (i, d), variable in x.items():
        if solver.boolean_value(variable):
            target[i] = d
    return target


def few_bytes(bands: DirBands, load_bytes: Ints, *, size_bytes: Ints, directory: Ints) -> Ints:
    """The new directory of each replica, as from ``inside.moves_inside``; parameters too."""
    state = _State(bands, load_bytes.copy(), size_bytes, directory)
    for excess, choose in ((state.over, state.give), (state.under, state.get)):
        state.settle(excess, choose)
    return state.without_needless()


class _State:
    """The directories while replicas are chosen."""

    def __init__(self, bands: DirBands, load: Ints, size_bytes: Ints, directory: Ints) -> None:
        self._bands, self._lower, self._upper, self._load = bands, bands.lower_bytes, bands.upper_bytes, load
        self._size, self._from = size_bytes, directory
        self._target = np.full(len(size_bytes), NO_MOVE, dtype=np.int64)
        self._gave, self._got = np.zeros((2, len(load)), dtype=bool)

    def over(self) -> Ints:
        """Bytes of each directory above its band."""
        return self._load - self._upper

    def under(self) -> Ints:
        """Bytes that each directory lacks to its band."""
        return self._lower - self._load

    def settle(self, excess: Callable[[], Ints], choose: Callable[[int], bool]) -> None:
        """Choose replicas for the directory with the largest excess, until none can be chosen or nothing is left."""
        stuck = np.zeros(len(self._load), dtype=bool)
        while True:
            bytes_left = np.where(stuck, 0, excess())
            directory = int(bytes_left.argmax())
            if bytes_left[directory] <= 0:
                return
            stuck[directory] = not choose(directory)

    def give(self, source: int) -> bool:
        """Move one replica out of a directory above its band, to the one with most space in its band."""
        others = ~self._gave
        others[source] = False
        space = np.where(others, self._upper - self._load, 0)
        target = int(space.argmax())
        if self._got[source] or space[target] <= 0:
            return False
        most = min(int(space[target]), int(self._load[source] - self._lower[source]))
        return self._move(self._from == source, target, wanted=int(self.over()[source]), most=most)

    def get(self, target: int) -> bool:
        """Move one replica into a directory below its band, from the one with most bytes over its lower end."""
        others = ~self._got
        others[target] = False
        spare = np.where(others, self._load - self._lower, 0)
        source = int(spare.argmax())
        if self._gave[target] or spare[source] <= 0:
            return False
        most = min(int(spare[source]), int(self._upper[target] - self._load[target]))
        return self._move(self._from == source, target, wanted=int(self.under()[target]), most=most)

    def _move(self, among: Bools, target: int, *, wanted: int, most: int) -> bool:
        """Move the largest replica of at most ``wanted`` bytes, or else the smallest of at most ``most``."""
        rows = np.flatnonzero(among & (self._target == NO_MOVE) & (self._size > 0) & (self._size <= most))
        if not len(rows):
            return False
        sizes = self._size[rows]
        below = sizes <= wanted
        row = int(rows[np.where(below, sizes, -1).argmax()] if below.any() else rows[sizes.argmin()])
        self._put(row, target)
        return True

    def _put(self, row: int, target: int) -> None:
        source, size = int(self._from[row]), int(self._size[row])
        self._target[row] = target
        self._load[source] -= size
        self._load[target] += size
        self._gave[source] = self._got[target] = True

    def without_needless(self) -> Ints:
        """The chosen moves, without those that nobody needs, and with smaller replicas where these are enough."""
        chosen = np.flatnonzero(self._target != NO_MOVE)
        for row in chosen[np.argsort(-self._size[chosen], kind="stable")].tolist():
            load = self._load.copy()
            load[self._from[row]] += self._size[row]
            load[self._target[row]] -= self._size[row]
            if self._bands.outside_bytes(load).sum() <= self._bands.outside_bytes(self._load).sum():
                self._load, self._target[row] = load, NO_MOVE
            else:
                self._shrink(row)
        return self._target

    def _shrink(self, row: int) -> None:
        """Move a smaller replica of the same directory instead, if both directories stay inside."""
        source, target, size = int(self._from[row]), int(self._target[row]), int(self._size[row])
        spare = min(int(self._upper[source] - self._load[source]), int(self._load[target] - self._lower[target]))
        is_there = (self._from == source) & (self._target == NO_MOVE)
        fits = is_there & (self._size >= size - spare) & (self._size < size)
        if not fits.any():
            return
        smaller = int(np.where(fits, self._size, size).argmin())
        change = size - int(self._size[smaller])
        self._load[source] += change
        self._load[target] -= change
        self._target[smaller], self._target[row] = target, NO_MOVE


_NEAR_BOUND = 1.01  # bytes over their bound: the rest is less than a log grows until the moves are made


def moves_inside(bands: DirBands, load_bytes: Ints, *, size_bytes: Ints, directory: Ints) -> Ints:
    """The new directory of each replica, (n,); ``NO_MOVE`` for one that stays.

    No directory gets fuller than its limit while both copies of all replicas exist.

    Parameters
    ----------
    load_bytes : (D,) int64
        Bytes in each directory.
    size_bytes, directory : (n,) int64
        Of each replica that may move: its bytes, and the index of its directory.
    """
    replicas = {"size_bytes": size_bytes, "directory": directory}
    bound = bands.bound_bytes(load_bytes)
    if not bound:
        return np.full(len(size_bytes), NO_MOVE, dtype=np.int64)

    def cost(target: Ints) -> tuple[int, int]:
        outside = bands.outside_bytes(moved_loads(load_bytes, **replicas, target=target))
        return int(outside.sum()), int(size_bytes[target != NO_MOVE].sum())

    target = few_bytes(bands, load_bytes, **replicas)
    outside_bytes, moved_bytes = cost(target)
    if not outside_bytes and moved_bytes <= _NEAR_BOUND * bound:
        return target
    exact = least_bytes(bands, load_bytes, **replicas)
    return target if exact is None or cost(exact) >= (outside_bytes, moved_bytes) else exact
