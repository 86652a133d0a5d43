"""Directories of a plan on a real cluster whose brokers have three: announced, compared, corrected, taken back.

Every planned directory is the one with the most replicas of its broker, so Kafka itself would choose another one.
"""

import json
import re
import signal
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from benchmarks.rows import broker_row, partition_row
from execution.admin import KafkaAdmin
from execution.moves import start
from execution.observed import Replica, Stored
from optimizer.planning.in_memory import plan_in_memory, records
from optimizer.settings import ClusterInput, Policy, Settings
from setup.jars import KAFKA, KAFKA39, JarSet, is_ready
from tests.execution.warehouse import RUN, load_wave
from tests.kafka import topics
from tests.kafka.lab import RATE, REASSIGN, TOOLS, Four, Lab, MakeLab, labs, until
from tour.cluster import Cluster, running, write_tools

pytestmark = [pytest.mark.kafka, pytest.mark.all_only]

MOVE = [{0: ([1, 2], [1, 3]), 1: ([2, 1], [2, 3])}]
DRAINED = {0: ([1, 2], [2, 3]), 1: ([2, 1], [2, 3])}
MB = 10**6
WIDE = Policy(disk_band=9.0, replicas_band=9.0, in_band=9.0, leaders_band=9.0, out_band=9.0)  # nothing for balance
CORDONED, INSIDE_RATE = "cordoned.log.dirs", "replica.alter.log.dirs.io.max.bytes.per.second"


@contextmanager
def cluster(home: Path, jars: JarSet) -> Iterator[Cluster]:
    """Three brokers with three directories each; one directory of each broker has more replicas than the others."""
    with running(home, {1: "a", 2: "b", 3: "c"}, log_dirs=3, jars=jars) as kafka:
        topics.create(kafka, {"before": {number: [1, 2, 3] for number in range(4)}})
        until(lambda: all(len(stored(kafka, broker).log_dirs) == 4 for broker in kafka.nodes if broker < 1000))
        yield kafka


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Four]:
    """The cluster, and Kafka's tools of both releases."""
    for jars in TOOLS.values():
        if not is_ready(jars):
            pytest.skip(f"JARs of {jars.name} are not there: run setup/kafka-jars.sh")
    home = tmp_path_factory.mktemp("three")
    tools = {release: write_tools(home / release, jars) for release, jars in TOOLS.items()}
    with cluster(home / "kafka", KAFKA) as kafka:
        yield Four(kafka, tools)


@pytest.fixture
def make_lab(three: Four, tmp_path: Path) -> Iterator[MakeLab]:
    """Makes topics with an approved plan for each."""
    with labs(*three, tmp_path) as make:
        yield make


def stored(kafka: Cluster, broker: int) -> Stored:
    """What the directories of a broker have."""
    with KafkaAdmin({"bootstrap_servers": kafka.bootstrap}) as admin:
        return admin.stored([broker])


def by_replicas(kafka: Cluster, broker: int) -> list[str]:
    """The directories of a broker; the one with the most replicas last."""
    counts = Counter(stored(kafka, broker).log_dirs.values())
    paths = sorted((str(path) for path in kafka.nodes[broker].log_dirs), key=lambda path: counts[path])
    assert counts[paths[-1]] > counts[paths[0]]
    return paths


def planned(kafka: Cluster, topic: str) -> dict[Replica, str]:
    """Both partitions of a topic into the directory with the most replicas."""
    path = by_replicas(kafka, 3)[-1]
    return {(topic, 0, 3): path, (topic, 1, 3): path}


def places(lab: Lab, broker: int = 3) -> dict[Replica, str]:
    """The directories of the topic's replicas on a broker."""
    return {key: path for key, path in stored(lab.cluster, broker).log_dirs.items() if key[0] == lab.topic}


@contextmanager
def config(kafka: Cluster, name: str, value: str) -> Iterator[None]:
    """A dynamic config of broker 3, as long as the block runs."""
    with KafkaAdmin({"bootstrap_servers": kafka.bootstrap}) as admin:
        assert admin.alter({("brokers", "3", name): ("SET", value)}) == {}
        yield
        assert admin.alter({("brokers", "3", name): ("DELETE", None)}) == {}


def rates(kafka: Cluster) -> dict[int, str | None]:
    """The rate of moves inside each broker."""
    with KafkaAdmin({"bootstrap_servers": kafka.bootstrap}) as admin:
        throttles = admin.observe().throttles
    return {broker: throttles.get(("brokers", str(broker), INSIDE_RATE)) for broker in (1, 2, 3)}


