"""The acceptance test's cluster: six brokers on three racks, skewed topics, one broker empty, one to drain."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sources import kafka_admin
from tests.kafka import topics
from tests.kafka.cluster import Cluster

RACKS = {1: "a", 2: "b", 4: "c", 5: "a", 7: "b", 9: "c"}
EMPTY, DRAIN = 9, 5

TOOLS = {
    "topics.txt": ("org.apache.kafka.tools.TopicCommand", "--describe"),
    "log-dirs.txt": ("org.apache.kafka.tools.LogDirsCommand", "--describe"),
    "brokers.txt": ("org.apache.kafka.tools.BrokerApiVersionsCommand",),
    "configs-topics.txt": ("kafka.admin.ConfigCommand", "--describe", "--entity-type", "topics"),
    "configs-brokers.txt": ("kafka.admin.ConfigCommand", "--describe", "--entity-type", "brokers"),
    "reassignments.txt": ("org.apache.kafka.tools.reassign.ReassignPartitionsCommand", "--list"),
}


@dataclass(frozen=True)
class Topic:
    """A topic: replicas and megabytes of each of its partitions."""

    replicas: tuple[tuple[int, ...], ...]
    megabytes: tuple[int, ...]


# Broker 1 has most load, racks a and c have a broker with more than its share, broker 9 is empty.
TOPICS = {
    "orders.placed-v1": Topic(((1, 2, 4), (1, 7, 4), (2, 4, 1), (4, 1, 7), (5, 2, 4), (7, 4, 5)), (6, 5, 1, 3, 2, 4)),
    "payments_settled": Topic(((4, 5, 2), (2, 1, 4), (7, 5, 4), (1, 7, 4)), (2, 4, 1, 3)),
    "clicks.raw": Topic(((1, 2), (1, 4), (1, 7), (2, 5), (4, 7), (5, 4)), (5, 3, 4, 1, 2, 3)),
    "scratch": Topic(((5,), (1,), (2,)), (1, 2, 1)),
    "audit-empty": Topic(((5, 2, 4), (1, 7, 4)), (0, 0)),
}


def fill(cluster: Cluster) -> None:
    """Create the topics with their replicas, and fill every partition with its megabytes."""
    topics.create(cluster, {name: dict(enumerate(topic.replicas)) for name, topic in TOPICS.items()})
    for name, topic in TOPICS.items():
        topics.fill(cluster, name, dict(enumerate(topic.megabytes)))


def capture(cluster: Cluster, folder: Path) -> None:
    """Write the files that an operator collects: outputs of Kafka's tools, capacities and metrics."""
    folder.mkdir(parents=True)
    for name, (main_class, *arguments) in TOOLS.items():
        (folder / name).write_text(cluster.tool(main_class, *arguments))
    disk = os.statvfs(folder)
    rows = "".join(f"{broker},{disk.f_blocks * disk.f_frsize}\n" for broker in RACKS)
    (folder / "capacity.csv").write_text("broker_id,disk_bytes\n" + rows)
    metrics(folder)


def metrics(folder: Path) -> None:
    """Write a table with rates of every partition, in proportion to sizes."""
    folder.mkdir(parents=True, exist_ok=True)
    head = "observed_at,topic,partition,in_bytes_per_s,out_bytes_per_s\n"
    rows = [
        f"2026-01-01T{hour:02}:00:00Z,{name},{partition},{megabytes * 10 + hour},{megabytes * 20 + hour}\n"
        for name, topic in TOPICS.items()
        for partition, megabytes in enumerate(topic.megabytes)
        for hour in range(3)
    ]
    (folder / "metrics.csv").write_text(head + "".join(rows))


@dataclass(frozen=True)
class State:
    """The cluster at one moment.

    Parameters
    ----------
    replicas, in_sync : mapping of (topic, partition) to brokers
        Replicas in order; in-sync ones ascending.
    leaders : mapping of (topic, partition) to broker
    in_flight : set of (topic, partition)
    throttles : set of (entity type, entity, config, value)
    size_bytes : mapping of (topic, partition, broker) to bytes
    """

    replicas: Mapping[tuple[str, int], tuple[int, ...]]
    in_sync: Mapping[tuple[str, int], tuple[int, ...]]
    leaders: Mapping[tuple[str, int], int]
    in_flight: frozenset[tuple[str, int]]
    throttles: frozenset[tuple[str, str, str, str]]
    size_bytes: Mapping[tuple[str, int, int], int]


def observe(cluster: Cluster) -> State:
    """Read the state of the cluster over its Admin API."""
    with kafka_admin.connected({"bootstrap_servers": cluster.bootstrap}) as admin:
        records = [*kafka_admin.topology(admin), *kafka_admin.describe_brokers(admin, list(RACKS), defaults=False)]
    of_kind: dict[str, list[Mapping[str, Any]]] = {}
    for record in records:
        of_kind.setdefault(record.kind, []).append(record.payload)
    partitions = {(p["topic"], p["partition"]): p for p in of_kind["partition"]}
    names = ("entity_type", "entity_name", "name", "value")
    return State(
        replicas={key: tuple(p["replicas"]) for key, p in partitions.items()},
        in_sync={key: tuple(sorted(p["isr"])) for key, p in partitions.items()},
        leaders={key: p["leader"] for key, p in partitions.items()},
        in_flight=frozenset((p["topic"], p["partition"]) for p in of_kind.get("reassignment", [])),
        throttles=frozenset(
            tuple(p[name] for name in names) for p in of_kind.get("config", []) if "throttled" in p["name"]
        ),
        size_bytes={(p["topic"], p["partition"], p["broker_id"]): p["size_bytes"] for p in of_kind["log_dir_replica"]},
    )
