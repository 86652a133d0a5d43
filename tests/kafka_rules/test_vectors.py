"""Every vector made by Kafka's own classes passes, and the replay command reports each failure."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from setup.paths import HOME
from tests.replay_vectors import main, replay, replay_file

VECTORS = HOME / "tests" / "vectors"
COUNTS = {
    "adminutils": 300,
    "assignors": 200,
    "edges": 245,
    "elect": 1_500,
    "reassign": 292,
    "reassign_ends": 552,
    "striped": 300,
    "truncate": 400,
}


@pytest.mark.parametrize("name", sorted(COUNTS))
def test_all_vectors_pass(name: str) -> None:
    """Each vector of the file gives what Kafka gave."""
    outcomes = list(replay_file(VECTORS / f"{name}.jsonl"))
    assert [outcome for outcome in outcomes if outcome.status != "passed"] == []
    assert len(outcomes) == COUNTS[name]


def test_no_vector_file_is_forgotten() -> None:
    """The table above names every file of the folder."""
    assert {path.stem for path in VECTORS.glob("*.jsonl")} == set(COUNTS)


WRONG = {"id": "w", "in": {"op": "random", "seed": 42, "bounds": [10]}, "out": {"ok": [9]}}
RIGHT = {"id": "r", "in": {"op": "random", "seed": 42, "bounds": [10, 100]}, "out": {"ok": [0, 63]}}
CRASH = {"id": "c", "in": {"op": "random", "seed": "x", "bounds": [10]}, "out": {"ok": [9]}}
UNKNOWN = {"id": "u", "in": {"op": "telepathy"}, "out": {"ok": 1}}


@pytest.mark.parametrize(
    ("vector", "status"), [(WRONG, "failed"), (RIGHT, "passed"), (CRASH, "failed"), (UNKNOWN, "skipped")]
)
def test_status_of_one_vector(vector: dict[str, object], status: str) -> None:
    """A wrong answer and a crash fail, an unknown operation is skipped."""
    assert replay(vector).status == status


def test_command_reports_failures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The command prints each failure, ends with the counts and returns 1."""
    path = tmp_path / "some.jsonl"
    path.write_text("\n".join(map(json.dumps, [WRONG, RIGHT, UNKNOWN, RIGHT])))
    assert main([str(path)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"{path}: w failed"
    assert lines[-1] == "2 passed, 1 failed"


def test_command_runs_from_anywhere(tmp_path: Path) -> None:
    """As a script the command finds the code and exits with 0 when all vectors pass."""
    command = [sys.executable, str(HOME / "tests" / "replay_vectors.py"), str(VECTORS / "assignors.jsonl")]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "200 passed, 0 failed")


def test_command_needs_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    """Without a file the command prints its usage and returns 2."""
    assert main([]) == 2
    assert "usage" in capsys.readouterr().err
