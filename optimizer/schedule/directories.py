"""Deal the replicas that arrive at a broker to its log directories, so that none gets full at any moment.

Each arriving replica, the largest first, goes into the directory whose fullest moment over all waves stays least. Then
single moves and swaps follow, as long as the fullest directory gets less full. What leaves in a wave makes space in the
next one.

References
----------
``kafka.log.LogManager.nextLogDirs`` of Kafka 4.3.1, for Kafka's own choice. Among directories with equally many logs,
Kafka follows the order of a hash map; here the order is by path. So ``kafka_choice`` is an estimate.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from optimizer.cluster_policy import NO_LIMIT
from optimizer.domain import Bools, Floats, Ints, LogDir

NO_DIRECTORY = -1  # index of no directory: unknown, or Kafka chooses
_MOST_STEPS = 200  # moves and swaps for one broker; the fullest directory falls in each, a few are usual
_NEAR_BOUND = 1.002  # fullest directory over its bound: sizes change by more until the copies are made
_MOST_SWAPPED = 32  # largest replicas on each side of a swap that are tried: pairs are many
_LESS = 1e-9  # share of a directory: a step must lower the fullest one by more, or rounding counts as a gain


@dataclass(frozen=True)
class Directories:
    """The log directories of one broker, ascending by path.

    Parameters
    ----------
    paths : tuple of str
    is_open : (D,) bool
        It has not failed and is not cordoned: it may get replicas.
    used_bytes, logs : (D,) int64
        Before the plan.
    whole_bytes : (D,) float64
        Its capacity; if the broker does not know it of every directory, the same for each.
    limit_bytes : (D,) int64
        Most bytes at any time; ``NO_LIMIT`` if the capacity is unknown.
    is_known : bool
        Every directory has a known capacity.
    """

    paths: tuple[str, ...]
    is_open: Bools
    used_bytes: Ints
    logs: Ints
    whole_bytes: Floats
    limit_bytes: Ints
    is_known: bool

    def __len__(self) -> int:
        return len(self.paths)


def directories_of(log_dirs: Sequence[LogDir], headroom: float) -> Directories:
    """The directories of a broker; ``headroom`` is the share of each that must stay free."""
    capacities = [log_dir.capacity_bytes for log_dir in log_dirs]
    is_known = all(capacities)
    limits = [log_dir.limit_bytes(headroom) for log_dir in log_dirs]
    used = np.array([log_dir.used_bytes for log_dir in log_dirs], dtype=np.int64)
    return Directories(
        paths=tuple(log_dir.path for log_dir in log_dirs),
        is_open=np.array([log_dir.is_open for log_dir in log_dirs], dtype=bool),
        used_bytes=used,
        logs=np.array([log_dir.logs for log_dir in log_dirs], dtype=np.int64),
        whole_bytes=np.array(capacities if is_known else [max(used.sum(), 1)] * len(log_dirs), dtype=np.float64),
        limit_bytes=np.array([NO_LIMIT if limit is None else limit for limit in limits], dtype=np.int64),
        is_known=is_known,
    )


@dataclass(frozen=True)
class Visits:
    """The replicas that arrive at one broker, and those that leave it.

    Parameters
    ----------
    size_bytes, wave : (n,) int64
        Of each that arrives; waves from 1.
    left_bytes, left_wave, left_from : (m,) int64
        Of each that leaves, with the index of its directory; ``NO_DIRECTORY`` if that is unknown.
    n_waves : int
    """

    size_bytes: Ints
    wave: Ints
    left_bytes: Ints
    left_wave: Ints
    left_from: Ints
    n_waves: int

    def loads(self, directories: Directories, choice: Ints | None = None) -> Ints:
        """Bytes in each directory in each wave and after the last one, (D, waves + 1); without choice none arrives."""
        change = np.zeros((len(directories), self.n_waves + 1), dtype=np.int64)
        if choice is not None:
            named = choice != NO_DIRECTORY
            np.add.at(change, (choice[named], self.wave[named] - 1), self.size_bytes[named])
        known = self.left_from != NO_DIRECTORY
        np.add.at(change, (self.left_from[known], self.left_wave[known]), -self.left_bytes[known])
        return directories.used_bytes[:, None] + np.cumsum(change, axis=1)

    def over_limit(self, directories: Directories, choice: Ints) -> Bools:
        """Directories that exceed their limit in a wave in which a replica arrives there, (D,)."""
        arriving, named = np.zeros((len(directories), self.n_waves + 1), dtype=bool), choice != NO_DIRECTORY
        arriving[choice[named], self.wave[named] - 1] = True
        over = self.loads(directories, choice) > directories.limit_bytes[:, None]
        return np.asarray((arriving & over).any(axis=1))


def deal(directories: Directories, visits: Visits) -> Ints:
    """The directory of each arriving replica, (n,); ``NO_DIRECTORY`` if none is open.

    The fullest directory is at most as full as with ``kafka_choice``.
    """
    if not directories.is_open.any():
        return np.full(len(visits.size_bytes), NO_DIRECTORY, dtype=np.int64)
    starts = (_largest_first(directories, visits), kafka_choice(directories, visits))
    choice = min(starts, key=lambda start: fullest(directories, visits.loads(directories, start)))
    loads = visits.loads(directories, choice)
    near = _NEAR_BOUND * _bound(directories, loads)
    for _ in range(_MOST_STEPS):
        if fullest(directories, loads) <= near or not _lower_fullest(directories, visits, choice, loads):
            break
    return choice


def _bound(directories: Directories, loads: Ints) -> float:
    """The least that the fullest directory can be: the bytes of all that are open, over their capacities."""
    is_open = directories.is_open
    return float(loads[is_open].sum(axis=0).max() / directories.whole_bytes[is_open].sum())


def fullest(directories: Directories, loads: Ints) -> float:
    """The largest share of a directory that may get replicas, at any moment: formula 30 of docs/solver.md."""
    shares = loads.max(axis=1) / directories.whole_bytes
    return float(shares[directories.is_open].max(initial=0.0))


def _largest_first(directories: Directories, visits: Visits) -> Ints:
    """Each replica, the largest first, where the fullest moment is least, (n,)."""
    loads = visits.loads(directories)
    choice = np.full(len(visits.size_bytes), NO_DIRECTORY, dtype=np.int64)
    for i in np.argsort(-visits.size_bytes, kind="stable").tolist():
        first, size = int(visits.wave[i]) - 1, int(visits.size_bytes[i])
        shares = (loads[:, first:].max(axis=1) + size) / directories.whole_bytes
        choice[i] = int(np.where(directories.is_open, shares, np.inf).argmin())
        loads[choice[i], first:] += size
    return choice


def kafka_choice(directories: Directories, visits: Visits) -> Ints:
    """The directory that Kafka would choose for each arriving replica, (n,): the open one with the fewest logs."""
    logs = np.where(directories.is_open, directories.logs, NO_LIMIT)
    choice = np.full(len(visits.size_bytes), NO_DIRECTORY, dtype=np.int64)
    if not directories.is_open.any():
        return choice
    for wave in range(1, visits.n_waves + 1):
        for i in np.flatnonzero(visits.wave == wave).tolist():
            choice[i] = int(logs.argmin())
            logs[choice[i]] += 1
        gone = visits.left_from[(visits.left_wave == wave) & (visits.left_from != NO_DIRECTORY)]
        np.subtract.at(logs, gone, 1)
    return choice


def _lower_fullest(directories: Directories, visits: Visits, choice: Ints, loads: Ints) -> bool:
    """Move one replica out of the fullest directory with any, or swap two, so that it gets less full.

    Changes ``choice`` and ``loads``; False if nothing makes it less full.
    """
    arrives = np.isin(np.arange(len(directories)), choice)
    shares = np.where(arrives, loads.max(axis=1) / directories.whole_bytes, -np.inf)
    hot = int(shares.argmax())
    here = _largest(visits, choice == hot)
    if not len(here):
        return False
    bytes_here = _over_time(visits, here)
    without = loads[hot] - bytes_here
    # Of each pair of a replica here and one elsewhere (or none): the fullest moment of both directories.
    best, change = float(shares[hot]) - _LESS, None
    for other in np.flatnonzero(directories.is_open).tolist():
        if other == hot:
            continue
        there = np.append(_largest(visits, choice == other), NO_DIRECTORY)
        bytes_there = np.concatenate([_over_time(visits, there[:-1]), np.zeros((1, loads.shape[1]), dtype=np.int64)])
        hot_after = (without[:, None] + bytes_there).max(axis=2) / directories.whole_bytes[hot]
        other_after = loads[other] + bytes_here[:, None] - bytes_there
        value = np.maximum(hot_after, other_after.max(axis=2) / directories.whole_bytes[other])
        i, j = (int(k) for k in np.unravel_index(value.argmin(), value.shape))
        if value[i, j] < best:
            best, change = float(value[i, j]), (other, int(here[i]), int(there[j]), bytes_here[i] - bytes_there[j])
    if change is None:
        return False
    other, leaving, coming, moved = change
    loads[hot] -= moved
    loads[other] += moved
    choice[leaving] = other
    if coming != NO_DIRECTORY:
        choice[coming] = hot
    return True


def _largest(visits: Visits, among: Bools) -> Ints:
    """The largest of some arriving replicas."""
    rows = np.flatnonzero(among)
    return rows[np.argsort(-visits.size_bytes[rows], kind="stable")][:_MOST_SWAPPED]


def _over_time(visits: Visits, rows: Ints) -> Ints:
    """Bytes of some arriving replicas in each wave and after the last one, (rows, waves + 1)."""
    is_there = np.arange(visits.n_waves + 1) >= visits.wave[rows, None] - 1
    return is_there * visits.size_bytes[rows, None]
