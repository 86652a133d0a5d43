"""Reassignment JSON as a current assignment, and ``--list``."""

import json
from typing import Any

import pytest

from sources import assignment_json, reassignments
from sources.detect import parse_any

ENTRY = {"topic": "t", "partition": 0, "replicas": [1, 2]}


def document(*entries: Any, **fields: Any) -> str:
    """Reassignment JSON."""
    return json.dumps({"version": 1, "partitions": list(entries)} | fields)


CURRENT = f"Current partition replica assignment\n\n{document(ENTRY)}\n\n"
SAVE = "Save this to use as the --reassignment-json-file option during rollback\n"
BARE, BEGUN = {"bare": True, "begun": False}, {"bare": False, "begun": True}
STATE = {"bare": False, "begun": False}
ACCEPTED = [
    ("plain", document(ENTRY), BARE),
    ("version last", json.dumps({"partitions": [ENTRY], "version": 1}), BARE),
    ("no version", json.dumps({"partitions": [ENTRY]}), BARE),
    ("pretty", json.dumps({"version": 1, "partitions": [ENTRY]}, indent=4), BARE),
    ("a bare list", json.dumps([ENTRY]), BARE),
    ("one entry a line", json.dumps(ENTRY), BARE),
    ("execute", f"{CURRENT}{SAVE}Successfully started partition reassignment for t-0\n", BEGUN),
    ("execute, quoted", "> " + f"{CURRENT}{SAVE}".replace("\n", "\n> "), BEGUN),
    ("execute, without the hint", f"{CURRENT}Successfully started partition reassignment for t-0\n", BEGUN),
    ("generate", f"{CURRENT}Proposed partition reassignment configuration\n", STATE),
    ("current alone, as what --execute prints begins", CURRENT, BARE),
    ("on the heading's line", f"Current partition replica assignment {document(ENTRY)}\nProposed", STATE),
    ("quoted", "> " + json.dumps({"version": 1, "partitions": [ENTRY]}, indent=1).replace("\n", "\n> "), BARE),
]


@pytest.mark.parametrize(("text", "flags"), [row[1:] for row in ACCEPTED], ids=[row[0] for row in ACCEPTED])
def test_an_assignment_is_read_in_every_form(text: str, flags: dict[str, bool]) -> None:
    """Each form of the document gives the same record, with the right flags ``bare`` and ``begun``."""
    (record,) = assignment_json.parse(text)
    assert record.kind == "assignment"
    assert dict(record.payload) == ENTRY | {"log_dirs": None, "observers": None} | flags


def test_observers_of_an_entry_are_read() -> None:
    """Confluent's tool prints them next to the replicas."""
    (record,) = assignment_json.parse(document(ENTRY | {"observers": [2]}))
    assert record.payload["observers"] == [2]


ZNODE = "/admin/reassign_partitions"
BANNER = "Connecting to zk:2181\n\nWATCHER::\n\nWatchedEvent state:SyncConnected type:None path:null\n"
BROKER = '[zk: a(CONNECTED) 0] get /brokers/ids/7\n{"host":"h","port":9,"jmx_port":-1,"endpoints":[],"version":4}\n'
IN_ZOOKEEPER = [
    (f"[zk: a:2181(CONNECTED) 5] get {ZNODE}\n{{}}\ncZxid = 0x3\nnumChildren = 0\n", 2),
    (f"{BROKER}cZxid = 0x2\n[zk: a(CONNECTED) 1] get -s {ZNODE}  \n\n{{}}\n", 6),
    (f"$ zookeeper-shell.sh zk:2181 get {ZNODE}\n{BANNER}{{}}\n", 7),
    (f"{BANNER}{{}}\ncZxid = 0x3\n", 6),
    (f"{ZNODE}: {{}}\n", 1),
]


