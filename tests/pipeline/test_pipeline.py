"""The runner: a run repeated changes nothing, real executors neither; a past plan can be recomputed; a refused stage is
a dead end."""

import io
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import pytest
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import schemas
from execution.cli import main
from optimizer import delta_tables
from optimizer.configuration import build, merge, read_toml
from optimizer.declared import WRITERS
from optimizer.errors import BallastError, QualityGateFailed, StageError, WorkerGone
from optimizer.meter import Meter
from optimizer.stages.runner import STAGES, run_stage, run_stages
from optimizer.stages.solve import solve
from optimizer.stages.stage import Frames, Refusals, Run, Stage
from optimizer.store import Store
from schemas.spark import conform, schema_of
from setup.children import process_stats
from setup.paths import HOME
from stored.tables import Warehouse
from tests.asking.same_tables import differences
from tests.pipeline import shown, standalone
from tests.pipeline.aged import age
from tests.pipeline.noting import Used

RUN_ID = "again"
# Two shards, so that two executors have something to solve.
SHARDS = {"shard_brokers": 7, "rounds": 2}
SECONDS = 1800
KEYS = {"cluster_id": "c", "run_id": "r", "rule": "band", "subject": "broker 1", "when": "after"}
FINDING = {**KEYS, "code": "band", "detail": "disk", "remedy": "none"}
POINT = {"cluster_id": "c", "run_id": "r", "move_price": 0.0, "moves": 1, "moved_bytes": 1, "violation": 0.0}


@dataclass(frozen=True)
class First:
    """A run, the newest version of every table after it, every published file, and what its stages used."""

    run: Run
    versions: dict[str, int]
    files: dict[str, bytes]
    used: Used
    queries: int


def sample_run(spark: SparkSession, folder: Path) -> Run:
    """A run of the bundled sample below a folder."""
    content = merge(read_toml(HOME / "conf" / "default.toml"), read_toml(HOME / "conf" / "sample.toml"))
    overrides = {"storage": {"warehouse": str(folder / "warehouse"), "output": str(folder / "out")}, "solver": SHARDS}
    return Run(spark, RUN_ID, build(merge(content, overrides)), "test")


def versions(run: Run) -> dict[str, int]:
    """Newest version of every table."""
    store = Store(run.settings.storage.warehouse, run.spark)
    return {name: store.latest_version(name) for name in (*WRITERS, "runs", "verdicts")}


def files(output: str | Path) -> dict[str, bytes]:
    """Every published file."""
    return every_file(Path(output) / RUN_ID / "sample")


def every_file(folder: Path) -> dict[str, bytes]:
    """Every file below a folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.fixture(scope="module")
def first(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> First:
    """All stages on local threads."""
    run = sample_run(spark, tmp_path_factory.mktemp("first"))
    used = Used(tmp_path_factory.mktemp("used"))
    before = newest_query(spark)
    run_stages(used.noting(STAGES), run, Meter(spark, io.StringIO()))
    queries = newest_query(spark) - before - 1  # the next call runs a query of its own
    return First(run, versions(run), files(run.settings.storage.output), used, queries)


def newest_query(spark: SparkSession) -> int:
    """Spark's number of a new query: it counts the SQL executions of a session."""
    spark.range(1).collect()
    spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
    return int(spark._jsparkSession.sharedState().statusStore().executionsList().last().executionId())


@pytest.mark.all_only
def test_a_run_makes_no_more_queries_and_commits(first: First) -> None:
    """Planning queries and committing tables cost most of a small run."""
    commits = sum(version + 1 for version in first.versions.values())
    assert (first.queries, commits) == (342, 84)


@pytest.mark.all_only
def test_a_question_without_a_change_has_the_tables_of_the_run(first: First) -> None:
    """Rows of instance, solve and plan: the rules and the plan are computed again without Spark."""
    assert differences(Warehouse(first.run.settings.storage.warehouse), "sample", RUN_ID) == []


@pytest.mark.all_only
def test_the_report_command_writes_what_the_job_published(first: First, tmp_path: Path) -> None:
    """Documents, quality page and the page of the run, byte for byte, without Spark."""
    warehouse = first.run.settings.storage.warehouse
    assert main(["report", "--run-id", RUN_ID, "--to", str(tmp_path), "--warehouse", warehouse]) == 0
    published = every_file(first.run.folder)
    assert {"index.html", "quality/sample.html", "sample/report.html", "sample/moves.csv"} <= published.keys()
    assert every_file(tmp_path / RUN_ID) == published


@pytest.mark.all_only
def test_the_report_shows_the_rows_of_its_tables(first: First) -> None:
    """Brokers, waves, racks, reasons, topics and each copy; ``moves.csv`` has the copies with their leaders."""
    stored = shown.Stored(Warehouse(first.run.settings.storage.warehouse), RUN_ID, "sample")
    assert shown.found(first.files["report.html"].decode()) == shown.expected(stored)
    assert shown.csv_rows(first.files["moves.csv"].decode()) == shown.csv_expected(stored)


