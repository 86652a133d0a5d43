"""Configuration files to typed settings: conf/default.toml, laid over by the user's file and options."""

import json
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any, TypeGuard, get_args

from optimizer.errors import ConfigError
from optimizer.setting_checks import Problems
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
from optimizer.similar import did_you_mean
from optimizer.topic_policy import Pin, TopicFactor

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


# What a cluster's table is refused without, whatever else is in it.
_OF_CLUSTER = ("id", "input", "bootstrap_servers")


def _typed(kind: type, values: Mapping[str, Any], where: str, *, base: Sequence[str] | None = None) -> Any:
    """The values as a settings class; raises with all that is wrong.

    Knobs that have nothing to do with each other are judged one by one, each beside those of ``base`` alone.
    """
    if not isinstance(values, Mapping):
        raise ConfigError(f"{where}: {values!r} is not a table: write name = value below {where}")
    known = {f.name: f for f in fields(kind)}
    needed = [f.name for f in known.values() if f.default is MISSING and f.default_factory is MISSING]
    unknown = sorted(set(values) - set(known))
    problems = Problems()
    problems.told += [f"{where}: unknown {_named(unknown, known)}; known are {sorted(known)}"] if unknown else []
    problems.told += [f"{where}: {name} is missing" for name in needed if name not in values]
    plain: dict[str, Any] = {}
    for name in [name for name in values if name in known]:
        typed = partial(_typed_tables, name) if name in _TABLES else partial(_plain, known[name])
        value = problems.of(partial(typed, values[name], where))
        plain |= {} if value is None else {name: value}
    made = None if problems.told else problems.of(partial(kind, **plain))
    if made is None and base is not None and set(needed) <= set(plain):
        beside = {name: plain[name] for name in base if name in plain}
        for name, value in plain.items():
            problems.of(partial(kind, **{**beside, name: value}))
    problems.raise_any()
    return made


def _named(unknown: Sequence[str], known: Iterable[str]) -> str:
    """Unknown names, each with the section that has such a knob, or with the closest known name."""
    return ", ".join(
        f"{name!r} (it is in [{section}])" if (section := section_of(name)) else f"{name!r}{did_you_mean(name, known)}"
        for name in unknown
    )


def section_of(knob: str) -> str:
    """The section that has such a knob; empty where none has."""
    return next((section for section, kind in _SECTIONS.items() if knob in {one.name for one in fields(kind)}), "")


def _plain(knob: Field[Any], value: object, where: str) -> object:
    """The value of a knob that is not a list of tables, as its type; lists have entries of one type."""
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
    if not is_tables(value):
        raise ConfigError(f"{where} {name} = {value!r}: expected tables like {example}")
    problems = Problems()
    made = [problems.of(partial(_typed, kind, table, f"{where} {name}")) for table in value]
    problems.raise_any()
    return tuple(made)


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
        raise ConfigError(f"{path} is not TOML: {error}") from error
    clusters = content.get("clusters")
    for cluster in clusters if is_tables(clusters) else []:
        for name in ("input", "client_config"):
            if cluster.get(name) and isinstance(cluster[name], str):
                cluster[name] = absolute(cluster[name], path.parent)
    return content


def is_tables(value: object) -> TypeGuard[list[dict[str, Any]]]:
    """Whether a value of a file is a list of tables."""
    return isinstance(value, list) and all(isinstance(table, dict) for table in value)


def absolute(path: str, folder: Path) -> str:
    """A path of a cluster, absolute against a folder; a URI stays as it is."""
    return path if "://" in path else str((folder / path).resolve())


def build(content: Mapping[str, Any]) -> Settings:
    """Typed settings from a merged mapping.

    Raises
    ------
    ConfigError
        For unknown keys, wrong types and values out of range: all of them.
    """
    unknown = sorted(set(content) - set(_SECTIONS) - {"clusters"})
    known = sorted([*_SECTIONS, "clusters"])
    problems = Problems()
    problems.told += [f"unknown section {_named(unknown, known)}; known are {known}"] if unknown else []
    sections = {
        name: problems.of(partial(_typed, kind, content.get(name, {}), f"[{name}]", base=()))
        for name, kind in _SECTIONS.items()
    }
    tables = content.get("clusters", [])
    if not is_tables(tables):
        problems.told.append("[[clusters]]: write a table with this head, in two brackets, for each cluster")
        tables = []
    clusters = [
        problems.of(partial(_typed, ClusterInput, cluster, "[[clusters]]", base=_OF_CLUSTER)) for cluster in tables
    ]
    # What concerns several sections is judged on those that are right.
    right = {name: section for name, section in sections.items() if section is not None}
    made = problems.of(partial(Settings, clusters=tuple(one for one in clusters if one is not None), **right))
    problems.raise_any()
    assert made is not None
    return made
