"""One wave of a plan: replica lists before and after, throttles, and the progress on a live cluster."""

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from execution.journal import WaveId
from execution.observed import (
    RUNNING,
    Move,
    Moves,
    Observed,
    Place,
    Replica,
    Throttle,
    TopicPartition,
    moves_back,
    moves_inside,
    place_of,
)
from execution.throttles import Entries, covers, describe, entry, is_list
from optimizer.emit import dir_move_files
from optimizer.emit.log_dir_files import BACK, FORWARD
from optimizer.kafka.throttle import careful_throttles, config_entries
from stored.verdicts import Refused

REASSIGNMENT = "reassignment.json"
ROLLBACK_THROTTLE = "rollback-throttle.json"


class MoveState(StrEnum):
    """Progress of one partition of a wave."""

    NOT_STARTED = "not started"
    IN_FLIGHT = "in flight"
    DONE = "done"
    DELETED = "deleted"
    RECREATED = "deleted and created again"
    OTHER = "unexpected"  # another replica list than before or after the wave


# The plan cannot move these partitions any more.
SKIPPED = (MoveState.DELETED, MoveState.RECREATED, MoveState.OTHER)


@dataclass(frozen=True)
class Wave:
    """One wave of a plan.

    Parameters
    ----------
    number : int
    style : str
        Throttle style: careful or kafka.
    documents : mapping
        Content by file name.
    before, after : mapping of (topic, partition) to brokers
        Replica lists, in order.
    stuck : frozenset of (topic, partition)
        Partitions that Kafka cannot move back: their old list has a dead broker.
    throttles : mapping of (entity type, entity, config) to value
        Throttles that are set while the wave runs.
    previous_throttles : mapping of (entity type, entity, config) to value
        All throttles of the cluster when the plan was made.
    topic_ids : mapping of topic to id
        Topic ids in the plan; None if the plan's inputs have no ids.
    copy_bytes_per_s : int or None
        What the copies have of each rate; the rest is for live replication. None: the wave copies nothing.
    own_rates : mapping of (entity type, entity, config) to values
        Other values that an operator's commands may have given its rates, while it holds the cluster.
    log_dirs : mapping of (topic, partition, broker) to path
        The planned directory of each replica that arrives; Kafka chooses the directory of a replica that is not here.
    inside : mapping of (topic, partition, broker) to (path, path)
        Directories before and after of each replica that moves inside its broker. Such a wave keeps all replica lists.
    copy_bytes : mapping of (topic, partition, broker) to bytes
        Bytes of each copy that skips what is in tiered storage; all other copies have the size of their leader.
    is_rollback : bool
        Whether it takes the wave of this number back.
    """

    number: int
    style: str
    documents: Mapping[str, str]
    before: Mapping[TopicPartition, tuple[int, ...]]
    after: Mapping[TopicPartition, tuple[int, ...]]
    stuck: frozenset[TopicPartition]
    throttles: Mapping[Throttle, str]
    previous_throttles: Mapping[Throttle, str]
    topic_ids: Mapping[str, str | None]
    copy_bytes_per_s: int | None = None
    own_rates: Mapping[Throttle, frozenset[str]] = field(default_factory=dict)
    log_dirs: Mapping[Replica, str] = field(default_factory=dict)
    inside: Moves = field(default_factory=dict)
    copy_bytes: Mapping[Replica, int] = field(default_factory=dict)
    is_rollback: bool = False

    @property
    def id(self) -> WaveId:
        """Its key in the journal."""
        return WaveId(self.number, self.is_rollback)

    def state_of(self, partition: TopicPartition, now: Observed) -> MoveState:
        """Progress of one of its partitions; a move to another list than planned is ``OTHER``."""
        replicas, target = now.replicas.get(partition), now.in_flight.get(partition)
        if replicas is None:
            return MoveState.DELETED
        if self.is_recreated(partition[0], now):
            return MoveState.RECREATED
        if places := {place_of(replica, move, now.stored) for replica, move in self._inside(partition)}:
            is_changed = target is not None or sorted(replicas) != sorted(self.after[partition])
            return MoveState.OTHER if is_changed else _state_inside(places)
        if target is not None:
            return MoveState.IN_FLIGHT if target == self.after[partition] else MoveState.OTHER
        if replicas == self.after[partition]:
            return MoveState.DONE
        # In another order too: so Kafka leaves a move that somebody has cancelled.
        is_before = sorted(replicas) == sorted(self.before[partition])
        return MoveState.NOT_STARTED if is_before else MoveState.OTHER

    def is_recreated(self, topic: str, now: Observed) -> bool:
        """Whether a topic was deleted and created again, as far as ids are known."""
        before, after = self.topic_ids.get(topic), now.topic_ids.get(topic)
        return bool(before and after and before != after)

    def by_state(self, now: Observed) -> dict[MoveState, list[TopicPartition]]:
        """Its partitions by their state; every state is a key."""
        result: dict[MoveState, list[TopicPartition]] = {state: [] for state in MoveState}
        for partition in sorted(self.after):
            result[self.state_of(partition, now)].append(partition)
        return result

    def added(self, partition: TopicPartition) -> list[int]:
        """The brokers that get a replica of a partition."""
        return sorted(set(self.after[partition]) - set(self.before[partition]))

    def targets(self, partition: TopicPartition) -> list[int]:
        """The brokers to which a partition is copied; also those inside which it moves."""
        return sorted({*self.added(partition), *(broker for (_, _, broker), _ in self._inside(partition))})

    def moving(self, now: Observed, *, of_dead: bool = True) -> list[TopicPartition]:
        """Its partitions in flight, also those that somebody has redirected while they still get one of its copies.

        A partition counts if it moves inside its broker in either direction, or if nobody can know whether it moves.

        Parameters
        ----------
        of_dead : bool
            Whether partitions count that may move inside a broker that is not alive.
        """
        between = (
            partition
            for partition, target in now.in_flight.items()
            if (partition in self.after and not set(target).isdisjoint(self.added(partition)))
            or self._is_in_flight(partition, now)
        )
        inside = self.replicas_at(now, *RUNNING, Place.UNKNOWN)
        return sorted({*between, *(replica[:2] for replica in inside if of_dead or replica[2] in now.alive)})

    def replicas_at(self, now: Observed, *places: Place) -> list[Replica]:
        """The replicas of moves inside brokers that are at these places.

        Of skipped partitions only replicas that move between the two directories of the wave: this copy is the wave's.
        """
        found = [
            (replica, place, self.state_of(replica[:2], now))
            for replica, move in sorted(self.inside.items())
            if (place := place_of(replica, move, now.stored)) in places
        ]
        return [
            replica
            for replica, place, state in found
            if state not in SKIPPED or (state is MoveState.OTHER and place in RUNNING)
        ]

    def missing(self, now: Observed) -> list[Replica]:
        """The replicas of moves inside brokers that their brokers do not report, although they should have them."""
        return [
            replica
            for replica, move in sorted(self.inside.items())
            if place_of(replica, move, now.stored) is Place.MISSING
            and self.state_of(replica[:2], now) is MoveState.OTHER
            and sorted(now.replicas[replica[:2]]) == sorted(self.after[replica[:2]])
        ]

    def _inside(self, partition: TopicPartition) -> list[tuple[Replica, Move]]:
        """The moves of a partition inside brokers."""
        replicas = [(*partition, broker) for broker in self.after[partition]] if self.inside else []
        return [(replica, self.inside[replica]) for replica in replicas if replica in self.inside]

    def _is_in_flight(self, partition: TopicPartition, now: Observed) -> bool:
        return partition in self.after and self.state_of(partition, now) is MoveState.IN_FLIGHT

    def skipped(self, now: Observed) -> list[TopicPartition]:
        """Its partitions that the plan cannot move any more."""
        by_state = self.by_state(now)
        return sorted(partition for state in SKIPPED for partition in by_state[state])

    def missing_throttles(self, now: Observed) -> list[str]:
        """Its throttles that are not set as planned, or that could not be read.

        Brokers that are not alive and deleted topics are left out: nobody can set their throttles.
        """
        unknown = [key for key in self._settable(now) if not now.has_configs(*key[:2])]
        lines = [describe(key, self.throttles[key]) for key in self.unset(now)]
        return [
            *lines,
            *(f"{describe(key, self.throttles[key])} (unknown: the broker does not answer)" for key in unknown),
        ]

    def unset(self, now: Observed) -> list[Throttle]:
        """Its throttles that were read and are not set as planned."""
        known = [key for key in self._settable(now) if now.has_configs(*key[:2])]
        return [
            key
            for key in known
            if not covers(key, now.throttles.get(key), self.throttles[key])
            and now.throttles.get(key) not in self.own_rates.get(key, ())
        ]

    def absent_throttles(self, now: Observed) -> list[Throttle]:
        """Its throttles that somebody has removed: a rate without a value, or a list without some of its replicas.

        A different rate does not count: an operator has set it on purpose. Throttles of silent brokers are unknown and
        do not count either.
        """
        return [key for key in self.unset(now) if key not in now.throttles or is_list(key)]

    @property
    def throttled_brokers(self) -> frozenset[int]:
        """Brokers that have rates of this wave."""
        return frozenset(int(name) for kind, name, _ in self.throttles if kind == "brokers")

    def silent_brokers(self, now: Observed) -> frozenset[int]:
        """Brokers without an answer that have replicas or throttles of this wave."""
        brokers = {broker for partition in self.after for broker in self.needed(partition)}
        return now.silent & self.throttled_brokers.union(brokers)

    def needed(self, partition: TopicPartition) -> Collection[int]:
        """The brokers that must be alive to move a partition: its planned replicas, or those inside which it moves."""
        return [broker for (_, _, broker), _ in self._inside(partition)] or self.after[partition]

    def without(self, elements: Mapping[Throttle, Collection[str]]) -> "Wave":
        """The wave with other throttles: these elements are not in its lists."""
        throttles = dict(self.throttles)
        for key in elements.keys() & throttles.keys():
            rest = [each for each in throttles.pop(key).split(",") if each not in elements[key]]
            if rest:
                throttles[key] = ",".join(rest)
        return replace(self, throttles=throttles)

    def with_rates(self, rates: Mapping[Throttle, str]) -> "Wave":
        """The wave with other throttles: these rates."""
        return replace(self, throttles={**self.throttles, **rates})

    def entries(self, now: Observed) -> Entries:
        """Its throttles with the values before them, if the wave begins now."""
        return {
            key: replace(
                entry(key, now.throttles.get(key), wanted, self.previous_throttles.get(key)),
                own=self.own_rates.get(key, frozenset()),
            )
            for key, wanted in self.throttles.items()
        }

    @property
    def new_lists(self) -> dict[TopicPartition, tuple[int, ...]]:
        """The planned lists of its partitions, without those that only move inside brokers."""
        inside = {replica[:2] for replica in self.inside}
        return {partition: brokers for partition, brokers in self.after.items() if partition not in inside}

    @property
    def target_directories(self) -> set[tuple[int, str]]:
        """Broker and directory of each replica that is copied; the directory is empty if Kafka chooses it."""
        inside = {(broker, after) for (_, _, broker), (_, after) in self.inside.items()}
        arriving = {(*partition, broker) for partition in self.after for broker in self.added(partition)}
        return inside | {(replica[2], self.log_dirs.get(replica, "")) for replica in arriving}

    @property
    def copies(self) -> bool:
        """Whether the wave copies any replica."""
        return bool(self.inside) or any(self.added(partition) for partition in self.after)

    def _settable(self, now: Observed) -> list[Throttle]:
        return [(kind, name, config) for kind, name, config in sorted(self.throttles) if now.exists(kind, name)]


