"""Directories of replicas: announced before copies start, compared with the plan, and corrected on request."""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from execution import fix_dirs as fixing
from execution.actions import Patience
from execution.admin import NO_ANSWER
from execution.directories import Misplaced, announce, announcements, describe_misplaced, due, misplaced
from execution.fix_dirs import check_dirs, with_space
from execution.observed import Observed, Replica, Stored
from execution.rollback import roll_back
from execution.run import dry_run
from execution.steps import Incomplete, StillMoving
from execution.watch import Stalled
from execution.wave import rollback_of
from stored.verdicts import Refused
from tests.execution.fake_kafka import OWN_CHOICE
from tests.execution.lab import LIMITS, MB, MODULES, SIZE, Build, Lab, bare_wave, cluster_at
from tests.execution.scene import FakeAdmin
from tests.execution.warehouse import load_wave, plan_of, write_plan

A, B, C, D = ("a", 0), ("b", 0), ("c", 0), ("d", 0)
PLANNED: dict[Replica, str] = {("t", 0, 3): "/x", ("t", 1, 3): "/y", ("u", 0, 5): "/z"}
OFFLINE = "it, or another directory of the broker, is offline"
CORDONED = "InvalidReplicationAssignmentError"
REMEDY = "plan again, or give --any-dir: then Kafka chooses the directory"


@pytest.fixture
def planned(build: Build, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Lab]:
    """Builds a lab whose plan names directories."""

    def build_planned(**options: Any) -> Lab:
        lab = build(**options)
        lab.clock.use(monkeypatch, *MODULES, fixing)
        first, second = (replace(wave, log_dirs=PLANNED) for wave in lab.waves)
        lab.waves = (first, second)
        return lab

    return build_planned


def test_a_wave_has_the_directories_of_its_documents(tmp_path: Path) -> None:
    """Of replicas that arrive; its rollback has the old directories. Without documents there are none."""
    paths = {(*A, 3): "/planned", (*A, 2): "/old", (*A, 1): "/stays", (*B, 4): "/other"}
    plan = plan_of([{A: ([1, 2], [1, 3]), C: ([1, 2], [1, 4])}, {B: ([2, 1], [2, 4])}], topic_ids={}, log_dirs=paths)
    warehouse = write_plan(tmp_path / "several", plan)
    first, second = (load_wave(warehouse, number) for number in (1, 2))
    assert (first.log_dirs, second.log_dirs) == ({(*A, 3): "/planned"}, {(*B, 4): "/other"})
    assert (rollback_of(first).log_dirs, rollback_of(second).log_dirs) == ({(*A, 2): "/old"}, {})
    bare = load_wave(write_plan(tmp_path / "one", plan_of([{A: ([1, 2], [1, 3])}], topic_ids={})), 1)
    assert (bare.log_dirs, rollback_of(bare).log_dirs) == ({}, {})


def test_only_replicas_that_arrive_are_announced() -> None:
    """And only those of these partitions that have a directory."""
    paths = {(*A, 1): "/stays", (*A, 3): "/d", (*B, 4): "/e", (*C, 5): "/f"}
    wave = bare_wave(dict.fromkeys((A, B, C), (1, 2)), {A: (1, 3), B: (6, 4), C: (1, 5)}, log_dirs=paths)
    assert due(wave, [A, B]) == {(*A, 3): "/d", (*B, 4): "/e"}
    assert announcements(replace(wave, log_dirs=dict.fromkeys(paths, "/d")), [B, A, C]) == [
        "would announce directory /d to broker 3 for 1 replica",
        "would announce directory /d to broker 4 for 1 replica",
        "would announce directory /d to broker 5 for 1 replica",
    ]


@pytest.mark.parametrize("cap", [0, 1])
def test_replicas_are_created_where_they_are_planned(planned: Callable[..., Lab], cap: int) -> None:
    """Announced just before the start; nothing moves inside a broker, and nothing is reported."""
    lab = planned(cap=cap)
    lab.run()
    assert lab.kafka.log_dirs == PLANNED
    assert lab.kafka.moved_inside == []
    calls = [name for name, is_read in lab.kills.calls if not is_read and name.startswith(("announce", "move"))]
    first = ["announce to 3", "move ('t', 0)", *(["announce to 3"] if cap else []), "move ('t', 1)"]
    assert calls == [*first, "announce to 5", "move ('u', 0)"]
    assert not [line for line in lab.lines if "directory" in line]


def test_a_wave_without_directories_announces_nothing(build: Build) -> None:
    """Brokers with one directory."""
    lab = build()
    lab.run()
    assert not [name for name, _ in lab.kills.calls if name.startswith("announce")]


