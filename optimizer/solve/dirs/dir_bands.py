"""The bands of a broker's log directories, and the least bytes that must move to be inside them.

The band of a directory is around the broker's mean share of capacity, and ends at the directory's limit at the latest.
Bytes over the upper ends must leave their directories, and bytes below the lower ends must come. So the larger of both
sums is a lower bound: formula 31 of docs/solver.md.
"""

from dataclasses import dataclass

import numpy as np

from optimizer.domain import Floats, Ints

NO_MOVE = -1  # index of no directory: the replica stays where it is


@dataclass(frozen=True)
class DirBands:
    """The bands of one broker's directories.

    Parameters
    ----------
    lower_bytes, upper_bytes, limit_bytes : (D,) int64
        ``limit_bytes`` also holds while both copies of a replica exist.
    """

    lower_bytes: Ints
    upper_bytes: Ints
    limit_bytes: Ints

    def outside_bytes(self, load_bytes: Ints) -> Ints:
        """Bytes of each directory above its band, or below it, (D,)."""
        return np.maximum(np.maximum(load_bytes - self.upper_bytes, self.lower_bytes - load_bytes), 0)

    def bound_bytes(self, load_bytes: Ints) -> int:
        """The least bytes that must move to bring all directories into their bands."""
        over, under = load_bytes - self.upper_bytes, self.lower_bytes - load_bytes
        return int(max(np.maximum(over, 0).sum(), np.maximum(under, 0).sum()))


def dir_bands(load_bytes: Ints, *, whole_bytes: Floats, limit_bytes: Ints, band: float) -> DirBands:
    """The bands around the broker's mean share.

    Parameters
    ----------
    load_bytes : (D,) int64
        Bytes in each directory.
    whole_bytes : (D,) float64
        Capacities; equal numbers if they are unknown.
    limit_bytes : (D,) int64
        Most bytes at any time.
    band : float
        Width, as a share of the mean.
    """
    mean = float(load_bytes.sum()) / float(whole_bytes.sum()) * whole_bytes
    upper = np.minimum(np.floor(mean * (1 + band)).astype(np.int64), limit_bytes)
    lower = np.minimum(np.ceil(mean * max(1 - band, 0)).astype(np.int64), upper)
    return DirBands(lower, upper, limit_bytes)


def moved_loads(load_bytes: Ints, *, size_bytes: Ints, directory: Ints, target: Ints) -> Ints:
    """Bytes in each directory after the moves, (D,); ``target`` as from ``few_bytes``."""
    moves = target != NO_MOVE
    load = load_bytes.copy()
    np.subtract.at(load, directory[moves], size_bytes[moves])
    np.add.at(load, target[moves], size_bytes[moves])
    return load
