"""Run tests in this process, with a mutant instead of its module."""

import math
import os
import resource
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import hypothesis
import pytest

from benchmarks.mutants.daemon import MutantFinder, write_mutant

# Limits of one test: a function called more often runs no further lines, and takes long to trace.
_MAX_CALLS, _MAX_LINES = 3_000, 100_000


class LineTracer:
    """Records which lines of the modules in some folders run."""

    def __init__(self, root: Path, folders: Sequence[str]) -> None:
        self._root = str(root) + os.sep
        self._folders = tuple(self._root + folder + os.sep for folder in folders)
        self._lines_of: dict[CodeType, frozenset[int]] = {}
        self._lines_run: dict[CodeType, set[int]] = {}
        self._calls: Counter[CodeType] = Counter()

    def start(self) -> None:
        """Record lines from now on."""
        self._lines_run, self._calls = {}, Counter()
        threading.settrace(self._call)
        sys.settrace(self._call)

    def stop(self) -> dict[str, list[int]]:
        """The lines of each module that ran since ``start``."""
        sys.settrace(None)
        threading.settrace(lambda *_: None)
        by_module: dict[str, set[int]] = {}
        for code, lines in self._lines_run.items():
            by_module.setdefault(code.co_filename.removeprefix(self._root), set()).update(lines)
        return {module: sorted(lines) for module, lines in sorted(by_module.items())}

    def _call(self, frame: FrameType, event: str, argument: object) -> Callable[..., Any] | None:
        code = frame.f_code
        lines = self._lines_of.get(code)
        if lines is None:
            is_watched = code.co_filename.startswith(self._folders)
            lines = frozenset(n for *_, n in code.co_lines() if n) if is_watched else frozenset()
            self._lines_of[code] = lines
        if not lines:
            return None
        recorded = self._lines_run.setdefault(code, set())
        self._calls[code] += 1
        if len(recorded) >= len(lines) or self._calls[code] > _MAX_CALLS:
            return None
        remaining = _MAX_LINES

        def line(frame: FrameType, event: str, argument: object) -> Callable[..., Any] | None:
            nonlocal remaining
            recorded.add(frame.f_lineno)
            remaining -= 1
            return line if remaining else None

        return line(frame, event, argument)


_OPTIONS = ("-x", "-q", "--tb=no", "--no-header", "--no-summary")
_DISABLED_PLUGINS = ("-p", "no:cacheprovider", "-p", "no:xdist", "-p", "no:tiers")
_QUIET = ("-W", "ignore::pytest.PytestAssertRewriteWarning")
_NOT_RUN = {"kafka", "cluster"}
# Tests outside the daily tier take long. Those of the benchmarks run nevertheless: many of them are quick.
_LONG, _QUICK_FOLDER = "all_only", "benchmarks"
_SPARK = {"spark", "spark_environment"}


@dataclass(frozen=True)
class Request:
    """Tests to run, and the mutant to run them with.

    Parameters
    ----------
    files : list of str
        Files of tests.
    tests : dict of str to float
        Node ids in these files, in the order of the run, with the seconds that each may take; empty for all tests.
    needs_spark : bool
        Run only tests that use Spark, or only tests that do not.
    module : str
        The file that the mutant replaces; empty for no mutant.
    content : str
        The source of the mutant.
    watched : list of str
        Folders in which to record the lines that run. If there are any, the run continues after a failure.
    """

    files: list[str]
    needs_spark: bool
    tests: dict[str, float] = field(default_factory=dict)
    module: str = ""
    content: str = ""
    watched: list[str] = field(default_factory=list)


@dataclass
class Outcome:
    """The outcome of a request.

    Parameters
    ----------
    code : int
        The exit code of pytest.
    failures : list of str
        Tests that failed, and files that could not be collected. The first ends the run, unless lines are recorded.
    seconds, calls : dict
        CPU seconds of each test (with Spark: seconds on the clock): ``seconds`` with its fixtures, ``calls`` without.
    lines_run : dict
        By test and module; "" instead of a test has the lines of imports and of the collection.
    modules : list of str
        Imported modules of the watched folders.
    """

    code: int = 0
    failures: list[str] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    calls: dict[str, float] = field(default_factory=dict)
    lines_run: dict[str, dict[str, list[int]]] = field(default_factory=dict)
    modules: list[str] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """The fields as values of JSON."""
        return asdict(self)


