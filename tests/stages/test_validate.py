"""Validate: every kind of bad input is caught, quarantined with its reason, and refuses the run if it must."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from optimizer.emit.quality_causes import SHARE
from optimizer.errors import QualityGateFailed
from optimizer.settings import Metrics, Policy, Schedule, Settings, Storage
from optimizer.stages.stage import Run
from optimizer.stages.validate import cross_rules, rule_table, validate
from optimizer.stages.validate.rule import Stops
from optimizer.windows_setting import Window
from sources.record import Record, malformed
from tests.stages import bronze
from tests.stages.bronze import (
    LISTS,
    brokers,
    capacity,
    directory,
    healthy,
    load,
    partition,
    partitions,
    size,
    sizes,
    without,
)


@dataclass(frozen=True)
class Case:
    """A fault.

    Parameters
    ----------
    rules : tuple of str
        The rules that it breaks, and no others; those that stop the run are marked with an exclamation mark.
    reason : str
        Part of a reason.
    """

    records: Sequence[Record]
    rules: tuple[str, ...]
    reason: str = ""


def lists(**changed: Sequence[int]) -> dict[int, Sequence[int]]:
    """The replica lists with some changed: p0=[...]."""
    return {**LISTS, **{int(name[1:]): replicas for name, replicas in changed.items()}}


def listed(**changed: Sequence[int]) -> list[Record]:
    """A healthy cluster but for some replica lists."""
    placed = lists(**changed)
    return [*brokers(), *partitions(placed), *sizes(placed), capacity(-1, 10_000), *(load(p) for p in LISTS)]


def others(number: int) -> list[Record]:
    """A healthy cluster without the description of one partition."""
    return [r for r in healthy() if r.kind != "partition" or r.payload["partition"] != number]


def assignment(number: int, replicas: Sequence[int]) -> Record:
    """A partition of topic t as an assignment document has it."""
    dirs = ["/x", "any", "any"]
    return Record("assignment", 1, {"topic": "t", "partition": number, "replicas": replicas, "log_dirs": dirs})


def reassignment(
    number: int, replicas: Sequence[int], *, adding: Sequence[int] | None, removing: Sequence[int] | None
) -> Record:
    """A partition of topic t in the list of reassignments."""
    fields = {"topic": "t", "partition": number, "replicas": replicas}
    return Record("reassignment", 6, {**fields, "adding": adding, "removing": removing})


def placed_as(lists: Mapping[int, Sequence[int]]) -> set[tuple[int, ...]]:
    """Partition, position and broker of each replica."""
    return {(number, place, b) for number, replicas in lists.items() for place, b in enumerate(replicas)}


def unmoved(lists: Mapping[int, Sequence[int]]) -> set[tuple[Any, ...]]:
    """Each partition, with nothing added or removed."""
    return {(number, False, False) for number in lists}


TARGETS = {0: [2, 3], 1: [3, 1, 2], 2: [3, 1]}
LOST = ("all_partitions_described!", "load_of_known_partition!", "quarantined_share!")
TWICE = [size(1, 1, 102), size(2, 1, 100), size(3, 1, 101)]


def unread(line: int, reason: str) -> Record:
    """What a parser could not read."""
    return malformed(line=line, expected="sizes", reason=reason, remedy="take it again", text=f"text of {line}")


def unread_lines(count: int) -> list[Record]:
    """Lines from 11 that could not be read."""
    return [unread(line, "broker 'x' is no id") for line in range(11, 11 + count)]


def network(broker_id: int, *, carried: int) -> Record:
    """A capacity of the network, in and out."""
    fields = {"broker_id": broker_id, "log_dir": None, "disk_bytes": 10_000}
    return Record("capacity", 4, {**fields, "in_bytes_per_s": carried, "out_bytes_per_s": carried})


def cut(number: int) -> list[Record]:
    """A healthy cluster without one partition's description, logs and loads."""
    return [r for r in healthy() if r.payload.get("partition") != number]


