"""Changed replication factors through solve, baseline, plan and emit."""

import re

import pytest
from pyspark.sql import SparkSession

from optimizer.domain import Cause, FindingCode
from optimizer.errors import AuditFailed
from optimizer.settings import Policy
from optimizer.stages.emit import emit
from optimizer.stages.stage import Frames
from tests.stages.requested_fleet import FACTORS, of, run_of
from tests.stages.test_finish import found_in
from tests.stages.test_solve import rows_of

RACKS = 4
FEWER_OR_ROOM = "request fewer replicas, or let more brokers accept replicas"
MORE_OR_LESS_IN_SYNC = "request more replicas, or lower min.insync.replicas first"
UNUSED = "no topic matches this pattern"
MEND_PATTERN = "a pattern must match a topic's whole name: correct it, or remove it"


@pytest.fixture(scope="module")
def tables(fleet: Frames) -> Frames:
    """Every table of a cluster in which some topics are asked for more replicas, or fewer; one broker drains."""
    return {name: frame.localCheckpoint() for name, frame in of(fleet, "factors").items()}


@pytest.mark.all_only
def test_lists_get_the_length_asked_for(tables: Frames) -> None:
    """Longer and shorter lists, spread over the racks, off the broker to empty; racks hold one more at most."""
    for row in tables["plan"].collect():
        assert len(set(row.proposed_replicas)) == len(row.proposed_replicas) == FACTORS.get(row.topic, 3)
        assert 100 not in row.proposed_replicas
        racks = [sum(b % RACKS == r for b in row.proposed_replicas) for r in range(RACKS)]
        assert max(racks) - min(racks) <= 1


@pytest.mark.all_only
def test_moves_and_bounds_count_what_comes_and_goes(tables: Frames) -> None:
    """A growing list has moves from nowhere, a shrinking one moves to nowhere of no bytes; the bound is near."""
    moves = tables["moves"].collect()
    grown = [row for row in moves if row.from_broker is None]
    given_up = [row for row in moves if row.to_broker is None]
    assert {row.topic for row in grown} == {"t0", "t2"}
    assert {row.topic for row in given_up} == {"t1", "t3"}
    assert (len(grown), len(given_up)) == (40 * 3, 40 * 3)
    assert {row.reason for row in (*grown, *given_up)} == {"replication"}
    assert {row.size_bytes for row in given_up} == {0}
    moved = sum(row.size_bytes for row in moves)
    assert sum(row.moved_bytes for row in tables["plan"].collect()) == moved
    best = next(row.bound_bytes for row in tables["bounds"].collect() if row.is_best)
    assert best <= moved <= 1.2 * best


@pytest.mark.all_only
def test_people_read_of_it(tables: Frames) -> None:
    """The summary counts the partitions and names topics with both factors; shorter lists alone copy nothing."""
    figures = {row.figure: row for row in tables["plan_summary"].collect()}
    assert figures["factor_changes"].after == figures["factor_changes"].baseline == 160
    assert figures["rack_violations"].after == 0
    texts = {row.path: row.content for row in tables["documents"].collect()}
    sentence = "Replication factor: t0 3 -> 4 (40 partitions), t1 3 -> 2 (40 partitions), t2 3 -> 5 (40 partitions)"
    for page in ("summary.txt", "runbook.md", "report.html"):
        assert sentence in " ".join(texts[f"factors/{page}"].split()).replace("-&gt;", "->"), page
    assert "The rollback copies them again" in texts["factors/runbook.md"]
    assert "change the replication factor" in texts["factors/report.html"]


@pytest.mark.all_only
def test_the_audit_agrees(spark: SparkSession, tables: Frames) -> None:
    """The documents pass; with one more replica requested, they do not."""
    run = run_of(spark)
    assert emit.gate(tables, run) == {}
    other = tables["instance"].replace(4, 3, subset=["replication_factor"])
    refused = emit.gate({**tables, "instance": other}, run)
    assert [type(error) for error in refused.values()] == [AuditFailed]
    message = r"(?s)replication_factor 40.*t0-0: 4 replicas planned; 3 replicas now, 3 requested"
    assert re.search(message, str(refused["factors"]))


