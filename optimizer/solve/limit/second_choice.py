"""Second choices: other lists for partitions that must change, after their planned change was removed.

A change is removed if a disk is full, or has no space for old and new copies at once. It is removed as a whole: one
copy without space also stops the partition's other copies. So replicas are replaced here one at a time, on racks and
brokers with space, as long as that repairs something: first replicas that must leave, of these first those on brokers
that are not live; then racks. The smallest partitions come first.
"""

from dataclasses import dataclass

import numpy as np

from optimizer.cluster_policy import NO_LIMIT
from optimizer.domain import FORCED_ONLY, FREE, RACKS_ONLY, Bools, Brokers, Floats, Ints, Partitions, only_in
from optimizer.kafka.partition_state import CompletionRule, reassignments_end
from optimizer.solve.rules.bands import broker_loads
from optimizer.solve.rules.pins import group_by_pins, must_leave, rack_rule
from optimizer.solve.rules.racks import rack_disorder, rack_histogram
from optimizer.solve.rules.urgency import BALANCE, urgency


@dataclass
class _Room:
    """Remaining space: bytes on each disk, (B,); replicas of each topic on each broker; bytes and copies to make.

    ``most_bytes`` is the largest replica that each broker takes, (B,).
    """

    disk: Floats
    by_topic: dict[str, Ints]
    copies: Ints
    most_bytes: Floats

    def for_replica(self, topic: str, size_bytes: int) -> Floats:
        """Bytes that each broker may still take, (B,); 0 if it has no space for such a replica."""
        has_room = (self.disk >= max(size_bytes, 1)) & (self.most_bytes >= size_bytes)
        return np.where(has_room & (self.by_topic[topic] > 0) if topic in self.by_topic else has_room, self.disk, 0)

    def most_copies(self, copy_bytes: Ints) -> int:
        """Replicas that may be copied, from the bytes of a copy to each broker, (B,)."""
        return int(min(self.copies[1], self.copies[0] // max(int(copy_bytes.max()), 1)))

    def take(self, topic: str, size_bytes: int, copy_bytes: Ints, before: Ints, after: Ints) -> None:
        """Count the new list of a partition. Old copies stay until all new copies are made, so they free no disk."""
        added = np.setdiff1d(after, before)
        self.disk[added] -= size_bytes
        self.copies -= np.array([copy_bytes[added].sum(), len(added)])
        if topic in self.by_topic:
            self.by_topic[topic][added] -= 1
            self.by_topic[topic][np.setdiff1d(before, after)] += 1


@dataclass(frozen=True)
class _Rules:
    """The rules of all partitions.

    Parameters
    ----------
    leaves : (P, W) bool
        Replicas that must leave.
    stuck : (P, W) bool
        Replicas that are out of sync: among equals they are replaced first.
    is_only_forced : (P,) bool
        Only replicas that must leave may be replaced.
    group : (P,) int64
        Group of pins.
    allowed : (G, B) bool
        Brokers that may take a replica.
    cap, floor : (P,) int64
        Most and least replicas in a rack.
    sizes : (G, R) int64
        Sizes of racks.
    completion : CompletionRule
    """

    leaves: Bools
    stuck: Bools
    is_only_forced: Bools
    group: Ints
    allowed: Bools
    cap: Ints
    floor: Ints
    sizes: Ints
    completion: CompletionRule

    def ends(self, p: int, before: Ints, after: Ints) -> bool:
        """Whether Kafka ends the reassignment of a partition."""
        return bool(reassignments_end(before[None], after[None], ~self.stuck[[p]], self.completion)[0])

    def disorder(self, p: int, histograms: Ints) -> Ints:
        """Replicas of a partition that break the rack rule, (N,), from its replicas in each rack, (N, R)."""
        cap, floor = (np.full(len(histograms), limits[p]) for limits in (self.cap, self.floor))
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
    frees_disk: bool,
    completion: CompletionRule = CompletionRule.TARGET,
    most_bytes: Floats | None = None,
) -> tuple[Ints, Bools]:
    """Lists of the changed partitions, (P, W), and the partitions that are still not fully repaired, (P,).

    Parameters
    ----------
    kept : (P,) bool
        Changes that stay as planned; the others are removed, or replaced here.
    planned : (P, W) int64
    unchanged : Partitions
        The other partitions of topics with a limit.
    room_bytes : (B,) float64
        Bytes that each broker may still take.
    allowed : (2,) int64
        Bytes and replicas that may still be copied.
    frees_disk : bool
        Try again with the space that the second choices themselves free, as long as that repairs something.
    completion : CompletionRule
        When Kafka ends a reassignment: a list with which it would not is no choice.
    most_bytes : (B,) float64, optional
        The largest replica that the log directories of each broker take; any by default.
    """
    lists = np.where(kept[:, None], planned, partitions.replicas)
    held_back = ~kept
    rules = _rules(brokers, partitions, completion)
    by_topic = _room_by_topic(len(brokers), partitions, unchanged, lists)
    most_bytes = np.full(len(brokers), np.inf) if most_bytes is None else most_bytes
    room = _Room(room_bytes.copy(), by_topic, allowed.copy(), most_bytes)
    length = (partitions.replicas >= 0).sum(axis=1)
    repairable = np.isin(partitions.mobility, (FREE, FORCED_ONLY, RACKS_ONLY)) & (
        partitions.replication_factor == length
    )
    urgent = repairable & (urgency(brokers, partitions).levels < BALANCE)
    freed = _replace_lists(brokers, partitions, rules, room, lists, held_back, may_replace=urgent)
    while frees_disk and freed.any():
        room.disk += freed
        room.most_bytes = room.most_bytes + freed  # at most: these replicas may leave several directories
        freed = _replace_lists(brokers, partitions, rules, room, lists, held_back, may_replace=urgent)
    return lists, held_back


def _replace_lists(
    brokers: Brokers,
    partitions: Partitions,
    rules: _Rules,
    room: _Room,
    lists: Ints,
    held_back: Bools,
    *,
    may_replace: Bools,
) -> Floats:
    """Repair lists that are still as before, the smallest partitions first: changes ``room``, ``lists``, ``held_back``.

    Returns
    -------
    (B,) float64
        Bytes of the replicas that leave each broker.
    """
    before = lists.copy()
    tried = np.flatnonzero(held_back & may_replace & (lists == partitions.replicas).all(axis=1))
    for p in tried[np.argsort(partitions.size_bytes[tried], kind="stable")].tolist():
        topic, size = str(partitions.topic[p]), int(partitions.size_bytes[p])
        copy_bytes = partitions.rows(np.array([p])).bytes_to(brokers.skips_tiered)[0]
        repaired, broken = _repaired(
            brokers, rules, p, lists[p], room=room.for_replica(topic, size), steps=room.most_copies(copy_bytes)
        )
        if brokers.is_live[repaired[repaired >= 0]].all() and rules.ends(p, lists[p], repaired):
            room.take(topic, size, copy_bytes, lists[p], repaired)
            lists[p], held_back[p] = repaired, broken > 0
    leaving = np.where(only_in(before, lists), before, -1)
    return broker_loads(len(brokers), leaving, partitions.size_bytes[:, None].astype(float))[:, 0]


def _rules(brokers: Brokers, partitions: Partitions, completion: CompletionRule) -> _Rules:
    groups, replicas = group_by_pins(brokers, partitions.topic), partitions.replicas
    rule = rack_rule(brokers, groups, (replicas >= 0).sum(axis=1))
    may_leave = np.isin(partitions.mobility, (FREE, FORCED_ONLY))[:, None]
    accepting = brokers.accepts_replicas & ~brokers.must_empty
    return _Rules(
        leaves=must_leave(brokers, partitions, groups, replicas) & may_leave,
        stuck=partitions.stuck(replicas),
        is_only_forced=partitions.mobility == FORCED_ONLY,
        group=groups.of,
        allowed=groups.allowed & accepting,
        cap=rule.cap,
        floor=rule.floor,
        sizes=rule.sizes,
        completion=completion,
    )


def _room_by_topic(n_brokers: int, partitions: Partitions, unchanged: Partitions, lists: Ints) -> dict[str, Ints]:
    """Replicas of each limited topic that each broker may still get, (B,)."""
    most: dict[str, int] = {}
    for some in (partitions, unchanged):
        limited = some.topic_most_replicas < NO_LIMIT
        most |= dict(zip(some.topic[limited].tolist(), some.topic_most_replicas[limited].tolist(), strict=True))
    room = {topic: np.full(n_brokers, count, dtype=np.int64) for topic, count in most.items()}
    for some, replicas in ((partitions, lists), (unchanged, unchanged.replicas)):
        limited = some.topic_most_replicas < NO_LIMIT
        for topic, row in zip(some.topic[limited].tolist(), replicas[limited], strict=True):
            room[topic][row[row >= 0]] -= 1
    return room


def _repaired(brokers: Brokers, rules: _Rules, p: int, old: Ints, *, room: Floats, steps: int) -> tuple[Ints, int]:
    """Repair the list of a partition replica by replica; returns it, and how many of its replicas still break a rule.

    Parameters
    ----------
    room : (B,) float64
        Bytes that each broker may still take; 0 if it has no space for the partition.
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
        slot, rack = (axis.ravel() for axis in np.meshgrid(slots, racks, indexing="ij"))
        after, row = np.repeat(histogram, len(slot), axis=0), np.arange(len(slot))
        np.add.at(after, (row, brokers.rack[replicas[slot]]), -1)
        np.add.at(after, (row, rack), 1)
        disorder = rules.disorder(p, after)
        better = (disorder < now) & (leaves[slot] | ~rules.is_only_forced[p]) | (leaves[slot] & (disorder == now))
        if step == steps or not better.any():
            break
        is_down = leaves[slot] & ~brokers.is_live[replicas[slot]]  # first: a list that names such a broker is refused
        order = np.where(is_down, -3 * len(old), np.where(leaves[slot], 0, len(old)))
        key = np.where(better, 2 * (order + disorder) + ~rules.stuck[p, slot], np.iinfo(np.int64).max)
        best = int(key.argmin())
        target = int(np.where(is_open & (brokers.rack == rack[best]), room, 0).argmax())
        replicas[slot[best]], is_open[target], leaves[slot[best]] = target, False, False
    return replicas, int(leaves.sum()) + (0 if rules.is_only_forced[p] else now)
