"""Runs as processes of their own: several at once in one warehouse, also a new one; killed, and started again."""

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import schemas
from optimizer.store import Store
from setup.paths import HOME
from tests.pipeline.test_fleet import TABLES, folder_of

SECONDS = 900
MOVING = ("--set", "policy.drain_brokers=[1]")


@contextmanager
def started(home: Path, run_id: str) -> Iterator["subprocess.Popen[str]"]:
    """A run of a small cluster by ./spark-submit.sh, in a process group of its own."""
    unset = {"PYTHONPATH", "PYSPARK_PYTHON", "SPARK_CONF_DIR", "JAVA_HOME"}
    environment = {name: value for name, value in os.environ.items() if name not in unset}
    places = ("--warehouse", str(home / "tables"), "--output", str(home / "out"))
    job = ("pipeline", "--cluster", "c", "--input", str(home / "in"), "--run-id", run_id, *places, *MOVING)
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


def all_at_once(home: Path, *run_ids: str) -> dict[str, tuple[int, str]]:
    """Start runs at once; the exit code and the last of what each said."""
    if not run_ids:
        return {}
    with started(home, run_ids[0]) as process:
        others = all_at_once(home, *run_ids[1:])
        assert process.stderr
        said = process.stderr.read()
        return {**others, run_ids[0]: (process.wait(SECONDS), said[-2000:])}


def killed_at(home: Path, moments: dict[str, str]) -> None:
    """Start runs at once, and end each with its JVM and workers when it says a line of progress."""
    for run_id, moment in list(moments.items())[:1]:
        with started(home, run_id) as process:
            killed_at(home, {other: sign for other, sign in moments.items() if other != run_id})
            said_until(process, moment)
            os.killpg(process.pid, signal.SIGKILL)


def rows_of(spark: SparkSession, home: Path, run_id: str) -> dict[str, list[str]]:
    """The rows of a run in every table, without what was measured and whose they are."""
    store = Store(str(home / "tables"), spark)
    shown = {}
    for name in TABLES:
        volatile = {*schemas.ALL[name].volatile, "captured_at", "sha256"}
        columns = [c.name for c in schemas.ALL[name].columns if c.name not in volatile]
        rows = store.newest(name, run_id)
        shown[name] = sorted(repr([row[c] for c in columns]).replace(run_id, "RUN") for row in rows)
    return shown


def files_of(home: Path, run_id: str) -> dict[str, bytes]:
    """What a run handed over."""
    folder = home / "out" / run_id
    found = (path for path in folder.rglob("*") if path.is_file() and path.name not in ("timings.json", ".lock"))
    named = {path.relative_to(folder).as_posix(): path.read_bytes() for path in found}
    kept = {name: content for name, content in named.items() if not name.startswith("data_docs/")}
    return {name: content.replace(run_id.encode(), b"RUN") for name, content in kept.items()}


@pytest.mark.slow
def test_runs_share_a_warehouse_and_killed_ones_end_as_others(spark: SparkSession, tmp_path: Path) -> None:
    """Two into a new warehouse, two killed at different moments, three at once: one plan, no row lost or twice."""
    folder_of(tmp_path, "in")
    ends = all_at_once(tmp_path, "run-a", "run-b")
    assert {run: code for run, (code, _) in ends.items()} == {"run-a": 0, "run-b": 0}, ends
    killed_at(tmp_path, {"run-c": "] validate", "run-d": "] plan"})
    ends = all_at_once(tmp_path, "run-c", "run-d", "run-e")
    assert {run: code for run, (code, _) in ends.items()} == dict.fromkeys(("run-c", "run-d", "run-e"), 0), ends
    first = rows_of(spark, tmp_path, "run-a")
    assert all(first[name] for name in ("plan", "documents", "moves", "quality_results"))
    assert "c/reassignment.json" in files_of(tmp_path, "run-a")
    for run_id in ("run-b", "run-c", "run-d", "run-e"):
        assert rows_of(spark, tmp_path, run_id) == first, run_id
        assert files_of(tmp_path, run_id) == files_of(tmp_path, "run-a"), run_id
    verdicts = {run: Store(str(tmp_path / "tables"), spark).newest("verdicts", run) for run in ("run-a", "run-c")}
    shown = {run: sorted((row.attempt, row.verdict) for row in rows) for run, rows in verdicts.items()}
    assert shown == {"run-a": [(1, "planned")], "run-c": [(1, "started"), (2, "planned")]}
