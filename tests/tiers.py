"""Two tiers of tests: ``./run-tests.sh`` leaves out tests with the mark ``all_only``, ``--all`` runs every test.

A test without the mark fails in the daily tier if it takes over ten seconds, so that the tier stays short. With
``--all`` those with the mark are a run of their own, the last one. After the time ``BALLAST_ALL_UNTIL`` none of them
begins, and the end names them (docs/decisions/0038-time-of-ci.md).
"""

import os
import time
from collections.abc import Generator, Mapping
from typing import Any

import pytest
from hypothesis import is_hypothesis_test

from tests.durations import DEAREST, FILE, Duration, Watch, duration, lines, store
from tests.examples import is_daily

ALL_ONLY = "all_only"
UNTIL = "BALLAST_ALL_UNTIL"  # environment variable: seconds since 1970
TOO_LATE = f"a test marked {ALL_ONLY} that did not begin before {UNTIL}"
# CPU time of a test and its child processes, not elapsed time: waiting for a core does not count.
MOST_SECONDS = 10.0
# Property tests and tests with Spark get three times as much. One property test took 12.6 s of CPU time for a third of
# its examples (20 processes on two cores), and 22.8 s for all (4 processes). The first tests with Spark also compile
# the JVM's code. Outside of the daily tier every test gets three times as much again: all examples are made, and a
# busy core takes longer for the same work.
LENIENCE = 3
OUTSIDE_DAILY = 3
# Limit for a fixture that tests of a file share. It counts separately, not for the first test.
MOST_SHARED_SECONDS = 90.0
# Tests of the daily tier that may take longer, by the start of their ids, with the reason why they are in it.
LONG: Mapping[str, str] = {
    "tests/kafka/test_one_command.py": "a plan of three waves executed by one command on a real Kafka cluster",
    "tests/kafka/test_acceptance.py": "one whole job by spark-submit.sh, its plan executed on a real Kafka cluster",
    "tests/pipeline/test_pipeline.py::test_a_stage_uses_all_that_it_declares": "makes the run that others compare with",
    "tests/setup/test_submit.py::test_help_of_a_job": "prepares the checkout if no other test has",
}
ANNOUNCEMENT = (
    f"daily tier: no test marked {ALL_ONLY}, a third of the examples of properties that plan whole clusters; "
    "./run-tests.sh --all runs everything"
)


def may_be_long(item: pytest.Item) -> bool:
    """Whether a test has no limit."""
    return item.get_closest_marker(ALL_ONLY) is not None or item.nodeid.startswith(tuple(LONG))


def most_seconds(item: pytest.Item) -> float:
    """Limit of CPU time for a test without the mark."""
    is_lenient = is_hypothesis_test(getattr(item, "obj", None)) or item.get_closest_marker("spark")
    return MOST_SECONDS * (LENIENCE if is_lenient else 1) * (1 if is_daily() else OUTSIDE_DAILY)


class Tiers:
    """Fails tests that take too long for their tier, measures every test, and reports which tier ran."""

    def __init__(self) -> None:
        self._item: pytest.Item | None = None
        self._terminal: pytest.TerminalReporter | None = None  # a process of xdist has none
        self._watch = Watch()
        self._durations: list[Duration] = []

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Measure a test with the fixtures that only it uses."""
        self._item = item
        self._watch.begin()
        result = yield
        self._durations.append(duration(item.nodeid, item, *self._watch.end()))
        return result

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Skip a test with the mark, and its fixtures, when the time is over."""
        if item.get_closest_marker(ALL_ONLY) and time.time() > float(os.environ.get(UNTIL, "inf")):
            pytest.skip(TOO_LATE)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Name a failed test at once: a run that is stopped prints no summary."""
        if report.failed and self._terminal:
            crash = str(getattr(report.longrepr, "reprcrash", None) or report.longreprtext)
            self._terminal.write_line(f"\nfailed in {report.when}: {report.nodeid}: {crash[:500]}")

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[object]) -> Generator[None, Any, Any]:
        """Shared fixtures do not count for a test; fixtures of the whole session have no limit."""
        if fixturedef.scope == "function":
            return (yield)
        self._watch.begin()
        try:
            result = yield
        finally:
            spent = self._watch.end()
            name = f"{fixturedef.baseid or 'tests'}::[{fixturedef.argname}]"
            self._durations.append(duration(name, self._item, *spent))
        if fixturedef.scope != "session":
            most = MOST_SHARED_SECONDS * (1 if is_daily() else OUTSIDE_DAILY)
            self._check(f"setting up {fixturedef.argname}", spent[1], most)
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Fail a test that passed but took too long."""
        result = yield
        self._check("it", self._watch.own()[1], most_seconds(item))
        return result

    def _check(self, name: str, spent: float, most: float) -> None:
        if self._item and not may_be_long(self._item) and spent > most:
            pytest.fail(
                f"{name} took {spent:.1f} s of CPU time, the limit without the mark is {most:g} s: make it faster, or "
                f"mark the test {ALL_ONLY}; see tests/tiers.py",
                pytrace=False,
            )

    def pytest_sessionstart(self, session: pytest.Session) -> None:
        """Find out where to print."""
        self._terminal = session.config.pluginmanager.get_plugin("terminalreporter")

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """A process of xdist hands its durations to the one that reports."""
        if hasattr(session.config, "workeroutput"):
            session.config.workeroutput["durations"] = list(map(list, self._durations))

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Take the durations of a process of xdist that has ended."""
        rows = getattr(node, "workeroutput", {}).get("durations", ())
        self._durations += [Duration(*row) for row in rows]

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> Generator[None, Any, Any]:
        """Store and print the durations of more than a few tests, and name the tier, before pytest's last line."""
        result = yield
        if len(self._durations) > DEAREST:
            store(self._durations, terminalreporter.config.rootpath / FILE)
            for line in lines(self._durations):
                terminalreporter.write_line(line)
        skipped = terminalreporter.stats.get("skipped", ())
        late = [report.nodeid for report in skipped if TOO_LATE in str(report.longrepr)]
        for line in ("", f"NOT RUN ({len(late)}), each {TOO_LATE}:", *late) if late else ():
            terminalreporter.write_line(line)
        if is_daily():
            terminalreporter.write_line(ANNOUNCEMENT)
        return result
