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
    _add_judge(commands)
    _add_compare(commands)


def _cluster(command: Parser) -> None:
    command.add_argument("--cluster", required=True, metavar="ID", help="cluster of the plan")


def _add_judge(commands: Any) -> None:
    text = (
        "Measure another tool's plan with the figures of a run, and compare it with Ballast's plan. It reads "
        "reassignment JSON, the output of kafka-reassign-partitions.sh --generate, and the JSON of Cruise Control "
        "(json=true&verbose=true)."
    )
    judge = add_command(commands, "judge", COMMANDS["judge"], text)
    judge.add_argument("--run-id", required=True, metavar="ID", help="the run to compare with")
    _cluster(judge)
    judge.add_argument("--plan", required=True, nargs="+", metavar="FILE", help="the other tool's plan: all its files")
    judge.add_argument(
        "--stale-ok", action="store_true", help="judge a plan that was made for other replica lists than the run's"
    )
    judge.add_argument("--json", action="store_true", help="print one line of JSON")
    judge.add_argument("--html", metavar="FILE", help="also write a page to this file")


def _add_compare(commands: Any) -> None:
    text = "Show what changed between two runs of one cluster, and how far the cluster went towards the first plan."
    compare = add_command(commands, "compare", COMMANDS["compare"], text)
    compare.add_argument("runs", nargs=2, metavar="RUN", help="the earlier and the later run")
    _cluster(compare)
    compare.add_argument("--json", action="store_true", help="print one line of JSON")
    compare.add_argument("--html", metavar="FILE", help="also write a page to this file")
