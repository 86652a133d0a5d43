"""What a failure loses, on a real cluster: no more than ``exposure`` says, and nearly as much."""

import signal
from collections.abc import Iterator

import pandas as pd
import pytest
from kafka import KafkaConsumer

from optimizer.kafka.throttle import FOLLOWER_RATE, FOLLOWER_REPLICAS
from optimizer.planning.exposed import exposure_rows
from sources import kafka_admin, live_offsets
from sources.offsets import EARLIEST, REPLICA_LATEST
from sources.record import Record
from tests.kafka import topics
from tests.kafka.lab import RACKS, Four, held_back, until
from tests.stages.test_exposed_rows import living_hosts, partition
from tour.cluster import Cluster

pytestmark = [pytest.mark.kafka, pytest.mark.all_only]

TOPIC, LEADER, LATE = "losses", 1, 2
# Partition 0 may have a leader that is not in sync.
REPLICAS = {0: [LEADER, LATE]}
THROTTLES = {("brokers", str(LATE), FOLLOWER_RATE): "1", ("topics", TOPIC, FOLLOWER_REPLICAS): f"0:{LATE}"}


@pytest.fixture
def kafka(four: Four) -> Iterator[Cluster]:
    """The cluster with a topic of one partition; at the end all brokers are up."""
    topics.create(four.cluster, {TOPIC: REPLICAS}, min_insync_replicas=1, unclean_leader_election_enable=True)
    yield four.cluster
    if not four.cluster.is_running(LEADER):
        four.cluster.start_broker(LEADER)
    until(lambda: topics.observe(four.cluster).alive == set(RACKS))
    topics.delete(four.cluster, TOPIC)


def records_of(kafka: Cluster, *brokers: int) -> list[Record]:
    """What a live source reads of these brokers."""
    with kafka_admin.connected({"bootstrap_servers": kafka.bootstrap}) as admin:
        topology = list(kafka_admin.topology(admin))
        hosts = list(kafka_admin.describe_brokers(admin, brokers, defaults=True))
        return [*topology, *hosts, *live_offsets.offsets(admin, topology, [TOPIC])]


def ends_of(records: list[Record]) -> dict[int, int]:
    """The ends of the partition's replicas, by broker; as broker 0 its start."""
    rows = [record.payload for record in records if record.kind == "offset" and record.payload["topic"] == TOPIC]
    assert {row["time"] for row in rows} <= {EARLIEST, REPLICA_LATEST}
    return {row["broker_id"] or 0: row["offset"] for row in rows}


def logs_of(records: list[Record]) -> dict[int, tuple[int, int]]:
    """Bytes of each replica, and its ``offset_lag``."""
    rows = [r.payload for r in records if r.kind == "log_dir_replica" and r.payload["topic"] == TOPIC]
    return {row["broker_id"]: (row["size_bytes"], row["offset_lag"]) for row in rows}


def expected_loss(records: list[Record]) -> tuple[int, int]:
    """The bytes and records that the loss of the leader's broker loses, as table ``exposure`` has them."""
    ends, (size_bytes, _) = ends_of(records), logs_of(records)[LEADER]
    lags = {"lag_brokers": [LEADER, LATE], "lag_records": [0, ends[LEADER] - ends[LATE]]}
    row = partition(0, REPLICAS[0], isr=[LEADER], allows_unclean_election=True, size_bytes=size_bytes, **lags)
    row["log_records"] = ends[LEADER] - ends[0]
    table, _ = exposure_rows(pd.DataFrame([row]), living_hosts(RACKS), needs_whole_min_isr=False)
    [loss] = table[(table["moment"] == "before") & (table["lost"] == str(LEADER))].to_dict("records")
    return loss["lost_bytes"], loss["lost_records"]


def test_an_unclean_election_loses_what_exposure_says(kafka: Cluster) -> None:
    """The replica gets a little more until the leader is killed. The old leader then loses the same records."""
    topics.fill(kafka, TOPIC, {0: 3})
    until(lambda: topics.observe(kafka).in_sync[TOPIC, 0] == {LEADER, LATE})
    with held_back(kafka, LATE, THROTTLES):
        topics.fill(kafka, TOPIC, {0: 20})
    until(lambda: LATE in topics.observe(kafka).alive)
    until(lambda: LATE in ends_of(records_of(kafka, LEADER, LATE)))
    before = records_of(kafka, LEADER, LATE)
    logs, (expected_bytes, expected_records) = logs_of(before), expected_loss(before)
    assert {lag for _, lag in logs.values()} == {0}  # Kafka's own figure does not show what the replica lacks
    kafka.stop_broker(LEADER, signal.SIGKILL)
    until(lambda: topics.observe(kafka).in_sync[TOPIC, 0] == {LATE})
    after = records_of(kafka, LATE)
    consumer = KafkaConsumer(bootstrap_servers=kafka.bootstrap, enable_auto_commit=False)
    [end] = consumer.end_offsets([topics.TopicPartition(TOPIC, 0)]).values()
    consumer.close()
    lost_records = ends_of(before)[LEADER] - end
    lost_bytes = logs[LEADER][0] - logs_of(after)[LATE][0]
    assert 0.8 * expected_records <= lost_records <= expected_records
    assert 0.8 * expected_bytes <= lost_bytes <= expected_bytes * 1.001
    kafka.start_broker(LEADER)
    until(lambda: topics.observe(kafka).in_sync[TOPIC, 0] == {LEADER, LATE})
    back = records_of(kafka, LEADER, LATE)
    assert ends_of(back)[LEADER] == ends_of(back)[LATE] == end
