"""A live cluster as a data source, with a fake client: options, tasks and rows."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from optimizer.errors import ConfigError, InputError
from sources import kafka_admin, kafka_live
from sources.kafka_options import client_options, read_properties, secrets
from tests.sources.test_kafka_admin import JAAS, PASSWORD, FakeAdmin

OPTIONS = [
    ({"kafka.security.protocol": "SASL_SSL"}, {"security_protocol": "SASL_SSL"}),
    ({"sasl.jaas.config": JAAS}, {"sasl_plain_username": "ops", "sasl_plain_password": PASSWORD}),
    (
        {"sasl.mechanism": "SCRAM-SHA-512", "sasl.username": "u", "sasl.password": "p"},
        {"sasl_mechanism": "SCRAM-SHA-512", "sasl_plain_username": "u", "sasl_plain_password": "p"},
    ),
    ({"ssl.truststore.location": "/ca.pem", "ssl.truststore.type": "PEM"}, {"ssl_cafile": "/ca.pem"}),
    ({"ssl.endpoint.identification.algorithm": " "}, {"ssl_check_hostname": False}),
    ({"ssl.endpoint.identification.algorithm": "https"}, {"ssl_check_hostname": True}),
    (
        {"sasl.jaas.config": "ScramLoginModule required username='o p' password=s3;"},
        {"sasl_plain_username": "o p", "sasl_plain_password": "s3"},
    ),
    ({"kafka.sasl.username": "option", "sasl.username": "file"}, {"sasl_plain_username": "option"}),
    ({"kafka.client.id": "option", "client.id": "file"}, {"client_id": "option"}),
    ({"request.timeout.ms": "5000", "group.id": "x"}, {"request_timeout_ms": 5000}),
]


@pytest.mark.parametrize(("properties", "expected"), OPTIONS)
def test_kafka_options_become_client_parameters(properties: dict[str, str], expected: dict[str, object]) -> None:
    """Names of the Java client and of librdkafka are accepted."""
    assert client_options(properties) == expected


@pytest.mark.parametrize(
    ("properties", "reason"),
    [
        ({"kafka.sasl.pasword": PASSWORD}, "unknown option 'kafka.sasl.pasword'"),
        ({"ssl.truststore.location": "/etc/store.JKS"}, "export it as PEM"),
        ({"ssl.keystore.location": "/etc/store.p12"}, r"ssl\.keystore\.location: /etc/store\.p12 is a binary store"),
        ({"sasl.jaas.config": f"X required username='{PASSWORD}';"}, "no username or no password"),
        ({"acks.more": PASSWORD}, "unknown option 'acks.more' .*; known options are .*'ssl.truststore.location'"),
        ({"sasl.jaas.config": f"Krb5LoginModule required keyTab='{PASSWORD}';"}, "no username or no password"),
        ({"request.timeout.ms": PASSWORD}, "must be a whole number"),
    ],
)
def test_unusable_options_are_refused(properties: dict[str, str], reason: str) -> None:
    """The message has the option's name and a remedy, but never the value."""
    with pytest.raises(ConfigError, match=reason) as caught:
        client_options(properties)
    assert "Tr0ub4dor" not in str(caught.value)


def test_properties_of_java() -> None:
    """Comments, colons, escapes and continued lines are read as in Java."""
    text = f"! c\n# c\na=1\n b : 2\nc 3\nd\\\n  .e=x\\=y\nf=\nsasl.jaas.config={JAAS.replace(chr(92), chr(92) * 2)}\n"
    expected = {"a": "1", "b": "2", "c": "3", "d.e": "x=y", "f": "", "sasl.jaas.config": JAAS}
    assert read_properties(text) == expected
    assert secrets(client_options({"sasl.jaas.config": JAAS})) == [PASSWORD]


READERS = [
    ({}, "bootstrap.servers of kafka_topology is missing"),
    (
        {"bootstrap.servers": "h:1", "colour": "red"},
        "unknown options .*'colour'.*; known options are .*'timeout.seconds'.* kafka",
    ),
    ({"bootstrap.servers": "h:1", "brokers.per.task": "0"}, "brokers.per.task = '0'"),
    ({"bootstrap.servers": "h:1", "timeout.seconds": "soon"}, "timeout.seconds = 'soon'"),
    ({"bootstrap.servers": "h:1", "client.config": "/no/such/file"}, "cannot read client_config /no/such/file"),
]


def client_parameters(monkeypatch: pytest.MonkeyPatch, options: dict[str, str]) -> dict[str, Any]:
    """The parameters with which a reader creates the client to plan its tasks."""
    parameters: dict[str, Any] = {}

    def client(**given: Any) -> SimpleNamespace:
        parameters.update(given)
        known = SimpleNamespace(brokers=list, refresh_metadata=None)
        manager = SimpleNamespace(cluster=known, run=lambda request: None)
        return SimpleNamespace(close=lambda: None, describe_cluster=FakeAdmin().describe_cluster, _manager=manager)

    monkeypatch.setattr(kafka_admin, "KafkaAdminClient", client)
    kafka_live.KafkaTopology(options).reader(StructType()).partitions()
    return parameters