class _Plugin:
    """Selects the tests, times them and records failures and lines."""

    def __init__(self, request: Request, outcome: Outcome, tracer: LineTracer | None) -> None:
        self._request, self._outcome, self._tracer = request, outcome, tracer
        # CPU time does not depend on other work on the machine. Spark works in other processes, so use the clock.
        self._clock = time.perf_counter if request.needs_spark else time.process_time

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Drop slow tests and those of the other kind; sort as requested."""
        if self._tracer:
            self._outcome.lines_run[""] = self._tracer.stop()
        items[:] = [
            item
            for item in items
            if not _is_left_out(item)
            and bool(_SPARK & set(getattr(item, "fixturenames", ()))) == self._request.needs_spark
        ]
        if self._request.tests:
            order = {test: position for position, test in enumerate(self._request.tests)}
            items[:] = sorted((i for i in items if i.nodeid in order), key=lambda i: order[i.nodeid])

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Record a file that can't be imported as a failure."""
        if report.failed:
            self._outcome.failures.append(report.nodeid)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Record time and lines of one test with its fixtures."""
        if self._tracer:
            self._tracer.start()
        if item.nodeid in self._request.tests and not self._request.needs_spark:
            _limit_cpu_seconds(self._request.tests[item.nodeid])
        start = self._clock()
        result = yield
        self._outcome.seconds[item.nodeid] = self._clock() - start
        if self._tracer:
            self._outcome.lines_run[item.nodeid] = self._tracer.stop()
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Record the time of the test without its fixtures."""
        start = self._clock()
        try:
            return (yield)
        finally:
            self._outcome.calls[item.nodeid] = self._clock() - start

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Record a failure."""
        if report.failed:
            self._outcome.failures.append(report.nodeid)


def _is_left_out(item: pytest.Item) -> bool:
    """Whether a test takes long or starts servers."""
    marks = {mark.name for mark in item.iter_markers()}
    return bool(marks & _NOT_RUN) or (_LONG in marks and item.path.parent.name != _QUICK_FOLDER)


def _limit_cpu_seconds(seconds: float) -> None:
    """Let the system kill this process after so many more CPU seconds."""
    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
    soft = math.ceil(time.process_time() + seconds)
    resource.setrlimit(resource.RLIMIT_CPU, (soft if hard == resource.RLIM_INFINITY else min(soft, hard), hard))


def run(root: Path, request: Request, mutant_file: Path) -> Outcome:
    """Run the tests. All modules of the checkout are imported again; Hypothesis draws the same examples every time.

    Parameters
    ----------
    mutant_file : Path
        The file from which this process and Spark's workers read the mutant.
    """
    unload_checkout(root)
    phases = (hypothesis.Phase.explicit, hypothesis.Phase.generate)
    hypothesis.settings.register_profile("mutants", derandomize=True, database=None, deadline=None, phases=phases)
    hypothesis.settings.load_profile("mutants")
    outcome = Outcome()
    tracer = LineTracer(root, request.watched) if request.watched else None
    write_mutant(mutant_file, root, request.module, request.content)
    finder = MutantFinder(mutant_file)
    sys.meta_path.insert(0, finder)
    options = [option for option in _OPTIONS if not (tracer and option == "-x")]
    if tracer:
        tracer.start()
    try:
        outcome.code = int(
            pytest.main(
                [*options, *_DISABLED_PLUGINS, *_QUIET, *request.files], plugins=[_Plugin(request, outcome, tracer)]
            )
        )
    finally:
        sys.settrace(None)
        sys.meta_path.remove(finder)
    outcome.modules = sorted(name for name in sys.modules if name.partition(".")[0] in request.watched)
    return outcome


def unload_checkout(root: Path) -> None:
    """Unload the checkout's modules, so that the next import reads them again. The modules that run the tests stay."""
    for name, module in list(sys.modules.items()):
        file = Path(getattr(module, "__file__", None) or os.devnull)
        is_of_checkout = file.is_relative_to(root) and not file.relative_to(root).parts[0].startswith(".")
        if is_of_checkout and name not in ("__main__", "benchmarks") and not name.startswith("benchmarks.mutants"):
            del sys.modules[name]
