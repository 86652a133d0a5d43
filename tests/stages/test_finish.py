"""What the last step of solve finds, without Spark."""

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import pytest

from optimizer.cluster_policy import ClusterPolicy
from optimizer.declared import DECLARED
from optimizer.domain import Bands, Cause, FindingCode
from optimizer.planning.arrays import to_brokers
from optimizer.planning.finish import finish_cluster
from optimizer.settings import Policy, Settings
from optimizer.stages.stage import declared_part
from optimizer.topic_policy import TopicFactor
from setup.paths import HOME
from tests.solve.clusters import solved_cluster
from tests.stages.test_solve import rows_of


def found_in(
    rows: dict[str, list[dict[str, Any]]],
    policy: Policy,
    *,
    factor_patterns: tuple[str, ...] = (),
    current: Mapping[int, list[int]] | None = None,
) -> pd.DataFrame:
    """The findings of a cluster where no band is narrow, under the policy as solve sees it; only ``current`` moves."""
    brokers = to_brokers(pd.DataFrame(rows["instance_brokers"]))
    factors = tuple(TopicFactor(topics=topics, factor=3) for topics in factor_patterns)
    loads, free = np.zeros((24, 3)), Bands(("replicas", "disk", "in"), np.zeros((24, 3)), np.full((24, 3), np.inf))
    solved = solved_cluster(brokers, free, loads, loads, cluster_policy=ClusterPolicy(replication_factors=factors))
    partitions = pd.DataFrame(rows["instance"])
    visible = declared_part(Settings(policy=policy), DECLARED["solve"].settings)
    lists = [(current or {}).get(number, replicas) for number, replicas in enumerate(partitions["replicas"])]
    return finish_cluster(partitions.assign(current=lists), solved, visible.policy)["findings"]


NOT_FREE = {
    "in_flight": "no wave starts before that is done; to include the partition, plan again then",
    "move_cannot_end": (
        "start that broker, or cancel the reassignment (kafka-reassign-partitions.sh --cancel); then plan again"
    ),
    "leaderless": "start a broker that holds a replica, then plan again",
    "failed_directory": "repair the disk and start the broker again, or delete the topic; then plan again",
    "no_in_sync_replica": "start a broker that holds a replica, then plan again",
    "on_fenced_broker": "start that broker, or drain it",
    "own_placement_rule": (
        "remove confluent.placement.constraints from the topic, or move the topic with Confluent's tools"
    ),
    "topic_excluded": "remove it from exclude_topics, or add it to topics",
}
REFUSED_FACTOR = {
    "too_few_brokers": "request fewer replicas, or let more brokers accept replicas",
    "under_min_in_sync": "request more replicas, or lower min.insync.replicas first",
    "out_of_sync": "wait until the replica is in sync, or drain its broker; then plan again",
}
TOLD_ELSEWHERE = ("pin_too_small", "only", "out_of_sync")


@pytest.mark.parametrize(("cause", "remedy"), NOT_FREE.items())
def test_a_partition_that_is_not_free_has_the_remedy_of_its_cause(cause: str, remedy: str) -> None:
    """Remedies: a move in flight ends by itself, exclusions are intended, a broker that is down must be started."""
    rows = rows_of("a", seed=1)
    rows["instance"][0] |= {"mobility": "fixed", "fixed_cause": cause, "fixed_reason": "words that no code reads"}
    findings = found_in(rows, Policy())
    shown = findings[findings["rule"] == "not_free"]
    assert shown[["subject", "detail", "remedy"]].to_numpy().tolist() == [["t0-0", "words that no code reads", remedy]]
    assert shown[["code", "cause", "topic", "partition"]].to_numpy().tolist() == [
        [FindingCode.NOT_FREE, cause, "t0", 0]
    ]


