"""Steps that read a fake cluster: brokers that die, topics that are deleted, and moves that end between two reads."""

import re
from dataclasses import replace
from pathlib import Path
from threading import Event

import pytest

from execution import claims, observed, steps
from execution.observed import Observed
from execution.planned import Refused
from execution.steps import StillMoving
from tests.execution.scene import DONE, MOVING, Scene
from tests.execution.test_preflight import BEFORE, PARTITION, at
from tests.execution.warehouse import plan_of


@pytest.fixture
def both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scene:
    """A wave of two partitions."""
    lists = {PARTITION: ([1, 2], [1, 3]), ("stays", 1): ([2, 1], [2, 4])}
    return Scene(tmp_path, monkeypatch, plan_of([lists], topic_ids={}))


@pytest.mark.parametrize(
    ("silent", "message"), [({3}, "broker 3 does not answer, so its"), ({2, 3}, "brokers 2, 3 do not")]
)
def test_throttles_of_a_dying_broker_are_not_set_again(scene: Scene, silent: set[int], message: str) -> None:
    """Its rate is unknown, for a target and for a source: the step reports this and sets nothing."""
    scene.hold()
    throttles = scene.throttled(MOVING).throttles
    known = {key: value for key, value in throttles.items() if key[1] not in map(str, silent)}
    scene.shows(replace(MOVING, throttles=known, silent=frozenset(silent)))
    with pytest.raises(StillMoving):
        scene.step.wait(every_seconds=0, once=True)
    assert scene.tools.calls == []
    assert message in scene.lines[0]