def refusing(reason: str) -> dict[tuple[int, str], str]:
    """One directory that is refused."""
    return {(3, "/y"): reason}


@pytest.mark.parametrize(
    ("reason", "message"),
    [
        (CORDONED, f"the directory is cordoned ({CORDONED}); remove it from cordoned.log.dirs, {REMEDY}"),
        ("KafkaStorageError", f"{OFFLINE} (KafkaStorageError); repair that, {REMEDY}"),
        ("LogDirNotFoundError", f"it has no such directory (LogDirNotFoundError); {REMEDY}"),
        ("OtherError", f"OtherError; {REMEDY}"),
        (NO_ANSWER, "the broker does not answer; run the command again when it answers"),
    ],
)
def test_a_refused_directory_stops_the_wave(planned: Callable[..., Lab], reason: str, message: str) -> None:
    """Before anything is started; when the directory is open again, the same command goes on."""
    lab = planned()
    lab.kafka.refused_dirs = refusing(reason)
    with pytest.raises(Refused) as refused:
        lab.run()
    assert str(refused.value) == f"broker 3 refuses directory /y for t-1: {message}"
    assert lab.kafka.moves == {}
    assert lab.journal() == ["running", "held", "throttled", "ended"]
    lab.kafka.refused_dirs = {}
    lab.run()
    assert lab.kafka.log_dirs == PLANNED


def test_each_refused_directory_has_a_line() -> None:
    """With the partitions that it was for, by broker and directory."""
    paths = {(*A, 5): "/x", (*B, 3): "/y", (*C, 3): "/x", (*D, 3): "/x"}
    wave = bare_wave(dict.fromkeys((A, B, C, D), (1, 2)), {A: (1, 5), B: (1, 3), C: (1, 3), D: (1, 3)}, log_dirs=paths)
    reasons: dict[Any, str] = {**dict.fromkeys(paths, "LogDirNotFoundError"), (*B, 3): "OtherError"}
    said: list[str] = []
    with pytest.raises(Refused) as refused:
        announce(
            wave, list(wave.after), FakeAdmin([], [], refuses=reasons), said.append, any_dir=False, is_watched=False
        )
    assert [line.split(";")[0] for line in refused.value.problems] == [
        "broker 3 refuses directory /x for c-0, d-0: it has no such directory (LogDirNotFoundError)",
        "broker 3 refuses directory /y for b-0: OtherError",
        "broker 5 refuses directory /x for a-0: it has no such directory (LogDirNotFoundError)",
    ]
    assert said == []


def test_kafka_may_choose_the_directory(planned: Callable[..., Lab]) -> None:
    """With --any-dir; the others are announced, and the end of the wave reports the difference."""
    lab = planned()
    lab.kafka.refused_dirs = refusing(CORDONED)
    lab.run(any_dir=True, last=1)
    assert lab.kafka.log_dirs == {("t", 0, 3): "/x", ("t", 1, 3): OWN_CHOICE}
    at = lab.lines.index("announced: the directories of 1 replica")
    assert lab.lines[at - 1].startswith("Kafka chooses the directory: broker 3 refuses directory /y for t-1: ")
    assert lab.lines[-2].startswith("broker 3: 1 replica is in another directory than planned")


def test_partitions_of_a_silent_broker_wait(planned: Callable[..., Lab]) -> None:
    """In a wave that starts its copies one by one; those of other brokers start."""
    lab = planned(cap=1)
    step = lab.start()
    lab.kafka.finish(("t", 0))
    lab.kafka.dead.add(3)
    step.start_next(step.observe())
    assert lab.kafka.moves == {}
    lab.kafka.dead.clear()
    step.start_next(step.observe())
    assert set(lab.kafka.moves) == {("t", 1)}
    assert lab.kafka.log_dirs == {("t", 0, 3): "/x", ("t", 1, 3): "/y"}


def test_a_rollback_announces_the_old_directories(planned: Callable[..., Lab]) -> None:
    """A replica comes back to where it was."""
    lab = planned()
    old = json_of({("t", 0, 2): "/p", ("t", 1, 1): "/q"})
    lab.waves = (replace(lab.waves[0], documents={**lab.waves[0].documents, **old}), lab.waves[1])
    lab.run(last=1)
    roll_back(lab.process(), lab.waves, [1], LIMITS, by="ann", accept_owed=False)
    assert lab.kafka.log_dirs["t", 0, 2] == "/p"
    assert lab.kafka.log_dirs["t", 1, 1] == "/q"
    assert not [line for line in lab.lines if "another directory" in line]


