"""``kafka-topics.sh --describe`` of every version."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sources.record import Record
from sources.topics_describe import parse, recognises

FIXTURES = Path(__file__).parents[1] / "fixtures" / "sources"


def read(name: str) -> list[Record]:
    """Records of a fixture."""
    return list(parse((FIXTURES / name).read_bytes().decode()))


def only(text: str) -> Record:
    """The only record of a text."""
    (record,) = parse(text)
    return record


PARTITIONS: list[tuple[str, str, dict[str, Any]]] = [
    ("tabs", "\tTopic: t\tPartition: 0\tLeader: 1\tReplicas: 1,2\tIsr: 2,1", {"replicas": [1, 2], "isr": [2, 1]}),
    ("tabs became one blank", "Topic: t Partition: 3 Leader: 1 Replicas: 1,2 Isr: 1", {"partition": 3, "isr": [1]}),
    ("many blanks", "   Topic: t    Partition: 0        Leader: 1       Replicas: 1       Isr: 1", {"leader": 1}),
    ("commented out", "# Topic: t\tPartition: 0\tLeader: 1\tReplicas: 1\tIsr: 1", {"topic": "t"}),
    ("quoted", "> \tTopic: t\tPartition: 0\tLeader: 1\tReplicas: 1\tIsr: 1", {"topic": "t"}),
    ("leader none", "\tTopic: t\tPartition: 0\tLeader: none\tReplicas: 1\tIsr: 1", {"leader": None}),
    ("leader -1", "\tTopic: t\tPartition: 0\tLeader: -1\tReplicas: 1\tIsr: 1", {"leader": None}),
    ("leader empty", "\tTopic: t\tPartition: 0\tLeader: \tReplicas: 1\tIsr: 1", {"leader": None}),
    ("ISR empty", "\tTopic: t\tPartition: 0\tLeader: 1\tReplicas: 1\tIsr: ", {"isr": []}),
    ("no replicas", "\tTopic: t\tPartition: 0\tLeader: none\tReplicas: \tIsr: ", {"replicas": []}),
    ("a broker twice", "\tTopic: t\tPartition: 0\tLeader: 1\tReplicas: 1,1\tIsr: 1", {"replicas": [1, 1]}),
    ("dashes and dots", "\tTopic: a.b_c-3\tPartition: 0\tLeader: 1\tReplicas: 1\tIsr: 1", {"topic": "a.b_c-3"}),
    (
        "a topic called Partition",
        "\tTopic: Partition\tPartition: 0\tLeader: 1\tReplicas: 1\tIsr: 1",
        {"topic": "Partition"},
    ),
    (
        "a move in flight",
        "\tTopic: t\tPartition: 0\tLeader: 1\tReplicas: 1,2,3\tIsr: 1,2\tAdding Replicas: 3\tRemoving Replicas: 1,2",
        {"replicas": [1, 2, 3], "adding": [3], "removing": [1, 2]},
    ),
    (
        "offline and observers",
        "\tTopic: t\tPartition: 0\tLeader: 1\tReplicas: 1,2\tIsr: 1\tOffline: 2\tLiveObservers: 2",
        {"offline": [2], "observers": [2]},
    ),
    (
        "observers, one of them not live",
        "\tTopic: t\tPartition: 0\tLeader: 1\tReplicas: 1,3,2\tIsr: 1\tOffline: 3\tObservers: 3,2\tLiveObservers: 2",
        {"offline": [3], "observers": [3, 2]},
    ),
    (
        "only observers, and a move",
        "Topic: t  Partition: 0  Leader: 1  Replicas: 1,2,3  Isr: 1 Adding Replicas: 3 Removing Replicas: Observers: 2",
        {"adding": [3], "removing": [], "observers": [2]},
    ),
    ("no observers", "\tTopic: t\tPartition: 0\tLeader: 1\tReplicas: 1\tIsr: 1\tLiveObservers: ", {"observers": []}),
    (
        "observers that the broker does not know",
        "\tTopic: t\tPartition: 0\tLeader: 1\tReplicas: 1\tIsr: 1\tOffline: \tLiveObservers: N/A",
        {"observers": None},
    ),
    ("no field of observers", "\tTopic: t\tPartition: 0\tLeader: 1\tReplicas: 1\tIsr: 1", {"observers": None}),
    ("nothing offline", "\tTopic: t\tPartition: 0\tLeader: 1\tReplicas: 1\tIsr: 1\tOffline: ", {"offline": []}),
    (
        "eligible leaders",
        "\tTopic: t\tPartition: 0\tLeader: 1\tReplicas: 1,2\tIsr: 1\tElr: 2\tLastKnownElr: ",
        {"isr": [1], "elr": [2], "last_known_elr": []},
    ),
    (
        "eligible leaders that the broker does not know",
        "\tTopic: t\tPartition: 0\tLeader: 1\tReplicas: 1,2\tIsr: 1\tElr: N/A\tLastKnownElr: N/A",
        {"elr": None, "last_known_elr": None},
    ),
    (
        "leaders that were eligible last",
        "\tTopic: t\tPartition: 0\tLeader: none\tReplicas: 1,2\tIsr: \tElr: \tLastKnownElr: 2,1",
        {"leader": None, "elr": [], "last_known_elr": [2, 1]},
    ),
    ("before 3.8", "\tTopic: t\tPartition: 0\tLeader: 1\tReplicas: 1\tIsr: 1", {"elr": None, "last_known_elr": None}),
    ("0.8.0", "topic: t\tpartition: 0\tleader: 1\treplicas: 1,2\tisr: 1,2", {"replicas": [1, 2], "isr": [1, 2]}),
    ("wrapped", "Topic: t  Partition: 0  Leader: 1  Replicas: 1,2\n   Isr: 1,2", {"isr": [1, 2]}),
]


@pytest.mark.parametrize(("line", "expected"), [row[1:] for row in PARTITIONS], ids=[row[0] for row in PARTITIONS])
def test_a_partition_line_is_read_however_it_is_spaced(line: str, expected: dict[str, Any]) -> None:
    """Each spelling of a partition line gives the same fields."""
    assert recognises(line.replace("topic:", "Topic:"))
    record = only(line)
    assert (record.kind, record.line) == ("partition", 1)
    assert {key: record.payload[key] for key in expected} == expected


LINE = "\tTopic: t\tPartition: 0\tLeader: 1\tReplicas: 1,2\tIsr: 1,2\n"
DAMAGED = [
    ("Topic: t\tTopicId: abc\tPartitionCo", 1),
    ("Topic: t\tTopicId: abc\tPartitonCount: 2\tReplicationFactor: 2\tConfigs: ", 1),
    ("Topc: t\tPartitionCount: x\tReplicationFactor: 2\tConfigs: ", 1),
    (f"{LINE}\tTopic: t\tPartition: 1", 2),
    (f"{LINE}\tTopic: t\tParti", 2),
    (f"{LINE}\tTopi", 2),
    (f"{LINE}Topic: u\tTopi", 2),
    (f"so it goes\n\tTopi\n{LINE}", 2),
    (f"{LINE}rtition: 1\tLeader: 1\tReplicas: 1,2\tIsr: 1,2", 2),
    (f"{LINE}\tTopic: t\tPartition: 1\tLeader: 1\tReplicas: 1,2\tIsr: 1\tElr: 2;1\tLastKnownElr: ", 2),
]


@pytest.mark.parametrize(("text", "line"), DAMAGED)
def test_a_cut_or_damaged_line_is_refused(text: str, line: int) -> None:
    """Two labels of the tool, or the start of a line next to other lines of the tool, are reported with their line."""
    records = [record for record in parse(text) if record.kind == "malformed"]
    assert [record.line for record in records] == [line]


PROSE = ["Topic: how we moved", "Topic: orders Partition: 3 Offset: 12", f"{LINE}\nThe Topic: label is Kafka's own."]


@pytest.mark.parametrize("text", PROSE)
def test_prose_and_outputs_of_other_tools_are_skipped(text: str) -> None:
    """One label, or a topic and a partition in another tool's line, is not a line of this tool."""
    assert [record for record in parse(text) if record.kind == "malformed"] == []


