"""What single settings are checked for."""

import re
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import TypeVar

from optimizer.errors import ConfigError

_Made = TypeVar("_Made")


def refuse(name: str, value: object, remedy: str) -> None:
    """Raise a ConfigError that names the setting, its value and the remedy."""
    raise ConfigError(f"{name} = {value!r} is not usable: {remedy}")


class Problems:
    """What several checks refuse, to be told at once."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def of(self, make: Callable[[], _Made]) -> _Made | None:
        """What is made; None where it is refused."""
        try:
            return make()
        except ConfigError as error:
            self.told += error.problems
            return None

    def raise_any(self) -> None:
        """Raise one ConfigError with all of them, each once."""
        if self.told:
            raise ConfigError(*dict.fromkeys(self.told))


NAME_RULE = "use letters, digits, dot, dash and underscore, at most 100, not dots alone"


def is_folder_name(name: str) -> bool:
    """Whether a cluster or a run may be called so: its name is also a folder's."""
    return bool(re.fullmatch(r"[A-Za-z0-9._-]{1,100}", name)) and bool(name.strip("."))


def between(section: str, values: Mapping[str, float], low: float, high: float) -> None:
    """Refuse numbers of a section that are out of range."""
    for name, value in values.items():
        if not low <= value <= high:
            refuse(f"[{section}] {name}", value, f"give a number from {low:g} to {high:g}")


def release(kafka_version: str, name: str = "kafka_version") -> tuple[int, int] | None:
    """Major and minor number of a version ("4.3", "3.9.1", "2.8-IV1"); None where it is empty.

    Raises
    ------
    ConfigError
        When the text does not start with the number of a release that has replicas (0.8).
    """
    if not kafka_version:
        return None
    found = re.fullmatch(r"(\d++)(?:\.(\d++))?+(?:[.\-+_].*)?", kafka_version)
    numbers = (int(found[1]), int(found[2] or 0)) if found else (0, 0)
    if numbers < (0, 8):
        raise ConfigError(f"{name} = {kafka_version!r} is not a version: give for example 4.3 or 3.9.1")
    return numbers


# What Python and Java, which Spark asks, do not read alike: named and conditional groups, comments, the flag a, a {
# without a number, and sets within sets. References to groups: Spark is asked for all patterns in one, so that groups
# have other numbers.
_UNLIKE = re.compile(r"\(\?(?:P|\(|#|[a-zA-Z]*a)|\\\d|(?<!\\)\{(?!\d)|&&|(?<!\\)\[(?:[^\]\\]|\\.)*\[")


def check_pattern(name: str, pattern: object) -> None:
    """Refuse what is not a regular expression, or not the same one in Python and in Spark: both match topics."""
    if _UNLIKE.search(str(pattern)):
        remedy = (
            "write it without named groups, references to groups, comments, the flag a, a { without a number, && and "
            "[ within [ ]"
        )
        raise ConfigError(f"{name}: {pattern!r} does not mean the same to Spark as to Python: {remedy}")
    try:
        re.compile(str(pattern))
    except re.error as error:
        raise ConfigError(f"{name}: {pattern!r} is not a regular expression: {error}") from error


def check_time(name: str, text: str) -> None:
    """Refuse what is not a time."""
    try:
        datetime.fromisoformat(text)
    except ValueError as error:
        raise ConfigError(f"{name} = {text!r} is not a time: write it like 2026-01-31T02:00:00Z") from error


def check_patterns(where: str, patterns: list[str], remedy: str) -> None:
    """Refuse patterns that are given twice."""
    twice = sorted({pattern for pattern in patterns if patterns.count(pattern) > 1})
    if twice:
        refuse(where, twice, f"name each pattern once, {remedy}")
