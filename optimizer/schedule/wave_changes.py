"""The changes of a plan as arrays: the input for waves, throttle rates and time estimates."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optimizer.domain import REASONS, Bools, Ints
from optimizer.kafka.size_limits import list_characters


@dataclass(frozen=True)
class WaveChanges:
    """Partitions with a changed replica list; brokers are indices.

    Parameters
    ----------
    size_bytes : (N,) int64
        Bytes of one replica.
    copy_bytes : (N, W) int64
        Bytes of each copy; 0 where ``added`` has none.
    in_bytes_per_s : (N,) int64
        Produced bytes per second; a copy must be faster.
    source : (N,) int64
        The current leader, the source of every copy; -1 if leaderless.
    in_sync_followers : (N,) int64
        Followers in the ISR; their traffic also counts against the leader's throttle.
    added, removed : (N, W) int64
        Brokers that receive a copy; brokers that lose their replica; padded with -1.
    urgency : (N,) int64
        Index into ``REASONS``.
    topic : (N,) int64
        Number of the topic.
    list_characters : (N, 2) int64
        Characters of the partition in its topic's two throttle lists, the leader's and the follower's.
    """

    size_bytes: Ints
    copy_bytes: Ints
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
        """Copies of each partition, (N,)."""
        return (self.added >= 0).sum(axis=1)

    @property
    def endpoint_bytes(self) -> Ints:
        """Bytes at the busiest end of each partition's copies, (N,): its leader sends all copies."""
        return np.asarray(self.copy_bytes.sum(axis=1))

    def select(self, rows: Bools) -> "WaveChanges":
        """The changes of some rows, (N,) bool."""
        return WaveChanges(*(getattr(self, name)[rows] for name in self.__dataclass_fields__))


def wave_changes_between(
    before: Ints,
    after: Ints,
    ids: Ints,
    *,
    topic: NDArray[np.object_],
    partition: Ints,
    size_bytes: Ints,
    copy_bytes: Ints,
    in_bytes_per_s: Ints,
    leader: Ints,
    in_sync_followers: Ints,
    urgency: Ints,
) -> WaveChanges:
    """The changes from the lists ``before`` to the lists ``after``, (N, W) each, broker indices padded with -1.

    Parameters
    ----------
    ids : (B,) int64
        Ids of the brokers.
    copy_bytes : (N, W) or (N, 1) int64
        Bytes of a copy to each broker of ``after``.
    leader : (N,) int64
        Index of the current leader; -1 if leaderless.
    """
    added, removed = without(after, before), without(before, after)
    # Use the longer of the wave's list and its rollback's list. The rollback names the new lists and the copies back.
    longest = [
        np.maximum(*(_characters(partition, lists, ids) for lists in both))
        for both in ((before, after), (added, removed))
    ]
    return WaveChanges(
        size_bytes=size_bytes,
        copy_bytes=np.where(added >= 0, copy_bytes, 0),
        in_bytes_per_s=in_bytes_per_s,
        source=leader,
        in_sync_followers=in_sync_followers,
        added=added,
        removed=removed,
        urgency=urgency,
        topic=np.unique(topic.astype(str), return_inverse=True)[1].astype(np.int64),
        list_characters=np.stack(longest, axis=1),
    )


def without(lists: Ints, others: Ints) -> Ints:
    """Brokers in ``lists`` that are not in ``others``, (N, W); -1 elsewhere."""
    return np.where(same_slots(lists, others).any(axis=2), -1, lists)


def same_slots(lists: Ints, others: Ints) -> Bools:
    """Which slots of two lists of each partition hold the same broker, (N, W, V); padding equals nothing."""
    return np.asarray((lists[:, :, None] == others[:, None, :]) & (lists >= 0)[:, :, None])


def _characters(partition: Ints, lists: Ints, ids: Ints) -> Ints:
    """Characters of each partition in a throttle list of these brokers, (N,)."""
    digits = np.array([len(str(broker)) for broker in ids.tolist()], dtype=np.int64)
    listed = lists >= 0
    of_ids = np.where(listed, digits[lists], 0).sum(axis=1)
    rows = zip(partition.tolist(), listed.sum(axis=1).tolist(), of_ids.tolist(), strict=True)
    return np.array([list_characters(*row) for row in rows], dtype=np.int64)


def urgency_of(reasons: Iterable[str]) -> int:
    """The most urgent reason, as an index into ``REASONS``."""
    return min(map(REASONS.index, reasons))


def compete_for_targets(changes: WaveChanges, unplaced: Bools) -> Bools:
    """Changes that copy to a broker to which an unplaced change copies, (N,)."""
    needed = changes.added[unplaced]
    return np.asarray(np.isin(changes.added, needed[needed >= 0]).any(axis=1))


def bytes_per_broker(brokers: Ints, size_bytes: Ints, n_brokers: int) -> Ints:
    """Sum of the sizes, (N,) or (N, W), over the brokers of each row, (B,); ``brokers`` is (N, W), padded with -1."""
    row, slot = np.nonzero(brokers >= 0)
    total = np.zeros(n_brokers, dtype=np.int64)
    np.add.at(total, brokers[row, slot], size_bytes[row] if size_bytes.ndim == 1 else size_bytes[row, slot])
    return total