def json_of(paths: Mapping[Replica, str]) -> dict[str, str]:
    """The document of a rollback."""
    rows = [{"topic": t, "partition": p, "broker": b, "log_dir": path} for (t, p, b), path in paths.items()]
    return {"rollback-log-dirs.json": json.dumps({"version": 1, "replicas": rows})}


def test_a_dry_run_says_what_it_would_announce(planned: Callable[..., Lab]) -> None:
    """A line for each directory, before the moves."""
    lab = planned()
    dry_run(lab.process(), lab.waves, LIMITS)
    at = lab.lines.index("would announce directory /x to broker 3 for 1 replica")
    assert lab.lines[at + 1] == "would announce directory /y to broker 3 for 1 replica"
    assert lab.lines[at + 2] == "would move t-0 from [1, 2] to [1, 3]"
    assert lab.kafka.announced == {}


def test_a_dry_run_says_what_it_would_correct(planned: Callable[..., Lab]) -> None:
    """Only with --fix-dirs, also of waves that are done."""
    lab = wrong_end(planned)
    dry_run(lab.process(), lab.waves, LIMITS)
    assert not [line for line in lab.lines if "correct" in line]
    dry_run(replace(lab.process(), fix_dirs=True), lab.waves, LIMITS)
    (line,) = [line for line in lab.lines if "correct" in line]
    assert line.startswith("would correct broker 3: 2 replicas are in another directory than planned, 200 MB: t-0 in")
    assert lab.kafka.moved_inside == []


DONE = {A: (1, 3), B: (1, 3), C: (1, 4)}
WAVE = bare_wave(
    dict.fromkeys(DONE, (1, 2)), DONE, log_dirs={(*A, 3): "/x", (*B, 3): "/x", (*C, 4): "/x", (*A, 1): "/x"}
)


def found(now: Observed, stored: Stored) -> list[Misplaced]:
    """Replicas of the wave in other directories."""
    asked: list[Any] = []

    def of(brokers: Any) -> Stored:
        asked.append(sorted(brokers))
        return stored

    result = misplaced(WAVE, now, of)
    assert asked in ([], [sorted(now.alive & {3, 4})], [[3]])
    return result


def test_replicas_in_other_directories_are_found() -> None:
    """Of finished copies whose broker answers; one that moves to its directory already is left out."""
    wrong = {(*A, 3): "/y", (*B, 3): "/x", (*C, 4): "/y", (*A, 1): "/y"}
    stored = Stored(dict.fromkeys(wrong, 5), {}, log_dirs=wrong)
    first, last = Misplaced((*A, 3), 5, "/y", "/x"), Misplaced((*C, 4), 5, "/y", "/x")
    assert found(cluster_at(DONE), stored) == [first, last]
    assert found(cluster_at({**DONE, C: (1, 2)}), stored) == [first]
    assert found(cluster_at(dict.fromkeys(DONE, (1, 2))), stored) == []
    assert found(cluster_at(DONE), replace(stored, moving={(*A, 3): ("/x", 1)})) == [last]
    assert found(cluster_at(DONE), replace(stored, moving={(*A, 3): ("/w", 1)})) == [first, last]
    assert found(cluster_at(DONE), Stored({}, {})) == []


def test_replicas_in_other_directories_are_described() -> None:
    """A line for each broker, with the bytes; of many replicas only the first few are named."""
    many = [Misplaced(("t", number, 3), MB, "/y", "/x") for number in range(6)]
    (one, several) = describe_misplaced([*many, Misplaced((*A, 2), MB, "/v", "/w")])
    assert one == "broker 2: 1 replica is in another directory than planned, 1.00 MB: a-0 in /v, not /w"
    assert several.startswith(
        "broker 3: 6 replicas are in another directory than planned, 6.00 MB: t-0 in /y, not /x; "
    )
    assert several.endswith("; t-4 in /y, not /x and 1 more")
    assert describe_misplaced(many[:5])[0].endswith("; t-4 in /y, not /x")


FORGOTTEN = "a broker that restarts before a copy starts forgets its planned directory; to move them: "
RUN_AGAIN = "./ballast run --waves 1 --run-id r --cluster c --fix-dirs"


def misled(lab: Lab) -> None:
    """Broker 3 restarts between the announcement and the start."""
    announce = lab.kafka.announce

    def and_restart(log_dirs: Mapping[Replica, str]) -> dict[Replica, str]:
        refused = announce(log_dirs)
        lab.kafka.restart(3)
        return refused

    lab.kafka.announce = and_restart  # type: ignore[method-assign]


