"""Reassignment JSON as a current assignment: a file, or the "Current" part of what the tool prints.

``{"version":1,"partitions":[{"topic":...,"partition":...,"replicas":[...],"log_dirs":[...]}]}``, with the keys in any
order; ``log_dirs`` and Confluent's ``observers`` are optional. A bare list of such entries, or one entry per line, is
also read (as ``jq`` prints it). A document after "Proposed partition reassignment configuration" is a plan, not a
state: it is skipped. ZooKeeper's ``/admin/reassign_partitions`` (Kafka before 2.6) lists the reassignments in flight,
with their targets only.

The parser does not decide whether a document is the current state; a later stage does. The records say what the text
shows. A *bare* document has no heading, or nothing after it: it may be a plan, a saved rollback, or the first half of
the output of ``--execute``. A *begun* document was printed by ``--execute``: "Save this to use ..." follows it, so its
partitions are being moved to replica lists that it does not name.

References
----------
``org.apache.kafka.tools.reassign.ReassignPartitionsCommand`` (4.3): ``formatAsReassignmentJson``,
``parsePartitionReassignmentData``. Since 4.2 the current assignment names real directories.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from optimizer.units import plural
from sources.json_text import JsonDocument, as_json, documents
from sources.record import Record, malformed
from sources.text import is_integer, topic_fault

EXPECTED = "partition assignment JSON"
REMEDY = 'fix the JSON or remove the file; an entry looks like {"topic":"t","partition":0,"replicas":[1,2]}'
CURRENT = "Current partition replica assignment"
PROPOSED = "Proposed partition reassignment configuration"
# Also the headings of kafka-assigner (SiftScience) and of tools that print the same two documents.
HEADING = re.compile(
    rf"(?P<current>{CURRENT}|^[ \t>#]*(?i:(?:current|old) assignment)[ \t]*:?[ \t]*$)"
    rf"|(?P<proposed>{PROPOSED}|^[ \t>#]*(?i:(?:new|proposed) assignment)[ \t]*:?[ \t]*$)",
    re.MULTILINE,
)
_MARGIN = " \t\n>#"
# ZooKeeper's list of reassignments in flight (Kafka before 2.6): its path, or the banner of zookeeper-shell.sh.
_ZNODE = re.compile(r"(?:/admin/reassign_partitions\b|WatchedEvent )[^\n]*\s*\Z")
_BEGUN = re.compile(r"[\s>#]*(?:Save this to use as|Successfully started)")


def recognises(text: str) -> bool:
    """Whether the text may have replica lists in JSON."""
    return '"replicas"' in text or CURRENT in text


def parse(text: str) -> Iterator[Record]:
    """Yield one record per partition of every current assignment in the text."""
    headings = text.count(CURRENT + "\n")
    for document in documents(text):
        headings -= CURRENT in document.before
        if is_proposed(document):
            continue
        if document.error is not None:
            if "replicas" in document.text and "isrs" not in document.text:
                yield document.refusal(expected=EXPECTED, remedy=REMEDY, rule=None)
        elif _ZNODE.search(document.before):
            yield from map(_as_target, _assignment(document))
        else:
            yield from _assignment(document)
    if headings > 0:
        line = text.count("\n", 0, text.rfind(CURRENT)) + 1
        yield _malformed(line, "no readable JSON follows this line", CURRENT)


def resolve_begun(records: Sequence[Record]) -> list[Record]:
    """The records of one text, with ``begun`` cleared for partitions that a later output in the text describes.

    ``records`` are ascending by line.
    """
    begun = [record for record in records if record.kind == "assignment" and record.payload["begun"]]
    if not begun:
        return list(records)
    described_at: dict[tuple[str, int], int] = {}
    for record in records:
        if record.kind in ("partition", "reassignment"):
            described_at[record.payload["topic"], record.payload["partition"]] = record.line
    return [
        replace(record, payload={**record.payload, "begun": False})
        if record.kind == "assignment"
        and described_at.get((record.payload["topic"], record.payload["partition"]), 0) > record.line
        else record
        for record in records
    ]


def is_proposed(document: JsonDocument) -> bool:
    """Whether the tool printed the document as its proposal."""
    return last_heading(document) == "proposed"


def last_heading(document: JsonDocument) -> str | None:
    """``current`` or ``proposed``: what the last heading above the document says; None without a heading."""
    return next((match.lastgroup for match in reversed([*HEADING.finditer(document.before)])), None)


def document_fault(content: Mapping[str, Any]) -> str | None:
    """Why a decoded document with the key ``partitions`` can't be read, or None if its entries can be."""
    version = content.get("version", 1)
    if version != 1 or isinstance(version, bool):
        return f"format version {version!r} is not supported; the only supported version is 1"
    return None if isinstance(content["partitions"], list) else "'partitions' is not a list"


