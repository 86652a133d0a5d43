"""Replaces this process by the program that the scripts have prepared."""

import fcntl
import os
import shlex
import sys
from collections.abc import Mapping


def launch(command: list[str], environ: Mapping[str, str]) -> int:
    """Replace this process by a program; with BALLAST_DRY_RUN only print the command."""
    if not environ.get("BALLAST_DRY_RUN"):
        _append(sys.stderr.fileno())
        os.execve(command[0], command, environ)
    print(shlex.join(command))
    return 0


def _append(descriptor: int) -> None:
    """Make writes append: Java and the driver write to the same file, each at its own position."""
    fcntl.fcntl(descriptor, fcntl.F_SETFL, fcntl.fcntl(descriptor, fcntl.F_GETFL) | os.O_APPEND)
