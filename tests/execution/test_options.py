"""The options of ./ballast: usage errors, and suggestions."""

import pytest

from setup.ballast_options import parser

PLAN = ("--run-id", "r", "--cluster", "c")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["shwo"], "argument COMMAND: unknown 'shwo' (did you mean 'show'?); choose from show, approve, wave"),
        (["xyz"], "argument COMMAND: unknown 'xyz'; choose from show, approve, wave"),
        (["wave", "trottle", *PLAN, "--wave", "1"], "argument STEP: unknown 'trottle' (did you mean 'throttle'?); "),
        (["wave", "off", *PLAN, "--wave", "1", "--on-failure", "cancle"], "unknown 'cancle' (did you mean 'cancel'?)"),
        (["approve", "--runid", "r", "--cluster", "c"], "there is no option --runid (did you mean '--run-id'?)"),
        (["approve", *PLAN, "--warehose=w"], "there is no option --warehose (did you mean '--warehouse'?)"),
        (["show", "--zzz"], "there is no option --zzz\n"),
        (["approve", *PLAN, "--wave", "1"], "there is no option --wave here: it is an option of wave\n"),
        (["show", "--manifest=x"], "there is no option --manifest here: it is an option of approve and wave\n"),
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
        ([], "COMMAND"),
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
    **{"max_plan_age_hours": 24.0, "once": False, "every": 10.0, "on_failure": "keep", "accept_owed": False},
}
PLANNED = {"config": None, "warehouse": None, "run_id": "r", "cluster": "c"}


@pytest.mark.parametrize(
    ("words", "options"),
    [
        (["show"], {**PLANNED, "run_id": None, "cluster": None, "json": False}),
        (["approve", *PLAN], {**PLANNED, "manifest": "", "by": ""}),
        (["wave", "off", *PLAN, "--wave", "1"], {**PLANNED, **WAVE}),
        (["wave", "off", *PLAN, "--wave", "999999"], {**PLANNED, **WAVE, "wave": 999_999}),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_options_have_defaults(words: list[str], options: dict[str, object]) -> None:
    """A plan is old after a day, running copies are kept, and remaining rates are not accepted."""
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
