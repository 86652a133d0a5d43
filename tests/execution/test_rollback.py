"""Waves that are taken back, on a fake cluster with a fake clock."""

import re
from dataclasses import replace

import pytest

from execution import journal
from execution.in_charge import in_charge
from execution.journal import Journal
from execution.rollback import roll_back, say_rollback
from execution.steps import Incomplete, StillMoving
from execution.wave import rollback_of
from optimizer.kafka.throttle import FOLLOWER_RATE, FOLLOWER_REPLICAS, LEADER_REPLICAS
from stored.verdicts import Refused
from tests.execution.fake_kafka import Killed
from tests.execution.lab import AFTER, BEFORE, LIMITS, MB, Build, Lab

WAVE = ["held", "throttled", "starting", "executed", "copied", "removing", "released"]


def take_back(lab: Lab, *chosen: int, for_seconds: float | None = None) -> None:
    """Take waves back, as a process that is in charge."""
    limits = replace(LIMITS, for_seconds=for_seconds)
    with in_charge(Journal(lab.warehouse, lab.plan.cluster_id), lab.plan, take_over=False) as check:
        step = replace(lab.process(2), check_in_charge=check)
        roll_back(step, lab.waves, chosen or (1, 2), limits, by="ann", accept_owed=False)


def events(lab: Lab, wave: int) -> list[str]:
    """The events of one wave."""
    return [row["event"] for row in lab.warehouse.stored if row["wave"] == wave]


def test_a_plan_goes_back(build: Build) -> None:
    """The last wave first, each as a wave of its own under throttles; the first replicas of the old lists lead."""
    lab = build()
    lab.run()
    assert lab.kafka.replicas == AFTER
    lab.kafka.leaders["u", 0] = 5
    del lab.sizes["u", 0, 1], lab.sizes["t", 0, 2], lab.sizes["t", 1, 1]
    begun = len(lab.warehouse.stored)
    take_back(lab)
    assert lab.kafka.replicas == BEFORE
    assert lab.kafka.leaders == {partition: brokers[0] for partition, brokers in BEFORE.items()}
    assert (lab.kafka.throttles, lab.kafka.unthrottled) == ({}, [])
    rows = [(row["wave"], row["event"]) for row in lab.warehouse.stored[begun:]]
    assert rows == [
        (0, "running"),
        (0, "rollback"),
        *((-2, event) for event in WAVE),
        *((-1, event) for event in WAVE),
        (-1, "electing"),
        (-1, "elected"),
        (0, "taken_back"),
        (0, "ended"),
    ]
    assert lab.warehouse.stored[begun + 1]["result"] == '{"waves": [2, 1], "by": "ann"}'
    assert journal.waves_executed(lab.warehouse.stored) == set()
    assert all(wave[2] > 0 for wave in journal.copy_seconds(lab.warehouse.stored))


def test_a_revoked_approval_stops_no_rollback(build: Build) -> None:
    """Whenever somebody revokes it."""
    lab = build()
    lab.run()
    del lab.sizes["u", 0, 1], lab.sizes["t", 0, 2], lab.sizes["t", 1, 1]
    lab.approve(by="eve", is_revocation=True)
    take_back(lab)
    assert lab.kafka.replicas == BEFORE


def test_a_rollback_begins_no_wave_when_the_time_is_over(build: Build) -> None:
    """The same command takes back the rest."""
    lab = build()
    lab.run()
    del lab.sizes["u", 0, 1], lab.sizes["t", 0, 2], lab.sizes["t", 1, 1]
    with pytest.raises(StillMoving, match=r"^the rollback of wave 1 of 2 is not started: the time of this command is"):
        take_back(lab, for_seconds=11)
    assert lab.kafka.replicas == {**AFTER, ("u", 0): BEFORE["u", 0]}
    take_back(lab)
    assert lab.kafka.replicas == BEFORE


def test_a_rollback_has_its_own_throttles(build: Build) -> None:
    """The new replicas send, the removed ones receive."""
    lab = build()
    wave = rollback_of(lab.waves[0])
    assert (wave.id.column, wave.before["t", 0], wave.after["t", 0]) == (-1, (1, 3), (1, 2))
    assert set(wave.throttles["topics", "t", FOLLOWER_REPLICAS].split(",")) == {"0:2", "1:1"}
    assert {"0:3", "1:3"} <= set(wave.throttles["topics", "t", LEADER_REPLICAS].split(","))
    assert {key[1] for key in wave.throttles if key[2] == FOLLOWER_RATE} == {"1", "2"}
    assert wave.copy_bytes_per_s == lab.waves[0].copy_bytes_per_s


