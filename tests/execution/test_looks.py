"""Steps that read a fake cluster: brokers that die, topics that are deleted, and moves that end between two reads."""

import re
from dataclasses import replace
from pathlib import Path
from threading import Event

import pytest

from execution import journal, observed
from execution.observed import Observed
from execution.steps import Execution, Incomplete, StillMoving
from stored.verdicts import Refused
from tests.execution import rows
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
    assert scene.calls == []
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

    def slow(topics: object) -> Observed:
        assert reported.wait(10)
        return BEFORE

    monkeypatch.setattr(scene.admin, "observe", slow)
    step.status()
    message = "waiting for h:1, 0.01 s so far; gives up after about 1 min without an answer"
    assert scene.lines[0] == message


def test_a_move_that_ends_between_two_answers_is_not_foreign(scene: Scene) -> None:
    """A state that is unexpected in less than three reads is ignored; after three reads it is an error."""
    scene.shows(scene.throttled(MOVING), at(1, 3, 2), at(1, 3, 2), DONE)
    scene.step.wait(every_seconds=0, once=False)
    scene.shows(at(1, 4))
    with pytest.raises(Refused, match="somebody else moved stays-0"):
        replace(scene.step, is_strict=True).wait(every_seconds=0, once=False)
    scene.step.wait(every_seconds=0, once=False)
    assert scene.lines[-1].startswith("skipped: 1 partition was moved by somebody else: stays-0; stays-0 has [1, 4]")
    scene.shows(BEFORE)
    with pytest.raises(Refused, match="neither in flight nor done: stays-0"):
        scene.step.wait(every_seconds=0, once=False)


def test_a_wave_is_verified_when_it_is_done_and_the_cluster_is_free(scene: Scene) -> None:
    """Unfinished partitions and remaining throttles are reported together; skipped partitions end it with 6."""
    scene.hold()
    scene.shows(MOVING)
    with pytest.raises(Refused) as refused:
        scene.step.verify()
    assert refused.value.problems == (
        "partitions without their planned replicas: stays-0",
        "wave 1 of 2 still holds the cluster and may have throttles: run its step off",
    )
    rows.record(scene.warehouse, scene.step.plan, 1, journal.RELEASED)
    scene.shows(replace(BEFORE, topic_ids={}, replicas={}))
    with pytest.raises(Refused, match=r"^partitions without their planned replicas: stays-0$"):
        replace(scene.step, is_strict=True).verify()
    message = r"^wave 1 of 2 is done, except for 1 skipped partition:\n- 1 topic does not exist any more: stays$"
    with pytest.raises(Incomplete, match=message) as incomplete:
        scene.step.verify()
    assert incomplete.value.exit_code == 6
    scene.shows(DONE)
    scene.step.verify()
    assert scene.lines[-1] == "wave 1 of 2 is done, its throttles are removed and the cluster is free"


def test_waiting_reports_changes(scene: Scene) -> None:
    """It reads again after the given seconds; equal lines are printed once."""
    moving = scene.throttled(MOVING)
    without = {broker: replace(moving, alive=moving.alive - {broker}) for broker in (1, 2, 3)}
    scene.shows(moving, moving, without[3], without[1], without[2], DONE)
    scene.step.wait(every_seconds=7.0, once=False)
    assert scene.slept == [7.0] * 5
    assert scene.lines == [
        "wave 1 of 2: 1 partition, 1 in flight",
        "wave 1 of 2: 1 partition, 1 in flight; broker 3 is not alive, copies wait for it",
        "wave 1 of 2: 1 partition, 1 in flight; broker 1 is not alive and keeps its replicas; no copy waits for it",
        "wave 1 of 2: 1 partition, 1 in flight",
        "wave 1 of 2: 1 partition, 1 done",
    ]
    assert scene.calls == []


def test_a_deleted_topic_is_not_waited_for(scene: Scene) -> None:
    """Also with --once: nothing moves."""
    scene.shows(replace(BEFORE, topic_ids={}, replicas={}))
    scene.step.wait(every_seconds=1, once=True)
    assert scene.lines == ["wave 1 of 2: 1 partition, 1 deleted", "skipped: 1 topic does not exist any more: stays"]


