"""Detection of the formats in a text; no text makes a parser raise."""

import json
import time
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sources.detect import KNOWN_FORMAT, PARSERS, parse_any, parse_file
from sources.record import KINDS

FIXTURES = Path(__file__).parents[1] / "fixtures" / "sources"
SOURCES = sorted(path.read_bytes().decode() for path in FIXTURES.iterdir())


def test_all_outputs_of_a_transcript_are_read() -> None:
    """The outputs of four tools in one text are read in order; the broken JSON among them is refused."""
    records = parse_any((FIXTURES / "transcript.md").read_text(), name="transcript.md")
    counts = {"topic": 1, "partition": 2, "malformed": 1, "assignment": 1, "reassignment": 1, "broker": 1}
    assert Counter(record.kind for record in records) == counts
    assert [record.line for record in records] == sorted(record.line for record in records)
    (broken,) = (record for record in records if record.kind == "malformed")
    assert (broken.line, broken.payload["expected"]) == (11, "partition assignment JSON")


def test_one_csv_may_have_brokers_and_capacities() -> None:
    """A table with racks and disks gives both kinds of records."""
    records = parse_any("broker_id,rack,disk_gb\n1,a,5\n", name="brokers.csv")
    assert sorted(record.kind for record in records) == ["broker", "capacity"]


REFUSED = [
    ("", "empty"),
    (" \n\t\n", "empty"),
    ("Dear all, see you at five.", "not the output of a Kafka tool"),
    ('{"summary":{},"proposals":[{"topicPartition":{"topic":"t","partition":0}}]}', "Cruise Control's proposals"),
    ('kafka_topic_partition_current_offset{topic="t",partition="0"} 5\n', "a scrape of kafka_exporter"),
    ("# TYPE node_load1 gauge\nnode_load1 0.5\n", "a Prometheus scrape without metrics in bytes"),
    ("[2026-01-31 02:00:00,123] INFO started (kafka.server.KafkaServer)\njava.io.IOException: x\n", "a server log"),
    ("[2026-01-31 02:00:00,123] ERROR [Log partition=a-0] x (kafka.log.Log)\n", "a log of warnings and errors"),
    ("bootstrap.servers=b:9092\nsecurity.protocol=SASL_SSL\n", "client properties"),
    ("sasl.jaas.config=x\n", "client properties"),
    ("broker.id=1\nlisteners=PLAINTEXT://:9092\n", "server.properties"),
    ("-----BEGIN PRIVATE KEY-----\nMII\n", "a key or a certificate"),
    ("#!/bin/sh\nkafka-topics.sh --describe\n", "a script"),
    ("<html><body>login</body></html>", "XML or HTML"),
    ("apiVersion: kafka.strimzi.io/v1\nkind: Kafka\n", "Kubernetes"),
    ("Querying brokers for log directories information\n", "without its JSON"),
    ("Error: Timed out\n", "error message"),
    ("topic,size\na,1\n", "not the output of a Kafka tool"),
    ("Status of partition reassignment:\nReassignment of partition t-0 is completed.\n", "--verify"),
    ("Reassignment of partition [t,0] completed successfully\n", "--verify"),
    ("Successfully cancelled partition reassignment for: t-0\n", "--cancel"),
    (
        "Successfully cancelled partition reassignments for: t-0,t-1\nClearing topic-level throttles on topic t\n",
        "--cancel",
    ),
    ("None of the specified partition reassignments are active.\n", "--cancel"),
    ("None of the specified partition moves are active.\n", "--cancel"),
    ("\nShare group 's' has no active members.\n", "kafka-share-groups.sh"),
    ("\nShare group 's' has no offset information.\n", "kafka-share-groups.sh"),
    ("Streams group 's' has no active members.\n", "kafka-streams-groups.sh"),
    ('{"topics":[{"topic":"x"}],"version":1}', "topics-to-move"),
    ("NodeId  DirectoryId  LogEndOffset  Lag\n1  AAA  272  0\n", "kafka-metadata-quorum.sh"),
    ("a.b:0:3\na.b:1:\n", "kafka-get-offsets.sh"),
    ("Feature: metadata.version\tSupportedMinVersion: 3.3-IV3\tSupportedMaxVersion: 4.1-IV1\tFin", "kafka-features.sh"),
    ("  Feature: kraft.version   SupportedMinVersion: 0   SupportedMaxVersion: 1\n", "kafka-features.sh"),
    ("Successfully completed leader election (PREFERRED) for partitions t-0, t-1\n", "kafka-leader-election.sh"),
    ("Successfully completed leader election (UNCLEAN) for partitions t-", "kafka-leader-election.sh"),
    ("Valid replica already elected for partitions\n", "kafka-leader-election.sh"),
    ("Created preferred replica election path with t-0\n", "kafka-leader-election.sh"),
    ("Successfully started preferred replica election for partitions Set(t-0)\n", "kafka-leader-election.sh"),
    ("Quota configs for client-id 'x' are producer_byte_rate=1\n", "configs of users, clients or groups"),
    ("Dynamic configs for user-principal 'x' are:\n", "configs of users, clients or groups"),
    ("Quota configs for the default user-principal are a=1\n", "configs of users, clients or groups"),
    ("Configs for client-id 'x' are \n", "configs of users, clients or groups"),
    ("__consumer_offsets\norders\n", "a list of names"),
    ("[2026-01-31 02:00:00,123] WARN x (a.B)\norders\npayments\n", "a list of names"),
    ("__consumer_offsets\n\norders.v1 - marked for deletion\npay", "a list of names"),
    ("20\n21\n22a\n", "a list of names"),
    ("20\n21\n22\n", "not the output of a Kafka tool"),
    ("orders\n", "not the output of a Kafka tool"),
    (
        'kminion_kafka_topic_partition_low_water_mark{partition_id="0",topic_name="t"} 5\n',
        "of kafka_exporter or kminion",
    ),
    ('# HELP kminion_kafka_x y\nkminion_kafka_cluster_info{broker_count="3"} 1\n', "of kafka_exporter or kminion"),
    ('{"brokers":[{"id":1,"leaders":[0],"followers":[1]}]}', "another tool's JSON"),
    ('{"partitions":[{"topic":"t","partition":0}]}', "no replicas"),
    ("org.apache.kafka.common.errors.TimeoutException: no", "error message"),
    (
        'Proposed partition reassignment configuration\n{"partitions":[{"topic":"t","partition":0,"replicas":[1]}]}',
        "plan",
    ),
]


