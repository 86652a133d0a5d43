"""The runner: a run repeated changes nothing, a past plan can be recomputed, a refused stage is a dead end."""

import io
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import schemas
from optimizer.configuration import build, merge, read_toml
from optimizer.errors import QualityGateFailed, StageError
from optimizer.frames import solve
from optimizer.pipeline import STAGES, run_stage, run_stages
from optimizer.resources import Meter
from optimizer.stages import Frames, Run, Stage
from optimizer.store import WRITERS, Store
from setup.paths import HOME

KEYS = {"cluster_id": "c", "run_id": "r", "rule": "band", "subject": "broker 1", "when": "after"}
FINDING = {**KEYS, "detail": "disk", "remedy": "none"}


def sample_run(spark: SparkSession, folder: Path) -> Run:
    """A run of the bundled sample below a folder."""
    content = merge(read_toml(HOME / "conf" / "default.toml"), read_toml(HOME / "conf" / "sample.toml"))
    places = {"storage": {"warehouse": str(folder / "warehouse"), "output": str(folder / "out")}}
    return Run(spark, "again", build(merge(content, places)), "test")


def versions(run: Run) -> dict[str, int]:
    """Newest version of every table."""
    store = Store(run.settings.storage.warehouse, run.spark)
    return {name: store.latest_version(name) for name in schemas.ALL}


def files(run: Run) -> dict[str, bytes]:
    """Every file that is handed over."""
    folder = Path(run.settings.storage.output) / run.run_id / "sample"
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.mark.slow
def test_a_repeated_run_changes_nothing_and_can_be_recomputed(spark: SparkSession, tmp_path: Path) -> None:
    """All stages twice: every Delta version and every file stay; the pinned instance gives the same plan again."""
    run = sample_run(spark, tmp_path)
    run_stages(STAGES, run, Meter(spark, io.StringIO()))
    first_versions, first_files = versions(run), files(run)
    assert {"reassignment.json", "rollback.json", "runbook.md", "report.html", "summary.txt"} <= set(first_files)

    run_stages(STAGES, run, Meter(spark, io.StringIO()))
    assert versions(run) == first_versions
    assert files(run) == first_files

    store = Store(run.settings.storage.warehouse, spark)
    record = store.run_record(run.run_id, "solve")
    assert record is not None
    assert record.config_hash == run.settings.config_hash()
    pinned = {name: store.read(name, version=version, run_id=run.run_id) for name, version in record.reads.items()}
    again = schemas.conform(solve.build(pinned, run)["proposal"], schemas.ALL["proposal"])
    stored = store.read("proposal", version=record.writes["proposal"], run_id=run.run_id)
    assert sorted(map(repr, again.collect())) == sorted(map(repr, stored.collect()))


def test_a_stage_that_its_gate_refuses_is_a_dead_end(spark: SparkSession, tmp_path: Path) -> None:
    """The rows are kept for reading, but no later stage can go on from them."""

    def one_finding(inputs: Frames, run: Run) -> Frames:
        return {"findings": run.spark.createDataFrame([FINDING], schemas.ALL["findings"].schema)}

    def refuse(frames: Frames, run: Run) -> None:
        raise QualityGateFailed(f"{frames['findings'].count()} rows are wrong")

    run = Run(spark, "r", sample_run(spark, tmp_path).settings, "test")
    store = Store(run.settings.storage.warehouse, spark)
    with pytest.raises(QualityGateFailed, match="1 rows are wrong"):
        run_stage(Stage("solve", (), ("findings",), one_finding, gate=refuse), run, store)
    assert store.read("findings", version=store.latest_version("findings"), run_id="r").count() == 1
    with pytest.raises(StageError, match="run the stage 'solve' first"):
        store.pinned("findings", "r")


def test_every_table_has_the_stage_that_writes_it() -> None:
    """What a missing table is said to come from is the stage that writes it."""
    assert {table: stage.name for stage in STAGES for table in stage.writes} == WRITERS
