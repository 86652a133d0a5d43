"""What an operator met, on real clusters: users with rights, a full directory, another cluster, somebody's --cancel."""

import os
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from execution.admin import KafkaAdmin
from optimizer.kafka.cordon import LEAST_METADATA_LEVEL
from optimizer.kafka.throttle import LEADER_RATE
from setup.jars import KAFKA, is_ready
from sources.kafka_admin import properties_of
from sources.kafka_options import client_options
from tests.kafka import topics
from tests.kafka.lab import REASSIGN, Four, Lab, MakeLab, labs, until
from tests.kafka.test_directories import stored
from tests.kafka.test_run import alter
from tour.cluster import Cluster, running, write_tools

pytestmark = [pytest.mark.kafka, pytest.mark.all_only]

PASSWORD = "b-s3cret"
FULL = (3, 1)  # broker and directory of the small disk
DISK_MB = 24
ONE = [{0: ([1, 2], [1, 3])}]
CLUSTER_RIGHTS = ("DESCRIBE", "DESCRIBE_CONFIGS", "ALTER", "ALTER_CONFIGS")
TOPIC_RIGHTS = ("DESCRIBE", "DESCRIBE_CONFIGS", "ALTER_CONFIGS")


@contextmanager
def small_disk(folder: Path) -> Iterator[None]:
    """A disk of some megabytes; skips the test if this user may not mount one."""
    folder.mkdir(parents=True)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK_MB}m", "none", str(folder)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("this user may not mount a small disk")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


@dataclass(frozen=True)
class UserLab(Lab):
    """A lab whose commands connect as a user."""

    properties: str = ""

    def command(self, name: str, wave: int, hours: str = "1e9") -> list[str]:
        """The arguments of a step."""
        words = super().command(name, wave, hours)
        at = words.index("--bootstrap-server")
        return [*words[: at + 1], self.cluster.sasl_bootstrap, "--client-config", self.properties, *words[at + 2 :]]


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Four]:
    """Three brokers with two directories each, one of them small, and users."""
    if not is_ready(KAFKA):
        pytest.skip(f"JARs of {KAFKA.name} are not there: run setup/kafka-jars.sh")
    home = tmp_path_factory.mktemp("secure")
    broker, directory = FULL
    users = {"ballast": PASSWORD}
    with (
        small_disk(home / "kafka" / f"data-{broker}-{directory}"),
        running(home / "kafka", {1: "a", 2: "b", 3: "c"}, log_dirs=2, users=users) as kafka,
    ):
        yield Four(kafka, {"4.3": write_tools(home / "tools", KAFKA)})


@pytest.fixture
def make_lab(secure: Four, tmp_path: Path) -> Iterator[MakeLab]:
    """Makes topics with an approved plan for each."""
    with labs(*secure, tmp_path) as make:
        yield make


def as_user(lab: Lab, password: str = PASSWORD) -> UserLab:
    """The lab of a user."""
    path = Path(lab.warehouse.path).with_suffix(".properties")
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    path.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
        f'sasl.jaas.config={module} required username="ballast" password="{password}";\n'
    )
    return UserLab(lab.cluster, lab.tools, lab.warehouse, lab.topic, str(path))


def grant(kafka: Cluster, cluster: Sequence[str], of_topics: Sequence[str]) -> None:
    """Give the user these rights, and no others."""
    from kafka.admin import (
        ACL,
        ACLFilter,
        ACLOperation,
        ACLPermissionType,
        ACLResourcePatternType,
        ResourcePattern,
        ResourcePatternFilter,
        ResourceType,
    )

    patterns = {ResourceType.CLUSTER: ("kafka-cluster", cluster), ResourceType.TOPIC: ("*", of_topics)}
    any_resource = ResourcePatternFilter(ResourceType.ANY, None, ACLResourcePatternType.ANY)
    everything = ACLFilter("User:ballast", None, ACLOperation.ANY, ACLPermissionType.ANY, any_resource)
    acls = [
        ACL("User:ballast", "*", ACLOperation[right], ACLPermissionType.ALLOW, ResourcePattern(kind, name))
        for kind, (name, rights) in patterns.items()
        for right in rights
    ]
    with topics.client(kafka) as admin:
        admin.delete_acls([everything])
        if acls:
            admin.create_acls(acls)
    time.sleep(1)  # every broker learns of it over the metadata log


