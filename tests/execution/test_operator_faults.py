"""What an operator met on real clusters: each fault with the commands as they were typed."""

import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from execution.admin import NoController
from execution.health import signs
from execution.journal import HELD, Phase, WaveId
from execution.observed import Place, Stored, place_of
from execution.progress import CopySize, left_seconds
from optimizer.kafka.throttle import FOLLOWER_RATE, FOLLOWER_REPLICAS, LEADER_RATE
from tests.execution import rows
from tests.execution.fake_kafka import Killed
from tests.execution.lab import AFTER, BEFORE, MB, RATE, SIZE, Build, cluster_at
from tests.execution.terminal import PLAN, WHERE, Terminal

Typing = Callable[..., Terminal]


@pytest.fixture
def typing(build: Build, monkeypatch: pytest.MonkeyPatch) -> Typing:
    """Builds a lab, and a terminal for it."""
    return lambda **options: Terminal(build(**options), monkeypatch)


def killed_at(terminal: Terminal, call: str, line: str, *, is_after: bool = True) -> None:
    """Type a command whose process is killed at this call."""
    kills = terminal.lab.kills
    found = len(kills.calls)

    class At(list[tuple[str, bool]]):
        """Kills at the call with the name."""

        def append(self, item: tuple[str, bool]) -> None:
            super().append(item)
            if item[0] == call:
                kills.at, kills.is_after = len(self) - 1, is_after

    kills.calls = At(kills.calls)
    with pytest.raises(Killed):
        terminal.type(line)
    assert len(kills.calls) > found
    kills.calls, kills.at = list(kills.calls), -1


COMMANDS = ("run", "rollback --all", "wave off --wave 1", "verify", "wave status --wave 1")


@pytest.mark.parametrize("command", COMMANDS)
def test_another_cluster_is_refused(typing: Typing, command: str) -> None:
    """By Kafka's own id, before anything is changed; both ids are named. A rebuilt cluster is accepted if asked."""
    terminal = typing()
    terminal.lab.plan = replace(terminal.lab.plan, manifest={**terminal.lab.plan.manifest, "kafka_cluster_id": "mine"})
    ended = terminal.type(f"./ballast {command} {PLAN}")
    assert ended.code == 2
    assert "Kafka cluster kafka-id, but run 'r' was made for cluster mine" in ended.error
    assert (terminal.lab.warehouse.stored, terminal.lab.kafka.throttles) == ([], {})
    assert terminal.type(f"./ballast {command} {PLAN} --new-cluster-id").code != 2


@pytest.mark.parametrize("command", ["status", "pause", "rate 5", "resume", "stop", "cancel"])
def test_the_first_hold_records_the_cluster(typing: Typing, command: str) -> None:
    """For a plan from files without an id: from then on another cluster is refused."""
    terminal = typing(rate_bytes_per_s=MB)
    assert terminal.run("--for 0.1").code == 4
    terminal.lab.kafka.kafka_id = "another"
    ended = terminal.type(f"./ballast {command} --cluster c {WHERE}")
    assert (ended.code, "but wave 1 holds cluster kafka-id" in ended.error) == (2, True)


def test_a_run_goes_on_with_the_wave_that_holds(typing: Typing) -> None:
    """Whichever waves are requested, and without electing in between."""
    terminal = typing(rate_bytes_per_s=MB)
    assert terminal.run("--waves 1 --for 0.1").code == 4
    terminal.lab.rate_bytes_per_s = RATE
    assert terminal.run("--waves 2").code == 0
    assert "wave 1 holds the cluster, so it goes on first" in terminal.lab.lines
    assert (terminal.is_free(), terminal.lab.kafka.replicas) == (True, AFTER)


@pytest.mark.parametrize("at", ["append cancelling", "append cancelled", "append removing"])
def test_a_run_finishes_a_cancel_first(typing: Typing, at: str) -> None:
    """It sets no throttle of the cancelled wave again; the same command then begins the wave anew."""
    terminal = typing(rate_bytes_per_s=MB)
    assert terminal.run("--for 0.1").code == 4
    killed_at(terminal, at, f"./ballast cancel --cluster c {WHERE}")
    before = len(terminal.lab.kills.calls)
    ended = terminal.run()
    assert (ended.code, ended.error) == (3, "wave 1 of 2: its cancel, which was killed, is finished")
    assert (terminal.is_free(), terminal.lab.kafka.throttles) == (True, {})
    assert terminal.lab.kafka.replicas == BEFORE
    sent = [name for name, _ in terminal.lab.kills.calls[before:]]
    assert "append throttled" not in sent
    terminal.lab.rate_bytes_per_s = RATE
    assert terminal.run().code == 0


