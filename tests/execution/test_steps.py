"""Steps that change a cluster which answers as it is told: what is in their way, and what they ask of the tools."""

import hashlib
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from execution.kafka_tools import ToolResult
from execution.planned import Refused
from execution.steps import StillMoving
from optimizer import locks
from optimizer.errors import BallastError
from tests.execution.scene import DONE, MOVING, Scene
from tests.execution.test_preflight import BEFORE, CASES, PARTITION, at
from tests.execution.warehouse import plan_of, usual_plan


def test_a_partition_of_a_dead_broker_is_expected_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kafka takes it back nowhere, but what somebody has moved meanwhile is not moved again."""
    plan = plan_of([{PARTITION: ([1, 2], [1, 3])}], topic_ids={})
    dead = [replace(row, state="dead" if row.broker_id == 2 else "alive") for row in plan.brokers]
    scene = Scene(tmp_path, monkeypatch, replace(plan, brokers=dead))
    assert scene.wave.before == {PARTITION: (1, 2)}
    assert scene.wave.stuck == frozenset({PARTITION})
    scene.shows(replace(at(4, 1), alive=frozenset({1, 3, 4})))
    with pytest.raises(Refused, match="does not have the replicas that the plan expects"):
        scene.step.throttle()
    assert scene.tools.asked == []


def test_nothing_begins_under_a_broker_that_does_not_answer(scene: Scene) -> None:
    """Not even where its rate would be set: what others have set there is not seen."""
    scene.shows(replace(BEFORE, silent=frozenset({2})))
    with pytest.raises(Refused, match="broker 2 does not answer, so its throttles are unknown: start it, or allow"):
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


def test_a_broker_that_nobody_can_throttle_holds_up_nothing(scene: Scene) -> None:
    """A source that has died since: what living brokers lack counts, the rest is said."""
    scene.tools.ends = ToolResult(1, "", "not set: brokers 2")
    without_2 = replace(BEFORE, alive=frozenset({1, 3, 4}))
    scene.shows(without_2, scene.throttled(without_2))
    scene.step.throttle()
    assert scene.events() == ["held", "throttled"]
    assert scene.said[0] == "throttles of dead brokers and deleted topics are not set: not set: brokers 2"


def test_the_rest_of_a_wave_is_started_beside_what_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where some partitions are on their way already, the others alone are started."""
    both = {PARTITION: ([1, 2], [1, 3]), ("stays", 1): ([2, 1], [2, 4])}
    scene = Scene(tmp_path, monkeypatch, plan_of([both], topic_ids={}))
    scene.hold()
    scene.shows(scene.throttled(MOVING))
    scene.step.execute()
    assert scene.tools.asked == [("stays-1:2,4", "--execute", "--additional")]


def test_a_preflight_tells_what_it_has_seen(scene: Scene) -> None:
    """The tools' release, what could not be looked at, and how far the wave is; it holds and touches nothing."""
    scene.step.preflight()
    assert scene.said == [
        "Kafka's tools have version 4.3.1",
        "nothing is in the way of wave 1 of 2: 1 partition, 1 not started",
    ]
    unknown = {**scene.step.plan.manifest, "topic_ids": {"stays": None}}
    replace(scene.step, plan=replace(scene.step.plan, manifest=unknown)).preflight()
    assert scene.said[3] == "cannot check whether topics were deleted and created again, the plan has no ids for: stays"
    assert (scene.tools.asked, scene.events()) == ([], [])


def test_a_preflight_names_all_that_is_in_the_way(scene: Scene) -> None:
    """Missing tools, who holds the cluster, and what differs there, at once."""
    scene.tools.missing = "kafka-configs.sh is not on PATH"
    scene.hold(wave=2)
    scene.shows(replace(BEFORE, alive=frozenset({1, 2, 4})))
    with pytest.raises(Refused) as refused:
        scene.step.preflight()
    tools, held, dead = refused.value.problems
    assert tools == "kafka-configs.sh is not on PATH"
    assert held.startswith("cluster 'c' is held by wave 2 of run 'r' (")
    assert dead == "broker 3 is in planned replica lists but not alive: start it, or plan again"
    assert scene.said == []


def test_a_cluster_is_held_before_its_throttles_are_set(scene: Scene) -> None:
    """Where they fail it stays held, and what is not set is named; where something is in the way it never was."""
    scene.shows(CASES["a target is dead"].now)
    with pytest.raises(Refused):
        scene.step.throttle()
    assert scene.events() == []
    scene.tools.ends = ToolResult(1, "", "timed out")
    scene.shows(BEFORE)
    with pytest.raises(BallastError, match=r"^throttle-careful\.sh: timed out(\n- not set: .*){5}$"):
        scene.step.throttle()
    assert scene.events() == ["held"]
    scene.tools.ends = ToolResult(0, "", "")
    scene.shows(BEFORE, scene.throttled(BEFORE))
    scene.step.throttle()
    assert scene.events() == ["held", "throttled"]
    assert scene.said == ["the throttles of wave 1 of 2 are set"]


@pytest.mark.parametrize("step", ["throttle", "execute", "off"])
def test_a_cluster_that_another_wave_holds_is_left_alone(scene: Scene, step: str) -> None:
    """Not even a cancel is tried."""
    scene.hold(wave=2)
    scene.shows(scene.throttled(MOVING if step == "off" else BEFORE))
    options = {"cancel": True, "accept_owed": True} if step == "off" else {}
    with pytest.raises(Refused, match="cluster 'c' is held by wave 2 of run 'r'"):
        getattr(scene.step, step)(**options)
    assert (scene.tools.asked, scene.events()) == ([], ["held"])


