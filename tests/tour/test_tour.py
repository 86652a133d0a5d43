"""The tour: from the first broker to the last removed file, and Ctrl-C in the middle."""

import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from setup.children import process_stats
from setup.jars import KAFKA, is_ready
from setup.paths import HOME

pytestmark = pytest.mark.kafka
SECONDS = 900


@pytest.fixture
def toured(tmp_path: Path) -> Iterator[tuple["subprocess.Popen[bytes]", Path]]:
    """The tour without pauses, with all its files below a folder of the test, and its output."""
    if not is_ready(KAFKA):
        pytest.skip("Kafka's JARs are not there: run setup/kafka-jars.sh")
    output = tmp_path / "output.txt"
    environ = {**os.environ, "TMPDIR": str(tmp_path)}
    command = [str(HOME / "ballast"), "tour", "--yes"]
    with (
        output.open("wb") as file,
        subprocess.Popen(
            command, env=environ, stdin=subprocess.DEVNULL, stdout=file, stderr=file, start_new_session=True
        ) as process,
    ):
        yield process, output
        assert process.poll() is not None


def left(folder: Path) -> list[str]:
    """Folders of the tour, and processes that have one in their command line."""
    named = (Path(f"/proc/{pid}/cmdline") for pid in process_stats())
    running = [path.read_text(errors="replace") for path in named if path.exists()]
    return [*map(str, folder.glob("ballast-tour-*")), *(line for line in running if f"{folder}/ballast-tour-" in line)]


@pytest.mark.all_only
def test_the_tour_goes_on_after_a_kill_and_leaves_nothing(toured: tuple["subprocess.Popen[bytes]", Path]) -> None:
    """All steps succeed, and no record is lost."""
    process, output = toured
    code = process.wait(SECONDS)
    text = output.read_text()
    assert code == 0, text[-4000:]
    assert re.findall(r"^== (\d)\. ", text, re.M) == [*"1234567"]
    after_kill = text.partition("   -- broker 9 is killed")[2]
    assert "broker 9 is not alive any more" in after_kill
    assert re.search(r"^The producer wrote [1-9]\d* records meanwhile: 0 failed, 0 are lost\.$", after_kill, re.M)
    assert text.endswith("Everything is stopped and removed.\n")
    assert left(output.parent) == []


@pytest.mark.all_only
@pytest.mark.parametrize("moment", ["run tour: 1 cluster", "in flight"])
def test_nothing_is_left_after_ctrl_c(toured: tuple["subprocess.Popen[bytes]", Path], moment: str) -> None:
    """Ctrl-C reaches the tour while Spark plans, and while a wave runs; it ends within seconds."""
    process, output = toured
    deadline = time.monotonic() + SECONDS
    while moment not in output.read_text():
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.1)
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait(30) == 130
    assert "Traceback" not in output.read_text().partition("in flight")[2]
    assert output.read_text().endswith("Everything is stopped and removed.\n")
    assert left(output.parent) == []


def test_without_a_terminal_it_needs_yes() -> None:
    """It would wait for a key for ever."""
    command = [str(HOME / "ballast"), "tour"]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.endswith("there is no terminal: give --yes\n")
