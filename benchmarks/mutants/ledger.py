"""Results, one line of JSON for each mutant, so that an interrupted command can continue."""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.mutants.choose_tests import code_files, digest
from benchmarks.mutants.sites import Mutant

KILLED, TIMEOUT, SURVIVED, NO_TEST = "killed", "timeout", "survived", "no test"


@dataclass(frozen=True)
class Entry:
    """The result of one mutant.

    Parameters
    ----------
    state : str
        ``killed`` (a test failed), ``timeout``, ``survived`` or ``no test`` (no test runs its lines).
    killer : str
        The test that failed.
    tests : int
        Number of tests that run its lines or import its module.
    cpu_seconds : float
        CPU seconds of the run.
    needs_spark : bool
        Whether the tests with Spark ran, too.
    key : str
        Digest of the files on which the result depends: module and killer, or all code and tests.
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
        """Whether a test failed or took too long."""
        return self.state in (KILLED, TIMEOUT)


class Ledger:
    """The stored results; outdated ones are not returned."""

    def __init__(self, path: Path, root: Path) -> None:
        self._path, self._root = path, root
        self._key_of_all = digest(root, [*code_files(root), *sorted(str(p.relative_to(root)) for p in _tests(root))])
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        self._entries = {entry.mutant: entry for entry in (Entry(**json.loads(line)) for line in lines)}

    def get(self, mutant: Mutant) -> Entry | None:
        """The result of a mutant; None if its module or killer, or for survivors any code or test, has changed."""
        entry = self._entries.get(mutant.name)
        return entry if entry and entry.key == self._key(mutant, entry.state, entry.killer) else None

    def put(
        self, mutant: Mutant, state: str, killer: str, *, tests: int, cpu_seconds: float, needs_spark: bool
    ) -> None:
        """Store a result."""
        key = self._key(mutant, state, killer)
        entry = Entry(mutant.name, state, killer, tests, round(cpu_seconds, 2), needs_spark, key)
        self._entries[mutant.name] = entry
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(entry)) + "\n")

    def _key(self, mutant: Mutant, state: str, killer: str) -> str:
        file = killer.partition("::")[0]
        if state not in (KILLED, TIMEOUT):
            return self._key_of_all
        if not (self._root / file).is_file():
            return digest(self._root, [mutant.module])
        return digest(self._root, [mutant.module, file])


def _tests(root: Path) -> Iterator[Path]:
    return root.glob("tests/**/*.py")
