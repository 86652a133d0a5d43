"""The command run on a real cluster: all waves of a plan by one command, whatever others do meanwhile."""

import re
import signal
import time
from dataclasses import replace
from pathlib import Path

import pytest

from execution.admin import KafkaAdmin
from execution.throttles import Setting
from optimizer.kafka.throttle import FOLLOWER_RATE, FOLLOWER_REPLICAS, LEADER_RATE, LEADER_REPLICAS
from tests.execution.rows import record_of_run
from tests.execution.warehouse import load_plan
from tests.kafka import topics
from tests.kafka.lab import RATE, Lab, MakeLab, until, written

pytestmark = [pytest.mark.kafka, pytest.mark.all_only]

THREE = [{0: ([1, 2], [1, 3])}, {1: ([2, 1], [4, 2])}, {2: ([1, 2], [2, 1])}]
ONE = [{0: ([1, 2], [1, 3])}]
FOREIGN = {("brokers", "4", LEADER_RATE): "5000000", ("brokers", "3", LEADER_RATE): "7000000"}


def is_moving(lab: Lab) -> bool:
    """Whether a copy runs."""
    return bool(lab.now().in_flight)


def alter(lab: Lab, changes: dict[tuple[str, str, str], Setting]) -> None:
    """Somebody else changes throttles."""
    with KafkaAdmin(lab.client) as admin:
        assert admin.alter(changes) == {}


def cancel(lab: Lab, *partitions: int) -> None:
    """Somebody else cancels moves."""
    with KafkaAdmin(lab.client) as admin:
        assert admin.reassign({(lab.topic, partition): None for partition in partitions}) == {}


def test_without_a_tool_moves_start_one_by_one(make_lab: MakeLab, tmp_path: Path) -> None:
    """The Admin API starts them; with a cap of one move for each broker the third waits for the first."""
    lab = make_lab("capped", [{0: ([1, 2], [1, 3]), 1: ([1, 2], [1, 4]), 2: ([2, 1], [2, 4])}], megabytes=20)
    config = tmp_path / "config.toml"
    config.write_text("[execution]\nmax_moves_per_broker = 1\n")
    most = 0
    with written(lab), lab.running("--config", str(config)) as process:
        while process.poll() is None:
            most = max(most, len(lab.now().in_flight))
        out, err = process.communicate()
    assert (process.returncode, err, most) == (0, "", 2), out
    assert lab.lists() == [(1, 3), (1, 4), (2, 4)]


def test_one_process_executes_at_a_time(make_lab: MakeLab) -> None:
    """A second command of this host does nothing. One that has taken over, on another host, ends the first."""
    lab = make_lab("twice", ONE, megabytes=14)
    with lab.running() as process:
        until(lambda: is_moving(lab))
        second = lab.run()
        assert (second.code, "another process of this host executes waves of cluster 'c'" in second.err) == (4, True)
        process.kill()
    rows = lab.warehouse.rows("executions")
    elsewhere = {
        **max(rows, key=lambda row: int(row["number"])),
        "wave": 0,
        "event": "running",
        "result": '{"host": "elsewhere"}',
    }
    lab.warehouse.append(
        "executions", [{**elsewhere, "number": len(rows) + 1, "holder": "ann on elsewhere, process 7"}]
    )
    refused = lab.run()
    assert (refused.code, "ann on elsewhere, process 7 executes waves" in refused.err) == (4, True)
    with lab.running("--take-over") as process:
        until(lambda: lab.events()[-1] != "running")
        record_of_run(lab.warehouse, load_plan(lab.warehouse), "running", "elsewhere")
        out, err = process.communicate(timeout=topics.SECONDS)
    assert (process.returncode, "has taken over cluster 'c': this process changes nothing any more" in err) == (
        4,
        True,
    ), out
    assert lab.run("--take-over").code == 0


@pytest.mark.parametrize("event", ["throttled", "removing"])
def test_a_killed_command_goes_on(make_lab: MakeLab, event: str) -> None:
    """The next command ends the plan, without a throttle left; a fake cluster is killed at every call."""
    lab = make_lab(f"killed-{event}", ONE, megabytes=5)
    with written(lab):
        with lab.running() as process:
            until(lambda: event in lab.events())
            process.kill()
        ended = lab.once_free(lab.run)
    assert ended.code == 0, ended
    assert (lab.lists(), lab.now().throttles) == ([(1, 3)], {})


