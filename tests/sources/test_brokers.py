"""Brokers and racks: broker-api-versions, kcat in both forms, ZooKeeper, CSV."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sources import broker_api_versions, brokers_csv, cluster_endpoints, kcat_json, kcat_text, zookeeper_brokers
from sources.detect import parse_any
from sources.record import Record

FIXTURES = Path(__file__).parents[1] / "fixtures" / "sources"


def payloads(records: Iterator[Record], *keys: str) -> list[tuple[Any, ...]]:
    """The requested fields of all records."""
    return [tuple(record.payload[key] for key in keys) for record in records]


KEYS = ("broker_id", "host", "port", "rack", "fenced")
API_LINES = [
    ("h:9092 (id: 13 rack: eu-1a isFenced: false) -> (", (13, "h", 9092, "eu-1a", False)),
    ("h:9092 (id: 13 rack: eu-1a isFenced: true) -> (", (13, "h", 9092, "eu-1a", True)),
    ("h:9092 (id: 0 rack: null) -> (", (0, "h", 9092, None, None)),
    ("h:9092 (id: 1 rack: DC 1 a isFenced: false) -> (", (1, "h", 9092, "DC 1 a", False)),
    ("h:9092 (id: 1 rack: DC 1 a) -> (", (1, "h", 9092, "DC 1 a", None)),
    ("h:9092 (id: 1 rack: hall (north) isFenced: true) -> (", (1, "h", 9092, "hall (north)", True)),
    ("h:9092 (id: 1 rack: hall (north)) -> (", (1, "h", 9092, "hall (north)", None)),
    ("h:9092 (id: 1 rack: (a)) -> (", (1, "h", 9092, "(a)", None)),
    ("h:9092 (id: 1 rack:  isFenced: false) -> (", (1, "h", 9092, "", False)),
    ("h:9092 (id: 1 rack: ) -> (", (1, "h", 9092, "", None)),
    ("h:9092 (id: 1 rack:) -> (", (1, "h", 9092, "", None)),
    ("h:9092 (id: 1 rack: a -> b) -> (", (1, "h", 9092, "a -> b", None)),
]


@pytest.mark.parametrize(("line", "expected"), API_LINES)
def test_broker_api_versions(line: str, expected: tuple[Any, ...]) -> None:
    """Old and new lines give id, host, port, rack and whether the broker is fenced."""
    text = f"{line}\n\tProduce(0): 0 to 13 [usable: 13],\n)\n"
    assert broker_api_versions.recognises(text)
    assert payloads(broker_api_versions.parse(text), "broker_id", "host", "port", "rack", "fenced") == [expected]


def test_a_broker_that_does_not_answer_is_named() -> None:
    """It is registered, so it is read; a warning has its address and the error, and the other brokers are read too."""
    line = "a.b.example:9092 (id: 1001 rack: r) -> ERROR: org.apache.kafka.common.errors.DisconnectException"
    broker, silent, next_broker = broker_api_versions.parse(f"{line}\nh:9092 (id: 2 rack: null) -> (\n)\n")
    assert (broker.payload["broker_id"], next_broker.payload["broker_id"]) == (1001, 2)
    assert (silent.payload["rule"], silent.payload["severity"]) == ("tool_error", "warning")
    assert silent.payload["reason"] == "broker 1001 at a.b.example:9092 did not answer: DisconnectException"


@pytest.mark.parametrize("rack", ["DC 1 a", "hall (north)", ""])
def test_a_broker_with_any_rack_that_does_not_answer_is_named(rack: str) -> None:
    """The rack ends where the tool's answer begins."""
    line = f"h:9092 (id: 7 rack: {rack} isFenced: false) -> ERROR: org.apache.kafka.common.errors.TimeoutException"
    broker, silent = broker_api_versions.parse(line)
    assert (broker.payload["broker_id"], broker.payload["rack"]) == (7, rack)
    assert silent.payload["reason"] == "broker 7 at h:9092 did not answer: TimeoutException"


def test_broker_api_versions_refuses_a_broken_line() -> None:
    """A line with a broker's id but without host and port is refused with its line number."""
    (record,) = broker_api_versions.parse("\n (id: x rack: r) -> (")
    assert (record.kind, record.line) == ("malformed", 2)