def test_no_room_is_found_before_the_hold(typing: Typing) -> None:
    """Also between brokers, and with the headroom; nothing is held or set, and a dry run says it too."""
    terminal = typing()
    lab = terminal.lab
    directories = {(3, "/d"): (100 * SIZE, round(11.5 * SIZE))}
    lab.kafka.disks = Stored(lab.sizes, {3: round(11.5 * SIZE)}, directories)
    message = "broker 3 has room for 150 MB, but the wave brings 200 MB: free disk space there, or plan again"
    assert terminal.run("--dry-run").code == 0
    assert f"problem: {message}" in lab.lines
    ended = terminal.run()
    assert (ended.code, message in ended.error, ended.left) == (3, True, ())
    assert ([row["event"] for row in lab.warehouse.stored], lab.kafka.throttles) == (["running", "ended"], {})


def test_after_a_foreign_cancel_only_own_rates_are_set_again(typing: Typing) -> None:
    """``kafka-reassign-partitions.sh --cancel`` removes all throttles, also a rate that a person set meanwhile."""
    hand, before = ("brokers", "1", LEADER_RATE), ("brokers", "2", LEADER_RATE)
    terminal = typing(throttles_before={before: "20000000"})
    lab = terminal.lab
    first, second = (replace(wave, previous_throttles={before: "20000000"}) for wave in lab.waves)
    lab.waves = first, second
    lab.events += [(2, lambda: lab.kafka.throttles.update({hand: "77"})), (6, lab.kafka.throttles.clear)]
    assert terminal.run().code == 0
    assert "77" not in (lab.values(hand)[lab.values(hand).index("77") + 1 :])
    assert lab.kafka.throttles == {before: "20000000"}


def test_a_controller_that_is_away_is_waited_for(typing: Typing) -> None:
    """Copies go on under their throttles; after --stall-minutes the run ends with 4, and goes on later."""
    terminal = typing()
    lab = terminal.lab
    answer = lab.kafka.observe

    def away(*_: object) -> None:
        raise NoController("timeout")

    lab.events += [
        (2, lambda: setattr(lab.kafka, "observe", away)),
        (60, lambda: setattr(lab.kafka, "observe", answer)),
    ]
    assert terminal.run().code == 0
    assert [line for line in lab.lines if "the brokers answer, but the controller does not" in line]

    terminal = typing()
    lab = terminal.lab
    lab.events += [(2, lambda: setattr(lab.kafka, "observe", away))]
    ended = terminal.run("--stall-minutes 2")
    assert (ended.code, lab.kafka.throttles != {}) == (4, True)
    assert ended.left[0].startswith("held: wave 1 of run r holds the cluster")
    lines = len(lab.lines)
    assert terminal.type(f"./ballast status --cluster c {WHERE}").code == 4
    assert lab.lines[lines] == "cluster c: run r: 0 of 2 waves done, next is 1"


def test_a_stall_names_what_hangs(typing: Typing) -> None:
    """The copy and its dead target, and a directory that has failed; no rate of 0 is advised."""
    terminal = typing(rate_bytes_per_s=0)
    lab = terminal.lab
    lab.events += [(4, lambda: lab.kafka.dead.add(3))]
    ended = terminal.run("--stall-minutes 2")
    assert (ended.code, "t-0, t-1 to broker 3: broker 3 is not alive" in ended.error) == (5, True)
    assert "0 B/s" not in ended.error


def test_a_failed_directory_is_named(typing: Typing) -> None:
    """With its broker and its path, when it is seen and in the message of the stall."""
    terminal = typing(rate_bytes_per_s=0)
    lab = terminal.lab
    stored = lab.kafka.stored
    lab.events += [
        (4, lambda: setattr(lab.kafka, "stored", lambda b: replace(stored(b), failed=frozenset({(3, "/d1")}))))
    ]
    ended = terminal.run("--stall-minutes 2")
    assert "wave 1 of 2: directory /d1 of broker 3 has failed" in lab.lines
    assert "t-0, t-1 to broker 3: its directory /d1 has failed" in ended.error


