"""What ``kafka-consumer-groups.sh`` prints around its tables: states of groups, unknown groups, and its own failures.

Consumer groups are an optional input. A failure of this tool is a warning that names the line; it never stops a run.

References
----------
``org.apache.kafka.tools.consumer.group.ConsumerGroupCommand`` (3.8 to 4.3): ``shouldPrintMemberState``, ``printError``;
``kafka.admin.ConsumerGroupCommand`` (0.9 to 3.7).
"""

import re
from collections.abc import Mapping

from sources.record import TOOL_ERROR, Record, malformed

EXPECTED = "kafka-consumer-groups.sh --describe"
# Rule and severity of a line that is not read: the input is optional, so the line never stops a run.
LEFT_OUT: Mapping[str, str] = {"rule": "readable", "severity": "warning"}

_STATE = re.compile(
    r"[\s>#]*(?:Warning: )?Consumer group ['`](?P<group>.*)['`]"
    r" (?:(?P<empty>has no active members)|(?P<moving>is rebalancing))\.\s*"
)
_MISSING = re.compile(r"[\s>#]*(?:Error: )?(?:The c|C)onsumer group ['`](?P<group>.*)['`] does not exist\.\s*")
# The beginning of these lines: one that does not match above is cut off.
_NOTICE = re.compile(r"[\s>#]*(?:(?:Warning|Error): )?(?:The c|C)onsumer group ['`]")
_STARTS = ("Consumer group '", "Warning: Consumer group '")
# Lines of a failure and of its stack trace that only this tool prints.
_FAILURE = re.compile(
    r"Executing consumer group command failed|Error while executing consumer group command|\bConsumerGroupCommand\b"
)


def is_notice(line: str) -> bool:
    """Whether the tool reports the state of a group in this line, or that the group does not exist."""
    return "onsumer group" in line and _NOTICE.match(line) is not None


def is_cut_notice(line: str) -> bool:
    """Whether the line is only the beginning of such a line, at least its first word."""
    text = line.strip(" \t>#")
    return len(text) > len("Warning") and any(start.startswith(text) for start in _STARTS)


def is_failure(line: str) -> bool:
    """Whether this line belongs to a failure of the tool."""
    return "onsumer" in line and _FAILURE.search(line) is not None


def read_notice(number: int, line: str) -> Record:
    """The state of a group (``consumer_group``), or a warning (``malformed``)."""
    state = _STATE.fullmatch(line)
    if state is not None:
        is_empty = state["empty"] is not None
        name = "Empty" if is_empty else "PreparingRebalance"
        return group_record(number, state["group"], state=name, members=0 if is_empty else None)
    missing = _MISSING.fullmatch(line)
    if missing is None:
        remedy = "supply the complete, unchanged output of kafka-consumer-groups.sh"
        reason = "the line about a consumer group is cut off or damaged"
        return malformed(line=number, expected=EXPECTED, reason=reason, remedy=remedy, text=line, **LEFT_OUT)
    reason = f"consumer group {missing['group'][:200]!r} does not exist, so the output has no facts about it"
    remedy = "check the group's name, or remove it from the command"
    return malformed(
        line=number, expected=EXPECTED, reason=reason, remedy=remedy, text=line, rule=TOOL_ERROR, severity="warning"
    )


def group_record(
    line: int,
    group: str,
    *,
    protocol: str | None = None,
    state: str | None = None,
    assignor: str | None = None,
    coordinator_id: int | None = None,
    members: int | None = None,
    epoch: int | None = None,
) -> Record:
    """A ``consumer_group``; what the tool does not print is null."""
    facts = {"protocol": protocol, "state": state, "assignor": assignor, "coordinator_id": coordinator_id}
    counts = {"members": members, "epoch": epoch, "is_complete": True}
    return Record("consumer_group", line, {"group": group, **facts, **counts})
