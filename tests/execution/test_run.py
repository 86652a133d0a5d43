"""All waves of a plan, one after the other."""

import json
import re
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from execution import journal, run
from execution.in_charge import Busy
from execution.rollback import say_rollback
from execution.run import dry_run
from execution.steps import Incomplete, Owed, StillMoving
from execution.wanted import CANCEL
from execution.watch import Stalled, Stopped
from optimizer.kafka.throttle import FOLLOWER_RATE, FOLLOWER_REPLICAS, LEADER_RATE
from stored.verdicts import Refused
from tests.execution import rows
from tests.execution.fake_kafka import Killed
from tests.execution.lab import AFTER, BEFORE, FIRST, LIMITS, MB, RATE, Build, Lab

WAVE = ["held", "throttled", "starting", "executed", "copied", "removing", "released"]
WHOLE = ["running", *WAVE, *WAVE, "electing", "elected", "ended"]
FOLLOWERS = ("topics", "t", FOLLOWER_REPLICAS)


def changes(lab: Lab) -> list[str]:
    """The calls that change the cluster."""
    return [name for name, is_read in lab.kills.calls if not is_read and not name.startswith("append")]


def test_waves_are_executed_in_order(build: Build) -> None:
    """Then leaders are elected; the times of each wave are said."""
    lab = build()
    lab.run()
    assert lab.kafka.replicas == AFTER
    assert lab.kafka.throttles == {}
    assert lab.journal() == WHOLE
    assert [name for name in changes(lab) if name[:4] in ("move", "elec")] == [
        *("move ('t', 0)", "move ('t', 1)", "move ('u', 0)")
    ]
    for number in (1, 2):
        at = lab.lines.index(f"wave {number} of 2 is copied: 25 s to 40 s predicted, 0 s measured")
        assert lab.lines[at + 1] == f"the throttles of wave {number} of 2 are removed, the cluster is free"
    assert lab.lines[-1] == "the first replica leads each partition of the plan (0 elected)"


def test_a_second_start_changes_no_measured_time(build: Build) -> None:
    """The journal and ``show`` have the same figure, from the first start."""
    lab = build()
    lab.start()
    lab.warehouse.stored[-1]["happened_at"] -= timedelta(seconds=100)
    for partition in FIRST:  # a colleague cancels the moves with Kafka's tool
        lab.kafka.reassign({partition: None})
        lab.kafka.reassign({partition: BEFORE[partition]})
    lab.process().execute()
    assert lab.journal() == ["held", "throttled", "starting", "executed", "starting", "executed"]
    lab.run(last=1)
    [row] = [row for row in lab.warehouse.stored if row["event"] == journal.COPIED]
    [seconds] = journal.copy_seconds(lab.warehouse.stored).values()
    assert json.loads(row["result"])["measured_seconds"] == pytest.approx(seconds, abs=1.0)
    assert seconds is not None
    assert seconds >= 100


def test_done_waves_are_skipped(build: Build) -> None:
    """A second run changes nothing."""
    lab = build()
    lab.run()
    lab.kills.calls.clear()
    lab.lines.clear()
    lab.run()
    assert changes(lab) == []
    assert lab.lines[:2] == ["wave 1 of 2: nothing to do", "wave 2 of 2: nothing to do"]
    assert lab.journal()[len(WHOLE) :] == ["running", "electing", "elected", "ended"]


def test_only_some_waves_are_executed(build: Build) -> None:
    """Leaders are elected after the last wave of the plan; a later wave needs the earlier ones."""
    lab = build()
    with pytest.raises(Refused, match="earlier waves are not done: 2 partitions lack their planned replicas: t-0, t-1"):
        lab.run(first=2)
    assert lab.kafka.replicas == BEFORE
    lab.run(last=1)
    assert lab.journal()[2:] == ["running", *WAVE, "ended"]
    lab.run(first=2)
    assert lab.kafka.replicas == AFTER
    assert lab.journal()[11:] == ["running", *WAVE, "electing", "elected", "ended"]


def moved(lab: Lab) -> None:
    lab.kafka.replicas["t", 0] = (1, 4)


