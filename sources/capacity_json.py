"""Capacity files of Cruise Control: plain, with cores, or with a capacity per log directory (JBOD).

Numbers may be strings. Broker -1 means every broker without its own entry. Disk is in MB and network in KB per second;
both are powers of 1024, as in Cruise Control's own code. A broker with directories yields one record without a
directory, for the network, and one per directory, for the disk.

References
----------
``com.linkedin.kafka.cruisecontrol.config.BrokerCapacityConfigFileResolver``; units: ``BYTES_IN_KB`` = 1024 and
``BYTES_IN_MB`` = 1024 * 1024 of its metrics processing.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from sources.capacity_csv import amount, origin_fields, unit_doubt
from sources.json_text import JsonDocument, as_json, documents
from sources.record import Record, malformed
from sources.text import integer

EXPECTED = "Cruise Control capacity JSON"
REMEDY = (
    "fix the entry; it should look like "
    '{"brokerId":"0","capacity":{"DISK":"500000","CPU":"100","NW_IN":"50000","NW_OUT":"50000"}}'
)
MB_BYTES, KB_BYTES = 1024 * 1024, 1024  # bytes in Cruise Control's units
_UNIT_NAMES = {MB_BYTES: "MB", KB_BYTES: "KB/s"}
_NAMES = {"disk_bytes": "DISK", "in_bytes_per_s": "NW_IN", "out_bytes_per_s": "NW_OUT"}


def recognises(text: str) -> bool:
    """Whether the text mentions broker capacities."""
    return "brokerCapacities" in text


def parse(text: str) -> Iterator[Record]:
    """Yield the records of every entry, in order."""
    for document in documents(text):
        if document.error is not None:
            if "brokerCapacities" in document.text:
                yield document.refusal(expected=EXPECTED, remedy=REMEDY)
        elif isinstance(document.value, dict) and "brokerCapacities" in document.value:
            yield from _entries(document, document.value["brokerCapacities"])


def _entries(document: JsonDocument, entries: Any) -> Iterator[Record]:
    if not isinstance(entries, list):
        yield _malformed(document.line, "'brokerCapacities' is not a list", entries)
        return
    lines = document.lines_of("brokerId")
    for entry in entries:
        line = next(lines)
        capacity = entry.get("capacity") if isinstance(entry, dict) else None
        broker_id = integer(str(entry.get("brokerId"))) if isinstance(entry, dict) else None
        if broker_id is None or not isinstance(capacity, dict):
            yield _malformed(line, "an entry has no integer 'brokerId' or no 'capacity'", entry)
            continue
        yield from _broker(broker_id, capacity, line)


def _broker(broker_id: int, capacity: dict[str, Any], line: int) -> Iterator[Record]:
    disk = capacity.get("DISK")
    by_dir = disk if isinstance(disk, dict) else {}
    given = {
        "disk_bytes": (None if by_dir else disk, MB_BYTES),
        "in_bytes_per_s": (capacity.get("NW_IN"), KB_BYTES),
        "out_bytes_per_s": (capacity.get("NW_OUT"), KB_BYTES),
    }
    read = {field: _amount(value, unit) for field, (value, unit) in given.items()}
    faults = [
        f"{_NAMES[field]} {value!r}" for field, (value, _) in given.items() if read[field] is None and value is not None
    ]
    sizes = {log_dir: _amount(value, MB_BYTES) for log_dir, value in by_dir.items()}
    faults += [f"DISK {log_dir} {by_dir[log_dir]!r}" for log_dir, size in sizes.items() if size is None]
    if faults:
        yield _malformed(line, f"broker {broker_id}: not a non-negative number: {', '.join(faults)}", capacity)
        return
    amounts = [(_NAMES[field], value, read[field], unit) for field, (value, unit) in given.items()]
    yield Record("capacity", line, {"broker_id": broker_id, "log_dir": None, **read, **_origin_fields(amounts)})
    for log_dir, size in sizes.items():
        rates = {"in_bytes_per_s": None, "out_bytes_per_s": None}
        origin = _origin_fields([(f"DISK {log_dir}", by_dir[log_dir], size, MB_BYTES)])
        capacity_of_dir = {"broker_id": broker_id, "log_dir": log_dir, "disk_bytes": size}
        yield Record("capacity", line, {**capacity_of_dir, **rates, **origin})


def _origin_fields(amounts: Sequence[tuple[str, object, int | None, int]]) -> dict[str, str | None]:
    """The fields ``as_written`` and ``doubt`` of amounts: (name, value, bytes, bytes of its unit)."""
    known = [
        (f"{name} {value} {_UNIT_NAMES[unit]}", size, unit) for name, value, size, unit in amounts if size is not None
    ]
    doubts = [unit_doubt(name, size, unit=unit, is_disk=unit == MB_BYTES) for name, size, unit in known]
    return origin_fields(doubts, [name for name, _, _ in known])


def _amount(value: object, unit: int) -> int | None:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    return amount(str(value), unit=unit)


def _malformed(line: int, reason: str, piece: object) -> Record:
    return malformed(line=line, expected=EXPECTED, reason=reason, remedy=REMEDY, text=as_json(piece))
