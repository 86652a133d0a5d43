"""Tiered topics on a real Kafka: what the plan counts for a copy is what a broker receives.

The store is LocalTieredStorage. Broker 1 leads all partitions; broker 3 skips what is tiered, broker 2 does not.
"""

import json
import re
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from execution.admin import KafkaAdmin
from execution.planned import wave_documents
from execution.progress import running_copies
from execution.wave import build_wave
from optimizer.domain import TIERED_FETCH
from optimizer.settings import Metrics
from optimizer.stages.snapshot import snapshot
from optimizer.stages.validate import validate
from setup.jars import KAFKA, KAFKA_TIERED, is_ready
from sources import kafka_admin
from sources.live_offsets import offsets
from sources.record import Record
from tests.execution.warehouse import load_plan, plan_of
from tests.kafka import topics
from tests.kafka.lab import RATE, Lab, planned_lab, until
from tests.stages import bronze
from tour.cluster import Cluster, running, write_tools

pytestmark = [pytest.mark.kafka, pytest.mark.all_only]

MB, SEGMENT = 10**6, 2**20
PLAIN, SKIPS = 2, 3  # targets
SHARE, DUST_BYTES = 0.1, 0.1 * MB  # of what is planned; and for metadata on the same connections
QUOTA = ("brokers", "1", "remote.log.manager.copy.max.bytes.per.second")
TIERED = {"remote_storage_enable": "true", "segment_bytes": SEGMENT}
BY_BROKER = {0: [1], 1: [1]}  # partition 0 goes to PLAIN, partition 1 to SKIPS
TARGETS = {0: PLAIN, 1: SKIPS}


def _settings(home: Path) -> dict[str, object]:
    manager = "org.apache.kafka.server.log.remote.storage.LocalTieredStorage"
    return {
        "remote.log.storage.system.enable": "true",
        "remote.log.storage.manager.class.name": manager,
        "remote.log.metadata.manager.listener.name": "PLAINTEXT",
        "remote.log.manager.task.interval.ms": 1000,
        # Uploads count for so long: with a quota of a byte none begins any more.
        "remote.log.manager.copy.quota.window.size.seconds": 3600,
        "rsm.config.dir": home / "store",
        "rsm.config.delete.on.close": "false",
        "rlmm.config.remote.log.metadata.topic.replication.factor": 1,
        "rlmm.config.remote.log.metadata.topic.num.partitions": 3,
        "log.retention.check.interval.ms": 1000,
        "log.initial.task.delay.ms": 1000,
    }


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three brokers with five topics; all uploads that may end have ended."""
    for jars in (KAFKA, KAFKA_TIERED):
        if not is_ready(jars):
            pytest.skip(f"JARs of {jars.name} are not there: run setup/kafka-jars.sh")
    home = tmp_path_factory.mktemp("tiered")
    with running(home, {1: "a", 2: "b", 3: "c"}, settings=_settings(home), more=[KAFKA_TIERED]) as cluster:
        _alter(cluster, ("brokers", str(SKIPS), TIERED_FETCH), "true")
        _fill(cluster)
        yield cluster


def _alter(cluster: Cluster, key: tuple[str, str, str], value: str) -> None:
    with KafkaAdmin({"bootstrap_servers": cluster.bootstrap}) as admin:
        until(lambda: not admin.alter({key: ("SET", value)}))  # a new client does not know all brokers yet


def _fill(cluster: Cluster) -> None:
    topics.create(cluster, {"short": BY_BROKER}, **TIERED, local_retention_bytes=4 * MB)
    topics.create(cluster, {"half": BY_BROKER}, **TIERED, local_retention_bytes=9 * MB)
    topics.create(cluster, {"whole": BY_BROKER, "deleted": BY_BROKER}, **TIERED, local_retention_bytes=-2)
    topics.create(cluster, {"plain": BY_BROKER}, segment_bytes=SEGMENT)
    for topic in ("short", "half", "whole", "deleted", "plain"):
        topics.fill(cluster, topic, dict.fromkeys(BY_BROKER, 12))
    rows = [{"topic": "deleted", "partition": number, "offset": 300} for number in BY_BROKER]
    document = cluster.nodes[1].home / "deleted.json"
    document.write_text(json.dumps({"partitions": rows, "version": 1}))
    cluster.tool("org.apache.kafka.tools.DeleteRecordsCommand", "--offset-json-file", str(document))
    until(lambda: _is_settled(_offsets(cluster), {"short": 690, "half": 200, "whole": 0}))
    until(lambda: _stored_bytes(cluster, "deleted") < 2 * 10.2 * MB)  # whole segments before the offset have gone
    _alter(cluster, QUOTA, "1")
    topics.fill(cluster, "half", dict.fromkeys(BY_BROKER, 6))
    until(lambda: all(_offsets(cluster)["half", number, "earliest_local"] >= 750 for number in BY_BROKER))


def _is_settled(offsets: dict[tuple[str, int, str], int], earliest_local: dict[str, int]) -> bool:
    """Whether only the active segments are not uploaded, and the topics' logs on disk begin there or later."""
    return all(
        offsets[topic, number, "earliest_local"] >= least
        and offsets[topic, number, "latest"] - offsets[topic, number, "earliest_pending_upload"] <= 105
        for topic, least in earliest_local.items()
        for number in BY_BROKER
    )


