"""A live cluster as it is now, as far as a wave has to do with it; it is asked, never changed."""

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

Place = tuple[str, int]
Throttle = tuple[str, str, str]
# A broker that dies is fenced after nine seconds.
_PAUSE_SECONDS = (1.0, 2.0, 4.0, 4.0, 4.0)
_SILENT_SECONDS = 2.0  # a look that takes longer says so
# Until the client has tried for a first answer after each pause.
_GIVES_UP_SECONDS = sum(_PAUSE_SECONDS) + (1 + len(_PAUSE_SECONDS)) * kafka_admin.REQUEST_MS / 1000


@dataclass(frozen=True)
class Observed:
    """A cluster.

    Parameters
    ----------
    alive : frozenset of int
        Brokers that are registered and not fenced.
    silent : frozenset of int
        Those of them that do not tell their configs: they refuse it, or have just died and are not fenced yet.
    topic_ids : mapping of topic to id
        None before Kafka 2.8.
    replicas, in_sync : mapping of (topic, partition) to brokers
        Replicas in order, with those that are added or removed.
    in_flight : mapping of (topic, partition) to brokers
        Where each reassignment leads, in order.
    throttles : mapping of (entity type, entity, config) to value
        Dynamic configs of topics and of brokers that answer.
    """

    alive: frozenset[int]
    silent: frozenset[int]
    topic_ids: Mapping[str, str | None]
    replicas: Mapping[Place, tuple[int, ...]]
    in_sync: Mapping[Place, frozenset[int]]
    in_flight: Mapping[Place, tuple[int, ...]]
    throttles: Mapping[Throttle, str]

    def knows(self, kind: str, name: str) -> bool:
        """Whether a topic is there, or a broker alive."""
        return int(name) in self.alive if kind == "brokers" else name in self.topic_ids

    def tells(self, kind: str, name: str) -> bool:
        """Whether it is seen what a topic, or a broker that is alive, has set."""
        return kind != "brokers" or int(name) not in self.silent


@contextmanager
def waiting_said(servers: object, say: Callable[[str], None]) -> Iterator[None]:
    """Say for which servers a look waits, once, where it takes longer than usual."""
    until = f"servers that never answer are given up after about {human_time(_GIVES_UP_SECONDS)}"
    timer = Timer(_SILENT_SECONDS, say, [f"waiting for {servers}, {_SILENT_SECONDS:g} s so far; {until}"])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def observe(options: Mapping[str, object], pauses: Sequence[float] = _PAUSE_SECONDS) -> Observed:
    """Look at a cluster; again after each pause, for one that has just lost a broker still sends the client there.

    Raises
    ------
    InputError
        When it can't be reached.
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
    told = [record for configs in answers.values() for record in configs or ()]
    return observed([*topology, *told], silent=frozenset(broker for broker in alive if answers[broker] is None))


def observed(records: Iterable[Record], *, silent: frozenset[int]) -> Observed:
    """The same from records of ``sources.kafka_admin``."""
    of: dict[str, list[Mapping[str, Any]]] = {}
    for record in records:
        of.setdefault(record.kind, []).append(record.payload)
    partitions = {_place(row): row for row in of.get("partition", [])}
    return Observed(
        alive=frozenset(row["broker_id"] for row in of.get("broker", []) if not row["fenced"]),
        silent=silent,
        topic_ids={row["topic"]: row["topic_id"] for row in of.get("topic", [])},
        replicas={place: tuple(row["replicas"]) for place, row in partitions.items()},
        in_sync={place: frozenset(row["isr"]) for place, row in partitions.items()},
        in_flight={
            _place(row): tuple(broker for broker in row["replicas"] if broker not in row["removing"])
            for row in of.get("reassignment", [])
        },
        throttles={
            (row["entity_type"], row["entity_name"], row["name"]): row["value"]
            for row in of.get("config", [])
            if "replication.throttled" in row["name"] and not row["is_static"]
        },
    )


def _place(row: Mapping[str, Any]) -> Place:
    return row["topic"], row["partition"]
