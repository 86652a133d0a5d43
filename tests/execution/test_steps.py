"""Steps that change a fake cluster: problems that stop them, and their changes."""

import hashlib
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from execution.held import entries_of
from execution.observed import Stored
from execution.steps import StillMoving
from execution.wanted import Wanted
from optimizer import locks
from optimizer.errors import BallastError
from optimizer.kafka.throttle import FOLLOWER_REPLICAS, LEADER_RATE
from stored.verdicts import Refused
from tests.execution import rows
from tests.execution.scene import DONE, MOVING, SET, Scene
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
    with pytest.raises(Refused, match=r"^1 partition was moved by somebody else: stays-0; .*; plan again$"):
        replace(scene.step, is_strict=True).throttle()
    assert scene.calls == []
    scene.hold()
    scene.step.execute()
    assert scene.lines[-1] == "wave 1 of 1 was already started: 1 partition, 1 unexpected"
    assert {call[0] for call in scene.calls} == {"alter"}


def test_no_wave_starts_if_a_broker_does_not_answer(scene: Scene) -> None:
    """Its throttles are unknown, and somebody else may have set them."""
    scene.shows(replace(BEFORE, silent=frozenset({2})))
    with pytest.raises(Refused, match="broker 2 does not answer, so its throttles are unknown: start it, or allow"):
        scene.step.throttle()
    assert scene.calls == []


def test_a_wave_without_throttles_is_not_copied(scene: Scene) -> None:
    """If the plan has no throttles for its copies, neither step changes the cluster."""
    bare = replace(scene.step, wave=replace(scene.wave, throttles={}))
    with pytest.raises(Refused, match="has no throttles for it"):
        bare.throttle()
    scene.hold()
    with pytest.raises(Refused, match="has no throttles for it"):
        bare.execute()
    assert scene.calls == []


def test_removed_throttles_are_set_again(scene: Scene) -> None:
    """By the step wait, and by a second step execute; a different rate is kept."""
    # The rate of broker 2 is the earlier one: somebody has set it.
    again = (*SET[:2], *SET[3:])
    scene.hold()
    scene.shows(MOVING)
    with pytest.raises(StillMoving):
        scene.step.wait(every_seconds=0, once=True)
    assert scene.calls == [again]
    first = again[1].removeprefix("SET ")
    assert scene.lines[-1] == f"somebody removed throttles, they are set again: {first} and {len(again) - 2} more"
    scene.admin.altered.clear()
    scene.step.execute()
    assert scene.calls == [again] * 2
    assert scene.events() == ["held", "executed"]
    scene.admin.altered.clear()
    raised = {key: "9" if key[0] == "brokers" else value for key, value in scene.wave.throttles.items()}
    scene.shows(replace(MOVING, throttles=raised))
    scene.step.execute()
    assert scene.calls == [again] * 2


def test_a_shortened_list_is_extended_again(scene: Scene) -> None:
    """What somebody else has added stays; if Kafka refuses, the step fails and the wave goes on."""
    scene.hold()
    key = ("topics", "stays", FOLLOWER_REPLICAS)
    moving = scene.throttled(MOVING)
    scene.shows(replace(moving, throttles={**moving.throttles, key: "7:7"}))
    scene.admin.refuses = {key: "no"}
    with pytest.raises(BallastError, match=r"^throttles are missing, run the step again:\n- topics stays .*: no$"):
        scene.step.wait(every_seconds=0, once=True)
    scene.admin.refuses = {}
    with pytest.raises(StillMoving):
        scene.step.wait(every_seconds=0, once=True)
    assert scene.calls == [("alter", "APPEND topics stays follower.replication.throttled.replicas=0:3")] * 2
    assert scene.admin.altered == {key: "7:7,0:3"}


def test_a_dead_source_does_not_stop_the_throttles(scene: Scene) -> None:
    """Only throttles of alive brokers must be set; the rest is reported."""
    scene.shows(replace(BEFORE, alive=frozenset({1, 3, 4})))
    scene.step.throttle()
    assert scene.events() == ["held", "throttled"]
    assert scene.calls == [(*SET[:2], *SET[3:])]
    assert scene.lines[0] == "throttles of dead brokers and deleted topics are not set: brokers 2"


def test_throttles_must_be_visible_on_every_broker(scene: Scene) -> None:
    """The step looks again; a broker that never shows them stops the wave."""
    scene.admin.shown_late = 3
    scene.step.throttle()
    assert (scene.events(), scene.slept) == (["held", "throttled"], [0.2])
    scene.admin.altered.clear()
    scene.admin.shown_late = 99
    with pytest.raises(BallastError, match=r"(\n- .*=.*: not visible on every broker){4}$"):
        scene.step.throttle()
    assert scene.events() == ["held", "throttled"]


