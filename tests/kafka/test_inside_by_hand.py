"""A wave inside brokers by hand: the commands of its runbook and its scripts on a real cluster, with the tools of Kafka
3.9 and 4.3."""

import os
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from execution.admin import KafkaAdmin
from optimizer.emit.documents import documents
from optimizer.emit.rows import DirMoveRow, ThrottleRow
from optimizer.kafka.throttle import LOG_DIR_RATE
from setup.jars import KAFKA, is_ready
from tests.emit.inside import only_inside
from tests.kafka import topics
from tests.kafka.lab import TOOLS, until
from tests.kafka.test_throttle_scripts import Lab
from tour.cluster import Cluster, running, write_tools

pytestmark = [pytest.mark.kafka, pytest.mark.all_only]

RATE = 50_000
MEGABYTES = 10  # of the replica: it moves for 200 s, unless it is hurried
REPLICA = ("in", 0, 2)


@dataclass(frozen=True)
class Hand:
    """A plan's folder, and a shell with Kafka's tools of one release."""

    lab: Lab
    folder: Path
    release: str

    def sh(self, command: str) -> subprocess.CompletedProcess[str]:
        """Run a command of the runbook in the plan's folder."""
        tools = self.lab.tools[self.release]
        known = {"PATH": f"{tools}:{os.environ['PATH']}", "BOOTSTRAP": self.lab.cluster.bootstrap}
        return subprocess.run(
            ["sh", "-c", command],
            cwd=self.folder,
            env={**known, "WAVE": "wave-01", "RATE": str(RATE)},
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )

    def blocks(self) -> list[str]:
        """The commands of the runbook, by block."""
        return re.findall(r"```sh\n(.*?)```", (self.folder / "runbook.md").read_text(), re.DOTALL)

    def verified(self, document: str) -> str:
        """What ``--verify`` prints, as in the runbook."""
        [command] = [line for block in self.blocks() for line in block.splitlines() if f'/{document}" --verify' in line]
        return self.sh(command).stdout


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Cluster, dict[str, Path]]]:
    """Two brokers with two directories each, a topic, and Kafka's tools of both releases."""
    for jars in TOOLS.values():
        if not is_ready(jars):
            pytest.skip(f"JARs of {jars.name} are not there: run setup/kafka-jars.sh")
    home = tmp_path_factory.mktemp("two")
    tools = {release: write_tools(home / release, jars) for release, jars in TOOLS.items()}
    with running(home / "kafka", {1: "a", 2: "b"}, log_dirs=2, jars=KAFKA) as kafka:
        topics.create(kafka, {"in": {0: [1, 2]}})
        topics.fill(kafka, "in", {0: MEGABYTES})
        yield kafka, tools


def place(kafka: Cluster) -> tuple[str, bool]:
    """The directory of the replica, and whether it moves to another one."""
    with KafkaAdmin({"bootstrap_servers": kafka.bootstrap}) as admin:
        stored = admin.stored([2])
    return stored.log_dirs[REPLICA], REPLICA in stored.moving


def hurry(kafka: Cluster, path: str) -> None:
    """Let the move end at full speed, then set the plan's rate again."""
    key = ("brokers", "2", LOG_DIR_RATE)
    with KafkaAdmin({"bootstrap_servers": kafka.bootstrap}) as admin:
        assert admin.alter({key: ("SET", str(10**9))}) == {}
        until(lambda: place(kafka) == (path, False))
        assert admin.alter({key: ("SET", str(RATE))}) == {}


def write_plan(home: Path, kafka: Cluster, style: str) -> tuple[Path, str, str]:
    """The documents of a plan that moves the replica to the other directory of its broker; its folder, from, to."""
    old, _ = place(kafka)
    [new] = [str(path) for path in kafka.nodes[2].log_dirs if str(path) != old]
    plan = only_inside(style=style)
    move = DirMoveRow("in", 0, 2, [1, 2], old, new, MEGABYTES * 10**6, 1, None)
    throttles = [ThrottleRow("brokers", "2", LOG_DIR_RATE, str(RATE), None, 1, form) for form in ("careful", "kafka")]
    waves = [replace(plan.waves[0], throttle_bytes_per_s=RATE, copy_bytes_per_s=RATE)]
    plan = replace(plan, dir_moves=[move], throttles=throttles, waves=waves, throttles_found=[])
    for document in documents(plan):
        path = home / document.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(document.content)
    return home / plan.folder, old, new


@pytest.mark.parametrize(("style", "release"), [("careful", "3.9"), ("kafka", "4.3")])
def test_a_wave_moves_waits_and_is_taken_back(
    two: tuple[Cluster, dict[str, Path]], tmp_path: Path, style: str, release: str
) -> None:
    """No rate is removed while the replica moves. A rollback of a running wave keeps the replica where it is."""
    kafka, tools = two
    folder, old, new = write_plan(tmp_path, kafka, style)
    hand = Hand(Lab(kafka, folder / "wave-01", tools), folder, release)
    _, _, execute, _, back = hand.blocks()
    own = frozenset({("brokers", "2", LOG_DIR_RATE, str(RATE))})
    unthrottle = f'sh "$WAVE/unthrottle-{style}.sh"'

    started = hand.sh(execute)
    assert started.returncode == 0, started.stdout + started.stderr
    assert hand.lab.throttles() == own
    assert "Reassignment of replica in-0-2 is still in progress." in hand.verified("dir-moves.json")
    refused = hand.sh(unthrottle)
    assert (refused.returncode, refused.stderr.splitlines()[0]) == (
        4,
        "Reassignment of replica in-0-2 is still in progress.",
    )
    assert (hand.lab.throttles(), place(kafka)) == (own, (old, True))

    taken_back = hand.sh(back)
    assert taken_back.returncode == 0, taken_back.stdout + taken_back.stderr
    assert place(kafka) == (old, False)
    assert "Reassignment of replica in-0-2 completed successfully." in hand.verified("rollback-dir-moves.json")
    removed = hand.sh(unthrottle)
    assert (removed.returncode, hand.lab.throttles()) == (0, frozenset()), removed.stderr

    assert hand.sh(execute).returncode == 0
    hurry(kafka, new)
    assert "Reassignment of replica in-0-2 completed successfully." in hand.verified("dir-moves.json")
    assert hand.sh(back).returncode == 0
    running_back = hand.sh(unthrottle)
    assert (running_back.returncode, "is being moved to log dir" in running_back.stderr) == (4, True)
    hurry(kafka, old)
    removed = hand.sh(unthrottle)
    assert (removed.returncode, hand.lab.throttles()) == (0, frozenset()), removed.stderr
