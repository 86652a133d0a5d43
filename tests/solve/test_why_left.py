"""What a plan leaves undone, from a cluster to its findings: each cause as the planner brings it about, and the audit
of that plan."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from benchmarks.rows import partition_rows
from optimizer.domain import Cause, Cluster, FindingCode, LogDir
from optimizer.planning.memory_placement import MemoryPlacement, in_memory
from optimizer.settings import ClusterInput, Policy, Schedule, Settings, Solver
from optimizer.solve.driver import Solved, solve
from optimizer.solve.findings.directory_findings import full_directory_findings
from optimizer.solve.ortools.glop import OutOfTime
from optimizer.solve.shard.shard_solver import FAILED, OUT_OF_TIME
from tests.solve.clusters import ALONE, ID, make_brokers, make_cluster, make_partitions, pinned, with_requested_factors
from tests.solve.test_driver import with_dead
from tests.solve.troubled import audited

WIDE = Policy(disk_band=9.0, replicas_band=9.0, in_band=9.0, leaders_band=9.0, out_band=9.0)  # nothing for balance
USUAL, FEW = Solver(), Solver(shard_brokers=2, rack_shard_brokers=2, rounds=1)
LEFT = (FindingCode.NOT_EMPTIED, FindingCode.NOT_PINNED, FindingCode.NOT_RESIZED, FindingCode.LEFT_FOR_DISK)


def planned(cluster: Cluster, solver: Solver = USUAL, waves: int = 0) -> tuple[Solved[MemoryPlacement], pd.DataFrame]:
    """The plan and its findings; it passes the audit, which finds what each partition is left with."""
    run_settings = Settings(
        clusters=(ClusterInput(id=ID, input="/unused"),), policy=WIDE, solver=solver, schedule=Schedule(waves=waves)
    )
    rows = pd.DataFrame(partition_rows(cluster))
    plan = solve(in_memory(rows, {ID: cluster.brokers}), run_settings, ALONE)
    best = max(row.bound_bytes for row in plan.bounds.rows[ID])
    assert audited(cluster, plan.tables, best) == []
    return plan, plan.tables["findings"]


def fields(findings: pd.DataFrame, codes: Iterable[FindingCode], *names: str) -> set[tuple[Any, ...]]:
    """Some fields of the findings with these codes."""
    selected = findings[findings["code"].isin([*codes])]
    return set(selected[["code", *names]].itertuples(index=False, name=None))


def far_pins() -> Cluster:
    """Five partitions on a broker outside their pins and on a dead one; each pin has two brokers of its own."""
    brokers = replace(with_dead(make_brokers([0] * 12), [11]), racks_matter=False)
    pins = {f"t{i}": [2 * i, 2 * i + 1, 11] for i in range(5)}
    return pinned(make_cluster(brokers, make_partitions([[10, 11]] * 5, [10] * 5, [1] * 5)), pins, [*pins])


def test_rounds_that_end_too_soon_are_reported() -> None:
    """A shard of two brokers takes at most one of the partitions off the dead broker, and there are three rounds: what
    waits keeps its list, its replica outside its pin is reported to need more rounds, and all of it is unexplained."""
    cluster = far_pins()
    plan, findings = planned(cluster, FEW)
    kept = np.flatnonzero((plan.placement.fleet[ID].current == cluster.partitions.replicas).all(axis=1)).tolist()
    assert len(kept) >= 2
    assert fields(findings, [FindingCode.NOT_PINNED], "cause", "topic", "partition", "broker_id") == {
        (FindingCode.NOT_PINNED, Cause.NO_MORE_ROUNDS, f"t{row}", row, 10) for row in kept
    }
    assert fields(findings, [FindingCode.NOT_EMPTIED, FindingCode.UNEXPLAINED], "topic") == {
        (code, f"t{row}") for code in (FindingCode.NOT_EMPTIED, FindingCode.UNEXPLAINED) for row in kept
    }
    assert fields(findings, [FindingCode.DEAD_BROKER], "broker_id", "amount", "limit") == {
        (FindingCode.DEAD_BROKER, 11, len(kept), 0)
    }


def test_one_shard_leaves_nothing_to_more_rounds() -> None:
    """Where all brokers are in one shard every pin is met, and the dead broker is empty."""
    plan, findings = planned(far_pins())
    assert plan.placement.fleet[ID].current.tolist() == [[2 * i, 2 * i + 1] for i in range(5)]
    assert fields(findings, [*LEFT, FindingCode.UNEXPLAINED]) == set()


def full_disks(capacity_bytes: int) -> Cluster:
    """Broker 0 is to be emptied and has 850 and 50 bytes; the others have 550 and 500. The partition of 450 bytes is to
    be on two brokers."""
    brokers = replace(
        make_brokers([0, 1, 2], draining=(0,)), disk_capacity_bytes=np.array([10**4, *[capacity_bytes] * 2])
    )
    return with_requested_factors(
        make_cluster(brokers, make_partitions([[0], [1], [2], [0], [1]], [850, 100, 500, 50, 450])), [1, 1, 1, 1, 2]
    )


def test_disks_without_room_are_reported() -> None:
    """Up to 900 bytes on a disk: what fits moves, and the rest is reported to lack room, with how much of it there
    is; no limit on moves is blamed."""
    plan, findings = planned(full_disks(1000))
    current = plan.placement.fleet[ID].current
    assert current[[0, 1, 2, 4]].tolist() == [[0, -1], [1, -1], [2, -1], [1, -1]]
    assert current[3, 0] in (1, 2)
    reported = fields(findings, [*LEFT, FindingCode.LIMITED], "cause", "partition", "broker_id", "amount", "limit")
    assert reported == {
        (FindingCode.NOT_EMPTIED, Cause.NO_DISK_ROOM, 0, 0, None, None),
        (FindingCode.NOT_RESIZED, Cause.NO_DISK_ROOM, 4, None, 1, 2),
        (FindingCode.LIMITED, Cause.NO_DISK_ROOM, None, None, 2, None),
    }


def test_disks_with_room_leave_nothing() -> None:
    """On disks of twice the size all of it is done."""
    assert fields(planned(full_disks(2000))[1], [*LEFT, FindingCode.LIMITED]) == set()


def in_turn() -> Cluster:
    """Broker 1 has no room for x, which leaves broker 0, nor for a second replica of y, before a has left it."""
    brokers = make_brokers([0, 1, 2], draining=(0,))
    brokers = replace(brokers, disk_capacity_bytes=np.array([1000, 1000, 2000]))
    cluster = make_cluster(brokers, make_partitions([[1], [1], [0], [2]], [600, 250, 500, 100]))
    return pinned(
        with_requested_factors(cluster, [1, 1, 1, 2]), {"a": [2], "x": [1], "y": [1, 2]}, ["a", "b", "x", "y"]
    )


def test_copies_that_need_an_order_are_reported_if_there_is_none() -> None:
    """In one wave a makes no room in time: x stays where it is and y keeps its length; both are reported as left."""
    plan, findings = planned(in_turn(), waves=1)
    assert plan.placement.fleet[ID].current.tolist() == [[2, -1], [1, -1], [0, -1], [2, -1]]
    assert fields(findings, LEFT, "cause", "topic", "partition", "broker_id", "amount", "limit") == {
        (FindingCode.NOT_EMPTIED, Cause.NO_ORDER_OF_COPIES, "x", 2, 0, None, None),
        (FindingCode.NOT_PINNED, Cause.NO_ORDER_OF_COPIES, "x", 2, 0, None, None),
        (FindingCode.NOT_RESIZED, Cause.NO_ORDER_OF_COPIES, "y", 3, None, 1, 2),
        (FindingCode.LEFT_FOR_DISK, Cause.NO_ORDER_OF_COPIES, "x", 2, None, None, None),
        (FindingCode.LEFT_FOR_DISK, Cause.NO_ORDER_OF_COPIES, "y", 3, None, None, None),
    }


def test_as_many_waves_as_it_takes_leave_nothing() -> None:
    """Where the schedule fixes no number of waves x and y follow a."""
    plan, findings = planned(in_turn())
    assert np.sort(plan.placement.fleet[ID].current).tolist() == [[-1, 2], [-1, 1], [-1, 1], [1, 2]]
    assert fields(findings, LEFT) == set()


def small_directories(*used: int) -> Cluster:
    """Broker 0 is drained of 300 bytes; broker 1 has two directories of 500 bytes each that hold so many."""
    dirs = tuple(LogDir(f"/d{d}", 500, n, 3, is_open=True) for d, n in enumerate(used))
    brokers = replace(make_brokers([0, 1], draining=(0,)), log_dirs=((), dirs), racks_matter=False)
    return make_cluster(
        replace(brokers, disk_capacity_bytes=np.array([1000, 1000])), make_partitions([[0], [1]], [300, 400])
    )


def test_what_fits_a_broker_but_no_directory_is_left_with_its_name() -> None:
    """Broker 1 has room for 500 bytes, each directory for 250 or 150: 300 stay."""
    plan, findings = planned(small_directories(200, 300))
    assert plan.placement.fleet[ID].current.tolist() == [[0], [1]]
    assert fields(findings, LEFT, "cause", "partition") == {
        (FindingCode.NOT_EMPTIED, Cause.NO_DIRECTORY_ROOM, 0),
        (FindingCode.LEFT_FOR_DISK, Cause.NO_DIRECTORY_ROOM, 0),
    }
    (remedy,) = findings[findings["code"] == FindingCode.LEFT_FOR_DISK]["remedy"]
    assert "a directory of broker 1 (/d0, /d1)" in remedy
    assert planned(small_directories(100, 300))[0].placement.fleet[ID].current.tolist() == [[1], [1]]


def test_a_directory_over_its_limit_and_one_of_unknown_size_are_named() -> None:
    """Both before the plan; brokers with one directory have neither."""
    brokers = replace(
        make_brokers([0, 1, 2]),
        log_dirs=(
            (LogDir("/a", 100, 91, 1, is_open=True), LogDir("/b", 100, 90, 1, is_open=True)),
            (LogDir("/a", None, 91, 1, is_open=True), LogDir("/b", 100, 90, 1, is_open=True)),
            (LogDir("/a", 100, 99, 1, is_open=True),),
        ),
    )
    found = list(full_directory_findings(brokers, headroom=0.1))
    assert [(f.code, f.broker_id, f.amount, f.limit, dict(f.facts)) for f in found] == [
        (FindingCode.NO_LOG_DIR_CAPACITY, None, 1, 2, {}),
        (FindingCode.LOG_DIR_OVER, 0, 91, 90, {"log_dir": "/a"}),
    ]


@pytest.mark.parametrize(
    ("error", "why", "status", "code", "words"),
    [
        (MemoryError("e"), "MemoryError: e", FAILED, FindingCode.SHARD_FAILED, "failed"),
        (OutOfTime("e"), "OutOfTime: e", OUT_OF_TIME, FindingCode.SHARD_OUT_OF_TIME, "ran out of time"),
    ],
)
def test_a_shard_that_is_not_solved_is_reported(
    error: Exception, why: str, status: str, code: FindingCode, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its replicas stay until the next round, or for good in the last round.

    Each round has a finding with the error, and the causes of what stays are known.
    """

    def fails(*_: object) -> None:
        raise error

    monkeypatch.setattr("optimizer.solve.rounds.shard_task.solve_shard", fails)
    plan, findings = planned(full_disks(2000), Solver(rounds=1))
    assert [result.status.status for result in plan.shards] == [status] * 3
    reported = findings[findings["code"] == code]
    retried, kept = "the next round takes its replicas", "its replicas stay where they are"
    assert dict(zip(reported["subject"], reported["detail"], strict=True)) == {
        f"shard 0 of round {number}": f"a shard of 3 brokers {words}; {consequence}: {why}"
        for number, consequence in enumerate([retried, retried, kept])
    }
    assert fields(findings, [FindingCode.NOT_EMPTIED, FindingCode.UNEXPLAINED], "partition") == {
        (code, row) for code in (FindingCode.NOT_EMPTIED, FindingCode.UNEXPLAINED) for row in (0, 3)
    }


