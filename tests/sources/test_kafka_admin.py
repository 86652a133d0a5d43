"""A live cluster, with a fake client: the records of its answers, and that no secret is shown."""

import logging
import socket
import types
from collections import namedtuple
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest
from kafka.net.transport import KafkaSSLTransport, KafkaTCPTransport
from kafka.protocol.admin import ListGroupsResponse
from kafka.protocol.consumer import ListOffsetsRequest, ListOffsetsResponse

from optimizer.errors import InputError
from sources import kafka_admin
from sources.kafka_options import client_options
from sources.record import Record
from tests.sources.test_fields import FIELDS

PASSWORD = 'Tr0ub4dor;&"3'
JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="ops" password="Tr0ub4dor;&\\"3";'
TopicPartition = namedtuple("TopicPartition", ("topic", "partition"))
UUID = "ac8bb53e-120e-444e-a357-b491a1281603"


LISTED = "every=1,follower.replication.throttled.rate=9,log.dirs=/d,own=2,secret=s3cret"
NONE = (None, None, None)


class Silent(kafka_admin.KafkaError):
    """A broker that does not answer."""


class FakeAdmin:
    """A client of a cluster in which broker 3 is fenced, broker 2 does not answer and t-0 is in flight."""

    def describe_cluster(self) -> dict[str, Any]:
        """Brokers, unsorted."""
        brokers = [(3, None, True), (1, "a", False), (2, "", False)]
        rows = [{"broker_id": i, "host": "h", "port": 9, "rack": rack, "is_fenced": f} for i, rack, f in brokers]
        return {"brokers": rows, "controller_id": 2, "cluster_id": "0dU-UGW3SReMOGQzhLCiag"}

    def describe_topics(self, topics: list[str] | None = None) -> list[dict[str, Any]]:
        """One topic; its second partition has no leader."""
        names = ("partition_index", "leader_id", "replica_nodes", "isr_nodes", "offline_replicas")
        rows = [(1, -1, [3], [], [3]), (0, 1, [2, 1, 3], [1], [])]
        return [{"name": "t", "topic_id": UUID, "partitions": [dict(zip(names, r, strict=True)) for r in rows]}]

    def describe_configs(self, config_resources: list[Any], *, config_filter: str) -> dict[str, Any]:
        """A password, a cluster-wide config, a config of the entity, a default and two static configs."""
        kind = config_resources[0].resource_type.name
        entries = {
            "secret": ("DYNAMIC_BROKER_CONFIG", "s3cret", True),
            "every": ("DYNAMIC_DEFAULT_BROKER_CONFIG", "1", False),
            "own": (f"DYNAMIC_{kind}_CONFIG", "2", False),
            "plain": ("DEFAULT_CONFIG", "3", False),
            "follower.replication.throttled.rate": ("STATIC_BROKER_CONFIG", "9", False),
            "log.dirs": ("STATIC_BROKER_CONFIG", "/d", False),
        }
        configs = {n: {"config_source": s, "value": v, "is_sensitive": x} for n, (s, v, x) in entries.items()}
        return {kind.lower(): {resource.name: configs for resource in config_resources}}

    def list_partition_reassignments(self) -> dict[Any, dict[str, Any]]:
        """One partition in flight."""
        return {TopicPartition("t", 0): {"replicas": [2, 1, 3], "adding_replicas": [2], "removing_replicas": [3]}}

    def log_dirs_of(self, broker_id: int) -> list[dict[str, Any]]:
        """Two directories: one is broken, the other is cordoned."""
        if broker_id == 2:
            raise Silent("too late")
        replica = {"partition_index": 0, "partition_size": 2**60, "offset_lag": 0, "is_future_key": True}
        good = {"error_code": 0, "log_dir": "/b", "topics": [{"name": "t", "partitions": [replica]}]}
        bad = {"error_code": 56, "log_dir": "/a", "topics": [], "total_bytes": -1, "usable_bytes": -1}
        return [good | {"total_bytes": 10, "usable_bytes": 4, "is_cordoned": True}, bad]

    def configs_at(self, broker_id: int, configs: Mapping[tuple[str, str], Sequence[str]]) -> list[dict[str, Any]]:
        """No dynamic configs."""
        return []

    def answer_of(self, broker_id: int, request: Any) -> Any:
        """No broker coordinates a consumer group, or knows offsets."""
        if isinstance(request, ListOffsetsRequest):
            return ListOffsetsResponse(topics=[])
        return ListGroupsResponse(error_code=0, groups=[])


def payloads(records: Iterator[Record], kind: str) -> list[tuple[Any, ...]]:
    return [tuple(r.payload.values()) for r in records if r.kind == kind]


TOPOLOGY = [
    ("cluster_id", [("0dU-UGW3SReMOGQzhLCiag",)]),
    ("broker", [(1, "h", 9, "a", False, None), (2, "h", 9, None, False, None), (3, "h", 9, None, True, None)]),
    ("topic", [("t", "rIu1PhIORE6jV7SRoSgWAw", 2, 1, LISTED, False)]),
    ("partition", [("t", 0, 1, [2, 1, 3], [1], [2], [3], [], *NONE), ("t", 1, None, [3], [], [], [], [3], *NONE)]),
    ("reassignment", [("t", 0, [2, 1, 3], [2], [3])]),
    ("config", [("topics", "t", "own", "2", False, False)]),
]


