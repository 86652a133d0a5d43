"""Runs one step of a wave."""

import argparse
from collections.abc import Callable
from pathlib import Path

from execution import claims
from execution.kafka_tools import KafkaTools
from execution.planned import Plan, Refused, plan_documents, wave_documents
from execution.steps import Execution
from execution.tables import Warehouse
from execution.wave import build_wave
from optimizer.errors import ConfigError
from optimizer.settings import Settings
from optimizer.similar import did_you_mean
from sources.kafka_admin import properties_of
from sources.kafka_options import client_options


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
    if not plan.manifest_sha256.startswith(options.manifest):
        raise Refused(
            f"the plan's manifest is {plan.manifest_sha256}, not {options.manifest}: another plan was approved; "
            "read this plan and approve it"
        )
    plan.check_wave(options.wave)
    needs_earlier = options.step not in ("wait", "off", "verify", "status")
    irreversible = plan_documents(warehouse, plan, "rollback_not_possible")
    *earlier_waves, wave = (
        build_wave(number, plan.manifest, wave_documents(warehouse, plan, number), irreversible)
        for number in range(1 if needs_earlier else options.wave, options.wave + 1)
    )
    if options.step != "status":
        plan.check_approved()
    if options.step in ("preflight", "throttle"):
        _check_may_start(warehouse, plan, wave.number, options.max_plan_age_hours)
    client = client_options(properties_of(tools.client_config)) | {"bootstrap_servers": tools.bootstrap_servers}
    earlier = {partition: after for previous in earlier_waves for partition, after in previous.after.items()}
    step = Execution(warehouse, plan, wave, earlier, tools, client, say)
    actions = {
        "preflight": step.preflight,
        "throttle": step.throttle,
        "execute": step.execute,
        "wait": lambda: step.wait(every_seconds=options.every, once=options.once),
        "off": lambda: step.off(cancel=options.on_failure == "cancel", accept_owed=options.accept_owed),
        "verify": step.verify,
        "elect": lambda: step.elect(plan_documents(warehouse, plan, "leader_election")),
        "status": step.status,
    }
    actions[options.step]()


def _check_may_start(warehouse: Warehouse, plan: Plan, wave: int, max_hours: float) -> None:
    """Raise ``Refused`` if the plan is too old or out of date; a wave that holds the cluster may continue."""
    if not claims.is_held_for(claims.last_event(warehouse, plan.cluster_id), plan, wave):
        plan.check_age(max_hours)
        claims.check_not_overtaken(warehouse, plan)
