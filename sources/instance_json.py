"""A whole instance as one JSON document: the format of the benchmarks (docs/formats.md, ``benchmarks/README.md``).

::

    {"brokers": [{"id", "rack"?, "state"?, "disk_capacity_mb"?, "nw_in_capacity"?, "nw_out_capacity"?}],
     "partitions": [{"topic", "partition", "replicas", "leader"?, "size_mb", "nw_in_kbps", "nw_out_kbps"}],
     "decommission": [ids]?, "meta": {...}?}

Units are binary: 1 MB is 2^20 bytes, 1 kB is 2^10 bytes; network capacities are in kB per second. A broker in state
``dead`` is not registered, so it has no record. ``decommission``, ``draining`` and ``meta`` are ignored: they are
requests, not facts, and belong in the policy.
"""

import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

from sources.record import Record, malformed

EXPECTED = "an instance: a JSON object with brokers and partitions"
MIB, KIB = 2**20, 2**10  # bytes in the MB and KB of an instance
INT64_MAX = 2**63 - 1  # bytes: largest value of a table column


class _InvalidEntry(Exception):
    """An entry can't be read; the message says why."""


def recognises(text: str) -> bool:
    """Whether a text looks like an instance: a JSON object with brokers, partitions and sizes in MB."""
    return text.lstrip()[:1] == "{" and all(f'"{word}"' in text for word in ("brokers", "partitions", "size_mb"))


def parse(text: str) -> Iterator[Record]:
    """Yield records of kind broker, capacity, partition and partition_load; unreadable entries are ``malformed``."""
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        yield _malformed(f"invalid JSON: {error}", text)
        return
    if not isinstance(content, dict) or not all(isinstance(content.get(k), list) for k in ("brokers", "partitions")):
        yield _malformed("the document is not a JSON object with the lists 'brokers' and 'partitions'", text)
        return
    brokers = [b for b in content["brokers"] if isinstance(b, dict)]
    dead = {b["id"] for b in brokers if b.get("state") == "dead" and type(b.get("id")) is int}
    for entry in content["brokers"]:
        yield from _read_entry(_broker, entry, dead)
    for entry in content["partitions"]:
        yield from _read_entry(_partition, entry, dead)


def _malformed(reason: str, text: str) -> Record:
    remedy = "use the format that benchmarks/generate.py writes"
    return malformed(line=0, expected=EXPECTED, reason=reason, remedy=remedy, text=text)


def _read_entry(read: Any, entry: Any, dead: set[int]) -> Iterator[Record]:
    """Records of an entry, or one malformed record if it can't be read."""
    try:
        if not isinstance(entry, dict):
            raise _InvalidEntry("the entry is not a JSON object")
        records = read(entry, dead)
    except _InvalidEntry as error:
        records = [_malformed(str(error), json.dumps(entry))]
    yield from records


def _integer(entry: Mapping[str, Any], name: str) -> int:
    value = entry.get(name)
    if type(value) is not int:
        raise _InvalidEntry(f"{name} = {value!r} is not an integer")
    return value


def _amount(entry: Mapping[str, Any], name: str, unit: int) -> int | None:
    """A quantity in bytes; None where the field is absent or null."""
    value = entry.get(name)
    if value is None:
        return None
    if type(value) not in (int, float) or not math.isfinite(value) or not 0 <= value * unit <= INT64_MAX:
        raise _InvalidEntry(f"{name} = {value!r} is not a number from 0 to {INT64_MAX // unit}")
    return round(value * unit)


def _broker(entry: Mapping[str, Any], dead: set[int]) -> list[Record]:
    broker_id, rack = _integer(entry, "id"), entry.get("rack")
    if broker_id in dead:
        return []
    host = {
        "broker_id": broker_id,
        "host": None,
        "port": None,
        "rack": None if rack is None else str(rack),
        "fenced": None,
        "is_controller": None,
    }
    limits = {
        "disk_bytes": _amount(entry, "disk_capacity_mb", MIB),
        "in_bytes_per_s": _amount(entry, "nw_in_capacity", KIB),
        "out_bytes_per_s": _amount(entry, "nw_out_capacity", KIB),
    }
    records = [Record("broker", 0, host)]
    if any(limit is not None for limit in limits.values()):
        origin = {"as_written": None, "doubt": None}
        records.append(Record("capacity", 0, {"broker_id": broker_id, "log_dir": None, **limits, **origin}))
    return records


def _partition(entry: Mapping[str, Any], dead: set[int]) -> list[Record]:
    topic, number, replicas = entry.get("topic"), _integer(entry, "partition"), entry.get("replicas")
    if type(topic) is not str:
        raise _InvalidEntry(f"topic = {topic!r} is not a string")
    if not isinstance(replicas, list) or not all(type(b) is int for b in replicas):
        raise _InvalidEntry(f"replicas = {replicas!r} is not a list of broker ids")
    in_sync = [b for b in replicas if b not in dead]
    leader = entry.get("leader", -1)
    placement = {
        "topic": topic,
        "partition": number,
        "leader": leader if leader in in_sync else next(iter(in_sync), None),
        "replicas": replicas,
        "isr": in_sync,
        "adding": [],
        "removing": [],
        "offline": None,
        "elr": None,
        "last_known_elr": None,
        "observers": None,
    }
    load = {
        "topic": topic,
        "partition": number,
        "size_bytes": _amount(entry, "size_mb", MIB),
        "in_bytes_per_s": _amount(entry, "nw_in_kbps", KIB),
        "out_bytes_per_s": _amount(entry, "nw_out_kbps", KIB),
    }
    return [Record("partition", 0, placement), Record("partition_load", 0, load)]
