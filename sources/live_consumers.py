"""Consumer groups of a live cluster and their members, read over Kafka's Admin API, as records (see sources/record.py).

Only groups of protocol type ``consumer``. The client library has no request that describes the members of KIP-848
groups: such a group becomes a ``consumer_group`` record that is not complete. Lags are not read.

References
----------
org.apache.kafka.coordinator.group.GroupMetadataManager (listGroups, describeGroups) and .classic.ClassicGroup, Kafka
4.3.1: a broker lists the groups that it coordinates; members have assignments only while the group is stable.
KIP-518 (states in the list), KIP-848 (types in the list), KIP-1043 (an error for groups that are not classic).
"""

import struct
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from optimizer.units import first_of, plural
from sources.kafka_admin import CLIENT_ERRORS, AskingAdmin, registered_brokers
from sources.record import Record, malformed

with warnings.catch_warnings():
    # The client library calls a deprecated function when it loads its message schemas.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.errors import for_code
    from kafka.protocol.admin import DescribeGroupsRequest, ListGroupsRequest
    from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment

_GROUPS_PER_REQUEST = 100  # groups: each member has its subscription, so an answer has a few MB at most
_NAMED = 5  # brokers or groups that a warning names: enough to find the missing permission
_DECODING_ERRORS = (ValueError, struct.error)  # what the library raises for bytes that it can't decode
_ERRORS = (*CLIENT_ERRORS, struct.error)
_NOT_COORDINATOR, _NOT_FOUND = 16, 69  # NOT_COORDINATOR and GROUP_ID_NOT_FOUND of Kafka's Errors
_NOT_CLASSIC = "not a classic group"  # in the message of GROUP_ID_NOT_FOUND: the group exists (KIP-1043)
_CONSUMER = "consumer"  # protocol type; Connect, Schema Registry, share and Streams groups have others
_STABLE, _EMPTY, _DEAD = "Stable", "Empty", "Dead"  # ClassicGroupState; a broker calls unknown groups dead


@dataclass(frozen=True)
class _Group:
    """A group as a broker lists it, with the answer to the request that describes it.

    Parameters
    ----------
    broker_id : int
        The broker that lists the group: its coordinator.
    listed, described : ListedGroup and DescribedGroup of the library, or None
        Fields of the protocol; ``described`` is None if the broker did not answer. Their ``to_dict`` would turn the
        bytes of assignments into text.
    failure : str or None
        The client's error if the broker did not answer.
    """

    broker_id: int
    listed: Any
    described: Any
    failure: str | None = None

    @property
    def name(self) -> str:
        return str(self.listed.group_id)

    @property
    def code(self) -> int:
        return int(self.described.error_code) if self.described else 0

    @property
    def is_readable(self) -> bool:
        """Whether the answer has the group's members."""
        return self.failure is None and self.code == 0 and self.described.group_state != _DEAD

    @property
    def protocol(self) -> str | None:
        """``classic`` or ``consumer``; None if neither the list (before Kafka 3.8) nor the answer has it."""
        if self.is_readable:
            return "classic"
        is_not_classic = self.described and _NOT_CLASSIC in (self.described.error_message or "")
        return (self.listed.group_type or "").lower() or ("consumer" if is_not_classic else None)

    @property
    def is_gone(self) -> bool:
        """Whether the group was deleted after the broker had listed it."""
        is_unknown = self.failure is None and self.code in (0, _NOT_FOUND) and not self.is_readable
        return is_unknown and self.protocol == "classic"

    @property
    def error(self) -> str | None:
        """The name of the error if the group can't be described, except for a group that is not classic."""
        return self.failure or (for_code(self.code).__name__ if self.code not in (0, _NOT_FOUND) else None)


def consumer_groups(admin: AskingAdmin) -> Iterator[Record]:
    """Yield the records ``consumer_group`` and ``consumer_member`` of a cluster, by group and member id.

    What can't be read becomes a ``malformed`` record of severity ``warning``; no error of the client stops the caller.
    Fenced brokers are not asked.
    """
    groups: dict[str, _Group] = {}
    silent: list[str] = []
    for broker_id in _live_brokers(admin, silent):
        try:
            listed = _list(admin, broker_id)
        except _ERRORS as error:
            silent.append(f"broker {broker_id}: {type(error).__name__}")
            continue
        for group in _describe(admin, broker_id, listed):
            # While its coordinator changes, two brokers may list a group.
            if group.name not in groups or group.is_readable:
                groups[group.name] = group
    known = [group for _, group in sorted(groups.items()) if not group.is_gone]
    damaged: list[str] = []
    for group in known:
        yield _group(group)
        yield from _members(group, damaged)
    yield from _warnings(silent, [f"{group.error} for {group.name}" for group in known if group.error], damaged)


