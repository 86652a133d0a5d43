"""Knobs that the options of a job set, each with the words that set it."""

import argparse
import re
import tomllib
from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

from optimizer.configuration import section_of
from optimizer.errors import ConfigError
from optimizer.setting_checks import Problems

# Options that set a knob: by their name in a namespace.
_KNOBS = {
    "drain": ("policy", "drain_brokers"),
    "exclude_brokers": ("policy", "exclude_brokers"),
    "demote": ("policy", "demote_brokers"),
    "topics": ("policy", "topics"),
    "exclude_topics": ("policy", "exclude_topics"),
    "only": ("policy", "only"),
    "warehouse": ("storage", "warehouse"),
    "output": ("storage", "output"),
}


class GivenKnob(NamedTuple):
    """A knob that the command line sets, and the words that do."""

    section: str
    knob: str
    value: Any
    words: str


def _by_option(options: argparse.Namespace) -> Iterator[GivenKnob]:
    """Knobs that have an option of their own, in the order of ``_KNOBS``."""
    for name, (section, knob) in _KNOBS.items():
        value = getattr(options, name)
        if value is None:
            continue
        option = f"--{name.replace('_', '-')}"
        if name in ("topics", "exclude_topics"):
            words = " ".join(f"{option} {pattern}" for pattern in value)
        elif isinstance(value, list):
            value = list(dict.fromkeys(value))
            words = f"{option} {','.join(map(str, value))}"
        else:
            words = f"{option} {value}"
        yield GivenKnob(section, knob, value, words)


def _by_set(text: str) -> GivenKnob:
    """A knob by ``--set section.key=value``; a value that is not TOML is text.

    Raises
    ------
    ConfigError
        For a text of another form, and for a cluster: a run has a list of them.
    """
    match = re.fullmatch(r"([\w-]+)\.([\w-]+)=(.*)", text)
    if not match:
        key, _, value = text.partition("=")
        section = section_of(key)
        example = f"{section}.{key}={value or 'VALUE'}" if section else "solver.rounds=2"
        raise ConfigError(f"--set {text}: write SECTION.KEY=VALUE, e.g. {example}")
    section, key, value = match.groups()
    if section == "clusters":
        raise ConfigError(f"--set {text}: describe a cluster by --cluster ID, or in [[clusters]] of --config FILE")
    try:
        return GivenKnob(section, key, tomllib.loads(f"{key} = {value}")[key], f"--set {text}")
    except tomllib.TOMLDecodeError:
        return GivenKnob(section, key, value, f"--set {text}")


def given_knobs(options: argparse.Namespace, problems: Problems) -> list[GivenKnob]:
    """Every knob that the command line sets, once; a knob that is set twice is added to ``problems``."""
    by_set = (problems.of(partial(_by_set, text)) for text in options.set)
    knobs: dict[tuple[str, str], GivenKnob] = {}
    for given in (*_by_option(options), *(given for given in by_set if given)):
        first = knobs.setdefault((given.section, given.knob), given)
        if first is not given:
            problems.told.append(f"{first.words} and {given.words} set the same knob: give one of them")
    return list(knobs.values())
