"""The options of ./ballast. Uses only the standard library, so that ``--help`` works before packages are installed."""

import argparse
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from textwrap import fill
from typing import Any, NamedTuple

from optimizer import VERSION
from optimizer.option_parser import OptionParser
from optimizer.units import listed

COMMANDS = {
    "show": "list the runs, or show the plans of one run",
    "approve": "approve the plan of one cluster",
    "revoke": "take back the approval of a plan",
    "run": "execute the waves of an approved plan, all steps of each",
    "rollback": "take back one wave of a plan, or all of them",
    "status": "show how far the running wave of a cluster is",
    "rate": "change the rate of the running copies of a cluster",
    "pause": "pause the running wave of a cluster",
    "resume": "let a paused or stopped wave go on",
    "stop": "end after the running copies of a cluster",
    "cancel": "cancel the running wave of a cluster, and remove its throttles",
    "uncordon": "let a broker that a plan has emptied get replicas again",
    "create": "create topics and partitions where place has placed them",
    "verify": "compare a plan with the cluster or with a later run",
    "wave": "run one step of a wave of an approved plan",
    "report": "write the files of a run again, or a site about all runs",
    "tidy": "remove old runs, and files that no table needs",
}
STEERING = ("status", "rate", "pause", "resume", "stop", "cancel")  # commands for the wave that holds a cluster
ON_CLUSTERS = (
    "run",
    "rollback",
    *STEERING,
    "uncordon",
    "create",
    "verify",
    "wave",
)  # commands that connect to a cluster
STEPS = {
    "preflight": "check that the wave may start or continue; changes nothing",
    "throttle": "hold the cluster and set the wave's throttles",
    "execute": "start the copies, once, and only if the throttles are set",
    "wait": "return when all copies are done, and record the time",
    "off": "when no copy runs any more: remove the throttles and free the cluster",
    "verify": "check that the wave is done, its throttles are removed and the cluster is free",
    "elect": "after the last wave between brokers: elect the first replica of every planned list; check that it leads",
    "status": "show progress, throttles and the wave that holds the cluster",
}
_WIDTH = 119  # columns of the exit codes in a help text
_MOST_MINUTES = 10_000_000  # minutes, 19 years: a longer time is a mistake
_MOST_SECONDS = 86_400  # seconds, a day: copies are never checked less often
CODES = {
    0: "done",
    1: "failed",
    2: "usage or configuration error",
    3: "refused: the message lists the problems, or stopped",
    4: "copies still run, the wave is held back, brokers are down, or another process executes the plan; "
    "go on (verify)",
    5: "copies run but do not get on (run)",
    6: "done, but some partitions were skipped, or are not led by their first replica; plan again (verify)",
}


class _Help(NamedTuple):
    """What the help of a command has: its group in the list of commands, an example, and its last exit codes."""

    group: str
    example: str
    codes: Sequence[int]


_READS, _CONNECTS, _EXECUTES = (0, 1, 2, 3), (0, 1, 2, 3, 4), (0, 1, 2, 3, 4, 5, 6)
_PLAN = "--run-id first --cluster sample"
_LOOK, _DECIDE, _EXECUTE, _STEER = "look", "decide", "execute", "steer"
HELP = {
    "tour": _Help(_LOOK, "--yes", (0, 1, 2)),
    "show": _Help(_LOOK, "--cluster sample", _READS),
    "compare": _Help(_LOOK, "first second --cluster sample", _READS),
    "verify": _Help(_LOOK, _PLAN, (*_CONNECTS, 6)),
    "report": _Help(_LOOK, "--all --to site", _READS),
    "ask": _Help(_DECIDE, "--cluster sample --lose-rack eu-west-1b", _READS),
    "place": _Help(_DECIDE, "--cluster sample --topic audit --partitions 12 --factor 3 --like orders", _READS),
    "judge": _Help(_DECIDE, "--cluster sample --plan reassignment.json", _READS),
    "approve": _Help(_DECIDE, _PLAN, _READS),
    "revoke": _Help(_DECIDE, _PLAN, _READS),
    "run": _Help(_EXECUTE, f"{_PLAN} --until 06:00", _EXECUTES),
    "wave": _Help(_EXECUTE, f"preflight {_PLAN} --wave 1", (*_CONNECTS, 6)),
    "rollback": _Help(_EXECUTE, f"{_PLAN} --all", _EXECUTES),
    "tidy": _Help(_EXECUTE, "--keep-days 90 --dry-run", (0, 1, 2)),
    "create": _Help(_EXECUTE, "place.json --sha256 1a2b3c4d --cluster sample", _CONNECTS),
    "uncordon": _Help(_STEER, "3 --cluster sample", _CONNECTS),
    **{name: _Help(_STEER, f"{'x0.5 ' if name == 'rate' else ''}--cluster sample", _CONNECTS) for name in STEERING},
}


