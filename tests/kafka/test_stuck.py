"""A replica that stays out of sync, on brokers of two releases: a plan that keeps it never ends, ours removes it."""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from execution.admin import KafkaAdmin
from execution.observed import Observed, Throttle
from optimizer.kafka.throttle import FOLLOWER_RATE, FOLLOWER_REPLICAS
from optimizer.planning.in_memory import plan_in_memory, records
from optimizer.planning.policy.all_rules import instance_of
from tests.asking import small_run
from tests.execution.warehouse import plan_of, with_previous_throttles
from tests.kafka import topics
from tests.kafka.lab import RACKS, TOOLS, Four, held_back, planned_lab, until, written
from tour.cluster import Cluster, running

pytestmark = [pytest.mark.kafka, pytest.mark.all_only]

STUCK, TOPIC = 4, "stuck"
MB, RATE = 20, 5_000_000  # the broker would need 3.5 minutes for so much
KEEPS_SECONDS = 15
BANDS = {f"{name}_band": 9.0 for name in ("disk", "replicas", "in", "leaders", "out")}  # nothing to balance
THROTTLES: Mapping[Throttle, str] = {
    ("brokers", str(STUCK), FOLLOWER_RATE): "1",
    ("topics", TOPIC, FOLLOWER_REPLICAS): f"0:{STUCK}",
}
KEY = (TOPIC, 0)


@contextmanager
def stuck(kafka: Cluster, replicas: list[int]) -> Iterator[None]:
    """A topic. A broker was away while it was filled, and since then it gets about 1 MiB of it in 11 seconds."""
    topics.create(kafka, {TOPIC: {0: replicas}})
    with held_back(kafka, STUCK, THROTTLES):
        topics.fill(kafka, TOPIC, {0: MB})
    until(lambda: STUCK in topics.observe(kafka).alive and topics.observe(kafka).throttles == THROTTLES)
    yield
    with KafkaAdmin({"bootstrap_servers": kafka.bootstrap}) as admin:
        assert admin.alter(dict.fromkeys(THROTTLES, ("DELETE", None))) == {}
    topics.delete(kafka, TOPIC)


def planned(now: Observed, release: str, policy: Mapping[str, Any], *, knows_isr: bool) -> list[int]:
    """The planner's list for the cluster as it is, or for the same cluster with all replicas in sync."""
    replicas, in_sync = now.replicas[KEY], now.in_sync[KEY]
    isr = sorted(in_sync if knows_isr else replicas)
    rows = [small_run.partition(*KEY, replicas, leader=now.leaders[KEY], isr=isr)]
    hosts = [small_run.broker(number, rack) for number, rack in RACKS.items()]
    facts = small_run.make_facts(hosts, rows, cluster={"kafka_version": release}, policy={**BANDS, **policy})
    instance, brokers = instance_of(facts.partitions, facts.brokers, facts.settings, facts.cluster_id)
    (row,) = records(plan_in_memory(instance, brokers.assign(run_id="r"), facts.settings).tables["compared"])
    return [int(broker) for broker in row["proposed_replicas"]]


def check_never_ends(kafka: Cluster, before: list[int], after: list[int]) -> None:
    """A reassignment runs on although all copies are made; then it is cancelled, and the old order restored."""
    with KafkaAdmin({"bootstrap_servers": kafka.bootstrap}) as admin:
        assert admin.reassign({KEY: after}) == {}
        until(lambda: admin.observe().in_sync[KEY] >= set(after) - {STUCK})
        since = time.monotonic()
        while time.monotonic() < since + KEEPS_SECONDS:
            assert admin.observe().in_flight == {KEY: tuple(after)}
            time.sleep(1)
        assert admin.reassign({KEY: None}) == {}
        until(lambda: not admin.observe().in_flight)
        assert admin.reassign({KEY: before}) == {}
        until(lambda: admin.observe().replicas[KEY] == tuple(before))


def check(four: Four, kafka: Cluster, release: str, before: list[int], **policy: Any) -> tuple[list[int], list[int]]:
    """The list of a planner that does not know who is in sync, which never gets done; and ours, which ``run`` makes."""
    with stuck(kafka, before):
        unaware = planned(topics.observe(kafka), release, policy, knows_isr=False)
        check_never_ends(kafka, before, unaware)
        now = topics.observe(kafka)
        assert now.in_sync[KEY] == set(before) - {STUCK}
        after = planned(now, release, policy, knows_isr=True)
        plan = plan_of([{KEY: (before, after)}], topic_ids={TOPIC: str(now.topic_ids[TOPIC])}, rate=RATE)
        plan = with_previous_throttles(plan, now.throttles)
        lab = planned_lab(kafka, four.tools[release], four.tools[release].parent / f"stuck-{release}", plan, TOPIC)
        with written(lab):
            ended = lab.run()
        assert (ended.code, ended.err) == (0, ""), ended
        now = lab.now()
        assert (now.replicas[KEY], now.in_sync[KEY]) == (tuple(after), frozenset(after))
        assert (now.in_flight, now.throttles) == ({}, THROTTLES)
    return unaware, after


def test_a_shorter_list_loses_the_replica_that_is_stuck(four: Four) -> None:
    """Brokers of 4.3 never end the reassignment that removes another one."""
    shorter = [{"topics": TOPIC, "factor": 2}]
    lists = check(four, four.cluster, "4.3", [2, 3, STUCK], replication_factors=shorter)
    assert lists == ([2, STUCK], [2, 3])


def test_the_stuck_one_of_two_in_a_rack_leaves(four: Four, tmp_path: Path) -> None:
    """Brokers of 3.9 never end the reassignment in which the other one leaves."""
    with running(tmp_path, RACKS, jars=TOOLS["3.9"]) as kafka:
        assert check(four, kafka, "3.9", [1, STUCK, 2]) == ([3, STUCK, 2], [1, 3, 2])
