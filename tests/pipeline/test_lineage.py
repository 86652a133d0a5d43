"""A stage that runs alone continues only from tables of the same versions and the same settings."""

import io
import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import schemas
from optimizer.configuration import build
from optimizer.declared import DECLARED, NAMES, can_read
from optimizer.errors import ConfigError, StageError
from optimizer.meter import Meter
from optimizer.settings import Settings
from optimizer.stages import lineage
from optimizer.stages.runner import run_stage, run_stages
from optimizer.stages.stage import Frames, Refusals, Run, Stage
from optimizer.store import RunRecord, Store
from schemas.spark import schema_of
from schemas.table import column

FINDING = {
    "cluster_id": "c",
    "run_id": "r",
    "rule": "band",
    "code": "band",
    "subject": "broker 1",
    "when": "after",
    "remedy": "none",
}
SETTINGS = {"clusters": [{"id": "c", "input": "in"}], "policy": {"max_moves": 9}}


def stage(name: str, reads: tuple[str, ...], table: str, detail: str = "") -> Stage:
    """A stage that writes one table: one finding if there is a detail, otherwise no row."""
    rows = [{**FINDING, "detail": detail}] if detail else []

    def frames(inputs: Frames, run: Run) -> Frames:
        return {table: run.spark.createDataFrame(rows, schema_of(schemas.ALL[table]))}

    return Stage(name, reads, (table,), DECLARED[name].settings, frames)


WAVE = {
    "cluster_id": "c",
    "run_id": "r",
    "wave": 1,
    "partitions": 1,
    "replicas_moved": 1,
    "moved_bytes": 1,
    "busiest_broker": 1,
    "busiest_bytes": 1,
    "throttle_bytes_per_s": 1,
    "estimated_seconds": 1,
    "below_floor": False,
    "peak_disk_bytes": 1,
    "least_seconds": 1,
    "most_seconds": 1,
    "copy_bytes_per_s": 1,
    "requested_bytes_per_s": 1,
    "inside_brokers": False,
}
SOLVE = stage("solve", (), "findings", "one")
PLAN = stage("plan", ("findings",), "waves")
EMIT = stage("emit", ("waves",), "documents")


def with_wave(inputs: Frames, run: Run) -> Frames:
    """A plan of one wave."""
    return {"waves": run.spark.createDataFrame([WAVE], schema_of(schemas.ALL["waves"]))}


def with_two_findings(inputs: Frames, run: Run) -> Frames:
    """Different rows from those of ``SOLVE``."""
    rows = [{**FINDING, "subject": subject, "detail": "two"} for subject in ("broker 1", "broker 2")]
    return {"findings": run.spark.createDataFrame(rows, schema_of(schemas.ALL["findings"]))}


def run_of(spark: SparkSession, folder: Path, **changes: object) -> Run:
    """A run with some settings changed."""
    storage = {"storage": {"warehouse": str(folder / "warehouse"), "output": str(folder / "out")}}
    return Run(spark, "r", build({**SETTINGS, **storage, **changes}), "test")


