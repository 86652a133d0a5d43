"""What every command of ./ballast does: settings, lines on standard output, and errors as exit codes."""

import argparse
import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from deltalake.exceptions import DeltaError

from optimizer.configuration import build, merge, read_toml
from optimizer.errors import BallastError
from optimizer.settings import Settings
from optimizer.shipped import defaults


def load_settings(options: argparse.Namespace) -> Settings:
    """Settings from the defaults, then the --config file, then the options."""
    content = merge(defaults(), read_toml(Path(options.config)) if options.config else {})
    overrides = {"storage": {"warehouse": options.warehouse}} if options.warehouse else {}
    return build(merge(content, overrides))


def print_line(line: str) -> None:
    """Print a line at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def print_lines(lines: Iterable[str]) -> None:
    """Print lines as they come, until the reader ends."""
    try:
        for line in lines:
            print_line(line)
    except BrokenPipeError:  # the reader, for example head, has ended; devnull takes Python's last flush
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def run_command(options: argparse.Namespace, run: Callable[[argparse.Namespace, Settings], int | None]) -> int:
    """Run a command with its settings; returns the exit code, 0 if the command returns none."""
    try:
        return run(options, load_settings(options)) or 0
    except BallastError as error:
        sys.stderr.write(f"error: {error}\n")
        return error.exit_code
    except (OSError, DeltaError) as error:
        sys.stderr.write(f"error: {type(error).__name__}: {' '.join(str(error).split())}\n")
        return BallastError.exit_code
    except KeyboardInterrupt:
        sys.stderr.write("error: interrupted; run the same command again to continue\n")
        return BallastError.exit_code