def test_throttles_that_somebody_removes_are_set_again(make_lab: MakeLab) -> None:
    """Within seconds, while the other copy runs; a move that somebody cancels ends the command."""
    lab = make_lab("helped", [{0: ([1, 2], [1, 3]), 1: ([2, 1], [2, 4])}], megabytes={0: 16, 1: 48})
    with lab.running() as process:
        until(lambda: len(lab.now().in_flight) == 2)
        rates = [("brokers", "1", LEADER_RATE), ("brokers", "3", FOLLOWER_RATE)]
        alter(lab, dict.fromkeys(rates, ("DELETE", None)))
        alter(lab, {("topics", lab.topic, FOLLOWER_REPLICAS): ("SUBTRACT", "0:3")})
        until(lambda: set(rates) <= set(lab.now().throttles))
        cancel(lab, 1)
        out, err = process.communicate(timeout=topics.SECONDS)
    assert "somebody removed throttles, they are set again" in out
    assert "somebody cancelled moves: helped-1" in out
    assert (process.returncode, "neither in flight nor done: helped-1" in err) == (3, True)
    assert lab.run().code == 0
    assert lab.lists() == [(1, 3), (2, 4)]


def test_rates_of_others_stay(make_lab: MakeLab) -> None:
    """Somebody sets them while the wave runs: it goes on, and names one that replaced a rate of its own."""
    lab = make_lab("shared", ONE, megabytes=10)
    assert lab.run("--for", "0.05").code == 4
    alter(lab, {key: ("SET", value) for key, value in FOREIGN.items()})
    alter(lab, {("brokers", "1", LEADER_RATE): ("SET", "2000000")})
    alter(lab, {("topics", lab.topic, LEADER_REPLICAS): ("APPEND", "5:4")})
    ended = lab.run()
    assert (ended.code, ended.err) == (0, "")
    left = {**FOREIGN, ("brokers", "1", LEADER_RATE): "2000000", ("topics", lab.topic, LEADER_REPLICAS): "5:4"}
    assert lab.now().throttles == left
    assert "left: brokers 1 leader.replication.throttled.rate=2000000 was set by somebody else and stays" in ended.out
    alter(lab, dict.fromkeys(left, ("DELETE", None)))
    until(lambda: not lab.now().throttles)


def test_what_cannot_be_moved_any_more_is_skipped(make_lab: MakeLab) -> None:
    """A partition that somebody moved: the rest goes on, the end names it. With --strict nothing begins."""
    lab = make_lab("skipped", [{0: ([1, 2], [1, 3])}, {1: ([2, 1], [4, 2])}], megabytes=2)
    with KafkaAdmin(lab.client) as admin:
        assert admin.reassign({(lab.topic, 0): (2, 4)}) == {}
    until(lambda: lab.lists() == [(2, 4), (2, 1)])
    strict = lab.run("--strict")
    assert (strict.code, "1 partition was moved by somebody else: skipped-0" in strict.err) == (3, True)
    ended = lab.run()
    assert (ended.code, "1 partition was moved by somebody else: skipped-0" in ended.err) == (6, True), ended
    assert (lab.lists(), lab.now().throttles) == ([(2, 4), (4, 2)], {})


def test_a_deleted_topic_does_not_stop_the_others(make_lab: MakeLab) -> None:
    """Deleted while its copy runs: the wave ends, its throttles are removed."""
    lab = make_lab("deleted", ONE, megabytes=20)
    with lab.running() as process:
        until(lambda: is_moving(lab))
        topics.delete(lab.cluster, lab.topic)
        _, err = process.communicate(timeout=topics.SECONDS)
    assert (process.returncode, "1 topic does not exist any more: deleted" in err) == (6, True), err
    assert not lab.now().throttles
    topics.create(lab.cluster, {lab.topic: {0: [1, 2]}})
    until(lambda: lab.topic in lab.now().topic_ids)
    recreated = lab.run()
    assert (recreated.code, "was deleted and created again since the snapshot: deleted" in recreated.err) == (6, True)
    assert lab.lists() == [(1, 2)]


def test_copies_that_do_not_get_on_are_reported(make_lab: MakeLab) -> None:
    """Live writes over the rate of 1 MB/s, even on a busy machine: exit code 5, with the rate that would do; the
    throttles stay."""
    lab = make_lab("slow", ONE, megabytes=20)
    with (
        topics.live_traffic(lab.cluster, lab.topic, [0], 1_500_000, off=0.2),
        lab.running("--stall-minutes", "0.4") as process,
    ):
        out, err = process.communicate(timeout=topics.SECONDS)
    assert process.returncode == 5, (out, err)
    # The follower that stays in sync uses the leader's rate up, so that the copy may gain nothing at all.
    gained = r"slow-0 to broker 3: [\d.]+ MB left; in 2\d s the copy gained [\d.]+ [kM]?B, its leader grew by"
    assert re.search(gained, err)
    assert re.search(r"broker 3: [\d.]+ [kM]B/s for these copies would end them in 1 h 00 min", err)
    assert len(lab.now().throttles) >= 4
    assert lab.run("--for", "0.05").code == 4
    assert lab.step("off", 1, "--on-failure", "cancel").code == 0


