"""``python -m benchmarks.mutants``: put seeded faults into the code, one at a time, and tell which the tests miss."""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.mutants import equivalent
from benchmarks.mutants.ledger import Ledger
from benchmarks.mutants.report import table, told
from benchmarks.mutants.sites import GROUPS, Mutant, chosen, modules_of, mutants_of
from benchmarks.mutants.trial import Trial

HOME = Path(__file__).resolve().parent.parent.parent
SHARES = sum(share for share, _ in GROUPS.values())


def options(arguments: Sequence[str]) -> argparse.Namespace:
    """What is asked for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.mutants", description=__doc__)
    parser.add_argument("--count", type=int, default=SHARES, help=f"mutants of all groups together ({SHARES})")
    parser.add_argument("--seed", type=int, default=1, help="another seed draws others (1)")
    parser.add_argument("--groups", nargs="+", choices=GROUPS, default=list(GROUPS), help="only these groups")
    parser.add_argument("--modules", nargs="+", metavar="FILE", help="only these, as sources/kafka_admin.py")
    parser.add_argument("--tests", nargs="+", metavar="FILE", help="only these, as tests/solve/test_x.py")
    parser.add_argument("--spark", action="store_true", help="run what is left against the tests with Spark, too")
    parser.add_argument("--minutes", type=float, default=1e9, help="begin no mutant later; the same command goes on")
    parser.add_argument("--state", type=Path, default=HOME / ".build/mutants", help="where answers are kept")
    return parser.parse_args(arguments)


def draw(
    root: Path, groups: Sequence[str], count: int, seed: int, only: Sequence[str] | None = None
) -> tuple[list[Mutant], list[Mutant]]:
    """Every mutant of the groups, or of some modules of them, and those that are chosen."""
    known = {module for group in groups for module in modules_of(root, group)}
    if unknown := sorted(set(only or ()) - known):
        raise SystemExit(f"there is no module {unknown[0]} in these groups")
    every: list[Mutant] = []
    picked: list[Mutant] = []
    for group in groups:
        modules = [module for module in modules_of(root, group) if only is None or module in only]
        mutants = [m for module in modules for m in mutants_of(root, module, group)]
        every += mutants
        picked += chosen(root, mutants, round(count * GROUPS[group][0] / SHARES), seed)
    return every, picked


def main(arguments: Sequence[str]) -> int:
    """Run; 1 where a mutant survives without a reason, a reason is stale or time was up."""
    asked = options(arguments)
    if os.environ.get("PYTHONHASHSEED") != "0":
        os.environ["PYTHONHASHSEED"] = "0"
        os.execv(sys.executable, [sys.executable, "-m", "benchmarks.mutants", *arguments])
    os.chdir(HOME)
    every, mutants = draw(HOME, asked.groups, asked.count, asked.seed, asked.modules)
    ledger = Ledger(asked.state / "answers.jsonl", HOME)
    with tempfile.TemporaryDirectory() as folder:
        until = time.monotonic() + 60 * asked.minutes
        trial = Trial(HOME, asked.state, Path(folder), mutants, ledger, until, asked.tests)
        left = trial.without_spark()
        if asked.spark and not left:
            left = trial.with_spark()
    return conclude(every, mutants, ledger, left)


def conclude(every: Sequence[Mutant], mutants: Sequence[Mutant], ledger: Ledger, left: int) -> int:
    """Tell figures, survivors and stale reasons; the exit code."""
    entries = equivalent.read_list()
    answers = [(mutant, ledger.get(mutant)) for mutant in mutants]
    killed = {mutant.name for mutant, entry in answers if entry and entry.is_killed}
    modules = {mutant.module for mutant in every}
    stale = equivalent.stale([entry for entry in entries if entry.module in modules], every, killed)
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