@pytest.mark.parametrize(
    ("line", "refused"), [("h:9092 (id=13 rack: r isFenced: false)", [("malformed", 2)]), ("h:9092 (attempt 2)", [])]
)
def test_only_a_broken_line_with_a_brokers_label_is_refused(line: str, refused: list[tuple[str, int]]) -> None:
    """``isFenced:`` marks a broker's line, even if the rest is broken; an address alone does not."""
    records = broker_api_versions.parse(f"\n{line}\n\nh:9093 (id: 2 rack: r) -> (\n)\n")
    assert [(record.kind, record.line) for record in records] == [*refused, ("broker", 4)]


HEADER = "ID         HOST      PORT       RACK STATE      ENDPOINT_TYPE  "
ENDPOINTS = [
    # Values are padded to the longest of their column, not to its name.
    ("1          b-1.x     9092       a unfenced   broker         ", (1, "b-1.x", 9092, "a", False)),
    ("5          b-1.x     9092       a fenced     broker         ", (5, "b-1.x", 9092, "a", True)),
    ("5          b-1.x     9092       null       fenced     broker", (5, "b-1.x", 9092, None, True)),
    ("5          b-1.x     9092            fenced     broker", (5, "b-1.x", 9092, "", True)),
    ("5          b-1.x     9092       hall (north) 2 unfenced   broker\r", (5, "b-1.x", 9092, "hall (north) 2", False)),
    ("> 5 b-1.x -1 a unfenced broker", (5, "b-1.x", -1, "a", False)),
]


@pytest.mark.parametrize(("line", "expected"), ENDPOINTS)
def test_cluster_endpoints(line: str, expected: tuple[Any, ...]) -> None:
    """A line gives id, host, port, rack and whether the broker is fenced, also without the header."""
    for text in (f"$ kafka-cluster.sh list-endpoints\n{HEADER}\n{line}\n$ exit 0\n", f"{line}\n"):
        assert payloads(iter(parse_any(text, name="x")), *KEYS) == [expected]


@pytest.mark.parametrize("rack", ["a", "null", "fenced", "DC 1 a", ""])
def test_cluster_endpoints_without_a_state(rack: str) -> None:
    """Without the column STATE the state is unknown, and a rack may have any name."""
    text = f"{HEADER.replace('STATE', '')}\n5          b-1.x     9092       {rack} broker         \n"
    expected = (5, "b-1.x", 9092, None if rack == "null" else rack, None)
    assert payloads(iter(parse_any(text, name="x")), *KEYS) == [expected]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (HEADER, "no broker line follows"),
        (f"{HEADER}\n5 b-1.x 9092 a unfen", "columns 'ID HOST"),
        (f"{HEADER}\n5 b-1.x", "columns 'ID HOST"),
        (f"{HEADER}\n5 b-1.x 9092 a broker", "columns 'ID HOST"),
        (f"{HEADER}\n-1 b-1.x 9092 a unfenced broker", "columns 'ID HOST"),
        ("1 h 9092 a unfenced broker 2 h 9092 b unfenced broker", "columns 'ID HOST"),
        (f"{HEADER.replace('STATE', 'ST')}\n", "the header is damaged"),
    ],
)
def test_damaged_cluster_endpoints_are_refused(text: str, reason: str) -> None:
    """A line or a header that is cut off, or joined with the next line, is refused."""
    (record,) = cluster_endpoints.parse(text)
    assert record.kind == "malformed"
    assert reason in record.payload["reason"]


def test_endpoints_of_controllers_are_no_brokers() -> None:
    """A list of controllers gives no broker, but one warning with the option that lists brokers."""
    lines = "".join(f"{i} c-{i} 9093 null controller\n" for i in (3000, 3001))
    (record,) = cluster_endpoints.parse(f"ID HOST PORT RACK ENDPOINT_TYPE\n{lines}")
    assert (record.payload["rule"], record.payload["severity"]) == ("known_format", "warning")
    assert "the output lists 2 controllers (3000, 3001)" in record.payload["reason"]
    assert "--bootstrap-server" in record.payload["remedy"]


