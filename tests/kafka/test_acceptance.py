"""The main job on a real cluster: capture, plan, execute with Kafka's own tool, verify, roll back.

The story runs once; each test checks one result. Figures are printed (``pytest -rP`` shows them).
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from setup.jars import KAFKA, is_ready
from setup.paths import HOME
from sources import kafka_admin
from stored.tables import Warehouse
from tests.kafka import scene
from tour.cluster import Cluster, running

pytestmark = pytest.mark.kafka

RUN_ID = "acceptance"
REASSIGN = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
ELECT = "org.apache.kafka.tools.LeaderElectionCommand"
PIPELINE_SECONDS = 1800
MOVE_SECONDS = 300
DAY_SECONDS = 24 * 3600
# A copy may differ in size from its source, because the source's last segment is not yet rolled or cleaned: 1 %.
TOLERANCE = 0.01
CONFIG = """\
[[clusters]]
id = "tools"
input = "captured"
kafka_version = "4.3"
drain_brokers = [{drain}]

[[clusters]]
id = "live"
input = "metrics"
bootstrap_servers = "{bootstrap}"
kafka_version = "4.3"
drain_brokers = [{drain}]

[schedule]
waves = 1
throttle_mb_per_s = 3

[emit]
throttle_style = "kafka"
"""


@dataclass(frozen=True)
class Story:
    """The states of the cluster and the outputs during the whole job."""

    warehouse: Path
    files: Path
    before: scene.State
    during: scene.State
    after: scene.State
    rolled_back: scene.State
    reports: Mapping[str, str]
    seconds: Mapping[str, float]


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    """Run the whole job once."""
    if not is_ready(KAFKA):
        pytest.skip("Kafka's JARs are not there: run setup/kafka-jars.sh")
    home = tmp_path_factory.mktemp("acceptance")
    clock = Clock()
    with running(home / "kafka", scene.RACKS) as cluster:
        clock.lap("cluster start")
        scene.fill_all(cluster)
        clock.lap("fill")
        yield _run_story(cluster, home, clock)


class Clock:
    """Seconds of each step."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._since = time.monotonic()

    def lap(self, name: str) -> None:
        """End a step."""
        now = time.monotonic()
        self.seconds[name], self._since = round(now - self._since, 1), now


def _run_story(cluster: Cluster, home: Path, clock: Clock) -> Story:
    scene.capture(cluster, home / "captured")
    scene.metrics(home / "metrics")
    scene.capacities(home / "metrics")
    for file in (home / "metrics").iterdir():
        os.utime(file, (file.stat().st_mtime - 2 * DAY_SECONDS,) * 2)
    before = scene.observe(cluster)
    clock.lap("capture")
    _plan(cluster, home)
    files = home / "out" / RUN_ID / "live"
    clock.lap("pipeline")
    rate = next(value for _, _, name, value in _our_throttles(files) if name.endswith(".rate"))
    document = _wave(files) / "reassignment.json"
    reports = {"execute": _execute(cluster, document, "--throttle", rate)}
    during = scene.observe(cluster)
    _wait(cluster)
    clock.lap("move")
    reports["verify"] = _verify(cluster, document)
    if (files / "leader-election.json").exists():
        path = str(files / "leader-election.json")
        reports["elect"] = cluster.tool(ELECT, "--election-type", "preferred", "--path-to-json-file", path)
    after = scene.observe(cluster)
    clock.lap("verify and elect")
    reports["rollback"] = _execute(cluster, files / "rollback.json")
    _wait(cluster)
    reports["rollback verify"] = _verify(cluster, files / "rollback.json")
    path = str(files / "rollback.json")
    reports["elect back"] = cluster.tool(ELECT, "--election-type", "preferred", "--path-to-json-file", path)
    clock.lap("roll back")
    rolled_back = scene.observe(cluster)
    return Story(home / "warehouse", files, before, during, after, rolled_back, reports, clock.seconds)


