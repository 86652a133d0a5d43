"""The spread of topics over the brokers of a shard: which brokers may take more of a topic, which hold a surplus.

Every partition with a replica on a member is in the shard, so the counts of a topic on a member are exact::

    sum over partitions p of topic t of x_pb <= most_t        for each member b

A member that held more before gives up what it can and takes nothing. Options are checked one by one, so several of
them together may exceed the limit. The solver finds such moves in a solution and closes them (``shard_solver``).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optimizer.cluster_policy import NO_LIMIT
from optimizer.domain import Bools, Floats, Ints


@dataclass(frozen=True)
class TopicSpread:
    """Replicas of each topic on each member, and the most that are allowed.

    Parameters
    ----------
    counts : (T, n) int64
    most : (T,) int64
        ``NO_LIMIT`` if the topic has no limit.
    """

    counts: Ints
    most: Ints

    @property
    def has_room(self) -> Bools:
        """Members that may take a replica of each topic, (T, n)."""
        return np.asarray(self.counts < self.most[:, None])

    @property
    def surplus(self) -> Ints:
        """Replicas of each topic above the limit, (T, n)."""
        return np.maximum(self.counts - self.most[:, None], 0)

    def to_shed(self, topic: Ints, source: Ints, size: Floats, may_leave: Bools) -> Bools:
        """Replicas that must leave because of the surplus, (K,): the smallest of those that may leave.

        Parameters
        ----------
        topic, source : (K,) int64
            Topic and member of each replica.
        size : (K,) float64
        may_leave : (K,) bool
        """
        pair = topic * self.counts.shape[1] + source
        rank = _rank(pair, np.lexsort((size, ~may_leave, pair)))
        return np.asarray(may_leave & (rank < self.surplus[topic, source]))

    def moves_over_limit(self, topic: Ints, source: Ints, target: Ints, size: Floats, needed: Bools) -> Bools:
        """Moves to a target that would exceed its limit if all moves were made, (M,).

        Moves that are not needed come first, the smaller ones before the larger ones.

        Parameters
        ----------
        topic, source, target : (M,) int64
        size : (M,) float64
        needed : (M,) bool
        """
        leaving = np.zeros_like(self.counts)
        np.add.at(leaving, (topic, source), 1)
        room = self.most[:, None] - self.counts + leaving
        pair = topic * self.counts.shape[1] + target
        rank = _rank(pair, np.lexsort((-size, ~needed, pair)))
        return np.asarray(rank >= room[topic, target])


def topic_numbers(topics: NDArray[np.object_], most: Ints) -> Ints:
    """A number for the topic of each partition, (P,); 0 for all if no topic has a limit."""
    if not (most < NO_LIMIT).any():
        return np.zeros(len(topics), dtype=np.int64)
    return np.unique(topics, return_inverse=True)[1].astype(np.int64)


def topic_spread(topic: Ints, most: Ints, hosts: Ints, members: int) -> TopicSpread:
    """The spread of the topics of a shard (formula 9 of docs/solver.md).

    Parameters
    ----------
    topic, most : (m,) int64
        Topic and limit of each partition, one row each.
    hosts : (m, W) int64
        Members, negative elsewhere.
    members : int
    """
    counts = np.zeros((int(topic.max()) + 1, members), dtype=np.int64)
    row, slot = np.nonzero(hosts >= 0)
    np.add.at(counts, (topic[row], hosts[row, slot]), 1)
    most_of = np.full(len(counts), NO_LIMIT, dtype=np.int64)
    most_of[topic] = most
    return TopicSpread(counts, most_of)


def _rank(group: Ints, order: Ints) -> Ints:
    """Place of each entry inside its group, from 0, (N,), in an order that sorts by group first."""
    sorted_group = group[order]
    first = np.flatnonzero(np.r_[True, sorted_group[1:] != sorted_group[:-1]][: len(group)])
    rank = np.empty(len(group), dtype=np.int64)
    rank[order] = np.arange(len(group)) - np.repeat(first, np.diff(np.r_[first, len(group)]))
    return rank