@pytest.mark.all_only
def test_a_plan_can_be_recomputed(spark: SparkSession, first: First) -> None:
    """The recorded versions of the inputs give the same plan again."""
    run = first.run
    store = Store(run.settings.storage.warehouse, spark)
    record = store.run_record(run.run_id, "solve")
    assert record is not None
    assert record.config_hash == run.settings.config_hash()

    def at(name: str, version: int) -> DataFrame:
        return delta_tables.rows(spark, store.warehouse, schemas.ALL[name], RUN_ID, version=version)

    pinned = {name: at(name, version) for name, version in record.reads.items()}
    again = conform(solve.build(pinned, run)["proposal"], schemas.ALL["proposal"])
    stored = at("proposal", record.writes["proposal"])
    assert sorted(map(repr, again.collect())) == sorted(map(repr, stored.collect()))


def aged_copy(first: First, folder: Path, *, days: int) -> None:
    """A copy of the run's tables in another folder, made some days older."""
    shutil.copytree(first.run.settings.storage.warehouse, folder / "warehouse")
    age(folder / "warehouse", days=days)


def table_versions(folder: Path) -> dict[str, int]:
    """Newest version of each table that does not change with every attempt or with the code version."""
    names = WRITERS.keys() - {"documents"}
    return {name: DeltaTable(str(folder / "warehouse" / name)).version() for name in names}


@pytest.mark.all_only
def test_every_stage_of_an_old_run_runs_again(spark: SparkSession, first: First, tmp_path: Path) -> None:
    """Each stage alone gives the old rows and documents, and no other file; Delta refuses to read old versions."""
    aged_copy(first, tmp_path, days=400)
    run, before = sample_run(spark, tmp_path), table_versions(tmp_path)
    for stage in STAGES:
        verdicts = run_stages([stage], run, Meter(spark, io.StringIO()))
        assert {verdict.exit_code for verdict in verdicts.values()} <= {None, 0}
    assert table_versions(tmp_path) == before
    assert files(tmp_path / "out") == first.files
    assert {"reassignment.json", "rollback.json", "runbook.md", "report.html", "summary.txt"} <= set(first.files)
    assert sorted(path.name for path in run.folder.iterdir()) == ["index.html", "quality", "report.css", "sample"]
    attempts = Store(run.settings.storage.warehouse, spark).current_rows("verdicts", RUN_ID)
    assert [(row.attempt, row.verdict) for row in attempts] == [(1, "planned")]


@pytest.mark.parametrize("stage", STAGES, ids=lambda stage: str(stage.name))
def test_a_stage_uses_all_that_it_declares(first: First, stage: Stage) -> None:
    """Each stage opens every table that it declares, and reads a knob of each declared section, and no others."""
    assert first.used.tables[stage.name] - set(stage.writes) == set(stage.reads)
    read = first.used.settings(stage.name)
    assert {name if name in stage.settings else name.partition(".")[0] for name in read} == set(stage.settings)


