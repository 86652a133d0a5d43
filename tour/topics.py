"""The topics of the tour and of the tests: made, filled and deleted.

The client of this process does it, because starting a tool of Kafka takes nearly two seconds of CPU time. Only ``fill``
uses a tool: it is faster with many records.
"""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from typing import Any

from sources import kafka_admin
from tour.cluster import Cluster

with warnings.catch_warnings():
    # Importing the client reads its message schemas by a deprecated function.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.partitioner.default import murmur2

Replicas = Mapping[int, Sequence[int]]
RECORD_BYTES = 10_000
RACKS = {1: "a", 2: "b", 4: "c", 5: "a", 7: "b", 9: "c"}
EMPTY, DRAIN = 9, 5


@dataclass(frozen=True)
class Topic:
    """A topic: replicas and megabytes of each of its partitions."""

    replicas: tuple[tuple[int, ...], ...]
    megabytes: tuple[int, ...]


# Broker 1 has most load, racks a and c have a broker with more than its share, broker 9 is empty.
TOPICS = {
    "orders.placed-v1": Topic(((1, 2, 4), (1, 7, 4), (2, 4, 1), (4, 1, 7), (5, 2, 4), (7, 4, 5)), (6, 5, 1, 3, 2, 4)),
    "payments_settled": Topic(((4, 5, 2), (2, 1, 4), (7, 5, 4), (1, 7, 4)), (2, 4, 1, 3)),
    "clicks.raw": Topic(((1, 2), (1, 4), (1, 7), (2, 5), (4, 7), (5, 4)), (5, 3, 4, 1, 2, 3)),
    "scratch": Topic(((5,), (1,), (2,)), (1, 2, 1)),
    "audit-empty": Topic(((5, 2, 4), (1, 7, 4)), (0, 0)),
}


@contextmanager
def client(kafka: Cluster) -> Iterator[Any]:
    """The Kafka client itself, because ``kafka_admin`` only reads."""
    with kafka_admin.connected({"bootstrap_servers": kafka.bootstrap}) as admin:
        yield admin


def create(kafka: Cluster, topics: Mapping[str, Replicas], **configs: object) -> None:
    """Create topics with the given replicas of each partition, and configs: ``min_insync_replicas=2``."""
    named = {name.replace("_", "."): str(value) for name, value in configs.items()}
    assignments = {
        topic: {"assignments": {number: list(brokers) for number, brokers in replicas.items()}, "configs": named}
        for topic, replicas in topics.items()
    }
    with client(kafka) as admin:
        admin.create_topics(assignments, wait_for_metadata=True)


def fill(kafka: Cluster, topic: str, megabytes: Mapping[int, int], *, record_bytes: int = RECORD_BYTES) -> None:
    """Fill all partitions of a topic, each with its megabytes. Each record is a batch of its own.

    The client of this process would need 0.3 s of CPU time for each megabyte, for checksums.
    """
    value = b"x" * record_bytes
    lines = b"".join(
        b"%d:%s\n" % (_key(number, len(megabytes)), value) * (size * 10**6 // record_bytes)
        for number, size in megabytes.items()
    )
    if lines:
        keyed = ("--reader-property", "parse.key=true", "--reader-property", "key.separator=:")
        options = ("--topic", topic, *keyed, "--command-property", "acks=all")
        kafka.tool("org.apache.kafka.tools.ConsoleProducer", *options, stdin=lines)


def _key(partition: int, partitions: int) -> int:
    """A key that Kafka's producer sends to a partition (BuiltInPartitioner.partitionForKey)."""
    return next(key for key in count() if int(murmur2(b"%d" % key) & 0x7FFFFFFF) % partitions == partition)


def delete(kafka: Cluster, *topics: str) -> None:
    """Delete topics."""
    with client(kafka) as admin:
        admin.delete_topics(list(topics))


def fill_all(cluster: Cluster, *, times: int = 1) -> None:
    """Create the topics with their replicas, and fill every partition with so many times its megabytes."""
    create(cluster, {name: dict(enumerate(topic.replicas)) for name, topic in TOPICS.items()})
    for name, topic in TOPICS.items():
        fill(cluster, name, {number: times * size for number, size in enumerate(topic.megabytes)})
