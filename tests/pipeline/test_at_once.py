"""Runs as processes of their own: several at once in one warehouse, also a new one; killed, and started again."""

import os
import re
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

import schemas
from execution.tables import Warehouse
from setup.paths import HOME
from tests.pipeline.test_fleet import TABLES, folder_of

SECONDS = 900
MOVING = ("--set", "policy.drain_brokers=[1]")
BRIEF = ("--set", "solver.rounds=1", "--set", "solver.curve_brokers=0")


@contextmanager
def started(home: Path, run_id: str) -> Iterator["subprocess.Popen[str]"]:
    """A run of a small cluster by ./spark-submit.sh, in a process group of its own."""
    unset = {"PYTHONPATH", "PYSPARK_PYTHON", "SPARK_CONF_DIR", "JAVA_HOME"}
    environment = {name: value for name, value in os.environ.items() if name not in unset}
    places = ("--warehouse", str(home / "tables"), "--output", str(home / "out"))
    job = ("pipeline", "--cluster", "c", "--input", str(home / "in"), "--run-id", run_id, *places, *MOVING, *BRIEF)
    command = [str(HOME / "spark-submit.sh"), "--driver-memory", "1g", *job]
    process = subprocess.Popen(
        command,
        cwd=home,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    with process:
        yield process


def said_until(process: "subprocess.Popen[str]", sign: str) -> str:
    """What a run says up to a line of its progress."""
    assert process.stderr
    said = ""
    for line in process.stderr:
        said += line
        if sign in line:
            return said
    raise AssertionError(f"{sign!r} was not said: {said[-4000:]}")


def all_at_once(home: Path, run_ids: Sequence[str], *, killed: Mapping[str, str]) -> None:
    """Start runs at once; those of ``killed`` are ended by force at a line of progress, the others end well."""
    with ExitStack() as stack:
        processes = {run_id: stack.enter_context(started(home, run_id)) for run_id in run_ids}
        for run_id, moment in killed.items():
            said_until(processes[run_id], moment)
            os.killpg(processes[run_id].pid, signal.SIGKILL)
        said = {run_id: process.communicate(timeout=SECONDS)[1] for run_id, process in processes.items()}
        codes = {run_id: processes[run_id].returncode for run_id in run_ids if run_id not in killed}
        assert not any(codes.values()), said


def _unnamed(text: str, run_id: str) -> str:
    """Without the run's id, and the digests of texts that hold it."""
    return re.sub(r"\b[0-9a-f]{64}\b", "SHA256", text.replace(run_id, "RUN"))


def rows_of(home: Path, run_id: str) -> dict[str, list[str]]:
    """The rows of a run in every table, without what was measured and whose they are."""
    warehouse = Warehouse(str(home / "tables"))
    shown = {}
    for name in TABLES:
        volatile = {*schemas.ALL[name].volatile, "captured_at", "sha256"}
        columns = [c.name for c in schemas.ALL[name].columns if c.name not in volatile]
        rows = warehouse.rows(name, run_id=run_id)
        shown[name] = sorted(_unnamed(repr([row[c] for c in columns]), run_id) for row in rows)
    return shown


def files_of(home: Path, run_id: str) -> dict[str, str]:
    """What a run handed over."""
    folder = home / "out" / run_id
    found = (path for path in folder.rglob("*") if path.is_file() and path.name not in ("timings.json", ".lock"))
    named = {path.relative_to(folder).as_posix(): path.read_bytes() for path in found}
    kept = {name: content for name, content in named.items() if not name.startswith("data_docs/")}
    return {name: _unnamed(content.decode(), run_id) for name, content in kept.items()}


@pytest.mark.slow
def test_runs_share_a_warehouse_and_killed_ones_end_as_others(tmp_path: Path) -> None:
    """Two into a new warehouse, one of them killed, again in another stage, and then let be: one plan, no row lost or
    twice."""
    folder_of(tmp_path, "in")
    all_at_once(tmp_path, ("run-a", "run-b"), killed={"run-b": "] plan"})
    all_at_once(tmp_path, ("run-b",), killed={"run-b": "] validate"})
    all_at_once(tmp_path, ("run-b",), killed={})
    first = rows_of(tmp_path, "run-a")
    assert all(first[name] for name in ("plan", "documents", "moves", "quality_results"))
    assert "c/reassignment.json" in files_of(tmp_path, "run-a")
    assert rows_of(tmp_path, "run-b") == first
    assert files_of(tmp_path, "run-b") == files_of(tmp_path, "run-a")
    verdicts = {run: Warehouse(str(tmp_path / "tables")).rows("verdicts", run_id=run) for run in ("run-a", "run-b")}
    shown = {run: sorted((row["attempt"], row["verdict"]) for row in rows) for run, rows in verdicts.items()}
    assert shown == {"run-a": [(1, "planned")], "run-b": [(1, "started"), (2, "started"), (3, "planned")]}
