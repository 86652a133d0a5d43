"""A running wave that is watched, on a fake cluster that copies while a fake clock runs."""

import json
from dataclasses import replace
from itertools import pairwise

import pytest

from execution.actions import Patience
from execution.steps import StillMoving
from execution.wanted import CANCEL, STOP, Wanted, describe_wanted
from execution.watch import Stalled, Stopped, Watch
from optimizer.kafka.throttle import FOLLOWER_RATE, FOLLOWER_REPLICAS, LEADER_RATE
from stored.verdicts import Refused
from tests.execution.lab import AFTER, BEFORE, FIRST, MB, RATE, SIZE, Build

FOLLOWERS = ("topics", "t", FOLLOWER_REPLICAS)
LEADER, FOLLOWER = ("brokers", "1", LEADER_RATE), ("brokers", "3", FOLLOWER_RATE)
OTHERS = "9:9,9:8"  # a list of somebody else


def test_a_wave_is_watched_to_its_end(build: Build) -> None:
    """Every two seconds; a line a minute has the bytes left, the rate and the time left."""
    lab = build(rate_bytes_per_s=MB)
    lab.watch()
    assert lab.kafka.replicas == {**BEFORE, **{partition: AFTER[partition] for partition in (("t", 0), ("t", 1))}}
    assert set(lab.clock.slept) == {2.0}
    assert lab.lines[2:] == [
        "wave 1 of 2: 2 partitions, 2 in flight; 200 MB left to copy",
        "wave 1 of 2: 2 partitions, 2 in flight; 80.0 MB left to copy, 2.00 MB/s, about 1 min more",
    ]
    assert lab.journal() == ["held", "throttled", "starting", "executed", "copied"]
    measured = json.loads(lab.warehouse.stored[-1]["result"])
    assert measured.pop("measured_seconds") >= 0
    assert measured == {"predicted_seconds": 30, "predicted_bytes": 2 * SIZE, "copied_bytes": 2 * SIZE}


def test_the_line_names_copies_of_unknown_size(build: Build) -> None:
    """A target that does not answer: nobody knows how much is left, nor for how long."""
    lab = build(rate_bytes_per_s=MB)
    lab.kafka.mute = {3}
    lab.watch()
    assert (
        lab.lines[2:4]
        == [
            "wave 1 of 2: 2 partitions, 2 in flight; 0 B left to copy; sizes of 2 copies unknown",
        ]
        * 2
    )


def test_removed_throttles_are_set_again(build: Build) -> None:
    """With the last values of the wave's own; a rate that somebody has changed stays until somebody removes it."""
    lab = build()
    lab.events += [
        (1, lambda: lab.kafka.throttles.update({LEADER: "77"})),
        (3, lambda: [lab.kafka.throttles.pop(key) for key in (LEADER, FOLLOWER, FOLLOWERS)]),
    ]
    lab.watch()
    assert lab.values(LEADER) == [str(RATE), "77", str(RATE)]
    assert lab.kafka.throttles[FOLLOWER] == str(RATE)
    (line,) = [line for line in lab.lines if line.startswith("somebody removed")]
    assert line == f"somebody removed throttles, they are set again: brokers 1 {LEADER_RATE}={RATE} and 2 more"


@pytest.mark.parametrize(("before", "after"), [({}, None), ({FOLLOWERS: OTHERS}, OTHERS)])
def test_the_last_stretch_is_not_throttled(build: Build, before: dict[tuple[str, str, str], str], after: str) -> None:
    """A copy leaves the list of followers when twice its last gain is left, and is not restored."""
    lab = build(throttles_before=before)
    lab.waves = (replace(lab.waves[0], previous_throttles=before), lab.waves[1])
    lab.sizes["t", 1, 2] = 2 * SIZE
    lab.watch()
    own = [f"{OTHERS},0:3,1:3", f"{OTHERS},1:3", OTHERS] if before else ["0:3,1:3", "1:3", None]
    assert lab.values(FOLLOWERS) == own
    assert lab.values(FOLLOWERS)[-1] == after
    # 20 MB are copied between two looks: the copy is released with 40 MB left, and ends two looks later.
    released = next(seconds for seconds, throttles in lab.history if throttles.get(FOLLOWERS) == own[1])
    assert released == 8.0
    assert not [line for line in lab.lines if line.startswith("somebody removed")]


@pytest.mark.parametrize("small", [False, True], ids=["one of two", "all"])
def test_a_process_that_goes_on_in_the_last_stretch_throttles_no_copy_again(build: Build, small: bool) -> None:
    """The process before has released it, and nobody has removed anything."""
    lab = build()
    lab.sizes["t", 1, 2] = SIZE if small else 2 * SIZE
    with pytest.raises(StillMoving):
        lab.run(last=1, for_seconds=9)
    released = lab.kafka.throttles.get(FOLLOWERS)
    assert released == (None if small else "1:3")
    begun = lab.clock.seconds - lab.begun
    lab.run(last=1)
    values = [throttles.get(FOLLOWERS) for seconds, throttles in lab.history if seconds > begun]
    assert values[0] == released
    assert "0:3,1:3" not in values
    assert not [line for line in lab.lines if line.startswith("somebody removed")]


