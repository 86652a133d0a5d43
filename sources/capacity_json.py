"""Capacity files of Cruise Control: plain, with cores, with a disk a directory (JBOD).

Numbers may be text. Broker -1 stands for every broker without an entry of its own. Disk is in MB and network in KB per
second, both powers of 1024: what Cruise Control divides its own byte counts by. A broker with directories yields one
record without directory, for the network, and one a directory, for the disk.

References
----------
``com.linkedin.kafka.cruisecontrol.config.BrokerCapacityConfigFileResolver``; units: ``BYTES_IN_KB`` = 1024 and
``BYTES_IN_MB`` = 1024 * 1024 of its metrics processing.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from sources.capacity_csv import amount, doubt, written
from sources.json_text import JsonDocument, as_json, documents
from sources.record import Record, malformed
from sources.text import integer

EXPECTED = "Cruise Control capacity JSON"
REMEDY = 'an entry is {"brokerId":"0","capacity":{"DISK":"500000","CPU":"100","NW_IN":"50000","NW_OUT":"50000"}}'
MB_BYTES, KB_BYTES = 1024 * 1024, 1024  # bytes in Cruise Control's units
_UNIT_NAMES = {MB_BYTES: "MB", KB_BYTES: "KB/s"}
_NAMES = {"disk_bytes": "DISK", "in_bytes_per_s": "NW_IN", "out_bytes_per_s": "NW_OUT"}


def recognises(text: str) -> bool:
    """Whether the text mentions broker capacities."""
    return "brokerCapacities" in text


def parse(text: str) -> Iterator[Record]:
    """Records of every entry, in order."""
    for document in documents(text):
        if document.error is not None:
            if "brokerCapacities" in document.text:
                yield document.refusal(expected=EXPECTED, remedy=REMEDY)
        elif isinstance(document.value, dict) and "brokerCapacities" in document.value:
            yield from _entries(document, document.value["brokerCapacities"])


def _entries(document: JsonDocument, entries: Any) -> Iterator[Record]:
    if not isinstance(entries, list):
        yield _fault(document.line, "'brokerCapacities' is not a list", entries)
        return
    lines = document.lines_of("brokerId")
    for entry in entries:
        line = next(lines)
        capacity = entry.get("capacity") if isinstance(entry, dict) else None
        broker_id = integer(str(entry.get("brokerId"))) if isinstance(entry, dict) else None
        if broker_id is None or not isinstance(capacity, dict):
            yield _fault(line, "an entry has no integer 'brokerId' or no 'capacity'", entry)
            continue
        yield from _broker(broker_id, capacity, line)


def _broker(broker_id: int, capacity: dict[str, Any], line: int) -> Iterator[Record]:
    disk = capacity.get("DISK")
    by_dir = disk if isinstance(disk, dict) else {}
    asked = {
        "disk_bytes": (None if by_dir else disk, MB_BYTES),
        "in_bytes_per_s": (capacity.get("NW_IN"), KB_BYTES),
        "out_bytes_per_s": (capacity.get("NW_OUT"), KB_BYTES),
    }
    read = {field: _amount(value, unit) for field, (value, unit) in asked.items()}
    faults = [
        f"{_NAMES[field]} {value!r}" for field, (value, _) in asked.items() if read[field] is None and value is not None
    ]
    sizes = {log_dir: _amount(value, MB_BYTES) for log_dir, value in by_dir.items()}
    faults += [f"DISK {log_dir} {by_dir[log_dir]!r}" for log_dir, found in sizes.items() if found is None]
    if faults:
        yield _fault(line, f"broker {broker_id}: {', '.join(faults)} is not a number from 0 up", capacity)
        return
    given = [(_NAMES[field], value, read[field], unit) for field, (value, unit) in asked.items()]
    yield Record("capacity", line, {"broker_id": broker_id, "log_dir": None, **read, **_written(given)})
    for log_dir, size in sizes.items():
        rates = {"in_bytes_per_s": None, "out_bytes_per_s": None}
        told = _written([(f"DISK {log_dir}", by_dir[log_dir], size, MB_BYTES)])
        place = {"broker_id": broker_id, "log_dir": log_dir, "disk_bytes": size}
        yield Record("capacity", line, {**place, **rates, **told})


def _written(given: Sequence[tuple[str, object, int | None, int]]) -> dict[str, str | None]:
    """How the file writes its amounts: (name, value, bytes, bytes of its unit) of each."""
    known = [
        (f"{name} {value} {_UNIT_NAMES[unit]}", size, unit) for name, value, size, unit in given if size is not None
    ]
    doubts = [doubt(name, size, unit=unit, is_disk=unit == MB_BYTES) for name, size, unit in known]
    return written(doubts, [name for name, _, _ in known])


def _amount(value: object, unit: int) -> int | None:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    return amount(str(value), unit=unit)


def _fault(line: int, reason: str, piece: object) -> Record:
    return malformed(line=line, expected=EXPECTED, reason=reason, remedy=REMEDY, text=as_json(piece))
