"""Rows of the tables of ``kafka-consumer-groups.sh``: what each says about a group, its offsets and its members.

The protocol of a group or a member is stated only if the output proves it:

- epochs are printed for groups of the consumer protocol only; such a group may have members of the classic protocol,
  and ``UPGRADED`` (brokers from 4.0 on) is the protocol of the member itself
- the assignor ``uniform`` is the broker's, for the consumer protocol; ``roundrobin``, ``sticky`` and
  ``cooperative-sticky`` exist only in clients, for the classic protocol; ``range`` exists in both
- the states ``Assigning`` and ``Reconciling`` are the consumer protocol's; ``PreparingRebalance``,
  ``CompletingRebalance`` and its old name ``AwaitingSync`` are the classic protocol's
- a member id of the classic protocol is the client id or the instance id, a dash and a UUID in hexadecimal; that of
  the consumer protocol is one of Kafka's own UUIDs, 22 characters

References
----------
``org.apache.kafka.tools.consumer.group.ConsumerGroupCommand`` (3.8 to 4.3), ``kafka.admin.ConsumerGroupCommand`` (0.10
to 3.7), ``org.apache.kafka.common.GroupState`` (4.3), ``org.apache.kafka.coordinator.group.assignor.UniformAssignor``
(3.7), ``ClassicGroup.generateMemberId`` (4.3), KIP-848, KIP-1082, KIP-1099. Measured with 3.9.1 and 4.3.1, and
with the tool of 4.3.1 and brokers of 3.9.1. Kafka 3.8 and 3.9 print assignments without topics: ``(0,1), (2)``.
"""

import re
from collections.abc import Mapping
from typing import Any, TypeGuard

from sources.consumer_columns import COORDINATOR, GROUP, LIST, MEMBERS, OFFSETS, STATES, Header
from sources.consumer_notices import group_record
from sources.record import Record
from sources.text import integer, topic_fault

