"""A live cluster without one: options, records of a client's answers, and what must not be seen."""

import asyncio
import json
import logging
from collections import namedtuple
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from optimizer.errors import ConfigError, InputError
from sources import kafka_admin, kafka_live
from sources.kafka_options import client_options, read_properties, secrets
from sources.record import Record

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


def _payloads(records: Iterator[Record], kind: str) -> list[tuple[Any, ...]]:
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
    assert _payloads(kafka_admin.topology(FakeAdmin()), kind) == expected


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
    assert _payloads(kafka_admin.of_brokers(FakeAdmin(), [1, 2], defaults=True), kind) == expected


class Unseen(FakeAdmin):
    """A cluster of which the user may see no config: the client gives none in place of an error."""

    def describe_configs(self, config_resources: list[Any], *, config_filter: str) -> dict[str, Any]:
        """Entities without a config."""
        name = config_resources[0].resource_type.name.lower()
        return {name: {resource.name: {} for resource in config_resources}}


def test_configs_that_are_not_told_are_a_finding() -> None:
    """Topics and brokers without a single config, be it a default, are named: throttles may stand there unseen."""
    records = [*kafka_admin.topology(Unseen()), *kafka_admin.of_brokers(Unseen(), [1], defaults=True)]
    told = [r.payload for r in records if r.kind == "malformed"]
    assert [one["severity"] for one in told] == ["warning", "warning"]
    assert [one["reason"].partition(" was")[0] for one in told] == ["no config of 1 topic", "no config of 1 broker"]


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


def test_a_broker_that_does_not_answer_is_a_record() -> None:
    """The silent broker is named with its error, and the other one is still read."""
    records = list(kafka_admin.of_brokers(FakeAdmin(), [2, 1], defaults=False))
    assert [r.kind for r in records] == ["malformed", "log_dir", "log_dir", "log_dir_replica", *["config"] * 3]
    assert records[0].payload["reason"] == "broker 2 did not answer: Silent"


OPTIONS = [
    ({"kafka.security.protocol": "SASL_SSL"}, {"security_protocol": "SASL_SSL"}),
    ({"sasl.jaas.config": JAAS}, {"sasl_plain_username": "ops", "sasl_plain_password": PASSWORD}),
    (
        {"sasl.mechanism": "SCRAM-SHA-512", "sasl.username": "u", "sasl.password": "p"},
        {"sasl_mechanism": "SCRAM-SHA-512", "sasl_plain_username": "u", "sasl_plain_password": "p"},
    ),
    ({"ssl.truststore.location": "/ca.pem", "ssl.truststore.type": "PEM"}, {"ssl_cafile": "/ca.pem"}),
    ({"ssl.endpoint.identification.algorithm": ""}, {"ssl_check_hostname": False}),
    ({"request.timeout.ms": "5000", "group.id": "x"}, {"request_timeout_ms": 5000}),
]


@pytest.mark.parametrize(("properties", "expected"), OPTIONS)
def test_options_of_kafka_become_the_clients(properties: dict[str, str], expected: dict[str, object]) -> None:
    """Names of Java's client and of librdkafka are understood."""
    assert client_options(properties) == expected


@pytest.mark.parametrize(
    ("properties", "reason"),
    [
        ({"kafka.sasl.pasword": PASSWORD}, "'kafka.sasl.pasword' .* is not known"),
        ({"ssl.truststore.location": "/etc/store.JKS"}, "export it as PEM"),
        ({"sasl.jaas.config": f"Krb5LoginModule required keyTab='{PASSWORD}';"}, "no username and password"),
        ({"request.timeout.ms": PASSWORD}, "must be a whole number"),
    ],
)
def test_options_that_can_not_be_used_are_refused(properties: dict[str, str], reason: str) -> None:
    """The name and a remedy are told, the value never."""
    with pytest.raises(ConfigError, match=reason) as caught:
        client_options(properties)
    assert "Tr0ub4dor" not in str(caught.value)


def test_properties_of_java() -> None:
    """Comments, colons, escapes and lines that go on are read as Java reads them."""
    text = f"! c\n# c\na=1\n b : 2\nc 3\nd\\\n  .e=x\\=y\nf=\nsasl.jaas.config={JAAS.replace(chr(92), chr(92) * 2)}\n"
    expected = {"a": "1", "b": "2", "c": "3", "d.e": "x=y", "f": "", "sasl.jaas.config": JAAS}
    assert read_properties(text) == expected
    assert secrets(client_options({"sasl.jaas.config": JAAS})) == [PASSWORD]


