"""The options of ./ballast. Uses only the standard library, so that ``--help`` works before packages are installed."""

import argparse
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from optimizer.option_parser import OptionParser

COMMANDS = {
    "show": "list the runs, or show the plans of one run",
    "approve": "approve the plan of one cluster",
    "wave": "run one step of a wave of an approved plan",
}
STEPS = {
    "preflight": "check that the wave may start or continue; changes nothing",
    "throttle": "hold the cluster and set the wave's throttles",
    "execute": "start the copies, once, and only if the throttles are set",
    "wait": "return when all copies are done, and record the time",
    "off": "when no copy runs any more: remove the throttles and free the cluster",
    "verify": "check that the wave is done, its throttles are removed and the cluster is free",
    "elect": "after the last wave: elect the plan's preferred leaders",
    "status": "show progress, throttles and the wave that holds the cluster",
}
MAX_PLAN_AGE_HOURS = 24.0  # oldest snapshot that a wave may start with
EPILOG = """\
exit codes: 0 done, 1 failed, 2 usage or configuration error, 3 refused: the message lists the problems,
4 copies still run (wave)"""


class Parser(OptionParser):
    """Adds the exit codes to the help of each command, and suggests the command that has an unknown option."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**{"epilog": EPILOG, **kwargs})
        self.commands: Mapping[str, Parser] = {}

    def instead_of(self, name: str) -> str:
        """The end of the message about an unknown option."""
        commands = commands_with(name, self.commands)
        return f" here: it is an option of {' and '.join(commands)}" if commands else super().instead_of(name)


def commands_with(option: str, commands: Mapping[str, Parser]) -> list[str]:
    """The commands that have this option."""
    return [name for name, command in commands.items() if option in command.options]


AddCommands = Callable[[Any], None]


def parser_of(groups: Sequence[AddCommands]) -> Parser:
    """The parser of a command line; each group adds its commands."""
    result = Parser(prog="ballast", description="Shows, questions, approves and executes plans. It needs no Spark.")
    commands = result.add_subparsers(dest="command", required=True, title="commands", metavar="COMMAND")
    for add_commands in groups:
        add_commands(commands)
    for each in (result, *commands.choices.values()):
        each.commands = commands.choices
    return result


def add_commands(commands: Any) -> None:
    """Add the commands that show, approve and execute plans."""
    _add_show(commands)
    _add_approve(commands)
    _add_wave(commands)


def add_command(commands: Any, name: str, summary: str, description: str) -> Parser:
    """Add a command with the options that all commands share."""
    command: Parser = commands.add_parser(name, help=summary, description=description)
    command.add_argument("--config", metavar="FILE", help="TOML file of the job; names the warehouse and the clusters")
    command.add_argument("--warehouse", metavar="DIR", help="folder of the Delta tables (default: warehouse)")
    return command


def _add_show(commands: Any) -> None:
    show = add_command(
        commands,
        "show",
        COMMANDS["show"],
        "List the runs, newest first; with --run-id show plans and ended waves of that run.",
    )
    show.add_argument("--run-id", metavar="ID", help="show this run (default: list all runs)")
    show.add_argument("--cluster", metavar="ID", help="only this cluster; with --run-id also its summary")
    show.add_argument("--json", action="store_true", help="print one line of JSON: the list, or one cluster of a run")


def _add_approve(commands: Any) -> None:
    approve = add_command(commands, "approve", COMMANDS["approve"], "Approve the plan of one cluster.")
    _plan_options(approve)
    approve.add_argument(
        "--manifest", default="", metavar="SHA256", help="sha256 of the manifest.json that you have read"
    )
    approve.add_argument("--by", default="", metavar="NAME", help="who approves (default: this user)")


def _add_wave(commands: Any) -> None:
    wave = add_command(commands, "wave", COMMANDS["wave"], "Run one step of a wave of an approved plan.")
    steps = "\n".join(f"  {name:9}  {text}" for name, text in STEPS.items())
    wave.epilog = f"steps, in this order (status at any time):\n{steps}\n\n{EPILOG}"
    wave.add_argument("step", choices=STEPS, metavar="STEP", help="see below")
    _plan_options(wave)
    wave.add_argument("--wave", type=_number, required=True, metavar="N", help="number of the wave, from 1")
    wave.add_argument("--manifest", default="", metavar="SHA256", help="refuse the plan if it has another manifest")
    wave.add_argument("--bootstrap-server", metavar="HOST:PORT", help="brokers of the cluster (default: from --config)")
    wave.add_argument("--client-config", metavar="FILE", help="client properties (default: from --config)")
    wave.add_argument("--kafka-bin", default="", metavar="DIR", help="folder of Kafka's tools (default: PATH)")
    wave.add_argument(
        "--max-plan-age-hours",
        type=float,
        default=MAX_PLAN_AGE_HOURS,
        metavar="H",
        help=f"preflight and throttle: refuse older snapshots ({MAX_PLAN_AGE_HOURS:g})",
    )
    wave.add_argument("--once", action="store_true", help="wait: check once; exit with 4 if copies run")
    wave.add_argument("--every", type=float, default=10.0, metavar="S", help="wait: seconds between two checks (10)")
    wave.add_argument(
        "--on-failure",
        choices=("keep", "cancel"),
        default="keep",
        help="off, if copies still run: keep them and their throttles and exit with 4, or cancel them (keep)",
    )
    wave.add_argument(
        "--accept-owed",
        action="store_true",
        help="off: free the cluster even if brokers that do not answer keep their throttle rates",
    )


def _number(text: str) -> int:
    if not re.fullmatch(r"\d{1,6}", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a wave number: waves count from 1")
    return int(text)


def _plan_options(command: Parser) -> None:
    command.add_argument("--run-id", required=True, metavar="ID", help="the run that made the plan")
    command.add_argument("--cluster", required=True, metavar="ID", help="cluster of the plan")
