"""Cruise Control's ``partition_load``: sizes and rates of partitions, as JSON (``json=true``) or as a table.

``disk`` is in MB of 2^20 bytes, ``networkInbound`` and ``networkOutbound`` in KB of 2^10 bytes per second. All three
are the leader's. Its outbound rate includes replication: Cruise Control adds the inbound rate once per follower.
The record's outbound rate is without it: only what consumers fetch.

References
----------
``com.linkedin.kafka.cruisecontrol.servlet.response.PartitionLoadState``; ``KafkaMetricDef`` (``NW_OUT`` is
``LEADER_BYTES_OUT`` and ``REPLICATION_BYTES_OUT_RATE``) and ``fillInReplicationBytesOut`` of ``MonitorUtils``.
"""

import re
from collections.abc import Iterator
from typing import Any

from sources.capacity_json import KB_BYTES, MB_BYTES
from sources.json_text import JsonDocument, as_json, documents
from sources.record import Record, malformed
from sources.text import broker_ids, is_integer, lines_of, topic_fault, topic_partition

EXPECTED = "Cruise Control partition_load"
REMEDY = "supply the complete response of /partition_load, as JSON (?json=true) or as the table"

_LARGEST = 2**63  # no real size is near it; smaller values that are too large are refused by the quality rules
_RATE_KEY, _TABLE = "networkInbound", "NW_OUT (KB/s)"
_HEADER = re.compile(
    r"[\s>#]*PARTITION\s+LEADER\s+FOLLOWERS\s+CPU \(\S+\)\s+DISK \(MB\)\s+NW_IN \(KB/s\)\s+NW_OUT \(KB/s\)"
    r"\s+MSG_IN \(#/s\)\s*"
)
_AMOUNT = r"\s+([0-9]{1,30}(?:\.[0-9]{1,30})?)"
_ROW = re.compile(
    rf"[\s>#]*(?P<name>\S+)\s+-?[0-9]+\s*\[(?P<followers>[0-9, ]*)\]{_AMOUNT}{_AMOUNT}{_AMOUNT}{_AMOUNT}{_AMOUNT}\s*"
)
# Below the header: a row, complete or cut off.
_LINE_START = re.compile(r"[\s>#]*[A-Za-z0-9._-]+(?:\s+-?[0-9].*|\s*)")


def recognises(text: str) -> bool:
    """Whether the text has the key or the column of the network rate that only this response has."""
    return f'"{_RATE_KEY}"' in text or _TABLE in text


def parse(text: str) -> Iterator[Record]:
    """Yield one record per partition."""
    yield from _parse_json(text)
    yield from _parse_table(text)


def _parse_json(text: str) -> Iterator[Record]:
    for document in documents(text):
        if document.error is not None:
            if _RATE_KEY in document.text:
                yield document.refusal(expected=EXPECTED, remedy=REMEDY)
        elif isinstance(document.value, dict) and _RATE_KEY in document.text and "records" in document.value:
            yield from _entries(document, document.value["records"])


def _entries(document: JsonDocument, entries: Any) -> Iterator[Record]:
    if not isinstance(entries, list):
        yield _malformed(document.line, "'records' is not a list", as_json(entries))
        return
    lines = document.lines_of(_RATE_KEY)
    for entry in entries:
        line = next(lines)
        fields = entry if isinstance(entry, dict) else {}
        amounts = {key: _amount(fields.get(key)) for key in ("disk", _RATE_KEY, "networkOutbound")}
        followers, known = fields.get("followers"), [amount for amount in amounts.values() if amount is not None]
        topic, partition = fields.get("topic"), fields.get("partition")
        fault = topic_fault(topic)
        if fault is None and (not is_integer(partition) or not isinstance(followers, list)):
            fault = f"an entry of {topic} has no integer partition or no list followers"
        if fault is None and len(known) < len(amounts):
            wrong = ", ".join(f"{key} {fields.get(key)!r}" for key, amount in amounts.items() if amount is None)
            fault = f"{topic}-{partition}: not a non-negative number: {wrong}"
        if fault is not None or not isinstance(followers, list):
            yield _malformed(line, fault or "no followers", as_json(entry))
            continue
        yield _record(line, topic, partition, known, followers=len(followers))


def _parse_table(text: str) -> Iterator[Record]:
    inside = False
    for number, line in enumerate(lines_of(text), 1):
        if inside and line.strip():
            match = _ROW.fullmatch(line)
            named = topic_partition(match["name"]) if match else None
            followers = broker_ids(match["followers"]) if match else None
            if match and named and followers is not None:
                amounts = [float(match[group]) for group in (4, 5, 6)]
                yield _record(number, *named, amounts, followers=len(followers))
                continue
            if match or _LINE_START.fullmatch(line):
                yield _malformed(
                    number, "the row does not have the form 'topic-N leader [followers]' and five numbers", line
                )
                continue
        inside = "PARTITION" in line and _TABLE in line
        if inside and not _HEADER.fullmatch(line):
            yield _malformed(number, "the header of the table is damaged", line)


def _amount(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= _LARGEST:
        return None
    return float(value)


def _record(line: int, topic: Any, partition: Any, amounts: list[float], *, followers: int) -> Record:
    """The load; the outbound rate without what the followers fetch."""
    disk, inbound, outbound = amounts
    payload = {
        "topic": topic,
        "partition": partition,
        "size_bytes": round(disk * MB_BYTES),
        "in_bytes_per_s": round(inbound * KB_BYTES),
        "out_bytes_per_s": round(max(0.0, outbound - inbound * followers) * KB_BYTES),
    }
    return Record("partition_load", line, payload)


def _malformed(line: int, reason: str, text: str) -> Record:
    return malformed(line=line, expected=EXPECTED, reason=reason, remedy=REMEDY, text=text)