HEADERS: list[tuple[str, str, dict[str, Any]]] = [
    (
        "no blanks",
        "Topic:t\tPartitionCount:9\tReplicationFactor:2\tConfigs:a=1",
        {"partition_count": 9, "configs": "a=1"},
    ),
    (
        "blanks",
        "Topic: t\tPartitionCount: 9\tReplicationFactor: 2\tConfigs: ",
        {"replication_factor": 2, "configs": ""},
    ),
    (
        "topic id that starts with a dash",
        "Topic: t\tTopicId: -_9aZbYcXdWeVfUgThSiRj\tPartitionCount: 1\tReplicationFactor: 1\tConfigs: ",
        {"topic_id": "-_9aZbYcXdWeVfUgThSiRj"},
    ),
    (
        "throttled replicas in the configs",
        "Topic: t\tPartitionCount: 1\tReplicationFactor: 1\tConfigs: l.t=0:11,0:12,1:1,m=2",
        {"configs": "l.t=0:11,0:12,1:1,m=2"},
    ),
    (
        "marked for deletion",
        "Topic:t\tPartitionCount:1\tReplicationFactor:1\tConfigs:a=1\tMarkedForDeletion:true",
        {"configs": "a=1", "marked_for_deletion": True},
    ),
    (
        "wrapped at a field",
        "Topic: t PartitionCount: 1\n  ReplicationFactor: 1 Configs: a=1,\n  b=2",
        {"replication_factor": 1, "configs": "a=1,b=2"},
    ),
    ("no configs at all", "Topic: t\tPartitionCount: 1\tReplicationFactor: 1", {"configs": "", "topic_id": None}),
]