def test_a_broker_that_restarts_before_the_start_is_reported(planned: Callable[..., Lab]) -> None:
    """By run, wait and verify, as lines; the wave has ended. With --fix-dirs the same command moves the replicas."""
    lab = planned()
    misled(lab)
    lab.run(last=1)
    assert lab.kafka.log_dirs == {("t", 0, 3): OWN_CHOICE, ("t", 1, 3): OWN_CHOICE}
    line = f"broker 3: 2 replicas are in another directory than planned, {2 * SIZE // MB} MB: "
    line += "t-0 in /kafka, not /x; t-1 in /kafka, not /y"
    assert lab.lines[-2:] == [line, FORGOTTEN + RUN_AGAIN]
    lab.process().wait(every_seconds=1, once=False)
    assert lab.lines[-2:] == [line, FORGOTTEN + RUN_AGAIN]
    lab.process().verify()
    assert lab.lines[-3:-1] == [line, FORGOTTEN + RUN_AGAIN]
    lab.lines.clear()
    lab.run(last=1, fix_dirs=True)
    assert lab.kafka.log_dirs == {replica: path for replica, path in PLANNED.items() if replica[2] == 3}
    assert lab.lines == [
        "wave 1 of 2: nothing to do",
        line,
        "2 replicas with 200 MB move inside their brokers to the planned directories",
        "2 replicas moved to the planned directories",
    ]
    lab.lines.clear()
    lab.kills.calls.clear()
    lab.run(last=1, fix_dirs=True)
    assert lab.lines == ["wave 1 of 2: nothing to do"]
    assert [name for name, _ in lab.kills.calls].count("stored") == 1


def test_a_wave_is_corrected_when_it_ends(planned: Callable[..., Lab]) -> None:
    """By the same run, when the cluster is free."""
    lab = planned()
    misled(lab)
    lab.run(last=1, fix_dirs=True)
    assert lab.kafka.log_dirs == {replica: path for replica, path in PLANNED.items() if replica[2] == 3}
    assert lab.lines.index("2 replicas moved to the planned directories") > lab.lines.index(
        "the throttles of wave 1 of 2 are removed, the cluster is free"
    )


def test_a_rollback_is_corrected(planned: Callable[..., Lab]) -> None:
    """Its report names the rollback."""
    lab = planned()
    old = json_of({("t", 0, 2): "/p"})
    lab.waves = (replace(lab.waves[0], documents={**lab.waves[0].documents, **old}), lab.waves[1])
    lab.run(last=1)
    announce = lab.kafka.announce
    lab.kafka.announce = lambda log_dirs: {}  # type: ignore[method-assign]
    roll_back(lab.process(), lab.waves, [1], LIMITS, by="ann", accept_owed=False)
    command = "./ballast rollback --wave 1 --run-id r --cluster c --fix-dirs"
    assert FORGOTTEN + command in lab.lines
    lab.kafka.announce = announce  # type: ignore[method-assign]
    roll_back(replace(lab.process(), fix_dirs=True), lab.waves, [1], LIMITS, by="ann", accept_owed=False)
    assert lab.kafka.log_dirs["t", 0, 2] == "/p"


def test_only_what_has_space_is_moved() -> None:
    """The largest first; a directory of unknown size takes all."""
    small, large, other = (
        Misplaced((*A, 3), 10, "/y", "/x"),
        Misplaced((*B, 3), 20, "/y", "/x"),
        Misplaced((*C, 4), 30, "/y", "/x"),
    )
    every = [small, large, other]
    assert with_space(every, {(3, "/x"): (100, 40)}, 0.1) == [other, large, small]
    assert with_space(every, {(3, "/x"): (100, 39)}, 0.1) == [other, large]
    assert with_space(every, {(3, "/x"): (100, 29)}, 0.1) == [other, small]
    assert with_space(every, {(3, "/x"): (100, 9), (4, "/x"): (100, 30)}, 0.0) == [other]
    assert with_space(every, {}, 0.1) == [other, large, small]


def wrong_end(planned: Callable[..., Lab]) -> Lab:
    """A wave that has ended with two replicas in other directories."""
    lab = planned()
    misled(lab)
    lab.run(last=1)
    lab.lines.clear()
    return lab


