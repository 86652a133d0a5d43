"""The comparison of a cluster with a plan: what is done, what differs, what is left, and whether to go on."""

import json
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from execution import journal, run_step
from execution.directories import Misplaced
from execution.observed import Stored, TopicPartition
from execution.stored_snapshot import Snapshot
from execution.verify import Verification, verify
from optimizer.kafka.throttle import FOLLOWER_RATE, FOLLOWER_REPLICAS, LEADER_RATE, LOG_DIR_RATE
from tests.execution import rows
from tests.execution.lab import AFTER, BEFORE, RATE, Build, Lab, bare_wave
from tests.execution.scene import FakeAdmin
from tests.execution.test_cli import Commands
from tests.execution.test_preflight import BEFORE as START
from tests.execution.test_preflight import at
from tests.execution.warehouse import load_plan, usual_plan, write_plan

ALL = {**BEFORE, ("x", 0): (1, 2), ("x", 1): (2, 3)}
KEY = "--run-id r --cluster c"
RUN = f"./ballast run {KEY}"
OFF = f"./ballast wave off {KEY} --wave"
NOBODY: dict[str, list[TopicPartition]] = {"drifted": [], "gone": [], "new": []}
RESULT = Verification(
    cluster_id="c",
    run_id="r",
    waves=2,
    compared_with="the cluster now",
    partitions={"done": 1, "moving": 0, "not started": 1, "recreated": 0, "gone": 0, "drifted": 1},
    skipped=["1 partition was moved by somebody else: t-0"],
    others={"drifted": [("x", 0)], "gone": [], "new": [("y", 1), ("y", 0)]},
    not_led=1,
    misplaced=[Misplaced(("t", 1, 3), 5, "/b", "/a")],
    holder="wave 1 of run s holds the cluster (ann; held at 2026-11-27 21:00 UTC)",
    revoked=None,
    throttles_left={2: ["brokers 1 a=1", "brokers 2 a=1"]},
    foreign_throttles=["brokers 9 a=7"],
    throttles_unknown="broker 3 does not answer",
    conclusion="plan again",
    reasons=["2 partitions are new", "1 partition has gone"],
    to_do=["wait", "look"],
)
# Other programs read them: do not rename them.
KEYS = [
    *("cluster_id", "run_id", "waves", "compared_with", "partitions", "skipped", "others", "not_led", "misplaced"),
    *(
        "holder",
        "revoked",
        "throttles_left",
        "foreign_throttles",
        "throttles_unknown",
        "conclusion",
        "reasons",
        "to_do",
        "exit_code",
    ),
]


def test_the_text() -> None:
    """The conclusion is the last line; of names only the first few."""
    assert list(RESULT.lines()) == [
        "cluster c: run r, 2 waves, compared with the cluster now",
        "3 partitions in the plan: 1 done, 1 not started, 1 drifted",
        "skipped: 1 partition was moved by somebody else: t-0",
        "other partitions, drifted: 1 (x-0)",
        "other partitions, new: 2 (y-0, y-1)",
        "1 partition is done, but not led by the first replica",
        "broker 3: 1 replica is in another directory than planned, 5 B: t-1 in /b, not /a",
        "wave 1 of run s holds the cluster (ann; held at 2026-11-27 21:00 UTC)",
        "throttles of wave 2 are set, but no wave holds the cluster: 2 (brokers 1 a=1 and 1 more)",
        "throttles that somebody else has set since the snapshot: 1 (brokers 9 a=7)",
        "broker 3 does not answer",
        "plan again: 2 partitions are new; 1 partition has gone. Before that: wait; then look",
    ]


def test_the_json_has_the_same_keys_in_every_release() -> None:
    """One line."""
    content = json.loads(RESULT.to_json())
    assert list(content) == KEYS
    assert (content["others"]["drifted"], content["throttles_left"]["2"][0]) == ([["x", 0]], "brokers 1 a=1")
    assert (content["exit_code"], "\n" in RESULT.to_json()) == (6, False)


