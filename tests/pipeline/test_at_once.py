"""Runs in separate processes: several at once in one new warehouse, killed and started again.

One driver runs as on another machine: in an empty folder with only the files that spark-submit sends there.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

import schemas
from execution.planned import load
from setup import app_zip, classes, site_conf
from setup.jars import delta_jars
from setup.java import java, spark_java
from setup.options import CommandLine
from setup.paths import HOME, spark_home
from stored.tables import Warehouse
from tests.pipeline.test_fleet import TABLES, folder_of

SECONDS = 900
SENT = "run-a"
MEMORY = ("--driver-memory", "1g")
SETTINGS = """
[[clusters]]
id = "c"
input = "{home}/in"
[policy]
drain_brokers = [1]
[solver]
rounds = 1
curve_brokers = 0
[storage]
warehouse = "{home}/tables"
output = "{home}/out"
"""


def sent_command(home: Path) -> tuple[list[str], dict[str, str], Path]:
    """Command, environment and folder of a driver that has only the zip, the job's file and the settings.

    Settings that spark-submit reads on the submitting machine are passed as properties.
    """
    driver = home / "driver"
    driver.mkdir()
    package = shutil.copy(app_zip.build(), driver)
    job = shutil.copy(HOME / "jobs" / "pipeline.py", driver)
    shutil.copy(HOME / "conf" / "log4j2.properties", home)  # a site's Spark with short logs
    (driver / "settings.toml").write_text(SETTINGS.format(home=home), encoding="utf-8")
    jars = delta_jars()
    properties = {
        **site_conf.properties(CommandLine(), {"SPARK_CONF_DIR": str(home)}),
        "spark.sql.shuffle.partitions": 2,
    }
    options = [word for name, value in properties.items() for word in ("--conf", f"{name}={value}")]
    options += ["--master", "local[2]", "--jars", ",".join(map(str, jars)), "--py-files", str(package), *MEMORY]
    # Uses the archive of classes, so that it starts fast.
    options += ["--driver-class-path", classes.class_path(jars)]
    environ = {"PATH": os.environ["PATH"], "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_CONF_DIR": str(home)}
    environ |= {"BALLAST_CLASSES": str(classes.archive(java(environ), jars)), **spark_java(environ)}
    environ |= {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    command = [str(spark_home() / "bin" / "spark-submit"), *options, str(job)]
    return [*command, "--config", "settings.toml", "--run-id", SENT], environ, driver


def submit_command(home: Path, run_id: str) -> tuple[list[str], dict[str, str], Path]:
    """Command, environment and folder of a run with ./spark-submit.sh, with its settings on the command line."""
    unset = {"PYTHONPATH", "PYSPARK_PYTHON", "SPARK_CONF_DIR", "JAVA_HOME"}
    environment = {name: value for name, value in os.environ.items() if name not in unset}
    folders = ("--warehouse", str(home / "tables"), "--output", str(home / "out"))
    knobs = ("policy.drain_brokers=[1]", "solver.rounds=1", "solver.curve_brokers=0")
    job = ("pipeline", "--cluster", "c", "--input", str(home / "in"), "--run-id", run_id, *folders)
    sets = [word for knob in knobs for word in ("--set", knob)]
    return [str(HOME / "spark-submit.sh"), *MEMORY, *job, *sets], environment, home


@contextmanager
def started(home: Path, run_id: str) -> Iterator["subprocess.Popen[bytes]"]:
    """A run of a small cluster in its own process group; the run ``SENT`` starts in the empty folder."""
    command, environment, folder = sent_command(home) if run_id == SENT else submit_command(home, run_id)
    with log_of(home, run_id).open("wb") as log:
        process = subprocess.Popen(
            command, cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=log, start_new_session=True
        )
    with process:
        yield process


def log_of(home: Path, run_id: str) -> Path:
    """The log of the newest attempt at a run."""
    return home / f"{run_id}.log"


def wait_for(process: "subprocess.Popen[bytes]", log: Path, text: str) -> None:
    """Wait until the log of a run has a text."""
    while text not in log.read_text(encoding="utf-8"):
        assert process.poll() is None, f"{text!r} is not in the log: {log.read_text(encoding='utf-8')[-4000:]}"
        time.sleep(0.02)


def all_at_once(home: Path, run_ids: Sequence[str], *, killed: Mapping[str, str]) -> None:
    """Start runs at the same time. Kill the runs in ``killed`` at a line of their log; the others must succeed."""
    with ExitStack() as stack:
        processes = {run_id: stack.enter_context(started(home, run_id)) for run_id in run_ids}
        for run_id, moment in killed.items():
            wait_for(processes[run_id], log_of(home, run_id), moment)
            os.killpg(processes[run_id].pid, signal.SIGKILL)
        codes = {run_id: process.wait(timeout=SECONDS) for run_id, process in processes.items() if run_id not in killed}
        assert not any(codes.values()), {run_id: log_of(home, run_id).read_text()[-4000:] for run_id in codes}


def _unnamed(text: str, run_id: str) -> str:
    """The text without the run's id, and without sha256 sums, which depend on it: whole ones, and the first eight
    digits in the command for the approval."""
    sums = r"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])|(?<=--manifest )[0-9a-f]{8}\b"
    return re.sub(sums, "SHA256", text.replace(run_id, "RUN"))


def rows_of(home: Path, run_id: str) -> dict[str, list[str]]:
    """The rows of a run in every table, without measured columns and the run's id."""
    warehouse = Warehouse(str(home / "tables"))
    shown = {}
    for name in TABLES:
        volatile = {*schemas.ALL[name].volatile, "captured_at", "sha256"}
        columns = [c.name for c in schemas.ALL[name].columns if c.name not in volatile]
        rows = warehouse.rows(name, run_id=run_id)
        shown[name] = sorted(_unnamed(repr([row[c] for c in columns]), run_id) for row in rows)
    return shown