def test_unexpected_reads_are_counted_from_zero_after_a_usual_read(scene: Scene) -> None:
    """Two unexpected reads, a usual one and two unexpected ones again do not fail; they are a second apart."""
    scene.shows(BEFORE, BEFORE, scene.throttled(MOVING), BEFORE, BEFORE, DONE)
    scene.step.wait(every_seconds=7.0, once=False)
    assert scene.slept == [1.0, 1.0, 7.0, 1.0, 1.0]


def test_waiting_continues_while_one_partition_moves(both: Scene) -> None:
    """If nothing moves any more, unstarted partitions are reported; with --strict also those that others moved."""
    both.shows(both.throttled(MOVING))
    with pytest.raises(StillMoving, match=r"wave 1 of 1: copies still run: stays-0$"):
        both.step.wait(every_seconds=0, once=True)
    both.shows(at(1, 4))
    with pytest.raises(Refused) as refused:
        replace(both.step, is_strict=True).wait(every_seconds=0, once=True)
    assert refused.value.problems == (
        "somebody else moved stays-0: plan again",
        "neither in flight nor done: stays-1: run the step execute again, or the step off to end the wave",
    )
    with pytest.raises(Refused, match=r"^neither in flight nor done: stays-1: run the step execute again"):
        both.step.wait(every_seconds=0, once=True)


LED_BY_3 = replace(DONE, leaders={**DONE.leaders, PARTITION: 3})


def of_two_waves(scene: Scene, *, other: tuple[int, ...] = (1, 2)) -> Execution:
    """The last step of a plan with an earlier wave of other-0."""
    earlier = replace(scene.wave, before={("other", 0): (1, 2)}, after={("other", 0): other})
    return replace(scene.step, wave=replace(scene.wave, number=2), earlier=[earlier])


def test_leaders_are_elected_when_all_waves_between_brokers_are_done(scene: Scene) -> None:
    """Not after an earlier wave, and not if a partition of any wave is unfinished."""
    scene.shows(LED_BY_3)
    refused = {"this is wave 1 of 2$": scene.step, "2; not done yet: other-0$": of_two_waves(scene, other=(2, 1))}
    for message, step in refused.items():
        with pytest.raises(Refused, match=f"^leaders are elected when all waves between brokers are done: .*{message}"):
            step.elect()
    scene.shows(MOVING)
    with pytest.raises(Refused, match=r"this is wave 2 of 2; not done yet: stays-0$"):
        of_two_waves(scene).elect()
    assert (scene.calls, scene.events()) == ([], [])


def test_every_partition_of_the_plan_that_its_first_replica_does_not_lead_is_elected(scene: Scene) -> None:
    """Of all waves; partitions that the plan does not change are counted."""
    led = {**LED_BY_3.leaders, ("other", 0): 2, ("stays", 1): 1}
    scene.shows(*[replace(LED_BY_3, leaders=led)] * 2, DONE)
    of_two_waves(scene).elect()
    assert scene.calls == [("elect", "other-0", "stays-0")]
    assert scene.lines == [
        "1 partition that the plan does not change is not led by the first replica",
        "the first replica leads each partition of the plan (2 elected)",
    ]
    assert scene.events() == ["electing", "elected"]
    scene.calls.clear()
    of_two_waves(scene).elect()
    assert (scene.calls, scene.lines[2:]) == ([], ["the first replica leads each partition of the plan (0 elected)"])


@pytest.mark.parametrize(
    ("refuses", "reason"),
    [({PARTITION: "the replica is offline"}, "the replica is offline"), ({}, "another replica leads")],
)
def test_a_leader_that_was_not_elected_is_named(scene: Scene, refuses: dict[object, str], reason: str) -> None:
    """With Kafka's reason, and exit code 6; the result is recorded."""
    scene.shows(LED_BY_3)
    scene.admin.refuses = refuses
    message = rf"^the waves are done, except for:\n- not led by the first replica: stays-0: {reason}$"
    with pytest.raises(Incomplete, match=message) as incomplete:
        of_two_waves(scene).elect()
    assert incomplete.value.exit_code == 6
    [elected] = journal.events(scene.warehouse, event="elected")
    assert journal.result_of(elected) == {"not_led": [f"stays-0: {reason}"]}


