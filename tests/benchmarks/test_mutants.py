"""Mutation: which faults are made, which are drawn, which tests see them, and which reasons are stale."""

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from benchmarks.mutants.__main__ import draw
from benchmarks.mutants.equivalent import Equivalent, read_list, reason_for, stale
from benchmarks.mutants.forked import run
from benchmarks.mutants.imports import files_imported
from benchmarks.mutants.inside import Request
from benchmarks.mutants.ledger import KILLED, SURVIVED, Ledger
from benchmarks.mutants.operators import Source, edits
from benchmarks.mutants.seen import CODE as ROOMS
from benchmarks.mutants.seen import Measured, choose
from benchmarks.mutants.sites import GROUPS, Mutant, chosen, is_another_program, modules_of, mutants_of
from benchmarks.mutants.sql import sql_edits
from benchmarks.mutants.trial import Trial
from benchmarks.mutants.warm import Warm
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


def made(text: str) -> list[str]:
    """What each fault makes of one line of code."""
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
    assert made(text) == sorted(faults)


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


def named(mutants: Sequence[Mutant], becomes: str) -> Mutant:
    """The mutant whose line becomes this."""
    (found,) = [mutant for mutant in mutants if mutant.becomes == becomes]
    return found


def test_a_mutant_knows_its_place(checkout: Path) -> None:
    """Function, line and whether it is run at import are told; nothing in it depends on what stands above."""
    mutants = mutants_of(checkout, MODULE, "sources")
    top = named(mutants, "LIMIT = 4")
    assert (top.function, top.first, top.last, top.at_import) == ("", 3, 3, True)
    default = named(mutants, "def is_small(number: int, least: int = 1) -> bool:")
    assert (default.function, default.at_import) == ("is_small", True)
    inside = named(mutants, "return least <= number <= LIMIT")
    assert (inside.function, inside.first, inside.at_import) == ("is_small", 8, False)
    assert named(mutants, "self.add(item, 2)").function == "Box.fill"
    (checkout / MODULE).write_text(CODE.replace("LIMIT = 3", "LIMIT = 3\nMORE = 7"), encoding="utf-8")
    moved = named(mutants_of(checkout, MODULE, "sources"), "return least <= number <= LIMIT")
    assert (moved.name, moved.first) == (inside.name, 9)


def test_the_draw_depends_on_the_seed_alone(checkout: Path) -> None:
    """Equal seeds give equal mutants, each another program; another function changes none of those drawn before."""
    mutants = mutants_of(checkout, MODULE, "sources")
    first = chosen(checkout, mutants, 6, 1)
    assert first == chosen(checkout, mutants[::-1], 6, 1) != chosen(checkout, mutants, 6, 2)
    assert all(is_another_program(checkout, mutant) for mutant in first)
    assert {m.name for m in chosen(checkout, mutants, 3, 1)} < {m.name for m in first}


def test_every_group_has_modules_and_mutants() -> None:
    """No pattern of a group has gone stale."""
    for group in GROUPS:
        assert modules_of(HOME, group)


def test_every_module_is_in_one_group() -> None:
    """New rooms and modules are seen without a change of the groups."""
    grouped = sorted(m for group in GROUPS for m in modules_of(HOME, group))
    assert grouped == sorted(str(path.relative_to(HOME)) for name in ROOMS for path in (HOME / name).rglob("*.py"))


def test_faults_are_of_the_modules_that_are_named() -> None:
    """--modules leaves out all others of the groups, and one that no group has is wrong use."""
    every, picked = draw(HOME, list(GROUPS), 340, 1, ["execution/cancel.py"])
    assert picked
    assert {mutant.module for mutant in every} == {"execution/cancel.py"}
    with pytest.raises(SystemExit, match=r"no module execution/cancle\.py in these groups"):
        draw(HOME, list(GROUPS), 340, 1, ["execution/cancle.py"])


def test_tests_that_run_a_line_come_first_and_fastest(checkout: Path) -> None:
    """Then come those that run more of the module, then the rest of such a file; other files see nothing."""
    mutants = mutants_of(checkout, MODULE, "sources")
    seen = {"t::slow": {MODULE: {8}}, "t::fast": {MODULE: {8, 15}}, "t::other": {MODULE: {15}}, "t::none": {}}
    seconds = {"t::slow": 2.0, "t::fast": 1.0, "t::other": 0.1, "t::none": 0.2}
    sets = {test: {module: frozenset(lines) for module, lines in of.items()} for test, of in seen.items()}
    near = Measured("t", seconds, sets, frozenset({"sources.a"}))
    far = Measured("u", {"u::test": 0.1}, {"u::test": {}}, frozenset({"sources.a"}))
    inside = choose(named(mutants, "return least <= number <= LIMIT"), [far, near])
    assert list(inside.tests) == ["t::fast", "t::slow", "t::other", "t::none"]
    assert inside.files == ["t"]
    top = choose(named(mutants, "LIMIT = 4"), [far, near])
    assert list(top.tests) == ["t::other", "t::fast", "t::slow", "u::test", "t::none"]


