"""Plans of other tools with directories: what moves inside brokers, what Kafka refuses, and phases."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from asking.judge.judge import Judgement, document_of, judged
from asking.judge.phases import after, summed
from asking.judge.read_plan import read_plans
from asking.run_facts import RunFacts
from asking.sections import Grid, text_lines
from optimizer.errors import ConfigError
from optimizer.planning.plan_figures import Figures
from stored.verdicts import Refused
from tests.asking.judge.plans import answer, document, entry, proposal
from tests.asking.small_run import GB, Row, broker, make_facts, partition

RATE = 50_000_000  # bytes per second of copies by default


def log_dir(path: str, used: int = 0, **changes: Any) -> Row:
    """A directory of 500 GB."""
    return {"path": path, "capacity_bytes": 500 * GB, "used_bytes": used * GB, "logs": 1, "is_open": True, **changes}


def dirs_of(number: int) -> Sequence[Row] | None:
    """Brokers 1 to 4 have two directories, broker 5 has one, and those of broker 6 are not known."""
    return {5: [log_dir("/a", 100)], 6: None}.get(number, [log_dir("/a", 100), log_dir("/b")])


BROKERS = [broker(number, "aabbcc"[number - 1], log_dirs=dirs_of(number)) for number in range(1, 7)]
PARTITIONS = [
    partition("t", 0, [1, 3, 5], size_bytes=20 * GB, log_dirs=["/a", "/a", "/a"]),
    partition("t", 1, [1, 3, 6], size_bytes=10 * GB, log_dirs=["/a", "any", "any"]),
    partition("t", 2, [2, 4, 5], size_bytes=30 * GB, log_dirs=["/a", "/a", "/a"]),
]
FACTS = make_facts(BROKERS, PARTITIONS)


def judgement(folder: Path, *texts: str, facts: RunFacts = FACTS) -> Judgement:
    """Judge texts as the files 0.json, 1.json, ... of one plan."""
    paths = [folder / f"{number}.json" for number in range(len(texts))]
    for path, text in zip(paths, texts, strict=True):
        path.write_text(text, encoding="utf-8")
    return judged(facts, read_plans(paths), {})


def costs(theirs: Mapping[str, tuple[float | None, float | None]]) -> dict[str, float | None]:
    """Bytes in GB, waves, and seconds of the copies."""
    moved, inside, hours = (theirs.get(x, (None, 0))[1] for x in ("moved_bytes", "dir_moved_bytes", "estimated_hours"))
    assert moved is not None and inside is not None and hours is not None
    return {"copied": moved / GB, "inside": inside / GB, "waves": theirs["waves"][1], "seconds": round(hours * 3600)}


def seconds_of(gigabytes: float) -> int:
    return round(gigabytes * GB / RATE)


@pytest.mark.parametrize(
    ("number", "replicas", "log_dirs", "inside", "busiest"),
    [
        (0, [1, 3, 5], ["/b", "/b", "/a"], 40, 20),  # each broker moves one replica at the same time
        (0, [1, 3, 5], ["/b", "any", "any"], 20, 20),
        (0, [1, 3, 5], ["any", "any", "any"], 0, 0),
        (0, [1, 3, 5], ["/a", "/a", "/a"], 0, 0),
        (0, [1, 3, 5], None, 0, 0),
        (0, [3, 1, 5], ["/b", "/a", "/a"], 20, 20),  # directories follow the order of the new list
        (1, [1, 3, 6], ["/b", "/b", "/x"], 10, 10),  # the directory of broker 3 is not known today
    ],
)
def test_replicas_that_stay_move_between_directories(
    tmp_path: Path, number: int, replicas: list[int], log_dirs: list[str] | None, inside: int, busiest: int
) -> None:
    """Their bytes, waves and times are counted, those of the broker with most bytes for the time."""
    fields = {} if log_dirs is None else {"log_dirs": log_dirs}
    theirs = costs(judgement(tmp_path, document(entry("t", number, replicas, **fields))).theirs)
    waves = int(inside > 0) + int(replicas == [3, 1, 5])
    assert theirs == {"copied": 0, "inside": inside, "waves": waves, "seconds": seconds_of(busiest)}


def test_a_plan_inside_brokers_says_so(tmp_path: Path) -> None:
    """The verdict and the table name its bytes; no ratio is possible."""
    result = judgement(tmp_path, document(entry("t", 0, [1, 3, 5], log_dirs=["/b", "/b", "any"])))
    assert result.verdict() == "Their plan copies nothing between brokers; it moves 40.0 GB inside brokers."
    lines = [" ".join(line.split()) for line in text_lines(document_of(FACTS, result))]
    assert "Bytes moved inside brokers 40.0 GB - -" in lines
    assert "Replicas moved inside brokers 2 - -" in lines
    assert not result.notes


def test_replicas_that_change_the_broker_too(tmp_path: Path) -> None:
    """One replica is copied to another broker, another one moves inside its own; each counts once."""
    result = judgement(tmp_path, document(entry("t", 0, [2, 3, 5], log_dirs=["/b", "/b", "any"])))
    theirs = costs(result.theirs)
    assert (theirs["copied"], theirs["inside"], theirs["waves"]) == (20, 20, 2)
    assert result.notes == (
        "Up to 20.0 GB more may move inside brokers, of 1 replica: Kafka may first put new replicas into other "
        "directories.",
    )


def test_a_present_directory_that_is_not_known(tmp_path: Path) -> None:
    """What may move is a note, except on a broker with one directory."""
    result = judgement(tmp_path, document(entry("t", 1, [1, 3, 6], log_dirs=["/a", "/b", "/b"])))
    assert costs(result.theirs)["inside"] == 0
    assert result.notes == (
        "Up to 20.0 GB more may move inside brokers, of 2 replicas: the run does not know their present directories.",
    )


@pytest.mark.parametrize(
    ("path", "broker_id", "known"), [("/x", 1, "/a, /b"), ("/b", 5, "/a"), ("relative", 1, "/a, /b")]
)
def test_directories_that_a_broker_does_not_have(tmp_path: Path, path: str, broker_id: int, known: str) -> None:
    """The message has Kafka's words, the place and what there is; a broker with unknown directories may have any."""
    log_dirs = [path if b == broker_id else "any" for b in (1, 3, 5)]
    with pytest.raises(ConfigError) as caught:
        judgement(tmp_path, document(entry("t", 0, [1, 3, 5], log_dirs=log_dirs)))
    assert str(caught.value) == (
        f"the plan names 1 log directory that the broker does not have: {path} on broker {broker_id} (t-0 in "
        f"{tmp_path}/0.json line 1, entry 1); Kafka starts the reassignment and then ends with Failed to alter dir for "
        f"t-0-{broker_id}: LogDirNotFoundException: The user-specified log directory is not found in the broker "
        f"config.; broker {broker_id} has {known}"
    )


