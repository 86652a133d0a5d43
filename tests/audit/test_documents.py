"""Texts that are not reassignment documents."""

import json

import pytest

from optimizer.audit.read_documents import read_document


def _text(*entries: str, head: str = '"version": 1') -> str:
    return "{" + head + ', "partitions": [' + ", ".join(entries) + "]}"


ENTRY = '{"topic": "t", "partition": 0, "replicas": [1, 2]}'
BROKEN = [
    ("", "not JSON"),
    ("[" * 100_000, "not JSON"),
    ("[]", "not a JSON object"),
    ('{"version": 1', "not JSON"),
    ('{"partitions": []}', "lacks 'version'"),
    (_text(ENTRY, head='"version": 2'), "version 2"),
    (_text(ENTRY, head='"version": true'), "version True"),
    ('{"version": 1}', "lacks 'partitions'"),
    ('{"version": 1, "partitions": []}', "at least one entry"),
    (_text(ENTRY, head='"version": 1, "version": 1'), "twice"),
    ('{"version": 1, "partitions": {}}', "must be a list"),
    ('{"version": 1, "partitions": [5]}', "not a JSON object"),
    ('{"version": 1, "partitions": [{"topic": "t", "partition": 0}]}', "lacks 'replicas'"),
    ('{"version": 1, "partitions": [{"topic": 5, "partition": 0, "replicas": [1]}]}', "topic 5"),
    ('{"version": 1, "partitions": [{"topic": "t", "partition": "0", "replicas": [1]}]}', "partition '0'"),
    ('{"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": []}]}', "not a list of broker ids"),
    ('{"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": [1.0]}]}', "not a list of broker ids"),
    ('{"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": [NaN]}]}', "NaN"),
    ('{"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": [2147483648]}]}', "not a list"),
    ('{"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": [-2147483649]}]}', "not a list"),
    ('{"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": [1], "log_dirs": []}]}', "log_dirs"),
    ('{"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": [1], "log_dirs": [2]}]}', "log_dirs"),
    (_text(ENTRY, ENTRY), "names it twice"),
]


@pytest.mark.parametrize(("text", "reason"), BROKEN, ids=range(len(BROKEN)))
def test_unreadable_document(text: str, reason: str) -> None:
    """A text that Kafka would refuse or read differently gives one violation that says why."""
    (violation,) = read_document(text, label="wave 1").violations
    assert violation.rule == "document"
    assert reason in violation.detail


def test_readable_document() -> None:
    """Fields that Kafka ignores are ignored; directories are noticed only where one is named."""
    row = {"topic": "t", "partition": 0, "replicas": [1, 2], "more": 1}
    for directory, log_dirs in (("any", ()), ("/data/1", ("any", "/data/1"))):
        document = read_document(_text(json.dumps(row | {"log_dirs": ["any", directory]})), label="x")
        assert document.violations == ()
        (entry,) = document.entries
        assert (entry.key, entry.replicas, entry.log_dirs) == (("t", 0), (1, 2), log_dirs)


def test_ids_of_32_bits_are_read() -> None:
    """The smallest and the largest integer of Java are ids; whether there are such brokers is another rule."""
    row = {"topic": "t", "partition": 2**31 - 1, "replicas": [-(2**31), 2**31 - 1]}
    (entry,) = read_document(_text(json.dumps(row)), label="x").entries
    assert (entry.key, entry.replicas) == (("t", 2**31 - 1), (-(2**31), 2**31 - 1))