def compared(lab: Lab, lists: Mapping[TopicPartition, tuple[int, ...]] = ALL, **changes: Any) -> Verification:
    """The plan compared with the cluster now, after some changes of its state."""
    state = replace(lab.kafka.observe(), **changes)
    return verify(lab.warehouse, lab.plan, lab.waves, lists, Snapshot("the cluster now", state))


def last_line(result: Verification) -> str:
    """The conclusion."""
    *_, line = result.lines()
    return line


def counts(result: Verification) -> dict[str, int]:
    """The partitions by state, without zeros."""
    return {state: count for state, count in result.partitions.items() if count}


@pytest.fixture
def lab(build: Build) -> Lab:
    """A cluster with two partitions that the plan does not change."""
    result = build()
    result.kafka.replicas = dict(ALL)
    result.kafka.leaders = {partition: brokers[0] for partition, brokers in ALL.items()}
    return result


def executed(lab: Lab) -> Lab:
    """The lab after all waves."""
    lab.run()
    return lab


def test_a_plan_that_has_not_begun_goes_on(lab: Lab) -> None:
    """Exit code 4, with the command."""
    result = compared(lab)
    assert (counts(result), result.others, result.reasons) == ({"not started": 3}, NOBODY, [])
    assert list(result.lines()) == [
        "cluster c: run r, 2 waves, compared with the cluster now",
        "3 partitions in the plan: 3 not started",
        f"go on: {RUN}",
    ]
    assert result.exit_code == 4


def test_a_plan_that_is_executed_is_done(lab: Lab) -> None:
    """Exit code 0."""
    result = compared(executed(lab))
    assert (counts(result), result.throttles_left, result.holder) == ({"done": 3}, {}, None)
    assert (last_line(result), result.exit_code) == ("done: everything is as planned", 0)