CASES = {
    "healthy": Case(healthy(), ()),
    "topic-rates": Case(
        [
            *(r for r in healthy() if r.kind not in ("log_dir_replica", "partition_load")),
            *(size(b, p, 100 * (p + 1)) for p, replicas in LISTS.items() for b in replicas),
            load(1),
        ],
        (),
    ),
    "repeated-broker": Case(
        listed(p1=[2, 3, 2]),
        ("no_repeated_broker!", "log_is_described", *LOST),
        "t-1: replicas [2,3,2] name a broker twice",
    ),
    "no-replica": Case(listed(p1=[]), ("replicas_not_empty!", "has_leader", *LOST), "t-1 has no replica"),
    "ghost": Case(
        listed(p1=[-1, 2, 3]),
        ("broker_ids_legal!", "replica_size_readable!", "has_leader", "log_is_described", *LOST),
        "[-1,2,3]",
    ),
    "illegal-topic": Case(
        [*healthy(), partition(0, [1, 2, 3], topic="a b")], ("topic_name_legal!", "quarantined_share!"), "named a b"
    ),
    "dots-as-topics": Case(
        [
            *healthy(),
            *(partition(0, [1, 2, 3], topic=name) for name in (".", "..", "...")),
            *(size(b, 0, 5, topic="...") for b in (1, 2, 3)),
            load(0, topic="..."),
        ],
        ("topic_name_legal!", "quarantined_share!", "topic_has_header"),
        "named ..",
    ),
    "unknown-broker": Case(
        [*others(1), partition(1, [2, 3, 9], isr=[2, 3])],
        ("broker_registered", "log_is_placed"),
        "broker 9 is in 1 replica list,",
    ),
    "largest-broker-id": Case(
        [*others(1), partition(1, [2, 3, 2**31 - 1], isr=[2, 3])],
        ("broker_registered", "log_is_placed"),
        "broker 2147483647 is in 1 replica list,",
    ),
    "negative-size": Case(
        [*without(healthy(), "log_dir_replica"), *sizes(lists())[1:], size(1, 0, -5)],
        ("replica_size_in_range!", "quarantined_share!"),
        "size -5",
    ),
    "absurd-size": Case(
        [*without(healthy(), "log_dir_replica"), *sizes(lists())[1:], size(1, 0, 10**20)],
        ("replica_size_in_range!", "quarantined_share!"),
        "size 100000000000000000000",
    ),
    "sizes-of-one-broker": Case(
        [
            *without(brokers(), "log_dir"),
            directory(1),
            *partitions({0: [1, 2], 1: [2, 3], 2: [3, 2], 3: [2, 3]}),
            size(1, 0, 100),
            capacity(-1, 10_000),
            *(load(p) for p in LISTS),
        ],
        ("size_known!", "holder_tells_of_directories"),
    ),
    "no-sizes": Case(without(healthy(), "log_dir_replica"), ("size_known!",), "t-3 has no size"),
    "described-twice": Case([*healthy(), partition(1, LISTS[1])], ("no_duplicate_snapshot",), "t-1 is described again"),
    "in-conflict": Case(
        [*healthy(), partition(1, [3, 2, 1])],
        ("no_conflicting_snapshot!", "log_is_described", *LOST),
        "t-1: replicas [2,3,1] here, but [3,2,1] in in-conflict.txt:2",
    ),
    "racks-on-some": Case(
        [*without(healthy(), "broker"), *brokers({1: "a", 2: None, 3: "c"})], ("rack_known!",), "broker 2 has no rack"
    ),
    "two-racks": Case([*healthy(), bronze.broker(1, "b")], ("one_rack_a_broker!", "quarantined_share!"), "a, b"),
    "no-brokers": Case(without(healthy(), "broker"), ("registered_brokers",)),
    "isr-outside": Case(
        [*others(3), partition(3, LISTS[3], isr=[1, 9])],
        ("isr_within_replicas",),
        "ISR [1,9] is not within replicas [1,3,2]",
    ),
    "leaderless": Case([*others(3), partition(3, LISTS[3], leader=None)], ("has_leader",), "t-3 has no leader"),
    "lost": Case(
        [*cut(1), partition(1, [8, 9], leader=None, isr=[9])],
        ("broker_registered", "has_leader", "one_replication_factor"),
        "broker 8 is in 1 replica list,",
    ),
    "lost-on-fenced-brokers": Case(
        [
            *cut(1),
            *(bronze.broker(b, rack, fenced=True) for b, rack in ((8, "a"), (9, "b"))),
            partition(1, [8, 9], leader=None, isr=[9]),
        ],
        ("has_leader", "one_replication_factor"),
        "t-1 has no leader",
    ),
    "lost-with-its-directory": Case(
        [*cut(1), partition(1, [3], leader=None, isr=[3]), directory(3, "/d2", error="KAFKA_STORAGE_ERROR")],
        ("log_dir_healthy", "has_leader", "one_replication_factor"),
        "directory /d2 of broker 3 has failed: KAFKA_STORAGE_ERROR",
    ),
    "led-and-unsized": Case(
        [*cut(1), load(1), partition(1, [3], leader=3), directory(3, "/d2", error="KAFKA_STORAGE_ERROR")],
        ("size_known!", "log_dir_healthy", "one_replication_factor"),
        "t-1 has no size",
    ),
    "leaderless-and-unsized": Case(
        [*cut(1), load(1), partition(1, [9, 2], leader=None, isr=[9])],
        ("size_known!", "broker_registered", "has_leader", "one_replication_factor"),
        "t-1 has no size",
    ),
    "capacity-of-stranger": Case([*healthy(), capacity(8, 5_000)], ("capacity_of_known_broker",), "broker 8"),
    "capacity-of-no-directory": Case(
        [*healthy(), capacity(1, 5_000, "/mnt")], ("capacity_of_known_log_dir",), "no directory /mnt; it has /d"
    ),
    "capacity-negative": Case([*healthy(), capacity(1, -5)], ("capacity_in_range!", "quarantined_share!"), "disk -5"),
    "capacity-in-two-ways": Case(
        [*healthy(), capacity(1, 5), capacity(1, 6)],
        ("capacity_agrees!", "quarantined_share!"),
        "broker 1 has 2 different capacities",
    ),
    "load-of-stranger": Case([*healthy(), load(7)], ("load_of_known_partition!", "quarantined_share!"), "t-7"),
    "metrics-of-stranger": Case(healthy(), ("metrics_of_known_partition!", "quarantined_share!"), "gone-0"),
    "partitions-missing": Case(
        [r for r in healthy() if r.payload.get("partition") != 2],
        ("all_partitions_described!",),
        "t has 4 partitions, but 3 are described",
    ),
    "unreadable": Case(
        [*healthy(), malformed(line=7, expected="a partition", reason="no leader", remedy="again", text="x")],
        ("readable", "quarantined_share!"),
        "expected a partition: no leader",
    ),
    "cut-in-half": Case(
        [*without(healthy(), "log_dir_replica"), unread(3, "invalid JSON: Expecting value"), *unread_lines(7)],
        ("readable", "quarantined_share!", "size_known!"),
        "invalid JSON: Expecting value",
    ),
    "nothing": Case([topic for topic in healthy() if topic.kind == "broker"], ("partitions!",)),
    "stray-log": Case(
        [*listed(p1=[2, 3]), size(1, 1, 5)], ("log_is_placed", "one_replication_factor"), "has a log on broker 1"
    ),
    "sizes-twice": Case([*healthy(), *TWICE], ("replica_size_once",), "t-1 on broker 1 has a size in"),
    "other-plan": Case(
        [*healthy(), assignment(0, [3, 2, 1])],
        ("assignment_agrees",),
        "t-0: replicas [3,2,1] in the assignment document, but [1,2,3] in the description",
    ),
    "several-capacities": Case(
        [
            *(r for r in healthy() if r.kind not in ("log_dir", "capacity")),
            *(directory(1, "/d", 5_000), directory(1, "/e", 6_000), directory(2, "/d", 7_000), directory(3)),
            *(capacity(-1, 9_990), capacity(1, 500, "/d"), capacity(1, 600, "/e")),
        ],
        (),
    ),
    "in-flight": Case(
        [
            *(r for r in others(0) if r.payload.get("partition") != 1 or r.kind != "partition"),
            partition(0, [1, 2, 3], adding=[1], removing=[3]),
            partition(1, [2, 3, 1], observers=[1]),
            # An earlier answer of a poll log: the last line of a file counts.
            reassignment(1, [2, 3, 1], adding=[3], removing=[]),
            reassignment(1, [2, 3, 1], adding=[2], removing=[1]),
        ],
        (),
    ),
    # Before Kafka 2.6 ZooKeeper has the targets only: t-0 copies to 2, t-1 has all copies, t-2 gets 3 soon.
    "in-flight-in-zookeeper": Case(
        [
            *(r for r in healthy() if r.kind != "partition" or r.payload["partition"] == 3),
            partition(0, [1, 2, 3], isr=[1, 3]),
            partition(1, [1, 2, 3]),
            partition(2, [1, 2]),
            *(reassignment(p, target, adding=None, removing=None) for p, target in TARGETS.items()),
        ],
        (),
    ),
    "in-flight-to-nowhere": Case(
        [*others(0), partition(0, LISTS[0], removing=LISTS[0])],
        ("target_not_empty!", "log_is_described", *LOST),
        "t-0: the reassignment in flight removes every replica",
    ),
    "in-flight-and-kcat": Case(
        [
            *(partition(p, LISTS[p], adding=None, removing=None) for p in LISTS),
            *others(0),
            partition(0, LISTS[0], adding=[1], removing=[3]),
        ],
        ("no_duplicate_snapshot",),
        "t-0 is described again",
    ),
    "no-topic": Case(
        [*healthy(), partition(0, LISTS[0], topic=None)],
        ("placement_readable!", "quarantined_share!"),
        "topic, partition or replicas are missing",
    ),
    "negative-broker": Case(
        [*healthy(), bronze.broker(-5, "a")], ("broker_id_legal!", "quarantined_share!"), "broker id -5 is impossible"
    ),
    "directory-of-nobody": Case(
        [*healthy(), directory(-1, "/z")], ("log_dir_readable!", "quarantined_share!"), "broker or log directory"
    ),
    "being-deleted": Case(
        [Record("topic", 1, {**r.payload, "marked_for_deletion": True}) if r.kind == "topic" else r for r in healthy()],
        ("not_being_deleted",),
        "topic t is marked for deletion",
    ),
    "in-flight-to-a-ghost": Case(
        [*healthy(), reassignment(1, [2, 3, -1], adding=[-1], removing=[1])],
        ("reassignment_readable!", "quarantined_share!"),
        "topic, partition or replicas are missing",
    ),
    "reassignment-of-stranger": Case(
        [*healthy(), reassignment(9, [1, 2], adding=[2], removing=[1])],
        ("reassignment_of_known_partition",),
        "t-9 is being reassigned, but no description has it",
    ),
    "load-out-of-range": Case(
        [*(r for r in healthy() if r.kind != "partition_load"), load(0), load(1, in_bytes_per_s=-5), load(2), load(3)],
        ("load_in_range!", "rates_known", "quarantined_share!"),
        "t-1: size none, in -5, out 20",
    ),
    "load-in-two-ways": Case(
        [*healthy(), load(1, in_bytes_per_s=11)],
        ("load_agrees!", "rates_known", "quarantined_share!"),
        "t-1 has 2 different loads",
    ),
    "network-a-little-over": Case(
        [*healthy(), network(1, carried=30)],
        ("in_within_capacity", "out_within_capacity"),
        "broker 1 receives 40 bytes per second, but its capacity is 30",
    ),
    "network-in-another-unit": Case(
        [
            *without(healthy(), "partition_load"),
            *(load(p, in_bytes_per_s=100, out_bytes_per_s=200) for p in LISTS),
            network(1, carried=8),
        ],
        ("in_in_one_unit!", "out_in_one_unit!"),
        "broker 1 receives 400 bytes per second, but its capacity is 8",
    ),
    "assignment-only": Case([*without(healthy(), "partition"), *(assignment(p, LISTS[p]) for p in LISTS)], ()),
}


