"""The comment of each numeric knob has its range, and the code checks exactly that range."""

import re
from dataclasses import fields

import pytest

from docs.generate import Knob, knobs
from optimizer.configuration import build
from optimizer.errors import ConfigError
from optimizer.settings import Settings
from setup.paths import HOME

ANY = ("seed",)  # any whole number is valid
RANGE = re.compile(r"(?P<least>[\d.^-]+) to (?P<most>[\d.^-]+)")


def number(word: str) -> float:
    """A number in a comment; 10^6 is a power."""
    base, _, power = word.partition("^")
    return float(base) ** int(power or 1)


def numeric() -> list[Knob]:
    """Knobs whose value is a number."""
    text = (HOME / "conf" / "default.toml").read_text(encoding="utf-8")
    return [knob for knob in knobs(text) if re.fullmatch(r"[\d.]+", knob.value) and knob.name not in ANY]


def is_accepted(knob: Knob, value: float) -> bool:
    """Whether a value is accepted."""
    try:
        build({knob.section: {knob.name: int(value) if value.is_integer() else value}})
    except ConfigError:
        return False
    return True


@pytest.mark.parametrize("knob", numeric(), ids=lambda knob: f"{knob.section}.{knob.name}")
def test_a_number_is_held_to_the_range_of_its_comment(knob: Knob) -> None:
    """Both ends are accepted and values outside are refused, also between a separate 0 and the range."""
    match = RANGE.search(knob.comment)
    assert match, knob.comment
    least, most = number(match["least"]), number(match["most"])
    assert is_accepted(knob, least)
    assert is_accepted(knob, most)
    assert not is_accepted(knob, least - (0.5 if knob.comment.startswith("0, or ") else 1))
    assert not is_accepted(knob, most + 1)


@pytest.mark.parametrize("section", sorted({knob.section for knob in numeric()}))
def test_what_need_not_be_whole_takes_fractions(section: str) -> None:
    """Knobs of type float have a float default, so that half an hour or 2.5 MB/s are accepted."""
    defaults = getattr(Settings(), section)
    wrong = {knob.name for knob in fields(defaults) if knob.type is float and not isinstance(knob.default, float)}
    assert wrong == set()
