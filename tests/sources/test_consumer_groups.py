"""Outputs of ``kafka-consumer-groups.sh``. The fixtures are real outputs of 3.9.1 and 4.3.1."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sources.consumer_groups import recognises
from sources.detect import parse_any
from sources.record import Record

FIXTURES = Path(__file__).parents[1] / "fixtures" / "sources"
TEXTS = {path.name: path.read_text() for path in sorted(FIXTURES.glob("groups-*"))}
TABLES = {name: text for name, text in TEXTS.items() if "failure" not in name}
OFFSETS = (
    "GROUP           TOPIC           PARTITION  CURRENT-OFFSET  LOG-END-OFFSET  LAG             CONSUMER-ID     HOST"
    "            CLIENT-ID\n"
)
ROW = (
    "g               t               {0}          5               7               2               m               "
    "/10.0.0.1       c\n"
)
MEMBERS = "GROUP           CONSUMER-ID     HOST            CLIENT-ID       #PARTITIONS     ASSIGNMENT\n"
MEMBER = "g               m               /10.0.0.1       c               {0:<15} {1}\n"
STATE = "GROUP           COORDINATOR (ID)          ASSIGNMENT-STRATEGY  STATE           #MEMBERS\n"


def read(text: str, name: str = "x") -> list[Record]:
    """All records of a text."""
    return parse_any(text, name=name)


def payloads(text: str, kind: str, name: str = "x") -> list[dict[str, Any]]:
    """The payloads of one kind."""
    return [dict(record.payload) for record in read(text, name) if record.kind == kind]


def by_group(text: str) -> dict[str, dict[str, Any]]:
    """The records of groups, by group."""
    return {payload["group"]: payload for payload in payloads(text, "consumer_group")}


def faults(text: str, name: str = "x") -> list[tuple[int, str]]:
    """Line and reason of the malformed records."""
    return [(record.line, record.payload["reason"]) for record in read(text, name) if record.kind == "malformed"]


@pytest.mark.parametrize("name", TABLES)
def test_a_real_output_is_read(name: str) -> None:
    """Only the group that does not exist is reported."""
    lines = [line for line, _ in faults(TABLES[name])]
    assert [TABLES[name].split("\n")[line - 1] for line in lines] == [
        line for line in TABLES[name].split("\n") if "nope" in line
    ]


def test_states_of_groups() -> None:
    """Each group has its state, assignor, coordinator, members, epoch, and the protocol if it is certain."""
    rows = {
        group: tuple(payload[key] for key in ("protocol", "state", "assignor", "coordinator_id", "members", "epoch"))
        for group, payload in by_group(TEXTS["groups-state-verbose-4.3.txt"]).items()
    }
    assert rows == {
        "billing": ("consumer", "Stable", "uniform", 1, 2, 3),
        "classic-app": ("classic", "Stable", "range", 2, 2, None),
        "idle": ("classic", "Stable", "range", 2, 2, None),
        "idle-new": ("consumer", "Stable", "uniform", 2, 2, 3),
        "mixed": ("consumer", "Stable", "uniform", 1, 2, 2),
        "moving": ("classic", "PreparingRebalance", None, 2, 2, None),
        "moving-new": ("consumer", "Reconciling", "uniform", 2, 2, 3),
        "old jobs": ("classic", "Empty", None, 2, 0, None),
    }


@pytest.mark.parametrize("name", ["groups-state-3.9.txt", "groups-state-4.3.txt"])
def test_states_without_epochs(name: str) -> None:
    """The assignor ``uniform`` and some states prove the protocol; ``range`` and ``Empty`` prove nothing."""
    groups = by_group(TEXTS[name])
    assert {group: payload["protocol"] for group, payload in groups.items()} == {
        "billing": "consumer",
        "classic-app": None,
        "idle": None,
        "idle-new": "consumer",
        "mixed": "consumer",
        "moving": "classic",
        "moving-new": "consumer",
        "old jobs": None,
    }
    assert groups["old jobs"]["assignor"] is None
    assert {payload["is_complete"] for payload in groups.values()} == {True}


def test_members_with_epochs() -> None:
    """Ids with blanks, a static member, one without partitions, and both protocols in one group."""
    rows = {
        (member["group"], member["client_id"]): member
        for member in payloads(TEXTS["groups-members-verbose-4.3.txt"], "consumer_member")
    }
    assert rows["classic-app", "my app 1"]["assigned"] == [
        {"topic": "t", "partitions": [0, 1]},
        {"topic": "u", "partitions": [0]},
    ]
    assert rows["classic-app", "my app 1"]["member_id"].startswith("my app 1-")
    assert (rows["idle", "a"]["partitions"], rows["idle", "a"]["assigned"]) == (0, [])
    assert [rows["idle", client]["instance_id"] for client in "ab"] == [None, "i-b"]
    assert [rows["mixed", client]["protocol"] for client in ("old", "new")] == ["classic", "consumer"]
    # Epochs are printed for the consumer protocol only.
    others = {group: member["protocol"] for (group, _), member in rows.items() if group != "mixed"}
    assert {group for group, protocol in others.items() if protocol == "consumer"} == {
        "billing",
        "idle-new",
        "moving-new",
    }
    assert set(others.values()) == {"classic", "consumer"}
    assert {member["host"] for member in rows.values()} == {"/127.0.0.1"}


def test_ids_of_members_prove_their_protocol() -> None:
    """Tables without epochs give the same protocols: the ids have different forms."""
    by_name = [
        {member["client_id"]: member["protocol"] for member in payloads(TEXTS[name], "consumer_member")}
        for name in ("groups-members-verbose-4.3.txt", "groups-members-4.3.txt", "groups-members-verbose-3.9.txt")
    ]
    assert by_name[0] == by_name[1] == by_name[2]
    (member,) = payloads(MEMBERS + MEMBER.format(0, "-"), "consumer_member")
    assert member["protocol"] is None
    # Brokers of 3.9 give epochs, but not the column UPGRADED.
    lines = TEXTS["groups-members-verbose-4.3.txt"].split("\n")
    mixed = [line[: line.index("TARGET-A") + 21] if "UPGRADED" in line else line for line in lines]
    mixed = [line.removesuffix("true").removesuffix("false") for line in mixed]
    assert {m["client_id"]: m["protocol"] for m in payloads("\n".join(mixed), "consumer_member")} == by_name[0]


def test_assignments_without_topics_are_unknown() -> None:
    """Kafka 3.8 and 3.9 print ``(0,1), (2)``: the number is known, the topics are not. ``-`` is no partition."""
    members = payloads(TEXTS["groups-members-verbose-3.9.txt"], "consumer_member")
    assert {member["client_id"]: (member["partitions"], member["assigned"]) for member in members} == {
        "bill 2": (3, None),
        "bill": (2, None),
        "my app 2": (2, None),
        "my app 1": (3, None),
        "b": (1, None),
        "a": (0, []),
        "old": (2, None),
        "new": (1, None),
        "m1": (3, None),
        "m2": (0, []),
        "n2": (0, []),
        "n1": (3, None),
    }


ASSIGNMENTS = [
    ("t:0,1;u:2", [("t", [0, 1]), ("u", [2])]),
    ("t(0,1), u(2)", [("t", [0, 1]), ("u", [2])]),
    ("a.b-c_d:3,4,5", [("a.b-c_d", [3, 4, 5])]),
]


@pytest.mark.parametrize(("text", "expected"), ASSIGNMENTS)
def test_assignments_of_all_releases(text: str, expected: list[tuple[str, list[int]]]) -> None:
    """Both forms give topics and partitions."""
    (member,) = payloads(MEMBERS + MEMBER.format(3, text), "consumer_member")
    assert [(entry["topic"], entry["partitions"]) for entry in member["assigned"]] == expected


def test_offsets() -> None:
    """With and without leader epochs: the same offsets; a group without members has offsets."""
    plain, verbose, old = (
        payloads(TEXTS[f"groups-{name}.txt"], "consumer_offset")
        for name in ("offsets-4.3", "offsets-verbose-4.3", "offsets-3.9")
    )
    assert plain == verbose
    assert len(plain) == len(old) == 24
    jobs = [payload for payload in plain if payload["group"] == "old jobs"]
    assert [(row["partition"], row["current_offset"], row["lag"], row["member_id"]) for row in jobs] == [
        (0, 10, 0, None),
        (1, 0, 0, None),
        (2, 20, 0, None),
    ]
    assert any(payload["member_id"].startswith("my app 2-") for payload in plain if payload["member_id"])


def test_missing_offsets_are_null() -> None:
    """``-`` is no offset, no lag, no end; a member without partitions is no offset."""
    text = OFFSETS + "".join(
        f"g               {values:<75}m               /10.0.0.1       c\n"
        for values in (
            "t               0          -               7               -",
            "t               1          5               -               -",
            "-               -          -               -               -",
        )
    )
    rows = payloads(text, "consumer_offset")
    assert [(row["current_offset"], row["end_offset"], row["lag"]) for row in rows] == [
        (None, 7, None),
        (5, None, None),
    ]
    assert not faults(text)


def test_states_in_words() -> None:
    """Lines between tables give the state of a group, unless a table has it; a missing group is a warning."""
    groups = by_group(TEXTS["groups-offsets-3.9.txt"])
    assert {group: (payload["state"], payload["members"]) for group, payload in groups.items()} == {
        "moving": ("PreparingRebalance", None),
        "moving-new": ("PreparingRebalance", None),
        "old jobs": ("Empty", 0),
    }
    (missing,) = (r for r in read(TEXTS["groups-offsets-3.9.txt"]) if r.kind == "malformed")
    assert "'nope' does not exist" in missing.payload["reason"]
    assert (missing.payload["rule"], missing.payload["severity"]) == ("tool_error", "warning")
    both = TEXTS["groups-offsets-3.9.txt"] + "\n" + TEXTS["groups-state-4.3.txt"]
    assert len(payloads(both, "consumer_group")) == len(payloads(TEXTS["groups-state-4.3.txt"], "consumer_group"))


def test_a_failure_of_the_tool_does_not_stop_a_run() -> None:
    """Its error and stack trace are one warning with the line, alone or next to other outputs."""
    (alone,) = read(TEXTS["groups-failure-4.3.txt"])
    assert (alone.line, alone.payload["rule"], alone.payload["severity"]) == (3, "tool_error", "warning")
    describe = "\tTopic: t\tPartition: 0\tLeader: 1\tReplicas: 1,2\tIsr: 1,2\n"
    records = read(describe + TEXTS["groups-failure-4.3.txt"])
    assert [(r.kind, r.payload.get("severity")) for r in records] == [("partition", None), ("malformed", "warning")]
    # The trace is printed to another stream: it may come first.
    error, *trace = TEXTS["groups-failure-4.3.txt"].splitlines()[2:]
    (turned,) = read("\n".join([*trace, error]) + "\n")
    assert turned.payload["severity"] == "warning"
    # Another error in a text with only consumer groups.
    (_, other) = read(OFFSETS + ROW.format(0) + "\nError: Timed out\n")
    assert other.payload["severity"] == "warning"
    (_, other) = read(OFFSETS + ROW.format(0) + "command terminated with exit code 137\n")
    assert (other.line, other.payload["severity"]) == (3, "warning")
    (_, other) = read(describe + "Error: Timed out\n")
    assert other.payload["severity"] == "error"


def test_a_table_without_rows_is_no_fault() -> None:
    """Kafka 4 prints the header of ``--members`` for a group without members."""
    for header in (OFFSETS, MEMBERS, STATE, "\n" + MEMBERS + "\n" + OFFSETS):
        assert read(header) == []
        assert [record.payload["severity"] for record in read(header + "\nError: Timed out\n")] == ["warning"]


OLD = {
    "GROUP                          TOPIC                          PARTITION  CURRENT-OFFSET  LOG-END-OFFSET  LAG"
    "             OWNER\n"
    "g                              t                              0          5               7               2"
    "               c-1_/10.0.0.1\n": ("g", "c-1_/10.0.0.1"),
    "TOPIC                          PARTITION  CURRENT-OFFSET  LOG-END-OFFSET  LAG        CONSUMER-ID"
    "                                       HOST                           CLIENT-ID\n"
    "t                              0          5               7               2          c-1"
    "                                               /10.0.0.1                      c\n": ("my.app", "c-1"),
    "TOPIC                          PARTITION  CURRENT-OFFSET  LOG-END-OFFSET  LAG        CONSUMER-ID          \n"
    "t                              0          5               7               2          -                    \n": (
        "my.app",
        None,
    ),
}


@pytest.mark.parametrize(("text", "expected"), OLD.items())
def test_offsets_of_old_releases(text: str, expected: tuple[str, str | None]) -> None:
    """Without a column GROUP (0.10.2 to 2.3) the file's name gives the group."""
    group, member = expected
    (row,) = payloads(text, "consumer_offset", "in/consumer-groups-my.app.txt")
    values = {"topic": "t", "partition": 0, "current_offset": 5, "end_offset": 7, "lag": 2}
    owner = {"member_id": member, "host": "/10.0.0.1" if member == "c-1" else None}
    assert row == {"group": group, **values, **owner, "client_id": "c" if member == "c-1" else None}


