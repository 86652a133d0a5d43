"""Consumer groups of a live cluster, with a fake client that answers with responses of the library itself."""

import struct
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import Any

import pytest
from kafka.protocol.admin import (
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    ListGroupsRequest,
    ListGroupsResponse,
)
from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment
from pyspark.sql.types import StructType

from sources import kafka_admin, kafka_live, live_consumers
from sources.live_consumers import consumer_groups
from sources.record import Record
from tests.sources.test_kafka_admin import FakeAdmin, Silent, payloads

Listed = ListGroupsResponse.ListedGroup
Described = DescribeGroupsResponse.DescribedGroup
Member = Described.DescribedGroupMember
FIELDS = {
    "consumer_group": "group protocol state assignor coordinator_id members epoch is_complete",
    "consumer_member": "group member_id instance_id host client_id partitions assigned protocol",
}
NEW, OLD = (5, 6), (0, 0)  # versions of both answers: Kafka 4, and brokers before 0.11
KIP_848 = {"error_code": 69, "error_message": "Group k is not a classic group."}
REFUSED = {"error_code": 30, "error_message": "Group authorization failed."}


def assignment(**topics: Sequence[int]) -> bytes:
    """An assignment as a consumer gets it."""
    rows = [ConsumerProtocolAssignment.TopicPartition(topic=name, partitions=[*p]) for name, p in topics.items()]
    return bytes(ConsumerProtocolAssignment(assigned_partitions=rows, user_data=None).encode(version=1))


def member(member_id: str, encoded: bytes = b"", **fields: Any) -> Any:
    """A member on the host of Kafka's own tools."""
    facts = {"client_id": "app", "client_host": "/10.0.0.1", "member_metadata": b"", **fields}
    return Member(member_id=member_id, member_assignment=encoded, **facts)


def stable(*members: Any, protocol: str = "range") -> dict[str, Any]:
    """The description of a stable group."""
    return {"group_state": "Stable", "protocol_type": "consumer", "protocol_data": protocol, "members": [*members]}


class Groups(FakeAdmin):
    """A cluster whose brokers 1 and 2 coordinate groups; broker 3 is fenced.

    Parameters
    ----------
    brokers : mapping
        For each broker the groups that it lists: name, type, state, protocol type.
    described : mapping
        Fields of the answer for each group; an exception instead is raised.
    """

    def __init__(
        self,
        brokers: Mapping[int, Sequence[tuple[str, ...]]],
        described: Mapping[str, Any],
        versions: tuple[int, int] = NEW,
    ) -> None:
        self.brokers, self.described, self.versions = brokers, described, versions
        self.asked: list[tuple[int, list[str]]] = []

    def answer_of(self, broker_id: int, request: Any) -> Any:
        """The response in the version of the broker, encoded and decoded."""
        if isinstance(request, ListGroupsRequest):
            request.encode(version=self.versions[0])
            listed = [
                Listed(group_id=name, protocol_type=(rest or ("consumer",))[0], group_state=state, group_type=kind)
                for name, kind, state, *rest in self.brokers[broker_id]
            ]
            answer = ListGroupsResponse(error_code=0, groups=listed)
            return self._sent(answer, self.versions[0])
        assert isinstance(request, DescribeGroupsRequest)
        request.encode(version=self.versions[1])
        self.asked.append((broker_id, list(request.groups)))
        for name in request.groups:
            if isinstance(self.described[name], Exception):
                raise self.described[name]
        groups = [Described(group_id=name, **self.described[name]) for name in request.groups]
        return self._sent(DescribeGroupsResponse(groups=groups), self.versions[1])

    @staticmethod
    def _sent(answer: Any, version: int) -> Any:
        return type(answer).decode(bytes(answer.encode(version=version)), version=version)


def warnings_of(records: Sequence[Record]) -> list[tuple[str, str]]:
    """Reason and remedy of the warnings; each has the rule of unreadable lines."""
    warnings = [record.payload for record in records if record.kind == "malformed"]
    assert {(warning["rule"], warning["severity"]) for warning in warnings} <= {("readable", "warning")}
    return [(warning["reason"], warning["remedy"]) for warning in warnings]


CLASSIC = stable(
    member("b", assignment(u=[1], t=[2, 0])),
    member("a", assignment(), group_instance_id="static 1", client_id="my app"),
)


def test_groups_become_records_in_the_order_of_their_names() -> None:
    """Members follow their group, by id; topics and partitions are sorted; Connect's groups are left out."""
    first: Sequence[tuple[str, ...]] = [("z", "Classic", "Stable"), ("c", "Classic", "Stable", "connect")]
    brokers = {1: first, 2: [("a b", "Classic", "Empty")]}
    empty = {"group_state": "Empty", "protocol_type": "consumer"}
    admin = Groups(brokers, {"z": CLASSIC, "a b": empty})
    records = list(consumer_groups(admin))
    assert [record.kind for record in records] == ["consumer_group"] * 2 + ["consumer_member"] * 2
    assert payloads(iter(records), "consumer_group") == [
        ("a b", "classic", "Empty", None, 2, 0, None, True),
        ("z", "classic", "Stable", "range", 1, 2, None, True),
    ]
    assigned = [{"topic": "t", "partitions": [0, 2]}, {"topic": "u", "partitions": [1]}]
    assert payloads(iter(records), "consumer_member") == [
        ("z", "a", "static 1", "/10.0.0.1", "my app", 0, [], "classic"),
        ("z", "b", None, "/10.0.0.1", "app", 3, assigned, "classic"),
    ]
    assert [record for record in records if (" ".join(record.payload), record.line) != (FIELDS[record.kind], 0)] == []
    assert admin.asked == [(1, ["z"]), (2, ["a b"])]