@dataclass(frozen=True)
class Outcome:
    """What validate made of all cases in one run."""

    run: Run
    frames: dict[str, DataFrame]
    rows: dict[str, list[dict[str, Any]]]

    def of(self, table: str, cluster: str) -> list[dict[str, Any]]:
        """Rows of one cluster."""
        return [row for row in self.rows[table] if row["cluster_id"] == cluster]


@pytest.fixture(scope="module")
def outcome(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """One run over every case, each a cluster of its own."""
    output = str(tmp_path_factory.mktemp("out"))
    night = Window(days=("fri",), start="22:00", end="06:00", time_zone="UTC")
    settings = bronze.settings_of(list(CASES), storage=Storage(output=output), schedule=Schedule(windows=(night,)))
    run = bronze.run_of(spark, settings)
    samples = [("metrics-of-stranger", "gone", 0, 5.0), ("healthy", "t", 0, 7.0), ("topic-rates", "t", None, 500.0)]
    inputs = {
        "bronze_records": bronze.bronze(spark, {name: case.records for name, case in CASES.items()}),
        "bronze_metrics": bronze.metrics(spark, samples),
    }
    frames = {name: frame.localCheckpoint() for name, frame in validate.build(inputs, run).items()}
    rows = {name: [row.asDict() for row in frame.collect()] for name, frame in frames.items()}
    return Outcome(run, {**inputs, **frames}, rows)


@pytest.mark.parametrize("name", CASES)
def test_a_fault_breaks_its_rules_and_no_other(outcome: Outcome, name: str) -> None:
    """Each fault fails exactly the expectations that it should, and those that stop the run are critical."""
    results = outcome.of("quality_results", name)
    failed = {row["rule"] + ("!" if row["severity"] == "critical" else "") for row in results if not row["success"]}
    expected = {rule for rule in CASES[name].rules if rule != "readable"}
    assert failed == expected


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.reason])
def test_a_bad_row_is_set_aside_with_its_reason(outcome: Outcome, name: str) -> None:
    """Quarantine names rule, reason with the value, remedy, source and line."""
    rule = CASES[name].rules[0].rstrip("!")
    rows = [row for row in outcome.of("quarantine", name) if row["rule"] == rule]
    assert rows
    assert any(CASES[name].reason in row["reason"] for row in rows)
    assert all(row["remedy"] and row["source"] and row["line"] > 0 for row in rows)


