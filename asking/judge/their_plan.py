"""Another tool's plan, as its files give it."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from optimizer.kafka.reassignment_json import TopicPartition, partition_name


class Kind(StrEnum):
    """The format of a file."""

    REASSIGNMENT = "reassignment JSON"
    GENERATE = "output of kafka-reassign-partitions.sh --generate"
    CRUISE_CONTROL = "proposals of Cruise Control"


@dataclass(frozen=True, slots=True)
class NamedPartition:
    """A partition that a plan names.

    Parameters
    ----------
    topic, partition : str, int
    replicas : tuple of int
        The new replica list, in order.
    log_dirs : tuple of str or None
        The directory of each replica, ``any`` where Kafka chooses; None if the file gives no directories.
    old_replicas : tuple of int or None
        The replica list that the tool found; None if the file does not give it.
    place : str
        File, line and entry, for messages.
    old_leader : int or None
        The leader that Cruise Control found.
    """

    topic: str
    partition: int
    replicas: tuple[int, ...]
    log_dirs: tuple[str, ...] | None
    old_replicas: tuple[int, ...] | None
    place: str
    old_leader: int | None = None

    @property
    def key(self) -> TopicPartition:
        """Topic and partition."""
        return self.topic, self.partition

    @property
    def name(self) -> str:
        """``topic-partition``, as Kafka prints it."""
        return partition_name(self.key)


class Inside(NamedTuple):
    """Moves inside brokers that the summary of Cruise Control counts."""

    replicas: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class PlanFile:
    """What was read from one document of a file.

    Parameters
    ----------
    kind : Kind or None
        None if the document is no plan.
    partitions : tuple of NamedPartition
        In the order of the file, unchecked.
    problems : tuple of str
        Why the document, or entries of it, can't be read.
    inside : Inside, optional
    line : int
        The first line of the document.
    """

    kind: Kind | None
    partitions: tuple[NamedPartition, ...] = ()
    problems: tuple[str, ...] = ()
    inside: Inside | None = None
    line: int = 1


@dataclass(frozen=True)
class TheirPlan:
    """Another tool's plan, or one phase of it. Partitions that it does not name keep their replicas.

    Parameters
    ----------
    name : str
        The file, and the line if the file has several plans.
    kind : Kind
    partitions : mapping of (topic, partition) to NamedPartition
        In the order of the file.
    inside : Inside, optional
    """

    name: str
    kind: Kind
    partitions: Mapping[TopicPartition, NamedPartition]
    inside: Inside | None = None


def place_of(file: str, line: int, entry: int) -> str:
    """Where an entry is: a file may have all its entries on one line."""
    return f"{file} line {line}, entry {entry}"
