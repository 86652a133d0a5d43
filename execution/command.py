"""What every command of ./ballast does: settings, lines on standard output, and errors as exit codes."""

import argparse
import os
import re
import shlex
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from deltalake.exceptions import DeltaError

from execution.options import ON_CLUSTERS
from optimizer.configuration import build, merge, read_toml
from optimizer.errors import BallastError
from optimizer.settings import Settings
from optimizer.shipped import defaults
from stored.tables import one_line


def load_settings(options: argparse.Namespace) -> Settings:
    """Settings from the defaults, then the --config file, then the options."""
    content = merge(defaults(), read_toml(Path(options.config)) if options.config else {})
    overrides = {"storage": {"warehouse": options.warehouse}} if options.warehouse else {}
    return build(merge(content, overrides))


# Options that say where warehouse and cluster are; a command of a message needs those that its reader gave.
_WHERE = ("config", "warehouse", "bootstrap_server", "client_config")
_given: list[tuple[str, str]] = []  # these options of this command line


def remember_where(options: argparse.Namespace) -> None:
    """Keep the options that say where warehouse and cluster are, for the commands in messages."""
    names = [name for name in _WHERE if getattr(options, name, None)]
    is_new = getattr(options, "new_cluster_id", False)
    _given[:] = [(f"--{name.replace('_', '-')}", shlex.quote(getattr(options, name))) for name in names]
    _given.extend([("--new-cluster-id", "")] if is_new else [])


def typable(text: str) -> str:
    """The text with the given options in each command of ``./ballast``, so that a reader can type it as printed."""

    def with_options(match: re.Match[str]) -> str:
        has_cluster = match[1].split()[0] in ON_CLUSTERS
        options = _given if has_cluster else [pair for pair in _given if pair[0] in ("--config", "--warehouse")]
        return " ".join([match[0], *(word for pair in options for word in pair if word)])

    return re.sub(r"\./ballast (wave \w+|uncordon \d+|create \S+|[a-z]+)(?= --)", with_options, text)


def print_line(line: str) -> None:
    """Print a line at once, with commands that can be typed."""
    _write(typable(line))


def _write(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _print_error(text: str) -> None:
    sys.stderr.write(f"{typable(text)}\n")


def print_lines(lines: Iterable[str]) -> None:
    """Print lines as they come and as they are, until the reader ends."""
    try:
        for line in lines:
            _write(line)
    except BrokenPipeError:  # the reader, for example head, has ended; devnull takes Python's last flush
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def run_command(options: argparse.Namespace, run: Callable[[argparse.Namespace, Settings], int | None]) -> int:
    """Run a command with its settings; returns the exit code, 0 if the command returns none."""
    remember_where(options)
    try:
        return run(options, load_settings(options)) or 0
    except BallastError as error:
        _print_error("\n".join((f"error: {error}", *getattr(error, "__notes__", ()))))
        return error.exit_code
    except (OSError, DeltaError) as error:
        sys.stderr.write(f"error: {type(error).__name__}: {one_line(error)}\n")
        return BallastError.exit_code
    except KeyboardInterrupt as error:
        lines = ("error: interrupted; run the same command again to continue", *getattr(error, "__notes__", ()))
        _print_error("\n".join(lines))
        return BallastError.exit_code
