"""``rollback-throttle.json``: the throttles of a wave's rollback, and the waves that have none."""

import json
from dataclasses import replace
from typing import Any

import pytest

from optimizer.emit.cluster_plan import ClusterPlan
from optimizer.emit.documents import documents
from optimizer.emit.throttle_files import throttle_documents
from tests.emit.throttled import LIVE, RATE, throttled_plan
from tests.stages.test_throttle_rows import change, entries

NAME = "c/wave-01/rollback-throttle.json"


def data_of(plan: ClusterPlan) -> Any:
    """The content of the document; None if the plan has none."""
    texts = {document.path: document for document in throttle_documents(plan)}
    return json.loads(texts[NAME].content) if NAME in texts else None


def short(data: Any, style: str = "careful") -> set[tuple[str, str, str]]:
    """Entity, first word of the config and value of the entries in one form."""
    return {(row["entity_name"], row["config"].partition(".")[0], row["value"]) for row in data[style]}


def test_a_rollback_copies_from_the_new_replicas_to_the_removed_ones() -> None:
    """The data has the form of ``throttle.json``, and its previous values are those of the cluster before the plan."""
    data = data_of(throttled_plan())
    assert (data["wave"], data["copy_bytes_per_s"]) == (1, RATE)
    lists = {("stays", "leader", "0:1,0:3,1:2,1:4"), ("stays", "follower", "0:2,1:1"), ("goes", "follower", "0:1")}
    assert short(data) >= {*lists, ("goes", "leader", "0:3,0:2")}
    assert short(data, "kafka") >= {*lists, ("goes", "leader", "0:2,0:3")}
    rates = {row["entity_name"] for row in data["kafka"] if row["entity_type"] == "brokers"}
    assert rates == {"1", "2", "3", "4"}
    previous = {(row["entity_name"], row["config"]): row["previous_value"] for row in data["careful"]}
    assert {key: value for key, value in previous.items() if value} == {
        ("stays", "leader.replication.throttled.replicas"): "*",
        ("2", "leader.replication.throttled.rate"): "20000000",
        ("1", "follower.replication.throttled.rate"): "30000000",
    }


def test_rates_include_the_live_replication_of_the_rollback() -> None:
    """A leader sends to its followers and to the copies. Before an election the old leader still leads."""
    rates = {entry for entry in short(data_of(throttled_plan({("t", 0): ([1, 2], [3, 1])}))) if entry[0] != "t"}
    both = str(RATE + 2 * LIVE)
    assert rates == {("3", "leader", both), ("1", "leader", both), ("2", "follower", str(RATE + LIVE))}


def test_a_replica_that_never_leads_has_the_rate_of_copies() -> None:
    """It may become the leader, and without a rate it would send at full speed."""
    plan = throttled_plan({("t", 0): ([1, 2, 4], [1, 2, 3])})
    assert ("2", "leader", str(RATE)) in short(data_of(plan))


def test_copies_have_the_rate_of_the_wave() -> None:
    """Not the highest rate of the plan."""
    plan, rate = throttled_plan({("t", 0): ([1], [2])}), RATE // 2
    data = data_of(replace(plan, waves=[replace(plan.waves[0], copy_bytes_per_s=rate)]))
    assert data["copy_bytes_per_s"] == rate
    assert ("2", "leader", str(rate + LIVE)) in short(data)
    assert ("1", "leader", str(rate + LIVE)) in short(data, "kafka")


def test_the_rollback_of_a_plan_is_throttled_as_the_opposite_plan() -> None:
    """The entries equal those that the plan stage makes for the lists in the other direction."""
    lists = {0: ([1, 2], [3, 2]), 1: ([2, 1], [4, 3]), 2: ([1, 3], [3, 1])}
    plan = throttled_plan({("t", number): both for number, both in lists.items()})
    plan = replace(plan, changed=[replace(row, leader=None) for row in plan.changed])
    opposite = entries(
        *(
            change(number, after, before, in_bytes_per_s=LIVE, in_sync_followers=len(after) - 1, copy_bytes_per_s=RATE)
            for number, (before, after) in lists.items()
        )
    )
    for style in ("careful", "kafka"):
        expected = {(e[3], e[4].partition(".")[0], e[5]) for e in opposite if e[:2] == (1, style)}
        assert short(data_of(plan), style) == expected


@pytest.mark.parametrize(
    "changes",
    [{("t", 0): ([1], [1, 2])}, {("t", 0): ([1, 2], [2, 1])}, {("t", 0): ([1, 4], [1, 2])}],
    ids=["only removes", "only order", "no way back"],
)
def test_a_rollback_that_copies_nothing_has_no_throttles(changes: dict[tuple[str, int], Any]) -> None:
    """It has no document, also if its only copies are of a partition that cannot be rolled back."""
    plan = throttled_plan(changes)
    assert data_of(_with_dead_4(plan)) is None


def test_partitions_that_cannot_be_rolled_back_are_not_listed() -> None:
    """Their rollback is in another document, for later."""
    data = data_of(_with_dead_4(throttled_plan({("t", 0): ([1, 2], [1, 3]), ("t", 1): ([1, 4], [1, 2])})))
    assert {entry for entry in short(data) if entry[0] == "t"} == {("t", "leader", "0:1,0:3"), ("t", "follower", "0:2")}


def test_a_wave_that_only_removes_has_throttles_for_its_rollback() -> None:
    """It copies nothing and has no throttles, but its rollback copies the replicas again, with the rate of the plan."""
    plan = replace(throttled_plan({("t", 0): ([1, 2, 3], [1, 2])}), throttles=[])
    data = data_of(plan)
    assert data is not None
    assert data["copy_bytes_per_s"] == plan.copy_bytes_per_s
    assert ("t", "follower", "0:3") in short(data)


def test_approval_covers_it() -> None:
    """The manifest and the sums have its sha256."""
    files = {document.path: document for document in documents(throttled_plan())}
    name = NAME.removeprefix("c/")
    assert (files[NAME].kind, files[NAME].wave) == ("throttle", 1)
    assert json.loads(files["c/manifest.json"].content)["sha256"][name] == files[NAME].sha256
    assert f"{files[NAME].sha256}  {name}\n" in files["c/SHA256SUMS"].content


def _with_dead_4(plan: ClusterPlan) -> ClusterPlan:
    brokers = [replace(row, state="dead") if row.broker_id == 4 else row for row in plan.brokers]
    return replace(plan, brokers=brokers)