# The first test of this module: the meters of the brokers have counted nothing yet.
def test_replicas_move_inside_their_brokers(three: Four, make_lab: MakeLab) -> None:
    """Within 15 % of the rate; then the replica is in the planned directory, whole, and the rate is removed."""
    lab = make_lab("inside", [], inside={0: ([1, 2], [1])}, megabytes=32)
    (replica, (before, after)) = next(iter(load_wave(lab.warehouse, 1).inside.items()))
    size_bytes = stored(lab.cluster, 1).size_bytes[replica]
    seen: list[tuple[float, int]] = []
    with lab.running() as process:
        until(lambda: replica in stored(lab.cluster, 1).moving)
        assert rates(lab.cluster) == {1: str(RATE), 2: None, 3: None}
        while process.poll() is None:
            look = stored(lab.cluster, 1)
            if replica in look.moving:
                assert (look.log_dirs[replica], look.moving[replica][0]) == (before, after)
                seen.append((time.monotonic(), look.moving[replica][1]))
            time.sleep(0.5)
        out, err = process.communicate()
    assert (process.returncode, err) == (0, ""), out
    look = stored(lab.cluster, 1)
    assert (look.log_dirs[replica], look.size_bytes[replica], look.moving) == (after, size_bytes, {})
    assert rates(lab.cluster) == dict.fromkeys((1, 2, 3))
    (row,) = [row for row in lab.warehouse.rows("executions") if row["event"] == "copied"]
    measured = json.loads(row["result"])
    assert measured["copied_bytes"] == size_bytes
    assert size_bytes / measured["measured_seconds"] < 1.15 * RATE, measured
    (begun, first_bytes), (ended, last_bytes) = next(look for look in seen if look[1]), seen[-1]
    assert 0.85 * RATE < (last_bytes - first_bytes) / (ended - begun) < 1.15 * RATE, seen
    assert ended - begun > 20, "the looks did not see the whole move"
    assert lab.steer("verify", "--run-id", RUN).code == 0


def test_a_move_inside_a_broker_is_cancelled_executed_and_taken_back(three: Four, make_lab: MakeLab) -> None:
    """A cancelled replica is where it was, without a copy, and no step leaves a rate."""
    lab = make_lab("turns", [], inside={0: ([2, 1], [2]), 1: ([1, 2], [2])}, megabytes={0: 3, 1: 1})
    moves = load_wave(lab.warehouse, 1).inside
    old = {replica: before for replica, (before, _) in moves.items()}
    with lab.running() as process:
        until(lambda: stored(lab.cluster, 2).moving.get(("turns", 0, 2), ("", 0))[1] > 1_000_000)
        assert lab.steer("cancel").code == 0
        out, err = process.communicate()
    assert (process.returncode, "wave 1 of 1 was cancelled" in err) == (3, True), (out, err)
    look = stored(lab.cluster, 2)
    assert look.log_dirs["turns", 0, 2] == old["turns", 0, 2]
    assert (look.moving, rates(lab.cluster)[2]) == ({}, None)
    ended = lab.run()
    assert (ended.code, places(lab, 2)) == (0, {replica: after for replica, (_, after) in moves.items()}), ended
    ended = lab.back("--all", "--by", "ann")
    assert (ended.code, ended.err, places(lab, 2)) == (0, "", old), ended
    assert rates(lab.cluster) == dict.fromkeys((1, 2, 3))


@pytest.mark.parametrize(("release", "cap"), [("4.3", 0), ("3.9", 0), ("4.3", 1)])
def test_replicas_are_created_where_they_are_planned(
    three: Four, make_lab: MakeLab, tmp_path: Path, release: str, cap: int
) -> None:
    """With the tools of both releases, and over the Admin API, one by one."""
    settings = tmp_path / "config.toml"
    settings.write_text(f"[execution]\nmax_moves_per_broker = {cap}\n")
    check_copies(three.cluster, make_lab, f"planned-{release}-{cap}", "--config", str(settings), release=release)


def test_brokers_of_an_older_release_do_the_same(three: Four, tmp_path: Path) -> None:
    """Of 3.9."""
    with cluster(tmp_path / "kafka", KAFKA39) as kafka, labs(kafka, three.tools, tmp_path / "plans") as make:
        check_copies(kafka, make, "older", release="3.9")


def check_copies(kafka: Cluster, make: MakeLab, topic: str, *options: str, release: str) -> None:
    """Execute a plan. At no look a new replica is anywhere else than planned, or is copied a second time."""
    paths = planned(kafka, topic)
    lab, looks = make(topic, MOVE, megabytes=7, release=release, log_dirs=paths), []
    with KafkaAdmin(lab.client) as admin, lab.running(*options) as process:
        while process.poll() is None:
            looks.append(admin.stored([3]))
            time.sleep(0.5)
        out, err = process.communicate()
    assert (process.returncode, err) == (0, ""), out
    assert "another directory" not in out
    assert places(lab) == paths
    seen = [{key: path for key, path in look.log_dirs.items() if key[0] == topic} for look in looks]
    assert all(paths.items() >= look.items() for look in seen)
    assert not any(look.moving for look in looks)
    sizes = {tuple(look.size_bytes.get(key, 0) for key in paths) for look in looks}
    assert len(sizes) > 2, "the looks did not see the copies"


