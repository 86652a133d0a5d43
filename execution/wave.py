"""One wave of a plan: replica lists before and after, throttles, and the progress on a live cluster."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from execution.observed import Observed, Throttle, TopicPartition

REASSIGNMENT = "reassignment.json"


class MoveState(StrEnum):
    """Progress of one partition of a wave."""

    NOT_STARTED = "not started"
    IN_FLIGHT = "in flight"
    DONE = "done"
    DELETED = "deleted"
    OTHER = "unexpected"  # another replica list than before or after the wave


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
    """

    number: int
    style: str
    documents: Mapping[str, str]
    before: Mapping[TopicPartition, tuple[int, ...]]
    after: Mapping[TopicPartition, tuple[int, ...]]
    stuck: frozenset[TopicPartition]
    throttles: Mapping[Throttle, str]
    previous_throttles: Mapping[Throttle, str]

    def state_of(self, partition: TopicPartition, now: Observed) -> MoveState:
        """Progress of one of its partitions; a move to another list than planned is ``OTHER``."""
        replicas, target = now.replicas.get(partition), now.in_flight.get(partition)
        if replicas is None:
            return MoveState.DELETED
        if target is not None:
            return MoveState.IN_FLIGHT if target == self.after[partition] else MoveState.OTHER
        if replicas == self.after[partition]:
            return MoveState.DONE
        return MoveState.NOT_STARTED if replicas == self.before[partition] else MoveState.OTHER

    def by_state(self, now: Observed) -> dict[MoveState, list[TopicPartition]]:
        """Its partitions by their state; every state is a key."""
        result: dict[MoveState, list[TopicPartition]] = {state: [] for state in MoveState}
        for partition in sorted(self.after):
            result[self.state_of(partition, now)].append(partition)
        return result

    def missing_throttles(self, now: Observed) -> list[str]:
        """Its throttles that are not set as planned, or that could not be read.

        Brokers that are not alive and deleted topics are left out: nobody can set their throttles.
        """
        missing = [key for key in self._settable(now) if now.throttles.get(key) != self.throttles[key]]
        unknown = " (unknown: the broker does not answer)"
        return [f"{self._describe(key)}{'' if now.has_configs(*key[:2]) else unknown}" for key in missing]

    def absent_throttles(self, now: Observed) -> list[str]:
        """Its throttles for which the cluster has no value at all.

        A different value does not count: an operator has set it on purpose. Throttles of silent brokers are unknown and
        do not count either.
        """
        absent = [key for key in self._settable(now) if key not in now.throttles]
        return [self._describe(key) for key in absent if now.has_configs(*key[:2])]

    def silent_brokers(self, now: Observed) -> frozenset[int]:
        """Brokers without an answer that have replicas or throttles of this wave."""
        throttled = {int(name) for kind, name, _ in self.throttles if kind == "brokers"}
        return now.silent & throttled.union(*self.after.values())

    @property
    def copies(self) -> bool:
        """Whether the wave adds a replica to any broker."""
        return any(set(after) - set(self.before[partition]) for partition, after in self.after.items())

    def _settable(self, now: Observed) -> list[Throttle]:
        return [(kind, name, config) for kind, name, config in sorted(self.throttles) if now.exists(kind, name)]

    def _describe(self, key: Throttle) -> str:
        return f"{' '.join(key)}={self.throttles[key]}"


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
    after, stuck = replica_lists([documents[REASSIGNMENT]]), replica_lists(irreversible)
    rollback = replica_lists(text for name, text in documents.items() if name.startswith("rollback"))
    style = manifest["throttle_style"]
    throttles = json.loads(documents.get("throttle.json", "{}")).get(style, [])
    return Wave(
        number=number,
        style=style,
        documents=documents,
        before={partition: rollback[partition] if partition in rollback else stuck[partition] for partition in after},
        after=after,
        stuck=frozenset(partition for partition in after if partition not in rollback),
        throttles={_throttle(row): row["value"] for row in throttles},
        previous_throttles={(kind, name, config): value for kind, name, config, value in manifest["throttles_found"]},
    )


def replica_lists(texts: Iterable[str]) -> dict[TopicPartition, tuple[int, ...]]:
    """Replica lists by partition from reassignment documents."""
    return {
        (entry["topic"], entry["partition"]): tuple(entry["replicas"])
        for text in texts
        for entry in json.loads(text)["partitions"]
    }


def _throttle(row: Mapping[str, str]) -> Throttle:
    return row["entity_type"], row["entity_name"], row["config"]