def files_of(home: Path, run_id: str) -> dict[str, str]:
    """The published files of a run, without its id."""
    folder = home / "out" / run_id
    paths = (path for path in folder.rglob("*") if path.is_file() and path.name not in ("timings.json", ".lock"))
    contents = {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}
    return {name: _unnamed(content.decode(), run_id) for name, content in contents.items()}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs into a new warehouse. One is killed, and then completed."""
    home = tmp_path_factory.mktemp("shared")
    folder_of(home, "in")
    all_at_once(home, (SENT, "run-b"), killed={"run-b": "] plan"})
    all_at_once(home, ("run-b",), killed={})
    return home


@pytest.mark.all_only
def test_runs_share_a_warehouse_and_killed_ones_end_as_others(home: Path) -> None:
    """Both have the same plan, and no row is lost or duplicated."""
    first = rows_of(home, SENT)
    assert all(first[name] for name in ("plan", "documents", "moves", "quality_results"))
    assert "c/reassignment.json" in files_of(home, SENT)
    assert rows_of(home, "run-b") == first
    assert files_of(home, "run-b") == files_of(home, SENT)
    verdicts = {run: Warehouse(str(home / "tables")).rows("verdicts", run_id=run) for run in (SENT, "run-b")}
    shown = {run: sorted((row["attempt"], row["verdict"]) for row in rows) for run, rows in verdicts.items()}
    assert shown == {SENT: [(1, "planned")], "run-b": [(1, "started"), (2, "planned")]}


@pytest.mark.all_only
def test_a_driver_in_an_empty_folder_plans_with_what_was_sent(home: Path) -> None:
    """The zip, the job's file and the settings are enough: the zip has the defaults and the code version."""
    plan = load(Warehouse(str(home / "tables")), cluster_id="c", run_id=SENT)
    assert plan.manifest["code_version"] == app_zip.code_version()
    assert plan.waves == {1: "wave-01"}