@pytest.fixture(scope="module")
def pages(outcome: Outcome) -> Path:
    """The folder of the quality pages, with a page of an earlier attempt with more clusters."""
    folder = outcome.run.folder / "quality"
    folder.mkdir(parents=True)
    (folder / "earlier.html").write_text("earlier")
    validate.report(outcome.frames, outcome.run)
    return folder


def test_every_cluster_has_a_quality_page(outcome: Outcome, pages: Path) -> None:
    """Refused clusters have one too, and their error names it; pages of other clusters stay."""
    assert {path.name for path in pages.iterdir()} == {f"{name}.html" for name in (*CASES, "earlier")}
    assert (pages / "earlier.html").read_text() == "earlier"
    refused = validate.gate(outcome.frames, outcome.run)
    assert refused
    for name in CASES:
        text = (pages / f"{name}.html").read_text(encoding="utf-8")
        assert ('<p class="bad">Refused: ' in text) == (name in refused)
        page = pages / f"{name}.html"
        assert name not in refused or str(refused[name]).endswith(f"table quarantine, run 'r1'; results: {page}")


@pytest.mark.parametrize("name", CASES)
def test_a_quality_page_has_the_figures_of_the_tables(outcome: Outcome, pages: Path, name: str) -> None:
    """A section for each failed check, with the number of its rows in quarantine; the rest is passed or not judged."""
    text = (pages / f"{name}.html").read_text(encoding="utf-8")
    results = outcome.of("quality_results", name)
    sections = {part.partition("</h2>")[0]: part for part in re.split("<h2>", text.partition("<details>")[0])[1:]}
    failed = {row["rule"]: row for row in results if not row["success"]}
    assert failed.keys() <= sections.keys()
    for rule, row in failed.items():
        broken, judged = row["unexpected_count"], row["judged_rows"]
        number = f"{judged - broken} of {judged} row" if row["least"] and judged else row["observed"]
        assert re.search(rf": {re.escape(number)}[a-z ]*; allowed: {re.escape(row['threshold'])}\.", sections[rule])
    counted = Counter(row["rule"] for row in outcome.of("quarantine", name))
    for rule in sections.keys() & counted.keys():
        more = re.search(r"And ([\d,]+) more row", sections[rule])
        assert sections[rule].count("<tr><td><code>") + (int(more[1]) if more else 0) == counted[rule]
    unjudged = [row for row in results if row["success"] and row["judged_rows"] == 0]
    [not_judged], [passed] = (re.findall(rf"<h2>{name} \((\d+)\)", text) for name in ("Not judged", "Passed"))
    assert int(not_judged) >= len(unjudged) > 0
    assert len(failed) + int(not_judged) + int(passed) == len(results)
    folded = text.partition("<details>")[2]
    assert [row["rule"] for row in unjudged if f"<td>{row['rule']}" in folded] == []


