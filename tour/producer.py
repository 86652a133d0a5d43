"""A producer that writes while replicas move, and a check for lost records."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import KafkaError


@dataclass
class Acknowledged:
    """Numbers that all in-sync replicas have acknowledged, and the count of failed sends."""

    servers: str
    topic: str
    begins: dict[int, int] = field(default_factory=dict)  # the first offset of each partition that may be ours
    numbers: set[int] = field(default_factory=set)
    failed: int = 0

    def lost(self) -> set[int]:
        """Acknowledged numbers that the topic does not have."""
        consumer = KafkaConsumer(bootstrap_servers=self.servers, enable_auto_commit=False)
        partitions = [TopicPartition(self.topic, number) for number in consumer.partitions_for_topic(self.topic) or ()]
        consumer.assign(partitions)
        for partition in partitions:
            consumer.seek(partition, self.begins.get(partition.partition, 0))
        ends = consumer.end_offsets(partitions)
        read: set[int] = set()
        while any(consumer.position(partition) < ends[partition] for partition in partitions):
            for records in consumer.poll(timeout_ms=1000).values():
                read |= {int(record.key) for record in records if record.key is not None}
        consumer.close()
        return self.numbers - read


def _ends(servers: str, topic: str) -> dict[int, int]:
    """The end of each partition."""
    consumer = KafkaConsumer(bootstrap_servers=servers, enable_auto_commit=False)
    partitions = [TopicPartition(topic, number) for number in consumer.partitions_for_topic(topic) or ()]
    ends = consumer.end_offsets(partitions)
    consumer.close()
    return {partition.partition: offset for partition, offset in ends.items()}


@contextmanager
def producing(servers: str, topic: str, *, every_seconds: float = 0.05) -> Iterator[Acknowledged]:
    """Send numbers with acks=all until the end of the block."""
    result, stop = Acknowledged(servers, topic, _ends(servers, topic)), threading.Event()

    def send() -> None:
        producer = KafkaProducer(bootstrap_servers=servers, acks="all", retries=20)
        number = 0
        while not stop.is_set():
            number += 1
            try:
                producer.send(topic, key=str(number).encode(), value=b"x" * 100).get(timeout=60)
                result.numbers.add(number)
            except KafkaError:
                result.failed += 1
            time.sleep(every_seconds)
        producer.close()

    thread = threading.Thread(target=send, daemon=True)
    thread.start()
    try:
        yield result
        stop.set()
        thread.join()
    finally:
        stop.set()  # after an error nobody waits: without its brokers a send ends after minutes
