"""Executes a plan on a real cluster step by step, and measures its copies."""

import io
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from execution.admin import KafkaAdmin
from execution.approve import approve
from execution.cli import main
from execution.observed import Observed, Replica, Throttle
from optimizer.emit.cluster_plan import ClusterPlan
from optimizer.emit.requested import Requested
from setup.jars import KAFKA, KAFKA39
from setup.paths import HOME
from sources import kafka_admin
from stored.tables import Warehouse
from tests.execution.warehouse import (
    CLUSTER,
    RUN,
    Changes,
    Inside,
    load_plan,
    plan_of,
    with_previous_throttles,
    write_plan,
)
from tests.kafka import topics
from tests.kafka.topics import SECONDS
from tour.cluster import Cluster
from tour.producer import producing

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
    """Exit code and output of a command; ``left`` has the lines after the error, about what it leaves."""

    code: int
    out: str
    err: str
    left: str = ""


def ended(words: Sequence[str]) -> Ended:
    """Run a command, as ./ballast does."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = main(words)
    error, *left = re.split(r"(?m)^(?=held: |the cluster is free: )", err.getvalue(), maxsplit=1)
    return Ended(code, out.getvalue(), error, "".join(left))


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
        return ended([*self.command(name, wave, hours), *options])

    def run(self, *options: str) -> Ended:
        """Run all waves, as ./ballast does."""
        return ended([*self.run_command(), *options])

    def once_free(self, command: Callable[[], Ended]) -> Ended:
        """Run a command after a kill: a tool that the killed process started still holds the lock until it ends."""
        ends: list[Ended] = []

        def is_free() -> bool:
            ends.append(command())
            return ends[-1].code != 4 or "another process of this host" not in ends[-1].err

        until(is_free)
        return ends[-1]

    def back(self, *options: str) -> Ended:
        """Take waves back, as ./ballast does."""
        return ended([*self.run_command("rollback"), *options])

    def steer(self, *words: str) -> Ended:
        """Show or steer the wave that holds the cluster."""
        where = ("--cluster", CLUSTER, "--warehouse", self.warehouse.path)
        return ended([*words, *where, "--bootstrap-server", self.cluster.bootstrap])

    def run_command(self, name: str = "run") -> list[str]:
        """The arguments of the command that executes waves, or of ``rollback``."""
        words = self.command("", 1)
        at, age = words.index("--wave"), words.index("--max-plan-age-hours")
        return [name, *words[2:at], *words[at + 2 : age], *(words[age:] if name == "run" else [])]

    @contextmanager
    def running(self, *options: str, command: str = "run") -> Iterator[subprocess.Popen[str]]:
        """Run all waves, or another command, in a separate process; it is killed at the end if it still runs."""
        words = [sys.executable, "-m", "execution", *self.run_command(command), *options]
        with subprocess.Popen(words, cwd=HOME, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            try:
                yield process
            finally:
                process.kill()

    def events(self) -> list[str]:
        """The events of all waves in order."""
        rows = sorted(self.warehouse.rows("executions"), key=lambda row: int(row["number"]))
        return [row["event"] for row in rows]

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
        return topics.observe(self.cluster)

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


@contextmanager
def written(lab: Lab) -> Iterator[None]:
    """Write to the moved topic with acks=all; at the end it has every acknowledged record."""
    with producing(lab.cluster.bootstrap, lab.topic) as sent:
        yield
    assert len(sent.numbers) > 20
    assert sent.lost() == set()


@contextmanager
def held_back(kafka: Cluster, broker: int, throttles: Mapping[Throttle, str]) -> Iterator[None]:
    """Throttles, and a broker that misses what is written meanwhile: it hangs until the cluster has fenced it.

    A broker that starts may fetch before it knows its throttles, so this one is only stopped for a while.
    """
    with KafkaAdmin({"bootstrap_servers": kafka.bootstrap}) as admin:
        assert admin.alter({key: ("SET", value) for key, value in throttles.items()}) == {}
        until(lambda: admin.shown(broker, throttles) == throttles)
    process = kafka.nodes[broker].process
    assert process is not None
    process.send_signal(signal.SIGSTOP)
    try:
        until(lambda: broker not in topics.observe(kafka).alive)
        yield
    finally:
        process.send_signal(signal.SIGCONT)


def another_dir(kafka: Cluster, replica: Replica) -> tuple[str, str]:
    """The directory of a replica, and the next one of its broker."""
    with KafkaAdmin({"bootstrap_servers": kafka.bootstrap}) as admin:
        path = admin.stored([replica[2]]).log_dirs[replica]
    paths = [str(each) for each in kafka.nodes[replica[2]].log_dirs]
    return path, paths[(paths.index(path) + 1) % len(paths)]


def planned_lab(
    kafka: Cluster,
    tools: Path,
    folder: Path,
    plan: ClusterPlan,
    topic: str,
    *,
    approved: bool = True,
    decision: Mapping[str, Any] | None = None,
) -> Lab:
    """A lab whose warehouse has this plan."""
    warehouse = write_plan(folder, plan, decision=decision)
    if approved:
        stored = load_plan(warehouse)
        approve(warehouse, stored, manifest_sha256=stored.manifest_sha256, by="ann", max_hours=1e9)
    return Lab(kafka, tools, warehouse, topic)


MakeLab = Callable[..., Lab]


@contextmanager
def labs(kafka: Cluster, tools: Mapping[str, Path], folder: Path) -> Iterator[MakeLab]:
    """Makes topics with data, and an approved plan for each; at the end deletes them and checks for throttles."""
    created: list[str] = []

    def make(
        topic: str,
        waves: Sequence[Mapping[int, tuple[list[int], list[int]]]],
        *,
        megabytes: int | Mapping[int, int] = 12,
        release: str = "4.3",
        approved: bool = True,
        decision: Mapping[str, Any] | None = None,
        log_dirs: Mapping[Replica, str] | None = None,
        inside: Mapping[int, tuple[list[int], list[int]]] | None = None,
        drained: int | None = None,
    ) -> Lab:
        """``inside`` has the replicas of further partitions, and the brokers inside which the last wave moves them.

        ``drained`` is the broker that the plan empties.
        """
        kept = {number: brokers for number, (brokers, _) in (inside or {}).items()}
        before = kept | {number: lists[0] for wave in waves for number, lists in wave.items()}
        created.append(topic)
        topics.create(kafka, {topic: before})
        sizes = dict.fromkeys(before, megabytes) if isinstance(megabytes, int) else megabytes
        topics.fill(kafka, topic, sizes)
        ids = {topic: str(topics.observe(kafka).topic_ids[topic])}
        changes: list[Changes] = [{(topic, number): lists for number, lists in wave.items()} for wave in waves]
        moves: Inside = {
            (topic, number): (brokers, {broker: another_dir(kafka, (topic, number, broker)) for broker in movers})
            for number, (brokers, movers) in (inside or {}).items()
        }
        of_inside = [moves] if moves else []
        plan = plan_of(changes, topic_ids=ids, rate=RATE, log_dirs=log_dirs, inside=of_inside)
        plan = with_previous_throttles(plan, {})
        if drained is not None:
            brokers = [replace(row, must_empty=row.broker_id == drained) for row in plan.brokers]
            plan = replace(plan, brokers=brokers, requested=Requested(drain=(drained,)))
        where = (kafka, tools[release], folder / topic)
        return planned_lab(*where, plan, topic, approved=approved, decision=decision)

    yield make
    for topic in created:
        topics.delete(kafka, topic)
    if left := topics.observe(kafka).throttles:
        with KafkaAdmin({"bootstrap_servers": kafka.bootstrap}) as admin:  # otherwise each later test fails too
            admin.alter(dict.fromkeys(left, ("DELETE", None)))
    assert not left