@pytest.mark.parametrize(("text", "reason"), REFUSED)
def test_a_file_of_another_format_is_refused_once_with_its_reason(text: str, reason: str) -> None:
    """A file without any readable part gives one malformed record that says what the file looks like."""
    (record,) = parse_any(text, name="x")
    assert (record.kind, record.payload["expected"]) == ("malformed", KNOWN_FORMAT)
    assert reason in record.payload["reason"]
    assert record.payload["reason"].startswith(f"x ({len(text)} bytes) is ")
    assert record.payload["remedy"]
    assert record.payload["text"] == ""


@pytest.mark.parametrize(
    ("text", "name", "severity"),
    [
        ("Status of partition reassignment:\nReassignment of partition t-0 is completed.\n", "x", "warning"),
        ('{"topics":[{"topic":"x"}],"version":1}', "x", "warning"),
        ('{"partitions":[{"topic":"t","partition":0}]}', "x", "warning"),
        ("NodeId  DirectoryId  LogEndOffset  Lag\n1  AAA  272  0\n", "x", "warning"),
        ("a.b:0:3\na.b:1:\n", "x", "warning"),
        ("orders\npayments\n", "x", "warning"),
        ("Feature: group.version\tSupportedMinVersion: 0\t", "x", "warning"),
        ("Valid replica already elected for partitions t-0\n", "x", "warning"),
        ('{"brokers":[{"id":1,"leaders":[0],"followers":[1]}]}', "x", "error"),
        ("No partition reassignments found.\nStatus of partition reassignment:\n", "x", "warning"),
        ("", "topics.err", "warning"),
        ("", "x", "error"),
        ("hello", "x", "error"),
        ("hello", "topics.err", "error"),
    ],
)
def test_only_a_known_harmless_file_is_a_warning(text: str, name: str, severity: str) -> None:
    """A known file without cluster state is a warning; an empty or unknown file may be a lost input."""
    (record,) = parse_any(text, name=name)
    assert (record.payload["severity"], record.payload["rule"]) == (severity, "known_format")


UNREADABLE = [
    b"",
    b"\n\r\n",
    b"hello",
    b'Exception in thread "main" java.lang.OutOfMemoryError: Java heap space\n',
    b"Error while executing topic command : Timed out\nError: Executing consumer group command failed due to x\n",
    b"\x1f\x8b\x08\xff",
    b'{"version":1,"brokers":[{"broker":1,"logDirs":[{"logDir":"/d","partitions":[',
    b"\tTopic: t\tPartition: 0\tLeader: 1\tRepl",
]


