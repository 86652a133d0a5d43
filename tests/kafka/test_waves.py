"""Wave steps on a real cluster: no copy without throttles, no wave executed twice, whatever dies."""

import re
import signal
import time
from dataclasses import replace
from pathlib import Path

import pytest

from execution.approve import approve
from tests.execution.warehouse import load_plan
from tests.kafka.lab import (
    AHEAD_BYTES,
    BACK_AHEAD_BYTES,
    CONFIGS,
    RATE,
    TOOLS,
    TOPICS,
    MakeLab,
    disturbed,
    until,
)
from tests.pipeline.aged import age

pytestmark = [pytest.mark.kafka, pytest.mark.all_only]


ONE = [{0: ([1, 2], [1, 3])}]


def test_an_old_run_is_approved_and_executed(make_lab: MakeLab) -> None:
    """After a year Delta cannot read old versions any more; the current rows are read."""
    old = make_lab("old", ONE, approved=False)
    age(Path(old.warehouse.path), days=400)
    assert "this plan is not approved" in old.step("preflight").err
    plan = load_plan(old.warehouse)
    approve(old.warehouse, plan, manifest_sha256=plan.manifest_sha256, by="ann", max_hours=1e9)
    old.steps("preflight", "throttle", "execute", "wait", "off", "elect")
    assert (old.lists(), old.now().throttles) == ([(1, 3)], {})


def test_two_waves_from_preflight_to_the_election(make_lab: MakeLab) -> None:
    """In order, with throttles, once; at the end the lists are those of the plan, without throttles."""
    two = make_lab("two", [{0: ([1, 2], [1, 3])}, {1: ([2, 1], [4, 2])}], megabytes=30)
    assert "earlier waves are not done" not in two.step("preflight").err
    refused = two.step("preflight", 2)
    assert refused.code == 3
    assert "earlier waves are not done: 1 partition lacks its planned replicas: two-0" in refused.err
    assert two.step("execute").err == "error: wave 1 does not hold the cluster: run its step throttle first\n"
    two.steps("preflight", "throttle", "throttle")
    assert "cluster 'c' is held by wave 1 of run 'r'" in two.step("throttle", 2).err
    begun = time.monotonic()
    two.steps("execute", "execute", "throttle", "preflight")
    assert two.ahead_bytes(3, begun) <= AHEAD_BYTES
    moving = two.step("off")
    assert (moving.code, moving.err) == (4, "error: wave 1 of 2: copies still run, so the throttles stay: two-0\n")
    assert two.step("wait", 1, "--once").code == 4
    assert "1 in flight" in two.step("status").out
    assert len(two.now().throttles) == 5
    two.steps("wait", "off", "off")
    assert two.ahead_bytes(3, begun) <= AHEAD_BYTES
    assert (two.lists(), two.now().throttles) == ([(1, 3), (2, 1)], {})
    early = two.step("elect")
    words = "leaders are elected when all waves between brokers are done: this is wave 1 of 2"
    assert (early.code, words in early.err) == (3, True)
    two.steps("preflight", "throttle", "execute", "wait", "off", wave=2)
    assert (two.lists(), two.now().throttles) == ([(1, 3), (4, 2)], {})
    two.steps("elect", "elect", wave=2)
    described = two.cluster.tool(TOPICS, "--describe", "--topic", two.topic)
    assert re.findall(r"Leader: (\d)", described) == ["1", "4"]
    rows = sorted(two.warehouse.rows("executions"), key=lambda row: int(row["number"]))
    started, ended = ["held", "throttled", "starting", "executed"], ["copied", "removing", "released"]
    elected = ["electing", "elected"]
    assert [row["event"] for row in rows] == [*started, "throttled", *ended, *started, *ended, *elected, *elected]


def test_nothing_is_copied_without_its_throttles(make_lab: MakeLab) -> None:
    """If somebody removed a throttle before the start, the wave starts only after it is set again."""
    lab = make_lab("bare", ONE)
    lab.steps("throttle")
    rate = ("--entity-type", "brokers", "--entity-name", "3", "--delete-config", "follower.replication.throttled.rate")
    lab.cluster.tool(CONFIGS, "--alter", *rate)
    refused = lab.step("execute")
    assert refused.code == 3
    assert f"not set: brokers 3 follower.replication.throttled.rate={RATE}" in refused.err
    assert not lab.now().in_flight
    lab.steps("throttle", "execute")
    assert lab.now().in_flight
    lab.steps("wait", "off")


