"""``kafka-log-dirs.sh --describe``."""

import json
from pathlib import Path
from typing import Any

import pytest

from sources.log_dirs import parse

FIXTURE = Path(__file__).parents[1] / "fixtures" / "sources" / "log-dirs.txt"


def directory(*partitions: Any) -> str:
    """The tool's JSON with one directory of broker 1."""
    log_dir = {"logDir": "/d", "error": None, "partitions": list(partitions)}
    return json.dumps({"version": 1, "brokers": [{"broker": 1, "logDirs": [log_dir]}]})


def test_banners_several_directories_and_future_replicas() -> None:
    """Two directories and two replicas are read; deleted and stray logs are skipped; a bad name is refused."""
    records = list(parse(FIXTURE.read_text()))
    assert [record.kind for record in records] == [
        "log_dir",
        "log_dir_replica",
        "log_dir_replica",
        "malformed",
        "log_dir",
    ]
    assert {record.line for record in records} == {3}
    first, copy, future, bad, failed = (record.payload for record in records)
    assert (first["broker_id"], first["log_dir"], first["error"], first["total_bytes"]) == (1, "/data/a", None, None)
    assert (copy["topic"], copy["partition"], copy["size_bytes"], copy["is_future"]) == ("team-3", 0, 120, False)
    assert (future["size_bytes"], future["offset_lag"], future["is_future"]) == (60, 9, True)
    assert "'no.number'" in bad["reason"]
    assert failed["error"].endswith("KafkaStorageException")


NAMES = [
    ("t-0", ("t", 0)),
    ("a-b-3-12", ("a-b-3", 12)),
    ("2020.x_y-0", ("2020.x_y", 0)),
    ("x-delete-0", ("x-delete", 0)),
    ("__consumer_offsets-49", ("__consumer_offsets", 49)),
]


@pytest.mark.parametrize(("name", "expected"), NAMES)
def test_topic_and_partition_are_split_at_the_last_dash(name: str, expected: tuple[str, int]) -> None:
    """The number after the last dash is the partition, whatever dashes, dots and digits the topic has."""
    _, replica = parse(directory({"partition": name, "size": 1}))
    assert (replica.payload["topic"], replica.payload["partition"]) == expected


@pytest.mark.parametrize("suffix", ["delete", "future", "stray"])
def test_directories_that_are_not_replicas_are_skipped(suffix: str) -> None:
    """The directory of a deleted, future or stray log gives no record at all."""
    records = parse(directory({"partition": f"t.x-0.{'0' * 32}-{suffix}", "size": 1}))
    assert [record.kind for record in records] == ["log_dir"]


FAULTS = [
    ({"partition": "t", "size": 1}, "no number after the last dash"),
    ({"partition": "a b-0", "size": 1}, "'a b-0'"),
    ({"partition": "t-0", "size": "1"}, "size of t-0"),
    ({"partition": "t-0", "size": 1.5}, "size of t-0"),
    ({"partition": "t-0"}, "size of t-0"),
    ({"partition": 5, "size": 1}, "no 'partition'"),
    ("t-0", "no 'partition'"),
]


@pytest.mark.parametrize(("entry", "reason"), FAULTS)
def test_a_bad_entry_is_refused_with_its_location(entry: Any, reason: str) -> None:
    """The reason names directory and broker; the directory itself is read."""
    log_dir, record = parse(directory(entry))
    assert (log_dir.kind, record.kind) == ("log_dir", "malformed")
    assert reason in record.payload["reason"]
    assert "broker 1" in record.payload["reason"]


@pytest.mark.parametrize("size", [-1, 0, 2**63, 948834981849084900000])
def test_sizes_are_kept_whatever_their_range(size: int) -> None:
    """The parser accepts negative and absurd sizes: the quality rules check them."""
    _, replica = parse(directory({"partition": "t-0", "size": size}))
    assert replica.payload["size_bytes"] == size


def test_a_java_style_number_is_an_integer() -> None:
    """A size in exponent form is read as an integer."""
    _, replica = parse(directory({"partition": "t-0", "size": 1.26257873e8}))
    assert replica.payload["size_bytes"] == 126257873


def test_pretty_json_keeps_the_lines() -> None:
    """In indented JSON each replica has the line of its name."""
    text = "banner\n" + json.dumps(
        json.loads(directory({"partition": "t-0", "size": 1}, {"size": 1, "partition": "t-1"})), indent=1
    )
    expected = [
        number for number, line in enumerate(text.split("\n"), 1) if '"partition"' in line or '"logDir"' in line
    ]
    assert [record.line for record in parse(text)] == expected


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('x\n{"version":1,"brokers":[{"broker":1,"logDirs":[', "line 2, column"),
        ('{"logDir":"/d","error":null,"partitions":[]}', "not inside its list 'brokers'"),
        ('{"version":1,"brokers":[{"logDirs":[]}]}', "no integer 'broker'"),
        ('{"version":1,"brokers":[{"broker":1,"logDirs":[{"partitions":[]}]}]}', "no string 'logDir'"),
        ('{"version":1,"brokers":[{"broker":1,"logDirs":[{"logDir":"/d","partitions":NaN}]}]}', "NaN"),
    ],
)
def test_an_incomplete_output_is_refused(text: str, reason: str) -> None:
    """An output that is cut off, or a fragment, is refused; invalid JSON with its position."""
    (record,) = parse(text)
    assert record.kind == "malformed"
    assert reason in record.payload["reason"]
