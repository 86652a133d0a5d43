"""Configuration files to typed settings: conf/default.toml, laid over by the user's file and options."""

import json
import tomllib
from collections.abc import Mapping
from dataclasses import MISSING, Field, dataclass, fields
from pathlib import Path
from typing import Any, get_args

from optimizer.errors import ConfigError
from optimizer.settings import (
    Baseline,
    ClusterInput,
    Emit,
    Metrics,
    Policy,
    Quality,
    Schedule,
    Settings,
    Solver,
    Storage,
)
from optimizer.topic_wishes import Pin, TopicFactor

_SECTIONS: dict[str, type] = {
    "storage": Storage,
    "metrics": Metrics,
    "quality": Quality,
    "baseline": Baseline,
    "policy": Policy,
    "solver": Solver,
    "schedule": Schedule,
    "emit": Emit,
}


@dataclass(frozen=True)
class _Type:
    """A type of values in words, and one to show."""

    one: str
    several: str
    example: str


_TYPES = {
    int: _Type("a whole number", "numbers", "17"),
    float: _Type("a number", "numbers", "0.05"),
    str: _Type("text in quotes", "texts in quotes", '"audit[.].*"'),
}

# Lists of tables: what a table is, and one to show.
_TABLES: dict[str, tuple[type, str]] = {
    "pins": (Pin, '{topics = "audit[.].*", racks = ["a"]}'),
    "replication_factors": (TopicFactor, '{topics = "audit[.].*", factor = 3}'),
}


def _typed(kind: type, values: Mapping[str, Any], where: str) -> Any:
    known = {f.name: f for f in fields(kind)}
    unknown = sorted(set(values) - set(known))
    if unknown:
        raise ConfigError(f"{where}: unknown {unknown}; known are {sorted(known)}")
    plain: dict[str, Any] = {}
    for name, value in values.items():
        if name in _TABLES:
            plain[name] = _typed_tables(name, value, where)
            continue
        plain[name] = _plain(known[name], value, where)
    return kind(**plain)


def _plain(knob: Field[Any], value: object, where: str) -> object:
    """The value of a knob that is no list of tables, as its type; lists have entries of one type."""
    wanted = str if knob.default is MISSING else type(knob.default)
    entry = get_args(knob.type)[0] if wanted is tuple else None
    if wanted is float and type(value) is int:
        return float(value)
    if entry and isinstance(value, list) and all(type(one) is entry for one in value):
        return tuple(value)
    if entry or type(value) is not wanted:
        raise ConfigError(f"{where} {knob.name} = {value!r}: expected {_wanted(knob, wanted, entry)}")
    return value


def _wanted(knob: Field[Any], wanted: type, entry: type | None) -> str:
    """What a knob takes, in the words and the writing of TOML."""
    if wanted is bool:
        return "true or false, without quotes"
    said = _TYPES[entry or wanted]
    if entry:
        return f"a list of {said.several}, such as [{said.example}]"
    usual = json.dumps(knob.default) if knob.default is not MISSING and knob.default else said.example
    return f"{said.one}, such as {usual}"


def _typed_tables(name: str, value: object, where: str) -> tuple[Any, ...]:
    kind, example = _TABLES[name]
    if not isinstance(value, list) or not all(isinstance(table, Mapping) for table in value):
        raise ConfigError(f"{where} {name} = {value!r}: expected tables like {example}")
    return tuple(_typed(kind, table, f"{where} {name}") for table in value)


def merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Lay ``over`` on ``base``, key by key; lists are replaced whole."""
    result = dict(base)
    for name, value in over.items():
        below = result.get(name)
        result[name] = merge(below, value) if isinstance(below, Mapping) and isinstance(value, Mapping) else value
    return result


def read_toml(path: Path) -> dict[str, Any]:
    """Read one file; relative cluster paths become absolute against its folder.

    Raises
    ------
    ConfigError
        When the file is missing or no TOML: names the file and the place.
    """
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"cannot read the configuration {path}: {error.strerror}; give --config FILE") from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path} is no TOML: {error}") from error
    for cluster in content.get("clusters", []):
        for name in ("input", "client_config"):
            value = cluster.get(name)
            if value and "://" not in value:
                cluster[name] = str((path.parent / value).resolve())
    return content


def build(content: Mapping[str, Any]) -> Settings:
    """Typed settings from a merged mapping.

    Raises
    ------
    ConfigError
        For unknown keys, wrong types and values out of range.
    """
    unknown = sorted(set(content) - set(_SECTIONS) - {"clusters"})
    if unknown:
        raise ConfigError(f"unknown section {unknown}; known are {sorted([*_SECTIONS, 'clusters'])}")
    sections = {name: _typed(kind, content.get(name, {}), f"[{name}]") for name, kind in _SECTIONS.items()}
    clusters = tuple(_typed(ClusterInput, c, "[[clusters]]") for c in content.get("clusters", []))
    return Settings(clusters=clusters, **sections)
