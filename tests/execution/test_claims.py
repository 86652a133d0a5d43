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

from execution import journal
from execution.journal import Journal, Ledger, Phase, WaveId
from execution.planned import Plan
from stored.tables import Overtaken, Warehouse
from stored.verdicts import Refused
from tests.execution import rows
from tests.execution.clock import without_waiting
from tests.execution.warehouse import CLUSTER, load_plan, usual_plan, write_plan

HOME = Path(__file__).resolve().parent.parent.parent
AT_ONCE = """\
import sys
from dataclasses import replace
from execution import journal
from execution.journal import Journal, WaveId
from execution.planned import load
from stored.verdicts import Refused
from stored.tables import Warehouse
warehouse = Warehouse(sys.argv[1])
plan = replace(load(warehouse, cluster_id="c", run_id="r"), run_id=sys.argv[2])
sys.stdin.readline()
try:
    Journal(warehouse, "c").record(plan, WaveId(1), journal.HELD)
except Refused:
    sys.exit(3)
"""


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    """A warehouse with a plan."""
    return write_plan(tmp_path, usual_plan())


def events(warehouse: Warehouse) -> list[tuple[str, int, str]]:
    """Run, wave and event of every row, in order."""
    stored = sorted(warehouse.rows("executions", cluster_id=CLUSTER), key=lambda row: int(row["number"]))
    assert [row["number"] for row in stored] == list(range(1, len(stored) + 1))
    return [(row["run_id"], row["wave"], row["event"]) for row in stored]


def ledger(warehouse: Warehouse, cluster_id: str = CLUSTER) -> Ledger:
    """What the journal of a cluster says, to a new process."""
    return Journal(warehouse, cluster_id).look()


def check_not_overtaken(warehouse: Warehouse, plan: Plan) -> None:
    """Whether another run has started copies since the plan's snapshot."""
    ledger(warehouse, plan.cluster_id).check_not_overtaken(plan)


def of_another_run(plan: Plan) -> Plan:
    """The plan of another run."""
    return replace(plan, run_id="next")


def test_a_cluster_is_held_until_it_is_released(warehouse: Warehouse) -> None:
    """Another wave and another run are refused and see the holder; the same wave continues; then the next may start."""
    plan = load_plan(warehouse)
    for event in (journal.HELD, journal.HELD, journal.THROTTLED):
        rows.record(warehouse, plan, 1, event)
    for run, wave in ((plan, 2), (of_another_run(plan), 1)):
        with pytest.raises(Refused) as refused:
            rows.record(warehouse, run, wave, journal.HELD)
        assert "cluster 'c' is held by wave 1 of run 'r' (" in str(refused.value)
        assert str(refused.value).endswith("./ballast wave off --run-id r --cluster c --wave 1")
    assert journal.process_name() in str(refused.value)
    rows.record(warehouse, plan, 1, journal.RELEASED)
    rows.record(warehouse, of_another_run(plan), 1, journal.HELD)
    expected = [
        ("r", 1, journal.HELD),
        ("r", 1, journal.THROTTLED),
        ("r", 1, journal.RELEASED),
        ("next", 1, journal.HELD),
    ]
    assert events(warehouse) == expected


def test_clusters_do_not_hold_each_other(warehouse: Warehouse) -> None:
    """A wave of one cluster does not hold another cluster."""
    plan = load_plan(warehouse)
    other_cluster = replace(plan, cluster_id="d", run_id="next")
    rows.record(warehouse, plan, 1, journal.HELD)
    rows.record(warehouse, other_cluster, 1, journal.HELD)
    check_not_overtaken(warehouse, other_cluster)
    assert [ledger(warehouse, name).hold_of(plan, WaveId(1)) is not None for name in ("c", "d")] == [True, False]


@pytest.mark.parametrize("started", [(journal.STARTING,), (journal.EXECUTED,), (journal.STARTING, journal.EXECUTED)])
def test_a_plan_is_stale_when_another_run_has_executed_since_its_snapshot(
    warehouse: Warehouse, started: Sequence[str]
) -> None:
    """Even if that run has freed the cluster. Its own waves and earlier waves do not make it stale, nor does a wave
    that copied nothing."""
    plan = load_plan(warehouse)
    for event in (journal.HELD, journal.THROTTLED, journal.REMOVING, journal.RELEASED):
        rows.record(warehouse, plan, 1, event)
    check_not_overtaken(warehouse, of_another_run(plan))
    for event in (journal.HELD, *started, journal.RELEASED):
        rows.record(warehouse, plan, 1, event)
    check_not_overtaken(warehouse, plan)
    with pytest.raises(Refused, match=r"^wave 1 of run 'r' was executed after this plan's snapshot of .*: plan again$"):
        check_not_overtaken(warehouse, of_another_run(plan))
    newer = replace(of_another_run(plan), manifest={**plan.manifest, "captured_at": "2999-01-01T00:00:00+00:00"})
    check_not_overtaken(warehouse, newer)
    check_not_overtaken(warehouse, replace(newer, manifest={**plan.manifest, "captured_at": None}))


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
    assert events(warehouse) == [(runs[codes.index(0)], 1, journal.HELD)]


