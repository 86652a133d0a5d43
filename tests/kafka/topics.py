"""Writes to topics of a test's cluster. ``tour.topics`` creates, fills and deletes them."""

import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import Event, Thread
from typing import Any

from execution.admin import KafkaAdmin
from execution.observed import Observed
from tour.cluster import Cluster
from tour.topics import RECORD_BYTES as RECORD_BYTES
from tour.topics import Replicas as Replicas
from tour.topics import client as client
from tour.topics import create as create
from tour.topics import delete as delete
from tour.topics import fill as fill

with warnings.catch_warnings():
    # Importing the client reads its message schemas by a deprecated function.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaProducer as KafkaProducer
    from kafka import TopicPartition as TopicPartition
    from kafka.admin import ConfigResource as ConfigResource
    from kafka.admin import ConfigResourceType as ConfigResourceType
    from kafka.errors import NotEnoughReplicasAfterAppendError, NotEnoughReplicasError, RetriableError

SECONDS = 120  # longest time that a test waits for a cluster


def observe(kafka: Cluster) -> Observed:
    """The state of a cluster, as the steps of a wave see it."""
    with KafkaAdmin({"bootstrap_servers": kafka.bootstrap}) as admin:
        return admin.observe()


@contextmanager
def live_traffic(
    kafka: Cluster, topic: str, partitions: Sequence[int], bytes_per_s: int, off: float = 0.05
) -> Iterator[None]:
    """Write to each partition at a rate, as long as the block runs; checks that it was kept, but for a share."""
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
    assert abs(written - bytes_per_s * seconds) <= max(off * written, 2 * RECORD_BYTES), (written, seconds)


@contextmanager
def single_writes(kafka: Cluster) -> Iterator[Any]:
    """A producer that sends each record once, with ``acks=all``."""
    options = {"acks": "all", "retries": 0, "enable_idempotence": False}
    producer = KafkaProducer(bootstrap_servers=kafka.bootstrap, **options)
    try:
        yield producer
    finally:
        producer.close()


def is_written(producer: Any, topic: str, partition: int = 0) -> bool:
    """Whether a partition takes a write with ``acks=all``; False if it has not enough replicas in sync."""
    deadline = time.monotonic() + SECONDS
    while True:
        try:
            producer.send(topic, b"x", partition=partition).get(timeout=SECONDS)
        except (NotEnoughReplicasError, NotEnoughReplicasAfterAppendError):
            return False
        except RetriableError:  # the leader has changed: the next try has its address
            assert time.monotonic() < deadline
            time.sleep(0.1)
        else:
            return True
