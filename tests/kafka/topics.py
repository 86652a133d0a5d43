"""Topics of a test's cluster: made, filled and deleted by the client of this process.

Each of Kafka's tools is a JVM that starts, nearly two seconds of CPU time.
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
SECONDS = 120  # the most that a test waits for a cluster


@contextmanager
def _client(kafka: Cluster) -> Iterator[Any]:
    """The client itself: what is read of a cluster has no need to create topics."""
    with kafka_admin.connected({"bootstrap_servers": kafka.bootstrap}) as admin:
        yield admin


def create(kafka: Cluster, topics: Mapping[str, Replicas]) -> None:
    """Create topics, each partition with its replicas where they are wanted."""
    wanted = {
        topic: {"assignments": {number: list(brokers) for number, brokers in replicas.items()}}
        for topic, replicas in topics.items()
    }
    with _client(kafka) as client:
        client.create_topics(wanted, wait_for_metadata=True)


def fill(kafka: Cluster, topic: str, megabytes: Mapping[int, int]) -> None:
    """Give partitions their megabytes, in records of 10 kB."""
    producer = KafkaProducer(bootstrap_servers=kafka.bootstrap, acks="all")
    value = b"x" * 9_999
    sent = [producer.send(topic, value, partition=p) for p, size in megabytes.items() for _ in range(100 * size)]
    for one in sent:
        one.get(timeout=SECONDS)
    producer.close()


def delete(kafka: Cluster, *topics: str) -> None:
    """Delete topics."""
    with _client(kafka) as client:
        client.delete_topics(list(topics))
