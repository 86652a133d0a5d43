"""What a live cluster says, without one: records of a client's answers, and what must not be seen."""

import logging
from collections import namedtuple
from collections.abc import Iterator
from typing import Any

import pytest

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
NONE = (None, None)


class Silent(kafka_admin.KafkaError):
    """A broker that does not answer."""


class FakeAdmin:
    """Answers as the client gives them: broker 3 is fenced, broker 2 does not answer, t-0 is in flight."""

    def describe_cluster(self) -> dict[str, Any]:
        """Brokers in no order."""
        brokers = [(3, None, True), (1, "a", False), (2, "", False)]
        rows = [{"broker_id": i, "host": "h", "port": 9, "rack": rack, "is_fenced": f} for i, rack, f in brokers]
        return {"brokers": rows, "controller_id": 2, "cluster_id": "0dU-UGW3SReMOGQzhLCiag"}

    def describe_topics(self, topics: list[str] | None = None) -> list[dict[str, Any]]:
        """One topic; its second partition has no leader."""
        names = ("partition_index", "leader_id", "replica_nodes", "isr_nodes", "offline_replicas")
        rows = [(1, -1, [3], [], [3]), (0, 1, [2, 1, 3], [1], [])]
        return [{"name": "t", "topic_id": UUID, "partitions": [dict(zip(names, r, strict=True)) for r in rows]}]

    def describe_configs(self, config_resources: list[Any], *, config_filter: str) -> dict[str, Any]:
        """A password, a config of every broker, one of the entity, and a default."""
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
        """Two directories, one of them broken, the other closed to new replicas."""
        if broker_id == 2:
            raise Silent("too late")
        replica = {"partition_index": 0, "partition_size": 2**60, "offset_lag": 0, "is_future_key": True}
        good = {"error_code": 0, "log_dir": "/b", "topics": [{"name": "t", "partitions": [replica]}]}
        bad = {"error_code": 56, "log_dir": "/a", "topics": [], "total_bytes": -1, "usable_bytes": -1}
        return [good | {"total_bytes": 10, "usable_bytes": 4, "is_cordoned": True}, bad]


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
    """Sorted; no leader and no rack are null; states in flight are told with their partition and by themselves."""
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
    """Directories, replicas, dynamic configs, throttles of the broker's own file; a sensitive value is not kept."""
    assert payloads(kafka_admin.describe_brokers(FakeAdmin(), [1, 2], defaults=True), kind) == expected


def test_records_of_a_live_cluster_have_the_fields_of_their_kinds() -> None:
    """As those of files; no line, for there is none."""
    records = [*kafka_admin.topology(FakeAdmin()), *kafka_admin.describe_brokers(FakeAdmin(), [1], defaults=True)]
    kinds = ["cluster_id", *(kind for kind, _ in TOPOLOGY), *(kind for kind, _ in BROKERS)]
    assert {record.kind for record in records} == set(kinds)
    wrong = [record for record in records if (list(record.payload), record.line) != (FIELDS[record.kind].split(), 0)]
    assert wrong == []


class Old(FakeAdmin):
    """A cluster of an old release: it tells no id of its own, nor of topics, and not who is fenced or offline."""

    def describe_cluster(self) -> dict[str, Any]:
        """Without ids."""
        told = super().describe_cluster()
        rows = [{name: row[name] for name in ("broker_id", "host", "port", "rack")} for row in told["brokers"]]
        return {"brokers": rows, "cluster_id": None}

    def describe_topics(self, topics: list[str] | None = None) -> list[dict[str, Any]]:
        """In no order: one with the id of all zeros, one without any, one without partitions."""
        (topic,) = super().describe_topics()
        bare = [{name: row[name] for name in row if name != "offline_replicas"} for row in topic["partitions"]]
        none = "00000000-0000-0000-0000-000000000000"
        return [{"name": "u", "topic_id": none, "partitions": bare}, {"name": "a", "partitions": []}]


def test_what_an_old_release_does_not_tell_is_null() -> None:
    """Not an id of zeros, not a broker that is alive; topics are sorted, and one without partitions has no factor."""
    records = list(kafka_admin.topology(Old()))
    assert payloads(iter(records), "cluster_id") == []
    assert [row[4] for row in payloads(iter(records), "broker")] == [None, None, None]
    assert [row[:4] for row in payloads(iter(records), "topic")] == [("a", None, 0, None), ("u", None, 2, 1)]
    assert [row[7] for row in payloads(iter(records), "partition")] == [[], []]


