"""A limit in Spark: solve cuts the plan of one cluster of several, plan and emit carry it on, and the audit agrees."""

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import SparkSession

import schemas
from optimizer.configuration import build
from optimizer.errors import AuditFailed
from optimizer.settings import Settings
from optimizer.solve.findings.limit_findings import DISK_REMEDY
from optimizer.stages.emit import emit
from optimizer.stages.plan import plan
from optimizer.stages.solve import solve
from optimizer.stages.stage import Frames, Run
from tests.stages.test_solve import frames_of, rows_of, stable

LIMIT_GB = 60
HEADROOM, SPARE = 0.1, 1.02
CLUSTERS: list[dict[str, Any]] = [
    {"id": "a", "input": "x", "max_moved_gb": LIMIT_GB},
    {"id": "b", "input": "y"},
    {"id": "full", "input": "z"},
]


def settings_with(clusters: list[dict[str, Any]]) -> Settings:
    """Small shards."""
    return build({"solver": {"shard_brokers": 8, "rounds": 3}, "clusters": clusters})


def run_of(spark: SparkSession, clusters: list[dict[str, Any]]) -> Run:
    """A run of the clusters."""
    return Run(spark, "r", settings_with(clusters), "test")


def disk_bytes(partitions: list[dict[str, Any]], lists: str) -> Counter[int]:
    """Bytes on each broker."""
    held: Counter[int] = Counter()
    for row in partitions:
        held.update(dict.fromkeys(row[lists], row["size_bytes"]))
    return held


def with_full_disks(rows: dict[str, list[dict[str, Any]]]) -> dict[str, list[dict[str, Any]]]:
    """The cluster with disks that have little room beside what they hold: too little for the broker to empty."""
    held = disk_bytes(rows["instance"], "replicas")
    for broker in rows["instance_brokers"]:
        broker["disk_capacity_bytes"] = int(max(held[broker["broker_id"]], 10**9) * SPARE / (1 - HEADROOM))
    return rows


@pytest.fixture(scope="module")
def tables(spark: SparkSession) -> Iterator[Frames]:
    """Every table of a fleet of three, of which one has a limit and one has full disks, from solve to emit."""
    run, full = run_of(spark, CLUSTERS), with_full_disks(rows_of("full", seed=3))
    inputs = dict(frames_of(spark, *(rows_of(c, seed=seed) for c, seed in (("a", 1), ("b", 2))), full))
    for name in ("baseline", "quality_results", "input_findings", "sources", "topics", "throttles_found"):
        inputs[name] = spark.createDataFrame([], schemas.ALL[name].schema)
    for stage in (solve, plan, emit):
        made = {n: schemas.conform(f, schemas.ALL[n]).localCheckpoint() for n, f in stage.build(inputs, run).items()}
        inputs |= made
    yield inputs
    spark.catalog.clearCache()


def moved_gb(tables: Frames, cluster_id: str) -> float:
    """What the plan of a cluster copies."""
    rows = tables["plan"].where(f"cluster_id = '{cluster_id}'").collect()
    return float(sum(row.moved_bytes for row in rows)) / 10**9


def test_the_plan_is_cut_and_passes_the_audit(spark: SparkSession, tables: Frames) -> None:
    """The limit holds for its own cluster alone, is nearly used up, and is told with what it leaves."""
    assert 0.95 * LIMIT_GB < moved_gb(tables, "a") <= LIMIT_GB < moved_gb(tables, "b")
    assert emit.gate(tables, run_of(spark, CLUSTERS)) == {}
    findings = {
        c: [row for row in tables["findings"].collect() if row.cluster_id == c and row.rule == "limited"] for c in "ab"
    }
    assert findings["b"] == []
    (told,) = findings["a"]
    assert told.subject == f"max_moved_gb = {LIMIT_GB}"
    assert "without the limit the plan would copy " in told.detail
    assert "loads outside bands that the whole plan meets" in told.detail


def test_the_bound_stays_below_a_cut_plan(tables: Frames) -> None:
    """The best bound is no more than what the cut plan copies."""
    best = {row.cluster_id: row.bound_bytes for row in tables["bounds"].where("is_best").collect()}
    assert 0 < best["a"] <= moved_gb(tables, "a") * 10**9


def test_the_pages_say_so(tables: Frames) -> None:
    """Summary and report of the cut plan name the limit; those of the other cluster don't."""
    pages = tables["documents"].where("path LIKE '%/summary.txt' OR path LIKE '%/report.html'").collect()
    assert {row.path: "Cut to the limit max_moved_gb = 60" in row.content for row in pages} == {
        "a/summary.txt": True,
        "a/report.html": True,
        "b/summary.txt": False,
        "b/report.html": False,
        "full/summary.txt": False,
        "full/report.html": False,
    }


def test_no_disk_is_filled_and_it_is_told(tables: Frames) -> None:
    """What the disks can't take stays on the broker to empty, with findings that say what would do."""
    rows = [row.asDict() for row in tables["plan"].where("cluster_id = 'full'").collect()]
    before, after = disk_bytes(rows, "current_replicas"), disk_bytes(rows, "proposed_replicas")
    assert 0 < after[100] < before[100]
    assert all(size <= max(before[b], 10**9) * SPARE + 1 for b, size in after.items())
    findings = tables["findings"].where("cluster_id = 'full'").collect()
    (told,) = [row for row in findings if row.rule == "limited"]
    assert told.subject == "disk_headroom = 0.1"
    left = [row for row in findings if row.rule == "not_emptied"]
    assert left
    assert {row.remedy for row in left} == {told.remedy} == {DISK_REMEDY}


def test_what_is_urgent_goes_first(tables: Frames) -> None:
    """While replicas stay on the broker to empty, no replica moves for balance, and each has a finding."""
    plans = tables["plan"].where("cluster_id = 'a'").collect()
    stays = [f"{row.topic}-{row.partition} on 100" for row in plans if 100 in row.proposed_replicas]
    assert bool(stays) != ("balance" in {row.reasons for row in plans})
    named = tables["findings"].where("cluster_id = 'a' AND rule = 'not_emptied'").collect()
    assert sorted(row.subject for row in named) == sorted(stays)


def test_the_audit_refuses_a_plan_over_its_limit(spark: SparkSession, tables: Frames) -> None:
    """The gate of emit stops a plan that copies more than the configuration allows."""
    tighter = [{**CLUSTERS[0], "max_moved_gb": LIMIT_GB / 2}, *CLUSTERS[1:]]
    refused = emit.gate(tables, run_of(spark, tighter))
    assert {name: type(error) for name, error in refused.items()} == {"a": AuditFailed}
    assert re.search(r"cluster a(?s:.*)limit: moved_bytes: the plan copies", str(refused["a"]))


def test_a_limit_that_does_not_bind_changes_nothing(spark: SparkSession, tables: Frames) -> None:
    """A cluster has the same plan under a limit above what it copies as under none."""
    roomy = [{"id": "b", "input": "y", "max_moved_gb": 10**6, "max_moves": 10**6}]
    again = solve.build(frames_of(spark, rows_of("b", seed=2)), run_of(spark, roomy))
    for name in ("proposal", "moves", "findings", "bounds"):
        alone = schemas.conform(again[name], schemas.ALL[name])
        assert stable(alone, name) == stable(tables[name].where("cluster_id = 'b'"), name), name
