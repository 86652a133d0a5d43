"""Runs one step of a wave, or all steps of all waves."""

import argparse
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from execution import claims
from execution.admin import KafkaAdmin
from execution.held import held_wave, with_own_rates
from execution.in_charge import in_charge
from execution.journal import wave_of
from execution.kafka_tools import KafkaTools
from execution.may_start import check_may_start
from execution.planned import Plan, load, plan_documents, wave_documents
from execution.rollback import roll_back, say_rollback
from execution.run import Limits, dry_run, run_waves
from execution.status import LOOK_SECONDS, status
from execution.steer_command import BYTES_PER_MB, steer_wave
from execution.steps import Execution
from execution.stored_snapshot import Snapshot, later_snapshot, planned_from
from execution.verify import joined, verify
from execution.wave import Wave, build_wave
from optimizer.errors import ConfigError
from optimizer.settings import Settings
from optimizer.similar import did_you_mean
from optimizer.units import SECONDS_PER_MINUTE
from sources.kafka_admin import properties_of
from sources.kafka_options import client_options
from stored.tables import Warehouse

_ANOTHER = "another plan was approved; read this plan and approve it"  # after a wrong --manifest
_EVEN_IF_REVOKED = ("off",)  # steps that only end a wave


def build_tools(options: argparse.Namespace, settings: Settings) -> KafkaTools:
    """Kafka's tools with the connection of the options, or else of the cluster in the --config file.

    Raises
    ------
    ConfigError
        When neither names bootstrap servers.
    """
    clusters = {cluster.id: cluster for cluster in settings.clusters}
    cluster = clusters.get(options.cluster)
    servers = options.bootstrap_server or (cluster.bootstrap_servers if cluster else "")
    if not servers:
        remedy = "give --bootstrap-server HOST:PORT, or set bootstrap_servers of [[clusters]]"
        similar = "" if cluster else did_you_mean(options.cluster, clusters)
        raise ConfigError(
            f"cluster {options.cluster!r} has no bootstrap servers: {remedy} {options.cluster!r} in --config{similar}"
        )
    properties = options.client_config or (cluster.client_config if cluster else "")
    return KafkaTools(servers, str(Path(properties).resolve()) if properties else "", options.kafka_bin)


def run_step(
    options: argparse.Namespace, settings: Settings, warehouse: Warehouse, plan: Plan, say: Callable[[str], None]
) -> None:
    """Run one step, if the plan is approved and unchanged."""
    tools = build_tools(options, settings)
    plan.check_manifest(options.manifest, _ANOTHER)
    plan.check_wave(options.wave)
    *earlier, wave = _waves(warehouse, plan, options)
    wave = with_own_rates(warehouse, plan, wave)
    if options.step != "status":
        plan.check_approved(even_if_revoked=options.step in _EVEN_IF_REVOKED)
    if options.step in ("preflight", "throttle"):
        check_may_start(warehouse, plan, wave.number, options.max_plan_age_hours)
    client = _client_of(tools)
    with KafkaAdmin(client) as admin:
        step = Execution(
            *(warehouse, plan, wave, earlier, tools, admin, client, say),
            is_strict=options.strict,
            accepts_risk=options.accept_under_replicated,
            any_dir=options.any_dir,
            disk_headroom=settings.policy.disk_headroom,
        )
        actions = {
            "preflight": step.preflight,
            "throttle": step.throttle,
            "execute": step.execute,
            "wait": lambda: step.wait(every_seconds=options.every, once=options.once),
            "off": lambda: step.off(cancel=options.on_failure == "cancel", accept_owed=options.accept_owed),
            "verify": step.verify,
            "elect": step.elect,
            "status": step.status,
        }
        actions[options.step]()


def run_plan(
    options: argparse.Namespace, settings: Settings, warehouse: Warehouse, plan: Plan, say: Callable[[str], None]
) -> None:
    """Execute the waves of a plan, if it is approved and unchanged; with ``dry_run`` only say what would be done."""
    tools = build_tools(options, settings)
    plan.check_manifest(options.manifest, _ANOTHER)
    first, last = options.waves or (1, len(plan.waves))
    plan.check_wave(first)
    plan.check_wave(last)
    waves = _built(warehouse, plan, range(1, last + 1))
    limits = Limits(
        first=first,
        last=last,
        until=options.until,
        for_seconds=_for_seconds(options),
        stall_seconds=options.stall_minutes * SECONDS_PER_MINUTE,
        max_hours=options.max_plan_age_hours,
    )
    with _execution(options, settings, warehouse, waves, plan, tools, say) as step:
        if options.dry_run:
            dry_run(step, waves, limits)
            return
        plan.check_approved()
        with _in_charge(step, options) as own:
            run_waves(own, waves, limits)


