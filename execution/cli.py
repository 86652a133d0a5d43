"""Runs the commands that show, approve and execute plans."""

import argparse
import re
from collections.abc import Sequence

from execution import claims, runs
from execution.approve import approve
from execution.command import print_line, print_lines, run_command
from execution.options import add_commands, parser_of
from execution.planned import load
from execution.show import as_json, show
from execution.tables import Warehouse
from optimizer.errors import ConfigError
from optimizer.setting_checks import check_servers
from optimizer.settings import Settings


def run(options: argparse.Namespace, settings: Settings) -> None:
    """Run the command of a command line."""
    warehouse = Warehouse(settings.storage.warehouse)
    if options.command == "show":
        _show(options, warehouse)
        return
    if options.manifest and not re.fullmatch(r"[0-9a-f]{8,64}", options.manifest):
        raise ConfigError(f"--manifest {options.manifest!r}: give 8 or more of the first characters of the sha256")
    if options.command == "wave" and options.bootstrap_server:
        check_servers("--bootstrap-server", options.bootstrap_server)
    plan = load(warehouse, cluster_id=options.cluster, run_id=options.run_id)
    if options.command == "approve":
        print_line(approve(warehouse, plan, manifest_sha256=options.manifest, by=options.by or claims.user_name()))
    else:
        from execution.run_step import run_step  # only this command needs the Kafka client: 0.2 s of CPU

        run_step(options, settings, warehouse, plan, print_line)


def _show(options: argparse.Namespace, warehouse: Warehouse) -> None:
    if options.run_id is None:
        lines = [runs.as_json(warehouse, options.cluster)] if options.json else runs.table(warehouse, options.cluster)
    elif options.json and options.cluster is None:
        raise ConfigError("--json with --run-id reports one cluster: name it with --cluster ID")
    elif options.json:
        lines = [as_json(warehouse, options.run_id, options.cluster)]
    else:
        lines = show(warehouse, options.run_id, options.cluster)
    print_lines(lines)


def main(arguments: Sequence[str]) -> int:
    """Run a command; returns the exit code."""
    return run_command(parser_of([add_commands]).parse_args(arguments), run)