def run_on_executors(home: Path, spark: Sequence[str]) -> dict[str, bytes]:
    """Run the job on the sample cluster with ``./spark-submit.sh``; returns the published files by path."""
    folders = ("--warehouse", str(home / "warehouse"), "--output", str(home / "out"))
    shards = [word for name, value in SHARDS.items() for word in ("--set", f"solver.{name}={value}")]
    job = ("pipeline", "--config", str(HOME / "conf" / "sample.toml"), "--run-id", RUN_ID, *folders, *shards)
    unset = {"PYTHONPATH", "PYSPARK_PYTHON", "SPARK_CONF_DIR", "JAVA_HOME"}
    environment = {name: value for name, value in os.environ.items() if name not in unset}
    home.mkdir(exist_ok=True)
    result = subprocess.run(
        [str(HOME / "spark-submit.sh"), *spark, *job],
        cwd=home,
        env=environment,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert result.returncode == 0, f"{result.stdout[-4000:]}\n{result.stderr[-8000:]}"
    return files(home / "out")


@pytest.mark.all_only
@pytest.mark.cluster
def test_real_executors_give_the_same_documents(first: First, tmp_path: Path) -> None:
    """Two executors, each killed once, give the documents of local threads, byte for byte; no checkpoint stays."""
    cluster, home, checkpoints = tmp_path / "cluster", tmp_path / "executors", tmp_path / "checkpoints"
    with standalone.running(cluster, workers=2, cores=1, memory="1g") as url, ThreadPoolExecutor(1) as pool:
        kills = pool.submit(kill_each_executor, cluster, home / "warehouse")
        sizes = ("--driver-memory", "2g", "--executor-memory", "1g", "--conf", "spark.sql.shuffle.partitions=2")
        spark = ("--master", url, *sizes, "--conf", f"spark.checkpoint.dir={checkpoints}")
        documents = run_on_executors(home, spark)
        kills.result()
        executors = sorted(cluster.glob("worker-*/app-*/*/stdout"))
    assert len(executors) == 4
    assert list(checkpoints.iterdir()) == []
    assert list(documents) == list(first.files)
    pairs = {
        name: (_without_code_version(content), _without_code_version(first.files[name]))
        for name, content in documents.items()
    }
    assert [name for name, (of_executors, of_threads) in pairs.items() if of_executors != of_threads] == []


def kill_each_executor(cluster: Path, warehouse: Path) -> None:
    """Kill the executor of the first worker while ingest writes, that of the second while baseline writes."""
    until = time.monotonic() + SECONDS
    for worker, table in (("worker-1", "bronze_records"), ("worker-2", "baseline")):
        while not list(warehouse.glob(f"{table}/*.parquet")):
            assert time.monotonic() < until, f"no {table} in {warehouse}"
            time.sleep(0.1)
        folder = f"{cluster / worker}/app-"
        running = [pid for pid in process_stats() if _folder_of_process(pid).startswith(folder)]
        assert running
        for pid in running:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def _folder_of_process(pid: int) -> str:
    try:
        return os.readlink(f"/proc/{pid}/cwd")
    except OSError:  # the process has ended
        return ""


def _without_code_version(content: bytes | str) -> str:
    """A document without the code version, and without the digest of the manifest, which has it: the job's zip has a
    version, a test has none."""
    text = content.decode() if isinstance(content, bytes) else content
    return re.sub(r'"code_version": "[^"]*"|--manifest [0-9a-f]{8}|Made by Ballast \S*', "", text)


def test_a_stage_that_its_gate_refuses_has_no_successor(spark: SparkSession, tmp_path: Path) -> None:
    """The rows can still be read, but no later stage continues from them."""

    def one_finding(inputs: Frames, run: Run) -> Frames:
        return {"findings": run.spark.createDataFrame([FINDING], schema_of(schemas.ALL["findings"]))}

    def refuse(frames: Frames, run: Run) -> Refusals:
        return {"sample": QualityGateFailed(f"{frames['findings'].count()} rows are wrong")}

    run = Run(spark, "r", sample_run(spark, tmp_path).settings, "test")
    store = Store(run.settings.storage.warehouse, spark)
    refused = run_stage(Stage("solve", (), ("findings",), ("clusters",), one_finding, gate=refuse), run, store)
    assert str(refused["sample"]) == "1 rows are wrong"
    assert store.read("findings", run_id="r").count() == 1
    with pytest.raises(StageError, match="run the stage 'solve' first"):
        store.recorded_version("findings", "r")


def test_a_stage_that_failed_while_writing_has_no_duplicate_rows(spark: SparkSession, tmp_path: Path) -> None:
    """One table was written and the other refused, so nothing is recorded; the next process replaces the rows."""

    def with_violation(value: float | None) -> Stage:
        def frames(inputs: Frames, run: Run) -> Frames:
            rows = {"findings": FINDING, "curve": POINT}
            result = {
                name: run.spark.createDataFrame([row], schema_of(schemas.ALL[name])) for name, row in rows.items()
            }
            return {**result, "curve": result["curve"].withColumn("violation", F.lit(value).cast("double"))}

        return Stage("solve", (), ("findings", "curve"), (), frames)

    run = Run(spark, "r", sample_run(spark, tmp_path).settings, "test")
    with pytest.raises(BallastError, match="violation"):
        run_stage(with_violation(None), run, Store(run.settings.storage.warehouse, spark))
    store = Store(run.settings.storage.warehouse, spark)
    run_stage(with_violation(0.0), run, store)
    counts = {name: store.read(name, run_id="r").count() for name in ("findings", "curve")}
    assert counts == {"findings": 1, "curve": 1}


def killed(batches: Iterable[pd.DataFrame]) -> Iterable[pd.DataFrame]:
    """A pandas function whose process is killed."""
    os.kill(os.getpid(), signal.SIGKILL)
    return batches


@pytest.mark.parametrize("is_written", [True, False], ids=["while its rows are written", "before"])
def test_a_stage_whose_process_is_killed_says_so(spark: SparkSession, tmp_path: Path, *, is_written: bool) -> None:
    """The error is one line with a remedy, not Spark's report."""

    def dies(inputs: Frames, run: Run) -> Frames:
        schema = schema_of(schemas.ALL["findings"])
        frame = run.spark.createDataFrame([FINDING], schema).mapInPandas(killed, schema)
        return {"findings": frame if is_written else frame.localCheckpoint()}

    run = Run(spark, "r", sample_run(spark, tmp_path).settings, "test")
    with pytest.raises(WorkerGone, match=r"^a Python process of stage solve was killed .* give workers more memory"):
        run_stage(Stage("solve", (), ("findings",), (), dies), run, Store(run.settings.storage.warehouse, spark))


def test_every_table_has_the_stage_that_writes_it() -> None:
    """The stage that a message names for a missing table is the stage that writes it."""
    assert {table: stage.name for stage in STAGES for table in stage.writes} == WRITERS