@pytest.mark.parametrize(("text", "line"), IN_ZOOKEEPER)
def test_zookeeper_lists_targets_of_reassignments_in_flight(text: str, line: int) -> None:
    """A transcript of either shell gives reassignments with their targets, not an assignment that may be a plan."""
    records = parse_any(text.replace("{}", document(ENTRY)), name="zk.txt")
    (record,) = [record for record in records if record.kind != "broker"]
    assert (record.kind, record.line) == ("reassignment", line)
    assert dict(record.payload) == ENTRY | {"adding": None, "removing": None}


def test_a_plan_below_another_znode_is_not_in_flight() -> None:
    """Only the path directly above the JSON counts; a damaged entry is refused."""
    text = f"get {ZNODE}\nNode does not exist: {ZNODE}\nmy plan:\n{document(ENTRY)}"
    assert [record.kind for record in parse_any(text, name="zk.txt")] == ["assignment"]
    damaged = parse_any(f"get {ZNODE}\n{document(ENTRY | {'replicas': 'x'})}", name="zk.txt")
    assert [record.kind for record in damaged] == ["malformed"]


LATER = [
    ("", True),
    ("t-0: replicas: 1,2,3. adding: 3.\n", False),
    ("\tTopic: t\tPartition: 0\tLeader: 1\tReplicas: 1,3\tIsr: 1,3\n", False),
    ("\tTopic: t\tPartition: 1\tLeader: 1\tReplicas: 1,3\tIsr: 1,3\n", True),
]


@pytest.mark.parametrize(("later", "begun"), LATER)
def test_a_later_output_clears_begun(later: str, begun: bool) -> None:
    """A partition that the text describes or lists after the output of ``--execute`` is not marked as begun."""
    records = parse_any(f"{CURRENT}{SAVE}\n{later}", name="x")
    assert [record.payload["begun"] for record in records if record.kind == "assignment"] == [begun]


def test_a_proposal_is_skipped() -> None:
    """The current assignment before the proposal is read."""
    proposed = document({"topic": "t", "partition": 0, "replicas": [8, 9]})
    current = f"Current partition replica assignment\n{document(ENTRY)}"
    text = f"{current}\n\nProposed partition reassignment configuration\n{proposed}\n"
    assert [record.payload["replicas"] for record in assignment_json.parse(text)] == [[1, 2]]


def test_directories_and_mixed_replication_are_kept() -> None:
    """Real directories, 'any', a longer and an empty list, and a repeated broker are data."""
    entries = [
        ENTRY | {"log_dirs": ["/d", "any"]},
        {"topic": "t", "partition": 1, "replicas": [1, 2, 3]},
        {"topic": "t", "partition": 2, "replicas": []},
        {"topic": "t", "partition": 2, "replicas": [1, 1]},
    ]
    records = list(assignment_json.parse(document(*entries)))
    assert [record.payload["replicas"] for record in records] == [[1, 2], [1, 2, 3], [], [1, 1]]
    assert records[0].payload["log_dirs"] == ["/d", "any"]


def test_entries_keep_their_lines() -> None:
    """In a document over several lines each entry has the line of its topic."""
    entries = [json.dumps(ENTRY), json.dumps(ENTRY | {"topic": "u"})]
    text = '{"version":1,\n "partitions":[\n' + ",\n\n".join(entries) + "]}"
    assert [record.line for record in assignment_json.parse(text)] == [3, 5]


FAULTS = [
    ('{version":1,\n "partitions":[{"topic":"t","partition":0,"replicas":[1]}]}', "line 1, column 2"),
    ('{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1]},]}', "line 1, column"),
    ('{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1]},…]}', "line 1, column"),
    ('x\n{"version":1,\n"partitions":[{"topic":"t","partition":0,"replicas":[1]}\n', "line 4, column"),
    (document({"topic": "t", "partition": 0, "replicas": {"$ref": "$.partitions[0]"}}), "replicas"),
    (document({"topic": "t", "partition": 0, "replicas": ["1"]}), "list of broker ids"),
    (document({"topic": "t", "partition": 0, "replicas": [True]}), "list of broker ids"),
    (document({"topic": "t", "partition": "0", "replicas": [1]}), "not a partition number"),
    (document({"topic": "t", "partition": -1, "replicas": [1]}), "not a partition number"),
    (document({"partition": 0, "replicas": [1]}), "no 'topic'"),
    (document({"topic": "${topic}", "partition": 0, "replicas": [1]}), "'${topic}' is not a valid topic name"),
    (document({"topic": "t", "partition": 0, "replicas": [1, 2], "log_dirs": ["any"]}), "2 replicas but 1 log_dirs"),
    (document({"topic": "t", "partition": 0, "replicas": [1], "log_dirs": [1]}), "not a list of paths"),
    (document(ENTRY, version=2), "version 2"),
    ('{"partitions":{"replicas":[]}}', "'partitions' is not a list"),
]