def beside_many_small() -> Cluster:
    """Broker 0 is drained of 150 GB replicas; broker 1 has ten directories of 100 GB, broker 2 one large one."""
    small = tuple(LogDir(f"/d{d}", 100, 0, 0, is_open=True) for d in range(10))
    large = (LogDir("/d", 1000, 400, 1, is_open=True),)
    brokers = replace(make_brokers([0, 1, 2], draining=(0,)), log_dirs=((), small, large), racks_matter=False)
    brokers = replace(brokers, disk_capacity_bytes=np.array([1000, 1000, 1000]))
    return make_cluster(brokers, make_partitions([[0], [0], [2]], [150, 150, 400]))


def test_another_broker_takes_what_fits_no_directory() -> None:
    """A second choice knows the largest replica that the directories of a broker take."""
    plan, findings = planned(beside_many_small())
    assert plan.placement.fleet[ID].current.tolist() == [[2], [2], [2]]
    assert fields(findings, LEFT) == set()


def crossed() -> Cluster:
    """t0 goes to broker 1 and t1 away from it: the disk of broker 2 needs t0 first, the directories of broker 1 t1."""
    dirs = (LogDir("/a", 100, 85, 1, is_open=True), LogDir("/b", 100, 75, 1, is_open=True))
    brokers = replace(make_brokers([0, 1, 2]), log_dirs=((), dirs, ()), racks_matter=False)
    brokers = replace(brokers, disk_capacity_bytes=np.array([1000, 200, 100]))
    cluster = make_cluster(brokers, make_partitions([[2], [1], [1], [2]], [20, 20, 140, 65]))
    return pinned(cluster, {"t0": [1], "t1": [2]}, ["t0", "t1", "x", "y"])


def test_disks_and_directories_need_one_order() -> None:
    """No order serves both, so at least one of two changes stays, and no directory is filled."""
    _, findings = planned(crossed())
    assert fields(findings, [FindingCode.LEFT_FOR_DISK], "topic")
