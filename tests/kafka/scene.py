"""The acceptance test's cluster, which is that of the tour: what an operator collects from it, and its state."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sources import kafka_admin
from tour.cluster import Cluster
from tour.topics import DRAIN as DRAIN
from tour.topics import EMPTY as EMPTY
from tour.topics import RACKS as RACKS
from tour.topics import TOPICS
from tour.topics import fill_all as fill_all

TOOLS = {
    "topics.txt": ("org.apache.kafka.tools.TopicCommand", "--describe"),
    "log-dirs.txt": ("org.apache.kafka.tools.LogDirsCommand", "--describe"),
    "brokers.txt": ("org.apache.kafka.tools.BrokerApiVersionsCommand",),
    "configs-topics.txt": ("kafka.admin.ConfigCommand", "--describe", "--entity-type", "topics"),
    "configs-brokers.txt": ("kafka.admin.ConfigCommand", "--describe", "--entity-type", "brokers"),
    "reassignments.txt": ("org.apache.kafka.tools.reassign.ReassignPartitionsCommand", "--list"),
}


def capture(cluster: Cluster, folder: Path) -> None:
    """Write the files that an operator collects: outputs of Kafka's tools, capacities and metrics."""
    folder.mkdir(parents=True)
    for name, (main_class, *arguments) in TOOLS.items():
        (folder / name).write_text(cluster.tool(main_class, *arguments))
    capacities(folder)
    metrics(folder)


def capacities(folder: Path) -> None:
    """Write a file with the capacity of every broker."""
    folder.mkdir(parents=True, exist_ok=True)
    disk = os.statvfs(folder)
    rows = "".join(f"{broker},{disk.f_blocks * disk.f_frsize}\n" for broker in RACKS)
    (folder / "capacity.csv").write_text("broker_id,disk_bytes\n" + rows)


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