def test_states_and_members_of_old_releases() -> None:
    """The tables of 2.0 to 2.3 have no column GROUP either."""
    name = "consumer-groups-my.app.txt"
    text = (
        "COORDINATOR (ID)          ASSIGNMENT-STRATEGY       STATE                #MEMBERS\n"
        "b-1.example:9092 (3)      range                     Stable               2\n\n"
        "CONSUMER-ID     HOST            CLIENT-ID       #PARTITIONS     ASSIGNMENT\n"
        "m               /10.0.0.1       c               2               t(0,1)\n"
    )
    (group,) = payloads(text, "consumer_group", name)
    assert (group["group"], group["coordinator_id"], group["members"]) == ("my.app", 3, 2)
    (member,) = payloads(text, "consumer_member", name)
    assert (member["group"], member["assigned"]) == ("my.app", [{"topic": "t", "partitions": [0, 1]}])
    assert not faults(text, name)


REFUSED = [
    (
        "TOPIC  PARTITION  CURRENT-OFFSET  LOG-END-OFFSET  LAG  CONSUMER-ID  HOST  CLIENT-ID\nt 0 5 5 0 m /h c\n",
        "no col",
    ),
    ("GROUP  TOPIC  PARTITION  NEW-OFFSET\ng      t      0          5\n", "--reset-offsets"),
    ("GROUP, TOPIC, PARTITION, CURRENT OFFSET, LOG END OFFSET, LAG, OWNER\ng, t, 0, 5, 7, 2, x\n", "Kafka 0.9"),
    ("GROUP  TOPIC  PARTITION\n", "cut off"),
    ("GROUP  TOPIC  PARTITION  START-POINT\ng      t      0          1\n", "another tool"),
    (OFFSETS[:60] + "\n" + ROW.format(0), "cut off"),
]