def has_replicas(entries: list[Any]) -> bool:
    """Whether any entry has a replica list; other documents of Kafka's tools have partitions without them."""
    return any(isinstance(entry, dict) and "replicas" in entry for entry in entries)


def _assignment(document: JsonDocument) -> Iterator[Record]:
    value = document.value
    if isinstance(value, dict) and "partitions" in value and "brokers" not in value and "logDir" not in value:
        fault = document_fault(value)
        if fault is not None:
            yield _malformed(document.line, fault, document.text)
        elif has_replicas(value["partitions"]):
            yield from entry_records(document, value["partitions"])
    elif isinstance(value, dict) and "replicas" in value and "partition" in value:
        yield from entry_records(document, [value])
    elif isinstance(value, list) and has_replicas(value):
        yield from entry_records(document, value)


def entry_records(document: JsonDocument, entries: list[Any]) -> Iterator[Record]:
    """Yield one record per entry, in their order: ``assignment``, or ``malformed`` with the reason."""
    lines = document.lines_of("topic")
    bare = CURRENT not in document.before or not document.after.strip(_MARGIN)
    begun = not bare and _BEGUN.match(document.after) is not None
    for entry in entries:
        line = next(lines) if isinstance(entry, dict) and "topic" in entry else document.line
        fault = _entry_fault(entry)
        if fault is not None:
            yield _malformed(line, fault, entry)
            continue
        payload = {
            "topic": entry["topic"],
            "partition": entry["partition"],
            "replicas": entry["replicas"],
            "log_dirs": entry.get("log_dirs"),
            "observers": entry.get("observers"),
            "bare": bare,
            "begun": begun,
        }
        yield Record("assignment", line, payload)


def _as_target(record: Record) -> Record:
    """The entry as a reassignment in flight of which only the target is known."""
    if record.kind != "assignment":
        return record
    target = {name: record.payload[name] for name in ("topic", "partition", "replicas")}
    return Record("reassignment", record.line, {**target, "adding": None, "removing": None})


def _entry_fault(entry: Any) -> str | None:
    """Why an entry can't be read. Repeated brokers and partitions are no fault here: the quality rules check them."""
    if not isinstance(entry, dict):
        return f"an entry is {str(entry)[:80]!r}, not a JSON object"
    missing = [key for key in ("topic", "partition", "replicas") if key not in entry]
    if missing:
        return f"an entry has no {' and no '.join(repr(key) for key in missing)}"
    topic, partition, replicas, log_dirs = (entry.get(key) for key in ("topic", "partition", "replicas", "log_dirs"))
    if (fault := topic_fault(topic)) is not None:
        return fault
    if not is_integer(partition) or partition < 0:
        return f"partition {str(partition)[:80]!r} of {topic} is not a partition number"
    if not isinstance(replicas, list) or not all(is_integer(broker) for broker in replicas):
        return f"replicas {str(replicas)[:80]!r} of {topic}-{partition} is not a list of broker ids"
    if log_dirs is None:
        return None
    if not isinstance(log_dirs, list) or not all(isinstance(log_dir, str) for log_dir in log_dirs):
        return f"log_dirs of {topic}-{partition} is not a list of paths"
    if len(log_dirs) != len(replicas):
        return f"{topic}-{partition} has {plural(len(replicas), 'replica')} but {len(log_dirs)} log_dirs"
    return None


def _malformed(line: int, reason: str, piece: object) -> Record:
    return malformed(line=line, expected=EXPECTED, reason=reason, remedy=REMEDY, text=as_json(piece))