def _live_brokers(admin: AskingAdmin, silent: list[str]) -> list[int]:
    try:
        return [broker["broker_id"] for broker in registered_brokers(admin) if not broker["fenced"]]
    except _ERRORS as error:
        silent.append(f"all brokers: {type(error).__name__}")
        return []


def _list(admin: AskingAdmin, broker_id: int) -> list[Any]:
    """The consumer groups that a broker coordinates."""
    answer = admin.answer_of(broker_id, ListGroupsRequest(min_version=0))
    if answer.error_code:
        raise for_code(answer.error_code)()
    return [group for group in answer.groups if group.protocol_type == _CONSUMER]


def _describe(admin: AskingAdmin, broker_id: int, listed: Sequence[Any]) -> Iterator[_Group]:
    """Each listed group with its answer.

    The library's ``describe_groups`` turns error codes into text and logs bytes that it can't decode.
    """
    for start in range(0, len(listed), _GROUPS_PER_REQUEST):
        batch = listed[start : start + _GROUPS_PER_REQUEST]
        request = DescribeGroupsRequest(groups=[group.group_id for group in batch])
        try:
            answers = {group.group_id: group for group in admin.answer_of(broker_id, request).groups}
        except _ERRORS as error:
            yield from (_Group(broker_id, group, None, type(error).__name__) for group in batch)
            continue
        for group in batch:
            answer = answers.get(group.group_id)
            yield _Group(broker_id, group, answer, None if answer else "no answer")


def _group(group: _Group) -> Record:
    described = group.described if group.is_readable else None
    state = (described.group_state if described else group.listed.group_state) or None
    # The broker prints the state of each group, so a group without members is known even if nobody may describe it.
    members = len(described.members) if described else (0 if state == _EMPTY else None)
    payload = {
        "group": group.name,
        "protocol": group.protocol,
        "state": state,
        "assignor": (described.protocol_data if described else "") or None,
        "coordinator_id": None if group.code == _NOT_COORDINATOR else group.broker_id,
        "members": members,
        "epoch": None,
        "is_complete": members is not None,
    }
    return Record("consumer_group", 0, payload)


def _members(group: _Group, damaged: list[str]) -> Iterator[Record]:
    """Records of the members; adds to ``damaged`` the members whose assignments can't be decoded."""
    members = group.described.members if group.is_readable else []
    for member in sorted(members, key=lambda member: str(member.member_id)):
        assigned = None
        if group.described.group_state == _STABLE:
            try:
                assigned = _assigned(member.member_assignment)
            except _DECODING_ERRORS:
                damaged.append(f"{member.member_id} of group {group.name}")
        payload = {
            "group": group.name,
            "member_id": member.member_id,
            "instance_id": member.group_instance_id,
            "host": member.client_host or None,
            "client_id": member.client_id or None,
            "partitions": None if assigned is None else sum(len(topic["partitions"]) for topic in assigned),
            "assigned": assigned,
            "protocol": group.protocol,
        }
        yield Record("consumer_member", 0, payload)


def _assigned(encoded: bytes) -> list[dict[str, Any]]:
    """Topics and partitions of an assignment; some clients send no bytes for a member without partitions."""
    topics = ConsumerProtocolAssignment.decode(bytes(encoded)).assigned_partitions if encoded else []
    partitions = {str(each.topic): sorted(each.partitions) for each in topics}
    return [{"topic": topic, "partitions": numbers} for topic, numbers in sorted(partitions.items())]


def _warnings(silent: Sequence[str], refused: Sequence[str], damaged: Sequence[str]) -> Iterator[Record]:
    """At most one warning of each kind."""
    if silent:
        reason = f"consumer groups can't be listed ({first_of(silent, _NAMED)}): groups that rebalance may be missing"
        yield _warning(reason, "start the brokers, or allow DESCRIBE on the cluster")
    if refused:
        count = plural(len(refused), "consumer group")
        reason = f"{count} can't be described ({first_of(refused, _NAMED)}): members and assignments are unknown"
        yield _warning(reason, "allow DESCRIBE on these groups")
    if damaged:
        count = plural(len(damaged), "member")
        reason = f"assignments of {count} of consumer groups can't be decoded ({first_of(damaged, _NAMED)})"
        yield _warning(reason, "check the client of these members: it does not use Kafka's consumer protocol")


def _warning(reason: str, remedy: str) -> Record:
    return malformed(
        line=0, expected="consumer groups", reason=reason, remedy=remedy, text="", rule="readable", severity="warning"
    )