def test_a_dead_target_keeps_the_throttles_until_it_is_back(make_lab: MakeLab) -> None:
    """Its copies wait and the throttles stay. When it is back it copies at its rate, and the wave ends."""
    lab = make_lab("dead", ONE, megabytes=30)
    lab.steps("throttle")
    lab.steps("execute")
    until(lambda: lab.copied_bytes(3) > 0)
    lab.cluster.stop_broker(3, signal.SIGKILL)
    dying = lab.step("wait", 1, "--once")
    assert (dying.code, "removed throttles" in dying.out) == (4, False)
    assert re.search("broker 3 (does not answer|is not alive)", dying.out)
    until(lambda: 3 not in lab.now().alive)
    waiting = lab.step("wait", 1, "--once")
    assert waiting.code == 4
    assert "broker 3 is not alive, copies wait for it" in waiting.out
    assert lab.step("off").code == 4
    lists = {key: value for key, value in lab.now().throttles.items() if key[0] == "topics"}
    assert len(lists) == 2
    begun_already = lab.step("preflight")
    assert (begun_already.code, "broker 3 is not alive, copies wait for it" in begun_already.out) == (0, True)
    stored_before, back = lab.stored_bytes(3), time.monotonic()
    lab.cluster.start_broker(3)
    until(lambda: 3 in lab.now().alive)
    assert lab.ahead_bytes(3, back, stored_before) <= BACK_AHEAD_BYTES
    assert lab.lists() == [(1, 3, 2)]
    lab.steps("wait")
    assert lab.ahead_bytes(3, back, stored_before) <= BACK_AHEAD_BYTES
    lab.cluster.stop_broker(3, signal.SIGKILL)
    until(lambda: 3 not in lab.now().alive)
    off = lab.step("off")
    assert (off.code, "owed: brokers 3 follower.replication.throttled.rate" in off.err) == (4, True)
    assert "wave 1 of run r holds the cluster" in lab.step("status").out
    assert lab.step("off", 1, "--accept-owed").code == 0
    assert "no wave holds the cluster" in lab.step("status").out
    lab.cluster.start_broker(3)
    lab.steps("off")
    assert (lab.lists(), lab.now().throttles) == ([(1, 3)], {})


@pytest.mark.parametrize("release", sorted(TOOLS))
def test_a_cancelled_wave_gets_its_old_lists(make_lab: MakeLab, release: str) -> None:
    """Partitions in flight get their old lists in order; no throttle remains, and the cluster is free."""
    lab = make_lab(f"cancelled-{release}", [{0: ([2, 1], [3, 4])}], megabytes=8, release=release)
    lab.steps("throttle", "execute")
    assert lab.now().in_flight
    ended = lab.step("off", 1, "--on-failure", "cancel")
    assert ended.code == 0, ended
    assert (lab.lists(), lab.now().throttles, lab.now().in_flight) == ([(2, 1)], {}, {})
    assert lab.step("wait").code == 3
    assert "no wave holds the cluster" in lab.step("status").out
    lab.steps("preflight", "throttle", "execute", "wait", "off")
    assert lab.lists() == [(3, 4)]


def test_a_killed_step_can_run_again(make_lab: MakeLab) -> None:
    """Killed as it sets throttles, after the start, and as it removes them: executed once, with throttles.

    A step may have ended before the kill; ``tests/execution/test_kills.py`` kills at every call.
    """
    lab = make_lab("killed", ONE, megabytes=6)

    def events() -> list[str]:
        return [row["event"] for row in lab.warehouse.rows("executions")]

    lab.killed("throttle", lambda: "held" in events())
    begun = time.monotonic()
    lab.steps("throttle")
    lab.killed("execute", lambda: bool(lab.now().in_flight))
    assert lab.ahead_bytes(3, begun) <= AHEAD_BYTES
    lab.steps("execute")
    lab.killed("wait", lambda: lab.copied_bytes(3) > 2 * 10**6)
    lab.steps("wait")
    assert lab.ahead_bytes(3, begun) <= AHEAD_BYTES
    lab.killed("off", lambda: "removing" in events())
    lab.steps("off")
    assert (lab.lists(), lab.now().throttles) == ([(1, 3)], {})


def test_changes_by_others_are_in_the_way(make_lab: MakeLab) -> None:
    """A foreign move, a foreign throttle and a recreated topic are all reported, and nothing is changed."""
    lab = make_lab("disturbed", [{0: ([1, 2], [1, 3])}])
    with disturbed(lab):
        refused = lab.step("preflight", 1, "--strict")
        assert refused.code == 3
        assert "1 topic was deleted and created again since the snapshot: disturbed" in refused.err
        assert "1 other partition is being reassigned: foreign-0" in refused.err
        assert (
            "throttles were set by somebody else since the snapshot: brokers 4 leader.replication.throttled.rate=200000"
            in refused.err
        )
        assert lab.step("throttle").code == 3
        assert lab.warehouse.rows("executions") == []


def test_missing_tools_are_reported(make_lab: MakeLab, tmp_path: Path) -> None:
    """Together with all other problems."""
    lab = make_lab("tools", ONE, megabytes=1)
    refused = replace(lab, tools=tmp_path / "none").step("preflight")
    assert refused.code == 3
    assert (
        f"kafka-reassign-partitions.sh is not in {tmp_path / 'none'}: give the folder of Kafka's tools with --kafka-bin"
        in refused.err
    )
    assert "the limit is 24 h: plan again" in lab.step("preflight", hours="24").err