@pytest.mark.parametrize(("kind", "expected"), TOPOLOGY)
def test_the_topology_becomes_records(kind: str, expected: list[tuple[Any, ...]]) -> None:
    """Sorted; no leader and no rack are null; a reassignment is in its partition's record and in its own record."""
    assert payloads(kafka_admin.topology(FakeAdmin()), kind) == expected


BROKERS = [
    ("log_dir", [(1, "/a", "KafkaStorageError", None, None, None), (1, "/b", None, 10, 4, True)]),
    ("log_dir_replica", [(1, "/b", "t", 0, 2**60, 0, True)]),
    (
        "config",
        [
            ("brokers", "1", "follower.replication.throttled.rate", "9", False, True),
            ("brokers", "1", "own", "2", False, False),
            ("brokers", "1", "secret", None, True, False),
            ("cluster", "<default>", "every", "1", False, False),
        ],
    ),
]


@pytest.mark.parametrize(("kind", "expected"), BROKERS)
def test_brokers_become_records(kind: str, expected: list[tuple[Any, ...]]) -> None:
    """Directories, replicas, dynamic configs, throttles of the broker's own file; a sensitive value is left out."""
    assert payloads(kafka_admin.describe_brokers(FakeAdmin(), [1, 2], defaults=True), kind) == expected


def test_records_of_a_live_cluster_have_the_fields_of_their_kinds() -> None:
    """They are the same as in files, except that the line is 0."""
    records = [*kafka_admin.topology(FakeAdmin()), *kafka_admin.describe_brokers(FakeAdmin(), [1], defaults=True)]
    kinds = ["cluster_id", *(kind for kind, _ in TOPOLOGY), *(kind for kind, _ in BROKERS)]
    assert {record.kind for record in records} == set(kinds)
    wrong = [record for record in records if (list(record.payload), record.line) != (FIELDS[record.kind].split(), 0)]
    assert wrong == []


class OldRelease(FakeAdmin):
    """A cluster of an old release: no cluster id, no topic ids, and no fenced or offline states."""

    def describe_cluster(self) -> dict[str, Any]:
        """Without ids."""
        cluster = super().describe_cluster()
        rows = [{name: row[name] for name in ("broker_id", "host", "port", "rack")} for row in cluster["brokers"]]
        return {"brokers": rows, "cluster_id": None}

    def describe_topics(self, topics: list[str] | None = None) -> list[dict[str, Any]]:
        """Unsorted: a topic with an id of zeros, and a topic without an id and without partitions."""
        (topic,) = super().describe_topics()
        bare = [{name: row[name] for name in row if name != "offline_replicas"} for row in topic["partitions"]]
        none = "00000000-0000-0000-0000-000000000000"
        return [{"name": "u", "topic_id": none, "partitions": bare}, {"name": "a", "partitions": []}]


def test_values_that_an_old_release_lacks_are_null() -> None:
    """No id of zeros, no fenced state; topics are sorted, and a topic without partitions has no replication factor."""
    records = list(kafka_admin.topology(OldRelease()))
    assert payloads(iter(records), "cluster_id") == []
    assert [row[4] for row in payloads(iter(records), "broker")] == [None, None, None]
    assert [row[:4] for row in payloads(iter(records), "topic")] == [("a", None, 0, None), ("u", None, 2, 1)]
    assert [row[7] for row in payloads(iter(records), "partition")] == [[], []]


class Recorder(FakeAdmin):
    """A cluster with 501 topics; it records the requests."""

    def __init__(self) -> None:
        self.requests: list[str] = []

    def describe_topics(self, topics: list[str] | None = None) -> list[dict[str, Any]]:
        """501 topics: their configs need two requests."""
        self.requests.append("topics")
        (topic,) = super().describe_topics()
        return [{**topic, "name": f"t{number:03}"} for number in range(501)]

    def list_partition_reassignments(self) -> dict[Any, dict[str, Any]]:
        """Two in flight, unsorted."""
        self.requests.append("reassignments")
        (state,) = super().list_partition_reassignments().values()
        unsorted = {**state, "adding_replicas": [3, 2], "removing_replicas": [4, 1]}
        return {TopicPartition("t001", 1): unsorted, TopicPartition("t000", 0): state}

    def describe_configs(self, config_resources: list[Any], *, config_filter: str) -> dict[str, Any]:
        """The configs of all requested entities."""
        self.requests.append(f"{config_filter} configs of {len(config_resources)}")
        return super().describe_configs(config_resources, config_filter=config_filter)