@pytest.mark.parametrize(("line", "expected"), [row[1:] for row in HEADERS], ids=[row[0] for row in HEADERS])
def test_a_header_is_read_and_its_configs_stay_opaque(line: str, expected: dict[str, Any]) -> None:
    """Each spelling of a header gives its fields, with the configs unchanged."""
    record = only(line)
    assert record.kind == "topic"
    assert {key: record.payload[key] for key in expected} == expected


FAULTS = [
    ("no topic", "\tPartition: 0\tLeader: 1\tReplicas: 1\tIsr: 1", "the line has no Topic"),
    ("no ISR", "Topic: t\tPartition: 0\tLeader: 1\tReplicas: 1", "the line has no Isr"),
    ("a name in a list", "Topic: t\tPartition: 0\tLeader: 1\tReplicas: 1,b\tIsr: 1", "Replicas '1,b'"),
    ("an elided list", "Topic: t\tPartition: 0\tLeader: 1\tReplicas: 1,...\tIsr: 1", "Replicas '1,...'"),
    ("a negative partition", "Topic: t\tPartition: -1\tLeader: 1\tReplicas: 1\tIsr: 1", "Partition '-1'"),
    ("a leader by name", "Topic: t\tPartition: 0\tLeader: b1\tReplicas: 1\tIsr: 1", "Leader 'b1'"),
    (
        "observers by name",
        "Topic: t\tPartition: 0\tLeader: 1\tReplicas: 1,2\tIsr: 1\tLiveObservers: b2",
        "LiveObservers 'b2'",
    ),
    (
        "a placeholder",
        "Topic: <topic>\tPartition: 0\tLeader: 1\tReplicas: 1\tIsr: 1",
        "'<topic>' is not a valid topic name",
    ),
    (
        "a header without a number",
        "Topic: t\tPartitionCount: many\tReplicationFactor: 1\tConfigs:",
        "PartitionCount 'many'",
    ),
]


@pytest.mark.parametrize(("line", "reason"), [row[1:] for row in FAULTS], ids=[row[0] for row in FAULTS])
def test_a_broken_line_of_the_tool_is_refused(line: str, reason: str) -> None:
    """A broken line becomes a malformed record with the reason and the line."""
    record = only("\n" + line)
    assert (record.kind, record.line, record.payload["text"]) == ("malformed", 2, line)
    assert reason in record.payload["reason"]
    assert record.payload["remedy"]


def test_every_fault_of_a_line_is_named() -> None:
    """The reason of a line with three faults names all three."""
    reason = only("Topic: a/b\tPartition: x\tLeader: 1\tReplicas: ?\tIsr: 1").payload["reason"]
    assert all(part in reason for part in ("'a/b'", "'x'", "'?'"))


def test_omitted_lines_are_reported() -> None:
    """An ellipsis below partitions means that partitions are missing; elsewhere it is ignored."""
    line = "\tTopic: t\tPartition: 0\tLeader: 1\tReplicas: 1\tIsr: 1\n"
    kinds = [record.kind for record in parse(f"...\n{line}  ...\n\nprose\n...\n{line}")]
    assert kinds == ["partition", "malformed", "partition"]


@pytest.mark.parametrize(
    ("between", "is_reported"), [("", True), ("\n", True), (" \n\n", True), ("so it goes\n", False), ("so\n\n", False)]
)
def test_dots_mean_omitted_lines_only_inside_an_output(between: str, is_reported: bool) -> None:
    """Blank lines do not end the tool's output; any other line of another origin does."""
    faults = [record for record in parse(f"{LINE}{between}...\n") if record.kind == "malformed"]
    assert [record.payload["reason"].startswith("lines were left out here") for record in faults] == [
        True
    ] * is_reported


def test_a_cut_line_is_not_joined_with_other_lines() -> None:
    """Lines after a partition line without its end are not part of it unless they continue a partition."""
    record = only("\tTopic: t\tPartition: 0\tLeader: 1\tReplicas: 1,2\nthat is all\n")
    assert record.payload["reason"] == "the line has no Isr"
    assert record.payload["text"] == "\tTopic: t\tPartition: 0\tLeader: 1\tReplicas: 1,2"


def test_a_line_without_a_leader_is_reported() -> None:
    """Replicas alone mark a line of the tool; the reason names the missing leader."""
    assert only("\tTopic: t\tPartition: 0\tReplicas: 1,2\tIsr: 1").payload["reason"] == "the line has no Leader"


