"""Configuration files to typed settings: conf/default.toml, laid over by the user's file and options."""

import tomllib
from collections.abc import Mapping
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

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
        default = known[name].default
        wanted = str if default is MISSING else type(default)
        given = tuple(value) if isinstance(value, list) else value
        if wanted is float and type(given) is int:
            given = float(given)
        if type(given) is not wanted:
            raise ConfigError(f"{where} {name} = {value!r}: expected {wanted.__name__}, not {type(value).__name__}")
        plain[name] = given
    return kind(**plain)


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