def test_reassignments_are_requested_before_topics_and_configs_by_five_hundred() -> None:
    """A reassignment that ends in between is reported; the 501st topic has its configs too."""
    admin = Recorder()
    records = list(kafka_admin.topology(admin))
    assert admin.requests == ["reassignments", "topics", "all configs of 500", "all configs of 1"]
    configs = payloads(iter(records), "config")
    assert [row[1] for row in configs] == [f"t{number:03}" for number in range(501)]
    assert {row[4] for row in payloads(iter(records), "topic")} == {LISTED}
    assert payloads(iter(records), "reassignment") == [
        ("t000", 0, [2, 1, 3], [2], [3]),
        ("t001", 1, [2, 1, 3], [2, 3], [1, 4]),
    ]
    moving = {row[:2]: row[5:7] for row in payloads(iter(records), "partition") if row[5]}
    assert moving == {("t000", 0): ([2], [3]), ("t001", 1): ([2, 3], [1, 4])}
    assert [record for record in records if record.kind == "malformed"] == []


class WithoutConfigs(FakeAdmin):
    """A cluster whose configs the user may not describe: the client returns no configs, not an error."""

    def describe_configs(self, config_resources: list[Any], *, config_filter: str) -> dict[str, Any]:
        """Entities without any config."""
        name = config_resources[0].resource_type.name.lower()
        return {name: {resource.name: {} for resource in config_resources}}


def test_missing_configs_are_reported() -> None:
    """Topics and brokers without any config, even a default, are named in a warning."""
    admin = WithoutConfigs()
    records = [*kafka_admin.topology(admin), *kafka_admin.describe_brokers(admin, [1], defaults=True)]
    warnings = [r.payload for r in records if r.kind == "malformed"]
    assert [warning["severity"] for warning in warnings] == ["warning", "warning"]
    assert [warning["reason"] for warning in warnings] == [
        "no configs were returned for 1 topic (t): throttles may be set there and not be seen",
        "no configs were returned for 1 broker (1): throttles may be set there and not be seen",
    ]
    assert {warning["remedy"] for warning in warnings} == {"allow DESCRIBE_CONFIGS on the cluster and its topics"}


class WithoutAnswers(FakeAdmin):
    """A cluster whose brokers do not answer."""

    def describe_configs(self, config_resources: list[Any], *, config_filter: str) -> dict[str, Any]:
        """No broker answers."""
        raise Silent


@pytest.mark.parametrize("admin", [WithoutAnswers(), WithoutConfigs()], ids=["no answer", "no permission"])
def test_configs_of_a_broker_are_none_if_unknown(admin: FakeAdmin) -> None:
    """Unknown configs are None, not an empty list."""
    assert kafka_admin.broker_configs(admin, 1) is None
    assert kafka_admin.broker_configs(FakeAdmin(), 1)


@pytest.mark.parametrize(
    ("kind", "text", "expected"),
    [
        (Silent, "login of ops\nwith {sasl_plain_password} failed", "Silent: login of ops with *** failed"),
        (OSError, "{ssl_password} and {sasl_plain_password}", "OSError: *** and ***"),
        (ValueError, "", "ValueError: no details"),
        (AssertionError, "AssertionError: x", "AssertionError: x"),
        (ImportError, "no module", "ImportError: no module"),
    ],
)
def test_an_error_of_the_client_is_one_line_without_secrets(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    kind: type[Exception],
    text: str,
    expected: str,
) -> None:
    """The client's message is on one line, with both passwords masked, and the client logs nothing."""

    def refuse(**options: object) -> None:
        logging.getLogger("kafka.admin.client").critical("configuration: %s", options)
        raise kind(text.format(**options))

    monkeypatch.setattr(kafka_admin, "KafkaAdminClient", refuse)
    options = client_options({"bootstrap.servers": "h:1", "sasl.jaas.config": JAAS, "ssl.key.password": "Tr0ub4"})
    with pytest.raises(InputError) as caught, kafka_admin.connected(options):
        pass
    message = str(caught.value)
    assert message == f"cannot read kafka://h:1: {expected}; check bootstrap_servers, client_config and the network"
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__
    assert caplog.text == ""


@pytest.mark.parametrize("transport", [KafkaTCPTransport, KafkaSSLTransport])
def test_what_a_broker_says_as_it_hangs_up_is_read(transport: Any) -> None:
    """Its refusal of a password arrives together with the end of the connection."""
    here, broker = socket.socketpair()
    with here, broker:
        here.setblocking(False)
        broker.sendall(b"refused")
        broker.shutdown(socket.SHUT_WR)
        connection = types.SimpleNamespace(_sock=here)
        assert transport._sock_recv(connection) == (b"refused", None)
        data, end = transport._sock_recv(connection)
        assert (data, str(end)) == (b"", "KafkaConnectionError: socket disconnected")


def test_a_missing_right_is_not_taken_for_a_wrong_address() -> None:
    """The message leads to the table of rights."""
    from kafka.errors import ClusterAuthorizationFailedError

    message = kafka_admin.one_line(ClusterAuthorizationFailedError("no"), {"bootstrap_servers": "h:1"})
    assert message.endswith("check the rights of the user (docs/rights.md)")
