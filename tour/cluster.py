"""A real Kafka cluster on loopback, from Kafka's own JARs: one KRaft controller and some brokers, each a small process.

Nothing is downloaded and no port is fixed; all data is in the given folder. Only processes that were started here are
stopped.
"""

import base64
import os
import shlex
import signal
import subprocess
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from setup.jars import KAFKA, JarSet
from setup.java import java
from setup.locking import exclusive
from tour.ports import free_ports

CONTROLLER = 1000
START_SECONDS = 180
TOOL_SECONDS = 180
TOOLS = {
    "kafka-configs.sh": "kafka.admin.ConfigCommand",
    "kafka-reassign-partitions.sh": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "kafka-leader-election.sh": "org.apache.kafka.tools.LeaderElectionCommand",
}
STARTED = b"Kafka Server started"
# About 135 MB each, and half the CPU of the defaults at start.
_SMALL = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xss512k", "-XX:-UsePerfData", "-Xshare:auto")
_COMMON = {
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    "num.network.threads": 1,
    "num.io.threads": 2,
    "background.threads": 2,
    "num.recovery.threads.per.data.dir": 1,
    "log.cleaner.dedupe.buffer.size": 4 * 1048576,
    "log.cleaner.io.buffer.size": 65536,
    "group.initial.rebalance.delay.ms": 0,
    # A group of KIP-848 sees a change of its topics at a heartbeat.
    "group.consumer.min.heartbeat.interval.ms": 500,
    "group.consumer.heartbeat.interval.ms": 500,
    "auto.create.topics.enable": "false",
    # Leaders move only if a test elects them.
    "auto.leader.rebalance.enable": "false",
    "file.delete.delay.ms": 1000,
    # Sizes must not change while a test compares them.
    "log.retention.ms": -1,
    "log.retention.check.interval.ms": 3000,
}


class ClusterError(Exception):
    """The cluster or a tool of Kafka failed; the message has the end of the output."""


@dataclass
class Node:
    """A broker or controller: its settings, its release, its output, and its process while it runs.

    ``share`` is Java's option for the archive of its classes; ``more`` are further JARs of its class path.
    """

    node_id: int
    home: Path
    settings: Mapping[str, object]
    jars: JarSet = KAFKA
    share: str = ""
    more: Sequence[JarSet] = ()
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    @property
    def properties(self) -> Path:
        """The settings file; its path on the command line identifies the process."""
        return self.home / f"node-{self.node_id}.properties"

    @property
    def output(self) -> Path:
        """The file with the output of the process."""
        return self.home / f"node-{self.node_id}.log"

    @property
    def log_dirs(self) -> list[Path]:
        """Its log directories."""
        return [Path(text) for text in str(self.settings["log.dirs"]).split(",")]


def java_command(*, heap_mb: int, level: str = "WARN", jars: JarSet = KAFKA, more: Sequence[JarSet] = ()) -> list[str]:
    """The beginning of a command line for a small Java process with Kafka's JARs (setup/kafka-jars.sh)."""
    new, old = (Path(__file__).with_name(name) for name in ("log4j2.xml", "log4j.properties"))
    logging = (f"-Dlog4j2.configurationFile={new}", f"-Dlog4j.configuration=file:{old}", f"-Dballast.level={level}")
    class_path = ":".join(f"{each.folder}/*" for each in (jars, *more))
    return [str(java()), f"-Xmx{heap_mb}m", *_SMALL, *logging, "-cp", class_path]


def write_tools(folder: Path, jars: JarSet) -> Path:
    """Write the programs that throttle scripts call, as in Kafka's archive of a release; returns their folder.

    The first call of each program writes an archive of its classes, so that later calls start faster.
    """
    folder.mkdir(parents=True)
    for name, main_class in TOOLS.items():
        program_name, *options = java_command(heap_mb=160, jars=jars)
        program = folder / name
        program.write_text(
            '#!/bin/sh\nshare=-XX:SharedArchiveFile=$0.jsa\n[ -e "$0.jsa" ] || share=-XX:ArchiveClassesAtExit=$0.jsa\n'
            f'exec {shlex.quote(program_name)} "$share" -Xlog:disable {shlex.join([*options, main_class])} "$@"\n'
        )
        program.chmod(0o755)
    return folder


