"""The snapshot of a later run, from its tables, and the comparison of a plan with it."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from benchmarks.rows import partition_row, row
from execution.observed import TopicPartition
from execution.stored_snapshot import later_snapshot, planned_from
from optimizer.errors import ConfigError, StageError
from optimizer.kafka.throttle import LEADER_RATE, LOG_DIR_RATE
from stored.tables import Warehouse
from stored.verdicts import Refused
from tests.execution.test_cli import Commands
from tests.execution.warehouse import (
    CLUSTER,
    STAYS,
    load_plan,
    usual_plan,
    with_previous_throttles,
    write_plan,
)

LATER = "later"
RATES = "brokers", "9", LEADER_RATE
TIMES = {"r": datetime(2026, 11, 1, tzinfo=UTC), LATER: datetime(2026, 11, 3, 4, 5, tzinfo=UTC)}
BEFORE = {("stays", 0): [1, 2], ("stays", 1): [2, 1], ("x", 0): [1, 2]}
DONE = {("stays", 0): [1, 3], ("stays", 1): [2, 4], ("x", 0): [2, 1]}
OLDER = datetime(2026, 10, 1, tzinfo=UTC)
Lists = Mapping[TopicPartition, Sequence[int]]


def add_run(
    warehouse: Warehouse,
    run_id: str,
    lists: Lists,
    *,
    moving: Mapping[TopicPartition, Sequence[int]] | None = None,
    verdict: str = "planned",
    captured_at: datetime | None = None,
    source: str = "configs.txt",
    topic_ids: Mapping[str, str | None] | None = None,
    log_dirs: Mapping[TopicPartition, Sequence[str]] | None = None,
) -> None:
    """Store the snapshot of a run; of a partition in flight also the controller's list."""
    key = {"cluster_id": CLUSTER, "run_id": run_id}
    partitions = [
        {
            **partition_row(
                brokers, **key, topic=topic, partition=number, controller_replicas=(moving or {}).get((topic, number))
            ),
            "log_dirs": (log_dirs or {}).get((topic, number), ["any"] * len(brokers)),
        }
        for (topic, number), brokers in lists.items()
    ]
    warehouse.append("instance", partitions)
    ids = topic_ids or {"stays": STAYS, "x": "x-id"}
    warehouse.append("topics", [row("topics", **key, topic=topic, topic_id=name) for topic, name in ids.items()])
    states = {1: "alive", 2: "alive", 3: "alive", 4: "fenced"}
    warehouse.append("brokers", [row("brokers", **key, broker_id=b, state=state) for b, state in states.items()])
    times = {source: captured_at or TIMES[run_id], "ids.txt": OLDER, "metrics": None}
    sources = [
        row("sources", **key, source=name, captured_at=time, has_state=time is not None) for name, time in times.items()
    ]
    warehouse.append("sources", sources)
    exit_code = 0 if verdict in ("planned", "nothing_to_do") else 3
    if run_id != "r":
        warehouse.append("verdicts", [row("verdicts", **key, attempt=1, verdict=verdict, exit_code=exit_code)])


def add_throttles(warehouse: Warehouse, *throttles: tuple[str, str, str, str, bool]) -> None:
    """Store throttles of the later snapshot."""
    names = ("entity_type", "entity_name", "config_name", "config_value", "is_static")
    key = {"cluster_id": CLUSTER, "run_id": LATER}
    rows = [row("throttles_found", **key, **dict(zip(names, each, strict=True))) for each in throttles]
    warehouse.append("throttles_found", rows)


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    """A plan with its snapshot."""
    result = write_plan(tmp_path / "w", with_previous_throttles(usual_plan(), {}))
    add_run(result, "r", BEFORE)
    return result


def test_the_snapshot_of_a_plan_has_all_partitions(warehouse: Warehouse) -> None:
    """None if its rows were deleted."""
    plan = load_plan(warehouse)
    assert planned_from(warehouse, plan) == {partition: tuple(brokers) for partition, brokers in BEFORE.items()}
    assert planned_from(Warehouse(f"{warehouse.path}/none"), plan) == {}


def test_a_later_snapshot_has_the_directories_of_replicas(warehouse: Warehouse) -> None:
    """As far as its inputs have them."""
    add_run(warehouse, LATER, DONE, log_dirs={("stays", 0): ["/a", "any"], ("stays", 1): ["/b", "/c"]})
    snapshot = later_snapshot(warehouse, load_plan(warehouse), LATER)
    assert snapshot.directories is not None
    assert snapshot.directories.log_dirs == {("stays", 0, 1): "/a", ("stays", 1, 2): "/b", ("stays", 1, 4): "/c"}
    assert snapshot.directories.size_bytes.keys() == snapshot.directories.log_dirs.keys()
    assert snapshot.state.stored == snapshot.directories


def test_a_later_snapshot_without_directories_says_so(warehouse: Warehouse) -> None:
    """They are not compared then."""
    add_run(warehouse, LATER, DONE)
    assert later_snapshot(warehouse, load_plan(warehouse), LATER).directories is None