def test_a_directory_that_has_failed(tmp_path: Path) -> None:
    """Kafka refuses a move into it: a note names it."""
    brokers = [{**BROKERS[0], "log_dirs": [log_dir("/a", 100), log_dir("/b", is_open=False)]}, *BROKERS[1:]]
    plan = document(entry("t", 0, [1, 3, 5], log_dirs=["/b", "any", "any"]))
    assert judgement(tmp_path, plan, facts=make_facts(brokers, PARTITIONS)).notes == (
        "Kafka refuses moves into directories that have failed or are cordoned: /b on broker 1 (Failed to alter dir "
        "for t-0-1).",
    )


@pytest.mark.parametrize("replicas", [[1, 3, 5], [2, 3, 5]], ids=["inside", "between"])
def test_a_directory_that_becomes_too_full(tmp_path: Path, replicas: list[int]) -> None:
    """It breaks a rule, if a replica moves into it from the same broker or from another one."""
    small = [log_dir("/a", 100), log_dir("/B", 0, capacity_bytes=10 * GB)]
    brokers = [{**each, "log_dirs": small} for each in BROKERS[:2]]
    plan = document(entry("t", 0, replicas, log_dirs=["/B", "any", "any"]))
    result = judgement(tmp_path, plan, facts=make_facts([*brokers, *BROKERS[2:]], PARTITIONS))
    [violation] = result.violations
    where = f"Directory /B of broker {replicas[0]}"
    assert violation.text == f"{where} would hold 20.0 GB in wave 1; at most 9.00 GB are allowed."


def cruise_control(count: int | None, *proposals: Any, megabytes: int = 0) -> str:
    """An answer whose summary has this count."""
    summary = {} if count is None else {"numIntraBrokerReplicaMovements": count, "intraBrokerDataToMoveMB": megabytes}
    return answer(*proposals, summary=summary)


SAME_0, SAME_2 = proposal("t", 0, [1, 3, 5], [1, 3, 5]), proposal("t", 2, [2, 4, 5], [2, 4, 5])
LED_BY_3 = {**SAME_0, "oldLeader": 3}
MOVED_1 = proposal("t", 1, [1, 3, 6], [2, 3, 6])


