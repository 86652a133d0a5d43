"""Reads the current state of a live cluster, as far as a wave needs it. Changes nothing.

Kafka has no list of moves inside brokers. Each broker reports the directory of each replica; while a replica moves, it
also reports a future replica in the new directory.
"""

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from threading import Timer
from typing import Any

from optimizer.emit.dir_move_files import BACK, FORWARD
from optimizer.errors import InputError
from optimizer.kafka.cordon import CORDON
from optimizer.kafka.reassignment_json import ANY_DIR
from optimizer.kafka.throttle import FOLLOWER_RATE, FOLLOWER_REPLICAS, LEADER_RATE, LEADER_REPLICAS, LOG_DIR_RATE
from optimizer.units import human_time
from sources import kafka_admin
from sources.record import Record

_MIN_ISR = re.compile(r"\bmin\.insync\.replicas=(\d+)")
TopicPartition = tuple[str, int]
Replica = tuple[str, int, int]  # topic, partition, broker
Throttle = tuple[str, str, str]
RATES = (LEADER_RATE, FOLLOWER_RATE, LOG_DIR_RATE)
# A broker that dies is fenced after nine seconds.
PAUSE_SECONDS = (1.0, 2.0, 4.0, 4.0, 4.0)
_QUIET_SECONDS = 2.0  # a read that takes longer reports that it waits
REQUEST_MS = 5_000  # milliseconds that a broker has for an answer; a hung broker costs this time in every call


@dataclass(frozen=True)
class Stored:
    """What the directories of some brokers have; brokers that do not answer are missing.

    Parameters
    ----------
    size_bytes : mapping of (topic, partition, broker) to bytes
        Of each replica.
    usable_bytes : mapping of broker to bytes
        Free bytes in all directories together; a broker is missing if it does not tell (before Kafka 3.3).
    directories : mapping of (broker, path) to (bytes, bytes)
        The size of each directory's disk, and what is free there.
    log_dirs : mapping of (topic, partition, broker) to path
        The directory of each replica.
    moving : mapping of (topic, partition, broker) to (path, bytes)
        Replicas that move inside their broker: the new directory, and what it has of the replica.
    reporting : frozenset of int
        Brokers that reported all replicas of all directories that have not failed.
    failed : frozenset of (int, str)
        Broker and path of each directory that has failed.
    """

    size_bytes: Mapping[Replica, int]
    usable_bytes: Mapping[int, int]
    directories: Mapping[tuple[int, str], tuple[int, int]] = field(default_factory=dict)
    log_dirs: Mapping[Replica, str] = field(default_factory=dict)
    moving: Mapping[Replica, tuple[str, int]] = field(default_factory=dict)
    reporting: frozenset[int] = frozenset()
    failed: frozenset[tuple[int, str]] = frozenset()

    @cached_property
    def answered(self) -> frozenset[int]:
        """Brokers that answered, or of which anything is known."""
        return self.reporting.union(self.usable_bytes, (broker for _, _, broker in self.size_bytes))


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
    leaders : mapping of (topic, partition) to broker
        None: the partition has no leader.
    in_flight : mapping of (topic, partition) to brokers
        Target replicas of each running reassignment, in order.
    throttles : mapping of (entity type, entity, config) to value
        Dynamic configs of topics and of brokers that answer.
    min_isr : mapping of topic to int
        ``min.insync.replicas`` of topics that do not have Kafka's default of 1.
    adding : mapping of (topic, partition) to brokers
        Replicas that a running reassignment adds.
    stored : Stored or None
        What the directories of some brokers have; None if they were not read.
    cordoned : mapping of broker to str
        Its directories that get no new replica, ``*`` for all of them; known if all throttles were read.
    fenced : frozenset of int
        Brokers that are registered and do not live.
    racks : mapping of broker to rack
        Of living brokers.
    """

    alive: frozenset[int]
    silent: frozenset[int]
    topic_ids: Mapping[str, str | None]
    replicas: Mapping[TopicPartition, tuple[int, ...]]
    in_sync: Mapping[TopicPartition, frozenset[int]]
    leaders: Mapping[TopicPartition, int | None]
    in_flight: Mapping[TopicPartition, tuple[int, ...]]
    throttles: Mapping[Throttle, str]
    min_isr: Mapping[str, int]
    adding: Mapping[TopicPartition, frozenset[int]] = field(default_factory=dict)
    stored: Stored | None = None
    kafka_cluster_id: str | None = None
    cordoned: Mapping[int, str] = field(default_factory=dict)
    fenced: frozenset[int] = frozenset()
    racks: Mapping[int, str | None] = field(default_factory=dict)

    def exists(self, kind: str, name: str) -> bool:
        """Whether a topic exists, or a broker is alive."""
        return int(name) in self.alive if kind == "brokers" else name in self.topic_ids

    def has_configs(self, kind: str, name: str) -> bool:
        """Whether the configs of a topic or of an alive broker could be read."""
        return kind != "brokers" or int(name) not in self.silent


def size_of(partition: TopicPartition, now: Observed, stored: Stored) -> int | None:
    """Bytes of a partition's leader; None if it has none, or the leader does not answer."""
    leader = now.leaders[partition]
    return None if leader is None else stored.size_bytes.get((*partition, leader))