KCAT = {
    "originating_broker": {"id": 1, "name": "h1:9092/1"},
    "query": {"topic": "*"},
    "controllerid": 2,
    "brokers": [{"id": 1, "name": "h1:9092"}, {"id": 2, "name": "ssl://h2.example:9093"}],
    "topics": [
        {
            "topic": "a.b",
            "partitions": [
                {"partition": 0, "leader": 1, "replicas": [{"id": 1}, {"id": 2}], "isrs": [{"id": 1}]},
                {"partition": 1, "leader": -1, "error": "x", "replicas": [{"id": 9}], "isrs": []},
            ],
        }
    ],
}


def test_kcat_json() -> None:
    """Brokers with the controller, topics, partitions; a partition with leader -1 has no leader."""
    records = list(kcat_json.parse(json.dumps(KCAT)))
    assert [record.kind for record in records] == ["broker", "broker", "topic", "partition", "partition"]
    assert payloads(iter(records[:2]), "broker_id", "host", "port", "is_controller") == [
        (1, "h1", 9092, False),
        (2, "h2.example", 9093, True),
    ]
    expected = [("a.b", 0, 1, [1, 2], [1]), ("a.b", 1, None, [9], [])]
    assert payloads(iter(records[3:]), "topic", "partition", "leader", "replicas", "isr") == expected


@pytest.mark.parametrize("form", ["json", "text"])
def test_kcat_does_not_show_reassignments(form: str) -> None:
    """Adding and removing replicas are unknown, not empty."""
    records = kcat_json.parse(json.dumps(KCAT)) if form == "json" else kcat_text.parse(KCAT_TEXT)
    described = [record for record in records if record.kind == "partition"]
    assert payloads(iter(described), "adding", "removing") == [(None, None)] * 2


KCAT_FAULTS: list[tuple[dict[str, Any], str]] = [
    ({"brokers": {}}, "'brokers' is not a list"),
    ({"brokers": [{"name": "h:1"}], "topics": []}, "no integer 'id'"),
    ({"brokers": [], "topics": [{"topic": "a b", "partitions": []}]}, "'a b'"),
    ({"brokers": [], "topics": [{"topic": "t"}]}, "'partitions' of t"),
    ({"brokers": [], "topics": [{"topic": "t", "partitions": [{"partition": 0}]}]}, "a partition of t"),
]


@pytest.mark.parametrize(("change", "reason"), KCAT_FAULTS)
def test_kcat_json_refuses_what_it_cannot_read(change: dict[str, Any], reason: str) -> None:
    """The reason names the broken part."""
    records = list(kcat_json.parse(json.dumps(KCAT | {"topics": []} | change)))
    assert any(record.kind == "malformed" and reason in record.payload["reason"] for record in records)


def test_kcat_json_cut_off_has_a_position() -> None:
    """An output that is cut off is refused with line and column."""
    (record,) = kcat_json.parse(json.dumps(KCAT)[:-20])
    assert "line 1, column" in record.payload["reason"]


KCAT_TEXT = """Metadata for all topics (from broker 1: h1:9092/1):
 2 brokers:
  broker 1 at h1:9092
  broker 2 at h2:9093 (controller)
 1 topics:
  topic "a.b" with 3 partitions:
    partition 0, leader 1, replicas: 1,2, isrs: 1,2
    partition 1, leader -1, replicas: 2, isrs: , Broker: Leader not available
    partition 2, leader x, replicas: 2, isrs: 2
"""


def test_kcat_text() -> None:
    """The text form gives the same records; a broken partition is refused."""
    assert kcat_text.recognises(KCAT_TEXT)
    records = list(kcat_text.parse(KCAT_TEXT))
    assert [record.kind for record in records] == ["broker", "broker", "topic", "partition", "partition", "malformed"]
    assert payloads(iter(records[:2]), "broker_id", "port", "is_controller") == [(1, 9092, False), (2, 9093, True)]
    assert payloads(iter(records[3:5]), "leader", "replicas", "isr") == [(1, [1, 2], [1, 2]), (None, [2], [])]
    assert records[5].line == 9


def test_kcat_text_needs_the_topic_above() -> None:
    """A partition without a topic above it is refused."""
    (record,) = kcat_text.parse("    partition 0, leader 1, replicas: 1, isrs: 1")
    assert "there is no valid topic line above" in record.payload["reason"]


