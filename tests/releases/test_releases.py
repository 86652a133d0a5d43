"""Nights of earlier releases still work: what people approved, and a wave that holds a cluster, survive an upgrade."""

import io
import json
import shutil
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from asking.cli import main as ask
from execution.approve import approve
from execution.cli import main as ballast
from execution.held import held_wave
from execution.planned import Plan, load
from execution.status import status
from optimizer import VERSION
from optimizer.configuration import build, merge, read_toml
from optimizer.errors import AlreadyApproved
from optimizer.meter import Meter
from optimizer.stages.runner import STAGES, run_stages
from optimizer.stages.stage import Run
from optimizer.stages.verdicts import exit_code
from setup.paths import HOME
from stored.tables import Warehouse
from tests.releases.make import CLUSTER, FOLDER, HOURS, RUN, STATE, archive_of, execution, kafka_of, waves_of

RELEASES = sorted(path.name.removesuffix(".tar.xz") for path in FOLDER.glob("*.tar.xz"))


@pytest.fixture(scope="module", params=RELEASES)
def night(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The unpacked night of a release."""
    folder = tmp_path_factory.mktemp("release")
    with tarfile.open(archive_of(request.param)) as archive:
        archive.extractall(folder, filter="data")
    return folder / str(request.param)


@pytest.fixture
def warehouse(night: Path) -> Warehouse:
    """Its warehouse."""
    return Warehouse(str(night / "warehouse"))


def plan_of(warehouse: Warehouse) -> Plan:
    """Its plan."""
    return load(warehouse, cluster_id=CLUSTER, run_id=RUN)


def test_this_release_has_an_archive() -> None:
    """And the changelog a section; the newest release is the first."""
    assert VERSION in RELEASES
    heads = [
        line for line in (HOME / "CHANGELOG.md").read_text(encoding="utf-8").splitlines() if line.startswith("## ")
    ]
    assert next(head for head in heads if "Unreleased" not in head).startswith(f"## [{VERSION}] - ")


def test_its_plan_is_shown_and_approved(night: Path, warehouse: Warehouse, capsys: pytest.CaptureFixture[str]) -> None:
    """With its summary, its approval and the wave that holds the cluster."""
    key = ["--run-id", RUN, "--cluster", CLUSTER, "--warehouse", warehouse.path]
    assert ballast(["show", *key]) == 0
    out = capsys.readouterr().out
    assert out.startswith("sample: planned\n  manifest ")
    assert "  approved by ann" in out
    assert ballast(["show", "--json", *key]) == 0
    assert json.loads(capsys.readouterr().out)["approved_by"] == ["ann"]
    assert approve(warehouse, plan_of(warehouse), manifest_sha256="", by="bob", max_hours=HOURS).startswith("Approved")
    assert ballast(["report", *key, "--to", str(night / "again")]) == 0
    assert (night / "again" / RUN / CLUSTER / "report.html").is_file()


def test_its_questions_are_answered(warehouse: Warehouse, capsys: pytest.CaptureFixture[str]) -> None:
    """From its facts, with this release's solver."""
    key = ["--run-id", RUN, "--cluster", CLUSTER, "--warehouse", warehouse.path]
    assert ask(["ask", *key, "--only", "racks"]) == 0
    assert "to execute it, plan again with --only racks" in capsys.readouterr().out
    assert ask(["ask", *key, "--restart"]) == 0
    assert capsys.readouterr().out.startswith("Restart in ")


def test_its_wave_is_ended(night: Path, warehouse: Warehouse) -> None:
    """``status`` reads the wave, ``wave off`` cancels it and restores the throttles from before."""
    kafka = kafka_of(json.loads((night / STATE).read_text(encoding="utf-8")))
    plan, wave, _ = held_wave(warehouse, CLUSTER)
    lines: list[str] = []
    step = execution(warehouse, plan, wave, kafka, lines)
    assert status(step).wave == 1
    moved = dict(kafka.moves)
    assert moved
    step.off(cancel=True, accept_owed=False)
    first, *_ = waves_of(warehouse, plan)
    assert (kafka.moves, kafka.throttles) == ({}, dict(first.previous_throttles))
    assert {partition: kafka.replicas[partition] for partition in moved} == {p: first.before[p] for p in moved}
    assert lines[-1].endswith("the cluster is free")


def stages_of(spark: SparkSession, night: Path, run_id: str, stages: Sequence[Any]) -> dict[str, Any]:
    """Run stages in its warehouse."""
    content = merge(read_toml(HOME / "conf" / "default.toml"), read_toml(HOME / "conf" / "sample.toml"))
    storage = {"warehouse": str(night / "warehouse"), "output": str(night / "out")}
    run = Run(spark, run_id, build(merge(content, {"storage": storage})), "test")
    return dict(run_stages(stages, run, Meter(spark, io.StringIO())))


@pytest.mark.all_only
def test_its_stages_and_the_next_night_run(spark: SparkSession, night: Path, warehouse: Warehouse) -> None:
    """A repeat is refused as long as the plan is approved; then a stage alone, a repeat and the next night work."""
    with pytest.raises(AlreadyApproved):
        stages_of(spark, night, RUN, STAGES)
    shutil.rmtree(night / "warehouse" / "approvals")
    for run_id, stages in ((RUN, STAGES[-1:]), (RUN, STAGES), ("next", STAGES)):
        assert exit_code(stages_of(spark, night, run_id, stages)) == 0
    assert load(warehouse, cluster_id=CLUSTER, run_id="next").waves == plan_of(warehouse).waves