def test_a_running_wave_is_cancelled_first(build: Build) -> None:
    """Its throttles go; what it had finished goes back under the throttles of the rollback, nothing else moves."""
    lab = build(rate_bytes_per_s=MB)
    lab.sizes["t", 0, 1] = lab.sizes["t", 0, 2] = 10 * MB
    with pytest.raises(StillMoving):
        lab.watch(for_seconds=30)
    assert set(lab.kafka.moves) == {("t", 1)}
    del lab.sizes["t", 0, 2]
    lab.kills.calls.clear()
    take_back(lab, 1)
    assert (lab.kafka.replicas, lab.kafka.throttles, lab.kafka.unthrottled) == (BEFORE, {}, [])
    moves = [name for name, _ in lab.kills.calls if name.startswith(("move", "cancel"))]
    assert moves == ["cancel ('t', 1)", "move ('t', 0)"]


def test_a_refused_rollback_changes_nothing(build: Build) -> None:
    """Neither a running wave of the plan, nor the journal, if a later wave was executed."""
    lab = build(rate_bytes_per_s=MB)
    lab.kafka.replicas["u", 0] = AFTER["u", 0]
    with pytest.raises(StillMoving):
        lab.watch(for_seconds=30)
    journal = lab.journal()
    with pytest.raises(Refused, match="wave 2 was executed later"):
        take_back(lab, 1)
    assert set(lab.kafka.moves) == {("t", 0), ("t", 1)}
    assert lab.journal() == [*journal, "running", "ended"]


def test_copies_that_no_wave_holds_are_not_cancelled(build: Build) -> None:
    """Somebody has started them by hand, and may know why."""
    lab = build(rate_bytes_per_s=MB)
    lab.kafka.reassign({("t", 0): AFTER["t", 0]})
    with pytest.raises(Refused, match="wave 1 does not hold the cluster, but its copies run: cancel them: t-0"):
        take_back(lab)
    assert set(lab.kafka.moves) == {("t", 0)}


def test_waves_that_were_not_moved_have_no_election(build: Build) -> None:
    """What was not moved stays, leaders too."""
    lab = build()
    lab.run(last=1)
    lab.kafka.leaders["u", 0] = 1
    take_back(lab)
    assert lab.kafka.replicas == BEFORE
    assert lab.kafka.leaders == {("t", 0): 1, ("t", 1): 2, ("u", 0): 1}


def test_only_the_last_executed_wave_goes_back_alone(build: Build) -> None:
    """Later copies may use the space of what would come back."""
    lab = build()
    lab.run()
    with pytest.raises(Refused, match=r"^wave 2 was executed later: take all back with --all, or the last one first"):
        take_back(lab, 1)
    assert lab.kafka.replicas == AFTER
    take_back(lab, 2)
    assert {p: lab.kafka.replicas[p] for p in (("t", 0), ("u", 0))} == {("t", 0): (1, 3), ("u", 0): (4, 1)}
    take_back(lab, 1)
    assert lab.kafka.replicas == BEFORE
    lab.run()
    assert lab.kafka.replicas == AFTER


def test_what_cannot_go_back_is_named(build: Build) -> None:
    """An old list with a dead broker, and what others have moved since; the rest goes back."""
    lab = build()
    lab.waves = (replace(lab.waves[0], stuck=frozenset({("t", 0)})), lab.waves[1])
    lab.run()
    lab.kafka.replicas["u", 0] = (4, 2)
    with pytest.raises(Incomplete) as incomplete:
        take_back(lab)
    assert str(incomplete.value).split("\n- ") == [
        "what could go back has gone back, except for:",
        "1 partition was moved by somebody else: u-0; u-0 has [4, 2], the plan expects [4, 5]",
        "t-0 cannot go back: its old list [1, 2] has a broker that was dead at the snapshot",
    ]
    assert lab.kafka.replicas == {("t", 0): (1, 3), ("t", 1): (2, 1), ("u", 0): (4, 2)}


