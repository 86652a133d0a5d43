"""Waves that move replicas inside their brokers, on a fake cluster with a fake clock."""

import json
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from execution import fix_dirs as fixing
from execution.actions import Patience
from execution.admin import NO_ANSWER
from execution.held import changes_of, wave_of
from execution.in_charge import in_charge
from execution.journal import Journal, WaveId
from execution.moves import next_moves
from execution.observed import Observed, Place, Replica, Stored, place_of
from execution.planned import Plan
from execution.progress import CopySize, brokers_of, running_copies, waiting_bytes
from execution.rollback import roll_back, say_rollback
from execution.run import dry_run
from execution.status import status
from execution.steer_command import steer_wave
from execution.steps import Incomplete, Owed, StillMoving
from execution.wanted import Wanted, rates
from execution.watch import Stalled, Stopped, Watch
from execution.wave import MoveState, Wave, rollback_of
from optimizer.errors import BallastError
from optimizer.kafka.throttle import LOG_DIR_RATE
from stored.verdicts import Refused
from tests.execution import rows
from tests.execution.fake_kafka import Killed
from tests.execution.lab import FIRST, LIMITS, MB, MODULES, RATE, SIZE, Lab, bare_wave, cluster_at
from tests.execution.warehouse import VALID_HOURS, Inside, load_plan, load_wave, plan_of, write_plan

U, V = ("u", 0), ("v", 0)
INSIDE: Inside = {U: ([4, 1], {4: ("/a", "/b"), 1: ("/a", "/c")}), V: ([4, 5], {4: ("/b", "/a")})}
MOVES = {(*U, 4): ("/a", "/b"), (*U, 1): ("/a", "/c"), (*V, 4): ("/b", "/a")}
OLD = {replica: before for replica, (before, _) in MOVES.items()}
NEW = {replica: after for replica, (_, after) in MOVES.items()}
RATES = {("brokers", str(broker), LOG_DIR_RATE): str(RATE) for broker in (1, 4)}
WAVE = ["held", "throttled", "starting", "executed", "copied", "removing", "released"]
InsideBuild = Callable[..., Lab]


@pytest.fixture(scope="session")
def planned(tmp_path_factory: pytest.TempPathFactory) -> tuple[Plan, tuple[Wave, Wave]]:
    """A wave that moves partitions between brokers, then one that moves replicas inside brokers."""
    content = replace(plan_of([FIRST], topic_ids={}, rate=RATE, inside=[INSIDE]), valid_hours=VALID_HOURS)
    warehouse = write_plan(tmp_path_factory.mktemp("inside"), content)
    first, second = (replace(load_wave(warehouse, number), previous_throttles={}) for number in (1, 2))
    plan = load_plan(warehouse)
    return replace(plan, manifest={**plan.manifest, "wave_seconds": {"1": 30, "2": 30}}), (first, second)