@pytest.mark.parametrize(
    ("rates", "seconds"),
    [({1: 10.0, 2: 1.0}, 100.0), ({1: 10.0, 2: 0.0}, None), ({}, None), ({1: 10.0, 2: 10.0, 3: 1.0}, 100.0)],
)
def test_the_slowest_target_decides_the_time_left(rates: dict[int, float], seconds: float | None) -> None:
    """Not the sum; a copy that gains nothing has no end, and a target that only waits gets the mean rate."""
    copies = {("t", 0, 1): CopySize(100, 0), ("t", 1, 2): CopySize(100, 0)}
    assert left_seconds(copies, {3: 100} if 3 in rates else {}, rates) == seconds
    assert left_seconds({("t", 0, 1): CopySize(100, 0)}, {2: 60, 3: 60}, {1: 10.0}) == 10.0


def test_a_run_that_goes_on_says_the_state_once(typing: Typing) -> None:
    """Not every rate of its history; a paused wave whose copies are done says what ends it."""
    terminal = typing()
    lab = terminal.lab
    assert terminal.run("--for 0.1").code == 4
    for rate in (5, 6, 7):
        assert terminal.type(f"./ballast rate {rate} --cluster c {WHERE}").code == 0
    assert terminal.type(f"./ballast pause --cluster c {WHERE}").code == 0
    lab.kafka.finish()
    begun = len(lab.lines)
    assert terminal.run("--for 1").code == 4
    said = [line for line in lab.lines[begun:] if "wanted is now" in line]
    assert len(said) == 1
    assert "paused" in said[0]
    assert [line for line in lab.lines[begun:] if "all is copied, ./ballast resume --cluster c ends the wave" in line]


def test_status_without_a_wave_says_what_is_next(typing: Typing) -> None:
    """For people and as JSON; a cluster that never had a wave is refused."""
    terminal = typing()
    assert terminal.run("--waves 1").code == 0
    lines = terminal.lab.lines
    assert terminal.type(f"./ballast status --cluster c {WHERE}").code == 0
    assert lines[-1] == "cluster c: run r: 1 of 2 waves done, next is 2"
    assert terminal.type(f"./ballast status --json --cluster c {WHERE}").code == 0
    assert json.loads(lines[-1])["next"] == 2


def test_a_stopped_rollback_never_turns_forward(typing: Typing) -> None:
    """``run`` and ``verify`` go on backward, until somebody says --forward."""
    terminal = typing()
    lab = terminal.lab
    assert terminal.run().code == 0
    lab.rate_bytes_per_s = MB
    for partition, brokers in BEFORE.items():
        for broker in set(brokers) - set(AFTER[partition]):
            del lab.sizes[(*partition, broker)]
    assert terminal.type(f"./ballast rollback --all --by ann --for 0.5 {PLAN}").code == 4
    assert terminal.type(f"./ballast cancel --cluster c {WHERE}").code == 0
    assert terminal.is_free()
    assert terminal.type(f"./ballast verify {PLAN}").code == 4
    assert lab.lines[-1] == "go on: ./ballast rollback --run-id r --cluster c --all --by ann"
    lab.rate_bytes_per_s = RATE
    ended = terminal.run()
    assert (ended.code, ended.error) == (3, "the rollback has ended: run the command again to execute the waves")
    assert lab.kafka.replicas == BEFORE
    assert terminal.run().code == 0
    assert (lab.kafka.replicas, lab.kafka.throttles) == (AFTER, {})


def test_a_refused_rollback_turns_nothing_backward(typing: Typing) -> None:
    """Neither its own plan, if it has no room, nor another plan that holds the cluster."""
    terminal = typing()
    lab = terminal.lab
    assert terminal.run().code == 0
    lab.kafka.disks = Stored(lab.sizes, dict.fromkeys(range(1, 10), 0))
    for partition, brokers in BEFORE.items():
        for broker in set(brokers) - set(AFTER[partition]):
            del lab.sizes[(*partition, broker)]
    assert terminal.type(f"./ballast rollback --all {PLAN}").code == 3
    assert terminal.journal.look().rollbacks == {}
    another = replace(lab.plan, run_id="another")
    rows.record(lab.warehouse, another, 1, HELD, changes="{}")
    assert terminal.type(f"./ballast rollback --all {PLAN}").code == 3
    assert terminal.journal.look().rollbacks == {}


