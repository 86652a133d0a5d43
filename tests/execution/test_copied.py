"""The event ``copied``: when ``wait`` records it, and the measured times that ``show`` prints."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from execution import journal
from execution.cli import main
from execution.observed import Observed
from execution.steps import Shared, StillMoving
from optimizer.units import NEVER_SECONDS
from stored.tables import Warehouse
from stored.verdicts import Refused
from tests.execution import rows
from tests.execution.scene import DONE, MOVING, Scene
from tests.execution.test_preflight import BEFORE, PARTITION, at
from tests.execution.test_runs import end
from tests.execution.warehouse import CLUSTER, RUN, add_waves, plan_of

STARTED = ("held", "throttled", "executed")
START = datetime(2026, 11, 1, 22, tzinfo=UTC)


def record(scene: Scene, *events: str) -> None:
    """Record events of the scene's wave."""
    for event in events:
        rows.record(scene.warehouse, scene.step.plan, 1, event)


def wait(scene: Scene, *, once: bool = False) -> None:
    """Run the step as a new process does, from the tables only."""
    step = scene.step
    new = replace(step, warehouse=Warehouse(step.warehouse.path), shared=Shared())
    new.wait(every_seconds=0, once=once)


def test_the_first_check_that_finds_all_done_records_the_time(scene: Scene) -> None:
    """Not an earlier check, while copies run."""
    record(scene, *STARTED)
    moving = scene.throttled(MOVING)
    seen: list[Sequence[str]] = []
    step = replace(scene.step, say=lambda _: seen.append(scene.events()))
    scene.shows(moving, moving, DONE)
    before = datetime.now(tz=UTC)
    step.wait(every_seconds=0, once=False)
    assert seen == [[*STARTED], [*STARTED]]
    assert scene.events() == [*STARTED, "copied"]
    (row,) = [row for row in scene.warehouse.rows("executions") if row["event"] == "copied"]
    assert before <= row["happened_at"] <= datetime.now(tz=UTC)
    assert (row["run_id"], row["wave"], row["number"], row["holder"]) == (RUN, 1, 4, journal.process_name())


def test_a_scheduler_that_checks_once_records_the_time(scene: Scene) -> None:
    """Its first check that finds all done, after checks that ended while copies ran."""
    record(scene, *STARTED)
    scene.shows(scene.throttled(MOVING))
    for _ in range(2):
        with pytest.raises(StillMoving):
            wait(scene, once=True)
    assert scene.events() == [*STARTED]
    scene.shows(DONE)
    wait(scene, once=True)
    assert scene.events() == [*STARTED, "copied"]


@pytest.mark.parametrize("between", [(), ("executed",), ("throttled", "executed"), ("released", "held", "executed")])
def test_a_second_check_records_nothing(scene: Scene, between: Sequence[str]) -> None:
    """After a restart of the step, also if other steps of the wave have run again."""
    record(scene, *STARTED)
    scene.shows(DONE)
    wait(scene)
    record(scene, *between)
    for once in (False, True):
        wait(scene, once=once)
    assert scene.events() == [*STARTED, "copied", *between]


