"""Runs the commands that answer questions and turns errors into exit codes.

Each command loads its own packages: the solver takes 0.5 s of CPU.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

from asking.options import add_commands
from execution.command import print_lines, run_command
from execution.options import parser_of
from optimizer.errors import ConfigError
from optimizer.settings import Settings
from stored.tables import Warehouse


def run(options: argparse.Namespace, settings: Settings) -> None:
    """Run the command of a command line."""
    warehouse = Warehouse(settings.storage.warehouse)
    for option in ("html", "to"):
        if getattr(options, option, None):
            _check_page(f"--{option}", getattr(options, option))
    if options.command == "ask":
        from asking.ask import ask

        print_lines(ask(options, warehouse))
    elif options.command == "place":
        from asking.place import place_lines

        print_lines(place_lines(options, warehouse))
    elif options.command == "judge":
        from asking.judge.judge import judge

        print_lines(judge(options, warehouse))
    else:
        from asking.compare import compare_runs

        print_lines(compare_runs(options, warehouse))


def _check_page(option: str, name: str) -> None:
    path = Path(name).absolute()
    if path.is_dir():
        raise ConfigError(f"{option} {name}: this is a folder; name a file")
    if not path.parent.is_dir():
        raise ConfigError(f"{option} {name}: the folder does not exist; create it first")


def main(arguments: Sequence[str]) -> int:
    """Run a command; returns the exit code."""
    return run_command(parser_of([add_commands]).parse_args(arguments), run)