def test_leaders_that_cannot_be_elected_are_named(make_lab: MakeLab) -> None:
    """The first replica is dead: exit code 6 with Kafka's reason; when it is back, the same command elects it."""
    lab = make_lab("led", [{0: ([1, 3], [3, 1]), 1: ([1, 4], [4, 1])}], megabytes=1)
    lab.steps("throttle", "execute", "wait", "off")
    lab.cluster.stop_broker(3, signal.SIGKILL)
    until(lambda: 3 not in lab.now().alive)
    ended = lab.step("elect")
    assert (ended.code, "not led by the first replica: led-0: " in ended.err) == (6, True), ended
    assert lab.now().leaders[lab.topic, 1] == 4
    lab.cluster.start_broker(3)
    until(lambda: 3 in lab.now().in_sync[lab.topic, 0])
    assert lab.step("elect").code == 0
    assert lab.now().leaders[lab.topic, 0] == 3


def test_a_dry_run_changes_nothing(make_lab: MakeLab) -> None:
    """It prints each change of each wave."""
    lab = make_lab("dry", THREE, megabytes=1)
    before = lab.now()
    ended = lab.run("--dry-run")
    assert (ended.code, lab.now(), lab.warehouse.rows("executions")) == (0, before, [])
    assert "would set brokers 3 follower.replication.throttled.rate=1000000" in ended.out
    assert "would move dry-1 from [2, 1] to [4, 2]" in ended.out


def test_a_plan_without_approval_is_not_executed(make_lab: MakeLab) -> None:
    """Neither by the command nor by a dry run's repeat."""
    lab = make_lab("bare", ONE, megabytes=1, approved=False)
    assert (lab.run().code, lab.run("--dry-run").code) == (3, 0)
    assert replace(lab).lists() == [(1, 2)]


def test_a_running_wave_is_steered(make_lab: MakeLab) -> None:
    """A pause leaves its copy 1 MiB in 11 seconds, then its rate comes back in steps; a cancel ends all."""
    lab = make_lab("steered", ONE, megabytes=60)
    rate = ("brokers", "3", FOLLOWER_RATE)
    with lab.running() as process:
        until(lambda: lab.copied_bytes(3) > 0)
        told = lab.steer("status")
        assert (told.code, "executed by: " in told.out) == (0, True)
        assert re.search(r"steered-0 to broker 3: [\d.]+ MB left", told.out)
        paused = lab.steer("pause")
        assert "1 running copy may still get about 1.05 MB in each 11 seconds" in paused.out
        until(lambda: lab.now().throttles[rate] == "1")
        time.sleep(12)
        looks = [(time.monotonic(), lab.copied_bytes(3))]
        while looks[-1][0] - looks[0][0] < 35:
            time.sleep(0.5)
            looks.append((time.monotonic(), lab.copied_bytes(3)))
        # In no 11 seconds more than 1 MiB, one more answer of 1 MiB aside.
        assert max(b[1] - a[1] for n, a in enumerate(looks) for b in looks[n:] if b[0] - a[0] <= 11) <= 2 * 2**20
        assert lab.steer("resume").code == 0
        seen = set()

        def has_arrived() -> bool:
            seen.add(lab.now().throttles[rate])
            return "1000000" in seen

        gains: list[tuple[float, int]] = []

        def is_watched() -> bool:
            gains.append((time.monotonic(), lab.copied_bytes(3)))
            return has_arrived()

        until(is_watched)
        assert len(seen) > 5
        # After a raise no two seconds have more than 1.6 times the rate, one answer of 1 MiB aside.
        windows = [(b[0] - a[0], b[1] - a[1]) for n, a in enumerate(gains) for b in gains[n:] if 2 <= b[0] - a[0] < 4]
        assert windows
        assert max(gain - 1.6 * RATE * seconds for seconds, gain in windows) <= 2**20
        begun, copied = time.monotonic(), lab.copied_bytes(3)
        time.sleep(12)
        gain, seconds = lab.copied_bytes(3) - copied, time.monotonic() - begun
        assert gain <= 1.1 * RATE * seconds + 2**20
        assert lab.steer("cancel").code == 0
        _, err = process.communicate(timeout=topics.SECONDS)
    assert (process.returncode, "wave 1 of 1 was cancelled" in err) == (3, True)
    assert (lab.lists(), lab.now().throttles) == ([(1, 2)], {})
    assert lab.steer("rate", "3").code == 3


