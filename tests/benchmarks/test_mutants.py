"""Mutation testing: which faults are made and drawn, which tests find them, and which reasons are outdated."""

import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from benchmarks.mutants.__main__ import Equivalent, outdated, read_list, reason_for, select
from benchmarks.mutants.choose_tests import CODE as ROOMS
from benchmarks.mutants.ledger import KILLED, SURVIVED, Ledger
from benchmarks.mutants.operators import Source, edits
from benchmarks.mutants.sites import GROUPS, Mutant, draw, is_another_program, modules_of, mutants_of, sql_edits
from benchmarks.mutants.trial import Trial
from setup.paths import HOME

pytestmark = pytest.mark.all_only

MODULE = "sources/a.py"
CODE = """\"\"\"Text.\"\"\"

LIMIT = 3


def is_small(number: int, least: int = 0) -> bool:
    \"\"\"Text.\"\"\"
    return least <= number < LIMIT


class Box:
    def fill(self, items: list[int]) -> None:
        for item in items:
            if is_small(item):
                continue
            self.add(item, 1)
"""


def faulty_lines(text: str) -> list[str]:
    """The line of code with each of its faults."""
    source = Source(text.encode())
    return sorted(edit.applied(source.content).decode() for edit in edits(source))


@pytest.mark.parametrize(
    ("text", "faults"),
    [
        ("x = a < b", ["x = a <= b", "x = a >= b"]),
        ("x = (a + 1) == b", ["x = (a + 0) == b", "x = (a + 1) != b", "x = (a + 2) == b", "x = (a - 1) == b"]),
        ("x = a not in b", ["x = a in b"]),
        ("x = a and not b", ["x = a and  b", "x = a or not b"]),
        ("x = min(a, b)", ["x = max(a, b)"]),
        ("x = f(a, b, c)", ["x = f(b, a, c)"]),
        ("x = y[a:b]", ["x = y[(a) + 1:b]", "x = y[a:(b) - 1]"]),
        ("x = [y for y in z if y]", ["x = [y for y in z if True]", "x = [y for y in z if not (y)]"]),
        ("x = True", ["x = False"]),
        ("x = 'word'", ["x = 'word_'"]),
        ("x = 'a sentence for people'", []),
        ("x: int | None = y", []),
        ("x[0] = y", ["pass", "x[1] = y"]),
        ("f(x)", ["pass"]),
        ("'Text.'", []),
        ("...", []),
    ],
)
def test_faults_of_one_line(text: str, faults: list[str]) -> None:
    """Operators, constants, conditions, arguments, bounds and statements change; types and sentences don't."""
    assert faulty_lines(text) == sorted(faults)


@pytest.mark.parametrize(
    ("text", "faults"),
    [
        ("a <= 1", ["a < 1", "a <= 2"]),
        ("a IS NULL OR NOT b", ["a IS NOT NULL OR NOT b", "a IS NULL AND NOT b", "a IS NULL OR  b"]),
        ("a BETWEEN 0 AND {INT32_MAX} AND b", ["a BETWEEN 0 AND {INT32_MAX} OR b"]),
        ("a NOT IN ('.', '..')", ["a  IN ('.', '..')", "a NOT IN ('._', '..')", "a NOT IN ('.', '.._')"]),
        ("concat(a, ' has no rack')", []),
    ],
)
def test_faults_of_sql(text: str, faults: list[str]) -> None:
    """Conditions in string literals change, f-strings' fields and messages don't."""
    source = Source(f'x = f"{text}"'.encode())
    assert sorted(e.applied(source.content).decode()[6:-1] for e in sql_edits(source)) == sorted(faults)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout of one module."""
    (tmp_path / "sources").mkdir()
    (tmp_path / MODULE).write_text(CODE, encoding="utf-8")
    return tmp_path


def with_line(mutants: Sequence[Mutant], becomes: str) -> Mutant:
    """The mutant that changes its line to ``becomes``."""
    (mutant,) = [mutant for mutant in mutants if mutant.becomes == becomes]
    return mutant


def test_a_mutant_knows_its_place(checkout: Path) -> None:
    """It has its function, its line, and whether this runs at import. Its name does not depend on the code above it."""
    mutants = mutants_of(checkout, MODULE, "sources")
    top = with_line(mutants, "LIMIT = 4")
    assert (top.function, top.first, top.last, top.at_import) == ("", 3, 3, True)
    default = with_line(mutants, "def is_small(number: int, least: int = 1) -> bool:")
    assert (default.function, default.at_import) == ("is_small", True)
    in_body = with_line(mutants, "return least <= number <= LIMIT")
    assert (in_body.function, in_body.first, in_body.at_import) == ("is_small", 8, False)
    assert with_line(mutants, "self.add(item, 2)").function == "Box.fill"
    (checkout / MODULE).write_text(CODE.replace("LIMIT = 3", "LIMIT = 3\nMORE = 7"), encoding="utf-8")
    moved = with_line(mutants_of(checkout, MODULE, "sources"), "return least <= number <= LIMIT")
    assert (moved.name, moved.first) == (in_body.name, 9)


def test_the_draw_depends_on_the_seed_alone(checkout: Path) -> None:
    """Equal seeds give equal mutants, all valid programs. A smaller draw is part of a larger draw."""
    mutants = mutants_of(checkout, MODULE, "sources")
    first = draw(checkout, mutants, 6, 1)
    assert first == draw(checkout, mutants[::-1], 6, 1) != draw(checkout, mutants, 6, 2)
    assert all(is_another_program(checkout, mutant) for mutant in first)
    assert {m.name for m in draw(checkout, mutants, 3, 1)} < {m.name for m in first}


def test_every_group_has_modules_and_mutants() -> None:
    """The pattern of each group matches files."""
    for group in GROUPS:
        assert modules_of(HOME, group)


def test_every_module_is_in_one_group() -> None:
    """No room and no module is missing in the groups."""
    grouped = sorted(m for group in GROUPS for m in modules_of(HOME, group))
    assert grouped == sorted(str(path.relative_to(HOME)) for name in ROOMS for path in (HOME / name).rglob("*.py"))


def test_faults_are_only_in_the_modules_of_the_option() -> None:
    """--modules leaves out all other modules. A module that is in no group is an error."""
    every, drawn = select(HOME, list(GROUPS), 340, 1, ["execution/moves.py"])
    assert drawn
    assert {mutant.module for mutant in every} == {"execution/moves.py"}
    with pytest.raises(SystemExit, match=r"no module execution/cancle\.py in these groups"):
        select(HOME, list(GROUPS), 340, 1, ["execution/cancle.py"])


TEST = """from sources.a import is_small