def test_old_brokers_list_neither_states_nor_types() -> None:
    """The description has the state; a group that it calls dead may also be of a protocol that it does not know."""
    admin = Groups({1: [("d", "", ""), ("z", "", "")], 2: []}, {"z": CLASSIC, "d": {"group_state": "Dead"}}, OLD)
    records = list(consumer_groups(admin))
    assert payloads(iter(records), "consumer_group") == [
        ("d", None, None, None, 1, None, None, False),
        ("z", "classic", "Stable", "range", 1, 2, None, True),
    ]
    assert [row[1:3] for row in payloads(iter(records), "consumer_member")] == [("a", None), ("b", None)]
    assert warnings_of(records) == []


INCOMPLETE = [
    ("a type", ("k", "Consumer", "Stable"), KIP_848, NEW, ("consumer", "Stable", None, False)),
    ("an error", ("k", "", "Stable"), KIP_848, NEW, ("consumer", "Stable", None, False)),
    ("Kafka 3.8", ("k", "Consumer", "Stable"), {"group_state": "Dead"}, (5, 5), ("consumer", "Stable", None, False)),
    ("empty", ("k", "Consumer", "Empty"), KIP_848, NEW, ("consumer", "Empty", 0, True)),
]


@pytest.mark.parametrize(
    ("listed", "described", "versions", "expected"), [case[1:] for case in INCOMPLETE], ids=[c[0] for c in INCOMPLETE]
)
def test_a_group_of_the_new_protocol_has_no_members(
    listed: tuple[str, ...], described: dict[str, Any], versions: tuple[int, int], expected: tuple[object, ...]
) -> None:
    """It is not complete, except if it is empty; the list's type or the error has its protocol. No warning."""
    (record,) = consumer_groups(Groups({1: [listed], 2: []}, {"k": described}, versions))
    fields = ("protocol", "state", "members", "is_complete")
    assert tuple(record.payload[name] for name in fields) == expected
    assert (record.payload["assignor"], record.payload["epoch"], record.payload["coordinator_id"]) == (None, None, 1)


def test_a_group_that_is_deleted_meanwhile_is_left_out() -> None:
    """It was listed as a classic group, and is then unknown."""
    gone = {"x": {"error_code": 69, "error_message": "Group x not found."}, "y": {"group_state": "Dead"}}
    admin = Groups({1: [("x", "Classic", "Empty"), ("y", "Classic", "Empty")], 2: []}, gone)
    assert list(consumer_groups(admin)) == []


def test_a_rebalancing_group_has_members_without_assignments() -> None:
    """Its assignor is null too: Kafka sends both only while a group is stable."""
    rebalancing = {"group_state": "PreparingRebalance", "protocol_type": "consumer", "members": [member("a")]}
    group, only = consumer_groups(Groups({1: [], 2: [("g", "Classic", "PreparingRebalance")]}, {"g": rebalancing}))
    assert tuple(group.payload.values()) == ("g", "classic", "PreparingRebalance", None, 2, 1, None, True)
    assert (only.payload["partitions"], only.payload["assigned"]) == (None, None)


def test_without_permission_for_groups_a_warning_names_them() -> None:
    """Groups that the user may not describe are not complete; the warning names five of them and the permission."""
    # A name with "token:" would be masked like a secret.
    names = [f"token{number}" for number in range(7)]
    listed = [(name, "Classic", "Stable") for name in names]
    admin = Groups({1: listed, 2: [("z", "Classic", "Stable")]}, {**dict.fromkeys(names, REFUSED), "z": CLASSIC})
    records = list(consumer_groups(admin))
    complete = {row[0]: row[-1] for row in payloads(iter(records), "consumer_group")}
    assert complete == {**dict.fromkeys(names, False), "z": True}
    first = ", ".join(f"GroupAuthorizationFailedError for {name}" for name in names[:5])
    reason = f"7 consumer groups can't be described ({first} and 2 more): members and assignments are unknown"
    assert warnings_of(records) == [(reason, "allow DESCRIBE on these groups")]


def test_brokers_that_do_not_list_groups_are_named() -> None:
    """The groups of the other brokers are read; an error code in the list counts, too."""

    class Partly(Groups):
        def answer_of(self, broker_id: int, request: Any) -> Any:
            if broker_id == 2:
                return ListGroupsResponse(error_code=31, groups=[])
            return super().answer_of(broker_id, request)

    records = list(consumer_groups(Partly({1: [("z", "Classic", "Stable")]}, {"z": CLASSIC})))
    assert [record.kind for record in records] == ["consumer_group", *["consumer_member"] * 2, "malformed"]
    reason = "consumer groups can't be listed (broker 2: ClusterAuthorizationFailedError): groups that rebalance"
    assert warnings_of(records) == [(f"{reason} may be missing", "start the brokers, or allow DESCRIBE on the cluster")]


