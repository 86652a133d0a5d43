"""Plans of other tools: each format is read, and each fault is reported with its place and remedy."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from asking.judge.read_plan import read_plans
from asking.judge.their_plan import Inside, Kind, TheirPlan
from optimizer.errors import ConfigError
from tests.asking.judge.plans import (
    CURRENT,
    LISTS,
    PROPOSED,
    SAVE,
    WITH_OLD,
    WITHOUT_OLD,
    Lists,
    Write,
    answer,
    document,
    entry,
    generated,
    proposal,
)

Read = Callable[..., TheirPlan]
ReadPhases = Callable[..., list[TheirPlan]]
# The file system of a busy machine may be slow.
ONE_FILE = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture
def read_phases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ReadPhases:
    """Reads texts as the files a, b, ... of one plan."""
    monkeypatch.chdir(tmp_path)

    def read_texts(*texts: str | bytes) -> list[TheirPlan]:
        names = [chr(ord("a") + number) for number in range(len(texts))]
        for name, text in zip(names, texts, strict=True):
            Path(name).write_bytes(text if isinstance(text, bytes) else text.encode())
        return read_plans(names)

    return read_texts


@pytest.fixture
def read(read_phases: ReadPhases) -> Read:
    """Reads texts as the files a, b, ... of a plan of one phase."""

    def read_texts(*texts: str | bytes) -> TheirPlan:
        [plan] = read_phases(*texts)
        return plan

    return read_texts


def new_lists(plan: TheirPlan) -> Lists:
    """The new list of each partition."""
    return {key: named.replicas for key, named in plan.partitions.items()}


def old_lists(plan: TheirPlan) -> Lists:
    """The old list of each partition that has one."""
    return {key: named.old_replicas for key, named in plan.partitions.items() if named.old_replicas is not None}


def test_reassignment_json_may_name_directories(read: Read) -> None:
    """Each entry has its list, its directories if any, no old list, and its place."""
    plan = read(json.dumps(json.loads(document(entry(), entry("u", 7, [3], log_dirs=["/d"]))), indent=1))
    first, second = plan.partitions.values()
    assert (first.key, first.replicas, first.log_dirs, first.old_replicas) == (("t", 0), (1, 2), None, None)
    assert (second.name, second.replicas, second.log_dirs) == ("u-7", (3,), ("/d",))
    assert (first.place, second.place) == ("a line 5, entry 1", "a line 13, entry 2")
    assert plan.kind == Kind.REASSIGNMENT


@pytest.mark.parametrize(
    "heading_end", ["\n", "\n\n", " "], ids=["since 0.10.2", "before 0.10.2", "on the line of the heading"]
)
def test_the_output_of_generate_is_a_proposal_with_old_lists(read: Read, heading_end: str) -> None:
    """The proposal counts; the current assignment gives the old lists; lines of a log may be around it."""
    current = document(entry(log_dirs=["/d", "/e"]))
    text = generated(current, document(entry(replicas=[3, 2], log_dirs=["any", "any"])))
    plan = read("[2026-01-01 00:00:00,000] WARN x (y)\n" + text.replace(f"{CURRENT}\n", f"{CURRENT}{heading_end}"))
    assert (new_lists(plan), old_lists(plan)) == ({("t", 0): (3, 2)}, {("t", 0): (1, 2)})
    assert plan.partitions["t", 0].log_dirs == ("any", "any")
    assert plan.kind == Kind.GENERATE


def test_a_proposal_alone_has_no_old_lists(read: Read) -> None:
    """Somebody may have kept only the second half of the output."""
    plan = read(f"{PROPOSED}\n{document(entry())}\n")
    assert (new_lists(plan), old_lists(plan)) == ({("t", 0): (1, 2)}, {})


def test_proposals_of_cruise_control_have_old_lists_and_no_directories(read: Read) -> None:
    """NaN is accepted; a partition that Cruise Control adds has an empty old list, which is no old list."""
    plan = read(answer(proposal(), proposal("u", 3, [], [1])))
    assert new_lists(plan) == {("t", 0): (3, 2), ("u", 3): (1,)}
    assert old_lists(plan) == {("t", 0): (1, 2)}
    assert {named.log_dirs for named in plan.partitions.values()} == {None}
    assert plan.kind == Kind.CRUISE_CONTROL
    assert plan.partitions["u", 3].place == "a line 1, entry 2"


def test_each_file_is_a_phase(read_phases: ReadPhases) -> None:
    """In the order of the files, also of different formats and encodings; a partition may change in each of them."""
    phases = read_phases(document(entry()), document(entry("u")).encode("utf-16"), answer(proposal("v"), proposal()))
    assert [list(phase.partitions) for phase in phases] == [[("t", 0)], [("u", 0)], [("v", 0), ("t", 0)]]
    assert [(phase.name, phase.kind) for phase in phases] == [
        *(("a", Kind.REASSIGNMENT), ("b", Kind.REASSIGNMENT), ("c", Kind.CRUISE_CONTROL)),
    ]


SECOND = document(entry(replicas=[3, 2]))


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (f"{document(entry())}\n\n{SECOND}\n", Kind.REASSIGNMENT),
        (f"phase 0:\n{document(entry())}\nphase 1:\n{SECOND}", Kind.REASSIGNMENT),
        (generated(document(entry()), document(entry())) + generated(document(entry()), SECOND), Kind.GENERATE),
        (f"{PROPOSED}\n{document(entry())}\n{PROPOSED}\n{SECOND}\n", Kind.GENERATE),
    ],
    ids=["two plans", "two plans with text", "two outputs of generate", "two proposals"],
)
def test_each_document_of_a_file_is_a_phase(read_phases: ReadPhases, text: str, kind: Kind) -> None:
    """The name of a phase says where its document is."""
    first, second = read_phases(text)
    assert (new_lists(first), new_lists(second)) == ({("t", 0): (1, 2)}, {("t", 0): (3, 2)})
    assert {first.kind, second.kind} == {kind}
    lines = [number for number, line in enumerate(text.splitlines(), 1) if line in (document(entry()), SECOND)]
    assert (first.name, second.name) == (f"a line {lines[-3 if len(lines) > 2 else 0]}", f"a line {lines[-1]}")


def test_the_files_of_a_folder_are_phases_in_the_order_of_their_numbers(read_phases: ReadPhases) -> None:
    """Hidden files and folders are left out."""
    read_phases()
    Path("plans/more").mkdir(parents=True)
    for name in ("phase-10.json", "phase-9.json", "phase-1.json", ".hidden"):
        Path("plans", name).write_text(document(entry()) if name.startswith("phase") else "x", encoding="utf-8")
    names = [phase.name for phase in read_plans(["plans"])]
    assert names == ["plans/phase-1.json", "plans/phase-9.json", "plans/phase-10.json"]


@pytest.mark.parametrize("colon", ["", ":", " :"])
@pytest.mark.parametrize(
    ("current", "new"), [("CURRENT ASSIGNMENT", "NEW ASSIGNMENT"), ("Old assignment", "Proposed assignment")]
)
def test_the_new_assignment_of_two_is_the_plan(read: Read, current: str, new: str, colon: str) -> None:
    """The current one gives the old lists; without it there are none."""
    second = f"{new}{colon}\n{SECOND}\n"
    both, alone = read(f"{current}{colon}\n{document(entry())}\n{second}"), read(second)
    assert new_lists(both) == new_lists(alone) == {("t", 0): (3, 2)}
    assert (old_lists(both), old_lists(alone)) == ({("t", 0): (1, 2)}, {})


def test_a_summary_of_cruise_control_counts_moves_inside_brokers(read: Read) -> None:
    """Its MB are 2^20 bytes; a summary without the count says nothing."""
    summary = {"numIntraBrokerReplicaMovements": 3, "intraBrokerDataToMoveMB": 40}
    assert read(answer(proposal(new=[1, 2]), summary=summary)).inside == Inside(3, 40 * 2**20)
    assert read(answer(proposal())).inside is None


LOOK = 'an entry looks like {"topic":"t","partition":0,"replicas":[1,2]}'
REFUSED: dict[str, tuple[str | bytes, str]] = {
    "empty": ("\n", "a is empty: write the plan again"),
    "binary": (b"\x1f\x8b\x00\xff", "a is a gzip archive: give the plan as UTF-8 text"),
    "another text": ("hello\n", "a has no plan: give reassignment JSON, the output of kafka-reassign-partitions.sh"),
    "a log": ("[2026-01-01 00:00:00,000] INFO x\n", "a has no plan: give reassignment JSON"),
    "not JSON": (
        "{version:1}",
        "a is not a plan: invalid JSON: Expecting property name enclosed in double quotes at l",
    ),
    "cut off": (document(entry())[:-2], "a: invalid JSON: Expecting ',' delimiter at line 1, column "),
    "cut off early": (
        '{"version":1,"partitions":[{"to',
        "a is not a plan: invalid JSON: Unterminated string starting at",
    ),
    "version 2": (document(entry(), version=2), "a line 1: format version 2 is not supported; the only supported"),
    "version as text": (document(entry(), version="1"), "a line 1: format version '1' is not supported"),
    "no partitions": (
        '{"version":1}',
        "a line 1: this JSON is not a reassignment: it has no list 'partitions' with re",
    ),
    "an election": (document({"topic": "t", "partition": 0}), "a line 1: this JSON is not a reassignment"),
    "partitions as object": (document(partitions={}), f"a line 1: 'partitions' is not a list; {LOOK}"),
    "a bare list": (json.dumps([entry()]), "a line 1: this JSON is not a reassignment"),
    "one entry a line": (
        f"{json.dumps(entry())}\n{json.dumps(entry('u'))}",
        "a has 2 JSON documents, the second is in line 2",
    ),
    "a plan and another document": (
        document(entry()) + "\n" + document({"topic": "t", "partition": 0}),
        "a has 2 JSON documents, the second is in line 2, and not all are plans: give the plans alone",
    ),
    "a current assignment alone": (
        f"CURRENT ASSIGNMENT:\n{document(entry())}",
        "a line 2: these are the current replica",
    ),
    "a new assignment that is missing": (
        f"CURRENT ASSIGNMENT:\n{document(entry())}\nNEW ASSIGNMENT:\n",
        "a line 3: no readable JSON follows 'NEW ASSIGNMENT': give the complete output of the tool",
    ),
    "no entry": (
        document(),
        "a line 1: the list 'partitions' is empty, and Kafka refuses it: Partition reassignment list",
    ),
    "no topic": (document({"partition": 0, "replicas": [1]}), f"a line 1, entry 1: an entry has no 'topic'; {LOOK}"),
    "no list": (document(entry(), {"topic": "t", "partition": 1}), "a line 1, entry 2: an entry has no 'replicas'; "),
    "an entry as text": (document(entry(), "t-0"), "a line 1, entry 2: an entry is 't-0', not a JSON object"),
    "a bad topic": (document(entry("a b")), "a line 1, entry 1: 'a b' is not a valid topic name"),
    "a negative partition": (
        document(entry(partition=-1)),
        "a line 1, entry 1: partition '-1' of t is not a partition numb",
    ),
    "a large partition": (
        document(entry(partition=2**31)),
        "a line 1, entry 1: partition 2147483648 of t is above Kafka's limit, 2147483647",
    ),
    "an id as text": (
        document(entry(replicas=["1"])),
        "a line 1, entry 1: replicas \"['1']\" of t-0 is not a list of broker",
    ),
    "a negative id": (
        document(entry(replicas=[1, -1])),
        "a line 1, entry 1: -1 in the list [1, -1] of t-0 is not a broker id: give 0 to 2147483647",
    ),
    "an empty list": (
        document(entry(replicas=[])),
        "a line 1, entry 1: t-0 has no replicas, and Kafka refuses it: Partition replica list cannot be empty; list it",
    ),
    "a broker twice": (
        document(entry(replicas=[4, 5, 4])),
        "a line 1, entry 1: Kafka refuses the list [4, 5, 4]: Partition replica lists may not contain duplicate "
        "entries: t-0 contains multiple entries for 4; list each broker once",
    ),
    "log_dirs of another length": (
        document(entry(log_dirs=["any"])),
        f"a line 1, entry 1: t-0 has 2 replicas but 1 log_dirs; {LOOK}",
    ),
    "log_dirs that are numbers": (
        document(entry(log_dirs=[1, 2])),
        "a line 1, entry 1: log_dirs of t-0 is not a list of paths",
    ),
    "a partition twice": (
        document(entry(), entry()),
        "a line 1, entry 2: t-0 is already in a line 1, entry 1, and Kafka refuses it: Partition reassignment contains "
        "duplicate topic partitions: t-0; keep one of the two entries",
    ),
    "execute": (
        f"{CURRENT}\n\n{document(entry())}\n\n{SAVE}\nSuccessfully started partition reassignment for t-0\n",
        "a line 3: these are the current replica lists, which --execute prints for a rollback, not a plan: give the "
        "file that --execute read with --reassignment-json-file, or the complete output of --generate",
    ),
    "generate, first half": (f"{CURRENT}\n{document(entry())}\n", "a line 2: these are the current replica lists"),
    "generate, cut off at the proposal": (
        f"{CURRENT}\n{document(entry())}\n\n{PROPOSED}\n",
        f"a line 4: no readable JSON follows '{PROPOSED}': give the complete output of the tool",
    ),
    "generate, cut off": (
        generated(document(entry()), document(entry()))[:-6],
        "a: invalid JSON: Expecting value at line 5",
    ),
    "generate, fault in the current list": (
        generated(document(entry("a b")), document(entry())),
        "a line 2, entry 1: 'a b' is not a valid topic name",
    ),
    "generate, other partitions": (
        generated(document(entry("u")), document(entry())),
        "a line 5, entry 1: t-0 is not in the current assignment of this output: give the complete output of --gen",
    ),
    "a summary": (
        json.dumps({"summary": {"dataToMoveMB": 0}, "goalSummary": [], "version": 1}),
        "a has no proposals, only a summary: ask Cruise Control again with json=true&verbose=true",
    ),
    "plain text of Cruise Control": (
        "[{t-0, oldLeader: 1, [1, 2] -> [3, 2]}]\n\nOptimization has 1 inter-broker replica moves",
        "a is an answer of Cruise Control, but not JSON: ask Cruise Control again with json=true&verbose=true",
    ),
    "a request in progress": (
        '{"progress":[],"version":1}',
        "a is from a request that still ran: ask Cruise Control again",
    ),
    "an error of Cruise Control": (
        '{"stackTrace":"x","errorMessage":"no valid windows"}',
        "a is an error of Cruise Control: 'no valid windows'",
    ),
    "no proposal": (
        answer(),
        "a has an empty list of proposals: Cruise Control changes nothing, so there is no plan to judge",
    ),
    "proposals as object": (answer(proposals={}), "a has proposals that are not a list, but '{}': ask"),
    "proposals, cut off": (answer(proposal())[:-9], "a: invalid JSON: "),
    "two answers": (
        answer(proposal()) + "\n\n" + answer(proposal("u")),
        "a line 3: text follows the JSON: keep one answer",
    ),
    "a proposal as text": (
        answer("t-0"),
        "a line 1, entry 1: a proposal is 't-0', not a JSON object; a proposal looks like",
    ),
    "a proposal without lists": (
        answer({"topicPartition": {}}),
        "a line 1, entry 1: a proposal has no 'oldReplicas' and no 'newReplicas'; a proposal looks like",
    ),
    "a proposal without a topic": (
        answer({**proposal(), "topicPartition": {"partition": 0}}),
        "a line 1, entry 1: topicPartition \"{'partition': 0}\" has no 'topic' or no 'partition'",
    ),
    "a proposal with a bad topic": (answer(proposal("a b")), "a line 1, entry 1: 'a b' is not a valid topic name"),
    "a proposal with a bad partition": (
        answer(proposal(partition=-1)),
        "a line 1, entry 1: partition '-1' of t is not a partition number",
    ),
    "a proposal with objects": (
        answer(proposal(new=[{"brokerId": 1}])),
        "a line 1, entry 1: newReplicas \"[{'brokerId': 1}]\" of t-0 is not a list of broker ids",
    ),
    "a proposal with an empty list": (
        answer(proposal(new=[])),
        "a line 1, entry 1: t-0 has no replicas, and Kafka refuses",
    ),
    "a proposal twice": (
        answer(proposal(), proposal()),
        "a line 1, entry 2: t-0 is already in a line 1, entry 1, and Kafka",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_plan_is_refused(read: Read, name: str) -> None:
    """The message has file, line or entry, the value and the remedy."""
    text, message = REFUSED[name]
    with pytest.raises(ConfigError) as caught:
        read(text)
    assert str(caught.value).startswith(message)
    assert len(caught.value.problems) == 1


def test_files_that_cannot_be_read_are_named(read: Read) -> None:
    """A missing file, an empty folder, and a name that no file can have."""
    read(document(entry()))
    Path("folder").mkdir()
    with pytest.raises(ConfigError) as caught:
        read_plans(["a", "missing", "folder", "\0"])
    reasons = [problem.split("; ")[0] for problem in caught.value.problems]
    assert reasons[:2] == ["missing can't be read: No such file or directory", "folder can't be read: Is a directory"]
    assert len(reasons) == 3


def test_all_problems_are_reported_up_to_a_limit(read: Read) -> None:
    """Of all files and entries; the rest is counted."""
    with pytest.raises(ConfigError) as caught:
        read(document(*(entry("t", number, [1, 1]) for number in range(30))), "")
    problems = caught.value.problems
    assert (len(problems), problems[-1]) == (21, "11 more: fix these first")
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("write", [*WITHOUT_OLD, *WITH_OLD])
def test_a_large_plan_is_read_in_linear_time(read: Read, write: Write) -> None:
    """Also on one line: it takes 0.3 s of CPU time; a search that starts again at each entry takes minutes."""
    lists = {("t", number): (1, 2, 3) for number in range(10_000)}
    start = time.process_time()
    assert len(read(write(lists, lists)).partitions) == len(lists)
    assert time.process_time() - start < 5


@ONE_FILE
@given(LISTS, st.data())
def test_a_written_plan_is_read_back(read: Read, lists: Lists, data: st.DataObject) -> None:
    """In each format, with its old lists where the format has them."""
    old = {key: data.draw(st.permutations(replicas)) for key, replicas in lists.items()}
    for write in (*WITHOUT_OLD, *WITH_OLD):
        plan = read(write(lists, old))
        assert new_lists(plan) == lists
        assert old_lists(plan) == ({key: tuple(old[key]) for key in lists} if write in WITH_OLD else {})


@ONE_FILE
@given(LISTS, st.data())
def test_written_directories_are_read_back(read: Read, lists: Lists, data: st.DataObject) -> None:
    """Per partition: a directory for each replica, or none for all."""
    one = st.sampled_from(("any", "/d", "/data 1/\u00e9"))
    log_dirs = {
        key: data.draw(st.none() | st.lists(one, min_size=len(replicas), max_size=len(replicas)).map(tuple))
        for key, replicas in lists.items()
    }
    plan = read(document(*(entry(*key, lists[key], log_dirs=log_dirs[key]) for key in lists)))
    assert {key: named.log_dirs for key, named in plan.partitions.items()} == log_dirs


SMALL: Lists = {("t", 0): (1, 2), ("t", 1): (2, 3), ("topic.a", 10): (12,)}
OLD: Lists = {("t", 0): (2, 1), ("t", 1): (4, 3), ("topic.a", 10): (11,)}


def facts(plan: TheirPlan) -> Any:
    """All of a plan that decides something."""
    return new_lists(plan), old_lists(plan), {key: named.log_dirs for key, named in plan.partitions.items()}


@pytest.mark.parametrize("write", [*WITHOUT_OLD, *WITH_OLD])
def test_a_truncated_file_is_refused_or_says_the_same(read: Read, write: Write) -> None:
    """Only the end of the last line may be missing."""
    text = write(SMALL, OLD)
    whole = facts(read(text))
    for length in range(len(text)):
        try:
            assert facts(read(text[:length])) == whole
        except ConfigError:
            continue
        assert not text[length:].strip()


@pytest.mark.parametrize("write", [*WITHOUT_OLD, *WITH_OLD])
@ONE_FILE
@given(st.data())
def test_a_changed_byte_never_loses_a_partition(read: Read, write: Write, data: st.DataObject) -> None:
    """The file is refused, or one value differs: a changed digit is still a digit."""
    content = bytearray(write(SMALL, OLD).encode())
    whole = facts(read(bytes(content)))
    content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    try:
        changed = read(bytes(content))
    except ConfigError:
        return
    assert len(changed.partitions) == len(SMALL)
    assert bool(old_lists(changed)) == bool(whole[1])
    assert sum(new_lists(changed).get(key) != SMALL[key] for key in SMALL) <= 1


@ONE_FILE
@given(
    st.binary(max_size=200)
    | st.text(max_size=200).map(str.encode)
    | st.text('{}[]",:0 \\n', max_size=60).map(str.encode)
)
def test_any_other_file_is_refused(read: Read, content: bytes) -> None:
    """Never with another exception."""
    with pytest.raises(ConfigError):
        read(content)


@ONE_FILE
@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    (
                        "version",
                        "partitions",
                        "topic",
                        "partition",
                        "replicas",
                        "log_dirs",
                        "proposals",
                        "topicPartition",
                        "oldReplicas",
                        "newReplicas",
                        "brokers",
                        "logDir",
                        "progress",
                        "errorMessage",
                    )
                ),
                inner,
                max_size=4,
            )
        ),
        max_leaves=20,
    )
)
def test_any_json_is_read_or_refused(read: Read, value: Any) -> None:
    """Never with another exception, also where keys have values of unexpected types."""
    for content in (value, {"version": 1, "partitions": [entry(), value]}, {"proposals": [proposal(), value]}):
        try:
            read(json.dumps(content))
        except ConfigError:
            continue