def deleted(lab: Lab) -> None:
    for partition in (("t", 0), ("t", 1)):
        del lab.kafka.replicas[partition], lab.kafka.leaders[partition]


ELSEWHERE = "1 partition was moved by somebody else: t-0; t-0 has [1, 4], the plan expects [1, 2]"
GONE = "1 topic does not exist any more: t"


@pytest.mark.parametrize(("disturb", "line"), [(moved, ELSEWHERE), (deleted, GONE)])
@pytest.mark.parametrize("last", [1, 2])
def test_skipped_partitions_are_named_at_the_end(
    build: Build, disturb: Callable[[Lab], None], line: str, last: int
) -> None:
    """With exit code 6; the others are moved. With --strict nothing is."""
    lab = build()
    disturb(lab)
    before = dict(lab.kafka.replicas)
    with pytest.raises(Refused, match=r"; plan again$"):
        lab.run(is_strict=True, last=last)
    assert lab.kafka.replicas == before
    with pytest.raises(Incomplete) as incomplete:
        lab.run(last=last)
    assert incomplete.value.exit_code == 6
    assert str(incomplete.value) == f"the waves are done, except for:\n- {line}"
    others = {partition for partition in before if partition != ("t", 0) and (last == 2 or partition[0] == "t")}
    assert {p: lab.kafka.replicas[p] for p in others} == {p: AFTER[p] for p in others}
    assert lab.kafka.throttles == {}
    assert lab.journal().count("copied") == last - 1


def test_no_wave_begins_that_ends_too_late(build: Build) -> None:
    """By the plan's estimate; it ends with 4, and the next wave begins another night."""
    lab = build()
    lab.plan = replace(lab.plan, manifest={**lab.plan.manifest, "wave_seconds": {"1": 30, "2": 7200}})
    with pytest.raises(StillMoving, match=r"^wave 2 of 2 is not started: it takes about 2 h 00 min and would end at"):
        lab.run(until=datetime.now(tz=UTC) + timedelta(hours=1))
    assert lab.journal() == ["running", *WAVE, "ended"]
    lab.run(until=datetime.now(tz=UTC) + timedelta(hours=3))
    assert lab.kafka.replicas == AFTER


def approve_by_rules(lab: Lab, freeze: str) -> None:
    """Rules with a freeze approve the plan, and nobody else."""
    rules = json.dumps({"rules": {"freeze": [freeze], "time_zone": "UTC"}, "figures": {}})
    lab.warehouse.approvals[:] = [{**row, "rules": rules} for row in lab.warehouse.approvals]
    for row, seconds in zip(lab.warehouse.waves, (60, 4 * 3600), strict=True):
        row["most_seconds"] = seconds


def frozen_now(days: int = 2) -> str:
    """A freeze of so many days from today on."""
    today = datetime.now(tz=UTC)
    return f"{today:%Y-%m-%d}/{today + timedelta(days=days):%Y-%m-%d}"


def test_no_wave_of_the_rules_begins_in_their_freeze(build: Build) -> None:
    """By the upper end of its estimate; a wave of hours waits, one of a minute does not. When the time is over it ends
    with 4. A person's approval lets the wave begin, also while it waits."""
    lab = build()
    begin = (datetime.now(tz=UTC) + timedelta(hours=3)).replace(minute=0)
    freeze = f"{begin:%H:%M}/{begin + timedelta(hours=4):%H:%M}"
    approve_by_rules(lab, freeze)
    with pytest.raises(StillMoving, match=rf"^wave 2 of 2 is not started: it may copy from .* in the freeze {freeze} "):
        lab.run(for_seconds=200)
    assert lab.journal() == ["running", *WAVE, "ended"]
    waits = [line for line in lab.lines if line.startswith("wave 2 of 2 waits: it may copy from ")]
    assert len(waits) == 4  # a line a minute
    lab.events.append((lab.clock.seconds - lab.begun + 100, lambda: lab.approve(by="ann")))
    lab.run()
    assert lab.kafka.replicas == AFTER
    assert lab.journal().count("running") == 2


