"""What differs between two runs, from small rows made by hand."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pandas as pd
import pytest

from asking.comparison import (
    Change,
    changed_requests,
    changes,
    compare,
    partition_changes,
    plan_differences,
    towards,
)
from tests.asking.small_runs import CLUSTER, Row, frame, partition, planned, run_rows, settings_of


def keys(partitions: pd.DataFrame) -> list[str]:
    """Topic and partition of each row, in order."""
    return [f"{topic}-{number}" for topic, number in zip(partitions["topic"], partitions["partition"], strict=True)]


def values(partitions: pd.DataFrame, *columns: str) -> list[tuple[Any, ...]]:
    """Some columns of each row."""
    return [tuple(row) for row in partitions[list(columns)].itertuples(index=False)]


def test_requests_are_policy_solver_schedule_and_the_entry_of_the_cluster() -> None:
    """Other sections, other clusters and the time of the snapshot request nothing."""
    before = settings_of(cluster={"captured_at": "2026-11-01T00:00:00Z"})
    after = settings_of(
        policy={"drain_brokers": [5], "disk_band": 0.08},
        solver={"rounds": 5},
        schedule={"window_hours": 4.0},
        emit={"plan_log_dirs": True},
        metrics={"window_hours": 24},
        cluster={"only": "racks", "captured_at": "2026-11-02T00:00:00Z"},
    )
    after["clusters"].append({**after["clusters"][0], "id": "other", "only": "drain"})
    assert changed_requests(before, after, CLUSTER) == (
        Change("clusters.c.only", "setting", "", "racks"),
        Change("policy.disk_band", "setting", 0.05, 0.08),
        Change("policy.drain_brokers", "setting", [], [5]),
        Change("schedule.window_hours", "setting", 8.0, 4.0),
        Change("solver.rounds", "setting", 4, 5),
    )
    assert changed_requests(before, before, CLUSTER) == ()


def test_brokers_are_added_removed_and_changed() -> None:
    """Rack, state, closed directories and capacities; unknown values are equal to each other."""
    a: list[Row] = [
        {"broker_id": 1, "rack": "x", "state": "alive", "disk_capacity_bytes": 2**53 - 1},
        {"broker_id": 2, "rack": "x", "state": "alive"},
        {"broker_id": 3, "rack": "x", "state": "alive"},
    ]
    b: list[Row] = [
        {"broker_id": 10, "rack": "y", "state": "alive"},
        {"broker_id": 3, "rack": "x", "state": "alive"},
        {"broker_id": 2, "rack": "y", "state": "fenced", "closed_cause": "cordoned", "disk_capacity_bytes": 7},
    ]
    assert changes(frame("brokers", a), frame("brokers", b), "broker_id") == (
        Change("10", "added"),
        Change("1", "removed"),
        Change("2", "rack", "x", "y"),
        Change("2", "state", "alive", "fenced"),
        Change("2", "closed_cause", None, "cordoned"),
        Change("2", "disk_capacity_bytes", None, 7),
    )


def test_topics_are_added_removed_created_again_and_changed() -> None:
    """An id that one run does not know is no difference."""
    a: list[Row] = [
        {"topic": "again", "topic_id": "1"},
        {"topic": "gone", "topic_id": "2"},
        {"topic": "grows", "partitions": 6, "replication_factor": 2, "min_insync_replicas": 1},
        {"topic": "same"},
    ]
    b: list[Row] = [
        {"topic": "again", "topic_id": "9"},
        {"topic": "grows", "partitions": 12, "replication_factor": 3},
        {"topic": "new"},
        {"topic": "same", "topic_id": "4"},
    ]
    assert changes(frame("topics", a), frame("topics", b), "topic") == (
        Change("new", "added"),
        Change("gone", "removed"),
        Change("again", "topic_id", "1", "9"),
        Change("grows", "partitions", 6, 12),
        Change("grows", "replication_factor", 2, 3),
        Change("grows", "min_insync_replicas", 1, None),
    )


def test_partitions_lists_sizes_and_rates() -> None:
    """Each kind of difference has its own list; the totals count bytes of all replicas."""
    a = [partition(0, [1, 2]), partition(1, [1, 2]), partition(2, [1, 2]), partition(3, [3]), partition(0, [1], "u")]
    b = [
        partition(0, [2, 1]),
        partition(1, [1, 2], size_bytes=15, leader=None),
        partition(2, [1, 2], out_bytes_per_s=4, isr=[1]),
        partition(4, [1, 3], controller_replicas=[1, 2, 3], isr=[1]),
        partition(0, [1], "u"),
    ]
    found = partition_changes(frame("instance", a), frame("instance", b))
    assert (keys(found.added), keys(found.removed)) == (["t-4"], ["t-3"])
    assert values(found.lists, "partition", "replicas_a", "replicas_b") == [(0, "1,2", "2,1")]
    assert values(found.sizes, "partition", "size_bytes_a", "size_bytes_b") == [(1, 10, 15)]
    rates = values(found.rates, "partition", "in_bytes_per_s_a", "in_bytes_per_s_b", "out_bytes_per_s_b")
    assert rates == [(2, 2, 2, 4)]
    assert values(found.topics, "topic", "size_bytes_a", "size_bytes_b") == [("t", 70, 90)]
    before, after = found.totals
    assert (before.partitions, before.replicas, before.total_bytes) == (5, 8, 80)
    assert (after.total_bytes, after.in_bytes_per_s, after.out_bytes_per_s) == (100, 10, 16)
    # While a partition is reassigned, replicas out of sync are expected.
    assert (after.out_of_sync, after.without_leader, after.in_flight) == (1, 1, 1)


def test_topics_come_with_the_largest_growth_first() -> None:
    """Growth and shrinkage count alike; topics with equal loads are left out."""
    a = [partition(0, [1], topic, size_bytes=size) for topic, size in (("a", 10), ("b", 10), ("c", 90), ("d", 1))]
    b = [partition(0, [1], topic, size_bytes=size) for topic, size in (("a", 15), ("b", 10), ("c", 70), ("e", 7))]
    found = partition_changes(frame("instance", a), frame("instance", b)).topics
    assert values(found, "topic", "size_bytes_a", "size_bytes_b") == [
        *(("c", 90, 70), ("e", 0, 7), ("a", 10, 15), ("d", 1, 0)),
    ]


A_PLAN = [
    planned(0, [1, 2], [3, 2], "drain"),
    planned(1, [1, 2], [3, 4], "drain", "balance", moved_bytes=500),
    planned(2, [1, 2], [3, 2], "drain"),
    planned(3, [1, 2], [2, 1], "leader"),
    planned(4, [1, 2], [1, 2]),
    planned(5, [1, 2], [4, 2], "balance", moved_bytes=50),
]
B_PLAN = [
    planned(0, [1, 2], [3, 2], "rack"),
    planned(1, [1, 2], [5, 2], "rack", moved_bytes=9),
    planned(2, [3, 2], [3, 2]),
    planned(3, [1, 2], [1, 2]),
    planned(4, [1, 2], [1, 5], "balance", moved_bytes=70),
]


def test_partitions_that_plans_change() -> None:
    """Both to the same list, both to another, one alone, and alone because it is done; the largest copies first."""
    found = plan_differences(frame("plan", A_PLAN), frame("plan", B_PLAN), None, None)
    assert values(found.partitions, "partition", "kind", "is_done") == [
        (1, "other_list", False),
        (4, "only_b", False),
        (5, "only_a", False),
        (0, "same_list", False),
        (2, "only_a", True),
        (3, "only_a", False),
    ]
    assert values(found.partitions.head(1), "reason_codes_a", "reason_codes_b") == [("drain,balance", "rack")]
    assert found.by_reason is None


def test_reasons_count_partitions_copies_and_bytes_of_both_plans() -> None:
    """A removed replica is no copy. Reasons that no plan has are left out, the others are the most urgent first."""
    moves_a: list[Row] = [
        *({"to_broker": 3, "size_bytes": 10, "reason": "drain"}, {"to_broker": 4, "size_bytes": 5, "reason": "drain"}),
        {"to_broker": None, "size_bytes": 0, "reason": "balance"},
    ]
    moves_b = [{"to_broker": 5, "size_bytes": 70, "reason": "rack"}]
    tables = frame("plan", A_PLAN), frame("plan", B_PLAN), frame("moves", moves_a), frame("moves", moves_b)
    found = plan_differences(*tables).by_reason
    assert found is not None
    assert values(found, *found.columns) == [
        ("rack", 0, 0, 0, 2, 1, 70),
        ("drain", 3, 2, 15, 0, 0, 0),
        ("balance", 2, 0, 0, 1, 0, 0),
        ("leader", 1, 0, 0, 0, 0, 0),
    ]


def test_progress_towards_plan_a() -> None:
    """The proposal, the proposal in flight, the old list, neither, the proposal in another order, and gone."""
    plan = [planned(number, [1, 2], [3, 2], "drain", wave=number // 3 + 1) for number in range(6)]
    plan += [planned(6, [1, 2], [1, 2]), planned(7, [1, 2], [1, 2])]
    now = [
        partition(0, [3, 2]),
        partition(1, [3, 2], controller_replicas=[1, 2, 3]),
        partition(2, [1, 2]),
        partition(3, [1, 4]),
        partition(4, [2, 3]),
        partition(6, [1, 5]),
        partition(7, [1, 2]),
        partition(8, [1, 2]),
    ]
    found = towards(frame("plan", plan), frame("instance", now))
    assert values(found.partitions, "partition", "wave", "state", "is_reordered") == [
        (0, 1, "proposal", False),
        (1, 1, "in_flight", False),
        (2, 1, "old", False),
        (3, 2, "neither", False),
        (4, 2, "neither", True),
        (5, 2, "no_partition", False),
    ]
    assert [(found.count(state), found.bytes(state)) for state in ("proposal", "neither")] == [(1, 10), (2, 20)]
    assert found.other_changes == 1


def test_predicted_and_measured_times() -> None:
    """Waves of A have the partitions that are done in B; each wave has its own times."""
    plan = [planned(0, [1], [2], wave=1), planned(1, [1], [2], wave=1), planned(2, [1], [2], wave=2)]
    waves: list[Row] = [
        {"wave": 2, "partitions": 1, "estimated_seconds": 9},
        {"wave": 1, "partitions": 2, "least_seconds": 3},
    ]
    a = run_rows("a", {"plan": plan, "waves": waves}, measured={1: 75.0, 2: None})
    now = [partition(0, [2]), partition(1, [1]), partition(2, [2])]
    b = run_rows("b", {"instance": now, "waves": [{"wave": 1}]})
    found = compare(CLUSTER, a, b).waves
    assert [(wave.run_id, wave.wave, wave.partitions, wave.done) for wave in found] == [
        ("a", 1, 2, 1),
        ("a", 2, 1, 1),
        ("b", 1, 0, None),
    ]
    assert [(wave.has_ended, wave.measured_seconds) for wave in found] == [(True, 75.0), (True, None), (False, None)]
    assert (found[0].least_seconds, found[0].most_seconds, found[1].estimated_seconds) == (3, 0, 9)


@pytest.mark.parametrize(
    ("table", "parts"),
    [
        ("brokers", {"brokers"}),
        ("topics", {"topics"}),
        ("instance", {"partitions", "progress"}),
        ("plan", {"plans", "progress"}),
        ("plan_summary", {"figures"}),
    ],
)
def test_only_the_parts_whose_rows_are_gone_are_missing(table: str, parts: set[str]) -> None:
    """The rows of instance that progress needs are those of the later run, the rows of plan those of the earlier."""
    rows = {"instance": [partition(0, [1])], "plan": [planned(0, [1], [1])]}
    complete = run_rows("a", rows, settings=settings_of())
    tables = {name: each for name, each in complete.tables.items() if name != table}
    gone = replace(complete, run_id="g", tables=tables)
    pair = (gone, complete) if table == "plan" else (complete, gone)
    found = compare(CLUSTER, *pair)
    names = ("requests", "brokers", "topics", "partitions", "figures", "plans", "progress")
    assert {name for name in names if getattr(found, name) is None} == parts


def test_the_time_of_a_snapshot_is_that_of_its_newest_source() -> None:
    """Metric tables have no time, and capacities do not count."""
    noon = datetime(2026, 11, 1, 12, tzinfo=UTC)
    later, earlier = noon + timedelta(hours=1), noon - timedelta(hours=1)
    times = ((noon, True), (None, False), (earlier, True), (later, False))
    sources: list[Row] = [{"captured_at": at, "has_state": has_state} for at, has_state in times]
    assert run_rows("a", {"sources": sources}).captured_at == noon
    assert run_rows("a", {"sources": [{"captured_at": None, "has_state": True}]}).captured_at is None
    assert run_rows("a", {}).captured_at is None