@pytest.mark.parametrize(("text", "reason"), REFUSED)
def test_other_tables_are_named(text: str, reason: str) -> None:
    """One warning, at the header, says why the table is not read."""
    (record,) = read(text)
    assert (record.kind, record.line, record.payload["severity"]) == ("malformed", 1, "warning")
    assert reason in record.payload["reason"]
    assert record.payload["remedy"]


# Headers of Kafka 4.0 to 4.3, with and without --verbose.
OTHER_GROUPS = [
    ("share", "GROUP TOPIC PARTITION START-OFFSET"),
    ("share", "GROUP TOPIC PARTITION START-OFFSET LAG"),
    ("share", "GROUP TOPIC PARTITION LEADER-EPOCH START-OFFSET"),
    ("share", "GROUP TOPIC PARTITION LEADER-EPOCH START-OFFSET LAG"),
    ("share", "GROUP CONSUMER-ID HOST CLIENT-ID ASSIGNMENT"),
    ("share", "GROUP CONSUMER-ID HOST CLIENT-ID #PARTITIONS MEMBER-EPOCH ASSIGNMENT"),
    ("share or streams", "GROUP COORDINATOR (ID) STATE #MEMBERS"),
    ("share or streams", "GROUP COORDINATOR (ID) STATE GROUP-EPOCH ASSIGNMENT-EPOCH #MEMBERS"),
    ("share or streams", "GROUP COORDINATOR (ID) STATE GROUP-EPOCH TARGET-ASSIGNMENT-EPOCH #MEMBERS"),
    ("streams", "GROUP TOPIC PARTITION OFFSET-LAG"),
    ("streams", "GROUP TOPIC PARTITION CURRENT-OFFSET LEADER-EPOCH LOG-END-OFFSET OFFSET-LAG"),
    ("streams", "GROUP MEMBER PROCESS CLIENT-ID ASSIGNMENTS"),
    (
        "streams",
        "GROUP TARGET-ASSIGNMENT-EPOCH TOPOLOGY-EPOCH MEMBER MEMBER-PROTOCOL MEMBER-EPOCH PROCESS CLIENT-ID"
        " ASSIGNMENTS",
    ),
]


