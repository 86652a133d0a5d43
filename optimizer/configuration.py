"""Typed settings from conf/default.toml, which the user's file and the options override."""

import json
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any, TypeGuard, get_args, get_origin

from optimizer.approval_setting import Approval, ClusterApproval
from optimizer.errors import ConfigError
from optimizer.setting_checks import Problems
from optimizer.settings import (
    Baseline,
    ClusterInput,
    Emit,
    Execution,
    InstanceBroker,
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
from optimizer.windows_setting import Window

_SECTIONS: dict[str, type] = {
    "storage": Storage,
    "metrics": Metrics,
    "quality": Quality,
    "baseline": Baseline,
    "policy": Policy,
    "solver": Solver,
    "schedule": Schedule,
    "emit": Emit,
    "execution": Execution,
    "approval": Approval,
}
_OPTIONAL = ("approval",)  # sections that differ when they are empty and when they are missing


@dataclass(frozen=True)
class _Type:
    """The description of a type of values, with an example."""

    singular: str
    plural: str
    example: str


_TYPES = {
    int: _Type("a whole number", "numbers", "17"),
    float: _Type("a number", "numbers", "0.05"),
    str: _Type("text in quotes", "texts in quotes", '"audit[.].*"'),
}

# Knobs with lists of tables: the class of a table, and an example.
_TABLES: dict[str, tuple[type, str]] = {
    "instances": (InstanceBroker, '{instance = "10.0.0.1:7071", broker = 1}'),
    "pins": (Pin, '{topics = "audit[.].*", racks = ["a"]}'),
    "replication_factors": (TopicFactor, '{topics = "audit[.].*", factor = 3}'),
    "windows": (Window, '{days = ["fri"], start = "22:00", end = "06:00", time_zone = "Europe/Dublin"}'),
    "clusters": (ClusterApproval, '{id = "orders", most_moved_bytes = 100e9}'),
}


# Values that a check of another value of a cluster's table needs.
_CLUSTER_BASE = ("id", "input", "bootstrap_servers")


def _typed(kind: type, values: Mapping[str, Any], section: str, *, base: Sequence[str] | None = None) -> Any:
    """Make a settings class from the values; raises with all problems.

    If the whole class is refused, each knob is checked alone, with the knobs of ``base``, to find every problem.
    """
    if not isinstance(values, Mapping):
        raise ConfigError(f"{section}: {values!r} is not a table: write name = value below {section}")
    known = {f.name: f for f in fields(kind)}
    needed = [f.name for f in known.values() if f.default is MISSING and f.default_factory is MISSING]
    unknown = sorted(set(values) - set(known))
    problems = Problems()
    if unknown:
        names = _with_suggestions(unknown, known)
        problems.messages.append(f"{section}: unknown {names}; known are {sorted(known)}")
    problems.messages += [f"{section}: {name} is missing" for name in needed if name not in values]
    typed: dict[str, Any] = {}
    for name in [name for name in values if name in known]:
        check = partial(_typed_tables, name) if name in _TABLES else partial(_typed_value, known[name])
        value = problems.collect(partial(check, values[name], section))
        typed |= {} if value is None else {name: value}
    settings = None if problems.messages else problems.collect(partial(kind, **typed))
    if settings is None and base is not None and set(needed) <= set(typed):
        base_values = {name: typed[name] for name in base if name in typed}
        for name, value in typed.items():
            problems.collect(partial(kind, **{**base_values, name: value}))
    problems.raise_any()
    return settings


def _with_suggestions(unknown: Sequence[str], known: Iterable[str]) -> str:
    """Unknown names, each with the section that has such a knob, or with the closest known name."""
    return ", ".join(
        f"{name!r} (it is in [{section}])" if (section := section_of(name)) else f"{name!r}{did_you_mean(name, known)}"
        for name in unknown
    )


def section_of(knob: str) -> str:
    """The section that has this knob; empty if there is none."""
    return next((section for section, kind in _SECTIONS.items() if knob in {field.name for field in fields(kind)}), "")


def _typed_value(knob: Field[Any], value: object, section: str) -> object:
    """The value of a knob with its type; for all knobs except lists of tables. Lists have entries of one type."""
    # A knob without a value by default is declared as its type or None.
    declared: Any = get_args(knob.type)[0] if knob.default is None else knob.type
    type_ = str if knob.default is MISSING else get_origin(declared) or declared
    entry = get_args(declared)[0] if type_ is tuple else None
    if type_ is float and type(value) is int:
        return float(value)
    if entry and isinstance(value, list) and all(type(item) is entry for item in value):
        return tuple(value)
    if entry or type(value) is not type_:
        raise ConfigError(f"{section} {knob.name} = {value!r}: expected {_describe_type(knob, type_, entry)}")
    return value


def _describe_type(knob: Field[Any], type_: type, entry: type | None) -> str:
    """The values that a knob accepts, in words, with an example in TOML."""
    if type_ is bool:
        return "true or false, without quotes"
    value_type = _TYPES[entry or type_]
    default = json.dumps(knob.default) if knob.default is not MISSING and knob.default else ""
    example = knob.metadata.get("example") or default or value_type.example
    if entry:
        return f"a list of {value_type.plural}, such as [{example}]"
    return f"{value_type.singular}, such as {example}"


def _typed_tables(name: str, value: object, section: str) -> tuple[Any, ...]:
    kind, example = _TABLES[name]
    if not is_tables(value):
        raise ConfigError(f"{section} {name} = {value!r}: expected tables like {example}")
    problems = Problems()
    tables = [problems.collect(partial(_typed, kind, table, f"{section} {name}")) for table in value]
    problems.raise_any()
    return tuple(tables)


def merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Override ``base`` by ``over``, key by key; lists are replaced as a whole."""
    result = dict(base)
    for name, value in over.items():
        old = result.get(name)
        result[name] = merge(old, value) if isinstance(old, Mapping) and isinstance(value, Mapping) else value
    return result


def only_of(content: Mapping[str, Any], cluster_id: str) -> str:
    """``only`` of a cluster in stored settings, also of another release; empty if the run plans everything."""
    tables = [table for table in content.get("clusters", ()) if table["id"] == cluster_id]
    return str(
        next((table["only"] for table in tables if table.get("only")), content.get("policy", {}).get("only", ""))
    )


def read_toml(path: Path) -> dict[str, Any]:
    """Read one file. Relative paths of clusters become absolute; they are relative to the folder of the file.

    Raises
    ------
    ConfigError
        If the file is missing or not TOML.
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
    """Whether a value is a list of tables."""
    return isinstance(value, list) and all(isinstance(table, dict) for table in value)


def absolute(path: str, folder: Path) -> str:
    """The absolute path of a path relative to ``folder``; a URI does not change."""
    return path if "://" in path else str((folder / path).resolve())


def build(content: Mapping[str, Any]) -> Settings:
    """Make typed settings from a merged mapping.

    Raises
    ------
    ConfigError
        With all unknown keys, wrong types and values out of range.
    """
    unknown = sorted(set(content) - set(_SECTIONS) - {"clusters"})
    known = sorted([*_SECTIONS, "clusters"])
    problems = Problems()
    problems.messages += [f"unknown section {_with_suggestions(unknown, known)}; known are {known}"] if unknown else []
    sections = {
        name: problems.collect(partial(_typed, kind, content.get(name, {}), f"[{name}]", base=()))
        for name, kind in _SECTIONS.items()
        if name not in _OPTIONAL or name in content
    }
    tables = content.get("clusters", [])
    if not is_tables(tables):
        problems.messages.append("[[clusters]]: write one table with this heading, in two brackets, for each cluster")
        tables = []
    clusters = [
        problems.collect(partial(_typed, ClusterInput, cluster, "[[clusters]]", base=_CLUSTER_BASE))
        for cluster in tables
    ]
    # Checks over several sections use the valid sections only.
    valid = {name: section for name, section in sections.items() if section is not None}
    valid_clusters = tuple(cluster for cluster in clusters if cluster is not None)
    settings = problems.collect(partial(Settings, clusters=valid_clusters, **valid))
    problems.raise_any()
    assert settings is not None
    return settings
