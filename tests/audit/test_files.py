"""The audit of the documents other than the plan: a sound plan passes, and each damaged document is caught."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from optimizer.audit import AuditFile, AuditLimits, AuditPartition, Violation, audit_files
from optimizer.audit.instance import Instance
from optimizer.audit.read_documents import Entry, PlanDocument
from optimizer.audit.throttles import check_rollback_throttles, check_throttles
from optimizer.emit.cluster_plan import ClusterPlan
from optimizer.emit.kafka_files import kafka_documents
from optimizer.emit.rows import BrokerRow
from optimizer.emit.throttle_files import throttle_documents
from optimizer.kafka.size_limits import CONFIG_VALUE_CHARACTERS
from optimizer.kafka.throttle import FOLLOWER_RATE, LEADER_RATE
from optimizer.kafka.throttle import FOLLOWER_REPLICAS as FOLLOWERS
from optimizer.kafka.throttle import LEADER_REPLICAS as LEADERS
from tests.audit.plans import LIMITS, broker, partition
from tests.emit.throttled import CHANGES, RATE, throttled_plan

# Partition t-9 only gets another order, so that its old leader leads on; 8 is dead.
ORDER = {("order", 9): ([1, 2], [2, 1])}
DEAD = {("dead", 0): ([1, 8], [1, 3])}
WAVE = "c/wave-01/"
ROLLBACK = f"{WAVE}rollback-throttle.json"
Texts = dict[str, str]


def _plan() -> ClusterPlan:
    plan = throttled_plan({**CHANGES, **ORDER, **DEAD})
    dead = BrokerRow(8, "a", "dead", accepts_replicas=False, must_empty=True)
    sound = [row for row in plan.throttles if row.entity_name != "8" or row.style == "kafka"]
    waves = [replace(row, copy_bytes_per_s=RATE) for row in plan.waves]
    return replace(plan, brokers=[*plan.brokers, dead], throttles=sound, waves=waves)


PLAN = _plan()
FILES = [AuditFile(d.path, d.kind, d.wave, d.content) for d in (*kafka_documents(PLAN), *throttle_documents(PLAN))]
BROKERS = [broker(b, None, state="dead" if b == 8 else "alive") for b in (1, 2, 3, 4, 8)]
PARTITIONS = [
    AuditPartition(
        topic=topic, partition=number, replicas=tuple(before), size_bytes=100, replication_factor=2, mobility="free",
        leader=before[0],
    )
    for (topic, number), (before, _) in (CHANGES | ORDER | DEAD | {("still", 0): ([1, 2], [1, 2])}).items()
]  # fmt: skip


def violations(files: list[AuditFile]) -> tuple[Violation, ...]:
    """What the audit finds."""
    return audit_files(brokers=BROKERS, partitions=PARTITIONS, limits=AuditLimits(disk_headroom=0.1), files=files)


def changed(path: str, change: Callable[[str], str]) -> list[AuditFile]:
    """The files with one text changed."""
    assert any(file.path == path for file in FILES)
    return [replace(file, content=change(file.content)) if file.path == path else file for file in FILES]


def rows(change: Callable[[list[Any]], object]) -> Callable[[str], str]:
    """A change of the list of partitions in a JSON document."""

    def on(text: str) -> str:
        content = json.loads(text)
        change(content["partitions"])
        return json.dumps(content)

    return on


def entry(
    style: str, name: str, config: str, change: Callable[[dict[str, Any]], object] | None = None
) -> Callable[[str], str]:
    """A change of one entry of throttles as data; without ``change`` the entry is removed."""

    def on(text: str) -> str:
        content = json.loads(text)
        [row] = [row for row in content[style] if (row["entity_name"], row["config"]) == (name, config)]
        if change:
            change(row)
        else:
            content[style].remove(row)
        return json.dumps(content)

    return on


def swap(old: str, new: str) -> Callable[[str], str]:
    """A change of some text that has to be there."""

    def on(text: str) -> str:
        assert old in text
        return text.replace(old, new)

    return on


def without(pattern: str) -> Callable[[str], str]:
    """A change that leaves out lines."""
    return lambda text: "\n".join(line for line in text.splitlines() if not re.search(pattern, line))


def test_sound_documents_pass() -> None:
    """The documents that are emitted hold every rule, with a dead broker, an election and throttles from before."""
    assert {file.kind for file in FILES} == {
        "reassignment", "rollback", "rollback_not_possible", "topics_to_move", "leader_election", "throttle",
    }  # fmt: skip
    assert violations(FILES) == ()
    assert violations([]) == ()


def text_of(path: str) -> str:
    """A sound document."""
    [content] = [file.content for file in FILES if file.path == path]
    return content


SCRIPT, UNDO, KAFKA = f"{WAVE}throttle-careful.sh", f"{WAVE}unthrottle-careful.sh", f"{WAVE}throttle-kafka.sh"
BROKEN: list[tuple[str, str, Callable[[str], str], set[str]]] = [
    ("rollback lacks one", f"{WAVE}rollback.json", rows(list.pop), {"wave_rollback"}),
    ("rollback names another", f"{WAVE}rollback.json", rows(lambda r: r[0].update(partition=7)), {"wave_rollback"}),
    ("rollback in other order", f"{WAVE}rollback.json", rows(lambda r: r[0]["replicas"].reverse()), {"wave_rollback"}),
    ("rollback no JSON", f"{WAVE}rollback.json", lambda text: text[:20], {"wave_rollback"}),
    ("not possible lacks it", "c/rollback-not-possible.json", rows(lambda r: r[0].update(topic="x")),
     {"rollback_not_possible"}),
    ("not possible, another list", "c/rollback-not-possible.json", rows(lambda r: r[0]["replicas"].reverse()),
     {"rollback_not_possible"}),
    ("election of what stays", "c/leader-election.json", rows(lambda r: r[0].update(topic="still", partition=0)),
     {"election"}),
    ("election that is not needed", "c/leader-election.json", rows(lambda r: r[0].update(topic="stays", partition=0)),
     {"election"}),
    ("election twice", "c/leader-election.json", rows(lambda r: r.append(r[0])), {"election"}),
    ("election no JSON", "c/leader-election.json", lambda _: "[]", {"document", "election"}),
    ("topics lack one", "c/topics-to-move.json", swap('"stays"', '"still"'), {"topics_to_move"}),
    ("topics no JSON", "c/topics-to-move.json", lambda text: text[:9], {"topics_to_move"}),
    ("topics of another shape", "c/topics-to-move.json", lambda _: '{"topics": ["a"]}', {"topics_to_move"}),
    ("follower not listed", SCRIPT, swap("0:3,1:4", "1:4"), {"throttle_lists", "throttle_data"}),
    ("leader not listed", SCRIPT, swap("[0:1,0:2,1:2,1:1]", "[0:1,1:2,1:1]"), {"throttle_lists", "throttle_data"}),
    ("topic left out", SCRIPT, without("configs topics 'goes'"), {"throttle_lists", "throttle_data"}),
    ("topic left out of Kafka's form", KAFKA, without("configs topics 'goes'"), {"throttle_lists", "throttle_data"}),
    ("no rate", SCRIPT, without("configs brokers '3'"), {"throttle_rates", "throttle_data"}),
    ("no rate of a replica that does not lead", SCRIPT, without("configs brokers '2'"),
     {"throttle_rates", "throttle_data"}),
    ("rate 0", SCRIPT, swap("follower.replication.throttled.rate=300000", "follower.replication.throttled.rate=0"),
     {"throttle_rates", "throttle_data"}),
    ("another rate than the data", SCRIPT, swap("rate=300000", "rate=300001"), {"throttle_data"}),
    ("data unreadable", f"{WAVE}throttle.json", lambda _: "{", {"throttle_data", "unthrottle"}),
    ("too long a list", SCRIPT, swap("[0:1,0:2,1:2,1:1]", f"[0:1,0:2,1:2,1:1{',5:1' * 8189}]"),
     {"throttle_value", "throttle_data"}),
    ("no list", SCRIPT, swap("[0:1,0:2,1:2,1:1]", "[0:1,0:2,1:2,1:1,x]"), {"throttle_value", "throttle_data"}),
    ("never removed", UNDO, without("^topics goes follower"), {"unthrottle"}),
    ("not restored", UNDO, swap("0:1,0:2,1:2,1:1 *", "0:1,0:2,1:2,1:1 -"), {"unthrottle"}),
    ("another value removed", UNDO, swap("0:1,0:2,1:2,1:1 *", "0:1,0:2,1:2 *"), {"unthrottle"}),
    ("another value restored", UNDO, swap(" 20000000", " 20000001"), {"unthrottle"}),
    *(
        (f"rollback, form {style}: {case}", ROLLBACK, entry(style, *change), {rule})
        for style in ("careful", "kafka")
        for case, change, rule in (
            ("follower list missing", ("goes", FOLLOWERS), "throttle_lists"),
            ("leader list missing", ("goes", LEADERS), "throttle_lists"),
            ("follower not listed", ("stays", FOLLOWERS, lambda row: row.update(value="0:2")), "throttle_lists"),
            ("leader not listed", ("stays", LEADERS, lambda row: row.update(value="0:1,1:2,1:4")), "throttle_lists"),
            ("no leader rate", ("4", LEADER_RATE), "throttle_rates"),
            ("no follower rate", ("2", FOLLOWER_RATE), "throttle_rates"),
            ("copies slower than the wave", ("3", LEADER_RATE, lambda row: row.update(value="299999")),
             "throttle_rates"),
            ("rate no number", ("3", LEADER_RATE, lambda row: row.update(value="fast")), "throttle_rates"),
            ("no list", ("stays", LEADERS, lambda row: row.update(value=row["value"] + ",x")), "throttle_value"),
            ("another value restored", ("2", LEADER_RATE, lambda row: row.update(previous_value=None)),
             "throttle_data"),
            ("value no text", ("2", LEADER_RATE, lambda row: row.update(value=5)), "throttle_data"),
        )
    ),
    ("rollback with the wave's throttles", ROLLBACK, lambda _: text_of(f"{WAVE}throttle.json"),
     {"throttle_lists", "throttle_rates"}),
    ("rollback throttles unreadable", ROLLBACK, lambda text: text[:20], {"throttle_data"}),
    ("rollback throttles of no form", ROLLBACK, swap('"kafka"', '"other"'), {"throttle_data"}),
    ("rollback at no rate", ROLLBACK, swap('"copy_bytes_per_s": 300000', '"copy_bytes_per_s": null'),
     {"throttle_data"}),
    ("rollback at rate 0", ROLLBACK, swap('"copy_bytes_per_s": 300000', '"copy_bytes_per_s": 0'), {"throttle_data"}),
    ("rollback at another rate", ROLLBACK, swap('"copy_bytes_per_s": 300000', '"copy_bytes_per_s": 299999'),
     {"throttle_data"}),
]  # fmt: skip


@pytest.mark.parametrize(("path", "change", "broken"), [case[1:] for case in BROKEN], ids=[case[0] for case in BROKEN])
def test_a_spoilt_document_is_caught(path: str, change: Callable[[str], str], broken: set[str]) -> None:
    """A document with one fault breaks the rules that it should break, and no others."""
    assert {violation.rule for violation in violations(changed(path, change))} == broken


@pytest.mark.parametrize(
    ("path", "rule"),
    [
        (f"{WAVE}rollback.json", "wave_rollback"),
        ("c/rollback-not-possible.json", "rollback_not_possible"),
        ("c/leader-election.json", "election"),
        (SCRIPT, "throttle_missing"),
        (UNDO, "throttle_missing"),
        (ROLLBACK, "throttle_missing"),
    ],
)
def test_a_lost_document_is_caught(path: str, rule: str) -> None:
    """A document that should be there and is not breaks its rule."""
    assert {violation.rule for violation in violations([file for file in FILES if file.path != path])} == {rule}


def test_lost_data_of_a_wave_is_caught() -> None:
    """Those of its rollback stay."""
    lost = [file for file in FILES if file.path != f"{WAVE}throttle.json"]
    assert {violation.rule for violation in violations(lost)} == {"throttle_missing"}


@pytest.mark.parametrize(
    ("before", "after", "is_needed"),
    [((1, 2), (1, 3), True), ((1, 2), (1, 2, 3), False), ((1, 8), (1, 3), False), ((1, 2), (3, 1, 2), False)],
    ids=["copies back", "only removes", "has no way back", "only removes the first"],
)
@pytest.mark.parametrize("has_data", [True, False])
def test_a_rollback_has_throttles_exactly_if_it_copies(
    before: tuple[int, ...], after: tuple[int, ...], is_needed: bool, has_data: bool
) -> None:
    """Neither a missing nor a needless document passes. A wave that is not throttled has none."""
    instance = Instance(brokers=BROKERS, partitions=[partition(0, *before)], limits=LIMITS)
    wave = PlanDocument("wave 1", (Entry(("t", 0), after),), ())
    data = {"w/throttle.json": "{}"} if has_data else {}
    expected = ["throttle_missing"] if is_needed else []
    assert [v.rule for v in check_rollback_throttles(instance, wave, "w", data)] == expected
    given = [v.rule for v in check_rollback_throttles(instance, wave, "w", {**data, "w/rollback-throttle.json": "{}"})]
    assert given == ["throttle_data" if is_needed else "throttle_extra"]


@pytest.mark.parametrize(("partitions", "broken"), [(9_999, False), (10_000, False), (10_001, True)])
@pytest.mark.parametrize(("kind", "wave"), [("rollback", 0), ("reassignment", 1), ("leader_election", 0)])
def test_a_document_over_one_request_is_caught(kind: str, wave: int, partitions: int, broken: bool) -> None:
    """No document that is executed names more than 10,000 partitions; the whole plan may."""
    text = json.dumps(
        {"version": 1, "partitions": [{"topic": "t", "partition": p, "replicas": [1]} for p in range(partitions)]}
    )
    for file_kind, of_wave, is_broken in ((kind, wave, broken), ("reassignment", 0, False)):
        rules = {violation.rule for violation in violations([AuditFile("c/x.json", file_kind, of_wave, text)])}
        assert ("request_size" in rules) is is_broken


@pytest.mark.parametrize(
    ("characters", "broken"), [(CONFIG_VALUE_CHARACTERS, False), (CONFIG_VALUE_CHARACTERS + 1, True)]
)
def test_a_list_over_kafkas_limit_is_caught(characters: int, broken: bool) -> None:
    """A list of 32,767 characters passes, one more does not."""
    known = "0:1,0:2,1:2,1:1"
    value = known + ",5:" + "1" * (characters - len(known) - 3)
    assert len(value) == characters
    rules = {violation.rule for violation in violations(changed(SCRIPT, swap(f"[{known}]", f"[{value}]")))}
    assert ("throttle_value" in rules) is broken


def _details(files: list[AuditFile]) -> str:
    return "\n".join(violation.detail for violation in violations(files))


@pytest.mark.parametrize(("topics", "broken"), [(5_000, False), (5_001, True)])
def test_lists_of_too_many_topics_are_caught(topics: int, broken: bool) -> None:
    """Lists of 5,000 topics can be set in one request, of one more they can't."""
    name = "leader.replication.throttled.replicas"
    lines = "".join(f"\nconfigs topics 'x{i}' --add-config '{name}=0:1'" for i in range(topics - 3))
    assert ("Kafka accepts 5000 in one request" in _details(changed(SCRIPT, lambda text: text + lines))) is broken