def test_zookeeper_session() -> None:
    """Each document has the id of the ``get`` before it; without a plain listener, the endpoint gives host and port."""
    records = zookeeper_brokers.parse((FIXTURES / "zookeeper.txt").read_text())
    expected = [(3, "a.example", 9092, None), (5, "b.example", 9093, "r2")]
    assert payloads(records, "broker_id", "host", "port", "rack") == expected


NODE = '{"jmx_port":-1,"host":"h","port":9092,"version":4,"endpoints":["PLAINTEXT://h:9092"]}'
ID_SOURCES = [
    (f"/brokers/ids/7 {NODE}", "x", 7),
    (f"/brokers/ids/7\n{NODE}", "x", 7),
    (f"Broker 7: {NODE}", "x", 7),
    (f"7\t{NODE}", "x", 7),
    (f"7\n{NODE}", "x", 7),
    ('{"7": ' + NODE + "}", "x", 7),
    ('{"/brokers/ids/7": ' + NODE + "}", "x", 7),
    (NODE, "brokers/ids/7", 7),
    (NODE, "dump/brokers_ids_7.json", 7),
    (NODE, "broker-7.txt", 7),
    (NODE, "7.json", 7),
]


@pytest.mark.parametrize(("text", "name", "expected"), ID_SOURCES)
def test_zookeeper_finds_the_id(text: str, name: str, expected: int) -> None:
    """The id comes from a path, a heading, a key, or the name of the file."""
    assert payloads(zookeeper_brokers.parse(text, name=name), "broker_id", "host") == [(expected, "h")]


@pytest.mark.parametrize(
    ("text", "name"), [(NODE, "znodes-2031.json"), (f"{NODE}\n{NODE}", "broker-7.json"), (NODE, "")]
)
def test_zookeeper_refuses_to_guess_the_id(text: str, name: str) -> None:
    """A number in an unrelated file name, or one file name for two brokers, is not an id."""
    records = list(zookeeper_brokers.parse(text, name=name))
    assert {record.kind for record in records} == {"malformed"}
    assert "id of this broker" in records[0].payload["reason"]


CSVS = [
    ("broker_id,rack,host,port\n1,a,h,9092\n", [(1, "a", "h", 9092)]),
    ("id;rack\n1;a\n2;\n", [(1, "a", None, None), (2, None, None, None)]),
    ("Broker\tHost\tRack\n1\th\tnull\n", [(1, None, "h", None)]),
    ('# made by hand\n\n"broker_id","rack"\n"1","a, b"\n', [(1, "a, b", None, None)]),
    ("rack,broker-id\r\neu west,3\r\n", [(3, "eu west", None, None)]),
]


@pytest.mark.parametrize(("text", "expected"), CSVS)
def test_brokers_csv(text: str, expected: list[tuple[Any, ...]]) -> None:
    """Comma, semicolon or tab, columns in any order, comments and quotes; an empty rack is null."""
    assert brokers_csv.recognises(text)
    assert payloads(brokers_csv.parse(text), "broker_id", "rack", "host", "port") == expected


def test_brokers_csv_flags() -> None:
    """Flags are true, false or unknown."""
    text = "broker_id,rack,fenced,is_controller\n1,a,true,no\n2,a,,1\n"
    assert payloads(brokers_csv.parse(text), "fenced", "is_controller") == [(True, False), (None, True)]


def test_brokers_csv_refuses_bad_rows_and_keeps_the_good_ones() -> None:
    """Every bad row is refused with its line and all its faults."""
    text = "broker_id,rack,host,port,fenced\nx,a,h,99z,maybe\n1,a,h,1,true\n2,a\n"
    bad, good, short = brokers_csv.parse(text)
    assert (bad.line, good.kind, short.line) == (2, "broker", 4)
    assert all(part in bad.payload["reason"] for part in ("'x'", "'99z'", "'maybe'"))
    assert "2 cells, but the header has 5" in short.payload["reason"]


@pytest.mark.parametrize(
    "text", ["", "id", "topic,partition,broker_id,rack\n", "a,b\n1,2\n", "id,id\n1,1\n", "id,name\n1,x\n"]
)
def test_other_tables_are_no_brokers(text: str) -> None:
    """A table without broker ids, or about partitions, is not recognised."""
    assert not brokers_csv.recognises(text)
