"""Each number of the configuration tells its range, and is held to just that."""

import re
from dataclasses import fields

import pytest

from docs.generate import Knob, knobs
from optimizer.configuration import build
from optimizer.errors import ConfigError
from optimizer.settings import Settings
from setup.paths import HOME

ANY = ("seed",)  # any whole number will do
RANGE = re.compile(r"(?P<least>[\d.^-]+) to (?P<most>[\d.^-]+)")


def number(word: str) -> float:
    """A number as comments write it: 10^6 is a power."""
    base, _, power = word.partition("^")
    return float(base) ** int(power or 1)


def numeric() -> list[Knob]:
    """Knobs whose value is a number."""
    text = (HOME / "conf" / "default.toml").read_text(encoding="utf-8")
    return [one for one in knobs(text) if re.fullmatch(r"[\d.]+", one.value) and one.name not in ANY]


def is_taken(knob: Knob, value: float) -> bool:
    """Whether a value is accepted."""
    try:
        build({knob.section: {knob.name: int(value) if value.is_integer() else value}})
    except ConfigError:
        return False
    return True


@pytest.mark.parametrize("knob", numeric(), ids=lambda knob: f"{knob.section}.{knob.name}")
def test_a_number_is_held_to_the_range_that_its_comment_tells(knob: Knob) -> None:
    """Both ends are taken, and what lies past them is refused; between a range and a 0 that is apart from it, too."""
    told = RANGE.search(knob.comment)
    assert told, knob.comment
    least, most = number(told["least"]), number(told["most"])
    assert is_taken(knob, least)
    assert is_taken(knob, most)
    assert not is_taken(knob, least - (0.5 if knob.comment.startswith("0, or ") else 1))
    assert not is_taken(knob, most + 1)


@pytest.mark.parametrize("section", sorted({knob.section for knob in numeric()}))
def test_what_need_not_be_whole_takes_fractions(section: str) -> None:
    """Half an hour is a window, and 2.5 MB/s a throttle: the type of a default is that of its knob."""
    defaults = getattr(Settings(), section)
    wrong = {one.name for one in fields(defaults) if one.type is float and not isinstance(one.default, float)}
    assert wrong == set()
