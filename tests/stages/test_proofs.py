"""What is proven of a plan, from the shard that proves it to the pages that people read."""

from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql import SparkSession

from optimizer.configuration import build
from optimizer.planning.memory_placement import MemoryPlacement
from optimizer.solve import certificate, driver
from optimizer.solve.tuning import TUNED
from optimizer.stages.solve import solve as stage
from optimizer.stages.stage import Frames
from tests.stages import planned
from tests.stages.placed import solved_in_process

# A short curve: the long one takes most of the time, and proves nothing.
BRIEF = replace(planned.SETTINGS, solver=replace(planned.SETTINGS.solver, curve_brokers=0))
NARROW = build({"policy": {"disk_band": 0.3, "replicas_band": 0.4, "in_band": 0.4}, "solver": {"curve_brokers": 0}})


def small_cluster() -> dict[str, list[dict[str, Any]]]:
    """Five brokers on three racks, the last one new, and 20 partitions of RF 2: few enough to try all placements."""
    tables = planned.cluster()
    brokers = [{**row, "accepts_replicas": True, "accepts_leadership": True} for row in tables["instance_brokers"][1:6]]
    partitions = []
    for number, row in enumerate(tables["instance"][:20]):
        replicas = [101 + number % 4, 101 + (number + 1 + number % 2) % 4]
        fields = {"replicas": replicas, "leader": replicas[0], "isr": sorted(replicas), "replication_factor": 2}
        partitions.append({**row, **fields, "log_dirs": ["any"] * 2})
    return {"instance": partitions, "instance_brokers": brokers}


@pytest.fixture(scope="module")
def small(spark: SparkSession) -> Frames:
    """The small cluster with a finished plan."""
    run = planned.run_of(spark, NARROW)
    return planned.finished(run, planned.solved(run, small_cluster()))


@pytest.mark.small_plan
def test_small_cluster_has_an_exact_bound_and_no_gap(small: Frames) -> None:
    """The best bound is the exact one, the plan moves just as many bytes, and summary and report say so."""
    best = [row for row in small["bounds"].collect() if row.is_best]
    moved = sum(row.size_bytes for row in small["moves"].collect())
    assert [(row.kind, row.bound_bytes) for row in best] == [("exact", moved)]
    assert moved > 0
    figures = {row.figure: row.after for row in small["plan_summary"].collect()}
    assert figures["gap_percent"] == 0.0
    texts = {row.kind: row.content for row in small["documents"].collect()}
    assert "(proven: exact bound)" in texts["summary"]
    assert "copies at least this much, exact to the byte." in texts["report"]
    assert {row.search_bytes for row in small["shard_results"].collect() if row.status == "OPTIMAL"} == {moved}


def test_leaders_have_bounds_of_their_own(small: Frames) -> None:
    """Each measure of the leaders has its least; the changes are those of the plan, and the summary names the least."""
    bounds = {row.measure: (row.planned, row.bound) for row in small["leader_bounds"].collect()}
    assert sorted(bounds) == ["leader_changes", "leaders_outside", "out_outside_bytes_per_s"]
    assert all(0 <= bound <= planned for planned, bound in bounds.values())
    planned, bound = bounds["leader_changes"]
    assert planned == small["leaders"].count() > 0
    figures = {row.figure: row.after for row in small["plan_summary"].collect()}
    assert (figures["leader_changes"], figures["leader_changes_bound"]) == (planned, bound)
    texts = {row.kind: " ".join(row.content.split()) for row in small["documents"].collect()}
    changes = "1 preferred leader changes" if planned == 1 else f"{planned} preferred leaders change"
    fewest = (
        f"{changes}, the fewest possible with" if planned == bound else f"this balance, at least {bound} must change"
    )
    assert all(fewest in texts[page] for page in ("summary", "report"))


def solved_here(rows: dict[str, list[dict[str, Any]]]) -> driver.Solved[MemoryPlacement]:
    """The plan in this process."""
    return solved_in_process(rows["instance"], rows["instance_brokers"], BRIEF)


def test_bounds_stand_though_the_prices_of_classes_fail(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The Lagrangian bound is that of the other prices, and the warning names cluster and cause."""

    def fails(*_: object, **__: object) -> None:
        raise ArithmeticError("no such price")

    monkeypatch.setattr(certificate, "class_prices", fails)
    solved = solved_here(planned.cluster())
    stage.tables_of(solved, planned.run_of(spark))
    bounds = {row.kind: row for row in solved.bounds.rows["a"]}
    assert bounds["lagrangian"].bound_bytes > 0
    assert "(classes" not in bounds["lagrangian"].detail
    assert "cluster a: no prices from classes; the other bounds are valid: no such price" in caplog.messages


def emptied_rack() -> dict[str, list[dict[str, Any]]]:
    """The cluster of three racks at RF 2, all brokers of the last rack to be emptied."""
    tables = planned.cluster()
    leaves = [row["rack"] == "r2" for row in tables["instance_brokers"]]
    brokers = [
        {**row, "accepts_replicas": not gone, "accepts_leadership": not gone, "must_empty": gone}
        for row, gone in zip(tables["instance_brokers"], leaves, strict=True)
    ]
    partitions = []
    for row in tables["instance"]:
        replicas = row["replicas"][:1] + row["replicas"][2:]
        two = {"replicas": replicas, "leader": replicas[0], "isr": sorted(replicas), "replication_factor": 2}
        partitions.append({**row, **two, "log_dirs": ["any"] * 2})
    return {"instance": partitions, "instance_brokers": brokers}


def test_a_rack_is_emptied_with_a_bound_beside_it() -> None:
    """Two racks are left for two replicas: nothing stays in the third, which takes part in the classes' prices."""
    solved = solved_here(emptied_rack())
    assert {(broker - 100) % 3 for replicas in solved.tables["proposal"]["replicas"] for broker in replicas} == {0, 1}
    assert "not_emptied" not in set(solved.tables["findings"]["rule"])
    best = [row.gap_percent for row in solved.bounds.rows["a"] if row.is_best]
    assert [gap is not None and gap < 5 for gap in best] == [True]


def test_bound_whose_task_fails_is_left_out_with_a_warning(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The other bounds stand, and the warning names cluster and cause."""

    def fails(*_: object) -> tuple[float, int | None]:
        raise ArithmeticError("no such price")

    monkeypatch.setattr(certificate, "best_whole_bound", fails)
    always = replace(TUNED, whole_gap=-1.0)
    run = planned.run_of(spark, NARROW)
    bounds = planned.solved(run, small_cluster(), tuning=always)["bounds"].collect()
    assert "whole replicas" not in " ".join(row.detail for row in bounds)
    assert {"forced", "flow", "lagrangian"} <= {row.kind for row in bounds}
    assert [record.getMessage() for record in caplog.records if "bound" in record.getMessage()] == [
        "cluster a: a lower bound could not be computed and is left out; the other bounds are valid: "
        "ArithmeticError: no such price"
    ]