def test_small():
    assert is_small({number})


def test_other():
    assert True
"""


def states_of_a_trial(checkout: Path, scratch: Path, conftest: str) -> dict[str, str]:
    """States of two mutants after a trial with one file of tests."""
    (checkout / "tests/sources").mkdir(parents=True)
    (checkout / "sources/__init__.py").touch()
    (checkout / "conftest.py").write_text(conftest, encoding="utf-8")
    (checkout / "tests/sources/test_a.py").write_text(TEST.format(number=2), encoding="utf-8")
    for helper in ("runner.py", "lines.py"):
        (checkout / "benchmarks/mutants").mkdir(parents=True, exist_ok=True)
        (checkout / "benchmarks/mutants" / helper).touch()
    lines = ("LIMIT = 2", "LIMIT = 4")
    mutants = [with_line(mutants_of(checkout, MODULE, "sources"), line) for line in lines]
    ledger = Ledger(checkout / "results.jsonl", checkout)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(checkout)
        patch.syspath_prepend(str(checkout))
        for name in [name for name in sys.modules if name.partition(".")[0] == "sources"]:
            patch.delitem(sys.modules, name)
        Trial(checkout, checkout / "state", scratch, mutants, ledger, time.monotonic() + 600).without_spark()
    entries = {mutant.becomes: ledger.get(mutant) for mutant in mutants}
    return {line: entry.state for line, entry in entries.items() if entry}


def test_a_trial_reports_killed_mutants_and_survivors(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """A mutant is killed if a test fails, and survives otherwise."""
    states = states_of_a_trial(checkout, tmp_path_factory.mktemp("scratch"), "")
    assert states == {"LIMIT = 2": KILLED, "LIMIT = 4": SURVIVED}


def test_outdated_reasons_are_reported(checkout: Path) -> None:
    """A reason is outdated if its mutant no longer exists or a test kills it. A good reason excuses its mutant."""
    mutants = mutants_of(checkout, MODULE, "sources")
    good = Equivalent(MODULE, "", "LIMIT = 3", "LIMIT = 4", "why")
    gone = Equivalent(MODULE, "", "LIMIT = 5", "LIMIT = 6", "why")
    mutant = with_line(mutants, "LIMIT = 4")
    assert reason_for(mutant, [gone, good]) == "why"
    assert reason_for(with_line(mutants, "LIMIT = 2"), [gone, good]) == ""
    assert outdated([good], mutants, set()) == []
    assert "there is no such mutant" in outdated([gone], mutants, set())[0]
    assert "a test kills this mutant" in outdated([good], mutants, {mutant.name})[0]


def test_every_committed_reason_matches_a_mutant() -> None:
    """No entry of the list is about code that has changed since."""
    mutants = [m for g in GROUPS for module in modules_of(HOME, g) for m in mutants_of(HOME, module, g)]
    assert outdated(read_list(), mutants, set()) == []