NO_WAVE = Wave(0, "", {}, {}, {}, frozenset(), {}, {}, {})  # for what belongs to a plan


def _state_inside(places: Collection[Place]) -> MoveState:
    """The state of a partition by the places of its replicas that move inside brokers."""
    if {Place.OTHER, Place.RETURNING, Place.MISSING}.intersection(places):
        return MoveState.OTHER
    if Place.OLD in places:
        return MoveState.NOT_STARTED
    return MoveState.IN_FLIGHT if {Place.MOVING, Place.UNKNOWN}.intersection(places) else MoveState.DONE


def build_wave(
    number: int, manifest: Mapping[str, Any], documents: Mapping[str, str], irreversible: Iterable[str] = ()
) -> Wave:
    """A wave from the plan's documents.

    Parameters
    ----------
    documents : mapping
        Documents of the wave: content by file name.
    irreversible : iterable of str
        The plan's documents with the old lists of the partitions that Kafka cannot move back.
    """
    inside = moves_inside(documents)
    after = replica_lists([documents[dir_move_files.FORWARD if inside else REASSIGNMENT]])
    stuck = replica_lists(irreversible)
    rollback = replica_lists(
        text
        for name, text in documents.items()
        if name.startswith("rollback") and name not in (ROLLBACK_THROTTLE, BACK)
    )
    style = manifest["throttle_style"]
    data = json.loads(documents.get("throttle.json", "{}"))
    return Wave(
        number=number,
        style=style,
        documents=documents,
        before={partition: rollback[partition] if partition in rollback else stuck[partition] for partition in after},
        after=after,
        stuck=frozenset(partition for partition in after if partition not in rollback),
        throttles={_throttle(row): row["value"] for row in data.get(style, [])},
        previous_throttles={(kind, name, config): value for kind, name, config, value in manifest["throttles_found"]},
        topic_ids=manifest["topic_ids"],
        copy_bytes_per_s=data.get("copy_bytes_per_s"),
        log_dirs=_log_dirs(documents, FORWARD),
        inside=inside,
        copy_bytes={(topic, number, broker): size for topic, number, broker, size in manifest.get("tiered_copies", [])},
    )


