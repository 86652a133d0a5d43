"""The proposal of ``kafka-reassign-partitions --generate``.

References
----------
org.apache.kafka.tools.reassign.ReassignPartitionsCommand (generateAssignment, calculateAssignment, getBrokerMetadata,
describeTopics), Kafka 4.3.1. Until 4.0 the tool uses AdminUtils.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from optimizer.errors import KafkaError
from optimizer.kafka.admin_utils import assign_replicas, broker_ring
from optimizer.kafka.broker import Broker
from optimizer.kafka.java import (
    JavaRandom,
    hash_map_copy_capacity,
    hash_map_order,
    hash_set_capacity,
    string_hash,
    topic_partition_hash,
)
from optimizer.kafka.reassignment_json import ANY_DIR, TopicPartition, format_reassignment
from optimizer.kafka.striped_placer import StripedReplicaPlacer, rack_layout

PARTIAL_RACKS = (
    "Not all brokers have rack information. Add --disable-rack-aware in command line to make replica assignment "
    "without rack information."
)

Place = Callable[[int, int], Sequence[list[int]]]


@dataclass(frozen=True)
class Generated:
    """The proposal of the tool.

    Parameters
    ----------
    proposed : dict
        Replicas by (topic, partition).
    stdout : str
        The output of the tool.
    """

    proposed: dict[TopicPartition, list[int]]
    stdout: str


def check_racks(brokers: Iterable[Broker]) -> None:
    """Refuse racks on only some brokers, as the tool does.

    Raises
    ------
    KafkaError
    """
    if len({broker.rack is None for broker in brokers}) > 1:
        raise KafkaError("AdminOperationException", PARTIAL_RACKS)


def replication_factor_source(topic: str, partitions: Iterable[int]) -> int:
    """The partition with the replication factor that the tool uses for the whole topic: the first in hash order."""
    return hash_map_order(((topic, p) for p in partitions), topic_partition_hash)[0][1]


def describe_order(topics: Iterable[str], *, capacity: int = 16) -> list[str]:
    """The order in which the tool checks topics; it decides which unknown topic is named first.

    Parameters
    ----------
    topics : iterable
        Names in the order in which they are added to the set.
    capacity : int
        Initial table size of that set.
    """
    requested = hash_map_order(topics, string_hash, capacity=capacity)
    futures = hash_map_order(requested, string_hash)
    return hash_map_order(futures, string_hash, capacity=hash_map_copy_capacity(len(futures)))


def check_topics(described: Iterable[str], known: Mapping[str, object]) -> None:
    """Refuse the first topic that does not exist.

    Raises
    ------
    KafkaError
    """
    for topic in described:
        if topic not in known:
            raise KafkaError("UnknownTopicOrPartitionException", f"Topic {topic} not found.")


def generate(
    random: JavaRandom,
    *,
    cluster: Sequence[Broker],
    topics: Mapping[str, Sequence[Sequence[int]]],
    topics_to_move: Sequence[str],
    broker_ids: Collection[int],
    rack_aware: bool = True,
    log_dirs: Mapping[tuple[str, int, int], str] | None = None,
    algorithm: str = "striped",
) -> Generated:
    """Propose an assignment.

    Parameters
    ----------
    cluster : sequence of Broker
        Live brokers. Ids in ``broker_ids`` that are not live are ignored.
    topics : mapping
        Current replicas, partition by partition from 0, by topic.
    topics_to_move, broker_ids : collection
        Topics to move, in the order of the tool's file, and the target brokers; each once.
    log_dirs : mapping, optional
        Directory by (topic, partition, broker) for the current assignment; "any" for all others.
    algorithm : {"striped", "admin_utils"}
        The algorithm of Kafka 4.1 and later, or of 4.0 and before.

    Raises
    ------
    KafkaError
        With Kafka's exception class and message.
    """
    described = describe_order(topics_to_move, capacity=hash_set_capacity(len(topics_to_move)))
    check_topics(described, topics)
    current = {
        (topic, partition): list(replicas)
        for topic in hash_map_order(described, string_hash)
        for partition, replicas in enumerate(topics[topic])
    }
    brokers = [Broker(b.broker_id, b.rack if rack_aware else None) for b in cluster if b.broker_id in broker_ids]
    if rack_aware:
        check_racks(brokers)
    proposed = _propose(current, _placer(brokers, random, algorithm))
    return Generated(proposed, _stdout(current, proposed, log_dirs or {}))


def _placer(brokers: Sequence[Broker], random: JavaRandom, algorithm: str) -> Place:
    if algorithm == "striped":
        placer, layout = StripedReplicaPlacer(random), rack_layout(brokers)
        return lambda count, factor: placer.place(layout, count, factor)
    ring = broker_ring(brokers)
    return lambda count, factor: list(assign_replicas(ring, count, factor, random=random).values())


def _propose(current: Mapping[TopicPartition, Sequence[int]], place: Place) -> dict[TopicPartition, list[int]]:
    """Place topic by topic in the tool's order, because all topics share one random generator."""
    keys = hash_map_order(hash_map_order(current, topic_partition_hash), topic_partition_hash)
    counts = Counter(topic for topic, _ in keys)
    factors = {topic: len(current[topic, partition]) for topic, partition in reversed(keys)}
    proposed: dict[TopicPartition, list[int]] = {}
    for topic in hash_map_order((topic for topic, _ in keys), string_hash, insertion="compute_if_absent"):
        for partition, replicas in enumerate(place(counts[topic], factors[topic])):
            proposed[topic, partition] = replicas
    return proposed


def _stdout(
    current: Mapping[TopicPartition, Sequence[int]],
    proposed: Mapping[TopicPartition, Sequence[int]],
    log_dirs: Mapping[tuple[str, int, int], str],
) -> str:
    before = assignment_json(current, log_dirs)
    after = assignment_json(proposed, {})
    return f"Current partition replica assignment\n{before}\n\nProposed partition reassignment configuration\n{after}\n"


def assignment_json(
    assignment: Mapping[TopicPartition, Sequence[int]], log_dirs: Mapping[tuple[str, int, int], str]
) -> str:
    """The reassignment JSON of an assignment, with known directories."""
    return format_reassignment(
        (topic, partition, replicas, [log_dirs.get((topic, partition, b), ANY_DIR) for b in replicas])
        for (topic, partition), replicas in assignment.items()
    )
