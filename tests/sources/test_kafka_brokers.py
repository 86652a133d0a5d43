"""Brokers of a live cluster, with a fake client: directories, replicas, configs."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from sources import kafka_admin
from tests.sources.test_kafka_admin import FakeAdmin, payloads


def test_a_broker_that_does_not_answer_is_a_record() -> None:
    """The silent broker is reported with its error, and the other broker is still read."""
    records = list(kafka_admin.describe_brokers(FakeAdmin(), [2, 1], defaults=False))
    assert [r.kind for r in records] == ["malformed", "log_dir", "log_dir", "log_dir_replica", *["config"] * 3]
    assert records[0].payload["reason"] == "broker 2 did not answer: Silent"
    assert records[0].payload["remedy"].startswith("start the broker, or allow DESCRIBE and DESCRIBE_CONFIGS on the")


@pytest.mark.parametrize(
    ("brokers", "defaults", "entities"), [([3, 1], True, ["3", "<default>", "1"]), ([3, 1], False, ["3", "1"])]
)
def test_cluster_wide_configs_are_read_once(brokers: list[int], defaults: bool, entities: list[str]) -> None:
    """They come from the first broker of the first task."""
    rows = payloads(kafka_admin.describe_brokers(FakeAdmin(), brokers, defaults=defaults), "config")
    assert list(dict.fromkeys(row[1] for row in rows)) == entities
    assert [row[2] for row in rows].count("every") == entities.count("<default>")


@pytest.mark.parametrize(
    ("name", "is_read"),
    [
        ("leader.replication.throttled.rate", True),
        ("replica.alter.log.dirs.io.max.bytes.per.second", True),
        ("cordoned.log.dirs", True),
        ("log.dirs", False),
        ("cordoned.log.dirs.more", False),
    ],
)
def test_static_configs_that_matter_to_a_plan_are_read(name: str, is_read: bool) -> None:
    """Throttle rates and cordoned directories of brokers; a topic has no static configs."""

    class WithStaticConfig(FakeAdmin):
        """A cluster with one static config."""

        def describe_configs(self, config_resources: list[Any], *, config_filter: str) -> dict[str, Any]:
            """A config of the broker's file."""
            config = {"config_source": "STATIC_BROKER_CONFIG", "value": "5", "is_sensitive": False}
            kind = config_resources[0].resource_type.name.lower()
            return {kind: {resource.name: {name: config} for resource in config_resources}}

    of_broker = payloads(kafka_admin.describe_brokers(WithStaticConfig(), [1], defaults=False), "config")
    assert of_broker == [("brokers", "1", name, "5", False, True)] * is_read
    assert payloads(kafka_admin.topology(WithStaticConfig()), "config") == []


def test_replicas_of_a_directory_are_sorted() -> None:
    """By topic and partition number; directories by path; a missing capacity is null."""

    class Unsorted(FakeAdmin):
        """A broker with unsorted replicas."""

        def log_dirs_of(self, broker_id: int) -> list[dict[str, Any]]:
            """One directory, without a usable size."""
            fields = {"partition_size": 0, "offset_lag": 7, "is_future_key": False}
            partitions = {"u": [10, 9], "t": [1]}
            topics = [
                {"name": name, "partitions": [{"partition_index": number, **fields} for number in numbers]}
                for name, numbers in partitions.items()
            ]
            return [{"error_code": 0, "log_dir": "/d", "topics": topics, "total_bytes": 0}]

    records = list(kafka_admin.describe_brokers(Unsorted(), [1], defaults=False))
    assert payloads(iter(records), "log_dir") == [(1, "/d", None, 0, None, None)]
    replicas = payloads(iter(records), "log_dir_replica")
    assert replicas == [(1, "/d", *partition, 0, 7, False) for partition in (("t", 1), ("u", 9), ("u", 10))]


def test_directories_are_requested_for_all_topics(monkeypatch: pytest.MonkeyPatch) -> None:
    """The request names no topic: so replicas of topics that the user may not describe are included."""
    requests: list[Any] = []

    class Manager:
        """Returns one directory, and an error for broker 9."""

        async def send(self, request: Any, node_id: int) -> Any:
            """Record the request."""
            requests.append((request.topics, node_id))
            log_dir = SimpleNamespace(to_dict=lambda: {"log_dir": "/d"})
            return SimpleNamespace(error_code=31 if node_id == 9 else 0, results=[] if node_id == 9 else [log_dir])

        def run(self, send: Any) -> Any:
            """Wait for the response."""
            return asyncio.run(send())

    closed: list[bool] = []
    client = SimpleNamespace(_manager=Manager(), close=lambda: closed.append(True))
    monkeypatch.setattr(kafka_admin, "KafkaAdminClient", lambda **options: client)
    with kafka_admin.connected({"bootstrap_servers": "h:1"}) as admin:
        assert admin.log_dirs_of(1) == [{"log_dir": "/d"}]
        with pytest.raises(kafka_admin.KafkaError, match="ClusterAuthorization"):
            admin.log_dirs_of(9)
        assert closed == []
    assert closed == [True]
    assert requests == [(None, 1), (None, 9)]


def test_configs_are_requested_from_the_broker_that_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """In one request, with the names of the configs; each result keeps its own error code."""
    requests: list[Any] = []

    class Manager:
        """Returns the number of the broker."""

        async def send(self, request: Any, node_id: int) -> Any:
            """Record the request."""
            resources = [(kind.value, name, names) for kind, name, names in request.resources]
            requests.append((node_id, resources, request.include_synonyms))
            return SimpleNamespace(results=[SimpleNamespace(to_dict=lambda: {"error_code": node_id})])

        def run(self, send: Any) -> Any:
            """Wait for the response."""
            return asyncio.run(send())

    client = SimpleNamespace(_manager=Manager(), close=lambda: None)
    monkeypatch.setattr(kafka_admin, "KafkaAdminClient", lambda **options: client)
    with kafka_admin.connected({"bootstrap_servers": "h:1"}) as admin:
        asking: Any = admin
        names = {("topics", "t"): ["a", "b"], ("brokers", "7"): ("c",)}
        assert asking.configs_at(7, names) == [{"error_code": 7}]
    assert requests == [(7, [(2, "t", ["a", "b"]), (4, "7", ["c"])], False)]