def test_rates_are_changed_without_a_command_that_executes(make_lab: MakeLab) -> None:
    """The command itself does it; what it has set is removed at the end, and after a stop no other wave begins."""
    lab = make_lab("alone", [{0: ([1, 2], [1, 3])}, {1: ([1, 2], [1, 4])}], megabytes=16)
    lab.steps("throttle", "execute")
    assert lab.steer("rate", "x0.9").code == 0
    assert lab.now().throttles["brokers", "1", LEADER_RATE] == "900000"
    with lab.running() as process:
        until(lambda: lab.events()[-1] == "running")
        assert lab.steer("stop").code == 0
        out, err = process.communicate(timeout=topics.SECONDS)
    assert (process.returncode, "wave 1 of 2 was stopped" in err) == (3, True), (out, err)
    assert (lab.lists(), lab.now().throttles) == ([(1, 3), (1, 2)], {})


@pytest.mark.parametrize("reaction", ["slow", "hold"])
def test_a_wave_is_held_back_while_an_old_replica_is_out_of_sync(
    make_lab: MakeLab, tmp_path: Path, reaction: str
) -> None:
    """A broker restarts, 30 MB behind: nothing is started meanwhile, and with ``slow`` it is not throttled either."""
    lab = make_lab(f"pressed-{reaction}", [{0: ([1, 2], [1, 2, 3]), 1: ([1, 2], [1, 4])}], megabytes={0: 80, 1: 4})
    config = tmp_path / "config.toml"
    config.write_text(f'[execution]\nmax_moves_per_broker = 1\non_pressure = "{reaction}"\n')
    rate, leaders = ("brokers", "3", FOLLOWER_RATE), ("topics", lab.topic, LEADER_REPLICAS)
    with lab.running("--config", str(config)) as process:
        until(lambda: lab.copied_bytes(3) > 0)
        lab.cluster.stop_broker(2)
        topics.fill(lab.cluster, lab.topic, {0: 30, 1: 0})
        until(lambda: "wanted" in lab.events())
        lab.cluster.start_broker(2)
        until(lambda: 2 in lab.now().alive)
        begun = time.monotonic()
        until(lambda: 2 in lab.now().in_sync[lab.topic, 0])
        seconds = time.monotonic() - begun
        now = lab.now()
        is_slow = reaction == "slow"
        assert now.throttles[rate] == ("500000" if is_slow else "1000000")
        assert ("0:1" in now.throttles.get(leaders, "").split(",")) is not is_slow
        assert set(now.in_flight) == {(lab.topic, 0)}
        assert lab.steer("cancel").code == 0
        out, err = process.communicate(timeout=topics.SECONDS)
    assert (process.returncode, "wave 1 of 1 was cancelled" in err) == (3, True), (out, err)
    assert "wave 1 of 1: broker 2 is not alive any more" in out
    # 30 MB at 1 MB/s, which the copy shares. (Seen: 0.1 to 0.2 s with ``slow``.)
    assert seconds < 10 if is_slow else seconds > 10
    assert (lab.lists(), lab.now().throttles) == ([(1, 2), (1, 2)], {})


def test_a_plan_is_taken_back(make_lab: MakeLab) -> None:
    """All waves, the last one first, under throttles; the old leaders lead. A second command has nothing to do."""
    lab = make_lab("back", [{0: ([1, 2], [3, 2])}, {1: ([2, 1], [4, 1]), 2: ([1, 2], [2, 1])}], megabytes=4)
    assert lab.run().code == 0
    assert lab.lists() == [(3, 2), (4, 1), (2, 1)]
    with written(lab):
        ended = lab.back("--all", "--by", "ann")
    assert (ended.code, ended.err) == (0, ""), ended
    assert lab.lists() == [(1, 2), (2, 1), (1, 2)]
    assert [lab.now().leaders[lab.topic, number] for number in range(3)] == [1, 2, 1]
    assert not lab.now().throttles
    rows = lab.warehouse.rows("executions", event="copied")
    assert sorted(row["wave"] for row in rows) == [-2, -1, 1, 2]
    assert lab.back("--all").out.count("nothing to do") == 2
    assert lab.run().code == 0
    assert lab.lists() == [(3, 2), (4, 1), (2, 1)]


def test_a_running_wave_is_taken_back(make_lab: MakeLab) -> None:
    """A killed command has left copies: they are cancelled, what was done goes back, and a kill changes nothing."""
    lab = make_lab("half", [{0: ([1, 2], [1, 3]), 1: ([2, 1], [4, 1])}], megabytes={0: 1, 1: 16})
    with lab.running() as process:
        # A tool that still runs keeps the next command from starting.
        until(lambda: lab.now().replicas[lab.topic, 0] == (1, 3) and "executed" in lab.events())
        process.kill()
    assert set(lab.now().in_flight) == {(lab.topic, 1)}
    with lab.running("--wave", "1", command="rollback") as process:
        until(lambda: "held" in [row["event"] for row in lab.warehouse.rows("executions", wave=-1)])
        process.kill()
    ended = lab.once_free(lambda: lab.back("--wave", "1"))
    assert ended.code == 0, ended
    assert (lab.lists(), lab.now().throttles) == ([(1, 2), (2, 1)], {})
