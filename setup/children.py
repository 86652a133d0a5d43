"""Processes below this one: after a program has ended, nothing that it has started stays."""

import ctypes
import os
import signal
import sys
import time
from contextlib import suppress

_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER of prctl(2)
GRACE_SECONDS = 10.0  # enough for a broker to flush its logs; what still runs then is killed


def adopt_orphans() -> None:
    """Children of ended children become ours; only Linux can do that."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)


def end_children() -> None:
    """End all children, and ignore signals from now on; what has not ended after some seconds is killed."""
    for impatient in (signal.SIGINT, signal.SIGTERM):
        signal.signal(impatient, signal.SIG_IGN)
    for number in (signal.SIGTERM, signal.SIGKILL):
        _signal_children(number)


def _signal_children(number: int) -> None:
    """Send a signal to all children until none is left, for some seconds; children of ended children become ours."""
    until = time.monotonic() + GRACE_SECONDS
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
