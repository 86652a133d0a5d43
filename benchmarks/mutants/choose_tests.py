"""Chooses the tests of a mutant by the lines that they run.

The lines of a test file are stored until the file or the code changes.
"""

import ast
import hashlib
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks.mutants.daemon import import_name
from benchmarks.mutants.runner import Outcome, Request
from benchmarks.mutants.sites import Mutant


def files_imported(root: Path, file: str) -> set[str]:
    """The file itself and all files of the checkout that it imports."""
    files: set[str] = set()
    waiting = [file]
    while waiting:
        current = waiting.pop()
        if current not in files:
            files.add(current)
            waiting += _imported_by(root, current)
    return files


@cache
def _imported_by(root: Path, file: str) -> list[str]:
    return sorted({path for name in _names(root, file) for path in _files_of(root, name)})


def _names(root: Path, file: str) -> Iterator[str]:
    for node in ast.walk(ast.parse((root / file).read_bytes())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            package = import_name(file).split(".")[: -node.level] if node.level else []
            base = ".".join([*package, *([node.module] if node.module else [])])
            yield from (base, *(f"{base}.{alias.name}" for alias in node.names))


def _files_of(root: Path, name: str) -> Iterator[str]:
    """The module and its parent packages."""
    parts = name.split(".")
    for count in range(1, len(parts) + 1):
        path = "/".join(parts[:count])
        yield from (file for file in (f"{path}.py", f"{path}/__init__.py") if (root / file).is_file())


CODE = ("optimizer", "sources", "execution", "asking", "stored")
# Folders of tests that run no mutated line, or only in other processes.
_LEFT_OUT = ("setup", "docs", "kafka", "airflow", "pipeline", "fixtures")
# Test files with Spark that test single functions; the other files plan whole clusters.
_WITH_SPARK = (
    *("tests/stages/test_ingest.py", "tests/stages/test_validate.py", "tests/stages/test_cross_checks.py"),
    *("tests/stages/test_emit.py", "tests/sources/test_kafka_live.py"),
    "tests/kafka_rules/test_baseline_frame.py",
)
_MEASURED_BY = ("benchmarks/mutants/runner.py", "benchmarks/mutants/runner.py")
# Longer tests measure speed or make many plans: they take most of the time and seldom notice one changed line.
_LONGEST_SECONDS = 15.0
# Total time of the tests that do not run the mutant's line.
_FAR_SECONDS = 30.0

Runner = Callable[[Request], Outcome]


@dataclass(frozen=True)
class ChosenTests:
    """The tests for one mutant, in order, each with its measured seconds."""

    tests: dict[str, float]

    @property
    def seconds(self) -> float:
        """Seconds of all tests together."""
        return sum(self.tests.values())

    @property
    def files(self) -> list[str]:
        """The test files, sorted."""
        return sorted({test.partition("::")[0] for test in self.tests})


@dataclass(frozen=True)
class Measured:
    """The measured seconds and lines of one test file, and the modules that it imports."""

    file: str
    seconds: dict[str, float]
    lines_run: dict[str, dict[str, frozenset[int]]]
    modules: frozenset[str]

    def candidates(self, mutant: Mutant) -> list[tuple[int, float, str]]:
        """Tests that may fail with a mutant: distance, seconds, node id.

        Distance 0: the test runs a line of the mutant. 1: it runs other lines of the module. 2: another test of the
        same file, because tests of a file share fixtures. A line that runs at import concerns every file that imports
        the module; then distance 0 means that a test runs any line of the module.
        """
        lines = frozenset(range(mutant.first, mutant.last + 1))
        runs_line = {test for test, of in self.lines_run.items() if lines & of.get(mutant.module, frozenset())}
        runs_module = {test for test, of in self.lines_run.items() if of.get(mutant.module)}
        if mutant.at_import:
            is_concerned = import_name(mutant.module) in self.modules
            nearest, near = runs_module - {""}, set(self.lines_run)
        else:
            is_concerned = bool(runs_line)
            nearest, near = runs_line, runs_module
        if not is_concerned:
            return []
        return [(0 if t in nearest else 1 if t in near else 2, s, t) for t, s in self.seconds.items()]


def files_of_tests(root: Path, modules: Iterable[str], *, needs_spark: bool) -> list[str]:
    """Test files that import one of these modules; with Spark only those of ``_WITH_SPARK``."""
    mutated = set(modules)
    paths = sorted(path.relative_to(root) for path in root.glob("tests/*/test_*.py"))
    usable = [str(path) for path in paths if path.parts[1] not in _LEFT_OUT]
    candidates = [file for file in usable if file in _WITH_SPARK or not needs_spark]
    return [file for file in candidates if mutated & files_imported(root, file)]


def measure(root: Path, file: str, cache: Path, runner: Runner, *, needs_spark: bool) -> Measured:
    """Run a test file and record its lines, unless a stored measurement is valid. Tests that fail are left out."""
    key = digest(root, [*code_files(root), *_helpers(root), file, *_MEASURED_BY]) + ("-spark" if needs_spark else "")
    stored = cache / f"{file.replace('/', '.')}-{key}.json"
    if not stored.exists():
        outcome = runner(Request([file], needs_spark, watched=list(CODE)))
        cache.mkdir(parents=True, exist_ok=True)
        stored.write_text(json.dumps(outcome.as_json()), encoding="utf-8")
    measured: dict[str, Any] = json.loads(stored.read_text(encoding="utf-8"))
    calls = measured["calls"]
    usable = {t for t, seconds in calls.items() if t not in measured["failures"] and seconds < _LONGEST_SECONDS}
    passed = {t: seconds for t, seconds in measured["seconds"].items() if t in usable}
    lines_run = {t: {m: frozenset(n) for m, n in of.items()} for t, of in measured["lines_run"].items()}
    return Measured(file, passed, lines_run, frozenset(measured["modules"]))


def choose_tests(mutant: Mutant, measured: Iterable[Measured]) -> ChosenTests:
    """The tests that may fail with a mutant, nearest and fastest first."""
    tests, far_seconds = {}, 0.0
    for distance, seconds, test in sorted(row for file in measured for row in file.candidates(mutant)):
        far_seconds += seconds * (distance > 0)
        if far_seconds <= _FAR_SECONDS:
            tests[test] = seconds
    return ChosenTests(tests)


def code_files(root: Path) -> list[str]:
    """The files of the code under test."""
    folders = (*CODE, "schemas")
    return sorted(str(path.relative_to(root)) for name in folders for path in root.glob(f"{name}/**/*.py"))


def _helpers(root: Path) -> list[str]:
    paths = (path.relative_to(root) for path in root.glob("tests/**/*.py") if not path.name.startswith("test_"))
    return sorted(str(path) for path in paths)


def digest(root: Path, files: Iterable[str]) -> str:
    """A digest of the names and contents of files."""
    total = hashlib.sha256()
    for file in files:
        total.update(file.encode() + b"\0" + hashlib.sha256((root / file).read_bytes()).digest())
    return total.hexdigest()[:12]
