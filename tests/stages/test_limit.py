"""A limit in Spark: solve cuts the plan of one cluster of several, plan and emit carry it on, and the audit agrees."""

import re

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from optimizer.errors import AuditFailed
from optimizer.stages.emit import emit
from optimizer.stages.stage import Frames
from tests.stages.placed import of_process, solved_in_process
from tests.stages.requested_fleet import CLUSTERS, LIMIT_GB, SPARE, disk_bytes, run_of, settings_with
from tests.stages.test_solve import rows_of

OURS = ("limited", "free", "full")


@pytest.fixture(scope="module")
def tables(fleet: Frames) -> Frames:
    """The rows of a cluster with a limit, of one with full disks, and of one with neither."""
    return {name: frame.where(F.col("cluster_id").isin(*OURS)).localCheckpoint() for name, frame in fleet.items()}


def moved_gb(tables: Frames, cluster_id: str) -> float:
    """What the plan of a cluster copies."""
    rows = tables["plan"].where(f"cluster_id = '{cluster_id}'").collect()
    return float(sum(row.moved_bytes for row in rows)) / 10**9


@pytest.mark.all_only
def test_the_plan_is_cut_and_passes_the_audit(spark: SparkSession, tables: Frames) -> None:
    """The limit holds for its own cluster alone, is nearly used up, and a finding says what it leaves."""
    assert 0.95 * LIMIT_GB < moved_gb(tables, "limited") <= LIMIT_GB < moved_gb(tables, "free")
    assert emit.gate(tables, run_of(spark)) == {}
    findings = {
        c: [row for row in tables["findings"].collect() if row.cluster_id == c and row.rule == "limited"] for c in OURS
    }
    assert findings["free"] == []
    (finding,) = findings["limited"]
    assert finding.subject == f"max_moved_gb = {LIMIT_GB}"
    assert "the whole plan would copy " in finding.detail
    assert "loads outside bands that the whole plan meets" in finding.detail


@pytest.mark.all_only
def test_the_bound_stays_below_a_cut_plan(tables: Frames) -> None:
    """The best bound is no more than what the cut plan copies."""
    best = {row.cluster_id: row.bound_bytes for row in tables["bounds"].where("is_best").collect()}
    assert 0 < best["limited"] <= moved_gb(tables, "limited") * 10**9


@pytest.mark.all_only
def test_the_pages_say_so(tables: Frames) -> None:
    """Summary and report of the limited plan name the limit; those of the other cluster don't."""
    pages = tables["documents"].where("path LIKE '%/summary.txt' OR path LIKE '%/report.html'").collect()
    assert {row.path: "Limited by max_moved_gb = 60" in row.content for row in pages} == {
        "limited/summary.txt": True,
        "limited/report.html": True,
        "free/summary.txt": False,
        "free/report.html": False,
        "full/summary.txt": False,
        "full/report.html": False,
    }


@pytest.mark.all_only
def test_no_disk_is_overfilled_and_it_is_reported(tables: Frames) -> None:
    """What the disks can't take stays on the broker to empty, with findings that say what would do."""
    rows = [row.asDict() for row in tables["plan"].where("cluster_id = 'full'").collect()]
    before, after = disk_bytes(rows, "current_replicas"), disk_bytes(rows, "proposed_replicas")
    assert 0 < after[100] < before[100]
    assert all(size <= max(before[b], 10**9) * SPARE + 1 for b, size in after.items())
    findings = tables["findings"].where("cluster_id = 'full'").collect()
    (finding,) = [row for row in findings if row.rule == "limited"]
    assert finding.subject == "disk_headroom = 0.1"
    left = [row for row in findings if row.rule == "not_emptied"]
    assert left
    assert (
        {row.remedy for row in left}
        == {finding.remedy}
        == {"add disk, let more brokers accept replicas, or lower disk_headroom"}
    )


@pytest.mark.all_only
def test_what_is_urgent_goes_first(tables: Frames) -> None:
    """While replicas stay on the broker to empty, no replica moves for balance, and each has a finding."""
    plans = tables["plan"].where("cluster_id = 'limited'").collect()
    stays = [f"{row.topic}-{row.partition} on 100" for row in plans if 100 in row.proposed_replicas]
    assert bool(stays) != ("balance" in {row.reasons for row in plans})
    named = tables["findings"].where("cluster_id = 'limited' AND rule = 'not_emptied'").collect()
    assert sorted(row.subject for row in named) == sorted(stays)


@pytest.mark.all_only
def test_the_audit_refuses_a_plan_over_its_limit(spark: SparkSession, tables: Frames) -> None:
    """The gate of emit stops a plan that copies more than the configuration allows."""
    tighter = [{**CLUSTERS[0], "max_moved_gb": LIMIT_GB / 2}, *CLUSTERS[1:]]
    refused = emit.gate(tables, run_of(spark, tighter))
    assert {name: type(error) for name, error in refused.items()} == {"limited": AuditFailed}
    assert re.search(r"cluster limited(?s:.*)limit: moved_bytes: the plan copies", str(refused["limited"]))


def test_a_limit_that_does_not_bind_changes_nothing() -> None:
    """A cluster has the same tables under a limit above what it copies as under none."""
    rows, free = rows_of("free", seed=2), {"id": "free", "input": "/x"}
    roomy = {**free, "max_moved_gb": 10**6, "max_moves": 10**6}
    under, without = (
        of_process(solved_in_process(rows["instance"], rows["instance_brokers"], settings_with([cluster])))
        for cluster in (roomy, free)
    )
    assert under == without