@pytest.mark.parametrize("content", UNREADABLE)
def test_an_unreadable_file_about_consumers_is_a_warning(content: bytes) -> None:
    """The base name decides; the same file with another name is an error."""
    for name in ("consumer-members.txt", "day 1/consumer-groups-a.txt", "c\\consumer-x"):
        assert {record.payload["severity"] for record in parse_file(content, name=name)} == {"warning"}
    for name in ("members.txt", "consumer-x/members.txt", "my-consumer-members.txt", "consumers.txt"):
        assert "error" in {record.payload.get("severity", "error") for record in parse_file(content, name=name)}


@pytest.mark.parametrize("text", ["", "\n \n"])
def test_an_empty_file_about_consumers_names_the_likely_cause(text: str) -> None:
    """The tool prints nothing if there is no group."""
    (record,) = parse_any(text, name="in/consumer-members.txt")
    assert record.payload["reason"].endswith("is an empty file: no consumer group was listed, or the tool failed")
    assert record.payload["remedy"] == "remove the file, or run the tool again"


def test_other_records_in_a_file_about_consumers_are_used() -> None:
    """Its name does not hide a failure or a damaged line of another tool."""
    line = "\tTopic: t\tPartition: 0\tLeader: 1\tReplicas: 1,2\tIsr: 1,2\n"
    text = f"{line}{line.replace('Replicas', 'Repl')}Error while executing topic command : Timed out\n"
    records = parse_any(text, name="consumer-members.txt")
    assert records == parse_any(text, name="x")
    assert [record.kind for record in records] == ["partition", "malformed", "malformed"]


def test_an_unknown_file_is_never_copied() -> None:
    """Client properties in the input folder leave no trace of their password."""
    for text in ("sasl.jaas.config=x password=hunter2;\n", "Error: hunter2\n", "hunter2\n", "kafka_x hunter2\n"):
        assert "hunter2" not in repr(parse_any(text, name="client.properties"))


@pytest.mark.parametrize(
    "text",
    [
        '{"brokerCapacities":[{"brokerId":"-1","capacity":{"DISK":"100"',
        '{"version":1,"brokers":[{"broker":1,"logDirs":[{"logDir":"/d","partitions":[',
        '{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1',
    ],
)
def test_a_file_without_a_readable_part_is_an_unreadable_file(text: str) -> None:
    """Its malformed records have the rule of unreadable files."""
    (record,) = parse_any(text, name="x")
    assert (record.payload["rule"], record.payload.get("severity", "error")) == ("known_format", "error")
    assert "line 1, column" in record.payload["reason"]


def test_a_confluent_rack_rule_stays_whole() -> None:
    """The placement constraints of a topic stay unchanged in its configs."""
    (topic, *_) = parse_any((FIXTURES / "topics-confluent.txt").read_text(), name="x")
    rule = '{"version":1,"replicas":[{"count":2,"constraints":{"rack":"Topic: x"}}]}'
    assert topic.payload["configs"] == f"confluent.placement.constraints={rule},a=1"


@pytest.mark.parametrize("text", ["No partition reassignments found.\n", "Dynamic configs for broker 1 are:\n"])
def test_an_empty_output_of_a_tool_is_no_fault(text: str) -> None:
    """No reassignment in flight and no config are valid outputs."""
    assert parse_any(text, name="x") == []


EMPTY_OUTPUTS = (
    "No partition reassignments found.\n",
    "Dynamic configs for broker 1 are:\nDefault configs for brokers in the cluster are:\n",
    "Configs for topic 't' are \n",
)
WARNING = "WARN The configuration 'x' was supplied but isn't a known config. (a.AdminClientConfig)\n"
QUIET = (
    f"[2026-11-02 02:00:00,123] {WARNING}",
    f"2026-11-02 02:00:00,123 {WARNING}",
    f"2026-11-02T02:00:00.123Z [main] {WARNING}",
    "[2026-11-02 02:00:00,123] INFO Kafka version: 4.1.0 (org.apache.kafka.common.utils.AppInfoParser)\n",
    "[2026-11-02 02:00:00,123] DEBUG x\n",
    'OpenJDK 64-Bit Server VM warning: x\nDefaulted container "kafka" out of: kafka, exporter\n',
    "[2026-11-02 02:00:00,123] INFO AdminClientConfig values: \n\tbootstrap.servers = [b:9092]\n"
    "\tsecurity.protocol = PLAINTEXT\n (org.apache.kafka.clients.admin.AdminClientConfig)\n",
)
FAILURES = (
    "[2026-11-02 02:00:00,123] ERROR x (a.b.C)\n",
    "2026-11-02 02:00:00,123 [main] FATAL x\n",
    "java.util.concurrent.TimeoutException: x\n",
    "Error while executing config command: x\n",
    "ERROR x\n",
    "[ERROR] x\n",
    "2026-11-02 02:00:00,123 main ERROR x\n",
    "Failed to list: org.apache.kafka.common.errors.TimeoutException: x\n",
)