def _plan(cluster: Cluster, home: Path) -> None:
    """Run the pipeline as users do; both clusters in one run."""
    config = home / "config.toml"
    config.write_text(CONFIG.format(bootstrap=cluster.bootstrap, drain=scene.DRAIN))
    folders = ("--warehouse", str(home / "warehouse"), "--output", str(home / "out"))
    spark = ("--master", "local[2]", "--driver-memory", "2g")
    command = [str(HOME / "spark-submit.sh"), *spark, "pipeline", "--config", str(config), "--run-id", RUN_ID, *folders]
    unset = {"PYSPARK_PYTHON", "PYTHONPATH", "SPARK_CONF_DIR", "JAVA_HOME"}
    environment = {name: value for name, value in os.environ.items() if name not in unset}
    result = subprocess.run(
        command, cwd=home, env=environment, capture_output=True, text=True, timeout=PIPELINE_SECONDS, check=False
    )
    sys.stdout.write(result.stdout[-4000:])
    if result.returncode != 0:
        pytest.fail(f"the pipeline ended with {result.returncode}:\n{result.stdout[-4000:]}\n{result.stderr[-8000:]}")


def _wave(files: Path) -> Path:
    """The folder of the only wave."""
    [folder] = {path.parent for path in files.glob("*/throttle.json")}
    return folder


def _our_throttles(files: Path) -> frozenset[tuple[str, str, str, str]]:
    """The throttles that the tool will set, from our documents."""
    entries = json.loads((_wave(files) / "throttle.json").read_text())["kafka"]
    return frozenset((e["entity_type"], e["entity_name"], e["config"], e["value"]) for e in entries)


def _execute(cluster: Cluster, document: Path, *options: str) -> str:
    return cluster.tool(REASSIGN, "--execute", "--reassignment-json-file", str(document), *options)


def _verify(cluster: Cluster, document: Path) -> str:
    return cluster.tool(REASSIGN, "--verify", "--reassignment-json-file", str(document))


def _wait(cluster: Cluster) -> None:
    """Wait until nothing is in flight."""
    deadline = time.monotonic() + MOVE_SECONDS
    with kafka_admin.connected({"bootstrap_servers": cluster.bootstrap}) as admin:
        while admin.list_partition_reassignments():
            if time.monotonic() > deadline:
                pytest.fail(f"the move was not done in {MOVE_SECONDS} s: {admin.list_partition_reassignments()}")
            time.sleep(0.2)


def _document(path: Path) -> dict[tuple[str, int], tuple[int, ...]]:
    """Replicas of each partition in a reassignment JSON."""
    partitions = json.loads(path.read_text())["partitions"]
    return {(p["topic"], p["partition"]): tuple(p["replicas"]) for p in partitions}


def _rows(story: Story, table: str, cluster_id: str = "live") -> list[dict[str, Any]]:
    return Warehouse(str(story.warehouse)).rows(table, run_id=RUN_ID, cluster_id=cluster_id)


@pytest.mark.parametrize("table", ["instance", "instance_brokers"])
def test_live_cluster_and_tool_outputs_give_the_same_instance(story: Story, table: str) -> None:
    """Both give the same partitions and brokers, in every column but ``elr``, which the live client cannot read."""
    rows = {name: _rows(story, table, name) for name in ("tools", "live")}
    tools, live = (sorted(repr(row | {"cluster_id": "", "elr": None}) for row in rows[name]) for name in rows)
    assert tools == live
    assert all(row.get("elr") is None for row in rows["live"])
    assert len(live) == {"instance": len(story.before.replicas), "instance_brokers": len(scene.RACKS)}[table]


def test_old_capacities_age_no_plan_of_a_live_cluster(story: Story) -> None:
    """Its age is that of the state. The old file is named, and the manifest has Kafka's own id of the cluster."""
    manifest = json.loads((story.files / "manifest.json").read_text())
    age = datetime.now(tz=UTC) - datetime.fromisoformat(manifest["captured_at"])
    assert age.total_seconds() < DAY_SECONDS / 2
    decision = json.loads((story.files / "decision.json").read_text())
    assert "capacity.csv:" in [note["subject"] for note in decision["notes"]]
    ids = {row["kafka_cluster_id"] for row in _rows(story, "sources") if row["source"].startswith("kafka://")}
    assert ids == {manifest["kafka_cluster_id"]}
    assert None not in ids


