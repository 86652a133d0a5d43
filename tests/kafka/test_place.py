"""What questions promise, on a real cluster: where new partitions are, and what a shorter retention leaves."""

import hashlib
import json
import shlex
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from asking.answer import answer
from asking.place import place
from asking.question import Question, facts_for
from asking.retention import sections
from asking.run_facts import RunFacts
from asking.sections import Grid
from asking.wanted_topics import Wanted
from setup.jars import KAFKA, is_ready
from tests.asking.small_run import CLUSTER, GB, broker, make_facts, partition
from tests.asking.test_place import lists_of
from tests.kafka import topics
from tests.kafka.lab import CONFIGS, TOPICS, ended, until
from tests.kafka.test_directories import stored
from tour.cluster import Cluster, running

pytestmark = [pytest.mark.kafka, pytest.mark.all_only]

RACKS = {1: "a", 2: "b", 3: "c", 4: "a"}


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Four brokers in three racks, and a topic that leaves broker 4 empty."""
    if not is_ready(KAFKA):
        pytest.skip(f"JARs of {KAFKA.name} are not there: run setup/kafka-jars.sh")
    with running(tmp_path_factory.mktemp("place") / "kafka", RACKS) as cluster:
        topics.create(cluster, {"old": {number: [1, 2, 3] for number in range(4)}})
        yield cluster


def facts_of(kafka: Cluster) -> RunFacts:
    """The cluster as it is; each partition has 10 GB."""
    lists = sorted(topics.observe(kafka).replicas.items())
    brokers = [broker(number, rack, holds=any(number in ids for _, ids in lists)) for number, rack in RACKS.items()]
    policy = {"disk_band": 0.2, "replicas_band": 0.2, "in_band": 0.2, "leaders_band": 0.2, "out_band": 0.2}
    rows = [partition(topic, number, ids, size_bytes=10 * GB) for (topic, number), ids in lists]
    return make_facts(brokers, rows, policy=policy)


def wanted(facts: RunFacts, topic: str, count: int, factor: int) -> Wanted:
    """New partitions, of an old topic if there is one."""
    own = facts.partitions[facts.partitions["topic"] == topic]
    existing = tuple(tuple(map(int, ids)) for ids in own.sort_values("partition")["replicas"])
    return Wanted(topic, len(own), count, factor, topic if existing else "", 10 * GB, 1_000_000, 3_000_000, existing)


def test_topics_and_partitions_come_where_the_document_says(kafka: Cluster, tmp_path: Path) -> None:
    """Over the Admin API, and by the tool's commands; once; and the next plan moves none of them."""
    facts = facts_of(kafka)
    found = place(facts, lists_of(facts), [wanted(facts, "new", 6, 2), wanted(facts, "old", 2, 3)], 2)
    document = tmp_path / "place.json"
    document.write_text(found.content())
    words = ["create", str(document), "--cluster", CLUSTER, "--bootstrap-server", kafka.bootstrap, "--sha256"]
    wrong = ended([*words, "0" * 8])
    assert (wrong.code, "read it again" in wrong.err) == (2, True)
    for outcome in ("is created", "is there already"):
        done = ended([*words, found.sha256[:8]])
        assert (done.code, done.err) == (0, ""), done
        assert done.out.splitlines() == [f"6 partitions of new: {outcome}", f"2 partitions of old: {outcome}"]
    there = topics.observe(kafka).replicas
    assert {key: there[key] for key in found.lists} == {key: tuple(ids) for key, ids in found.lists.items()}
    after = facts_of(kafka)
    plan = answer(after, Question()).plan
    assert plan is not None
    moved = plan.tables["moves"]
    assert [row for row in moved.to_dict("records") if (row["topic"], row["partition"]) in found.lists] == []
    # The same by Kafka's tool: a new topic, and two more partitions of an old one.
    more = place(after, lists_of(after), [wanted(after, "third", 3, 2), wanted(after, "new", 2, 2)], 1)
    for command in more.commands():
        kafka.tool(TOPICS, *shlex.split(command.replace('--bootstrap-server "$BOOTSTRAP" ', ""))[1:])
    there = topics.observe(kafka).replicas
    assert {key: there[key] for key in more.lists} == {key: tuple(ids) for key, ids in more.lists.items()}


