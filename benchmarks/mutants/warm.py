"""Runs tests that need Spark: one request after the other, in a process that keeps its Spark session.

Spark forks new Python workers for each task from ``daemon``. They read the mutant from a file.
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

from benchmarks.mutants import daemon, runner
from benchmarks.mutants.runner import Outcome, Request

START_SECONDS = 180  # for the start of Spark on busy cores, before the first test
_TICKS = os.sysconf("SC_CLK_TCK")


class SparkRunner:
    """The process that runs the tests. If a request takes too long, the next request starts a new process."""

    def __init__(self, root: Path, scratch: Path) -> None:
        self._root, self._scratch = root, scratch
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> "SparkRunner":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._kill()

    def run(self, request: Request, seconds: float) -> tuple[Outcome | None, float]:
        """The outcome and the CPU seconds; no outcome if it took more than five times ``seconds``."""
        process = self._process or self._start()
        cpu_before = _cpu_seconds(process.pid)
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(json.dumps(request.__dict__).encode() + b"\n")
        process.stdin.flush()
        ready, _, _ = select.select([process.stdout], [], [], START_SECONDS + 5 * seconds)
        used = _cpu_seconds(process.pid) - cpu_before
        line = process.stdout.readline() if ready else b""
        if not line:
            self._kill()
            return None, used
        return Outcome(**json.loads(line)), used

    def _start(self) -> subprocess.Popen[bytes]:
        environment = {**os.environ, daemon.MUTANT: str(self._scratch / "mutant.json")}
        command = [sys.executable, "-m", "benchmarks.mutants.warm", str(self._root), str(self._scratch)]
        with (self._scratch / "warm.txt").open("wb") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=self._root,
                env=environment,
                start_new_session=True,
            )
        return self._process

    def _kill(self) -> None:
        if self._process:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._process = None


def _cpu_seconds(session: int) -> float:
    """CPU seconds of a session's processes and of their children that have ended."""
    ticks = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text(encoding="utf-8").rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) == session:
            ticks += sum(int(number) for number in fields[11:15])
    return ticks / _TICKS


def serve(root: Path, scratch: Path) -> None:
    """Answer requests from standard input, one line of JSON each."""
    from pyspark.sql import SparkSession

    responses = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    _keep_session(SparkSession, scratch)
    for line in sys.stdin:
        request = Request(**json.loads(line))
        outcome = runner.run(root, request, scratch / "mutant.json")
        responses.write(json.dumps(outcome.as_json()) + "\n")
        responses.flush()


def _keep_session(session_class: Any, scratch: Path) -> None:
    """Make every session use our daemon, and ignore ``stop``."""
    original = session_class.Builder.getOrCreate

    def get_or_create(builder: Any) -> Any:
        settings = {
            "spark.python.worker.reuse": "false",
            "spark.python.daemon.module": "benchmarks.mutants.daemon",
            "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        }
        for name, value in settings.items():
            builder = builder.config(name, value)
        return session_class.getActiveSession() or original(builder)

    session_class.Builder.getOrCreate = get_or_create
    session_class.stop = lambda session: None


if __name__ == "__main__":
    serve(Path(sys.argv[1]), Path(sys.argv[2]))