@pytest.mark.parametrize("output", EMPTY_OUTPUTS)
@pytest.mark.parametrize("lines", QUIET)
def test_warnings_next_to_an_empty_output_are_no_fault(lines: str, output: str) -> None:
    """Warnings may be above or below: ``kubectl exec -it`` merges them into the output."""
    for text in (lines + output, output + lines, lines + output + lines):
        assert parse_any(text, name="x") == []


@pytest.mark.parametrize("output", EMPTY_OUTPUTS)
@pytest.mark.parametrize("failure", FAILURES)
def test_an_error_next_to_an_empty_output_is_refused(failure: str, output: str) -> None:
    """The output may be incomplete."""
    for text in (failure + output, output + failure, QUIET[0] + output + failure, QUIET[3] + failure + output):
        records = parse_any(text, name="x")
        assert {record.kind for record in records} == {"malformed"}
        assert "error" in [record.payload.get("severity", "error") for record in records]


def test_the_refusal_of_an_empty_output_names_the_line_of_the_error() -> None:
    """The record has no content of the file, so the reader needs the line number."""
    (record,) = parse_any(QUIET[0] + EMPTY_OUTPUTS[0] + "ERROR hunter2\n", name="x")
    assert "the output of a tool with an error in line 3: " in record.payload["reason"]
    assert "hunter2" not in repr(record)


def test_topics_named_like_errors_are_no_errors() -> None:
    """Dead letter topics often have such names."""
    text = "Configs for topic 'orders.PaymentException' are \nDynamic configs for topic ERROR are:\n"
    assert parse_any(text, name="x") == []


def test_warnings_without_an_output_are_a_log() -> None:
    """A file with log lines alone is refused as a log."""
    for lines in QUIET[:5]:
        (record,) = parse_any(lines, name="x")
        assert "log" in record.payload["reason"]


def test_a_byte_order_mark_is_ignored() -> None:
    """A file saved with a byte order mark is read."""
    (record,) = parse_any('\ufeff[{"topic":"t","partition":0,"replicas":[1]}]', name="x")
    assert record.kind == "assignment"


def check(text: str) -> None:
    """No parser raises; all records have known kinds and are JSON."""
    records = [*parse_any(text, name="brokers/ids/1"), *parse_file(text.encode(errors="replace"), name="x")]
    for record in records:
        assert record.kind in KINDS
        assert record.line >= 0
        json.dumps(dict(record.payload))
    for parser in PARSERS:
        list(parser.parse(text, ""))


DESCRIBE = ["Topic:", "Partition:", "PartitionCount: 1", "Leader:", "Replicas:", "Isr:", "Configs:", "..."]
JSON = [
    "{",
    "}",
    "[",
    "]",
    ",",
    '"',
    ":",
    '"replicas":',
    '"partitions":',
    '"topic":',
    '"logDirs":',
    '"brokers":',
    '"jmx_port":1',
]
GROUPS = [
    "GROUP TOPIC PARTITION CURRENT-OFFSET LOG-END-OFFSET LAG CONSUMER-ID HOST CLIENT-ID\n",
    "GROUP CONSUMER-ID HOST CLIENT-ID #PARTITIONS ASSIGNMENT\n",
    "GROUP COORDINATOR (ID) ASSIGNMENT-STRATEGY STATE #MEMBERS\n",
    "Consumer group 'g' ",
    "t:0,1 ",
    "g t 0 5 7 2 m /h c\n",
]
OTHERS = [
    "broker_id,rack\n",
    "Configs for topic 'x' are ",
    "a=1",
    " sensitive=false",
    "```",
    "> ",
    ": replicas: ",
    "t-0",
]
PLAIN = [" ", "\t", "\n", "1", "-", "null", "1e999", "NaN", "\\"]
words = st.sampled_from([*DESCRIBE, *JSON, *GROUPS, *OTHERS, *PLAIN])


@given(st.text() | st.lists(words, max_size=40).map("".join))
def test_no_text_makes_a_parser_raise(text: str) -> None:
    """Arbitrary text, and arbitrary sequences of the formats' words, raise nothing."""
    check(text)


