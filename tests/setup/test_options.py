"""Splitting a command line into Spark's part and the job's."""

import pytest

from setup.options import UsageError, split

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
        "behind dashes all is the job's",
        ["plan", "--", "--name", "x", "--help"],
        ([], "plan", ["--name", "x", "--help"]),
    ),
    ("a value like an option", ["--name", "--x", "plan"], ([("--name", "--x")], "plan", [])),
    (
        "a similar name is the job's",
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
        (["--run-id", "x"], "--run-id is not an option of Spark; options of a job stand after its name"),
        (["plan", "--master"], "--master needs a value"),
    ],
)
def test_wrong_use(words: list[str], message: str) -> None:
    """What can't be meant is refused in words."""
    with pytest.raises(UsageError) as caught:
        split(words)
    assert str(caught.value) == message


def test_the_last_conf_counts() -> None:
    """A property that is given twice has the later value, under either name of the option."""
    line = split(["--conf", "spark.master=yarn", "-c", "spark.master=local[3]", "plan"])
    assert line.conf("spark.master") == "local[3]"
    assert line.conf("spark.other") is None
