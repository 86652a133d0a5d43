"""A replica that stays out of sync, on brokers of two releases: a plan that keeps it never ends, ours removes it."""

import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from execution.admin import KafkaAdmin
from execution.observed import Throttle, TopicPartition
from optimizer.kafka.throttle import FOLLOWER_RATE, FOLLOWER_REPLICAS
from optimizer.planning.in_memory import plan_in_memory, records
from optimizer.planning.policy.all_rules import instance_of
from tests.asking import small_run
from tests.execution.warehouse import plan_of, with_previous_throttles
from tests.kafka import topics
from tests.kafka.cluster import Cluster, running
from tests.kafka.lab import RACKS, TOOLS, Four, planned_lab, until, written

pytestmark = [pytest.mark.kafka, pytest.mark.all_only]

STUCK = 4  # the broker
# Two replicas in rack a, where one must leave; and a list that gets shorter. Each topic has one partition.
TWICE, SHORTER = "twice", "shorter"
BEFORE = {(TWICE, 0): [1, STUCK, 2], (SHORTER, 0): [2, 3, STUCK]}
MB, RATE = 20, 5_000_000
KEEPS_SECONDS = 15
BANDS = {f"{name}_band": 9.0 for name in ("disk", "replicas", "in", "leaders", "out")}  # nothing to balance
POLICY = {**BANDS, "replication_factors": [{"topics": SHORTER, "factor": 2}]}
THROTTLES: Mapping[Throttle, str] = {
    ("brokers", str(STUCK), FOLLOWER_RATE): "1",
    **{("topics", topic, FOLLOWER_REPLICAS): f"{number}:{STUCK}" for topic, number in BEFORE},
}
Lists = dict[TopicPartition, list[int]]


@contextmanager
def stuck(kafka: Cluster) -> Iterator[None]:
    """The topics; a broker was away while they were filled, and since then it gets about 1 MiB in 11 seconds."""
    topics.create(kafka, {topic: {0: replicas} for (topic, _), replicas in BEFORE.items()})
    with KafkaAdmin({"bootstrap_servers": kafka.bootstrap}) as admin:
        assert admin.alter({key: ("SET", value) for key, value in THROTTLES.items()}) == {}
    process = kafka.nodes[STUCK].process
    assert process is not None
    # A broker that starts fetches before it knows its throttles, so it only pauses.
    process.send_signal(signal.SIGSTOP)
    until(lambda: STUCK not in topics.observe(kafka).alive)
    for topic, number in BEFORE:
        topics.fill(kafka, topic, {number: MB})
    process.send_signal(signal.SIGCONT)
    until(lambda: topics.observe(kafka).throttles == THROTTLES)  # it is alive, and answers
    yield
    with KafkaAdmin({"bootstrap_servers": kafka.bootstrap}) as admin:
        assert admin.alter(dict.fromkeys(THROTTLES, ("DELETE", None))) == {}
    topics.delete(kafka, TWICE, SHORTER)


def planned(kafka: Cluster, release: str, *, sees_in_sync: bool) -> Lists:
    """New lists of the planner for the cluster as it is, or for the same cluster with all replicas in sync."""
    now = topics.observe(kafka)
    rows = [
        small_run.partition(topic, number, brokers, leader=now.leaders[topic, number], isr=sorted(in_sync))
        for (topic, number), brokers in sorted(now.replicas.items())
        for in_sync in [now.in_sync[topic, number] if sees_in_sync else brokers]
    ]
    hosts = [small_run.broker(number, rack) for number, rack in RACKS.items()]
    facts = small_run.make_facts(hosts, rows, cluster={"kafka_version": release}, policy=POLICY)
    instance, brokers = instance_of(facts.partitions, facts.brokers, facts.settings, facts.cluster_id)
    compared = plan_in_memory(instance, brokers.assign(run_id=facts.run_id), facts.settings).tables["compared"]
    changed = records(compared[compared["is_changed"]])
    return {(row["topic"], row["partition"]): row["proposed_replicas"] for row in changed}


def check_never_ends(kafka: Cluster, lists: Lists) -> None:
    """The reassignments run on although all copies are made; then they are cancelled, and the old order restored."""
    with KafkaAdmin({"bootstrap_servers": kafka.bootstrap}) as admin:
        assert admin.reassign(lists) == {}
        until(lambda: all(set(new) - {STUCK} <= admin.observe().in_sync[key] for key, new in lists.items()))
        since = time.monotonic()
        while time.monotonic() < since + KEEPS_SECONDS:
            assert {key: list(target) for key, target in admin.observe().in_flight.items()} == lists
            time.sleep(1)
        assert admin.reassign(dict.fromkeys(lists)) == {}
        until(lambda: not admin.observe().in_flight)
        assert admin.reassign({key: BEFORE[key] for key in lists}) == {}
        until(lambda: {key: list(brokers) for key, brokers in admin.observe().replicas.items()} == BEFORE)


def check(kafka: Cluster, tools: Path, folder: Path, release: str, never_ends: Lists) -> None:
    """What the planner would do without knowing who is in sync, and what it does."""
    with stuck(kafka):
        unaware = planned(kafka, release, sees_in_sync=False)
        assert unaware.items() >= never_ends.items()
        check_never_ends(kafka, never_ends)
        now = topics.observe(kafka)
        assert {key: set(brokers) for key, brokers in now.in_sync.items()} == {
            key: set(brokers) - {STUCK} for key, brokers in BEFORE.items()
        }
        lists = planned(kafka, release, sees_in_sync=True)
        assert lists == {(TWICE, 0): [1, 3, 2], (SHORTER, 0): [2, 3]}
        ids = {topic: str(now.topic_ids[topic]) for topic, _ in BEFORE}
        plan = plan_of([{key: (BEFORE[key], new) for key, new in lists.items()}], topic_ids=ids, rate=RATE)
        lab = planned_lab(kafka, tools, folder, with_previous_throttles(plan, now.throttles), TWICE)
        with written(lab):
            ended = lab.run()
        assert (ended.code, ended.err) == (0, ""), ended
        now = lab.now()
        assert {key: list(brokers) for key, brokers in now.replicas.items()} == lists
        assert {key: set(brokers) for key, brokers in now.in_sync.items()} == {k: set(v) for k, v in lists.items()}
        assert (now.in_flight, now.throttles) == ({}, THROTTLES)


def test_a_plan_removes_a_stuck_replica(four: Four, tmp_path: Path) -> None:
    """Brokers of 4.3 never end a shorter list that keeps it; ``run`` ends our plan, and leaves the throttles."""
    check(four.cluster, four.tools["4.3"], tmp_path / "plan", "4.3", {(SHORTER, 0): [2, STUCK]})


def test_a_plan_removes_a_stuck_replica_from_older_brokers(four: Four, tmp_path: Path) -> None:
    """Brokers of 3.9 never end any list that keeps it."""
    with running(tmp_path / "kafka", RACKS, jars=TOOLS["3.9"]) as kafka:
        kept = {(TWICE, 0): [3, STUCK, 2], (SHORTER, 0): [2, STUCK]}
        check(kafka, four.tools["3.9"], tmp_path / "plan", "3.9", kept)