def test_a_rollback_that_is_interrupted_goes_on(build: Build) -> None:
    """Copies stay throttled; the same command ends it, and no wave begins meanwhile."""
    lab = build(rate_bytes_per_s=MB)
    lab.run()
    del lab.sizes["u", 0, 1]
    with pytest.raises(StillMoving, match="the rollback of wave 2 of 2: copies still run"):
        take_back(lab, 2, for_seconds=20)
    held = r"is held by the rollback of wave 2 of run 'r' .*: \./ballast cancel --cluster c"
    with pytest.raises(Refused, match=held):
        lab.process(1).throttle()
    take_back(lab, 2)
    assert lab.kafka.replicas["u", 0] == BEFORE["u", 0]
    assert events(lab, -2) == [*WAVE, "electing", "elected"]


def test_a_wave_waits_for_a_rollback_that_was_killed(build: Build) -> None:
    """The message has the command that goes on, and the one that ends it."""
    lab = build(rate_bytes_per_s=MB)
    lab.run()
    del lab.sizes["u", 0, 1]
    with pytest.raises(StillMoving):
        take_back(lab, for_seconds=20)
    going_on = "./ballast rollback --run-id r --cluster c --all --by ann"
    ends = f"To go on with it: {going_on}. To end that wave: ./ballast cancel --cluster c"
    with pytest.raises(Refused, match=f"{re.escape(ends)}$"):
        take_back(lab, 1)
    with pytest.raises(Refused, match=f"{re.escape(ends)}$"):
        lab.process(1).throttle()


def test_a_rollback_can_be_killed_at_every_call(build: Build) -> None:
    """The same command ends it: old lists, no throttles, and never a copy without them."""
    lab = build()
    lab.run()
    replicas, leaders, stored = dict(lab.kafka.replicas), dict(lab.kafka.leaders), list(lab.warehouse.stored)
    lab.kills.calls.clear()
    take_back(lab, 2)
    calls = len(lab.kills.calls)
    # Copies that are nearly done leave the lists of followers.
    needed = {key: value for key, value in rollback_of(lab.waves[1]).throttles.items() if key[2] != FOLLOWER_REPLICAS}
    for at in range(calls):
        for is_after in (False, True):
            lab.kafka.throttles, lab.kafka.replicas, lab.kafka.leaders = {}, dict(replicas), dict(leaders)
            lab.kafka.moves.clear()
            lab.warehouse.stored = list(stored)
            lab.kafka.needed = needed
            lab.kills.calls.clear()
            lab.kills.at, lab.kills.is_after = at, is_after
            lab.sizes.pop(("u", 0, 1), None)
            with pytest.raises(Killed):
                take_back(lab, 2)
            lab.kills.at = -1
            take_back(lab, 2)
            assert lab.kafka.replicas["u", 0] == BEFORE["u", 0], (at, is_after)
            assert (lab.kafka.throttles, lab.kafka.unthrottled) == ({}, []), (at, is_after)


def test_a_dry_run_says_what_would_go_back(build: Build) -> None:
    """It changes nothing."""
    lab = build()
    lab.run()
    lab.lines.clear()
    before = len(lab.warehouse.stored)
    say_rollback(lab.process(2), lab.waves, [1, 2])
    assert len(lab.warehouse.stored) == before
    moves = [line for line in lab.lines if line.startswith("would move")]
    assert moves == [
        "would move u-0 from [4, 5] to [4, 1]",
        "would move t-0 from [1, 3] to [1, 2]",
        "would move t-1 from [2, 3] to [2, 1]",
    ]
    assert lab.lines[-1] == "would elect the first replica of each old list"


def test_a_dry_run_counts_with_the_cancel(build: Build) -> None:
    """A running wave is cancelled first, and then has nothing to take back."""
    lab = build(rate_bytes_per_s=MB)
    with pytest.raises(StillMoving):
        lab.watch(for_seconds=30)
    lab.lines.clear()
    say_rollback(lab.process(1), lab.waves, [1])
    assert lab.lines == [
        "would cancel t-0, t-1",
        "the rollback of wave 1 of 2: 2 partitions, 2 done",
        "the rollback of wave 1 of 2: nothing to do",
        "would elect the first replica of each old list",
    ]
