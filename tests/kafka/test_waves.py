"""Wave steps on a real cluster: nothing is copied without a throttle, nothing is executed twice, whatever dies."""

import re
import signal
import time
from collections.abc import Iterator
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
    Four,
    MakeLab,
    disturbed,
    labs,
    until,
)
from tests.pipeline.aged import age

pytestmark = [pytest.mark.kafka, pytest.mark.all_only]


@pytest.fixture
def lab(four: Four, tmp_path: Path) -> Iterator[MakeLab]:
    """Makes topics with an approved plan for each."""
    with labs(*four, tmp_path) as make:
        yield make


ONE = [{0: ([1, 2], [1, 3])}]


def test_an_old_run_is_approved_and_executed(lab: MakeLab) -> None:
    """After a year Delta no longer gives the rows by their version; they are read as they are."""
    old = lab("old", ONE, approved=False)
    age(Path(old.warehouse.path), days=400)
    assert "this plan is not approved" in old.step("preflight").err
    plan = load_plan(old.warehouse)
    approve(old.warehouse, plan, manifest_sha256=plan.manifest_sha256, by="ann")
    old.steps("preflight", "throttle", "execute", "wait", "off", "elect")
    assert (old.lists(), old.now().throttles) == ([(1, 3)], {})


def test_two_waves_from_the_first_look_to_the_last_throttle(lab: MakeLab) -> None:
    """In order, under throttles, once; at the end the lists are the plan's, and no throttle is left."""
    two = lab("two", [{0: ([1, 2], [1, 3])}, {1: ([2, 1], [4, 2])}], megabytes=30)
    assert "earlier waves are not done" not in two.step("preflight").err
    refused = two.step("preflight", 2)
    assert refused.code == 3
    assert "earlier waves are not done: 1 partition lacks its planned replicas: two-0" in refused.err
    assert two.step("execute").err == "error: wave 1 of 2 does not hold the cluster: run its step throttle first\n"
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
    assert (early.code, "leaders are elected when all waves are done: this is wave 1 of 2" in early.err) == (3, True)
    two.steps("preflight", "throttle", "execute", "wait", "off", wave=2)
    assert (two.lists(), two.now().throttles) == ([(1, 3), (4, 2)], {})
    two.steps("elect", "elect", wave=2)
    described = two.cluster.tool(TOPICS, "--describe", "--topic", two.topic)
    assert re.findall(r"Leader: (\d)", described) == ["1", "4"]
    rows = sorted(two.warehouse.rows("executions"), key=lambda row: int(row["number"]))
    of_wave = ["held", "throttled", "executed", "released"]
    assert [row["event"] for row in rows] == ["held", "throttled", "executed", "throttled", "released", *of_wave]


def test_nothing_is_copied_without_its_throttles(lab: MakeLab) -> None:
    """Where somebody took one off before the start, the wave is not started, and is when it is set again."""
    one = lab("bare", ONE)
    one.steps("throttle")
    rate = ("--entity-type", "brokers", "--entity-name", "3", "--delete-config", "follower.replication.throttled.rate")
    one.cluster.tool(CONFIGS, "--alter", *rate)
    refused = one.step("execute")
    assert refused.code == 3
    assert f"not set: brokers 3 follower.replication.throttled.rate={RATE}" in refused.err
    assert not one.now().in_flight
    one.steps("throttle", "execute")
    assert one.now().in_flight
    one.steps("wait", "off")


