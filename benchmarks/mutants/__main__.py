"""``python -m benchmarks.mutants``: put faults into the code, one at a time, and list those that the tests miss."""

import argparse
import os
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.mutants.ledger import Ledger
from benchmarks.mutants.report import describe, table
from benchmarks.mutants.sites import GROUPS, Mutant, draw, modules_of, mutants_of
from benchmarks.mutants.trial import Trial

LIST = Path(__file__).with_name("equivalent.toml")


@dataclass(frozen=True)
class Equivalent:
    """One entry of the list; it matches a mutant with the same module, function and texts."""

    module: str
    function: str
    was: str
    becomes: str
    reason: str

    def matches(self, mutant: Mutant) -> bool:
        """Whether the entry is about this mutant."""
        change = (mutant.module, mutant.function, mutant.was, mutant.becomes)
        return change == (self.module, self.function, self.was, self.becomes)


def read_list(path: Path = LIST) -> list[Equivalent]:
    """The entries of the committed list."""
    return [Equivalent(**entry) for entry in tomllib.loads(path.read_text(encoding="utf-8")).get("mutant", [])]


def reason_for(mutant: Mutant, entries: Iterable[Equivalent]) -> str:
    """Why a mutant changes nothing; empty if no entry matches it."""
    return next((entry.reason for entry in entries if entry.matches(mutant)), "")


def outdated(entries: Iterable[Equivalent], mutants: Sequence[Mutant], killed: set[str]) -> list[str]:
    """A message for each entry that matches no mutant, or that matches a mutant that a test kills."""
    messages = []
    for entry in entries:
        matching = [mutant for mutant in mutants if entry.matches(mutant)]
        location = f"{entry.module}, {entry.function or 'top level'}: {entry.becomes}"
        if not matching:
            messages.append(f"{location}: there is no such mutant: remove the entry")
        elif any(mutant.name in killed for mutant in matching):
            messages.append(f"{location}: a test kills this mutant: remove the entry")
    return messages


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
    entries = read_list()
    results = [(mutant, ledger.get(mutant)) for mutant in mutants]
    killed = {mutant.name for mutant, entry in results if entry and entry.is_killed}
    modules = {mutant.module for mutant in every}
    stale = outdated([entry for entry in entries if entry.module in modules], every, killed)
    reasons = {m.name: reason_for(m, entries) for m, e in results if e and not e.is_killed}
    print(table(results, reasons))
    for mutant, entry in results:
        if entry and not entry.is_killed and not reasons[mutant.name]:
            print(f"\n{entry.state}: {describe(mutant)}\n  - {mutant.was}\n  + {mutant.becomes}")
    for line in stale:
        print(f"\noutdated reason: {line}")
    if remaining:
        print(f"\n{remaining} mutants remain: run the same command again to continue")
    return int(bool(remaining or stale or not all(reasons.values())))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
