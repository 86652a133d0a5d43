"""Another tool's plan, as its files give it."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

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
    """

    topic: str
    partition: int
    replicas: tuple[int, ...]
    log_dirs: tuple[str, ...] | None
    old_replicas: tuple[int, ...] | None
    place: str

    @property
    def key(self) -> TopicPartition:
        """Topic and partition."""
        return self.topic, self.partition

    @property
    def name(self) -> str:
        """``topic-partition``, as Kafka prints it."""
        return partition_name(self.key)


@dataclass(frozen=True, slots=True)
class PlanFile:
    """What was read from one file.

    Parameters
    ----------
    kind : Kind or None
        None if the file is no plan.
    partitions : tuple of NamedPartition
        In the order of the file, unchecked.
    problems : tuple of str
        Why the file, or entries of it, can't be read.
    """

    kind: Kind | None
    partitions: tuple[NamedPartition, ...] = ()
    problems: tuple[str, ...] = ()


@dataclass(frozen=True)
class TheirPlan:
    """Another tool's plan. Partitions that it does not name keep their replicas.

    Parameters
    ----------
    partitions : mapping of (topic, partition) to NamedPartition
        In the order of the files.
    kinds : mapping of str to Kind
        The format of each file.
    """

    partitions: Mapping[TopicPartition, NamedPartition]
    kinds: Mapping[str, Kind]


def place_of(file: str, line: int, entry: int) -> str:
    """Where an entry is: a file may have all its entries on one line."""
    return f"{file} line {line}, entry {entry}"