def test_a_process_that_goes_on_sets_throttles_again_that_somebody_removed(build: Build) -> None:
    """Much is left of the copies, so no process has released them."""
    lab = build(rate_bytes_per_s=MB)
    with pytest.raises(StillMoving):
        lab.run(last=1, for_seconds=9)
    del lab.kafka.throttles[FOLLOWERS]
    lab.run(last=1)
    [line] = [line for line in lab.lines if line.startswith("somebody removed")]
    assert line == f"somebody removed throttles, they are set again: topics t {FOLLOWER_REPLICAS}=0:3,1:3"


@pytest.mark.parametrize("is_removed", [False, True], ids=["released", "somebody removed the list"])
def test_the_next_run_starts_a_move_again_that_a_colleague_cancelled(build: Build, is_removed: bool) -> None:
    """Also if the other copy ends after the first look: at this look throttles are missing."""
    lab = build(rate_bytes_per_s=MB)
    lab.sizes["t", 1, 2] = 12 * MB
    lab.events.append((5, lambda: lab.kafka.reassign({("t", 0): None})))
    lab.events.append((5, lambda: lab.kafka.reassign({("t", 0): BEFORE["t", 0]})))
    with pytest.raises(Refused, match="neither in flight nor done: t-0"):
        lab.run(last=1)
    assert set(lab.kafka.moves) == {("t", 1)}
    if is_removed:
        del lab.kafka.throttles[LEADER]
        lab.sizes["t", 1, 3] = 11 * MB
    lab.run(last=1)
    assert {partition: lab.kafka.replicas[partition] for partition in FIRST} == {p: AFTER[p] for p in FIRST}


