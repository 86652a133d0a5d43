"""Connection options of a live cluster: maps Kafka's names (client.properties) to the Python client's parameters.

Accepted are the names of Kafka's Java client, librdkafka's names for the same options, and ``sasl.jaas.config`` with a
user name and a password. JKS and PKCS12 stores can't be read: use PEM files (``ssl.truststore.type=PEM``). Messages
never show secrets.
"""

import re
from collections.abc import Mapping

from optimizer.errors import ConfigError

# Name -> the client's parameter, and its type.
_NAMES: dict[str, tuple[str, type]] = {
    "bootstrap.servers": ("bootstrap_servers", str),
    "security.protocol": ("security_protocol", str),
    "client.id": ("client_id", str),
    "request.timeout.ms": ("request_timeout_ms", int),
    "sasl.mechanism": ("sasl_mechanism", str),
    "sasl.mechanisms": ("sasl_mechanism", str),
    "sasl.username": ("sasl_plain_username", str),
    "sasl.password": ("sasl_plain_password", str),
    "sasl.kerberos.service.name": ("sasl_kerberos_service_name", str),
    "sasl.kerberos.domain.name": ("sasl_kerberos_domain_name", str),
    "ssl.ca.location": ("ssl_cafile", str),
    "ssl.truststore.location": ("ssl_cafile", str),
    "ssl.certificate.location": ("ssl_certfile", str),
    "ssl.keystore.location": ("ssl_certfile", str),
    "ssl.key.location": ("ssl_keyfile", str),
    "ssl.key.password": ("ssl_password", str),
    "ssl.crl.location": ("ssl_crlfile", str),
}
_SECRET = ("sasl_plain_password", "ssl_password")
_JAAS = re.compile(r"""\b(username|password)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s;]+))""")
_BINARY_STORE = re.compile(r"\.(?:jks|p12|pfx|pkcs12)$", re.IGNORECASE)
# Options of Java clients that have no effect on an admin client.
_UNUSED = re.compile(
    r"(?:ssl\.(?:truststore|keystore)\.(?:type|password)|ssl\.protocol|ssl\.enabled\.protocols|client\.dns\.lookup"
    r"|(?:acks|retries|group\.id|auto\.offset\.reset|enable\.auto\.commit|key\.\w+|value\.\w+|default\.api\.timeout\.ms))$"
)


def read_properties(text: str) -> dict[str, str]:
    """Read Java properties: ``name=value`` or ``name: value``, ``#`` and ``!`` comments, lines continued by ``\\``.

    >>> read_properties("# mine\\na.b = 1\\nc: x \\\\\\n  y")
    {'a.b': '1', 'c': 'x y'}
    """
    joined = re.sub(r"\\\r?\n[ \t]*", "", text)
    lines = (line.strip() for line in joined.splitlines())
    pairs = (re.split(r"\s*[=:]\s*|\s+", line, maxsplit=1) for line in lines if line and line[0] not in "#!")
    return {pair[0]: _unescaped(pair[1]) if len(pair) > 1 else "" for pair in pairs}


def client_options(properties: Mapping[str, str]) -> dict[str, object]:
    """The client's parameters from Kafka's options. Options with the prefix ``kafka.`` override those without it.

    Raises
    ------
    ConfigError
        For an unknown option, a store in a binary format, or an invalid number; values are not shown.
    """
    options: dict[str, object] = {}
    for given, value in sorted(properties.items(), key=lambda pair: (pair[0].startswith("kafka."), pair[0])):
        name = given.removeprefix("kafka.")
        if name == "sasl.jaas.config":
            options |= _jaas(value)
        elif name == "ssl.endpoint.identification.algorithm":
            options["ssl_check_hostname"] = value.strip() != ""
        elif name in _NAMES:
            parameter, kind = _NAMES[name]
            _check_store(name, value)
            options[parameter] = _whole(name, value) if kind is int else value
        elif not _UNUSED.match(name):
            raise ConfigError(f"unknown option {given!r} of the live cluster; known options are {sorted(_NAMES)}")
    return options


def secrets(options: Mapping[str, object]) -> list[str]:
    """Values that must never be shown, longest first."""
    return sorted({str(options[name]) for name in _SECRET if options.get(name)}, key=lambda s: (-len(s), s))


def _jaas(value: str) -> dict[str, object]:
    login = {name: _unescaped(double or single or bare) for name, double, single, bare in _JAAS.findall(value)}
    if "username" not in login or "password" not in login:
        raise ConfigError(
            "sasl.jaas.config has no username or no password: add both, or set sasl.username and sasl.password"
        )
    return {"sasl_plain_username": login["username"], "sasl_plain_password": login["password"]}


def _unescaped(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text)


def _check_store(name: str, value: str) -> None:
    if _BINARY_STORE.search(value):
        raise ConfigError(
            f"{name}: {value} is a binary store and can't be read: export it as PEM and use that file (type PEM)"
        )


def _whole(name: str, value: str) -> int:
    if not value.strip().isdecimal():
        raise ConfigError(f"option {name!r} of the live cluster must be a whole number")
    return int(value)
