"""The range and round-robin assignors, which distribute partitions in a consumer group.

References
----------
org.apache.kafka.clients.consumer.{RangeAssignor, RoundRobinAssignor} and
org.apache.kafka.clients.consumer.internals.AbstractPartitionAssignor, Kafka 4.3.1; racks: KIP-881.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

from optimizer.kafka.java import hash_map_order, string_hash, utf16_key

Key = tuple[str, int]
Assigned = dict[str, list[Key]]
Racks = Mapping[Key, frozenset[str]]


class Member(NamedTuple):
    """One consumer of the group.

    Parameters
    ----------
    member_id : str
    topics : tuple of str
        Its subscription.
    instance_id : str or None
        ``group.instance.id`` of a static member.
    rack : str or None
    owned : tuple of (str, int)
        Partitions that it holds, or held before it lost the group; only the sticky assignors use them.
    generation : int
        Generation of the group in which it got them; -1 if it does not know.
    """

    member_id: str
    topics: tuple[str, ...]
    instance_id: str | None = None
    rack: str | None = None
    owned: tuple[Key, ...] = ()
    generation: int = -1


def _ordered(members: Sequence[Member]) -> list[Member]:
    """Static members by instance id, then the other members by member id."""
    return sorted(members, key=lambda m: (m.instance_id is None, utf16_key(m.instance_id or m.member_id)))


def _subscribed(members: Sequence[Member]) -> list[str]:
    return sorted({topic for member in members for topic in member.topics}, key=utf16_key)


def round_robin_assignment(partition_counts: Mapping[str, int], members: Sequence[Member]) -> Assigned:
    """Assign all partitions one by one, in turn; members that don't subscribe to a topic are skipped.

    Parameters
    ----------
    partition_counts : mapping
        Partitions by topic; missing topics have no partitions.

    Returns
    -------
    dict
        (topic, partition) by member id, in the assignor's order.
    """
    ring = _ordered(members)
    subscribed = [frozenset(member.topics) for member in ring]
    assigned: Assigned = {member.member_id: [] for member in members}
    at = 0
    for topic in _subscribed(members):
        for partition in range(partition_counts.get(topic, 0)):
            while topic not in subscribed[at % len(ring)]:
                at += 1
            assigned[ring[at % len(ring)].member_id].append((topic, partition))
            at += 1
    return assigned


class _Topic:
    """A topic while its partitions are assigned (TopicAssignmentState)."""

    def __init__(self, name: str, count: int, members: Sequence[Member], partition_racks: Racks) -> None:
        self.name = name
        self.members = members
        self.unassigned = list(range(count))
        self._assigned_counts = dict.fromkeys((m.member_id for m in self.members), 0)
        self._quota, self._extra = divmod(count, len(self.members))
        racks = [partition_racks.get((name, p), frozenset()) for p in range(count)]
        consumers = {m.rack for m in self.members if m.rack}
        everywhere = frozenset().union(*racks)
        self.racks = racks if consumers else []
        self.is_rack_aware = bool(consumers & everywhere) and any(r != everywhere for r in racks)

    @property
    def group(self) -> tuple[tuple[tuple[str, str | None], ...], int]:
        """Topics with the same value are co-partitioned."""
        return tuple((m.member_id, m.rack) for m in self.members), len(self.racks)

    def capacity(self, member: Member) -> int:
        """The number of partitions that the member may still get."""
        return max(0, self._quota + (self._extra > 0) - self._assigned_counts[member.member_id])

    def matches(self, member: Member, partition: int) -> bool:
        """Whether a replica is in the member's rack."""
        return not member.rack or (partition < len(self.racks) and member.rack in self.racks[partition])

    def assign(self, member: Member, partitions: Sequence[int], assigned: Assigned) -> None:
        """Assign partitions. A member above the quota uses an extra partition."""
        assigned[member.member_id].extend((self.name, partition) for partition in partitions)
        self._assigned_counts[member.member_id] += len(partitions)
        if self._assigned_counts[member.member_id] > self._quota:
            self._extra -= 1
        taken = set(partitions)
        self.unassigned = [p for p in self.unassigned if p not in taken]

    def assign_ranges(self, assigned: Assigned, fits: Callable[[Member, int], bool]) -> None:
        """Assign to each member in turn the first partitions that fit, up to its capacity."""
        for member in self.members:
            partitions = list(islice((p for p in self.unassigned if fits(member, p)), self.capacity(member)))
            if partitions:
                self.assign(member, partitions, assigned)


def range_assignment(
    partition_counts: Mapping[str, int], members: Sequence[Member], *, partition_racks: Racks | None = None
) -> Assigned:
    """Assign to each member a range of each topic's partitions; the first members get one more if needed.

    Parameters
    ----------
    partition_counts : mapping
        Partitions by topic.
    partition_racks : mapping, optional
        Racks of the replicas by (topic, partition). They matter for a topic only if some consumer's rack is among them
        and its partitions differ in racks.

    Returns
    -------
    dict
        (topic, partition) by member id, in the assignor's order.
    """
    assigned: Assigned = {member.member_id: [] for member in members}
    names = [name for name in hash_map_order(_subscribed(members), string_hash) if partition_counts.get(name, 0)]
    subscribers: dict[str, list[Member]] = {}
    for member in _ordered(members):
        for name in dict.fromkeys(member.topics):
            subscribers.setdefault(name, []).append(member)
    topics = [_Topic(name, partition_counts[name], subscribers[name], partition_racks or {}) for name in names]
    is_rack_aware = any(topic.is_rack_aware for topic in topics)
    if is_rack_aware:
        _match_racks(topics, assigned)
    for topic in topics:
        topic.assign_ranges(assigned, lambda _member, _partition: True)
    if is_rack_aware:
        return {name: sorted(keys, key=lambda key: (utf16_key(key[0]), key[1])) for name, keys in assigned.items()}
    return assigned


def _match_racks(topics: Sequence[_Topic], assigned: Assigned) -> None:
    groups: dict[object, list[_Topic]] = {}
    for topic in topics:
        groups.setdefault(topic.group, []).append(topic)
    for group in groups.values():
        if len(group) > 1:
            _match_together(group, assigned)
        elif group[0].is_rack_aware:
            group[0].assign_ranges(assigned, group[0].matches)


def _match_together(group: Sequence[_Topic], assigned: Assigned) -> None:
    """Assign the same partition of co-partitioned topics to the same member, if racks and capacity allow it in all."""
    waiting = list(group[0].members)
    for partition in range(len(group[0].racks)):
        member = next((m for m in waiting if all(t.matches(m, partition) and t.capacity(m) for t in group)), None)
        if member is None:
            continue
        for topic in group:
            topic.assign(member, [partition], assigned)
        if not any(topic.capacity(member) for topic in group):
            waiting.remove(member)