@pytest.mark.parametrize(("text", "reason"), FAULTS)
def test_a_broken_assignment_is_refused_with_its_reason(text: str, reason: str) -> None:
    """A broken document is one malformed record; none of its inner lines is taken for a document."""
    assert assignment_json.recognises(text)
    (record,) = assignment_json.parse(text)
    assert record.kind == "malformed"
    assert reason in record.payload["reason"]


def test_good_entries_next_to_bad_ones_are_read() -> None:
    """Every bad entry is refused, and every good entry is read."""
    records = assignment_json.parse(document(7, ENTRY, {"topic": "t"}))
    assert [record.kind for record in records] == ["malformed", "assignment", "malformed"]


LISTED = [
    ("t-0: replicas: 1,2,3. adding: 3. removing: 1.", ("t", 0, [1, 2, 3], [3], [1])),
    ("t-0: replicas: 1,2,3. adding: 3.", ("t", 0, [1, 2, 3], [3], [])),
    ("t-0: replicas: 1,2,3. removing: 2,1.", ("t", 0, [1, 2, 3], [], [2, 1])),
    ("  a.b-3-12: replicas: 1.", ("a.b-3", 12, [1], [], [])),
]
PREFIXES = (
    *("[22:42:01] list: ", "2026-11-02T22:42:01Z ", "2026-11-02 22:42:01,123 ", "kafka-0 | ", "kafka-0  \t", "- "),
    *("* ", "• ", "1. ", "[pod/kafka-0/kafka] ", "> ", "[22:42:01]"),
)


@pytest.mark.parametrize(("line", "expected"), LISTED)
def test_reassignments_in_flight(line: str, expected: tuple[Any, ...]) -> None:
    """A line of the list gives replicas, adding and removing."""
    (record,) = reassignments.parse(f"Current partition reassignments:\n{line}\r\n")
    assert (record.kind, record.line) == ("reassignment", 2)
    assert tuple(record.payload[key] for key in ("topic", "partition", "replicas", "adding", "removing")) == expected


@pytest.mark.parametrize(
    "line",
    [
        "t-x: replicas: 1.",
        "t-0: replicas: 1,2",
        "t-0: replicas: 1,,2.",
        "t-0: replicas: b1.",
        "t-0: repl",
        "t0: replicas: 1,2. adding: 2.",
        "Current partition reassignments:\nt-0",
        "Current partition reassignments:\nt-0: replicas: 1.\nt-1:",
    ],
)
def test_a_broken_line_of_the_list_is_refused(line: str) -> None:
    """A line that looks like the list's but can't be read is refused."""
    assert [record.kind for record in reassignments.parse(line)][-1] == "malformed"


@pytest.mark.parametrize("prefix", PREFIXES)
@pytest.mark.parametrize("heading", ["", "Current partition reassignments:\n"], ids=["bare", "below its heading"])
def test_a_line_of_the_list_is_read_after_any_prefix(prefix: str, heading: str) -> None:
    """A poll loop may print a time, a container's name or a bullet before each line."""
    text = "".join(f"{prefix}{line}\n" for line in (*heading.splitlines(), *(line for line, _ in LISTED)))
    assert [
        tuple(record.payload.get(key) for key in ("topic", "partition", "replicas", "adding", "removing"))
        for record in parse_any(text, name="list.txt")
    ] == [expected for _, expected in LISTED]


