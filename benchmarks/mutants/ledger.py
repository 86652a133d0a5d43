"""What has been found out, one line of JSON for each mutant, so that a command can be ended and go on."""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.mutants.seen import code_files, digest
from benchmarks.mutants.sites import Mutant

KILLED, TIMEOUT, SURVIVED, UNSEEN = "killed", "timeout", "survived", "no test"


@dataclass(frozen=True)
class Entry:
    """The end of one mutant.

    Parameters
    ----------
    state : str
        ``killed`` (a test failed), ``timeout``, ``survived`` or ``no test`` (none runs its lines).
    killer : str
        The test that failed.
    tests : int
        How many could see it.
    cpu_seconds : float
        Of those that ran.
    needs_spark : bool
        Whether the tests with Spark have been run, too.
    key : str
        Of what the answer holds for: module and killer, or all code and tests.
    """

    mutant: str
    state: str
    killer: str
    tests: int
    cpu_seconds: float
    needs_spark: bool
    key: str

    @property
    def is_killed(self) -> bool:
        """Whether the tests see it."""
        return self.state in (KILLED, TIMEOUT)


class Ledger:
    """Answers that still hold."""

    def __init__(self, path: Path, root: Path) -> None:
        self._path, self._root = path, root
        self._whole = digest(root, [*code_files(root), *sorted(str(p.relative_to(root)) for p in _tests(root))])
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        self._entries = {entry.mutant: entry for entry in (Entry(**json.loads(line)) for line in lines)}

    def get(self, mutant: Mutant) -> Entry | None:
        """The answer for a mutant, where module and killer, or for survivors all code and tests, are as they were."""
        entry = self._entries.get(mutant.name)
        return entry if entry and entry.key == self._key(mutant, entry.state, entry.killer) else None

    def put(
        self, mutant: Mutant, state: str, killer: str, *, tests: int, cpu_seconds: float, needs_spark: bool
    ) -> None:
        """Note an answer."""
        key = self._key(mutant, state, killer)
        entry = Entry(mutant.name, state, killer, tests, round(cpu_seconds, 2), needs_spark, key)
        self._entries[mutant.name] = entry
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(entry)) + "\n")

    def _key(self, mutant: Mutant, state: str, killer: str) -> str:
        file = killer.partition("::")[0]
        if state not in (KILLED, TIMEOUT):
            return self._whole
        if not (self._root / file).is_file():
            return digest(self._root, [mutant.module])
        return digest(self._root, [mutant.module, file])


def _tests(root: Path) -> Iterator[Path]:
    return root.glob("tests/**/*.py")
