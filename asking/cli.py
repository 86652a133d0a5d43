"""Runs the commands that answer questions and turns errors into exit codes."""

import argparse
from collections.abc import Sequence

from asking.compare import compare_runs
from asking.options import add_commands
from execution.command import print_lines, run_command
from execution.options import parser_of
from execution.tables import Warehouse
from optimizer.settings import Settings


def run(options: argparse.Namespace, settings: Settings) -> None:
    """Run the command of a command line."""
    warehouse = Warehouse(settings.storage.warehouse)
    if options.command == "compare":
        print_lines(compare_runs(options, warehouse))


def main(arguments: Sequence[str]) -> int:
    """Run a command; returns the exit code."""
    return run_command(parser_of([add_commands]).parse_args(arguments), run)
