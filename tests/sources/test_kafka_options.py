"""Kafka's client properties as parameters of the client that reads a live cluster."""

import pytest

from sources.kafka_options import client_options, read_properties

PARAMETERS = [
    ("bootstrap.servers", "bootstrap_servers"),
    ("security.protocol", "security_protocol"),
    ("client.id", "client_id"),
    ("sasl.mechanism", "sasl_mechanism"),
    ("sasl.mechanisms", "sasl_mechanism"),
    ("sasl.username", "sasl_plain_username"),
    ("sasl.password", "sasl_plain_password"),
    ("sasl.kerberos.service.name", "sasl_kerberos_service_name"),
    ("sasl.kerberos.domain.name", "sasl_kerberos_domain_name"),
    ("ssl.ca.location", "ssl_cafile"),
    ("ssl.truststore.location", "ssl_cafile"),
    ("ssl.certificate.location", "ssl_certfile"),
    ("ssl.keystore.location", "ssl_certfile"),
    ("ssl.key.location", "ssl_keyfile"),
    ("ssl.key.password", "ssl_password"),
    ("ssl.crl.location", "ssl_crlfile"),
]


@pytest.mark.parametrize(("option", "parameter"), PARAMETERS)
def test_each_option_has_its_parameter(option: str, parameter: str) -> None:
    """Names of the Java client and of librdkafka are accepted, with and without the prefix ``kafka.``."""
    assert client_options({option: "/x"}) == client_options({f"kafka.{option}": "/x"}) == {parameter: "/x"}


@pytest.mark.parametrize(
    "option",
    [
        *("ssl.truststore.type", "ssl.keystore.password", "ssl.protocol", "ssl.enabled.protocols", "acks", "retries"),
        *("client.dns.lookup", "group.id", "auto.offset.reset", "enable.auto.commit", "default.api.timeout.ms"),
        *("key.serializer", "value.deserializer"),
    ],
)
def test_options_without_effect_on_an_admin_client_are_ignored(option: str) -> None:
    """Such options are in files that consumers and producers share."""
    assert client_options({option: "x"}) == client_options({f"kafka.{option}": "x"}) == {}


def test_times_are_whole_numbers() -> None:
    """A timeout is read as a number."""
    assert client_options({"request.timeout.ms": "5000"}) == {"request_timeout_ms": 5000}


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("a=1", {"a": "1"}),
        ("a : 1\n! not this\n  # nor this\n\nb", {"a": "1", "b": ""}),
        ("a b = c", {"a": "b = c"}),
        ("a=x\\=y", {"a": "x=y"}),
        ("a=", {"a": ""}),
    ],
)
def test_properties(text: str, read: dict[str, str]) -> None:
    """The first '=', ':' or blank separates name and value; a name alone has an empty value."""
    assert read_properties(text) == read