def test_what_cannot_be_moved_stays(planned: Callable[..., Lab]) -> None:
    """Without space, or refused: a line for each replica, also at the end, with exit code 6."""
    lab = wrong_end(planned)
    full = {(3, "/x"): (1000 * SIZE, SIZE - 1), (3, "/y"): (1000 * SIZE, SIZE)}
    lab.kafka.disks = replace(lab.kafka.disks, directories=full)
    lab.kafka.refused_dirs = refusing("KafkaStorageError")
    begun = len(lab.journal())
    with pytest.raises(Incomplete) as raised:
        lab.run(last=1, fix_dirs=True)
    stays = [
        "t-0 on broker 3 stays in /kafka, not /x: its planned directory has too little space",
        f"t-1 on broker 3 stays in /kafka, not /y: {OFFLINE} (KafkaStorageError)",
    ]
    assert lab.lines[2:] == stays
    assert str(raised.value) == "\n- ".join(["the waves are done, except for:", *stays])
    assert lab.kafka.moved_inside == []
    rows = [(row["wave"], row["event"], row["result"]) for row in lab.warehouse.stored[begun + 1 : -1]]
    fixing_row = "broker 3: 1 replica is in another directory than planned, 100 MB: t-1 in /kafka, not /y"
    assert [(wave, event) for wave, event, _ in rows] == [(1, "fixing"), (1, "fixed")]
    started, ended = (json.loads(result) for *_, result in rows)
    assert (started, ended["moved"], len(ended["stay"])) == ({"replicas": [fixing_row]}, 0, 2)


def test_what_cannot_be_moved_is_named_after_the_election(planned: Callable[..., Lab]) -> None:
    """A later wave and the election are not stopped; so is the end of a rollback."""
    lab = wrong_end(planned)
    lab.kafka.refused_dirs = refusing("OtherError")
    stays = "t-1 on broker 3 stays in /kafka, not /y: OtherError"
    with pytest.raises(Incomplete, match=f"^the waves are done, except for:\n- {stays}$"):
        lab.run(fix_dirs=True)
    assert "elected" in lab.journal()
    assert lab.kafka.log_dirs["u", 0, 5] == "/z"


def test_a_replica_that_vanishes_is_not_waited_for(planned: Callable[..., Lab]) -> None:
    """As when its topic is deleted meanwhile; it is named, and the others are waited for."""
    lab = wrong_end(planned)
    lab.kafka.is_slow_inside = True
    begun = lab.clock.seconds

    def vanish() -> None:
        del lab.kafka.log_dirs["t", 0, 3], lab.kafka.inside["t", 0, 3]

    lab.events = [(begun - lab.begun + 4.0, vanish)]
    line = "t-0 on broker 3 is gone: its topic was deleted, its directory failed, or somebody removed it"
    with pytest.raises(Incomplete, match=line):
        lab.run(last=1, fix_dirs=True)
    assert lab.kafka.log_dirs["t", 1, 3] == "/y"
    assert (line in lab.lines, lab.lines[-1]) == (True, "1 replica moved to the planned directories")
    [fixed] = [json.loads(row["result"]) for row in lab.warehouse.stored if row["event"] == "fixed"]
    assert (fixed["moved"], len(fixed["stay"])) == (1, 1)
    assert lab.clock.seconds - begun < 60.0


@pytest.mark.parametrize(
    ("for_seconds", "error"),
    [
        (None, Stalled("wave 1 of 2: no progress for 1 min of replicas that move inside ")),
        (30.0, StillMoving("wave 1 of 2: replicas still move inside ")),
    ],
)
def test_moves_that_do_not_end_are_named(
    planned: Callable[..., Lab], for_seconds: float | None, error: Exception
) -> None:
    """When nothing gets on, or the time is over; they go on."""
    lab = wrong_end(planned)
    stored = lab.kafka.stored
    progress = iter(range(20))

    def moving(brokers: Any) -> Stored:
        copied = next(progress, 20)
        paths = dict.fromkeys([("t", 0, 3), ("t", 1, 3)], OWN_CHOICE)
        return replace(stored(brokers), log_dirs=paths, moving={("t", 0, 3): ("/v", copied)})

    lab.kafka.stored = moving  # type: ignore[method-assign]
    step, begun = replace(lab.process(), fix_dirs=True), lab.clock.seconds
    patience = Patience(60.0, None if for_seconds is None else begun + for_seconds)
    with pytest.raises(type(error)) as raised:
        check_dirs(step, patience)
    names = "their brokers:\n- t-0 on broker 3\n- t-1 on broker 3"
    assert str(raised.value) == f"{error}{names}"
    seconds = lab.clock.seconds - begun
    assert seconds == (for_seconds or 36.0 + 60.0)
    assert lab.lines.count("wave 1 of 2: 2 replicas move inside their brokers") == (seconds > 60)
