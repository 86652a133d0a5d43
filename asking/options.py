"""The options of the commands that answer questions. Uses only the standard library, as ``execution.options``."""

from typing import Any

from execution.options import Parser, add_command

COMMANDS = {
    "ask": "answer what-if questions about the plan of one cluster; changes nothing",
    "judge": "measure another tool's plan, and compare it with Ballast's",
    "compare": "show what changed between two runs: cluster, requests, plan",
}


def add_commands(commands: Any) -> None:
    """Add the commands."""
    _add_compare(commands)


def _cluster(command: Parser) -> None:
    command.add_argument("--cluster", required=True, metavar="ID", help="cluster of the plan")


def _add_compare(commands: Any) -> None:
    text = "Show what changed between two runs of one cluster, and how far the cluster went towards the first plan."
    compare = add_command(commands, "compare", COMMANDS["compare"], text)
    compare.add_argument("runs", nargs=2, metavar="RUN", help="the earlier and the later run")
    _cluster(compare)
    compare.add_argument("--json", action="store_true", help="print one line of JSON")
    compare.add_argument("--html", metavar="FILE", help="also write a page to this file")