@given(source=st.sampled_from(SOURCES), data=st.data())
def test_no_damage_makes_a_parser_raise(source: str, data: st.DataObject) -> None:
    """A fixture with a piece removed, doubled or replaced raises nothing."""
    start = data.draw(st.integers(0, len(source)))
    end = data.draw(st.integers(start, min(len(source), start + 200)))
    filling = data.draw(st.sampled_from(["", source[start:end] * 2, "\0", "{", '"', "\n", "-1", "\ud7ff", "9" * 50]))
    check(source[:start] + filling + source[end:])


@pytest.mark.parametrize(
    "text",
    [
        "[" * 200_000,
        '[{"replicas":' * 50_000,
        '{"a":' * 100_000,
        '{"replicas":' + "9" * 5000 + "}",
        '{"replicas":[1e999]}',
    ],
    ids=["lists", "entries", "objects", "digits", "infinity"],
)
def test_hostile_json_raises_nothing(text: str) -> None:
    """Nesting and numbers beyond the decoder's limits are refused."""
    check(text)


HOSTILE = {
    "open braces": "{\n" * 20_000,
    "open quotes": '"' * 200_000,
    "wrapped header": "Topic:a PartitionCount:1 Configs:x=1," + "a=1,\n" * 20_000,
    "headers": "Topic:a\n" * 20_000,
    "partitions without ISR": "Topic: a Partition: 0 Leader: 1\n" * 20_000,
    "blanks": "Topic:" + " " * 200_000 + "PartitionCount:",
    "configs": "Configs for topics " + "x" * 100_000 + " are",
    "listed": "a" * 100_000 + ": replicas: ",
    "leaders": '"leaders": [ ' * 20_000,
    "partitions": '"partitions":[{' * 20_000,
    "quotes": "> " * 100_000,
    "headers of groups": "GROUP STATE\n" * 20_000,
    "group and blanks": "GROUP STATE\n" + "a" + " " * 200_000 + "b",
    "coordinators": "GROUP COORDINATOR (ID) ASSIGNMENT-STRATEGY STATE #MEMBERS\n" + "a :1 (1) " * 20_000,
    "colons of groups": "GROUP STATE\n" + "a:" * 100_000,
    "assignments": (
        "GROUP CONSUMER-ID HOST CLIENT-ID #PARTITIONS ASSIGNMENT\n"
        "g     m           h    c         9           " + "a(1), " * 20_000
    ),
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_no_text_takes_long(text: str) -> None:
    """Texts that could make a regular expression backtrack take less than two seconds of CPU time."""
    started = time.process_time()
    parse_any(text, name="x")
    assert time.process_time() - started < 2


def test_a_large_description_is_read_in_seconds() -> None:
    """50,000 partition lines take less than four seconds of CPU time (measured: under one)."""
    line = "\tTopic: topic.{0}\tPartition: {1}\tLeader: {1}\tReplicas: {1},{2},{3}\tIsr: {1},{2}\tElr: \tLastKnownElr: "
    lines = [line.format(number // 100, number % 100, number % 97, number % 89) for number in range(50_000)]
    text = "\n".join(lines)
    started = time.process_time()
    records = parse_any(text, name="x")
    assert len(records) == 50_000
    assert time.process_time() - started < 4


DESCRIBED = "\tTopic: t\tPartition: 0\tLeader: 1\tReplicas: 1,2\tIsr: 1,2\n"


@pytest.mark.parametrize(
    "text",
    [
        '{"kind":"Deployment","spec":{"replicas": 3,"env":[{"name":"X","value":"hunter2"}],}}\n',
        '{"jmx_port":1,"endpoints":["x"],"host":"h","port":1,"note":"hunter2",}\n',
        '{"controllerid":1,"topics":[{"isrs":1,"note":"hunter2",}]}\n',
        "INFO Topic: a Partition: 0 Leader: 1 password=hunter2\n",
        DESCRIBED + '[2026-01-31 02:00:00,000] ERROR Failed with sasl.jaas.config=x password="hunter2"; (org.apache)\n',
        DESCRIBED + "Error: api-key: hunter2 is not valid\n",
    ],
)
def test_records_of_unreadable_text_have_no_secret(text: str) -> None:
    """Nothing of an unread file is copied, and no secret of an error line."""
    records = parse_any(text, name="x")
    assert any(record.kind == "malformed" for record in records)
    assert "hunter2" not in repr(records)
