"""A wave on a real cluster: the plan stage's rows of it, and its copies under the throttles of these rows."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pandas as pd

from optimizer.planning.exposed import exposure_rows
from optimizer.planning.in_memory import throttle_rows
from optimizer.planning.wave_rows import wave_rows
from optimizer.schedule.throttle_rate import copy_rate_bytes_per_s
from optimizer.settings import Schedule, Settings
from sources import kafka_admin
from tests.kafka import topics
from tests.kafka.lab import RACKS, until
from tests.stages.test_exposed_rows import living_hosts, partition
from tests.stages.test_throttle_rows import change
from tour.cluster import Cluster

Proposed = Mapping[str, topics.Replicas]
# The brokers' capacities are unknown, so what is used of them does not matter.
UNUSED = {"disk_used_bytes": 0, "in_used_bytes_per_s": 0, "out_used_bytes_per_s": 0}
KINDS = {"topics": topics.ConfigResourceType.TOPIC, "brokers": topics.ConfigResourceType.BROKER}


@dataclass(frozen=True)
class PlannedWave:
    """One wave of a plan for a running cluster.

    Parameters
    ----------
    proposed : mapping
        The new lists by topic and partition.
    rows : DataFrame
        All partitions of the cluster with the columns that the plan stage reads.
    """

    cluster: Cluster
    proposed: Proposed
    rows: pd.DataFrame
    settings: Settings

    @property
    def _hosts(self) -> pd.DataFrame:
        return living_hosts(RACKS).assign(cluster_id="c", run_id="r", **UNUSED)

    @property
    def _changed(self) -> pd.DataFrame:
        return self.rows[self.rows["wave"].notna()].astype({"wave": "Int32"})

    def predicted(self) -> dict[str, Any]:
        """The row of table ``waves``."""
        rows = wave_rows(self._changed, self._hosts, settings=self.settings)
        return {str(name): value for name, value in rows.iloc[0].items()}

    def findings(self) -> list[tuple[str, str]]:
        """Code and topic of the rows of table ``wave_findings``."""
        _, findings = exposure_rows(self.rows, self._hosts, needs_whole_min_isr=False)
        return [(str(code), topic) for code, topic in zip(findings["code"], findings["topic"], strict=True)]

    @contextmanager
    def throttled(self) -> Iterator[None]:
        """Set the throttles of the careful style; remove them at the end."""
        entries = throttle_rows(self._changed, self._hosts)
        entries = entries[(entries["wave"] == 1) & (entries["style"] == "careful")]
        values: dict[tuple[str, str], dict[str, str]] = {}
        columns = (entries[name] for name in ("entity_type", "entity_name", "config_name", "config_value"))
        for kind, entity, name, value in zip(*columns, strict=True):
            values.setdefault((kind, entity), {})[name] = value
        self._alter(values)
        until(lambda: self._shown() == values)
        try:
            yield
        finally:
            self._alter({entity: dict.fromkeys(configs, ("DELETE", None)) for entity, configs in values.items()})

    def _alter(self, values: Mapping[tuple[str, str], Mapping[str, Any]]) -> None:
        resources = [topics.ConfigResource(KINDS[kind], name, configs=dict(x)) for (kind, name), x in values.items()]
        with topics.client(self.cluster) as admin:
            answers = admin.alter_configs(resources, raise_on_unknown=False)
        assert {answer for answer_of in answers.values() for answer in answer_of.values()} == {"OK"}, answers

    def _shown(self) -> dict[tuple[str, str], dict[str, str]]:
        """The throttles that the cluster reports."""
        result: dict[tuple[str, str], dict[str, str]] = {}
        for config in _payloads(self.cluster, "config"):
            if "throttled" in config["name"]:
                entity = (config["entity_type"], config["entity_name"])
                result.setdefault(entity, {})[config["name"]] = config["value"]
        return result

    def start(self) -> None:
        """Start all reassignments."""
        lists = {
            topics.TopicPartition(topic, number): list(brokers)
            for topic, replicas in self.proposed.items()
            for number, brokers in replicas.items()
        }
        with topics.client(self.cluster) as admin:
            answers = admin.alter_partition_reassignments(lists)
        assert answers == dict.fromkeys(lists)

    def copy_seconds(self) -> float:
        """Start all reassignments, and wait until Kafka reports that all are done: all copies are in sync."""
        with topics.client(self.cluster) as admin:
            self.start()
            begun = time.monotonic()
            while admin.list_partition_reassignments():
                assert time.monotonic() < begun + topics.SECONDS
                time.sleep(0.1)
            return time.monotonic() - begun


def planned_wave(cluster: Cluster, proposed: Proposed, schedule: Schedule, *, in_bytes_per_s: int = 0) -> PlannedWave:
    """A wave with the cluster's own lists, sizes, in-sync replicas, leaders and min.insync.replicas.

    Parameters
    ----------
    in_bytes_per_s : int
        What producers write to each partition meanwhile.
    """
    sizes = {
        (x["topic"], x["partition"], x["broker_id"]): x["size_bytes"] for x in _payloads(cluster, "log_dir_replica")
    }
    min_isr = {
        x["entity_name"]: int(x["value"])
        for x in _payloads(cluster, "config")
        if (x["entity_type"], x["name"]) == ("topics", "min.insync.replicas")
    }

    def row(stored: Mapping[str, Any]) -> dict[str, Any]:
        topic, number, replicas, leader = (stored[name] for name in ("topic", "partition", "replicas", "leader"))
        new: Sequence[int] = proposed.get(topic, {}).get(number, ())
        facts = {"topic": topic, "leader": leader, "in_bytes_per_s": in_bytes_per_s}
        scheduled = {
            "size_bytes": sizes[topic, number, leader],
            "in_sync_followers": len(stored["isr"]) - 1,
            "copy_bytes_per_s": copy_rate_bytes_per_s(schedule),
        }
        return {
            **change(number, replicas, [*new] or replicas),
            **partition(number, replicas, new, isr=stored["isr"], min_insync_replicas=min_isr.get(topic), **facts),
            **scheduled,
        }

    rows = pd.DataFrame([row(stored) for stored in _payloads(cluster, "partition")])
    return PlannedWave(cluster, proposed, rows, Settings(schedule=schedule))


def _payloads(cluster: Cluster, kind: str) -> list[Mapping[str, Any]]:
    with kafka_admin.connected({"bootstrap_servers": cluster.bootstrap}) as admin:
        records = [*kafka_admin.topology(admin), *kafka_admin.describe_brokers(admin, list(RACKS), defaults=False)]
    return [record.payload for record in records if record.kind == kind]
