"""Kafka's placement algorithm up to 4.0, and in ZooKeeper mode.

References
----------
org.apache.kafka.admin.AdminUtils.assignReplicasToBrokers, Kafka 4.0.2 (deleted in 4.1);
kafka.zk.AdminZkClient.createNewPartitionsAssignment, Kafka 3.8.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from optimizer.errors import KafkaError
from optimizer.kafka.broker import Broker
from optimizer.kafka.java import JavaRandom, utf16_key


@dataclass(frozen=True)
class BrokerRing:
    """Brokers in the order in which replicas are placed; made once and used for every topic.

    Parameters
    ----------
    brokers : tuple of int
        Alternating between racks, or in the given order if no broker has a rack.
    racks : dict
        Rack by broker; empty if racks are not used.
    partial_racks : bool
        Only some brokers have a rack, which Kafka refuses.
    """

    brokers: tuple[int, ...]
    racks: dict[int, str]
    partial_racks: bool = False

    @property
    def rack_count(self) -> int:
        """The number of racks with a broker."""
        return len(set(self.racks.values()))


def broker_ring(brokers: Sequence[Broker]) -> BrokerRing:
    """Order brokers. The given order matters only if no broker has a rack."""
    racks = {b.broker_id: b.rack for b in brokers if b.rack is not None}
    if 0 < len(racks) < len(brokers):
        return BrokerRing(tuple(b.broker_id for b in brokers), racks, partial_racks=True)
    return BrokerRing(tuple(rack_alternated(racks) if racks else (b.broker_id for b in brokers)), racks)


def assign_replicas(
    ring: BrokerRing,
    partition_count: int,
    replication_factor: int,
    *,
    start_index: int = -1,
    start_partition: int = -1,
    random: JavaRandom | None = None,
) -> dict[int, list[int]]:
    """Place partitions round robin, with a shift that grows after each round.

    Parameters
    ----------
    ring : BrokerRing
        See ``broker_ring``.
    start_index : int
        Fixed start, which is also the first shift. If negative, both are drawn from ``random``.
    start_partition : int
        Id of the first partition; a negative number means 0.

    Returns
    -------
    dict
        Ordered replicas by partition id.

    Raises
    ------
    KafkaError
        With Kafka's message, if there is no partition, no replica, more replicas than brokers, or racks on only some
        brokers.
    ValueError
        If both ``start_index`` and ``random`` are missing.
    """
    _check(ring, partition_count, replication_factor)
    size = len(ring.brokers)
    start, shift = _start(start_index, size, random)
    rack_count = ring.rack_count
    first_id = max(0, start_partition)
    placed: dict[int, list[int]] = {}
    for partition in range(first_id, first_id + partition_count):
        if partition > 0 and partition % size == 0:
            shift += 1
        leader = (partition + start) % size
        if rack_count:
            placed[partition] = _spread_over_racks(ring, leader, shift * rack_count, rack_count, replication_factor)
        else:
            followers = (ring.brokers[_follower(leader, shift, j, size)] for j in range(replication_factor - 1))
            placed[partition] = [ring.brokers[leader], *followers]
    return placed


def _check(ring: BrokerRing, partition_count: int, replication_factor: int) -> None:
    if partition_count <= 0:
        raise KafkaError("InvalidPartitionsException", "Number of partitions must be larger than 0.")
    if replication_factor <= 0:
        raise KafkaError("InvalidReplicationFactorException", "Replication factor must be larger than 0.")
    if replication_factor > len(ring.brokers):
        raise KafkaError(
            "InvalidReplicationFactorException",
            f"Replication factor: {replication_factor} larger than available brokers: {len(ring.brokers)}.",
        )
    if ring.partial_racks:
        raise KafkaError(
            "AdminOperationException",
            "Not all brokers have rack information for replica rack aware assignment.",
        )


def _start(start_index: int, broker_count: int, random: JavaRandom | None) -> tuple[int, int]:
    """Start and first shift, drawn in Kafka's order."""
    if start_index >= 0:
        return start_index, start_index
    if random is None:
        raise ValueError("give start_index (0 or more) or random")
    return random.next_int(broker_count), random.next_int(broker_count)


def _follower(leader: int, shift: int, position: int, broker_count: int) -> int:
    """Index of the follower ``position`` (from 0) of the leader at index ``leader``."""
    return (leader + 1 + (shift + position) % (broker_count - 1)) % broker_count


def rack_alternated(racks: Mapping[int, str]) -> list[int]:
    """Order brokers so that neighbours differ in rack: a broker of each rack in turn, skipping empty racks.

    Parameters
    ----------
    racks : mapping
        Rack by broker id. Racks are in the order of Java's strings, brokers of a rack by id.
    """
    by_rack: dict[str, list[int]] = {}
    for broker in sorted(racks):
        by_rack.setdefault(racks[broker], []).append(broker)
    columns = [by_rack[name] for name in sorted(by_rack, key=utf16_key)]
    longest = max(map(len, columns), default=0)
    return [column[row] for row in range(longest) for column in columns if row < len(column)]


def _spread_over_racks(
    ring: BrokerRing, leader_index: int, shift: int, rack_count: int, replication_factor: int
) -> list[int]:
    """Followers in ring order, each in a new rack until every rack has a replica."""
    size = len(ring.brokers)
    leader = ring.brokers[leader_index]
    replicas = [leader]
    used = {ring.racks[leader]}
    position = 0
    while len(replicas) < replication_factor:
        broker = ring.brokers[_follower(leader_index, shift, position, size)]
        rack = ring.racks[broker]
        position += 1
        if (rack not in used or len(used) == rack_count) and (broker not in replicas or len(replicas) == size):
            replicas.append(broker)
            used.add(rack)
    return replicas
