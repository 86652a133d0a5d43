"""Steps that look at a cluster which answers as it is told: what dies, vanishes or ends between two looks."""

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
def test_a_broker_that_dies_has_lost_no_throttle(scene: Scene, silent: set[int], message: str) -> None:
    """Its rate is not seen, be it a target's or a source's: the look says so, and asks no tool to set it again."""
    scene.hold()
    seen = scene.throttled(MOVING).throttles
    kept = {key: value for key, value in seen.items() if key[1] not in map(str, silent)}
    scene.shows(replace(MOVING, throttles=kept, silent=frozenset(silent)))
    with pytest.raises(StillMoving):
        scene.step.wait(every_seconds=0, once=True)
    assert scene.tools.asked == []
    assert message in scene.said[0]


def test_a_long_look_says_for_whom_it_waits(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """The servers, how long it has waited, and when it ends; a quick look says nothing."""
    step = replace(scene.step, client={"bootstrap_servers": "h:1"})
    step.status()
    assert "waiting" not in "".join(scene.said)
    scene.said.clear()
    monkeypatch.setattr(observed, "_QUIET_SECONDS", 0.01)

    said = Event()

    def say(line: str) -> None:
        scene.said.append(line)
        said.set()

    step = replace(step, say=say)

    def slow(client: object) -> Observed:
        assert said.wait(10)
        return BEFORE

    monkeypatch.setattr(steps, "observe", slow)
    step.status()
    waits = "waiting for h:1, 0.01 s so far; gives up after about 3 min without an answer"
    assert scene.said[0] == waits


def test_a_move_that_ends_between_two_answers_is_no_foreign_one(scene: Scene) -> None:
    """What looks odd for less than three looks is waited out; what stays so is told."""
    scene.shows(scene.throttled(MOVING), at(1, 3, 2), at(1, 3, 2), DONE)
    scene.step.wait(every_seconds=0, once=False)
    scene.shows(at(1, 4))
    with pytest.raises(Refused, match="somebody else moved stays-0"):
        scene.step.wait(every_seconds=0, once=False)
    scene.shows(BEFORE)
    with pytest.raises(Refused, match="neither in flight nor done: stays-0"):
        scene.step.wait(every_seconds=0, once=False)


def test_a_wave_is_verified_when_it_is_done_and_the_cluster_is_free(scene: Scene) -> None:
    """What is not where it should be, or gone, and throttles that were not taken off, are told together."""
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
    assert scene.said[-1] == "wave 1 of 2 is done, its throttles are removed and the cluster is free"


def test_waiting_tells_what_changes(scene: Scene) -> None:
    """It looks again after the seconds that were given; equal lines are told once."""
    moving = scene.throttled(MOVING)
    scene.shows(moving, moving, replace(moving, alive=frozenset({1, 2, 4})), DONE)
    scene.step.wait(every_seconds=7.0, once=False)
    assert scene.slept == [7.0] * 3
    assert scene.said == [
        "wave 1 of 2: 1 partition, 1 in flight",
        "wave 1 of 2: 1 partition, 1 in flight; broker 3 is not alive, copies wait for it",
        "wave 1 of 2: 1 partition, 1 done",
    ]
    assert scene.tools.asked == []


def test_a_deleted_topic_is_not_waited_for(scene: Scene) -> None:
    """With --once, too: nothing moves."""
    scene.shows(replace(BEFORE, topic_ids={}, replicas={}))
    scene.step.wait(every_seconds=1, once=True)
    assert scene.said == ["wave 1 of 2: 1 partition, 1 deleted"]


def test_looks_at_a_cluster_between_two_states_are_counted_anew(scene: Scene) -> None:
    """Two unusual looks, a usual one and two unusual ones again are no reason to give up; a second lies between."""
    scene.shows(BEFORE, BEFORE, scene.throttled(MOVING), BEFORE, BEFORE, DONE)
    scene.step.wait(every_seconds=7.0, once=False)
    assert scene.slept == [1.0, 1.0, 7.0, 1.0, 1.0]


def test_what_has_not_begun_is_waited_for_beside_what_moves(both: Scene) -> None:
    """Where nothing moves any more it is told with what somebody else has moved."""
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
    """By each document of the plan; not after an earlier wave, and not while a partition of any wave is elsewhere."""
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
    assert scene.tools.asked == []
    scene.shows(DONE)
    replace(last, earlier={("other", 0): (1, 2)}).elect(["x", "y"])
    assert scene.tools.asked == [("elect", "x"), ("elect", "y")]
    assert scene.said == ["the plan's preferred leaders are elected"]


def test_status_tells_state_throttles_holder_and_what_is_in_the_way(scene: Scene) -> None:
    """It is no refusal, whatever it finds."""
    scene.step.status()
    scene.hold()
    scene.shows(replace(scene.throttled(MOVING), in_flight={PARTITION: (1, 3), ("other", 0): (2,)}))
    scene.step.status()
    claims.record(scene.warehouse, scene.step.plan, 1, claims.RELEASED)
    scene.step.status()
    held = scene.said.pop(5)
    assert re.fullmatch(
        r"wave 1 of run r holds the cluster \(.*, process \d+; held at \d{4}-\d\d-\d\d \d\d:\d\d UTC\)", held
    )
    foreign = "in the way: 1 other partition is being reassigned: other-0; wait until it is done, or cancel it"
    moving = ["wave 1 of 2: 1 partition, 1 in flight", "throttles set: 5 of 5"]
    assert scene.said == [
        *("wave 1 of 2: 1 partition, 1 not started", "throttles set: 0 of 5", "no wave holds the cluster"),
        *(*moving, foreign),
        *(*moving, "no wave holds the cluster", foreign),
    ]


@pytest.mark.parametrize(("states", "looks"), [([DONE], 1), ([at(1, 4), DONE], 2), ([at(1, 4)], 3)])
def test_what_looks_like_a_move_of_somebody_else_is_looked_at_three_times(
    scene: Scene, states: list[Observed], looks: int
) -> None:
    """A second apart, by every step."""
    scene.shows(*states)
    scene.step.status()
    assert (scene.looks, scene.slept) == (looks, [1.0] * (looks - 1))