@pytest.mark.parametrize(("groups", "header"), OTHER_GROUPS)
def test_tables_of_share_and_streams_groups_are_named(groups: str, header: str) -> None:
    """One finding for each table says what it is; the table of consumer groups below it is read."""
    table = f"\n{header.replace(' ', '  ').replace('R  (', 'R (')}\ng  t  0  -  4\n  ACTIVE: 0:[0];\n\n"
    fault, row = read(table + OFFSETS + ROW.format(0))
    reason = f"this table is about {groups} groups, which are not read"
    assert (fault.line, fault.payload["reason"], fault.payload["severity"]) == (2, reason, "warning")
    assert row.kind == "consumer_offset"


def test_the_list_of_all_groups_gives_those_of_consumers() -> None:
    """``kafka-groups.sh --list``: groups of Connect, share groups and streams groups have no consumers."""
    rows = ["a Classic consumer", "b Consumer consumer", "c Classic connect", "d Share share", "e Streams streams"]
    rows = ["GROUP TYPE PROTOCOL", *rows, "f Classic "]
    text = "".join("{:<24} {:<24} {:<24}\n".format(*row.split(" ")) for row in rows)
    assert [(group, facts["protocol"]) for group, facts in by_group(text).items()] == [
        ("a", "classic"),
        ("b", "consumer"),
        ("f", "classic"),
    ]
    assert faults(text) == []
    assert faults(text.replace("Consumer ", "Consuner ")) == [
        (3, "the line does not have a group and its type or state")
    ]
    assert read("".join(text.splitlines(keepends=True)[:1])) == []


