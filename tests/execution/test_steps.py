"""Steps that change a fake cluster: problems that stop them, and their calls of Kafka's tools."""

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


def test_a_partition_of_a_dead_broker_must_have_its_old_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kafka cannot move it back, but a partition that somebody has moved is not moved again."""
    plan = plan_of([{PARTITION: ([1, 2], [1, 3])}], topic_ids={})
    dead = [replace(row, state="dead" if row.broker_id == 2 else "alive") for row in plan.brokers]
    scene = Scene(tmp_path, monkeypatch, replace(plan, brokers=dead))
    assert scene.wave.before == {PARTITION: (1, 2)}
    assert scene.wave.stuck == frozenset({PARTITION})
    scene.shows(replace(at(4, 1), alive=frozenset({1, 3, 4})))
    with pytest.raises(Refused, match="does not have the replicas that the plan expects"):
        scene.step.throttle()
    assert scene.tools.calls == []


def test_no_wave_starts_if_a_broker_does_not_answer(scene: Scene) -> None:
    """Its throttles are unknown, and somebody else may have set them."""
    scene.shows(replace(BEFORE, silent=frozenset({2})))
    with pytest.raises(Refused, match="broker 2 does not answer, so its throttles are unknown: start it, or allow"):
        scene.step.throttle()
    assert scene.tools.calls == []


def test_a_wave_without_throttles_is_not_copied(scene: Scene) -> None:
    """If the plan has no throttles for its copies, neither step changes the cluster."""
    bare = replace(scene.step, wave=replace(scene.wave, throttles={}))
    with pytest.raises(Refused, match="has no throttles for it"):
        bare.throttle()
    scene.hold()
    with pytest.raises(Refused, match="has no throttles for it"):
        bare.execute()
    assert scene.tools.calls == []


def test_removed_throttles_are_set_again(scene: Scene) -> None:
    """By the step wait, and by a second step execute; a different rate is kept."""
    scene.hold()
    scene.shows(MOVING, MOVING, scene.throttled(MOVING))
    with pytest.raises(StillMoving):
        scene.step.wait(every_seconds=0, once=True)
    assert scene.tools.calls == [("throttle-careful.sh",)]
    scene.shows(MOVING, MOVING, scene.throttled(MOVING))
    scene.step.execute()
    assert scene.tools.calls == [("throttle-careful.sh",)] * 2
    assert scene.events() == ["held", "executed"]
    raised = {key: "9" if key[0] == "brokers" else value for key, value in scene.wave.throttles.items()}
    scene.shows(replace(MOVING, throttles=raised))
    scene.step.execute()
    assert scene.tools.calls == [("throttle-careful.sh",)] * 2


def test_a_dead_source_does_not_stop_the_throttles(scene: Scene) -> None:
    """Only throttles of alive brokers must be set; the rest is reported."""
    scene.tools.ends = ToolResult(1, "", "not set: brokers 2")
    without_2 = replace(BEFORE, alive=frozenset({1, 3, 4}))
    scene.shows(without_2, scene.throttled(without_2))
    scene.step.throttle()
    assert scene.events() == ["held", "throttled"]
    assert scene.lines[0] == "throttles of dead brokers and deleted topics are not set: not set: brokers 2"


def test_the_rest_of_a_wave_is_started_while_some_partitions_move(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If some partitions already move, only the rest is started."""
    both = {PARTITION: ([1, 2], [1, 3]), ("stays", 1): ([2, 1], [2, 4])}
    scene = Scene(tmp_path, monkeypatch, plan_of([both], topic_ids={}))
    scene.hold()
    scene.shows(scene.throttled(MOVING))
    scene.step.execute()
    assert scene.tools.calls == [("stays-1:2,4", "--execute", "--additional")]


def test_a_preflight_reports_its_checks(scene: Scene) -> None:
    """The tools' version, unchecked topics and the progress; it changes nothing and does not hold the cluster."""
    scene.step.preflight()
    assert scene.lines == [
        "Kafka's tools have version 4.3.1",
        "no problem found for wave 1 of 2: 1 partition, 1 not started",
    ]
    unknown = {**scene.step.plan.manifest, "topic_ids": {"stays": None}}
    replace(scene.step, plan=replace(scene.step.plan, manifest=unknown)).preflight()
    assert (
        scene.lines[3] == "cannot check whether topics were deleted and created again, the plan has no ids for: stays"
    )
    assert (scene.tools.calls, scene.events()) == ([], [])


def test_a_preflight_names_all_that_is_in_the_way(scene: Scene) -> None:
    """Missing tools, the wave that holds the cluster, and problems of the cluster, all at once."""
    scene.tools.missing = "kafka-configs.sh is not on PATH"
    scene.hold(wave=2)
    scene.shows(replace(BEFORE, alive=frozenset({1, 2, 4})))
    with pytest.raises(Refused) as refused:
        scene.step.preflight()
    tools, held, dead = refused.value.problems
    assert tools == "kafka-configs.sh is not on PATH"
    assert held.startswith("cluster 'c' is held by wave 2 of run 'r' (")
    assert dead == "broker 3 is in planned replica lists but not alive: start it, or plan again"
    assert scene.lines == []


