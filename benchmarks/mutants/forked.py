"""Tests that need no Spark: each request in a child of this process, which has imported what is not ours."""

import importlib
import json
import os
import resource
import signal
import sys
import time
import traceback
from pathlib import Path

from benchmarks.mutants import inside

_WARM = (
    *("numpy", "pandas", "pyarrow", "scipy.optimize", "scipy.sparse", "hypothesis", "hypothesis.strategies", "pytest"),
    *("pyspark.sql", "pyspark.sql.functions", "pyspark.sql.types", "pyspark.errors", "delta.tables"),
    *("ortools.sat.python.cp_model", "ortools.linear_solver.pywraplp", "ortools.graph.python.min_cost_flow"),
)
_MOST_BYTES = 8 << 30  # of address space: a mutant that grows without end is ended before the machine suffers


def warm_up() -> None:
    """Import what takes long and is never mutated; what is missing is left to the tests."""
    for name in _WARM:
        try:
            importlib.import_module(name)
        except ImportError:
            print(f"not imported beforehand: {name}", file=sys.stderr)


def run(
    root: Path, request: inside.Request, scratch: Path, *, cpu_seconds: float
) -> tuple[inside.Outcome | None, float]:
    """Run tests in a child, which is ended when it has used its time or has waited ten times as long.

    Returns
    -------
    What happened, nothing where it was ended, and the CPU seconds that it used.
    """
    answer = scratch / "answer.json"
    answer.unlink(missing_ok=True)
    sys.stdout.flush()
    child = os.fork()
    if not child:
        _child(root, request, scratch, cpu_seconds)
    used = _wait(child, deadline=time.monotonic() + 10 * cpu_seconds)
    told = answer.read_text(encoding="utf-8") if answer.exists() else ""
    return (inside.Outcome(**json.loads(told)) if told else None), used


def _child(root: Path, request: inside.Request, scratch: Path, cpu_seconds: float) -> None:
    code = 1
    try:
        os.setpgid(0, 0)
        with (scratch / "output.txt").open("wb") as file:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
        resource.setrlimit(resource.RLIMIT_CPU, (int(cpu_seconds) + 1, int(cpu_seconds) + 2))
        resource.setrlimit(resource.RLIMIT_AS, (_MOST_BYTES, _MOST_BYTES))
        outcome = inside.run(root, request, scratch / "mutant.json").as_json()
        (scratch / "part.json").write_text(json.dumps(outcome), encoding="utf-8")
        (scratch / "part.json").rename(scratch / "answer.json")
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def _wait(child: int, *, deadline: float) -> float:
    """Wait for a child and end what is left of its group; CPU seconds that it used."""
    while True:
        done, _, usage = os.wait4(child, os.WNOHANG)
        if done:
            break
        if time.monotonic() > deadline:
            _end_group(child)
            _, _, usage = os.wait4(child, 0)
            break
        time.sleep(0.01)
    _end_group(child)
    return usage.ru_utime + usage.ru_stime


def _end_group(child: int) -> None:
    try:
        os.killpg(child, signal.SIGKILL)
    except ProcessLookupError:
        return
