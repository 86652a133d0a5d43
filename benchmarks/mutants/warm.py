"""Tests that need Spark: one request after the other in a process that keeps its Spark session.

Spark's Python workers are made anew for each task, from ``daemon``, and read the mutant from a file.
"""

import json
import os
import select
import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any

from benchmarks.mutants import daemon, inside
from benchmarks.mutants.inside import Outcome, Request

START_SECONDS = 180  # until Spark stands and the first test may run, on busy cores
_TICKS = os.sysconf("SC_CLK_TCK")


class Warm:
    """The process, as long as it is needed; after a request that took too long there is another."""

    def __init__(self, root: Path, scratch: Path) -> None:
        self._root, self._scratch = root, scratch
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> "Warm":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._end()

    def run(self, request: Request, seconds: float) -> tuple[Outcome | None, float]:
        """What happened, and CPU seconds; nothing where it took five times as long as it should."""
        process = self._process or self._start()
        before = _cpu_seconds(process.pid)
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(json.dumps(request.__dict__).encode() + b"\n")
        process.stdin.flush()
        ready, _, _ = select.select([process.stdout], [], [], START_SECONDS + 5 * seconds)
        used = _cpu_seconds(process.pid) - before
        line = process.stdout.readline() if ready else b""
        if not line:
            self._end()
            return None, used
        return Outcome(**json.loads(line)), used

    def _start(self) -> subprocess.Popen[bytes]:
        environment = {**os.environ, daemon.MUTANT: str(self._scratch / "mutant.json")}
        command = [sys.executable, "-m", "benchmarks.mutants.warm", str(self._root), str(self._scratch)]
        with (self._scratch / "warm.txt").open("wb") as told:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=told,
                cwd=self._root,
                env=environment,
                start_new_session=True,
            )
        return self._process

    def _end(self) -> None:
        if self._process:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._process = None


def _cpu_seconds(group: int) -> float:
    """Of a session's processes, with those children that have ended."""
    ticks = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text(encoding="utf-8").rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) == group:
            ticks += sum(int(number) for number in fields[11:15])
    return ticks / _TICKS


def serve(root: Path, scratch: Path) -> None:
    """Answer requests, a line of JSON each, until there are no more."""
    from pyspark.sql import SparkSession

    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    _keep_session(SparkSession, scratch)
    for line in sys.stdin:
        request = Request(**json.loads(line))
        outcome = inside.run(root, request, scratch / "mutant.json")
        answers.write(json.dumps(outcome.as_json()) + "\n")
        answers.flush()


def _keep_session(kind: Any, scratch: Path) -> None:
    """Let sessions be made with our daemon, and not be stopped."""
    make = kind.Builder.getOrCreate

    def kept(builder: Any) -> Any:
        settings = {
            "spark.python.worker.reuse": "false",
            "spark.python.daemon.module": "benchmarks.mutants.daemon",
            "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        }
        for name, value in settings.items():
            builder = builder.config(name, value)
        return kind.getActiveSession() or make(builder)

    kind.Builder.getOrCreate = kept
    kind.stop = lambda session: None


if __name__ == "__main__":
    serve(Path(sys.argv[1]), Path(sys.argv[2]))
