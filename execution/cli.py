"""Runs the commands that show, approve and execute plans."""

import argparse
import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path

from execution import journal
from execution.approve import approve, revoke
from execution.by_rules import approve_by_rules, check_options, has_nothing_to_do
from execution.command import print_line, print_lines, run_command
from execution.held import plan_to_end
from execution.options import STEERING, add_commands, parser_of
from execution.planned import load
from execution.show import as_json, runs_as_json, runs_table, show
from optimizer.errors import ConfigError
from optimizer.setting_checks import check_servers
from optimizer.settings import Settings, Storage
from stored.runs import last_run
from stored.tables import Warehouse


def run(options: argparse.Namespace, settings: Settings) -> int:
    """Run the command of a command line; returns the exit code."""
    warehouse = Warehouse(settings.storage.warehouse)
    if options.command == "verify":
        return _verify(options, settings, warehouse)
    if options.command == "approve":
        check_options(options)
        if options.by_rules:
            return approve_by_rules(options, settings, warehouse, print_line)
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
    if options.command == "tidy":
        _tidy(options, settings.storage)
        return
    if options.command in (*STEERING, "uncordon", "create"):
        if options.bootstrap_server:
            check_servers("--bootstrap-server", options.bootstrap_server)
        if options.command == "create":
            _check_sha256("--sha256", options.sha256)
        from execution.run_step import create_placed, steer, uncordon  # only these commands need the Kafka client

        of_cluster = {"uncordon": uncordon, "create": create_placed}.get(options.command, steer)
        of_cluster(options, settings, warehouse, print_line)
        return
    if options.manifest:
        _check_sha256("--manifest", options.manifest)
    if options.command in ("run", "rollback", "wave") and options.bootstrap_server:
        check_servers("--bootstrap-server", options.bootstrap_server)
    if options.command == "run" and has_nothing_to_do(warehouse, options.run_id, options.cluster):
        print_line(f"{options.cluster}: nothing to do")
        return
    is_off = options.command == "wave" and options.step == "off"
    key = {"cluster_id": options.cluster, "run_id": options.run_id}
    ledger = journal.Journal(warehouse, options.cluster).look() if is_off else None
    plan = plan_to_end(warehouse, ledger, **key) if ledger else load(warehouse, **key)
    if options.command == "approve":
        by, max_hours = options.by or journal.user_name(), options.max_plan_age_hours
        manifest, config = options.manifest, options.config
        print_line(approve(warehouse, plan, manifest_sha256=manifest, by=by, max_hours=max_hours, config=config))
    elif options.command == "revoke":
        by = options.by or journal.user_name()
        print_line(revoke(warehouse, plan, manifest_sha256=options.manifest, by=by))
    else:
        # Only these commands need the Kafka client: 0.2 s of CPU.
        from execution.run_step import run_plan, run_rollback, run_step

        action = {"run": run_plan, "rollback": run_rollback}.get(options.command, run_step)
        action(options, settings, warehouse, plan, print_line)


def _check_sha256(option: str, text: str) -> None:
    if not re.fullmatch(r"[0-9a-f]{8,64}", text):
        raise ConfigError(f"{option} {text!r}: give 8 or more of the first characters of the sha256")


def _verify(options: argparse.Namespace, settings: Settings, warehouse: Warehouse) -> int:
    """Compare a plan with the cluster, or with a later snapshot."""
    if options.bootstrap_server:
        check_servers("--bootstrap-server", options.bootstrap_server)
    if options.later_run_id and (options.bootstrap_server or options.client_config):
        raise ConfigError("--later-run-id reads only tables: give it without --bootstrap-server and --client-config")
    from execution.run_step import verify_plan  # it needs the Kafka client

    return verify_plan(options, settings, warehouse, print_line)


def _show(options: argparse.Namespace, warehouse: Warehouse) -> None:
    if options.all and options.run_id is not None:
        raise ConfigError("--all lists runs, --run-id shows one: give one of them")
    if options.all or (options.run_id is None and options.cluster is None):
        lines = [runs_as_json(warehouse, options.cluster)] if options.json else runs_table(warehouse, options.cluster)
    elif options.json and options.cluster is None:
        raise ConfigError("--json with --run-id reports one cluster: name it with --cluster ID")
    else:
        run_id = last_run(warehouse, options.cluster) if options.run_id is None else options.run_id
        named = [f"run {run_id}"] if options.run_id is None else []
        if options.json:
            lines = [as_json(warehouse, run_id, options.cluster)]
        else:
            lines = chain(named, show(warehouse, run_id, options.cluster))
    print_lines(lines)


def _report(options: argparse.Namespace, warehouse: Warehouse) -> None:
    if options.all and options.cluster is not None:
        raise ConfigError("--cluster names a cluster of one run: give it with --run-id, not with --all")
    # Only this command needs the templates: 0.1 s of CPU.
    if options.all:
        from execution.site import write_site

        print_line(write_site(warehouse, options.to))
    else:
        from execution.site import export_run

        print_lines(export_run(warehouse, options.run_id, options.cluster, options.to))


def _tidy(options: argparse.Namespace, storage: Storage) -> None:
    from execution.tidy import Limits, tidy  # only this command needs it

    limits = Limits(
        keep_days=options.keep_days,
        history_days=options.history_days,
        now=datetime.now(tz=UTC),
        keep_runs=tuple(options.keep_run),
    )
    problems = [*limits.problems()]
    if options.output:
        storage = replace(storage, output=options.output)
        if not Path(options.output).is_dir():
            problems.append(f"--output {options.output}: there is no such folder on this machine")
    if problems:
        raise ConfigError(*problems)
    tidy(storage, limits, dry_run=options.dry_run, say=print_line)


def main(arguments: Sequence[str]) -> int:
    """Run a command; returns the exit code."""
    return run_command(parser_of([add_commands]).parse_args(arguments), run)
