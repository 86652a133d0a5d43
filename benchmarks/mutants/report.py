"""What the command prints."""

from collections.abc import Mapping, Sequence

from benchmarks.mutants.ledger import Entry
from benchmarks.mutants.sites import GROUPS, Mutant

Results = Sequence[tuple[Mutant, Entry | None]]


def describe(mutant: Mutant) -> str:
    """A mutant in one line."""
    return f"{mutant.name} {mutant.module}:{mutant.first} {mutant.function or 'top level'} ({mutant.kind})"


def table(results: Results, reasons: Mapping[str, str]) -> str:
    """The figures of each group."""
    heads = ("group", "mutants", "tried", "killed", "survived", "equivalent", "CPU s")
    groups = [group for group in GROUPS if any(mutant.group == group for mutant, _ in results)]
    rows = [(group, *_row([x for x in results if x[0].group == group], reasons)) for group in groups]
    rows.append(("all", *_row(results, reasons)))
    return "\n".join("".join(f"{cell:>12}" for cell in row) for row in (heads, *rows))


def _row(results: Results, reasons: Mapping[str, str]) -> tuple[str, ...]:
    tried = [(mutant, entry) for mutant, entry in results if entry]
    survivors = [mutant for mutant, entry in tried if not entry.is_killed]
    excused = sum(bool(reasons.get(mutant.name)) for mutant in survivors)
    seconds = sum(entry.cpu_seconds for _, entry in tried)
    counts = (len(results), len(tried), len(tried) - len(survivors), len(survivors) - excused, excused)
    return (*map(str, counts), f"{seconds:.0f}")
