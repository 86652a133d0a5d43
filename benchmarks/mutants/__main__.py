"""``python -m benchmarks.mutants``: put faults into the code, one at a time, and list those that the tests miss."""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.mutants import equivalent
from benchmarks.mutants.ledger import Ledger
from benchmarks.mutants.report import describe, table
from benchmarks.mutants.sites import GROUPS, Mutant, draw, modules_of, mutants_of
from benchmarks.mutants.trial import Trial

HOME = Path(__file__).resolve().parent.parent.parent
SHARES = sum(share for share, _ in GROUPS.values())


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.mutants", description=__doc__)
    parser.add_argument("--count", type=int, default=SHARES, help=f"number of mutants, all groups together ({SHARES})")
    parser.add_argument("--seed", type=int, default=1, help="another seed draws other mutants (1)")
    parser.add_argument("--groups", nargs="+", choices=GROUPS, default=list(GROUPS), help="only these groups")
    parser.add_argument("--modules", nargs="+", metavar="FILE", help="only these modules, as sources/kafka_admin.py")
    parser.add_argument("--tests", nargs="+", metavar="FILE", help="only these test files, as tests/solve/test_x.py")
    parser.add_argument("--spark", action="store_true", help="also run the survivors against the tests with Spark")
    parser.add_argument("--minutes", type=float, default=1e9, help="start no mutant later; the same command continues")
    parser.add_argument("--state", type=Path, default=HOME / ".build/mutants", help="folder of the results")
    return parser.parse_args(arguments)


def select(
    root: Path, groups: Sequence[str], count: int, seed: int, only: Sequence[str] | None = None
) -> tuple[list[Mutant], list[Mutant]]:
    """All mutants of the groups, or of only some of their modules; and those that are drawn.

    Raises
    ------
    SystemExit
        For a module that is in none of the groups.
    """
    known = {module for group in groups for module in modules_of(root, group)}
    if unknown := sorted(set(only or ()) - known):
        raise SystemExit(f"there is no module {unknown[0]} in these groups: check --modules and --groups")
    every: list[Mutant] = []
    drawn: list[Mutant] = []
    for group in groups:
        modules = [module for module in modules_of(root, group) if only is None or module in only]
        mutants = [m for module in modules for m in mutants_of(root, module, group)]
        every += mutants
        drawn += draw(root, mutants, round(count * GROUPS[group][0] / SHARES), seed)
    return every, drawn


def main(arguments: Sequence[str]) -> int:
    """Run, and return the exit code: 1 if a mutant survived without a reason, a reason is outdated, or time is up."""
    options = parse(arguments)
    if os.environ.get("PYTHONHASHSEED") != "0":
        os.environ["PYTHONHASHSEED"] = "0"
        os.execv(sys.executable, [sys.executable, "-m", "benchmarks.mutants", *arguments])
    os.chdir(HOME)
    every, mutants = select(HOME, options.groups, options.count, options.seed, options.modules)
    ledger = Ledger(options.state / "answers.jsonl", HOME)
    with tempfile.TemporaryDirectory() as folder:
        until = time.monotonic() + 60 * options.minutes
        trial = Trial(HOME, options.state, Path(folder), mutants, ledger, until, options.tests)
        remaining = trial.without_spark()
        if options.spark and not remaining:
            remaining = trial.with_spark()
    return conclude(every, mutants, ledger, remaining)


def conclude(every: Sequence[Mutant], mutants: Sequence[Mutant], ledger: Ledger, remaining: int) -> int:
    """Print figures, survivors and outdated reasons; returns the exit code."""
    entries = equivalent.read_list()
    results = [(mutant, ledger.get(mutant)) for mutant in mutants]
    killed = {mutant.name for mutant, entry in results if entry and entry.is_killed}
    modules = {mutant.module for mutant in every}
    outdated = equivalent.outdated([entry for entry in entries if entry.module in modules], every, killed)
    reasons = {m.name: equivalent.reason_for(m, entries) for m, e in results if e and not e.is_killed}
    print(table(results, reasons))
    for mutant, entry in results:
        if entry and not entry.is_killed and not reasons[mutant.name]:
            print(f"\n{entry.state}: {describe(mutant)}\n  - {mutant.was}\n  + {mutant.becomes}")
    for line in outdated:
        print(f"\noutdated reason: {line}")
    if remaining:
        print(f"\n{remaining} mutants remain: run the same command again to continue")
    return int(bool(remaining or outdated or not all(reasons.values())))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
