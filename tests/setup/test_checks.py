"""./run-tests.sh: the tests that each tier runs."""

import os
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path
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
    monkeypatch.setattr(checks, "run_and_end_all", lambda command: run(command).returncode)
    assert checks.main(list(arguments)) == 0
    return commands


UNMARKED, MARKED = ((*checks.ALL_TESTS, "-m", which) for which in ("not all_only", "all_only"))


@pytest.mark.parametrize(("arguments", "runs"), [((), [checks.DAILY_TESTS]), (("--all",), [UNMARKED, MARKED])])
def test_both_tiers_run_every_check(
    monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], runs: list[tuple[str, ...]]
) -> None:
    """Lint, format, types and import rules run first, then the tests of the tier: of ``--all`` first those without the
    mark, then those with it, which together are all."""
    pytest_runs = [("python", "-m", "pytest", *options) for options in runs]
    assert started(monkeypatch, *arguments) == [*checks.CHECKS, *pytest_runs]


@pytest.mark.parametrize(
    ("codes", "code", "not_run"), [([1, 0], 1, []), ([0, 2], 2, []), ([130, 0], 130, [0])], ids=str
)
def test_a_failure_in_either_run_is_one(
    monkeypatch: pytest.MonkeyPatch, codes: list[int], code: int, not_run: list[int]
) -> None:
    """The second run begins whatever the first does, but not after Ctrl-C."""
    left = list(codes)
    monkeypatch.setattr(checks, "run_checks", lambda: [])
    monkeypatch.setattr(checks, "run_and_end_all", lambda command: left.pop(0))
    assert (checks.main(["--all"]), left) == (code, not_run)


def test_other_arguments_go_to_pytest_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """No check runs, and no option of a tier is added."""
    assert started(monkeypatch, "-q", "tests/audit") == [("python", "-m", "pytest", "-q", "tests/audit")]


def test_all_leaves_nothing_out() -> None:
    """But for the mark (above), no option of ``--all`` and none in pyproject.toml selects tests, and all of them are
    below ``tests``."""
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
    """CI runs ``./run-tests.sh --all`` and ends with its exit code; a signal to CI's command reaches it. Tests
    marked ``all_only`` begin within its first hour (``tests/tiers.py``), and nothing else is left out."""
    script = (HOME / ".ci" / "run").read_text(encoding="utf-8").splitlines()
    ending = ["trap 'kill -TERM $!; wait $!; exit' TERM INT", "wait $! || exit"]
    until = "export BALLAST_ALL_UNTIL=$(($(date +%s) + 3600))"
    assert script[4:8] == [until, "./run-tests.sh --all </dev/null &", *ending]


# A test run with a server in a session of its own, which a signal to the run does not reach.
RUN = """
import pathlib, subprocess, sys, time
server = subprocess.Popen(["sleep", "600"], start_new_session=True)
pathlib.Path(sys.argv[1]).write_text(str(server.pid))
time.sleep(float(sys.argv[2]))
"""
CHECKS = "import sys; from setup import checks; sys.exit(checks.run_and_end_all(sys.argv[1:]))"


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="only Linux has /proc")
@pytest.mark.parametrize(("stopped_by", "code"), [(None, 0), (signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_no_server_outlives_the_tests(tmp_path: Path, stopped_by: signal.Signals | None, code: int) -> None:
    """After the end, Ctrl-C and SIGTERM nothing runs any more, not even what has lost its parent."""
    file = tmp_path / "pid"
    command = [sys.executable, "-c", CHECKS, sys.executable, "-c", RUN, str(file), "0" if stopped_by is None else "600"]
    with subprocess.Popen(command, cwd=HOME, start_new_session=True) as checked:
        until = time.monotonic() + 60
        while not (file.exists() and file.read_text()) and time.monotonic() < until:
            time.sleep(0.05)
        if stopped_by is not None:
            os.killpg(checked.pid, stopped_by)
        assert checked.wait(60) == code
    assert not Path("/proc", file.read_text()).exists()
