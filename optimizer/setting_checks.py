"""Checks of single knobs."""

import re
import socket
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import TypeVar

from optimizer.errors import ConfigError

_Result = TypeVar("_Result")


def refuse(name: str, value: object, remedy: str) -> None:
    """Raise a ConfigError that names the knob, its value and the remedy."""
    raise ConfigError(f"{name} = {value!r} is not usable: {remedy}")


class Problems:
    """Collects the messages of several checks, to report all of them at once."""

    def __init__(self) -> None:
        self.messages: list[str] = []

    def collect(self, check: Callable[[], _Result]) -> _Result | None:
        """Return the result of ``check``; None if it raises a ConfigError, whose messages are added."""
        try:
            return check()
        except ConfigError as error:
            self.messages += error.problems
            return None

    def raise_any(self) -> None:
        """Raise one ConfigError with all messages, each once, if there are any."""
        if self.messages:
            raise ConfigError(*dict.fromkeys(self.messages))


NAME_RULE = "use letters, digits, dot, dash and underscore, at most 100, not only dots, no dash at the beginning"


def is_folder_name(name: str) -> bool:
    """Whether a cluster or a run may have this name. The name is also used for a folder."""
    return bool(re.fullmatch(r"(?!-)[A-Za-z0-9._-]{1,100}", name)) and bool(name.strip("."))


def between(section: str, values: Mapping[str, float], low: float, high: float) -> None:
    """Refuse numbers of a section that are out of range."""
    for name, value in values.items():
        if not low <= value <= high:
            refuse(f"[{section}] {name}", value, f"give a number from {low:g} to {high:g}")


def release(kafka_version: str, name: str = "kafka_version") -> tuple[int, int] | None:
    """Major and minor number of a version ("4.3", "3.9.1", "2.8-IV1"); None if it is empty.

    Raises
    ------
    ConfigError
        If the text does not start with a release number of 0.8 or later.
    """
    if not kafka_version:
        return None
    match = re.fullmatch(r"(\d++)(?:\.(\d++))?+(?:[.\-+_].*)?", kafka_version)
    numbers = (int(match[1]), int(match[2] or 0)) if match else (0, 0)
    if numbers < (0, 8):
        raise ConfigError(f"{name} = {kafka_version!r} is not a version: give for example 4.3 or 3.9.1")
    return numbers


def check_pattern(name: str, pattern: object) -> None:
    """Refuse a pattern that is no regular expression of Python."""
    try:
        re.compile(str(pattern))
    except re.error as error:
        raise ConfigError(f"{name}: {pattern!r} is not a regular expression: {error}") from error


def check_time(name: str, text: str) -> None:
    """Refuse a text that is not a time."""
    try:
        datetime.fromisoformat(text)
    except ValueError as error:
        raise ConfigError(f"{name} = {text!r} is not a time: write it like 2026-01-31T02:00:00Z") from error


_KAFKA_PORT = 9092  # of an address without a port, as in Kafka's client
_PROTOCOL = re.compile(r".*://")
_ADDRESS = re.compile(r"(?:\[([^\[\]]+)\]|([^:\[\]]+))(?::([0-9]{1,5}))?")


def server_address(text: str) -> tuple[str, int] | None:
    """Host and port of HOST, HOST:PORT, [IPv6], [IPv6]:PORT or an IPv6 address; None if it is none of them.

    As in Kafka's client, a protocol before :// does not count.
    """
    address = _PROTOCOL.sub("", text, count=1)
    if _is_ipv6(address):
        return address, _KAFKA_PORT
    match = _ADDRESS.fullmatch(address)
    port = int(match[3] or _KAFKA_PORT) if match else 0
    return ((match[1] or match[2]), port) if match and 0 < port < 1 << 16 else None


def _is_ipv6(text: str) -> bool:
    try:
        socket.inet_pton(socket.AF_INET6, text)
    except (OSError, ValueError):
        return False
    return True


def server_addresses(bootstrap_servers: str) -> list[str]:
    """The addresses of a list with commas."""
    return [address for address in map(str.strip, bootstrap_servers.split(",")) if address]


def check_servers(name: str, bootstrap_servers: str) -> None:
    """Refuse bootstrap servers that Kafka's client can't use, before it tries to connect."""
    addresses = server_addresses(bootstrap_servers)
    wrong = [address for address in addresses if not server_address(address)]
    if wrong or not addresses:
        remedy = "write HOST:PORT, with a port from 1 to 65535, for example broker-1:9092,broker-2:9092 or [::1]:9092"
        refuse(name, ", ".join(wrong) or bootstrap_servers, remedy)


def check_patterns(setting: str, patterns: list[str], remedy: str) -> None:
    """Refuse repeated patterns."""
    repeated = sorted({pattern for pattern in patterns if patterns.count(pattern) > 1})
    if repeated:
        refuse(setting, repeated, f"name each pattern once, {remedy}")