@pytest.mark.parametrize("error", [Silent("x"), OSError("x"), ValueError("x"), struct.error("x")], ids=repr)
def test_no_error_of_the_client_stops_the_run(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    """An error while brokers are listed, groups are listed or described becomes one warning."""

    def refuse(*_: object) -> None:
        raise error

    name = type(error).__name__
    described = list(consumer_groups(Groups({1: [("g", "Classic", "Stable")], 2: []}, {"g": error})))
    assert [record.kind for record in described] == ["consumer_group", "malformed"]
    assert f"1 consumer group can't be described ({name} for g)" in warnings_of(described)[0][0]
    admin = Groups({}, {})
    monkeypatch.setattr(admin, "answer_of", refuse)
    (listed,) = warnings_of(list(consumer_groups(admin)))
    assert f"(broker 1: {name}, broker 2: {name})" in listed[0]
    monkeypatch.setattr(admin, "describe_cluster", refuse)
    (unknown,) = warnings_of(list(consumer_groups(admin)))
    assert f"(all brokers: {name})" in unknown[0]


@pytest.mark.parametrize("encoded", [b"\x00", b"\x00\x01\x00\x00\x00\x01\x7f\x01t", assignment(t=[1])[:-6]])
def test_an_assignment_that_is_not_kafkas_is_unknown(encoded: bytes) -> None:
    """Its member has no number of partitions, and is in a warning; the others are read."""
    members = stable(member("bad", encoded), member("good", assignment(t=[1])))
    records = list(consumer_groups(Groups({1: [("g", "Classic", "Stable")], 2: []}, {"g": members})))
    rows = [row[5:7] for row in payloads(iter(records), "consumer_member")]
    assert rows == [(None, None), (1, [{"topic": "t", "partitions": [1]}])]
    ((reason, _),) = warnings_of(records)
    assert reason == "assignments of 1 member of consumer groups can't be decoded (bad of group g)"


def test_a_member_without_bytes_has_no_partitions() -> None:
    """Some clients send nothing for a member that gets nothing."""
    _, only = consumer_groups(Groups({1: [("g", "Classic", "Stable")], 2: []}, {"g": stable(member("a"))}))
    assert (only.payload["partitions"], only.payload["assigned"]) == (0, [])


@pytest.mark.parametrize("broker_id", [1, 2])
def test_of_two_coordinators_the_one_that_answers_counts(broker_id: int) -> None:
    """While a coordinator changes, two brokers may list a group; if none knows it, its coordinator is unknown."""

    class Moving(Groups):
        def answer_of(self, broker: int, request: Any) -> Any:
            self.described = {"g": CLASSIC if broker == broker_id else {"error_code": 16}}
            return super().answer_of(broker, request)

    both = {1: [("g", "Classic", "Stable")], 2: [("g", "Classic", "Stable")]}
    group, *members = consumer_groups(Moving(both, {}))
    assert (group.payload["coordinator_id"], group.payload["is_complete"], len(members)) == (broker_id, True, 2)
    group, _ = consumer_groups(Groups(both, {"g": {"error_code": 16}}))
    assert (group.payload["coordinator_id"], group.payload["is_complete"]) == (None, False)


def test_many_groups_are_described_in_several_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    """A group that is missing in its answer is not complete."""

    class Forgetful(Groups):
        def answer_of(self, broker_id: int, request: Any) -> Any:
            if isinstance(request, DescribeGroupsRequest) and "c" in request.groups:
                self.asked.append((broker_id, list(request.groups)))
                return DescribeGroupsResponse(groups=[])
            return super().answer_of(broker_id, request)

    monkeypatch.setattr(live_consumers, "_GROUPS_PER_REQUEST", 2)
    listed = [(name, "Classic", "Stable") for name in "abc"]
    admin = Forgetful({1: listed, 2: []}, dict.fromkeys("abc", CLASSIC))
    records = list(consumer_groups(admin))
    assert admin.asked == [(1, ["a", "b"]), (1, ["c"])]
    assert [row[-1] for row in payloads(iter(records), "consumer_group")] == [True, True, False]
    assert "(no answer for c)" in warnings_of(records)[0][0]


def test_the_data_source_reads_groups_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The task of the topology reads them, after everything else; tasks of brokers do not."""
    admin = Groups({1: [("z", "Classic", "Stable")], 2: []}, {"z": CLASSIC})
    monkeypatch.setattr(kafka_admin, "connected", lambda options: nullcontext(admin))
    reader = kafka_live.KafkaTopology({"bootstrap.servers": "h:1"}).reader(StructType())
    tasks = [[row[0] for row in reader.read(task)] for task in reader.partitions()]
    assert [kind for kinds in tasks for kind in kinds if kind.startswith("consumer")] == tasks[0][-3:]
    assert tasks[0][-3:] == ["consumer_group", "consumer_member", "consumer_member"]