def servers_of(options: Mapping[str, object]) -> list[str]:
    """The bootstrap servers of a client's options."""
    return str(options["bootstrap_servers"]).split(",")


@contextmanager
def report_long_wait(options: Mapping[str, object], say: Callable[[str], None]) -> Iterator[None]:
    """Report once that a read waits for the bootstrap servers, if it takes longer than usual."""
    servers = servers_of(options)
    # Before the first pause and after each pause every server is asked, and one of them twice.
    most = sum(PAUSE_SECONDS) + (1 + len(PAUSE_SECONDS)) * (1 + len(servers)) * REQUEST_MS / 1000
    limit = f"gives up after about {human_time(most)} without an answer"
    timer = Timer(_QUIET_SECONDS, say, [f"waiting for {','.join(servers)}, {_QUIET_SECONDS:g} s so far; {limit}"])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def read(admin: kafka_admin.WatchingAdmin, topics: Collection[str] | None = None) -> Observed:
    """Read the state of a cluster once; raises the client's error if the cluster does not answer.

    Parameters
    ----------
    topics : collection of str, optional
        Read only the throttles of these topics, and of brokers only the rates; all throttles by default.
    """
    if topics is None:
        topology = list(kafka_admin.topology(admin))
        answers = {broker: kafka_admin.broker_configs(admin, broker) for broker in _alive(topology)}
        lists: list[Record] = []
    else:
        topology = list(kafka_admin.topology(admin, configs_of=()))
        answers = {broker: _rates(admin, broker) for broker in _alive(topology)}
        existing = {record.payload["topic"] for record in topology if record.kind == "topic"}
        lists = _lists(
            admin, [broker for broker, answer in answers.items() if answer is not None], existing & {*topics}
        )
    configs = [record for answer in answers.values() for record in answer or ()]
    silent = frozenset(broker for broker, answer in answers.items() if answer is None)
    return observed([*topology, *configs, *lists], silent=silent)


def _alive(topology: Iterable[Record]) -> list[int]:
    return sorted(r.payload["broker_id"] for r in topology if r.kind == "broker" and not r.payload["fenced"])


def _rates(admin: kafka_admin.WatchingAdmin, broker: int) -> list[Record] | None:
    return kafka_admin.dynamic_configs(admin, broker, {("brokers", str(broker)): RATES})


def _lists(admin: kafka_admin.WatchingAdmin, brokers: Iterable[int], topics: Iterable[str]) -> list[Record]:
    """The lists of these topics, from the first broker that tells them."""
    names = {("topics", topic): (LEADER_REPLICAS, FOLLOWER_REPLICAS) for topic in sorted(topics)}
    for broker in brokers:
        records = kafka_admin.dynamic_configs(admin, broker, names)
        if records is not None:
            return records
    raise InputError("no broker returns the configs of topics: start the brokers, or allow DESCRIBE_CONFIGS on topics")


