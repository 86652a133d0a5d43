"""Restart batches on a real Kafka: a batch stops no write; one broker more does, and so does a batch too soon."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import pytest

from execution.admin import KafkaAdmin
from optimizer.kafka.throttle import FOLLOWER_RATE, FOLLOWER_REPLICAS
from optimizer.solve.restart_batches import Batches, fewest_batches
from tests.kafka import topics
from tests.kafka.lab import RACKS, Four, held_back, until
from tour.cluster import Cluster

pytestmark = [pytest.mark.kafka, pytest.mark.all_only]

TOPIC, MEGABYTES = "restarts", 20
REPLICAS = {0: [1, 2, 3], 1: [4, 3, 2]}  # brokers 1 and 4 share no partition
LATE = 4  # gets 1 MiB in 11 seconds of what was written while it was down
THROTTLES = {("brokers", str(LATE), FOLLOWER_RATE): "1", ("topics", TOPIC, FOLLOWER_REPLICAS): f"1:{LATE}"}


@pytest.fixture
def kafka(four: Four) -> Iterator[Cluster]:
    """The cluster with a topic of two partitions; at the end all brokers are up."""
    topics.create(four.cluster, {TOPIC: REPLICAS}, min_insync_replicas=2)
    yield four.cluster
    for broker in RACKS:
        if not four.cluster.is_running(broker):
            four.cluster.start_broker(broker)
    until(lambda: topics.observe(four.cluster).alive == set(RACKS))
    unthrottle(four.cluster)
    topics.delete(four.cluster, TOPIC)


def unthrottle(kafka: Cluster) -> None:
    """Remove the throttles; a broker that has just started may not answer at once."""

    def is_done() -> bool:
        with KafkaAdmin({"bootstrap_servers": kafka.bootstrap}) as admin:
            return not admin.alter(dict.fromkeys(THROTTLES, ("DELETE", None)))

    until(is_done)


def batches(kafka: Cluster) -> Batches:
    """Of the topic's partitions as they are; brokers by their place among all brokers."""
    now, ids = topics.observe(kafka), sorted(RACKS)
    in_sync = [[ids.index(broker) for broker in sorted(now.in_sync[TOPIC, number])] for number in REPLICAS]
    slack = [len(brokers) - now.min_isr[TOPIC] for brokers in in_sync]
    return fewest_batches(np.array(in_sync), np.array(slack), np.ones(len(ids), dtype=bool))


def written(kafka: Cluster) -> list[bool]:
    """Whether each partition takes a write, by a producer that knows only brokers that are up."""
    with topics.single_writes(kafka) as producer:
        return [topics.is_written(producer, TOPIC, number) for number in REPLICAS]


@contextmanager
def down(kafka: Cluster, brokers: Sequence[int]) -> Iterator[None]:
    """Brokers that are stopped in order and started again; at the end their replicas may still be out of sync."""
    for broker in brokers:
        kafka.stop_broker(broker)
    yield
    for broker in brokers:
        kafka.start_broker(broker)


def in_sync(kafka: Cluster, partitions: Sequence[int] = tuple(REPLICAS)) -> bool:
    """Whether all replicas of some partitions are in sync."""
    now = topics.observe(kafka)
    return all(now.in_sync[TOPIC, number] == {*REPLICAS[number]} for number in partitions)


def test_a_batch_stops_no_write_and_one_broker_more_does(kafka: Cluster) -> None:
    """Three batches, which is proven. Their brokers may be down together; with one of the next batch writes stop."""
    found = batches(kafka)
    assert (found.batches, found.is_proven) == (((0, 3), (1,), (2,)), True)
    with down(kafka, (1, 4)):
        assert written(kafka) == [True, True]
        with down(kafka, (2,)):
            assert written(kafka) == [False, False]
    until(lambda: in_sync(kafka))
    for batch in ((2,), (3,)):
        with down(kafka, batch):
            assert written(kafka) == [True, True]
        until(lambda: in_sync(kafka))


def test_the_next_batch_waits_until_replicas_are_in_sync(kafka: Cluster) -> None:
    """A throttle that was left keeps a replica behind: its broker is up, but its partition stops with the next one."""
    with held_back(kafka, LATE, THROTTLES):
        topics.fill(kafka, TOPIC, {0: 1, 1: MEGABYTES})
    until(lambda: LATE in topics.observe(kafka).alive and in_sync(kafka, [0]))
    assert not in_sync(kafka, [1])
    with down(kafka, (2,)):
        assert written(kafka) == [True, False]
    unthrottle(kafka)
    until(lambda: in_sync(kafka))
    with down(kafka, (2,)):
        assert written(kafka) == [True, True]
