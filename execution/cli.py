"""Runs the commands that show, approve and execute plans."""

import argparse
import re
from collections.abc import Sequence

from execution import claims, runs
from execution.approve import approve, revoke
from execution.command import print_line, print_lines, run_command
from execution.held import plan_to_end
from execution.options import STEERING, add_commands, parser_of
from execution.planned import load
from execution.show import as_json, show
from optimizer.errors import ConfigError
from optimizer.setting_checks import check_servers
from optimizer.settings import Settings
from stored.tables import Warehouse


def run(options: argparse.Namespace, settings: Settings) -> int:
    """Run the command of a command line; returns the exit code."""
    warehouse = Warehouse(settings.storage.warehouse)
    if options.command == "verify":
        return _verify(options, settings, warehouse)
    _run(options, settings, warehouse)
    return 0


def _run(options: argparse.Namespace, settings: Settings, warehouse: Warehouse) -> None:
    """Run a command whose only results are its lines, and its errors."""
    if options.command == "show":
        _show(options, warehouse)
        return
    if options.command == "report":
        _report(options, warehouse)
        return
    if options.command in STEERING:
        if options.bootstrap_server:
            check_servers("--bootstrap-server", options.bootstrap_server)
        from execution.run_step import steer  # only these commands need the Kafka client

        steer(options, settings, warehouse, print_line)
        return
    if options.manifest and not re.fullmatch(r"[0-9a-f]{8,64}", options.manifest):
        raise ConfigError(f"--manifest {options.manifest!r}: give 8 or more of the first characters of the sha256")
    if options.command in ("run", "rollback", "wave") and options.bootstrap_server:
        check_servers("--bootstrap-server", options.bootstrap_server)
    is_off = options.command == "wave" and options.step == "off"
    plan = (plan_to_end if is_off else load)(warehouse, cluster_id=options.cluster, run_id=options.run_id)
    if options.command == "approve":
        by, max_hours = options.by or claims.user_name(), options.max_plan_age_hours
        print_line(approve(warehouse, plan, manifest_sha256=options.manifest, by=by, max_hours=max_hours))
    elif options.command == "revoke":
        by = options.by or claims.user_name()
        print_line(revoke(warehouse, plan, manifest_sha256=options.manifest, by=by))
    else:
        # Only these commands need the Kafka client: 0.2 s of CPU.
        from execution.run_step import run_plan, run_rollback, run_step

        action = {"run": run_plan, "rollback": run_rollback}.get(options.command, run_step)
        action(options, settings, warehouse, plan, print_line)


def _verify(options: argparse.Namespace, settings: Settings, warehouse: Warehouse) -> int:
    """Compare a plan with the cluster, or with a later snapshot."""
    if options.bootstrap_server:
        check_servers("--bootstrap-server", options.bootstrap_server)
    if options.later_run_id and (options.bootstrap_server or options.client_config):
        raise ConfigError("--later-run-id reads only tables: give it without --bootstrap-server and --client-config")
    from execution.run_step import verify_plan  # it needs the Kafka client

    return verify_plan(options, settings, warehouse, print_line)


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


def _report(options: argparse.Namespace, warehouse: Warehouse) -> None:
    if options.all and options.cluster is not None:
        raise ConfigError("--cluster names a cluster of one run: give it with --run-id, not with --all")
    # Only this command needs the templates: 0.1 s of CPU.
    if options.all:
        from execution.site import write_site

        print_line(write_site(warehouse, options.to))
    else:
        from execution.export import export_run

        print_lines(export_run(warehouse, options.run_id, options.cluster, options.to))


def main(arguments: Sequence[str]) -> int:
    """Run a command; returns the exit code."""
    return run_command(parser_of([add_commands]).parse_args(arguments), run)
