"""The spread of topics through solve, plan and audit: a giant topic that is piled on few brokers."""

import re
from collections import Counter

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from optimizer.errors import AuditFailed
from optimizer.stages.emit import emit
from optimizer.stages.stage import Frames
from tests.stages.requested_fleet import CLUSTERS, GIANT, MOST, MOST_LED, of, run_of


@pytest.fixture(scope="module")
def tables(fleet: Frames) -> Frames:
    """Every table of a cluster in which 60 partitions of one topic are all on six of 22 brokers: 8.2 each is fair."""
    return {name: frame.localCheckpoint() for name, frame in of(fleet, "giant").items()}


def _held(tables: Frames, column: str) -> Counter[int]:
    """Replicas of the giant topic by broker."""
    return Counter(b for row in tables["plan"].where(F.col("topic") == GIANT).collect() for b in row[column])


@pytest.mark.all_only
def test_no_broker_keeps_more_than_its_most(tables: Frames) -> None:
    """The pile is dissolved over several shards and rounds; a finding says so, and none is left."""
    assert max(_held(tables, "current_replicas").values()) > 2 * MOST
    assert max(_held(tables, "proposed_replicas").values()) <= MOST
    findings = [row for row in tables["findings"].collect() if row.rule == "topic_spread"]
    assert [(row.subject, row.when) for row in findings] == [("repaired topics", "before")]


@pytest.mark.all_only
def test_no_broker_leads_more_than_its_most(tables: Frames) -> None:
    """Leaders of the pile are spread too, over the replica lists that the plan gives."""
    rows = tables["plan"].where(F.col("topic") == GIANT).collect()
    assert max(Counter(row.current_replicas[0] for row in rows).values()) > 2 * MOST_LED
    assert max(Counter(row.proposed_replicas[0] for row in rows).values()) <= MOST_LED
    findings = [row for row in tables["findings"].collect() if row.rule == "topic_leader_spread"]
    assert [(row.subject, row.when) for row in findings] == [("repaired topics", "before")]


@pytest.mark.all_only
def test_the_bound_stays_below(tables: Frames) -> None:
    """The spread allows fewer plans, so the least that any plan must move is still below this plan."""
    moved = sum(row.size_bytes for row in tables["moves"].collect())
    assert all(row.bound_bytes <= moved for row in tables["bounds"].collect())


@pytest.mark.all_only
def test_the_audit_agrees(spark: SparkSession, tables: Frames) -> None:
    """The documents pass; under a smaller topic limit the audit refuses them, with a finding or without."""
    run = run_of(spark)
    assert emit.gate(tables, run) == {}
    smaller = F.when(F.col("topic") == GIANT, F.lit(3)).cast("int")
    other = {**tables, "instance": tables["instance"].withColumn("topic_most_replicas", smaller)}
    refused = emit.gate(other, run)
    assert [type(error) for error in refused.values()] == [AuditFailed]
    why = r"(?s)topic_spread .*giant: \d+ replicas on broker \d+, \d+ before, 3 allowed"
    assert re.search(why, str(refused["giant"]))
    first = tables["findings"].limit(1).withColumns({"rule": F.lit("topic_spread"), "when": F.lit("after")})
    named = [F.lit(f"{GIANT} on broker {b}") for b in _held(tables, "proposed_replicas")]
    invented = first.drop("subject").withColumn("subject", F.explode(F.array(*named)))
    findings = tables["findings"].unionByName(invented.select(*tables["findings"].columns))
    assert emit.gate({**other, "findings": findings}, run).keys() == {"giant"}


@pytest.mark.all_only
def test_the_stages_say_no_word_where_nothing_is_asked(spark: SparkSession, fleet: Frames) -> None:
    """Without a most there is no finding of it."""
    assert run_of(spark).settings.policy.topic_spread == 0
    for cluster in {str(cluster["id"]) for cluster in CLUSTERS} - {GIANT}:
        assert not of(fleet, cluster)["shard_results"].isEmpty()
        assert of(fleet, cluster)["findings"].where("rule LIKE 'topic_%spread'").isEmpty()
