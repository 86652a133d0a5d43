"""The step off: it cancels copies, removes throttles and frees the cluster."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from execution.kafka_tools import ToolResult
from execution.observed import Observed, TopicPartition
from execution.steps import StillMoving
from optimizer.errors import BallastError
from tests.execution.scene import DONE, MOVING, Scene
from tests.execution.test_preflight import BEFORE, PARTITION, at
from tests.execution.warehouse import plan_of

OFF = ("unthrottle-careful.sh",)
ONLY_OWED, STILL_MOVING = 5, 4  # exit codes of the scripts of a plan
CANCEL = ("stays-0:1,3", "--cancel", "--preserve-throttles")
ORDER = ("stays-0:1,2", "--execute", "--additional")
NOT_REMOVED = "some throttles of wave 1 of 2 are not removed"
CHECK_BY_HAND = "neither the old nor the planned replicas, check by hand: stays-0"
FREE = "the throttles of wave 1 of 2 are removed, the cluster is free"
CANCELS: dict[str, tuple[Sequence[Observed], Sequence[tuple[str, ...]], Sequence[str], Sequence[str]]] = {
    "it comes back in order": ([MOVING, BEFORE], [CANCEL], ["cancelled: stays-0"], ["cancelled"]),
    "it comes back in another order": (
        [MOVING, *[at(2, 1)] * 3, BEFORE],
        [CANCEL, ORDER],
        ["cancelled: stays-0", "replica order restored: stays-0"],
        ["cancelled"],
    ),
    "nothing has begun": ([BEFORE], [], [], []),
    "it is done": ([DONE], [], [], []),
    "somebody else moved it": ([at(1, 4)], [], [CHECK_BY_HAND], []),
    "somebody else changes its order": ([at(2, 1, towards=(2, 1))], [], [CHECK_BY_HAND], []),
    "it is deleted": ([replace(BEFORE, topic_ids={}, replicas={})], [], [], []),
}


@pytest.mark.parametrize("case", CANCELS)
def test_what_is_in_flight_is_cancelled(scene: Scene, case: str) -> None:
    """Under its throttles; its list gets the old order; moves of others are reported and not changed."""
    states, calls, lines, events = CANCELS[case]
    scene.hold()
    scene.shows(*states)
    scene.step.off(cancel=True, accept_owed=False)
    assert scene.tools.calls == [*calls, OFF]
    assert scene.lines == [*lines, FREE]
    assert scene.events() == ["held", *events, "released"]


def test_a_list_with_a_dead_broker_is_not_restored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kafka does not accept the old list."""
    plan = plan_of([{PARTITION: ([1, 2], [1, 3])}], topic_ids={})
    dead = [replace(row, state="dead" if row.broker_id == 2 else "alive") for row in plan.brokers]
    scene = Scene(tmp_path, monkeypatch, replace(plan, brokers=dead))
    scene.shows(at(2, 1))
    scene.step.off(cancel=True, accept_owed=False)
    assert (scene.tools.calls, scene.lines[0]) == ([OFF], CHECK_BY_HAND)


@pytest.mark.parametrize(
    ("cancel", "calls", "events"), [(False, [], ["held"]), (True, [CANCEL], ["held", "cancelled"])]
)
def test_throttles_stay_while_copies_run(
    scene: Scene, cancel: bool, calls: Sequence[tuple[str, ...]], events: Sequence[str]
) -> None:
    """Without a cancel, and if they continue after a cancel; the wave still holds the cluster."""
    scene.hold()
    scene.shows(MOVING)
    with pytest.raises(StillMoving, match=r"^wave 1 of 2: copies still run, so the throttles stay: stays-0$") as moving:
        scene.step.off(cancel=cancel, accept_owed=True)
    assert moving.value.exit_code == 4
    assert (scene.tools.calls, scene.events()) == (calls, events)


