"""A wave that is held back while the cluster is worse than at its begin, on a fake cluster with a fake clock."""

import argparse
import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from execution.actions import Patience
from execution.admin import NoController
from execution.observed import Stored
from execution.steer_command import steer_wave
from execution.steps import StillMoving
from execution.watch import Stalled, Stopped, Watch
from optimizer.kafka.throttle import FOLLOWER_RATE, LEADER_RATE, LEADER_REPLICAS
from stored.verdicts import Refused
from tests.execution.lab import AFTER, MB, RATE, Build, Lab

FOLLOWER, LEADER = ("brokers", "3", FOLLOWER_RATE), ("brokers", "1", LEADER_RATE)
LEADERS = ("topics", "t", LEADER_REPLICAS)
LAGGING = ("t", 0, 2)  # an old replica, which stays in sync while its partition moves
SLOW = "wave 1 of 2: nothing is started, and followers copy at half the rate, until the cluster is well again"
WELL = "wave 1 of 2 goes on: the cluster is as it was when the wave began"


def lags(lab: Lab, *, begin: float, end: float | None = None, replica: tuple[str, int, int] = LAGGING) -> None:
    """An old replica falls out of sync, and may come back."""
    lab.events.append((begin, lambda: lab.kafka.behind.add(replica)))
    if end is not None:
        lab.events.append((end, lambda: lab.kafka.behind.discard(replica)))


def since(lab: Lab, key: tuple[str, str, str], value: str | None) -> float:
    """When an entry first had this value."""
    return next(seconds for seconds, throttles in lab.history if throttles.get(key) == value)


def wanted(lab: Lab) -> list[str]:
    """The pressure in the journal."""
    return [json.loads(row["result"]).get("pressure", "") for row in lab.warehouse.stored if row["event"] == "wanted"]


