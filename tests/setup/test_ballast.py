"""./ballast as a user runs it."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from execution.options import COMMANDS
from setup.paths import HOME


def ballast(folder: Path, *words: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run the script from another folder."""
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [str(HOME / "ballast"), *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder, env={**clean, **environ})


def test_help_lists_the_commands(tmp_path: Path) -> None:
    """--help names each command and the exit codes; the program is called ballast."""
    result = ballast(tmp_path, "--help")
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.startswith("usage: ballast [-h] [--version] COMMAND ...\n")
    assert [name for name in COMMANDS if f"\n    {name:8}  {COMMANDS[name]}\n" not in result.stdout] == []
    assert "exit codes: 0 done, 1 failed, 2 usage or configuration error" in result.stdout


@pytest.mark.parametrize("words", [["--help"], *([name, "--help"] for name in COMMANDS)], ids=" ".join)
def test_help_needs_no_packages(words: list[str]) -> None:
    """Help works before any package is installed; -S hides all packages."""
    command = [sys.executable, "-S", "-P", "-m", "setup.commands", *words]
    environ = {"PYTHONPATH": str(HOME), "PATH": "/nowhere"}
    result = subprocess.run(command, capture_output=True, text=True, check=False, env=environ)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.startswith(f"usage: {' '.join(['ballast', *words[:-1]])} ")


def test_commands_run_by_python_alone(tmp_path: Path) -> None:
    """A command gets its arguments unchanged and runs in the caller's folder."""
    words = ["wave", "off", "--run-id", "a b", "--cluster", "c", "--wave", "1", "--warehouse", "nowhere"]
    [python, *rest] = shlex.split(ballast(tmp_path, *words, BALLAST_DRY_RUN="1").stdout)
    assert (python, rest) == (str(HOME / ".venv/bin/python"), ["-P", "-m", "execution", *words])
    result = ballast(tmp_path, *words)
    remedy = "give the warehouse of the run with --warehouse"
    error = f"error: there is no table verdicts in {tmp_path / 'nowhere'}: {remedy}. "
    assert (result.returncode, result.stderr.startswith(error)) == (2, True)


def test_a_job_is_refused_with_the_call_of_spark_submit(tmp_path: Path) -> None:
    """Jobs need Spark: the error names the script that submits them."""
    result = ballast(tmp_path, "pipeline", "--config", "x.toml")
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.endswith("ballast: error: pipeline is a job: run ./spark-submit.sh pipeline\n")


def test_a_reader_may_stop_early(tmp_path: Path) -> None:
    """A command ends without an error if its reader ends first, for example head."""
    script = (
        "from execution import cli; cli.runs_table = lambda *_: ('x' * 1000 for _ in range(1000)); "
        "raise SystemExit(cli.main(['show']))"
    )
    command = f"{shlex.quote(sys.executable)} -P -c {shlex.quote(script)} | head -1 | wc -c; echo ${{PIPESTATUS[0]}}"
    environ = {**os.environ, "PYTHONPATH": str(HOME)}
    result = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False, env=environ)
    assert (result.stdout.split(), result.stderr) == (["1001", "0"], "")
