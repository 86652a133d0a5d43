"""The parser of benchmark instances."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sources.instance_json import parse, recognises

pytestmark = pytest.mark.all_only

BROKER = {"id": 1, "rack": "r0", "state": "alive", "disk_capacity_mb": 2.0, "nw_in_capacity": 3, "nw_out_capacity": 4}
PARTITION = {
    "topic": "t",
    "partition": 0,
    "replicas": [2, 1],
    "leader": 1,
    "size_mb": 0.5,
    "nw_in_kbps": 2,
    "nw_out_kbps": 0,
}


def _text(*, brokers: list[Any], partitions: list[Any]) -> str:
    return json.dumps({"meta": {"seed": 1}, "brokers": brokers, "partitions": partitions})


def test_units_and_kinds() -> None:
    """Sizes become bytes of 2^20 a MB and 2^10 a kB; each entry becomes its records."""
    records = list(parse(_text(brokers=[BROKER], partitions=[PARTITION])))
    assert [r.kind for r in records] == ["broker", "capacity", "partition", "partition_load"]
    limits, place, load = (dict(r.payload) for r in records[1:])
    assert (limits["disk_bytes"], limits["in_bytes_per_s"], limits["out_bytes_per_s"]) == (2 * 2**20, 3072, 4096)
    assert (place["leader"], place["replicas"], place["isr"]) == (1, [2, 1], [2, 1])
    assert (load["size_bytes"], load["in_bytes_per_s"], load["out_bytes_per_s"]) == (2**19, 2048, 0)


def test_brokers_without_capacity_and_rack() -> None:
    """A broker without capacity fields has no capacity record; without a rack its rack is null."""
    (record,) = parse(_text(brokers=[{"id": 3}], partitions=[]))
    assert (record.kind, record.payload["rack"]) == ("broker", None)


def test_dead_broker_is_not_registered() -> None:
    """A dead broker yields no record; a partition is led by, and in sync on, the living ones."""
    dead = BROKER | {"id": 1, "state": "dead"}
    records = list(parse(_text(brokers=[dead], partitions=[PARTITION, PARTITION | {"replicas": [1]}])))
    places = [r.payload for r in records if r.kind == "partition"]
    assert [(p["leader"], p["isr"]) for p in places] == [(2, [2]), (None, [])]
    assert {r.kind for r in records} == {"partition", "partition_load"}


BROKEN: list[tuple[str, str]] = [
    ("{", "invalid JSON"),
    ("[]", "not a JSON object"),
    ('{"brokers": {}, "partitions": []}', "lists"),
    (_text(brokers=[5], partitions=[]), "not a JSON object"),
    (_text(brokers=[BROKER | {"id": "1"}], partitions=[]), "id = '1'"),
    (_text(brokers=[BROKER | {"disk_capacity_mb": -1}], partitions=[]), "disk_capacity_mb = -1"),
    (_text(brokers=[], partitions=[PARTITION | {"size_mb": 1e30}]), "size_mb = 1e+30"),
    (_text(brokers=[], partitions=[PARTITION | {"size_mb": float("nan")}]), "size_mb = nan"),
    (_text(brokers=[], partitions=[PARTITION | {"topic": 1}]), "topic = 1"),
    (_text(brokers=[], partitions=[PARTITION | {"replicas": "1,2"}]), "replicas = '1,2'"),
    (_text(brokers=[], partitions=[PARTITION | {"partition": None}]), "partition = None"),
]


@pytest.mark.parametrize(("text", "reason"), BROKEN, ids=range(len(BROKEN)))
def test_unreadable_entries_say_why(text: str, reason: str) -> None:
    """An entry that can't be read is one malformed record with its reason."""
    (record,) = parse(text)
    assert record.kind == "malformed"
    assert reason in record.payload["reason"]


def test_recognises() -> None:
    """An instance differs from other JSON by its fields."""
    assert recognises(_text(brokers=[BROKER], partitions=[PARTITION]))
    assert not recognises('{"version": 1, "partitions": []}')
    assert not recognises("Topic: t\tPartition: 0")


@settings(deadline=None)
@given(st.recursive(st.none() | st.booleans() | st.floats() | st.integers() | st.text(), st.lists, max_leaves=5))
def test_never_raises(value: Any) -> None:
    """Any value in any field gives records, never an exception."""
    for name in PARTITION:
        assert list(parse(_text(brokers=[BROKER], partitions=[PARTITION | {name: value}])))
    for name in BROKER:
        list(parse(_text(brokers=[BROKER | {"state": "dead", name: value}], partitions=[])))