def test_one_name_does_not_name_two_groups() -> None:
    """Two tables without the column GROUP may be of two groups."""
    text = (
        "CONSUMER-ID     HOST            CLIENT-ID       #PARTITIONS     \n"
        "m               /10.0.0.1       c               2               \n\n"
    )
    assert len(payloads(text, "consumer_member", "consumer-groups-a.txt")) == 1
    assert [line for line, _ in faults(text * 2, "consumer-groups-a.txt")] == [1, 4]


def test_lists_with_types_and_states() -> None:
    """``--list --state --type`` gives the protocol; a table of ``--state`` has priority."""
    text = "GROUP                     TYPE                 STATE               \n" + "".join(
        f"{group:<25} {kind:<20} {state:<20}\n"
        for group, kind, state in (("a b", "Classic", "Empty"), ("c", "Consumer", "Stable"))
    )
    groups = by_group(text)
    assert [(groups[g]["protocol"], groups[g]["state"]) for g in ("a b", "c")] == [
        ("classic", "Empty"),
        ("consumer", "Stable"),
    ]


WIDE = [
    # Before 4.0 the columns of --state were not as wide as their cells.
    "a-group-with-a-name-of-forty-characters- {host}:9092 (7) range                Stable          2\n",
    "my group        {host}:9092 (7)                      PreparingRebalance 2\n",
    "g               :-1  (-1)                 range                Stable          2\n",
]


@pytest.mark.parametrize("row", WIDE)
@pytest.mark.parametrize("host", ["b", "ip-10-0-0-1.eu-west-1.compute.internal"])
def test_states_wider_than_their_columns(row: str, host: str) -> None:
    """The shape of the line decides."""
    (group,) = payloads(STATE + row.format(host=host), "consumer_group")
    assert group["group"] in {"a-group-with-a-name-of-forty-characters-", "my group", "g"}
    assert (group["members"], group["coordinator_id"]) in {(2, 7), (2, None)}


