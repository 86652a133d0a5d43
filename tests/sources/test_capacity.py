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
        (entry("1", DISK="much"), "disk_bytes 'much'"),
        (entry("1", DISK="1", NW_IN="-5"), "in_bytes_per_s '-5'"),
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
def test_csv_asks_for_the_unit(name: str) -> None:
    """A column of no unit, or of an unknown one, is refused by its name with the units, also beside good columns."""
    for header in (f"broker_id,{name}", f"broker_id,rack,{name}", f"broker_id,disk_gb,{name}"):
        faults = [
            r for r in parse_any(header + "\n1" + ",2" * header.count(",") + "\n", name="x") if r.kind == "malformed"
        ]
        assert [fault.payload["rule"] for fault in faults] == ["known_format"]
        assert f"['{name}'] have no unit" in faults[0].payload["reason"]
        assert "gib, tib" in faults[0].payload["reason"]


def test_a_column_that_means_nothing_is_named() -> None:
    """A name that may be misspelt is a warning at the header's line; what the table also says of brokers is known."""
    (found,) = capacity_csv.unread("broker_id,rack,disk_gib,dsik_gb\n1,a,5,6\n")
    assert (found.line, found.payload["severity"]) == (1, "warning")
    assert found.payload["reason"] == "the columns ['dsik_gb'] are not read"


def test_csv_refuses_bad_rows() -> None:
    """A row with a bad id and a bad number is refused with both."""
    (record,) = capacity_csv.parse("broker_id,disk_gb\nx,-3\n")
    assert (record.kind, record.line) == ("malformed", 2)
    assert all(part in record.payload["reason"] for part in ("'x'", "'-3'"))


@pytest.mark.parametrize(
    "text", ["broker_id,rack\n1,a\n", "topic,broker_id,in_bytes_per_s\n", "broker_id,disk_furlongs\n"]
)
def test_other_tables_hold_no_capacity(text: str) -> None:
    """A table of racks, of metrics, or of an unknown unit isn't taken."""
    assert not capacity_csv.recognises(text)