TEST = """from sources.a import is_small


def test_small():
    assert is_small({number})


def test_other():
    assert True
"""


@pytest.mark.parametrize(("number", "failures"), [(0, []), (2, ["tests/test_a.py::test_small"])])
def test_a_test_fails_where_it_sees_the_mutant(
    checkout: Path, tmp_path_factory: pytest.TempPathFactory, number: int, failures: list[str]
) -> None:
    """The mutant stands in for its module in a process of its own; nothing is written into the checkout."""
    (checkout / "tests").mkdir()
    (checkout / "tests/test_a.py").write_text(TEST.format(number=number), encoding="utf-8")
    content = CODE.replace("number < LIMIT", "number < LIMIT - 1")
    request = Request(["tests/test_a.py"], False, {"tests/test_a.py::test_small": 60.0}, MODULE, content)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(checkout)
        patch.syspath_prepend(str(checkout))
        outcome, used = run(checkout, request, tmp_path_factory.mktemp("scratch"), cpu_seconds=60)
    assert outcome is not None
    assert outcome.failures == failures
    assert list(outcome.seconds) == ["tests/test_a.py::test_small"]
    assert used > 0
    assert (checkout / MODULE).read_text(encoding="utf-8") == CODE


def test_a_test_that_never_ends_is_ended(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Each test may use the seconds that it is allowed, whatever the others are."""
    (checkout / "tests").mkdir()
    (checkout / "tests/test_a.py").write_text(TEST.format(number=2), encoding="utf-8")
    content = CODE.replace("return least", "while True:\n        pass\n    return least")
    tests = {"tests/test_a.py::test_small": 1.0, "tests/test_a.py::test_other": 60.0}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(checkout)
        patch.syspath_prepend(str(checkout))
        scratch = tmp_path_factory.mktemp("scratch")
        outcome, used = run(
            checkout, Request(["tests/test_a.py"], False, tests, MODULE, content), scratch, cpu_seconds=60
        )
    assert outcome is None
    assert used < 30


def test_a_process_that_goes_on_sees_each_mutant(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Requests are answered one after the other, each with its own mutant or none, and one that hangs with nothing."""
    (checkout / "tests").mkdir()
    (checkout / "sources/__init__.py").touch()
    (checkout / "tests/test_a.py").write_text(TEST.format(number=2), encoding="utf-8")
    hangs = "LIMIT * __import__('time').sleep(99)"

    def failures(fault: str) -> list[str] | None:
        content = CODE.replace("number < LIMIT", f"number < {fault}")
        answer, _ = warm.run(Request(["tests/test_a.py"], False, {}, MODULE, content), 1.0)
        return None if answer is None else answer.failures

    with pytest.MonkeyPatch.context() as patch, Warm(checkout, tmp_path_factory.mktemp("scratch")) as warm:
        patch.setenv("PYTHONPATH", str(HOME))
        assert [failures(fault) for fault in ("LIMIT - 1", "LIMIT")] == [["tests/test_a.py::test_small"], []]
        with pytest.MonkeyPatch.context() as soon:
            soon.setattr("benchmarks.mutants.warm.START_SECONDS", 0)
            assert failures(hangs) is None
        assert failures("LIMIT") == []


def tried(checkout: Path, scratch: Path, conftest: str) -> dict[str, str]:
    """States of two mutants after a trial with one file of tests."""
    (checkout / "tests/sources").mkdir(parents=True)
    (checkout / "sources/__init__.py").touch()
    (checkout / "conftest.py").write_text(conftest, encoding="utf-8")
    (checkout / "tests/sources/test_a.py").write_text(TEST.format(number=2), encoding="utf-8")
    for helper in ("inside.py", "lines.py"):
        (checkout / "benchmarks/mutants").mkdir(parents=True, exist_ok=True)
        (checkout / "benchmarks/mutants" / helper).touch()
    lines = ("LIMIT = 2", "LIMIT = 4")
    mutants = [named(mutants_of(checkout, MODULE, "sources"), line) for line in lines]
    ledger = Ledger(checkout / "answers.jsonl", checkout)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(checkout)
        patch.syspath_prepend(str(checkout))
        for name in [name for name in sys.modules if name.partition(".")[0] == "sources"]:
            patch.delitem(sys.modules, name)
        Trial(checkout, checkout / "state", scratch, mutants, ledger, time.monotonic() + 600).without_spark()
    found = {mutant.becomes: ledger.get(mutant) for mutant in mutants}
    return {line: entry.state for line, entry in found.items() if entry}


def test_a_trial_tells_who_is_killed(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """The test that fails kills, and what no test tells apart survives."""
    states = tried(checkout, tmp_path_factory.mktemp("scratch"), "")
    assert states == {"LIMIT = 2": KILLED, "LIMIT = 4": SURVIVED}


def test_tests_that_cannot_run_end_the_trial(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """They would see no fault, and every mutant would be told as one that no test sees."""
    with pytest.raises(SystemExit, match=r"pytest can.t run tests/sources/test_a.py \(exit code [34]\)"):
        tried(checkout, tmp_path_factory.mktemp("scratch"), "def pytest_no_such_hook():\n    pass\n")


def test_our_tests_run_without_xdist() -> None:
    """As this command runs them: a hook of xdist's alone would end them."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", "-p", "no:cacheprovider", "--collect-only"]
    done = subprocess.run([*command, "tests/schedule/test_estimate.py"], cwd=HOME, capture_output=True, check=False)
    assert done.returncode == 0, done.stdout


def test_answers_hold_until_module_or_tests_change(checkout: Path) -> None:
    """A killed mutant is tried again when its module or its killer changes, one that survived when any test does."""
    (checkout / "tests").mkdir()
    for name in ("test_a.py", "test_b.py"):
        (checkout / "tests" / name).write_text(name, encoding="utf-8")
    first, second = mutants_of(checkout, MODULE, "sources")[:2]
    path = checkout / "answers.jsonl"
    ledger = Ledger(path, checkout)
    ledger.put(first, KILLED, "tests/test_a.py::test_x", tests=3, cpu_seconds=0.5, needs_spark=False)
    ledger.put(second, SURVIVED, "", tests=3, cpu_seconds=0.5, needs_spark=False)
    assert [Ledger(path, checkout).get(m) is not None for m in (first, second)] == [True, True]
    (checkout / "tests/test_b.py").write_text("more", encoding="utf-8")
    assert [Ledger(path, checkout).get(m) is not None for m in (first, second)] == [True, False]
    (checkout / "tests/test_a.py").write_text("more", encoding="utf-8")
    assert Ledger(path, checkout).get(first) is None
    assert len(path.read_text(encoding="utf-8").splitlines()) == len([json.dumps(x) for x in (first.name, second.name)])


def test_stale_reasons_are_told(checkout: Path) -> None:
    """A reason for a mutant that is gone, or that a test tells apart, is named; a good one excuses its mutant."""
    mutants = mutants_of(checkout, MODULE, "sources")
    good = Equivalent(MODULE, "", "LIMIT = 3", "LIMIT = 4", "why")
    gone = Equivalent(MODULE, "", "LIMIT = 5", "LIMIT = 6", "why")
    mutant = named(mutants, "LIMIT = 4")
    assert reason_for(mutant, [gone, good]) == "why"
    assert reason_for(named(mutants, "LIMIT = 2"), [gone, good]) == ""
    assert stale([good], mutants, set()) == []
    assert "no such mutant" in stale([gone], mutants, set())[0]
    assert "a test tells it apart" in stale([good], mutants, {mutant.name})[0]


def test_every_committed_reason_is_of_a_mutant() -> None:
    """No entry of the list is about code that has changed."""
    mutants = [m for g in GROUPS for module in modules_of(HOME, g) for m in mutants_of(HOME, module, g)]
    assert stale(read_list(), mutants, set()) == []


def test_imports_are_followed(checkout: Path) -> None:
    """Modules, packages and relative imports are found, also through others."""
    for name, text in {
        "sources/__init__.py": "",
        "sources/b.py": "from . import a\n",
        "tests/test_b.py": "import sources.b\nimport json\n",
    }.items():
        (checkout / name).parent.mkdir(exist_ok=True)
        (checkout / name).write_text(text, encoding="utf-8")
    assert files_imported(checkout, "tests/test_b.py") == {
        *("tests/test_b.py", "sources/__init__.py", "sources/a.py", "sources/b.py")
    }