def test_single_options_override_the_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """bootstrap.servers overrides both; the first connection may take fifteen seconds, a request thirty."""
    path = tmp_path / "client.properties"
    path.write_text("bootstrap.servers=file:1\nclient.id=file\nsasl.username=file\nsasl.mechanism=file\n")
    options = {"client.config": str(path), "kafka.client.id": "option", "kafka.sasl.username": "option", "path": "x"}
    parameters = client_parameters(monkeypatch, options)
    assert parameters == {
        "bootstrap_servers": "file:1",
        "client_id": "option",
        "sasl_mechanism": "file",
        "sasl_plain_username": "option",
        "bootstrap_timeout_ms": 15_000,
        "request_timeout_ms": 30_000,
    }
    overrides = {"Bootstrap.Servers": "h:1", "timeout.seconds": "2", "kafka.request.timeout.ms": "7"}
    parameters = client_parameters(monkeypatch, options | overrides)
    expected = {"bootstrap_servers": "h:1", "bootstrap_timeout_ms": 2_000, "request_timeout_ms": 7}
    assert {name: parameters[name] for name in expected} == expected


@pytest.mark.parametrize(("options", "reason"), READERS)
def test_a_reader_with_wrong_options_is_refused(options: dict[str, str], reason: str) -> None:
    """The error is raised before any connection."""
    with pytest.raises(ConfigError, match=reason):
        kafka_live.KafkaTopology(options).reader(StructType())


def test_spark_shows_no_secret_and_one_line(
    spark: SparkSession, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """An unreachable cluster gives one line from Spark's traceback; the password is not shown."""
    kafka_live.register(spark)
    config = tmp_path / "client.properties"
    config.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.username=ops\nsasl.password=hunter22\n"
    )
    reader = spark.read.format("kafka_topology").option("bootstrap.servers", "127.0.0.1:1").option("timeout.seconds", 1)
    with pytest.raises(Exception, match="InputError") as caught:
        reader.option("client.config", str(config)).load().collect()
    error = kafka_live.unwrap_error(caught.value)
    assert isinstance(error, InputError)
    assert str(error).startswith("cannot read kafka://127.0.0.1:1: KafkaTimeoutError")
    assert "\n" not in str(error)
    printed = capfd.readouterr()
    assert "hunter22" not in "".join((str(caught.value), printed.out, printed.err))


def test_other_errors_are_not_unwrapped() -> None:
    """Only errors of this source are unwrapped: the last of them, on one line."""
    assert kafka_live.unwrap_error(ValueError("x")) is None
    text = "Traceback\noptimizer.errors.{}: first\n  more\noptimizer.errors.{}: second: x\n  at org.apache"
    for kinds, kind in {("ConfigError", "InputError"): InputError, ("InputError", "ConfigError"): ConfigError}.items():
        error = kafka_live.unwrap_error(RuntimeError(text.format(*kinds)))
        assert (type(error), str(error)) == (kind, "second: x")


def nine_brokers() -> dict[str, Any]:
    """A cluster of an old release, without fenced states."""
    return {"brokers": [{"broker_id": i, "host": "h", "port": 9, "rack": None} for i in range(9, 0, -1)]}


def test_rows_are_records_as_json(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tasks read the live brokers in groups, and each row is a record with its payload as sorted JSON."""
    from contextlib import nullcontext

    monkeypatch.setattr(kafka_admin, "connected", lambda options: nullcontext(FakeAdmin()))
    options = {"bootstrap.servers": "h:1", "brokers.per.task": "1"}
    reader = kafka_live.KafkaTopology(options).reader(StructType())
    tasks = reader.partitions()
    rows = [row for task in tasks for row in reader.read(task)]
    shares = [(task.broker_ids, task.defaults) for task in tasks if isinstance(task, kafka_live.Share)]
    assert shares == [((), False), ((1,), True), ((2,), False)]
    default = kafka_live.KafkaTopology({"bootstrap.servers": "h:1"}).reader(StructType())
    monkeypatch.setattr(FakeAdmin, "describe_cluster", lambda _: nine_brokers())
    groups = [task.broker_ids for task in default.partitions() if isinstance(task, kafka_live.Share)]
    assert groups == [(), tuple(range(1, 9)), (9,)]
    assert {row[3] for row in rows} == {"kafka://h:1"}
    assert [row[2] for row in rows] == [json.dumps(json.loads(row[2]), sort_keys=True) for row in rows]
    assert [json.loads(row[2])["broker_id"] for row in rows if row[0] == "broker"] == [1, 2, 3]
    assert rows[-1][0] == "malformed"
