"""The commands that steer a running wave."""

import argparse
from dataclasses import replace
from typing import Any

import pytest

from execution import journal
from execution.held import held_wave
from execution.in_charge import Busy, lock_file
from execution.steer_command import BYTES_PER_MB, steer_wave, wanted_rate
from execution.wanted import Wanted
from optimizer import locks
from optimizer.errors import BallastError, ConfigError, StageError
from optimizer.kafka.throttle import FOLLOWER_RATE, LEADER_RATE
from stored.tables import Warehouse
from stored.verdicts import Refused
from tests.execution import rows
from tests.execution.lab import BEFORE, MB, RATE, Build, Lab
from tests.execution.scene import Scene

LEADER, FOLLOWER = ("brokers", "1", LEADER_RATE), ("brokers", "3", FOLLOWER_RATE)


@pytest.mark.parametrize(
    ("text", "rate"),
    [("80", 80 * MB), ("0.5", MB // 2), ("x0.5", 5 * MB), ("x2", 20 * MB), ("x1.25", 12_500_000), ("100", 100 * MB)],
)
def test_a_rate_is_mb_per_s_or_a_factor(text: str, rate: int) -> None:
    """The factor is one of the rate now."""
    assert wanted_rate(text, RATE, 100 * BYTES_PER_MB) == rate


@pytest.mark.parametrize("text", ["", "x", "-1", "0", "x0", "fast", "80 MB", "1e9", "nan", "2x", "0.0000001"])
def test_another_text_is_no_rate(text: str) -> None:
    """Nor is a rate below one byte per second."""
    with pytest.raises(
        ConfigError, match=r"^rate .*: give MB/s such as 80, or a factor of the rate now such as x0\.5$"
    ):
        wanted_rate(text, RATE, 0)


@pytest.mark.parametrize(("text", "rate"), [("101", "101 MB/s"), ("x10.1", "101 MB/s")])
def test_the_configuration_limits_the_rate(text: str, rate: str) -> None:
    """``max_throttle_mb_per_s``; 0 is no limit."""
    with pytest.raises(ConfigError) as refused:
        wanted_rate(text, RATE, 100 * BYTES_PER_MB)
    limit = "is above [execution] max_throttle_mb_per_s, 100 MB/s"
    assert str(refused.value) == f"rate {text!r}: {rate} {limit}"
    assert wanted_rate(text, RATE, 0) == 101 * MB


@pytest.mark.parametrize("text", ["1000001", "99999999999999", "x100001", "9" * 30])
def test_a_rate_that_no_configuration_may_have_is_refused(build: Build, text: str) -> None:
    """Before it is in the journal: else Kafka refuses each of its steps."""
    lab = build()
    lab.start()
    with pytest.raises(ConfigError, match=f"^rate '{text}': give at most 1000000 MB/s$"):
        steer(lab, "rate", text)
    assert wanted(lab) == []
    assert wanted_rate("1000000", RATE, 0) == 10**12


def steer(lab: Lab, command: str, rate: str = "", most_bytes_per_s: float = 0) -> list[str]:
    """Run a command; returns its lines."""
    lab.lines.clear()
    steer_wave(lab.process(), argparse.Namespace(command=command, rate=rate), most_bytes_per_s)
    return lab.lines


def wanted(lab: Lab) -> list[Any]:
    """What the journal has."""
    return [row["result"] for row in lab.warehouse.stored if row["event"] == "wanted"]


def test_without_a_process_a_command_is_applied(build: Build) -> None:
    """A rate rises in ten steps, three seconds apart; then another factor counts from the wanted rate."""
    lab = build(rate_bytes_per_s=0)
    lab.start()
    assert steer(lab, "rate", "20") == ["wave 1 of 2: the rates are as wanted"]
    assert lab.clock.slept == [3.0] * 10
    assert lab.values(LEADER) == lab.values(FOLLOWER) == [str(RATE + RATE * step // 10) for step in range(1, 11)]
    steer(lab, "rate", "x0.25")
    assert lab.clock.slept == [3.0] * 11
    assert lab.kafka.throttles[FOLLOWER] == str(5 * MB)
    assert wanted(lab) == [Wanted(20 * MB).to_json(), Wanted(5 * MB).to_json()]


def test_a_broker_that_has_come_back_owes_its_rate(build: Build) -> None:
    """It was dead when the wave began, so it had none; the command sets it without a living process."""
    lab = build()
    lab.start()
    rows.record_throttled(lab.warehouse, lab.plan, 1, {3})
    assert lab.process().never_set() == {3}
    steer(lab, "rate", "x0.5")
    assert lab.process().never_set() == set()


def test_a_pause_says_what_still_comes(build: Build) -> None:
    """Only followers stop; ``resume`` brings the wanted rate back."""
    lab = build(rate_bytes_per_s=0)
    lab.start()
    steer(lab, "rate", "20")
    assert steer(lab, "pause") == [
        "2 running copies may still get about 2.10 MB in each 11 seconds",
        "wave 1 of 2: the rates are as wanted",
    ]
    assert (lab.kafka.throttles[LEADER], lab.kafka.throttles[FOLLOWER]) == (str(20 * MB), "1")
    steer(lab, "resume")
    assert (lab.kafka.throttles[LEADER], lab.kafka.throttles[FOLLOWER]) == (str(20 * MB), str(20 * MB))
    assert wanted(lab)[1:] == [Wanted(20 * MB, is_paused=True).to_json(), Wanted(20 * MB).to_json()]


def test_what_waits_is_named_if_nobody_starts_it(build: Build) -> None:
    """After ``resume``: the command sets rates and starts nothing."""
    lab = build(rate_bytes_per_s=0, cap=1)
    lab.start()
    steer(lab, "pause")
    assert steer(lab, "resume")[-1] == (
        "wave 1 of 2: 1 partition waits, and no process executes the plan: ./ballast run --run-id r --cluster c goes on"
    )


@pytest.mark.parametrize("command", ["rate", "pause", "resume", "stop", "cancel"])
def test_a_living_process_applies_a_command(build: Build, command: str) -> None:
    """The command only writes the journal."""
    lab = build(rate_bytes_per_s=0)
    lab.start()
    lab.kills.calls.clear()
    with locks.exclusive_now(lock_file(lab.warehouse, f"run-{lab.plan.cluster_id}")) as is_held:
        assert is_held
        *_, line = steer(lab, command, "20")
    done_by = "the process that executes the plan applies it within seconds"
    assert line == f"wave 1 of 2: {command} is in the journal; {done_by}"
    assert [name for name, is_read in lab.kills.calls if not is_read] == ["append wanted"]
    assert len(wanted(lab)) == 1


@pytest.mark.parametrize("command", ["rate", "pause", "resume", "stop", "cancel"])
def test_nobody_knows_whether_a_process_of_another_host_applies_it(build: Build, command: str) -> None:
    """The process may be dead: exit code 4, with its name."""
    lab = build(rate_bytes_per_s=0)
    lab.start()
    rows.record_of_run(lab.warehouse, lab.plan, journal.RUNNING, "another host")
    with pytest.raises(
        Busy, match=r"it is in the journal for .*, which executes waves of cluster 'c' since .*--take-over"
    ):
        steer(lab, command, "20")
    assert len(wanted(lab)) == 1


def test_a_removed_rate_is_set_again(build: Build) -> None:
    """By a command without a process that executes: it does not say that all is well before."""
    lab = build(rate_bytes_per_s=0)
    lab.start()
    del lab.kafka.throttles[FOLLOWER]
    assert steer(lab, "rate", "20")[-1] == "wave 1 of 2: the rates are as wanted"
    assert lab.kafka.throttles[FOLLOWER] == str(20 * MB)


def test_a_rate_of_somebody_else_stays(build: Build) -> None:
    """And is named."""
    lab = build(rate_bytes_per_s=0)
    lab.start()
    lab.kafka.throttles[LEADER] = "77"
    lines = steer(lab, "rate", "20")
    assert lines[0] == f"left: brokers 1 {LEADER_RATE}=77 was set by somebody else and stays"
    assert lab.kafka.throttles[LEADER] == "77"
    assert lab.kafka.throttles[FOLLOWER] == str(20 * MB)


def test_a_rate_that_kafka_refuses_is_named(build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    """The journal has what is wanted, so the same command or ``run`` goes on."""
    lab = build(rate_bytes_per_s=0)
    lab.start()
    monkeypatch.setattr(lab.kafka, "alter", lambda changes: dict.fromkeys(changes, "no"))
    message = r"^some rates are not set, run the command again:(\n- brokers \d .*\.rate=5000000: no){3}$"
    with pytest.raises(BallastError, match=message):
        steer(lab, "rate", "5")
    assert wanted(lab) == [Wanted(5 * MB).to_json()]


def test_a_wave_that_copies_nothing_has_no_rate(build: Build) -> None:
    """The journal gets no wanted state."""
    lab = build(rate_bytes_per_s=0)
    lab.waves = (replace(lab.waves[0], copy_bytes_per_s=None), lab.waves[1])
    lab.start()
    with pytest.raises(Refused, match=r"^the wave copies nothing, so there is no rate to change$"):
        steer(lab, "rate", "20")
    assert wanted(lab) == []


def test_a_rate_above_the_limit_changes_nothing(build: Build) -> None:
    """Neither the journal nor the cluster."""
    lab = build()
    lab.start()
    with pytest.raises(ConfigError):
        steer(lab, "rate", "20", 15 * BYTES_PER_MB)
    assert wanted(lab) == []


def test_a_cancel_without_a_process_ends_the_wave(build: Build) -> None:
    """Also a wave whose rates were changed: nothing of it remains."""
    lab = build(rate_bytes_per_s=0)
    lab.start()
    steer(lab, "rate", "20")
    lines = steer(lab, "cancel")
    assert lines[0] == "cancelled: t-0, t-1"
    assert lines[-1] == "the throttles of wave 1 of 2 are removed, the cluster is free"
    assert (lab.kafka.replicas, lab.kafka.throttles) == (BEFORE, {})
    with pytest.raises(Refused, match=r"^wave 1 of run 'r' does not hold the cluster any more$"):
        steer(lab, "pause")


def test_a_stop_without_a_process_only_starts_nothing_more(build: Build) -> None:
    """Its copies and throttles stay; ``resume`` takes it back."""
    lab = build(rate_bytes_per_s=0)
    lab.start()
    assert steer(lab, "stop")[0] == "wave 1 of 2: no process executes the plan, so nothing more is started"
    assert len(lab.kafka.moves) == 2
    steer(lab, "resume")
    assert wanted(lab) == [Wanted(ending="stop").to_json(), Wanted().to_json()]


def test_without_a_wave_there_is_nothing_to_steer(scene: Scene) -> None:
    """Exit code 3; also after a release."""
    nothing = r"^no wave holds cluster 'c': there is nothing to steer; ./ballast show lists the runs$"
    with pytest.raises(Refused, match=nothing) as refused:
        held_wave(scene.warehouse, "c")
    assert refused.value.exit_code == 3
    scene.hold()
    rows.record(scene.warehouse, scene.step.plan, 1, journal.RELEASED)
    with pytest.raises(Refused, match=nothing):
        held_wave(scene.warehouse, "c")


def test_an_unknown_cluster_and_an_unknown_warehouse_are_named(scene: Scene) -> None:
    """Exit code 2, with the closest id: the wave may hold the cluster of another name, or be in another warehouse."""
    with pytest.raises(
        StageError, match=r" has no cluster 'cc' \(did you mean 'c'\?\); ./ballast show lists the runs$"
    ):
        held_wave(scene.warehouse, "cc")
    with pytest.raises(StageError, match=r"^there is no table verdicts in .*: give the warehouse .* --warehouse$"):
        held_wave(Warehouse(f"{scene.warehouse.path}/none"), "c")


def test_the_wave_that_holds_a_cluster_is_in_its_journal(scene: Scene) -> None:
    """With the rates that earlier commands have wanted: they count as its own."""
    scene.step.throttle()
    plan, wave, _ = held_wave(scene.warehouse, "c")
    assert (plan, wave.number) == (scene.step.plan, 1)
    assert (wave.after, wave.throttles) == (scene.wave.after, scene.wave.throttles)
    assert wave.copy_bytes_per_s == scene.wave.copy_bytes_per_s
    rows.record_wanted(scene.warehouse, plan, 1, Wanted(copy_bytes_per_s=100_000).to_json())
    _, wave, _ = held_wave(scene.warehouse, "c")
    assert set(wave.own_rates["brokers", "3", FOLLOWER_RATE]) == {"300000", "100000"}