def test_what_has_changed_since_the_snapshot_is_refused(kafka: Cluster, tmp_path: Path) -> None:
    """All problems at once, and nothing is created: another number of partitions, a dead broker."""
    content = {
        **{"format": 1, "cluster_id": CLUSTER, "run_id": "r", "kafka_cluster_id": None},
        "topics": [
            {"topic": "old", "first": 99, "replicas": [[1, 2]]},
            {"topic": "fresh", "first": 0, "replicas": [[9, 1]]},
            {"topic": "fine", "first": 0, "replicas": [[1, 2]]},
        ],
    }
    document = tmp_path / "place.json"
    document.write_text(json.dumps(content))
    sha256 = hashlib.sha256(document.read_bytes()).hexdigest()
    words = ["create", str(document), "--cluster", CLUSTER, "--bootstrap-server", kafka.bootstrap, "--sha256", sha256]
    refused = ended(words)
    assert refused.code == 3
    assert "topic old had 99 partitions at the snapshot, and has " in refused.err
    assert "topic fresh: broker 9 is not alive" in refused.err
    assert "fine" not in topics.observe(kafka).topic_ids
    other = ended([*words[:3], "another", *words[4:]])
    assert (other.code, "is for cluster 'orders', not 'another'" in other.err) == (2, True)


def test_a_shorter_retention_leaves_what_was_said(kafka: Cluster) -> None:
    """Within 10 %: ten hours of records, of which five stay. The commands are those of the answer."""
    hours, megabytes, seconds = 10, 20, 5 * 3600
    topics.create(kafka, {"log": {0: [1, 2]}}, segment_bytes=2**20, retention_ms=2**40)
    now_ms = time.time() * 1000
    producer = topics.KafkaProducer(bootstrap_servers=kafka.bootstrap, acks=1)
    for number in range(megabytes * 10):
        at_ms = int(now_ms - hours * 3_600_000 * (1 - number / (megabytes * 10)))
        producer.send("log", b"x" * 100_000, partition=0, timestamp_ms=at_ms)
    producer.close()
    before = stored(kafka, 1).size_bytes["log", 0, 1]
    rate = round(before / (hours * 3600))
    row = partition("log", 0, [1, 2], size_bytes=before, in_bytes_per_s=rate, configs=f"retention.ms={2**40}")
    facts = make_facts([broker(number, rack) for number, rack in RACKS.items()], [row])
    question = Question(retention={"log": seconds})
    [expected] = facts_for(facts, question).partitions["size_bytes"]
    *_, section = sections(facts.partitions, question.retention)
    [grid] = section.parts
    assert isinstance(grid, Grid)
    (shorten,), (restore,) = grid.rows
    run_tool(kafka, shorten)
    until(lambda: stored(kafka, 1).size_bytes["log", 0, 1] < 0.9 * before)
    time.sleep(4)  # two looks of the broker: all that it may delete is deleted
    left = stored(kafka, 1).size_bytes["log", 0, 1]
    assert abs(left - expected) <= 0.1 * expected, (before, expected, left)
    run_tool(kafka, restore)
    assert f"retention.ms={2**40}" in kafka.tool(
        CONFIGS, "--describe", "--entity-type", "topics", "--entity-name", "log"
    )


def run_tool(kafka: Cluster, command: str) -> None:
    """Run a command of kafka-configs.sh as an answer prints it."""
    kafka.tool(CONFIGS, *shlex.split(command.replace('--bootstrap-server "$BOOTSTRAP" ', ""))[1:])
