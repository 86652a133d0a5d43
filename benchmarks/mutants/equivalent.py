"""Mutants that change no behaviour, each with its reason."""

import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.mutants.sites import Mutant

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