class Ordered(FakeAdmin):
    """Many topics; keeps what it is asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def describe_topics(self, topics: list[str] | None = None) -> list[dict[str, Any]]:
        """501 topics, of which the last one asked for its configs is in a second request."""
        self.asked.append("topics")
        (topic,) = super().describe_topics()
        return [{**topic, "name": f"t{number:03}"} for number in range(501)]

    def list_partition_reassignments(self) -> dict[Any, dict[str, Any]]:
        """Two in flight, in no order."""
        self.asked.append("reassignments")
        (state,) = super().list_partition_reassignments().values()
        unsorted = {**state, "adding_replicas": [3, 2], "removing_replicas": [4, 1]}
        return {TopicPartition("t001", 1): unsorted, TopicPartition("t000", 0): state}

    def describe_configs(self, config_resources: list[Any], *, config_filter: str) -> dict[str, Any]:
        """As many as are asked for."""
        self.asked.append(f"{config_filter} configs of {len(config_resources)}")
        return super().describe_configs(config_resources, config_filter=config_filter)


def test_moves_are_asked_for_before_topics_and_configs_by_five_hundred() -> None:
    """A move that ends in between is told as one; configs of the 501st topic are those of the first."""
    admin = Ordered()
    records = list(kafka_admin.topology(admin))
    assert admin.asked == ["reassignments", "topics", "all configs of 500", "all configs of 1"]
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


class Unseen(FakeAdmin):
    """A cluster of which the user may see no config: the client gives none in place of an error."""

    def describe_configs(self, config_resources: list[Any], *, config_filter: str) -> dict[str, Any]:
        """Entities without a config."""
        name = config_resources[0].resource_type.name.lower()
        return {name: {resource.name: {} for resource in config_resources}}


def test_configs_that_are_not_told_are_a_finding() -> None:
    """Topics and brokers without a single config, be it a default, are named: throttles may stand there unseen."""
    records = [*kafka_admin.topology(Unseen()), *kafka_admin.describe_brokers(Unseen(), [1], defaults=True)]
    told = [r.payload for r in records if r.kind == "malformed"]
    assert [one["severity"] for one in told] == ["warning", "warning"]
    assert [one["reason"] for one in told] == [
        "no configs were returned for 1 topic (t): throttles may be set there and not be seen",
        "no configs were returned for 1 broker (1): throttles may be set there and not be seen",
    ]
    assert {one["remedy"] for one in told} == {"allow DESCRIBE_CONFIGS on the cluster and its topics"}


class Dying(FakeAdmin):
    """A cluster whose brokers give no answer."""

    def describe_configs(self, config_resources: list[Any], *, config_filter: str) -> dict[str, Any]:
        """Nobody answers."""
        raise Silent


@pytest.mark.parametrize("admin", [Dying(), Unseen()], ids=["dies", "refuses"])
def test_a_broker_that_tells_no_config_is_not_one_without_dynamic_ones(admin: FakeAdmin) -> None:
    """What it has is not known: None, not an empty list."""
    assert kafka_admin.broker_configs(admin, 1) is None
    assert kafka_admin.broker_configs(FakeAdmin(), 1)


@pytest.mark.parametrize(
    ("kind", "said", "told"),
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
    said: str,
    told: str,
) -> None:
    """What the client says is kept, on one line, with both passwords blotted out, and its log stays silent."""

    def refuse(**options: object) -> None:
        logging.getLogger("kafka.admin.client").critical("configuration: %s", options)
        raise kind(said.format(**options))

    monkeypatch.setattr(kafka_admin, "KafkaAdminClient", refuse)
    options = client_options({"bootstrap.servers": "h:1", "sasl.jaas.config": JAAS, "ssl.key.password": "Tr0ub4"})
    with pytest.raises(InputError) as caught, kafka_admin.connected(options):
        pass
    message = str(caught.value)
    assert message == f"cannot read kafka://h:1: {told}; check bootstrap_servers, client_config and the network"
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__
    assert caplog.text == ""