def test_a_cluster_is_held_before_its_throttles_are_set(scene: Scene) -> None:
    """If setting fails, it stays held, and missing throttles are listed; with a problem it is never held."""
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
    assert scene.lines == ["the throttles of wave 1 of 2 are set"]


@pytest.mark.parametrize("step", ["throttle", "execute", "off"])
def test_a_cluster_that_another_wave_holds_is_not_changed(scene: Scene, step: str) -> None:
    """Not even by a cancel."""
    scene.hold(wave=2)
    scene.shows(scene.throttled(MOVING if step == "off" else BEFORE))
    options = {"cancel": True, "accept_owed": True} if step == "off" else {}
    with pytest.raises(Refused, match="cluster 'c' is held by wave 2 of run 'r'"):
        getattr(scene.step, step)(**options)
    assert (scene.tools.calls, scene.events()) == ([], ["held"])


def test_a_wave_is_started_once(scene: Scene) -> None:
    """With exactly the approved document. A wave that runs, is done, or whose topic is deleted is not started again."""
    scene.hold()
    scene.shows(scene.throttled(BEFORE))
    scene.step.execute()
    start = (scene.wave.documents["reassignment.json"], "--execute")
    assert (scene.tools.calls, scene.events()) == ([start], ["held", "executed"])
    assert scene.lines == ["wave 1 of 2 is started: 1 partition"]
    deleted = replace(BEFORE, topic_ids={}, replicas={})
    for state, name in ((MOVING, "in flight"), (DONE, "done"), (deleted, "deleted")):
        scene.shows(scene.throttled(state))
        scene.step.execute()
        assert scene.lines[-1] == f"wave 1 of 2 was already started: 1 partition, 1 {name}"
    assert scene.tools.calls == [start]


def test_throttles_that_are_removed_during_the_start_are_set_again(scene: Scene) -> None:
    """The step reads the cluster again after the copies have started."""
    scene.hold()
    scene.shows(scene.throttled(BEFORE), MOVING, scene.throttled(MOVING))
    scene.step.execute()
    assert scene.tools.calls[1:] == [("throttle-careful.sh",)]
    assert scene.lines[0].startswith("somebody removed throttles, they are set again: brokers 1 leader.replication")


@pytest.mark.parametrize(
    ("is_held", "state", "message"),
    [
        (False, "throttled", "wave 1 of 2 does not hold the cluster: run its step throttle first"),
        (True, "bare", "run the step throttle of wave 1 of 2 first"),
        (True, "elsewhere", "does not have the replicas that the plan expects"),
    ],
)
def test_a_wave_that_is_not_ready_is_not_started(scene: Scene, is_held: bool, state: str, message: str) -> None:
    """Without holding the cluster, without a throttle, or with unexpected replicas."""
    if is_held:
        scene.hold()
    bare = {"throttled": scene.throttled(BEFORE), "bare": BEFORE, "elsewhere": scene.throttled(at(1, 4))}
    scene.shows(bare[state])
    with pytest.raises(Refused, match=message):
        scene.step.execute()
    assert (scene.tools.calls, scene.events()) == ([], ["held"] * is_held)


def test_a_start_counts_only_if_the_tool_reports_it(scene: Scene) -> None:
    """The exit code alone is not enough: the wave does not count as executed."""
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
    """A lock for the cluster is in the warehouse, or else in the temporary folder; running tools keep it."""
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


def test_the_throttle_style_of_the_plan_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The style kafka has its own scripts, and one rate for all brokers."""
    scene = Scene(tmp_path, monkeypatch, replace(usual_plan(), throttle_style="kafka"))
    assert {key[1] for key in scene.wave.throttles if key[2] == "follower.replication.throttled.rate"} == set("123")
    scene.shows(BEFORE, scene.throttled(BEFORE))
    scene.step.throttle()
    scene.step.off(cancel=False, accept_owed=False)
    assert scene.tools.calls == [("throttle-kafka.sh",), ("unthrottle-kafka.sh",)]


def test_a_wave_that_copies_nothing_has_no_throttles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It holds the cluster, starts and frees it as usual, but runs no script."""
    scene = Scene(tmp_path, monkeypatch, replace(plan_of([{PARTITION: ([1, 2], [2, 1])}], topic_ids={}), throttles=[]))
    scene.step.throttle()
    assert scene.lines[0] == "wave 1 of 1 copies nothing, so it has no throttles"
    scene.step.execute()
    scene.shows(at(2, 1))
    scene.step.off(cancel=False, accept_owed=False)
    assert [len(call) for call in scene.tools.calls] == [2]
    assert scene.events() == ["held", "throttled", "executed", "released"]
