"""A plan with copies that no order has disk space for: these are left and reported, the rest is planned."""

from typing import Any

import pytest
from pyspark.sql import SparkSession

from benchmarks.fuzz.planning import plan_cluster
from benchmarks.fuzz.unusual_clusters import UnusualCluster
from benchmarks.rows import broker_row, partition_row
from optimizer.configuration import build
from optimizer.settings import Settings
from optimizer.stages.emit import emit
from optimizer.stages.plan import plan
from optimizer.stages.stage import Frames
from tests.stages.planned import finished, run_of, solved

WIDE = {"disk_band": 100, "replicas_band": 100, "in_band": 100, "disk_headroom": 0}
# One wave alone: x may go to broker 2 only, where there is room when a has gone to broker 3, a wave later.
SETTINGS: Settings = build({"policy": WIDE, "schedule": {"waves": 1}})
KEY = {"cluster_id": "odd", "run_id": "r"}
HOSTS = ((1, "draining", 100), (2, "alive", 100), (3, "alive", 200))
LISTS = (("a", 1, 60, [3]), ("b", 2, 30, None), ("c", 1, 10, None), ("x", 1, 50, [2]))


def broker(broker_id: int, state: str, disk: int) -> dict[str, Any]:
    """A row of ``instance_brokers``."""
    pinned = [topic for topic, _, _, pin in LISTS if pin and broker_id in pin]
    return broker_row(broker_id, **KEY, state=state, disk_capacity_bytes=disk, pinned_topics=pinned)


def partition(topic: str, held_by: int, size: int, pin: list[int] | None) -> dict[str, Any]:
    """A row of ``instance``."""
    held_by = 2 if topic == "a" else held_by
    rates = {"size_bytes": size, "in_bytes_per_s": 1, "out_bytes_per_s": 1}
    return partition_row([held_by], **KEY, topic=topic, pinned_brokers=pin, **rates)


CLUSTER = UnusualCluster(tuple(partition(*row) for row in LISTS), tuple(broker(*row) for row in HOSTS), SETTINGS)


@pytest.fixture(scope="module")
def planned(spark: SparkSession) -> Frames:
    """The tables of every stage from solve on."""
    run = run_of(spark, SETTINGS)
    rows = {"instance": [*CLUSTER.partitions], "instance_brokers": [*CLUSTER.brokers]}
    return finished(run, solved(run, rows))


def test_what_waits_is_left_and_the_rest_is_planned(spark: SparkSession, planned: Frames) -> None:
    """The plan passes both gates; the partition that is left has a finding, and the drain says why it is not done."""
    run = run_of(spark, SETTINGS)
    assert plan.gate(planned, run) == {}
    assert emit.gate(planned, run) == {}
    moved = {row.topic: (row.from_broker, row.to_broker) for row in planned["moves"].collect()}
    assert moved["a"] == (2, 3)
    assert "x" not in moved
    findings = {row.rule: row for row in planned["findings"].collect() if row.subject.startswith("x-0")}
    assert findings.keys() == {"left_for_disk", "not_emptied", "not_pinned"}
    assert "set [schedule] waves = 0" in findings["left_for_disk"].remedy
    assert all("no order of the copies leaves room on the disks" in row.detail for row in findings.values())


def test_figures_are_those_of_what_is_planned(planned: Frames) -> None:
    """Bounds, gaps, balance and summary speak of the plan without what is left."""
    copied = sum(row.size_bytes for row in planned["moves"].collect())
    bounds = {row.kind: row for row in planned["bounds"].collect()}
    assert all(row.bound_bytes <= copied for row in bounds.values())
    figures = {row.figure: row.after for row in planned["plan_summary"].collect()}
    assert (figures["moved_bytes"], figures["partitions_changed"]) == (copied, planned["proposal"].count())
    held = {row.broker_id: row for row in planned["broker_balance"].where("placement = 'after'").collect()}
    assert held[1].replicas == 1


def test_plan_in_memory_is_that_of_the_stages(planned: Frames) -> None:
    """The fuzz of clusters checks what a run plans: lists, waves, findings, documents."""
    ours = plan_cluster(CLUSTER)
    lists = {
        (row.topic, row.wave, tuple(row.proposed_replicas)) for row in planned["plan"].where("is_changed").collect()
    }
    assert lists == {(row["topic"], row["wave"], tuple(row["proposed_replicas"])) for row in ours.plan}
    findings = {(row.rule, row.subject, row.detail) for row in planned["findings"].collect()}
    assert findings == {(row["rule"], row["subject"], row["detail"]) for row in ours.findings}
    documents = {row.path: row.content for row in planned["documents"].collect() if row.path in ours.documents}
    assert documents == {path: made.content for path, made in ours.documents.items()}