def test_a_long_read_reports_what_it_waits_for(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """The servers, the time so far, and the limit; a quick read reports nothing."""
    step = replace(scene.step, client={"bootstrap_servers": "h:1"})
    step.status()
    assert "waiting" not in "".join(scene.lines)
    scene.lines.clear()
    monkeypatch.setattr(observed, "_QUIET_SECONDS", 0.01)

    reported = Event()

    def say(line: str) -> None:
        scene.lines.append(line)
        reported.set()

    step = replace(step, say=say)

    def slow(client: object) -> Observed:
        assert reported.wait(10)
        return BEFORE

    monkeypatch.setattr(steps, "observe", slow)
    step.status()
    message = "waiting for h:1, 0.01 s so far; gives up after about 3 min without an answer"
    assert scene.lines[0] == message


def test_a_move_that_ends_between_two_answers_is_not_foreign(scene: Scene) -> None:
    """A state that is unexpected in less than three reads is ignored; after three reads it is an error."""
    scene.shows(scene.throttled(MOVING), at(1, 3, 2), at(1, 3, 2), DONE)
    scene.step.wait(every_seconds=0, once=False)
    scene.shows(at(1, 4))
    with pytest.raises(Refused, match="somebody else moved stays-0"):
        scene.step.wait(every_seconds=0, once=False)
    scene.shows(BEFORE)
    with pytest.raises(Refused, match="neither in flight nor done: stays-0"):
        scene.step.wait(every_seconds=0, once=False)


def test_a_wave_is_verified_when_it_is_done_and_the_cluster_is_free(scene: Scene) -> None:
    """Unfinished or deleted partitions and remaining throttles are reported together."""
    scene.hold()
    scene.shows(MOVING)
    with pytest.raises(Refused) as refused:
        scene.step.verify()
    assert refused.value.problems == (
        "partitions without their planned replicas: stays-0",
        "wave 1 of 2 still holds the cluster and may have throttles: run its step off",
    )
    claims.record(scene.warehouse, scene.step.plan, 1, claims.RELEASED)
    scene.shows(replace(BEFORE, topic_ids={}, replicas={}))
    with pytest.raises(Refused, match=r"^partitions without their planned replicas: stays-0$"):
        scene.step.verify()
    scene.shows(DONE)
    scene.step.verify()
    assert scene.lines[-1] == "wave 1 of 2 is done, its throttles are removed and the cluster is free"


def test_waiting_reports_changes(scene: Scene) -> None:
    """It reads again after the given seconds; equal lines are printed once."""
    moving = scene.throttled(MOVING)
    scene.shows(moving, moving, replace(moving, alive=frozenset({1, 2, 4})), DONE)
    scene.step.wait(every_seconds=7.0, once=False)
    assert scene.slept == [7.0] * 3
    assert scene.lines == [
        "wave 1 of 2: 1 partition, 1 in flight",
        "wave 1 of 2: 1 partition, 1 in flight; broker 3 is not alive, copies wait for it",
        "wave 1 of 2: 1 partition, 1 done",
    ]
    assert scene.tools.calls == []


def test_a_deleted_topic_is_not_waited_for(scene: Scene) -> None:
    """Also with --once: nothing moves."""
    scene.shows(replace(BEFORE, topic_ids={}, replicas={}))
    scene.step.wait(every_seconds=1, once=True)
    assert scene.lines == ["wave 1 of 2: 1 partition, 1 deleted"]


def test_unexpected_reads_are_counted_from_zero_after_a_usual_read(scene: Scene) -> None:
    """Two unexpected reads, a usual one and two unexpected ones again do not fail; they are a second apart."""
    scene.shows(BEFORE, BEFORE, scene.throttled(MOVING), BEFORE, BEFORE, DONE)
    scene.step.wait(every_seconds=7.0, once=False)
    assert scene.slept == [1.0, 1.0, 7.0, 1.0, 1.0]


def test_waiting_continues_while_one_partition_moves(both: Scene) -> None:
    """If nothing moves any more, unstarted partitions are reported together with those that somebody else moved."""
    both.shows(both.throttled(MOVING))
    with pytest.raises(StillMoving, match=r"wave 1 of 1: copies still run: stays-0$"):
        both.step.wait(every_seconds=0, once=True)
    both.shows(at(1, 4))
    with pytest.raises(Refused) as refused:
        both.step.wait(every_seconds=0, once=True)
    assert refused.value.problems == (
        "somebody else moved stays-0: plan again",
        "neither in flight nor done: stays-1: run the step execute again, or the step off to end the wave",
    )


def test_leaders_are_elected_when_all_waves_are_done(scene: Scene) -> None:
    """With each document of the plan; not after an earlier wave, and not if a partition of any wave is unfinished."""
    last = replace(scene.step, wave=replace(scene.wave, number=2))
    scene.shows(DONE)
    refused = {
        "this is wave 1 of 2$": scene.step,
        "this is wave 2 of 2; not done yet: other-0$": replace(last, earlier={("other", 0): (2, 1)}),
    }
    for message, step in refused.items():
        with pytest.raises(Refused, match=f"^leaders are elected when all waves are done: {message}"):
            step.elect(["x"])
    scene.shows(MOVING)
    with pytest.raises(Refused, match=r"this is wave 2 of 2; not done yet: stays-0$"):
        last.elect(["x"])
    assert scene.tools.calls == []
    scene.shows(DONE)
    replace(last, earlier={("other", 0): (1, 2)}).elect(["x", "y"])
    assert scene.tools.calls == [("elect", "x"), ("elect", "y")]
    assert scene.lines == ["the plan's preferred leaders are elected"]


def test_status_reports_state_throttles_holder_and_problems(scene: Scene) -> None:
    """It never refuses."""
    scene.step.status()
    scene.hold()
    scene.shows(replace(scene.throttled(MOVING), in_flight={PARTITION: (1, 3), ("other", 0): (2,)}))
    scene.step.status()
    claims.record(scene.warehouse, scene.step.plan, 1, claims.RELEASED)
    scene.step.status()
    held = scene.lines.pop(5)
    assert re.fullmatch(
        r"wave 1 of run r holds the cluster \(.*, process \d+; held at \d{4}-\d\d-\d\d \d\d:\d\d UTC\)", held
    )
    foreign = "problem: 1 other partition is being reassigned: other-0; wait until it is done, or cancel it"
    moving = ["wave 1 of 2: 1 partition, 1 in flight", "throttles set: 5 of 5"]
    assert scene.lines == [
        *("wave 1 of 2: 1 partition, 1 not started", "throttles set: 0 of 5", "no wave holds the cluster"),
        *(*moving, foreign),
        *(*moving, "no wave holds the cluster", foreign),
    ]


@pytest.mark.parametrize(("states", "reads"), [([DONE], 1), ([at(1, 4), DONE], 2), ([at(1, 4)], 3)])
def test_a_move_of_somebody_else_is_read_three_times(scene: Scene, states: list[Observed], reads: int) -> None:
    """A second apart, in every step."""
    scene.shows(*states)
    scene.step.status()
    assert (scene.reads, scene.slept) == (reads, [1.0] * (reads - 1))
