"""The output of kafka-get-offsets.sh: the name of the file says which offsets it has."""

from typing import Any

import pytest

from sources.detect import parse_any

TEXT = "orders:0:6291\n\n>> a.b:12:\norders:1:-1\r\n"


def entries(text: str, name: str) -> list[tuple[Any, ...]]:
    """Line and payload of each offset, or reason and rule of what could not be read."""
    names = ("topic", "partition", "time", "offset", "reason", "rule")
    return [(r.line, *(r.payload[name] for name in names if name in r.payload)) for r in parse_any(text, name=name)]


@pytest.mark.parametrize(
    ("name", "time"),
    [
        ("offsets-earliest.txt", "earliest"),
        ("a/b/offsets-earliest-local.txt", "earliest_local"),
        ("offsets-earliest-pending-upload.2026-01-31.log", "earliest_pending_upload"),
        ("offsets-latest.txt", "latest"),
    ],
)
def test_the_name_of_the_file_is_the_time(name: str, time: str) -> None:
    """An offset that the tool leaves out, or prints as -1, is unknown."""
    expected = [(1, "orders", 0, time, 6291), (3, "a.b", 12, time, None), (4, "orders", 1, time, None)]
    assert entries(TEXT, name) == expected


def test_a_damaged_line_is_reported_and_the_others_are_read() -> None:
    """Of a file that has the tool's name; a bad name of a topic is damage too."""
    text = "orders:0:6291\norders:1\norders:2:x\nor/ders:3:5\n"
    (_, *offset), *damaged = entries(text, "offsets-latest.txt")
    assert offset == ["orders", 0, "latest", 6291]
    form = "the line does not have the form 'topic:partition:offset'"
    assert [(line, reason) for line, reason, *_ in damaged][:2] == [(2, form), (3, form)]
    assert damaged[2][1].startswith("'or/ders' is not a valid topic name")


@pytest.mark.parametrize("name", ["offsets.txt", "offsets-max-timestamp.txt", "latest.txt", "my-offsets-latest.txt"])
def test_a_name_that_does_not_say_the_time_is_refused_with_the_names(name: str) -> None:
    """Offsets of an unknown time are no offsets."""
    (record,) = parse_any("orders:0:6291\norders:1:7\n", name=name)
    assert "does not say which offsets" in record.payload["reason"]
    assert "offsets-earliest-pending-upload.txt" in record.payload["remedy"]


def test_other_texts_with_such_lines_have_no_offsets() -> None:
    """A time of day has the same form, and a transcript has no name that says which offsets its lines are."""
    described = "Topic: t\tPartition: 0\tLeader: 1\tReplicas: 1,2\tIsr: 1,2\n"
    assert [r.kind for r in parse_any("12:30:45\n" + described, name="describe.txt")] == ["partition"]