def test_a_wave_is_slowed_down_until_the_cluster_is_well(build: Build) -> None:
    """Followers copy at half the rate, the partition leaves the list of leaders; after a quiet minute all returns, the
    rate in ten steps. Rates of leaders stay."""
    lab = build(rate_bytes_per_s=MB / 2)
    lags(lab, begin=5, end=31)
    own = lab.waves[0].throttles[LEADERS]
    lab.watch()
    assert {partition: lab.kafka.replicas[partition] for partition in AFTER if partition[0] == "t"} == {
        partition: brokers for partition, brokers in AFTER.items() if partition[0] == "t"
    }
    # Seen at 6 s, confirmed at 8 s; the change shows at the next look. Well at 32 s; quiet from 30 s on.
    assert since(lab, FOLLOWER, str(RATE // 2)) == 10.0
    assert "0:1" in own.split(",")
    lifted = ",".join(each for each in own.split(",") if not each.startswith("0:"))
    assert lab.values(LEADERS)[1] == lifted
    assert set((lab.values(LEADERS)[2] or "").split(",")) == set(own.split(","))
    rates = [int(value or 0) for value in lab.values(FOLLOWER)]
    assert rates == [RATE, RATE // 2, *(RATE // 2 + RATE // 2 * step // 10 for step in range(1, 11))]
    assert lab.values(LEADER) == [str(RATE)]
    assert since(lab, FOLLOWER, str(rates[2])) == 92.0
    assert wanted(lab) == ["slow", ""]
    said = [line for line in lab.lines if "worse" in line or "under-replicated" in line or line in (SLOW, WELL)]
    assert said == ["wave 1 of 2: 1 partition is under-replicated since the wave began: t-0", SLOW, WELL]
    assert not [line for line in lab.lines if line.startswith("somebody removed")]


def gone(lab: Lab) -> None:
    lab.kafka.dead.add(5)


def offline(lab: Lab) -> None:
    lab.kafka.leaders["u", 0] = None  # type: ignore[assignment]


def full(lab: Lab) -> None:
    lab.kafka.disks = replace(lab.kafka.disks, directories={(4, "/d"): (100, 9)})


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (gone, "broker 5 is not alive any more"),
        (offline, "1 partition is offline since the wave began: u-0"),
        (full, "/d of broker 4 is over its limit"),
    ],
)
def test_every_kind_of_pressure_starts_nothing(build: Build, change: Callable[[Lab], None], line: str) -> None:
    """Also of brokers and partitions that the wave does not touch; without progress the message has the reason."""
    lab = build(cap=1, rate_bytes_per_s=MB)
    lab.events.append((1, lambda: change(lab)))
    with pytest.raises(Stalled, match=f"held back: {line}"):
        watched(lab, stall_seconds=120)
    assert len(lab.kafka.moves) == 0
    assert [partition for partition in AFTER if lab.kafka.replicas[partition] == AFTER[partition]] == [("t", 0)]
    assert f"wave 1 of 2: {line}" in lab.lines


def watched(lab: Lab, *, stall_seconds: float = 900.0, on_pressure: str = "slow", accepts_risk: bool = False) -> None:
    """Start the first wave and watch it."""
    step = replace(lab.process(), disk_headroom=0.1, on_pressure=on_pressure, accepts_risk=accepts_risk)
    step.throttle()
    step.execute()
    Watch(step, Patience(stall_seconds)).to_the_end()


def test_what_was_wrong_before_is_no_pressure(build: Build) -> None:
    """It was accepted; the journal has it, so another process knows it too."""
    lab = build()
    lab.kafka.behind |= {LAGGING, ("t", 1, 2)}
    lab.kafka.dead.add(5)
    lab.kafka.disks = Stored(lab.sizes, lab.kafka.disks.usable_bytes, {(4, "/d"): (100, 9)})
    watched(lab, accepts_risk=True)
    assert wanted(lab) == []
    assert lab.kafka.moves == {}
    accepted = [line.removeprefix("accepted: ") for line in lab.lines if line.startswith("accepted: ")]
    assert accepted
    assert json.loads(lab.warehouse.stored[0]["result"])["accepted"] == accepted
    assert not [line for line in accepted if "--accept-under-replicated" in line], "the option was given"


def test_one_look_is_not_enough(build: Build) -> None:
    """Metadata and reassignments are two answers, and a move may end in between."""
    lab = build(rate_bytes_per_s=MB)
    lags(lab, begin=5, end=7)
    lab.watch()
    assert wanted(lab) == []


def test_a_wave_may_only_be_held_back(build: Build) -> None:
    """With ``hold`` rates and lists stay."""
    lab = build(rate_bytes_per_s=MB)
    lags(lab, begin=5)
    watched(lab, on_pressure="hold")
    assert wanted(lab) == ["hold"]
    assert lab.values(FOLLOWER) == [str(RATE)]
    assert lab.values(LEADERS) == [lab.waves[0].throttles[LEADERS]]


def test_a_wave_may_be_stopped(build: Build) -> None:
    """With ``stop`` it ends after the running copies, and the cluster is free."""
    lab = build(rate_bytes_per_s=10 * MB, cap=1)
    lags(lab, begin=5)
    with pytest.raises(Stopped, match=r"; nothing more is started, because .* since the wave began: "):
        watched(lab, on_pressure="stop")
    assert lab.kafka.replicas["t", 0] == AFTER["t", 0]
    assert lab.kafka.replicas["t", 1] != AFTER["t", 1]
    assert lab.kafka.throttles == {}


def test_the_quiet_time_doubles(build: Build) -> None:
    """So a broker that flaps does not fill the journal."""
    lab = build(rate_bytes_per_s=MB / 5)
    lags(lab, begin=5, end=9)
    lags(lab, begin=101, end=105)
    lab.watch()
    assert wanted(lab) == ["slow", "", "slow", ""]
    halves = [seconds for seconds, throttles in lab.history if throttles[FOLLOWER] == str(RATE // 2)]
    first, second = [s for s in halves if s < 101], [s for s in halves if s > 101]
    assert (first[0], first[-1]) == (10.0, 68.0)
    assert (second[0], second[-1]) == (106.0, 224.0)


def test_a_killed_run_goes_on_slowly(build: Build) -> None:
    """The journal has the reaction: another process keeps it, and ``off`` knows the halved rate as the wave's."""
    lab = build(rate_bytes_per_s=MB)
    lags(lab, begin=5)
    with pytest.raises(StillMoving):
        lab.watch(for_seconds=30)
    assert lab.kafka.throttles[FOLLOWER] == str(RATE // 2)
    lifted = lab.kafka.throttles[LEADERS]
    with pytest.raises(StillMoving):
        Watch(lab.process(), Patience(900, lab.clock.seconds + 10)).to_the_end()
    assert (lab.kafka.throttles[LEADERS], lab.values(LEADERS)[-1]) == (lifted, lifted)
    assert not [line for line in lab.lines if line.startswith("somebody removed")]
    lab.process().off(cancel=True, accept_owed=False)
    assert lab.kafka.throttles == {}
    assert not [line for line in lab.lines if line.startswith("left")]


def test_resume_takes_a_reaction_back(build: Build) -> None:
    """Without a living ``run`` nobody else would."""
    lab = build(rate_bytes_per_s=MB)
    lags(lab, begin=5)
    with pytest.raises(StillMoving):
        lab.watch(for_seconds=30)
    steer_wave(lab.process(), argparse.Namespace(command="resume", rate=""), 0)
    assert lab.kafka.throttles[FOLLOWER] == str(RATE)


def test_a_later_wave_waits_until_the_cluster_is_well(build: Build) -> None:
    """A broker that restarts between two waves ends no night; without an end the checks refuse the wave."""
    lab = build()
    lags(lab, begin=9, end=70, replica=("t", 1, 2))
    lab.run()
    assert {p: lab.kafka.replicas[p] for p in AFTER} == AFTER
    assert "wave 2 of 2 waits: 1 partition is under-replicated: t-1" in "".join(lab.lines)
    another = build()
    lags(another, begin=9, replica=("t", 1, 2))
    with pytest.raises(Refused, match="1 partition is under-replicated: t-1"):
        another.run(stall_seconds=100)


def test_waves_begin_if_the_plan_removes_what_is_out_of_sync(build: Build) -> None:
    """Broker 1 is out of sync in u-0, which the second wave moves from brokers 4 and 1 to 4 and 5."""
    lab = build()
    lab.kafka.behind.add(("u", 0, 1))
    lab.run()
    assert {p: lab.kafka.replicas[p] for p in AFTER} == AFTER
    assert "waits" not in "".join(lab.lines)


def test_a_rate_of_a_slowed_wave_is_halved_too(build: Build) -> None:
    """The operator's rate counts, at half until the cluster is well; a stop stays a stop."""
    lab = build(rate_bytes_per_s=MB / 2)
    lags(lab, begin=5, end=31)
    lab.events.append((15, lambda: steer_wave(lab.process(), argparse.Namespace(command="rate", rate="4"), 0)))
    lab.watch()
    rates = [int(value or 0) for value in lab.values(FOLLOWER)]
    assert rates[:3] == [RATE, RATE // 2, 2 * MB]
    assert rates[-1] == 4 * MB
    stopped = build(rate_bytes_per_s=MB, cap=1)
    stopped.events.append((5, lambda: stopped.want(ending="stop")))
    lags(stopped, begin=5)
    with pytest.raises(Stopped):
        stopped.watch()
    assert stopped.kafka.replicas["t", 1] != AFTER["t", 1]


def test_a_later_wave_waits_for_what_the_first_has_broken(build: Build) -> None:
    """Also if under-replicated partitions were accepted, and if a directory is over its limit."""
    lab = build()
    lab.events.append((9, lambda: full(lab)))
    lab.events.append((100, lambda: setattr(lab.kafka, "disks", replace(lab.kafka.disks, directories={}))))
    lab.run(disk_headroom=0.1)
    assert "wave 2 of 2 waits: /d of broker 4 is over its limit" in lab.lines
    assert lab.clock.seconds - lab.begun > 100


@pytest.mark.parametrize(("wanted", "value"), [({"is_paused": True}, "1"), ({"copy_bytes_per_s": 4 * MB}, str(2 * MB))])
def test_what_an_operator_wants_as_the_wave_reacts_counts(build: Build, wanted: dict[str, int], value: str) -> None:
    """Another terminal writes it between the look and the reaction: no rate is left that the wave would not remove."""
    lab = build(rate_bytes_per_s=MB / 2)
    lags(lab, begin=5, end=31)
    lines = lab.lines

    class Lines(list[str]):
        def append(self, line: str) -> None:
            super().append(line)
            if "under-replicated since" in line:
                lab.want(**wanted)

    lab.lines = Lines(lines)
    lab.events.append((60, lambda: lab.want()))
    lab.watch()
    assert lab.values(FOLLOWER)[1] == value
    assert not [line for line in lab.lines if line.startswith("left")]
    lab.process().off(cancel=False, accept_owed=False)
    assert lab.kafka.throttles == {}


def test_changes_that_fail_are_said_each_minute(build: Build) -> None:
    """The controller answers questions, but takes no change: the watch says so until it takes them."""
    lab = build(rate_bytes_per_s=MB / 4)
    take = lab.kafka.alter

    def refuse(*_: object) -> None:
        raise NoController("timeout")

    lab.events += [
        (10, lambda: lab.kafka.throttles.pop(FOLLOWER)),
        (10, lambda: setattr(lab.kafka, "alter", refuse)),
        (200, lambda: setattr(lab.kafka, "alter", take)),
    ]
    lab.watch()
    assert len([line for line in lab.lines if "timeout" in line]) == 4
    assert lab.kafka.throttles[FOLLOWER] == str(RATE)