def test_a_cluster_that_nobody_holds_is_not_freed_again(scene: Scene) -> None:
    """Throttles are removed nevertheless: a second try finds the remaining ones."""
    scene.step.off(cancel=False, accept_owed=False)
    assert (scene.tools.calls, scene.lines, scene.events()) == ([OFF], [FREE], [])


def test_an_interrupted_cancel_is_finished(scene: Scene) -> None:
    """After a kill between the two calls the list still gets its old order; finished moves stay."""
    scene.hold()
    scene.shows(at(2, 1))
    scene.step.off(cancel=True, accept_owed=False)
    assert scene.tools.calls == [("stays-0:1,2", "--execute", "--additional"), ("unthrottle-careful.sh",)]
    scene.tools.calls.clear()
    scene.shows(DONE)
    scene.step.off(cancel=True, accept_owed=False)
    assert scene.tools.calls == [("unthrottle-careful.sh",)]


@pytest.mark.parametrize(
    ("ends", "error"),
    [
        (ToolResult(-9, "", ""), NOT_REMOVED),
        (ToolResult(1, "", ""), NOT_REMOVED),
        (
            ToolResult(1, "", "remains: topics t leader.replication.throttled.replicas"),
            NOT_REMOVED,
        ),
        (
            ToolResult(1, "", "owed: brokers 3 follower.replication.throttled.rate"),
            NOT_REMOVED,
        ),
        (
            ToolResult(STILL_MOVING, "", "still being reassigned, not of wave 1: x-0\nrun FORCE=1 sh /tmp/gone"),
            "the throttles stay",
        ),
    ],
)
def test_a_cluster_stays_held_while_throttles_remain(scene: Scene, ends: ToolResult, error: str) -> None:
    """Also with --accept-owed, unless the script ends with the code for rates of silent brokers."""
    scene.hold()
    scene.tools.ends = ends
    with pytest.raises(BallastError, match=error) as failed:
        scene.step.off(cancel=False, accept_owed=True)
    assert "FORCE" not in str(failed.value)
    assert scene.events() == ["held"]


@pytest.mark.parametrize(
    ("in_flight", "message"),
    [
        ({("x", 0): (1, 2)}, "the throttles stay, because partitions still move: x-0"),
        ({}, "partitions moved until just now: run the step off again"),
    ],
)
def test_partitions_of_others_that_move_are_named(
    scene: Scene, in_flight: Mapping[TopicPartition, tuple[int, ...]], message: str
) -> None:
    """The script changes nothing while anything moves in the cluster; the message names what moves."""
    scene.hold()
    scene.tools.ends = ToolResult(STILL_MOVING, "", "still being reassigned, not of wave 1: x-0")
    scene.shows(replace(DONE, in_flight=in_flight))
    with pytest.raises(StillMoving, match=message):
        scene.step.off(cancel=False, accept_owed=False)


def test_remaining_rates_may_be_accepted(scene: Scene) -> None:
    """With --accept-owed the cluster is free, and the rates are reported; without it the cluster stays held."""
    scene.hold()
    scene.tools.ends = ToolResult(ONLY_OWED, "", "brokers 3 follower.replication.throttled.rate")
    with pytest.raises(BallastError, match=NOT_REMOVED):
        scene.step.off(cancel=False, accept_owed=False)
    assert scene.events() == ["held"]
    scene.step.off(cancel=False, accept_owed=True)
    assert scene.events() == ["held", "released"]
    assert scene.lines[0].startswith("brokers 3")


def test_throttles_are_set_again_if_a_wave_was_started_meanwhile(scene: Scene) -> None:
    """Another process started it while they were removed: the cluster stays held."""
    scene.hold()
    scene.shows(BEFORE, MOVING, scene.throttled(MOVING))
    with pytest.raises(
        StillMoving,
        match="was started while this step ran, so its throttles are set again: run",
    ):
        scene.step.off(cancel=False, accept_owed=False)
    assert scene.tools.calls == [("unthrottle-careful.sh",), ("throttle-careful.sh",)]
    assert scene.events() == ["held"]