def _records(cluster: Cluster) -> list[Record]:
    with kafka_admin.connected({"bootstrap_servers": cluster.bootstrap}) as admin:
        topology = list(kafka_admin.topology(admin))
        hosts = list(kafka_admin.describe_brokers(admin, [1, 2, 3], defaults=True))
        return [*topology, *hosts, *offsets(admin, topology)]


def _offsets(cluster: Cluster) -> dict[tuple[str, int, str], int]:
    rows = [record.payload for record in _records(cluster) if record.kind == "offset"]
    return {(row["topic"], row["partition"], row["time"]): row["offset"] for row in rows}


def _stored_bytes(cluster: Cluster, topic: str) -> int:
    rows = [record.payload for record in _records(cluster) if record.kind == "log_dir_replica"]
    return sum(row["size_bytes"] for row in rows if row["topic"] == topic)


def _planned(spark: SparkSession, cluster: Cluster) -> Callable[[str, int, int], int]:
    """The bytes that a plan counts for a copy of a partition to a broker, from the live cluster."""
    run = bronze.run_of(spark, bronze.settings_of(["c"], metrics=Metrics(rates_required=False)))
    inputs = {
        "bronze_records": bronze.bronze(spark, {"c": _records(cluster)}),
        "bronze_metrics": bronze.metrics(spark, []),
    }
    silver = {name: frame.localCheckpoint() for name, frame in validate.build(inputs, run).items()}
    frames = snapshot.build(silver, run)
    skips = {row.broker_id for row in frames["instance_brokers"].collect() if row.skips_tiered}
    assert skips == {SKIPS}
    rows = {(row.topic, row.partition): row for row in frames["instance"].collect()}

    def planned(topic: str, number: int, target: int) -> int:
        row = rows[topic, number]
        plain: int = row.copy_bytes
        return plain if target not in skips or row.tiered_copy_bytes is None else int(row.tiered_copy_bytes)

    return planned


def _received_bytes(cluster: Cluster, target: int, leader: int) -> int:
    """What a broker has received on all its connections to another one."""
    process, port = cluster.nodes[target].process, str(cluster.nodes[leader].settings["listeners"]).rpartition(":")[2]
    assert process is not None
    shown = subprocess.run(["ss", "-tinpOH", f"dport = :{port}"], capture_output=True, text=True, check=True).stdout
    own = [line for line in shown.splitlines() if f"pid={process.pid}," in line]
    return sum(int(count) for line in own for count in re.findall(r"bytes_received:(\d+)", line))


def _move(cluster: Cluster, topic: str, number: int, replicas: Sequence[int], *, elect: bool = False) -> None:
    with KafkaAdmin({"bootstrap_servers": cluster.bootstrap}) as admin:
        assert not admin.reassign({(topic, number): list(replicas)})
        until(lambda: topics.observe(cluster).in_sync[topic, number] == set(replicas))
        until(lambda: (topic, number) not in topics.observe(cluster).in_flight)
        assert not elect or not admin.elect([(topic, number)])


