"""Choose replicas that move inside one broker, with few bytes, step by step.

Directories above their bands give replicas away until they are inside; then those below their bands get some. A
directory only gives or only gets, so both copies of a replica fit at any time, in any order of the moves. Afterwards
moves that nobody needs are taken back, and smaller replicas move where these are enough.
"""

from collections.abc import Callable

import numpy as np

from optimizer.domain import Bools, Ints
from optimizer.solve.dirs.dir_bands import NO_MOVE, DirBands


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
