"""A broker that a plan empties gets no new replica, on a real cluster whose brokers have two directories each."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from execution.admin import KafkaAdmin
from optimizer.kafka.cordon import CORDON
from setup.jars import KAFKA, is_ready
from tests.kafka import topics
from tests.kafka.lab import Four, Lab, MakeLab, labs, until
from tests.kafka.test_directories import stored
from tour.cluster import Cluster, running, write_tools

pytestmark = [pytest.mark.kafka, pytest.mark.all_only]

DRAINED = 4
KEY = ("brokers", str(DRAINED), CORDON)
RACKS = {1: "a", 2: "b", 3: "c", DRAINED: "a"}
DRAIN = [{0: ([1, DRAINED], [1, 2])}]


@pytest.fixture(scope="module")
def four(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Four]:
    """The cluster, and Kafka's tools."""
    if not is_ready(KAFKA):
        pytest.skip(f"JARs of {KAFKA.name} are not there: run setup/kafka-jars.sh")
    home = tmp_path_factory.mktemp("cordons")
    with running(home / "kafka", RACKS, log_dirs=2) as kafka:
        yield Four(kafka, {"4.3": write_tools(home / "tools", KAFKA)})


@pytest.fixture
def make_lab(four: Four, tmp_path: Path) -> Iterator[MakeLab]:
    """Makes topics with an approved plan for each."""
    with labs(*four, tmp_path) as make:
        yield make


def value(kafka: Cluster) -> str | None:
    """The dynamic config of the drained broker."""
    with KafkaAdmin({"bootstrap_servers": kafka.bootstrap}) as admin:
        return (admin.shown(DRAINED, [KEY]) or {}).get(KEY)


def set_value(kafka: Cluster, before: str | None) -> None:
    """Give the broker a value, or none."""
    with KafkaAdmin({"bootstrap_servers": kafka.bootstrap}) as admin:
        assert admin.alter({KEY: ("DELETE", None) if before is None else ("SET", before)}) == {}


def new_replicas(kafka: Cluster, name: str) -> int:
    """Make three topics where Kafka wants, and count their replicas on the drained broker."""
    names = [f"{name}-{number}" for number in range(3)]
    with topics.client(kafka) as admin:
        wanted = {"num_partitions": 6, "replication_factor": 3}
        admin.create_topics(dict.fromkeys(names, wanted), wait_for_metadata=True)
    replicas = topics.observe(kafka).replicas
    for topic in names:
        topics.delete(kafka, topic)
    return sum(DRAINED in brokers for (topic, _), brokers in replicas.items() if topic in names)


def directory(lab: Lab) -> str:
    """Where the drained broker has the topic's partition."""
    return stored(lab.cluster, DRAINED).log_dirs[lab.topic, 0, DRAINED]


@pytest.mark.parametrize("before", ["none", "a path", "empty", "static"])
def test_no_new_replica_comes_to_a_drained_broker(four: Four, make_lab: MakeLab, before: str) -> None:
    """From the first copy on, after the last one, until a rollback: then the old directory has the replica again."""
    lab, kafka = make_lab("drained", DRAIN, drained=DRAINED, megabytes=3), four.cluster
    old = directory(lab)
    (other,) = {str(path) for path in kafka.nodes[DRAINED].log_dirs} - {old}
    node = kafka.nodes[DRAINED]
    settings = node.properties.read_text()
    found = {"none": None, "a path": other, "empty": "", "static": None}[before]
    if before == "static":
        kafka.stop_broker(DRAINED)
        node.properties.write_text(f"{settings}{CORDON}={other}\n")
        kafka.start_broker(DRAINED)
        until(lambda: lab.now().in_sync[lab.topic, 0] == {1, DRAINED})
    set_value(kafka, found)
    try:
        assert new_replicas(kafka, "earlier") > 0
        with lab.running() as process:
            until(lambda: bool(lab.now().in_flight))
            assert (value(kafka), new_replicas(kafka, "meanwhile")) == ("*", 0)
            out, err = process.communicate()
        assert (process.returncode, err) == (0, ""), out
        assert f"broker {DRAINED} is empty and cordoned. When you have removed it" in out
        assert (value(kafka), new_replicas(kafka, "later")) == ("*", 0)
        ended = lab.back("--all")
        assert (ended.code, ended.err, lab.lists()) == (0, "", [(1, DRAINED)]), ended.out
        assert (value(kafka), directory(lab)) == (found, old)
        until(lambda: new_replicas(kafka, "back") > 0)
    finally:
        set_value(kafka, None)
        if before == "static":
            kafka.stop_broker(DRAINED)
            node.properties.write_text(settings)
            kafka.start_broker(DRAINED)


def test_a_kill_before_the_broker_has_its_cordon_is_finished(four: Four, make_lab: MakeLab) -> None:
    """The next process knows the value from before; ``uncordon`` restores it, also of a broker that is down."""
    lab, kafka = make_lab("killed", DRAIN, drained=DRAINED, megabytes=3), four.cluster
    set_value(kafka, "")
    lab.killed("throttle", lambda: "cordoning" in lab.events())
    ended = lab.once_free(lambda: lab.step("throttle"))
    assert (ended.code, value(kafka)) == (0, "*"), ended
    lab.steps("execute", "wait", "off", "elect")
    kafka.stop_broker(DRAINED)
    until(lambda: DRAINED not in lab.now().alive)
    owed = lab.steer("uncordon", str(DRAINED))
    assert (owed.code, "--bootstrap-controller 127.0.0.1:" in owed.err) == (4, True), owed
    kafka.start_broker(DRAINED)
    assert (lab.steer("uncordon", str(DRAINED)).code, value(kafka)) == (0, "")
    set_value(kafka, None)
    assert lab.steer("uncordon", str(DRAINED)).code == 3  # nothing is left


def test_metadata_before_4_3_is_not_asked_for_a_cordon(tmp_path: Path) -> None:
    """One line, and the broker is emptied."""
    if not is_ready(KAFKA):
        pytest.skip(f"JARs of {KAFKA.name} are not there: run setup/kafka-jars.sh")
    with running(tmp_path / "kafka", RACKS, metadata="4.2") as kafka:
        four = Four(kafka, {"4.3": write_tools(tmp_path / "tools", KAFKA)})
        with labs(*four, tmp_path) as make:
            lab = make("old", DRAIN, drained=DRAINED, megabytes=1)
            ended = lab.run()
            assert (ended.code, ended.err, lab.lists()) == (0, "", [(1, 2)]), ended
            line = (
                f"not cordoned: Kafka too old (metadata.version below 4.3), so new topics may come to broker {DRAINED}"
            )
            assert ended.out.count(line) == 1
            assert value(kafka) is None
