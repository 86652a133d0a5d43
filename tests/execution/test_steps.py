"""Steps against a cluster that answers as it is told: what dies, vanishes or ends between two looks."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from execution import claims, observed, steps
from execution.kafka_tools import ONLY_OWED, STILL_MOVING, Done
from execution.observed import Observed, Place
from execution.planned import Refused, documents_of, whole_plan
from execution.steps import Execution, StillMoving
from execution.tables import Warehouse
from execution.wave import Wave, wave_of
from optimizer.emit.cluster_plan import ClusterPlan
from optimizer.errors import BallastError
from tests.execution.test_preflight import BEFORE, PLACE, at
from tests.execution.warehouse import CLUSTER, loaded, plan_of, usual, written

MOVING = at(1, 3, 2, towards=(1, 3))
DONE = at(1, 3)


@dataclass
class FakeTools:
    """Kafka's tools: what they are asked to do, and how scripts end."""

    asked: list[tuple[str, ...]] = field(default_factory=list)
    ends: Done = field(default_factory=lambda: Done(0, "", ""))

    def reassign(self, lists: dict[tuple[str, int], Sequence[int]], *options: str) -> str:
        """Told partitions and options."""
        self.asked.append((*(f"{t}-{p}:{','.join(map(str, ids))}" for (t, p), ids in sorted(lists.items())), *options))
        return steps.STARTED

    def reassign_document(self, text: str, *options: str) -> str:
        """Told the options."""
        self.asked.append(("document", *options))
        return steps.STARTED

    def script(self, documents: object, name: str) -> Done:
        """Told the name."""
        self.asked.append((name,))
        return self.ends


class Scene:
    """A wave of a plan, and a cluster that shows one state after another; the last one stays."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, plan: ClusterPlan) -> None:
        self.warehouse: Warehouse = written(folder, plan)
        self.tools, self._states = FakeTools(), [BEFORE]
        self.said: list[str] = []
        made = loaded(self.warehouse)
        not_back = whole_plan(self.warehouse, made, "rollback_not_possible")
        self.wave: Wave = wave_of(1, made.manifest, documents_of(self.warehouse, made, 1), not_back)
        tools: Any = self.tools
        self.step = Execution(self.warehouse, made, self.wave, {}, tools, {}, self.said.append)
        monkeypatch.setattr(steps, "observe", lambda _: self._next())
        monkeypatch.setattr(steps, "_AGAIN_SECONDS", 0.0)

    def shows(self, *states: Observed) -> None:
        """The next looks."""
        self._states = list(states)

    def _next(self) -> Observed:
        return self._states.pop(0) if len(self._states) > 1 else self._states[0]

    def hold(self) -> None:
        """The cluster is held for the wave."""
        claims.note(self.warehouse, self.step.plan, 1, claims.HELD)

    def throttled(self, state: Observed) -> Observed:
        """A state with the wave's throttles."""
        return replace(state, throttles={**state.throttles, **self.wave.throttles})

    def events(self) -> list[str]:
        """What the table says was done."""
        rows = sorted(self.warehouse.rows("executions", cluster_id=CLUSTER), key=lambda row: int(row["number"]))
        return [row["event"] for row in rows]


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scene:
    """The first wave of the usual plan."""
    return Scene(tmp_path, monkeypatch, usual())


