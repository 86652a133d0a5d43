"""Codes and causes of findings: a test of the planner names each, so that no finding is reported untested."""

import re

import pytest

from optimizer.domain import Cause, FindingCode
from setup.paths import HOME

FOLDERS = ("pipeline", "planning", "solve", "stages")  # of tests in which findings are made, not only read
TESTS = [path for folder in FOLDERS for path in (HOME / "tests" / folder).rglob("*.py")]
SOURCE = "\n".join(path.read_text(encoding="utf-8") for path in TESTS)


def is_named(member: Cause | FindingCode, source: str) -> bool:
    """Whether a test names a member, whole and as one: its value alone may be a column, or the name of a case."""
    return re.search(rf"\b{type(member).__name__}\.{member.name}\b", source) is not None


@pytest.mark.parametrize(
    ("source", "named"),
    [
        ("cause == Cause.NOT_FREE", True),
        ('cause == "not_free"', False),
        ("cause == FindingCode.NOT_FREE", False),
        ("cause == Cause.NOT_FREED", False),
    ],
)
def test_a_name_is_whole(source: str, named: bool) -> None:
    """A longer name, a member of the other enumeration or a value is another one: this test can fail."""
    assert is_named(Cause.NOT_FREE, source) is named


@pytest.mark.parametrize("member", [*FindingCode, *Cause], ids=repr)
def test_every_code_and_cause_is_named(member: Cause | FindingCode) -> None:
    """A new member needs a test in which the planner reports it."""
    assert is_named(member, SOURCE)
