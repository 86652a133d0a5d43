"""Executes a plan on a real cluster step by step, and measures its copies."""

import io
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from execution.approve import approve
from execution.cli import main
from execution.observed import Observed, observe
from execution.tables import Warehouse
from setup.jars import KAFKA, KAFKA39
from setup.paths import HOME
from sources import kafka_admin
from tests.execution.warehouse import CLUSTER, RUN, Changes, load_plan, plan_of, without_previous_throttles, write_plan
from tests.kafka import topics
from tests.kafka.cluster import Cluster
from tests.kafka.topics import SECONDS

RACKS = {1: "a", 2: "b", 3: "c", 4: "a"}
TOOLS = {"3.9": KAFKA39, "4.3": KAFKA}
RATE = 1_000_000
TOPICS, CONFIGS = "org.apache.kafka.tools.TopicCommand", "kafka.admin.ConfigCommand"
REASSIGN = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
# A copy may exceed its rate by the size of one response, and by the first second.
AHEAD_BYTES = RATE + 2 * 2**20
# After a broker was away, it may make up for what Kafka's quota counts in one mean: 11 windows of a second.
# (Seen: 6.3 MB in 0.2 s, a broker that had been away for 39 s; then its rate again.)
BACK_AHEAD_BYTES = 11 * RATE + 2 * 2**20


class Four(NamedTuple):
    """A cluster of the brokers in ``RACKS``, and folders of Kafka's tools by release."""

    cluster: Cluster
    tools: Mapping[str, Path]


class Ended(NamedTuple):
    """Exit code and output of a step."""

    code: int
    out: str
    err: str


@dataclass(frozen=True)
class Lab:
    """A cluster, Kafka's tools, and the warehouse of one plan."""

    cluster: Cluster
    tools: Path
    warehouse: Warehouse
    topic: str = ""

    @property
    def client(self) -> Mapping[str, object]:
        """The client's options."""
        return {"bootstrap_servers": self.cluster.bootstrap}

    def command(self, name: str, wave: int, hours: str = "1e9") -> list[str]:
        """The arguments of a step."""
        plan = ("--run-id", RUN, "--cluster", CLUSTER, "--warehouse", self.warehouse.path, "--wave", str(wave))
        where = ("--bootstrap-server", self.cluster.bootstrap, "--kafka-bin", str(self.tools))
        return ["wave", name, *plan, *where, "--max-plan-age-hours", hours]

    def step(self, name: str, wave: int = 1, *options: str, hours: str = "1e9") -> Ended:
        """Run one step, as ./ballast does."""
        out, err = io.StringIO(), io.StringIO()
        with redirect_stdout(out), redirect_stderr(err):
            code = main([*self.command(name, wave, hours), *options])
        return Ended(code, out.getvalue(), err.getvalue())

    def killed(self, name: str, when: Callable[[], bool]) -> None:
        """Start a step in a separate process, and kill it when a condition holds."""
        command = [sys.executable, "-m", "execution", *self.command(name, 1)]
        with subprocess.Popen(command, cwd=HOME, stdout=subprocess.DEVNULL) as process:
            until(when)
            process.kill()

    def steps(self, *names: str, wave: int = 1) -> None:
        """Run steps that must all succeed."""
        for name in names:
            ended = self.step(name, wave)
            assert ended.code == 0, (name, ended)

    def now(self) -> Observed:
        """The state of the cluster."""
        return observe(self.client)

    def lists(self) -> list[tuple[int, ...]]:
        """Replicas of the topic's partitions."""
        return [replicas for (topic, _), replicas in sorted(self.now().replicas.items()) if topic == self.topic]

    def copied_bytes(self, broker: int) -> int:
        """Bytes of the topic on a broker, as the broker reports them."""
        with kafka_admin.connected(self.client) as admin:
            records = list(kafka_admin.describe_brokers(admin, [broker], defaults=False))
        sizes = (r.payload for r in records if r.kind == "log_dir_replica")
        return sum(row["size_bytes"] for row in sizes if row["topic"] == self.topic)

    def stored_bytes(self, broker: int) -> int:
        """Bytes of the topic in a broker's files; works for a dead broker."""
        (folder,) = self.cluster.nodes[broker].log_dirs
        return sum(path.stat().st_size for path in folder.glob(f"{self.topic}-*/*.log"))

    def ahead_bytes(self, broker: int, since: float, before_bytes: int = 0) -> float:
        """Bytes that a broker has received since a time above its rate; first waits until it receives any."""
        until(lambda: self.copied_bytes(broker) > before_bytes)
        return self.copied_bytes(broker) - before_bytes - RATE * (time.monotonic() - since)

    def keeps_its_rate(self, broker: int, seconds: float = 3.0) -> bool:
        """Whether a broker that still receives a copy stays within its rate for some seconds."""
        until(lambda: self.copied_bytes(broker) > 0)
        before, since = self.copied_bytes(broker), time.monotonic()
        time.sleep(seconds)
        copied = self.copied_bytes(broker) - before
        return bool(self.now().in_flight) and copied <= RATE * (time.monotonic() - since) + AHEAD_BYTES


