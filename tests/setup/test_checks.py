"""./run-tests.sh: the tests that each tier runs."""

import subprocess
import tomllib
from types import SimpleNamespace

import pytest

from setup import checks
from setup.paths import HOME

# Options with which pytest leaves tests out.
SELECTING = {"-m", "-k", "--deselect", "--ignore", "--ignore-glob", "-x", "--exitfirst", "--maxfail", "--lf", "--sw"}


def started(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> list[tuple[str, ...]]:
    """The commands that the checks start, without their folders."""
    commands: list[tuple[str, ...]] = []

    def run(command: list[str], **_: object) -> SimpleNamespace:
        commands.append((command[0].rpartition("/")[2], *command[1:]))
        return SimpleNamespace(returncode=0)

    monkeypatch.setattr(subprocess, "run", run)
    assert checks.main(list(arguments)) == 0
    return commands


@pytest.mark.parametrize(("arguments", "tests"), [((), checks.DAILY_TESTS), (("--all",), checks.ALL_TESTS)])
def test_both_tiers_run_every_check(
    monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], tests: tuple[str, ...]
) -> None:
    """Lint, format, types and import rules run first, then the tests of the tier."""
    assert started(monkeypatch, *arguments) == [*checks.CHECKS, ("python", "-m", "pytest", *tests)]


def test_other_arguments_go_to_pytest_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """No check runs, and no option of a tier is added."""
    assert started(monkeypatch, "-q", "tests/audit") == [("python", "-m", "pytest", "-q", "tests/audit")]


def test_all_leaves_nothing_out() -> None:
    """No option of ``--all`` and none in pyproject.toml selects tests, and all of them are below ``tests``."""
    options = tomllib.loads((HOME / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["pytest"]["ini_options"]
    assert SELECTING.isdisjoint(word.partition("=")[0] for word in (*checks.ALL_TESTS, *options["addopts"]))
    assert options["testpaths"] == ["tests"]
    assert not options.keys() & {"norecursedirs", "collect_imported_tests", "python_files"}
    folders = [path for path in HOME.iterdir() if path.is_dir() and not path.name.startswith(".")]
    assert [path.name for path in folders if any(path.rglob("test_*.py"))] == ["tests"]


def test_the_daily_tier_leaves_out_one_marker() -> None:
    """Otherwise it is ``--all`` with another profile of Hypothesis."""
    assert (*checks.ALL_TESTS, "-m", "not all_only", "--hypothesis-profile", "daily") == checks.DAILY_TESTS


def test_ci_runs_everything() -> None:
    """CI ends with ``./run-tests.sh --all``, so it gets the last line and the exit code of pytest."""
    script = (HOME / ".ci" / "run").read_text(encoding="utf-8").splitlines()
    assert script[1:] == ['exec "$(dirname -- "$(readlink -f -- "$0")")/../run-tests.sh" --all </dev/null']