def test_a_quality_page_shows_rows_that_only_a_parser_or_a_figure_counts(pages: Path) -> None:
    """Lines that were not read, and rows of every rule that count in the share."""
    text = (pages / "cut-in-half.html").read_text(encoding="utf-8")
    readable, share = (text.partition(f"<h2>{rule}</h2>")[2].partition("</section>")[0] for rule in ("readable", SHARE))
    assert "8 rows could not be used as given" in readable
    assert "<code>cut-in-half.txt:3</code></td><td>expected sizes: invalid JSON: Expecting value" in readable
    assert "And 3 more rows in table" in readable
    assert "<code>cut-in-half.txt:3</code>" in share
    text = (pages / "repeated-broker.html").read_text(encoding="utf-8")
    assert "t-1: replicas [2,3,2] name a broker twice" in text
    assert "Another failed check may be the cause" in text.partition(f"<h2>{SHARE}</h2>")[2].partition("</section>")[0]


def test_the_gate_names_everything_that_stops_the_run(outcome: Outcome) -> None:
    """The refusal (exit code 3) lists each cause with count, source, value and remedy, and possible consequences."""
    refused = validate.gate(outcome.frames, outcome.run)
    assert set(refused) == {name for name, case in CASES.items() if any(rule.endswith("!") for rule in case.rules)}
    assert {type(error) for error in refused.values()} == {QualityGateFailed}
    assert all("the data can't be used for planning: " in str(error) for error in refused.values())
    assert all(f"cluster {name}, " in str(error) for name, error in refused.items())
    for name, case in CASES.items():
        text = str(refused.get(name, ""))
        stopping = {rule.rstrip("!") for rule in case.rules if rule.endswith("!")}
        causes = set(re.findall(rf"- cluster {name}, (\w+): ", text))
        following = re.findall(r"these may be consequences: (.*)", text)
        assert causes | {rule for line in following for rule in line.split(", ")} == stopping
        assert bool(causes) == bool(stopping)
        assert not stopping or f"{len(causes)} broken rule" in text
    message = "\n".join(map(str, refused.values()))
    assert "repeated-broker.txt:2: t-1: replicas [2,3,2] name a broker twice" in message
    assert "no-sizes, size_known: 4 of 4 rows, allowed at least 95.00% of the rows" in message
    assert "t-0, t-1, t-2, t-3 have no size" in message
    partial = "brokers 2, 3 hold replicas, but report no log directory, unlike other brokers\n    fix: give "
    assert partial in str(refused["sizes-of-one-broker"])
    assert QualityGateFailed.exit_code == 3


