"""Locks end with their holder; messages name folders and disks."""

import errno
import fcntl
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from optimizer import places
from optimizer.errors import BallastError, DiskFull, UnderWay
from optimizer.locks import exclusive, lock_run
from optimizer.settings import Storage
from setup.paths import HOME

HOLDER = """
import sys, time
from pathlib import Path
from optimizer.locks import lock_run
with lock_run("r1", [Path(path) for path in sys.argv[1:]]):
    print("held", flush=True)
    time.sleep(600)
"""
WITH_CHILD = """
import subprocess, sys
from pathlib import Path
from optimizer.locks import exclusive
with exclusive(Path(sys.argv[1]), with_children=True):
    child = subprocess.Popen(["sleep", "600"], stdout=subprocess.DEVNULL, close_fds=False)
    print(child.pid, flush=True)
    child.wait()
"""


@pytest.fixture
def holder(tmp_path: Path) -> Iterator["subprocess.Popen[str]"]:
    """Another process that executes run r1."""
    paths = [str(tmp_path / "out" / ".lock"), str(tmp_path / "tables" / ".lock")]
    command = [sys.executable, "-c", HOLDER, *paths]
    with subprocess.Popen(command, cwd=HOME, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


@pytest.mark.parametrize("folder", ["out", "tables"])
def test_a_run_is_done_by_one_process_at_a_time(holder: "subprocess.Popen[str]", tmp_path: Path, folder: str) -> None:
    """A second process is refused in one line that names the first. A killed process holds no lock."""
    path = tmp_path / folder / ".lock"
    with pytest.raises(UnderWay) as caught, lock_run("r1", [path]):
        pass
    message = str(caught.value)
    assert message.startswith(f"run 'r1' is already running (process {holder.pid} on ")
    assert message.endswith(f"holds {path}): wait until it ends, or give another --run-id")
    assert "\n" not in message
    with lock_run("r2", [tmp_path / folder / ".other"]):
        pass
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    with lock_run("r1", [path]):
        assert path.read_text() == f"process {os.getpid()} on {os.uname().nodename}\n"


def test_a_program_keeps_the_lock_of_a_killed_process(tmp_path: Path) -> None:
    """Children of a killed process keep the lock until they end."""
    path = tmp_path / "lock"
    command = [sys.executable, "-c", WITH_CHILD, str(path)]
    holder = subprocess.Popen(command, cwd=HOME, stdout=subprocess.PIPE, text=True)
    assert holder.stdout
    child = int(holder.stdout.readline())
    holder.kill()
    holder.wait()
    with path.open("a") as handle, pytest.raises(BlockingIOError):
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.kill(child, signal.SIGKILL)
    with exclusive(path):
        pass


def test_a_lock_is_waited_for(tmp_path: Path) -> None:
    """A process that changes a table waits until another one is done with it."""
    entered = threading.Event()

    def second() -> None:
        with exclusive(tmp_path / "locks" / "table"):
            entered.set()

    with exclusive(tmp_path / "locks" / "table"):
        waiting = threading.Thread(target=second)
        waiting.start()
        assert not entered.wait(0.2)
    assert entered.wait(10)
    waiting.join()


@pytest.mark.parametrize(
    ("warehouse", "expected"),
    [
        ("w", ["out/r1/.lock", "w/.locks/run-r1"]),
        ("file:///tmp/a%20w", ["out/r1/.lock", "/tmp/a w/.locks/run-r1"]),
        ("s3a://bucket/w", ["out/r1/.lock"]),
    ],
    ids=["local", "URI", "remote"],
)
def test_runs_meet_in_output_and_warehouse(
    warehouse: str, expected: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A run is locked in its output folder, and in the warehouse if that is a folder."""
    monkeypatch.chdir(tmp_path)
    locks = places.locks_of_run(Storage(warehouse=warehouse, output="out"), "r1")
    assert locks == [Path(path).absolute() if path[0] == "w" else Path(path) for path in expected]


def chained(error: Exception) -> BallastError:
    """An error that another error caused."""
    try:
        raise BallastError("table plan: [TASK_WRITE_FAILED] Task failed while writing rows") from error
    except BallastError as error:
        return error


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), True),
        (chained(RuntimeError("Caused by: java.io.IOException: No space left on device\n\tat java.base")), True),
        (chained(OSError(errno.ENOSPC, "x")), True),
        (chained(ValueError("nothing of it")), False),
        (OSError(errno.EACCES, "Permission denied"), False),
    ],
)
def test_a_full_disk_is_seen_behind_any_error(error: BaseException, expected: bool) -> None:
    """A full disk is found in errors of the system and of Java, direct or as a cause."""
    assert places.no_space(error) is expected


def test_the_full_disk_is_the_one_with_least_room(tmp_path: Path) -> None:
    """One line names the folder on the full disk and what to do."""
    assert places.fullest([Path("/proc"), tmp_path, tmp_path / "missing"]) == Path("/proc")
    message = str(DiskFull("/data/tables"))
    assert message == "the disk of /data/tables is full: free space there and start the run again"
