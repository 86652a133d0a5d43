"""Runs one step of a wave, or all steps of all waves."""

import argparse
import json
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from deltalake.exceptions import DeltaError

from execution.admin import KafkaAdmin, NoController, refuse_other_cluster
from execution.create import create
from execution.held import held_wave, holding, with_own_rates
from execution.in_charge import in_charge
from execution.journal import Journal, WaveId, user_name
from execution.kafka_tools import KafkaTools
from execution.observed import report_long_wait
from execution.planned import Plan, load, plan_documents, wave_documents
from execution.progress import describe_throttles
from execution.rollback import give_up, roll_back, say_rollback
from execution.run import Limits, dry_run, run_waves
from execution.status import LOOK_SECONDS, finished_copies, journal_lines, of_journal, status
from execution.steer_command import BYTES_PER_MB, steer_wave
from execution.steps import Execution, Shared
from execution.stored_snapshot import Snapshot, later_snapshot, planned_from
from execution.throttles import follower_elements
from execution.verify import joined, verify
from execution.watch import Stopped
from execution.wave import NO_WAVE, Wave, build_wave
from optimizer.errors import BallastError, ConfigError, InputError
from optimizer.settings import AUTO, Settings
from optimizer.similar import did_you_mean
from optimizer.units import SECONDS_PER_MINUTE
from sources.kafka_admin import properties_of
from sources.kafka_options import client_options
from stored.tables import Warehouse
from stored.verdicts import Refused

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
    journal = Journal(warehouse, plan.cluster_id)
    *earlier, wave = _waves(journal, plan, options)
    wave = with_own_rates(journal.look().hold_of(plan, wave.id), wave)
    if options.step != "status":
        plan.check_approved(even_if_revoked=options.step in _EVEN_IF_REVOKED)
    if options.step in ("preflight", "throttle"):
        journal.look().check_may_start(plan, wave.id, options.max_plan_age_hours)
    client = _client_of(tools)
    with KafkaAdmin(client) as admin:
        step = Execution(
            *(warehouse, plan, wave, earlier, tools, admin, client, say),
            is_strict=options.strict,
            accepts_risk=options.accept_under_replicated,
            any_dir=options.any_dir,
            disk_headroom=settings.policy.disk_headroom,
            cordons_drained=settings.execution.cordon == AUTO,
            cordons_anyway=options.cordon_anyway,
            shared=Shared(journal),
        )
        check_cluster(step, accepts_new=options.new_cluster_id)
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
        with saying_what_is_left(step):
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
    waves = _built(warehouse, plan, range(1, len(plan.waves) + 1))
    journal = Journal(warehouse, plan.cluster_id)
    limits = Limits(
        first=first,
        last=last,
        until=options.until,
        for_seconds=_for_seconds(options),
        stall_seconds=options.stall_minutes * SECONDS_PER_MINUTE,
        max_hours=options.max_plan_age_hours,
    )
    with _execution(options, settings, journal, waves, plan, tools, say) as step:
        begun = step.ledger.rollback_of(plan)
        going_on = None if options.forward else begun
        if going_on:
            step.say(f"{going_on.describe()}, so it goes on; --forward ends it instead, and executes the waves")
        if options.dry_run:
            if going_on:
                say_rollback(step, waves, going_on.waves)
            else:
                dry_run(step, waves, limits)
            return
        plan.check_approved(even_if_revoked=going_on is not None)
        with _in_charge(step, options) as own:
            if going_on:
                roll_back(own, waves, going_on.waves, limits, by=going_on.by, accept_owed=False)
                raise Stopped("the rollback has ended: run the command again to execute the waves")
            if begun:
                give_up(own, by=user_name())
            run_waves(own, waves, limits)


def run_rollback(
    options: argparse.Namespace, settings: Settings, warehouse: Warehouse, plan: Plan, say: Callable[[str], None]
) -> None:
    """Take waves of a plan back; with ``dry_run`` only say what would be done. A revoked approval is enough."""
    tools = build_tools(options, settings)
    plan.check_manifest(options.manifest, _ANOTHER)
    if options.wave is not None:
        plan.check_wave(options.wave)
    journal = Journal(warehouse, plan.cluster_id)
    waves = _built_or_held(journal, plan)
    chosen = [wave.number for wave in waves] if options.all else [options.wave]
    limits = Limits(
        first=min(chosen),
        last=max(chosen),
        until=None,
        for_seconds=_for_seconds(options),
        stall_seconds=options.stall_minutes * SECONDS_PER_MINUTE,
        max_hours=None,
    )
    with _execution(options, settings, journal, waves, plan, tools, say) as step:
        if options.dry_run:
            say_rollback(step, waves, chosen)
            return
        plan.check_approved(even_if_revoked=True)
        with _in_charge(step, options) as own:
            by = options.by or user_name()
            roll_back(own, waves, chosen, limits, by=by, accept_owed=options.accept_owed)


def _for_seconds(options: argparse.Namespace) -> float | None:
    return None if options.minutes is None else options.minutes * SECONDS_PER_MINUTE