@pytest.mark.parametrize(
    ("count", "proposals", "copied", "inside", "busiest"),
    [
        (2, [SAME_0, SAME_2], 0, 50, 30),
        (None, [SAME_0, SAME_2], 0, 50, 30),  # an old release
        (3, [SAME_0, SAME_2], 0, 80, 30),  # the larger partition moves two replicas, on two brokers
        (1, [SAME_0], 0, 20, 20),
        (0, [LED_BY_3], 0, 0, 0),  # only the leader changes
        (None, [LED_BY_3], 0, 0, 0),
        (1, [LED_BY_3, SAME_2], 0, 30, 30),
        (1, [SAME_0, MOVED_1], 10, 20, 20),
        (0, [MOVED_1], 10, 0, 0),
    ],
)
def test_cruise_control_moves_replicas_inside_brokers(
    tmp_path: Path, count: int | None, proposals: list[Any], copied: int, inside: int, busiest: int
) -> None:
    """Equal lists are such moves, as many as the summary counts, on the brokers on which they take longest."""
    result = judgement(tmp_path, cruise_control(count, *proposals))
    theirs = costs(result.theirs)
    assert (theirs["copied"], theirs["inside"]) == (copied, inside)
    assert theirs["waves"] == (copied > 0) + (inside > 0)
    assert theirs["seconds"] == pytest.approx(seconds_of(copied) + seconds_of(busiest), abs=5)  # a copy starts slowly
    assert len(result.notes) == (inside > 0)


def test_moves_of_one_broker_are_added(tmp_path: Path) -> None:
    """Cruise Control does not say where replicas move: the time is that of one broker with all of them."""
    lists = [[2, 1, 5], [4, 1, 6], [3, 1, 5]]  # only broker 1 is in all
    rows = [partition("t", n, ids, size_bytes=20 * GB, log_dirs=["/a"] * 3) for n, ids in enumerate(lists)]
    plan = cruise_control(3, *(proposal("t", n, ids, ids) for n, ids in enumerate(lists)), megabytes=60_000)
    result = judgement(tmp_path, plan, facts=make_facts(BROKERS, rows))
    assert costs(result.theirs) == {"copied": 0, "inside": 60, "waves": 1, "seconds": seconds_of(60)}
    assert result.notes == (
        "Cruise Control moves 3 replicas (62.9 GB) inside brokers and does not say where: bytes are those of the run, "
        "and times are for the brokers on which they take longest.",
    )


def test_a_summary_that_counts_more_than_the_proposals_show(tmp_path: Path) -> None:
    """The rest is named, not counted."""
    [note] = judgement(tmp_path, cruise_control(9, SAME_2)).notes
    assert note == (
        "Cruise Control moves 9 replicas inside brokers and does not say where: its proposals show 2; bytes and times "
        "are without the other 7."
    )


def test_without_directories_bytes_inside_brokers_still_count(tmp_path: Path) -> None:
    """A run without log directories knows sizes."""
    facts = make_facts(
        [{**each, "log_dirs": None} for each in BROKERS], [{**row, "log_dirs": ["any"] * 3} for row in PARTITIONS]
    )
    theirs = costs(judgement(tmp_path, cruise_control(1, SAME_0), facts=facts).theirs)
    assert theirs == {"copied": 0, "inside": 20, "waves": 1, "seconds": seconds_of(20)}


COSTS = ("moved_bytes", "replicas_moved", "leader_changes", "waves", "dir_moved_bytes", "estimated_hours", "most_hours")
PHASES = (
    document(entry("t", 0, [2, 3, 5]), entry("t", 2, [2, 4, 5], log_dirs=["/b", "any", "any"])),
    document(entry("t", 0, [2, 4, 5]), entry("t", 2, [2, 4, 5], log_dirs=["/b", "/b", "any"])),
    document(entry("t", 0, [4, 2, 5])),
)