def run_rollback(
    options: argparse.Namespace, settings: Settings, warehouse: Warehouse, plan: Plan, say: Callable[[str], None]
) -> None:
    """Take waves of a plan back; with ``dry_run`` only say what would be done. A revoked approval is enough."""
    tools = build_tools(options, settings)
    plan.check_manifest(options.manifest, _ANOTHER)
    if options.wave is not None:
        plan.check_wave(options.wave)
    waves = _built(warehouse, plan, range(1, len(plan.waves) + 1))
    chosen = [wave.number for wave in waves] if options.all else [options.wave]
    limits = Limits(
        first=min(chosen),
        last=max(chosen),
        until=None,
        for_seconds=_for_seconds(options),
        stall_seconds=options.stall_minutes * SECONDS_PER_MINUTE,
        max_hours=None,
    )
    with _execution(options, settings, warehouse, waves, plan, tools, say) as step:
        if options.dry_run:
            say_rollback(step, waves, chosen)
            return
        plan.check_approved(even_if_revoked=True)
        with _in_charge(step, options) as own:
            by = options.by or claims.user_name()
            roll_back(own, waves, chosen, limits, by=by, accept_owed=options.accept_owed)


def _for_seconds(options: argparse.Namespace) -> float | None:
    return None if options.minutes is None else options.minutes * SECONDS_PER_MINUTE


@contextmanager
def _execution(
    options: argparse.Namespace,
    settings: Settings,
    warehouse: Warehouse,
    waves: Sequence[Wave],
    plan: Plan,
    tools: KafkaTools,
    say: Callable[[str], None],
) -> Iterator[Execution]:
    """The steps of the last of some waves, connected to the cluster."""
    client = _client_of(tools)
    with KafkaAdmin(client) as admin:
        yield Execution(
            *(warehouse, plan, waves[-1], waves[:-1], tools, admin, client, say),
            is_strict=options.strict,
            accepts_risk=options.accept_under_replicated,
            any_dir=options.any_dir,
            fix_dirs=options.fix_dirs,
            disk_headroom=settings.policy.disk_headroom,
            max_moves_per_broker=settings.execution.max_moves_per_broker,
            on_pressure=settings.execution.on_pressure,
            command=options.command,
        )


@contextmanager
def _in_charge(step: Execution, options: argparse.Namespace) -> Iterator[Execution]:
    """The steps of a process that is the only one to execute waves of the cluster."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl+C, so that the journal gets its last row
    with in_charge(step.warehouse, step.plan, take_over=options.take_over) as check:
        yield replace(step, check_in_charge=check)


def steer(options: argparse.Namespace, settings: Settings, warehouse: Warehouse, say: Callable[[str], None]) -> None:
    """Show or steer the wave that holds a cluster."""
    options.kafka_bin = ""
    tools = build_tools(options, settings)
    plan, wave = held_wave(warehouse, options.cluster)
    client = _client_of(tools)
    with KafkaAdmin(client) as admin:
        step = Execution(warehouse, plan, wave, (), tools, admin, client, say, command=options.command)
        if options.command != "status":
            steer_wave(step, options, settings.execution.max_throttle_mb_per_s * BYTES_PER_MB)
            return
        while True:
            now = status(step)
            for line in [now.to_json()] if options.json else now.lines():
                say(line)
            if not options.watch or not step.is_held():
                return
            time.sleep(LOOK_SECONDS)


def verify_plan(
    options: argparse.Namespace, settings: Settings, warehouse: Warehouse, say: Callable[[str], None]
) -> int:
    """Compare the cluster, or the snapshot of a later run, with a plan; returns the exit code."""
    options.kafka_bin = ""
    plan = load(warehouse, cluster_id=options.cluster, run_id=options.run_id)
    if options.later_run_id:
        snapshot = later_snapshot(warehouse, plan, options.later_run_id)
        waves = _built(warehouse, plan, plan.waves)
    else:
        tools = build_tools(options, settings)
        waves = _built(warehouse, plan, plan.waves)
        client = _client_of(tools)
        with KafkaAdmin(client) as admin:
            step = Execution(warehouse, plan, joined(waves), (), tools, admin, client, say)
            now = step.observe_settled()
            brokers = {broker for wave in waves for _, _, broker in wave.log_dirs} & now.alive
            snapshot = Snapshot("the cluster now", now, directories=admin.stored(brokers))
    result = verify(warehouse, plan, waves, planned_from(warehouse, plan), snapshot)
    for line in [result.to_json()] if options.json else result.lines():
        say(line)
    return result.exit_code


def _client_of(tools: KafkaTools) -> dict[str, object]:
    return client_options(properties_of(tools.client_config)) | {"bootstrap_servers": tools.bootstrap_servers}


def _waves(warehouse: Warehouse, plan: Plan, options: argparse.Namespace) -> list[Wave]:
    """The wave of a step; before it the earlier waves, if the step needs them.

    The step ``off`` needs no documents: what the wave was about to change is in the journal.
    """
    if options.step == "off":
        journal = claims.of_last_hold(warehouse, plan, options.wave)
        if journal and journal[0]["changes"]:
            return [wave_of(options.wave, journal[0]["changes"])]
    needs_earlier = options.step not in ("wait", "off", "verify", "status")
    return _built(warehouse, plan, range(1 if needs_earlier else options.wave, options.wave + 1))


def _built(warehouse: Warehouse, plan: Plan, numbers: Iterable[int]) -> list[Wave]:
    """Waves from the plan's documents."""
    irreversible = plan_documents(warehouse, plan, "rollback_not_possible")
    return [
        build_wave(number, plan.manifest, wave_documents(warehouse, plan, number), irreversible) for number in numbers
    ]
