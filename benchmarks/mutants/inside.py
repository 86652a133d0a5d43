"""Run tests within this process, with a mutant in place of its module."""

import math
import os
import resource
import sys
import time
from collections.abc import Generator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from benchmarks.mutants.daemon import Mutated, write
from benchmarks.mutants.lines import Lines

_OPTIONS = ("-x", "-q", "--tb=no", "--no-header", "--no-summary")
_WITHOUT = ("-p", "no:cacheprovider", "-p", "no:xdist", "-p", "no:tiers")
_QUIET = ("-W", "ignore::pytest.PytestAssertRewriteWarning")
_NOT_RUN = {"kafka", "cluster"}
# Tests that are not in the daily tier take long, except those of the benchmarks: many of them are quick.
_LONG, _QUICK_FOLDER = "all_only", "benchmarks"
_SPARK = {"spark", "spark_environment"}


@dataclass(frozen=True)
class Request:
    """Tests to run, and what to put in place before.

    Parameters
    ----------
    files : list of str
        Files of tests.
    tests : dict of str to float
        Node ids within them, in the order in which they are to run, with the seconds that each may take; empty for all.
    needs_spark : bool
        Whether the tests are those that use Spark, or those that don't.
    module : str
        File whose place the mutant takes; empty for none.
    content : str
        The mutant.
    watched : list of str
        Folders whose lines are to be noted, instead of ending at the first failure.
    """

    files: list[str]
    needs_spark: bool
    tests: dict[str, float] = field(default_factory=dict)
    module: str = ""
    content: str = ""
    watched: list[str] = field(default_factory=list)


@dataclass
class Outcome:
    """What happened.

    Parameters
    ----------
    code : int
        As pytest ends.
    failures : list of str
        Tests that failed, or files that could not be collected; the first ends the run but where lines are watched.
    seconds, calls : dict
        Of each test; with and without what it and those after it set up.
    seen : dict
        Lines of each module run by each test; those of imports and of the files' own set-up stand under "".
    modules : list of str
        Modules of the watched folders that have been imported.
    """

    code: int = 0
    failures: list[str] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    calls: dict[str, float] = field(default_factory=dict)
    seen: dict[str, dict[str, list[int]]] = field(default_factory=dict)
    modules: list[str] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


class _Plugin:
    """Chooses the tests, times them and tells the first failure."""

    def __init__(self, request: Request, outcome: Outcome, lines: Lines | None) -> None:
        self._request, self._outcome, self._lines = request, outcome, lines
        # Spark works in other processes; elsewhere other work on the machine should not count.
        self._clock = time.perf_counter if request.needs_spark else time.process_time

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Leave out what takes long or belongs to the other kind; keep the order that was asked for."""
        if self._lines:
            self._outcome.seen[""] = self._lines.stop()
        items[:] = [
            item
            for item in items
            if not _is_left_out(item)
            and bool(_SPARK & set(getattr(item, "fixturenames", ()))) == self._request.needs_spark
        ]
        if self._request.tests:
            places = {test: place for place, test in enumerate(self._request.tests)}
            items[:] = sorted((i for i in items if i.nodeid in places), key=lambda i: places[i.nodeid])

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """A file that can't be imported counts as a failure of it."""
        if report.failed:
            self._outcome.failures.append(report.nodeid)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Note time and lines of one test, with what it sets up."""
        if self._lines:
            self._lines.start()
        if item.nodeid in self._request.tests and not self._request.needs_spark:
            _allow(self._request.tests[item.nodeid])
        start = self._clock()
        result = yield
        self._outcome.seconds[item.nodeid] = self._clock() - start
        if self._lines:
            self._outcome.seen[item.nodeid] = self._lines.stop()
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Note the time of the test itself."""
        start = self._clock()
        try:
            return (yield)
        finally:
            self._outcome.calls[item.nodeid] = self._clock() - start

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note a failure."""
        if report.failed:
            self._outcome.failures.append(report.nodeid)


def _is_left_out(item: pytest.Item) -> bool:
    """Whether a test takes long, or starts servers."""
    marks = {mark.name for mark in item.iter_markers()}
    return bool(marks & _NOT_RUN) or (_LONG in marks and item.path.parent.name != _QUICK_FOLDER)


def _allow(seconds: float) -> None:
    """Let the system end this process when it has used so many more CPU seconds."""
    most = resource.getrlimit(resource.RLIMIT_CPU)[1]
    soft = math.ceil(time.process_time() + seconds)
    resource.setrlimit(resource.RLIMIT_CPU, (soft if most == resource.RLIM_INFINITY else min(soft, most), most))


def run(root: Path, request: Request, told: Path) -> Outcome:
    """Run the tests; our modules are imported anew, nothing of Hypothesis is left to chance or kept.

    Parameters
    ----------
    told : Path
        File in which this process, and Spark's workers, find the mutant.
    """
    forget_ours(root)
    phases = (hypothesis.Phase.explicit, hypothesis.Phase.generate)
    hypothesis.settings.register_profile("mutants", derandomize=True, database=None, deadline=None, phases=phases)
    hypothesis.settings.load_profile("mutants")
    outcome = Outcome()
    lines = Lines(root, request.watched) if request.watched else None
    write(told, root, request.module, request.content)
    finder = Mutated(told)
    sys.meta_path.insert(0, finder)
    options = [option for option in _OPTIONS if not (lines and option == "-x")]
    if lines:
        lines.start()
    try:
        outcome.code = int(
            pytest.main([*options, *_WITHOUT, *_QUIET, *request.files], plugins=[_Plugin(request, outcome, lines)])
        )
    finally:
        sys.settrace(None)
        sys.meta_path.remove(finder)
    outcome.modules = sorted(name for name in sys.modules if name.partition(".")[0] in request.watched)
    return outcome


def forget_ours(root: Path) -> None:
    """Make the next import of the checkout's modules read them again; what runs the tests stays."""
    for name, module in list(sys.modules.items()):
        file = Path(getattr(module, "__file__", None) or os.devnull)
        is_ours = file.is_relative_to(root) and not file.relative_to(root).parts[0].startswith(".")
        if is_ours and name not in ("__main__", "benchmarks") and not name.startswith("benchmarks.mutants"):
            del sys.modules[name]