def test_a_cell_wider_than_its_column_is_read_or_reported() -> None:
    """A shifted line is read if no value has a blank; else it is reported."""
    wide = ROW.format(0).replace("t               0", "topic-of-22-characters 0")
    assert payloads(OFFSETS + wide, "consumer_offset")[0]["topic"] == "topic-of-22-characters"
    blank = wide.replace("g    ", "g h  ", 1)
    assert not payloads(OFFSETS + blank, "consumer_offset")
    assert [line for line, _ in faults(OFFSETS + blank)] == [2]


DAMAGED = [
    (OFFSETS + ROW.format(0)[:-3] + "\n", 2),
    (OFFSETS + ROW.format(0)[2:], 2),
    (OFFSETS + ROW.format(0).replace("7  ", "70 "), 2),
    (OFFSETS + ROW.format("x"), 2),
    (OFFSETS + ROW.format(0).replace("t   ", "t/  "), 2),
    (OFFSETS + ROW.format(0)[:-1] + ROW.format(1), 2),
    (OFFSETS + ROW.format(0) + "...\n" + ROW.format(2), 3),
    (MEMBERS + MEMBER.format(3, "t:0,1"), 2),
    (MEMBERS + MEMBER.format(2, "t:0,"), 2),
    (MEMBERS + MEMBER.format(2, "t:0,1").rstrip(), 2),
    (MEMBERS + MEMBER.format("x", "-"), 2),
    (MEMBERS[: MEMBERS.index("ASSIGN")] + "\n" + MEMBER.format(12, "")[:-15] + "\n", 2),
    (STATE + "g               b:9092 (1)                range                Stable          1", 2),
    (STATE + "g               b:9092 (1)                range                Stab\n", 2),
    (OFFSETS + ROW.format(0) + "\nConsumer group 'x' has no act\n", 4),
    (OFFSETS + ROW.format(0) + "\nWarning: Cons\n", 4),
    (MEMBERS[5:] + MEMBER.format(0, "-"), 1),
    ("RTITION LOG-END-OFFSET\n" + ROW.format(0), 2),
]


@pytest.mark.parametrize(("text", "line"), DAMAGED)
def test_a_damaged_line_is_reported(text: str, line: int) -> None:
    """It is a warning with its line, and gives no record."""
    assert line in [number for number, _ in faults(text)]
    assert not [record for record in read(text) if record.line == line and record.kind != "malformed"]


def member_row(group: str, member: str) -> str:
    """A line of members."""
    return f"{group:<15} {member:<15} /10.0.0.1       c               {1:<15} t:0\n"


REPEATED = [
    (
        MEMBERS + member_row("h", "m0") + member_row("g", "m1"),
        MEMBERS + member_row("g", "m2") + member_row("g", "m3"),
        [("h", "m0"), ("g", "m2"), ("g", "m3")],
    ),
    (
        OFFSETS + ROW.format(0) + ROW.format(1) + "\n" + OFFSETS + "h" + ROW.format(3)[1:],
        OFFSETS + ROW.format(1) + ROW.format(2),
        [("h", 3), ("g", 1), ("g", 2)],
    ),
    # Now the member of the group has no partition.
    (
        OFFSETS + ROW.format(0),
        OFFSETS + "g               -               -          -               -               -               m     "
        "          /10.0.0.1       c\n",
        [],
    ),
    (
        STATE + "g               b:9092 (1)                range                Stable          1\n",
        STATE + "g               b:9092 (2)                range                Empty           0\n",
        [("g", 2)],
    ),
    (
        "\nConsumer group 'g' has no active members.\n",
        "\nWarning: Consumer group 'g' is rebalancing.\n",
        [("g", "PreparingRebalance")],
    ),
    # Tables of two kinds have different facts.
    (MEMBERS + member_row("g", "m1"), OFFSETS + ROW.format(0), [("g", "m1"), ("g", 0)]),
]