def test_a_running_wave_goes_on(lab: Lab) -> None:
    """It holds the cluster, so its throttles are not left, also those that an operator has changed."""
    lab.start()
    lab.want(copy_bytes_per_s=RATE // 2)
    lab.kafka.throttles["brokers", "3", FOLLOWER_RATE] = str(RATE // 2)
    result = compared(lab)
    assert counts(result) == {"moving": 2, "not started": 1}
    assert (result.throttles_left, result.foreign_throttles) == ({}, [])
    assert result.holder is not None
    assert result.holder.startswith("wave 1 of run r holds the cluster (")
    assert last_line(result) == f"go on: {RUN}"


def test_a_revoked_plan_is_approved_before_it_goes_on(lab: Lab) -> None:
    """Its run would be refused; the output has who revoked it. If nothing is left to do it is done."""
    revocation = {"approved_by": "eve", "approved_at": datetime(2026, 11, 2, tzinfo=UTC)}
    lab.plan = replace(lab.plan, revocation=revocation)
    result = compared(lab)
    assert result.to_do == [f"./ballast approve {KEY}", RUN]
    assert "eve revoked the approval of this plan at 2026-11-02 00:00 UTC" in list(result.lines())
    lab.start()
    result = compared(lab, {**BEFORE, ("x", 0): (1, 2)})
    assert result.to_do == ["cancel wave 1 with ./ballast cancel --cluster c"]


@pytest.mark.parametrize(
    ("waves", "by", "options"),
    [([2, 1], "ann", "--all --by ann"), ([2], "ann b", "--wave 2 --by 'ann b'"), ([1], "ann", "--wave 2")],
)
def test_a_killed_rollback_goes_on_with_its_own_command(lab: Lab, waves: list[int], by: str, options: str) -> None:
    """Its waves and its name are those of the journal; a rollback that another wave has refused does not count."""
    executed(lab)
    rows.record_rollback(lab.warehouse, lab.plan, waves, by)
    rows.record(lab.warehouse, lab.plan, -2, journal.HELD)
    rows.record_rollback(lab.warehouse, lab.plan, [1], "bob")
    assert compared(lab).to_do == [f"./ballast rollback {KEY} {options}"]


def test_a_wave_that_holds_the_cluster_has_to_be_ended(lab: Lab) -> None:
    """Even if all partitions are done: only run or the step off removes its throttles."""
    executed(lab)
    rows.record(lab.warehouse, lab.plan, 2, journal.HELD)
    assert (last_line(compared(lab)), compared(lab).throttles_left) == (f"go on: {RUN}", {})


def test_leaders_that_are_not_elected_are_counted(lab: Lab) -> None:
    """``run`` elects them; only partitions that are done count."""
    executed(lab)
    lab.kafka.leaders["t", 0], lab.kafka.leaders["x", 0] = 3, 2
    result = compared(lab)
    assert (result.not_led, last_line(result)) == (1, f"go on: {RUN}")


@pytest.mark.parametrize(
    ("change", "state", "line"),
    [
        (
            {"in_flight": {("t", 0): (4, 5)}},
            "drifted",
            "1 partition was moved by somebody else: t-0; t-0 moves to [4, 5], the plan expects [1, 2]",
        ),
        (
            {"replicas": {**ALL, ("t", 0): (4, 5)}},
            "drifted",
            "1 partition was moved by somebody else: t-0; t-0 has [4, 5], the plan expects [1, 2]",
        ),
        (
            {
                "replicas": {p: b for p, b in ALL.items() if p[0] != "u"},
                "topic_ids": {"t": "t-id", "x": "x-id"},
            },
            "gone",
            "1 topic does not exist any more: u",
        ),
    ],
    ids=["moves elsewhere", "is elsewhere", "is deleted"],
)
def test_what_the_plan_cannot_move_needs_a_new_plan(lab: Lab, change: dict[str, Any], state: str, line: str) -> None:
    """Exit code 6, with the reason of each kind; moves that run have to end first."""
    result = compared(lab, **change)
    assert counts(result) == {state: 1, "not started": 2}
    assert (result.skipped, result.others) == ([line], NOBODY)
    wait = ". Before that: wait until 1 partition has moved, or cancel its move" if "in_flight" in change else ""
    assert last_line(result) == f"plan again: the plan cannot move 1 partition any more{wait}"
    assert result.exit_code == 6


def test_a_recreated_topic_needs_a_new_plan(lab: Lab) -> None:
    """Even if its partitions are where the plan wants them."""
    executed(lab)
    lab.waves = (replace(lab.waves[0], topic_ids={"t": "earlier"}), replace(lab.waves[1], topic_ids={"t": "earlier"}))
    result = compared(lab)
    assert counts(result) == {"done": 1, "recreated": 2}
    assert result.skipped == ["1 topic was deleted and created again since the snapshot: t"]
    assert last_line(result) == "plan again: the plan cannot move 2 partitions any more"


def test_other_partitions_are_compared_with_the_snapshot_of_the_plan(lab: Lab) -> None:
    """Their brokers count, not the order; of a partition in flight its target. Topics that are gone do not matter."""
    lists = {**ALL, ("x", 0): (2, 1), ("x", 1): (3, 4), ("z", 0): (1, 2)}
    result = compared(lab, lists)
    assert result.others == {"drifted": [("x", 1)], "gone": [("z", 0)], "new": []}
    assert last_line(result) == "plan again: 1 other partition has other brokers than in the snapshot"
    result = compared(lab, lists, in_flight={("x", 1): (4, 3)})
    assert (result.others, result.conclusion) == ({"drifted": [], "gone": [("z", 0)], "new": []}, "go on")


def test_new_partitions_need_a_new_plan(lab: Lab) -> None:
    """Also after the last wave: the balance of the plan is without them."""
    executed(lab)
    result = compared(lab, {**BEFORE, ("x", 0): (1, 2)})
    assert result.others == {**NOBODY, "new": [("x", 1)]}
    assert last_line(result) == "plan again: 1 partition is new"


def test_without_the_snapshot_of_the_plan_only_its_partitions_are_compared(lab: Lab) -> None:
    """Somebody has deleted old rows of the tables; nothing is new then."""
    result = compared(lab, {})
    assert (result.others, result.conclusion) == (None, "go on")
    deleted = "other partitions are not compared: the snapshot of the plan was deleted from table instance"
    assert list(result.lines())[2] == deleted


def test_a_new_plan_waits_for_a_wave_of_this_plan(lab: Lab) -> None:
    """It runs to its end, or is cancelled."""
    lab.start()
    result = compared(lab, {**BEFORE, ("x", 0): (1, 2)})
    end = "let wave 1 end with ./ballast run --run-id r --cluster c, or cancel it with ./ballast cancel --cluster c"
    assert last_line(result) == f"plan again: 1 partition is new. Before that: {end}"


def test_an_expired_plan_is_planned_again_unless_a_wave_of_it_has_ended(lab: Lab) -> None:
    """As ``run`` checks it: half a plan is worse than an old one. A plan that is done does not expire."""
    valid, day = lab.plan, {**lab.plan.manifest, "valid_until": "2026-11-02T00:00:00+00:00"}
    lab.plan = replace(valid, manifest=day)
    expired = "plan again: the plan expired at 2026-11-02 00:00 UTC, before any of its waves was executed"
    assert last_line(compared(lab)) == expired
    assert compared(lab, replicas={**ALL, **AFTER}).conclusion == "done"
    lab.process().throttle()
    assert last_line(compared(lab)) == f"go on: {RUN}"
    for event in (journal.EXECUTED, journal.RELEASED):
        rows.record(lab.warehouse, lab.plan, 1, event)
    lab.kafka.throttles.clear()
    assert last_line(compared(lab)) == f"go on: {RUN}"


def test_a_plan_that_another_run_has_overtaken_is_planned_again(lab: Lab) -> None:
    """If something of it waits: a plan that is done stays so."""
    other = replace(lab.plan, run_id="other")
    for event in (journal.HELD, journal.STARTING, journal.RELEASED):
        rows.record(lab.warehouse, other, 3, event)
    overtaken = "plan again: wave 3 of run 'other' was executed after the snapshot of the plan"
    assert last_line(compared(lab)) == overtaken
    assert compared(lab, replicas={**ALL, **AFTER}).conclusion == "done"


def test_throttles_that_are_left_are_named_with_the_command_that_removes_them(lab: Lab) -> None:
    """Also those of a list that has other replicas too. A rate that waves share counts once."""
    executed(lab)
    first, second = lab.waves
    lab.kafka.throttles = {**first.throttles, ("brokers", "1", LEADER_RATE): str(RATE)}
    left = compared(lab).throttles_left
    assert {number: len(lines) for number, lines in left.items()} == {1: len(first.throttles)}
    assert last_line(compared(lab)) == f"go on: {OFF} 1"
    key = "topics", "u", FOLLOWER_REPLICAS
    lab.kafka.throttles = {key: f"7:7,{second.throttles[key]}", ("topics", "u", "x"): ""}
    result = compared(lab)
    assert (result.throttles_left, last_line(result)) == (
        {2: [f"topics u {FOLLOWER_REPLICAS}=7:7,0:5"]},
        f"go on: {OFF} 2",
    )
    assert result.foreign_throttles == [f"topics u {FOLLOWER_REPLICAS}=7:7,0:5"]


def test_a_rate_alone_is_left_of_one_wave(lab: Lab) -> None:
    """Broker 1 sends in both waves: the first removes its rate."""
    executed(lab)
    lab.kafka.throttles = {("brokers", "1", LEADER_RATE): str(RATE)}
    assert all(("brokers", "1", LEADER_RATE) in wave.throttles for wave in lab.waves)
    assert compared(lab).throttles_left == {1: [f"brokers 1 {LEADER_RATE}={RATE}"]}
    lab.kafka.throttles["topics", "u", FOLLOWER_REPLICAS] = "0:5"
    assert list(compared(lab).throttles_left) == [2]


def test_run_removes_the_throttles_of_waves_that_it_executes(lab: Lab) -> None:
    """So only a wave that is done needs the step off; before a new plan every wave needs it."""
    lab.kafka.throttles = {**lab.waves[0].throttles, **lab.waves[1].throttles}
    assert last_line(compared(lab)) == f"go on: {RUN}"
    lab.kafka.replicas = {**ALL, ("t", 0): (1, 3), ("t", 1): (2, 3)}
    lab.kafka.leaders["t", 1] = 2
    assert last_line(compared(lab)) == f"go on: {OFF} 1; then {RUN}"
    assert last_line(compared(lab, BEFORE)) == f"plan again: 2 partitions are new. Before that: {OFF} 1; then {OFF} 2"


def test_throttles_of_the_snapshot_are_nobodys(lab: Lab) -> None:
    """The waves restore them; what somebody has set since is named."""
    executed(lab)
    before = {("brokers", "1", LEADER_RATE): str(RATE), ("topics", "x", FOLLOWER_REPLICAS): "*"}
    lab.waves = (
        replace(lab.waves[0], previous_throttles=before),
        replace(lab.waves[1], previous_throttles=before),
    )
    lab.kafka.throttles = {**before, ("brokers", "2", LEADER_RATE): "7", ("topics", "t", FOLLOWER_REPLICAS): "9:9"}
    result = compared(lab)
    assert (result.throttles_left, result.conclusion) == ({}, "done")
    assert result.foreign_throttles == [f"brokers 2 {LEADER_RATE}=7", f"topics t {FOLLOWER_REPLICAS}=9:9"]


def test_throttles_are_not_compared_while_another_plan_holds_the_cluster(lab: Lab) -> None:
    """They may be of that plan."""
    rows.record(lab.warehouse, replace(lab.plan, run_id="other"), 1, journal.HELD)
    lab.kafka.throttles = dict(lab.waves[0].throttles)
    result = compared(lab)
    assert (result.throttles_left, result.foreign_throttles) == ({}, [])
    assert result.throttles_unknown == "throttles are not compared, because they may be of that wave"
    assert result.holder is not None
    assert result.holder.startswith("wave 1 of run other holds the cluster (")


def test_throttles_of_silent_brokers_are_unknown(lab: Lab) -> None:
    """As for the waves."""
    result = compared(lab, silent=frozenset({4}))
    assert result.throttles_unknown == "broker 4 does not answer, so its throttles are unknown"


def test_a_snapshot_without_configs_has_unknown_throttles(lab: Lab) -> None:
    """Neither own nor foreign ones are reported."""
    state = replace(lab.kafka.observe(), throttles={("brokers", "9", LEADER_RATE): "7"})
    snapshot = Snapshot("the snapshot of run s", state, has_throttles=False)
    result = verify(lab.warehouse, lab.plan, lab.waves, ALL, snapshot)
    assert (result.throttles_left, result.foreign_throttles) == ({}, [])
    assert result.throttles_unknown == "throttles are unknown: the inputs of this snapshot have no configs"


def test_a_wave_holds_the_cluster_at_the_time_of_a_snapshot(lab: Lab) -> None:
    """Events after the snapshot do not count: the wave has ended since."""
    executed(lab)
    for event in lab.warehouse.stored:
        if event["event"] == journal.RELEASED and event["wave"] == 1:
            snapshot = Snapshot("s", lab.kafka.observe(), captured_at=event["happened_at"])
            earlier = replace(snapshot, captured_at=event["happened_at"].replace(year=2020))
    assert verify(lab.warehouse, lab.plan, lab.waves, ALL, snapshot).holder is None
    assert verify(lab.warehouse, lab.plan, lab.waves, ALL, earlier).holder is None
    held = next(row for row in lab.warehouse.stored if row["event"] == journal.THROTTLED)
    during = verify(lab.warehouse, lab.plan, lab.waves, ALL, replace(snapshot, captured_at=held["happened_at"]))
    assert during.holder is not None


@pytest.fixture
def commands(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Commands:
    """Commands on a plan that nobody has approved, and a cluster where its first wave is done."""
    fake = FakeAdmin([], [replace(at(1, 3), leaders={**START.leaders})])
    monkeypatch.setattr(run_step, "KafkaAdmin", lambda client: nullcontext(fake))
    return Commands(write_plan(tmp_path / "w", usual_plan()), capsys)


def test_the_command_needs_no_approval_and_changes_nothing(commands: Commands) -> None:
    """Its exit code is that of the conclusion, without an error; the same with JSON."""
    ended = commands.run("verify", "--bootstrap-server", "h:1")
    assert (ended.code, ended.err) == (4, "")
    assert ended.out.splitlines() == [
        "cluster c: run r, 2 waves, compared with the cluster now",
        "2 partitions in the plan: 1 done, 1 not started",
        "other partitions are not compared: the snapshot of the plan was deleted from table instance",
        f"go on: {RUN.replace(' run ', ' run --bootstrap-server h:1 ')}",
    ]
    content = json.loads(commands.run("verify", "--bootstrap-server", "h:1", "--json").out)
    assert (content["conclusion"], content["exit_code"]) == ("go on", 4)
    assert commands.warehouse.rows("executions") == []


def test_a_cluster_needs_servers(commands: Commands) -> None:
    """As for the commands that steer."""
    assert commands.run("verify").code == 2
    assert commands.run("verify", "--bootstrap-server", "h:port").code == 2


@pytest.mark.parametrize("option", ["--bootstrap-server", "--client-config"])
def test_a_later_run_needs_no_connection(commands: Commands, option: str) -> None:
    """Both together are a usage error."""
    ended = commands.run("verify", "--later-run-id", "s", option, "h:1")
    assert (ended.code, ended.err.partition(": give")[0]) == (2, "error: --later-run-id reads only tables")


def test_a_changed_document_is_refused(commands: Commands) -> None:
    """A comparison with another plan than the one that was approved is worth nothing."""
    DeltaTable(f"{commands.warehouse.path}/documents").delete("path = 'c/wave-02/reassignment.json'")
    assert commands.run("verify", "--bootstrap-server", "h:1").code == 3
    assert load_plan(commands.warehouse).approvals == ()


PLANNED = {("t", 0, 3): "/x", ("t", 1, 3): "/y"}


def with_directories(lab: Lab, **paths: str) -> Verification:
    """The comparison if brokers have several directories; ``t0_3="/x"`` is the directory of a replica of topic t."""
    names = {("t", int(name[1]), int(name[3])): path for name, path in paths.items()}
    stored = Stored(dict.fromkeys(names, 5), {}, log_dirs=names)
    state = replace(lab.kafka.observe(), stored=stored)
    return verify(lab.warehouse, lab.plan, lab.waves, ALL, Snapshot("x", state, directories=stored))


def test_a_replica_in_another_directory_goes_on(lab: Lab) -> None:
    """It needs no new plan; the command moves it. An unknown directory is no difference."""
    executed(lab)
    first, second = lab.waves
    lab.waves = (replace(first, log_dirs=PLANNED), second)
    result = with_directories(lab, t0_3="/x", t1_3="/z")
    assert result.misplaced == [Misplaced(("t", 1, 3), 5, "/z", "/y")]
    assert list(result.lines())[2:] == [
        "broker 3: 1 replica is in another directory than planned, 5 B: t-1 in /z, not /y",
        f"go on: {RUN} --fix-dirs",
    ]
    assert json.loads(result.to_json())["misplaced"] == [
        {"replica": ["t", 1, 3], "size_bytes": 5, "actual": "/z", "planned": "/y"}
    ]
    result = with_directories(lab, t0_3="/x")
    assert (result.misplaced, result.conclusion) == ([], "done")


def test_directories_that_the_snapshot_does_not_have_are_not_compared(lab: Lab) -> None:
    """If the plan names any."""
    executed(lab)
    assert compared(lab).misplaced == []
    first, second = lab.waves
    lab.waves = (replace(first, log_dirs=PLANNED), second)
    result = compared(lab)
    assert (result.misplaced, result.conclusion) == (None, "done")
    assert "directories are not compared: the inputs of this snapshot have none" in list(result.lines())


def test_a_wave_inside_brokers_is_compared(lab: Lab) -> None:
    """By the directories; its partitions keep their lists and leaders, and its rate is its own."""
    executed(lab)
    lab.kafka.replicas["i", 0] = (1, 2)
    lab.kafka.leaders["i", 0] = 2
    key = ("brokers", "1", LOG_DIR_RATE)
    wave = bare_wave({("i", 0): (1, 2)}, {("i", 0): (1, 2)}, inside={("i", 0, 1): ("/a", "/b")})
    waves = (*lab.waves, replace(wave, number=3, throttles={key: "7"}))
    lists = {**ALL, ("i", 0): (1, 2)}

    def found(path: str, to: str = "") -> Verification:
        replica = ("i", 0, 1)
        stored = Stored({replica: 5}, {}, log_dirs={replica: path}, moving={replica: (to, 1)} if to else {})
        state = replace(lab.kafka.observe(), stored=stored)
        return verify(lab.warehouse, lab.plan, waves, lists, Snapshot("x", state, directories=stored))

    assert counts(found("/a")) == {"done": 3, "not started": 1}
    assert counts(found("/a", to="/b")) == {"done": 3, "moving": 1}
    assert last_line(found("/b")) == "done: everything is as planned"
    again = found("/c")
    assert (counts(again), again.conclusion) == ({"done": 3, "drifted": 1}, "plan again")
    assert again.skipped == [
        "1 partition was moved by somebody else: i-0; i-0 on broker 1 is in /c, the plan expects /a or /b"
    ]
    lab.kafka.throttles[key] = "7"
    assert found("/b").throttles_left == {3: [f"brokers 1 {LOG_DIR_RATE}=7"]}
    lab.kafka.throttles = {("brokers", "2", LOG_DIR_RATE): "9"}
    assert found("/b").foreign_throttles == []


@pytest.mark.parametrize("stored", [None, Stored({("t", 0, 1): 5}, {}, log_dirs={("t", 0, 1): "/a"})])
def test_a_later_snapshot_without_directories_does_not_compare_moves_inside_brokers(
    lab: Lab, stored: Stored | None
) -> None:
    """They do not move, and executing the plan again would not show them either."""
    executed(lab)
    lab.kafka.replicas["i", 0] = (1, 2)
    lab.kafka.leaders["i", 0] = 1
    wave = bare_wave({("i", 0): (1, 2)}, {("i", 0): (1, 2)}, inside={("i", 0, 1): ("/a", "/b")})
    waves, lists = (*lab.waves, replace(wave, number=3)), {**ALL, ("i", 0): (1, 2)}
    state = replace(lab.kafka.observe(), stored=stored)
    live = verify(lab.warehouse, lab.plan, waves, lists, Snapshot("x", state, directories=stored))
    assert (counts(live), live.conclusion) == ({"done": 3, "moving": 1}, "go on")
    later = Snapshot("x", state, directories=stored, is_live=False)
    result = verify(lab.warehouse, lab.plan, waves, lists, later)
    assert (counts(result), result.to_do) == ({"done": 3, "not compared": 1}, [])
    assert last_line(result) == "done: everything that was compared is as planned"
    line = "1 partition is not compared: this snapshot does not have the directories of its replicas"
    assert line in list(result.lines())
    lab.kafka.replicas["i", 0] = (1, 3)
    state = replace(lab.kafka.observe(), stored=stored)
    result = verify(lab.warehouse, lab.plan, waves, lists, replace(later, state=state))
    assert (counts(result), result.conclusion) == ({"done": 3, "drifted": 1}, "plan again")


def test_a_wave_inside_brokers_that_goes_back_has_not_drifted(lab: Lab) -> None:
    """Its replicas move to their old directories, and count as there."""
    executed(lab)
    lab.kafka.replicas["i", 0] = (1, 2)
    replica = ("i", 0, 1)
    wave = bare_wave({("i", 0): (1, 2)}, {("i", 0): (1, 2)}, inside={replica: ("/a", "/b")})
    waves = (*lab.waves, replace(wave, number=3))
    stored = Stored({replica: 5}, {}, log_dirs={replica: "/b"}, moving={replica: ("/a", 1)})
    rows.record(lab.warehouse, lab.plan, -3, journal.HELD)
    state = replace(lab.kafka.observe(), stored=stored)
    result = verify(lab.warehouse, lab.plan, waves, {**ALL, ("i", 0): (1, 2)}, Snapshot("x", state))
    assert (counts(result), result.conclusion) == ({"done": 3, "not started": 1}, "go on")
    assert result.to_do == [f"./ballast rollback {KEY} --wave 3"]
