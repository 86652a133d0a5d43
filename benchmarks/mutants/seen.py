"""Which tests run which lines: measured once for each file of tests, kept until it or the code changes."""

import hashlib
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.mutants.daemon import dotted
from benchmarks.mutants.imports import files_imported
from benchmarks.mutants.inside import Outcome, Request
from benchmarks.mutants.sites import Mutant

CODE = ("optimizer", "sources", "execution")
# Tests of the tests' own tools, of the set-up and of pages see no line of what is mutated, or by other processes alone.
_LEFT_OUT = ("setup", "docs", "kafka", "airflow", "pipeline", "fixtures")
# The few tests with Spark that are of what is mutated; the others plan whole clusters.
_WITH_SPARK = (
    *("tests/stages/test_ingest.py", "tests/stages/test_validate.py", "tests/stages/test_cross_checks.py"),
    *("tests/stages/test_emit.py", "tests/sources/test_kafka_live.py"),
    "tests/kafka_rules/test_baseline_frame.py",
)
_WATCHED_BY = ("benchmarks/mutants/inside.py", "benchmarks/mutants/lines.py")
# Longer tests are of speed or of many plans: they would take most of the time and tell little of one line.
_LONGEST_SECONDS = 15.0
# What is not near a mutant is run for no longer than this.
_FAR_SECONDS = 30.0

Runner = Callable[[Request], Outcome]


@dataclass(frozen=True)
class Choice:
    """Tests for one mutant, in order, each with the seconds that it took when it was measured."""

    tests: dict[str, float]

    @property
    def seconds(self) -> float:
        """Of all of them."""
        return sum(self.tests.values())

    @property
    def files(self) -> list[str]:
        """The files of the tests."""
        return sorted({test.partition("::")[0] for test in self.tests})


@dataclass(frozen=True)
class Measured:
    """What one file of tests does."""

    file: str
    seconds: dict[str, float]
    seen: dict[str, dict[str, frozenset[int]]]
    modules: frozenset[str]

    def choice(self, mutant: Mutant) -> list[tuple[int, float, str]]:
        """Tests that can see a mutant: how near they are to it, seconds, node id.

        Nearest are those that run one of its lines. What else the file has comes later: files share what they have set
        up. A line that is run at import is seen by all that import it, first by those that run more of the module.
        """
        lines = frozenset(range(mutant.first, mutant.last + 1))
        runs_line = {test for test, of in self.seen.items() if lines & of.get(mutant.module, frozenset())}
        runs_module = {test for test, of in self.seen.items() if of.get(mutant.module)}
        if mutant.at_import:
            concerned = dotted(mutant.module) in self.modules
            nearest, near = runs_module - {""}, set(self.seen)
        else:
            concerned = bool(runs_line)
            nearest, near = runs_line, runs_module
        if not concerned:
            return []
        return [(0 if t in nearest else 1 if t in near else 2, s, t) for t, s in self.seconds.items()]


def files_of_tests(root: Path, modules: Iterable[str], *, needs_spark: bool) -> list[str]:
    """Files of tests that import one of these modules; with Spark, few."""
    wanted = set(modules)
    found = sorted(path.relative_to(root) for path in root.glob("tests/*/test_*.py"))
    usable = [str(path) for path in found if path.parts[1] not in _LEFT_OUT]
    asked = [file for file in usable if file in _WITH_SPARK or not needs_spark]
    return [file for file in asked if wanted & files_imported(root, file)]


def measure(root: Path, file: str, cache: Path, runner: Runner, *, needs_spark: bool) -> Measured:
    """Run a file of tests with every line watched, unless that has been done; failures are of no use and left out."""
    key = digest(root, [*code_files(root), *_helpers(root), file, *_WATCHED_BY]) + ("-spark" if needs_spark else "")
    kept = cache / f"{file.replace('/', '.')}-{key}.json"
    if not kept.exists():
        outcome = runner(Request([file], needs_spark, watched=list(CODE)))
        cache.mkdir(parents=True, exist_ok=True)
        kept.write_text(json.dumps(outcome.as_json()), encoding="utf-8")
    told: dict[str, Any] = json.loads(kept.read_text(encoding="utf-8"))
    calls = told["calls"]
    usable = {t for t, seconds in calls.items() if t not in told["failures"] and seconds < _LONGEST_SECONDS}
    passed = {t: seconds for t, seconds in told["seconds"].items() if t in usable}
    seen = {t: {m: frozenset(n) for m, n in of.items()} for t, of in told["seen"].items()}
    return Measured(file, passed, seen, frozenset(told["modules"]))


def choose(mutant: Mutant, measured: Iterable[Measured]) -> Choice:
    """The tests that can see a mutant, nearest and fastest first."""
    tests, far = {}, 0.0
    for distance, seconds, test in sorted(row for of in measured for row in of.choice(mutant)):
        far += seconds * (distance > 0)
        if far <= _FAR_SECONDS:
            tests[test] = seconds
    return Choice(tests)


def code_files(root: Path) -> list[str]:
    """Files of the code that tests run."""
    folders = (*CODE, "schemas")
    return sorted(str(path.relative_to(root)) for name in folders for path in root.glob(f"{name}/**/*.py"))


def _helpers(root: Path) -> list[str]:
    found = (path.relative_to(root) for path in root.glob("tests/**/*.py") if not path.name.startswith("test_"))
    return sorted(str(path) for path in found)


def digest(root: Path, files: Iterable[str]) -> str:
    """Of the content of files."""
    total = hashlib.sha256()
    for file in files:
        total.update(file.encode() + b"\0" + hashlib.sha256((root / file).read_bytes()).digest())
    return total.hexdigest()[:12]
