"""What the command prints."""

from collections.abc import Mapping, Sequence

from benchmarks.mutants.ledger import Entry
from benchmarks.mutants.sites import GROUPS, Mutant

Answers = Sequence[tuple[Mutant, Entry | None]]


def told(mutant: Mutant) -> str:
    """A mutant in one line."""
    return f"{mutant.name} {mutant.module}:{mutant.first} {mutant.function or 'top'} ({mutant.kind})"


def table(answers: Answers, reasons: Mapping[str, str]) -> str:
    """Figures by group."""
    heads = ("group", "mutants", "tried", "killed", "survived", "equivalent", "CPU s")
    groups = [group for group in GROUPS if any(mutant.group == group for mutant, _ in answers)]
    rows = [(group, *_row([x for x in answers if x[0].group == group], reasons)) for group in groups]
    rows.append(("all", *_row(answers, reasons)))
    return "\n".join("".join(f"{cell:>12}" for cell in row) for row in (heads, *rows))


def _row(answers: Answers, reasons: Mapping[str, str]) -> tuple[str, ...]:
    tried = [(mutant, entry) for mutant, entry in answers if entry]
    left = [mutant for mutant, entry in tried if not entry.is_killed]
    excused = sum(bool(reasons.get(mutant.name)) for mutant in left)
    seconds = sum(entry.cpu_seconds for _, entry in tried)
    counts = (len(answers), len(tried), len(tried) - len(left), len(left) - excused, excused)
    return (*map(str, counts), f"{seconds:.0f}")
