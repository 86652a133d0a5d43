"""``kafka-log-dirs.sh --describe``: JSON after banner lines; log directories and the replicas in them.

The tool prints no capacity in any release from 1.0 to 4.3, so ``total_bytes`` and ``usable_bytes`` are null here.
Directories of deleted, future and stray logs (``topic-0.<uuid>-delete``) are not replicas and are skipped.

References
----------
``org.apache.kafka.tools.LogDirsCommand`` (3.7 to 4.3), ``kafka.admin.LogDirsCommand`` (1.0 to 3.6): ``formatAsJson``.
``org.apache.kafka.storage.internals.log.LogFileUtils`` (4.0): suffixes of directories.
"""

import re
from collections.abc import Iterator
from typing import Any

from sources.json_text import JsonDocument, as_json, documents
from sources.record import Record, malformed
from sources.text import is_integer, topic_partition

EXPECTED = "kafka-log-dirs.sh --describe JSON"
REMEDY = 'supply the complete, unchanged output: {"version":1,"brokers":[{"broker":...,"logDirs":[...]}]}'

_NOT_A_REPLICA = re.compile(r".*-[0-9]+(?:\.\S+)?-(?:delete|future|stray)", re.DOTALL)


def recognises(text: str) -> bool:
    """Whether the text has the tool's key for log directories."""
    return '"logDir"' in text or '"logDirs"' in text


def parse(text: str) -> Iterator[Record]:
    """Yield log directories, each followed by its replicas, in the order of the text."""
    for document in documents(text):
        value = document.value
        if document.error is not None:
            if "logDir" in document.text:
                yield document.refusal(expected=EXPECTED, remedy=REMEDY)
        elif isinstance(value, dict) and isinstance(value.get("brokers"), list):
            if '"logDirs"' in document.text:
                yield from _brokers(document, value["brokers"])
        elif isinstance(value, dict) and ("logDir" in value or "logDirs" in value):
            reason = "this fragment of the output is not inside its list 'brokers'"
            yield _malformed(document.line, reason, document.text)


def _brokers(document: JsonDocument, brokers: list[Any]) -> Iterator[Record]:
    broker_lines = document.lines_of("broker")
    dir_lines = document.lines_of("logDir")
    replica_lines = document.lines_of("partition")
    for broker in brokers:
        broker_id = broker.get("broker") if isinstance(broker, dict) else None
        log_dirs = broker.get("logDirs") if isinstance(broker, dict) else None
        line = next(broker_lines)
        if not is_integer(broker_id) or not isinstance(log_dirs, list):
            yield _malformed(line, "an entry of 'brokers' has no integer 'broker' or no list 'logDirs'", broker)
            continue
        for entry in log_dirs:
            yield from _directory(broker_id, entry, next(dir_lines), replica_lines)


def _directory(broker_id: int, entry: Any, line: int, replica_lines: Iterator[int]) -> Iterator[Record]:
    if not isinstance(entry, dict) or not isinstance(entry.get("logDir"), str):
        yield _malformed(line, f"an entry of 'logDirs' of broker {broker_id} has no string 'logDir'", entry)
        return
    log_dir, error = entry["logDir"], entry.get("error")
    payload = {
        "broker_id": broker_id,
        "log_dir": log_dir,
        "error": None if error is None else str(error),
        "total_bytes": None,
        "usable_bytes": None,
        "is_cordoned": None,
    }
    yield Record("log_dir", line, payload)
    replicas = entry.get("partitions", [])
    if not isinstance(replicas, list):
        yield _malformed(line, f"'partitions' of {log_dir} on broker {broker_id} is not a list", entry)
        return
    for replica in replicas:
        record = _replica(broker_id, log_dir, replica, next(replica_lines))
        if record is not None:
            yield record


def _replica(broker_id: int, log_dir: str, entry: Any, line: int) -> Record | None:
    """The record of a replica; None for a directory that is not a replica."""
    name = entry.get("partition") if isinstance(entry, dict) else None
    if not isinstance(name, str):
        return _malformed(line, f"an entry of {log_dir} on broker {broker_id} has no 'partition'", entry)
    if _NOT_A_REPLICA.fullmatch(name):
        return None
    named = topic_partition(name)
    if named is None:
        location = f"{name[:80]!r} in {log_dir} on broker {broker_id}"
        reason = f"{location} is not 'topic-partition': there is no number after the last dash"
        return _malformed(line, reason, entry)
    size, lag = _whole(entry.get("size")), _whole(entry.get("offsetLag", 0))
    if size is None:
        return _malformed(
            line, f"the size of {name} on broker {broker_id} is {entry.get('size')!r}, not an integer", entry
        )
    payload = {
        "broker_id": broker_id,
        "log_dir": log_dir,
        "topic": named[0],
        "partition": named[1],
        "size_bytes": size,
        "offset_lag": lag,
        "is_future": entry.get("isFuture") is True,
    }
    return Record("log_dir_replica", line, payload)


def _whole(value: object) -> int | None:
    """The integer value of a JSON number; the quality rules check its range."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return int(str(value)) if is_integer(value) else None


def _malformed(line: int, reason: str, piece: object) -> Record:
    return malformed(line=line, expected=EXPECTED, reason=reason, remedy=REMEDY, text=as_json(piece))
