"""The cluster after a plan. Further changes can be added to it."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from itertools import chain

from optimizer.audit.claims import AuditPartition
from optimizer.audit.instance import Instance
from optimizer.audit.spread import Targets, TopicLimits, counts, most_leaders, most_replicas


class LogDirSpace:
    """The free bytes of open directories, and the bytes that arrive and may be in any of them.

    Only brokers with several directories count, at least one of them open, and all open ones with a capacity. The
    result does not depend on the waves. So the planner finds the same excuses before the waves are known.
    """

    def __init__(self, instance: Instance) -> None:
        self._instance = instance
        self._free: dict[int, dict[str, int]] = {}
        for broker, log_dirs in instance.log_dirs.items():
            is_open = [log_dir for log_dir in log_dirs.values() if log_dir.is_open]
            limits = {d.path: limit for d in is_open if (limit := instance.log_dir_limit(d)) is not None}
            if is_open and len(limits) == len(is_open):
                self._free[broker] = {d.path: limits[d.path] - d.used_bytes for d in is_open}
        self._total_free = {broker: sum(free.values()) for broker, free in self._free.items()}
        self._arriving = dict.fromkeys(self._free, 0)

    def takes(self, broker: int, size_bytes: int) -> bool:
        """Whether one directory of a broker has space for a replica, however the arriving replicas are distributed.

        Directories have no space if each one that would have it can be filled until it has one byte too little.
        """
        if broker not in self._free:
            return True
        free, arriving = self._free[broker], self._arriving[broker]
        if arriving < self._total_free[broker] - len(free) * (size_bytes - 1):  # a quick answer for nearly all brokers
            return True
        return arriving < sum(n - size_bytes + 1 for n in free.values() if n >= size_bytes)

    def add(self, partition: AuditPartition, broker: int) -> None:
        """Add a replica: to its old directory if it comes back, else to any."""
        self._change(partition, broker, partition.size_bytes)

    def remove(self, partition: AuditPartition, broker: int) -> None:
        """Remove a replica: from its old directory if it was there before the plan."""
        self._change(partition, broker, -partition.size_bytes)

    def _change(self, partition: AuditPartition, broker: int, added_bytes: int) -> None:
        if broker not in self._free:
            return
        if broker not in partition.replicas:
            self._arriving[broker] += added_bytes
            return
        path = self._instance.log_dir_before(partition, broker)
        if path in self._free[broker]:
            self._free[broker][path] -= added_bytes
            self._total_free[broker] -= added_bytes


Replicas = tuple[int, ...]
AIMED_OVER = 0.05  # share of a full disk's limit that plans still aim at it; found by experiment, for any band width


class _Spread:
    """Replicas (or leaders) by broker and topic, before and after the plan; only topics with a maximum per broker."""

    def __init__(self, instance: Instance, targets: Targets, most: TopicLimits, *, first: int | None) -> None:
        self._most, self._first = most, first
        self._before = counts(instance, {}, most, first=first)
        self._now = counts(instance, targets, most, first=first)

    def has_room(self, topic: str, broker: int) -> bool:
        """Whether a broker may get another replica or leader of a topic."""
        return topic not in self._most or self._now[topic, broker] < self._most[topic]

    def has_fewer(self, topic: str, broker: int) -> bool:
        """Whether a broker has fewer replicas or leaders of a topic than before the plan."""
        return self._now[topic, broker] < self._before[topic, broker]

    def change(self, topic: str, before: Replicas, after: Replicas) -> None:
        """Replace the list ``before`` of a partition by ``after``."""
        self._now.subtract((topic, b) for b in before[: self._first])
        self._now.update((topic, b) for b in after[: self._first])


class After:
    """Replica lists, disks, topics and the rest of the limit after a plan and the changes that are added to it.

    If the number of waves is fixed, replicas that the plan removes free no disk space: another copy may have to be made
    while all old replicas still exist.

    Parameters
    ----------
    instance : Instance
    targets : mapping of key to tuple of int
        The new lists of the plan.
    """

    def __init__(self, instance: Instance, targets: Targets) -> None:
        self.instance = instance
        self._lists = dict(targets)
        self._used, stayed = Counter(instance.disk_bytes), Counter(instance.disk_bytes)
        self._log_dirs = LogDirSpace(instance)
        self._of_topic = _Spread(instance, targets, most_replicas(instance), first=None)
        self._led = _Spread(instance, targets, most_leaders(instance), first=1)
        known = {b: instance.disk_limit(b) for b in instance.brokers}
        self._disk_limits = {b: limit for b, limit in known.items() if limit is not None}
        limits = instance.limits
        self._bytes_left = math.inf if limits.max_moved_bytes is None else limits.max_moved_bytes
        self._moves_left = math.inf if limits.max_moves is None else limits.max_moves
        for key, replicas in targets.items():
            partition = instance.partitions[key]
            self._spend(partition, partition.replicas, replicas)
            stayed.subtract(dict.fromkeys(set(partition.replicas) - set(replicas), partition.size_bytes))
        self._excuse_bytes = {b: max(self._room(b, stayed), AIMED_OVER * (n or 0)) for b, n in known.items()}

    def replicas(self, partition: AuditPartition) -> Replicas:
        """The list of a partition."""
        return self._lists.get(partition.key, partition.replicas)

    def homes(self, partition: AuditPartition) -> list[int]:
        """Brokers that a replica of a partition may go to, or that the plan may have meant for it.

        Each broker accepts replicas, is within the pin, and holds fewer replicas of the topic than the maximum. Its
        disk and one of its directories have space, or it may excuse. A broker that had a replica of the partition
        before the plan may keep it, and as many replicas of the topic as it had. Of each rack only the brokers with the
        least space are returned, those without space first, as many as the partition has replicas: for the rules the
        others are equivalent.
        """
        instance, topic, pin = self.instance, partition.topic, partition.pinned_brokers
        size = partition.size_bytes
        own = {b for b in partition.replicas if b not in instance.to_empty and (pin is None or b in pin)}
        candidates = (instance.homes(pin) | own) - set(self.replicas(partition))
        by_rack = defaultdict[str | None, list[int]](list)
        for broker in sorted(candidates, key=lambda b: (self._takes(b, size), self._room(b, self._used), b)):
            if not self._is_open(broker, size):
                continue
            in_rack = by_rack[instance.rack(broker)]
            may_keep = broker in own and self._of_topic.has_fewer(topic, broker)
            if len(in_rack) < partition.replication_factor and (may_keep or self._of_topic.has_room(topic, broker)):
                in_rack.append(broker)
        return list(chain.from_iterable(by_rack.values()))

    def has_room(self, partition: AuditPartition, replicas: Replicas) -> bool:
        """Whether the disks have space for the replicas that this list adds."""
        added = set(replicas) - set(self.replicas(partition))
        return all(self._takes(broker, partition.size_bytes) for broker in added)

    def excuse(self, partition: AuditPartition, replicas: Replicas) -> None:
        """Count a partition that stays because a disk has no space.

        A disk excuses as many bytes as it had space for before the copies of the plan, but at least ``AIMED_OVER`` of
        its limit: so much may have been planned for it. The last partition may exceed that.
        """
        full = [b for b in set(replicas) - set(self.replicas(partition)) if not self._takes(b, partition.size_bytes)]
        self._excuse_bytes[max(full, key=lambda b: (self._excuse_bytes[b], b))] -= max(1, partition.size_bytes)

    def _is_open(self, broker: int, size_bytes: int) -> bool:
        return self._takes(broker, size_bytes) or self._excuse_bytes[broker] > 0

    def _takes(self, broker: int, size_bytes: int) -> bool:
        return self._room(broker, self._used) >= size_bytes and self._log_dirs.takes(broker, size_bytes)

    def _room(self, broker: int, used: Mapping[int, int]) -> float:
        return self._disk_limits.get(broker, math.inf) - used[broker]

    def may_lead(self, partition: AuditPartition) -> list[int]:
        """Replicas of a partition that could become its preferred leader without leading too many of its topic."""
        followers = (b for b in self.replicas(partition)[1:] if b in self.instance.leading - partition.out_of_sync)
        return [b for b in followers if self._led.has_room(partition.topic, b)]

    def affords(self, partition: AuditPartition) -> bool:
        """Whether the rest of the limit allows a change that copies all replicas of the partition."""
        most = max(len(partition.replicas), partition.replication_factor) - _copies(partition, self.replicas(partition))
        largest = max((self.instance.copy_bytes(partition, b) for b in self.instance.accepting), default=0)
        return most <= self._moves_left and most * largest <= self._bytes_left

    def change(self, partition: AuditPartition, replicas: Replicas) -> None:
        """Give a partition a new list."""
        before, topic = self.replicas(partition), partition.topic
        self._spend(partition, before, replicas)
        self._lists[partition.key] = replicas
        self._of_topic.change(topic, before, replicas)
        self._led.change(topic, before, replicas)

    def _spend(self, partition: AuditPartition, before: Replicas, after: Replicas) -> None:
        copies, size = _copies(partition, after) - _copies(partition, before), partition.size_bytes
        self._moves_left -= copies
        copied = self.instance.copied_bytes
        self._bytes_left -= copied(partition, after) - copied(partition, before)
        for broker in set(after) - set(before):
            self._used[broker] += size
            self._log_dirs.add(partition, broker)
        for broker in set(before) - set(after):
            if not (self.instance.limits.fixed_waves and broker in partition.replicas):
                self._used[broker] -= size
                self._log_dirs.remove(partition, broker)


def _copies(partition: AuditPartition, replicas: Iterable[int]) -> int:
    return len(set(replicas) - set(partition.replicas))
