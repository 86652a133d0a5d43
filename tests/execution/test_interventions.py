"""What others do while a wave is watched: end it, redirect, cancel, clear throttles. No copy runs without a limit."""

from dataclasses import replace

import pytest

from execution import journal
from execution.steps import Incomplete, StillMoving
from execution.wanted import STOP
from execution.watch import Stopped
from optimizer.kafka.throttle import FOLLOWER_RATE, FOLLOWER_REPLICAS
from stored.verdicts import Refused
from tests.execution import rows
from tests.execution.lab import AFTER, BEFORE, MB, Build

FIRST, SECOND = ("t", 0), ("t", 1)
FOLLOWERS = ("topics", "t", FOLLOWER_REPLICAS)
FOLLOWER = ("brokers", "3", FOLLOWER_RATE)


def test_a_wave_that_somebody_ends_is_left_alone(build: Build) -> None:
    """Its throttles are not set again, and nothing starts without them."""
    lab = build(cap=1)
    lab.events.append((5, lambda: lab.process().off(cancel=True, accept_owed=False)))
    with pytest.raises(Refused, match=r"^wave 1 of 2 does not hold the cluster any more: somebody has ended it$"):
        lab.run()
    assert (lab.kafka.throttles, lab.kafka.moves, lab.journal()[-1]) == ({}, {}, "ended")


def test_the_next_move_waits_for_removed_throttles(build: Build) -> None:
    """Somebody removes them all as a move ends: the next one starts only under new ones."""
    lab = build(cap=1)
    lab.kafka.needed = {FOLLOWER: lab.waves[0].throttles[FOLLOWER]}
    lab.events.append((9.9, lab.kafka.throttles.clear))
    lab.watch()
    assert lab.kafka.unthrottled == []
    assert lab.kafka.replicas[SECOND] == AFTER[SECOND]


def test_a_redirected_copy_keeps_its_throttles(build: Build) -> None:
    """It still gets the copy of the wave, in another order: the throttles are removed when it has it."""
    lab = build(rate_bytes_per_s=MB)
    lab.kafka.needed = {FOLLOWER: lab.waves[0].throttles[FOLLOWER]}

    def redirect() -> None:
        target, old = lab.kafka.moves[FIRST]
        lab.kafka.moves[FIRST] = (target[::-1], old)

    lab.events.append((5, redirect))
    with pytest.raises(Incomplete, match="1 partition was moved by somebody else: t-0"):
        lab.run(last=1)
    assert (lab.kafka.moves, lab.kafka.throttles) == ({}, {})
    seconds, throttles = lab.history[-1]
    assert (seconds >= 100, FOLLOWER in throttles) == (True, True)  # 100 MB at 1 MB/s


def test_entries_from_before_the_wave_stay_in_the_list(build: Build) -> None:
    """Also if they are those of its own copies."""
    before = {FOLLOWERS: "0:3"}
    lab = build(throttles_before=before)
    lab.waves = (replace(lab.waves[0], previous_throttles=before), lab.waves[1])
    lab.run(last=1)
    assert lab.kafka.throttles == before
    assert not [line for line in lab.lines if line.startswith("left: ")]


def test_a_cancelled_move_starts_again_whatever_its_order(build: Build) -> None:
    """Kafka leaves its old replicas in another order: the command ends with 3, the next one moves it."""
    lab = build(rate_bytes_per_s=MB)
    lab.events.append((5, lambda: lab.kafka.reassign({FIRST: None})))
    lab.events.append((6, lambda: lab.kafka.replicas.update({FIRST: BEFORE[FIRST][::-1]})))
    with pytest.raises(Refused, match="neither in flight nor done: t-0"):
        lab.run()
    assert "somebody cancelled moves: t-0" in lab.lines
    lab.run()
    assert lab.kafka.replicas == AFTER


def test_a_killed_cancel_is_finished_not_undone(build: Build) -> None:
    """The next command does not start the copies again."""
    lab = build(rate_bytes_per_s=MB)
    lab.start()
    rows.record(lab.warehouse, lab.plan, 1, journal.CANCELLING)
    with pytest.raises(Stopped, match="its cancel, which was killed, is finished"):
        lab.run()
    assert (lab.kafka.replicas, lab.kafka.throttles, lab.kafka.moves) == (BEFORE, {}, {})


def test_a_capped_wave_goes_on_after_a_copy_has_left_the_list(build: Build) -> None:
    """The copy ends while nobody watches: what waits is started under all throttles."""
    lab = build(cap=1)
    with pytest.raises(StillMoving):
        lab.run(for_seconds=8.0, last=1)
    assert lab.kafka.throttles[FOLLOWERS] == "1:3"
    lab.clock.sleep(20.0)
    lab.run(last=1)
    assert lab.kafka.replicas[SECOND] == AFTER[SECOND]
    assert lab.kafka.throttles == {}


@pytest.mark.parametrize("at_seconds", [1, 9.9])
def test_no_wave_starts_after_a_stop(build: Build, at_seconds: float) -> None:
    """However late it comes."""
    lab = build()
    lab.events.append((at_seconds, lambda: lab.want(ending=STOP)))
    with pytest.raises(Stopped):
        lab.run()
    assert lab.kafka.replicas == {**AFTER, ("u", 0): BEFORE["u", 0]}
    assert lab.kafka.throttles == {}


def test_a_paused_wave_is_not_ended(build: Build) -> None:
    """Its last copies end meanwhile: the next wave begins when it is resumed."""
    lab = build()
    lab.events.append((9.9, lambda: lab.want(is_paused=True)))
    lab.events.append((60, lambda: lab.want(is_paused=False)))
    lab.run()
    held = [row["number"] for row in lab.warehouse.stored if row["event"] == "held"]
    wanted = [row["number"] for row in lab.warehouse.stored if row["event"] == "wanted"]
    assert held[1] > wanted[1]
    assert lab.kafka.replicas == AFTER
