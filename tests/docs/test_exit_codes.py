"""Every list of exit codes says what the errors in the code end with."""

import re
from collections.abc import Iterator, Mapping

import pytest

from execution.options import parser
from execution.planned import Refused
from execution.steps import StillMoving
from optimizer import job_options
from optimizer.errors import AlreadyApproved, AuditFailed, BallastError, QualityGateFailed
from setup.submit import usage
from tests.docs.pages import ROOT

# What a list calls each way to be refused.
OF_RUNS: dict[type[BallastError], str] = {QualityGateFailed: "gate", AuditFailed: "audit", AlreadyApproved: "approved"}
OF_COMMANDS: dict[type[BallastError], str] = {Refused: "in the way"}


def of_help(text: str) -> dict[int, str]:
    """The meanings by code that stand behind "exit codes:" at the end of a help text."""
    listed = " ".join(text.partition("exit codes: ")[2].split())
    return {int(code): told for code, told in re.findall(r"(\d) (\D+)", listed)}


def of_page(name: str) -> dict[int, str]:
    """The meanings by code of the table of exit codes of a page."""
    table = (ROOT / name).read_text(encoding="utf-8").partition("| exit code | meaning |\n|---|---|\n")[2]
    rows = table.partition("\n\n")[0]
    return {int(code): told for code, told in re.findall(r"^\| (\d) \| (.+) \|$", rows, re.MULTILINE)}


# By where it stands: a list, and what it calls each way to be refused.
LISTS: Mapping[str, tuple[dict[int, str], dict[type[BallastError], str]]] = {
    "spark-submit.sh JOB --help": (of_help(job_options.EPILOG), OF_RUNS),
    "spark-submit.sh --help": (of_help(usage({})), OF_RUNS),
    "ballast --help": (of_help(parser().format_help()), OF_COMMANDS),
    "README.md": (of_page("README.md"), OF_RUNS | OF_COMMANDS),
    "docs/operations.md": (of_page("docs/operations.md"), {**OF_RUNS, Refused: "[execution](execution.md#one-wave)"}),
    "docs/execution.md": (of_page("docs/execution.md"), OF_COMMANDS),
}


def errors(kind: type[BallastError] = BallastError) -> Iterator[type[BallastError]]:
    """An error and all that are of its kind, those of tests left out."""
    if not kind.__module__.startswith("tests."):
        yield kind
    for one in kind.__subclasses__():
        yield from errors(one)


@pytest.mark.parametrize("where", LISTS)
def test_a_list_has_the_codes_of_the_errors(where: str) -> None:
    """It has 0 and each exit code that an error has, and no other; the jobs have none of the commands."""
    told, refused = LISTS[where]
    known = [one for one in errors() if Refused in refused or not one.__module__.startswith("execution.")]
    assert told.keys() == {0} | {one.exit_code for one in known}


@pytest.mark.parametrize("where", LISTS)
def test_a_list_tells_each_way_to_be_refused(where: str) -> None:
    """What ends with 3 is named: the gate, the audit and the approved plan of a run, and the refusal of a command."""
    told, refused = LISTS[where]
    assert [word for word in refused.values() if word not in told[3]] == []


def test_copies_that_still_run_have_a_code_of_their_own() -> None:
    """The lists of commands have it; those of jobs do not."""
    for told, refused in LISTS.values():
        assert (StillMoving.exit_code in told) == (Refused in refused)


def test_every_way_to_be_refused_is_known_here() -> None:
    """An error that ends with 3 has its words in the lists."""
    assert {one for one in errors() if one.exit_code == 3} == {*OF_RUNS, *OF_COMMANDS}