def test_the_plan_drains_and_fills(story: Story) -> None:
    """The drained broker has no replica, the empty broker has some, and replicas are on different racks."""
    held = [broker for replicas in story.after.replicas.values() for broker in replicas]
    assert scene.DRAIN not in held
    assert held.count(scene.EMPTY) > 0
    racks = [[scene.RACKS[broker] for broker in replicas] for replicas in story.after.replicas.values()]
    assert all(len(set(names)) == len(names) for names in racks)


def test_the_tool_accepts_the_plan(story: Story) -> None:
    """Kafka's own tool starts every reassignment of our document and reports each as completed."""
    assert "Successfully started partition reassignment" in story.reports["execute"]
    moved = _document(_wave(story.files) / "reassignment.json")
    done = [line for line in story.reports["verify"].splitlines() if line.endswith(" is completed.")]
    assert len(done) == len(moved)


def test_kafka_sets_our_throttles(story: Story) -> None:
    """While data moves, the throttles of Kafka's tool are those of our documents, entry by entry."""
    assert story.during.in_flight
    assert story.during.throttles == _our_throttles(story.files)


def test_the_placement_is_the_plan(story: Story) -> None:
    """After the move every partition has the planned replicas in the planned order; the others are unchanged."""
    planned = dict(story.before.replicas) | _document(story.files / "reassignment.json")
    assert story.after.replicas == planned
    assert story.after.replicas != story.before.replicas


def test_all_is_well_after_the_move(story: Story) -> None:
    """No throttles, no reassignments; every replica is in sync, and the first replica is the leader."""
    after = story.after
    assert after.throttles == frozenset()
    assert after.in_flight == frozenset()
    assert after.in_sync == {key: tuple(sorted(replicas)) for key, replicas in after.replicas.items()}
    changed = _document(story.files / "reassignment.json")
    assert {key: after.leaders[key] for key in changed} == {key: replicas[0] for key, replicas in changed.items()}


def test_the_bytes_are_as_predicted(story: Story) -> None:
    """The copied bytes are those of the plan, within 1 %."""
    changed = [row for row in _rows(story, "plan") if row["is_changed"]]
    predicted = {(row["topic"], row["partition"]): row["moved_bytes"] for row in changed}
    after, before = story.after, story.before
    added = {(key, b) for key in predicted for b in set(after.replicas[key]) - set(before.replicas[key])}
    moved = sum(after.size_bytes[(*key, broker)] for key, broker in added)
    waves = _rows(story, "waves")
    figures = {
        "partitions changed": len(predicted),
        "replicas moved": len(added),
        "bytes predicted": sum(predicted.values()),
        "bytes moved": moved,
        "seconds estimated": sum(row["estimated_seconds"] for row in waves),
        "throttle bytes per s": [row["throttle_bytes_per_s"] for row in waves],
        "seconds": story.seconds,
    }
    sys.stdout.write(json.dumps(figures, indent=1) + "\n")
    assert moved > 0
    assert moved == pytest.approx(sum(predicted.values()), rel=TOLERANCE)


def test_the_rollback_goes_back(story: Story) -> None:
    """Our rollback document restores the old placement, and works as input of the leader election after it."""
    assert "Successfully started partition reassignment" in story.reports["rollback"]
    assert story.rolled_back.replicas == story.before.replicas
    changed = _document(story.files / "rollback.json")
    assert {key: story.rolled_back.leaders[key] for key in changed} == {key: b[0] for key, b in changed.items()}
    assert story.rolled_back.in_sync == story.before.in_sync
    assert story.rolled_back.throttles == frozenset()
