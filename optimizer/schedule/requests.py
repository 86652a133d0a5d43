"""Kafka's limits for the requests of one wave: partitions, topics, and characters of each topic's throttle lists."""

from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from optimizer.domain import Bools, Ints
from optimizer.kafka.size_limits import LIST_CHARACTERS, PARTITIONS_PER_REQUEST, TOPICS_PER_REQUEST
from optimizer.schedule.wave_changes import WaveChanges


def _crowded(changes: WaveChanges) -> Ints:
    """Topics with lists that would be too long if all their changes were in one wave."""
    totals = [np.bincount(changes.topic, weights=side) for side in changes.list_characters.T]
    return np.flatnonzero(np.max(totals, axis=0) > LIST_CHARACTERS)


def _many_topics(changes: WaveChanges) -> bool:
    return len(np.unique(changes.topic)) > TOPICS_PER_REQUEST


@dataclass
class Requests:
    """Sizes of the waves' requests while the waves are filled; only topics that may reach a limit are counted.

    Parameters
    ----------
    partitions, topics : (waves,) int64
        Partitions and topics that each wave names; topics only if there are many.
    lists : dict of int to (waves, 2) int64
        Characters of the leader's and the follower's list, by topic.
    named : Counter of (topic, wave), optional
        Partitions of a topic in a wave; None if there are not many topics.
    """

    partitions: Ints
    topics: Ints
    lists: dict[int, Ints]
    named: Counter[tuple[int, int]] | None = field(repr=False)

    @classmethod
    def empty(cls, changes: WaveChanges, n_waves: int) -> "Requests":
        """Requests that name nothing yet."""
        lists = {int(topic): np.zeros((n_waves, 2), dtype=np.int64) for topic in _crowded(changes)}
        zeros = np.zeros(n_waves, dtype=np.int64)
        return cls(zeros, zeros.copy(), lists, Counter() if _many_topics(changes) else None)

    def has_room(self, changes: WaveChanges, i: int) -> Bools:
        """Whether the requests of each wave have room for a change, (waves,)."""
        topic = int(changes.topic[i])
        room: Bools = self.partitions < PARTITIONS_PER_REQUEST
        if topic in self.lists:
            room &= (self.lists[topic] + changes.list_characters[i] <= LIST_CHARACTERS).all(axis=1)
        if self.named is not None:
            known = [self.named[topic, wave] > 0 for wave in range(len(room))]
            room &= (self.topics < TOPICS_PER_REQUEST) | np.array(known)
        return room

    def add(self, changes: WaveChanges, i: int, wave: int) -> None:
        """Add a change to a wave."""
        self._count(changes, i, wave, 1)

    def remove(self, changes: WaveChanges, i: int, wave: int) -> None:
        """Remove a change from its wave."""
        self._count(changes, i, wave, -1)

    def _count(self, changes: WaveChanges, i: int, wave: int, sign: int) -> None:
        topic = int(changes.topic[i])
        self.partitions[wave] += sign
        if topic in self.lists:
            self.lists[topic][wave] += sign * changes.list_characters[i]
        if self.named is not None:
            before = self.named[topic, wave] > 0
            self.named[topic, wave] += sign
            self.topics[wave] += int(self.named[topic, wave] > 0) - before


def least_waves(changes: WaveChanges) -> int:
    """A number of waves that is always enough: one has room for each change, however the others are spread.

    A wave without room for a change of c characters holds at least limit - c + 1 characters, so there are at most
    (total - c) / (limit - c + 1) such waves. The same applies to partitions and topics.
    """
    if not len(changes):
        return 1
    blocked = (len(changes) - 1) // PARTITIONS_PER_REQUEST
    if _many_topics(changes):
        blocked += (len(changes) - 1) // TOPICS_PER_REQUEST
    for side in changes.list_characters.T:
        total, largest = np.bincount(changes.topic, weights=side), int(side.max())
        blocked += int(max(total.max() - largest, 0)) // max(LIST_CHARACTERS - largest + 1, 1)
    return 1 + blocked
