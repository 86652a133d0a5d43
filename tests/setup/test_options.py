"""Splitting a command line into Spark's part and the job's."""

import pytest

from setup.options import UsageError, check_arguments, split

Expected = tuple[list[tuple[str, str | None]], str, list[str]]

CASES: list[tuple[str, list[str], Expected]] = [
    ("nothing", [], ([], "", [])),
    ("a job", ["plan"], ([], "plan", [])),
    ("spark before the job", ["--master", "yarn", "plan"], ([("--master", "yarn")], "plan", [])),
    ("spark after the job", ["plan", "--master", "yarn"], ([("--master", "yarn")], "plan", [])),
    ("equals sign", ["plan", "--conf=a=b"], ([("--conf", "a=b")], "plan", [])),
    ("flag", ["--verbose", "plan", "--run-id", "x"], ([("--verbose", None)], "plan", ["--run-id", "x"])),
    ("job options keep their order", ["plan", "--b", "1", "--a=2", "c"], ([], "plan", ["--b", "1", "--a=2", "c"])),
    ("mixed", ["plan", "--a", "--queue", "q", "--b"], ([("--queue", "q")], "plan", ["--a", "--b"])),
    (
        "everything after -- goes to the job",
        ["plan", "--", "--name", "x", "--help"],
        ([], "plan", ["--name", "x", "--help"]),
    ),
    ("a value like an option", ["--name", "--x", "plan"], ([("--name", "--x")], "plan", [])),
    (
        "a similar name goes to the job",
        ["plan", "--names", "x", "--conf-file=y"],
        ([], "plan", ["--names", "x", "--conf-file=y"]),
    ),
]


@pytest.mark.parametrize(("words", "expected"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_split(words: list[str], expected: Expected) -> None:
    """Each word goes to Spark or to the job, in its order."""
    line = split(words)
    assert (line.spark, line.job, line.arguments) == expected
    assert not line.help


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--run-id", "x"], "--run-id is not an option of Spark; give options of a job after its name"),
        (["--config=x", "plan"], "--config is not an option of Spark; give options of a job after its name"),
        (
            ["--mastr=yarn", "plan"],
            "--mastr is not an option of Spark (did you mean '--master'?); give options of a job after its name",
        ),
        (["plan", "--master"], "--master needs a value"),
    ],
)
def test_wrong_use(words: list[str], message: str) -> None:
    """Wrong use is refused with a message."""
    with pytest.raises(UsageError) as caught:
        split(words)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--drai", "3"], "there is no option --drai (did you mean '--drain'?)"),
        (["--driver-memry=4g"], "there is no option --driver-memry (did you mean '--driver-memory'?)"),
        (["--rounds", "3"], "there is no option --rounds: give --set solver.rounds=VALUE"),
        (
            ["--wave", "1"],
            "there is no option --wave of a job: it is an option of ./ballast rollback and ./ballast wave",
        ),
        (
            ["--manifest=x"],
            "there is no option --manifest of a job: it is an option of ./ballast approve, ./ballast revoke, "
            "./ballast run, ./ballast rollback and ./ballast wave",
        ),
        (["--zzz"], "there is no option --zzz"),
        (["--", "--zzz"], "there is no option --zzz"),
    ],
)
def test_an_option_that_no_job_has(words: list[str], message: str) -> None:
    """It is refused with a suggestion: an option of a job, of Spark or of a command, or a knob."""
    with pytest.raises(UsageError) as caught:
        check_arguments(split(["plan", *words]))
    assert (str(caught.value), caught.value.job) == (message, "plan")


def test_arguments_of_a_job_are_accepted() -> None:
    """Options of a job, negative numbers, and texts with spaces."""
    words = ["--run-id", "x", "--set=solver.rounds=3", "--drain", "-1", "--cluster", "-- a"]
    check_arguments(split(["plan", *words]))


def test_the_last_conf_counts() -> None:
    """A property that is given twice has the later value, under either name of the option."""
    line = split(["--conf", "spark.master=yarn", "-c", "spark.master=local[3]", "plan"])
    assert line.conf("spark.master") == "local[3]"
    assert line.conf("spark.other") is None