@pytest.mark.parametrize(("first", "second", "expected"), REPEATED)
def test_the_last_table_of_a_group_counts(first: str, second: str, expected: list[tuple[str, str | int]]) -> None:
    """A loop appends its outputs: older rows of a group and kind are dropped; a group of the first table stays."""
    facts = {"consumer_member": ["member_id"], "consumer_offset": ["partition"]}
    shown = []
    for record in read(f"{first}\n{second}"):
        names = facts.get(record.kind, ["coordinator_id", "state"])
        shown.append((record.payload["group"], next(v for v in map(record.payload.get, names) if v is not None)))
    assert shown == expected


INT, LONG = 2**31 - 1, 2**63 - 1  # Java's largest numbers
EPOCHS = STATE.replace("#MEM", "GROUP-EPOCH     TARGET-ASSIGNMENT-EPOCH  #MEM")


def state_row(coordinator: int, members: int, epochs: str = "") -> str:
    """A line of ``--state``."""
    broker = f"b:9092 ({coordinator})"
    return f"g               {broker:<25} range                Stable          {epochs}{members}\n"


def offset_row(current: int, end: int, lag: int) -> str:
    """A line of offsets, shifted where a number is longer than its column."""
    numbers = f"{0:<10} {current:<15} {end:<15} {lag:<15}"
    return f"g               t               {numbers} m               /h              c\n"


@pytest.mark.parametrize("number", [INT + 1, 2**32, 9_999_999_999, LONG, 10**20])
def test_a_number_out_of_range_is_reported(number: int) -> None:
    """Ids, members, epochs and partitions are ints in Kafka; larger ones are damaged lines."""
    tables = [
        (STATE, state_row(number, 2)),
        (STATE, state_row(1, number)),
        (EPOCHS, state_row(1, 2, f"{number:<15} {3:<24} ")),
        (MEMBERS, MEMBER.format(number, "-")),
        (MEMBERS[: MEMBERS.index("ASSIGN")] + "\n", MEMBER.format(number, "")),
        (MEMBERS, MEMBER.format(1, f"t:{number}")),
        (MEMBERS, MEMBER.format(2, f"t(0,{number})")),
        (OFFSETS, ROW.format(number)),
    ]
    for header, row in tables:
        assert [(record.kind, record.line) for record in read(header + row)] == [("malformed", 2)], row


def test_the_largest_numbers_are_read() -> None:
    """Java's largest int and long."""
    for row in (state_row(INT, INT), state_row(-1, 0)):
        assert len(payloads(STATE + row, "consumer_group")) == 1
    assert payloads(MEMBERS + MEMBER.format(1, f"t:{INT}"), "consumer_member")[0]["assigned"][0]["partitions"] == [INT]
    assert payloads(OFFSETS + offset_row(0, LONG, LONG), "consumer_offset")[0]["lag"] == LONG
    for current, end, lag in ((-LONG, LONG, 2 * LONG), (-LONG, 5, 5 + LONG), (0, LONG + 1, LONG + 1)):
        assert [line for line, _ in faults(OFFSETS + offset_row(current, end, lag))] == [2]


def test_other_text_around_tables() -> None:
    """Prompts, fences, prose, other tools' outputs and CRLF do not matter."""
    describe = "Topic: t\tPartition: 0\tLeader: 1\tReplicas: 1,2\tIsr: 1,2\n"
    table = OFFSETS + ROW.format(0)
    texts = [
        f"$ kafka-consumer-groups.sh --describe --all-groups\n\n{table}$ kafka-topics.sh --describe\n{describe}",
        f"## Groups\n\n```\n{table}```\nAs expected.\n\n{describe}",
        f"{describe}{table}{describe}",
        f"{table}\nThe group is fine, as of today.\n",
        table.replace("\n", "\r\n"),
        "".join(f"    {line}\n" for line in table.splitlines()),
        "".join(f"> {line}\n" for line in table.splitlines()),
        table.replace("\ng ", "\n[2026-01-31 02:00:00,123] WARN x (a.B)\ng "),
        f"Note: This will not show information about old Zookeeper-based consumers.\n{table}",
        f"[2026-01-31 02:00:00,123] WARN x (a.B)\n{table}[2026-01-31 02:00:00,123] WARN x (a.B)\n",
    ]
    for text in texts:
        assert [row["partition"] for row in payloads(text, "consumer_offset")] == [0], text
        assert not faults(text), text
    assert all(payloads(text, "partition") for text in texts[:3])


