"""One step of a wave, as the options say."""

import argparse
from collections.abc import Callable
from pathlib import Path

from execution import claims
from execution.kafka_tools import KafkaTools
from execution.planned import Plan, Refused, documents_of, whole_plan
from execution.steps import Execution
from execution.tables import Warehouse
from execution.wave import wave_of
from optimizer.errors import ConfigError
from optimizer.settings import Settings
from optimizer.similar import did_you_mean
from sources.kafka_admin import properties_of
from sources.kafka_options import client_options


def tools_of(options: argparse.Namespace, settings: Settings) -> KafkaTools:
    """The connection: as the options say, else as the file says of the cluster.

    Raises
    ------
    ConfigError
        When neither names the cluster's brokers.
    """
    clusters = {one.id: one for one in settings.clusters}
    known = clusters.get(options.cluster)
    servers = options.bootstrap_server or (known.bootstrap_servers if known else "")
    if not servers:
        where = f"--bootstrap-server HOST:PORT, or bootstrap_servers of [[clusters]] {options.cluster!r} in --config"
        closest = "" if known else did_you_mean(options.cluster, clusters)
        raise ConfigError(f"it is not known where cluster {options.cluster!r} is: give {where}{closest}")
    properties = options.client_config or (known.client_config if known else "")
    return KafkaTools(servers, str(Path(properties).resolve()) if properties else "", options.kafka_bin)


def run_step(
    options: argparse.Namespace, settings: Settings, warehouse: Warehouse, plan: Plan, say: Callable[[str], None]
) -> None:
    """One step, when the plan is approved and unchanged."""
    tools = tools_of(options, settings)
    if not plan.manifest_sha256.startswith(options.manifest):
        raise Refused(
            f"the plan's manifest is {plan.manifest_sha256}, not {options.manifest}: another plan was approved"
        )
    plan.check_wave(options.wave)
    needs_earlier = options.step not in ("wait", "off", "verify", "status")
    not_back = whole_plan(warehouse, plan, "rollback_not_possible")
    *before, wave = (
        wave_of(number, plan.manifest, documents_of(warehouse, plan, number), not_back)
        for number in range(1 if needs_earlier else options.wave, options.wave + 1)
    )
    if options.step != "status":
        plan.check_approved()
    if options.step in ("preflight", "throttle"):
        _check_begins(warehouse, plan, wave.number, options.max_plan_age_hours)
    client = client_options(properties_of(tools.client_config)) | {"bootstrap_servers": tools.bootstrap_servers}
    earlier = {place: after for one in before for place, after in one.after.items()}
    step = Execution(warehouse, plan, wave, earlier, tools, client, say)
    actions = {
        "preflight": step.preflight,
        "throttle": step.throttle,
        "execute": step.execute,
        "wait": lambda: step.wait(every_seconds=options.every, once=options.once),
        "off": lambda: step.off(cancel=options.on_failure == "cancel", accept_owed=options.accept_owed),
        "verify": step.verify,
        "elect": lambda: step.elect(whole_plan(warehouse, plan, "leader_election")),
        "status": step.status,
    }
    actions[options.step]()


def _check_begins(warehouse: Warehouse, plan: Plan, wave: int, most_hours: float) -> None:
    """Raise where a wave that has not begun yet must not begin any more."""
    if not claims.is_of(claims.last_of(warehouse, plan.cluster_id), plan, wave):
        plan.check_age(most_hours)
        claims.check_not_overtaken(warehouse, plan)