@pytest.mark.parametrize("configs", ["", "\tConfigs: a=1", "\tConfigs:"])
def test_consecutive_headers_are_separate(configs: str) -> None:
    """A header does not continue the header above it, whether that has configs or not."""
    header = "Topic: {}\tPartitionCount: 1\tReplicationFactor: 1" + configs
    records = list(parse(f"{header.format('a')}\n{header.format('b')}\n"))
    assert [(record.payload["topic"], record.line) for record in records] == [("a", 1), ("b", 2)]


def test_fixture_of_0_8() -> None:
    """A 0.8 file: leaderless both ways, a topic marked for deletion."""
    records = read("topics-0.8.txt")
    assert [record.kind for record in records] == ["topic", "partition", "partition", "topic", "partition"]
    assert [record.payload["leader"] for record in records if record.kind == "partition"] == [None, 3, None]
    assert [record.payload["marked_for_deletion"] for record in records if record.kind == "topic"] == [False, True]


def test_fixture_of_2_6_in_flight() -> None:
    """Partition 0 is moving, partition 1 has fewer replicas than the header says: both are data."""
    moving, still = (record.payload for record in read("topics-2.6.txt") if record.kind == "partition")
    assert (moving["adding"], moving["removing"], moving["replicas"]) == ([13], [11], [11, 12, 13])
    assert (still["adding"], still["replicas"]) == ([], [11, 12])


def test_fixture_of_4_3_with_windows_line_ends() -> None:
    """A log line before the output, CRLF, gaps in the partitions and eligible leader replicas change nothing."""
    records = read("topics-4.3.txt")
    assert [record.line for record in records] == [2, 3, 4]
    assert [record.payload.get("partition") for record in records] == [None, 0, 5]
    assert records[0].payload["configs"] == ""


def test_fixture_of_confluent() -> None:
    """Placement JSON stays in the configs, even with a label in it; the garbled last column is accepted."""
    topic, first, second = (record.payload for record in read("topics-confluent.txt"))
    assert topic["configs"].endswith('"Topic: x"}}]},a=1')
    assert (first["offline"], second["offline"]) == ([3], [])


names = st.from_regex(r"[a-zA-Z0-9._-]{1,20}", fullmatch=True).filter(lambda name: name not in {".", ".."})
ids = st.lists(st.integers(0, 2**31 - 1), max_size=4)
layouts = st.sampled_from(
    [("", "\t", ""), (" ", "\t", "\t"), (" ", "  ", "    "), (" ", " ", "# "), (" ", "\t", "> \t")]
)


@given(
    topic=names,
    layout=layouts,
    replicas=ids,
    isr=ids,
    adding=ids,
    leader=st.none() | st.integers(0, 99),
    crlf=st.booleans(),
)
def test_what_is_printed_is_read_back(
    topic: str,
    layout: tuple[str, str, str],
    replicas: list[int],
    isr: list[int],
    adding: list[int],
    leader: int | None,
    crlf: bool,
) -> None:
    """A printed header and partition come back unchanged in every layout."""
    blank, gap, indent = layout
    joined = [",".join(map(str, values)) for values in (replicas, isr, adding)]
    header = gap.join(
        [f"Topic:{blank}{topic}", f"PartitionCount:{blank}1", f"ReplicationFactor:{blank}2", f"Configs:{blank}"]
    )
    fields = [
        f"Topic: {topic}",
        "Partition: 7",
        f"Leader: {'none' if leader is None else leader}",
        f"Replicas: {joined[0]}",
    ]
    fields += [f"Isr: {joined[1]}", f"Adding Replicas: {joined[2]}"]
    end = "\r\n" if crlf else "\n"
    head, partition = parse(header + end + indent + gap.join(fields) + end)
    assert (head.kind, head.payload["topic"], head.payload["replication_factor"]) == ("topic", topic, 2)
    expected = {"topic": topic, "partition": 7, "leader": leader, "replicas": replicas, "isr": isr, "adding": adding}
    assert {key: partition.payload[key] for key in expected} == expected


WRAPPED = "\tTopic: t\tPartition: 0\tLeader: 1\tReplicas: 1,2,3,4\tIsr: 1,2,3"


@pytest.mark.parametrize(
    "wrapped",
    ["\n\tAdding Replicas: 4\n\tRemoving Replicas: 1", "\tAdding Replicas: 4\n   Removing Replicas: 1"],
)
def test_fields_after_the_isr_may_be_wrapped(wrapped: str) -> None:
    """A partition in flight is one record however its line is wrapped; the next line is another record."""
    following = "\tTopic: t\tPartition: 1\tLeader: 1\tReplicas: 1,2\tIsr: 1,2"
    first, second = parse(f"{WRAPPED}{wrapped}\n{following}\n")
    assert (first.payload["adding"], first.payload["removing"]) == ([4], [1])
    assert second.payload["partition"] == 1