@pytest.fixture(scope="module")
def warehouse(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tables of a run with three stages."""
    run = run_of(spark, tmp_path_factory.mktemp("emitted"))
    for each in (SOLVE, PLAN, EMIT):
        run_stage(each, run, store_of(run))
    return Path(run.settings.storage.warehouse)


@pytest.fixture
def emitted(spark: SparkSession, warehouse: Path, tmp_path: Path) -> Run:
    """That run with its own copy of the tables."""
    shutil.copytree(warehouse, tmp_path / "warehouse")
    return run_of(spark, tmp_path)


def store_of(run: Run) -> Store:
    """A new store, as in a new process."""
    return Store(run.settings.storage.warehouse, run.spark)


def test_a_stage_goes_on_from_one_state_only(emitted: Run) -> None:
    """After findings are replaced, the old plan is not emitted; after planning again, the new one is."""
    run_stage(stage("solve", (), "findings", "another"), emitted, store_of(emitted))
    message = "'plan' read version 1 of the table findings, and 'solve' has written version 2 since: run 'plan' again"
    with pytest.raises(StageError, match=message):
        run_stage(EMIT, emitted, store_of(emitted))
    for each in (PLAN, EMIT):
        run_stage(each, emitted, store_of(emitted))


def test_settings_that_were_read_may_not_change(spark: SparkSession, emitted: Run, tmp_path: Path) -> None:
    """A limit that the plan was not made with is refused, by name, and so is a style of throttles that the waves were
    not timed with; what no stage behind a table has read may differ."""
    other = run_of(spark, tmp_path, policy={"max_moves": 8, "move_price": 1.0}, emit={"throttle_style": "kafka"})
    message = "'solve' was run with another value of policy.max_moves, policy.move_price: give 'emit' the same file"
    with pytest.raises(StageError, match=message):
        run_stage(EMIT, other, store_of(other))
    timed_otherwise = run_of(spark, tmp_path, emit={"throttle_style": "kafka"})
    with pytest.raises(StageError, match=r"'plan' was run with another value of emit\.throttle_style: give 'emit'"):
        run_stage(EMIT, timed_otherwise, store_of(other))
    run_stage(EMIT, run_of(spark, tmp_path, baseline={"seed": 1}), store_of(other))


@pytest.mark.parametrize("name", NAMES)
def test_a_stage_gets_the_settings_that_it_declares(spark: SparkSession, tmp_path: Path, name: str) -> None:
    """Build, report, gate and publish see only the declared sections; any other raises an error."""
    observed_runs: list[Run] = []

    def build(inputs: Frames, run: Run) -> Frames:
        observed_runs.append(run)
        return {"findings": run.spark.createDataFrame([], schema_of(schemas.ALL["findings"]))}

    def look(frames: Frames, run: Run) -> Refusals:
        observed_runs.append(run)
        return {}

    def write(frames: Frames, run: Run) -> None:
        observed_runs.append(run)

    run = run_of(spark, tmp_path)
    looking = Stage(name, (), ("findings",), DECLARED[name].settings, build, gate=look, report=write, publish=write)
    run_stage(looking, run, store_of(run))
    assert len(observed_runs) == 4
    for section in vars(run.settings):
        for observed in observed_runs:
            if any(named == section or named.startswith(f"{section}.") for named in DECLARED[name].settings):
                check_knobs(section, observed.settings, run.settings, DECLARED[name].settings)
            else:
                with pytest.raises(AttributeError, match=section):
                    getattr(observed.settings, section)


def check_knobs(section: str, seen: Settings, given: Settings, declared: tuple[str, ...]) -> None:
    """A section has every declared knob and no other, not even with its default."""
    if section == "clusters":
        assert seen.clusters == given.clusters
        return
    values = getattr(given, section)
    for knob, value in vars(values).items():
        if can_read(declared, section, knob):
            assert getattr(getattr(seen, section), knob) == value
        else:
            with pytest.raises(AttributeError, match=knob):
                getattr(getattr(seen, section), knob)


def test_single_knobs_are_declared() -> None:
    """Only emit reads the price, ``max_unexplained``, ``valid_hours`` and ``plan_log_dirs``; plan reads the style."""
    for section, knob, readers in (
        ("policy", "max_unexplained", ["emit"]),
        ("policy", "cross_rack_price_per_gb", ["emit"]),
        ("schedule", "valid_hours", ["emit"]),
        ("schedule", "batch_kb", ["solve", "plan", "emit"]),
        ("policy", "disk_headroom", ["ingest", "validate", "snapshot", "solve", "plan", "emit"]),
        ("emit", "plan_log_dirs", ["emit"]),
        ("emit", "throttle_style", ["plan", "emit"]),
        ("solver", "rounds", ["solve", "plan"]),
    ):
        assert [name for name in NAMES if can_read(DECLARED[name].settings, section, knob)] == readers


def test_what_no_stage_has_read_may_be_set_higher(spark: SparkSession, emitted: Run, tmp_path: Path) -> None:
    """The share that the gate of emit refuses at, and whether documents name directories: earlier stages stand."""
    other = run_of(spark, tmp_path, policy={"max_moves": 9, "max_unexplained": 0.5}, emit={"plan_log_dirs": True})
    assert run_stage(EMIT, other, store_of(other)) == {}


def test_a_run_from_its_first_stage_takes_any_settings(spark: SparkSession, emitted: Run, tmp_path: Path) -> None:
    """Every stage runs again, one after the other, so nothing of the old settings remains."""
    other = run_of(spark, tmp_path, policy={"max_moves": 8})
    for each in (SOLVE, PLAN, EMIT):
        run_stage(each, other, store_of(other))
    record = store_of(other).run_record("r", "emit")
    assert record is not None
    assert record.config_hash == other.settings.config_hash() != emitted.settings.config_hash()


def test_a_job_that_cannot_begin_leaves_everything(spark: SparkSession, tmp_path: Path) -> None:
    """Wrong use is no attempt: earlier published files stay, and no verdict is written."""
    run = run_of(spark, tmp_path)
    document = run.folder / "c" / "reassignment.json"
    document.parent.mkdir(parents=True)
    document.write_text("{}")
    with pytest.raises(StageError, match="run the stage 'solve' first"):
        run_stages([PLAN], run, Meter(spark, io.StringIO()))
    assert document.is_file()
    assert store_of(run).current_rows("verdicts", "r") == []
    run_stages([SOLVE], run, Meter(spark, io.StringIO()))
    assert {path.name for path in run.folder.iterdir()} == {"superseded-c-1", "index.html", "report.css"}
    assert [(row.attempt, row.verdict) for row in store_of(run).current_rows("verdicts", "r")] == [(1, "started")]


def test_a_stage_that_fails_is_every_clusters_failure(spark: SparkSession, tmp_path: Path) -> None:
    """Its error goes on, and the verdict names the stage; rows that it has not changed stay, and so do later ones."""

    def broken(inputs: Frames, run: Run) -> Frames:
        raise ValueError("no such thing\nand more")

    run = run_of(spark, tmp_path)
    run_stages([SOLVE, replace(PLAN, build=with_wave)], run, Meter(spark, io.StringIO()))
    assert len(store_of(run).current_rows("waves", "r")) == 1
    with pytest.raises(ValueError, match="no such thing"):
        run_stages([replace(SOLVE, build=broken)], run, Meter(spark, io.StringIO()))
    (row,) = store_of(run).current_rows("verdicts", "r")
    assert (row.verdict, row.stage, row.exit_code, row.reason) == ("failed", "solve", 1, "ValueError: no such thing")
    assert [len(store_of(run).current_rows(table, "r")) for table in ("findings", "waves")] == [1, 1]
    with pytest.raises(ValueError, match="no such thing"):
        run_stages(
            [replace(SOLVE, build=with_two_findings), replace(PLAN, build=broken)], run, Meter(spark, io.StringIO())
        )
    assert [len(store_of(run).current_rows(table, "r")) for table in ("findings", "waves")] == [2, 0]
    assert [store_of(run).run_record("r", stage) is None for stage in ("solve", "plan")] == [False, True]


def test_a_run_goes_on_in_an_older_warehouse(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tables of an older release, with rows, get the missing columns: a stage's table, and the verdicts."""
    run = run_of(spark, tmp_path)
    older = [("waves", "busiest_broker"), ("verdicts", "manifest_sha256")]
    with monkeypatch.context() as release:
        for name, optional in older:
            columns = tuple(c for c in schemas.ALL[name].columns if c.name != optional)
            release.setitem(schemas.ALL, name, replace(schemas.ALL[name], columns=columns))
            store_of(run).ensure(name)
    run_stages([SOLVE, replace(PLAN, build=with_wave)], run, Meter(spark, io.StringIO()))
    for name, optional in older:
        assert len(store_of(run).current_rows(name, "r")) == 1
        assert spark.read.format("delta").load(store_of(run).path(name)).columns[-1] == optional


def test_a_table_of_another_type_stops_a_run_before_any_work(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A table that the last stage could not write is reported before the first; nothing is stored."""
    run = run_of(spark, tmp_path)
    with monkeypatch.context() as release:
        columns = tuple(
            column("peak_disk_bytes", "double", "other") if c.name == "peak_disk_bytes" else c
            for c in schemas.ALL["waves"].columns
        )
        release.setitem(schemas.ALL, "waves", replace(schemas.ALL["waves"], columns=columns))
        store_of(run).ensure("waves")
    message = "table waves .* column peak_disk_bytes is double NOT NULL in the table, bigint NOT NULL in this release"
    with pytest.raises(ConfigError, match=message):
        run_stages([SOLVE, PLAN], run, Meter(spark, io.StringIO()))
    assert not store_of(run).exists("findings")
    assert store_of(run).current_rows("verdicts", "r") == []


def test_a_knob_that_is_left_out_at_its_default_has_changed_too() -> None:
    """``start_at`` is in the stored settings only if it is set."""
    with_width, without = ({"clusters": [], "policy": policy} for policy in ({"start_at": 0.15}, {}))
    for before, now in ((with_width, without), (without, with_width)):
        record = RunRecord(
            run_id="r",
            stage="solve",
            code_version="v",
            config_hash="h",
            config_json=json.dumps(before),
            reads={},
            writes={},
            fingerprints={},
        )
        assert [*lineage._changed_settings(record, now)] == ["policy.start_at"]
