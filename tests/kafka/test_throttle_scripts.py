"""Throttle scripts on a real cluster, with the tools of Kafka 3.9 and 4.3: set, remove and restore throttles."""

import os
import signal
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from optimizer.emit.kafka_files import kafka_documents
from optimizer.emit.throttle_files import throttle_documents
from optimizer.errors import InputError
from optimizer.kafka.throttle import FOLLOWER_RATE, LOG_DIR_RATE
from sources import kafka_admin
from sources.record import Record
from tests.emit.throttled import CAREFUL, EARLIER, over, throttled_plan
from tests.kafka import topics
from tests.kafka.lab import CONFIGS, RACKS, REASSIGN, TOOLS, TOPICS, Four, until
from tour.cluster import Cluster

pytestmark = [pytest.mark.kafka, pytest.mark.all_only]

Throttles = frozenset[tuple[str, str, str, str]]


@dataclass(frozen=True)
class Lab:
    """A cluster, the scripts of one wave, and Kafka's tools of both releases as programs."""

    cluster: Cluster
    wave: Path
    tools: Mapping[str, Path]

    def run(self, script: str, release: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run a script of the wave with the tools of a release."""
        known = {"PATH": os.environ["PATH"], "BOOTSTRAP": self.cluster.bootstrap}
        programs = {"KAFKA_CONFIGS": str(self.tools[release] / "kafka-configs.sh")}
        return subprocess.run(
            ["sh", str(self.wave / script)],
            env={**known, **programs, **environment},
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )

    def throttles(self) -> Throttles:
        """The current throttles of topics and of alive brokers."""
        with kafka_admin.connected({"bootstrap_servers": self.cluster.bootstrap}) as admin:
            topology = list(kafka_admin.topology(admin))
            records = [*topology, *kafka_admin.describe_brokers(admin, sorted(_brokers(topology)), defaults=False)]
        configs = (record.payload for record in records if record.kind == "config")
        return frozenset(
            (c["entity_type"], c["entity_name"], c["name"], c["value"])
            for c in configs
            if ("throttled" in c["name"] or c["name"] == LOG_DIR_RATE) and not c["is_static"]
        )

    def alive(self) -> set[int]:
        """Brokers that the cluster reports as alive; all brokers while the client still calls a dead one."""
        try:
            with kafka_admin.connected({"bootstrap_servers": self.cluster.bootstrap}) as admin:
                return _brokers(kafka_admin.topology(admin))
        except InputError:
            return set(RACKS)


def _brokers(records: Iterable[Record]) -> set[int]:
    """Brokers that are not fenced; a dead broker is still registered."""
    return {r.payload["broker_id"] for r in records if r.kind == "broker" and not r.payload["fenced"]}


@pytest.fixture(scope="module")
def lab(four: Four, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A topic, and throttles of an operator: a list ``*`` and a rate; all are removed at the end."""
    home, cluster = tmp_path_factory.mktemp("throttles"), four.cluster
    plan = throttled_plan()
    for document in (*kafka_documents(plan), *throttle_documents(plan)):
        path = home / document.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(document.content)
    result = Lab(cluster, home / plan.folder / "wave-01", four.tools)
    topics.create(cluster, {"stays": {0: [1, 2], 1: [2, 1]}})
    for kind, name, config, value in EARLIER:
        alter = ("--alter", "--entity-type", kind, "--entity-name", name, "--add-config", f"{config}={value}")
        cluster.tool(CONFIGS, *alter)
    yield result
    if not cluster.is_running(4):
        cluster.start_broker(4)
        until(lambda: 4 in result.alive())
    for kind, name, config, _ in result.throttles():
        alter = ("--alter", "--entity-type", kind, "--entity-name", name, "--delete-config", config)
        cluster.tool(CONFIGS, *alter)
    cluster.tool(TOPICS, "--delete", "--topic", "stays|goes")


def test_throttles_of_a_running_copy_are_not_removed(lab: Lab) -> None:
    """While a copy runs, the script names it, changes nothing and ends with 4; with FORCE=1 it continues."""
    topics.create(lab.cluster, {"goes": {0: [1, 2]}})
    topics.fill(lab.cluster, "stays", {0: 15, 1: 15})
    assert lab.run("throttle-careful.sh", "3.9").returncode == 0
    document = str(lab.wave / "reassignment.json")
    lab.cluster.tool(REASSIGN, "--reassignment-json-file", document, "--execute")
    for release in TOOLS:
        refused = lab.run("unthrottle-careful.sh", release)
        assert refused.returncode == 4, refused.stderr
        assert "still being reassigned, of wave 1: stays-" in refused.stderr
        assert lab.throttles() == over(EARLIER, CAREFUL)
    forced = lab.run("unthrottle-careful.sh", "4.3", FORCE="1")
    assert (forced.returncode, lab.throttles()) == (0, EARLIER), forced.stderr
    until(lambda: "No partition reassignments" in lab.cluster.tool(REASSIGN, "--list"))
    assert lab.run("throttle-careful.sh", "4.3").returncode == 0
    removed = lab.run("unthrottle-careful.sh", "3.9")
    assert (removed.returncode, lab.throttles()) == (0, EARLIER), removed.stderr
    topics.delete(lab.cluster, "goes")


@pytest.mark.parametrize("release", sorted(TOOLS))
def test_rates_of_somebody_else_stay(lab: Lab, release: str) -> None:
    """Rates that somebody sets while a wave runs stay and are named; all throttles of the wave are removed."""
    foreign = {("brokers", "3", FOLLOWER_RATE, "5000000"), ("brokers", "4", LOG_DIR_RATE, "6000000")}
    assert lab.run("throttle-careful.sh", release).returncode in (0, 1)  # topic "goes" may not exist
    for kind, name, config, value in foreign:
        entity = ("--alter", "--entity-type", kind, "--entity-name", name)
        lab.cluster.tool(CONFIGS, *entity, "--add-config", f"{config}={value}")
    assert lab.throttles() > {entry for entry in CAREFUL if entry[:2] == ("brokers", "2")}
    result = lab.run("unthrottle-careful.sh", release)
    assert (result.returncode, lab.throttles()) == (0, over(EARLIER, foreign)), result.stderr
    assert sorted(result.stderr.splitlines()) == [
        f"left: {kind} {name} {config}={value}: somebody else set it" for kind, name, config, value in sorted(foreign)
    ]
    for kind, name, config, _ in foreign:
        entity = ("--alter", "--entity-type", kind, "--entity-name", name)
        lab.cluster.tool(CONFIGS, *entity, "--delete-config", config)
    assert lab.throttles() == EARLIER


@pytest.mark.parametrize("release", sorted(TOOLS))
def test_rates_of_a_dead_broker_are_reported(lab: Lab, release: str) -> None:
    """After a topic was deleted and a broker killed, all other throttles are removed and the dead broker's rates are
    reported; twice."""
    topics.create(lab.cluster, {"goes": {0: [1, 2]}})
    for _ in range(2):
        throttled = lab.run("throttle-careful.sh", release)
        assert throttled.returncode == 0, throttled.stderr
    assert lab.throttles() == over(EARLIER, CAREFUL)
    topics.delete(lab.cluster, "goes")
    lab.cluster.stop_broker(4, signal.SIGKILL)
    until(lambda: 4 not in lab.alive())
    for _ in range(2):
        result = lab.run("unthrottle-careful.sh", release)
        assert result.returncode == 5, result.stderr
        assert result.stderr.splitlines() == [
            "owed: brokers 4 follower.replication.throttled.rate: the broker does not answer; run this script again "
            "when it is back"
        ]
        assert lab.throttles() == EARLIER
    lab.cluster.start_broker(4)
    until(lambda: 4 in lab.alive())
    assert lab.throttles() == EARLIER | {entry for entry in CAREFUL if entry[:2] == ("brokers", "4")}
    result = lab.run("unthrottle-careful.sh", release)
    assert (result.returncode, lab.throttles()) == (0, EARLIER), result.stderr
