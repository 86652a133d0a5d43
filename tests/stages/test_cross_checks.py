"""Validate: the sources are compared; contradictions are refused, or reported first."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import reduce
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from optimizer.domain import PLACEMENT_RULE, Cause
from optimizer.settings import Metrics, Quality, Settings
from optimizer.stages.validate import validate
from sources import capacity_csv, capacity_json
from sources.record import Record, malformed
from tests.stages import bronze
from tests.stages.bronze import (
    LISTS,
    broker,
    capacity,
    directory,
    healthy,
    load,
    partition,
    size,
    sizes,
    topic,
    without,
)


@dataclass(frozen=True)
class Case:
    """A cluster whose sources disagree.

    Parameters
    ----------
    rules : tuple of str
        The rules that it breaks, and no others; those that stop the run are marked with an exclamation mark.
    standings : mapping
        Standing of each rule that a run which continues reports.
    detail : str
        Part of the message about the first rule.
    closed : mapping
        Brokers that receive no replica, with the cause and the reason.
    """

    records: Sequence[Record]
    rules: tuple[str, ...]
    detail: str = ""
    standings: Mapping[str, str] = field(default_factory=dict)
    closed: Mapping[int, tuple[str, str]] = field(default_factory=dict)


def changed(number: int, **more: Any) -> list[Record]:
    """A healthy cluster but for the description of one partition."""
    rest = [r for r in healthy() if r.kind != "partition" or r.payload["partition"] != number]
    return [*rest, partition(number, LISTS[number], **more)]


def unlisted(broker_id: int) -> list[Record]:
    """A healthy cluster with a line missing in its list of brokers."""
    return [r for r in healthy() if r.kind != "broker" or r.payload["broker_id"] != broker_id]


def config(entity_type: str, entity_name: str, name: str, value: str, *, is_static: bool = False) -> Record:
    """A config, by default a dynamic one."""
    fields = {"entity_type": entity_type, "entity_name": entity_name, "name": name, "value": value}
    return Record("config", 8, {**fields, "sensitive": False, "is_static": is_static})


def unseen(topics: int) -> list[Record]:
    """Logs of topics that no description names."""
    return [size(1, 0, 7, topic=f"hidden-{n}") for n in range(topics)]


def elsewhere(partitions: int) -> list[Record]:
    """Logs of the first partitions on broker 4 alone, which is listed, but in no replica list."""
    moved = [size(4, p, 100) for p in range(partitions)]
    return [*without(healthy(), "log_dir_replica"), *sizes({p: LISTS[p] for p in range(partitions, 4)}), *moved]


def in_kilobytes() -> list[Record]:
    """Sizes of logs a thousand times too large for the disks."""
    logs = [size(b, p, 200_000) for p, replicas in LISTS.items() for b in replicas]
    return [*without(healthy(), "log_dir_replica"), *logs]


NEW = [broker(4, "a"), directory(4)]
UNANSWERED = malformed(
    line=1,
    expected="an answer",
    reason="broker 4 gave no answer",
    remedy="again",
    text="",
    rule="tool_error",
    severity="warning",
)
UNTOLD = malformed(
    line=0,
    expected="configs of topics",
    reason="no configs were returned for 4 topics (t): throttles may be set there and not be seen",
    remedy="allow DESCRIBE_CONFIGS",
    text="",
    rule="readable",
    severity="warning",
)


def unread_file(name: str) -> Record:
    """A harmless file that is not read."""
    reason, of_file = f"{name} is a list", {"rule": "known_format", "severity": "warning"}
    return malformed(line=1, expected="a format", reason=reason, remedy=f"not {name}", text="", **of_file)


FAILED = Record("log_dir", 3, {**directory(1, "/e").payload, "error": "KafkaStorageException"})
SILENT = Record("partition", 2, {**partition(1, [2, 3, 9]).payload, "isr": [2, 3]})
LAST = Record("partition", 2, {**partition(1, [9]).payload, "isr": [9], "leader": None})
IDS = [Record("cluster_id", n, {"kafka_cluster_id": f"id-{n}"}) for n in (1, 2)]

CASES = {
    "healthy": Case(healthy(), ()),
    "unlisted-leads": Case(
        unlisted(2),
        ("unlisted_is_silent!", "broker_registered"),
        "broker 2 is in no list of brokers, but leads 1 partition, is in sync in 4 partitions, reports its "
        "directories in",
    ),
    "unlisted-answers": Case(
        [*healthy(), directory(7)],
        ("unlisted_is_silent!", "broker_registered"),
        "broker 7 is in no list of brokers, but reports its directories in unlisted-answers.txt",
    ),
    "unlisted-silent": Case(
        [r for r in healthy() if r.kind != "partition" or r.payload["partition"] != 1] + [SILENT],
        ("broker_registered", "log_is_placed"),
        "broker 9 is in 1 replica list,",
        {"broker_registered": "broken", "log_is_placed": "contradicts"},
    ),
    "last-of-its-isr": Case(
        [r for r in healthy() if r.payload.get("partition") != 1] + [LAST, load(1), size(1, 1, 5)],
        ("broker_registered", "has_leader", "log_is_placed", "one_replication_factor"),
        "broker 9 is in 1 replica list,",
        {
            "broker_registered": "broken",
            "has_leader": "broken",
            "log_is_placed": "contradicts",
            "one_replication_factor": "noted",
        },
    ),
    "one-unseen": Case(
        [*healthy(), *unseen(2)],
        ("log_is_described",),
        "hidden-0-0 has a log on broker 1, but no description names the partition",
        {"log_is_described": "contradicts"},
    ),
    "many-unseen": Case([*healthy(), *unseen(3)], ("log_is_described", "undescribed_partitions!")),
    "two-elsewhere": Case(
        [*elsewhere(2), *NEW],
        ("log_is_placed", "replica_has_log"),
        "t-0 has a log on broker 4, which is not in its replicas [1,2,3]",
        {"log_is_placed": "contradicts", "replica_has_log": "contradicts"},
    ),
    "many-elsewhere": Case([*elsewhere(3), *NEW], ("log_is_placed", "replica_has_log", "misplaced_partitions!")),
    "gap": Case(
        [
            r
            for r in healthy()
            if r.kind != "topic" and (r.kind not in ("partition", "partition_load") or r.payload["partition"] != 1)
        ],
        ("no_partition_missing!", "log_is_described", "descriptions_have_headers"),
        "topic t has a partition 3, but only 3 of partitions 0 to 3 are described",
    ),
    "no-header-at-all": Case(
        without(healthy(), "topic"),
        ("descriptions_have_headers",),
        "the description has no header lines, so topics and partitions may be missing",
        {"descriptions_have_headers": "broken"},
    ),
    "no-header-and-cut-off": Case(
        [r for r in without(healthy(), "topic") if r.kind != "partition" or r.payload["partition"] < 1],
        (
            "descriptions_have_headers",
            "log_is_described",
            "undescribed_partitions!",
            "load_of_known_partition!",
            "quarantined_share!",
        ),
    ),
    "no-header-and-nothing-else": Case(
        [r for r in healthy() if r.kind not in ("topic", "log_dir_replica", "partition_load")],
        ("completeness_known!", "size_known!"),
        "the description has no header lines, and no other source names partitions",
    ),
    "more-than-counted": Case(
        [*without(healthy(), "topic"), topic(3)],
        ("partition_count_agrees!",),
        "topic t has 3 partitions in its header, but 4 are described",
    ),
    "grown-between": Case([*healthy(), topic(3)], ()),
    "two-topic-ids": Case(
        [*healthy(), Record("topic", 9, {**topic(4).payload, "topic_id": "other"})],
        ("one_topic_id!",),
        "topic t has several topic ids: id and other",
    ),
    "rule-in-the-listing-alone": Case([*healthy(), config("topics", "t", PLACEMENT_RULE, "x")], ()),
    "configs-of-unseen": Case(
        [*healthy(), config("topics", "gone", "retention.ms", "1")],
        ("configured_topic_described",),
        "topic gone has configs, but none of its partitions is described",
        {"configured_topic_described": "contradicts"},
    ),
    "configs-of-many-unseen": Case(
        [*healthy(), *(config("topics", f"gone-{n}", "retention.ms", "1") for n in range(3))],
        ("configured_topic_described", "undescribed_topics!"),
    ),
    "one-header-lost": Case(
        [
            *healthy(),
            partition(0, [1, 2, 3], topic="u"),
            load(0, topic="u"),
            *(size(b, 0, 5, topic="u") for b in LISTS[0]),
        ],
        ("topic_has_header",),
        "topic u has partitions, but no header line; other topics have one",
        {"topic_has_header": "left_out"},
    ),
    "a-heading-lost": Case(
        [*healthy(), *(config("topics", "t", "retention.ms", value) for value in "12")],
        ("config_told_once",),
        "config retention.ms of topics t is in the file 2 times",
        {"config_told_once": "noted"},
    ),
    "two-clusters": Case(
        [*healthy(), *IDS],
        ("one_cluster_id!",),
        "this source is from Kafka cluster id-1, but the sources name several: id-1 and id-2",
    ),
    "failed-directory": Case(
        [*healthy(), FAILED],
        ("log_dir_healthy",),
        "directory /e of broker 1 has failed: KafkaStorageException",
        {"log_dir_healthy": "broken"},
        {1: (Cause.FAILED_DIRECTORY, "failed directory /e")},
    ),
    "in-sync-nowhere": Case(
        [
            *without(healthy(), "partition"),
            *(partition(p, LISTS[p], isr=[1, 2], leader=1) for p in LISTS),
        ],
        ("in_sync_somewhere",),
        "broker 3 is alive, but in sync in none of its 4 partitions",
        {"in_sync_somewhere": "broken"},
        {3: (Cause.IN_SYNC_NOWHERE, "in sync nowhere")},
    ),
    "first-copies-arrive": Case(
        [r for r in [*healthy(), *NEW] if r.kind != "partition" or r.payload["partition"] != 0]
        + [partition(0, [1, 2, 3, 4], adding=[4], removing=[3], isr=[1, 2, 3])],
        (),
    ),
    "cordoned": Case(
        [*healthy(), config("brokers", "2", "cordoned.log.dirs", "*")],
        ("not_cordoned",),
        "broker 2 has cordoned directories: *; it receives no replica",
        {"not_cordoned": "noted"},
        {2: (Cause.CORDONED, "cordoned")},
    ),
    "cordoned-as-the-broker-says": Case(
        [r for r in healthy() if r.kind != "log_dir" or r.payload["broker_id"] != 2]
        + [Record("log_dir", 3, {**directory(2).payload, "is_cordoned": True})],
        ("not_cordoned",),
        "broker 2 has cordoned directories: /d; it receives no replica",
        {"not_cordoned": "noted"},
        {2: (Cause.CORDONED, "cordoned")},
    ),
    "cordoned-in-part": Case(
        [*healthy(), directory(2, "/e"), config("brokers", "2", "cordoned.log.dirs", "/e")],
        ("not_cordoned",),
        "broker 2 has cordoned directories: /e; its other directories receive replicas",
        {"not_cordoned": "noted"},
    ),
    "other-isr": Case(
        [*changed(0), partition(0, LISTS[0], isr=[1, 2], leader=2)],
        ("snapshots_alike",),
        "t-0: leader 1, ISR [1,2,3] here, but leader 2, ISR [1,2] in other-isr.txt:2, which is used: its ISR is not "
        "larger",
        {"snapshots_alike": "contradicts"},
    ),
    "eligible-leader": Case(
        changed(0, isr=[1], elr=[2]),
        ("no_eligible_leader_outside",),
        "t-0 has fewer in-sync replicas than min.insync.replicas: brokers [2] may become leader without being in sync "
        "(ELR)",
        {"no_eligible_leader_outside": "broken"},
    ),
    "sizes-in-kilobytes": Case(
        in_kilobytes(),
        ("disk_in_one_unit!",),
        "stores 800000 bytes, but its capacity is 10000 (sizes-in-kilobytes.txt): one of them probably has a wrong "
        "unit, by a factor of 1,000 (or 1,024)",
    ),
    "capacities-in-kilobytes": Case(
        [*without(healthy(), "capacity"), capacity(-1, 10_000_000)],
        ("disk_use",),
        "all replicas together fill less than a thousandth of the given disk capacities "
        "(capacities-in-kilobytes.txt; the unit may be 1,000 times too large)",
        {"disk_use": "contradicts"},
    ),
    "capacities-of-hardly-used-disks": Case(
        [
            *without(healthy(), "capacity"),
            *capacity_csv.parse("broker_id,disk_gb\n-1,2\n3,3\n"),
        ],
        ("disk_use",),
        "of the given disk capacities (capacities-of-hardly-used-disks.txt: disk_gb 2; "
        "the unit may be 1,000,000 times too large)",
        {"disk_use": "contradicts"},
    ),
    "files-that-are-not-read": Case(
        [*healthy(), *(unread_file(name) for name in "abcdefg")],
        (),
        "a is a list (not a); b is a list (not b); c is a list (not c); d is a list (not d); e is a list (not e) "
        "and 2 more",
        {"known_format": "noted"},
    ),
    "large-disks-that-brokers-tell": Case(
        [
            *(r for r in without(healthy(), "capacity") if r.kind != "log_dir"),
            *(directory(b, total_bytes=10_000_000) for b in (1, 2, 3)),
        ],
        (),
    ),
    "twelve-times-over": Case(
        [*without(healthy(), "capacity"), capacity(-1, 34)],
        ("disk_within_capacity",),
        "broker 1 stores 408 bytes, but its capacity is 34 (twelve-times-over.txt)",
        {"disk_within_capacity": "contradicts"},
    ),
    "sums-over-int64": Case(
        [
            *without(healthy(), "log_dir_replica"),
            *(partition(p, [1, 2, 3], topic="u") for p in range(1100)),
            *(size(b, p, 2**53, topic="u") for p in range(1100) for b in (1, 2, 3)),
            *sizes(),
            *(load(p, topic="u") for p in range(1100)),
        ],
        ("size_believable!", "disk_in_one_unit!", "topic_has_header", "quarantined_share!"),
        "u-0 has 9007199254740992 bytes, more than 1 PB",
    ),
    "a-holder-tells-of-no-directory": Case(
        [r for r in healthy() if r.kind not in ("log_dir", "log_dir_replica") or r.payload["broker_id"] != 2],
        ("holder_tells_of_directories",),
        "broker 2 holds 4 replicas, but reports no log directory, unlike other brokers",
        {"holder_tells_of_directories": "left_out"},
    ),
    "two-holders-tell-of-no-directory": Case(
        [r for r in healthy() if r.kind not in ("log_dir", "log_dir_replica") or r.payload["broker_id"] == 1],
        ("holder_tells_of_directories",),
        "brokers 2, 3 hold replicas, but report no log directory, unlike other brokers",
        {"holder_tells_of_directories": "left_out"},
    ),
    "configs-of-one-broker": Case(
        [*healthy(), config("brokers", "1", "min.insync.replicas", "2", is_static=True)],
        ("configs_of_all_brokers",),
        "the configs of brokers 2, 3 are not given: topics without their own min.insync.replicas count with 2, the "
        "largest of the other brokers",
        {"configs_of_all_brokers": "left_out"},
    ),
    "configs-of-all-but-one-broker": Case(
        [
            *healthy(),
            config("brokers", "1", "log.dirs", "/d", is_static=True),
            config("brokers", "3", "min.insync.replicas", "2"),
        ],
        ("configs_of_all_brokers",),
        "the configs of broker 2 are not given: topics without",
        {"configs_of_all_brokers": "left_out"},
    ),
    "configs-of-brokers-below-a-default": Case(
        [
            *healthy(),
            config("brokers", "1", "min.insync.replicas", "2", is_static=True),
            config("cluster", "<default>", "min.insync.replicas", "2"),
        ],
        (),
    ),
    "configs-of-one-broker-without-the-minimum": Case(
        [*healthy(), config("brokers", "1", "log.dirs", "/d", is_static=True)], ()
    ),
    "configs-unreported": Case(
        [*healthy(), UNTOLD],
        (),
        "no configs were returned for 4 topics",
        {"readable": "left_out"},
    ),
    "controller-in-the-list": Case(
        [*healthy(), broker(9, "a")],
        ("listed_tells_of_directories",),
        "broker 9 is listed, but holds no replica and reports no log directory: is it a controller?",
        {"listed_tells_of_directories": "broken"},
        {9: (Cause.ONLY_LISTED, "reports no directory")},
    ),
    "two-controllers-in-the-list": Case(
        [*healthy(), broker(9, "a"), broker(8, "b")],
        ("listed_tells_of_directories",),
        "brokers 8, 9 are listed, but hold no replica and report no log directory: are they controllers?",
        {"listed_tells_of_directories": "broken"},
        {b: (Cause.ONLY_LISTED, "reports no directory") for b in (8, 9)},
    ),
    "one-partition-with-fewer-replicas": Case(
        [
            *(r for r in healthy() if r.payload.get("partition") != 1),
            partition(1, LISTS[1][:2]),
            load(1),
            *(size(b, 1, 100) for b in LISTS[1][:2]),
        ],
        ("one_replication_factor",),
        "topic t has partitions with different numbers of replicas: 3 in 3 partitions (the first is t-0), "
        "2 in 1 partition (the first is t-1)",
        {"one_replication_factor": "noted"},
    ),
    "capacities-in-megabytes": Case(
        [*without(healthy(), "capacity"), *capacity_csv.parse("broker_id,disk_gb\n-1,2000000\n")],
        ("capacity_believable", "disk_use"),
        "capacity of broker -1: disk_gb 2000000 would be 2.00 PB: the value is probably in MB (2.00 TB) or in kB "
        "(2.00 GB)",
        {"capacity_believable": "contradicts", "disk_use": "contradicts"},
    ),
    "capacities-in-bytes": Case(
        [
            *without(healthy(), "capacity"),
            *capacity_json.parse('{"brokerCapacities":[{"brokerId":"-1","capacity":{"DISK":"4000000000000"}}]}'),
        ],
        ("capacity_in_range!", "quarantined_share!"),
        "capacity of broker -1: DISK 4000000000000 MB would be 4,190 PB: the value is probably in bytes (4.00 TB)",
    ),
    "capacities-too-small": Case(
        [*without(healthy(), "capacity"), *capacity_csv.parse("broker_id,disk_bytes\n-1,8\n")],
        ("disk_in_one_unit!",),
        "its capacity is 8 (capacities-too-small.txt: disk_bytes 8): one of them probably has a wrong unit",
    ),
    "over-full": Case(
        [*without(healthy(), "capacity"), capacity(-1, 300)],
        ("disk_within_capacity",),
        "broker 1 stores 408 bytes, but its capacity is 300",
        {"disk_within_capacity": "contradicts"},
    ),
    "over-a-petabyte": Case(
        [
            *without(healthy(), "capacity"),
            size(1, 0, 2 * 10**15, log_dir="/e"),
        ],
        ("replica_in_one_directory", "size_believable!", "quarantined_share!"),
        "t-0 has 2000000000000000 bytes, more than 1 PB",
    ),
    "some-rates": Case(
        [r for r in healthy() if r.kind != "partition_load" or r.payload["partition"] > 0],
        (),
        "1 of 4 partitions, with 25 % of the stored bytes, has no rates: it counts as idle",
        {"rates_known": "left_out"},
    ),
    "one-does-not-answer": Case(
        [*healthy(), *NEW, UNANSWERED],
        (),
        "broker 4 gave no answer",
        {"tool_error": "broken"},
    ),
    "no-list": Case(
        without(healthy(), "broker"),
        ("registered_brokers",),
        "no list of brokers was given: every broker counts as alive, without a rack",
        {"registered_brokers": "left_out"},
    ),
}
METRIC = [("metric-in-kilobytes", p, 100.0 * 1000) for p in LISTS] + [("metric-misfit", p, 1_000.0) for p in LISTS]
CASES["metric-in-kilobytes"] = Case(healthy(), ("size_unit_factor!",))
CASES["metric-misfit"] = Case(
    healthy(),
    ("metric_over_log_size",),
    "differ by more than a factor of five",
    {"metric_over_log_size": "contradicts"},
)
# By cluster: days from its metrics to the other sources.
DAYS = {"metrics-of-last-month": 30, "metrics-of-next-month": -30, "metrics-of-this-week": 6}
CASES |= {
    name: Case(
        healthy(),
        ("hours_after_metrics",),
        f"the metrics are 30 days {age} than the other sources, and the plan still uses them",
        {"hours_after_metrics": "contradicts"},
    )
    for name, age in {"metrics-of-last-month": "older", "metrics-of-next-month": "newer"}.items()
}
CASES["metrics-of-this-week"] = Case(healthy(), ())


@dataclass(frozen=True)
class Outcome:
    """Rows that validate wrote, by table."""

    rows: Mapping[str, Sequence[Mapping[str, Any]]]

    def of(self, table: str, cluster: str) -> list[Mapping[str, Any]]:
        """Rows of one cluster."""
        return [row for row in self.rows[table] if row["cluster_id"] == cluster]


def _outcome(spark: SparkSession, settings: Settings, cases: Mapping[str, Case]) -> Outcome:
    sizes_of_metrics = bronze.metrics(spark, [(c, "t", p, value) for c, p, value in METRIC if c in cases])
    of_other_days = [
        bronze.metrics(spark, [(name, "t", 0, 10.0)], observed_at=bronze.CAPTURED_AT - timedelta(days=days))
        for name, days in DAYS.items()
        if name in cases
    ]
    of_metrics = sizes_of_metrics.replace("in_bytes_per_s", "size_bytes", ["metric"])
    inputs = {
        "bronze_records": bronze.bronze(spark, {name: case.records for name, case in cases.items()}),
        "bronze_metrics": reduce(DataFrame.unionByName, of_other_days, of_metrics),
    }
    frames = validate.build(inputs, bronze.run_of(spark, settings))
    tables = ("quality_results", "quarantine", "input_findings", "brokers", "replicas", "topics")
    return Outcome({name: [row.asDict() for row in frames[name].collect()] for name in tables})


@pytest.fixture(scope="module")
def outcome(spark: SparkSession) -> Outcome:
    """One run over every case, each a cluster of its own."""
    return _outcome(spark, bronze.settings_of(list(CASES)), CASES)


@pytest.mark.parametrize("name", CASES)
def test_a_contradiction_breaks_its_rules_and_no_other(outcome: Outcome, name: str) -> None:
    """Each fails exactly the expectations that it should, and those that stop the run are critical."""
    results = outcome.of("quality_results", name)
    failed = {row["rule"] + ("!" if row["severity"] == "critical" else "") for row in results if not row["success"]}
    assert failed - {"rates_known"} == set(CASES[name].rules)


def test_a_placement_rule_is_seen_wherever_it_stands(outcome: Outcome) -> None:
    """A header may be cut before it; the listing of configs has it then."""
    (row,) = outcome.of("topics", "rule-in-the-listing-alone")
    assert row["configs"] == f"min.insync.replicas=2,{PLACEMENT_RULE}=x"


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.detail])
def test_a_contradiction_is_reported_with_values(outcome: Outcome, name: str) -> None:
    """Quarantine has what is refused, input_findings has the rest, with the values that disagree."""
    rows = [row["reason"] for row in outcome.of("quarantine", name)]
    rows += [row["detail"] for row in outcome.of("input_findings", name)]
    assert any(CASES[name].detail in row for row in rows), rows


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if not any("!" in r for r in case.rules)])
def test_a_run_that_continues_reports_what_it_found(outcome: Outcome, name: str) -> None:
    """input_findings has a row for each rule, and says whether pages show it above the figures."""
    rows = outcome.of("input_findings", name)
    assert {row["rule"]: row["standing"] for row in rows} == CASES[name].standings
    assert all(row["remedy"] and row["rows"] > 0 and row["subject"] for row in rows)


@pytest.mark.parametrize("name", CASES)
def test_a_broker_in_trouble_receives_nothing(outcome: Outcome, name: str) -> None:
    """The table brokers says why; all others may receive replicas."""
    closed = {row["broker_id"]: (row["closed_cause"], row["closed_reason"]) for row in outcome.of("brokers", name)}
    assert {broker: why for broker, why in closed.items() if why != (None, None)} == CASES[name].closed


def test_the_smaller_isr_counts(outcome: Outcome) -> None:
    """Of two descriptions with the same replicas, the one with fewer in sync is used, with its leader."""
    rows = [row for row in outcome.of("replicas", "other-isr") if row["partition"] == 0]
    assert {row["broker_id"]: (row["in_sync"], row["is_leader"]) for row in rows} == {
        1: (True, False),
        2: (True, True),
        3: (False, False),
    }


@pytest.fixture(scope="module")
def with_other_knobs(spark: SparkSession) -> Outcome:
    """One run under settings that are not the defaults."""
    sizes_by_partition = [size(b, p, 100_000 if p == 0 else 1) for p, replicas in LISTS.items() for b in replicas]
    wide = [r for r in healthy() if r.kind not in ("log_dir_replica", "capacity")]
    cases = {
        "few-rates": [r for r in wide if r.kind != "partition_load" or r.payload["partition"] > 0] + sizes_by_partition,
        "headless": [r for r in healthy() if r.kind not in ("topic", "log_dir_replica", "partition_load")],
    }
    settings = bronze.settings_of(
        list(cases),
        metrics=Metrics(rates_required=True, min_coverage=0.7),
        quality=Quality(allow_headless_describe=True),
    )
    return _outcome(spark, settings, {name: Case(records, ()) for name, records in cases.items()})


def test_a_description_without_headers_may_be_allowed(with_other_knobs: Outcome) -> None:
    """The knob turns the refusal into a finding."""
    results = {row["rule"]: row for row in with_other_knobs.of("quality_results", "headless")}
    assert (results["completeness_known"]["success"], results["completeness_known"]["severity"]) == (False, "warning")
    standings = {row["rule"]: row["standing"] for row in with_other_knobs.of("input_findings", "headless")}
    assert standings["completeness_known"] == "broken"


def test_required_rates_are_judged_by_bytes_too(with_other_knobs: Outcome) -> None:
    """Where rates are required, partitions without them may hold only so many of the bytes."""
    results = with_other_knobs.of("quality_results", "few-rates")
    failed = {row["rule"] for row in results if not row["success"] and row["severity"] == "critical"}
    assert failed == {"rate_coverage_by_bytes"}