def test_each_missing_right_is_named(secure: Four, make_lab: MakeLab) -> None:
    """Before the hold, with one right less at a time, and with several; with all of them the wave is executed.

    Kafka's authorizer gives DESCRIBE to who may ALTER, and DESCRIBE_CONFIGS to who may ALTER_CONFIGS.
    """
    lab = as_user(make_lab("rights", ONE, megabytes=3))
    for right, implied_by in {"DESCRIBE": "ALTER", "DESCRIBE_CONFIGS": "ALTER_CONFIGS"}.items():
        grant(secure.cluster, [each for each in CLUSTER_RIGHTS if each not in (right, implied_by)], TOPIC_RIGHTS)
        ended = lab.step("preflight")
        assert (ended.code, f"the user needs {right} on the cluster" in ended.err) == (3, True), (right, ended)
    for right in ("ALTER", "ALTER_CONFIGS"):
        grant(secure.cluster, [each for each in CLUSTER_RIGHTS if each != right], TOPIC_RIGHTS)
        ended = lab.step("preflight")
        assert (ended.code, f"the user needs {right} on the cluster" in ended.err) == (3, True), (right, ended)
    for right, others in {"DESCRIBE": TOPIC_RIGHTS[1:], "ALTER_CONFIGS": TOPIC_RIGHTS[:2]}.items():
        grant(secure.cluster, CLUSTER_RIGHTS, others)
        ended = lab.run()
        assert (ended.code, f"the user needs {right} on topic rights" in ended.err) == (3, True), (right, ended)
    grant(secure.cluster, ("DESCRIBE",), ("DESCRIBE",))
    ended = lab.run()
    missing = [right for right in (*CLUSTER_RIGHTS[1:], *TOPIC_RIGHTS[1:]) if f"the user needs {right} on" in ended.err]
    assert len(missing) == 5, ended
    assert (lab.now().throttles, "held" in lab.events()) == ({}, False)
    grant(secure.cluster, CLUSTER_RIGHTS, TOPIC_RIGHTS)
    ended = lab.run()
    assert (ended.code, ended.err, lab.lists()) == (0, "", [(1, 3)]), ended.out
    options = client_options(properties_of(lab.properties)) | {"bootstrap_servers": secure.cluster.sasl_bootstrap}
    with KafkaAdmin(options) as admin:  # without CREATE nobody can ask whether a topic of nine replicas is refused
        assert (admin.lacks_brokers(9), admin.metadata_level() >= LEAST_METADATA_LEVEL) == (False, True)
        assert admin.controllers().startswith("127.0.0.1:")


def test_a_wrong_password_is_said_at_once(secure: Four, make_lab: MakeLab) -> None:
    """Within the first timeout, by the first server, without the password and without a dump of a request."""
    lab = as_user(make_lab("password", ONE, megabytes=1), "wr0ng")
    first = secure.cluster.sasl_bootstrap.split(",")[0]
    ended = lab.run()
    assert ended.code == 1
    assert f"cannot read kafka://{first}: the cluster refuses this user's name or password" in ended.err, ended
    assert "wr0ng" not in ended.err
    assert len(ended.err) < 400, ended.err


def test_another_cluster_keeps_its_throttles(secure: Four, make_lab: MakeLab, tmp_path: Path) -> None:
    """``wave off`` on the wrong cluster frees nothing, and no other command does anything there."""
    lab = make_lab("mine", ONE, megabytes=12)
    assert lab.run("--for", "0.05").code == 4
    with running(tmp_path / "another", {1: "a"}) as another:
        elsewhere = replace(lab, cluster=another)
        for ended in (elsewhere.step("off", 1, "--accept-owed"), elsewhere.run(), elsewhere.steer("cancel")):
            assert (ended.code, "but wave 1 holds cluster" in ended.err) == (2, True), ended
        assert topics.observe(another).throttles == {}
    assert lab.now().throttles
    assert lab.run().code == 0
    assert (lab.lists(), lab.now().throttles) == ([(1, 3)], {})


def test_a_killed_wave_inside_a_broker_goes_on_after_a_restart(secure: Four, make_lab: MakeLab) -> None:
    """``run`` is not refused by its own wave, although leaders could be elected before it."""
    lab = make_lab("inside", ONE, inside={1: ([1, 2], [1])}, megabytes={0: 1, 1: 24})
    with lab.running() as process:
        until(lambda: bool(stored(lab.cluster, 1).moving))
        process.kill()
    lab.cluster.stop_broker(1)  # it leads a partition of the wave before: leaders could be elected
    lab.cluster.start_broker(1)
    ended = lab.once_free(lab.run)
    assert (ended.code, lab.now().throttles) == (0, {}), ended


def test_a_full_directory_stops_a_wave_before_it_holds(secure: Four, make_lab: MakeLab) -> None:
    """Here inside a broker; a dry run says it too."""
    broker, directory = FULL
    full = str(secure.cluster.nodes[broker].log_dirs[directory])
    disk = Path(full)
    lab = make_lab("full", [], inside={0: ([3, 2], [3])}, megabytes=12)
    filler = disk / "filler"
    free = os.statvfs(disk)
    filler.write_bytes(b"0" * (free.f_bavail * free.f_frsize - 4 * 2**20))
    try:
        dry = lab.run("--dry-run")
        ended = lab.run()
    finally:
        filler.unlink()
    assert (dry.code, "problem: directory" in dry.out, "has room for" in dry.out) == (0, True, True), dry
    assert (ended.code, f"directory {full} of broker 3 has room for" in ended.err) == (3, True), ended
    assert (lab.now().throttles, "held" in lab.events()) == ({}, False)
    assert lab.run().code == 0


def test_after_somebodys_cancel_later_waves_begin(secure: Four, make_lab: MakeLab, tmp_path: Path) -> None:
    """Kafka's own tool removes all throttles with --cancel, also a rate that somebody has set by hand meanwhile."""
    lab = make_lab("cancelled", [{0: ([1, 2], [1, 3])}, {1: ([2, 1], [2, 3])}], megabytes=6)
    document = tmp_path / "cancel.json"
    document.write_text('{"version":1,"partitions":[{"topic":"cancelled","partition":0,"replicas":[1,3]}]}')
    with lab.running() as process:
        until(lambda: bool(lab.now().in_flight))
        alter(lab, {("brokers", "1", LEADER_RATE): ("SET", "100000")})
        time.sleep(3)
        lab.cluster.tool(REASSIGN, "--reassignment-json-file", str(document), "--cancel")
        _, err = process.communicate(timeout=topics.SECONDS)
    assert (process.returncode, "neither in flight nor done: cancelled-0" in err) == (3, True), err
    ended = lab.run()
    assert (ended.code, lab.lists(), lab.now().throttles) == (0, [(1, 3), (2, 3)], {}), ended
