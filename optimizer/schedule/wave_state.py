"""Waves while changes are put into them and moved between them, with the limits that every wave meets."""

from dataclasses import dataclass

import numpy as np

from optimizer.cluster_policy import NO_LIMIT
from optimizer.domain import Bools, Ints
from optimizer.schedule.requests import Requests
from optimizer.schedule.wave_bound import Ends
from optimizer.schedule.wave_changes import WaveChanges, bytes_per_broker

NOWHERE = -1  # in no wave; here waves are numbered from 0


@dataclass(frozen=True)
class WaveLimits:
    """What the waves of a plan must meet.

    Parameters
    ----------
    changes : WaveChanges
        Without reorders.
    ends : Ends
        Of ``changes``.
    n_waves : int
        Waves to fill.
    latest : (N,) int64
        Latest wave of each change.
    disk_used, disk_limit : (B,) int64
        Bytes on each broker before the plan, and the most at any time, at least ``disk_used``.
    most_bytes : float
        Length that no wave should exceed.
    most_copies : float
        Replicas that a wave may copy; a wave of a single change may need more.
    """

    changes: WaveChanges
    ends: Ends
    n_waves: int
    latest: Ints
    disk_used: Ints
    disk_limit: Ints
    most_bytes: float
    most_copies: float

    @property
    def disks_fit_all_copies(self) -> bool:
        """Whether disks have space for all copies and old replicas at once; then every order fits."""
        peak = self.disk_used + bytes_per_broker(self.changes.added, self.changes.size_bytes, len(self.disk_used))
        return bool((peak <= self.disk_limit).all())


class FilledWaves:
    """Waves with their changes. All counts follow each ``put``, ``take`` and ``move``.

    Parameters
    ----------
    wave_of : (N,) int64
        ``NOWHERE``, or the wave of each change.
    loads : (waves, 2B + 1) int64
        Bytes at each end, in the columns of ``Ends``.
    length : (waves,) int64
        The largest of ``loads``.
    changes, copies : (waves,) int64
        Their numbers.
    disk_free : (waves, B + 1) int64, optional
        Bytes that each disk has left while old and new replicas of the wave exist. The last column pads lists of
        brokers. None if disks fit all copies at once.
    """

    def __init__(self, limits: WaveLimits) -> None:
        n_waves = limits.n_waves
        self.limits = limits
        self.copies_of = limits.changes.copies
        self.wave_of: Ints = np.full(len(limits.changes), NOWHERE, dtype=np.int64)
        self.loads: Ints = np.zeros((n_waves, limits.ends.n_columns), dtype=np.int64)
        self.length: Ints = np.zeros(n_waves, dtype=np.int64)
        self.changes: Ints = np.zeros(n_waves, dtype=np.int64)
        self.copies: Ints = np.zeros(n_waves, dtype=np.int64)
        self.requests = Requests.empty(limits.changes, n_waves)
        self.disk_free: Ints | None = None
        if not limits.disks_fit_all_copies:
            self.disk_free = np.tile(np.append(limits.disk_limit - limits.disk_used, NO_LIMIT), (n_waves, 1))

    @property
    def total_bytes(self) -> int:
        """Sum of the lengths."""
        return int(self.length.sum())

    @property
    def bytes_over(self) -> float:
        """Bytes by which waves are longer than they should be."""
        return float(np.maximum(self.length - self.limits.most_bytes, 0).sum())

    @property
    def rank(self) -> tuple[int, int, float, int]:
        """The smaller, the better: changes in no wave, waves without a change, bytes over, sum of the lengths."""
        return int((self.wave_of == NOWHERE).sum()), int((self.changes == 0).sum()), self.bytes_over, self.total_bytes

    def put(self, i: int, wave: int) -> None:
        """Put a change into a wave."""
        self._count(i, wave, 1)
        self.requests.add(self.limits.changes, i, wave)
        self.wave_of[i] = wave

    def take(self, i: int) -> None:
        """Take a change out of its wave."""
        self._count(i, int(self.wave_of[i]), -1)
        self.requests.remove(self.limits.changes, i, int(self.wave_of[i]))
        self.wave_of[i] = NOWHERE

    def move(self, i: int, wave: int) -> None:
        """Move a change into another wave."""
        self.take(i)
        self.put(i, wave)

    def _count(self, i: int, wave: int, sign: int) -> None:
        ends, changes = self.limits.ends, self.limits.changes
        self.loads[wave, ends.column[i]] += sign * ends.size_bytes[i]
        self.length[wave] = self.loads[wave].max()
        self.changes[wave] += sign
        self.copies[wave] += sign * self.copies_of[i]
        if self.disk_free is not None:
            size = sign * int(changes.size_bytes[i])
            self.disk_free[wave:, changes.added[i][changes.added[i] >= 0]] -= size
            self.disk_free[wave + 1 :, changes.removed[i][changes.removed[i] >= 0]] += size

    def loads_with(self, rows: Ints) -> Ints:
        """Bytes at the busiest end of each change if it were added to each wave, (waves, rows)."""
        ends = self.limits.ends
        return np.asarray((self.loads[:, ends.column[rows]] + ends.size_bytes[rows]).max(axis=2))

    def length_without(self, rows: Ints, wave: int) -> Ints:
        """Length of a wave without one of its changes, for each of some changes, (rows,)."""
        ends, loads = self.limits.ends, self.loads[wave]
        columns = ends.column[rows]
        # One of the busiest is an end without a part of the change: there is one more than a change has ends.
        n_busiest = min(columns.shape[1] + 1, len(loads))
        busiest = np.argpartition(loads, -n_busiest)[-n_busiest:]
        busiest = busiest[np.argsort(-loads[busiest], kind="stable")]
        is_part = (busiest[None, :, None] == columns[:, None, :]).any(axis=2)
        untouched = loads[busiest[is_part.argmin(axis=1)]]
        return np.maximum(untouched, (loads[columns] - ends.size_bytes[rows]).max(axis=1))

    def may_join(self, rows: Ints) -> Bools:
        """Whether each wave may take a change by its latest wave and the limit of copies, (waves, rows)."""
        in_time = np.arange(len(self.length))[:, None] <= self.limits.latest[rows]
        few = self.copies[:, None] + self.copies_of[rows] <= self.limits.most_copies
        return np.asarray(in_time & (few | (self.copies == 0)[:, None]))

    def has_disk(self, i: int) -> Bools:
        """Waves in which each target has space for a change that is in no wave, also in all later waves, (waves,)."""
        if self.disk_free is None:
            return np.ones(len(self.length), dtype=bool)
        later = np.minimum.accumulate(self.disk_free[::-1, self.limits.changes.added[i]])[::-1]
        return np.asarray((later >= self.limits.changes.size_bytes[i]).all(axis=1))

    def has_disk_after_move(self, rows: Ints, wave: int) -> Bools:
        """Whether disks allow that a change of ``wave`` moves to each other wave, (waves, rows).

        In an earlier wave its copies exist sooner. In a later wave the replicas that it removes stay longer.
        """
        result = np.ones((len(self.length), len(rows)), dtype=bool)
        if self.disk_free is None:
            return result
        changes, free = self.limits.changes, self.disk_free
        size = changes.size_bytes[rows][None, :, None]
        earlier = np.minimum.accumulate(free[:wave, changes.added[rows]][::-1])[::-1]
        later = np.minimum.accumulate(free[wave + 1 :, changes.removed[rows]])
        result[:wave] = (earlier >= size).all(axis=2)
        result[wave + 1 :] = (later >= size).all(axis=2)
        return result
