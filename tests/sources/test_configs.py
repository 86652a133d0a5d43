"""``kafka-configs.sh --describe``, old and new."""

from pathlib import Path
from typing import Any

import pytest

from sources.configs import parse
from sources.detect import parse_any

FIXTURE = Path(__file__).parents[1] / "fixtures" / "sources" / "configs-new.txt"


def entries(text: str) -> list[tuple[Any, ...]]:
    """Entity, name and value of each config."""
    keys = ("entity_type", "entity_name", "name", "value")
    return [tuple(record.payload[key] for key in keys) for record in parse(text) if record.kind == "config"]


def test_new_form() -> None:
    """Brokers, the cluster's default and topics are read from the right; other entities are skipped."""
    text = FIXTURE.read_text()
    assert entries(text) == [
        ("brokers", "3", "leader.replication.throttled.rate", "10000"),
        ("brokers", "3", "listener.name.x.ssl.key.password", None),
        ("cluster", "<default>", "log.retention.ms", "5"),
        ("topics", "a.b", "header", "x y, sensitive=no"),
    ]
    assert {record.kind for record in parse(text)} == {"config"}


def test_heading_of_the_defaults_before_kafka_2_5() -> None:
    """The heading with the singular has the same entries; without entries it is a valid output."""
    heading = "Default config for brokers in the cluster are:\n"
    entry = "  log.cleaner.threads=2 sensitive=false synonyms={DYNAMIC_DEFAULT_BROKER_CONFIG:log.cleaner.threads=2}\n"
    assert entries(heading + entry) == [("cluster", "<default>", "log.cleaner.threads", "2")]
    assert parse_any(heading, name="x") == []


OLD = [
    ("Configs for topic 'x' are a=1,b=2", [("topics", "x", "a", "1"), ("topics", "x", "b", "2")]),
    ("Configs for topics:x are a=1", [("topics", "x", "a", "1")]),
    ("Configs for brokers '4' are r=5", [("brokers", "4", "r", "5")]),
    ("Configs for default brokers are r=5", [("cluster", "<default>", "r", "5")]),
    (
        "Configs for topic 'x' are leader.t=1:102,0:101,follower.t=1:101",
        [("topics", "x", "leader.t", "1:102,0:101"), ("topics", "x", "follower.t", "1:101")],
    ),
    (
        "  Configs for topic 'x' are leader.t=1:102,0:101,\n      follower.t=1:101,0:102",
        [("topics", "x", "leader.t", "1:102,0:101"), ("topics", "x", "follower.t", "1:101,0:102")],
    ),
    ("Configs for topic 'x' are ", []),
    ("Configs for topic 'x' are", []),
    (
        "Configs for topic 'x' are\nConfigs for topic 'y' are a=1\nConfigs for topic 'z' are ",
        [("topics", "y", "a", "1")],
    ),
    ("Configs for user-principal 'u' are a=1", []),
]


@pytest.mark.parametrize(("text", "expected"), OLD)
def test_old_form(text: str, expected: list[tuple[Any, ...]]) -> None:
    """A comma separates two configs only if a name and '=' follow, also across wrapped lines."""
    assert entries(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Configs for topic 'x' are a=1,sasl.password=hunter2", [("1", False), (None, True)]),
        (
            "Dynamic configs for broker 3 are:\n  a=1 sensitive=false synonyms={}\n  b=null sensitive=true synonyms={}",
            [("1", False), (None, True)],
        ),
    ],
)
def test_secrets_are_marked_and_have_no_value(text: str, expected: list[tuple[str | None, bool]]) -> None:
    """Configs that the tool calls sensitive or that are named like a secret keep their name without a value."""
    records = [record for record in parse(text) if record.kind == "config"]
    assert [(record.payload["value"], record.payload["sensitive"]) for record in records] == expected


def test_entries_without_a_heading_are_refused_once() -> None:
    """Entries without a heading are one malformed record, at the first line."""
    records = list(parse("x\n  a=1 sensitive=false synonyms={}\n  b=2 sensitive=false synonyms={}\n"))
    assert [(record.kind, record.line) for record in records] == [("malformed", 2)]


HEADINGS = (
    *("topic 'x'", "topics:x", "brokers '4'", "broker 4", "default brokers", "default topics"),
    *("topic 'a.b-c_d'", "topic x"),
)


@pytest.mark.parametrize("end", [" ", "", "  "])
@pytest.mark.parametrize("heading", HEADINGS)
def test_an_old_heading_without_configs_is_valid(heading: str, end: str) -> None:
    """Also alone in its file, and if an editor has removed the last blank."""
    line = f"Configs for {heading} are{end}\n"
    assert parse_any(line, name="configs.txt") == []
    assert parse_any(line * 3, name="configs.txt") == []


def test_two_old_headings_on_one_line_are_refused() -> None:
    """Configs of the first may be missing."""
    (record,) = parse("Configs for topic 'x' are Configs for topic 'y' are a=1")
    assert record.kind == "malformed"


DAMAGED = [
    ("Dynamic configs for broker 3 ar", 1),
    ("All configs for topic", 1),
    ("Configs for topic 'x' ar", 1),
    ("Dynamic configs for broker 3 are:\n  leader.replication.throttled.rate=100", 2),
    ("Dynamic configs for broker 3 are:\n  a=1 sensitive=fal", 2),
]


@pytest.mark.parametrize(("text", "line"), DAMAGED)
def test_a_cut_heading_or_config_is_refused(text: str, line: int) -> None:
    """A damaged line of the tool is reported with its line number and without a value."""
    (record,) = parse(text)
    assert (record.kind, record.line) == ("malformed", line)
    assert "100" not in repr(record)


def test_an_entity_ends_at_other_lines() -> None:
    """Entries after a prompt do not belong to the entity above it."""
    text = "Dynamic configs for broker 3 are:\n$ next\n  a=1 sensitive=false synonyms={}\n"
    assert [record.kind for record in parse(text)] == ["malformed"]


@pytest.mark.parametrize(
    "text",
    [
        "Dynamic configs for broker 3 are:\n  sasl.jaas.config=hunter2 sensitive=true synonyms={X:y=hunter2}",
        "Dynamic configs for broker 3 are:\n  ssl.key.password=hunter2 sensitive=false synonyms={}",
        "Dynamic configs for broker 3 are:\n  a=hunter2 sensitive=perhaps",
        "Configs for brokers '3' are ssl.keystore.password=hunter2,a=1",
        "  a=hunter2 sensitive=false synonyms={}",
    ],
)
def test_secrets_are_never_stored(text: str) -> None:
    """No record of a secret or of an unreadable line has the value."""
    records = list(parse(text))
    assert records
    assert "hunter2" not in repr(records)


SOURCES = [
    ("{STATIC_BROKER_CONFIG:r=1, DEFAULT_CONFIG:r=2}", [True]),
    ("{DYNAMIC_BROKER_CONFIG:r=1, STATIC_BROKER_CONFIG:r=2}", [False]),
    ("{DYNAMIC_DEFAULT_BROKER_CONFIG:r=1, STATIC_BROKER_CONFIG:r=2}", [False]),
    ("{DEFAULT_CONFIG:r=1}", []),
    ("{}", [False]),
]


@pytest.mark.parametrize(("synonyms", "expected"), SOURCES)
def test_the_first_synonym_names_the_source_of_a_value(synonyms: str, expected: list[bool]) -> None:
    """A value of the broker's own file is marked as static; Kafka's default is skipped."""
    text = f"All configs for broker 3 are:\n  r=1 sensitive=false synonyms={synonyms}\n"
    assert [record.payload["is_static"] for record in parse(text)] == expected