def test_a_wave_is_started_once(scene: Scene) -> None:
    """By the approved document, to the byte; where it is under way, done or gone it is not started again."""
    scene.hold()
    scene.shows(scene.throttled(BEFORE))
    scene.step.execute()
    start = (scene.wave.documents["reassignment.json"], "--execute")
    assert (scene.tools.asked, scene.events()) == ([start], ["held", "executed"])
    assert scene.said == ["wave 1 of 2 is started: 1 partition"]
    deleted = replace(BEFORE, topic_ids={}, replicas={})
    for state, name in ((MOVING, "in flight"), (DONE, "done"), (deleted, "deleted")):
        scene.shows(scene.throttled(state))
        scene.step.execute()
        assert scene.said[-1] == f"wave 1 of 2 was already started: 1 partition, 1 {name}"
    assert scene.tools.asked == [start]


def test_throttles_that_vanish_while_a_wave_is_started_are_set_again(scene: Scene) -> None:
    """It is looked once more when the copies have begun."""
    scene.hold()
    scene.shows(scene.throttled(BEFORE), MOVING, scene.throttled(MOVING))
    scene.step.execute()
    assert scene.tools.asked[1:] == [("throttle-careful.sh",)]
    assert scene.said[0].startswith("somebody removed throttles, they are set again: brokers 1 leader.replication")


@pytest.mark.parametrize(
    ("is_held", "state", "message"),
    [
        (False, "throttled", "wave 1 of 2 does not hold the cluster: run its step throttle first"),
        (True, "bare", "run the step throttle of wave 1 of 2 first"),
        (True, "elsewhere", "does not have the replicas that the plan expects"),
    ],
)
def test_what_is_not_ready_is_not_started(scene: Scene, is_held: bool, state: str, message: str) -> None:
    """Not without holding the cluster, without one of the throttles, or from another place."""
    if is_held:
        scene.hold()
    bare = {"throttled": scene.throttled(BEFORE), "bare": BEFORE, "elsewhere": scene.throttled(at(1, 4))}
    scene.shows(bare[state])
    with pytest.raises(Refused, match=message):
        scene.step.execute()
    assert (scene.tools.asked, scene.events()) == ([], ["held"] * is_held)


def test_a_tool_that_does_not_say_that_it_started_has_not(scene: Scene) -> None:
    """Its exit code alone is not believed: the wave does not count as executed."""
    scene.hold()
    scene.tools.started = "Current partition replica assignment\n"
    scene.shows(scene.throttled(BEFORE))
    with pytest.raises(BallastError, match=r"not print 'Successfully started': Current partition replica assignment$"):
        scene.step.execute()
    assert scene.events() == ["held"]


@pytest.mark.parametrize("is_local", [True, False])
def test_steps_that_change_a_cluster_wait_for_each_other(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, is_local: bool
) -> None:
    """By a lock of the cluster, in the warehouse or else in the system's temporary folder; tools that run hold it."""
    held: list[tuple[Path, bool]] = []

    @contextmanager
    def exclusive(path: Path, *, with_children: bool = False) -> Iterator[None]:
        held.append((path, with_children))
        yield

    assert scene.warehouse.folder
    digest = hashlib.sha256(scene.warehouse.path.encode()).hexdigest()[:16]
    lock = scene.warehouse.folder / ".locks" / "execution-c"
    if not is_local:
        scene.warehouse.folder = None
        lock = Path(tempfile.gettempdir()) / f"ballast-{digest}-execution-c"
    scene.hold()
    monkeypatch.setattr(locks, "exclusive", exclusive)
    scene.shows(BEFORE, scene.throttled(BEFORE))
    for step in (scene.step.throttle, scene.step.execute, lambda: scene.step.off(cancel=False, accept_owed=False)):
        held.clear()
        step()
        assert held == [(lock, True)]
    held.clear()
    scene.step.status()
    scene.step.preflight()
    assert held == []


def test_the_form_of_the_plan_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kafka's own form has its scripts and its rates, one for all brokers."""
    scene = Scene(tmp_path, monkeypatch, replace(usual_plan(), throttle_style="kafka"))
    assert {key[1] for key in scene.wave.throttles if key[2] == "follower.replication.throttled.rate"} == set("123")
    scene.shows(BEFORE, scene.throttled(BEFORE))
    scene.step.throttle()
    scene.step.off(cancel=False, accept_owed=False)
    assert scene.tools.asked == [("throttle-kafka.sh",), ("unthrottle-kafka.sh",)]


def test_a_wave_that_copies_nothing_has_no_throttles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is held, started and freed all the same, and no script is asked for."""
    scene = Scene(tmp_path, monkeypatch, replace(plan_of([{PARTITION: ([1, 2], [2, 1])}], topic_ids={}), throttles=[]))
    scene.step.throttle()
    assert scene.said[0] == "wave 1 of 1 copies nothing, so it has no throttles"
    scene.step.execute()
    scene.shows(at(2, 1))
    scene.step.off(cancel=False, accept_owed=False)
    assert [len(asked) for asked in scene.tools.asked] == [2]
    assert scene.events() == ["held", "throttled", "executed", "released"]