def test_a_dead_target_keeps_the_throttles_until_it_is_back(lab: MakeLab) -> None:
    """Its copies wait, nothing is taken off, and when it comes back it copies at its rate, and the wave ends."""
    one = lab("dead", ONE, megabytes=30)
    one.steps("throttle")
    one.steps("execute")
    until(lambda: one.copied_bytes(3) > 0)
    one.cluster.stop_broker(3, signal.SIGKILL)
    dying = one.step("wait", 1, "--once")
    assert (dying.code, "removed throttles" in dying.out) == (4, False)
    assert re.search("broker 3 (does not answer|is not alive)", dying.out)
    until(lambda: 3 not in one.now().alive)
    waiting = one.step("wait", 1, "--once")
    assert waiting.code == 4
    assert "broker 3 is not alive, copies wait for it" in waiting.out
    assert one.step("off").code == 4
    lists = {key: value for key, value in one.now().throttles.items() if key[0] == "topics"}
    assert len(lists) == 2
    begun_already = one.step("preflight")
    assert (begun_already.code, "broker 3 is not alive, copies wait for it" in begun_already.out) == (0, True)
    had, back = one.stored_bytes(3), time.monotonic()
    one.cluster.start_broker(3)
    until(lambda: 3 in one.now().alive)
    assert one.ahead_bytes(3, back, had) <= BACK_AHEAD_BYTES
    assert one.lists() == [(1, 3, 2)]
    one.steps("wait")
    assert one.ahead_bytes(3, back, had) <= BACK_AHEAD_BYTES
    one.cluster.stop_broker(3, signal.SIGKILL)
    until(lambda: 3 not in one.now().alive)
    left = one.step("off")
    assert (left.code, "owed: brokers 3 follower.replication.throttled.rate" in left.err) == (1, True)
    assert "wave 1 of run r holds the cluster" in one.step("status").out
    assert one.step("off", 1, "--accept-owed").code == 0
    assert "no wave holds the cluster" in one.step("status").out
    one.cluster.start_broker(3)
    one.steps("off")
    assert (one.lists(), one.now().throttles) == ([(1, 3)], {})


@pytest.mark.parametrize("release", sorted(TOOLS))
def test_a_wave_is_cancelled_back_to_its_lists(lab: MakeLab, release: str) -> None:
    """What is in flight ends where it was, in order; no throttle is left, and the cluster is free."""
    one = lab(f"cancelled-{release}", [{0: ([2, 1], [3, 4])}], megabytes=8, release=release)
    one.steps("throttle", "execute")
    assert one.now().in_flight
    ended = one.step("off", 1, "--on-failure", "cancel")
    assert ended.code == 0, ended
    assert (one.lists(), one.now().throttles, one.now().in_flight) == ([(2, 1)], {}, {})
    assert one.step("wait").code == 3
    assert "no wave holds the cluster" in one.step("status").out
    one.steps("preflight", "throttle", "execute", "wait", "off")
    assert one.lists() == [(3, 4)]


def test_a_killed_step_is_done_again(lab: MakeLab) -> None:
    """Killed while throttles are set, after the start, and while they are taken off: executed once, and never bare."""
    one = lab("killed", ONE, megabytes=6)

    def events() -> list[str]:
        return [row["event"] for row in one.warehouse.rows("executions")]

    one.killed("throttle", lambda: "held" in events())
    assert "throttled" not in events()
    begun = time.monotonic()
    one.steps("throttle")
    one.killed("execute", lambda: bool(one.now().in_flight))
    assert one.ahead_bytes(3, begun) <= AHEAD_BYTES
    one.steps("execute")
    one.killed("wait", lambda: one.copied_bytes(3) > 2 * 10**6)
    one.steps("wait")
    assert one.ahead_bytes(3, begun) <= AHEAD_BYTES
    one.killed("off", lambda: len(one.now().throttles) < 5)
    assert "released" not in events()
    one.steps("off")
    assert (one.lists(), one.now().throttles) == ([(1, 3)], {})


def test_what_others_do_is_in_the_way(lab: MakeLab) -> None:
    """A foreign move, a foreign throttle and a topic that was made anew are all told, and nothing is touched."""
    one = lab("disturbed", [{0: ([1, 2], [1, 3])}])
    with disturbed(one):
        refused = one.step("preflight")
        assert refused.code == 3
        assert "1 topic was deleted and created again since the snapshot: disturbed" in refused.err
        assert "1 other partition is being reassigned: foreign-0" in refused.err
        assert (
            "throttles were set by somebody else since the snapshot: brokers 4 leader.replication.throttled.rate=200000"
            in refused.err
        )
        assert one.step("throttle").code == 3
        assert one.warehouse.rows("executions") == []


def test_tools_that_are_not_there_are_named(lab: MakeLab, tmp_path: Path) -> None:
    """Beside all else that is in the way."""
    one = lab("tools", ONE, megabytes=1)
    refused = replace(one, tools=tmp_path / "none").step("preflight")
    assert refused.code == 3
    assert (
        f"kafka-configs.sh is not in {tmp_path / 'none'}: give the folder of Kafka's tools with --kafka-bin"
        in refused.err
    )
    assert "the limit is 24 h: plan again" in one.step("preflight", hours="24").err
