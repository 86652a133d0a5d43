"""``policy.only`` through the stages: four copies of one cluster, each with another request, in one run."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from pyspark.sql import DataFrame, SparkSession

from optimizer.cluster_policy import ONLY
from optimizer.configuration import build
from optimizer.settings import Settings
from optimizer.stages.emit import emit
from optimizer.stages.snapshot import snapshot
from optimizer.stages.stage import Frames
from tests.stages import planned
from tests.stages.tables import table

DRAINED, DEMOTED = 100, 104
SETTINGS: Settings = build(
    {
        "clusters": [
            {"id": name, "input": "/x", "drain_brokers": [DRAINED], "demote_brokers": [DEMOTED], "only": name}
            for name in ONLY
        ],
        "solver": {"shard_brokers": 6, "rack_shard_brokers": 3, "rounds": 3, "curve_brokers": 0},
    }
)
Rows = list[dict[str, Any]]
CLUSTER = planned.cluster()
LISTS = {(row["topic"], row["partition"]): row["replicas"] for row in CLUSTER["instance"]}
BROKEN = {key for key, replicas in LISTS.items() if len({(b - 100) % 3 for b in replicas}) < 3}
ON_DRAINED = {key for key, replicas in LISTS.items() if DRAINED in replicas}
LED_BY_DEMOTED = {key for key, replicas in LISTS.items() if replicas[0] == DEMOTED}


def cleaned() -> dict[str, Rows]:
    """The tables that snapshot reads, for each cluster."""
    about = {"host": None, "port": None, "is_controller": False}
    capacities = {"disk_capacity_bytes": None, "in_capacity_bytes_per_s": None, "out_capacity_bytes_per_s": None}
    where = {"is_adding": False, "is_removing": False, "log_dir": None, "size_bytes": None}
    made = {"size_source": "log_dirs", "rate_source": "metric", "samples": 1}
    loads = ("topic", "partition", "size_bytes", "in_bytes_per_s", "out_bytes_per_s")
    tables: dict[str, Rows] = {
        "brokers": [
            {"broker_id": row["broker_id"], "rack": row["rack"], "state": "alive", **about, **capacities}
            for row in CLUSTER["instance_brokers"]
        ],
        "replicas": [
            {"topic": t, "partition": p, "position": i, "broker_id": b, "is_leader": i == 0, "in_sync": True, **where}
            for (t, p), replicas in LISTS.items()
            for i, b in enumerate(replicas)
        ],
        "partition_load": [{**{name: row[name] for name in loads}, **made} for row in CLUSTER["instance"]],
        "topics": [],
        "log_dirs": [],
    }
    return {
        name: [{"cluster_id": only, "run_id": "r", **row} for only in ONLY for row in rows]
        for name, rows in tables.items()
    }


@pytest.fixture(scope="module")
def frames(spark: SparkSession) -> Iterator[dict[str, DataFrame]]:
    """Every table from snapshot to emit."""
    run = planned.run_of(spark, SETTINGS)
    silver: Frames = {name: table(spark, name, rows) for name, rows in cleaned().items()}
    instance = {name: frame.localCheckpoint() for name, frame in snapshot.build(silver, run).items()}
    made = planned.finished(run, planned.solved_of(run, instance))
    yield {name: frame.localCheckpoint() for name, frame in made.items()}


def changes(frames: Frames, only: str) -> dict[tuple[str, int], tuple[list[int], list[int]]]:
    """Replicas before and after of the partitions that a cluster's plan changes."""
    rows = frames["plan"].where(f"cluster_id = '{only}' AND is_changed").collect()
    return {(row.topic, row.partition): (list(row.current_replicas), list(row.proposed_replicas)) for row in rows}


def copied(lists: dict[tuple[str, int], tuple[list[int], list[int]]]) -> int:
    """Replicas that are copied."""
    return sum(len(set(after) - set(before)) for before, after in lists.values())


def test_a_drain_alone(frames: Frames) -> None:
    """Just the partitions on the drained broker change, a copy each, and none stays; broken racks wait."""
    lists = changes(frames, "drain")
    assert set(lists) == ON_DRAINED
    assert copied(lists) == len(ON_DRAINED)
    assert BROKEN - ON_DRAINED
    assert not any(DRAINED in after for _, after in lists.values())


def test_racks_alone(frames: Frames) -> None:
    """Just the partitions that break the rack rule change, by a copy each; what is on the drained broker may stay."""
    lists = changes(frames, "racks")
    assert set(lists) == BROKEN
    assert copied(lists) == len(BROKEN)
    assert all(len({(b - 100) % 3 for b in after}) == 3 for _, after in lists.values())
    stays = [lists_of for lists_of in lists.values() if lists_of[0][0] in set(lists_of[1]) - {DRAINED, DEMOTED}]
    assert stays
    assert all(after[0] == before[0] for before, after in stays)


def test_leaders_alone(frames: Frames) -> None:
    """Lists keep their brokers; leaders come nearer to their bands."""
    lists = changes(frames, "leaders")
    assert lists
    assert all(sorted(before) == sorted(after) for before, after in lists.values())
    led = {side: np.zeros(18, dtype=int) for side in ("before", "after")}
    for row in frames["broker_balance"].where("cluster_id = 'leaders'").collect():
        if row.placement in led:
            led[row.placement][row.broker_id - 100] = row.leaders
    assert led["after"].std() < led["before"].std()
    assert led["after"][[DRAINED - 100, DEMOTED - 100]].sum() == 0


def test_a_demotion_alone(frames: Frames) -> None:
    """Just the lists that the demoted broker leads change, in their order alone."""
    lists = changes(frames, "demote")
    assert set(lists) == LED_BY_DEMOTED
    assert all(sorted(before) == sorted(after) and after[0] != DEMOTED for before, after in lists.values())


@pytest.mark.parametrize(
    ("only", "left"),
    [
        ("drain", {"racks", "demote_brokers"}),
        ("racks", {"drain_brokers", "demote_brokers"}),
        ("leaders", {"drain_brokers", "racks"}),
        ("demote", {"drain_brokers", "racks"}),
    ],
)
def test_requests_that_wait_are_reported(frames: Frames, only: str, left: set[str]) -> None:
    """Each other request has one finding, instead of one for each broker and partition."""
    rows = frames["findings"].where(f"cluster_id = '{only}'").collect()
    shown = {row.subject for row in rows if row.rule == "not_asked_now"}
    assert left <= shown <= left | {"bands", "bands of leaders"}
    single = {row.rule for row in rows if row.when == "both"} - {"not_asked_now", "no_disk_capacity", "leader_band"}
    assert single == set()


def test_such_plans_pass_the_audit_and_say_what_they_are(frames: Frames, spark: SparkSession) -> None:
    """The gate accepts all four, and the verdict of each summary says that nothing else was requested."""
    assert emit.gate(frames, planned.run_of(spark, SETTINGS)) == {}
    texts = {row.path: row.content for row in frames["documents"].where("path LIKE '%summary.txt'").collect()}
    for only in ("drain", "racks", "demote"):
        kind = {"drain": "brokers are emptied", "racks": "racks are repaired", "demote": "brokers are demoted"}[only]
        assert f" (only {kind})." in " ".join(texts[f"{only}/summary.txt"].split())
    assert "(only leaders are balanced)" in texts["leaders/summary.txt"].splitlines()[1]
