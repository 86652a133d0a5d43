"""Throttle scripts against stand-ins of Kafka's tools: what is set, taken off, put back, owed and refused."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from optimizer.emit.cluster_plan import ClusterPlan
from optimizer.emit.kafka_files import kafka_documents
from optimizer.emit.rows import EarlierThrottleRow
from optimizer.emit.throttle_files import throttle_documents
from optimizer.kafka.throttle import (
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    LEADER_REPLICAS,
    LOG_DIR_RATE,
    ConfigEntry,
    config_entries,
    tool_throttles,
)
from setup.paths import HOME
from tests.emit.throttled import CAREFUL, CHANGES, EARLIER, RATE, over, throttled_plan

SECRET = {"ssl.keystore.password": "x"}


class Fake:
    """A cluster in a file, the documents of a plan, and replacements of Kafka's tools."""

    def __init__(self, home: Path, plan: ClusterPlan | None = None) -> None:
        self.home = home
        plan = plan or throttled_plan()
        for document in (*kafka_documents(plan), *throttle_documents(plan)):
            path = home / document.path
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(document.content)
        program = f"#!{sys.executable}\n" + (HOME / "tests" / "emit" / "fake_kafka.py").read_text()
        for name in ("kafka-configs.sh", "kafka-reassign-partitions.sh"):
            (home / name).write_text(program)
            (home / name).chmod(0o755)
        topics: dict[str, dict[str, str]] = {"stays": {"retention.ms": "1"}, "goes": {}, "other": {}}
        self.state: dict[str, Any] = {
            "topics": topics, "brokers": {str(b): {} for b in (1, 2, 3, 4)}, "running": [], "calls": [],
        }  # fmt: skip
        for kind, name, config, value in EARLIER:
            self.state[kind][name][config] = value

    def set(self, entries: Iterable[ConfigEntry]) -> None:
        """Set some configs."""
        for kind, name, config, value in entries:
            self.state[kind][name][config] = value

    def run(self, script: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run a script of the wave."""
        path = self.home / "cluster.json"
        path.write_text(json.dumps(self.state))
        known = {"PATH": os.environ["PATH"], "BOOTSTRAP": "h:1", "KAFKA_CONFIGS": str(self.home / "kafka-configs.sh")}
        command = ["sh", str(self.home / "c" / "wave-01" / script)]
        result = subprocess.run(
            command, env={**known, **environment}, capture_output=True, text=True, timeout=60, check=False
        )
        self.state = json.loads(path.read_text())
        return result

    @property
    def throttles(self) -> frozenset[ConfigEntry]:
        """What is set on what is there."""
        return frozenset(
            (kind, name, config, value)
            for kind in ("topics", "brokers")
            for name, configs in self.state[kind].items()
            for config, value in configs.items()
            if ".throttled." in config or config == LOG_DIR_RATE
        )


@pytest.fixture
def fake(tmp_path: Path) -> Fake:
    """A cluster with what an operator has set."""
    return Fake(tmp_path)


@pytest.mark.parametrize("style", ["careful", "kafka"])
def test_what_was_set_before_is_put_back(fake: Fake, style: str) -> None:
    """Set twice and taken off twice, each form leaves what an operator had set: lists, ``*`` and rates."""
    for _ in range(2):
        result = fake.run(f"throttle-{style}.sh")
        assert result.returncode == 0, result.stderr
    if style == "careful":
        assert fake.throttles == over(EARLIER, CAREFUL)
    for _ in range(2):
        result = fake.run(f"unthrottle-{style}.sh")
        assert (result.returncode, result.stderr) == (0, "")
        assert fake.throttles == EARLIER
    assert fake.state["topics"]["stays"]["retention.ms"] == "1"


def test_calls_are_as_many_as_the_script_says(fake: Fake) -> None:
    """The throttle script calls the tool once for each topic and broker; the other one thrice where nothing is left."""
    text = (fake.home / "c/wave-01/throttle-careful.sh").read_text()
    fake.run("throttle-careful.sh")
    assert f"It calls kafka-configs.sh {len(fake.state['calls'])} times." in text
    fake.run("unthrottle-careful.sh")
    fake.state["calls"] = []
    fake.run("unthrottle-careful.sh")
    assert [re.findall(r"--(list|describe|verify|alter)", call) for call in fake.state["calls"]] == [
        ["list"],
        ["describe"],
        ["describe"],
    ]


@pytest.mark.parametrize("partition", ["stays-1", "an-other-0"])
def test_no_throttle_comes_off_over_a_running_copy(fake: Fake, partition: str) -> None:
    """While anything is reassigned it is named, nothing is touched, and the exit code is 4; FORCE=1 goes on."""
    fake.set(CAREFUL)
    fake.state["running"] = [partition]
    before = fake.throttles
    result = fake.run("unthrottle-careful.sh")
    assert result.returncode == 4
    whose = "of" if partition == "stays-1" else "not of"
    assert f"still being reassigned, {whose} wave 1: {partition}\n" in result.stderr
    assert fake.throttles == before
    assert fake.run("unthrottle-careful.sh", FORCE="1").returncode == 0
    assert fake.throttles == EARLIER


def test_without_an_answer_nothing_is_touched(fake: Fake) -> None:
    """If the script can't find out whether copies run, it ends with 1 and the reason."""
    fake.set(CAREFUL)
    result = fake.run("unthrottle-careful.sh", KAFKA_REASSIGN="no-such-tool")
    assert result.returncode == 1
    assert "can't read whether copies still run, so nothing was changed" in result.stderr
    assert fake.throttles == over(EARLIER, CAREFUL)


def test_a_deleted_topic_is_no_obstacle(fake: Fake) -> None:
    """A topic that is gone, and lists and rates that are gone, need nothing."""
    fake.set(CAREFUL)
    del fake.state["topics"]["goes"]
    del fake.state["brokers"]["3"][FOLLOWER_RATE]
    result = fake.run("unthrottle-careful.sh")
    assert result.returncode == 0, result.stderr
    assert fake.throttles == EARLIER


def test_a_folder_that_was_put_aside_is_enough(fake: Fake) -> None:
    """Without the reassignment file next to it the script does the same step by step, and reports nothing about it."""
    (fake.home / "c/wave-01/reassignment.json").unlink()
    fake.set(CAREFUL)
    fake.state["running"] = ["stays-1"]
    refused = fake.run("unthrottle-careful.sh")
    assert (refused.returncode, refused.stderr.count("still being reassigned")) == (4, 1)
    assert len(refused.stderr.splitlines()) == 2
    fake.state["running"] = []
    result = fake.run("unthrottle-careful.sh")
    assert (result.returncode, result.stderr) == (0, "")
    assert fake.throttles == EARLIER


def test_the_rate_of_a_dead_broker_is_owed(fake: Fake) -> None:
    """All else is taken off, the rate of the broker that does not answer is named, and no --verify waits for it; the
    exit code is 5, but 1 where more is left."""
    fake.set(CAREFUL)
    rates = fake.state["brokers"].pop("4")
    fake.state["brokers"]["3"] |= SECRET
    assert fake.run("unthrottle-careful.sh").returncode == 1
    del fake.state["brokers"]["3"]["ssl.keystore.password"]
    for _ in range(2):
        result = fake.run("unthrottle-careful.sh")
        assert result.returncode == 5
        assert result.stderr.startswith(f"owed: brokers 4 {FOLLOWER_RATE}: ")
        assert len(result.stderr.splitlines()) == 1
        assert fake.throttles == EARLIER
    assert not any("--verify" in call for call in fake.state["calls"])
    fake.state["brokers"]["4"] = rates
    assert fake.run("unthrottle-careful.sh").returncode == 0
    assert fake.throttles == EARLIER


def test_a_broker_that_refuses_is_named(fake: Fake) -> None:
    """A broker that the tool can't alter is named by both scripts, with the reason; all others are done."""
    fake.state["brokers"]["3"] = SECRET
    result = fake.run("throttle-careful.sh")
    assert result.returncode == 1
    assert "not set: brokers 3: All sensitive broker config entries must be specified" in result.stderr
    assert "1 of 6 are not set: don't execute wave 1" in result.stderr
    assert fake.throttles == {entry for entry in over(EARLIER, CAREFUL) if entry[:2] != ("brokers", "3")}
    fake.state["brokers"]["3"] = SECRET | {FOLLOWER_RATE: str(RATE)}
    fake.state["running"] = ["stays-0"]
    result = fake.run("unthrottle-careful.sh", FORCE="1")
    assert result.returncode == 1
    assert f"remains: brokers 3 {FOLLOWER_RATE}\n" in result.stderr
    assert fake.throttles == EARLIER | {("brokers", "3", FOLLOWER_RATE, str(RATE))}


FOREIGN: dict[str, list[ConfigEntry]] = {
    "the rate of a broker of the wave": [("brokers", "3", FOLLOWER_RATE, "5000000")],
    "a rate that the plan would restore": [("brokers", "2", LEADER_RATE, "5000000")],
    "the other rate of a broker of the wave": [("brokers", "3", LEADER_RATE, "5000000")],
    "a rate of a broker that is not in the wave": [("brokers", "9", LEADER_RATE, "5000000")],
    "the rate between directories": [("brokers", "1", LOG_DIR_RATE, "5000000")],
    "a list of a topic of the wave": [("topics", "goes", FOLLOWER_REPLICAS, "*")],
}


@pytest.mark.parametrize("foreign", FOREIGN.values(), ids=FOREIGN)
def test_a_throttle_of_somebody_else_is_left_and_named(fake: Fake, foreign: list[ConfigEntry]) -> None:
    """It keeps its value and is named, also in a second run; --verify, which would remove it, is not called."""
    fake.state["brokers"]["9"] = {}
    fake.set(CAREFUL)
    fake.set(foreign)
    for _ in range(2):
        result = fake.run("unthrottle-careful.sh")
        left = [f"left: {kind} {name} {config}={value}: somebody else set it" for kind, name, config, value in foreign]
        assert (result.returncode, result.stderr.splitlines()) == (0, left)
        assert fake.throttles == over(EARLIER, foreign)
    assert not any("--verify" in call for call in fake.state["calls"])


@pytest.mark.parametrize("style", ["careful", "kafka"])
def test_verify_is_used_if_nobody_else_set_a_throttle(fake: Fake, style: str) -> None:
    """One call of --verify removes all throttles; a list of a topic outside the wave is no obstacle."""
    fake.run(f"throttle-{style}.sh")
    other = ("topics", "other", LEADER_REPLICAS, "0:1")
    fake.set([other])
    assert fake.run(f"unthrottle-{style}.sh").returncode == 0
    assert sum("--verify" in call for call in fake.state["calls"]) == 1
    assert fake.throttles == EARLIER | {other}


def test_verify_is_not_used_if_throttles_are_unreadable(fake: Fake) -> None:
    """If the configs of the brokers can't be read, the lists are removed step by step, and the exit code is 1."""
    fake.set(CAREFUL)
    fake.state["unreadable"] = ["brokers"]
    result = fake.run("unthrottle-careful.sh")
    assert result.returncode == 1
    assert f"unreadable: brokers 3 {FOLLOWER_RATE}\n" in result.stderr
    assert not any("--verify" in call for call in fake.state["calls"])
    assert {entry for entry in fake.throttles if entry[0] == "topics"} == {e for e in EARLIER if e[0] == "topics"}


@pytest.mark.parametrize(
    ("leader", "follower", "left"),
    [
        ("0:1,0:7,0:2", "0:3,5:4", {LEADER_REPLICAS: "0:7", FOLLOWER_REPLICAS: "5:4"}),
        ("0:7,0:1", "0:3", {LEADER_REPLICAS: "0:7"}),
        ("0:1", "0:3", {}),
        ("*", "0:3", {LEADER_REPLICAS: "*"}),
        ("0:1, 0:2", "", {}),
    ],
)
def test_only_own_elements_leave_a_list(fake: Fake, leader: str, follower: str, left: dict[str, str]) -> None:
    """The elements of somebody else stay and are named; a list without them is deleted."""
    fake.set([("topics", "goes", LEADER_REPLICAS, leader), ("topics", "goes", FOLLOWER_REPLICAS, follower)])
    result = fake.run("unthrottle-careful.sh")
    named = [f"left: topics goes {config}={value}: somebody else set it" for config, value in left.items()]
    assert (result.returncode, result.stderr.splitlines()) == (0, named)
    assert fake.state["topics"]["goes"] == left


def test_earlier_elements_of_a_list_are_restored(tmp_path: Path) -> None:
    """An element that the plan found stays also if the wave sets it, and comes back if the wave replaced it."""
    found = EarlierThrottleRow("topics", "goes", LEADER_REPLICAS, "0:1,9:9", is_static=False)
    plan = throttled_plan()
    own = (found.entity_type, found.entity_name, found.config_name)
    throttles = [
        replace(row, previous_value=found.config_value)
        if (row.entity_type, row.entity_name, row.config_name) == own
        else row
        for row in plan.throttles
    ]
    fake = Fake(tmp_path, replace(plan, throttles=throttles, throttles_found=[*plan.throttles_found, found]))
    for current, restored in {"0:1,0:2": "0:1,9:9", "0:1,0:2,8:8": "0:1,8:8,9:9", "9:9,0:1": "9:9,0:1"}.items():
        fake.set([(*own, current)])
        result = fake.run("unthrottle-careful.sh")
        assert (result.returncode, "left: topics goes" in result.stderr) == (0, "8:8" in current)
        assert fake.state["topics"]["goes"] == {LEADER_REPLICAS: restored}


def test_throttles_of_a_rollback_are_removed(fake: Fake) -> None:
    """A rollback swaps leader and follower lists; the script of form kafka removes them all."""
    before = {key: lists[0] for key, lists in CHANGES.items()}
    after = {key: lists[1] for key, lists in CHANGES.items()}
    fake.set(config_entries(tool_throttles(before, after), RATE, RATE))
    result = fake.run("unthrottle-kafka.sh")
    assert (result.returncode, result.stderr) == (0, "")
    assert fake.throttles == EARLIER


def test_others_and_owed_rates_are_both_named(fake: Fake) -> None:
    """A rate that is owed decides the exit code, because it has to be removed later."""
    fake.set(CAREFUL)
    fake.set([("brokers", "3", FOLLOWER_RATE, "5000000")])
    del fake.state["brokers"]["4"]
    result = fake.run("unthrottle-careful.sh")
    assert (result.returncode, [line.split(":")[0] for line in result.stderr.splitlines()]) == (5, ["left", "owed"])
