"""Tries mutants one after the other: all with the tests that need no Spark, then the survivors with those that do."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from benchmarks.mutants import forked
from benchmarks.mutants.choose_tests import ChosenTests, Measured, choose_tests, files_of_tests, measure
from benchmarks.mutants.ledger import KILLED, NO_TEST, SURVIVED, TIMEOUT, Entry, Ledger
from benchmarks.mutants.report import describe
from benchmarks.mutants.runner import Outcome, Request
from benchmarks.mutants.sites import Mutant
from benchmarks.mutants.warm import SparkRunner

# Test files that take longer with recorded lines are left out: they plan whole clusters and seldom notice one fault.
MAX_MEASURE_SECONDS = 90.0
# Exit codes of pytest if it could run the file; tests that fail are left out.
_RAN = (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.NO_TESTS_COLLECTED)
Run = Callable[[Request, float], tuple[Outcome | None, float]]


@dataclass(frozen=True)
class Trial:
    """The mutants, the tests, and the folders.

    Parameters
    ----------
    root, state, scratch : Path
        The checkout, the folder of the results, and a folder for temporary files.
    until : float
        Time of ``time.monotonic`` after which no mutant starts.
    only : list of str, optional
        Use only these test files.
    """

    root: Path
    state: Path
    scratch: Path
    mutants: Sequence[Mutant]
    ledger: Ledger
    until: float
    only: Sequence[str] | None = None

    def without_spark(self) -> int:
        """Try the mutants with the tests that need no Spark; returns the number not tried in time.

        Raises
        ------
        SystemExit
            If pytest can't run a test file.
        """
        if not self._open(needs_spark=False):
            return 0
        forked.import_libraries()

        def run(request: Request, seconds: float) -> tuple[Outcome | None, float]:
            return forked.run(self.root, request, self.scratch, cpu_seconds=seconds)

        return self._try_all(run, needs_spark=False)

    def with_spark(self) -> int:
        """Try the survivors with the tests that need Spark; returns the number not tried in time."""
        if not self._open(needs_spark=True):
            return 0
        with SparkRunner(self.root, self.scratch) as tests:
            return self._try_all(tests.run, needs_spark=True)

    def _open(self, *, needs_spark: bool) -> list[Mutant]:
        return [mutant for mutant in self.mutants if _is_open(self.ledger.get(mutant), needs_spark)]

    def _try_all(self, run: Run, *, needs_spark: bool) -> int:
        waiting = self._open(needs_spark=needs_spark)
        measured = self._measure(waiting, run, needs_spark=needs_spark)
        for position, mutant in enumerate(waiting):
            if time.monotonic() > self.until:
                return len(waiting) - position
            chosen = choose_tests(mutant, measured)
            state, killer, used = self._try(mutant, chosen, run, needs_spark=needs_spark)
            earlier = self.ledger.get(mutant)
            if earlier and state == NO_TEST:
                state = earlier.state
            self.ledger.put(mutant, state, killer, tests=len(chosen.tests), cpu_seconds=used, needs_spark=needs_spark)
            print(f"{state:9}{used:7.1f} s {len(chosen.tests):4} tests  {describe(mutant)}  {killer}", flush=True)
        return 0

    def _measure(self, mutants: Sequence[Mutant], run: Run, *, needs_spark: bool) -> list[Measured]:
        def run_file(request: Request) -> Outcome:
            outcome, used = run(request, MAX_MEASURE_SECONDS)
            left_out = "" if outcome else ": left out, takes too long"
            print(f"measured {used:8.1f} s  {request.files[0]}{left_out}", flush=True)
            if outcome and outcome.code not in _RAN:
                raise SystemExit(
                    f"pytest can't run {request.files[0]} (exit code {outcome.code}), so it would miss every fault: "
                    f"fix the errors of `./run-tests.sh -p no:xdist {request.files[0]}`, then start again"
                )
            return outcome or Outcome()

        files = files_of_tests(self.root, {mutant.module for mutant in mutants}, needs_spark=needs_spark)
        selected = [file for file in files if self.only is None or file in self.only]
        return [measure(self.root, file, self.state / "lines", run_file, needs_spark=needs_spark) for file in selected]

    def _try(self, mutant: Mutant, chosen: ChosenTests, run: Run, *, needs_spark: bool) -> tuple[str, str, float]:
        """State, killer and CPU seconds of one mutant."""
        if not chosen.tests:
            return NO_TEST, "", 0.0
        content = mutant.edit.applied((self.root / mutant.module).read_bytes()).decode()
        tests = {test: 5 + 3 * seconds for test, seconds in chosen.tests.items()}
        request = Request(chosen.files, needs_spark, tests, mutant.module, content)
        outcome, used = run(request, 10 + 3 * chosen.seconds)
        if outcome is None:
            return TIMEOUT, "", used
        if outcome.failures or outcome.code not in (0, 5):
            return KILLED, outcome.failures[0] if outcome.failures else "", used
        return SURVIVED, "", used


def _is_open(entry: Entry | None, needs_spark: bool) -> bool:
    return entry is None or (needs_spark and not entry.is_killed and not entry.needs_spark)