@pytest.mark.parametrize("prefix", PREFIXES)
@pytest.mark.parametrize("line", ["t-0: replicas: 1,2", "t-0: repl", "t-0: replicas: 1,2. addi", "t-0: replicas: b1."])
def test_a_broken_line_after_a_prefix_is_refused(prefix: str, line: str) -> None:
    """Damage is reported as without the prefix, also below a complete line."""
    whole = f"{prefix}t-1: replicas: 1.\n"
    assert [record.kind for record in reassignments.parse(f"{whole}{prefix}{line}")] == ["reassignment", "malformed"]


@pytest.mark.parametrize(
    "line",
    ["2026-11-02T22:42:01Z", "2026-11-02 22:42:01+02:00", "22:42:01", "[22:42:01,123]", "22:42:01: next poll", "---"],
)
def test_lines_between_two_polls_are_no_damage(line: str) -> None:
    """A poll loop may print a time, its own words or a rule on a separate line."""
    lines = ["Current partition reassignments:", "t-0: replicas: 1. adding: 1.", line, "t-1: replicas: 1. adding: 1."]
    records = parse_any("\n".join(lines), name="list.txt")
    assert [(record.kind, record.line) for record in records] == [("reassignment", 2), ("reassignment", 4)]


@pytest.mark.parametrize("prefix", ["22:42:01 ", "[22:42:01] ", "[22:42:01] list: ", "2026-11-02T22:42:01Z "])
@pytest.mark.parametrize("line", ["t-0", "t-0:", "..."])
def test_a_cut_line_after_a_time_is_refused(prefix: str, line: str) -> None:
    """The time does not hide that partitions are missing."""
    records = parse_any(f"{prefix}t-1: replicas: 1.\n{prefix}{line}\n", name="list.txt")
    assert [(record.kind, record.line) for record in records] == [("reassignment", 1), ("malformed", 2)]


NONE = "No partition reassignments found."


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (f"{NONE}\nt-0: replicas: 1. adding: 1.\n", (1, 2)),
        (f"[22:41] list: {NONE}\n[22:42] list: t-0: replicas: 1.\n[22:43] list: t-0: replicas: 1.\n", (1, 2)),
        (f"Current partition reassignments:\nt-0: replicas: 1.\nt-1: replicas: 1.\n\n{NONE}\n", (5, 2)),
        (f"2026-11-02T22:42:01Z t-0: replicas: 1.\n2026-11-02T22:43:01Z {NONE}\n", (2, 1)),
        (f"22:42:01 list: t-0: replicas: 1.\n22:43:01 list: {NONE}\n", (2, 1)),
        (f"list: t-0: replicas: 1.\nlist: {NONE}\n", (2, 1)),
    ],
    ids=["none first", "poll log", "none last", "none after a date", "none after a time", "none after a name"],
)
def test_none_and_some_in_flight_contradict_each_other(text: str, lines: tuple[int, int]) -> None:
    """One record with the rule ``two_answers`` names both lines."""
    (fault,) = [record for record in parse_any(text, name="list.txt") if record.kind == "malformed"]
    assert (fault.line, fault.payload["rule"], fault.payload["severity"]) == (lines[0], "two_answers", "error")
    assert fault.payload["reason"] == (
        f"line {lines[0]} says {NONE!r}, but line {lines[1]} lists t-0: only one can be current"
    )


@pytest.mark.parametrize(
    "text",
    [
        f"{NONE}\n",
        f"[22:41] {NONE}\n[22:42] {NONE}\n",
        f"[zk: a(CONNECTED) 0] get {ZNODE}\nNode does not exist: {ZNODE}\n",
        f"get {ZNODE}\n{document()}\ncZxid = 0x3\n",
    ],
)
def test_none_in_flight_is_a_valid_empty_list(text: str) -> None:
    """It gives no records, however often it is printed."""
    assert parse_any(text, name="list.txt") == []


def test_other_lines_with_replicas_are_skipped() -> None:
    """Prose and lines of other tools are not lines of the list."""
    assert (
        list(reassignments.parse("These are my replicas: 1,2\n    partition 0, leader 1, replicas: 1, isrs: 1")) == []
    )
