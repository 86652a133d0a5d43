"""Runs stay usable when they are old, and an attempt that fails before its first write changes nothing."""

import io
import shutil
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession

import schemas
from execution.tidy import Limits, tidy
from optimizer.errors import (
    AlreadyApproved,
    BallastError,
    ConfigError,
    InputError,
    QualityGateFailed,
    Removed,
    RowsChanged,
    Unreadable,
)
from optimizer.meter import Meter
from optimizer.stages.runner import run_stage, run_stages
from optimizer.stages.stage import Frames, Run, Stage
from optimizer.store import Store
from schemas.spark import schema_of
from schemas.verdicts import PLANNED
from stored.tables import Warehouse
from tests.pipeline.aged import age
from tests.pipeline.test_lineage import EMIT, PLAN, SOLVE, WAVE, run_of, store_of, with_two_findings, with_wave

PLAN_OF_ONE_WAVE = replace(PLAN, build=with_wave)
VERDICT = {"cluster_id": "c", "run_id": "r", "attempt": 1, "verdict": PLANNED, "exit_code": 0, "manifest_sha256": "ab"}
TABLES = ("findings", "waves", "documents", "verdicts", "runs")


@pytest.fixture(scope="module")
def two_runs(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A warehouse where run r has a plan, and a later run wrote the same tables."""
    run = run_of(spark, tmp_path_factory.mktemp("nights"))
    for stage in (SOLVE, PLAN_OF_ONE_WAVE, EMIT):
        run_stage(stage, run, store_of(run))
    store_of(run).put("verdicts", [VERDICT], replacing=None)
    later = replace(run, run_id="later")
    for stage in (SOLVE, PLAN_OF_ONE_WAVE, EMIT):
        run_stage(replace(stage, build=of_run("later", stage)), later, store_of(later))
    return Path(run.settings.storage.warehouse)


def of_run(run_id: str, stage: Stage) -> Callable[[Frames, Run], Frames]:
    """The rows that a stage builds, as rows of another run."""
    literal = f"'{run_id}'"
    return lambda inputs, run: {
        name: frame.selectExpr(*(f"{literal} AS run_id" if c == "run_id" else f"`{c}`" for c in frame.columns))
        for name, frame in stage.build(inputs, run).items()
    }


@pytest.fixture
def planned(spark: SparkSession, two_runs: Path, tmp_path: Path) -> Run:
    """Run r, in its own warehouse, with the files of its plan."""
    shutil.copytree(two_runs, tmp_path / "warehouse")
    run = run_of(spark, tmp_path)
    (run.folder / "c").mkdir(parents=True)
    (run.folder / "c" / "reassignment.json").write_text("{}")
    return run


def state(run: Run) -> dict[str, Any]:
    """Rows of every table of the run, and its files."""
    warehouse = Warehouse(run.settings.storage.warehouse)
    rows = {name: sorted(map(str, warehouse.rows(name, run_id=run.run_id))) for name in TABLES}
    return {**rows, "files": sorted(str(path) for path in run.folder.rglob("*"))}


def attempt(run: Run, *stages: Stage) -> str:
    """Run some stages again; returns the output."""
    stream = io.StringIO()
    run_stages(stages, run, Meter(run.spark, stream))
    return stream.getvalue()


def broken(inputs: Frames, run: Run) -> Frames:
    """A stage that reads a table that does not exist."""
    return {"waves": run.spark.read.schema(schema_of(schemas.ALL["waves"])).json("/nothing/is/here")}


def test_a_run_of_an_earlier_year_goes_on(planned: Run) -> None:
    """Its stages run again, alone and together, and find the same rows: they read no version that Delta refuses."""
    before = state(planned)
    age(Path(planned.settings.storage.warehouse), days=400)
    for stages in ([PLAN_OF_ONE_WAVE], [SOLVE], [SOLVE, PLAN_OF_ONE_WAVE]):
        attempt(planned, *stages)
    run_stage(EMIT, planned, store_of(planned))
    assert state(planned) == before


def test_a_run_goes_on_when_its_files_were_replaced(planned: Run) -> None:
    """After compaction and vacuum no recorded version can be read; the rows are the same, so the stage continues."""
    before = state(planned)
    for name in ("findings", "waves"):
        table = DeltaTable(store_of(planned).path(name))
        assert table.optimize.compact()["numFilesRemoved"] > 0
        assert table.vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False)
    run_stage(EMIT, planned, store_of(planned))
    attempt(planned, PLAN_OF_ONE_WAVE)
    assert state(planned) == before


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            "DELETE FROM {} WHERE run_id = 'r'",
            "table waves has 0 rows of the run, 1 were written: run the stage 'plan' again",
        ),
        (
            "UPDATE {} SET moved_bytes = 7 WHERE run_id = 'r'",
            "table waves has other rows than 'plan' wrote: run the stage 'plan' again",
        ),
    ],
)
def test_rows_that_somebody_changed_stop_a_stage(spark: SparkSession, planned: Run, change: str, message: str) -> None:
    """Exit code 1 names table and reason, nothing is changed; the stage that wrote them writes them again."""
    spark.sql(change.format(f"delta.`{store_of(planned).path('waves')}`"))
    before = state(planned)
    with pytest.raises(RowsChanged, match=message) as caught:
        attempt(planned, EMIT)
    assert caught.value.exit_code == 1
    assert state(planned) == before
    run_stage(PLAN_OF_ONE_WAVE, planned, store_of(planned))
    assert [row.moved_bytes for row in store_of(planned).current_rows("waves", "r")] == [WAVE["moved_bytes"]]
    run_stage(EMIT, planned, store_of(planned))


def test_all_changed_tables_are_named(planned: Run) -> None:
    """One attempt reports every stage that must run again; a missing table is named, too."""
    store = store_of(planned)
    shutil.rmtree(store.path("findings"))
    planned.spark.sql(f"DELETE FROM delta.`{store.path('waves')}` WHERE run_id = 'r'")
    with pytest.raises(
        RowsChanged,
        match=r"(?s)the table findings does not exist any more: .*'solve'.*table waves has 0 rows of the run",
    ):
        attempt(planned, replace(EMIT, reads=("findings", "waves")))


def test_rows_of_another_release_are_counted(spark: SparkSession, planned: Run) -> None:
    """An additional column changes every hash, so for a run of another release only row counts are compared."""
    store = store_of(planned)
    spark.sql(f"UPDATE delta.`{store.path('runs')}` SET code_version = 'older' WHERE stage = 'plan'")
    spark.sql(f"UPDATE delta.`{store.path('waves')}` SET peak_disk_bytes = 7 WHERE run_id = 'r'")
    run_stage(EMIT, planned, store_of(planned))
    spark.sql(f"DELETE FROM delta.`{store.path('waves')}` WHERE run_id = 'r'")
    with pytest.raises(RowsChanged, match="table waves has 0 rows of the run"):
        run_stage(EMIT, planned, store_of(planned))


@pytest.mark.parametrize("stages", [[PLAN], [SOLVE, PLAN]], ids=["a stage alone", "after a stage that wrote nothing"])
def test_what_fails_before_its_first_write_changes_nothing(planned: Run, stages: list[Stage]) -> None:
    """Rows, verdicts and files of the plan stay, as the output says; the next attempt succeeds."""
    before = state(planned)
    failing = [replace(stage, build=broken) if stage.name == "plan" else stage for stage in stages]
    stream = io.StringIO()
    with pytest.raises(Exception, match="/nothing/is/here"):
        run_stages(failing, planned, Meter(planned.spark, stream))
    assert state(planned) == before
    assert "nothing was changed: the run keeps its earlier plan, verdict and files" in stream.getvalue()
    attempt(planned, PLAN_OF_ONE_WAVE)
    assert state(planned) == before


def test_all_rows_of_a_stage_are_computed_before_the_first_is_written(planned: Run) -> None:
    """If a table cannot be computed, the other table of the stage stays unchanged, although its rows differ."""
    before = state(planned)
    both = replace(
        SOLVE,
        writes=("findings", "waves"),
        build=lambda inputs, run: {**with_two_findings(inputs, run), **broken(inputs, run)},
    )
    with pytest.raises(Exception, match="/nothing/is/here"):
        attempt(planned, both)
    assert state(planned) == before


def test_other_settings_change_no_record_before_the_first_write(spark: SparkSession, planned: Run) -> None:
    """A stage that gives the same rows with other settings is recorded only if something changes."""
    other = run_of(spark, planned.folder.parent.parent, policy={"max_moves": 8})
    before = state(planned)
    with pytest.raises(Exception, match="/nothing/is/here"):
        attempt(other, SOLVE, replace(PLAN, build=broken))
    assert state(planned) == before
    attempt(other, SOLVE, replace(PLAN, build=with_wave_of(2)))
    record = store_of(other).run_record("r", "solve")
    assert record is not None
    assert record.config_hash == other.settings.config_hash()


def with_wave_of(moved_bytes: int) -> Callable[[Frames, Run], Frames]:
    """A plan of one wave that copies this many bytes."""
    return lambda inputs, run: {
        "waves": run.spark.createDataFrame([{**WAVE, "moved_bytes": moved_bytes}], schema_of(schemas.ALL["waves"]))
    }


def test_an_input_that_is_gone_changes_nothing(planned: Run) -> None:
    """The attempt's verdict is returned, but the plan's verdict and its stage times stay stored."""

    def unreadable(inputs: Frames, run: Run) -> Frames:
        raise Unreadable({"c": InputError("the folder is gone")})

    before, meter = state(planned), Meter(planned.spark, io.StringIO())
    verdicts = run_stages([replace(SOLVE, build=unreadable)], planned, meter)
    assert (verdicts["c"].verdict, verdicts["c"].exit_code) == ("unreadable", 1)
    assert state(planned) == before
    assert meter.stages == []


def test_wrong_use_changes_nothing(planned: Run) -> None:
    """A setting that does not fit the cluster (exit code 2) is no verdict on the plan; a failed check (3) is one."""
    before = state(planned)
    attempt(planned, replace(SOLVE, gate=lambda frames, run: {"c": ConfigError("there is no broker 77")}))
    assert state(planned) == before
    attempt(planned, replace(SOLVE, gate=lambda frames, run: {"c": QualityGateFailed("rows are wrong")}))
    assert [row.verdict for row in store_of(planned).current_rows("verdicts", "r")] == ["refused"]
    assert store_of(planned).current_rows("waves", "r") == []


def test_a_cluster_that_is_refused_again_costs_its_neighbour_nothing(spark: SparkSession, planned: Run) -> None:
    """It had no plan, so nothing changes if a later stage fails."""
    clusters = [{"id": name, "input": "in"} for name in ("c", "d")]
    fleet = run_of(spark, planned.folder.parent.parent, clusters=clusters)
    refused = {**VERDICT, "cluster_id": "d", "verdict": "refused", "stage": "solve", "exit_code": 3, "reason": "rows"}
    store_of(planned).put("verdicts", [refused], replacing=None)
    before = state(planned)
    refuses = replace(SOLVE, gate=lambda frames, run: {"d": QualityGateFailed("rows are wrong")})
    with pytest.raises(Exception, match="/nothing/is/here"):
        attempt(fleet, refuses, replace(PLAN, build=broken))
    assert state(planned) == before


def test_a_plan_that_is_approved_meanwhile_stays(planned: Run) -> None:
    """An approval between the job's start and its first write ends the attempt, even if it was revoked since; nothing
    is changed."""
    approval = {
        **{"cluster_id": "c", "run_id": "r", "manifest_sha256": "ab", "approved_by": "ann", "approved_from": "here"},
        **{"approved_at": datetime(2026, 11, 1, tzinfo=UTC), "is_revocation": False},
    }
    revocation = {**approval, "approved_by": "a first name", "is_revocation": True}

    def approved_meanwhile(inputs: Frames, run: Run) -> Frames:
        store_of(planned).put("approvals", [revocation, approval], replacing=None)
        return with_wave_of(7)(inputs, run)

    before = state(planned)
    with pytest.raises(AlreadyApproved, match="ann has approved the plan of run 'r'"):
        attempt(planned, replace(PLAN, build=approved_meanwhile))
    assert state(planned) == before


def test_a_removed_run_is_not_planned_again(planned: Run) -> None:
    """Whatever stage it starts with; its history stays. The runs next to it go on, and store nothing again."""
    storage = planned.settings.storage
    warehouse, later = Warehouse(storage.warehouse), replace(planned, run_id="later")
    newer = ("later", "n1", "n2")
    warehouse.append("verdicts", [{**VERDICT, "run_id": run_id, "manifest_sha256": None} for run_id in newer])
    before, in_a_year = state(later), datetime.now(tz=UTC) + timedelta(days=365)
    limits = Limits(keep_days=8, history_days=400, now=in_a_year)
    tidy(storage, limits, dry_run=False, say=lambda line: None)
    removed = state(planned)
    assert [len(removed[name]) for name in TABLES] == [0, 1, 0, 1, 1]
    for stage in (SOLVE, PLAN_OF_ONE_WAVE):
        with pytest.raises(Removed, match=r"run 'r' was removed by tidy: .* give another --run-id"):
            attempt(planned, stage)
    assert state(planned) == removed
    attempt(later, replace(SOLVE, build=of_run("later", SOLVE)))
    assert {**state(later), "verdicts": before["verdicts"]} == before


def test_a_stage_behind_one_that_failed_says_what_to_run(spark: SparkSession, tmp_path: Path) -> None:
    """Rows of the failed stage may still exist; the verdict counts, and names the stage to run again."""
    run = run_of(spark, tmp_path)
    attempt(run, SOLVE)
    with pytest.raises(Exception, match="/nothing/is/here"):
        attempt(run, replace(SOLVE, build=broken))
    assert "failed in solve: " in (output := attempt(run, PLAN))
    assert "run the stage 'solve' again first" in output


def test_inputs_that_cannot_be_read_change_nothing(planned: Run) -> None:
    """A file of a table is missing: the error names the table, and comes before any file is moved away."""
    path = Path(store_of(planned).path("findings"))
    files = sorted(path.glob("*.parquet"))
    contents = {file: file.read_bytes() for file in files}
    before = state(planned)
    for file in files:
        file.unlink()
    with pytest.raises(BallastError, match=r"table findings: "):
        attempt(planned, PLAN_OF_ONE_WAVE)
    for file, content in contents.items():
        file.write_bytes(content)
    assert state(planned) == before
    attempt(planned, PLAN_OF_ONE_WAVE)


def test_an_error_between_two_writes_is_a_failed_attempt(planned: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """The old files are moved away, inconsistent rows are deleted, and the next attempt succeeds."""

    def full(self: Store, table: str, rows: DataFrame, where: str | None) -> None:
        if table == "waves":
            raise OSError("the storage does not answer")
        put(self, table, rows, where)

    put = Store._put
    rows = [WAVE, {**WAVE, "wave": 2}]
    schema = schema_of(schemas.ALL["waves"])
    two_waves = replace(PLAN, build=lambda inputs, run: {"waves": run.spark.createDataFrame(rows, schema)})
    with monkeypatch.context() as storage, pytest.raises(OSError, match="does not answer"):
        storage.setattr(Store, "_put", full)
        attempt(planned, replace(SOLVE, build=with_two_findings), two_waves)
    store = store_of(planned)
    assert [len(store.current_rows(name, "r")) for name in ("findings", "waves", "documents")] == [2, 0, 0]
    assert {path.name for path in planned.folder.iterdir()} == {"superseded-c-1", "index.html", "report.css"}
    (verdict,) = store.current_rows("verdicts", "r")
    assert (verdict.verdict, verdict.stage) == ("failed", "plan")
    attempt(planned, two_waves)
    run_stage(EMIT, planned, store_of(planned))
    assert [len(store_of(planned).current_rows(name, "r")) for name in ("findings", "waves")] == [2, 2]