def exit_codes(codes: Sequence[int]) -> str:
    """The end of a help text."""
    listed_codes = ", ".join(f"{code} {CODES[code]}" for code in codes)
    return fill(f"exit codes: {listed_codes}", _WIDTH, break_long_words=False)


class Parser(OptionParser):
    """Suggests the command that has an unknown option."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.commands: Mapping[str, Parser] = {}
        self.summary = ""  # of a command

    def instead_of(self, name: str) -> str:
        """The end of the message about an unknown option."""
        commands = commands_with(name, self.commands)
        return f" here: it is an option of {listed(commands)}" if commands else super().instead_of(name)


def commands_with(option: str, commands: Mapping[str, Parser]) -> list[str]:
    """The commands that have this option."""
    return [name for name, command in commands.items() if option in command.options]


AddCommands = Callable[[Any], None]


def parser_of(groups: Sequence[AddCommands]) -> Parser:
    """The parser of a command line; each group adds its commands."""
    result = Parser(prog="ballast", epilog=exit_codes(_EXECUTES))
    result.add_argument("--version", action="version", version=f"ballast {VERSION}")
    commands = result.add_subparsers(
        dest="command", required=True, title="command", metavar="COMMAND", help="COMMAND --help describes one of them"
    )
    for add_commands in groups:
        add_commands(commands)
    lines = ["Shows, questions, approves and executes plans. It needs no Spark."]
    for group in (_LOOK, _DECIDE, _EXECUTE, _STEER):
        names = [name for name, each in HELP.items() if each.group == group and name in commands.choices]
        lines += ["", f"{group}:", *(f"    {name:8}  {commands.choices[name].summary}" for name in names)]
    result.description = "\n".join(lines)
    for each in (result, *commands.choices.values()):
        each.commands = commands.choices
    return result


def add_commands(commands: Any) -> None:
    """Add the commands that show, approve and execute plans."""
    _add_show(commands)
    _add_approve(commands)
    _add_revoke(commands)
    _add_run(commands)
    _add_rollback(commands)
    _add_steering(commands)
    _add_uncordon(commands)
    _add_create(commands)
    _add_verify(commands)
    _add_wave(commands)
    _add_report(commands)
    _add_tidy(commands)


def add_command(commands: Any, name: str, summary: str, description: str) -> Parser:
    """Add a command with the options that all commands about runs share."""
    command = add_plain_command(commands, name, summary, description)
    command.add_argument("--config", metavar="FILE", help="TOML file of the job; names the warehouse and the clusters")
    command.add_argument("--warehouse", metavar="DIR", help="folder of the Delta tables (default: warehouse)")
    return command


def add_plain_command(commands: Any, name: str, summary: str, description: str) -> Parser:
    """Add a command without options."""
    example = f"example:\n  ./ballast {name} {HELP[name].example}"
    epilog = f"{example}\n\n{exit_codes(HELP[name].codes)}"
    command: Parser = commands.add_parser(name, description=description, epilog=epilog)
    command.summary = summary
    return command


def _add_show(commands: Any) -> None:
    show = add_command(
        commands,
        "show",
        COMMANDS["show"],
        "List the runs, newest first; with --run-id or --cluster show plans and ended waves of one run.",
    )
    text = "show this run (default: with --cluster its last one; else list all runs)"
    show.add_argument("--run-id", metavar="ID", help=text)
    show.add_argument("--cluster", metavar="ID", help="only this cluster, with its summary")
    show.add_argument("--all", action="store_true", help="list the runs, also with --cluster")
    show.add_argument("--json", action="store_true", help="print one line of JSON: the list, or one cluster of a run")


class _ByRules(argparse.Action):
    """A flag that makes other options optional."""

    def __init__(self, *, not_required: Sequence[argparse.Action], **kwargs: Any) -> None:
        super().__init__(nargs=0, default=False, **kwargs)
        self._not_required = not_required

    def __call__(self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, *_: object) -> None:
        setattr(namespace, self.dest, True)
        for action in self._not_required:
            action.required = False


def _add_approve(commands: Any) -> None:
    approve = add_command(
        commands,
        "approve",
        COMMANDS["approve"],
        "Approve the plan of one cluster, or with --by-rules all plans that keep the rules of [approval].",
    )
    approve.usage = (
        "%(prog)s --run-id ID --cluster ID [options]\n"
        "       %(prog)s --by-rules --config FILE [--run-id ID] [--cluster ID] [options]"
    )
    plan_options = _plan_options(approve)
    approve.add_argument(
        "--by-rules",
        action=_ByRules,
        not_required=plan_options,
        help="approve by [approval] of --config the plan of --cluster, or all plans of --run-id or of the newest run; "
        "exit with 3 if a plan does not keep the rules",
    )
    approve.add_argument("--dry-run", action="store_true", help="by rules: print the answer, and store nothing")
    approve.add_argument(
        "--json", action="store_true", help="by rules, one cluster: print one line of JSON, and end with 0"
    )
    approve.add_argument(
        "--manifest", default="", metavar="SHA256", help="sha256 of the manifest.json that you have read"
    )
    approve.add_argument("--by", default="", metavar="NAME", help="who approves (default: this user)")
    _age_option(approve, "", "")


def _add_revoke(commands: Any) -> None:
    revoke = add_command(
        commands,
        "revoke",
        COMMANDS["revoke"],
        "Take back the approval of a plan: until it is approved again, its steps refuse, except wave off, status and "
        "rollback.",
    )
    _plan_options(revoke)
    revoke.add_argument("--manifest", default="", metavar="SHA256", help="refuse the plan if it has another manifest")
    revoke.add_argument("--by", default="", metavar="NAME", help="who revokes (default: this user)")


def _add_wave(commands: Any) -> None:
    wave = add_command(commands, "wave", COMMANDS["wave"], "Run one step of a wave of an approved plan.")
    steps = "\n".join(f"  {name:9}  {text}" for name, text in STEPS.items())
    wave.epilog = f"steps, in this order (status at any time):\n{steps}\n\n{wave.epilog}"
    wave.add_argument("step", choices=STEPS, metavar="STEP", help="see below")
    _plan_options(wave)
    wave.add_argument("--wave", type=_number, required=True, metavar="N", help="number of the wave, from 1")
    _cluster_options(wave)
    _age_option(wave, "preflight and throttle: ", ", unless a wave of it has ended")
    wave.add_argument("--once", action="store_true", help="wait: check once; exit with 4 if copies run")
    wave.add_argument("--every", type=_seconds, default=10.0, metavar="S", help="wait: seconds between two checks (10)")
    wave.add_argument(
        "--on-failure",
        choices=("keep", "cancel"),
        default="keep",
        help="off, if copies still run: keep them and their throttles and exit with 4, or cancel them (keep)",
    )
    _accept_owed_option(wave, "off: free the cluster")
    _cordon_option(wave)


def _accept_owed_option(command: Parser, what: str, kept: str = "their throttle rates") -> None:
    summary = f"{what} even if brokers that do not answer keep {kept}"
    command.add_argument("--accept-owed", action="store_true", help=summary)


def _cordon_option(command: Parser) -> None:
    command.add_argument(
        "--cordon-anyway",
        action="store_true",
        help="cordon the brokers to empty although new topics then break the rack rule or are refused",
    )


def _add_run(commands: Any) -> None:
    run = add_command(
        commands,
        "run",
        COMMANDS["run"],
        "Execute the waves of an approved plan: throttles, copies, removal of the throttles, leaders. It skips what is "
        "done already, so the same command goes on after a kill.",
    )
    _plan_options(run)
    run.add_argument("--waves", type=_numbers, metavar="N-M", help="only these waves: 2, or 2-5 (default: all)")
    _cluster_options(run)
    run.add_argument(
        "--until", type=_time_of_day, metavar="HH:MM", help="start no wave that is estimated to end after this time"
    )
    run.add_argument(
        "--forward", action="store_true", help="end a rollback that has begun and not ended, and execute the waves"
    )
    _cordon_option(run)
    _watch_options(run)
    _age_option(run, "", ", unless a wave of it has ended")


def _add_rollback(commands: Any) -> None:
    rollback = add_command(
        commands,
        "rollback",
        COMMANDS["rollback"],
        "Take waves of a plan back, the last one first: cancel what runs, copy what was done back under throttles, and "
        "elect the old leaders. The same command goes on after a kill.",
    )
    _plan_options(rollback)
    waves = rollback.add_mutually_exclusive_group(required=True)
    waves.add_argument("--wave", type=_number, metavar="N", help="only this wave; no later one may have been executed")
    waves.add_argument("--all", action="store_true", help="all waves of the plan")
    rollback.add_argument("--by", default="", metavar="NAME", help="who takes them back (default: this user)")
    _accept_owed_option(rollback, "go on")
    _cluster_options(rollback)
    _watch_options(rollback)


def _watch_options(command: Parser) -> None:
    command.add_argument(
        "--for", dest="minutes", type=_minutes, metavar="MIN", help="watch for this time; exit with 4 if copies run"
    )
    command.add_argument(
        "--stall-minutes",
        type=_minutes,
        default=15.0,
        metavar="MIN",
        help="exit with 5 after this time without progress (15)",
    )
    command.add_argument("--dry-run", action="store_true", help="print every change to the cluster, and make none")
    command.add_argument(
        "--fix-dirs",
        action="store_true",
        help="after each wave, move replicas that are in another directory than planned, where it has space",
    )
    command.add_argument(
        "--take-over", action="store_true", help="execute although a process on another host may do so; it then ends"
    )


def _add_report(commands: Any) -> None:
    report = add_command(
        commands,
        "report",
        COMMANDS["report"],
        "Write the files of one run below DIR/ID, with the same bytes as the job; or with --all the pages of all runs.",
    )
    runs = report.add_mutually_exclusive_group(required=True)
    runs.add_argument("--run-id", metavar="ID", help="the run to write: plans, reports and quality pages")
    runs.add_argument(
        "--all", action="store_true", help="a static site: all runs, the nights of each cluster, reports, no plans"
    )
    report.add_argument("--cluster", metavar="ID", help="only this cluster of the run")
    report.add_argument("--to", required=True, metavar="DIR", help="folder to write to; it is made if missing")


def _add_tidy(commands: Any) -> None:
    tidy = add_command(
        commands,
        "tidy",
        COMMANDS["tidy"],
        "Remove old runs from the tables and from the output folder, then data files that no table needs. The last "
        "three plans of each cluster, and runs that are executed, always stay. Verdicts, approvals, executions and the "
        "figures of plans stay for years.",
    )
    tidy.add_argument(
        "--keep-days",
        type=_days,
        required=True,
        metavar="N",
        help="remove runs without a verdict, an approval or a wave in this time; at least 8",
    )
    tidy.add_argument(
        "--history-days",
        type=_days,
        default=1095,
        metavar="N",
        help="remove what stays of them after this time (1095); at least 31",
    )
    tidy.add_argument("--keep-run", action="append", default=[], metavar="ID", help="keep this run; may be repeated")
    tidy.add_argument("--output", metavar="DIR", help="folder of the runs' outputs (default: from --config, else out)")
    tidy.add_argument("--dry-run", action="store_true", help="print what would be removed, and remove nothing")


def _add_steering(commands: Any) -> None:
    for name in STEERING:
        description = f"{COMMANDS[name][0].upper()}{COMMANDS[name][1:]}. The wave is the one that holds the cluster."
        command = add_command(commands, name, COMMANDS[name], description)
        if name == "rate":
            command.add_argument("rate", metavar="RATE", help="MB/s of copies for each broker, or x0.5 of the rate now")
        command.add_argument("--cluster", required=True, metavar="ID", help="the cluster")
        if name == "status":
            command.add_argument("--json", action="store_true", help="print one line of JSON")
            command.add_argument("--watch", action="store_true", help="print again and again until the wave has ended")
        _connection_options(command)


def _add_uncordon(commands: Any) -> None:
    uncordon = add_command(
        commands,
        "uncordon",
        COMMANDS["uncordon"],
        "End the cordon that a plan has set on a broker to empty it: the broker gets back its cordoned.log.dirs from "
        "before. That plan does not cordon it again.",
    )
    uncordon.add_argument("broker", type=_broker, metavar="BROKER", help="id of the broker")
    uncordon.add_argument("--cluster", required=True, metavar="ID", help="the cluster")
    _accept_owed_option(uncordon, "end it in the journal", "it")
    _connection_options(uncordon)


def _add_create(commands: Any) -> None:
    create = add_command(
        commands,
        "create",
        COMMANDS["create"],
        "Create the topics and add the partitions of a document that ./ballast place has written. What is there with "
        "the same replicas stays, so the same command goes on after a kill.",
    )
    create.add_argument("file", metavar="FILE", help="the document")
    create.add_argument("--sha256", required=True, metavar="SHA256", help="its sha256; 8 or more characters are enough")
    create.add_argument("--cluster", required=True, metavar="ID", help="the cluster")
    _connection_options(create)


def _add_verify(commands: Any) -> None:
    verify = add_command(
        commands,
        "verify",
        COMMANDS["verify"],
        "Compare the cluster, or the snapshot of a later run, with all waves of a plan. It needs no approval, and "
        "changes nothing.",
    )
    _plan_options(verify)
    verify.add_argument(
        "--later-run-id", metavar="ID", help="compare with the snapshot of this run, without a connection"
    )
    verify.add_argument("--json", action="store_true", help="print one line of JSON")
    _connection_options(verify)


def _cluster_options(command: Parser) -> None:
    command.add_argument("--manifest", default="", metavar="SHA256", help="refuse the plan if it has another manifest")
    _connection_options(command)
    command.add_argument(
        "--kafka-bin", default="", metavar="DIR", help="folder of Kafka's tools (default: PATH, or none)"
    )
    command.add_argument(
        "--strict",
        action="store_true",
        help="refuse a wave with partitions that were deleted, recreated or moved by others (default: skip them)",
    )
    command.add_argument(
        "--accept-under-replicated",
        action="store_true",
        help="begin a wave although partitions are offline, under-replicated or under min.insync.replicas",
    )
    command.add_argument(
        "--any-dir",
        action="store_true",
        help="let Kafka choose the directory of a replica whose planned directory is cordoned, offline or gone",
    )


def _connection_options(command: Parser) -> None:
    command.add_argument(
        "--bootstrap-server", metavar="HOST:PORT", help="brokers of the cluster (default: from --config)"
    )
    command.add_argument("--client-config", metavar="FILE", help="client properties (default: from --config)")
    command.add_argument(
        "--new-cluster-id", action="store_true", help="the cluster was built again: do not compare Kafka's id of it"
    )


def _numbers(text: str) -> tuple[int, int]:
    """The first and the last wave of ``3`` or ``2-5``."""
    first, dash, last = text.partition("-")
    result = _number(first), _number(last if dash else first)
    if result[0] > result[1]:
        raise argparse.ArgumentTypeError(f"{text!r}: the first wave comes after the last")
    return result


def _minutes(text: str) -> float:
    return _more_than_zero(text, "minutes", _MOST_MINUTES)


def _seconds(text: str) -> float:
    return _more_than_zero(text, "seconds", _MOST_SECONDS)


def _more_than_zero(text: str, unit: str, most: float) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1
    if not 0 < value <= most:  # "nan" compares as false
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of {unit}: give more than 0")
    return value


def _time_of_day(text: str) -> datetime:
    """The next time of this host's clock with this hour and minute."""
    try:
        time = datetime.strptime(text, "%H:%M").time()
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time of day: give HH:MM, such as 06:00") from None
    now = datetime.now().astimezone()
    today = datetime.combine(now.date(), time).astimezone()
    return today if today > now else datetime.combine(now.date() + timedelta(days=1), time).astimezone()


def _number(text: str) -> int:
    if not re.fullmatch(r"\d{1,6}", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a wave number: waves count from 1")
    return int(text)


def _broker(text: str) -> int:
    if not re.fullmatch(r"\d{1,9}", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not the id of a broker")
    return int(text)


def _days(text: str) -> int:
    if not re.fullmatch(r"\d{1,5}", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of days: give a whole number")
    return int(text)


def _hours(text: str) -> float:
    try:
        hours = float(text)
    except ValueError:
        hours = -1
    if not hours >= 0:  # "nan" compares as false, so it would switch the check off
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of hours: give 0 or more")
    return hours


def _age_option(command: Parser, steps: str, but: str) -> None:
    default = f"refuse it after valid_until of its manifest{but}"
    summary = f"{steps}refuse a plan with an older snapshot (default: {default})"
    command.add_argument("--max-plan-age-hours", type=_hours, default=None, metavar="H", help=summary)


def _plan_options(command: Parser) -> tuple[argparse.Action, ...]:
    return (
        command.add_argument("--run-id", required=True, metavar="ID", help="the run that made the plan"),
        command.add_argument("--cluster", required=True, metavar="ID", help="cluster of the plan"),
    )
