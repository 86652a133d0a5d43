"""Kafka's own console consumers as members of groups, each in a process that logs what its coordinator does."""

import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tour.cluster import Cluster, java_command

_MAIN = "org.apache.kafka.tools.consumer.ConsoleConsumer"
_STOP_SECONDS = 20  # longest time until a member has left its group
_ASSIGNORS = "org.apache.kafka.clients.consumer."


@dataclass(frozen=True)
class Consumer:
    """A member: its group, client id and further properties of Kafka's consumer."""

    group: str
    client_id: str
    properties: Mapping[str, object] = field(default_factory=dict)

    @property
    def rack(self) -> str | None:
        """Its ``client.rack``."""
        rack = self.properties.get("client.rack")
        return None if rack is None else str(rack)


def classic(group: str, client_id: str, assignor: str, **properties: object) -> Consumer:
    """A member of a classic group that soon notices new metadata and rebalances."""
    often = {"metadata.max.age.ms": 500, "heartbeat.interval.ms": 500, "group.protocol": "classic"}
    own = {name.replace("_", "."): value for name, value in properties.items()}
    return Consumer(group, client_id, {**often, "partition.assignment.strategy": _ASSIGNORS + assignor, **own})


def kip_848(group: str, client_id: str, **properties: object) -> Consumer:
    """A member of a group whose coordinator assigns the partitions."""
    own = {name.replace("_", "."): value for name, value in properties.items()}
    return Consumer(group, client_id, {"group.protocol": "consumer", **own})


@contextmanager
def consuming(kafka: Cluster, folder: Path, topics: str, consumers: Sequence[Consumer]) -> Iterator[dict[str, Path]]:
    """Run consumers of all topics that match a pattern; yields the log of each client id. All leave at the end."""
    folder.mkdir(parents=True)
    logs = {consumer.client_id: folder / f"{consumer.client_id}.log" for consumer in consumers}
    processes: list[subprocess.Popen[bytes]] = []
    try:
        for consumer in consumers:
            ids = {"group.id": consumer.group, "client.id": consumer.client_id}
            given = (f"{name}={value}" for name, value in {**ids, **consumer.properties}.items())
            options = [word for text in given for word in ("--command-property", text)]
            program, *java_options = java_command(heap_mb=64)
            command = [program, "-Dballast.clients=INFO", *java_options, _MAIN, "--bootstrap-server", kafka.bootstrap]
            with logs[consumer.client_id].open("wb") as log:
                processes.append(
                    subprocess.Popen(
                        [*command, "--include", topics, *options],
                        stdin=subprocess.DEVNULL,
                        stdout=subprocess.DEVNULL,
                        stderr=log,
                    )
                )
        yield logs
    finally:
        _stop(processes)


def _stop(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    for process in processes:
        process.terminate()
    for process in processes:
        try:
            process.wait(timeout=_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def generation(kafka: Cluster, group: str) -> int:
    """The number of a group's rebalances, from the brokers' logs: its generation or, with KIP-848, its epoch."""
    name = re.escape(group)
    pattern = re.compile(
        rf"Stabilized group {name} generation (\d+) with|\[GroupId {name}\] Bumped group epoch to (\d+) with"
    )
    outputs = (node.output.read_text(errors="replace") for node in kafka.nodes.values())
    return max((int(a or b) for output in outputs for a, b in pattern.findall(output)), default=0)
