"""Reads the current state of a live cluster, as far as a wave needs it. Changes nothing."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Timer
from typing import Any

from optimizer.errors import InputError
from optimizer.units import human_time
from sources import kafka_admin
from sources.record import Record

TopicPartition = tuple[str, int]
Throttle = tuple[str, str, str]
# A broker that dies is fenced after nine seconds.
_PAUSE_SECONDS = (1.0, 2.0, 4.0, 4.0, 4.0)
_QUIET_SECONDS = 2.0  # a read that takes longer reports that it waits
# The client tries to get an answer once before and once after each pause.
_GIVE_UP_SECONDS = sum(_PAUSE_SECONDS) + (1 + len(_PAUSE_SECONDS)) * kafka_admin.REQUEST_MS / 1000


@dataclass(frozen=True)
class Observed:
    """The state of a cluster.

    Parameters
    ----------
    alive : frozenset of int
        Brokers that are registered and not fenced.
    silent : frozenset of int
        Alive brokers that do not return their configs: they refuse, or have just died and are not fenced yet.
    topic_ids : mapping of topic to id
        None before Kafka 2.8.
    replicas, in_sync : mapping of (topic, partition) to brokers
        Replicas in order, including those that are being added or removed.
    in_flight : mapping of (topic, partition) to brokers
        Target replicas of each running reassignment, in order.
    throttles : mapping of (entity type, entity, config) to value
        Dynamic configs of topics and of brokers that answer.
    """

    alive: frozenset[int]
    silent: frozenset[int]
    topic_ids: Mapping[str, str | None]
    replicas: Mapping[TopicPartition, tuple[int, ...]]
    in_sync: Mapping[TopicPartition, frozenset[int]]
    in_flight: Mapping[TopicPartition, tuple[int, ...]]
    throttles: Mapping[Throttle, str]

    def exists(self, kind: str, name: str) -> bool:
        """Whether a topic exists, or a broker is alive."""
        return int(name) in self.alive if kind == "brokers" else name in self.topic_ids

    def has_configs(self, kind: str, name: str) -> bool:
        """Whether the configs of a topic or of an alive broker could be read."""
        return kind != "brokers" or int(name) not in self.silent


@contextmanager
def report_long_wait(servers: object, say: Callable[[str], None]) -> Iterator[None]:
    """Report once that a read waits for the servers, if it takes longer than usual."""
    limit = f"gives up after about {human_time(_GIVE_UP_SECONDS)} without an answer"
    timer = Timer(_QUIET_SECONDS, say, [f"waiting for {servers}, {_QUIET_SECONDS:g} s so far; {limit}"])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def observe(options: Mapping[str, object], pauses: Sequence[float] = _PAUSE_SECONDS) -> Observed:
    """Read the state of a cluster.

    It tries again after each pause: a cluster that has just lost a broker still sends clients to it.

    Raises
    ------
    InputError
        When the cluster does not answer in any try.
    """
    try:
        return _observe(options)
    except InputError:
        if not pauses:
            raise
    time.sleep(pauses[0])
    return observe(options, pauses[1:])


def _observe(options: Mapping[str, object]) -> Observed:
    with kafka_admin.connected(options) as admin:
        topology = list(kafka_admin.topology(admin))
        alive = sorted(r.payload["broker_id"] for r in topology if r.kind == "broker" and not r.payload["fenced"])
        answers = {broker: kafka_admin.broker_configs(admin, broker) for broker in alive}
    configs = [record for answer in answers.values() for record in answer or ()]
    return observed([*topology, *configs], silent=frozenset(broker for broker in alive if answers[broker] is None))


def observed(records: Iterable[Record], *, silent: frozenset[int]) -> Observed:
    """The state of a cluster from records of ``sources.kafka_admin``."""
    rows_by_kind: dict[str, list[Mapping[str, Any]]] = {}
    for record in records:
        rows_by_kind.setdefault(record.kind, []).append(record.payload)
    partitions = {_topic_partition(row): row for row in rows_by_kind.get("partition", [])}
    return Observed(
        alive=frozenset(row["broker_id"] for row in rows_by_kind.get("broker", []) if not row["fenced"]),
        silent=silent,
        topic_ids={row["topic"]: row["topic_id"] for row in rows_by_kind.get("topic", [])},
        replicas={partition: tuple(row["replicas"]) for partition, row in partitions.items()},
        in_sync={partition: frozenset(row["isr"]) for partition, row in partitions.items()},
        in_flight={
            _topic_partition(row): tuple(broker for broker in row["replicas"] if broker not in row["removing"])
            for row in rows_by_kind.get("reassignment", [])
        },
        throttles={
            (row["entity_type"], row["entity_name"], row["name"]): row["value"]
            for row in rows_by_kind.get("config", [])
            if "replication.throttled" in row["name"] and not row["is_static"]
        },
    )


def _topic_partition(row: Mapping[str, Any]) -> TopicPartition:
    return row["topic"], row["partition"]