def rollback_of(wave: Wave) -> Wave:
    """The wave that takes a wave back: a wave of its own.

    Partitions that Kafka cannot move back are not in it.
    """
    after = {partition: wave.before[partition] for partition in wave.after if partition not in wave.stuck}
    is_of_journal = not wave.documents
    data = json.loads(wave.documents.get(ROLLBACK_THROTTLE, "{}"))
    planned = {_throttle(row): row["value"] for row in data.get(wave.style, [])}
    return replace(
        wave,
        is_rollback=True,
        documents={},
        before={partition: wave.after[partition] for partition in after},
        after=after,
        stuck=frozenset(),
        throttles=_throttles_back(wave, after) if is_of_journal else planned,
        copy_bytes_per_s=wave.copy_bytes_per_s if is_of_journal else data.get("copy_bytes_per_s"),
        own_rates={},
        log_dirs=_log_dirs(wave.documents, BACK),
        inside=moves_back(wave.inside),
    )


def _throttles_back(wave: Wave, back: Mapping[TopicPartition, tuple[int, ...]]) -> dict[Throttle, str]:
    """Throttles of the rollback of a wave whose documents are gone: its lists the other way round, at its rate."""
    if wave.inside:
        return dict(wave.throttles)
    lists = careful_throttles(back, wave.after)
    rate_bytes_per_s = wave.copy_bytes_per_s
    if rate_bytes_per_s is None:
        if lists.brokers:
            raise Refused(
                f"the documents of wave {wave.number} are missing or changed, and it copied nothing, so there is no "
                "rate to take it back with: plan again"
            )
        return {}
    entries = config_entries(lists, rate_bytes_per_s, rate_bytes_per_s)
    return {(kind, name, config): value for kind, name, config, value in entries if value}


def replica_lists(texts: Iterable[str]) -> dict[TopicPartition, tuple[int, ...]]:
    """Replica lists by partition from reassignment documents."""
    return {
        (entry["topic"], entry["partition"]): tuple(entry["replicas"])
        for text in texts
        for entry in json.loads(text)["partitions"]
    }


def _log_dirs(documents: Mapping[str, str], name: str) -> dict[Replica, str]:
    """The directories in one of a wave's documents; none if the plan's brokers have one directory each."""
    replicas = json.loads(documents[name])["replicas"] if name in documents else []
    return {(row["topic"], row["partition"], row["broker"]): row["log_dir"] for row in replicas}


def _throttle(row: Mapping[str, str]) -> Throttle:
    return row["entity_type"], row["entity_name"], row["config"]
