"""Capacities: Cruise Control's three formats and CSV."""

import json
from typing import Any

import pytest

from sources import capacity_csv, capacity_json
from sources.detect import parse_any
from sources.record import Record

MIB, KIB = 2**20, 2**10
KEYS = ("broker_id", "log_dir", "disk_bytes", "in_bytes_per_s", "out_bytes_per_s")


def values(record: Record) -> tuple[Any, ...]:
    """The fields of a capacity."""
    return tuple(record.payload[key] for key in KEYS)


def entry(broker: Any, **capacity: Any) -> str:
    """A capacity file with one entry."""
    return json.dumps({"brokerCapacities": [{"brokerId": broker, "capacity": capacity, "doc": "x"}]})


ENTRIES = [
    (
        entry("-1", DISK="100000", CPU="100", NW_IN="10000", NW_OUT="20000"),
        [(-1, None, 100000 * MIB, 10000 * KIB, 20000 * KIB)],
    ),
    (entry(0, DISK=5, CPU={"num.cores": "8"}, NW_IN=1.5, NW_OUT=0), [(0, None, 5 * MIB, 1536, 0)]),
    (entry("3", CPU="100"), [(3, None, None, None, None)]),
    (
        entry("1", DISK={"/a": "250", "/b": "50"}, CPU="100", NW_IN="1", NW_OUT="2"),
        [(1, None, None, KIB, 2 * KIB), (1, "/a", 250 * MIB, None, None), (1, "/b", 50 * MIB, None, None)],
    ),
]


@pytest.mark.parametrize(("text", "expected"), ENTRIES)
def test_cruise_control(text: str, expected: list[tuple[Any, ...]]) -> None:
    """Numbers as text or not, cores or percent, one disk or several: bytes and bytes per second."""
    assert capacity_json.recognises(text)
    assert [values(record) for record in capacity_json.parse(text)] == expected


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (entry("x", DISK="1"), "no integer 'brokerId'"),
        (entry("1", DISK="much"), "DISK 'much'"),
        (entry("1", DISK="1", NW_IN="-5"), "NW_IN '-5'"),
        (entry("1", DISK={"/a": None}), "/a None"),
        ('{"brokerCapacities":{}}', "not a list"),
        ('{"brokerCapacities":[\n{"brokerId":"1",}]}', "line 2, column"),
    ],
)
def test_cruise_control_refuses(text: str, reason: str) -> None:
    """A broken entry is refused by its field, broken JSON by its position."""
    (record,) = capacity_json.parse(text)
    assert record.kind == "malformed"
    assert reason in record.payload["reason"]


JBOD = {"/a": "4000000000000", "/b": "500000"}
IN_ANOTHER_UNIT = [
    # A file, how it writes its numbers, and what is doubtful of them.
    (entry("1", DISK="4000000000000"), "DISK 4000000000000 MB", "4,190 PB: the value is probably in bytes (4.00 TB)"),
    (
        entry("1", DISK=3.9e9),
        "DISK 3900000000.0 MB",
        "4.09 PB: the value is probably in kB (3.90 TB) or in bytes (3.90 GB)",
    ),
    (entry("1", DISK="500000"), "DISK 500000 MB", None),
    (
        entry("1", NW_IN="125000000"),
        "NW_IN 125000000 KB/s",
        "128 GB/s: the value is probably in bytes (125 MB/s)",
    ),
    (entry("1", NW_OUT="1250000"), "NW_OUT 1250000 KB/s", None),
    (entry("1", DISK="9" * 25), f"DISK {'9' * 25} MB", "PB"),
    (
        "broker_id,disk_gb\n1,4000000\n",
        "disk_gb 4000000",
        "4.00 PB: the value is probably in MB (4.00 TB) or in kB (4.00 GB)",
    ),
    ("broker_id,disk_tib\r\n1,8\r\n", "disk_tib 8", None),
    ("broker_id,disk_bytes,in_mb_per_s\n1,4000,1000000\n", "disk_bytes 4000, in_mb_per_s 1000000", "in kB (1.00 GB/s)"),
    ("broker_id,disk_bytes,rack\n1,2000000000000000,a\n", "disk_bytes 2000000000000000", "would be 2.00 PB"),
]