@pytest.mark.parametrize(("size", "broken"), [(128 * 1024 - 1, False), (128 * 1024, True)])
def test_an_argument_that_starts_no_process_is_caught(size: int, broken: bool) -> None:
    """An argument of a script has less than 128 KiB."""
    argument = "leader.replication.throttled.replicas=".ljust(size, "1")
    line = f"\nconfigs topics 'x' --add-config '{argument}'"
    assert ("a process accepts 131071" in _details(changed(SCRIPT, lambda text: text + line))) is broken


def test_an_election_of_a_dead_broker_is_caught() -> None:
    """A partition that waits for the election of a replica on a broker that is down is named."""
    files = [replace(file, content=file.content.replace("[2,1]", "[8,1]")) for file in FILES]
    assert "the first replica 8 is down" in _details(files)


THROTTLES = [
    "throttle.json", "throttle-careful.sh", "throttle-kafka.sh", "unthrottle-careful.sh", "unthrottle-kafka.sh"
]  # fmt: skip


@pytest.mark.parametrize(
    ("replicas", "names", "lacks"),
    [
        ((2, 1), [], None),
        ((2, 1), THROTTLES[:4], "unthrottle-kafka.sh"),
        ((1, 3), THROTTLES[:4], "unthrottle-kafka.sh"),
        ((1, 3), [], ", ".join(THROTTLES)),
    ],
    ids=["nothing to copy, none", "nothing to copy, some", "a copy, some", "a copy, none"],
)
def test_throttles_are_whole_or_not_needed(replicas: tuple[int, ...], names: list[str], lacks: str | None) -> None:
    """A wave that only changes orders needs no throttle documents; where there are some, none may be missing."""
    rows = [partition(0, 1, 2)]
    instance = Instance(brokers=[broker(b, None) for b in (1, 2, 3)], partitions=rows, limits=LIMITS)
    wave = PlanDocument("wave 1", (Entry(("t", 0), replicas),), ())
    is_broken = [(v.rule, v.detail) for v in check_throttles(instance, wave, "w", {f"w/{name}": "" for name in names})]
    assert is_broken == ([("throttle_missing", f"it lacks {lacks}")] if lacks else [])


def test_what_is_not_put_back_is_named() -> None:
    """The violation names the broker or topic whose config gets another value."""
    spoilt = violations(changed(UNDO, swap(" 20000000", " 20000001")))
    assert [violation.subject for violation in spoilt] == ["2"]
