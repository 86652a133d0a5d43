"""Creates, fills and deletes topics of a test's cluster with the client of this process.

Starting a tool of Kafka takes nearly two seconds of CPU time.
"""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from sources import kafka_admin
from tests.kafka.cluster import Cluster

with warnings.catch_warnings():
    # Importing the client reads its message schemas by a deprecated function.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaProducer

Replicas = Mapping[int, Sequence[int]]
SECONDS = 120  # longest time that a test waits for a cluster


@contextmanager
def _client(kafka: Cluster) -> Iterator[Any]:
    """The Kafka client itself, because ``kafka_admin`` only reads."""
    with kafka_admin.connected({"bootstrap_servers": kafka.bootstrap}) as admin:
        yield admin


def create(kafka: Cluster, topics: Mapping[str, Replicas]) -> None:
    """Create topics with the given replicas of each partition."""
    assignments = {
        topic: {"assignments": {number: list(brokers) for number, brokers in replicas.items()}}
        for topic, replicas in topics.items()
    }
    with _client(kafka) as client:
        client.create_topics(assignments, wait_for_metadata=True)


def fill(kafka: Cluster, topic: str, megabytes: Mapping[int, int]) -> None:
    """Fill partitions with this many megabytes, in records of 10 kB."""
    producer = KafkaProducer(bootstrap_servers=kafka.bootstrap, acks="all")
    value = b"x" * 9_999
    sent = [producer.send(topic, value, partition=p) for p, size in megabytes.items() for _ in range(100 * size)]
    for future in sent:
        future.get(timeout=SECONDS)
    producer.close()


def delete(kafka: Cluster, *topics: str) -> None:
    """Delete topics."""
    with _client(kafka) as client:
        client.delete_topics(list(topics))