def kafka_uuid() -> str:
    """A random UUID in Kafka's format, without a leading dash, which would look like an option."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not text.startswith("-"):
            return text


@dataclass
class Cluster:
    """A running cluster."""

    nodes: dict[int, Node]
    bootstrap: str
    sasl_bootstrap: str = ""

    def tool(self, main_class: str, *arguments: str, stdin: bytes | None = None, check: bool = True) -> str:
        """Run a main class of Kafka against the cluster and return its standard output.

        Raises
        ------
        ClusterError
            When it fails; the message has its whole output.
        """
        servers = ["--bootstrap-server", self.bootstrap]
        # The first call of each class writes an archive of its classes, so that later calls start faster.
        archive = self.nodes[CONTROLLER].home / f"{main_class}.jsa"
        share = f"-XX:{'SharedArchiveFile' if archive.exists() else 'ArchiveClassesAtExit'}={archive}"
        java, *options = java_command(heap_mb=160)
        command = [java, share, "-Xlog:disable", *options, main_class, *servers, *arguments]
        result = subprocess.run(command, input=stdin, capture_output=True, timeout=TOOL_SECONDS, check=False)
        out, err = result.stdout.decode(), result.stderr.decode()
        if check and result.returncode != 0:
            raise ClusterError(f"{main_class} {' '.join(arguments)} ended with {result.returncode}:\n{out}\n{err}")
        return out

    def is_running(self, broker_id: int) -> bool:
        """Whether the process of a broker runs."""
        process = self.nodes[broker_id].process
        return process is not None and process.poll() is None

    def stop_broker(self, broker_id: int, how: signal.Signals = signal.SIGTERM) -> None:
        """Stop a broker by a signal; the default is an orderly stop."""
        _end([self.nodes[broker_id]], how)

    def start_broker(self, broker_id: int) -> None:
        """Start a stopped broker, and wait until it is ready."""
        _launch(self.nodes[broker_id])
        _wait([self.nodes[broker_id]])


@contextmanager
def running(
    home: Path,
    racks: Mapping[int, str],
    *,
    log_dirs: int = 1,
    jars: JarSet = KAFKA,
    users: Mapping[str, str] | None = None,
    share: str = "",
    metadata: str = "",
    settings: Mapping[str, object] | None = None,
    more: Sequence[JarSet] = (),
) -> Iterator[Cluster]:
    """A cluster with one broker for each id, on its rack; all processes are stopped at the end.

    Parameters
    ----------
    home : Path
        An empty folder for data, settings and logs.
    racks : mapping of int to str
        Rack of each broker id.
    log_dirs : int
        Number of log directories of each broker.
    jars : JarSet
        The release of all nodes.
    users : mapping of name to password, optional
        Then an authorizer decides what they may do over a second listener; over the first one everything is allowed.
    share : str
        Java's option for the archive of a node's classes; by default one that is made once.
    metadata : str
        Release of the metadata version; by default the newest of the JARs.
    settings : mapping, optional
        Further settings of every node.
    more : sequence of JarSet
        Further JARs of every node.
    """
    share = share or f"-XX:SharedArchiveFile={_archive(jars)}"
    home.mkdir(parents=True, exist_ok=True)
    nodes = _nodes(home, racks, log_dirs=log_dirs, jars=jars, users=users or {})
    for node in nodes:
        node.share, node.more, node.settings = share, more, {**node.settings, **(settings or {})}
        node.properties.write_text("".join(f"{name}={value}\n" for name, value in node.settings.items()))
    _format(nodes, metadata)
    try:
        for node in nodes:
            _launch(node)
        _wait(nodes)
        listeners = [str(node.settings["advertised.listeners"]).split(",") for node in nodes[1:4]]
        first, second = (",".join(each[at].partition("://")[2] for each in listeners) for at in (0, -1))
        yield Cluster({node.node_id: node for node in nodes}, first, second if users else "")
    finally:
        _end(nodes, signal.SIGKILL)


def _archive(jars: JarSet) -> Path:
    """An archive of the classes of a node: each start takes 2 s of CPU time less. The first caller makes it."""
    archive = jars.folder / "node.jsa"
    with exclusive(f"classes-{jars.name}"):
        if not archive.exists():
            with TemporaryDirectory(dir=jars.folder) as folder:
                made = Path(folder, "node.jsa")
                with running(Path(folder), {1: "a"}, jars=jars, share=f"-XX:ArchiveClassesAtExit={made}") as cluster:
                    cluster.stop_broker(1)
                made.touch()  # Java ignores an empty archive
                made.replace(archive)
    return archive


def _nodes(
    home: Path, racks: Mapping[int, str], *, log_dirs: int, jars: JarSet, users: Mapping[str, str]
) -> list[Node]:
    """The controller, then the brokers in the given order."""
    controller_port, *ports = free_ports((2 if users else 1) * len(racks) + 1)
    protocols = f"{_COMMON['listener.security.protocol.map']},SASL:SASL_PLAINTEXT"
    of_users = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
        "listener.security.protocol.map": protocols,
    }
    words = " ".join(f'user_{name}="{password}"' for name, password in users.items())
    plain = {
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl.plain.sasl.jaas.config": (
            f"org.apache.kafka.common.security.plain.PlainLoginModule required {words};"
        ),
    }
    quorum = {"controller.quorum.voters": f"{CONTROLLER}@127.0.0.1:{controller_port}"}
    replication = min(3, len(racks))
    internal = {
        "offsets.topic.num.partitions": 3,
        "offsets.topic.replication.factor": replication,
        "transaction.state.log.num.partitions": 1,
        "transaction.state.log.replication.factor": replication,
        "share.coordinator.state.topic.replication.factor": replication,
    }

    def node(node_id: int, role: str, **own: object) -> Node:
        dirs = ",".join(str(home / f"data-{node_id}-{k}") for k in range(log_dirs if role == "broker" else 1))
        settings = {name.replace("_", "."): value for name, value in own.items()}
        roles = {"node.id": node_id, "process.roles": role, "log.dirs": dirs}
        secure = {**of_users, **(plain if role == "broker" else {})} if users else {}
        return Node(node_id, home, {**_COMMON, **quorum, **internal, **roles, **secure, **settings}, jars)

    controller = node(CONTROLLER, "controller", listeners=f"CONTROLLER://127.0.0.1:{controller_port}")
    brokers = []
    for number, (broker_id, rack) in enumerate(racks.items()):
        address = f"PLAINTEXT://127.0.0.1:{ports[number]}"
        if users:
            address += f",SASL://127.0.0.1:{ports[len(racks) + number]}"
        own = {"listeners": address, "advertised_listeners": address, "inter_broker_listener_name": "PLAINTEXT"}
        brokers.append(node(broker_id, "broker", **own, broker_rack=rack))
    return [controller, *brokers]


def _format(nodes: Sequence[Node], metadata: str) -> None:
    """Format the controller with Kafka's tool, and the brokers by hand: one process instead of many."""
    cluster_id, controller = kafka_uuid(), nodes[0]
    arguments = ["kafka.tools.StorageTool", "format", "-t", cluster_id, "-c", str(controller.properties)]
    arguments += ["--release-version", metadata] if metadata else []
    command = [*java_command(heap_mb=128, jars=controller.jars), *arguments]
    result = subprocess.run(command, capture_output=True, timeout=120, check=False)
    if result.returncode != 0:
        raise ClusterError(f"formatting failed:\n{result.stdout.decode()}\n{result.stderr.decode()}")
    for node in nodes[1:]:
        for folder in node.log_dirs:
            folder.mkdir(parents=True, exist_ok=True)  # a test may have mounted it
            meta = {"version": 1, "cluster.id": cluster_id, "node.id": node.node_id, "directory.id": kafka_uuid()}
            (folder / "meta.properties").write_text("".join(f"{name}={value}\n" for name, value in meta.items()))