def test_the_gate_names_first_what_was_not_read(outcome: Outcome) -> None:
    """File, line, reason and remedy of what could not be read come before the rules that it broke, a few of a file."""
    refused = validate.gate(outcome.frames, outcome.run)
    message = str(refused["cut-in-half"])
    places = [f"cut-in-half.txt:{line}: expected sizes: " for line in (3, 11, 12, 13, 14, 15, 16, 17)]
    assert [place in message for place in places] == [True] * 5 + [False] * 3
    assert "cut-in-half.txt:3: expected sizes: invalid JSON: Expecting value\n    cut-in-half.txt:11: " in message
    assert message.count("        fix: take it again\n    and 3 more lines") == 1
    assert "and 3 more lines of cut-in-half.txt" in message
    assert message.index(places[0]) < message.index("cluster cut-in-half, size_known:")
    assert all(message.count(place) == 1 for place in places[:5])
    assert "not read" not in str(refused["no-sizes"])


def test_the_gate_lets_warnings_pass(outcome: Outcome) -> None:
    """Clusters with warnings only continue."""
    harmless = [name for name, case in CASES.items() if not any(rule.endswith("!") for rule in case.rules)]
    passing = {name: f.where(F.col("cluster_id").isin(harmless)) for name, f in outcome.frames.items()}
    assert validate.gate(passing, outcome.run) == {}
    assert len(harmless) > 8


def test_a_partition_that_is_set_aside_is_not_used(outcome: Outcome) -> None:
    """Silver holds what keeps the rules, once."""
    placed = {(row["topic"], row["partition"]) for row in outcome.of("replicas", "in-conflict")}
    assert placed == {("t", 0), ("t", 2), ("t", 3)}
    assert len(outcome.of("replicas", "described-twice")) == 12


LEFT_OUT: list[tuple[str, str, tuple[str, ...], set[tuple[Any, ...]]]] = [
    ("other-plan", "replicas", ("partition", "position", "broker_id"), placed_as(LISTS)),
    ("reassignment-of-stranger", "replicas", ("partition", "is_adding", "is_removing"), unmoved(LISTS)),
    ("in-flight-to-a-ghost", "replicas", ("partition", "is_adding", "is_removing"), unmoved(LISTS)),
    ("negative-broker", "brokers", ("broker_id",), {(1,), (2,), (3,)}),
    ("directory-of-nobody", "log_dirs", ("broker_id", "log_dir"), {(1, "/d"), (2, "/d"), (3, "/d")}),
    ("load-of-stranger", "partition_load", ("partition",), {(p,) for p in LISTS}),
    ("metrics-of-stranger", "partition_load", ("topic", "partition"), {("t", p) for p in LISTS}),
    (
        "load-out-of-range",
        "partition_load",
        ("partition", "in_bytes_per_s", "out_bytes_per_s", "rate_source"),
        {(1, 0, 0, "missing"), *((p, 10, 20, "table") for p in (0, 2, 3))},
    ),
]


@pytest.mark.parametrize(("name", "table", "columns", "rows"), LEFT_OUT, ids=[case[0] for case in LEFT_OUT])
def test_what_is_left_out_is_in_no_table_of_the_plan(
    outcome: Outcome, name: str, table: str, columns: tuple[str, ...], rows: set[tuple[Any, ...]]
) -> None:
    """The description counts before an assignment; a partition without its rates counts as idle."""
    assert {tuple(row[column] for column in columns) for row in outcome.of(table, name)} == rows


