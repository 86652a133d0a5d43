"""The sticky assignors: members of a consumer group keep what they hold, as far as the balance allows.

Without racks (KIP-881): no source has the ``client.rack`` of members.

References
----------
org.apache.kafka.clients.consumer.{StickyAssignor, CooperativeStickyAssignor} and
org.apache.kafka.clients.consumer.internals.AbstractStickyAssignor, Kafka 4.3.1.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations

from optimizer.errors import KafkaError
from optimizer.kafka.assignors import Assigned, Key, Member
from optimizer.kafka.java import hash_map_order, string_hash, topic_partition_hash, utf16_key

COOPERATIVE = "cooperative-sticky"  # the name of the assignor with which the other partitions go on


def sticky_assignment(partition_counts: Mapping[str, int], members: Sequence[Member]) -> Assigned:
    """Assign all partitions; members keep what they own, except what would make the group uneven.

    Parameters
    ----------
    partition_counts : mapping
        Partitions by topic; missing topics have no partitions.
    members : sequence of Member
        At least one. Of two members that claim a partition, the one of the higher generation has it.

    Returns
    -------
    dict
        (topic, partition) by member id, in the assignor's order.

    Raises
    ------
    KafkaError
        Where Kafka's class throws: only if a member owns a partition that its topic no longer has.
    """
    # Members send what they own grouped by topic, in the order of a HashMap.
    grouped = [member._replace(owned=tuple(_by_topic(member.owned))) for member in members]
    return _assign(partition_counts, grouped)[0]


def cooperative_sticky_assignment(partition_counts: Mapping[str, int], members: Sequence[Member]) -> Assigned:
    """Assign as ``sticky_assignment`` does, without the partitions that another member must give up first.

    The group rebalances again when these are free. Parameters and errors are those of ``sticky_assignment``.
    """
    assigned, transferred = _assign(partition_counts, members)
    for key, member_id in transferred.items():
        _discard(assigned[member_id], key)
    return assigned


def _by_topic(owned: Sequence[Key]) -> list[Key]:
    topics = hash_map_order((topic for topic, _ in owned), string_hash, insertion="compute_if_absent")
    position = {topic: at for at, topic in enumerate(topics)}
    return sorted(owned, key=lambda key: position[key[0]])


def _discard(keys: list[Key], key: Key) -> None:
    if key in keys:
        keys.remove(key)


def _assign(partition_counts: Mapping[str, int], members: Sequence[Member]) -> tuple[Assigned, dict[Key, str]]:
    """The whole assignment, and the new owner of each partition that another member must give up first."""
    by_id = {member.member_id: member for member in members}
    ordered = [by_id[name] for name in hash_map_order(by_id, string_hash)]
    counts = {t: partition_counts[t] for member in members for t in member.topics if partition_counts.get(t, 0)}
    owned, contested = _claims(ordered, counts)
    if _subscribe_equally(ordered):
        equal = _EqualSubscriptions(counts, owned, contested)
        return equal.assigned, equal.transferred
    assigned = _UnequalSubscriptions(counts, ordered, owned).held
    revoked = {key for member in ordered for key in set(member.owned).difference(assigned[member.member_id])}
    added = {
        key: member.member_id
        for member in ordered
        for key in assigned[member.member_id]
        if key not in member.owned and key in revoked
    }
    return assigned, added


def _subscribe_equally(members: Iterable[Member]) -> bool:
    subscribed: set[str] = set()
    for member in members:
        if not subscribed:
            subscribed = set(member.topics)
        elif len(member.topics) != len(subscribed) or not subscribed.issuperset(member.topics):
            return False
    return True


def _claims(members: Iterable[Member], topics: Mapping[str, int]) -> tuple[Assigned, set[Key]]:
    """What each member owns, and the partitions that two members of one generation claim."""
    owned: Assigned = {}
    contested: set[Key] = set()
    owner: dict[Key, Member] = {}
    for member in members:
        owned[member.member_id] = mine = []
        for key in member.owned:
            other = owner.get(key)
            if key[0] not in topics or (other and other.generation > member.generation):
                continue
            if other is None or other.generation < member.generation:
                mine.append(key)
            else:
                contested.add(key)
            if other:
                _discard(owned[other.member_id], key)
            owner[key] = member
    return owned, contested


def _all_keys(counts: Mapping[str, int], topics: Iterable[str]) -> list[Key]:
    return [(topic, partition) for topic in topics for partition in range(counts[topic])]


def _without(keys: Iterable[Key], taken: Iterable[Key]) -> list[Key]:
    """Keys that are not taken, both in the same order. After a taken key that does not exist, none counts as taken."""
    waiting = iter(taken)
    first, free = next(waiting, None), []
    for key in keys:
        if key == first:
            first = next(waiting, None)
        else:
            free.append(key)
    return free


class _EqualSubscriptions:
    """The assignment if all members subscribe to the same topics (ConstrainedAssignmentBuilder)."""

    def __init__(self, counts: Mapping[str, int], owned: Assigned, contested: set[Key]) -> None:
        self.assigned: Assigned = {member_id: [] for member_id in owned}
        self.transferred: dict[Key, str] = {}
        self._contested = contested
        self._revoked: dict[Key, str] = {}
        # Each member gets `quota` partitions or one more; `extra` members may still get one more.
        self._quota, self._extra = divmod(sum(counts.values()), len(owned))
        self._most = self._quota + (self._extra > 0)
        self._below: list[str] = []  # members with less than the quota
        self._at_quota: list[str] = []  # members that may get one more
        self._keep(owned)
        self._below.sort(key=utf16_key)
        self._at_quota.sort(key=utf16_key)
        kept = [key for keys in self.assigned.values() for key in keys]
        kept.sort(key=lambda key: (utf16_key(key[0]), key[1]))
        self._fill(_without(_all_keys(counts, sorted(counts, key=utf16_key)), kept))

    def _keep(self, owned: Assigned) -> None:
        for member_id, keys in owned.items():
            mine = [key for key in keys if key not in self._contested]
            mine.sort(key=lambda key: (key[1], utf16_key(key[0])))
            kept = min(len(mine), self._quota)
            if len(mine) < self._quota:
                self._below.append(member_id)
            elif len(mine) >= self._most and self._extra > 0:
                kept = self._most
                self._extra -= 1
                if self._extra == 0:
                    self._at_quota.clear()
            elif self._extra > 0:
                self._at_quota.append(member_id)
            self.assigned[member_id] += mine[:kept]
            self._revoked |= dict.fromkeys(mine[kept:], member_id)

    def _fill(self, keys: Iterable[Key]) -> None:
        """Assign partitions in turn: to members below the quota, then to those that may get one more."""
        at = 0
        for key in keys:
            if at == len(self._below):
                at = 0
            if self._below:
                member_id = self._below[at]
                at += 1
            elif self._at_quota:
                member_id = self._at_quota.pop(0)
            else:
                raise KafkaError("IllegalStateException", "No more unfilled consumers to be assigned.")
            self._give(key, member_id)
            count = len(self.assigned[member_id])
            if count == self._quota:
                at -= 1
                del self._below[at]
                self._at_quota.append(member_id)
            elif count == self._most:
                self._extra -= 1
        if self._below:
            raise KafkaError("IllegalStateException", None)

    def _give(self, key: Key, member_id: str) -> None:
        self.assigned[member_id].append(key)
        if self._revoked.get(key, member_id) != member_id or key in self._contested:
            self.transferred[key] = member_id


class _Moves(dict[Key, None]):
    """Partitions of a topic that moved between two members: a HashSet, whose table never shrinks."""

    capacity = 16  # of a new java.util.HashSet

    def add(self, key: Key) -> None:
        self[key] = None
        if len(self) > self.capacity * 3 // 4:
            self.capacity *= 2

    def first(self) -> Key:
        return hash_map_order(self, topic_partition_hash, capacity=self.capacity)[0]


class _UnequalSubscriptions:
    """The assignment if members subscribe to different topics (GeneralAssignmentBuilder)."""

    def __init__(self, counts: Mapping[str, int], members: Sequence[Member], owned: Assigned) -> None:
        self.held, self._counts = owned, counts
        self._topics = {m.member_id: [topic for topic in m.topics if topic in counts] for m in members}
        self._readers: dict[str, list[str]] = {topic: [] for topic in counts}
        for member_id, topics in self._topics.items():
            for topic in topics:
                self._readers[topic].append(member_id)
        self._previous = _previous(members)
        self._owner: dict[Key, str] = {}
        self._moved: dict[Key, tuple[str, str]] = {}
        self._moves: dict[tuple[str, str, str], _Moves] = {}
        self._balance()

    def _balance(self) -> None:
        topics = sorted(self._counts, key=lambda topic: (len(self._readers[topic]), utf16_key(topic)))
        place = {topic: at for at, topic in enumerate(topics)}
        everything = _all_keys(self._counts, topics)
        is_revoked = self._keep()
        free = _without(everything, sorted(self._owner, key=lambda key: (place[key[0]], key[1])))
        is_new = not self._owner
        for key in free:
            self._put(key, min(self._readers[key[0]], key=self._order))
        shared = {topic for topic, readers in self._readers.items() if len(readers) > 1}
        fixed = {name: self.held.pop(name) for name in self._topics if not self._may_change(name, shared)}
        before = {name: list(keys) for name, keys in self.held.items()}
        try:
            if not is_revoked:
                self._even_out([key for key in free if key[0] in shared])
            is_changed = self._even_out([key for key in everything if key[0] in shared])
        except KeyError:
            raise KafkaError("NullPointerException", None) from None
        if is_changed and not is_new and _unevenness(self.held) >= _unevenness(before):
            self.held = before
        self.held |= fixed

    def _keep(self) -> bool:
        """Keep owned partitions; returns whether a member lost one that it does not subscribe to."""
        is_revoked = False
        for member_id, keys in self.held.items():
            kept = [k for k in keys if k[0] in self._topics[member_id]]
            is_revoked |= len(kept) < len(keys)
            self.held[member_id] = kept
            self._owner |= dict.fromkeys(kept, member_id)
        return is_revoked

    def _put(self, key: Key, member_id: str) -> None:
        self.held[member_id].append(key)
        self._owner[key] = member_id

    def _order(self, member_id: str) -> tuple[int, bytes]:
        return len(self.held[member_id]), utf16_key(member_id)

    def _most_possible(self, member_id: str) -> int:
        topics = self._topics[member_id]
        return sum(self._counts[topic] for topic in (self._counts if len(topics) == len(self._counts) else topics))

    def _may_change(self, member_id: str, shared: set[str]) -> bool:
        keys = self.held[member_id]
        return len(keys) < self._most_possible(member_id) or any(topic in shared for topic, _ in keys)

    def _even_out(self, keys: Sequence[Key]) -> bool:
        """Move partitions until none makes the group more even; returns whether one moved."""
        is_any, is_changed = False, True
        while is_changed:
            is_changed = False
            for key in keys:
                if self._is_balanced():
                    break
                target = self._better_owner(key)
                if target is not None:
                    self._move(key, target)
                    is_any = is_changed = True
        return is_any

    def _better_owner(self, key: Key) -> str | None:
        count = len(self.held[self._owner[key]]) - 1
        previous = self._previous.get(key)
        if previous and count > len(self.held[previous[0]]):
            return previous[0]
        readers = self._readers[key[0]]
        if not any(count > len(self.held[name]) for name in readers):
            return None
        return min((name for name in readers if name in self.held), key=self._order)

    def _is_balanced(self) -> bool:
        sizes = [len(keys) for keys in self.held.values()]
        if min(sizes) >= max(sizes) - 1:
            return True
        owner = {key: name for name, keys in self.held.items() for key in keys}
        return not any(self._could_get(name, owner) for name in sorted(self.held, key=self._order))

    def _could_get(self, member_id: str, owner: Mapping[Key, str]) -> bool:
        count, mine = len(self.held[member_id]), set(self.held[member_id])
        if count == self._most_possible(member_id):
            return False
        others = (key for key in _all_keys(self._counts, self._topics[member_id]) if key not in mine)
        return any(count + 1 < len(self.held[owner[key]]) for key in others)

    def _move(self, key: Key, target: str) -> None:
        """Move the partition, or one of its topic that moved the other way before."""
        source = self._moved[key][0] if key in self._moved else self._owner[key]
        back = self._moves.get((key[0], target, source))
        moving = back.first() if back else key
        old = self._owner[moving]
        self._record(moving, old, target)
        _discard(self.held[old], moving)
        self._put(moving, target)

    def _record(self, key: Key, source: str, target: str) -> None:
        if key in self._moved:
            pair = (key[0], *self._moved.pop(key))
            del self._moves[pair][key]
            if not self._moves[pair]:
                del self._moves[pair]
            source = pair[1]
        if source != target:
            self._moved[key] = (source, target)
            self._moves.setdefault((key[0], source, target), _Moves()).add(key)


def _previous(members: Sequence[Member]) -> dict[Key, tuple[str, int]]:
    """Of each partition the member with the highest generation below the newest, and this generation."""
    newest = max(member.generation for member in members)
    found: dict[Key, tuple[str, int]] = {}
    for member in members:
        for key in member.owned if member.generation < newest else ():
            if key not in found or member.generation > found[key][1]:
                found[key] = (member.member_id, member.generation)
    return found


def _unevenness(held: Assigned) -> int:
    return sum(abs(len(keys) - len(others)) for keys, others in combinations(held.values(), 2))