def test_the_rest_of_a_wave_is_started_while_some_partitions_move(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If some partitions already move, only the rest is started."""
    both = {PARTITION: ([1, 2], [1, 3]), ("stays", 1): ([2, 1], [2, 4])}
    scene = Scene(tmp_path, monkeypatch, plan_of([both], topic_ids={}))
    scene.hold()
    scene.shows(scene.throttled(MOVING))
    scene.step.execute()
    assert scene.calls == [("stays-1:2,4", "--execute", "--additional")]


def test_a_preflight_reports_its_checks(scene: Scene) -> None:
    """The tools' version, unchecked topics and the progress; it changes nothing and does not hold the cluster."""
    scene.step.preflight()
    assert scene.lines == [
        "Kafka's tools have version 4.3.1",
        "no problem found for wave 1 of 2: 1 partition, 1 not started",
    ]
    replace(scene.step, wave=replace(scene.wave, topic_ids={"stays": None})).preflight()
    unchecked = "cannot check whether topics were deleted and created again, the plan has no ids for: stays"
    assert scene.lines[3] == unchecked
    scene.tools.is_there = False
    scene.step.preflight()
    assert scene.lines[5] == "kafka-reassign-partitions.sh is not on PATH: Ballast starts the copies itself"
    assert (scene.calls, scene.events()) == ([], [])


GONE = "1 topic does not exist any more: stays"
RECREATED = "1 topic was deleted and created again since the snapshot: stays"
ELSEWHERE = "1 partition was moved by somebody else: stays-0; stays-0 has [1, 4], the plan expects [1, 2]"
SKIPPED = {
    GONE: replace(BEFORE, topic_ids={}, replicas={}),
    RECREATED: replace(BEFORE, topic_ids={"stays": "new"}),
    ELSEWHERE: at(1, 4),
}


@pytest.mark.parametrize("line", SKIPPED)
def test_what_the_plan_cannot_move_is_skipped(scene: Scene, line: str) -> None:
    """Every step that begins something names it; --strict refuses the wave instead."""
    scene.shows(SKIPPED[line])
    strict = replace(scene.step, is_strict=True)
    for step in (strict.preflight, strict.throttle):
        with pytest.raises(Refused) as refused:
            step()
        assert refused.value.problems == (f"{line}; plan again",)
    assert (scene.calls, scene.events(), scene.lines[1:]) == ([], [], [])
    scene.lines.clear()
    scene.step.preflight()
    assert scene.lines[1] == f"skipped: {line}"
    scene.step.throttle()
    assert scene.lines[3] == f"skipped: {line}"
    with pytest.raises(Refused) as refused:
        strict.execute()
    assert refused.value.problems == (f"{line}; plan again",)
    scene.step.execute()
    assert {call[0] for call in scene.calls} <= {"alter"}
    assert scene.events() == ["held", "throttled", "executed"]


def test_the_rest_of_a_wave_with_a_skipped_partition_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The document of the plan has the skipped partition too, so only the rest is given to Kafka."""
    both = {PARTITION: ([1, 2], [1, 3]), ("stays", 1): ([2, 1], [2, 4])}
    scene = Scene(tmp_path, monkeypatch, plan_of([both], topic_ids={}))
    scene.hold()
    scene.shows(scene.throttled(at(1, 4)))
    scene.step.execute()
    assert scene.calls == [("stays-1:2,4", "--execute", "--additional")]
    assert scene.lines[0] == f"skipped: {ELSEWHERE}"
    assert scene.lines[-1] == "wave 1 of 1 is started: 1 partition"


def test_without_a_tool_the_admin_api_starts_the_copies(scene: Scene) -> None:
    """Only partitions that do not move yet; a refusal names each partition, and the wave does not count as executed."""
    scene.tools.is_there = False
    scene.hold()
    scene.shows(scene.throttled(BEFORE))
    scene.admin.refuses = {PARTITION: "InvalidReplicaAssignmentError"}
    refused = r"^not started, try again:\n- stays-0: InvalidReplicaAssignmentError$"
    with pytest.raises(BallastError, match=refused):
        scene.step.execute()
    assert scene.events() == ["held", "starting"]
    scene.admin.refuses = {}
    scene.step.execute()
    assert scene.calls == [("reassign", "stays-0:1,3")] * 2
    assert scene.events() == ["held", "starting", "executed"]


def test_a_preflight_names_all_that_is_in_the_way(scene: Scene) -> None:
    """Missing tools, the wave that holds the cluster, and problems of the cluster, all at once."""
    scene.tools.missing = "kafka-reassign-partitions.sh is not in /x"
    scene.hold(wave=2)
    scene.shows(replace(BEFORE, alive=frozenset({1, 2, 4})))
    with pytest.raises(Refused) as refused:
        scene.step.preflight()
    tools, held, dead = refused.value.problems
    assert tools == "kafka-reassign-partitions.sh is not in /x"
    assert held.startswith("cluster 'c' is held by wave 2 of run 'r' (")
    assert dead == "broker 3 is in planned replica lists but not alive: start it, or plan again"
    assert scene.lines == []


def test_a_cluster_is_held_before_its_throttles_are_set(scene: Scene) -> None:
    """If setting fails, it stays held, and missing throttles are listed; with a problem it is never held."""
    scene.shows(CASES["a target is dead"].now)
    with pytest.raises(Refused):
        scene.step.throttle()
    assert scene.events() == []
    scene.admin.refuses = {("brokers", "2", LEADER_RATE): "timed out"}
    scene.shows(BEFORE)
    refused = "brokers 2 leader.replication.throttled.rate=300000: timed out"
    with pytest.raises(BallastError, match=f"^some throttles are not set, run the step again:\n- {refused}$"):
        scene.step.throttle()
    assert scene.events() == ["held"]
    scene.admin.refuses = {}
    scene.step.throttle()
    assert scene.events() == ["held", "throttled"]
    assert scene.calls == [SET, (SET[0], SET[2])]
    assert scene.lines == ["the throttles of wave 1 of 2 are set"]


@pytest.mark.parametrize("step", ["throttle", "execute", "off"])
def test_a_cluster_that_another_wave_holds_is_not_changed(scene: Scene, step: str) -> None:
    """Not even by a cancel."""
    scene.hold(wave=2)
    scene.shows(scene.throttled(MOVING if step == "off" else BEFORE))
    options = {"cancel": True, "accept_owed": True} if step == "off" else {}
    with pytest.raises(Refused, match="cluster 'c' is held by wave 2 of run 'r'"):
        getattr(scene.step, step)(**options)
    assert (scene.calls, scene.events()) == ([], ["held"])


def test_a_wave_is_started_once(scene: Scene) -> None:
    """With exactly the approved document. A wave that runs, is done, or whose topic is deleted is not started again."""
    scene.hold()
    scene.shows(scene.throttled(BEFORE))
    scene.step.execute()
    start = (scene.wave.documents["reassignment.json"], "--execute")
    assert (scene.calls, scene.events()) == ([start], ["held", "starting", "executed"])
    assert scene.lines == ["wave 1 of 2 is started: 1 partition"]
    deleted = replace(BEFORE, topic_ids={}, replicas={})
    for state, name in ((MOVING, "in flight"), (DONE, "done"), (deleted, "deleted")):
        scene.shows(scene.throttled(state))
        scene.step.execute()
        assert scene.lines[-1] == f"wave 1 of 2 was already started: 1 partition, 1 {name}"
    assert scene.calls == [start]


def test_missing_throttles_are_one_short_line(scene: Scene) -> None:
    """A wave has a list for each of a thousand topics: the first is named, the others are counted."""
    scene.hold()
    scene.shows(BEFORE)
    with pytest.raises(Refused) as refused:
        scene.step.execute()
    count = len(scene.wave.unset(BEFORE))
    first = SET[1].removeprefix("SET ")
    step = "run the step throttle of wave 1 of 2 first"
    assert refused.value.problems == (f"not set: {first} and {count - 1} more", step)


def test_throttles_that_are_removed_during_the_start_are_set_again(scene: Scene) -> None:
    """The step reads the cluster again after the copies have started."""
    scene.hold()
    scene.shows(scene.throttled(BEFORE), MOVING)
    scene.step.execute()
    assert scene.calls[1:] == [(*SET[:2], *SET[3:])]
    assert scene.lines[0].startswith("somebody removed throttles, they are set again: brokers 1 leader.replication")


@pytest.mark.parametrize(
    ("is_held", "state", "message"),
    [
        (False, "throttled", "wave 1 does not hold the cluster: run its step throttle first"),
        (True, "bare", "run the step throttle of wave 1 of 2 first"),
        (True, "elsewhere", "1 partition was moved by somebody else: stays-0; .*; plan again"),
    ],
)
def test_a_wave_that_is_not_ready_is_not_started(scene: Scene, is_held: bool, state: str, message: str) -> None:
    """Without holding the cluster, without a throttle, or with --strict and unexpected replicas."""
    if is_held:
        scene.hold()
    bare = {"throttled": scene.throttled(BEFORE), "bare": BEFORE, "elsewhere": scene.throttled(at(1, 4))}
    scene.shows(bare[state])
    with pytest.raises(Refused, match=message):
        replace(scene.step, is_strict=True).execute()
    assert (scene.calls, scene.events()) == ([], ["held"] * is_held)


def test_a_wave_without_room_is_not_started(scene: Scene) -> None:
    """Its throttles stay until the room is there, or the step off removes them."""
    scene.hold()
    scene.shows(scene.throttled(BEFORE))
    scene.admin.disks = Stored({(*PARTITION, 1): 100}, {3: 99})
    with pytest.raises(Refused, match=r"^broker 3 has room for 99 B, but the wave brings 100 B: free disk space there"):
        scene.step.execute()
    assert (scene.calls, scene.events()) == ([], ["held"])
    scene.admin.disks = Stored({(*PARTITION, 1): 100}, {3: 100})
    scene.step.execute()
    assert scene.events() == ["held", "starting", "executed"]


@pytest.mark.parametrize(
    ("wanted", "reason"),
    [
        (Wanted(is_paused=True), "it is paused or was stopped"),
        (Wanted(ending="stop"), "it is paused or was stopped"),
        (Wanted(pressure="hold", because="broker 4 is not alive any more"), "broker 4 is not alive any more"),
    ],
)
def test_a_wave_that_is_held_back_is_not_started(scene: Scene, wanted: Wanted, reason: str) -> None:
    """Until an operator resumes it: the step ends with 4, and ``run``, which looks again, only says so."""
    scene.hold()
    scene.shows(scene.throttled(BEFORE))
    rows.record_wanted(scene.warehouse, scene.step.plan, 1, wanted.to_json())
    message = f"nothing of wave 1 of 2 is started, because {reason}: ./ballast resume --cluster c lets it go on"
    with pytest.raises(StillMoving, match=f"^{message}$") as held_back:
        scene.step.execute()
    assert (held_back.value.exit_code, scene.calls, scene.lines) == (4, [], [])
    scene.step.execute(is_watched=True)
    assert (scene.calls, scene.lines) == ([], [message])
    rows.record_wanted(scene.warehouse, scene.step.plan, 1, Wanted().to_json())
    scene.step.execute()
    assert scene.events() == ["held", "wanted", "wanted", "starting", "executed"]


def test_a_start_counts_only_if_the_tool_reports_it(scene: Scene) -> None:
    """The exit code alone is not enough: the wave does not count as executed."""
    scene.hold()
    scene.tools.started = "Current partition replica assignment\n"
    scene.shows(scene.throttled(BEFORE))
    with pytest.raises(BallastError, match=r"not print 'Successfully started': Current partition replica assignment$"):
        scene.step.execute()
    assert scene.events() == ["held", "starting"]


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
    scene.shows(BEFORE)
    for step in (scene.step.throttle, scene.step.execute, lambda: scene.step.off(cancel=False, accept_owed=False)):
        held.clear()
        step()
        assert held == [(lock, True)]
    held.clear()
    scene.step.status()
    scene.step.preflight()
    assert held == []


def test_the_throttle_style_of_the_plan_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The style kafka has one rate for all brokers."""
    scene = Scene(tmp_path, monkeypatch, replace(usual_plan(), throttle_style="kafka"))
    assert {key[1] for key in scene.wave.throttles if key[2] == "follower.replication.throttled.rate"} == set("123")
    scene.step.throttle()
    assert scene.wave.missing_throttles(scene.admin.observe()) == []
    scene.step.off(cancel=False, accept_owed=False)
    assert [call[0] for call in scene.calls] == ["alter", "alter"]
    assert scene.admin.observe() == BEFORE


def test_a_wave_that_copies_nothing_has_no_throttles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It holds the cluster, starts and frees it as usual, but changes no throttle."""
    scene = Scene(tmp_path, monkeypatch, replace(plan_of([{PARTITION: ([1, 2], [2, 1])}], topic_ids={}), throttles=[]))
    scene.step.throttle()
    assert scene.lines[0] == "wave 1 of 1 copies nothing, so it has no throttles"
    scene.step.execute()
    scene.shows(at(2, 1))
    scene.step.off(cancel=False, accept_owed=False)
    assert [call[1:] for call in scene.calls] == [("--execute",)]
    assert scene.events() == ["held", "throttled", "starting", "executed", "removing", "released"]


def test_a_wave_keeps_what_it_is_about_to_change(scene: Scene) -> None:
    """In the row ``held``, before the first change, and from the first try: a second try finds other values."""
    scene.admin.refuses = {("brokers", "2", LEADER_RATE): "no"}
    for _ in range(2):
        with pytest.raises(BallastError):
            scene.step.throttle()
    held = rows.changes(scene.warehouse, scene.step.plan, 1)
    assert {key: one.before for key, one in entries_of(held).items()} == {
        key: BEFORE.throttles.get(key) for key in scene.wave.throttles
    }