def test_a_partition_of_a_dead_broker_is_expected_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kafka takes it back nowhere, but what somebody has moved meanwhile is not moved again."""
    plan = plan_of([{PLACE: ([1, 2], [1, 3])}], topic_ids={})
    dead = [replace(row, state="dead" if row.broker_id == 2 else "alive") for row in plan.brokers]
    scene = Scene(tmp_path, monkeypatch, replace(plan, brokers=dead))
    assert scene.wave.before == {PLACE: (1, 2)}
    assert scene.wave.stuck == frozenset({PLACE})
    scene.shows(replace(at(4, 1), alive=frozenset({1, 3, 4})))
    with pytest.raises(Refused, match="not where the plan expects it"):
        scene.step.throttle()
    assert scene.tools.asked == []


@pytest.mark.parametrize(("silent", "told"), [({3}, "broker 3 does not answer, its"), ({2, 3}, "brokers 2, 3 do not")])
def test_a_broker_that_dies_has_lost_no_throttle(scene: Scene, silent: set[int], told: str) -> None:
    """Its rate is not seen, be it a target's or a source's: the look says so, and asks no tool to set it again."""
    scene.hold()
    seen = scene.throttled(MOVING).throttles
    kept = {key: value for key, value in seen.items() if key[1] not in map(str, silent)}
    scene.shows(replace(MOVING, throttles=kept, silent=frozenset(silent)))
    with pytest.raises(StillMoving):
        scene.step.wait(every_seconds=0, once=True)
    assert scene.tools.asked == []
    assert told in scene.said[0]


def test_a_long_look_says_for_whom_it_waits(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """The servers, how long it has waited, and when it ends; a quick look says nothing."""
    step = replace(scene.step, client={"bootstrap_servers": "h:1"})
    step.status()
    assert "waiting" not in "".join(scene.said)
    scene.said.clear()
    monkeypatch.setattr(observed, "_SILENT_SECONDS", 0.01)

    def slow(client: object) -> Observed:
        time.sleep(0.5)
        return BEFORE

    monkeypatch.setattr(steps, "observe", slow)
    step.status()
    waits = "waiting for h:1, 0.01 s so far; servers that never answer are given up after about 3 min"
    assert scene.said[0] == waits


def test_nothing_begins_under_a_broker_that_does_not_answer(scene: Scene) -> None:
    """Not even where its rate would be set: what others have set there is not seen."""
    scene.shows(replace(BEFORE, silent=frozenset({2})))
    with pytest.raises(Refused, match="broker 2 does not answer, its throttles are not known: start it, or allow"):
        scene.step.throttle()
    assert scene.tools.asked == []


def test_a_wave_without_throttles_is_not_copied(scene: Scene) -> None:
    """Where the plan has none for what it copies, neither step touches the cluster."""
    bare = replace(scene.step, wave=replace(scene.wave, throttles={}))
    with pytest.raises(Refused, match="has no throttles for it"):
        bare.throttle()
    scene.hold()
    with pytest.raises(Refused, match="has no throttles for it"):
        bare.execute()
    assert scene.tools.asked == []


def test_throttles_that_vanish_are_set_again(scene: Scene) -> None:
    """While a wave is waited for, and when it is started a second time; another rate is left as it is."""
    scene.hold()
    scene.shows(MOVING, MOVING, scene.throttled(MOVING))
    with pytest.raises(StillMoving):
        scene.step.wait(every_seconds=0, once=True)
    assert scene.tools.asked == [("throttle-careful.sh",)]
    scene.shows(MOVING, MOVING, scene.throttled(MOVING))
    scene.step.execute()
    assert scene.tools.asked == [("throttle-careful.sh",)] * 2
    assert scene.events() == ["held", "executed"]
    raised = {key: "9" if key[0] == "brokers" else value for key, value in scene.wave.throttles.items()}
    scene.shows(replace(MOVING, throttles=raised))
    scene.step.execute()
    assert scene.tools.asked == [("throttle-careful.sh",)] * 2


def test_a_move_that_ends_between_two_answers_is_no_foreign_one(scene: Scene) -> None:
    """What looks odd for less than three looks is waited out; what stays so is told."""
    scene.shows(scene.throttled(MOVING), at(1, 3, 2), at(1, 3, 2), DONE)
    scene.step.wait(every_seconds=0, once=False)
    scene.shows(at(1, 4))
    with pytest.raises(Refused, match="somebody else moved stays-0"):
        scene.step.wait(every_seconds=0, once=False)
    scene.shows(BEFORE)
    with pytest.raises(Refused, match="not in flight and not where they should be: stays-0"):
        scene.step.wait(every_seconds=0, once=False)


def test_half_a_cancel_is_finished(scene: Scene) -> None:
    """After a kill between the two calls the list gets its order all the same; what is done stays done."""
    scene.hold()
    scene.shows(at(2, 1))
    scene.step.off(cancel=True, accept_owed=False)
    assert scene.tools.asked == [("stays-0:1,2", "--execute", "--additional"), ("unthrottle-careful.sh",)]
    scene.tools.asked.clear()
    scene.shows(DONE)
    scene.step.off(cancel=True, accept_owed=False)
    assert scene.tools.asked == [("unthrottle-careful.sh",)]


@pytest.mark.parametrize(
    ("ends", "error"),
    [
        (Done(-9, "", ""), "not all throttles"),
        (Done(1, "", ""), "not all throttles"),
        (Done(1, "", "left: topics t leader.replication.throttled.replicas"), "not all throttles"),
        (Done(1, "", "owed: brokers 3 follower.replication.throttled.rate"), "not all throttles"),
        (
            Done(STILL_MOVING, "", "still being reassigned, not of wave 1: x-0\nrun FORCE=1 sh /tmp/gone"),
            "throttles stay",
        ),
    ],
)
def test_a_cluster_stays_held_where_throttles_are_left(scene: Scene, ends: Done, error: str) -> None:
    """Also with --accept-owed, unless the script ends with the code for nothing but rates that are owed."""
    scene.hold()
    scene.tools.ends = ends
    with pytest.raises(BallastError, match=error) as told:
        scene.step.off(cancel=False, accept_owed=True)
    assert "FORCE" not in str(told.value)
    assert scene.events() == ["held"]


@pytest.mark.parametrize(
    ("in_flight", "told"),
    [
        ({("x", 0): (1, 2)}, "throttles stay, partitions move: x-0"),
        ({}, "moved until just now; run the step off again"),
    ],
)
def test_partitions_of_others_that_move_are_named(
    scene: Scene, in_flight: Mapping[Place, tuple[int, ...]], told: str
) -> None:
    """The script touches nothing while anything moves in the cluster: what does is asked of Kafka."""
    scene.hold()
    scene.tools.ends = Done(STILL_MOVING, "", "still being reassigned, not of wave 1: x-0")
    scene.shows(replace(DONE, in_flight=in_flight))
    with pytest.raises(StillMoving, match=told):
        scene.step.off(cancel=False, accept_owed=False)


def test_what_is_owed_may_be_accepted(scene: Scene) -> None:
    """The cluster is free then, and what is owed is said; without --accept-owed it stays held."""
    scene.hold()
    scene.tools.ends = Done(ONLY_OWED, "", "brokers 3 follower.replication.throttled.rate")
    with pytest.raises(BallastError, match="not all throttles"):
        scene.step.off(cancel=False, accept_owed=False)
    assert scene.events() == ["held"]
    scene.step.off(cancel=False, accept_owed=True)
    assert scene.events() == ["held", "released"]
    assert scene.said[0].startswith("brokers 3")


def test_throttles_come_back_where_a_wave_was_started_meanwhile(scene: Scene) -> None:
    """Another process started it while they were taken off: the cluster stays held."""
    scene.hold()
    scene.shows(BEFORE, MOVING, scene.throttled(MOVING))
    with pytest.raises(StillMoving, match="was started meanwhile"):
        scene.step.off(cancel=False, accept_owed=False)
    assert scene.tools.asked == [("unthrottle-careful.sh",), ("throttle-careful.sh",)]
    assert scene.events() == ["held"]


def test_a_broker_that_nobody_can_throttle_holds_up_nothing(scene: Scene) -> None:
    """A source that has died since: what living brokers lack counts, the rest is said."""
    scene.tools.ends = Done(1, "", "not set: brokers 2")
    without_2 = replace(BEFORE, alive=frozenset({1, 3, 4}))
    scene.shows(without_2, scene.throttled(without_2))
    scene.step.throttle()
    assert scene.events() == ["held", "throttled"]
    assert scene.said[0] == "only what nobody can set is not set: not set: brokers 2"


def test_the_rest_of_a_wave_is_started_beside_what_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where some partitions are on their way already, the others alone are started."""
    both = {PLACE: ([1, 2], [1, 3]), ("stays", 1): ([2, 1], [2, 4])}
    scene = Scene(tmp_path, monkeypatch, plan_of([both], topic_ids={}))
    scene.hold()
    scene.shows(scene.throttled(MOVING))
    scene.step.execute()
    assert scene.tools.asked == [("stays-1:2,4", "--execute", "--additional")]


def test_a_wave_is_verified_when_it_is_done_and_the_cluster_is_free(scene: Scene) -> None:
    """What is not where it should be, and throttles that were not taken off, are told together."""
    scene.hold()
    scene.shows(MOVING)
    with pytest.raises(Refused) as refused:
        scene.step.verify()
    assert refused.value.problems == (
        "not where they should be: stays-0",
        "wave 1 of 2 still holds the cluster, throttles may be set: run its step off",
    )
    scene.shows(DONE)
    claims.note(scene.warehouse, scene.step.plan, 1, claims.RELEASED)
    scene.step.verify()
    assert scene.said[-1] == "wave 1 of 2 is done, its throttles are off and the cluster is free"