def test_every_partition_must_be_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wave with a deleted topic copies less than planned: the step ends, without a time."""
    gone = ("gone", 0)
    lists = {PARTITION: ([1, 2], [1, 3]), gone: ([2, 1], [2, 4])}
    scene = Scene(tmp_path, monkeypatch, plan_of([lists], topic_ids={}))
    record(scene, *STARTED)
    scene.shows(DONE)
    wait(scene)
    assert scene.lines == [
        "wave 1 of 1: 2 partitions, 1 done, 1 deleted",
        "skipped: 1 topic does not exist any more: gone",
    ]
    assert scene.events() == [*STARTED]
    scene.shows(replace(DONE, topic_ids={**DONE.topic_ids, "gone": "g"}, replicas={**DONE.replicas, gone: (2, 4)}))
    wait(scene)
    assert scene.events() == [*STARTED, "copied"]


@pytest.mark.parametrize("state", [BEFORE, at(1, 4)], ids=["not started", "moved by somebody else"])
def test_a_failed_wave_has_no_time(scene: Scene, state: Any) -> None:
    """The step refuses and records nothing."""
    scene.step = replace(scene.step, is_strict=True)
    record(scene, *STARTED)
    scene.shows(state)
    with pytest.raises(Refused):
        wait(scene)
    assert scene.events() == [*STARTED]


@pytest.mark.parametrize(
    "state", [at(1, 4), replace(DONE, topic_ids={"stays": "new"})], ids=["moved by somebody else", "created again"]
)
def test_a_wave_with_skipped_partitions_has_no_time(scene: Scene, state: Observed) -> None:
    """The step names them and ends."""
    record(scene, *STARTED)
    scene.shows(state)
    wait(scene)
    assert scene.lines[-1].startswith("skipped: 1 ")
    assert scene.events() == [*STARTED]


@pytest.mark.parametrize(
    "events",
    [
        (),
        ("held", "throttled"),
        (*STARTED, "released"),
        (*STARTED, "cancelled"),
        (*STARTED, "cancelled", "throttled"),
        (*STARTED, "cancelled", "released"),
        (*STARTED, "released", "held", "cancelled"),
    ],
    ids=" ".join,
)
def test_a_wave_that_does_not_run_gets_no_time(scene: Scene, events: Sequence[str]) -> None:
    """Never started, cancelled or released: its partitions may be done, but the newest event stays."""
    record(scene, *events)
    scene.shows(DONE)
    wait(scene)
    assert scene.events() == [*events]
    assert DeltaTable.is_deltatable(f"{scene.warehouse.path}/executions") is bool(events)


def test_another_wave_that_holds_the_cluster_is_not_disturbed(scene: Scene) -> None:
    """The step of an earlier wave ends as usual."""
    record(scene, *STARTED, "released")
    scene.hold(wave=2)
    rows.record(scene.warehouse, scene.step.plan, 2, journal.EXECUTED)
    scene.shows(DONE)
    wait(scene)
    other_run = replace(scene.step, plan=replace(scene.step.plan, run_id="next"))
    other_run.wait(every_seconds=0, once=False)
    assert scene.events() == [*STARTED, "released", "held", "executed"]


def test_each_wave_has_its_own_time(scene: Scene) -> None:
    """Events of another wave do not count: not its start, and not its time."""
    record(scene, *STARTED, "copied", "released")
    scene.hold(wave=2)
    scene.shows(DONE)
    second = replace(scene.step, wave=replace(scene.wave, number=2))
    second.wait(every_seconds=0, once=False)
    assert scene.events() == [*STARTED, "copied", "released", "held"]
    rows.record(scene.warehouse, scene.step.plan, 2, journal.EXECUTED)
    second.wait(every_seconds=0, once=False)
    assert scene.events() == [*STARTED, "copied", "released", "held", "executed", "copied"]


def test_the_start_of_another_wave_is_not_its_own(scene: Scene) -> None:
    """A wave that only holds the cluster gets no time."""
    record(scene, *STARTED, "released")
    scene.hold(wave=2)
    scene.shows(DONE)
    replace(scene.step, wave=replace(scene.wave, number=2)).wait(every_seconds=0, once=False)
    assert scene.events() == [*STARTED, "released", "held"]


def test_a_cancelled_wave_that_is_started_again_is_recorded(scene: Scene) -> None:
    """Once for each start after a cancel; the log stays complete."""
    record(scene, *STARTED, "cancelled", "throttled", "executed")
    scene.shows(DONE)
    for _ in range(2):
        wait(scene)
    assert scene.events() == [*STARTED, "cancelled", "throttled", "executed", "copied"]


@pytest.mark.parametrize("faster", ["copied", "released"])
def test_two_processes_record_one_time(scene: Scene, monkeypatch: pytest.MonkeyPatch, faster: str) -> None:
    """If another process finds it first, or frees the cluster meanwhile, nothing is added."""
    record(scene, *STARTED)
    append = scene.warehouse.append

    def overtaken(*rows: Any, **options: Any) -> None:
        monkeypatch.setattr(scene.warehouse, "append", append)
        record(scene, faster)
        append(*rows, **options)

    monkeypatch.setattr(scene.warehouse, "append", overtaken)
    scene.shows(DONE)
    scene.step.wait(every_seconds=0, once=False)
    assert scene.events() == [*STARTED, faster]
    assert len(scene.slept) == 1


Shown = Callable[..., list[str]]


@pytest.fixture
def shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Shown:
    """The lines about waves that ``show`` prints for a run, from events with their minutes after the start."""
    warehouse = Warehouse(str(tmp_path))

    def lines(*events: tuple[str, float], waves: int = 1, seconds: int = 20280) -> list[str]:
        end(warehouse, RUN, c="planned")
        if waves:
            add_waves(warehouse, RUN, CLUSTER, waves, estimated_seconds=seconds)
        log(warehouse, 1, *events)
        assert main(["show", "--run-id", RUN, "--warehouse", warehouse.path]) == 0
        verdict, manifest, approval, validity, *rest = capsys.readouterr().out.splitlines()
        assert (verdict, manifest, approval) == ("c: planned", "  manifest r 1", "  not approved")
        assert validity.startswith("  never expires")
        return rest

    return lines


def log(warehouse: Warehouse, wave: int, *events: tuple[str, float], run_id: str = RUN, cluster: str = CLUSTER) -> None:
    """Store events of a wave, each with its minutes after the start."""
    first = len(warehouse.rows("executions", cluster_id=cluster)) + 1
    key = {"cluster_id": cluster, "run_id": run_id, "wave": wave, "holder": "me"}
    rows = [
        {**key, "number": number, "event": event, "happened_at": START + timedelta(minutes=minutes)}
        for number, (event, minutes) in enumerate(events, first)
    ]
    if rows:
        warehouse.append("executions", rows)


EXECUTED, COPIED, RELEASED = ("executed", 2.0), ("copied", 353.0), ("released", 600.0)
MEASURED = ["  wave 1: 5 h 38 min predicted, 5 h 51 min measured"]
NOT_MEASURED = ["  wave 1: 5 h 38 min predicted, not measured"]


@pytest.mark.parametrize(
    ("events", "lines"),
    [
        ((), []),
        ((("held", 0),), []),
        ((EXECUTED,), []),
        ((("held", 0), RELEASED), []),
        ((EXECUTED, COPIED), MEASURED),
        ((EXECUTED, COPIED, RELEASED), MEASURED),
        ((EXECUTED, ("throttled", 3), ("executed", 60), COPIED, RELEASED), MEASURED),
        (
            (EXECUTED, COPIED, ("executed", 400), RELEASED, ("held", 700), ("executed", 701), ("released", 702)),
            MEASURED,
        ),
        ((EXECUTED, RELEASED), NOT_MEASURED),
        ((EXECUTED, RELEASED, ("held", 700), ("executed", 701), ("copied", 702), ("released", 703)), NOT_MEASURED),
        ((EXECUTED, ("cancelled", 60), RELEASED), []),
        ((EXECUTED, ("cancelled", 60), ("executed", 61), COPIED, RELEASED), []),
        ((EXECUTED, COPIED, ("cancelled", 400), RELEASED), []),
    ],
    ids=lambda value: " ".join(f"{event}" for event, _ in value) if isinstance(value, tuple) else "",
)
def test_ended_waves_are_shown_with_both_times(
    shown: Shown, events: tuple[tuple[str, float], ...], lines: list[str]
) -> None:
    """From the first start to the copies' end. A wave that ended without this time is not measured; a cancelled wave,
    and a wave that runs or never ran, is not shown."""
    assert shown(*events) == lines


def test_times_without_a_prediction_and_without_an_end(shown: Shown) -> None:
    """Somebody may have deleted the row; a wave may never end by its estimate."""
    assert shown(EXECUTED, COPIED, waves=0) == ["  wave 1: not predicted, 5 h 51 min measured"]
    never = shown(waves=1, seconds=NEVER_SECONDS)
    assert never == ["  wave 1: no end predicted, 5 h 51 min measured"]


def test_waves_are_shown_below_their_own_cluster_in_order(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Not those of another run or cluster; with --cluster before the summary."""
    warehouse = Warehouse(str(tmp_path))
    end(warehouse, RUN, c="planned", d="planned")
    for run_id, seconds in (("earlier", 60), (RUN, 600), ("other", 60)):
        add_waves(warehouse, run_id, "c", 11, estimated_seconds=seconds)
        add_waves(warehouse, run_id, "d", 2, estimated_seconds=seconds)
    log(warehouse, 10, ("executed", 0), ("copied", 12))
    log(warehouse, 2, ("executed", 20), ("copied", 29))
    log(warehouse, 2, ("executed", 0), ("copied", 8), cluster="d")
    log(warehouse, 1, ("executed", 100), ("copied", 101), run_id="other")
    summary = {"kind": "summary", "wave": 0, "content": "all is well", "sha256": ""}
    warehouse.append("documents", [{"cluster_id": "c", "run_id": RUN, "path": "c/summary.txt", **summary}])
    plan = ["  manifest r 1", "  not approved", "  never expires"]
    of_c = ["c: planned", *plan]
    of_c += ["  wave 2: 10 min predicted, 540 s measured", "  wave 10: 10 min predicted, 12 min measured"]
    of_d = ["d: planned", *plan, "  wave 2: 10 min predicted, 480 s measured"]
    show = ["show", "--run-id", RUN, "--warehouse", warehouse.path]
    assert main(show) == 0
    assert capsys.readouterr().out.splitlines() == [*of_c, *of_d]
    assert main([*show, "--cluster", "c"]) == 0
    assert capsys.readouterr().out.splitlines() == [*of_c, "all is well"]