def test_other_texts_are_not_claimed() -> None:
    """No fixture of another tool looks like this format."""
    for path in FIXTURES.iterdir():
        if not path.name.startswith("groups-"):
            assert not recognises(path.read_bytes().decode()), path.name


names = st.sampled_from(sorted(TABLES))
ORIGINAL = {name: {repr(record.payload) for record in read(text)} for name, text in TABLES.items()}
# A client id at the end of the text may be cut off, so it is left out.
WITHOUT_CLIENT = {
    name: {repr({**record.payload, "client_id": None}) for record in read(text) if record.kind == "consumer_offset"}
    for name, text in TABLES.items()
}


def check_only_original(name: str, text: str) -> None:
    """No record except reports of damage is new. A state in words may replace the row of its group."""
    for record in read(text):
        in_words = record.kind == "consumer_group" and record.payload["coordinator_id"] is None
        is_known = repr(record.payload) in ORIGINAL[name] or repr(record.payload) in WITHOUT_CLIENT[name]
        assert record.kind == "malformed" or in_words or is_known, record
        if in_words:
            assert any(f"'group': {record.payload['group']!r}" in payload for payload in ORIGINAL[name])


@settings(deadline=None)
@given(name=names, data=st.data())
def test_a_text_that_ends_anywhere_gives_no_new_record(name: str, data: st.DataObject) -> None:
    """A value that is cut off is no value."""
    check_only_original(name, TABLES[name][: data.draw(st.integers(0, len(TABLES[name])))])


@settings(deadline=None)
@given(name=names, data=st.data())
def test_lost_and_doubled_lines_give_no_new_record(name: str, data: st.DataObject) -> None:
    """Rows below the header of another table are reported, not misread."""
    lines = TABLES[name].splitlines(keepends=True)
    counts = data.draw(st.lists(st.sampled_from([0, 1, 1, 1, 2]), min_size=len(lines), max_size=len(lines)))
    check_only_original(name, "".join(line * count for line, count in zip(lines, counts, strict=True)))


@settings(deadline=None)
@given(name=names, data=st.data())
def test_a_shifted_line_gives_no_new_record(name: str, data: st.DataObject) -> None:
    """A line that is indented, or has lost its beginning, is read as it was or reported."""
    lines = TABLES[name].splitlines(keepends=True)
    i = data.draw(st.integers(0, len(lines) - 1))
    shift = data.draw(st.integers(-30, 30))
    lines[i] = " " * shift + lines[i] if shift > 0 else lines[i][-shift:]
    check_only_original(name, "".join(lines))


@settings(deadline=None)
@given(data=st.data())
def test_mixed_tables_give_no_new_record(data: st.DataObject) -> None:
    """Rows below the header of any other table are reported, or are what they were."""
    first, second = data.draw(names), data.draw(names)
    lines = TABLES[first].splitlines(keepends=True) + TABLES[second].splitlines(keepends=True)
    kept = data.draw(st.sets(st.integers(0, len(lines) - 1)))
    text = "".join(line for i, line in enumerate(lines) if i not in kept)
    known = ORIGINAL[first] | ORIGINAL[second]
    new = [r for r in read(text) if r.kind != "malformed" and repr(r.payload) not in known]
    assert not [r for r in new if r.kind != "consumer_group" or r.payload["coordinator_id"] is not None]


def large(rows: Sequence[str], count: int) -> str:
    """A table with many rows."""
    return OFFSETS + "".join(rows[i % len(rows)] for i in range(count))


def test_a_large_output_is_read_in_seconds() -> None:
    """200,000 lines take less than ten seconds of CPU time (measured: under three)."""
    text = large([ROW.format(partition) for partition in range(10)], 200_000)
    started = time.process_time()
    assert len(read(text)) == 200_000
    assert time.process_time() - started < 10