@pytest.mark.parametrize(("overtaken", "is_recorded"), [(0, True), (9, True), (10, False)])
def test_a_claim_that_was_overtaken_is_tried_again(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch, overtaken: int, is_recorded: bool
) -> None:
    """Ten times, up to a second apart; then the error is raised."""
    append, errors = warehouse.append, [Overtaken("x")] * overtaken
    slept = without_waiting(monkeypatch, journal)

    def slow(*rows: Any, **options: Any) -> None:
        if errors:
            raise errors.pop()
        append(*rows, **options)

    monkeypatch.setattr(warehouse, "append", slow)
    with nullcontext() if is_recorded else pytest.raises(Overtaken):
        rows.record(warehouse, load_plan(warehouse), 1, journal.HELD)
    assert (errors, len(slept)) == ([], min(overtaken, 9))
    assert all(0.1 <= seconds <= 1 for seconds in slept)
    assert events(warehouse) == [("r", 1, journal.HELD)] * is_recorded


def test_a_faster_process_gets_the_cluster(warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second try finds that another wave holds the cluster."""
    append, plan = warehouse.append, load_plan(warehouse)

    def overtaken(*content: Any, **options: Any) -> None:
        monkeypatch.setattr(warehouse, "append", append)
        rows.record(warehouse, plan, 2, journal.HELD)
        append(*content, **options)

    monkeypatch.setattr(warehouse, "append", overtaken)
    without_waiting(monkeypatch, journal)
    with pytest.raises(Refused, match="held by wave 2"):
        rows.record(warehouse, plan, 1, journal.HELD)
    assert events(warehouse) == [("r", 2, journal.HELD)]


def test_an_event_is_recorded_once(warehouse: Warehouse) -> None:
    """A wave that already holds the cluster adds no event ``held``; after its release it may."""
    plan = load_plan(warehouse)
    recorded = [journal.HELD, journal.EXECUTED, journal.EXECUTED, journal.HELD, journal.RELEASED, journal.HELD]
    for event in recorded:
        rows.record(warehouse, plan, 1, event)
    assert [event for *_, event in events(warehouse)] == ["held", "executed", "released", "held"]
    assert {row["holder"] for row in warehouse.rows("executions")} == {journal.process_name()}


@pytest.mark.parametrize("error", [KeyError("uid not found"), OSError()])
def test_a_user_without_a_name_is_a_number(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    """Many containers have users without a name."""

    def fail() -> str:
        raise error

    monkeypatch.setattr(getpass, "getuser", fail)
    assert journal.user_name() == f"uid {os.getuid()}"
    assert journal.process_name() == f"uid {os.getuid()} on {socket.gethostname()}, process {os.getpid()}"


def test_what_was_overtaken_is_not_written(warehouse: Warehouse) -> None:
    """A row that was made from an older version of the table is refused."""
    plan, version = load_plan(warehouse), warehouse.version("executions")
    rows.record(warehouse, plan, 1, journal.HELD)
    row = {**warehouse.rows("executions")[0], "number": 2}
    with pytest.raises(Overtaken):
        warehouse.append("executions", [row], after=version)
    assert len(events(warehouse)) == 1


def test_an_election_does_not_hold_the_cluster(warehouse: Warehouse) -> None:
    """It leaves a free cluster free, and a hold as it is."""
    plan, book = load_plan(warehouse), Journal(warehouse, CLUSTER)
    for event in (journal.ELECTING, journal.ELECTED):
        book.note(plan, event, {"not_led": ["stays-0: X"]}, WaveId(2))
        assert ledger(warehouse).holder is None
    rows.record(warehouse, plan, 1, journal.HELD)
    before = ledger(warehouse).holder
    book.note(plan, journal.ELECTING, {}, WaveId(1))
    assert ledger(warehouse).holder == before


def test_a_hold_begins_with_its_last_row_held(warehouse: Warehouse) -> None:
    """With its changes; rows of other waves and runs do not count. The first ``held`` of a hold stays."""
    plan, key = load_plan(warehouse), ("r", WaveId(1))
    assert key not in ledger(warehouse).holds
    for text in ("old", "new"):
        rows.record(warehouse, plan, 1, journal.HELD, changes=text)
        rows.record(warehouse, plan, 1, journal.HELD, changes="not recorded")
        rows.record(warehouse, plan, 1, journal.RELEASED)
    rows.record(warehouse, plan, 2, journal.HELD, changes="other wave")
    rows.record(warehouse, plan, 2, journal.RELEASED)
    rows.record(warehouse, of_another_run(plan), 1, journal.HELD, changes="other run")
    assert (ledger(warehouse).holds[key].phase, rows.changes(warehouse, plan, 1)) == (Phase.FREE, "new")
    assert "changes" not in journal.events(warehouse)[0]


@pytest.mark.parametrize(
    ("events_of_hold", "is_unfinished"),
    [
        ((), False),
        ((journal.HELD, journal.EXECUTED), False),
        ((journal.HELD, journal.CANCELLING), True),
        ((journal.HELD, journal.CANCELLING, journal.THROTTLED), True),
        ((journal.HELD, journal.CANCELLING, journal.CANCELLED), False),
        ((journal.HELD, journal.CANCELLING, journal.RELEASED), False),
        ((journal.HELD, journal.CANCELLING, journal.CANCELLED, journal.EXECUTED, journal.CANCELLING), True),
    ],
    ids=str,
)
def test_a_cancel_is_unfinished_until_it_is_done_or_the_wave_is_released(
    warehouse: Warehouse, events_of_hold: Sequence[str], is_unfinished: bool
) -> None:
    """The release ends a cancel that has cancelled nothing; a wave whose cancel has ended is still being ended."""
    plan = load_plan(warehouse)
    for event in events_of_hold:
        rows.record(warehouse, plan, 1, event)
    hold = ledger(warehouse).hold_of(plan, WaveId(1))
    assert bool(hold and hold.is_unfinished_cancel) is is_unfinished
