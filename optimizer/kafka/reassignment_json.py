"""Format and parse the JSON documents of Kafka's tools, with the same bytes and error messages.

References
----------
org.apache.kafka.tools.reassign.ReassignPartitionsCommand (formatAsReassignmentJson, parsePartitionReassignmentData,
parseExecuteAssignmentArgs), Kafka 4.3.1; org.apache.kafka.tools.LeaderElectionCommand.
"""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from optimizer.errors import KafkaError
from optimizer.kafka.java import (
    hash_map_order,
    integer_hash,
    topic_partition_hash,
    utf16_key,
)
from optimizer.kafka.json_values import as_array, as_int, as_list, as_object, as_string, compact, field, read

TopicPartition = tuple[str, int]
Replica = tuple[str, int, int]
Row = tuple[str, int, Sequence[int], Sequence[str] | None]
H = TypeVar("H", bound=Hashable)

ANY_DIR = "any"
_VERSION = 1  # the only version that Kafka accepts


@dataclass(frozen=True)
class Reassignment:
    """A parsed reassignment document.

    Parameters
    ----------
    replicas : dict
        Target replicas by (topic, partition), in the order of the document.
    log_dirs : dict
        Directory by (topic, partition, broker); replicas without a fixed directory are missing.
    """

    replicas: dict[TopicPartition, list[int]]
    log_dirs: dict[Replica, str]


def partition_name(key: TopicPartition) -> str:
    """``topic-partition``, as Kafka prints it."""
    return f"{key[0]}-{key[1]}"


def partition_order(key: TopicPartition) -> tuple[bytes, int]:
    """Sort key of Kafka's documents: topic in Java's order of strings, then partition as a number."""
    return utf16_key(key[0]), key[1]


def format_reassignment(partitions: Iterable[Row]) -> str:
    """The reassignment JSON as ``--generate`` prints it: sorted, compact, no line end.

    Parameters
    ----------
    partitions : iterable of (topic, partition, replicas, log_dirs)
        ``log_dirs`` is one directory per replica, or None if Kafka may choose ("any").
    """
    entries = [
        {
            "topic": topic,
            "partition": partition,
            "replicas": list(replicas),
            "log_dirs": [ANY_DIR] * len(replicas) if log_dirs is None else list(log_dirs),
        }
        for topic, partition, replicas, log_dirs in sorted(partitions, key=lambda row: partition_order(row[:2]))
    ]
    return compact({"version": _VERSION, "partitions": entries})


def format_topics_to_move(topics: Iterable[str]) -> str:
    """The file for ``--topics-to-move-json-file``: each topic once, sorted."""
    names = sorted(set(topics), key=utf16_key)
    return compact({"version": _VERSION, "topics": [{"topic": name} for name in names]})


def format_leader_election(partitions: Iterable[TopicPartition]) -> str:
    """The file for ``kafka-leader-election.sh --path-to-json-file``: each partition once, sorted."""
    keys = sorted(set(partitions), key=partition_order)
    return compact({"partitions": [{"topic": topic, "partition": partition} for topic, partition in keys]})


def parse_reassignment(text: str) -> Reassignment:
    """Read a reassignment document as ``--execute`` does, with all checks that need no cluster.

    Raises
    ------
    KafkaError
        With Kafka's exception class and message.
    """
    entries, log_dirs = _entries(text)
    if not entries:
        raise _refusal("Partition reassignment list cannot be empty")
    if not all(replicas for _, replicas in entries):
        raise _refusal("Partition replica list cannot be empty")
    repeated = hash_map_order(_repeated([key for key, _ in entries]), topic_partition_hash)
    if repeated:
        names = ",".join(map(partition_name, repeated))
        raise _refusal(f"Partition reassignment contains duplicate topic partitions: {names}")
    repeats = [(key, hash_map_order(_repeated(replicas), integer_hash)) for key, replicas in entries]
    texts = [
        f"{partition_name(key)} contains multiple entries for {','.join(map(str, brokers))}"
        for key, brokers in repeats
        if brokers
    ]
    if texts:
        raise _refusal(f"Partition replica lists may not contain duplicate entries: {'. '.join(texts)}")
    return Reassignment(dict(entries), log_dirs)


def _refusal(message: str) -> KafkaError:
    return KafkaError("AdminCommandFailedException", message)


def _repeated(items: Iterable[H]) -> list[H]:
    """Items that occur more than once, in the order of their second occurrence."""
    items_before: set[H] = set()
    repeated: dict[H, None] = {}
    for item in items:
        if item in items_before:
            repeated[item] = None
        items_before.add(item)
    return list(repeated)


def _check_version(content: dict[str, Any]) -> None:
    version = as_int(content["version"]) if "version" in content else _VERSION
    if version != _VERSION:
        raise KafkaError("AdminOperationException", f"Not supported version field value {version}")


def _entries(text: str) -> tuple[list[tuple[TopicPartition, list[int]]], dict[Replica, str]]:
    content = as_object(read(text))
    _check_version(content)
    entries: list[tuple[TopicPartition, list[int]]] = []
    log_dirs: dict[Replica, str] = {}
    for item in as_array(content.get("partitions", [])):
        key, replicas, directories = _entry(as_object(item))
        entries.append((key, replicas))
        for broker, directory in zip(replicas, directories, strict=True):
            if directory != ANY_DIR:
                log_dirs[*key, broker] = directory
    return entries, log_dirs


def _entry(item: dict[str, Any]) -> tuple[TopicPartition, list[int], list[str]]:
    key = (as_string(field(item, "topic")), as_int(field(item, "partition")))
    replicas = as_list(field(item, "replicas"), as_int)
    directories = as_list(item["log_dirs"], as_string) if "log_dirs" in item else [ANY_DIR] * len(replicas)
    if len(directories) != len(replicas):
        raise _refusal(
            f"Size of replicas list {_list_text(replicas)} is different from size of log dirs list "
            f"{_list_text(directories)} for partition {partition_name(key)}"
        )
    return key, replicas, directories


def _list_text(items: Iterable[object]) -> str:
    """A collection as Java prints it: ``[1, 2]``."""
    return f"[{', '.join(map(str, items))}]"
