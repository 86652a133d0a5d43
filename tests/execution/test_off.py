"""The step off: it cancels copies, removes throttles and frees the cluster."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from execution import journal
from execution.health import baseline_of
from execution.held import changes_of
from execution.observed import Observed, Throttle
from execution.steps import StillMoving
from optimizer.errors import BallastError
from optimizer.kafka.throttle import FOLLOWER_RATE, FOLLOWER_REPLICAS, LEADER_RATE, LEADER_REPLICAS
from tests.execution import rows
from tests.execution.scene import DONE, MOVING, REMOVED, Scene
from tests.execution.test_preflight import BEFORE, PARTITION, at
from tests.execution.warehouse import plan_of

CANCEL = ("reassign", "stays-0:")
ORDER = ("reassign", "stays-0:1,2")
NOT_REMOVED = "some throttles of wave 1 of 2 are not removed: run the step off again"
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
    scene.shows(*map(scene.throttled, states))
    scene.step.off(cancel=True, accept_owed=False)
    is_there = ("stays", 0) in states[-1].replicas
    assert scene.calls == [*calls, REMOVED if is_there else REMOVED[:4]]
    assert scene.lines == [*lines, FREE]
    assert scene.events() == ["held", "cancelling", *events, "removing", "released"]


def test_a_list_with_a_dead_broker_is_not_restored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kafka does not accept the old list."""
    plan = plan_of([{PARTITION: ([1, 2], [1, 3])}], topic_ids={})
    dead = [replace(row, state="dead" if row.broker_id == 2 else "alive") for row in plan.brokers]
    scene = Scene(tmp_path, monkeypatch, replace(plan, brokers=dead))
    scene.shows(at(2, 1))
    scene.step.off(cancel=True, accept_owed=False)
    assert (scene.calls, scene.lines[0]) == ([], CHECK_BY_HAND)


