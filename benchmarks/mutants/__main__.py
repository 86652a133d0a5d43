"""``python -m benchmarks.mutants``: put seeded faults into the code, one at a time, and tell which the tests miss."""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.mutants import equivalent, forked
from benchmarks.mutants.inside import Outcome, Request
from benchmarks.mutants.ledger import KILLED, SURVIVED, TIMEOUT, UNSEEN, Entry, Ledger
from benchmarks.mutants.report import table, told
from benchmarks.mutants.seen import Choice, Measured, choose, files_of_tests, measure
from benchmarks.mutants.sites import GROUPS, Mutant, chosen, modules_of, mutants_of
from benchmarks.mutants.warm import Warm

HOME = Path(__file__).resolve().parent.parent.parent
# Files that take longer while their lines are watched plan whole clusters: each sees much, and tells little.
MOST_WATCH_SECONDS = 90.0
SHARES = sum(share for share, _ in GROUPS.values())
Run = Callable[[Request, float], tuple[Outcome | None, float]]


def options(arguments: Sequence[str]) -> argparse.Namespace:
    """What is asked for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.mutants", description=__doc__)
    parser.add_argument("--count", type=int, default=300, help="mutants of all groups together (300)")
    parser.add_argument("--seed", type=int, default=1, help="another seed draws others (1)")
    parser.add_argument("--groups", nargs="+", choices=GROUPS, default=list(GROUPS), help="only these groups")
    parser.add_argument("--spark", action="store_true", help="run what is left against the tests with Spark, too")
    parser.add_argument("--minutes", type=float, default=1e9, help="begin no mutant later; the same command goes on")
    parser.add_argument("--state", type=Path, default=HOME / ".build/mutants", help="where answers are kept")
    return parser.parse_args(arguments)


def draw(root: Path, groups: Sequence[str], count: int, seed: int) -> tuple[list[Mutant], list[Mutant]]:
    """Every mutant of the groups, and those that are chosen."""
    every: list[Mutant] = []
    picked: list[Mutant] = []
    for group in groups:
        mutants = [m for module in modules_of(root, group) for m in mutants_of(root, module, group)]
        every += mutants
        picked += chosen(root, mutants, round(count * GROUPS[group][0] / SHARES), seed)
    return every, picked


def try_mutant(mutant: Mutant, choice: Choice, run: Run, *, needs_spark: bool) -> tuple[str, str, float]:
    """State, killer and CPU seconds of one mutant."""
    if not choice.tests:
        return UNSEEN, "", 0.0
    content = mutant.edit.applied((HOME / mutant.module).read_bytes()).decode()
    request = Request(choice.files, needs_spark, choice.tests, mutant.module, content)
    outcome, used = run(request, 10 + 2 * choice.seconds)
    if outcome is None:
        return TIMEOUT, "", used
    if outcome.failures or outcome.code not in (0, 5):
        return KILLED, outcome.failures[0] if outcome.failures else "", used
    return SURVIVED, "", used


def go_through(
    mutants: Sequence[Mutant], ledger: Ledger, measured: list[Measured], run: Run, *, needs_spark: bool, until: float
) -> int:
    """Try every mutant that has no answer yet; how many are left for want of time."""
    for place, mutant in enumerate(mutants):
        entry = ledger.get(mutant)
        if not _is_open(entry, needs_spark):
            continue
        if time.monotonic() > until:
            return sum(_is_open(ledger.get(m), needs_spark) for m in mutants[place:])
        choice = choose(mutant, measured)
        state, killer, used = try_mutant(mutant, choice, run, needs_spark=needs_spark)
        if entry and state == UNSEEN:
            state = entry.state
        ledger.put(mutant, state, killer, tests=len(choice.tests), cpu_seconds=used, needs_spark=needs_spark)
        print(f"{state:9}{used:7.1f} s {len(choice.tests):4} tests  {told(mutant)}  {killer}", flush=True)
    return 0


def _is_open(entry: Entry | None, needs_spark: bool) -> bool:
    return entry is None or (needs_spark and not entry.is_killed and not entry.needs_spark)


def main(arguments: Sequence[str]) -> int:
    """Run; 1 where a mutant survives without a reason, a reason is stale or time was up."""
    asked = options(arguments)
    if os.environ.get("PYTHONHASHSEED") != "0":
        os.environ["PYTHONHASHSEED"] = "0"
        os.execv(sys.executable, [sys.executable, "-m", "benchmarks.mutants", *arguments])
    os.chdir(HOME)
    every, mutants = draw(HOME, asked.groups, asked.count, asked.seed)
    ledger = Ledger(asked.state / "answers.jsonl", HOME)
    until = time.monotonic() + 60 * asked.minutes
    with tempfile.TemporaryDirectory() as folder:
        left = without_spark(mutants, ledger, asked.state, Path(folder), until)
        if asked.spark and not left:
            left = with_spark(mutants, ledger, asked.state, Path(folder), until)
    return conclude(every, mutants, ledger, left)


def without_spark(mutants: Sequence[Mutant], ledger: Ledger, state: Path, scratch: Path, until: float) -> int:
    """Try the mutants with the tests that need no Spark."""
    if not any(_is_open(ledger.get(m), False) for m in mutants):
        return 0
    forked.warm_up()

    def run(request: Request, seconds: float) -> tuple[Outcome | None, float]:
        return forked.run(HOME, request, scratch, cpu_seconds=seconds)

    measured = _measured(mutants, state, run, needs_spark=False)
    return go_through(mutants, ledger, measured, run, needs_spark=False, until=until)


def with_spark(mutants: Sequence[Mutant], ledger: Ledger, state: Path, scratch: Path, until: float) -> int:
    """Try those that are left with the tests that need Spark."""
    open_ = [m for m in mutants if _is_open(ledger.get(m), True)]
    if not open_:
        return 0
    with Warm(HOME, scratch) as warm:
        measured = _measured(open_, state, warm.run, needs_spark=True)
        return go_through(open_, ledger, measured, warm.run, needs_spark=True, until=until)


def _measured(mutants: Sequence[Mutant], state: Path, run: Run, *, needs_spark: bool) -> list[Measured]:
    def watch(request: Request) -> Outcome:
        outcome, used = run(request, MOST_WATCH_SECONDS)
        left_out = "" if outcome else ": takes too long to watch, left out"
        print(f"watched {used:7.1f} s  {request.files[0]}{left_out}", flush=True)
        return outcome or Outcome()

    files = files_of_tests(HOME, {mutant.module for mutant in mutants}, needs_spark=needs_spark)
    return [measure(HOME, file, state / "lines", watch, needs_spark=needs_spark) for file in files]


def conclude(every: Sequence[Mutant], mutants: Sequence[Mutant], ledger: Ledger, left: int) -> int:
    """Tell figures, survivors and stale reasons; the exit code."""
    entries = equivalent.read_list()
    answers = [(mutant, ledger.get(mutant)) for mutant in mutants]
    killed = {mutant.name for mutant in every if (entry := ledger.get(mutant)) and entry.is_killed}
    groups = {mutant.group for mutant in mutants}
    inside = {module for group in groups for module in modules_of(HOME, group)}
    stale = equivalent.stale([e for e in entries if e.module in inside], every, killed)
    reasons = {m.name: equivalent.reason_for(m, entries) for m, e in answers if e and not e.is_killed}
    print(table(answers, reasons))
    for mutant, entry in answers:
        if entry and not entry.is_killed and not reasons[mutant.name]:
            print(f"\n{entry.state}: {told(mutant)}\n  - {mutant.was}\n  + {mutant.becomes}")
    for line in stale:
        print(f"\nstale: {line}")
    if left:
        print(f"\n{left} are left: the same command goes on")
    return int(bool(left or stale or not all(reasons.values())))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