def test_a_wave_begins_when_the_freeze_is_over(build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the same process; --until ends the wait, too."""
    lab, noon = build(), datetime(2026, 11, 2, 12, tzinfo=UTC)
    clock = SimpleNamespace(now=lambda tz: noon.astimezone(tz) + timedelta(seconds=lab.clock.seconds - lab.begun))
    monkeypatch.setattr(run, "datetime", clock)
    approve_by_rules(lab, "11:00/12:10")
    with pytest.raises(StillMoving, match=r"^wave 1 of 2 is not started: it takes about 30 s and would end at"):
        lab.run(until=noon + timedelta(minutes=5))
    assert 260 < lab.clock.seconds - lab.begun < 290
    lab.run(last=1)
    assert 600 <= lab.clock.seconds - lab.begun < 640
    assert lab.journal() == ["running", "ended", "running", *WAVE, "ended"]


@pytest.mark.parametrize("is_starting", [False, True])
def test_a_wave_that_was_killed_before_its_copies_waits_in_a_freeze(build: Build, is_starting: bool) -> None:
    """It holds the cluster, and its throttles stay; nothing is copied. Its end by an operator ends the wait."""
    lab = build()
    lab.process().throttle()
    if is_starting:
        rows.record(lab.warehouse, lab.plan, 1, journal.STARTING)
    before = lab.journal()
    approve_by_rules(lab, frozen_now())
    with pytest.raises(StillMoving, match=r"^wave 1 of 2 is not started: it may copy from "):
        lab.run(for_seconds=100, last=1)
    assert (lab.kafka.replicas, lab.kafka.moves, lab.journal()) == (BEFORE, {}, [*before, "running", "ended"])
    lab.events.append((150, lambda: rows.record(lab.warehouse, lab.plan, 1, journal.RELEASED)))
    with pytest.raises(Refused, match="wave 1"):
        lab.run(for_seconds=1000, last=1)
    assert lab.kafka.replicas == BEFORE


def test_a_copy_that_was_started_goes_on_in_a_freeze(build: Build) -> None:
    """Else it would stay under its throttles for days."""
    lab = build()
    lab.start()
    approve_by_rules(lab, frozen_now())
    lab.run(last=1)
    assert {partition: lab.kafka.replicas[partition] for partition in FIRST} == {p: AFTER[p] for p in FIRST}


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (lambda lab: lab.approve(by="eve", is_revocation=True), Refused),
        (lambda lab: rows.record_of_run(lab.warehouse, lab.plan, journal.RUNNING, "b"), Busy),
    ],
)
def test_a_wait_in_a_freeze_ends_if_others_end_it(
    build: Build, change: Callable[[Lab], None], error: type[Exception]
) -> None:
    """By a revocation, or by a process that takes over: at once, and not when the freeze is over."""
    lab = build()
    approve_by_rules(lab, frozen_now())
    lab.events.append((50, lambda: change(lab)))
    with pytest.raises(error):
        lab.run(for_seconds=1000)
    assert lab.clock.seconds - lab.begun < 70
    assert lab.kafka.replicas == BEFORE


def test_the_end_of_a_wave_that_is_too_late_is_after_the_limit(build: Build) -> None:
    """Also in words, which have no seconds: not "at 19:11, after 19:11"."""
    lab = build()
    lab.plan = replace(lab.plan, manifest={**lab.plan.manifest, "wave_seconds": {"1": 1, "2": 1}})
    with pytest.raises(StillMoving) as late:
        lab.run(until=datetime.now(tz=UTC))
    end, limit = re.findall(r"\d{4}-\d\d-\d\d \d\d:\d\d UTC", str(late.value))
    assert end > limit


def test_a_wave_that_copies_nothing_has_no_throttles(build: Build) -> None:
    """So the output does not say that they are set or removed."""
    lab = build()
    lab.waves = (replace(lab.waves[0], after={("t", 0): (2, 1)}, before={("t", 0): (1, 2)}, throttles={}), lab.waves[1])
    lab.run(last=1)
    assert "wave 1 of 2 copies nothing, so it has no throttles" in lab.lines
    assert "wave 1 of 2 has ended, the cluster is free" in lab.lines
    assert not [line for line in lab.lines if line.startswith("the throttles")]


def test_a_wave_that_holds_the_cluster_goes_on_in_any_case(build: Build) -> None:
    """It may end late; else its throttles would stay all day."""
    lab = build()
    lab.start()
    lab.run(until=datetime.now(tz=UTC), last=1)
    assert "wave 1 of 2 goes on" in lab.lines
    assert lab.journal()[4:] == ["running", "copied", "removing", "released", "ended"]


def test_the_time_of_a_command_is_limited(build: Build) -> None:
    """The copies go on under their throttles, and the next command ends them; the same after a stall."""
    lab = build(rate_bytes_per_s=MB)
    with pytest.raises(StillMoving, match="wave 1 of 2: copies still run under their throttles: t-0, t-1"):
        lab.run(for_seconds=20.0)
    lab.leader_bytes_per_s = MB
    with pytest.raises(Stalled):
        lab.run(stall_seconds=30.0)
    assert lab.kafka.throttles[FOLLOWERS] == "0:3,1:3"
    lab.leader_bytes_per_s = 0
    lab.run()
    assert lab.kafka.replicas == AFTER
    assert lab.kafka.throttles == {}


def test_no_wave_begins_when_the_time_is_over(build: Build) -> None:
    """The first wave has ended in the last second of the command; the next command begins the second one."""
    lab = build()
    with pytest.raises(StillMoving, match=r"^wave 2 of 2 is not started: the time of this command is over$"):
        lab.run(for_seconds=11.0)
    assert lab.journal() == ["running", *WAVE, "ended"]
    lab.run(for_seconds=11.0)
    assert lab.kafka.replicas == AFTER


def expired(lab: Lab) -> Any:
    """The plan, after its time."""
    return replace(lab.plan, manifest={**lab.plan.manifest, "valid_until": "2026-11-02T00:00:00+00:00"})


def test_an_expired_plan_is_not_begun(build: Build) -> None:
    """One that has begun goes on."""
    lab = build()
    with pytest.raises(Refused, match="expired"):
        lab.run(plan=expired(lab))
    assert lab.kafka.replicas == BEFORE
    lab.run(last=1)
    lab.run(plan=expired(lab))
    assert lab.kafka.replicas == AFTER


def test_a_revoked_approval_ends_a_run_after_its_wave(build: Build) -> None:
    """The wave goes on to its end; the next one is not started, until the plan is approved again."""
    lab = build()
    lab.events.append((5, lambda: lab.approve(by="eve", is_revocation=True)))
    with pytest.raises(Refused, match=r"^eve revoked the approval of this plan at "):
        lab.run()
    assert lab.journal() == ["running", *WAVE, "ended"]
    assert lab.kafka.throttles == {}
    assert {partition: lab.kafka.replicas[partition] for partition in FIRST} == {p: AFTER[p] for p in FIRST}
    lab.approve(by="dan")
    lab.run()
    assert lab.kafka.replicas == AFTER


def test_a_wave_that_was_cancelled_is_executed_again(build: Build) -> None:
    """By the next run. Its times are not said: the second time it copies only the rest."""
    lab = build()
    lab.events.append((5, lambda: lab.want(ending=CANCEL)))
    with pytest.raises(Stopped):
        lab.run()
    assert (lab.kafka.replicas, lab.kafka.throttles) == (BEFORE, {})
    lab.run()
    assert lab.kafka.replicas == AFTER
    assert [line[:18] for line in lab.lines if "predicted" in line] == ["wave 2 of 2 is cop"]


def test_a_dry_run_says_each_change(build: Build) -> None:
    """And changes nothing, neither the cluster nor the journal; nothing is said of waves that are done."""
    lab = build()
    dry_run(lab.process(), lab.waves, LIMITS)
    assert (changes(lab), lab.journal()) == ([], [])
    first = [f"would set {' '.join(key)}={value}" for key, value in sorted(lab.waves[0].throttles.items())]
    assert lab.lines[0] == "wave 1 of 2: 2 partitions, 2 not started"
    assert sorted(lab.lines[1:6]) == first
    assert lab.lines[6:10] == [
        "would move t-0 from [1, 2] to [1, 3]",
        "would move t-1 from [2, 1] to [2, 3]",
        "would remove 5 throttles when the copies are done",
        "wave 2 of 2: 1 partition, 1 not started",
    ]
    assert lab.lines[-1] == "would elect the first replica of each planned list"
    lab.run(last=1)
    lab.lines.clear()
    dry_run(lab.process(), lab.waves, replace(LIMITS, last=1, first=1))
    assert lab.lines[:2] == ["wave 1 of 2: 2 partitions, 2 done", "wave 1 of 2: nothing to do"]
    assert not [line for line in lab.lines[:3] if line.startswith("would")]


def test_a_dry_run_says_problems_and_skips(build: Build) -> None:
    """It never refuses."""
    lab = build()
    moved(lab)
    lab.kafka.throttles["brokers", "1", "leader.replication.throttled.rate"] = "5"
    dry_run(lab.process(), lab.waves[:1], replace(LIMITS, last=1))
    assert f"skipped: {ELSEWHERE}" in lab.lines
    assert any(line.startswith("problem: 1 throttle was set by somebody else") for line in lab.lines)
    assert lab.lines[-1] == "would remove 5 throttles when the copies are done"


def test_a_dry_run_knows_the_plans_own_wave_that_runs(build: Build) -> None:
    """Its throttles, also at another rate, and its copies are no problem: they end before the next wave begins."""
    lab = build(rate_bytes_per_s=MB)
    lab.start()
    lab.want(copy_bytes_per_s=5 * MB)
    lab.kafka.throttles["brokers", "3", FOLLOWER_RATE] = str(5 * MB)
    dry_run(lab.process(), lab.waves, LIMITS)
    assert [line for line in lab.lines if line.startswith("problem")] == []
    second = lab.lines.index("wave 2 of 2: 1 partition, 1 not started")
    would = [f"would set {' '.join(key)}={value}" for key, value in sorted(lab.waves[1].throttles.items())]
    assert sorted(line for line in lab.lines[second:] if line.startswith("would set")) == would
    lab.lines.clear()
    say_rollback(lab.process(), lab.waves, [1])
    assert [line for line in lab.lines if line.startswith("problem")] == []


def test_a_dry_run_says_that_the_command_would_refuse(build: Build) -> None:
    """An expired plan, or a cluster that another wave holds, once; of a dead broker no throttle would be set."""
    lab = build()
    rows.record(lab.warehouse, replace(lab.plan, run_id="other"), 1, journal.HELD)
    lab.kafka.dead.add(3)
    dry_run(replace(lab.process(), plan=expired(lab)), lab.waves, LIMITS)
    problems = [line for line in lab.lines if line.startswith("problem: ")]
    assert len([line for line in problems if "is held by wave 1 of run 'other'" in line]) == 1
    assert len([line for line in problems if "expired at 2026-11-02 00:00 UTC" in line]) == 1
    assert not [line for line in lab.lines if line.startswith("would set brokers 3 ")]
    assert [line for line in lab.lines if line.startswith("would set brokers 1 ")]
    lab.lines.clear()
    say_rollback(lab.process(), lab.waves, [1])
    assert not [line for line in lab.lines if line.startswith("problem")], "nothing would be taken back"


@pytest.mark.parametrize("cap", [0, 1])
def test_a_process_that_was_replaced_changes_nothing(build: Build, cap: int) -> None:
    """It ends before its next start or release of a copy, and the throttles stay for the other one."""
    lab = build(cap=cap)
    lab.events.append((3, lambda: rows.record_of_run(lab.warehouse, lab.plan, journal.RUNNING, "b")))
    with pytest.raises(Busy, match="has taken over cluster 'c'"):
        lab.run()
    assert lab.kafka.replicas["t", 1] == (BEFORE["t", 1] if cap else (2, 3, 1))
    assert lab.journal()[-1] == "running"
    assert lab.kafka.throttles[FOLLOWERS] == "0:3,1:3"


def test_a_broker_that_keeps_its_rate_is_waited_for(build: Build) -> None:
    """It dies when the copies are nearly done, and comes back; without an end the command names its rate."""
    lab = build()
    lab.events += [(9, lambda: lab.kafka.dead.add(1)), (155, lab.kafka.dead.clear)]
    lab.run(last=1)
    assert len([line for line in lab.lines if line.startswith("owed")]) == 1
    waits = "wave 1 of 2 waits for brokers that do not answer, to remove their rates"
    assert lab.lines.count(waits) == 2  # a line a minute
    assert (lab.kafka.throttles, lab.journal()[-2:]) == ({}, ["released", "ended"])
    another = build()
    another.events.append((9, lambda: another.kafka.dead.add(1)))
    with pytest.raises(Owed, match=f"owed: brokers 1 {LEADER_RATE}: the broker does not answer"):
        another.run(last=1, stall_seconds=100)
    assert another.clock.seconds - another.begun < 130


DEAD_RATE = ("brokers", "4", LEADER_RATE)


def moves_away_from_4(build: Build) -> Lab:
    """The second wave moves its partition away from broker 4, which was alive at the snapshot and is dead now."""
    lab = build()
    lab.run(last=1)
    lab.kafka.dead.add(4)
    lab.kafka.leaders["u", 0] = 1
    assert DEAD_RATE in lab.waves[1].throttles
    lab.waves = lab.waves[0], replace(lab.waves[1], after={("u", 0): (1, 5)})
    return lab


def test_a_rate_that_was_never_set_is_not_waited_for(build: Build) -> None:
    """The broker was dead when the wave began: the wave ends at once, and so does one after a kill."""
    lab = moves_away_from_4(build)
    lab.run(accepts_risk=True)
    assert "throttles of dead brokers and deleted topics are not set: brokers 4" in lab.lines
    assert not [line for line in lab.lines if "owed" in line]
    assert lab.journal()[-4:] == ["released", "electing", "elected", "ended"]
    [row] = [row for row in lab.warehouse.stored if row["event"] == journal.THROTTLED and row["wave"] == 2]
    assert json.loads(row["result"]) == {"never_set": [4]}


def test_a_rate_that_was_set_later_is_owed(build: Build) -> None:
    """The broker has come back while the wave ran, so it got its rate, and died again."""
    lab = moves_away_from_4(build)
    at = lab.clock.seconds - lab.begun
    lab.events += [(at + 3, lab.kafka.dead.clear), (at + 7, lambda: lab.kafka.dead.add(4))]
    command = "./ballast wave off --run-id r --cluster c --wave 2 --accept-owed"
    when = f"when the brokers are back; if they never come back: {command}"
    message = re.escape(f"{when}\n- owed: brokers 4 {LEADER_RATE}:")
    with pytest.raises(Owed, match=message):
        lab.run(accepts_risk=True, stall_seconds=60)
    assert lab.kafka.throttles[DEAD_RATE] == str(RATE)
    results = [row["result"] for row in lab.warehouse.stored if row["event"] == journal.THROTTLED and row["wave"] == 2]
    assert results == ['{"never_set": [4]}', None]


@pytest.mark.parametrize("result", [None, '{"never_set": [4]}'])
def test_a_rate_of_a_dead_broker_is_owed_unless_it_was_never_set(build: Build, result: str | None) -> None:
    """The row ``throttled`` names the brokers whose rates were never set."""
    lab = moves_away_from_4(build)
    step = replace(lab.process(2), accepts_risk=True)
    step.throttle()
    lab.warehouse.stored[-1]["result"] = result
    step = lab.process(2)
    with pytest.raises(Owed) if result is None else nullcontext():
        step.off(cancel=False, accept_owed=False)


def test_a_step_that_goes_on_does_not_know_what_a_killed_one_has_set(build: Build) -> None:
    """It was killed before its row ``throttled``; then a broker died that may have its rate."""
    whole = moves_away_from_4(build)
    whole.kills.calls.clear()
    replace(whole.process(2), accepts_risk=True).throttle()
    lab = moves_away_from_4(build)
    lab.kafka.dead.clear()
    lab.kills.calls.clear()
    lab.kills.at = [name for name, _ in whole.kills.calls].index("append throttled")
    step = replace(lab.process(2), accepts_risk=True)
    with pytest.raises(Killed):
        step.throttle()
    lab.kills.at = -1
    lab.kafka.dead.add(4)
    step.throttle()
    with pytest.raises(Owed):
        step.off(cancel=False, accept_owed=False)