@pytest.mark.parametrize(
    ("cancel", "calls", "events"), [(False, [], ["held"]), (True, [CANCEL], ["held", "cancelling", "cancelled"])]
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
    assert (scene.calls, scene.events()) == (calls, events)


def test_a_cluster_that_nobody_holds_is_not_freed_again(scene: Scene) -> None:
    """Throttles are removed nevertheless: a second try finds the remaining ones."""
    scene.shows(scene.throttled(BEFORE))
    scene.step.off(cancel=False, accept_owed=False)
    assert (scene.calls, scene.lines, scene.events()) == ([REMOVED], [FREE], [])


@pytest.mark.parametrize("cancel", [True, False])
def test_an_interrupted_cancel_is_finished(scene: Scene, cancel: bool) -> None:
    """After a kill between the two calls the list still gets its old order, also without asking for a cancel again."""
    record(scene, "held", "executed", "cancelling")
    scene.shows(at(2, 1), at(2, 1), at(2, 1), at(2, 1), BEFORE)
    scene.step.off(cancel=cancel, accept_owed=False)
    assert scene.calls == [ORDER]
    begun = [] if cancel else ["a cancel of wave 1 of 2 has begun, so it is finished first"]
    assert scene.lines == [*begun, "replica order restored: stays-0", FREE]
    assert journal.waves_executed(journal.events(scene.warehouse)) == set()


@pytest.mark.parametrize(
    ("events", "calls"),
    [(("cancelling",), [CANCEL]), (("cancelling", "cancelled"), []), (("cancelling", "released", "held"), [])],
    ids=str,
)
def test_a_finished_cancel_is_not_repeated(
    scene: Scene, events: Sequence[str], calls: Sequence[tuple[str, ...]]
) -> None:
    """Only what was cancelled and not finished is cancelled again: a wave may have been started again since."""
    record(scene, "held", *events)
    scene.shows(scene.throttled(MOVING))
    with pytest.raises(StillMoving):
        scene.step.off(cancel=False, accept_owed=False)
    assert scene.calls == calls


def test_a_cancel_that_ended_with_the_hold_is_not_finished_again(scene: Scene) -> None:
    """A second step off says nothing of it."""
    record(scene, "held", "cancelling", "released")
    scene.step.off(cancel=False, accept_owed=False)
    assert scene.lines == [FREE]


def test_finished_moves_stay(scene: Scene) -> None:
    """Undoing them needs a copy of its own."""
    record(scene, "held", "executed", "copied")
    scene.shows(DONE)
    scene.step.off(cancel=True, accept_owed=False)
    assert scene.calls == []
    assert journal.waves_executed(journal.events(scene.warehouse)) == {("r", "c", 1)}


@pytest.mark.parametrize(
    ("state", "message"),
    [
        (MOVING, r"^not cancelled, run the step again:\n- stays-0: no$"),
        (at(2, 1), r"^not put back in order, run the step again:\n- stays-0: no$"),
    ],
)
def test_a_refused_cancel_is_an_error(scene: Scene, state: Observed, message: str) -> None:
    """With each partition and the reason; the wave holds the cluster, and the next step off finishes the cancel."""
    scene.hold()
    scene.shows(scene.throttled(state))
    scene.admin.refuses = {PARTITION: "no"}
    with pytest.raises(BallastError, match=message):
        scene.step.off(cancel=True, accept_owed=False)
    assert scene.events() == ["held", "cancelling"]
    assert len(scene.calls) == 1


RATE_1, RATE_2, RATE_3 = ("brokers", "1", LEADER_RATE), ("brokers", "2", LEADER_RATE), ("brokers", "3", FOLLOWER_RATE)
LEADERS, FOLLOWERS = ("topics", "stays", LEADER_REPLICAS), ("topics", "stays", FOLLOWER_REPLICAS)
# What the cluster has now instead of the wave's value, what it has afterwards, and the line about it.
CHANGED_BY_OTHERS: dict[str, tuple[Throttle, str | None, str | None, str]] = {
    "a rate": (RATE_1, "5", "5", "brokers 1 leader.replication.throttled.rate=5 was set by somebody else and stays"),
    "a rate with a value before": (
        *(RATE_2, "5", "5"),
        "brokers 2 leader.replication.throttled.rate=5 was set by somebody else and stays",
    ),
    "a removed rate with a value before": (
        *(RATE_2, None, None),
        "brokers 2 leader.replication.throttled.rate=20000000 was removed by somebody else and is not set again",
    ),
    "a removed rate": (RATE_1, None, None, ""),
    "a longer list": (FOLLOWERS, "0:3,7:7", "7:7", ""),
    "a list of all replicas": (
        *(FOLLOWERS, "*", "*"),
        "topics stays follower.replication.throttled.replicas=* was set by somebody else and stays",
    ),
    "a list of others": (FOLLOWERS, "7:7", "7:7", ""),
    "a removed list": (FOLLOWERS, None, None, ""),
}


@pytest.mark.parametrize("case", CHANGED_BY_OTHERS)
def test_what_others_have_changed_stays(scene: Scene, case: str) -> None:
    """It is named, also in the row ``released``; all other throttles have the values from before."""
    key, value, expected, line = CHANGED_BY_OTHERS[case]
    changes = changes_of(scene.wave, scene.wave.entries(BEFORE), baseline_of(BEFORE))
    rows.record(scene.warehouse, scene.step.plan, 1, journal.HELD, changes=changes)
    now = {**scene.throttled(DONE).throttles, key: value}
    throttles = {each: set_to for each, set_to in now.items() if set_to is not None}
    scene.shows(replace(DONE, throttles=throttles))
    scene.step.off(cancel=False, accept_owed=False)
    after = {**BEFORE.throttles, key: expected}
    assert scene.admin.observe().throttles == {each: left for each, left in after.items() if left is not None}
    assert scene.lines == [*([f"left: {line}"] if line else []), FREE]
    [released] = journal.events(scene.warehouse, event=journal.RELEASED)
    assert journal.result_of(released) == ({"left": [line]} if line else {})


def test_the_values_of_the_journal_are_restored(scene: Scene) -> None:
    """Not those of the plan: somebody may have changed a rate between the snapshot and the wave."""
    before = replace(BEFORE, throttles={**BEFORE.throttles, RATE_2: "7"})
    entries = scene.wave.entries(before)
    changes = changes_of(scene.wave, entries, baseline_of(before))
    rows.record(scene.warehouse, scene.step.plan, 1, journal.HELD, changes=changes)
    scene.shows(scene.throttled(DONE))
    scene.step.off(cancel=False, accept_owed=False)
    assert scene.admin.observe().throttles == before.throttles


@pytest.mark.parametrize("accept_owed", [False, True])
def test_a_cluster_stays_held_while_throttles_remain(scene: Scene, accept_owed: bool) -> None:
    """Also with --accept-owed, which is about silent brokers; each entry is listed with Kafka's reason."""
    scene.hold()
    scene.shows(scene.throttled(DONE))
    scene.admin.refuses = {RATE_1: "no", FOLLOWERS: "not allowed"}
    lines = "\n- brokers 1 leader.replication.throttled.rate: no"
    lines += "\n- topics stays follower.replication.throttled.replicas: not allowed"
    with pytest.raises(BallastError, match=f"^{NOT_REMOVED}{lines}$"):
        scene.step.off(cancel=False, accept_owed=accept_owed)
    assert scene.events() == ["held", "removing"]
    scene.admin.refuses = {}
    scene.step.off(cancel=False, accept_owed=False)
    assert scene.events() == ["held", "removing", "released"]
    assert scene.admin.observe().throttles == BEFORE.throttles


def test_partitions_of_others_may_move(scene: Scene) -> None:
    """The wave's own throttles are removed nevertheless."""
    scene.hold()
    scene.shows(scene.throttled(replace(DONE, in_flight={("x", 0): (1, 2)})))
    scene.step.off(cancel=False, accept_owed=False)
    assert scene.calls == [REMOVED]
    assert scene.events() == ["held", "removing", "released"]


DEAD = replace(DONE, alive=frozenset({1, 2, 4}))
SILENT = replace(DONE, silent=frozenset({3}))


@pytest.mark.parametrize("state", [DEAD, SILENT], ids=["dead", "silent"])
def test_remaining_rates_may_be_accepted(scene: Scene, state: Observed) -> None:
    """With --accept-owed the cluster is free, and the rates are reported; without it the cluster stays held."""
    scene.hold()
    throttled = scene.throttled(state)
    scene.shows(replace(throttled, throttles={k: v for k, v in throttled.throttles.items() if k[1] != "3"}))
    owed = "owed: brokers 3 follower.replication.throttled.rate: the broker does not answer"
    never = r"; if they never come back: \./ballast wave off --run-id r --cluster c --wave 1 --accept-owed"
    with pytest.raises(BallastError, match=f"^{NOT_REMOVED} when the brokers are back{never}\n- {owed}$"):
        scene.step.off(cancel=False, accept_owed=False)
    assert scene.events() == ["held", "removing"]
    assert scene.calls == [(*REMOVED[:3], *REMOVED[4:])]
    scene.step.off(cancel=False, accept_owed=True)
    assert scene.events() == ["held", "removing", "released"]
    assert scene.lines == [owed, owed, FREE]


def test_throttles_are_set_again_if_a_wave_was_started_meanwhile(scene: Scene) -> None:
    """Another process started it while they were removed: the cluster stays held."""
    scene.hold()
    scene.shows(*[scene.throttled(BEFORE)] * 3, scene.throttled(MOVING))
    with pytest.raises(
        StillMoving,
        match="was started meanwhile, so its throttles are set again: run",
    ):
        scene.step.off(cancel=False, accept_owed=False)
    assert scene.calls[0] == REMOVED
    assert scene.wave.missing_throttles(scene.admin.observe()) == []
    assert scene.events() == ["held", "removing", "executed"]


def record(scene: Scene, *events: str) -> None:
    """Record events of the scene's wave."""
    for event in events:
        if event == journal.HELD:
            scene.hold()
        else:
            rows.record(scene.warehouse, scene.step.plan, 1, event)
