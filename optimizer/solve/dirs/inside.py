"""Moves inside one broker: step by step, and by CP-SAT where that may be better."""

import numpy as np

from optimizer.domain import Ints
from optimizer.solve.dirs.dir_bands import NO_MOVE, DirBands, moved_loads
from optimizer.solve.dirs.few_bytes import few_bytes
from optimizer.solve.dirs.least_bytes import least_bytes

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
