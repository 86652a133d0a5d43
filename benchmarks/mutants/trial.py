"""Try mutants one after the other: first with the tests that need no Spark, then what is left with those that do."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from benchmarks.mutants import forked
from benchmarks.mutants.inside import Outcome, Request
from benchmarks.mutants.ledger import KILLED, SURVIVED, TIMEOUT, UNSEEN, Entry, Ledger
from benchmarks.mutants.report import told
from benchmarks.mutants.seen import Choice, Measured, choose, files_of_tests, measure
from benchmarks.mutants.sites import Mutant
from benchmarks.mutants.warm import Warm

# Files that take longer while their lines are watched plan whole clusters: each sees much, and tells little.
MOST_WATCH_SECONDS = 90.0
# How pytest ends where it could run what it was given; a test that fails is left out.
_RAN = (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.NO_TESTS_COLLECTED)
Run = Callable[[Request, float], tuple[Outcome | None, float]]


@dataclass(frozen=True)
class Trial:
    """What is tried, and with what.

    Parameters
    ----------
    root, state, scratch : Path
        The checkout, the folder of answers, and one for files that nobody needs later.
    until : float
        By ``time.monotonic``: no mutant is begun later.
    only : list of str, optional
        Files of tests to use, and no others.
    """

    root: Path
    state: Path
    scratch: Path
    mutants: Sequence[Mutant]
    ledger: Ledger
    until: float
    only: Sequence[str] | None = None

    def without_spark(self) -> int:
        """Try the mutants with the tests that need no Spark; how many are left for want of time.

        Raises
        ------
        SystemExit
            When pytest can't run a file of tests: names it.
        """
        if not self._open(needs_spark=False):
            return 0
        forked.warm_up()

        def run(request: Request, seconds: float) -> tuple[Outcome | None, float]:
            return forked.run(self.root, request, self.scratch, cpu_seconds=seconds)

        return self._go_through(run, needs_spark=False)

    def with_spark(self) -> int:
        """Try those that survived with the tests that need Spark; how many are left for want of time."""
        if not self._open(needs_spark=True):
            return 0
        with Warm(self.root, self.scratch) as warm:
            return self._go_through(warm.run, needs_spark=True)

    def _open(self, *, needs_spark: bool) -> list[Mutant]:
        return [mutant for mutant in self.mutants if _is_open(self.ledger.get(mutant), needs_spark)]

    def _go_through(self, run: Run, *, needs_spark: bool) -> int:
        waiting = self._open(needs_spark=needs_spark)
        measured = self._measured(waiting, run, needs_spark=needs_spark)
        for place, mutant in enumerate(waiting):
            if time.monotonic() > self.until:
                return len(waiting) - place
            choice = choose(mutant, measured)
            state, killer, used = self._try(mutant, choice, run, needs_spark=needs_spark)
            before = self.ledger.get(mutant)
            if before and state == UNSEEN:
                state = before.state
            self.ledger.put(mutant, state, killer, tests=len(choice.tests), cpu_seconds=used, needs_spark=needs_spark)
            print(f"{state:9}{used:7.1f} s {len(choice.tests):4} tests  {told(mutant)}  {killer}", flush=True)
        return 0

    def _measured(self, mutants: Sequence[Mutant], run: Run, *, needs_spark: bool) -> list[Measured]:
        def watch(request: Request) -> Outcome:
            outcome, used = run(request, MOST_WATCH_SECONDS)
            left_out = "" if outcome else ": takes too long to watch, left out"
            print(f"watched {used:9.1f} s  {request.files[0]}{left_out}", flush=True)
            if outcome and outcome.code not in _RAN:
                raise SystemExit(
                    f"pytest can't run {request.files[0]} (exit code {outcome.code}), so it would miss every fault: "
                    f"mend what `./run-tests.sh -p no:xdist {request.files[0]}` says, then start again"
                )
            return outcome or Outcome()

        files = files_of_tests(self.root, {mutant.module for mutant in mutants}, needs_spark=needs_spark)
        asked = [file for file in files if self.only is None or file in self.only]
        return [measure(self.root, file, self.state / "lines", watch, needs_spark=needs_spark) for file in asked]

    def _try(self, mutant: Mutant, choice: Choice, run: Run, *, needs_spark: bool) -> tuple[str, str, float]:
        """State, killer and CPU seconds of one mutant."""
        if not choice.tests:
            return UNSEEN, "", 0.0
        content = mutant.edit.applied((self.root / mutant.module).read_bytes()).decode()
        tests = {test: 5 + 3 * seconds for test, seconds in choice.tests.items()}
        request = Request(choice.files, needs_spark, tests, mutant.module, content)
        outcome, used = run(request, 10 + 3 * choice.seconds)
        if outcome is None:
            return TIMEOUT, "", used
        if outcome.failures or outcome.code not in (0, 5):
            return KILLED, outcome.failures[0] if outcome.failures else "", used
        return SURVIVED, "", used


def _is_open(entry: Entry | None, needs_spark: bool) -> bool:
    return entry is None or (needs_spark and not entry.is_killed and not entry.needs_spark)
