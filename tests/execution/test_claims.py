"""One wave of a cluster at a time, whatever process or host runs it."""

import getpass
import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from execution import claims
from execution.planned import Plan
from stored.tables import Overtaken, Warehouse
from stored.verdicts import Refused
from tests.execution.clock import without_waiting
from tests.execution.warehouse import CLUSTER, load_plan, usual_plan, write_plan

HOME = Path(__file__).resolve().parent.parent.parent
AT_ONCE = """\
import sys
from dataclasses import replace
from execution import claims
from execution.planned import load
from stored.verdicts import Refused
from stored.tables import Warehouse
warehouse = Warehouse(sys.argv[1])
plan = replace(load(warehouse, cluster_id="c", run_id="r"), run_id=sys.argv[2])
sys.stdin.readline()
try:
    claims.record(warehouse, plan, 1, claims.HELD)
except Refused:
    sys.exit(3)
"""


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    """A warehouse with a plan."""
    return write_plan(tmp_path, usual_plan())


def events(warehouse: Warehouse) -> list[tuple[str, int, str]]:
    """Run, wave and event of every row, in order."""
    rows = sorted(warehouse.rows("executions", cluster_id=CLUSTER), key=lambda row: int(row["number"]))
    assert [row["number"] for row in rows] == list(range(1, len(rows) + 1))
    return [(row["run_id"], row["wave"], row["event"]) for row in rows]


def of_another_run(plan: Plan) -> Plan:
    """The plan of another run."""
    return replace(plan, run_id="next")


def test_a_cluster_is_held_until_it_is_released(warehouse: Warehouse) -> None:
    """Another wave and another run are refused and see the holder; the same wave continues; then the next may start."""
    plan = load_plan(warehouse)
    for event in (claims.HELD, claims.HELD, claims.THROTTLED):
        claims.record(warehouse, plan, 1, event)
    for run, wave in ((plan, 2), (of_another_run(plan), 1)):
        with pytest.raises(Refused) as refused:
            claims.record(warehouse, run, wave, claims.HELD)
        assert "cluster 'c' is held by wave 1 of run 'r' (" in str(refused.value)
        assert str(refused.value).endswith("./ballast wave off --run-id r --cluster c --wave 1")
    assert claims.process_name() in str(refused.value)
    claims.record(warehouse, plan, 1, claims.RELEASED)
    claims.record(warehouse, of_another_run(plan), 1, claims.HELD)
    expected = [("r", 1, claims.HELD), ("r", 1, claims.THROTTLED), ("r", 1, claims.RELEASED), ("next", 1, claims.HELD)]
    assert events(warehouse) == expected


def test_clusters_do_not_hold_each_other(warehouse: Warehouse) -> None:
    """A wave of one cluster does not hold another cluster."""
    plan = load_plan(warehouse)
    other_cluster = replace(plan, cluster_id="d", run_id="next")
    claims.record(warehouse, plan, 1, claims.HELD)
    claims.record(warehouse, other_cluster, 1, claims.HELD)
    claims.check_not_overtaken(warehouse, other_cluster)
    assert [claims.is_held_for(claims.last_event(warehouse, name), plan, 1) for name in ("c", "d")] == [True, False]


@pytest.mark.parametrize("started", [(claims.STARTING,), (claims.EXECUTED,), (claims.STARTING, claims.EXECUTED)])
def test_a_plan_is_stale_when_another_run_has_executed_since_its_snapshot(
    warehouse: Warehouse, started: Sequence[str]
) -> None:
    """Even if that run has freed the cluster. Its own waves and earlier waves do not make it stale, nor does a wave
    that copied nothing."""
    plan = load_plan(warehouse)
    for event in (claims.HELD, claims.THROTTLED, claims.REMOVING, claims.RELEASED):
        claims.record(warehouse, plan, 1, event)
    claims.check_not_overtaken(warehouse, of_another_run(plan))
    for event in (claims.HELD, *started, claims.RELEASED):
        claims.record(warehouse, plan, 1, event)
    claims.check_not_overtaken(warehouse, plan)
    with pytest.raises(Refused, match=r"^wave 1 of run 'r' was executed after this plan's snapshot of .*: plan again$"):
        claims.check_not_overtaken(warehouse, of_another_run(plan))
    newer = replace(of_another_run(plan), manifest={**plan.manifest, "captured_at": "2999-01-01T00:00:00+00:00"})
    claims.check_not_overtaken(warehouse, newer)
    claims.check_not_overtaken(warehouse, replace(newer, manifest={**plan.manifest, "captured_at": None}))


def release_and_wait(processes: Sequence["subprocess.Popen[str]"]) -> list[int]:
    """Let all processes continue; returns their exit codes."""
    for process in processes:
        assert process.stdin
        process.stdin.write("\n")
        process.stdin.close()
    return [process.wait() for process in processes]


def test_only_one_of_many_processes_gets_the_cluster(warehouse: Warehouse) -> None:
    """The table's log decides between processes that want to hold the cluster at the same time."""
    warehouse.version("executions")
    runs = [f"run-{n}" for n in range(4)]
    command = [sys.executable, "-c", AT_ONCE, warehouse.path]
    started = [subprocess.Popen([*command, run], cwd=HOME, stdin=subprocess.PIPE, text=True) for run in runs]
    codes = release_and_wait(started)
    assert sorted(codes) == [0, 3, 3, 3]
    assert events(warehouse) == [(runs[codes.index(0)], 1, claims.HELD)]