def observed(records: Iterable[Record], *, silent: frozenset[int]) -> Observed:
    """The state of a cluster from records of ``sources.kafka_admin``."""
    rows_by_kind: dict[str, list[Mapping[str, Any]]] = {}
    for record in records:
        rows_by_kind.setdefault(record.kind, []).append(record.payload)
    partitions = {_topic_partition(row): row for row in rows_by_kind.get("partition", [])}
    ids = [row["kafka_cluster_id"] for row in rows_by_kind.get("cluster_id", [])]
    alive = [row for row in rows_by_kind.get("broker", []) if not row["fenced"]]
    return Observed(
        kafka_cluster_id=ids[0] if ids else None,
        alive=frozenset(row["broker_id"] for row in alive),
        fenced=frozenset(row["broker_id"] for row in rows_by_kind.get("broker", []) if row["fenced"]),
        racks={row["broker_id"]: row.get("rack") for row in alive},
        cordoned={
            int(row["entity_name"]): row["value"]
            for row in rows_by_kind.get("config", [])
            if row["name"] == CORDON and row["entity_type"] == "brokers" and row["value"]
        },
        silent=silent,
        topic_ids={row["topic"]: row["topic_id"] for row in rows_by_kind.get("topic", [])},
        replicas={partition: tuple(row["replicas"]) for partition, row in partitions.items()},
        in_sync={partition: frozenset(row["isr"]) for partition, row in partitions.items()},
        leaders={partition: row["leader"] for partition, row in partitions.items()},
        in_flight={
            _topic_partition(row): tuple(broker for broker in row["replicas"] if broker not in row["removing"])
            for row in rows_by_kind.get("reassignment", [])
        },
        adding={_topic_partition(row): frozenset(row["adding"]) for row in rows_by_kind.get("reassignment", [])},
        throttles={
            (row["entity_type"], row["entity_name"], row["name"]): row["value"]
            for row in rows_by_kind.get("config", [])
            if is_throttle(row["name"]) and not row["is_static"]
        },
        min_isr={
            row["topic"]: int(match[1])
            for row in rows_by_kind.get("topic", [])
            if (match := _MIN_ISR.search(row.get("configs", "")))
        },
    )


def is_throttle(config: str) -> bool:
    """Whether a config of a topic or broker limits copies."""
    return config in (*RATES, LEADER_REPLICAS, FOLLOWER_REPLICAS)


def _topic_partition(row: Mapping[str, Any]) -> TopicPartition:
    return row["topic"], row["partition"]


Move = tuple[str, str]  # directories before and after
Moves = Mapping[Replica, Move]


class Place(StrEnum):
    """Where a replica is that a wave moves inside its broker."""

    OLD = "old directory"
    MOVING = "moves to the planned directory"
    PLANNED = "planned directory"
    RETURNING = "moves from the planned directory back to the old one"
    OTHER = "another directory, or it moves to another one"
    MISSING = "in no directory that the broker reports: its directory failed, or somebody removed it"
    UNKNOWN = "unknown: the broker does not answer"


# A cancel that comes too late starts a copy back, so both directions are the wave's.
RUNNING = (Place.MOVING, Place.RETURNING)


def place_of(replica: Replica, move: Move, stored: Stored | None) -> Place:
    """Where a replica is; unknown if the directories were not read."""
    path = stored.log_dirs.get(replica) if stored else None
    if stored is None or path is None:
        return Place.MISSING if stored and replica[2] in stored.reporting else Place.UNKNOWN
    before, after = move
    if replica in stored.moving:
        target, _ = stored.moving[replica]
        if target == after:
            return Place.MOVING
        return Place.RETURNING if (path, target) == (after, before) else Place.OTHER
    return {after: Place.PLANNED, before: Place.OLD}.get(path, Place.OTHER)


def moves_inside(documents: Mapping[str, str]) -> dict[Replica, Move]:
    """The moves of a wave from its documents by file name; none if the wave moves partitions between brokers."""
    if FORWARD not in documents:
        return {}
    before, after = (_named(documents[name]) for name in (BACK, FORWARD))
    return {replica: (before[replica], path) for replica, path in after.items()}


def moves_back(moves: Moves) -> dict[Replica, Move]:
    """The moves that take others back."""
    return {replica: (after, before) for replica, (before, after) in moves.items()}


def _named(text: str) -> dict[Replica, str]:
    """The directories that a reassignment names."""
    return {
        (entry["topic"], entry["partition"], broker): path
        for entry in json.loads(text)["partitions"]
        for broker, path in zip(entry["replicas"], entry["log_dirs"], strict=True)
        if path != ANY_DIR
    }
