"""Runs the checks of the project, then the tests of the daily tier; with ``--all`` every test.

Any other arguments go to pytest; then only these tests run, without checks.
"""

import ctypes
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress

from setup.paths import HOME, VENV

CHECKS = (
    ("ruff", "check", "."),
    ("ruff", "format", "--check", "."),
    ("mypy",),
    ("lint-imports", "--no-logo"),
)
# Every test, in four processes on two cores, because many tests only wait. Tests that share a fixture run together
# (``tests/conftest.py``).
ALL_TESTS = ("-n", "4", "--dist", "loadscope", "--no-loadscope-reorder")
# Without the marked tests, and with fewer examples for properties that plan whole clusters (``tests/tiers.py``).
DAILY_TESTS = (*ALL_TESTS, "-m", "not all_only", "--hypothesis-profile", "daily")
_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER of prctl(2)
_GRACE_SECONDS = 10.0  # enough for a broker to flush its logs; what still runs then is killed
TIERS = {(): DAILY_TESTS, ("--all",): ALL_TESTS}


def run_checks(checks: tuple[tuple[str, ...], ...] = CHECKS) -> list[str]:
    """Run every check, even after a failure; returns the names of the failed checks."""
    failed = []
    for check in checks:
        name = " ".join(check)
        print(f"== {name}", flush=True)
        if subprocess.run([str(VENV / "bin" / check[0]), *check[1:]], cwd=HOME, check=False).returncode:
            failed.append(name)
    return failed


def main(arguments: list[str]) -> int:
    """Run checks and tests; returns the exit code."""
    tier = TIERS.get(tuple(arguments))
    failed = run_checks() if tier else []
    for name in failed:
        print(f"FAILED: {name}", flush=True)
    print("== pytest", flush=True)
    result = run_and_end_all([str(VENV / "bin" / "python"), "-m", "pytest", *(tier or arguments)])
    return result or int(bool(failed))


def run_and_end_all(command: list[str]) -> int:
    """Run a command; at its end, at Ctrl-C and at SIGTERM, nothing that it has started stays.

    Returns the exit code. Test servers have sessions of their own, so a terminal's signal does not reach them. Linux
    gives what has lost its parent to this process; other systems leave it.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    process = subprocess.Popen(command, cwd=HOME)
    try:
        while (ended := os.waitpid(-1, 0))[0] != process.pid:
            pass  # a process that had lost its parent
        return os.waitstatus_to_exitcode(ended[1])
    except KeyboardInterrupt:
        with suppress(subprocess.TimeoutExpired, KeyboardInterrupt):
            process.wait(_GRACE_SECONDS)  # the terminal has told it, too
        return 128 + signal.SIGINT
    finally:
        for impatient in (signal.SIGINT, signal.SIGTERM):
            signal.signal(impatient, signal.SIG_IGN)
        for number in (signal.SIGTERM, signal.SIGKILL):
            _end_children(number)


def _end_children(number: int) -> None:
    """Send a signal to all children until none is left, for some seconds; children of ended children become ours."""
    until = time.monotonic() + _GRACE_SECONDS
    told: set[int] = set()
    while (children := _children()) and time.monotonic() < until:
        for pid in children - told:
            with suppress(ProcessLookupError):
                os.kill(pid, number)
        told |= children
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        time.sleep(0.05)


def _children() -> set[int]:
    return {pid for pid, fields in process_stats().items() if int(fields[1]) == os.getpid()}


def process_stats() -> dict[int, list[bytes]]:
    """The fields of ``/proc/PID/stat`` after the name, by process; empty without /proc (macOS)."""
    stats = {}
    for pid in filter(str.isdigit, os.listdir("/proc") if os.path.isdir("/proc") else ()):
        with suppress(OSError), open(f"/proc/{pid}/stat", "rb") as file:  # an error: the process has ended
            stats[int(pid)] = file.read().rpartition(b")")[2].split()
    return stats


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