@pytest.mark.parametrize(("text", "as_written", "doubt"), IN_ANOTHER_UNIT)
def test_an_implausible_number_is_reported_with_its_likely_unit(text: str, as_written: str, doubt: str | None) -> None:
    """A number that is too large is reported as written in the file, with the smaller units that are plausible."""
    (record,) = (r for r in parse_any(text, name="x") if r.kind == "capacity")
    assert record.payload["as_written"] == as_written
    reported = record.payload["doubt"]
    assert reported is None if doubt is None else doubt in reported


def test_each_directory_is_checked() -> None:
    """A single directory in another unit is reported."""
    records = [*capacity_json.parse(entry("1", DISK=JBOD))]
    assert [(r.payload["as_written"], r.payload["doubt"] is None) for r in records] == [
        (None, True),
        ("DISK /a 4000000000000 MB", False),
        ("DISK /b 500000 MB", True),
    ]


CSVS = [
    ("broker_id,disk_bytes\n1,5\n", [(1, None, 5, None, None)]),
    ("broker_id,disk_mb,in_kb_per_s,out_kib_per_s\n1,5,6,7\n", [(1, None, 5_000_000, 6000, 7168)]),
    ("id;disk_gib;log_dir\ndefault;1;/a\n2;;/b\n", [(-1, "/a", 2**30, None, None), (2, "/b", None, None, None)]),
    ("broker,disk_tb\n-1,1.5\n", [(-1, None, 1_500_000_000_000, None, None)]),
]


@pytest.mark.parametrize(("text", "expected"), CSVS)
def test_csv(text: str, expected: list[tuple[Any, ...]]) -> None:
    """The unit is in the column's name: decimal for kb, mb, gb, binary for kib, mib, gib."""
    assert capacity_csv.recognises(text)
    assert [values(record) for record in capacity_csv.parse(text)] == expected


@pytest.mark.parametrize("name", ["disk", "size", "disk_capacity", "disk_pb", "in", "in_per_s", "out_mbps", "capacity"])
def test_csv_needs_a_unit(name: str) -> None:
    """A column without a known unit is refused by name, with the list of units, also next to good columns."""
    for header in (f"broker_id,{name}", f"broker_id,rack,{name}", f"broker_id,disk_gb,{name}"):
        faults = [
            r for r in parse_any(header + "\n1" + ",2" * header.count(",") + "\n", name="x") if r.kind == "malformed"
        ]
        assert [fault.payload["rule"] for fault in faults] == ["known_format"]
        assert f"['{name}'] have no unit" in faults[0].payload["reason"]
        assert "gib, tib" in faults[0].payload["reason"]


def test_an_unknown_column_is_a_warning() -> None:
    """The warning is at the header's line; columns about brokers are known."""
    (record,) = capacity_csv.unknown_columns("broker_id,rack,disk_gib,dsik_gb\n1,a,5,6\n")
    assert (record.line, record.payload["severity"]) == (1, "warning")
    assert record.payload["reason"] == "the columns ['dsik_gb'] are unknown and are ignored"


def test_csv_refuses_bad_rows() -> None:
    """A row with a bad id and a bad number is refused with both."""
    (record,) = capacity_csv.parse("broker_id,disk_gb\nx,-3\n")
    assert (record.kind, record.line) == ("malformed", 2)
    assert all(part in record.payload["reason"] for part in ("'x'", "'-3'"))


@pytest.mark.parametrize(
    "text", ["broker_id,rack\n1,a\n", "topic,broker_id,in_bytes_per_s\n", "broker_id,disk_furlongs\n"]
)
def test_other_tables_have_no_capacity(text: str) -> None:
    """A table of racks, of metrics, or of an unknown unit is not recognised."""
    assert not capacity_csv.recognises(text)