def test_no_replica_is_moved_inside_while_another_plan_holds_the_cluster(typing: Typing) -> None:
    """``--fix-dirs`` asks the table, as every change does."""
    terminal = typing()
    lab = terminal.lab
    lab.waves = replace(lab.waves[0], log_dirs={("t", 0, 3): "/x", ("t", 1, 3): "/x"}), lab.waves[1]
    lab.kafka.refused_dirs = {(3, "/x"): "LogDirNotFoundError"}
    assert terminal.run("--any-dir").code == 0
    lab.kafka.refused_dirs = {}
    rows.record(lab.warehouse, replace(lab.plan, run_id="another"), 1, HELD, changes="{}")
    ended = terminal.run("--fix-dirs")
    assert (ended.code, "is held by wave 1 of run 'another'" in ended.error) == (3, True)
    assert lab.kafka.moved_inside == []


def test_a_wave_that_was_not_copied_is_not_done(typing: Typing) -> None:
    """After somebody's cancel and ``cancel`` nothing is in flight: the wave is still the next one."""
    terminal = typing(rate_bytes_per_s=MB)
    lab = terminal.lab
    assert terminal.run("--for 0.1").code == 4
    lab.kafka.reassign(dict.fromkeys(list(lab.kafka.moves)))
    assert terminal.type(f"./ballast cancel --cluster c {WHERE}").code == 0
    assert terminal.journal.look().executed == frozenset()


def test_a_plan_is_compared_and_taken_back_without_its_documents(typing: Typing) -> None:
    """What the waves have changed is in the journal; a run needs the documents that were approved."""
    terminal = typing()
    lab = terminal.lab
    assert terminal.run().code == 0
    for partition, brokers in BEFORE.items():
        for broker in set(brokers) - set(AFTER[partition]):
            del lab.sizes[(*partition, broker)]
    terminal.are_documents_gone = True
    assert terminal.run().code == 3
    assert terminal.type(f"./ballast verify {PLAN}").code == 0
    assert terminal.type(f"./ballast rollback --all {PLAN}").code == 0
    assert (lab.kafka.replicas, lab.kafka.throttles, lab.kafka.unthrottled) == (BEFORE, {}, [])
    held = [row for row in lab.warehouse.stored if row["event"] == "held" and row["wave"] == -1]
    throttles = {tuple(key): wanted for *key, _, wanted in json.loads(held[0]["changes"])["throttles"]}
    assert throttles["topics", "t", FOLLOWER_REPLICAS] == "0:2,1:1"
    assert throttles["brokers", "3", LEADER_RATE] == throttles["brokers", "2", FOLLOWER_RATE] == str(RATE)


def test_forward_ends_a_rollback(typing: Typing) -> None:
    """Its wave is cancelled, and the waves of the plan are executed."""
    terminal = typing()
    lab = terminal.lab
    assert terminal.run().code == 0
    lab.rate_bytes_per_s = MB
    del lab.sizes["u", 0, 1]
    assert terminal.type(f"./ballast rollback --all --by ann --for 0.5 {PLAN}").code == 4
    lab.rate_bytes_per_s = RATE
    assert terminal.run("--forward").code == 0
    assert (lab.kafka.replicas, lab.kafka.throttles, terminal.is_free()) == (AFTER, {}, True)


def test_what_is_left_is_said_after_each_error(typing: Typing) -> None:
    """Held or free, the throttles, and the command: the same three facts."""
    terminal = typing(rate_bytes_per_s=MB)
    ended = terminal.run("--for 0.1")
    held, throttles, command = ended.left
    assert held.startswith("held: wave 1 of run r holds the cluster (")
    assert throttles.startswith("throttles set: ")
    assert command == "to go on: ./ballast run --run-id r --cluster c; to end it: ./ballast cancel --cluster c"
    assert terminal.type(command.partition("to end it: ")[2] + f" {WHERE}").code == 0
    assert (terminal.is_free(), terminal.lab.kafka.throttles) == (True, {})


