"""A live cluster as a data source, without one: options, tasks and rows."""

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
def test_options_of_kafka_become_the_clients(properties: dict[str, str], expected: dict[str, object]) -> None:
    """Names of Java's client and of librdkafka are understood."""
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


def made_with(monkeypatch: pytest.MonkeyPatch, options: dict[str, str]) -> dict[str, Any]:
    """What the client is made with where a reader plans its tasks."""
    made: dict[str, Any] = {}

    def client(**given: Any) -> SimpleNamespace:
        made.update(given)
        return SimpleNamespace(close=lambda: None, describe_cluster=FakeAdmin().describe_cluster)

    monkeypatch.setattr(kafka_admin, "KafkaAdminClient", client)
    kafka_live.KafkaTopology(options).reader(StructType()).partitions()
    return made


def test_single_options_go_before_the_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """And bootstrap.servers before both; a first answer is tried for fifteen seconds, a request for thirty."""
    path = tmp_path / "client.properties"
    path.write_text("bootstrap.servers=file:1\nclient.id=file\nsasl.username=file\nsasl.mechanism=file\n")
    options = {"client.config": str(path), "kafka.client.id": "option", "kafka.sasl.username": "option", "path": "x"}
    made = made_with(monkeypatch, options)
    assert made == {
        "bootstrap_servers": "file:1",
        "client_id": "option",
        "sasl_mechanism": "file",
        "sasl_plain_username": "option",
        "bootstrap_timeout_ms": 15_000,
        "request_timeout_ms": 30_000,
    }
    more = {"Bootstrap.Servers": "h:1", "timeout.seconds": "2", "kafka.request.timeout.ms": "7"}
    made = made_with(monkeypatch, options | more)
    assert (made["bootstrap_servers"], made["bootstrap_timeout_ms"], made["request_timeout_ms"]) == ("h:1", 2_000, 7)


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
    error = kafka_live.unwrap_error(caught.value)
    assert isinstance(error, InputError)
    assert str(error).startswith("cannot read kafka://127.0.0.1:1: KafkaTimeoutError")
    assert "\n" not in str(error)
    printed = capfd.readouterr()
    assert "hunter22" not in "".join((str(caught.value), printed.out, printed.err))


def test_another_error_is_not_unwrapped() -> None:
    """What this source did not raise is left as it is; of its own errors the last one is told, on one line."""
    assert kafka_live.unwrap_error(ValueError("x")) is None
    text = "Traceback\noptimizer.errors.{}: first\n  more\noptimizer.errors.{}: second: x\n  at org.apache"
    for kinds, kind in {("ConfigError", "InputError"): InputError, ("InputError", "ConfigError"): ConfigError}.items():
        error = kafka_live.unwrap_error(RuntimeError(text.format(*kinds)))
        assert (type(error), str(error)) == (kind, "second: x")


def nine_brokers() -> dict[str, Any]:
    """Of an old release, which tells nothing of fenced ones."""
    return {"brokers": [{"broker_id": i, "host": "h", "port": 9, "rack": None} for i in range(9, 0, -1)]}


def test_rows_are_records_as_json(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tasks cover the living brokers in groups, and each row is a record with its payload as sorted JSON."""
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
