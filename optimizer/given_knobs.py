"""Knobs that the options of a job set, each with the option text."""

import argparse
import re
import tomllib
from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

from optimizer.configuration import section_of
from optimizer.errors import ConfigError
from optimizer.setting_checks import Problems

# Section and knob by the option's name in the argparse namespace.
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
    """A knob that the command line sets, with the option text that sets it."""

    section: str
    knob: str
    value: Any
    option_text: str


def _by_option(options: argparse.Namespace) -> Iterator[GivenKnob]:
    """Knobs with their own option, in the order of ``_KNOBS``."""
    for name, (section, knob) in _KNOBS.items():
        value = getattr(options, name)
        if value is None:
            continue
        option = f"--{name.replace('_', '-')}"
        if name in ("topics", "exclude_topics"):
            option_text = " ".join(f"{option} {pattern}" for pattern in value)
        elif isinstance(value, list):
            value = list(dict.fromkeys(value))
            option_text = f"{option} {','.join(map(str, value))}"
        else:
            option_text = f"{option} {value}"
        yield GivenKnob(section, knob, value, option_text)


def knob_of_set(text: str) -> GivenKnob:
    """The knob of ``--set section.key=value``. A value that is not TOML is text.

    Raises
    ------
    ConfigError
        If the text has another form, or sets a cluster: clusters are a list.
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
    """Every knob that the command line sets, once. A knob that is set twice is added to ``problems``."""
    by_set = (problems.collect(partial(knob_of_set, text)) for text in options.set)
    knobs: dict[tuple[str, str], GivenKnob] = {}
    for knob in (*_by_option(options), *(knob for knob in by_set if knob)):
        first = knobs.setdefault((knob.section, knob.knob), knob)
        if first is not knob:
            problems.messages.append(f"{first.option_text} and {knob.option_text} set the same knob: give one of them")
    return list(knobs.values())
