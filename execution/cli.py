"""The commands of ./ballast: what each does, and errors to exit codes."""

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
from optimizer.settings import Settings
from optimizer.shipped import defaults


def settings_of(options: argparse.Namespace) -> Settings:
    """Defaults, file and options."""
    content = merge(defaults(), read_toml(Path(options.config)) if options.config else {})
    over = {"storage": {"warehouse": options.warehouse}} if options.warehouse else {}
    return build(merge(content, over))


def run(options: argparse.Namespace) -> None:
    """Do what is asked."""
    settings = settings_of(options)
    warehouse = Warehouse(settings.storage.warehouse)
    if options.command == "show":
        _show(options, warehouse)
        return
    if options.manifest and not re.fullmatch(r"[0-9a-f]{8,64}", options.manifest):
        raise ConfigError(f"--manifest {options.manifest!r}: give the first 8 or more characters of the sha256")
    plan = load(warehouse, cluster_id=options.cluster, run_id=options.run_id)
    if options.command == "approve":
        _say(approve(warehouse, plan, manifest_sha256=options.manifest, by=options.by or claims.user()))
    else:
        from execution.run_step import run_step  # here, because the other commands need no Kafka client: 0.2 s of CPU

        run_step(options, settings, warehouse, plan, _say)


def _show(options: argparse.Namespace, warehouse: Warehouse) -> None:
    if options.run_id is None:
        lines = [runs.as_json(warehouse, options.cluster)] if options.json else runs.table(warehouse, options.cluster)
    elif options.json and options.cluster is None:
        raise ConfigError("--json of one run is of one cluster: name it with --cluster ID")
    elif options.json:
        lines = [as_json(warehouse, options.run_id, options.cluster)]
    else:
        lines = show(warehouse, options.run_id, options.cluster)
    try:
        for line in lines:
            _say(line)
    except BrokenPipeError:  # the reader, say head, wants no more; Python would flush again at its end
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main(arguments: Sequence[str]) -> int:
    """Run; returns the exit code."""
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
        sys.stderr.write("error: ended by hand; the same step goes on from here\n")
        return BallastError.exit_code
    return 0
