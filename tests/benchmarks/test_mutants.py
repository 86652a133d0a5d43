"""Mutation testing: which faults are made and drawn, which tests find them, and which reasons are outdated."""

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from benchmarks.mutants.__main__ import select
from benchmarks.mutants.choose_tests import CODE as ROOMS
from benchmarks.mutants.choose_tests import Measured, choose_tests
from benchmarks.mutants.equivalent import Equivalent, outdated, read_list, reason_for
from benchmarks.mutants.forked import run
from benchmarks.mutants.imports import files_imported
from benchmarks.mutants.ledger import KILLED, SURVIVED, Ledger
from benchmarks.mutants.operators import Source, edits
from benchmarks.mutants.runner import Request
from benchmarks.mutants.sites import GROUPS, Mutant, draw, is_another_program, modules_of, mutants_of
from benchmarks.mutants.sql import sql_edits
from benchmarks.mutants.trial import Trial
from benchmarks.mutants.warm import SparkRunner
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
    every, drawn = select(HOME, list(GROUPS), 340, 1, ["execution/cancel.py"])
    assert drawn
    assert {mutant.module for mutant in every} == {"execution/cancel.py"}
    with pytest.raises(SystemExit, match=r"no module execution/cancle\.py in these groups"):
        select(HOME, list(GROUPS), 340, 1, ["execution/cancle.py"])


def test_tests_that_run_a_line_come_first_and_fastest(checkout: Path) -> None:
    """Then tests that run other lines of the module, then the rest of the file. Tests of other files are left out."""
    mutants = mutants_of(checkout, MODULE, "sources")
    lines_run = {"t::slow": {MODULE: {8}}, "t::fast": {MODULE: {8, 15}}, "t::other": {MODULE: {15}}, "t::none": {}}
    seconds = {"t::slow": 2.0, "t::fast": 1.0, "t::other": 0.1, "t::none": 0.2}
    sets = {test: {module: frozenset(lines) for module, lines in of.items()} for test, of in lines_run.items()}
    near = Measured("t", seconds, sets, frozenset({"sources.a"}))
    far = Measured("u", {"u::test": 0.1}, {"u::test": {}}, frozenset({"sources.a"}))
    of_body = choose_tests(with_line(mutants, "return least <= number <= LIMIT"), [far, near])
    assert list(of_body.tests) == ["t::fast", "t::slow", "t::other", "t::none"]
    assert of_body.files == ["t"]
    top = choose_tests(with_line(mutants, "LIMIT = 4"), [far, near])
    assert list(top.tests) == ["t::other", "t::fast", "t::slow", "u::test", "t::none"]


TEST = """from sources.a import is_small


def test_small():
    assert is_small({number})


def test_other():
    assert True
"""


@pytest.mark.parametrize(("number", "failures"), [(0, []), (2, ["tests/test_a.py::test_small"])])
def test_a_test_that_notices_the_mutant_fails(
    checkout: Path, tmp_path_factory: pytest.TempPathFactory, number: int, failures: list[str]
) -> None:
    """The mutant replaces its module in a process of its own; the checkout does not change."""
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


def test_a_test_that_never_ends_is_killed(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Each test has its own time limit, independent of the other tests."""
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


def test_one_spark_process_runs_every_mutant(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Each request has its own mutant or none. A request that hangs has no outcome, and the next one works."""
    (checkout / "tests").mkdir()
    (checkout / "sources/__init__.py").touch()
    (checkout / "tests/test_a.py").write_text(TEST.format(number=2), encoding="utf-8")
    hangs = "LIMIT * __import__('time').sleep(99)"

    def failures(fault: str) -> list[str] | None:
        content = CODE.replace("number < LIMIT", f"number < {fault}")
        outcome, _ = tests.run(Request(["tests/test_a.py"], False, {}, MODULE, content), 1.0)
        return None if outcome is None else outcome.failures

    with (
        pytest.MonkeyPatch.context() as patch,
        SparkRunner(checkout, tmp_path_factory.mktemp("scratch")) as tests,
    ):
        patch.setenv("PYTHONPATH", str(HOME))
        assert [failures(fault) for fault in ("LIMIT - 1", "LIMIT")] == [["tests/test_a.py::test_small"], []]
        with pytest.MonkeyPatch.context() as short:
            short.setattr("benchmarks.mutants.warm.START_SECONDS", 0)
            assert failures(hangs) is None
        assert failures("LIMIT") == []


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


def test_tests_that_cannot_run_end_the_trial(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Otherwise they would find no fault, and every mutant would seem to survive."""
    with pytest.raises(SystemExit, match=r"pytest can.t run tests/sources/test_a.py \(exit code [34]\)"):
        states_of_a_trial(checkout, tmp_path_factory.mktemp("scratch"), "def pytest_no_such_hook():\n    pass\n")


def test_our_tests_run_without_xdist() -> None:
    """The trial disables xdist, so a hook that only xdist knows would be an error."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", "-p", "no:cacheprovider", "--collect-only"]
    done = subprocess.run([*command, "tests/schedule/test_estimate.py"], cwd=HOME, capture_output=True, check=False)
    assert done.returncode == 0, done.stdout


def test_results_are_valid_until_module_or_tests_change(checkout: Path) -> None:
    """A killed mutant is tried again if its module or its killer changes; a survivor if any test changes."""
    (checkout / "tests").mkdir()
    for name in ("test_a.py", "test_b.py"):
        (checkout / "tests" / name).write_text(name, encoding="utf-8")
    first, second = mutants_of(checkout, MODULE, "sources")[:2]
    path = checkout / "results.jsonl"
    ledger = Ledger(path, checkout)
    ledger.put(first, KILLED, "tests/test_a.py::test_x", tests=3, cpu_seconds=0.5, needs_spark=False)
    ledger.put(second, SURVIVED, "", tests=3, cpu_seconds=0.5, needs_spark=False)
    assert [Ledger(path, checkout).get(m) is not None for m in (first, second)] == [True, True]
    (checkout / "tests/test_b.py").write_text("more", encoding="utf-8")
    assert [Ledger(path, checkout).get(m) is not None for m in (first, second)] == [True, False]
    (checkout / "tests/test_a.py").write_text("more", encoding="utf-8")
    assert Ledger(path, checkout).get(first) is None
    assert len(path.read_text(encoding="utf-8").splitlines()) == len([json.dumps(x) for x in (first.name, second.name)])


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


def test_imports_are_followed(checkout: Path) -> None:
    """Modules, packages and relative imports are found, also through other modules."""
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