CLASSIC, CONSUMER = "classic", "consumer"
_OF_ASSIGNOR = {"uniform": CONSUMER, "roundrobin": CLASSIC, "sticky": CLASSIC, "cooperative-sticky": CLASSIC}
_OF_STATE = {
    "Assigning": CONSUMER,
    "Reconciling": CONSUMER,
    "PreparingRebalance": CLASSIC,
    "CompletingRebalance": CLASSIC,
    "AwaitingSync": CLASSIC,
}
_STATES = frozenset({*_OF_STATE, "Stable", "Empty", "Dead", "Unknown", "NotReady"})
_TYPES = {"Classic": CLASSIC, "Consumer": CONSUMER, "Unknown": None}
# More types in the list of kafka-groups.sh: groups without consumers that tables describe.
_NOT_CONSUMERS = frozenset({"Share", "Streams"})
_UUID_TAIL = re.compile(r"-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_KAFKA_UUID = re.compile(r"[A-Za-z0-9_-]{22}")
# What the tool prints for a missing value.
_NONE = frozenset({"-", "unknown", "none"})
_LONGEST_STATE = 2_000  # characters of a line of --state; a group has at most 249, the rest is short
_STATE_ROW = re.compile(
    r"(?:(?P<group>.*\S)\s+|\s*)(?P<host>\S*):-?[0-9]+\s+\((?P<id>-?[0-9]{1,10})\)\s(?P<assignor>.*?)\s+(?P<state>[A-Z][A-Za-z]+)"
    r"\s+(?P<epochs>(?:(?:-|[0-9]{1,10})\s+(?:-|[0-9]{1,10})\s+)?)(?P<members>[0-9]{1,10})\s*"
)
_NEW_ASSIGNMENT = re.compile(r"([a-zA-Z0-9._-]+):([0-9]{1,10}(?:,[0-9]{1,10})*)")
# Before 4.0; the topic is missing in 3.8 and 3.9.
_OLD_ASSIGNMENT = re.compile(r"([a-zA-Z0-9._-]*)\(([0-9]{1,10}(?:,[0-9]{1,10})*)\)")
# A group or an assignor with a wider gap than a name has: the line is damaged.
_GAP = re.compile(r"\s{2}")
_LARGEST = 2**63  # offsets and lags are Java's longs, below this
_LARGEST_INT = 2**31 - 1  # ids of brokers, numbers of partitions and of members, epochs: Java's ints
_NO_COUNT = f"not a number from 0 to {_LARGEST_INT:,}"


def read_row(header: Header, number: int, line: str, group: str | None) -> Record | str | None:
    """The record of a line, or the reason why it can't be read.

    Parameters
    ----------
    header : Header
        The header above the line; its kind is not ``OTHER``.
    number : int
        Number of the line.
    line : str
        The line.
    group : str or None
        The group, if the table does not name it.

    Returns
    -------
    Record or str or None
        None for a member without partitions in a table of offsets, and for a listed group without consumers.
    """
    if header.kind == STATES:
        return _state(header, number, line, group)
    cells = header.cells(line)
    if isinstance(cells, str):
        return cells
    named = cells.get(GROUP, group or "")
    if header.kind == OFFSETS:
        return _offset(number, cells, named)
    if header.kind == MEMBERS:
        return _member(number, cells, named)
    assert header.kind == LIST
    return _listed(number, cells, named)


def _is_count(number: int | None) -> TypeGuard[int]:
    return number is not None and 0 <= number <= _LARGEST_INT


def _offset(number: int, cells: Mapping[str, str], group: str) -> Record | str | None:
    topic, partition = cells["TOPIC"], integer(cells["PARTITION"])
    if topic == "-" and cells["PARTITION"] == "-":
        return None
    fault = topic_fault(topic)
    if fault is not None or not _is_count(partition):
        return fault or f"the partition is {cells['PARTITION'][:40]!r}, {_NO_COUNT}"
    values: dict[str, int | None] = {}
    for name in ("CURRENT-OFFSET", "LOG-END-OFFSET", "LAG"):
        value = integer(cells[name])
        if (value is None and cells[name] not in _NONE) or abs(value or 0) >= _LARGEST:
            return f"{name} is {cells[name][:40]!r}, neither '-' nor a number of 64 bits"
        values[name] = value
    current, end, lag = values.values()
    # The tool takes -1 as "no offset".
    current = None if current == -1 else current
    # The tool subtracts. Another result: a number is cut off, or the line is from another table.
    if lag != (None if current is None or end is None else end - current):
        return "LAG is not LOG-END-OFFSET minus CURRENT-OFFSET: a value is cut off or below another column"
    member = cells.get("CONSUMER-ID") or cells.get("OWNER", "-")
    offsets = {"current_offset": current, "end_offset": end, "lag": lag}
    owner = {"member_id": member, "host": cells.get("HOST", "-"), "client_id": cells.get("CLIENT-ID") or "-"}
    payload = {"group": group, "topic": topic, "partition": partition, **offsets}
    return Record("consumer_offset", number, payload | {k: None if v in _NONE else v for k, v in owner.items()})


def _member(number: int, cells: Mapping[str, str], group: str) -> Record | str:
    count = integer(cells["#PARTITIONS"])
    if not _is_count(count):
        return f"#PARTITIONS is {cells['#PARTITIONS'][:40]!r}, {_NO_COUNT}"
    assignment = cells.get("CURRENT-ASSIGNMENT", cells.get("ASSIGNMENT"))
    assigned: list[dict[str, Any]] | None = None
    if assignment is not None:
        read = _assigned(assignment)
        if isinstance(read, str):
            return read
        total = sum(len(entry["partitions"]) for entry in read)
        if total != count:
            return f"#PARTITIONS is {count}, but the assignment has {total}: it is cut off"
        # Without topics only the number is known.
        assigned = read if all(entry["topic"] for entry in read) else None
    fault = _epoch_fault(cells)
    if fault is not None:
        return fault
    payload = {
        "group": group,
        "member_id": cells["CONSUMER-ID"],
        "instance_id": cells.get("GROUP-INSTANCE-ID") or None,
        "host": cells["HOST"],
        "client_id": cells["CLIENT-ID"],
        "partitions": count,
        "assigned": assigned,
        "protocol": _protocol_of_member(cells),
    }
    return Record("consumer_member", number, payload)


def _assigned(text: str) -> list[dict[str, Any]] | str:
    """The topics and partitions of an assignment, or why it can't be read."""
    if text == "-":
        return []
    is_old = "(" in text
    pattern = _OLD_ASSIGNMENT if is_old else _NEW_ASSIGNMENT
    entries = []
    for part in text.split(", " if is_old else ";"):
        match = pattern.fullmatch(part)
        if match is None:
            return f"the assignment has {part[:80]!r}, neither 'topic:0,1' nor 'topic(0,1)'"
        partitions = [int(digits) for digits in match[2].split(",")]
        if not _is_count(max(partitions)):
            return f"the assignment has the partition {max(partitions)}, {_NO_COUNT}"
        entries.append({"topic": match[1], "partitions": partitions})
    return entries


def _epoch_fault(cells: Mapping[str, str]) -> str | None:
    """Why the columns behind the current assignment can't be read: a cell of another column shows a damaged line."""
    for name in ("CURRENT-EPOCH", "TARGET-EPOCH"):
        text = cells.get(name, "-")
        if text != "-" and integer(text) is None:
            return f"{name} is {text[:40]!r}, neither a number nor '-'"
    if isinstance(_assigned(cells.get("TARGET-ASSIGNMENT", "-")), str):
        return "the target assignment is damaged"
    upgraded = cells.get("UPGRADED", "-")
    return None if upgraded in {"-", "true", "false"} else f"UPGRADED is {upgraded[:40]!r}, neither true nor false"


def _protocol_of_member(cells: Mapping[str, str]) -> str | None:
    if cells.get("UPGRADED", "-") != "-":
        return CONSUMER if cells["UPGRADED"] == "true" else CLASSIC
    epoch, member = cells.get("CURRENT-EPOCH"), cells["CONSUMER-ID"]
    owners = (cells["CLIENT-ID"], cells.get("GROUP-INSTANCE-ID") or cells["CLIENT-ID"])
    # Brokers before 4.0 do not report UPGRADED: in a mixed group only the id shows a member of the classic protocol.
    if epoch == "-" or any(_is_made_of(member, owner) for owner in owners):
        return CLASSIC
    return CONSUMER if epoch is not None or _KAFKA_UUID.fullmatch(member) else None


def _is_made_of(member: str, owner: str) -> bool:
    return member.startswith(owner) and _UUID_TAIL.fullmatch(member, len(owner)) is not None


def _state(header: Header, number: int, line: str, group: str | None) -> Record | str:
    """The state of a group: releases before 4.0 let its cells overrun, so its shape decides, not only the columns."""
    shape = "the line does not have a group, a coordinator with its id, a state and a number of members"
    row = line[header.starts[0] :] if not line[: header.starts[0]].strip(" \t>#|") else line.lstrip(" \t>#|")
    match = _STATE_ROW.fullmatch(row) if len(row) <= _LONGEST_STATE else None
    if match is None or bool(match["epochs"]) != ("GROUP-EPOCH" in header.names):
        return shape
    if match["state"] not in _STATES:
        return f"{match['state'][:40]!r} is not the state of a group"
    named = match["group"] if header.has_group else group
    if named is None or (match["group"] is not None and not header.has_group):
        return shape
    indent = len(row) - len(row.lstrip())
    width = header.starts[header.names.index(COORDINATOR)] - header.starts[0] - 1
    # The coordinator is in its column, or behind a group that is longer than its column.
    at = indent + (max(width, len(named.strip())) + 1 if header.has_group else 0)
    if match.start("host") != at:
        return "its values are not below their columns: the line has lost its beginning or is below another header"
    epochs = match["epochs"].split()
    if not all(_is_count(abs(int(text))) for text in (match["id"], match["members"], *epochs) if text != "-"):
        return f"the coordinator, the number of members or an epoch is {_NO_COUNT}"
    assignor = match["assignor"].strip()
    if _GAP.search(named.strip()) or _GAP.search(assignor):
        return shape
    protocol = _OF_ASSIGNOR.get(assignor) or _OF_STATE.get(match["state"])
    if epochs:
        protocol = CLASSIC if epochs[0] == "-" else CONSUMER
    coordinator = int(match["id"])
    return group_record(
        number,
        named.strip(),
        protocol=protocol,
        state=match["state"],
        assignor=None if assignor in {"", "-"} else assignor,
        coordinator_id=None if coordinator < 0 else coordinator,
        members=int(match["members"]),
        epoch=integer(epochs[0]) if epochs else None,
    )


def _listed(number: int, cells: Mapping[str, str], group: str) -> Record | str | None:
    kind, state = cells.get("TYPE"), cells.get("STATE")
    if kind in _NOT_CONSUMERS or (kind in _TYPES and cells.get("PROTOCOL", "") not in {"", "consumer"}):
        return None
    protocol = _TYPES.get(kind or "")
    if (state is not None and state not in _STATES) or (kind is not None and kind not in _TYPES):
        return "the line does not have a group and its type or state"
    return group_record(number, group, protocol=protocol or _OF_STATE.get(state or ""), state=state)