def test_a_broker_that_only_replica_lists_name_is_dead(outcome: Outcome) -> None:
    """It is data: a row of its own, without capacity."""
    rows = {row["broker_id"]: row for row in outcome.of("brokers", "unknown-broker")}
    assert {broker: row["state"] for broker, row in rows.items()} == {1: "alive", 2: "alive", 3: "alive", 9: "dead"}
    assert (rows[9]["disk_capacity_bytes"], rows[1]["disk_capacity_bytes"]) == (None, 10_000)


@pytest.mark.parametrize("name", ["lost", "lost-with-its-directory"])
def test_a_partition_that_no_broker_can_serve_is_outside_of_coverage(outcome: Outcome, name: str) -> None:
    """Its size and rates can't be known: they are neither counted nor required, and its row in the table says so."""
    judged = {row["rule"]: row["judged_rows"] for row in outcome.of("quality_results", name)}
    assert (judged["size_known"], judged["rates_known"], judged["replica_has_log"]) == (3, 3, 4)
    assert "rates_known" not in {row["rule"] for row in outcome.of("input_findings", name)}
    sources = {row["partition"]: row["size_source"] for row in outcome.of("partition_load", name)}
    assert sources == {0: "log_dirs", 1: "missing", 2: "log_dirs", 3: "log_dirs"}


def test_without_a_list_every_broker_counts_as_alive(outcome: Outcome) -> None:
    """Brokers then come from replica lists and directories, without racks."""
    rows = outcome.of("brokers", "no-brokers")
    assert {(row["broker_id"], row["state"], row["rack"]) for row in rows} == {(b, "alive", None) for b in (1, 2, 3)}


def test_loads_come_from_logs_and_metrics(outcome: Outcome) -> None:
    """The size is that of the largest replica; a metric counts before a finished table."""
    loads = {row["partition"]: row for row in outcome.of("partition_load", "healthy")}
    assert (loads[0]["size_bytes"], loads[0]["size_source"]) == (102, "log_dirs")
    assert (loads[0]["in_bytes_per_s"], loads[0]["rate_source"]) == (7, "metric")
    assert (loads[1]["in_bytes_per_s"], loads[1]["out_bytes_per_s"], loads[1]["rate_source"]) == (10, 20, "table")


def test_a_topics_rate_is_spread_by_size_over_partitions_without_their_own(outcome: Outcome) -> None:
    """A partition with a load of its own keeps it; a finding says how many are estimates."""
    loads = {row["partition"]: row for row in outcome.of("partition_load", "topic-rates")}
    assert {p: (row["size_bytes"], row["in_bytes_per_s"], row["rate_source"]) for p, row in loads.items()} == {
        0: (100, 50, "topic"),
        1: (200, 10, "table"),
        2: (300, 150, "topic"),
        3: (400, 200, "topic"),
    }
    (finding,) = (row for row in outcome.of("input_findings", "topic-rates") if row["rule"] == "rates_measured")
    assert (finding["standing"], finding["rows"]) == ("noted", 3)
    assert finding["detail"] == (
        "3 of 4 partitions have no rates of their own: they get the topic's rate by size, an estimate"
    )
    assert not any(row["rule"] == "rates_measured" for row in outcome.of("input_findings", "healthy"))


def test_rates_from_metrics_have_a_value_for_the_windows(outcome: Outcome) -> None:
    """The samples are of Saturday, 02:00, inside the window. An estimate has it too, a table of loads has no hours."""
    loads = {c: {row["partition"]: row for row in outcome.of("partition_load", c)} for c in ("healthy", "topic-rates")}
    in_window = {c: {p: row["window_in_bytes_per_s"] for p, row in rows.items()} for c, rows in loads.items()}
    assert in_window == {"healthy": {0: 7, 1: None, 2: None, 3: None}, "topic-rates": {0: 50, 1: None, 2: 150, 3: 200}}
    assert {row["window_out_bytes_per_s"] for rows in loads.values() for row in rows.values()} == {None}


def test_a_size_that_is_refused_leaves_the_other_replicas(outcome: Outcome) -> None:
    """The load then rests on the sizes that are believed, and no replica shows the refused one."""
    loads = {row["partition"]: row for row in outcome.of("partition_load", "absurd-size")}
    replicas = {(row["partition"], row["broker_id"]): row for row in outcome.of("replicas", "absurd-size")}
    assert loads[0]["size_bytes"] == 102
    assert replicas[0, 1]["size_bytes"] is None


