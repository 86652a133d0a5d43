"""The options of ./ballast; only the standard library, because help must not wait for packages."""

import argparse
import re
from collections.abc import Mapping
from typing import Any

from optimizer.option_parser import OptionParser

COMMANDS = {
    "show": "list the runs, or show what one run has planned",
    "approve": "approve the plan of one cluster",
    "wave": "run one step of a wave of an approved plan",
}
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
MOST_HOURS = 24.0  # age of a snapshot that a wave begins with
EPILOG = """\
exit codes: 0 done, 1 failed, 2 wrong use or configuration, 3 refused: what is in the way is named;
4 copies still run (wave)"""


class Parser(OptionParser):
    """Adds the exit codes to the help of each command, and says which other command has an unknown option."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**{"epilog": EPILOG, **kwargs})

    def instead_of(self, name: str) -> str:
        """What a message adds behind an unknown option."""
        others = commands_with(name)
        return f" here: it is an option of {' and '.join(others)}" if others else super().instead_of(name)


def commands_with(option: str) -> list[str]:
    """The commands that have such an option of their own."""
    return [name for name, command in _parsers()[1].items() if option in command.options]


def parser() -> Parser:
    """All commands with their options."""
    return _parsers()[0]


def _parsers() -> tuple[Parser, Mapping[str, Parser]]:
    """The parser of all commands, and that of each."""
    result = Parser(prog="ballast", description="Shows, approves and executes plans. It needs no Spark.")
    commands = result.add_subparsers(dest="command", required=True, title="commands", metavar="COMMAND")
    _add_show(commands)
    _add_approve(commands)
    _add_wave(commands)
    return result, commands.choices


def _add(commands: Any, name: str, description: str) -> Parser:
    """The parser of a command, with the options of all commands."""
    command: Parser = commands.add_parser(name, help=COMMANDS[name], description=description)
    command.add_argument("--config", metavar="FILE", help="TOML file of the job: warehouse and clusters")
    command.add_argument("--warehouse", metavar="DIR", help="folder of the Delta tables (default: warehouse)")
    return command


def _add_show(commands: Any) -> None:
    show = _add(commands, "show", "List the runs, newest first; with --run-id show what that run has planned.")
    show.add_argument("--run-id", metavar="ID", help="this run (default: list all runs)")
    show.add_argument("--cluster", metavar="ID", help="only this cluster; with --run-id its summary too")
    show.add_argument("--json", action="store_true", help="on one line, for programs: the list, or one run's cluster")


def _add_approve(commands: Any) -> None:
    approve = _add(commands, "approve", "Approve the plan of one cluster.")
    _plan_options(approve)
    approve.add_argument("--manifest", default="", metavar="SHA256", help="of the manifest.json that you have read")
    approve.add_argument("--by", default="", metavar="NAME", help="who approves (default: this user)")


def _add_wave(commands: Any) -> None:
    wave = _add(commands, "wave", "Run one step of a wave of an approved plan.")
    listed = "\n".join(f"  {name:9}  {text}" for name, text in STEPS.items())
    wave.epilog = f"steps, in this order:\n{listed}\n\n{EPILOG}"
    wave.add_argument("step", choices=STEPS, metavar="STEP", help="see below")
    _plan_options(wave)
    wave.add_argument("--wave", type=_number, required=True, metavar="N", help="number of the wave, from 1")
    wave.add_argument("--manifest", default="", metavar="SHA256", help="refuse any other plan of that run")
    wave.add_argument("--bootstrap-server", metavar="HOST:PORT", help="the cluster (default: as in --config)")
    wave.add_argument("--client-config", metavar="FILE", help="client properties (default: as in --config)")
    wave.add_argument("--kafka-bin", default="", metavar="DIR", help="folder of Kafka's tools (default: PATH)")
    wave.add_argument(
        "--max-plan-age-hours",
        type=float,
        default=MOST_HOURS,
        metavar="H",
        help=f"older snapshots are not begun with ({MOST_HOURS:g})",
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


def _number(text: str) -> int:
    """A whole number; the plan says whether it has such a wave."""
    if not re.fullmatch(r"\d{1,6}", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a wave number: waves count from 1")
    return int(text)


def _plan_options(command: Parser) -> None:
    command.add_argument("--run-id", required=True, metavar="ID", help="the run that made the plan")
    command.add_argument("--cluster", required=True, metavar="ID", help="its cluster")
