"""``spark-submit.sh show``, ``approve`` and ``wave STEP``: options, and errors to exit codes."""

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from deltalake.exceptions import DeltaError

from execution import claims
from execution.approve import approve
from execution.kafka_tools import KafkaTools
from execution.planned import Plan, Refused, documents_of, load, whole_plan
from execution.show import as_json, show
from execution.steps import Execution
from execution.tables import Warehouse
from execution.wave import wave_of
from optimizer.configuration import build, merge, read_toml
from optimizer.errors import BallastError, ConfigError
from optimizer.settings import Settings
from optimizer.shipped import defaults
from sources.kafka_admin import properties_of
from sources.kafka_options import client_options

STEPS = {
    "preflight": "look whether anything is in the way of the wave; touches nothing",
    "throttle": "hold the cluster, and set the wave's throttles",
    "execute": "start the copies, once, under throttles only",
    "wait": "return when the copies are done",
    "off": "take the throttles off when nothing is in flight any more, and free the cluster",
    "verify": "say whether the wave is done, its throttles off and the cluster free",
    "elect": "after the last wave: let the plan's preferred leaders lead",
    "status": "say how far the wave is, what is set, and who holds the cluster",
}
EPILOG = """\
steps, in this order:
{steps}

exit codes: 0 done, 1 failed, 2 wrong use or configuration, 3 refused: what is in the way is named;
4 copies still run"""


def parser() -> argparse.ArgumentParser:
    """Options of the three commands."""
    result = argparse.ArgumentParser(prog="spark-submit.sh", description=__doc__)
    commands = result.add_subparsers(dest="command", required=True)
    shown = commands.add_parser("show", help="what a run has planned", description="Say what a run has planned.")
    _run_options(shown)
    shown.add_argument("--cluster", default="", metavar="ID", help="with the summary of this cluster (default: all)")
    shown.add_argument("--json", action="store_true", help="of one cluster: on one line, for schedulers")
    told = commands.add_parser("approve", help="say yes to a plan", description="Say yes to the plan of one cluster.")
    _plan_options(told)
    told.add_argument("--manifest", default="", metavar="SHA256", help="of the manifest.json that you have looked at")
    told.add_argument("--by", default="", metavar="NAME", help="who says yes (default: this user)")
    listed = "\n".join(f"  {name:9}  {text}" for name, text in STEPS.items())
    wave = commands.add_parser(
        "wave",
        help="execute a wave, step by step",
        description="Run one step of a wave of an approved plan.",
        epilog=EPILOG.format(steps=listed),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    wave.add_argument("step", choices=STEPS)
    _plan_options(wave)
    wave.add_argument("--wave", type=_positive, required=True, metavar="N", help="number of the wave, from 1")
    wave.add_argument("--manifest", default="", metavar="SHA256", help="refuse any other plan of that run")
    wave.add_argument("--bootstrap-server", metavar="HOST:PORT", help="the cluster (default: as in --config)")
    wave.add_argument("--client-config", metavar="FILE", help="client properties (default: as in --config)")
    wave.add_argument("--kafka-bin", default="", metavar="DIR", help="folder of Kafka's tools (default: PATH)")
    wave.add_argument(
        "--max-plan-age-hours", type=float, default=24.0, metavar="H", help="older snapshots are not begun with (24)"
    )
    wave.add_argument("--once", action="store_true", help="wait: look once, end with 4 while copies run")
    wave.add_argument("--every", type=float, default=10.0, metavar="S", help="wait: seconds between two looks (10)")
    wave.add_argument(
        "--on-failure",
        choices=("keep", "cancel"),
        default="keep",
        help="off: keep what still runs, with its throttles, and end with 4; or cancel it first (keep)",
    )
    wave.add_argument(
        "--accept-owed",
        action="store_true",
        help="off: free the cluster though brokers that do not answer keep their rates",
    )
    return result


def _positive(text: str) -> int:
    if not re.fullmatch(r"[1-9]\d{0,5}", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a wave number: waves count from 1")
    return int(text)


def _plan_options(command: argparse.ArgumentParser) -> None:
    _run_options(command)
    command.add_argument("--cluster", required=True, metavar="ID", help="its cluster")


def _run_options(command: argparse.ArgumentParser) -> None:
    command.add_argument("--run-id", required=True, help="the run that made the plan")
    command.add_argument("--config", metavar="FILE", help="TOML file of the job: warehouse and clusters")
    command.add_argument("--warehouse", metavar="DIR", help="folder of the Delta tables")


def settings_of(options: argparse.Namespace) -> Settings:
    """Defaults, file and options."""
    content = merge(defaults(), read_toml(Path(options.config)) if options.config else {})
    over = {"storage": {"warehouse": options.warehouse}} if options.warehouse else {}
    return build(merge(content, over))


def tools_of(options: argparse.Namespace, settings: Settings) -> KafkaTools:
    """The connection: as the options say, else as the file says of the cluster.

    Raises
    ------
    ConfigError
        When neither names the cluster's brokers.
    """
    known = next((one for one in settings.clusters if one.id == options.cluster), None)
    servers = options.bootstrap_server or (known.bootstrap_servers if known else "")
    if not servers:
        where = f"--bootstrap-server HOST:PORT, or bootstrap_servers of [[clusters]] {options.cluster!r} in --config"
        raise ConfigError(f"it is not known where cluster {options.cluster!r} is: give {where}")
    properties = options.client_config or (known.client_config if known else "")
    return KafkaTools(servers, str(Path(properties).resolve()) if properties else "", options.kafka_bin)


def run_step(options: argparse.Namespace, settings: Settings, warehouse: Warehouse, plan: Plan) -> None:
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
    step = Execution(warehouse, plan, wave, earlier, tools, client, _say)
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


def run(options: argparse.Namespace) -> None:
    """Do what is asked."""
    settings = settings_of(options)
    warehouse = Warehouse(settings.storage.warehouse)
    if options.command == "show":
        if options.json and not options.cluster:
            raise ConfigError("--json is of one cluster: name it with --cluster ID")
        one = [as_json(warehouse, options.run_id, options.cluster)] if options.json else []
        for line in one or show(warehouse, options.run_id, options.cluster):
            _say(line)
        return
    if options.manifest and not re.fullmatch(r"[0-9a-f]{8,64}", options.manifest):
        raise ConfigError(f"--manifest {options.manifest!r}: give the first 8 or more characters of the sha256")
    plan = load(warehouse, cluster_id=options.cluster, run_id=options.run_id)
    if options.command == "approve":
        _say(approve(warehouse, plan, manifest_sha256=options.manifest, by=options.by or claims.user()))
    else:
        run_step(options, settings, warehouse, plan)


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
