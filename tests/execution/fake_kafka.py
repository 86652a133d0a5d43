"""A small cluster that changes like Kafka with KRaft, a table of executions in memory, and kills at every call."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar

from execution.admin import NO_ANSWER, Rights
from execution.observed import Observed, Replica, Stored, Throttle, TopicPartition
from execution.throttles import Setting, covers
from optimizer.kafka.cordon import CORDON, LEAST_METADATA_LEVEL
from stored.tables import Overtaken
from tests.execution.scene import changed

Lists = Mapping[TopicPartition, tuple[int, ...]]
Answer = TypeVar("Answer")
OWN_CHOICE = "/kafka"  # where the cluster creates a replica whose directory was not announced


class Killed(BaseException):
    """The process was killed: no handler of errors runs."""


@dataclass
class Kills:
    """Kills the process at one of its calls.

    Parameters
    ----------
    at : int
        Number of the call, from 0; -1 for none.
    is_after : bool
        Whether the call takes effect first.
    calls : list of (str, bool)
        All calls: their names, and whether they only read.
    """

    at: int = -1
    is_after: bool = False
    calls: list[tuple[str, bool]] = field(default_factory=list)

    def call(self, name: str, action: Callable[[], Answer], *, is_read: bool = False) -> Answer:
        """Do something, unless the process is killed."""
        number = len(self.calls)
        self.calls.append((name, is_read))
        if number == self.at and not self.is_after:
            raise Killed(name)
        result = action()
        if number == self.at:
            raise Killed(name)
        return result


@dataclass
class FakeKafka:
    """A cluster with state; implements ``execution.admin.Admin``.

    Each entity of a change and each partition of a reassignment is a call of its own: a killed process may have sent a
    part of them. While a partition moves its list is the target and then the removed replicas; a cancel removes the
    added ones from this list, so the old replicas come back in another order.

    Parameters
    ----------
    replicas : mapping of (topic, partition) to brokers
    throttles : mapping of throttle to value
    needed : mapping of throttle to value
        Throttles without which nothing may be copied.
    reads : int or None
        Reads of the cluster until a move ends; None: only ``finish`` ends it.
    disks : Stored
        Sizes of replicas and free space; an operator's progress, not the outcome, depends on them.
    dead : set of int
        Brokers that are not alive.
    behind : set of (topic, partition, broker)
        Replicas that are not in sync.
    announced, log_dirs : mapping of (topic, partition, broker) to path
        Directories that brokers remember, and the directory of each replica that has arrived.
    refused_dirs : mapping of (broker, path) to str
        Reasons why brokers take nothing into a directory.
    moved_inside : list of (topic, partition, broker)
        Replicas that were moved inside their brokers.
    is_slow_inside : bool
        Whether moves inside brokers take time; else they have ended at once.
    inside : mapping of (topic, partition, broker) to (path, bytes)
        Those that run: the new directory, and what it has of the replica.
    brokers : frozenset of int
        Brokers that are registered.
    ids : mapping of topic to id
        Ids that differ from the topic's name and ``-id``.
    mute : set of int
        Living brokers that do not report their directories.
    level : int
        Of metadata.version.
    racks : mapping of broker to rack
    quiet : set of int
        Living brokers that do not tell their configs.
    """

    replicas: dict[TopicPartition, tuple[int, ...]]
    throttles: dict[Throttle, str]
    needed: Mapping[Throttle, str]
    kills: Kills
    reads: int | None = None
    leaders: dict[TopicPartition, int] = field(default_factory=dict)
    moves: dict[TopicPartition, tuple[tuple[int, ...], tuple[int, ...]]] = field(default_factory=dict)
    read: dict[TopicPartition, int] = field(default_factory=dict)
    unthrottled: list[str] = field(default_factory=list)
    disks: Stored = field(default_factory=lambda: Stored({}, {}))
    dead: set[int] = field(default_factory=set)
    behind: set[Replica] = field(default_factory=set)
    announced: dict[Replica, str] = field(default_factory=dict)
    log_dirs: dict[Replica, str] = field(default_factory=dict)
    refused_dirs: dict[tuple[int, str], str] = field(default_factory=dict)
    moved_inside: list[Replica] = field(default_factory=list)
    is_slow_inside: bool = False
    inside: dict[Replica, tuple[str, int]] = field(default_factory=dict)
    mute: set[int] = field(default_factory=set)
    kafka_id: str | None = "kafka-id"
    brokers: frozenset[int] = frozenset(range(1, 6))
    ids: dict[str, str | None] = field(default_factory=dict)
    level: int = LEAST_METADATA_LEVEL
    racks: dict[int, str | None] = field(default_factory=dict)
    quiet: set[int] = field(default_factory=set)
    may: frozenset[str] = frozenset(("ALTER", "ALTER_CONFIGS", "DESCRIBE", "DESCRIBE_CONFIGS"))

    def __post_init__(self) -> None:
        self.leaders = {partition: brokers[0] for partition, brokers in self.replicas.items()}

    def observe(self, topics: Collection[str] | None = None) -> Observed:
        """The state; some moves end after it."""
        return self.kills.call("observe", self._observe, is_read=True)

    def rights(self, topics: Collection[str]) -> Rights:
        """What was given."""
        return Rights(self.may, dict.fromkeys(topics, self.may))

    def kafka_cluster_id(self) -> str | None:
        """The id that it was given."""
        return self.kafka_id

    def metadata_level(self) -> int:
        """The level that it was given."""
        return self.level

    def create(self, topic: str, first: int, replicas: Sequence[Sequence[int]], *, validate_only: bool) -> str:
        """No test creates topics here."""
        raise NotImplementedError

    def controllers(self) -> str:
        """One."""
        return "controller:9093"

    def lacks_brokers(self, count: int) -> bool:
        """The controller knows cordons at once."""
        open_brokers = [b for b in self.brokers if self.throttles.get(("brokers", str(b), CORDON)) != "*"]
        return count > len(open_brokers)  # dead ones count: they are registered

    def stored(self, brokers: Collection[int]) -> Stored:
        """The sizes on these brokers."""
        asked = set(brokers) - self.dead - self.mute
        sizes = {key: size for key, size in self.disks.size_bytes.items() if key[2] in asked}
        usable = {broker: size for broker, size in self.disks.usable_bytes.items() if broker in asked}
        directories = {key: size for key, size in self.disks.directories.items() if key[0] in asked}
        paths = {key: path for key, path in self.log_dirs.items() if key in sizes}
        moving = {key: move for key, move in self.inside.items() if key in sizes}
        stored = Stored(sizes, usable, directories, paths, moving, frozenset(asked))
        return self.kills.call("stored", lambda: stored, is_read=True)

    def _observe(self) -> Observed:
        adding = {partition: frozenset(target) - frozenset(old) for partition, (target, old) in self.moves.items()}
        behind = {(*partition, broker) for partition, brokers in adding.items() for broker in brokers} | self.behind
        now = Observed(
            alive=self.brokers - self.dead,
            fenced=self.brokers & self.dead,
            silent=frozenset(self.quiet),
            topic_ids={topic: self.ids.get(topic, f"{topic}-id") for topic, _ in self.replicas},
            replicas=dict(self.replicas),
            in_sync={
                partition: frozenset(b for b in brokers if (*partition, b) not in behind and b not in self.dead)
                for partition, brokers in self.replicas.items()
            },
            leaders=dict(self.leaders),
            in_flight={partition: target for partition, (target, _) in self.moves.items()},
            min_isr={},
            throttles={key: value for key, value in self.throttles.items() if key[2] != CORDON},
            cordoned={int(key[1]): value for key, value in self.throttles.items() if key[2] == CORDON and value},
            racks=self.racks,
            adding=adding,
            kafka_cluster_id=self.kafka_id,
        )
        for partition in list(self.moves):
            self.read[partition] = self.read.get(partition, 0) + 1
            if self.read[partition] == self.reads:
                self.finish(partition)
        return now

    def finish(self, *partitions: TopicPartition) -> None:
        """End these moves; all moves without arguments."""
        for partition in partitions or tuple(self.moves):
            self.replicas[partition], _ = self.moves.pop(partition)
            del self.read[partition]
            if self.leaders[partition] not in self.replicas[partition]:
                self.leaders[partition] = self.replicas[partition][0]

    def shown(self, broker_id: int, keys: Collection[Throttle]) -> Mapping[Throttle, str] | None:
        """All brokers know all values at once."""
        if broker_id in self.quiet:
            return None
        values = {key: value for key, value in self.throttles.items() if key in keys}
        return self.kills.call(f"shown by {broker_id}", lambda: values, is_read=True)

    def alter(self, changes: Mapping[Throttle, Setting]) -> dict[Throttle, str]:
        """Change one entity after another."""
        for entity in sorted({key[:2] for key in changes}):
            of_entity = {key: setting for key, setting in changes.items() if key[:2] == entity}
            self._change(f"alter {' '.join(entity)}", partial(self._alter, of_entity))
        return {}

    def _alter(self, changes: Mapping[Throttle, Setting]) -> None:
        for key, setting in changes.items():
            value = changed(self.throttles.pop(key, None), *setting)
            if value is not None:
                self.throttles[key] = value

    def reassign(self, lists: Mapping[TopicPartition, Sequence[int] | None]) -> dict[TopicPartition, str]:
        """Start or cancel one move after another."""
        for partition, brokers in sorted(lists.items()):
            name = f"{'cancel' if brokers is None else 'move'} {partition}"
            self._change(name, partial(self._reassign, partition, brokers))
        return {}

    def announce(self, log_dirs: Mapping[Replica, str]) -> dict[Replica, str]:
        """Each broker remembers the directories of replicas that it has not yet, and moves the others."""
        refused: dict[Replica, str] = {}
        for broker in sorted({broker for _, _, broker in log_dirs}):
            of_broker = {replica: path for replica, path in log_dirs.items() if replica[2] == broker}
            self.kills.call(f"announce to {broker}", partial(self._announce, of_broker, refused))
        return refused

    def _announce(self, log_dirs: Mapping[Replica, str], refused: dict[Replica, str]) -> None:
        for replica, path in log_dirs.items():
            if replica[2] in self.dead:
                refused[replica] = NO_ANSWER
            elif (replica[2], path) in self.refused_dirs:
                refused[replica] = self.refused_dirs[replica[2], path]
            elif replica[2] in self.replicas[replica[:2]] and self.is_slow_inside:
                self._move_inside(replica, path)
            elif replica[2] in self.replicas[replica[:2]]:
                self.log_dirs[replica] = path
                self.moved_inside.append(replica)
            else:
                self.announced[replica] = path

    def _move_inside(self, replica: Replica, path: str) -> None:
        """Start a move; a move to the directory where the replica is drops the copy."""
        if path == self.log_dirs[replica]:
            self.inside.pop(replica, None)
        elif self.inside.get(replica, ("", 0))[0] != path:
            self.inside[replica] = path, 0
            self._check_throttles(f"move {replica} to {path}")

    def copy_inside(self, replica: Replica, gain_bytes: int) -> None:
        """Copy a part of a replica that moves; with all bytes it is in the new directory."""
        path, done_bytes = self.inside[replica]
        self.inside[replica] = path, min(done_bytes + gain_bytes, self.disks.size_bytes[replica])
        if self.inside[replica][1] == self.disks.size_bytes[replica]:
            del self.inside[replica]
            self.log_dirs[replica] = path
            self.moved_inside.append(replica)

    def restart(self, broker: int) -> None:
        """A broker forgets what was announced."""
        self.announced = {replica: path for replica, path in self.announced.items() if replica[2] != broker}

    def _reassign(self, partition: TopicPartition, brokers: Sequence[int] | None) -> None:
        if brokers is None:
            if partition in self.moves:
                target, old = self.moves.pop(partition)
                self.read.pop(partition, None)
                added = set(target) - set(old)
                self.replicas[partition] = tuple(b for b in self.replicas[partition] if b not in added)
            return
        old, target = self.replicas[partition], tuple(brokers)
        assert partition not in self.moves, "another list over a running move gets stuck"
        if set(target) <= set(old) <= set(target):
            self.replicas[partition] = target
            return
        self.replicas[partition] = (*target, *(broker for broker in old if broker not in target))
        self.moves[partition], self.read[partition] = (target, old), 0
        for broker in set(target) - set(old):
            replica = (*partition, broker)
            self.log_dirs[replica] = self.announced.pop(replica, OWN_CHOICE)

    def elect(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, str]:
        """The first replica leads."""

        def act() -> None:
            self.leaders.update({partition: self.replicas[partition][0] for partition in partitions})

        self.kills.call("elect", act)
        return {}

    def _change(self, name: str, action: Callable[[], None]) -> None:
        """Change something, and check that copies run only under throttles."""

        def act() -> None:
            action()
            self._check_throttles(name)

        self.kills.call(name, act)

    def _check_throttles(self, name: str) -> None:
        missing = [key for key, value in self.needed.items() if not covers(key, self.throttles.get(key), value)]
        movers = {str(broker) for _, _, broker in self.inside if broker not in self.dead}
        if missing and (self.moves or movers.intersection(key[1] for key in missing)):
            self.unthrottled.append(f"{name}: {missing}")


@dataclass
class MemoryWarehouse:
    """The table ``executions`` in memory, and the waves and approvals of a plan."""

    folder: Path
    kills: Kills
    stored: list[dict[str, Any]] = field(default_factory=list)
    waves: list[dict[str, Any]] = field(default_factory=list)
    approvals: list[dict[str, Any]] = field(default_factory=list)
    documents: list[dict[str, Any]] = field(default_factory=list)

    @property
    def path(self) -> str:
        """The folder."""
        return str(self.folder)

    def version(self, table: str, *, creates: bool = True) -> int:
        """The number of appends."""
        assert table == "executions"
        return len(self.stored)

    def rows(self, table: str, **equal: Any) -> list[dict[str, Any]]:
        """Rows with these values."""
        stored = {"executions": self.stored, "waves": self.waves, "approvals": self.approvals}
        stored["documents"] = self.documents
        return [row for row in stored[table] if all(row[name] == value for name, value in equal.items())]

    def table(self, table: str, *, columns: Sequence[str], version: int | None, **equal: Any) -> Any:
        """Some columns of these rows; all by default."""
        rows = [{name: row[name] for name in columns or row} for row in self.rows(table, **equal)]
        return SimpleNamespace(to_pylist=lambda: rows)

    def append(self, table: str, rows: Sequence[Mapping[str, Any]], *, after: int) -> None:
        """Add rows, if nobody else has added any since."""

        def act() -> None:
            if after != self.version(table):
                raise Overtaken(table)
            self.stored.extend(dict(row) for row in rows)

        self.kills.call(f"append {rows[0]['event']}", act)