@contextmanager
def _execution(
    options: argparse.Namespace,
    settings: Settings,
    journal: Journal,
    waves: Sequence[Wave],
    plan: Plan,
    tools: KafkaTools,
    say: Callable[[str], None],
) -> Iterator[Execution]:
    """The steps of the last of some waves, connected to the cluster."""
    client = _client_of(tools)
    with KafkaAdmin(client) as admin:
        step = Execution(
            *(journal.warehouse, plan, waves[-1], waves[:-1], tools, admin, client, say),
            is_strict=options.strict,
            accepts_risk=options.accept_under_replicated,
            any_dir=options.any_dir,
            fix_dirs=options.fix_dirs,
            disk_headroom=settings.policy.disk_headroom,
            max_moves_per_broker=settings.execution.max_moves_per_broker,
            on_pressure=settings.execution.on_pressure,
            command=options.command,
            cordons_drained=settings.execution.cordon == AUTO,
            cordons_anyway=getattr(options, "cordon_anyway", False),  # rollback has no such option
            accepts_owed=getattr(options, "accept_owed", False),  # run has no such option
            shared=Shared(journal),
        )
        check_cluster(step, accepts_new=options.new_cluster_id)
        with saying_what_is_left(step):
            step.check_rights(waves)
            yield step


@contextmanager
def _in_charge(step: Execution, options: argparse.Namespace) -> Iterator[Execution]:
    """The steps of a process that is the only one to execute waves of the cluster."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl+C, so that the journal gets its last row
    with in_charge(step.journal, step.plan, take_over=options.take_over) as check:
        yield replace(step, check_in_charge=check)


def check_cluster(step: Execution, *, accepts_new: bool) -> None:
    """Raise ``ConfigError`` if the brokers are those of another cluster than the plan's, by Kafka's own id.

    The id is that of the wave that holds the cluster, or else of the plan's snapshot, or else of the plan's last hold.

    Parameters
    ----------
    accepts_new : bool
        Whether the cluster may have another id, because it was built again.
    """
    ledger, plan = step.ledger, step.plan
    holds = [hold for hold in ledger.holds.values() if hold.is_of(plan) and hold.kafka_cluster_id]
    last = max(holds, key=lambda hold: int(hold.first["number"]), default=None)
    held = ledger.holder.kafka_cluster_id if ledger.holder else None
    own_id = held or plan.manifest.get("kafka_cluster_id") or (last.kafka_cluster_id if last else None)
    with report_long_wait(step.client, step.say):
        found = step.admin.kafka_cluster_id()
    if not accepts_new:
        source = f"{ledger.holder.wave.name} holds" if held and ledger.holder else f"run {plan.run_id!r} was made for"
        refuse_other_cluster(step.client, found, own_id, source, plan.cluster_id)


@contextmanager
def saying_what_is_left(step: Execution) -> Iterator[None]:
    """Add to each error what it leaves: whether a wave holds the cluster, throttles that are set, the next command."""
    try:
        yield
    except (BallastError, OSError, DeltaError, KeyboardInterrupt) as error:
        for line in what_is_left(step, looks=not isinstance(error, KeyboardInterrupt)):
            error.add_note(line)
        raise


def what_is_left(step: Execution, *, looks: bool = True) -> list[str]:
    """Held or free, the wave's throttles that are set, and the command that goes on; nothing if no wave ever began.

    Parameters
    ----------
    looks : bool
        Whether to ask the cluster for its throttles: a cluster that does not answer takes a minute.
    """
    ledger = step.ledger
    hold = ledger.holder
    if hold is None:
        return (
            ["the cluster is free: no wave holds it"] if any(h.is_of(step.plan) for h in ledger.holds.values()) else []
        )
    command = ledger.going_on(hold.cluster_id, hold.run_id)
    lines = [
        f"held: {hold.describe()}",
        f"to go on: {command}; to end it: ./ballast cancel --cluster {hold.cluster_id}",
    ]
    if hold.has_changes and hold.is_of(step.plan):
        throttles = "throttles: the cluster was not asked, so some may be set"
        if looks:
            of_wave = step.on(holding(step.journal, hold))
            with suppress(BallastError):
                now = of_wave.observe()
                needed = of_wave.wave.without(follower_elements(finished_copies(of_wave.wave, now)))
                throttles = describe_throttles(needed, now)
        lines.insert(1, throttles)
    return lines


def steer(options: argparse.Namespace, settings: Settings, warehouse: Warehouse, say: Callable[[str], None]) -> None:
    """Show or steer the wave that holds a cluster."""
    options.kafka_bin = ""
    tools = build_tools(options, settings)
    journal = Journal(warehouse, options.cluster)
    if options.command == "status" and not journal.look().holder:
        _say_journal(options, journal, say)
        return
    plan, wave, journal = held_wave(warehouse, options.cluster)
    client = _client_of(tools)
    with KafkaAdmin(client) as admin:
        step = Execution(
            *(warehouse, plan, wave, (), tools, admin, client, say), command=options.command, shared=Shared(journal)
        )
        if options.command != "status":
            check_cluster(step, accepts_new=options.new_cluster_id)
            with saying_what_is_left(step):
                steer_wave(step, options, settings.execution.max_throttle_mb_per_s * BYTES_PER_MB)
            return
        while True:
            try:
                check_cluster(step, accepts_new=options.new_cluster_id)
                now = status(step)
            except (InputError, NoController):
                _say_journal(options, journal, say)
                raise
            for line in [now.to_json()] if options.json else now.lines():
                say(line)
            if not options.watch or not step.is_held():
                return
            time.sleep(LOOK_SECONDS)


def uncordon(options: argparse.Namespace, settings: Settings, warehouse: Warehouse, say: Callable[[str], None]) -> None:
    """End the cordon that a run has set on a broker; no plan, approval or wave is needed."""
    options.kafka_bin = ""
    tools = build_tools(options, settings)
    journal = Journal(warehouse, options.cluster)
    cordons = journal.look().cordons
    cordon = cordons.get(options.broker)
    if cordon is None:
        others = ", ".join(map(str, cordons)) or "none"
        raise Refused(
            f"no run has cordoned broker {options.broker} of cluster {options.cluster!r} (cordoned are: {others})"
        )
    plan = Plan(options.cluster, cordon.run_id, {"kafka_cluster_id": cordon.kafka_cluster_id, "waves": {}}, "", ())
    client = _client_of(tools)
    with KafkaAdmin(client) as admin:
        step = Execution(*(warehouse, plan, NO_WAVE, (), tools, admin, client, say), shared=Shared(journal))
        check_cluster(step, accepts_new=options.new_cluster_id)
        step.uncordon([options.broker], accept_owed=options.accept_owed, by=user_name())


def create_placed(options: argparse.Namespace, settings: Settings, _: Warehouse, say: Callable[[str], None]) -> None:
    """Create what a document of ``./ballast place`` has."""
    options.kafka_bin = ""
    create(options, _client_of(build_tools(options, settings)), say)


def _say_journal(options: argparse.Namespace, journal: Journal, say: Callable[[str], None]) -> None:
    """What the journal alone knows of a cluster."""
    known = of_journal(journal.warehouse, options.cluster, journal.look())
    for line in [json.dumps(known)] if options.json else journal_lines(known):
        say(line)


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
        journal = Journal(warehouse, plan.cluster_id)
        waves = _built_or_held(journal, plan)
        client = _client_of(tools)
        with KafkaAdmin(client) as admin:
            step = Execution(*(warehouse, plan, joined(waves), (), tools, admin, client, say), shared=Shared(journal))
            check_cluster(step, accepts_new=options.new_cluster_id)
            now = step.observe_settled()
            brokers = {broker for wave in waves for _, _, broker in wave.log_dirs} & now.alive
            snapshot = Snapshot("the cluster now", now, directories=admin.stored(brokers))
    result = verify(warehouse, plan, waves, planned_from(warehouse, plan), snapshot)
    for line in [result.to_json()] if options.json else result.lines():
        say(line)
    return result.exit_code


def _client_of(tools: KafkaTools) -> dict[str, object]:
    return client_options(properties_of(tools.client_config)) | {"bootstrap_servers": tools.bootstrap_servers}


def _waves(journal: Journal, plan: Plan, options: argparse.Namespace) -> list[Wave]:
    """The wave of a step; before it the earlier waves, if the step needs them.

    The step ``off`` needs no documents: what the wave was about to change is in the journal.
    """
    if options.step == "off":
        hold = journal.look().last_hold_of(plan, WaveId(options.wave))
        if hold and hold.has_changes and journal.changes(hold):
            return [holding(journal, hold)]
    needs_earlier = options.step not in ("wait", "off", "verify", "status")
    return _built(journal.warehouse, plan, range(1 if needs_earlier else options.wave, options.wave + 1))


def _built_or_held(journal: Journal, plan: Plan) -> list[Wave]:
    """All waves, for commands that compare or take back; a changed document does not matter if its wave was held.

    Raises
    ------
    Refused
        When a document of a wave that never held the cluster is missing or was changed.
    """
    try:
        return _built(journal.warehouse, plan, plan.waves)
    except Refused as error:
        result = []
        for number in plan.waves:
            hold = journal.look().last_hold_of(plan, WaveId(number))
            try:
                result += _built(journal.warehouse, plan, [number])
            except Refused:
                if hold is None or not hold.has_changes:
                    raise error from None
                found = {(kind, name, config): value for kind, name, config, value in plan.manifest["throttles_found"]}
                result.append(replace(holding(journal, hold), previous_throttles=found))
        return result


def _built(warehouse: Warehouse, plan: Plan, numbers: Iterable[int]) -> list[Wave]:
    """Waves from the plan's documents."""
    irreversible = plan_documents(warehouse, plan, "rollback_not_possible")
    return [
        build_wave(number, plan.manifest, wave_documents(warehouse, plan, number), irreversible) for number in numbers
    ]
