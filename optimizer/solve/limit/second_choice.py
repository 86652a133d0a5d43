"""Lists for partitions that must change, and whose change is taken back because a disk is full, or has no room for old
and new copies at once: over racks and brokers with room.

A change is taken back whole: one copy without room holds back the others. So replicas are replaced one at a time, as
long as that mends something: first those that must leave, then racks. The smallest partitions go first.
"""

from dataclasses import dataclass

import numpy as np

from optimizer.cluster_policy import NO_LIMIT
from optimizer.domain import FREE, RACKS_ONLY, Bools, Brokers, Floats, Ints, Partitions
from optimizer.solve.rules.pins import group_by_pins, must_leave, rack_rule
from optimizer.solve.rules.racks import rack_disorder, rack_histogram
from optimizer.solve.rules.urgency import BALANCE, urgency


@dataclass
class _Room:
    """What may still be added: bytes on each disk, (B,), replicas of a topic on each broker, and bytes and copies."""

    disk: Floats
    of_topic: dict[str, Ints]
    left: Ints

    def of(self, topic: str, size_bytes: int) -> Floats:
        """Bytes that each broker may still take, (B,), none where it has no room for such a replica."""
        has_room = self.disk >= max(size_bytes, 1)
        return np.where(has_room & (self.of_topic[topic] > 0) if topic in self.of_topic else has_room, self.disk, 0)

    def copies(self, size_bytes: int) -> int:
        """How many such replicas may be copied."""
        return int(min(self.left[1], self.left[0] // max(size_bytes, 1)))

    def take(self, topic: str, size_bytes: int, before: Ints, after: Ints) -> None:
        """Count the list that a partition gets. The old copies stay until all are made, so they free no disk."""
        added = np.setdiff1d(after, before)
        self.disk[added] -= size_bytes
        self.left -= np.array([size_bytes, 1]) * len(added)
        if topic in self.of_topic:
            self.of_topic[topic][added] -= 1
            self.of_topic[topic][np.setdiff1d(before, after)] += 1


@dataclass(frozen=True)
class _Rules:
    """The rules of all partitions: replicas that must leave, (P, W), and what racks ask; by group of pins (``group``,
    (P,)) the brokers that may take a replica, (G, B), and the sizes of racks, (G, R)."""

    leaves: Bools
    group: Ints
    allowed: Bools
    cap: Ints
    floor: Ints
    sizes: Ints

    def disorder(self, p: int, histograms: Ints) -> Ints:
        """Replicas of a partition against the rack rule, (N,), by replicas in each rack, (N, R)."""
        cap, floor = (np.full(len(histograms), one[p]) for one in (self.cap, self.floor))
        return rack_disorder(histograms, cap, floor, self.sizes[self.group[p]])


def second_choices(
    brokers: Brokers,
    partitions: Partitions,
    kept: Bools,
    *,
    planned: Ints,
    unchanged: Partitions,
    room_bytes: Floats,
    allowed: Ints,
) -> tuple[Ints, Bools]:
    """Replicas of the changed partitions, (P, W), and those that something is left of, (P,).

    Parameters
    ----------
    kept : (P,) bool
        PlanChanges that stay as they were planned; the others are taken back, or replaced here.
    planned : (P, W) int64
    unchanged : Partitions
        The others of topics that are to be spread.
    room_bytes : (B,) float64
        Bytes that each broker may still take.
    allowed : (2,) int64
        Bytes and replicas that may still be copied.
    """
    lists = np.where(kept[:, None], planned, partitions.replicas)
    held_back = ~kept
    rules = _rules(brokers, partitions)
    room = _Room(room_bytes.copy(), _room_of_topics(len(brokers), partitions, unchanged, lists), allowed.copy())
    length = (partitions.replicas >= 0).sum(axis=1)
    mends = np.isin(partitions.mobility, (FREE, RACKS_ONLY)) & (partitions.replication_factor == length)
    tried = np.flatnonzero(held_back & mends & (urgency(brokers, partitions).levels < BALANCE))
    for p in tried[np.argsort(partitions.size_bytes[tried], kind="stable")].tolist():
        topic, size = str(partitions.topic[p]), int(partitions.size_bytes[p])
        found, left = _mended(brokers, rules, p, lists[p], room=room.of(topic, size), steps=room.copies(size))
        if brokers.is_live[found[found >= 0]].all():
            room.take(topic, size, lists[p], found)
            lists[p], held_back[p] = found, left > 0
    return lists, held_back


def _rules(brokers: Brokers, partitions: Partitions) -> _Rules:
    groups, replicas = group_by_pins(brokers, partitions.topic), partitions.replicas
    rule = rack_rule(brokers, groups, (replicas >= 0).sum(axis=1))
    free = (partitions.mobility == FREE)[:, None]
    accepting = brokers.accepts_replicas & ~brokers.must_empty
    return _Rules(
        leaves=must_leave(brokers, partitions, groups, replicas) & free,
        group=groups.of,
        allowed=groups.allowed & accepting,
        cap=rule.cap,
        floor=rule.floor,
        sizes=rule.sizes,
    )


def _room_of_topics(n_brokers: int, partitions: Partitions, unchanged: Partitions, lists: Ints) -> dict[str, Ints]:
    """Replicas that each broker may get of each topic that is to be spread, (B,)."""
    most: dict[str, int] = {}
    for one in (partitions, unchanged):
        limited = one.topic_most_replicas < NO_LIMIT
        most |= dict(zip(one.topic[limited].tolist(), one.topic_most_replicas[limited].tolist(), strict=True))
    room = {topic: np.full(n_brokers, count, dtype=np.int64) for topic, count in most.items()}
    for one, replicas in ((partitions, lists), (unchanged, unchanged.replicas)):
        limited = one.topic_most_replicas < NO_LIMIT
        for topic, row in zip(one.topic[limited].tolist(), replicas[limited], strict=True):
            room[topic][row[row >= 0]] -= 1
    return room


def _mended(brokers: Brokers, rules: _Rules, p: int, old: Ints, *, room: Floats, steps: int) -> tuple[Ints, int]:
    """A list of a partition that is better replica by replica, and how many of its replicas still break a rule.

    Parameters
    ----------
    room : (B,) float64
        Bytes that each broker may still take, none where it has no room for the partition.
    steps : int
        Replicas that may be copied.
    """
    replicas, leaves = old.copy(), rules.leaves[p].copy()
    is_open = (room > 0) & rules.allowed[rules.group[p]]
    is_open[old[old >= 0]] = False
    for step in range(steps + 1):
        histogram = rack_histogram(replicas[None], brokers.rack, len(brokers.rack_names))
        now = int(rules.disorder(p, histogram)[0])
        slots, racks = np.flatnonzero(replicas >= 0), np.unique(brokers.rack[is_open])
        slot, rack = (one.ravel() for one in np.meshgrid(slots, racks, indexing="ij"))
        after, row = np.repeat(histogram, len(slot), axis=0), np.arange(len(slot))
        np.add.at(after, (row, brokers.rack[replicas[slot]]), -1)
        np.add.at(after, (row, rack), 1)
        disorder = rules.disorder(p, after)
        better = (disorder < now) | (leaves[slot] & (disorder == now))
        if step == steps or not better.any():
            break
        key = np.where(better, np.where(leaves[slot], 0, len(old)) + disorder, np.iinfo(np.int64).max)
        best = int(key.argmin())
        target = int(np.where(is_open & (brokers.rack == rack[best]), room, 0).argmax())
        replicas[slot[best]], is_open[target], leaves[slot[best]] = target, False, False
    return replicas, now + int(leaves.sum())
