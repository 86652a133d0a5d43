"""What each test and each shared fixture costs: a file, and the dearest of them in the output of pytest."""

import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from setup.children import process_stats

FILE = ".build/durations.json"  # of the last run of more than a few tests, below the root
DEAREST = 25
_KINDS = {"airflow": "Airflow", "kafka": "Kafka", "cluster": "job", "spark": "Spark"}  # by marker; the first counts
_STALE_SECONDS = 0.1  # figures of short tests may be wrong by as much
_JOB_CPU_SECONDS = 15.0  # without a marker, only a whole job takes that long
_CPU = slice(11, 15)  # fields of /proc/PID/stat after the name: times of a process and of its ended children


def cpu_seconds() -> float:
    """CPU time so far of this process and its descendants.

    Without /proc (macOS) children count only after they have ended.
    """
    stats = process_stats()
    if not stats:
        return sum(os.times()[:4])
    pids = descendants(os.getpid(), {pid: int(fields[1]) for pid, fields in stats.items()})
    return sum(int(ticks) for pid in pids for ticks in stats[pid][_CPU]) / os.sysconf("SC_CLK_TCK")


def descendants(pid: int, parents: Mapping[int, int]) -> set[int]:
    """A process and its descendants, from the parent of each process."""
    result: set[int] = set()
    newest = {pid}
    while newest:
        result |= newest
        newest = {child for child, parent in parents.items() if parent in newest} - result
    return result


class Duration(NamedTuple):
    """What a test or a shared fixture took by itself, without shared fixtures that were set up meanwhile.

    The kind of a fixture is that of the first test that needs it. ``seconds`` is elapsed time.
    """

    name: str
    kind: str
    worker: str
    seconds: float
    cpu_seconds: float


class Watch:
    """Measures spans inside spans; what an inner one takes counts only for itself.

    Reading all processes takes 3 ms, so they are read at most every ``_STALE_SECONDS``.
    """

    def __init__(self) -> None:
        self._begun: list[tuple[float, float]] = []  # of each open span, moved on by what inner spans took
        self._read = (-_STALE_SECONDS, 0.0)  # when, and the CPU time then

    def begin(self) -> None:
        """Begin a span."""
        self._begun.append(self._now())

    def _now(self) -> tuple[float, float]:
        now = time.monotonic()
        if now - self._read[0] >= _STALE_SECONDS:
            self._read = (now, cpu_seconds())
        return now, self._read[1]

    def own(self) -> tuple[float, float]:
        """Elapsed and CPU time (s) of the innermost open span.

        The CPU time of a process that ends and that no parent waits for is lost, so the sum may become smaller.
        """
        (since, before), (now, cpu) = self._begun[-1], self._now()
        return now - since, max(0.0, cpu - before)

    def end(self) -> tuple[float, float]:
        """End the innermost span; returns its elapsed and CPU time (s)."""
        spent = self.own()
        self._begun.pop()
        self._begun = [(seconds + spent[0], cpu + spent[1]) for seconds, cpu in self._begun]
        return spent


def duration(name: str, item: pytest.Item | None, seconds: float, spent: float) -> Duration:
    """The row of a test, or of a fixture that was set up for it."""
    markers = (kind for marker, kind in _KINDS.items() if item is not None and item.get_closest_marker(marker))
    kind = next(markers, "job" if spent >= _JOB_CPU_SECONDS else "plain")
    worker = os.environ.get("PYTEST_XDIST_WORKER", "main")
    return Duration(name, kind, worker, round(seconds, 3), round(spent, 3))


def store(rows: Sequence[Duration], path: Path) -> None:
    """Write all rows, the dearest first."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps([row._asdict() for row in _dearest(rows)], indent=1) + "\n", encoding="utf-8")


def lines(rows: Sequence[Duration]) -> list[str]:
    """The dearest tests and fixtures, then sums by kind and by folder, for people."""
    result = ["", f"CPU seconds (elapsed) of the {DEAREST} dearest tests and [shared fixtures]; all: {FILE}"]
    result += [
        f"{row.cpu_seconds:8.1f} ({row.seconds:.0f}) {row.kind:7} {row.name}" for row in _dearest(rows)[:DEAREST]
    ]
    result += _sums("kind", rows, lambda row: row.kind)
    return result + _sums("folder", rows, lambda row: "/".join(row.name.split("::")[0].split("/")[:2]))


def _dearest(rows: Sequence[Duration]) -> list[Duration]:
    return sorted(rows, key=lambda row: (-row.cpu_seconds, row.name))


def _sums(title: str, rows: Sequence[Duration], key: Callable[[Duration], str]) -> list[str]:
    groups: dict[str, list[Duration]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    sums = [
        (sum(row.cpu_seconds for row in group), sum(row.seconds for row in group), f"{name}, {len(group)}")
        for name, group in groups.items()
    ]
    head = f"CPU seconds (elapsed) by {title}, {sum(cpu for cpu, _, _ in sums):.0f} in all"
    return [head, *(f"{cpu:8.1f} ({elapsed:.0f}) {text}" for cpu, elapsed, text in sorted(sums, reverse=True))]
