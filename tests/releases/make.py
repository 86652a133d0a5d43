"""Packs the sample's night as this code writes it: ``python -m tests.releases.make`` makes ``VERSION.tar.xz`` here.

The archive has the warehouse of a planned and approved sample whose first wave holds the cluster, and ``kafka.json``:
the cluster as the wave has left it. Later releases must still read it; the archive of a release is never made again.
"""

import json
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

from execution.approve import approve
from execution.observed import Throttle, TopicPartition
from execution.planned import Plan, load, plan_documents, wave_documents
from execution.steps import Execution
from execution.wave import Wave, build_wave
from optimizer import VERSION
from setup.paths import HOME
from stored.tables import Warehouse
from tests.execution.fake_kafka import FakeKafka, Kills
from tests.execution.scene import FakeTools

CLUSTER, RUN = "sample", "night"
FOLDER = Path(__file__).parent
STATE = "kafka.json"
HOURS = 1e9  # hours: the snapshot of the sample has a fixed time


def archive_of(version: str) -> Path:
    """The archive of a release."""
    return FOLDER / f"{version}.tar.xz"


def waves_of(warehouse: Warehouse, plan: Plan) -> list[Wave]:
    """The waves of the plan, from its documents."""
    stuck = plan_documents(warehouse, plan, "rollback_not_possible")
    return [build_wave(n, plan.manifest, wave_documents(warehouse, plan, n), stuck) for n in plan.waves]


def kafka_of(state: dict[str, Any]) -> FakeKafka:
    """A fake cluster in a stored state."""

    def lists(rows: list[Any]) -> dict[TopicPartition, tuple[int, ...]]:
        return {(topic, number): tuple(brokers) for topic, number, brokers in rows}

    throttles: dict[Throttle, str] = {(kind, name, config): value for kind, name, config, value in state["throttles"]}
    kafka = FakeKafka(lists(state["replicas"]), throttles, {}, Kills(), brokers=frozenset(state["brokers"]))
    targets, olds = lists(state["targets"]), lists(state["olds"])
    kafka.moves = {partition: (target, olds[partition]) for partition, target in targets.items()}
    kafka.read = dict.fromkeys(kafka.moves, 0)
    kafka.ids = {topic: id_ for topic, id_ in state["topic_ids"]}
    return kafka


def state_of(kafka: FakeKafka) -> dict[str, Any]:
    """The state for ``kafka_of``."""
    return {
        "brokers": sorted(kafka.brokers),
        "replicas": [[*partition, list(brokers)] for partition, brokers in sorted(kafka.replicas.items())],
        "throttles": [[*key, value] for key, value in sorted(kafka.throttles.items())],
        "targets": [[*partition, list(target)] for partition, (target, _) in sorted(kafka.moves.items())],
        "olds": [[*partition, list(old)] for partition, (_, old) in sorted(kafka.moves.items())],
        "topic_ids": sorted(kafka.ids.items()),
    }


def execution(warehouse: Warehouse, plan: Plan, wave: Wave, kafka: FakeKafka, lines: list[str]) -> Execution:
    """The steps of a wave on the fake cluster."""
    tools: Any = FakeTools([], is_there=False)
    client = {"bootstrap_servers": "h:1"}
    return Execution(warehouse, plan, wave, (), tools, kafka, client, lines.append, accepts_risk=True)


def main() -> None:
    """Plan the sample, approve it, hold its first wave, and pack all of it."""
    target = archive_of(VERSION)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / VERSION
        places = ("--warehouse", str(folder / "warehouse"), "--output", str(Path(temporary) / "out"))
        job = ("pipeline", "--config", str(HOME / "conf" / "sample.toml"), "--run-id", RUN, *places)
        subprocess.run([str(HOME / "spark-submit.sh"), *job], check=True, stdout=subprocess.DEVNULL)
        warehouse = Warehouse(str(folder / "warehouse"))
        plan = load(warehouse, cluster_id=CLUSTER, run_id=RUN)
        approve(warehouse, plan, manifest_sha256="", by="ann", max_hours=HOURS)
        wave, *_ = waves_of(warehouse, plan)
        rows = warehouse.rows("instance", cluster_id=CLUSTER, run_id=RUN)
        brokers = {row["broker_id"] for row in warehouse.rows("instance_brokers", cluster_id=CLUSTER, run_id=RUN)}
        replicas = {(row["topic"], row["partition"]): tuple(row["replicas"]) for row in rows}
        kafka = FakeKafka(replicas, dict(wave.previous_throttles), {}, Kills(), brokers=frozenset(brokers))
        kafka.ids = {row["topic"]: row["topic_id"] for row in warehouse.rows("topics", cluster_id=CLUSTER, run_id=RUN)}
        step = execution(warehouse, plan, wave, kafka, [])
        step.throttle()
        step.execute()
        (folder / STATE).write_text(json.dumps(state_of(kafka), separators=(",", ":")), encoding="utf-8")
        with tarfile.open(target, "w:xz") as archive:
            archive.add(folder, arcname=VERSION)
    sys.stdout.write(f"{target}: {target.stat().st_size / 10**6:.2f} MB\n")


if __name__ == "__main__":
    main()