@pytest.mark.parametrize(("overtaken", "is_recorded"), [(0, True), (9, True), (10, False)])
def test_a_claim_that_was_overtaken_is_tried_again(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch, overtaken: int, is_recorded: bool
) -> None:
    """Ten times, up to a second apart; then the error is raised."""
    append, errors = warehouse.append, [Overtaken("x")] * overtaken
    slept = without_waiting(monkeypatch, claims)

    def slow(*rows: Any, **options: Any) -> None:
        if errors:
            raise errors.pop()
        append(*rows, **options)

    monkeypatch.setattr(warehouse, "append", slow)
    with nullcontext() if is_recorded else pytest.raises(Overtaken):
        claims.record(warehouse, load_plan(warehouse), 1, claims.HELD)
    assert (errors, len(slept)) == ([], min(overtaken, 9))
    assert all(0.1 <= seconds <= 1 for seconds in slept)
    assert events(warehouse) == [("r", 1, claims.HELD)] * is_recorded


def test_a_faster_process_gets_the_cluster(warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second try finds that another wave holds the cluster."""
    append, plan = warehouse.append, load_plan(warehouse)

    def overtaken(*rows: Any, **options: Any) -> None:
        monkeypatch.setattr(warehouse, "append", append)
        claims.record(warehouse, plan, 2, claims.HELD)
        append(*rows, **options)

    monkeypatch.setattr(warehouse, "append", overtaken)
    without_waiting(monkeypatch, claims)
    with pytest.raises(Refused, match="held by wave 2"):
        claims.record(warehouse, plan, 1, claims.HELD)
    assert events(warehouse) == [("r", 2, claims.HELD)]


def test_an_event_is_recorded_once(warehouse: Warehouse) -> None:
    """A wave that already holds the cluster adds no event ``held``; after its release it may."""
    plan = load_plan(warehouse)
    recorded = [claims.HELD, claims.EXECUTED, claims.EXECUTED, claims.HELD, claims.RELEASED, claims.HELD]
    for event in recorded:
        claims.record(warehouse, plan, 1, event)
    assert [event for *_, event in events(warehouse)] == ["held", "executed", "released", "held"]
    assert {row["holder"] for row in warehouse.rows("executions")} == {claims.process_name()}


@pytest.mark.parametrize("error", [KeyError("uid not found"), OSError()])
def test_a_user_without_a_name_is_a_number(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    """Many containers have users without a name."""

    def fail() -> str:
        raise error

    monkeypatch.setattr(getpass, "getuser", fail)
    assert claims.user_name() == f"uid {os.getuid()}"
    assert claims.process_name() == f"uid {os.getuid()} on {socket.gethostname()}, process {os.getpid()}"


def test_what_was_overtaken_is_not_written(warehouse: Warehouse) -> None:
    """A row that was made from an older version of the table is refused."""
    plan, version = load_plan(warehouse), warehouse.version("executions")
    claims.record(warehouse, plan, 1, claims.HELD)
    row = {**warehouse.rows("executions")[0], "number": 2}
    with pytest.raises(Overtaken):
        warehouse.append("executions", [row], after=version)
    assert len(events(warehouse)) == 1


def test_an_election_does_not_hold_the_cluster(warehouse: Warehouse) -> None:
    """It leaves a free cluster free; while another wave holds the cluster, it is refused."""
    plan = load_plan(warehouse)
    for event in (claims.ELECTING, claims.ELECTED, claims.ELECTING):
        claims.record(warehouse, plan, 2, event)
        assert claims.last_event(warehouse, CLUSTER) is None
    claims.record(warehouse, plan, 1, claims.HELD)
    with pytest.raises(Refused, match="held by wave 1"):
        claims.record(warehouse, plan, 2, claims.ELECTED)
    claims.record(warehouse, plan, 1, claims.RELEASED)
    claims.record(warehouse, plan, 2, claims.ELECTED, result="stays-0: X")
    last = claims.last_event(warehouse, CLUSTER)
    assert last
    assert last["event"] == claims.RELEASED
    assert {row["result"] for row in claims.events(warehouse, event=claims.ELECTED)} == {None, "stays-0: X"}


def test_the_journal_is_that_of_the_last_hold(warehouse: Warehouse) -> None:
    """In order, with its changes; rows of other waves and runs do not count. The first ``held`` of a hold stays."""
    plan = load_plan(warehouse)
    assert claims.of_last_hold(warehouse, plan, 1) == []
    for changes in ("old", "new"):
        claims.record(warehouse, plan, 1, claims.HELD, changes=changes)
        claims.record(warehouse, plan, 1, claims.HELD, changes="not recorded")
        claims.record(warehouse, plan, 1, claims.RELEASED)
    claims.record(warehouse, plan, 2, claims.HELD, changes="other wave")
    claims.record(warehouse, plan, 2, claims.RELEASED)
    claims.record(warehouse, of_another_run(plan), 1, claims.HELD, changes="other run")
    journal = claims.of_last_hold(warehouse, plan, 1)
    assert [(row["event"], row["changes"]) for row in journal] == [(claims.HELD, "new"), (claims.RELEASED, None)]
    assert "changes" not in claims.events(warehouse)[0]


@pytest.mark.parametrize(
    ("events_of_hold", "is_unfinished"),
    [
        ((), False),
        ((claims.HELD, claims.EXECUTED), False),
        ((claims.HELD, claims.CANCELLING), True),
        ((claims.HELD, claims.CANCELLING, claims.THROTTLED), True),
        ((claims.HELD, claims.CANCELLING, claims.CANCELLED), False),
        ((claims.HELD, claims.CANCELLING, claims.RELEASED), False),
        ((claims.HELD, claims.CANCELLING, claims.CANCELLED, claims.EXECUTED, claims.CANCELLING), True),
    ],
    ids=str,
)
def test_a_cancel_is_unfinished_until_it_is_recorded(events_of_hold: Sequence[str], is_unfinished: bool) -> None:
    """The last of several cancels counts."""
    assert claims.is_unfinished_cancel({"event": event} for event in events_of_hold) is is_unfinished