def until(condition: Callable[[], bool]) -> None:
    """Wait for something."""
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.3)


@contextmanager
def disturbed(lab: Lab) -> Iterator[None]:
    """Somebody else moves the topic ``foreign`` with throttles, and has recreated the plan's topic."""
    topics.create(lab.cluster, {"foreign": {0: [4, 1]}})
    topics.fill(lab.cluster, "foreign", {0: 10})
    rate = "--entity-type brokers --entity-name 4 --add-config leader.replication.throttled.rate=200000"
    lab.cluster.tool(CONFIGS, "--alter", *rate.split())
    lists = "--entity-type topics --entity-name foreign --add-config leader.replication.throttled.replicas=*"
    lab.cluster.tool(CONFIGS, "--alter", *lists.split())
    document = lab.tools.parent / "foreign.json"
    document.write_text('{"version":1,"partitions":[{"topic":"foreign","partition":0,"replicas":[4,2]}]}')
    lab.cluster.tool(REASSIGN, "--reassignment-json-file", str(document), "--execute")
    topics.delete(lab.cluster, lab.topic)
    until(lambda: lab.topic not in lab.now().topic_ids)
    topics.create(lab.cluster, {lab.topic: {0: [1, 2]}})
    yield
    lab.cluster.tool(CONFIGS, "--alter", *rate.replace("add", "delete").replace("=200000", "").split())
    topics.delete(lab.cluster, "foreign")


MakeLab = Callable[..., Lab]


@contextmanager
def labs(kafka: Cluster, tools: Mapping[str, Path], folder: Path) -> Iterator[MakeLab]:
    """Makes topics with data, and an approved plan for each; at the end deletes them and checks for throttles."""
    created: list[str] = []

    def make(
        topic: str,
        waves: Sequence[Mapping[int, tuple[list[int], list[int]]]],
        *,
        megabytes: int = 12,
        release: str = "4.3",
        approved: bool = True,
    ) -> Lab:
        before = {number: lists[0] for wave in waves for number, lists in wave.items()}
        created.append(topic)
        topics.create(kafka, {topic: before})
        topics.fill(kafka, topic, dict.fromkeys(before, megabytes))
        ids = {topic: str(observe({"bootstrap_servers": kafka.bootstrap}).topic_ids[topic])}
        changes: list[Changes] = [{(topic, number): lists for number, lists in wave.items()} for wave in waves]
        warehouse = write_plan(folder / topic, without_previous_throttles(plan_of(changes, topic_ids=ids, rate=RATE)))
        if approved:
            plan = load_plan(warehouse)
            approve(warehouse, plan, manifest_sha256=plan.manifest_sha256, by="ann")
        return Lab(kafka, tools[release], warehouse, topic)

    yield make
    for topic in created:
        topics.delete(kafka, topic)
    assert not observe({"bootstrap_servers": kafka.bootstrap}).throttles