def _wire_bytes(cluster: Cluster, topic: str, number: int, replicas: Sequence[int], target: int, leader: int) -> int:
    before = _received_bytes(cluster, target, leader)
    _move(cluster, topic, number, replicas)
    return _received_bytes(cluster, target, leader) - before


def test_a_copy_is_on_the_wire_what_the_plan_counts(spark: SparkSession, kafka: Cluster) -> None:
    """With the config on one broker, off on another; also if the leader is itself a replica that skipped."""
    planned = _planned(spark, kafka)
    rows: list[tuple[str, int, int, int]] = []
    for topic in ("short", "half", "whole", "deleted", "plain"):
        for number, target in TARGETS.items():
            wire = _wire_bytes(kafka, topic, number, [1, target], target, 1)
            rows.append((topic, target, planned(topic, number, target), wire))
    _move(kafka, "short", 1, [SKIPS, 1], elect=True)
    until(lambda: topics.observe(kafka).leaders["short", 1] == SKIPS)
    fresh = _planned(spark, kafka)
    wire = _wire_bytes(kafka, "short", 1, [SKIPS, 1, PLAIN], PLAIN, SKIPS)
    rows.append(("short from a fresh leader", PLAIN, fresh("short", 1, PLAIN), wire))
    assert [row for row in rows if abs(row[3] - row[2]) > SHARE * row[2] + DUST_BYTES] == []
    counted = {(topic, target): count for topic, target, count, _ in rows}
    assert counted["short", SKIPS] < counted["short", PLAIN] / 3
    assert counted["half", PLAIN] / 3 < counted["half", SKIPS] < counted["half", PLAIN]
    assert counted["whole", SKIPS] == counted["whole", PLAIN] > 11 * MB
    assert counted["deleted", SKIPS] < 2 * MB < counted["deleted", PLAIN]
    assert counted["plain", SKIPS] == counted["plain", PLAIN] > 11 * MB
    assert counted["short from a fresh leader", PLAIN] < counted["short", PLAIN] / 3


def test_a_wave_of_such_a_copy_ends_at_its_planned_bytes(spark: SparkSession, kafka: Cluster, tmp_path: Path) -> None:
    """By the leader's size it would end below two thirds."""
    topics.create(kafka, {"slow": {0: [1]}}, **TIERED, local_retention_bytes=4 * MB)
    _alter(kafka, QUOTA, str(10**9))
    topics.fill(kafka, "slow", {0: 8})
    until(lambda: _offsets(kafka)["slow", 0, "earliest_local"] >= 300)
    _alter(kafka, QUOTA, "1")
    topics.fill(kafka, "slow", {0: 4})
    lab = _lab(kafka, tmp_path, _planned(spark, kafka)("slow", 0, SKIPS))
    plan = load_plan(lab.warehouse)
    wave = build_wave(1, plan.manifest, wave_documents(lab.warehouse, plan, 1))
    shares: list[float] = []
    with lab.running() as process, KafkaAdmin({"bootstrap_servers": kafka.bootstrap}) as admin:
        while process.poll() is None:
            now, stored = admin.observe(), admin.stored([1, SKIPS])
            sizes = running_copies(wave, now, stored).values()
            shares += [size.replica_bytes / size.leader_bytes for size in sizes]
            time.sleep(0.2)
        assert process.returncode == 0, process.communicate()
    assert shares == sorted(shares)
    assert 0.85 < shares[-1] < 1.1


def _lab(kafka: Cluster, folder: Path, copy_bytes: int) -> Lab:
    ids = {"slow": str(topics.observe(kafka).topic_ids["slow"])}
    plan = plan_of([{("slow", 0): ([1], [1, SKIPS])}], topic_ids=ids, rate=RATE)
    brokers: list[Any] = [replace(row, skips_tiered=row.broker_id == SKIPS) for row in plan.brokers]
    changed = [replace(row, tiered_copy_bytes=copy_bytes) for row in plan.changed]
    plan = replace(plan, brokers=brokers, changed=changed, throttles_found=[])
    return planned_lab(kafka, write_tools(folder / "tools", KAFKA), folder / "plan", plan, "slow")
