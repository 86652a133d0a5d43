"""Throttles that were set before the plan: what is found, what is put back, what a finding says."""

from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from optimizer.stages.plan.cluster_tables import with_previous
from optimizer.stages.shared import throttles_found
from optimizer.stages.shared.records import typed
from optimizer.stages.shared.throttles_found import to_restore
from schemas.silver import THROTTLES_FOUND
from schemas.spark import conform
from sources.record import Record
from tests.stages import bronze

LISTS = "leader.replication.throttled.replicas", "follower.replication.throttled.replicas"
RATES = "leader.replication.throttled.rate", "follower.replication.throttled.rate"
DIRS = "replica.alter.log.dirs.io.max.bytes.per.second"


def _config(kind: str, name: str, config: str, value: str | None, **more: Any) -> Record:
    payload = {"entity_type": kind, "entity_name": name, "name": config, "value": value, "sensitive": False}
    return Record("config", 7, {**payload, **more})


def _header(topic: str, configs: str) -> Record:
    return Record("topic", 3, {"topic": topic, "topic_id": None, "partition_count": 1, "configs": configs})


RECORDS = [
    _config("topics", "listed", LISTS[0], "*"),
    _config("topics", "listed", LISTS[1], "0:1,10:2"),
    _config("topics", "empty", LISTS[0], ""),
    _config("topics", "listed", "retention.ms", "5"),
    _config("brokers", "3", RATES[0], "20000000"),
    _config("brokers", "3", DIRS, "1000"),
    _config("brokers", "4", RATES[1], str(2**63 - 1)),
    _config("brokers", "4", RATES[0], None),
    _config("brokers", "5", RATES[0], "7", is_static=True),
    _config("cluster", "<default>", RATES[1], "9"),
    _header("listed", f"{LISTS[0]}=0:9,cleanup.policy=delete"),
    _header("header", f"cleanup.policy=delete,{LISTS[0]}=0:1,0:2,10:3,retention.ms=5,{LISTS[1]}=*"),
    _header("last", f"{LISTS[1]}=0:1,0:2"),
    _header("none", f"cleanup.policy=delete,{LISTS[0]}=,{LISTS[1]}="),
]
FOUND = {
    ("topics", "listed", LISTS[0]): "*",
    ("topics", "listed", LISTS[1]): "0:1,10:2",
    ("brokers", "3", RATES[0]): "20000000",
    ("brokers", "3", DIRS): "1000",
    ("brokers", "5", RATES[0]): "7",
    ("cluster", "<default>", RATES[1]): "9",
    ("topics", "header", LISTS[0]): "0:1,0:2,10:3",
    ("topics", "header", LISTS[1]): "*",
    ("topics", "last", LISTS[1]): "0:1,0:2",
}


@pytest.fixture(scope="module")
def table(spark: SparkSession) -> DataFrame:
    """The table."""
    records = bronze.bronze(spark, {"c": RECORDS})
    return conform(
        throttles_found.build(typed(records, "topic"), typed(records, "config")), THROTTLES_FOUND
    ).localCheckpoint()


def test_throttles_are_found_in_listings_and_headers(table: DataFrame) -> None:
    """Each entry is found once with its place, a listing before a header; nothing that throttles nothing is."""
    rows = table.collect()
    assert {(row.entity_type, row.entity_name, row.config_name): row.config_value for row in rows} == FOUND
    assert [row.entity_name for row in rows if row.is_static] == ["5"]
    assert {(row.source, row.line) for row in rows} == {("c.txt", 7), ("c.txt", 3)}


def test_the_value_from_before_joins_the_plans_own(table: DataFrame) -> None:
    """An entry that the plan sets gets the value of before; what a file or the default sets is not put back."""
    found = [row.asDict() for row in to_restore(table).collect()]
    entries = (("topics", "listed"), ("topics", "other"), ("brokers", "3"), ("brokers", "5"))
    names = {"topics": LISTS[0], "brokers": RATES[0]}
    throttles = [{"entity_type": kind, "entity_name": name, "config_name": names[kind]} for kind, name in entries]
    rows = with_previous(throttles, found)
    assert [row["previous_value"] for row in rows] == ["*", None, "20000000", None]


def test_a_finding_says_it_before_anything_is_run(spark: SparkSession, table: DataFrame) -> None:
    """The finding says what is set now, that waves set their own values, and that the old ones are restored."""
    (row,) = throttles_found.findings_of(table)
    assert (row["cluster_id"], row["rule"], row["standing"], row["rows"]) == ("c", "throttle_set", "noted", len(FOUND))
    assert f"broker 3: {RATES[0]} = 20000000; " in row["detail"]
    assert "; and 4 more. A wave that touches these topics and brokers sets its own values" in row["detail"]
    assert "restores the old ones" in row["detail"]
    assert "if an earlier wave left them behind" in row["remedy"]
    assert list(throttles_found.findings_of(table.limit(0))) == []


def test_a_long_list_is_cut_in_the_finding(spark: SparkSession) -> None:
    """A list of thousands of replicas is shown by its beginning and its length."""
    records = bronze.bronze(spark, {"c": [_config("topics", "t", LISTS[0], ",".join(["1:2"] * 500))]})
    (row,) = throttles_found.findings_of(throttles_found.build(typed(records, "topic"), typed(records, "config")))
    assert "1:2,... (1999 characters)" in row["detail"]
    assert len(row["detail"]) < 400