def test_brokers_that_do_not_answer_are_no_decision(typing: Typing) -> None:
    """Exit code 4: the command can be run again later; a problem that a person must decide has 3."""
    terminal = typing()
    terminal.lab.kafka.dead = {3}
    assert terminal.run().code == 4
    terminal.lab.kafka.dead = set()
    terminal.lab.kafka.throttles = {("brokers", "3", FOLLOWER_RATE): "5"}
    ended = terminal.run()
    assert ended.code == 3
    delete = "--alter --entity-type brokers --entity-name 3 --delete-config follower.replication.throttled.rate"
    assert f"remove it first with kafka-configs.sh --bootstrap-server h:1 {delete}" in ended.error


@pytest.mark.parametrize(
    ("missing", "lines"),
    [
        ("ALTER", ["the user needs ALTER on the cluster (copies and leaders)"]),
        (
            "ALTER_CONFIGS",
            [
                "the user needs ALTER_CONFIGS on the cluster (rates of brokers)",
                "the user needs ALTER_CONFIGS on topic t",
            ],
        ),
        (
            "DESCRIBE_CONFIGS",
            [
                "the user needs DESCRIBE_CONFIGS on the cluster (rates of brokers are read)",
                "the user needs DESCRIBE_CONFIGS on topic t",
            ],
        ),
    ],
)
@pytest.mark.parametrize("command", ["run", "wave preflight --wave 1"])
def test_missing_rights_are_named_before_the_hold(typing: Typing, command: str, missing: str, lines: list[str]) -> None:
    """All at once, by their names in Kafka."""
    terminal = typing()
    terminal.lab.kafka.may -= {missing}
    ended = terminal.type(f"./ballast {command} {PLAN}")
    assert ended.code == 3
    assert [line for line in lines if line not in ended.error] == []
    assert not terminal.lab.kafka.throttles
    assert terminal.is_free()


def test_a_topic_that_may_not_be_described_is_not_deleted(typing: Typing) -> None:
    """It is in no answer of the cluster; ``run`` says which right is missing, instead of skipping the topic."""
    terminal = typing()
    lab = terminal.lab
    lab.kafka.may -= {"DESCRIBE"}
    lab.kafka.replicas.clear()
    ended = terminal.run()
    assert (ended.code, "the user needs DESCRIBE on topic t" in ended.error) == (3, True)


def test_a_move_from_a_third_directory_is_not_the_waves() -> None:
    """A cancel must not stop it."""
    replica, stored = ("u", 0, 4), Stored({("u", 0, 4): 1}, {})
    for path, target, place in (
        ("/c", "/a", Place.OTHER),
        ("/b", "/a", Place.RETURNING),
        ("/a", "/b", Place.MOVING),
        ("/c", "/b", Place.MOVING),
    ):
        now = replace(stored, log_dirs={replica: path}, moving={replica: (target, 0)})
        assert place_of(replica, ("/a", "/b"), now) is place


@pytest.mark.parametrize("phase", [Phase.THROTTLED, Phase.STARTING])
def test_after_a_kill_no_wave_begins_that_ends_too_late(typing: Typing, phase: Phase) -> None:
    """``--until`` counts for the wave that holds the cluster too, as long as nothing was started."""
    terminal = typing()
    killed_at(terminal, f"append {phase}", f"./ballast run {PLAN}")
    hold = terminal.journal.look().holder
    assert hold
    assert (hold.wave, hold.phase) == (WaveId(1), phase)
    terminal.lab.plan = replace(
        terminal.lab.plan, manifest={**terminal.lab.plan.manifest, "wave_seconds": {"1": 90_000, "2": 1}}
    )
    ended = terminal.run("--until 06:00")
    assert (ended.code, "is not started: it takes about" in ended.error) == (4, True)
    assert terminal.lab.kafka.moves == {}


def test_a_run_for_a_time_does_not_wait_longer_for_an_owed_broker(typing: Typing) -> None:
    """The time of ``--for`` is over before the time of a stall."""
    terminal = typing()
    lab = terminal.lab
    lab.events += [(8, lambda: lab.kafka.dead.add(1))]
    begun = lab.clock.seconds
    ended = terminal.run("--for 1 --stall-minutes 30")
    assert (ended.code, lab.clock.seconds - begun < 120) == (4, True)


def test_a_healthy_topic_below_min_insync_replicas_is_no_sign() -> None:
    """With factor 2 and min.insync.replicas 3 it takes no writes with acks=all, but its replicas are well."""
    now = replace(cluster_at({("t", 0): (1, 2)}), min_isr={"t": 3})
    assert list(signs(now, now.min_isr)) == []
