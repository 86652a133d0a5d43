"""The file of DAGs by itself: its tasks' ids, and how commands and the submission are called and end."""

import json
import os
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from setup.paths import AIRFLOW, HOME
from tests.airflow.site import of_site

pytestmark = pytest.mark.airflow

FAKE = """#!/bin/sh
printf '%s\\n' "$@"
[ "$FAKE_EXIT" = hang ] && echo $$ > pid && exec sleep 300
printf '{"told": 1}\\nnoise\\n'
exit "$FAKE_EXIT"
"""
Told = Callable[..., Any]


@pytest.fixture
def in_airflow(tmp_path: Path) -> Told:
    """Runs a function of in_airflow.py over a site's file, whose programs are fakes that print their arguments."""
    for name in ("spark-submit.sh", "ballast", "elsewhere"):
        (tmp_path / name).write_text(FAKE)
        (tmp_path / name).chmod(0o755)

    def run(*words: str, **own: object) -> Any:
        file = tmp_path / "dags.py"
        file.write_text(of_site("b", **{"clusters": ("a.1",), "home": str(tmp_path), "config": "/c.toml", **own}))
        command = [
            str(AIRFLOW / "bin" / "python"),
            str(HOME / "tests" / "airflow" / "in_airflow.py"),
            str(file),
            *words,
        ]
        plain = {name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW")}
        conn = '{"conn_type": "spark", "host": "local[2]"}'
        environ = {**plain, "AIRFLOW_HOME": str(tmp_path / "home"), "AIRFLOW_CONN_BALLAST_SPARK": conn}
        done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False, cwd=tmp_path)
        assert done.returncode == 0, done.stderr[-3000:]
        return json.loads(done.stdout.splitlines()[-1])

    return run


def test_each_wave_hands_on_what_it_was_given(in_airflow: Told) -> None:
    """Also one that was itself started by a wave: the next number, and the same plan, count and manifest."""
    handed = {"plan": "p", "wave": "3", "waves": "3", "manifest": "m"}
    assert in_airflow("second_hand_on") == ["p__wave-003", handed]


def test_ids_and_order_of_the_tasks_are_an_interface(in_airflow: Told) -> None:
    """Whoever clears, watches or triggers them relies on their names."""
    assert in_airflow("shape") == {
        "b_nightly": {"plan": [], "a__1.gate": ["plan"], "a__1.summary": ["a__1.gate"], "a__1.ask": ["a__1.summary"]},
        "b_approval__a.1": {
            "look": [],
            "facts": ["look"],
            "question": ["facts"],
            "approve": ["question"],
            "first_wave": ["approve"],
        },
        "b_wave__a.1": {
            "preflight": [],
            "begin": ["preflight"],
            "throttle": ["begin"],
            "execute": ["throttle"],
            "wait": ["execute"],
            "off": ["begin", "wait"],
            "verify": ["off", "wait"],
            "more": ["verify"],
            "next_wave": ["more"],
            "elect": ["more"],
        },
    }


SAID = """wave
off
--by
a'b; c
{"told": 1}
noise"""


def test_a_commands_exit_code_says_how_its_task_ends(in_airflow: Told) -> None:
    """Done, looked at again, failed for good, or to be tried again; each argument stays one, whatever is in it."""
    codes = {"0": True, "4": False, "1": "AirflowException", "2": "AirflowFailException", "3": "AirflowFailException"}
    for code, (result, said) in zip(codes, in_airflow("poke", *codes), strict=True):
        assert result == codes[code]
        assert said == ('{"told": 1}' if code in "04" else f"exit code {code}: {SAID}")


def test_a_wave_that_is_waited_for_is_ended_by_its_time_alone(in_airflow: Told) -> None:
    """A look that fails is no end of the copies; what was refused is."""
    ended = [one for one, _ in in_airflow("wait", "0", "1", "3", "4", "255")]
    assert ended == [True, False, "AirflowFailException", False, False]


def test_a_command_that_hangs_is_ended_with_its_task(in_airflow: Told, tmp_path: Path) -> None:
    """By the task's time or by hand: no process of it is left."""
    assert in_airflow("hang") == "TimeoutError"
    assert not Path("/proc", (tmp_path / "pid").read_text().strip()).exists()


def test_a_gate_of_another_cluster_is_skipped(in_airflow: Told) -> None:
    """Where a person plans one cluster alone."""
    assert in_airflow("gate", "other", "a.1", "all") == ["AirflowSkipException", "done", "done"]


@pytest.mark.parametrize(
    "words", [("-o", "BatchMode=yes", "edge-1"), ("exec", "deploy/ballast", "--", "bash", "-c")], ids=["ssh", "kubectl"]
)
def test_commands_can_run_elsewhere(in_airflow: Told, tmp_path: Path, words: tuple[str, ...]) -> None:
    """The program that reaches the other place gets the command as one line of shell, and its exit code counts."""
    ((result, said),) = in_airflow("poke", "3", run_with=(str(tmp_path / "elsewhere"), *words))
    assert result == "AirflowFailException"
    *before, line, _, _ = said.removeprefix("exit code 3: ").splitlines()
    assert before == list(words)
    assert shlex.split(line) == [f"{tmp_path}/ballast", "wave", "off", "--by", "a'b; c"]


def test_a_plan_that_was_refused_is_not_planned_again(in_airflow: Told) -> None:
    """Exit codes 2 and 3 of the job fail its task for good."""
    ended = ["done", "AirflowException", "AirflowFailException", "AirflowFailException", "AirflowException"]
    assert [one for one, _ in in_airflow("submit", "{}", "0", "1", "2", "3", "23")] == ended


def test_a_plan_without_a_connection_is_an_error(in_airflow: Told) -> None:
    """It is not taken for YARN."""
    ((error, said),) = in_airflow("submit", "{}", "0", spark_connection="nowhere")
    assert error == "AirflowNotFoundException"
    assert "nowhere" in said


def test_wishes_become_options_of_the_job(in_airflow: Told) -> None:
    """Behind --, so that none is taken for an option of Spark; what is not asked is left out."""
    wishes = {"cluster": "a.1", "only": "drain", "drain": [3, 7], "max_moved_gb": 2.5, "throttle_mb_per_s": 20}
    ((_, said),) = in_airflow("submit", json.dumps(wishes), "1")
    words = shlex.split(said.partition("Cannot execute: ")[2].partition(". Error code")[0])
    always, asked = ["--config", "/c.toml", "--run-id", "p1"], ["--cluster", "a.1", "--only", "drain", "--drain", "3,7"]
    knobs = ["--set", "policy.max_moved_gb=2.5", "--set", "schedule.throttle_mb_per_s=20"]
    assert words[words.index("pipeline") :] == ["pipeline", "--", *always, *asked, *knobs]
    ((_, said),) = in_airflow("submit", "{}", "1")
    assert said.partition("pipeline ")[2].partition(". Error")[0] == "-- --config /c.toml --run-id p1"