def most_bytes(lab: Lab, broker: int = 3) -> dict[str, int]:
    """Execute a plan; the most bytes that each directory of a broker had at any look."""
    most = dict[str, int]()
    with KafkaAdmin(lab.client) as admin, lab.running() as process:
        while process.poll() is None:
            look, held = admin.stored([broker]), Counter[str]()
            for replica, path in look.log_dirs.items():
                held[path] += look.size_bytes[replica]
            most |= {path: max(size, most.get(path, 0)) for path, size in held.items()}
            time.sleep(0.3)
        out, err = process.communicate()
    assert (process.returncode, err) == (0, ""), out
    return most


def drained(used: Mapping[str, int], capacities: Mapping[str, int]) -> dict[str, list[dict[str, Any]]]:
    """The plan that empties broker 1 of two partitions into broker 3, whose directories have these MB."""
    dirs = [
        {
            "path": path,
            "capacity_bytes": size * MB,
            "used_bytes": used.get(path, 0) * MB,
            "logs": 5 - 4 * (path in used),
        }
        for path, size in sorted(capacities.items())
    ]
    key = {"cluster_id": "c", "run_id": "r"}
    hosts = [broker_row(broker, **key, pinned_topics=[], log_dirs=[]) for broker in (1, 2, 3)]
    hosts[0] |= {"state": "draining", "accepts_replicas": False, "must_empty": True}
    hosts[2] |= {"log_dirs": [{**log_dir, "is_open": True} for log_dir in dirs]}
    rows = [
        partition_row(before, **key, topic="dealt", partition=number, size_bytes=6 * MB)
        for number, (before, _) in DRAINED.items()
    ]
    settings = Settings(clusters=(ClusterInput(id="c", input="/unused"),), policy=WIDE)
    tables = plan_in_memory(pd.DataFrame(rows), pd.DataFrame(hosts), settings).tables
    return {name: records(tables[name]) for name in ("compared", "dir_balance")}


def test_a_drained_broker_fills_no_directory(three: Four, make_lab: MakeLab) -> None:
    """A large log is alone in its directory, so Kafka puts the others there. The plan puts them elsewhere.

    How full each directory gets is what table ``dir_balance`` says, in both cases.
    """
    kafka = three.cluster
    big, other, small = sorted(str(path) for path in kafka.nodes[3].log_dirs)
    topics.create(kafka, {"big": {0: [3]}, "tiny": {number: [3] for number in range(6)}})
    topics.fill(kafka, "big", {0: 15})
    with KafkaAdmin({"bootstrap_servers": kafka.bootstrap}) as admin:
        logs = sorted(admin.stored([3]).log_dirs)
        wanted = {log: big if log[0] == "big" else (other, small)[i % 2] for i, log in enumerate(logs)}
        assert admin.announce(wanted) == {}  # they are there already, so they move
        until(lambda: admin.stored([3]).log_dirs == wanted)
    plan = drained({big: 15}, {big: 25, other: 25, small: 10})
    assert [row["proposed_replicas"] for row in plan["compared"]] == [after for _, after in DRAINED.values()]
    balance = {row["log_dir"]: row for row in plan["dir_balance"]}
    by_kafka = make_lab("chosen", [DRAINED], megabytes=6)
    assert most_bytes(by_kafka)[big] == pytest.approx(balance[big]["default_peak_bytes"], rel=0.02)
    assert balance[big]["default_peak_bytes"] > balance[big]["capacity_bytes"]
    assert by_kafka.back("--all").code == 0
    paths = {("dealt", row["partition"], 3): row["planned_log_dirs"][1] for row in plan["compared"]}
    most = most_bytes(make_lab("dealt", [DRAINED], megabytes=6, log_dirs=paths))
    for path, row in balance.items():
        assert most[path] == pytest.approx(row["peak_bytes"], rel=0.02, abs=10_000)
        assert most[path] < row["limit_bytes"]
    for topic in ("big", "tiny"):
        topics.delete(kafka, topic)


def document(lab: Lab, log_dirs: Mapping[Replica, str]) -> Path:
    """A reassignment for Kafka's tool; ``any`` where no directory is given."""
    rows = [
        {
            "topic": lab.topic,
            "partition": number,
            "replicas": after,
            "log_dirs": [log_dirs.get((lab.topic, number, broker), "any") for broker in after],
        }
        for number, (_, after) in MOVE[0].items()
    ]
    path = lab.tools.parent / f"{lab.topic}.json"
    path.write_text(json.dumps({"version": 1, "partitions": rows}))
    return path