def test_a_later_snapshot_has_the_state_of_the_cluster(warehouse: Warehouse) -> None:
    """As a live cluster shows it: of a partition in flight the controller's list, and its target apart from that."""
    add_run(warehouse, LATER, DONE, moving={("stays", 1): [2, 4, 1]})
    add_throttles(
        warehouse,
        (*RATES, "7", False),
        ("brokers", "8", LEADER_RATE, "7", True),
        ("brokers", "8", LOG_DIR_RATE, "7", False),
    )
    snapshot = later_snapshot(warehouse, load_plan(warehouse), LATER)
    assert (snapshot.name, snapshot.captured_at) == (
        "the snapshot of run later, 2026-11-03 04:05 UTC",
        TIMES[LATER],
    )
    now = snapshot.state
    assert now.replicas == {("stays", 0): (1, 3), ("stays", 1): (2, 4, 1), ("x", 0): (2, 1)}
    assert now.in_flight == {("stays", 1): (2, 4)}
    assert now.leaders == {("stays", 0): 1, ("stays", 1): 2, ("x", 0): 2}
    assert now.in_sync["stays", 0] == {1, 3}
    assert (now.alive, now.silent) == (frozenset({1, 2, 3}), frozenset())
    assert now.topic_ids == {"stays": STAYS, "x": "x-id"}
    assert (now.throttles, snapshot.has_throttles) == ({RATES: "7", ("brokers", "8", LOG_DIR_RATE): "7"}, True)


@pytest.mark.parametrize(
    ("source", "records", "known"),
    [("describe.txt", "topic", False), ("describe.txt", "config", True), ("kafka://h:1", "topic", True)],
    ids=["files without configs", "files with configs", "a live cluster"],
)
def test_without_throttles_they_are_known_if_the_inputs_have_configs(
    warehouse: Warehouse, source: str, records: str, known: bool
) -> None:
    """A live cluster reports its configs always."""
    add_run(warehouse, LATER, DONE, source=source)
    record = {"cluster_id": CLUSTER, "run_id": LATER, "kind": records, "source": source, "captured_at": OLDER}
    warehouse.append("bronze_records", [{**record, "ordinal": 0, "line": 1, "payload": "{}", "written_at": None}])
    assert later_snapshot(warehouse, load_plan(warehouse), LATER).has_throttles is known


def test_the_snapshot_of_the_later_run_must_be_newer(warehouse: Warehouse) -> None:
    """Its newest source counts. The run of the plan itself is a usage error too."""
    plan = load_plan(warehouse)
    add_run(warehouse, LATER, DONE, captured_at=TIMES["r"])
    for run in ("r", LATER):
        with pytest.raises(ConfigError, match=f"^--later-run-id {run}: give a run whose snapshot is newer than .* r$"):
            later_snapshot(warehouse, plan, run)


def test_a_later_run_without_a_plan_is_refused(warehouse: Warehouse) -> None:
    """Its inputs may be wrong; a run that had nothing to do has accepted them."""
    plan = load_plan(warehouse)
    add_run(warehouse, LATER, DONE, verdict="refused")
    with pytest.raises(Refused, match=r"^run 'later' has no plan for cluster 'c', its verdict is refused$"):
        later_snapshot(warehouse, plan, LATER)
    add_run(warehouse, "idle", DONE, verdict="nothing_to_do", captured_at=TIMES[LATER])
    assert later_snapshot(warehouse, plan, "idle").state.replicas["stays", 0] == (1, 3)


def test_an_unknown_run_and_deleted_rows_are_named(warehouse: Warehouse) -> None:
    """Exit code 2, and the closest name."""
    plan = load_plan(warehouse)
    add_run(warehouse, LATER, {}, captured_at=TIMES[LATER])
    with pytest.raises(StageError, match=r"has no run 'latr' .did you mean 'later'"):
        later_snapshot(warehouse, plan, "latr")
    with pytest.raises(StageError, match=r"^the snapshot of run 'later' was deleted from table instance: "):
        later_snapshot(warehouse, plan, LATER)


@pytest.mark.parametrize(
    ("lists", "topic_ids", "code", "conclusion"),
    [
        (DONE, None, 0, "done: everything is as planned"),
        ({**DONE, ("stays", 1): [2, 1]}, None, 4, "go on: ./ballast run --run-id r --cluster c"),
        ({**DONE, ("x", 1): [2, 1]}, None, 6, "plan again: 1 partition is new"),
        (DONE, {"stays": "new", "x": None}, 6, "plan again: the plan cannot move 2 partitions any more"),
    ],
    ids=["done", "waits", "new", "recreated"],
)
def test_a_plan_is_compared_without_a_connection(
    warehouse: Warehouse,
    capsys: pytest.CaptureFixture[str],
    lists: Lists,
    topic_ids: Mapping[str, str | None] | None,
    code: int,
    conclusion: str,
) -> None:
    """The command reads only tables."""
    add_run(warehouse, LATER, lists, topic_ids=topic_ids, source="kafka://h:1")
    ended: Any = Commands(warehouse, capsys).run("verify", "--later-run-id", LATER)
    first, *_, last = ended.out.splitlines()
    assert first == "cluster c: run r, 2 waves, compared with the snapshot of run later, 2026-11-03 04:05 UTC"
    assert (ended.code, last, ended.err) == (code, conclusion, "")