def _launch(node: Node) -> None:
    program, *options = java_command(heap_mb=192, level="INFO", jars=node.jars, more=node.more)
    command = [program, node.share, "-Xlog:disable", *options, "kafka.Kafka", str(node.properties)]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("KAFKA_")}
    with node.output.open("wb") as output:
        node.process = subprocess.Popen(
            command,
            stdout=output,
            stderr=output,
            stdin=subprocess.DEVNULL,
            cwd=node.home,
            env=environment,
            start_new_session=True,
        )


def _wait(nodes: Sequence[Node]) -> None:
    """Wait until each node logs that it has started; a broker logs this when the controller has unfenced it."""
    deadline = time.monotonic() + START_SECONDS
    waiting = list(nodes)
    while waiting:
        for node in waiting:
            assert node.process is not None
            if node.process.poll() is not None:
                raise ClusterError(f"node {node.node_id} ended while starting:\n{_tail(node)}")
        waiting = [node for node in waiting if STARTED not in node.output.read_bytes()]
        if waiting and time.monotonic() > deadline:
            raise ClusterError(f"node {waiting[0].node_id} was not ready in {START_SECONDS} s:\n{_tail(waiting[0])}")
        time.sleep(0.1)


def _tail(node: Node) -> str:
    return node.output.read_bytes()[-3000:].decode(errors="replace")


def _end(nodes: Sequence[Node], how: signal.Signals) -> None:
    """Stop the processes that were started here, brokers before the controller."""
    for node in reversed(nodes):
        if node.process is not None and node.process.poll() is None and _is_ours(node):
            node.process.send_signal(how)
    for node in reversed(nodes):
        if node.process is not None:
            try:
                node.process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                node.process.kill()
                node.process.wait(timeout=30)
            node.process = None


def _is_ours(node: Node) -> bool:
    assert node.process is not None
    try:
        return str(node.properties).encode() in Path(f"/proc/{node.process.pid}/cmdline").read_bytes()
    except OSError:
        # Not every system has /proc. The process is a child that nobody has waited for, so its id was not reused.
        return True