@pytest.fixture
def build(
    planned: tuple[Plan, tuple[Wave, Wave]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[InsideBuild]:
    """Builds a lab whose first wave is done; at the end nothing may have moved without its rate."""
    labs: list[Lab] = []

    def build_lab(**options: Any) -> Lab:
        lab = Lab(*planned, tmp_path, **options)
        lab.clock.use(monkeypatch, *MODULES, fixing)
        lab.kafka.replicas |= {("t", 0): (1, 3), ("t", 1): (2, 3), V: (4, 5)}
        lab.kafka.leaders |= {("t", 0): 1, ("t", 1): 2, V: 4}
        lab.sizes |= {(*V, 4): SIZE, (*V, 5): SIZE}
        lab.kafka.log_dirs = dict(OLD)
        lab.kafka.is_slow_inside, lab.kafka.needed = True, RATES
        labs.append(lab)
        return lab

    yield build_lab
    for lab in labs:
        assert lab.kafka.unthrottled == []
        assert not [name for name, _ in lab.kills.calls if name.startswith("move ('")], "lists were changed"


def begun(lab: Lab, seconds: float = 4.0) -> None:
    """Run the wave for a while: then its copies are on their way."""
    with pytest.raises(StillMoving):
        lab.run(for_seconds=seconds)
    assert set(lab.kafka.inside) == set(MOVES)


def test_a_wave_has_the_moves_of_its_documents(planned: tuple[Plan, tuple[Wave, Wave]]) -> None:
    """Its lists stay as they are; its rollback exchanges the directories, and the journal has them too."""
    plan, (first, wave) = planned
    assert (first.inside, plan.manifest["dir_move_waves"]) == ({}, [2])
    assert (wave.inside, wave.throttles, wave.copies, wave.copy_bytes_per_s) == (MOVES, RATES, True, RATE)
    assert wave.before == wave.after == {U: (4, 1), V: (4, 5)}
    assert (wave.new_lists, first.new_lists) == ({}, first.after)
    back = rollback_of(wave)
    assert (back.id, back.throttles, back.copy_bytes_per_s) == (WaveId(2, is_rollback=True), RATES, RATE)
    assert back.inside == {replica: (after, before) for replica, (before, after) in MOVES.items()}
    baseline: Any = type("None", (), {"to_data": lambda _: None})()
    changes = changes_of(wave, {}, baseline)
    assert wave_of(WaveId(2), changes).inside == MOVES


def dirs(paths: dict[Replica, str], *reporting: int, **moving: str) -> Stored:
    """Directories of replicas, and brokers that report theirs; of one topic its replica on broker 4 moves."""
    sizes = dict.fromkeys(paths, 10)
    copies = {(topic, 0, 4): (path, 3) for topic, path in moving.items()}
    return Stored(sizes, {}, log_dirs=paths, moving=copies, reporting=frozenset(reporting))


@pytest.mark.parametrize(
    ("stored", "place"),
    [
        (None, Place.UNKNOWN),
        (dirs({}), Place.UNKNOWN),
        (dirs({}, 1), Place.UNKNOWN),
        (dirs({}, 4), Place.MISSING),
        (dirs({}, 4, u="/b"), Place.MISSING),
        (dirs({(*U, 4): "/a"}), Place.OLD),
        (dirs({(*U, 4): "/b"}), Place.PLANNED),
        (dirs({(*U, 4): "/c"}), Place.OTHER),
        (dirs({(*U, 4): "/a"}, u="/b"), Place.MOVING),
        (dirs({(*U, 4): "/c"}, u="/b"), Place.MOVING),
        (dirs({(*U, 4): "/a"}, u="/c"), Place.OTHER),
        (dirs({(*U, 4): "/b"}, u="/a"), Place.RETURNING),
        (dirs({(*U, 4): "/b"}, u="/c"), Place.OTHER),
    ],
)
def test_a_replica_is_where_its_broker_reports_it(stored: Stored | None, place: Place) -> None:
    """A replica that moves anywhere else than planned is somebody else's."""
    assert place_of((*U, 4), ("/a", "/b"), stored) is place


TWO = bare_wave({U: (4, 1)}, {U: (4, 1)}, inside={(*U, 4): ("/a", "/b"), (*U, 1): ("/a", "/c")})
ONE_MOVES = dirs({(*U, 4): "/a", (*U, 1): "/a"}, u="/b")


def at(stored: Stored | None, brokers: tuple[int, ...] = (4, 1), **fields: Any) -> Observed:
    """The partition of two moves with these directories."""
    return replace(cluster_at({U: brokers}), stored=stored, **fields)


@pytest.mark.parametrize(
    ("now", "state", "moves"),
    [
        (at(dirs({(*U, 4): "/a", (*U, 1): "/a"})), MoveState.NOT_STARTED, False),
        (at(ONE_MOVES), MoveState.NOT_STARTED, True),
        (at(dirs({(*U, 4): "/b", (*U, 1): "/a"})), MoveState.NOT_STARTED, False),
        (at(dirs({(*U, 4): "/a", (*U, 1): "/c"}, u="/b")), MoveState.IN_FLIGHT, True),
        (at(dirs({(*U, 4): "/b", (*U, 1): "/c"})), MoveState.DONE, False),
        (at(dirs({(*U, 4): "/b", (*U, 1): "/c"}), (1, 4)), MoveState.DONE, False),
        (at(dirs({(*U, 4): "/b", (*U, 1): "/c"}), (4, 2)), MoveState.OTHER, False),
        (at(dirs({(*U, 4): "/b", (*U, 1): "/c"}), in_flight={U: (4, 1)}), MoveState.OTHER, False),
        (at(dirs({(*U, 4): "/d", (*U, 1): "/c"})), MoveState.OTHER, False),
        (at(dirs({(*U, 4): "/a", (*U, 1): "/d"}, u="/b")), MoveState.OTHER, True),
        (at(dirs({(*U, 4): "/a", (*U, 1): "/a"}, u="/b"), (4, 1, 2)), MoveState.OTHER, True),
        (at(dirs({(*U, 4): "/a", (*U, 1): "/a"}, u="/d")), MoveState.OTHER, False),
        (at(dirs({(*U, 4): "/b", (*U, 1): "/c"}, u="/a")), MoveState.OTHER, True),
        (at(dirs({(*U, 4): "/b"})), MoveState.IN_FLIGHT, True),
        (at(dirs({(*U, 4): "/b"}, 1, 4)), MoveState.OTHER, False),
        (at(None), MoveState.IN_FLIGHT, True),
        (replace(cluster_at({V: (4, 5)}), stored=dirs({})), MoveState.DELETED, False),
    ],
)
def test_the_state_of_a_partition(now: Observed, state: MoveState, moves: bool) -> None:
    """It waits if any replica waits; it may move if any broker does not report its replica; the order is free.

    A copy to the planned directory is the wave's, also if somebody else has changed the partition meanwhile.
    """
    assert TWO.state_of(U, now) is state
    assert TWO.moving(now) == ([U] if moves else [])


def test_a_recreated_topic_is_not_moved() -> None:
    """As in other waves."""
    wave = replace(TWO, topic_ids={"u": "old"})
    assert wave.state_of(U, at(ONE_MOVES, topic_ids={"u": "new"})) is MoveState.RECREATED


def test_a_move_of_a_dead_broker_does_not_run() -> None:
    """Nobody knows whether it runs as long as the broker lives and does not answer."""
    unknown = at(dirs({(*U, 4): "/b"}))
    assert TWO.moving(unknown, of_dead=False) == [U]
    assert TWO.moving(replace(unknown, alive=frozenset({4})), of_dead=False) == []


def test_progress_counts_what_the_new_directories_have() -> None:
    """Each replica is copied from itself; what waits has its whole size."""
    now = at(ONE_MOVES)
    assert running_copies(TWO, now, ONE_MOVES) == {(*U, 4): CopySize(10, 3)}
    assert sum(waiting_bytes(TWO, now, ONE_MOVES).values()) == 10
    assert brokers_of(TWO, replace(now, alive=frozenset({1, 2}))) == {1}


def test_the_limit_of_moves_counts_inside_brokers(planned: tuple[Plan, tuple[Wave, Wave]]) -> None:
    """A partition needs each broker inside which it moves; its leader sends nothing."""
    _, (_, wave) = planned
    now = replace(cluster_at({U: (4, 1), V: (5, 4)}), stored=dirs(OLD))
    assert next_moves(wave, now, 0) == [U, V]
    assert next_moves(wave, now, 1) == [U]
    assert next_moves(wave, now, 2) == [U, V]


def test_the_rate_has_no_live_replication(planned: tuple[Plan, tuple[Wave, Wave]]) -> None:
    """So it is what the operator wants of the copies; a pause and pressure lower it."""
    _, (_, wave) = planned
    key = ("brokers", "4", LOG_DIR_RATE)
    states = [Wanted(), Wanted(copy_bytes_per_s=7), Wanted(pressure="slow"), Wanted(is_paused=True)]
    assert [rates(wave, wanted)[key] for wanted in states] == [RATE, 7, RATE // 2, 1]


def test_a_wave_inside_brokers_runs(build: InsideBuild) -> None:
    """Its rate first, then the moves; at the end the rates are gone and leaders are elected."""
    lab = build()
    lab.run()
    assert (lab.kafka.log_dirs, lab.kafka.throttles) == (NEW, {})
    assert lab.journal() == ["running", *WAVE, "electing", "elected", "ended"]
    changes = [name for name, is_read in lab.kills.calls if not is_read and not name.startswith("append")]
    rate = ["alter brokers 1", "alter brokers 4"]
    assert changes == [*rate, "announce to 1", "announce to 4", *rate]
    assert "wave 2 of 2 is started: 2 partitions" in lab.lines
    (row,) = [row for row in lab.warehouse.stored if row["event"] == "copied"]
    assert json.loads(row["result"])["copied_bytes"] == 3 * SIZE
    assert json.loads(row["result"])["measured_seconds"] is not None


def test_an_earlier_rate_comes_back(build: InsideBuild) -> None:
    """The plan has found it; a rate of another broker is nobody's business."""
    lab = build()
    earlier = {("brokers", "4", LOG_DIR_RATE): "5", ("brokers", "2", LOG_DIR_RATE): "6"}
    lab.kafka.throttles |= earlier
    first, second = lab.waves
    lab.waves = (first, replace(second, previous_throttles={("brokers", "4", LOG_DIR_RATE): "5"}))
    lab.run()
    assert (lab.kafka.log_dirs, lab.kafka.throttles) == (NEW, earlier)


def test_a_rate_that_somebody_has_set_since_refuses_the_wave(build: InsideBuild) -> None:
    """Of a broker of the wave, as other throttles; waves between brokers do not need this rate."""
    lab = build()
    lab.kafka.throttles["brokers", "4", LOG_DIR_RATE] = "5"
    with pytest.raises(Refused, match="1 throttle was set by somebody else since the snapshot"):
        lab.process(2).preflight()
    lab.process(1).preflight()


def test_a_pause_says_what_still_flows(build: InsideBuild) -> None:
    """Kafka lets 1 MiB of a move through each time that its meter has forgotten the last one."""
    lab = build()
    begun(lab)
    lab.kafka.needed = {}
    steer_wave(lab.process(2), Namespace(command="pause"), 0.0)
    assert "3 running copies may still get about 3.15 MB in each 11 seconds" in lab.lines
    assert set(lab.kafka.throttles.values()) == {"1"}


def test_leaders_of_partitions_that_move_inside_brokers_are_not_elected(build: InsideBuild) -> None:
    """The plan does not change their lists; those of the other waves are elected after the last wave."""
    lab = build()
    lab.kafka.leaders |= {U: 1, ("t", 0): 3}
    lab.run()
    assert (lab.kafka.leaders[U], lab.kafka.leaders["t", 0]) == (1, 1)
    assert "1 partition that the plan does not change is not led by the first replica" in lab.lines


def test_leaders_do_not_wait_for_waves_inside_brokers(build: InsideBuild) -> None:
    """They are elected before the first such wave, which may run nights later; the end of the plan elects no more."""
    lab = build()
    lab.kafka.leaders["t", 0] = 3
    with pytest.raises(StillMoving):
        lab.run(for_seconds=4.0)
    assert lab.kafka.leaders["t", 0] == 1
    assert lab.journal()[:4] == ["running", "electing", "elected", "held"]
    assert "the first replica leads each partition of the waves between brokers (1 elected)" in lab.lines
    lab.run()
    assert [name for name, _ in lab.kills.calls].count("elect") == 1
    assert lab.lines[-1] == "the first replica leads each partition of the plan (0 elected)"


@pytest.mark.parametrize("with_run", [True, False])
def test_the_last_wave_between_brokers_may_elect(build: InsideBuild, with_run: bool) -> None:
    """``run --waves 1`` and ``wave elect --wave 1``, although the waves inside brokers wait."""
    lab = build()
    lab.kafka.leaders["t", 0] = 3
    if with_run:
        lab.run(last=1)
    else:
        lab.process(1).elect()
    assert lab.kafka.leaders["t", 0] == 1


def test_a_leader_that_does_not_come_stops_no_wave_inside_brokers(build: InsideBuild) -> None:
    """It is said, and named again at the end."""
    lab = build()
    lab.kafka.leaders["t", 0] = 3
    lab.kafka.elect = lambda partitions: dict.fromkeys(partitions, "it is offline")  # type: ignore[method-assign]
    with pytest.raises(Incomplete, match="not led by the first replica: t-0: it is offline"):
        lab.run()
    assert lab.lines.count("not led by the first replica: t-0: it is offline") == 1
    assert lab.kafka.log_dirs == NEW


def test_other_waves_read_no_directories(build: InsideBuild) -> None:
    """Only the last step of the plan reads those of both waves."""
    lab = build()
    assert lab.process(1).observe().stored is None
    stored = lab.process(2).observe().stored
    assert stored is not None
    assert stored.log_dirs == OLD


def test_the_journal_alone_ends_a_wave(build: InsideBuild) -> None:
    """The step off has no documents; after a cancel each replica is where it was, without a copy."""
    lab = build()
    begun(lab)
    held = next(row for row in lab.warehouse.stored if row["event"] == "held")
    replace(lab.process(2), wave=wave_of(WaveId(2), held["changes"])).off(cancel=True, accept_owed=False)
    assert (lab.kafka.inside, lab.kafka.log_dirs, lab.kafka.throttles) == ({}, OLD, {})
    assert "cancelled: u-0, v-0" in lab.lines
    assert lab.journal()[-4:] == ["cancelling", "cancelled", "removing", "released"]


def test_throttles_stay_while_replicas_move(build: InsideBuild) -> None:
    """Off without a cancel ends with 4; also while a living broker does not report its directories."""
    lab = build()
    begun(lab)
    with pytest.raises(StillMoving):
        lab.process(2).off(cancel=False, accept_owed=False)
    lab.kafka.inside.clear()
    lab.kafka.log_dirs = dict(NEW)
    lab.kafka.mute.add(1)
    with pytest.raises(StillMoving, match="u-0"):
        lab.process(2).off(cancel=False, accept_owed=False)
    assert lab.kafka.throttles == RATES
    lab.kafka.mute.clear()
    lab.process(2).off(cancel=False, accept_owed=False)
    assert lab.kafka.throttles == {}


def test_a_cancel_does_not_need_a_dead_broker(build: InsideBuild) -> None:
    """It says what it does not know. The dead broker keeps its rate, so the wave is released only on request."""
    lab = build()
    begun(lab)
    lab.kafka.dead.add(1)
    lab.lines.clear()
    with pytest.raises(Owed):
        lab.process(2).off(cancel=True, accept_owed=False)
    assert lab.lines[:2] == [
        "cancelled: u-0, v-0",
        "broker 1: unknown whether these replicas move, and not cancelled: u-0",
    ]
    lab.process(2).off(cancel=True, accept_owed=True)
    assert lab.journal()[-1] == "released"
    assert set(lab.kafka.inside) == {(*U, 1)}


def ends_before_the_cancel(lab: Lab, replica: Replica, *, times: int = 1) -> None:
    """A move ends after it was read and before the broker is asked to cancel it."""
    announce, left = lab.kafka.announce, [replica] * times

    def late(log_dirs: dict[Replica, str]) -> dict[Replica, str]:
        if left and replica in log_dirs and replica in lab.kafka.inside:
            lab.kafka.copy_inside(left.pop(), SIZE)
        return announce(log_dirs)

    lab.kafka.announce = late  # type: ignore[method-assign, assignment]


@pytest.mark.parametrize(("times", "paths"), [(1, {**OLD, (*V, 4): "/a"}), (2, OLD)])
def test_a_copy_that_ends_during_a_cancel_does_not_go_back(
    build: InsideBuild, times: int, paths: dict[Replica, str]
) -> None:
    """The request for the old directory starts a copy back; it is cancelled before the rates are removed."""
    lab = build()
    begun(lab)
    ends_before_the_cancel(lab, (*V, 4), times=times)
    lab.process(2).off(cancel=True, accept_owed=False)
    assert (lab.kafka.inside, lab.kafka.log_dirs, lab.kafka.throttles) == ({}, paths, {})
    names = "u-0" if times == 1 else "u-0, v-0"
    assert f"cancelled: {names}" in lab.lines


def test_a_steering_cancel_stops_copies_back(build: InsideBuild) -> None:
    """It cancels in the same way."""
    lab = build()
    ends_before_the_cancel(lab, (*V, 4))
    lab.events = [(4.0, wanting(lab, ending="cancel"))]
    with pytest.raises(Stopped):
        lab.run()
    assert (lab.kafka.inside, lab.kafka.throttles) == ({}, {})


def test_rates_stay_while_a_replica_goes_back(build: InsideBuild) -> None:
    """A killed cancel may have left such a copy; the next step off cancels it."""
    lab = build()
    begun(lab)
    lab.kafka.copy_inside((*V, 4), SIZE)
    lab.kafka.inside = {(*V, 4): ("/b", 0)}
    with pytest.raises(StillMoving, match="v-0"):
        lab.process(2).off(cancel=False, accept_owed=False)
    assert lab.kafka.throttles == RATES
    lab.process(2).off(cancel=True, accept_owed=False)
    assert (lab.kafka.inside, lab.kafka.throttles) == ({}, {})


def test_a_cancel_that_does_not_stop_a_copy_fails(build: InsideBuild) -> None:
    """The throttles stay."""
    lab = build()
    begun(lab)
    lab.kafka.announce = lambda log_dirs: {}  # type: ignore[method-assign]
    with pytest.raises(BallastError, match=r"still run after the cancel, run the step again: u-0, v-0"):
        lab.process(2).off(cancel=True, accept_owed=False)
    assert lab.kafka.throttles == RATES


def test_a_refused_cancel_is_named(build: InsideBuild) -> None:
    """By replica, with the reason; the next step off finishes it."""
    lab = build()
    begun(lab)
    lab.kafka.refused_dirs = {(1, "/a"): "OtherError"}
    message = r"^not cancelled, run the step again:\n- u-0 on broker 1: OtherError$"
    with pytest.raises(BallastError, match=message):
        lab.process(2).off(cancel=True, accept_owed=False)
    lab.kafka.refused_dirs.clear()
    lab.process(2).off(cancel=False, accept_owed=False)
    assert (lab.kafka.inside, lab.kafka.log_dirs) == ({}, OLD)


def test_a_refused_directory_is_named(build: InsideBuild) -> None:
    """Kafka cannot choose one. What was started goes on under its rate, and the same command ends the wave."""
    lab = build()
    lab.kafka.refused_dirs = {(4, "/b"): "InvalidReplicationAssignmentError"}
    cause = "the directory is cordoned (InvalidReplicationAssignmentError)"
    with pytest.raises(Refused) as refused:
        lab.run(any_dir=True)
    remedy = "remove it from cordoned.log.dirs or plan again"
    assert str(refused.value) == f"broker 4 refuses directory /b for u-0: {cause}; {remedy}"
    assert set(lab.kafka.inside) == {(*U, 1), (*V, 4)}
    assert lab.kafka.throttles == RATES
    lab.kafka.refused_dirs.clear()
    lab.run()
    assert (lab.kafka.log_dirs, lab.kafka.throttles) == (NEW, {})


def test_a_directory_needs_space_and_its_headroom(build: InsideBuild) -> None:
    """Before anything is started."""
    lab = build()
    disk = 1000 * SIZE
    lab.kafka.disks = replace(lab.kafka.disks, directories={(4, "/b"): (disk, 101 * SIZE - 1)})
    with pytest.raises(Refused) as refused:
        lab.run(disk_headroom=0.1)
    room = "directory /b of broker 4 has room for 100 MB, but the wave brings 100 MB"
    assert str(refused.value) == f"{room}: free disk space there, or plan again"
    assert lab.kafka.inside == {}
    lab.kafka.disks = replace(lab.kafka.disks, directories={(4, "/b"): (disk, 101 * SIZE)})
    lab.run(disk_headroom=0.1)
    assert lab.kafka.log_dirs == NEW


def test_a_partial_start_needs_space_for_the_rest_of_its_copies(build: InsideBuild) -> None:
    """Copies that run still need what is left of them; the others are not started if both do not fit."""
    lab = build()
    lab.kafka.refused_dirs = {(4, "/b"): "KafkaStorageError"}
    with pytest.raises(Refused, match="broker 4 refuses directory /b"):
        lab.run()
    lab.kafka.refused_dirs.clear()
    lab.kafka.log_dirs[*U, 1] = "/a"
    lab.kafka.inside = {(*U, 1): ("/c", 40 * MB), (*V, 4): ("/a", 0)}
    lab.kafka.disks = replace(lab.kafka.disks, directories={(1, "/c"): (1000 * SIZE, 60 * MB - 1)})
    with pytest.raises(Refused, match=r"directory /c of broker 1 has room for 60\.0 MB, but the wave brings 60\.0 MB"):
        lab.process(2).execute()
    assert (*U, 4) not in lab.kafka.inside
    lab.kafka.disks = replace(lab.kafka.disks, directories={(1, "/c"): (1000 * SIZE, 60 * MB)})
    lab.process(2).execute()
    assert set(lab.kafka.inside) == set(MOVES)


@pytest.mark.parametrize("is_dead", [True, False])
def test_a_broker_that_does_not_report_refuses_the_wave(build: InsideBuild, is_dead: bool) -> None:
    """Its replicas may be anywhere."""
    lab = build()
    (lab.kafka.dead if is_dead else lab.kafka.mute).add(1)
    with pytest.raises(Refused, match="broker 1 does not report all replicas of the wave: start it, or allow DESCRIBE"):
        lab.process(2).preflight()
    assert lab.kafka.inside == {}


def test_a_broker_that_dies_is_waited_for(build: InsideBuild) -> None:
    """Its replicas do not count as done; the others go on at half the rate. When it is back, its moves go on too."""
    lab = build()
    lab.kafka.needed = {}
    lab.events = [(4.0, lambda: lab.kafka.dead.add(1)), (300.0, lab.kafka.dead.clear)]
    lab.run()
    assert (lab.kafka.log_dirs, lab.kafka.throttles) == (NEW, {})
    assert str(RATE // 2) in lab.values(("brokers", "4", LOG_DIR_RATE))
    assert any("1 in flight" in line and "broker 1 is not alive, copies wait for it" in line for line in lab.lines)


def test_a_silent_broker_is_started_later(build: InsideBuild) -> None:
    """In a wave that starts its moves one by one; the others do not wait."""
    lab = build(cap=1)
    lab.events = [
        (2.0, lambda: lab.kafka.refused_dirs.update({(4, "/a"): NO_ANSWER})),
        (60.0, lab.kafka.refused_dirs.clear),
    ]
    lab.run()
    assert lab.kafka.log_dirs == NEW


def test_nothing_gets_on(build: InsideBuild) -> None:
    """As in other waves: the throttles stay."""
    lab = build(rate_bytes_per_s=0)
    with pytest.raises(Stalled, match=r"u-0 to broker 1: 100 MB left"):
        lab.run(stall_seconds=60.0)
    assert lab.kafka.throttles == RATES


def test_somebody_who_cancels_a_move_ends_the_command(build: InsideBuild) -> None:
    """The same command starts the move again."""
    lab = build()
    lab.events = [(4.0, lambda: lab.kafka.inside.pop((*V, 4)))]
    with pytest.raises(Refused, match="neither in flight nor done: v-0"):
        lab.run()
    assert "somebody cancelled moves, or a directory failed: v-0" in lab.lines
    lab.run()
    assert lab.kafka.log_dirs == NEW


def test_a_replica_that_somebody_moved_is_skipped(build: InsideBuild) -> None:
    """The end names it with both directories."""
    lab = build()
    lab.kafka.log_dirs[(*V, 4)] = "/z"
    with pytest.raises(BallastError) as raised:
        lab.run()
    assert raised.value.exit_code == 6
    assert "v-0 on broker 4 is in /z, the plan expects /b or /a" in str(raised.value)
    assert lab.kafka.log_dirs == {**NEW, (*V, 4): "/z"}


MISSING = "v-0 on broker 4 is in no directory that the broker reports: its directory failed, or somebody removed it"


def fail_source(lab: Lab) -> None:
    """The directory /b of broker 4 fails: the broker lives and does not report its replica, and drops the copy."""
    del lab.kafka.log_dirs[*V, 4], lab.kafka.inside[*V, 4]


def test_a_replica_in_a_failed_directory_is_skipped(build: InsideBuild) -> None:
    """The others go on, the wave ends, and the end names the replica."""
    lab = build()
    lab.events = [(4.0, lambda: fail_source(lab))]
    with pytest.raises(Incomplete) as raised:
        lab.run()
    assert MISSING in str(raised.value)
    assert lab.kafka.log_dirs == {replica: path for replica, path in NEW.items() if replica != (*V, 4)}
    assert (lab.kafka.throttles, lab.journal()[-4:-1]) == ({}, ["released", "electing", "elected"])


@pytest.mark.parametrize("cancel", [True, False])
def test_a_failed_directory_does_not_keep_the_cluster(build: InsideBuild, cancel: bool) -> None:
    """The step off does not count its replica as moving; a cancel names it."""
    lab = build()
    begun(lab)
    fail_source(lab)
    if not cancel:
        lab.kafka.inside, lab.kafka.log_dirs = {}, {(*U, 4): "/b", (*U, 1): "/c"}
    lab.process(2).off(cancel=cancel, accept_owed=False)
    assert (lab.kafka.inside, lab.kafka.throttles, lab.journal()[-1]) == ({}, {}, "released")
    assert (f"skipped: {MISSING}" in lab.lines) is cancel


def test_a_replica_that_went_to_another_broker_is_moved_by_somebody_else(build: InsideBuild) -> None:
    """Its old broker does not report it any more; no directory has failed."""
    lab = build()
    del lab.kafka.log_dirs[*V, 4]
    lab.kafka.replicas[V] = (3, 5)
    with pytest.raises(Incomplete, match=r"was moved by somebody else: v-0; v-0 has \[3, 5\], the plan expects"):
        lab.run()


def test_a_pause_and_a_new_rate(build: InsideBuild) -> None:
    """A paused move gets one byte per second; the rate rises in ten steps afterwards."""
    lab = build(rate_bytes_per_s=MB / 2)
    lab.kafka.needed = {}
    wants: list[tuple[float, dict[str, Any]]] = [
        (4.0, {"is_paused": True}),
        (60.0, {}),
        (120.0, {"copy_bytes_per_s": RATE // 2}),
    ]
    lab.events = [(at, wanting(lab, **wanted)) for at, wanted in wants]
    lab.run()
    values = [int(value) for value in lab.values(("brokers", "4", LOG_DIR_RATE)) if value]
    assert values[:2] == [RATE, 1]
    steps = [1 + (RATE - 1) * step // 10 for step in range(1, 11)]
    assert values[2:] == [*steps, RATE // 2]
    assert (lab.kafka.log_dirs, lab.kafka.throttles) == (NEW, {})


def wanting(lab: Lab, **wanted: Any) -> Callable[[], None]:
    """What an operator wants of the wave."""
    return lambda: rows.record_wanted(lab.warehouse, lab.plan, 2, Wanted(**wanted).to_json())


@pytest.mark.parametrize(("ending", "paths"), [("cancel", OLD), ("stop", NEW)])
def test_a_wave_is_ended(build: InsideBuild, ending: str, paths: dict[Replica, str]) -> None:
    """A cancel leaves each replica where it is; a stop waits for running moves."""
    lab = build()
    lab.events = [(4.0, wanting(lab, ending=ending))]
    with pytest.raises(Stopped):
        lab.run()
    assert (lab.kafka.log_dirs, lab.kafka.inside, lab.kafka.throttles) == (paths, {}, {})


def test_the_status_of_a_wave(build: InsideBuild) -> None:
    """Bytes of the copies, and their rates."""
    lab = build()
    begun(lab)
    lab.kafka.copy_inside((*U, 4), SIZE)
    now = status(lab.process(2))
    assert (now.wave, now.partitions) == (2, {"in flight": 2})
    assert now.copied_bytes + now.left_bytes == 3 * SIZE
    assert now.throttles_bytes_per_s == {1: RATE, 4: RATE}
    assert now.rate_bytes_per_s == 2 * RATE


def test_a_dry_run_says_each_move(build: InsideBuild) -> None:
    """With its bytes, and changes nothing."""
    lab = build()
    dry_run(lab.process(2), lab.waves, replace(LIMITS, first=2))
    moves = [line for line in lab.lines if line.startswith("would")]
    assert moves == [
        f"would set brokers 1 {LOG_DIR_RATE}={RATE}",
        f"would set brokers 4 {LOG_DIR_RATE}={RATE}",
        "would move u-0 on broker 1 from /a to /c, 100 MB",
        "would move u-0 on broker 4 from /a to /b, 100 MB",
        "would move v-0 on broker 4 from /b to /a, 100 MB",
        "would remove 2 throttles when the copies are done",
        "would elect the first replica of each planned list",
    ]
    assert (lab.kafka.inside, lab.kafka.throttles) == ({}, {})


def take_back(lab: Lab, *chosen: int, disk_headroom: float = 0.0) -> None:
    """Take waves back, as a process that is in charge."""
    with in_charge(Journal(lab.warehouse, lab.plan.cluster_id), lab.plan, take_over=False) as check:
        step = replace(lab.process(2), check_in_charge=check, disk_headroom=disk_headroom)
        roll_back(step, lab.waves, chosen or (2,), LIMITS, by="ann", accept_owed=False)


def test_a_wave_goes_back(build: InsideBuild) -> None:
    """Under the same rates; no leader is elected."""
    lab = build()
    lab.run()
    count = len(lab.journal())
    take_back(lab)
    assert (lab.kafka.log_dirs, lab.kafka.throttles) == (OLD, {})
    assert lab.journal()[count:] == ["running", "rollback", *WAVE, "taken_back", "ended"]


def test_a_wave_goes_back_into_a_directory_without_headroom(build: InsideBuild) -> None:
    """The wave has relieved this directory, so the way back goes over its limit again. It needs real space."""
    lab = build()
    lab.run()
    lab.kafka.disks = replace(lab.kafka.disks, directories={(4, "/a"): (1000 * SIZE, SIZE - 1)})
    with pytest.raises(Refused, match=r"directory /a of broker 4 has room for 100 MB, but the wave brings"):
        take_back(lab, disk_headroom=0.1)
    lab.kafka.disks = replace(lab.kafka.disks, directories={(4, "/a"): (1000 * SIZE, 100 * SIZE + SIZE // 2)})
    take_back(lab, disk_headroom=0.1)
    assert (lab.kafka.log_dirs, lab.kafka.throttles) == (OLD, {})


@pytest.mark.parametrize(("path", "is_held_back"), [("/a", False), ("/b", False), ("/d", True)])
def test_a_rollback_may_fill_the_old_directories(build: InsideBuild, path: str, is_held_back: bool) -> None:
    """They were over their limit before the wave. Another directory over its limit holds the rollback back."""
    lab = build(rate_bytes_per_s=MB, cap=1)
    lab.run()
    lab.kafka.needed = {}
    full = replace(lab.kafka.disks, directories={(4, path): (1000 * SIZE, 99 * SIZE)})
    lab.events = [(lab.clock.seconds - lab.begun + 30.0, lambda: setattr(lab.kafka, "disks", full))]
    if is_held_back:
        with pytest.raises(Stalled, match="/d of broker 4 is over its limit"):
            take_back(lab, disk_headroom=0.1)
    else:
        take_back(lab, disk_headroom=0.1)
    assert (lab.kafka.log_dirs == OLD) is not is_held_back


def test_a_running_wave_is_cancelled_before_it_goes_back(build: InsideBuild) -> None:
    """What has moved goes back; the dry run says the same."""
    lab = build()
    begun(lab)
    lab.kafka.copy_inside((*V, 4), SIZE)
    say_rollback(lab.process(2), lab.waves, [2])
    assert "would cancel u-0" in lab.lines
    assert "would move v-0 on broker 4 from /a to /b, 100 MB" in lab.lines
    take_back(lab)
    assert (lab.kafka.log_dirs, lab.kafka.inside, lab.kafka.throttles) == (OLD, {}, {})


def test_a_dead_broker_does_not_stop_the_rollback_of_other_waves(build: InsideBuild) -> None:
    """If the wave inside brokers was never started."""
    lab = build()
    lab.kafka.needed = {}
    lab.kafka.dead.add(4)
    with in_charge(Journal(lab.warehouse, lab.plan.cluster_id), lab.plan, take_over=False) as check:
        step = replace(lab.process(2), check_in_charge=check, accepts_risk=True)
        roll_back(step, lab.waves, (2,), LIMITS, by="ann", accept_owed=False)
    line = "the wave was never started, nothing to do; broker 4 does not report all replicas of the wave"
    assert f"the rollback of wave 2 of 2: {line}" in lab.lines


def test_a_killed_run_goes_on(build: InsideBuild) -> None:
    """Killed before or after each of its calls: the same command ends the wave, and nothing moves without its rate."""
    whole = build()
    whole.run()
    for number, (_, is_read) in enumerate(list(whole.kills.calls)):
        for is_after in [False] if is_read else [False, True]:
            lab = build()
            lab.kills.at, lab.kills.is_after = number, is_after
            with suppress(Killed):
                lab.run()
            lab.kills.at = -1
            lab.run()
            assert (lab.kafka.log_dirs, lab.kafka.inside, lab.kafka.throttles) == (NEW, {}, {}), number
            assert lab.kafka.unthrottled == []


def test_a_killed_cancel_is_finished(build: InsideBuild) -> None:
    """By the next step off."""
    whole = build()
    begun(whole)
    whole.kills.calls.clear()
    whole.process(2).off(cancel=True, accept_owed=False)
    for number, (_, is_read) in enumerate(list(whole.kills.calls)):
        for is_after in [False] if is_read else [False, True]:
            lab = build()
            begun(lab)
            lab.kills.calls.clear()
            lab.kills.at, lab.kills.is_after = number, is_after
            with suppress(Killed):
                lab.process(2).off(cancel=True, accept_owed=False)
            lab.kills.at = -1
            lab.process(2).off(cancel=True, accept_owed=False)
            assert (lab.kafka.log_dirs, lab.kafka.inside, lab.kafka.throttles) == (OLD, {}, {}), number


def test_a_wave_inside_brokers_is_watched_by_steps(build: InsideBuild) -> None:
    """Throttle, execute, wait, off and verify, as for other waves."""
    lab = build()
    step = lab.process(2)
    step.throttle()
    step.execute()
    Watch(step, Patience(900.0)).to_the_end()
    step.wait(every_seconds=1, once=True)
    step.off(cancel=False, accept_owed=False)
    step.verify()
    assert lab.lines[-1] == "wave 2 of 2 is done, its throttles are removed and the cluster is free"