def test_a_slow_copy_is_released_when_2_mb_are_left(build: Build) -> None:
    """Twice its last gain is less."""
    lab = build(rate_bytes_per_s=MB // 4)
    lab.sizes["t", 0, 1] = lab.sizes["t", 1, 2] = 6 * MB
    lab.watch()
    released = next(seconds for seconds, throttles in lab.history if FOLLOWERS not in throttles)
    assert released == 18.0  # 4.0 MB are copied after 16 s: the next look releases it


def test_a_cancelled_move_ends_the_watch(build: Build) -> None:
    """After three looks: a move that has just ended may look like this. The other copies go on."""
    lab = build(rate_bytes_per_s=MB)
    lab.events.append((5, lambda: lab.kafka.reassign({("t", 0): None})))
    lab.events.append((6, lambda: lab.kafka.reassign({("t", 0): BEFORE["t", 0]})))
    remedy = r"\./ballast run --run-id r --cluster c goes on, \./ballast cancel --cluster c ends the wave"
    with pytest.raises(Refused, match=rf"^neither in flight nor done: t-0: {remedy}$"):
        Watch(replace(lab.start(), command="run"), Patience(900.0)).to_the_end()
    assert lab.lines[-1] == "somebody cancelled moves: t-0"
    assert lab.clock.seconds - lab.begun == 10.0
    assert set(lab.kafka.moves) == {("t", 1)}
    assert lab.kafka.throttles[FOLLOWER] == str(RATE)


def test_copies_that_do_not_get_on_end_the_watch(build: Build) -> None:
    """With exit code 5; the message has the copies and a rate, and the throttles stay."""
    lab = build(rate_bytes_per_s=MB, leader_bytes_per_s=MB)
    with pytest.raises(Stalled) as stalled:
        lab.watch(stall_seconds=60)
    assert stalled.value.exit_code == 5
    assert lab.clock.seconds - lab.begun == 60.0
    head, *lines = str(stalled.value).split("\n- ")
    assert head == "wave 1 of 2: no progress for 1 min, the throttles stay: 2 partitions, 2 in flight"
    gained = "100 MB left; in 1 min the copy gained 60.0 MB, its leader grew by 60.0 MB"
    assert lines[:2] == [f"t-{number} to broker 3: {gained}" for number in (0, 1)]
    assert lines[2].startswith("broker 3: 2.06 MB/s for these copies")
    assert lab.kafka.throttles[FOLLOWER] == str(RATE)


def test_the_watch_ends_in_time(build: Build) -> None:
    """With exit code 4, before its next look would be too late."""
    lab = build(rate_bytes_per_s=MB)
    with pytest.raises(StillMoving, match=r"^wave 1 of 2: copies still run under their throttles: t-0, t-1$") as ended:
        lab.watch(for_seconds=21)
    assert ended.value.exit_code == 4
    assert lab.clock.seconds - lab.begun == 20.0


def test_a_limited_wave_starts_what_has_room(build: Build) -> None:
    """One move after the other, in the order of the document."""
    lab = build(cap=1)
    lab.watch()
    moves = [name for name, _ in lab.kills.calls if name.startswith("move")]
    assert moves == ["move ('t', 0)", "move ('t', 1)"]
    assert lab.clock.seconds - lab.begun == 20.0
    assert lab.lines[1] == "wave 1 of 2 is started: 1 partition"


def test_a_paused_wave_starts_nothing_and_is_not_stalled(build: Build) -> None:
    """Followers copy nothing until it is resumed; then the rate rises in ten steps, three seconds apart."""
    lab = build(cap=1, rate_bytes_per_s=MB)
    lab.events += [(5, lambda: lab.want(is_paused=True)), (2000, lab.want)]
    lab.watch(stall_seconds=60)
    assert lab.kafka.replicas["t", 1] == AFTER["t", 1]
    steps = [str(1 + (RATE - 1) * step // 10) for step in range(1, 11)]
    assert lab.values(FOLLOWER) == [str(RATE), "1", *steps]
    assert lab.values(LEADER) == [str(RATE)]
    changed = [seconds for seconds, throttles in lab.history if throttles.get(FOLLOWER) in steps[:-1]]
    assert changed[0] > 2000
    assert [line for line in lab.lines if "wanted" in line] == [
        f"wave 1 of 2: wanted is now: {text}"
        for text in (describe_wanted(Wanted(is_paused=True)), "not held back; the plan's rate of copies")
    ]


@pytest.mark.parametrize("cap", [0, 1])
def test_a_wave_that_was_paused_before_its_start_begins_when_it_is_resumed(build: Build, cap: int) -> None:
    """With the checks and the events of the step execute."""
    lab = build(cap=cap)
    lab.process().throttle()
    lab.want(is_paused=True)
    lab.events.append((9, lab.want))
    lab.watch()
    assert {partition: lab.kafka.replicas[partition] for partition in FIRST} == {p: AFTER[p] for p in FIRST}
    assert lab.journal() == ["held", "throttled", "wanted", "wanted", "starting", "executed", "copied"]


def test_a_broker_that_does_not_answer_once_releases_no_copy(build: Build) -> None:
    """When it answers again its whole replica is no gain."""
    lab = build(rate_bytes_per_s=MB)

    def is_silent() -> None:
        lab.kafka.mute.add(3)
        lab.events.append((51, lab.kafka.mute.clear))

    lab.events.append((49, is_silent))
    lab.watch()
    released = next(seconds for seconds, throttles in lab.history if FOLLOWERS not in throttles)
    assert released > 95


def test_a_rate_rises_in_ten_steps_and_falls_at_once(build: Build) -> None:
    """At least three seconds are between two steps. A rate that somebody else has set stays."""
    lab = build(rate_bytes_per_s=MB)
    foreign = ("brokers", "2", LEADER_RATE)
    lab.events += [
        (1, lambda: lab.kafka.throttles.update({foreign: "5"})),
        (3, lambda: lab.want(copy_bytes_per_s=2 * RATE)),
        (60, lambda: lab.want(copy_bytes_per_s=RATE // 2)),
    ]
    lab.watch()
    steps = [str(RATE + RATE * step // 10) for step in range(1, 11)]
    assert lab.values(FOLLOWER) == lab.values(LEADER) == [str(RATE), *steps, str(RATE // 2)]
    first = {value: next(at for at, throttles in lab.history if throttles.get(LEADER) == value) for value in steps}
    times = list(first.values())
    assert all(later - earlier >= 3.0 for earlier, later in pairwise(times))
    assert lab.values(foreign) == [str(RATE), "5"]


def test_a_stopped_wave_ends_after_its_running_copies(build: Build) -> None:
    """Nothing more is started; then the throttles are removed and the cluster is free."""
    lab = build(cap=1)
    lab.events.append((3, lambda: lab.want(ending=STOP)))
    with pytest.raises(Stopped) as stopped:
        lab.watch()
    assert stopped.value.exit_code == 3
    state = "2 partitions, 1 not started, 1 done"
    assert str(stopped.value) == f"wave 1 of 2 was stopped: {state}; nothing more is started"
    assert lab.kafka.replicas["t", 0] == AFTER["t", 0]
    assert lab.kafka.replicas["t", 1] == BEFORE["t", 1]
    assert lab.kafka.throttles == {}
    assert lab.journal()[-1] == "released"


def test_a_stopped_wave_that_runs_again_starts_nothing(build: Build) -> None:
    """Also if nothing has started yet: the process was killed before."""
    lab = build()
    lab.process().throttle()
    lab.want(ending=STOP)
    with pytest.raises(Stopped, match=r"2 partitions, 2 not started; nothing more is started$"):
        lab.watch()
    assert lab.kafka.replicas == BEFORE
    assert lab.kafka.throttles == {}
    assert not [name for name, _ in lab.kills.calls if name.startswith("move")]


def test_a_cancelled_wave_is_undone(build: Build) -> None:
    """Moves in flight get their old lists back, and the cluster is free."""
    lab = build()
    lab.events.append((3, lambda: lab.want(ending=CANCEL)))
    with pytest.raises(Stopped, match=r"^wave 1 of 2 was cancelled$"):
        lab.watch()
    assert (lab.kafka.replicas, lab.kafka.moves, lab.kafka.throttles) == (BEFORE, {}, {})
    assert lab.journal()[-4:] == ["cancelling", "cancelled", "removing", "released"]
