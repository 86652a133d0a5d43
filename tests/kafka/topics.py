"""Creates, fills, writes to and deletes topics of a test's cluster.

The client of this process does it, because starting a tool of Kafka takes nearly two seconds of CPU time. Only ``fill``
uses a tool: it is faster with many records.
"""

import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count
from threading import Event, Thread
from typing import Any

from execution.admin import KafkaAdmin
from execution.observed import Observed
from sources import kafka_admin
from tests.kafka.cluster import Cluster

with warnings.catch_warnings():
    # Importing the client reads its message schemas by a deprecated function.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaProducer
    from kafka import TopicPartition as TopicPartition
    from kafka.admin import ConfigResource as ConfigResource
    from kafka.admin import ConfigResourceType as ConfigResourceType
    from kafka.errors import NotEnoughReplicasAfterAppendError, NotEnoughReplicasError, RetriableError
    from kafka.partitioner.default import murmur2

Replicas = Mapping[int, Sequence[int]]
SECONDS = 120  # longest time that a test waits for a cluster
RECORD_BYTES = 10_000


@contextmanager
def client(kafka: Cluster) -> Iterator[Any]:
    """The Kafka client itself, because ``kafka_admin`` only reads."""
    with kafka_admin.connected({"bootstrap_servers": kafka.bootstrap}) as admin:
        yield admin


def observe(kafka: Cluster) -> Observed:
    """The state of a cluster, as the steps of a wave see it."""
    with KafkaAdmin({"bootstrap_servers": kafka.bootstrap}) as admin:
        return admin.observe()


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


@contextmanager
def live_traffic(kafka: Cluster, topic: str, partitions: Sequence[int], bytes_per_s: int) -> Iterator[None]:
    """Write to each partition at a rate, as long as the block runs; checks that the rate was kept."""
    producer = KafkaProducer(bootstrap_servers=kafka.bootstrap, acks=1)
    value, stop = b"x" * (RECORD_BYTES - 1), Event()
    sent: list[list[Any]] = []
    begun = time.monotonic()

    def write() -> None:
        while not stop.wait(max(0.0, begun + len(sent) * RECORD_BYTES / bytes_per_s - time.monotonic())):
            sent.append([producer.send(topic, value, partition=p) for p in partitions])

    thread = Thread(target=write, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
        seconds = time.monotonic() - begun
        producer.close()
    for future in (future for futures in sent for future in futures):
        future.get(timeout=SECONDS)
    written = len(sent) * RECORD_BYTES
    assert abs(written - bytes_per_s * seconds) <= max(0.05 * written, 2 * RECORD_BYTES), (written, seconds)


@contextmanager
def single_writes(kafka: Cluster) -> Iterator[Any]:
    """A producer that sends each record once, with ``acks=all``."""
    options = {"acks": "all", "retries": 0, "enable_idempotence": False}
    producer = KafkaProducer(bootstrap_servers=kafka.bootstrap, **options)
    try:
        yield producer
    finally:
        producer.close()


def is_written(producer: Any, topic: str) -> bool:
    """Whether partition 0 takes a write with ``acks=all``; False if it has not enough replicas in sync."""
    deadline = time.monotonic() + SECONDS
    while True:
        try:
            producer.send(topic, b"x", partition=0).get(timeout=SECONDS)
        except (NotEnoughReplicasError, NotEnoughReplicasAfterAppendError):
            return False
        except RetriableError:  # the leader has changed: the next try has its address
            assert time.monotonic() < deadline
            time.sleep(0.1)
        else:
            return True


def delete(kafka: Cluster, *topics: str) -> None:
    """Delete topics."""
    with client(kafka) as admin:
        admin.delete_topics(list(topics))
