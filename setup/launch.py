"""Starts what the scripts prepare for: this process becomes the program."""

import fcntl
import os
import shlex
import sys
from collections.abc import Mapping


def launch(command: list[str], environ: Mapping[str, str]) -> int:
    """Become a program; only print its command where BALLAST_DRY_RUN is set."""
    if not environ.get("BALLAST_DRY_RUN"):
        _append(sys.stderr.fileno())
        os.execve(command[0], command, environ)
    print(shlex.join(command))
    return 0


def _append(descriptor: int) -> None:
    """Let every process write at the end: Java and the driver open the same file, each with a position of its own."""
    fcntl.fcntl(descriptor, fcntl.F_SETFL, fcntl.fcntl(descriptor, fcntl.F_GETFL) | os.O_APPEND)
