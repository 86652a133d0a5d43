"""Cruise Control's partition_load, as JSON and as a table."""

import json
from typing import Any

import pytest

from sources.detect import parse_any

KEYS = ("topic", "partition", "size_bytes", "in_bytes_per_s", "out_bytes_per_s")
MIB, KIB = 2**20, 2**10
TITLES = (
    "PARTITION",
    "LEADER",
    "FOLLOWERS",
    "CPU (%_CORES)",
    "DISK (MB)",
    "NW_IN (KB/s)",
    "NW_OUT (KB/s)",
    "MSG_IN (#/s)",
)
HEADER = "".join(f"{title:>20}" for title in TITLES)


def entry(**changes: Any) -> dict[str, Any]:
    """One record of the response."""
    fields = {"topic": "a.b-1", "partition": 3, "leader": 1, "followers": [2, 3], "cpu": 0.5, "disk": 1000.5}
    return fields | {"networkInbound": 10.0, "networkOutbound": 50.0, "msg_in": 7.0} | changes


def answer(*records: dict[str, Any], **fields: Any) -> str:
    """The complete response."""
    return json.dumps({"records": list(records), "version": 1} | fields)


READ = [
    (answer(entry()), ("a.b-1", 3, 1000.5 * MIB, 10 * KIB, 30 * KIB)),
    # The highest values of a window may come from different samples.
    (answer(entry(networkOutbound=19.0)), ("a.b-1", 3, 1000.5 * MIB, 10 * KIB, 0)),
    (answer(entry(followers=[], disk=0)), ("a.b-1", 3, 0, 10 * KIB, 50 * KIB)),
    (f"HTTP/1.1 200 OK\r\n\r\n{answer(entry())}\r\n", ("a.b-1", 3, 1000.5 * MIB, 10 * KIB, 30 * KIB)),
    (
        f"{HEADER}\n   a.b-1-3    1    [2, 3]   0.5   1000.500  10.000   50.000   7.000\n",
        ("a.b-1", 3, 1000.5 * MIB, 10 * KIB, 30 * KIB),
    ),
    (f"> {HEADER}\r\n> t-0  1[]  0.5  1.0  1.0  2.0  7.0\r\n\r\nbye\r\n", ("t", 0, MIB, KIB, 2 * KIB)),
]


@pytest.mark.parametrize(("text", "expected"), READ)
def test_a_load_is_read(text: str, expected: tuple[Any, ...]) -> None:
    """Sizes and rates in bytes; the outbound rate without replication."""
    (record,) = parse_any(text, name="x")
    assert record.kind == "partition_load"
    assert tuple(record.payload[key] for key in KEYS) == expected


REFUSED = [
    (answer(entry(topic="a b")), "valid topic name"),
    (answer(entry(partition="3")), "has no integer partition"),
    (answer(entry(disk=None)), "a.b-1-3: not a non-negative number: disk None"),
    (answer(entry(disk=-1, networkInbound="x")), "a.b-1-3: not a non-negative number: disk -1, networkInbound 'x'"),
    (answer(entry(followers=2)), "has no integer partition"),
    (json.dumps({"records": entry()}), "is not a list"),
    (answer(entry())[:-20], "line 1, column"),
    (f"{HEADER}\n t-0  1  [2, 3]  0.5  1.0  1.0", "five numbers"),
    (f"{HEADER}\n t-0  1  [2, x]  0.5  1.0  1.0  2.0  7.0\n", "five numbers"),
    (f"{HEADER}\n t  1  [2]  0.5  1.0  1.0  2.0  7.0\n", "five numbers"),
    (f"{HEADER} t-0\n", "the header of the table is damaged"),
]


@pytest.mark.parametrize(("text", "reason"), REFUSED)
def test_a_broken_load_is_refused(text: str, reason: str) -> None:
    """A broken record, line or document is one malformed record with its reason."""
    (record,) = parse_any(text, name="x")
    assert record.kind == "malformed"
    assert reason in record.payload["reason"]