def test_leaders_are_elected_although_partitions_were_skipped(scene: Scene) -> None:
    """They are named, with exit code 6."""
    scene.shows(replace(BEFORE, topic_ids={"other": "o"}, leaders={**BEFORE.leaders, ("other", 0): 2}), BEFORE)
    step = of_two_waves(scene)
    message = r"^the waves are done, except for:\n- 1 topic was deleted and created again since the snapshot: stays$"
    now = replace(BEFORE, topic_ids={"stays": "new", "other": "o"}, leaders={**BEFORE.leaders, ("other", 0): 2})
    scene.shows(now, now, replace(now, leaders=BEFORE.leaders))
    with pytest.raises(Incomplete, match=message):
        step.elect()
    assert scene.calls == [("elect", "other-0")]


def test_throttles_that_cannot_be_read_are_unknown(scene: Scene) -> None:
    """Those of a dead and of a silent broker and of a deleted topic are named, and do not count as set."""
    throttled = scene.throttled(MOVING)
    known = {key: value for key, value in throttled.throttles.items() if key[1] != "3"}
    rate = "brokers 3 follower.replication.throttled.rate"
    lists = ", ".join(f"topics stays {name}.replication.throttled.replicas" for name in ("follower", "leader"))
    states = {
        f"throttles set: 4 of 5; unknown, or gone: {rate}": [
            replace(throttled, alive=frozenset({1, 2, 4})),
            replace(throttled, alive=frozenset({1, 2, 4}), throttles=known),
            replace(throttled, silent=frozenset({3}), throttles=known),
        ],
        f"throttles set: 3 of 5; unknown, or gone: {lists}": [replace(throttled, topic_ids={}, replicas={})],
    }
    for line, each in states.items():
        for state in each:
            scene.shows(state)
            scene.step.status()
            assert line in scene.lines
            scene.lines.clear()


def test_status_names_what_is_skipped(scene: Scene) -> None:
    """With --strict it is a problem."""
    scene.shows(at(1, 4))
    scene.step.status()
    line = "1 partition was moved by somebody else: stays-0; stays-0 has [1, 4], the plan expects [1, 2]"
    assert scene.lines[3:] == [f"skipped: {line}"]
    replace(scene.step, is_strict=True).status()
    assert scene.lines[7:] == [f"problem: {line}; plan again"]


def test_status_reports_state_throttles_holder_and_problems(scene: Scene) -> None:
    """It never refuses."""
    scene.step.status()
    scene.hold()
    scene.shows(replace(scene.throttled(MOVING), in_flight={PARTITION: (1, 3), ("other", 0): (2,)}))
    scene.step.status()
    rows.record(scene.warehouse, scene.step.plan, 1, journal.RELEASED)
    scene.step.status()
    held = scene.lines.pop(5)
    assert re.fullmatch(
        r"wave 1 of run r holds the cluster \(.*, process \d+; held at \d{4}-\d\d-\d\d \d\d:\d\d UTC\)", held
    )
    foreign = "problem: 1 other partition is being reassigned: other-0; wait until it is done, or cancel it"
    moving = ["wave 1 of 2: 1 partition, 1 in flight", "throttles set: 5 of 5"]
    assert scene.lines == [
        "wave 1 of 2: 1 partition, 1 not started",
        "throttles set: 1 of 5; not set: brokers 1 leader.replication.throttled.rate and 3 more",
        "no wave holds the cluster",
        *(*moving, foreign),
        *(*moving, "no wave holds the cluster", foreign),
    ]


@pytest.mark.parametrize(("states", "reads"), [([DONE], 1), ([at(1, 4), DONE], 2), ([at(1, 4)], 3)])
def test_a_move_of_somebody_else_is_read_three_times(scene: Scene, states: list[Observed], reads: int) -> None:
    """A second apart, in every step."""
    scene.shows(*states)
    scene.step.status()
    assert (scene.admin.reads, scene.slept) == (reads, [1.0] * (reads - 1))