def test_names_in_the_reassignment_copy_twice(three: Four, make_lab: MakeLab) -> None:
    """Kafka copies to its own choice, the directory with the fewest replicas, and then inside the broker."""
    paths = planned(three.cluster, "named")
    lab = make_lab("named", MOVE, megabytes=9, log_dirs=paths)
    with config(lab.cluster, INSIDE_RATE, "1000000"):
        lab.cluster.tool(REASSIGN, "--reassignment-json-file", str(document(lab, paths)), "--execute")
        until(lambda: lab.lists() == [(1, 3), (2, 3)])
        look = stored(lab.cluster, 3)
        assert {key: path for key, (path, _) in look.moving.items()}.items() <= paths.items()
        assert look.moving
        assert all(look.size_bytes[key] > 9e6 for key in look.moving), "the first copy was not whole"
        assert set(paths.values()).isdisjoint(look.log_dirs[key] for key in look.moving)
    until(lambda: places(lab) == paths)


def test_without_names_kafka_chooses_the_fewest_replicas(three: Four, make_lab: MakeLab) -> None:
    """Whatever the sizes are."""
    lab = make_lab("any", MOVE, megabytes=1)
    least, *_, most = by_replicas(three.cluster, 3)
    lab.cluster.tool(REASSIGN, "--reassignment-json-file", str(document(lab, {})), "--execute")
    until(lambda: lab.lists() == [(1, 3), (2, 3)])
    chosen = set(places(lab).values())
    assert most not in chosen
    assert least in chosen


def test_a_broker_that_restarts_before_the_start_forgets(
    three: Four, make_lab: MakeLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The end of the wave says so, and the command that it names moves the replicas."""
    paths = planned(three.cluster, "forgotten")
    lab = make_lab("forgotten", MOVE, megabytes=2, log_dirs=paths)

    def restart_first(*arguments: Any) -> None:
        lab.cluster.stop_broker(3, signal.SIGKILL)
        lab.cluster.start_broker(3)
        until(lambda: all(3 in lab.now().in_sync["before", number] for number in range(4)))
        start(*arguments)

    monkeypatch.setattr("execution.steps.start", restart_first)
    ended = lab.run()
    assert ended.code == 0, ended
    assert "broker 3: 2 replicas are in another directory than planned, 4." in ended.out
    assert re.search(r"to move them: \./ballast run .*--waves 1 --run-id r --cluster c --fix-dirs", ended.out)
    assert set(paths.values()).isdisjoint(places(lab).values())
    assert "2 replicas are in another directory" in lab.step("verify").out
    ended = lab.run("--waves", "1", "--fix-dirs")
    assert (ended.code, "2 replicas moved to the planned directories" in ended.out) == (0, True), ended
    assert places(lab) == paths


def test_a_cordoned_directory_is_refused(three: Four, make_lab: MakeLab) -> None:
    """Nothing is started, and the message says what to do; with --any-dir Kafka chooses another one."""
    paths = planned(three.cluster, "cordoned")
    lab = make_lab("cordoned", MOVE, megabytes=1, log_dirs=paths)
    path = paths["cordoned", 0, 3]
    with config(lab.cluster, CORDONED, path):
        ended = lab.run()
        refusal = f"broker 3 refuses directory {path} for cordoned-0, cordoned-1: the directory is cordoned"
        assert (ended.code, refusal in ended.err) == (3, True), ended
        assert lab.lists() == [(1, 2), (2, 1)]
        ended = lab.run("--any-dir")
        assert (ended.code, f"Kafka chooses the directory: {refusal}" in ended.out) == (0, True), ended
    assert path not in places(lab).values()


def test_a_rollback_brings_replicas_back_to_their_old_directories(three: Four, make_lab: MakeLab) -> None:
    """Although Kafka would choose others now."""
    kafka = three.cluster
    old = {("back", 0, 2): by_replicas(kafka, 2)[-1], ("back", 1, 1): by_replicas(kafka, 1)[-1]}
    lab = make_lab("back", MOVE, megabytes=1, log_dirs={**planned(kafka, "back"), **old})
    with KafkaAdmin(lab.client) as admin:
        assert admin.announce(old) == {}  # they are there already, so they move
    until(lambda: {**places(lab, 1), **places(lab, 2)}.items() >= old.items())
    assert lab.run().code == 0
    ended = lab.back("--all", "--by", "ann")
    assert (ended.code, ended.err, "another directory" in ended.out) == (0, "", False), ended
    assert {**places(lab, 1), **places(lab, 2)}.items() >= old.items()
