"""Runs the commands of ./ballast and turns errors into exit codes."""

import argparse
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from deltalake.exceptions import DeltaError

from execution import claims, runs
from execution.approve import approve
from execution.options import parser
from execution.planned import load
from execution.show import as_json, show
from execution.tables import Warehouse
from optimizer.configuration import build, merge, read_toml
from optimizer.errors import BallastError, ConfigError
from optimizer.setting_checks import check_servers
from optimizer.settings import Settings
from optimizer.shipped import defaults


def load_settings(options: argparse.Namespace) -> Settings:
    """Settings from the defaults, then the --config file, then the options."""
    content = merge(defaults(), read_toml(Path(options.config)) if options.config else {})
    overrides = {"storage": {"warehouse": options.warehouse}} if options.warehouse else {}
    return build(merge(content, overrides))


def run(options: argparse.Namespace) -> None:
    """Run the command of a command line."""
    settings = load_settings(options)
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
        _print_line(approve(warehouse, plan, manifest_sha256=options.manifest, by=options.by or claims.user_name()))
    else:
        from execution.run_step import run_step  # only this command needs the Kafka client: 0.2 s of CPU

        run_step(options, settings, warehouse, plan, _print_line)


def _show(options: argparse.Namespace, warehouse: Warehouse) -> None:
    if options.run_id is None:
        lines = [runs.as_json(warehouse, options.cluster)] if options.json else runs.table(warehouse, options.cluster)
    elif options.json and options.cluster is None:
        raise ConfigError("--json with --run-id reports one cluster: name it with --cluster ID")
    elif options.json:
        lines = [as_json(warehouse, options.run_id, options.cluster)]
    else:
        lines = show(warehouse, options.run_id, options.cluster)
    try:
        for line in lines:
            _print_line(line)
    except BrokenPipeError:  # the reader, for example head, has ended; devnull takes Python's last flush
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _print_line(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main(arguments: Sequence[str]) -> int:
    """Run a command; returns the exit code."""
    options = parser().parse_args(arguments)
    try:
        run(options)
    except BallastError as error:
        sys.stderr.write(f"error: {error}\n")
        return error.exit_code
    except (OSError, DeltaError) as error:
        sys.stderr.write(f"error: {type(error).__name__}: {' '.join(str(error).split())}\n")
        return BallastError.exit_code
    except KeyboardInterrupt:
        sys.stderr.write("error: interrupted; run the same command again to continue\n")
        return BallastError.exit_code
    return 0
