"""Every list of exit codes agrees with the errors in the code."""

import re
from collections.abc import Iterator, Mapping

import pytest

from execution.steps import Incomplete, StillMoving
from execution.watch import Stalled, Stopped
from optimizer import job_options
from optimizer.errors import AlreadyApproved, AuditFailed, BallastError, QualityGateFailed, Removed
from setup.ballast_options import parser
from setup.submit import usage
from stored.verdicts import NoManifest, Refused
from tests.docs.pages import ROOT

# The word for each refusal in a list.
OF_RUNS: dict[type[BallastError], str] = {
    QualityGateFailed: "gate",
    AuditFailed: "audit",
    AlreadyApproved: "approved",
    Removed: "removed",
}
LISTED = "the message lists the problems"
OF_COMMANDS: dict[type[BallastError], str] = {Refused: LISTED, NoManifest: LISTED, Stopped: "stopped"}


def of_help(text: str) -> dict[int, str]:
    """The meanings by code after "exit codes:" at the end of a help text."""
    listed = " ".join(text.partition("exit codes: ")[2].split())
    return {int(code): meaning for code, meaning in re.findall(r"(\d) (\D+)", listed)}


def of_page(column: int) -> dict[int, str]:
    """The meanings by code in a column of the page's table: of jobs, or of commands. A dash is no meaning."""
    table = (ROOT / "docs" / "exit-codes.md").read_text(encoding="utf-8").partition("|---|---|---|\n")[2]
    rows = [[cell.strip() for cell in row.strip("|").split("|")] for row in table.partition("\n\n")[0].splitlines()]
    return {int(row[0]): row[column] for row in rows if row[column] != "-"}


# By place: a list, and its word for each refusal.
LISTS: Mapping[str, tuple[dict[int, str], dict[type[BallastError], str]]] = {
    "spark-submit.sh JOB --help": (of_help(job_options.EPILOG), OF_RUNS),
    "spark-submit.sh --help": (of_help(usage({})), OF_RUNS),
    "ballast --help": (of_help(parser().format_help()), OF_COMMANDS),
    "docs/exit-codes.md, jobs": (of_page(1), OF_RUNS),
    "docs/exit-codes.md, commands": (of_page(2), OF_COMMANDS),
}


def errors(kind: type[BallastError] = BallastError) -> Iterator[type[BallastError]]:
    """An error class and its subclasses, without those of tests."""
    if not kind.__module__.startswith("tests."):
        yield kind
    for subclass in kind.__subclasses__():
        yield from errors(subclass)


@pytest.mark.parametrize("place", LISTS)
def test_a_list_has_the_codes_of_the_errors(place: str) -> None:
    """It has 0 and the exit code of each error, and no other. Lists of jobs lack the codes of commands."""
    meanings, refusals = LISTS[place]
    known = [
        error for error in errors() if Refused in refusals or not error.__module__.startswith(("execution.", "stored."))
    ]
    assert meanings.keys() == {0} | {error.exit_code for error in known}


@pytest.mark.parametrize("place", LISTS)
def test_a_list_names_each_refusal(place: str) -> None:
    """Exit code 3 has each cause: gate, audit, the approved or removed plan of a run, and the refusal of a command."""
    meanings, refusals = LISTS[place]
    assert [word for word in refusals.values() if word not in meanings[3]] == []


@pytest.mark.parametrize("error", [StillMoving, Stalled, Incomplete])
def test_codes_of_commands_are_their_own(error: type[BallastError]) -> None:
    """Lists of commands have them; lists of jobs do not."""
    for meanings, refusals in LISTS.values():
        assert (error.exit_code in meanings) == (Refused in refusals)


def test_every_refusal_has_a_word() -> None:
    """An error with exit code 3 has its word in the lists."""
    assert {error for error in errors() if error.exit_code == 3} == {*OF_RUNS, *OF_COMMANDS}
