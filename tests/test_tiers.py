"""A test that takes too long for the daily tier fails, unless it is marked; the daily tier says what it left out."""

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from setup.paths import HOME
from tests import durations, tiers

CONFTEST = """
import pytest
from tests import tiers
from tests.examples import DAILY
from hypothesis import settings

tiers.MOST_SECONDS, tiers.MOST_SHARED_SECONDS, tiers.DEAREST = 0.3, 0.8, 5
settings.register_profile(DAILY)

def pytest_configure(config):
    config.pluginmanager.register(tiers.Tiers(), "tiers")
"""
TESTS = """
import subprocess, sys, time
import pytest
from hypothesis import given, settings, strategies

WORK = "import time\\nwhile time.process_time() < 0.5: pass"

def work(seconds=0.5):
    until = time.process_time() + seconds
    while time.process_time() < until:
        pass

@pytest.fixture(scope="session")
def session():
    work(1.1)

@pytest.fixture(scope="module")
def short():
    work()

@pytest.fixture(scope="module")
def long():
    work(1)

@pytest.fixture
def own():
    work()

def test_quick(session, short): pass
def test_waits(): time.sleep(0.5)
def test_sets_up(own): pass
def test_shares(long): pass
def test_works(): work()
def test_starts_another(): subprocess.run([sys.executable, "-S", "-c", WORK], check=True)
@pytest.mark.all_only
def test_marked(): work()
@settings(max_examples=1, database=None, deadline=None)
@given(strategies.just(1))
def test_property(one): work(1.2)
"""
TOO_LONG = {"test_sets_up", "test_shares", "test_works", "test_starts_another"}
INI = "[pytest]\nmarkers =\n  all_only: long\n"


def failed(folder: Path, *options: str, **more: str) -> tuple[set[str], str]:
    """Names of the tests that failed, and what pytest printed."""
    for name, text in (("conftest.py", CONFTEST), ("test_a.py", TESTS), ("pytest.ini", INI)):
        (folder / name).write_text(text, encoding="utf-8")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "no:cacheprovider",
        "-rfE",
        *options,
        str(folder),
    ]
    environ = {**os.environ, "PYTHONPATH": str(HOME), tiers.UNTIL: "inf", **more}
    done = subprocess.run(command, env=environ, cwd=folder, capture_output=True, text=True, check=False)
    lines = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return {line.partition("::")[2].partition(" ")[0] for line in lines}, done.stdout


def test_a_test_over_the_limit_fails(tmp_path: Path) -> None:
    """Its own work, set-up and processes count, and by itself what a file shares; waiting does not. A last line names
    the other command."""
    names, printed = failed(tmp_path, "--hypothesis-profile", "daily", "-m", "not all_only")
    assert names == {*TOO_LONG, "test_property"}
    assert "of CPU time, the limit without the mark is 0.3 s: make it faster, or mark the test all_only" in printed
    assert "./run-tests.sh --all" in tiers.ANNOUNCEMENT
    assert printed.splitlines()[-2] == tiers.ANNOUNCEMENT
    rows = {row["name"]: row for row in json.loads((tmp_path / durations.FILE).read_text(encoding="utf-8"))}
    cost = {name.partition("::")[2]: row["cpu_seconds"] for name, row in rows.items()}
    assert (cost["[session]"] >= 1, 0.4 < cost["[short]"] < 1, cost["test_quick"] < 0.2) == (True, True, True)
    assert (cost["test_sets_up"] > 0.4, rows["test_a.py::test_waits"]["seconds"] > 0.4) == (True, True)
    assert "dearest tests" in printed
    assert printed.splitlines()[-1].startswith("====")


@pytest.mark.all_only
def test_outside_of_the_daily_tier_three_times_as_much_is_allowed(tmp_path: Path) -> None:
    """All examples are made there, perhaps on a busy machine."""
    names, printed = failed(tmp_path)
    assert names == set()
    assert tiers.ANNOUNCEMENT not in printed
    works = TESTS.replace("def test_works(): work()", "def test_works(): work(1.2)")
    (tmp_path / "more").mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys.modules[__name__], "TESTS", works)
        assert failed(tmp_path / "more")[0] == {"test_works"}


@pytest.mark.parametrize("processes", ["0", "2"])
def test_when_the_time_is_over_no_marked_test_begins(tmp_path: Path, processes: str) -> None:
    """The others do; the end names those left out, so that nobody takes them for passed."""
    options = ("-n", processes, "-k", "quick or marked")
    _, printed = failed(tmp_path, *options, BALLAST_ALL_UNTIL=str(time.time() - 1))
    assert "1 passed, 1 skipped" in printed
    assert f"NOT RUN (1), each {tiers.TOO_LATE}:\ntest_a.py::test_marked\n" in printed
    _, printed = failed(tmp_path, *options, BALLAST_ALL_UNTIL=str(time.time() + 600))
    assert "2 passed" in printed
    assert "NOT RUN" not in printed


def test_a_failed_test_is_named_at_once(tmp_path: Path) -> None:
    """A run that is stopped has no summary."""
    works = TESTS.replace("def test_works(): work()", "def test_works(): assert 1 == 2")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys.modules[__name__], "TESTS", works)
        _, printed = failed(tmp_path, "-n", "2", "-k", "quick or works")
    before_summary = printed.partition("= FAILURES =")[0]
    assert re.search(r"^failed in call: test_a.py::test_works: .*test_a.py:\d+: assert 1 == 2", before_summary, re.M)


def test_processes_hand_their_durations_over(tmp_path: Path) -> None:
    """With xdist the file has the tests of all processes, each with its process."""
    failed(tmp_path, "-n", "2", "-m", "not all_only")
    rows = json.loads((tmp_path / durations.FILE).read_text(encoding="utf-8"))
    assert {row["worker"] for row in rows} == {"gw0", "gw1"}
    assert {"test_quick", "test_works"} <= {row["name"].partition("::")[2] for row in rows}


def test_those_that_may_take_longer_are_there() -> None:
    """No entry of the list is of a test that has gone."""
    for name, reason in tiers.LONG.items():
        file, _, function = name.partition("::")
        assert f"def {function}(" in (HOME / file).read_text(encoding="utf-8") or not function
        assert reason


def test_descendants_are_found() -> None:
    """Children of children count, those of others do not."""
    assert durations.descendants(2, {1: 0, 2: 1, 3: 2, 4: 3, 5: 1, 6: 5}) == {2, 3, 4}


def test_a_living_child_counts() -> None:
    """Spark's JVM and its workers are such: they do not end with a test."""
    began = durations.cpu_seconds()
    with subprocess.Popen([sys.executable, "-S", "-c", "while True: pass"]) as child:
        time.sleep(0.5)
        until = time.monotonic() + 60
        while durations.cpu_seconds() - began < 0.3 and time.monotonic() < until:
            time.sleep(0.1)
        child.kill()
    assert time.monotonic() < until


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="only Linux has /proc")
def test_an_ended_child_counts() -> None:
    """Its time is its parent's from then on; measured in a process of its own, whose other children do not end."""
    code = """
import subprocess, sys
from tests import durations
began = durations.cpu_seconds()
subprocess.run([sys.executable, "-S", "-c", "import time\\nwhile time.process_time() < 0.3: pass"], check=True)
print(durations.cpu_seconds() - began)
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=HOME, capture_output=True, text=True, check=True)
    assert float(done.stdout) > 0.2