def test_an_error_of_the_client_is_one_line_without_secrets(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """What the client says is kept, on one line, with the password blotted out, and its log stays silent."""

    def refuse(**options: object) -> None:
        logging.getLogger("kafka.admin.client").critical("configuration: %s", options)
        raise Silent(f"login of ops\nwith {options['sasl_plain_password']} failed")

    monkeypatch.setattr(kafka_admin, "KafkaAdminClient", refuse)
    options = client_options({"bootstrap.servers": "h:1", "sasl.jaas.config": JAAS})
    with pytest.raises(InputError) as caught, kafka_admin.connected(options):
        pass
    message = str(caught.value)
    assert message.startswith("cannot read kafka://h:1: Silent: login of ops with *** failed; check")
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__
    assert caplog.text == ""


READERS = [
    ({}, "bootstrap.servers of kafka_topology is missing"),
    ({"bootstrap.servers": "h:1", "colour": "red"}, "'colour'"),
    ({"bootstrap.servers": "h:1", "brokers.per.task": "0"}, "brokers.per.task = '0'"),
    ({"bootstrap.servers": "h:1", "timeout.seconds": "soon"}, "timeout.seconds = 'soon'"),
    ({"bootstrap.servers": "h:1", "client.config": "/no/such/file"}, "cannot read client_config /no/such/file"),
]


@pytest.mark.parametrize(("options", "reason"), READERS)
def test_a_reader_with_wrong_options_is_refused(options: dict[str, str], reason: str) -> None:
    """What is wrong is named before anything connects."""
    with pytest.raises(ConfigError, match=reason):
        kafka_live.KafkaTopology(options).reader(StructType())


def test_spark_shows_no_secret_and_one_line(
    spark: SparkSession, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """A cluster that can't be reached gives one line out of Spark's traceback; the password is nowhere."""
    kafka_live.register(spark)
    config = tmp_path / "client.properties"
    config.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.username=ops\nsasl.password=hunter22\n"
    )
    reader = spark.read.format("kafka_topology").option("bootstrap.servers", "127.0.0.1:1").option("timeout.seconds", 1)
    with pytest.raises(Exception, match="InputError") as caught:
        reader.option("client.config", str(config)).load().collect()
    error = kafka_live.unwrapped(caught.value)
    assert isinstance(error, InputError)
    assert str(error).startswith("cannot read kafka://127.0.0.1:1: KafkaTimeoutError")
    assert "\n" not in str(error)
    printed = capfd.readouterr()
    assert "hunter22" not in "".join((str(caught.value), printed.out, printed.err))


def test_another_error_is_not_unwrapped() -> None:
    """What this source did not raise is left as it is."""
    assert kafka_live.unwrapped(ValueError("x")) is None


def test_rows_are_records_as_json(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tasks cover the living brokers in groups, and each row is a record with its payload as sorted JSON."""
    from contextlib import nullcontext

    monkeypatch.setattr(kafka_admin, "connected", lambda options: nullcontext(FakeAdmin()))
    options = {"bootstrap.servers": "h:1", "brokers.per.task": "1"}
    reader = kafka_live.KafkaTopology(options).reader(StructType())
    tasks = reader.partitions()
    assert [task.broker_ids for task in tasks if isinstance(task, kafka_live.Share)] == [(), (1,), (2,)]
    rows = [row for task in tasks for row in reader.read(task)]
    assert {row[3] for row in rows} == {"kafka://h:1"}
    assert [json.loads(row[2])["broker_id"] for row in rows if row[0] == "broker"] == [1, 2, 3]
    assert rows[-1][0] == "malformed"


def test_directories_are_asked_for_all_topics(monkeypatch: pytest.MonkeyPatch) -> None:
    """The request names no topic, so that replicas of topics that the user may not describe are seen too."""
    asked: list[Any] = []

    class Manager:
        """Answers one directory, or a refusal to broker 9."""

        async def send(self, request: Any, node_id: int) -> Any:
            """Keep the request."""
            asked.append((request.topics, node_id))
            found = SimpleNamespace(to_dict=lambda: {"log_dir": "/d"})
            return SimpleNamespace(error_code=31 if node_id == 9 else 0, results=[] if node_id == 9 else [found])

        def run(self, ask: Any) -> Any:
            """Wait for the answer."""
            return asyncio.run(ask())

    client = SimpleNamespace(_manager=Manager(), close=lambda: None)
    monkeypatch.setattr(kafka_admin, "KafkaAdminClient", lambda **options: client)
    with kafka_admin.connected({"bootstrap_servers": "h:1"}) as admin:
        assert admin.log_dirs_of(1) == [{"log_dir": "/d"}]
        with pytest.raises(kafka_admin.KafkaError, match="ClusterAuthorization"):
            admin.log_dirs_of(9)
    assert asked == [(None, 1), (None, 9)]