def test_what_cannot_be_had_is_a_finding_by_topic() -> None:
    """Topics that can't have their factor, and patterns that match no topic, are named once, with what would do."""
    rows = rows_of("a", seed=1)
    reasons = {
        "t0": "30 replicas requested, but only 23 brokers can hold them",
        "t1": "1 replica requested, but min.insync.replicas is 2",
    }
    causes = {"t0": "too_few_brokers", "t1": "under_min_in_sync"}
    for row in rows["instance"]:
        row |= {"factor_cause": causes.get(row["topic"]), "factor_refused": reasons.get(row["topic"])}
    findings = found_in(
        rows, Policy(topics=("t[0-9]", "clicks"), exclude_topics=("t[02]", "logs-.*")), factor_patterns=("t[01]", "t")
    )
    shown = findings[
        findings["rule"].isin(["replication_factor", "factor_unused", "topics_unused", "exclude_unused", "not_free"])
    ]
    assert shown[["subject", "detail", "remedy"]].to_numpy().tolist() == [
        ["t0", f"{reasons['t0']}; 40 partitions keep their replication factor", FEWER_OR_ROOM],
        ["t1", f"{reasons['t1']}; 40 partitions keep their replication factor", MORE_OR_LESS_IN_SYNC],
        ["t", UNUSED, MEND_PATTERN],
        ["clicks", UNUSED, MEND_PATTERN],
        ["logs-.*", UNUSED, MEND_PATTERN],
    ]
    assert shown[["code", "cause", "topic", "amount"]].to_numpy().tolist() == [
        [FindingCode.REPLICATION_FACTOR, Cause.TOO_FEW_BROKERS, "t0", 40],
        [FindingCode.REPLICATION_FACTOR, Cause.UNDER_MIN_IN_SYNC, "t1", 40],
        [FindingCode.FACTOR_UNUSED, None, None, None],
        [FindingCode.TOPICS_UNUSED, None, None, None],
        [FindingCode.EXCLUDE_UNUSED, None, None, None],
    ]


def test_a_factor_without_a_spare_replica_is_reported() -> None:
    """If the requested factor equals min.insync.replicas, the first broker that is down stops the writers."""
    rows = rows_of("a", seed=1)
    for row in rows["instance"]:
        row["min_insync_replicas"] = 2
        row["replication_factor"] = {"t0": 2, "t1": 4}.get(row["topic"], 3)
    findings = found_in(rows, Policy())
    shown = (
        findings[findings["rule"] == FindingCode.NO_SPARE_REPLICA][["subject", "when", "detail", "remedy"]]
        .to_numpy()
        .tolist()
    )
    detail = "2 replicas requested, min.insync.replicas: 2; one broker down stops its writers"
    assert shown == [["t0", "after", detail, "request one more replica, or lower min.insync.replicas"]]


def test_topics_of_one_replica_are_named_in_one_finding() -> None:
    """Whatever is planned, they stop with their broker; a topic that gets a second replica does not."""
    rows = rows_of("a", seed=1)
    for row in rows["instance"]:
        if row["topic"] in ("t0", "t1", "t2"):
            row["replicas"] = row["isr"] = row["replicas"][:1]
            row["replication_factor"] = 2 if row["topic"] == "t1" else 1
    findings = found_in(rows, Policy())
    shown = findings[findings["rule"] == FindingCode.ONE_REPLICA][["subject", "when", "detail", "remedy"]]
    detail = "80 partitions of one replica stop with its broker"
    remedy = "request more replicas with policy.replication_factors"
    assert shown.to_numpy().tolist() == [["t0 and 1 more", "both", detail, remedy]]
