"""Run tests that need no Spark, each request in a fork of this process, which has imported the libraries."""

import importlib
import json
import os
import resource
import signal
import sys
import time
import traceback
from pathlib import Path

from benchmarks.mutants import runner

_LIBRARIES = (
    *("numpy", "pandas", "pyarrow", "scipy.optimize", "scipy.sparse", "hypothesis", "hypothesis.strategies", "pytest"),
    *("pyspark.sql", "pyspark.sql.functions", "pyspark.sql.types", "pyspark.errors", "delta.tables"),
    *("ortools.sat.python.cp_model", "ortools.linear_solver.pywraplp", "ortools.graph.python.min_cost_flow"),
)
_MAX_ADDRESS_BYTES = 8 << 30  # stops a mutant whose memory grows without end before it harms the machine


def import_libraries() -> None:
    """Import the libraries: that takes long, and they are never mutated. A missing library is only reported."""
    for name in _LIBRARIES:
        try:
            importlib.import_module(name)
        except ImportError:
            print(f"library not found: {name}", file=sys.stderr)


def run(
    root: Path, request: runner.Request, scratch: Path, *, cpu_seconds: float
) -> tuple[runner.Outcome | None, float]:
    """Run tests in a child. It is killed after ``cpu_seconds``, or after ten times as many seconds on the clock.

    Returns
    -------
    The outcome, or None if the child was killed; and the CPU seconds that it used.
    """
    outcome_file = scratch / "outcome.json"
    outcome_file.unlink(missing_ok=True)
    sys.stdout.flush()
    child = os.fork()
    if not child:
        _child(root, request, scratch, cpu_seconds)
    used = _wait(child, deadline=time.monotonic() + 10 * cpu_seconds)
    text = outcome_file.read_text(encoding="utf-8") if outcome_file.exists() else ""
    return (runner.Outcome(**json.loads(text)) if text else None), used


def _child(root: Path, request: runner.Request, scratch: Path, cpu_seconds: float) -> None:
    code = 1
    try:
        os.setpgid(0, 0)
        with (scratch / "output.txt").open("wb") as file:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
        resource.setrlimit(resource.RLIMIT_CPU, (int(cpu_seconds) + 1, int(cpu_seconds) + 2))
        resource.setrlimit(resource.RLIMIT_AS, (_MAX_ADDRESS_BYTES, _MAX_ADDRESS_BYTES))
        outcome = runner.run(root, request, scratch / "mutant.json").as_json()
        (scratch / "part.json").write_text(json.dumps(outcome), encoding="utf-8")
        (scratch / "part.json").rename(scratch / "outcome.json")
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def _wait(child: int, *, deadline: float) -> float:
    """Wait for a child, kill the rest of its process group, and return the CPU seconds that it used."""
    while True:
        ended, _, usage = os.wait4(child, os.WNOHANG)
        if ended:
            break
        if time.monotonic() > deadline:
            _kill_group(child)
            _, _, usage = os.wait4(child, 0)
            break
        time.sleep(0.01)
    _kill_group(child)
    return usage.ru_utime + usage.ru_stime


def _kill_group(child: int) -> None:
    try:
        os.killpg(child, signal.SIGKILL)
    except ProcessLookupError:
        return
