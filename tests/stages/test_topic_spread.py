"""The spread of topics through solve, plan and audit: a giant topic that is piled on few brokers."""

import re
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import schemas
from optimizer.errors import AuditFailed
from optimizer.stages.baseline import baseline
from optimizer.stages.emit import emit
from optimizer.stages.plan import plan
from optimizer.stages.solve import solve
from optimizer.stages.stage import Frames
from tests.stages import small_plan
from tests.stages.test_solve import frames_of, rows_of, run_of

GIANT, MOST, MOST_LED = "giant", 12, 4


@pytest.fixture(scope="module")
def tables(spark: SparkSession) -> Frames:
    """Every table of a cluster in which 60 partitions of one topic are all on six of 22 brokers: 8.2 each is fair."""
    rows = rows_of("a", seed=1)
    for number, row in enumerate(rows["instance"][::6]):
        replicas = [104 + (number + r) % 4 + 4 * (number % 2 * (r < 2)) for r in range(3)]
        row |= {"topic": GIANT, "partition": number, "replicas": replicas, "leader": replicas[0]}
        row |= {"isr": sorted(replicas), "size_bytes": 10**6 + number, "in_bytes_per_s": 1, "out_bytes_per_s": 1}
        row |= {"topic_most_replicas": MOST, "topic_most_leaders": MOST_LED}
    run = run_of(spark)
    inputs = frames_of(spark, rows)
    made: dict[str, Any] = {**inputs, **solve.build(inputs, run)}
    made |= baseline.build(inputs, run)
    made = {name: schemas.conform(frame, schemas.ALL[name]).localCheckpoint() for name, frame in made.items()}
    for name in ("quality_results", "input_findings", "sources", "topics", "throttles_found"):
        made[name] = small_plan.frame(spark, name, [])
    made |= {name: frame.localCheckpoint() for name, frame in plan.build(made, run).items()}
    return {**made, **{name: frame.localCheckpoint() for name, frame in emit.build(made, run).items()}}


def _held(tables: Frames, column: str) -> Counter[int]:
    """Replicas of the giant topic by broker."""
    return Counter(b for row in tables["plan"].where(F.col("topic") == GIANT).collect() for b in row[column])


def test_no_broker_keeps_more_than_its_most(tables: Frames) -> None:
    """The pile is dissolved over several shards and rounds; a finding says so, and none is left."""
    assert max(_held(tables, "current_replicas").values()) > 2 * MOST
    assert max(_held(tables, "proposed_replicas").values()) <= MOST
    found = [row for row in tables["findings"].collect() if row.rule == "topic_spread"]
    assert [(row.subject, row.when) for row in found] == [("mended topics", "before")]


def test_no_broker_leads_more_than_its_most(tables: Frames) -> None:
    """Leaders of the pile are spread too, over the replica lists that the plan gives."""
    rows = tables["plan"].where(F.col("topic") == GIANT).collect()
    assert max(Counter(row.current_replicas[0] for row in rows).values()) > 2 * MOST_LED
    assert max(Counter(row.proposed_replicas[0] for row in rows).values()) <= MOST_LED
    found = [row for row in tables["findings"].collect() if row.rule == "topic_leader_spread"]
    assert [(row.subject, row.when) for row in found] == [("mended topics", "before")]


def test_the_bound_stays_below(tables: Frames) -> None:
    """The spread takes plans away, so what any plan must move still lies below this one."""
    moved = sum(row.size_bytes for row in tables["moves"].collect())
    assert all(row.bound_bytes <= moved for row in tables["bounds"].collect())


def test_the_audit_agrees(spark: SparkSession, tables: Frames) -> None:
    """The documents pass; with a smaller most, what the plan gave to brokers beyond it is refused, disclosed or not."""
    run = run_of(spark)
    assert emit.gate(tables, run) == {}
    smaller = F.when(F.col("topic") == GIANT, F.lit(3)).cast("int")
    other = {**tables, "instance": tables["instance"].withColumn("topic_most_replicas", smaller)}
    refused = emit.gate(other, run)
    assert [type(error) for error in refused.values()] == [AuditFailed]
    why = r"(?s)topic_spread .*giant: \d+ replicas on broker \d+, \d+ before, 3 are"
    assert re.search(why, str(refused["a"]))
    first = tables["findings"].limit(1).withColumns({"rule": F.lit("topic_spread"), "when": F.lit("after")})
    named = [F.lit(f"{GIANT} on broker {b}") for b in _held(tables, "proposed_replicas")]
    told = first.drop("subject").withColumn("subject", F.explode(F.array(*named)))
    findings = tables["findings"].unionByName(told.select(*tables["findings"].columns))
    assert emit.gate({**other, "findings": findings}, run).keys() == {"a"}


def test_the_stages_say_no_word_where_nothing_is_asked(spark: SparkSession) -> None:
    """Without a most there is no finding of it, and the pile stays where the balance leaves it."""
    rows = rows_of("a", seed=1)
    assert replace(run_of(spark).settings.policy).topic_spread == 0
    found = solve.build(frames_of(spark, rows), run_of(spark))["findings"].collect()
    assert not [row for row in found if row.rule == "topic_spread"]
