"""Kafka's placement algorithm in KRaft mode, and of ``kafka-reassign-partitions --generate`` from 4.1.

References
----------
org.apache.kafka.metadata.placement.StripedReplicaPlacer, Kafka 4.3.1 (the messages name log directories since 4.3).
"""

from collections.abc import Iterable
from dataclasses import dataclass

from optimizer.errors import KafkaError
from optimizer.kafka.broker import Broker
from optimizer.kafka.java import JavaRandom, hash_map_order, optional_hash, utf16_key


@dataclass(frozen=True)
class RackLayout:
    """Brokers by rack; made once and used for every topic.

    Parameters
    ----------
    draw_order : tuple
        (rack, unfenced ids ascending, fenced ids ascending) in the order in which Kafka draws random numbers for them.
    names : tuple
        Racks in Kafka's order: no rack first, then by Java's order of strings.
    """

    draw_order: tuple[tuple[str | None, tuple[int, ...], tuple[int, ...]], ...]
    names: tuple[str | None, ...]

    @property
    def unfenced_count(self) -> int:
        """The number of live brokers."""
        return sum(len(unfenced) for _, unfenced, _ in self.draw_order)

    @property
    def broker_count(self) -> int:
        """The number of brokers, including fenced ones."""
        return sum(len(unfenced) + len(fenced) for _, unfenced, fenced in self.draw_order)


def rack_layout(brokers: Iterable[Broker]) -> RackLayout:
    """Group brokers by rack. The given order matters only for racks with colliding hash codes."""
    groups: dict[str | None, tuple[list[int], list[int]]] = {}
    for broker in brokers:
        groups.setdefault(broker.rack, ([], []))[broker.fenced].append(broker.broker_id)
    order = hash_map_order(groups, optional_hash)
    draw_order = tuple((rack, tuple(sorted(groups[rack][0])), tuple(sorted(groups[rack][1]))) for rack in order)
    return RackLayout(draw_order, tuple(sorted(groups, key=lambda r: (r is not None, utf16_key(r or "")))))


class _Ring:
    """Brokers in turn: each epoch starts one position later and yields each broker once (BrokerList)."""

    __slots__ = ("_epoch", "_index", "_offset", "brokers")

    def __init__(self, brokers: tuple[int, ...], random: JavaRandom) -> None:
        self.brokers = list(brokers)
        self._epoch = self._index = 0
        self._offset = random.next_int(len(brokers)) if brokers else 0

    def take(self, epoch: int) -> int | None:
        """The next broker of this epoch; None after the last one."""
        size = len(self.brokers)
        if not size:
            return None
        if self._epoch != epoch:
            self._epoch, self._index = epoch, 0
            self._offset = (self._offset + 1) % size
        if self._index >= size:
            return None
        broker = self.brokers[(self._index + self._offset) % size]
        self._index += 1
        return broker


class _Racks:
    """The state of one placement (RackList)."""

    def __init__(self, layout: RackLayout, random: JavaRandom) -> None:
        self._random = random
        self._fenced: dict[str | None, _Ring] = {}
        self._unfenced: dict[str | None, _Ring] = {}
        for rack, unfenced, fenced in layout.draw_order:
            self._fenced[rack] = _Ring(fenced, random)
            self._unfenced[rack] = _Ring(unfenced, random)
        self._names = list(layout.names)
        self._unfenced_count = layout.unfenced_count
        self._epoch = 0
        self._offset = random.next_int(len(self._names)) if self._names else 0

    def place(self, replication_factor: int) -> list[int]:
        """Replicas of the next partition."""
        if self._epoch == self._unfenced_count > 1:
            self._shuffle()
        if self._offset == len(self._names):
            self._offset = 0
        leader, leader_rack = self._leader()
        replicas = [leader]
        skip: int | None = leader_rack
        at = self._offset
        while len(replicas) < replication_factor:
            if at == skip:
                # The leader's rack is skipped exactly once.
                skip = None
            else:
                follower = self._follower(at)
                if follower is not None:
                    replicas.append(follower)
            at = (at + 1) % len(self._names)
        self._epoch += 1
        self._offset += 1
        return replicas

    def _shuffle(self) -> None:
        self._random.shuffle(self._names)
        for rack in self._fenced:
            self._random.shuffle(self._fenced[rack].brokers)
            self._random.shuffle(self._unfenced[rack].brokers)
        self._epoch = 0

    def _leader(self) -> tuple[int, int]:
        """The first live broker from the offset on, and the position of its rack."""
        at = self._offset
        while True:
            leader = self._unfenced[self._names[at]].take(self._epoch)
            if leader is not None:
                return leader, at
            at = (at + 1) % len(self._names)

    def _follower(self, at: int) -> int | None:
        rack = self._names[at]
        alive = self._unfenced[rack].take(self._epoch)
        return self._fenced[rack].take(self._epoch) if alive is None else alive


class StripedReplicaPlacer:
    """Places topics one after the other with one random generator, as in a controller.

    Parameters
    ----------
    random : JavaRandom
    """

    def __init__(self, random: JavaRandom) -> None:
        self._random = random

    def place(self, layout: RackLayout, partition_count: int, replication_factor: int) -> list[list[int]]:
        """Place partitions 0 to ``partition_count`` - 1 of a new topic.

        Returns
        -------
        list of list of int
            Ordered replicas by partition.

        Raises
        ------
        KafkaError
            With Kafka's message. As in Kafka, random numbers are drawn before the checks.
        """
        racks = _Racks(layout, self._random)
        _check(layout, replication_factor)
        return [racks.place(replication_factor) for _ in range(partition_count)]


def _check(layout: RackLayout, replication_factor: int) -> None:
    message = ""
    if replication_factor <= 0:
        message = f"Invalid replication factor {replication_factor}: the replication factor must be positive."
    elif layout.unfenced_count == 0:
        message = "All brokers are currently fenced, or have all their log directories cordoned."
    elif replication_factor > layout.broker_count:
        message = (
            f"The target replication factor of {replication_factor} cannot be reached because only "
            f"{layout.broker_count} broker(s) are registered or some brokers have all their log directories cordoned."
        )
    if message:
        raise KafkaError("InvalidReplicationFactorException", message)
