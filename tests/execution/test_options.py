"""The options of ./ballast: usage errors, and suggestions."""

import re
from datetime import datetime, timedelta

import pytest

from execution.options import HELP, ON_CLUSTERS
from optimizer import VERSION
from setup.ballast_options import COMMANDS, parser

PLAN = ("--run-id", "r", "--cluster", "c")
NAMES = (
    "show, approve, revoke, run, rollback, status, rate, pause, resume, stop, cancel, uncordon, create, verify, wave, "
    "report, tidy, ask, place, judge, compare, tour"
)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["shwo"], f"argument COMMAND: unknown 'shwo' (did you mean 'show'?); choose from {NAMES}\n"),
        (["xyz"], f"argument COMMAND: unknown 'xyz'; choose from {NAMES}\n"),
        (["wave", "trottle", *PLAN, "--wave", "1"], "argument STEP: unknown 'trottle' (did you mean 'throttle'?); "),
        (["wave", "off", *PLAN, "--wave", "1", "--on-failure", "cancle"], "unknown 'cancle' (did you mean 'cancel'?)"),
        (["approve", "--runid", "r", "--cluster", "c"], "there is no option --runid (did you mean '--run-id'?)"),
        (["approve", *PLAN, "--warehose=w"], "there is no option --warehose (did you mean '--warehouse'?)"),
        (["show", "--by=x"], "there is no option --by here: it is an option of approve, revoke and rollback\n"),
        (["show", "--zzz"], "there is no option --zzz\n"),
        (["approve", *PLAN, "--wave", "1"], "there is no option --wave here: it is an option of rollback and wave\n"),
        (
            ["show", "--manifest=x"],
            "there is no option --manifest here: it is an option of approve, revoke, run, rollback and wave\n",
        ),
        (["--hepl"], "there is no option --hepl (did you mean '--help'?)"),
        (["show", "--run", "r"], "there is no option --run (did you mean '--run-id'?)"),
        (["wave", "off", *PLAN, "--wave", "1", "--acc"], "there is no option --acc"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_an_unknown_name_is_reported_with_the_closest_one(
    capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    """For commands, steps, choices and options; an abbreviated option is unknown, too."""
    with pytest.raises(SystemExit) as ended:
        parser().parse_args(words)
    assert ended.value.code == 2
    assert f"error: {message}" in capsys.readouterr().err.replace("argument --on-failure: ", "")


def test_the_usage_of_approve_has_both_ways(capsys: pytest.CaptureFixture[str]) -> None:
    """By hand a run and a cluster are required; by rules they are not."""
    with pytest.raises(SystemExit):
        parser().parse_args(["approve", "--help"])
    usage = capsys.readouterr().out.partition("\n\n")[0]
    assert "approve --run-id ID --cluster ID [options]" in usage
    assert "approve --by-rules --config FILE [--run-id ID] [--cluster ID] [options]" in usage


def test_values_may_look_like_options() -> None:
    """A text with a space, a negative number and everything after an equals sign are values."""
    options = parser().parse_args(["approve", *PLAN, "--by", "-- ann", "--manifest=--x", "--warehouse", "-1"])
    assert (options.by, options.manifest, options.warehouse) == ("-- ann", "--x", "-1")


@pytest.mark.parametrize(
    ("words", "missing"),
    [
        (["wave", "off", *PLAN], "--wave"),
        (["wave", "off", "--wave", "1"], "--run-id, --cluster"),
        (["wave", *PLAN, "--wave", "1"], "STEP"),
        (["approve"], "--run-id, --cluster"),
        (["revoke"], "--run-id, --cluster"),
        ([], "COMMAND"),
        (["report", "--all"], "--to"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_a_command_needs_is_named(capsys: pytest.CaptureFixture[str], words: list[str], missing: str) -> None:
    """The plan; for wave also the step and the number."""
    with pytest.raises(SystemExit) as ended:
        parser().parse_args(words)
    assert ended.value.code == 2
    assert capsys.readouterr().err.endswith(f"error: the following arguments are required: {missing}\n")


WAVE = {
    **{"step": "off", "wave": 1, "manifest": "", "bootstrap_server": None, "client_config": None, "kafka_bin": ""},
    **{"max_plan_age_hours": None, "once": False, "every": 10.0, "on_failure": "keep", "accept_owed": False},
    **{"strict": False, "accept_under_replicated": False, "any_dir": False, "new_cluster_id": False},
    "cordon_anyway": False,
}
RUN = {
    **{
        "waves": None,
        "manifest": "",
        "bootstrap_server": None,
        "client_config": None,
        "kafka_bin": "",
        "strict": False,
        "accept_under_replicated": False,
        "any_dir": False,
        "new_cluster_id": False,
    },
    **{"forward": False, "cordon_anyway": False},
    **{"until": None, "minutes": None, "stall_minutes": 15.0, "dry_run": False, "take_over": False, "fix_dirs": False},
    "max_plan_age_hours": None,
}
BACK = {
    name: value
    for name, value in RUN.items()
    if name not in ("waves", "until", "max_plan_age_hours", "forward", "cordon_anyway")
} | {
    "by": "",
    "accept_owed": False,
}
STEER = {
    **{"config": None, "warehouse": None, "cluster": "c", "bootstrap_server": None, "client_config": None},
    "new_cluster_id": False,
}
APPROVE = {
    **{"manifest": "", "by": "", "max_plan_age_hours": None},
    **{"by_rules": False, "dry_run": False, "json": False},
}
PLANNED = {"config": None, "warehouse": None, "run_id": "r", "cluster": "c"}


@pytest.mark.parametrize(
    ("words", "options"),
    [
        (["show"], {**PLANNED, "run_id": None, "cluster": None, "all": False, "json": False}),
        (["approve", *PLAN], {**PLANNED, **APPROVE}),
        (["approve", "--by-rules"], {**PLANNED, **APPROVE, "run_id": None, "cluster": None, "by_rules": True}),
        (["revoke", *PLAN], {**PLANNED, "manifest": "", "by": ""}),
        (["wave", "off", *PLAN, "--wave", "1"], {**PLANNED, **WAVE}),
        (["wave", "off", *PLAN, "--wave", "999999"], {**PLANNED, **WAVE, "wave": 999_999}),
        (["run", *PLAN], {**PLANNED, **RUN}),
        (["run", *PLAN, "--waves", "2-5"], {**PLANNED, **RUN, "waves": (2, 5)}),
        (["run", *PLAN, "--waves", "3"], {**PLANNED, **RUN, "waves": (3, 3)}),
        (["rollback", *PLAN, "--wave", "2", "--by", "ann"], {**PLANNED, **BACK, "wave": 2, "all": False, "by": "ann"}),
        (["rollback", *PLAN, "--all", "--for", "2"], {**PLANNED, **BACK, "wave": None, "all": True, "minutes": 2.0}),
        (["run", *PLAN, "--waves", "3-3", "--for", "0.5"], {**PLANNED, **RUN, "waves": (3, 3), "minutes": 0.5}),
        (["status", "--cluster", "c"], {**STEER, "json": False, "watch": False}),
        (["rate", "x0.5", "--cluster", "c"], {**STEER, "rate": "x0.5"}),
        (["pause", "--cluster", "c"], STEER),
        (["verify", *PLAN], {**PLANNED, **STEER, "later_run_id": None, "json": False}),
        (["report", *PLAN, "--to", "site"], {**PLANNED, "to": "site", "all": False}),
        (["report", "--all", "--to", "site"], {**PLANNED, "run_id": None, "cluster": None, "to": "site", "all": True}),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_options_have_defaults(words: list[str], options: dict[str, object]) -> None:
    """The manifest says when a plan expires, running copies are kept, and remaining rates are not accepted."""
    assert vars(parser().parse_args(words)) == {"command": words[0], **options}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["wave", "off", *PLAN, "--wave", "1", "--wave", "2"], "--wave is given twice, 1 and 2: give it once"),
        (["wave", "wait", *PLAN, "--wave=1", "--wave=1"], "--wave is given twice, 1 and 1: give it once"),
        (["show", *PLAN, "--run-id=s"], "--run-id is given twice, r and s: give it once"),
        (["show", *PLAN, "--json", "--json"], "--json is given twice: give it once"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_an_option_is_given_once(capsys: pytest.CaptureFixture[str], words: list[str], message: str) -> None:
    """The error names both values."""
    with pytest.raises(SystemExit) as ended:
        parser().parse_args(words)
    assert ended.value.code == 2
    assert f"error: {message}\n" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "one of the arguments --run-id --all is required"),
        (("--run-id", "r", "--all"), "argument --all: not allowed with argument --run-id"),
    ],
    ids=["neither", "both"],
)
def test_a_report_is_of_one_run_or_of_all(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...], message: str
) -> None:
    """Neither and both are usage errors."""
    with pytest.raises(SystemExit) as ended:
        parser().parse_args(["report", "--to", "site", *words])
    assert ended.value.code == 2
    assert capsys.readouterr().err.endswith(f"error: {message}\n")


@pytest.mark.parametrize("command", [("approve",), ("wave", "throttle", "--wave", "1")], ids=" ".join)
@pytest.mark.parametrize(
    ("text", "hours"), [("0", 0), ("36.5", 36.5), ("1e9", 1e9), ("-1", None), ("nan", None), ("x", None)]
)
def test_the_limit_of_a_plans_age_is_a_number_of_hours(
    capsys: pytest.CaptureFixture[str], command: tuple[str, ...], text: str, hours: float | None
) -> None:
    """For approve and wave. Other texts, negative numbers and nan are usage errors."""
    words = [*command, *PLAN, f"--max-plan-age-hours={text}"]
    if hours is not None:
        assert parser().parse_args(words).max_plan_age_hours == hours
        return
    with pytest.raises(SystemExit) as ended:
        parser().parse_args(words)
    assert ended.value.code == 2
    assert f"{text!r} is not a number of hours: give 0 or more\n" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--waves", "5-2"], "--waves: '5-2': the first wave comes after the last"),
        (["--waves", "2-"], "--waves: '' is not a wave number: waves count from 1"),
        (["--waves", "-2"], "--waves: '' is not a wave number: waves count from 1"),
        (["--waves", "2-3-4"], "--waves: '3-4' is not a wave number: waves count from 1"),
        (["--waves", "all"], "--waves: 'all' is not a wave number: waves count from 1"),
        (["--until", "25:00"], "--until: '25:00' is not a time of day: give HH:MM, such as 06:00"),
        (["--until", "6"], "--until: '6' is not a time of day: give HH:MM, such as 06:00"),
        (["--for", "0"], "--for: '0' is not a number of minutes: give more than 0"),
        (["--for", "nan"], "--for: 'nan' is not a number of minutes: give more than 0"),
        (["--stall-minutes", "-1"], "--stall-minutes: '-1' is not a number of minutes: give more than 0"),
        (["--stall-minutes", "x"], "--stall-minutes: 'x' is not a number of minutes: give more than 0"),
    ],
    ids=" ".join,
)
def test_limits_of_run_are_checked(capsys: pytest.CaptureFixture[str], words: list[str], message: str) -> None:
    """A wrong value is a usage error."""
    with pytest.raises(SystemExit) as ended:
        parser().parse_args(["run", *PLAN, *words])
    assert ended.value.code == 2
    assert capsys.readouterr().err.endswith(f"error: argument {message}\n")


@pytest.mark.parametrize("text", ["0", "-1", "nan", "inf", "x"])
def test_the_pause_between_two_checks_is_more_than_zero(capsys: pytest.CaptureFixture[str], text: str) -> None:
    """Else the step wait asks the brokers without a pause, or ends with an error in the middle."""
    with pytest.raises(SystemExit) as ended:
        parser().parse_args(["wave", "wait", *PLAN, "--wave", "1", f"--every={text}"])
    assert ended.value.code == 2
    assert f"argument --every: {text!r} is not a number of seconds: give more than 0\n" in capsys.readouterr().err


@pytest.mark.parametrize("minutes", [-1, 2])
def test_a_time_of_day_is_the_next_one(minutes: int) -> None:
    """Of this host's clock: today, or else tomorrow."""
    now = datetime.now().astimezone()
    time = now + timedelta(minutes=minutes)
    until = parser().parse_args(["run", *PLAN, "--until", f"{time:%H:%M}"]).until
    assert (until.hour, until.minute) == (time.hour, time.minute)
    assert timedelta(0) < until - now <= timedelta(days=1, hours=1)
    assert (until - now < timedelta(minutes=3)) == (minutes == 2)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "one of the arguments --wave --all is required"),
        (["--wave", "1", "--all"], "argument --all: not allowed with argument --wave"),
        (["--wave", "-1"], "argument --wave: '-1' is not a wave number: waves count from 1"),
    ],
)
def test_a_rollback_names_its_waves(capsys: pytest.CaptureFixture[str], words: list[str], message: str) -> None:
    """One, or all."""
    with pytest.raises(SystemExit) as ended:
        parser().parse_args(["rollback", *PLAN, *words])
    assert ended.value.code == 2
    assert capsys.readouterr().err.endswith(f"error: {message}\n")


