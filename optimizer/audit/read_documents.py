"""Read a reassignment document at least as strictly as Kafka does.

References
----------
org.apache.kafka.tools.reassign.ReassignPartitionsCommand.parsePartitionReassignmentData, Kafka 4.3.
"""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from optimizer.audit.claims import Key, Replica, Violation
from optimizer.kafka.reassignment_json import ANY_DIR
from optimizer.units import plural

INT32 = range(-(2**31), 2**31)  # numbers that Kafka's JSON reader accepts as partition or broker


@dataclass(frozen=True, slots=True)
class Entry:
    """One partition of a document, with the directory of each replica; no directories if all are ``any``."""

    key: Key
    replicas: tuple[int, ...]
    log_dirs: tuple[str, ...] = ()

    @property
    def named(self) -> list[tuple[int, str]]:
        """Broker and directory of each replica that has one other than ``any``."""
        return [item for item in zip(self.replicas, self.log_dirs, strict=False) if item[1] != ANY_DIR]


@dataclass(frozen=True, slots=True)
class PlanDocument:
    """The entries of a document, and the violations in its text."""

    label: str
    entries: tuple[Entry, ...]
    violations: tuple[Violation, ...]


class _Unreadable(Exception):
    """Kafka cannot read the text; the message says why."""


def _no_constant(name: str) -> Any:
    raise _Unreadable(f"{name} is not a JSON value")


def _no_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) < len(pairs):
        raise _Unreadable(f"an object names a field twice: {sorted(name for name, _ in pairs)}")
    return content


def _is_int(value: object) -> bool:
    return type(value) is int and value in INT32


def _field(content: Any, name: str, subject: str) -> Any:
    if not isinstance(content, dict):
        raise _Unreadable(f"{subject} is not a JSON object")
    if name not in content:
        raise _Unreadable(f"{subject} lacks {name!r}")
    return content[name]


def _entry(content: Any, subject: str) -> Entry:
    topic = _field(content, "topic", subject)
    partition = _field(content, "partition", subject)
    replicas = _field(content, "replicas", subject)
    if type(topic) is not str or not _is_int(partition):
        raise _Unreadable(f"{subject}: topic {topic!r}, partition {partition!r} must be a string and a 32-bit integer")
    if not isinstance(replicas, list) or not replicas or not all(_is_int(b) for b in replicas):
        raise _Unreadable(f"{subject}: replicas {replicas!r} are not a list of broker ids")
    dirs = content.get("log_dirs")
    if dirs is not None and (not isinstance(dirs, list) or len(dirs) != len(replicas)):
        raise _Unreadable(f"{subject}: log_dirs {dirs!r} do not match {plural(len(replicas), 'replica')}")
    if dirs is not None and not all(type(d) is str for d in dirs):
        raise _Unreadable(f"{subject}: log_dirs {dirs!r} must be strings")
    named = tuple(dirs or ())
    return Entry((topic, partition), tuple(replicas), named if any(path != ANY_DIR for path in named) else ())


def _rows(text: str, field: str) -> list[Any]:
    """The list of a document of version 1, which must not be empty."""
    try:
        content = json.loads(text, parse_constant=_no_constant, object_pairs_hook=_no_repeats)
    except (ValueError, RecursionError) as error:
        raise _Unreadable(f"not JSON: {error}") from error
    version = _field(content, "version", "the document")
    rows = _field(content, field, "the document")
    if type(version) is not int or version != 1:
        raise _Unreadable(f"version {version!r} is not 1")
    if not isinstance(rows, list) or not rows:
        raise _Unreadable(f"{field} must be a list with at least one entry")
    return rows


def _entries(text: str) -> tuple[Entry, ...]:
    return tuple(_entry(row, f"partitions[{i}]") for i, row in enumerate(_rows(text, "partitions")))


def _directory(content: Any, subject: str) -> tuple[Replica, str]:
    topic, partition, broker, path = (
        _field(content, field, subject) for field in ("topic", "partition", "broker", "log_dir")
    )
    if type(topic) is not str or not _is_int(partition) or not _is_int(broker):
        raise _Unreadable(f"{subject}: {topic!r}, {partition!r}, {broker!r} are not a topic, a partition and a broker")
    if type(path) is not str or path == ANY_DIR:
        raise _Unreadable(f"{subject}: log_dir {path!r} must be the path of a directory")
    return (topic, partition, broker), path


def read_document(text: str, *, label: str) -> PlanDocument:
    """Read one reassignment document; an unreadable one has no entries and one violation ``document``."""
    try:
        entries = _entries(text)
    except _Unreadable as error:
        return PlanDocument(label, (), (Violation("document", label, str(error)),))
    return PlanDocument(label, entries, _repeated(entries, label))


def read_log_dirs(text: str, *, label: str) -> tuple[dict[Replica, str], tuple[Violation, ...]]:
    """The directory of each replica in a document of directories; none, and one violation, if it can't be read."""
    try:
        rows = [_directory(row, f"replicas[{i}]") for i, row in enumerate(_rows(text, "replicas"))]
        log_dirs = dict(rows)
        if len(log_dirs) < len(rows):
            [((topic, partition, broker), _)] = Counter(replica for replica, _ in rows).most_common(1)
            raise _Unreadable(f"it names the replica of {topic}-{partition} on broker {broker} twice")
    except _Unreadable as error:
        return {}, (Violation("document", label, str(error)),)
    return log_dirs, ()


def read_parts(texts: str | Sequence[str], *, label: str) -> PlanDocument:
    """Read a document in parts. A partition in two parts is a violation."""
    return join_parts(
        [read_document(text, label=label) for text in ([texts] if isinstance(texts, str) else texts)], label=label
    )


def join_parts(parts: Sequence[PlanDocument], *, label: str) -> PlanDocument:
    """One document of all parts. A partition in two parts is a violation."""
    if len(parts) == 1:
        return parts[0]
    entries = tuple(entry for part in parts for entry in part.entries)
    unreadable = [violation for part in parts if not part.entries for violation in part.violations]
    return PlanDocument(label, entries, (*unreadable, *_repeated(entries, label)))


def _repeated(entries: Sequence[Entry], label: str) -> tuple[Violation, ...]:
    keys: set[Key] = set()
    violations = []
    for entry in entries:
        if entry.key in keys:
            violations.append(Violation("document", name(entry.key), f"{label} names it twice"))
        keys.add(entry.key)
    return tuple(violations)


def read_keys(text: str, *, label: str) -> tuple[list[Key], tuple[Violation, ...]]:
    """The partitions of a document in its order, and its violations; no partitions if it can't be read."""
    try:
        content = json.loads(text, parse_constant=_no_constant, object_pairs_hook=_no_repeats)
        rows = _field(content, "partitions", "the document")
        if not isinstance(rows, list) or not rows:
            raise _Unreadable("partitions must be a list with at least one entry")
        keys = [(_field(row, "topic", f"row {i}"), _field(row, "partition", f"row {i}")) for i, row in enumerate(rows)]
        invalid = [key for key in keys if type(key[0]) is not str or not _is_int(key[1])]
        if invalid:
            raise _Unreadable(f"{invalid[0]!r} is not a topic and partition")
    except (ValueError, RecursionError, _Unreadable) as error:
        return [], (Violation("document", label, str(error)),)
    return keys, ()


def name(key: Key) -> str:
    """The partition as Kafka prints it: topic-partition."""
    return f"{key[0]}-{key[1]}"
