"""Mutants that change nothing that anybody could see, each with its reason."""

import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.mutants.sites import Mutant

LIST = Path(__file__).with_name("equivalent.toml")


@dataclass(frozen=True)
class Equivalent:
    """One entry of the list; a mutant is meant where module, function and both texts are its own."""

    module: str
    function: str
    was: str
    becomes: str
    reason: str

    def means(self, mutant: Mutant) -> bool:
        """Whether it is about a mutant."""
        told = (mutant.module, mutant.function, mutant.was, mutant.becomes)
        return told == (self.module, self.function, self.was, self.becomes)


def read_list(path: Path = LIST) -> list[Equivalent]:
    """Entries of the committed list."""
    return [Equivalent(**entry) for entry in tomllib.loads(path.read_text(encoding="utf-8")).get("mutant", [])]


def reason_for(mutant: Mutant, entries: Iterable[Equivalent]) -> str:
    """Why a mutant changes nothing; empty where nobody says so."""
    return next((entry.reason for entry in entries if entry.means(mutant)), "")


def stale(entries: Iterable[Equivalent], mutants: Sequence[Mutant], killed: set[str]) -> list[str]:
    """What is wrong with the list: entries that mean no mutant, or one that a test tells apart."""
    told = []
    for entry in entries:
        meant = [mutant for mutant in mutants if entry.means(mutant)]
        where = f"{entry.module}, {entry.function or 'top'}: {entry.becomes}"
        if not meant:
            told.append(f"{where}: no such mutant (any more): remove the entry")
        elif any(mutant.name in killed for mutant in meant):
            told.append(f"{where}: a test tells it apart: remove the entry")
    return told