def test_capacities_of_a_broker_come_before_the_default(outcome: Outcome) -> None:
    """Own entry, then what the disks hold, then the entry of broker -1; directories add up."""
    brokers = {row["broker_id"]: row["disk_capacity_bytes"] for row in outcome.of("brokers", "several-capacities")}
    dirs = {(row["broker_id"], row["log_dir"]): row for row in outcome.of("log_dirs", "several-capacities")}
    assert brokers == {1: 1_100, 2: 7_000, 3: 9_990}
    capacities = {key: row["capacity_bytes"] for key, row in dirs.items()}
    assert capacities == {(1, "/d"): 500, (1, "/e"): 600, (2, "/d"): 7_000, (3, "/d"): None}
    assert (dirs[1, "/d"]["used_bytes"], dirs[1, "/e"]["used_bytes"]) == (100 + 102 + 101 + 100, 0)


def test_what_moves_is_read_from_either_tool(outcome: Outcome) -> None:
    """Adding and removing come from the description, or for old versions from the list of reassignments."""
    rows = outcome.of("replicas", "in-flight")
    moving = {(r["partition"], r["broker_id"], r["is_adding"], r["is_removing"]) for r in rows}
    assert {row for row in moving if row[2] or row[3]} == {
        (0, 1, True, False),
        (0, 3, False, True),
        (1, 2, True, False),
        (1, 1, False, True),
    }


def test_a_target_alone_shows_a_reassignment_in_flight(outcome: Outcome) -> None:
    """Its order comes first, what it lacks leaves, and a replica is added: one out of sync, or else the last one."""
    rows = outcome.of("replicas", "in-flight-in-zookeeper")
    lists = {
        number: [
            (r["broker_id"], r["is_adding"], r["is_removing"])
            for r in sorted(rows, key=lambda r: r["position"])
            if r["partition"] == number
        ]
        for number in TARGETS
    }
    assert lists == {
        0: [(2, True, False), (3, False, False), (1, False, True)],
        1: [(3, False, False), (1, False, False), (2, True, False)],
        2: [(3, True, False), (1, False, False), (2, False, True)],
    }


def test_observers_are_replicas_of_their_own_kind(outcome: Outcome) -> None:
    """Each replica says whether it is an observer; without the field of the description it is unknown."""
    rows = outcome.of("replicas", "in-flight")
    flags = {(r["partition"], r["broker_id"]): r["is_observer"] for r in rows if r["partition"] in (0, 1)}
    assert flags == {(0, 1): None, (0, 2): None, (0, 3): None, (1, 2): False, (1, 3): False, (1, 1): True}


def test_a_listing_that_cannot_know_hides_no_move(outcome: Outcome) -> None:
    """A description with moves in flight counts before an earlier row of the same capture without them."""
    rows = outcome.of("replicas", "in-flight-and-kcat")
    moving = {(r["partition"], r["broker_id"], r["is_adding"], r["is_removing"]) for r in rows}
    assert {row for row in moving if row[2] or row[3]} == {(0, 1, True, False), (0, 3, False, True)}
    assert len(rows) == 12


def test_an_assignment_alone_is_read_as_healthy(outcome: Outcome) -> None:
    """Without a description the first replica leads and all are in sync."""
    rows = [r for r in outcome.of("replicas", "assignment-only") if r["partition"] == 0]
    replicas = [(r["position"], r["broker_id"], r["is_leader"], r["in_sync"]) for r in rows]
    assert sorted(replicas) == [(0, 1, True, True), (1, 2, False, True), (2, 3, False, True)]


def test_rules_follow_the_settings() -> None:
    """Racks that are ignored may be missing; rates that are required are listed and can stop the run."""
    spread, ignored = (Settings(policy=Policy(rack_policy=policy)) for policy in ("spread", "none"))
    assert "rack_known" in {rule.name for rule in rule_table.known_brokers(spread)}
    assert "rack_known" not in {rule.name for rule in rule_table.known_brokers(ignored)}
    required = rule_table.coverage(Settings(metrics=Metrics(rates_required=True)))[1]
    optional = rule_table.coverage(Settings())[1]
    assert (required.stops, required.listed) == (Stops.COVERAGE, True)
    assert (optional.stops, optional.listed) == (Stops.NEVER, False)


def test_the_lists_of_rules_are_whole() -> None:
    """A refusal explains a broken rule by these lists; a rule's name is a column, so two of one name would hide it."""
    in_tuples = [
        rule.name
        for module in (rule_table, cross_rules)
        for name, rules in vars(module).items()
        if isinstance(rules, tuple) and name != "RULES"
        for rule in rules
    ]
    listed = [rule.name for rule in (*rule_table.RULES, *cross_rules.RULES)]
    assert sorted(in_tuples) == sorted(set(listed)) == sorted(listed)
    assert len(listed) > 30
