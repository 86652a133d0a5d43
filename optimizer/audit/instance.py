"""The cluster before the plan, indexed for the rules: racks, disks, and brokers that may hold or lead replicas."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from optimizer.audit.claims import FREE, NOT_LIVING, AuditBroker, AuditLimits, AuditLogDir, AuditPartition
from optimizer.kafka.reassignment_json import ANY_DIR

Ints = NDArray[np.int64]
PinnedTo = frozenset[int] | None  # ids that pins allow; None without a pin


class Instance:
    """Brokers and partitions, with the sets and limits that the rules need.

    Parameters
    ----------
    brokers, partitions : sequences
        Each broker and each partition once, in any order.
    limits : AuditLimits
    """

    def __init__(
        self, *, brokers: Sequence[AuditBroker], partitions: Sequence[AuditPartition], limits: AuditLimits
    ) -> None:
        self.limits = limits
        self.brokers = {b.broker_id: b for b in brokers}
        self.partitions = {p.key: p for p in partitions}
        self.living = frozenset(b.broker_id for b in brokers if b.state not in NOT_LIVING)
        self.accepting = frozenset(b.broker_id for b in brokers if b.accepts_replicas and b.broker_id in self.living)
        self.to_empty = frozenset(b.broker_id for b in brokers if b.must_empty)
        self.leading = frozenset(b.broker_id for b in brokers if b.accepts_leadership)
        self._skips_tiered = frozenset(b.broker_id for b in brokers if b.skips_tiered)
        self._homes = self.accepting - self.to_empty
        self._hosts = frozenset(self.brokers) - self.to_empty
        racks = [self.brokers[b].rack for b in sorted(self._homes)]
        self.racks_count = limits.rack_spread and bool(racks) and None not in racks
        self._shares: dict[tuple[int, PinnedTo], tuple[int, dict[str, int]]] = {}
        self._rack_of = {b.broker_id: b.rack for b in brokers}
        self._misses: dict[tuple[int, PinnedTo, tuple[str | None, ...]], int] = {}

    def replica_slots(self) -> Iterator[tuple[AuditPartition, int]]:
        """Every replica of the cluster as (partition, broker id)."""
        return ((p, b) for p in self.partitions.values() for b in p.replicas)

    def copy_bytes(self, partition: AuditPartition, broker_id: int) -> int:
        """Bytes of a copy to a broker."""
        plain = partition.size_bytes if partition.copy_bytes is None else partition.copy_bytes
        tiered = partition.tiered_copy_bytes
        return plain if tiered is None or broker_id not in self._skips_tiered else tiered

    def copied_bytes(self, partition: AuditPartition, replicas: Iterable[int]) -> int:
        """Bytes of the copies that a new list of a partition needs."""
        return sum(self.copy_bytes(partition, broker) for broker in set(replicas) - set(partition.replicas))

    @cached_property
    def disk_bytes(self) -> dict[int, int]:
        """Exact bytes on each broker before the plan, also for brokers that are only in replica lists."""
        lengths = np.array([len(p.replicas) for p in self.partitions.values()], dtype=np.int64)
        sizes = np.array([p.size_bytes for p in self.partitions.values()], dtype=np.int64)
        hosts = np.fromiter((b for _, b in self.replica_slots()), dtype=np.int64, count=int(lengths.sum()))
        ids, position = np.unique(hosts, return_inverse=True)
        totals = np.zeros(len(ids), dtype=np.int64)
        np.add.at(totals, position, np.repeat(sizes, lengths))
        return dict.fromkeys(self.brokers, 0) | dict(zip(ids.tolist(), totals.tolist(), strict=True))

    def disk_limit(self, broker_id: int) -> int | None:
        """Bytes that a broker may hold, without the headroom; None if its capacity is unknown."""
        broker = self.brokers.get(broker_id)
        return self._limit(broker.disk_capacity_bytes) if broker else None

    def _limit(self, capacity: int | None) -> int | None:
        return None if capacity is None or capacity <= 0 else int(capacity * (1 - self.limits.disk_headroom))

    @cached_property
    def log_dirs(self) -> dict[int, dict[str, AuditLogDir]]:
        """The directories of each broker that has several, by path."""
        return {b: {d.path: d for d in row.log_dirs} for b, row in self.brokers.items() if len(row.log_dirs) > 1}

    def log_dir_limit(self, log_dir: AuditLogDir) -> int | None:
        """Bytes that a directory may hold, without the headroom; None if its capacity is unknown."""
        return self._limit(log_dir.capacity_bytes)

    def log_dir_before(self, partition: AuditPartition, broker_id: int) -> str:
        """The directory of a replica before the plan; ``any`` if it is unknown."""
        known = zip(partition.replicas, partition.log_dirs, strict=False)
        return next((path for broker, path in known if broker == broker_id), ANY_DIR)

    def homes(self, pin: PinnedTo) -> frozenset[int]:
        """Brokers in the pin that may hold replicas after the plan."""
        return self._homes if pin is None else self._homes & pin

    def rack(self, broker_id: int) -> str | None:
        """The rack of a broker; None if it has none or the rack rule is off."""
        return self._rack_of.get(broker_id) if self.racks_count else None

    def _by_rack(self, brokers: Iterable[int]) -> Counter[str]:
        return Counter(rack for rack in (self._rack_of[b] for b in brokers) if rack is not None)

    def _rack_shares(self, replication_factor: int, pin: PinnedTo) -> tuple[int, dict[str, int]]:
        """The maximum of replicas in any rack and the minimum in each, for a replication factor within a pin.

        The maximum is the smallest number with which the racks hold RF replicas: ceil(RF / R) unless racks have too few
        brokers. If too few brokers accept replicas, brokers that only keep their replicas count too.
        """
        known = (replication_factor, pin)
        if known not in self._shares:
            homes, keepers = self.homes(pin), self._hosts if pin is None else self._hosts & pin
            sizes = self._by_rack(homes)
            hosts = sizes if len(homes) >= replication_factor else self._by_rack(keepers)
            most = 1
            while most < max(hosts.values()) and sum(min(n, most) for n in hosts.values()) < replication_factor:
                most += 1
            least = replication_factor // len(sizes) if replication_factor > len(sizes) else 0
            self._shares[known] = (most, {rack: min(least, n) for rack, n in sizes.items()} if least else {})
        return self._shares[known]

    def rack_misses(self, replicas: Sequence[int], replication_factor: int, pin: PinnedTo) -> int:
        """Replicas above the maximum plus those missing to the minimum, over all racks; 0 if the rack rule is met."""
        if not self.racks_count:
            return 0
        racks = tuple(self._rack_of.get(b) for b in replicas)
        known = (replication_factor, pin, racks)
        if known not in self._misses:
            self._misses[known] = self._count_misses(racks, replication_factor, pin)
        return self._misses[known]

    def least_misses(self, before: AuditPartition, length: int) -> int:
        """The least ``rack_misses`` of any list of a length, of brokers that accept replicas and the partition's own.

        The rack rule counts the replicas that every broker may keep. A partition can keep only its own, and a free one
        none outside its pin.
        """
        if not self.racks_count or not self.homes(before.pinned_brokers):
            return 0
        most, least = self._rack_shares(length, before.pinned_brokers)
        own = set(before.replicas) - self.to_empty
        if before.mobility == FREE and before.pinned_brokers is not None:
            own &= before.pinned_brokers
        room = self._by_rack(self.homes(before.pinned_brokers) | own)
        over = max(0, length - sum(min(n, most) for n in room.values()))
        return over + sum(max(0, n - room[rack]) for rack, n in least.items())

    def _count_misses(self, racks: Sequence[str | None], replication_factor: int, pin: PinnedTo) -> int:
        """Count ``rack_misses``. A pin without any broker has none, because its partitions stay."""
        if not self.homes(pin):
            return 0
        most, least = self._rack_shares(replication_factor, pin)
        replicas = Counter(rack for rack in racks if rack is not None)
        over = sum(max(0, n - most) for n in replicas.values())
        return over + sum(max(0, n - replicas[rack]) for rack, n in least.items())
