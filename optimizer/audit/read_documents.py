"""Reading a reassignment document as strictly as Kafka does, or more.

References
----------
org.apache.kafka.tools.reassign.ReassignPartitionsCommand.parsePartitionReassignmentData, Kafka 4.3.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from optimizer.audit.claims import Key, Violation
from optimizer.units import plural

INT32 = range(-(2**31), 2**31)  # numbers that Kafka's JSON reader takes for a partition or broker


@dataclass(frozen=True, slots=True)
class Entry:
    """One partition of a document."""

    key: Key
    replicas: tuple[int, ...]
    plans_directories: bool


@dataclass(frozen=True, slots=True)
class PlanDocument:
    """What one document says, and what is wrong with its text."""

    label: str
    entries: tuple[Entry, ...]
    violations: tuple[Violation, ...]


class _Unreadable(Exception):
    """The text is not what Kafka reads; the message says why."""


def _no_constant(name: str) -> Any:
    raise _Unreadable(f"{name} is no JSON value")


def _no_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) < len(pairs):
        raise _Unreadable(f"an object names a field twice: {sorted(name for name, _ in pairs)}")
    return content


def _is_int(value: object) -> bool:
    return type(value) is int and value in INT32


def _field(content: Any, name: str, where: str) -> Any:
    if not isinstance(content, dict):
        raise _Unreadable(f"{where} is not a JSON object")
    if name not in content:
        raise _Unreadable(f"{where} lacks {name!r}")
    return content[name]


def _entry(content: Any, where: str) -> Entry:
    topic = _field(content, "topic", where)
    partition = _field(content, "partition", where)
    replicas = _field(content, "replicas", where)
    if type(topic) is not str or not _is_int(partition):
        raise _Unreadable(f"{where}: topic {topic!r}, partition {partition!r} are no string and 32-bit integer")
    if not isinstance(replicas, list) or not replicas or not all(_is_int(b) for b in replicas):
        raise _Unreadable(f"{where}: replicas {replicas!r} are not a list of broker ids")
    dirs = content.get("log_dirs")
    if dirs is not None and (not isinstance(dirs, list) or len(dirs) != len(replicas)):
        raise _Unreadable(f"{where}: log_dirs {dirs!r} do not go with {plural(len(replicas), 'replica')}")
    if dirs is not None and not all(type(d) is str for d in dirs):
        raise _Unreadable(f"{where}: log_dirs {dirs!r} are no strings")
    return Entry((topic, partition), tuple(replicas), any(d != "any" for d in dirs or ()))


def _entries(text: str) -> tuple[Entry, ...]:
    try:
        content = json.loads(text, parse_constant=_no_constant, object_pairs_hook=_no_repeats)
    except (ValueError, RecursionError) as error:
        raise _Unreadable(f"no JSON: {error}") from error
    version = _field(content, "version", "the document")
    partitions = _field(content, "partitions", "the document")
    if type(version) is not int or version != 1:
        raise _Unreadable(f"version {version!r} is not 1")
    if not isinstance(partitions, list) or not partitions:
        raise _Unreadable("partitions are not a list, or an empty one, which Kafka refuses")
    return tuple(_entry(p, f"partitions[{i}]") for i, p in enumerate(partitions))


def read_document(text: str, *, label: str) -> PlanDocument:
    """Entries of one reassignment document; an unreadable one has none and one violation ``document``."""
    try:
        entries = _entries(text)
    except _Unreadable as error:
        return PlanDocument(label, (), (Violation("document", label, str(error)),))
    return PlanDocument(label, entries, _twice(entries, label))


def read_parts(texts: str | Sequence[str], *, label: str) -> PlanDocument:
    """One document that was cut into parts: no partition is in two of them."""
    parts = [read_document(text, label=label) for text in ([texts] if isinstance(texts, str) else texts)]
    if len(parts) == 1:
        return parts[0]
    entries = tuple(entry for part in parts for entry in part.entries)
    unreadable = [violation for part in parts if not part.entries for violation in part.violations]
    return PlanDocument(label, entries, (*unreadable, *_twice(entries, label)))


def _twice(entries: Sequence[Entry], label: str) -> tuple[Violation, ...]:
    seen: set[Key] = set()
    twice = []
    for entry in entries:
        if entry.key in seen:
            twice.append(Violation("document", name(entry.key), f"{label} names it twice"))
        seen.add(entry.key)
    return tuple(twice)


def read_keys(text: str, *, label: str) -> tuple[list[Key], tuple[Violation, ...]]:
    """Partitions that a document names, in its order, whatever it says of them; none where it can't be read."""
    try:
        content = json.loads(text, parse_constant=_no_constant, object_pairs_hook=_no_repeats)
        rows = _field(content, "partitions", "the document")
        if not isinstance(rows, list) or not rows:
            raise _Unreadable("partitions are not a list, or an empty one, which Kafka refuses")
        keys = [(_field(row, "topic", f"row {i}"), _field(row, "partition", f"row {i}")) for i, row in enumerate(rows)]
        wrong = [key for key in keys if type(key[0]) is not str or not _is_int(key[1])]
        if wrong:
            raise _Unreadable(f"{wrong[0]!r} is no topic and partition")
    except (ValueError, RecursionError, _Unreadable) as error:
        return [], (Violation("document", label, str(error)),)
    return keys, ()


def name(key: Key) -> str:
    """A partition as Kafka prints it."""
    return f"{key[0]}-{key[1]}"