@pytest.mark.parametrize("cause", ["leaderless", "no_in_sync_replica"])
def test_a_topic_on_dead_brokers_alone_has_one_finding(cause: str) -> None:
    """Its partitions have no finding each; partitions on a live broker and partitions in flight have one."""
    rows = rows_of("a", seed=1)
    for broker in rows["instance_brokers"]:
        if broker["broker_id"] in (108, 109):
            broker |= {"state": "dead", "accepts_replicas": False, "must_empty": True}
    for number, (row, replicas) in enumerate(
        zip(rows["instance"], ([108, 109], [109], [109, 101], [108, 109]), strict=False)
    ):
        fixed = "in_flight" if number == 3 else cause
        row |= {"topic": "t0", "partition": number, "replicas": replicas, "log_dirs": ["any"] * len(replicas)}
        row |= {"replication_factor": len(replicas), "mobility": "fixed", "fixed_cause": fixed, "fixed_reason": "why"}
    findings = found_in(rows, Policy())
    shown = findings[findings["rule"] == "not_free"]
    count = sum(row["topic"] == "t0" for row in rows["instance"])
    lost = f"2 of {count} partitions: every replica is on a dead broker (108, 109)"
    remedy = "start one of these brokers again, or delete the topic"
    assert shown[["subject", "detail", "cause"]].to_numpy().tolist() == [
        ["t0", lost, Cause.ALL_REPLICAS_DEAD],
        ["t0-2", "why", cause],
        ["t0-3", "why", "in_flight"],
    ]
    assert shown.iloc[0][["remedy", "amount", "partition"]].tolist() == [remedy, 2, None]


@pytest.mark.parametrize("cause", TOLD_ELSEWHERE)
def test_what_other_findings_tell_is_not_told_twice(cause: str) -> None:
    """A pin that is too small has a finding by topic, what ``only`` leaves has one by request."""
    rows = rows_of("a", seed=1)
    rows["instance"][0] |= {"mobility": "fixed", "fixed_cause": cause, "fixed_reason": "words"}
    assert "not_free" not in found_in(rows, Policy())["rule"].tolist()


def test_brokers_with_replicas_out_of_sync_have_one_finding_each() -> None:
    """Each with the number of partitions that wait for it, whatever else their lists hold."""
    rows, stuck = rows_of("a", seed=1), {0: 1, 1: 1, 2: 0}
    for number, slot in stuck.items():
        row = rows["instance"][number]
        row |= {"replicas": [101, 102, 103], "log_dirs": ["any"] * 3, "replication_factor": 3, "leader": 103}
        row |= {"isr": [b for b in (101, 102, 103) if b != 101 + slot]}
        row |= {"mobility": "order_only", "fixed_cause": "out_of_sync", "fixed_reason": "words"}
    findings = found_in(rows, Policy())
    shown = findings[findings["rule"] == "not_free"]
    assert shown[["subject", "cause", "amount", "partition"]].to_numpy().tolist() == [
        ["broker 101", Cause.OUT_OF_SYNC, 1, None],
        ["broker 102", Cause.OUT_OF_SYNC, 2, None],
    ]
    assert all("the version is unknown" in detail for detail in shown["detail"])


def test_copies_because_of_replicas_out_of_sync_are_named() -> None:
    """A shorter list loses the replica out of sync; the one on the drained broker is copied, and could have gone."""
    rows = rows_of("a", seed=1)
    row = rows["instance"][0]
    row |= {"replicas": [101, 102, 103], "log_dirs": ["any"] * 3, "replication_factor": 2, "leader": 101}
    row |= {"isr": [101, 102], "size_bytes": 70}
    findings = found_in(rows, Policy(), current={0: [101, 104]})
    shown = findings[findings["code"] == FindingCode.COPIED_FOR_SYNC]
    assert shown[["subject", "amount"]].to_numpy().tolist() == [["1 partition", 1]]
    assert "(brokers 103)" in shown["detail"].iloc[0] and "70 B" in shown["detail"].iloc[0]


@pytest.mark.parametrize(("cause", "remedy"), REFUSED_FACTOR.items())
def test_a_factor_that_is_refused_has_the_remedy_of_its_cause(cause: str, remedy: str) -> None:
    """One finding for a topic."""
    rows = rows_of("a", seed=1)
    for row in rows["instance"]:
        row |= dict.fromkeys(("factor_cause", "factor_refused"))
        if row["topic"] == "t0":
            row |= {"factor_cause": cause, "factor_refused": "words"}
    findings = found_in(rows, Policy())
    shown = findings[findings["rule"] == "replication_factor"]
    assert shown[["subject", "cause", "remedy"]].to_numpy().tolist() == [["t0", cause, remedy]]


def test_every_cause_that_the_snapshot_gives_is_tried_here() -> None:
    """A new one needs a remedy."""
    rules = (HOME / "optimizer/planning/policy").glob("*.py")
    given = {Cause[name] for file in rules for name in re.findall(r"\bCause\.(\w+)", file.read_text(encoding="utf-8"))}
    assert given == {*NOT_FREE, *REFUSED_FACTOR, *TOLD_ELSEWHERE}