def test_help_groups_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    """Every command is in one group."""
    with pytest.raises(SystemExit):
        parser().parse_args(["--help"])
    lists = capsys.readouterr().out.partition("\nlook:\n")[2].partition("\noptions:")[0]
    assert re.findall(r"^(\w+):$", lists, re.MULTILINE) == ["decide", "execute", "steer"]
    assert sorted(re.findall(r"^    (\w+) ", lists, re.MULTILINE)) == sorted(COMMANDS)
    assert HELP.keys() == COMMANDS.keys()


@pytest.mark.parametrize("name", COMMANDS)
def test_help_has_a_valid_example_and_its_own_exit_codes(name: str) -> None:
    """The parser accepts the example. A command that reads tables ends with at most 3, and only executions with 5."""
    text = parser().commands[name].format_help()
    [example] = re.findall(r"^example:\n  \./ballast (.*)$", text, re.MULTILINE)
    assert parser().parse_args(example.split()).command == name
    codes = {int(code) for code in re.findall(r"(\d)\s[a-z]", text.partition("exit codes: ")[2])}
    assert codes == set(HELP[name].codes)
    assert (5 in codes) == (name in ("run", "rollback"))
    assert (4 in codes) == (name in ON_CLUSTERS)


def test_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    """--version prints the release."""
    with pytest.raises(SystemExit) as ended:
        parser().parse_args(["--version"])
    assert (ended.value.code, capsys.readouterr().out) == (0, f"ballast {VERSION}\n")
