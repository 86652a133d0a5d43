"""What a plan changes, as arrays: the input of waves, throttle rates and time estimates."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from optimizer.domain import URGENCY, Bools, Ints
from optimizer.kafka.size_limits import list_characters

# Why a partition changes, most urgent first; 'leader' only reorders: nothing is copied.
REASONS = (*URGENCY, "leader")


@dataclass(frozen=True)
class WaveChanges:
    """Partitions whose replica list changes; brokers are indices.

    Parameters
    ----------
    size_bytes : (N,) int64
        Bytes of one replica: what one copy moves.
    in_bytes_per_s : (N,) int64
        Produced bytes per second, which a copy must outrun.
    source : (N,) int64
        The current leader, which every copy is read from; -1 when leaderless.
    in_sync_followers : (N,) int64
        Followers in the ISR: their traffic counts against the leader's throttle too.
    added, removed : (N, W) int64
        Brokers that receive a copy, that give theirs up; padded with -1.
    urgency : (N,) int64
        Index into ``REASONS``.
    topic : (N,) int64
        Equal for partitions of one topic.
    list_characters : (N, 2) int64
        Characters of the partition in its topic's two throttle lists, the leader's and the follower's.
    """

    size_bytes: Ints
    in_bytes_per_s: Ints
    source: Ints
    in_sync_followers: Ints
    added: Ints
    removed: Ints
    urgency: Ints
    topic: Ints
    list_characters: Ints

    def __len__(self) -> int:
        return len(self.size_bytes)

    @property
    def copies(self) -> Ints:
        """Replicas copied of each partition, (N,)."""
        return (self.added >= 0).sum(axis=1)

    @property
    def endpoint_bytes(self) -> Ints:
        """Bytes that pass the busiest end of each partition's copies: its leader sends all of them, (N,)."""
        return self.size_bytes * self.copies

    def select(self, rows: Bools) -> "WaveChanges":
        """The changes of some rows, (N,) bool."""
        return WaveChanges(*(getattr(self, name)[rows] for name in self.__dataclass_fields__))


def pad(lists: Sequence[Sequence[int]], ids: Ints) -> Ints:
    """Lists of broker ids as a matrix of broker indices, padded with -1; ``ids`` ascending."""
    width = max((len(x) for x in lists), default=0)
    matrix = np.full((len(lists), max(width, 1)), -1, dtype=np.int64)
    for row, brokers in enumerate(lists):
        matrix[row, : len(brokers)] = np.searchsorted(ids, np.asarray(brokers, dtype=np.int64))
    return matrix


def urgency_of(reasons: Iterable[str]) -> int:
    """The most urgent of some reasons, as an index into ``REASONS``."""
    return min(map(REASONS.index, reasons))


def bytes_per_broker(brokers: Ints, size_bytes: Ints, n_brokers: int) -> Ints:
    """Sum of the sizes over the brokers of each row, (B,); ``brokers`` is (N, W), padded with -1."""
    row, slot = np.nonzero(brokers >= 0)
    total = np.zeros(n_brokers, dtype=np.int64)
    np.add.at(total, brokers[row, slot], size_bytes[row])
    return total


def characters_of(partition: Iterable[int], lists: Iterable[Sequence[int]]) -> Ints:
    """Characters of each partition in a throttle list of these broker ids, (N,)."""
    rows = zip(partition, lists, strict=True)
    found = [list_characters(number, len(ids), sum(len(str(b)) for b in ids)) for number, ids in rows]
    return np.array(found, dtype=np.int64)