def test_each_phase_is_judged_against_the_state_that_the_phase_before_leaves(tmp_path: Path) -> None:
    """Costs are added, states are those at the end, the peak is the largest; a directory that is reached stays."""
    result = judgement(tmp_path, *PHASES)
    each = [costs(figures) for _, figures in result.phases]
    assert [(x["copied"], x["inside"], x["waves"]) for x in each] == [(20, 30, 2), (20, 30, 2), (0, 0, 1)]
    assert [figures["leader_changes"][1] for _, figures in result.phases] == [1, 0, 1]
    for name in COSTS:
        values = [figures.get(name, (None, 0))[1] or 0 for _, figures in result.phases]
        assert result.theirs[name][1] == pytest.approx(sum(values)), name
    at_once = judgement(tmp_path, document(entry("t", 0, [4, 2, 5]))).theirs
    for name in ("fullest_disk_percent", "brokers_outside_bands", "rack_violations"):
        assert result.theirs[name] == at_once[name]
    assert result.notes == (
        "Their plan has 3 phases, judged in this order, each against the state that the phase before leaves: "
        f"{', '.join(f'{number}. {tmp_path}/{number - 1}.json' for number in (1, 2, 3))}. Costs are added.",
    )


def test_phases_have_a_table_with_their_peak(tmp_path: Path) -> None:
    """A column for each phase, and one for the largest values."""
    document_ = document_of(FACTS, judgement(tmp_path, *PHASES))
    [grid] = next(section.parts for section in document_.sections if section.title == "Phases")
    assert isinstance(grid, Grid)
    rows = {row[0]: row[1:] for row in grid.rows}
    assert grid.header == ["", "phase 1", "phase 2", "phase 3", "peak"]
    assert rows["Bytes copied"] == ["20.0 GB", "20.0 GB", "0 B", "20.0 GB"]
    assert rows["Bytes moved inside brokers"] == ["30.0 GB", "30.0 GB", "-", "30.0 GB"]


def test_one_phase_has_no_table_of_phases(tmp_path: Path) -> None:
    """The answer is that of a plan."""
    result = judgement(tmp_path, PHASES[0])
    assert (result.phases, result.notes) == ([], ())
    assert [section.title for section in document_of(FACTS, result).sections] == ["What differs", "Other figures"]


def test_a_rule_that_one_phase_breaks_names_the_phase(tmp_path: Path) -> None:
    """Also if a later phase repairs it; what a phase leaves as it was breaks no rule again."""
    phases = [document(entry("t", 0, replicas)) for replicas in ([1, 2, 5], [1, 2, 6], [1, 3, 6])]
    result = judgement(tmp_path, *phases)
    assert [each.text for each in result.violations] == [
        "Phase 1: t-0: [1, 2, 5]: 1 replica against the rack rule, 0 before."
    ]
    assert result.theirs["rack_violations"] == (0, 0)


@pytest.mark.parametrize(("old", "is_stale"), [([2, 3, 5], False), ([1, 3, 5], True)])
def test_old_lists_of_a_later_phase_are_those_that_the_phase_before_leaves(
    tmp_path: Path, old: Sequence[int], is_stale: bool
) -> None:
    """A second plan that was made for the first state is not its next phase."""
    phases = (PHASES[0], answer(proposal("t", 0, old, [2, 4, 5])))
    if not is_stale:
        assert costs(judgement(tmp_path, *phases).theirs)["copied"] == 40
        return
    with pytest.raises(Refused) as caught:
        judgement(tmp_path, *phases)
    assert "are not those of the state after phase 1: t-0 had [1, 3, 5] and has [2, 3, 5]" in str(caught.value)


def test_a_leader_that_leaves_in_a_phase_is_replaced(tmp_path: Path) -> None:
    """The first replica leads then, so the next phase copies from it; a partition in flight has arrived."""
    in_flight = {"controller_replicas": [1, 3, 5, 6], "adding_replicas": [6], "replicas": [1, 3, 6]}
    facts = make_facts(BROKERS, [*PARTITIONS[1:], {**PARTITIONS[0], **in_flight, "log_dirs": ["/a", "/a", "any"]}])
    [plan] = read_plans([_written(tmp_path, document(entry("t", 0, [2, 3, 5])))])
    rows = after(facts, plan, {}).partitions.set_index("partition").loc[0]
    assert (rows["leader"], rows["isr"], rows["controller_replicas"]) == (2, [2, 3, 5], None)
    assert rows["log_dirs"] == ["any", "/a", "any"]


def _written(folder: Path, text: str) -> Path:
    path = folder / "plan.json"
    path.write_text(text, encoding="utf-8")
    return path


def test_the_sum_of_a_figure_that_a_phase_does_not_know_is_not_known() -> None:
    """A figure that a phase does not have is 0."""
    first: Figures = {"waves": (None, 1.0), "most_hours": (None, None)}
    total = summed([first, {"waves": (None, 2.0), "dir_moves": (None, 3.0)}])
    assert (total["waves"][1], total["most_hours"][1], total["dir_moves"][1]) == (3, None, 3)
