"""The DAG file: task ids, and how the tasks that run commands and submit the job end."""

import json
import os
import shlex
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from subprocess import PIPE
from typing import Any

import pytest

from setup.paths import AIRFLOW, HOME
from tests.airflow.site import of_site

pytestmark = pytest.mark.airflow

FAKE = """#!/bin/sh
printf '%s\\n' "$@"
[ "$FAKE_EXIT" = hang ] && echo $$ > pid && exec sleep 300
printf '{"result": 1}\\nnoise\\n'
exit "$FAKE_EXIT"
"""
InAirflow = Callable[..., Any]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator["subprocess.Popen[str]"]:
    """A process with Airflow's imports; see in_airflow.py."""
    folder = tmp_path_factory.mktemp("server")
    (folder / "dags.py").write_text(of_site("b", clusters=("a.1",), home=str(folder), config="/c.toml"))
    plain = {name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW")}
    conn = '{"conn_type": "spark", "host": "local[2]"}'
    environ = {**plain, "AIRFLOW_HOME": str(folder / "home"), "AIRFLOW_CONN_BALLAST_SPARK": conn}
    program = HOME / "tests" / "airflow" / "in_airflow.py"
    command = [str(AIRFLOW / "bin" / "python"), str(program), str(folder / "dags.py")]
    with subprocess.Popen(command, env=environ, stdin=PIPE, stdout=PIPE, text=True) as process:
        yield process
        assert process.stdin
        process.stdin.close()


@pytest.fixture
def in_airflow(server: "subprocess.Popen[str]", tmp_path: Path) -> InAirflow:
    """Runs a function of in_airflow.py on a site's DAG file with fake programs that print their arguments."""
    for name in ("spark-submit.sh", "ballast", "elsewhere"):
        (tmp_path / name).write_text(FAKE)
        (tmp_path / name).chmod(0o755)

    def run(*words: str, **own: object) -> Any:
        file = tmp_path / "dags.py"
        file.write_text(of_site("b", **{"clusters": ("a.1",), "home": str(tmp_path), "config": "/c.toml", **own}))
        assert server.stdin
        assert server.stdout
        server.stdin.write(json.dumps({"file": str(file), "folder": str(tmp_path), "words": words}) + "\n")
        server.stdin.flush()
        lines = iter(server.stdout.readline, "")
        code = next(line for line in lines if line.strip().isdigit())  # the imports may print lines
        assert code == "0\n", (tmp_path / "output").read_text()[-3000:]
        return json.loads((tmp_path / "result").read_text())

    return run


def test_each_wave_passes_its_parameters_on(in_airflow: InAirflow) -> None:
    """Also a wave that was started by another: the next number, and the same plan, count and manifest."""
    handed = {"plan": "p", "wave": "3", "waves": "3", "manifest": "m", "valid_hours": "30.5"}
    assert in_airflow("second_hand_on") == ["p__wave-003", handed]


@pytest.mark.parametrize(
    ("own", "limits"),
    [
        ({}, [30.5, 30.5, 78.5, 78.5, None]),
        ({"plan_age_hours": 12, "wave_hours": 1.5}, [12, 12, 15, 15, 12]),
    ],
)
def test_a_plan_is_started_while_it_is_valid(in_airflow: InAirflow, own: dict[str, float], limits: list[float]) -> None:
    """As long as the plan says, or the site. Later waves may start later, because earlier waves take time."""
    assert in_airflow("ages", **own) == limits


def test_a_question_is_titled_with_the_plan_and_shows_the_first_screen(in_airflow: InAirflow) -> None:
    """With a link to the report if the site publishes it."""
    plan = {"run_id": "p", "cluster_id": "a.1", "waves": 2, "manifest_sha256": "abc", "valid_hours": None}
    decision = {"title": "a.1: 71.7 TB, 6 nights, 38 to 56 h; all reached", "text": "Ready to approve. {{ y }}"}
    plan_json = json.dumps(plan | {"decision": decision})
    end = "Plan p, manifest `abc`"
    assert in_airflow("question", "", plan_json) == [[decision["title"], f"```text\n{decision['text']}\n```\n{end}"]]
    [[_, body]] = in_airflow("question", "", plan_json, report_url="https://here.example/plans/")
    link = "[Report](https://here.example/plans/p/a.1/report.html)"
    assert body == f"```text\n{decision['text']}\n```\n{link}\n\n{end}"


def test_a_question_says_why_the_rules_ask(in_airflow: InAirflow) -> None:
    """On top, a line for each rule. An answer of the rules chooses the next task."""
    plan = {"run_id": "p", "cluster_id": "a.1", "waves": 2, "manifest_sha256": "abc", "valid_hours": None}
    decision = {"title": "t", "text": "Ready to approve."}
    refused = json.dumps({"approved": False, "reasons": ["moves 1.29 TB, the limit is 500 GB", "note {{ x }}"]})
    [[_, body]] = in_airflow("question", refused, json.dumps(plan | {"decision": decision}), by_rules=True)
    lines = "- moves 1.29 TB, the limit is 500 GB\n- note {{ x }}\n"
    assert body == (
        f"You are asked because of these rules:\n\n{lines}\n```text\nReady to approve.\n```\nPlan p, manifest `abc`"
    )
    assert in_airflow("decide", refused, '{"approved": true, "reasons": []}') == ["question", "approved"]


def test_rules_come_before_the_question(in_airflow: InAirflow) -> None:
    """If the site has rules; the first wave starts after either. The rules approve only the manifest that was seen."""
    assert in_airflow("shape", by_rules=True)["b_approval__a.1"] == {
        "look": [],
        "facts": ["look"],
        "rules": ["facts"],
        "decide": ["rules"],
        "approved": ["decide"],
        "question": ["decide"],
        "approve": ["question"],
        "first_wave": ["approve", "approved"],
    }


def test_ids_and_order_of_the_tasks_are_an_interface(in_airflow: InAirflow) -> None:
    """Operators and scripts that clear, watch or trigger tasks depend on the names."""
    assert in_airflow("shape") == {
        "b_nightly": {"plan": [], "a__1.gate": ["plan"], "a__1.summary": ["a__1.gate"], "a__1.ask": ["a__1.summary"]},
        "b_tidy": {"tidy": []},
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
            "run": ["begin"],
            "off": ["begin", "run"],
            "verify": ["off", "run"],
            "more": ["verify"],
            "next_wave": ["more"],
            "elect": ["more"],
        },
    }


def test_old_runs_are_removed_while_no_plan_is_made(in_airflow: InAirflow) -> None:
    """The task needs the slot of the pool that the planning job needs; the site chooses schedule and days."""
    words = ["tidy", "--config", "/c.toml", "--keep-days"]
    assert in_airflow("tidying") == [[*words, "90"], "ballast", "0 12 * * 0"]
    own = {"keep_days": 30, "pool": "one", "tidy_schedule": None}
    assert in_airflow("tidying", **own) == [[*words, "30"], "one", None]


SAID = """wave
off
--by
a'b; c
{"result": 1}
noise"""


def test_a_commands_exit_code_says_how_its_task_ends(in_airflow: InAirflow) -> None:
    """Done, checked again later, failed without a retry, or retried; each argument stays one argument."""
    codes = {"0": True, "4": False, "1": "AirflowException", **dict.fromkeys("2356", "AirflowFailException")}
    for code, (result, value) in zip(codes, in_airflow("poke", *codes), strict=True):
        assert result == codes[code]
        assert value == ('{"result": 1}' if code in "04" else f"exit code {code}: {SAID}")


def test_the_task_run_ends_only_when_it_is_done_refused_stalled_or_late(in_airflow: InAirflow) -> None:
    """Any other failure is tried again until the time limit. Copies that do not get on end it without a retry."""
    results = [result for result, _ in in_airflow("wave", "run", "0", "1", "2", "3", "4", "5", "6", "255")]
    refused = "AirflowFailException"
    assert results == [True, False, refused, refused, False, refused, True, False]


def test_skipped_partitions_make_only_the_last_task_red(in_airflow: InAirflow) -> None:
    """The tasks of a wave are done, and their result is the message; ``elect`` fails without a retry."""
    ends = in_airflow("wave", "run,verify,elect,off", "6")
    assert [end for end, _ in ends] == [True, True, "AirflowFailException", "AirflowFailException"]
    assert [message.splitlines()[-2:] for _, message in ends] == [['{"result": 1}', "noise"]] * 4


def test_a_command_that_watches_has_more_time_than_it_watches(in_airflow: InAirflow) -> None:
    """It gets the number of its wave and the minutes. They are in addition to the time limit of each command."""
    words, minutes = in_airflow("words", "run", watch_minutes=7, command_hours=0.05)
    assert (words[0], words[words.index("--waves") + 1], words[words.index("--for") + 1]) == ("run", "2", "7")
    assert minutes == 7 + 3


def test_a_time_to_watch_that_hides_late_waves_is_an_error(in_airflow: InAirflow) -> None:
    """Airflow shows it as an import error of the file."""
    *wrong, longest = in_airflow("watches", "1", "0", "-1", "nan", "61", "60")
    advice = "give more than 0, and at most wave_hours (60 minutes)"
    assert wrong == [f"watch_minutes of SITE is {value}: {advice}" for value in ("0.0", "-1.0", "nan", "61.0")]
    assert longest == ""


def test_a_command_that_hangs_is_killed_with_its_task(in_airflow: InAirflow, tmp_path: Path) -> None:
    """By the task's time limit or by hand: none of its processes remains."""
    assert in_airflow("hang") == "TimeoutError"
    assert not Path("/proc", (tmp_path / "pid").read_text().strip()).exists()


def test_a_command_ends_when_airflow_stops_its_task(in_airflow: InAirflow, tmp_path: Path) -> None:
    """By hand or by a new state: otherwise it would watch and start copies for minutes."""
    assert in_airflow("stop") is False
    assert not Path("/proc", (tmp_path / "pid").read_text().strip()).exists()


def test_a_gate_of_another_cluster_is_skipped(in_airflow: InAirflow) -> None:
    """If a run plans only one cluster."""
    assert in_airflow("gate", "other", "a.1", "all") == ["AirflowSkipException", "done", "done"]


@pytest.mark.parametrize(
    "words", [("-o", "BatchMode=yes", "edge-1"), ("exec", "deploy/ballast", "--", "bash", "-c")], ids=["ssh", "kubectl"]
)
def test_commands_can_run_on_another_host(in_airflow: InAirflow, tmp_path: Path, words: tuple[str, ...]) -> None:
    """The program that connects to the host gets the command as one line of shell, and its exit code counts."""
    ((result, output),) = in_airflow("poke", "3", run_with=(str(tmp_path / "elsewhere"), *words))
    assert result == "AirflowFailException"
    *before, line, _, _ = output.removeprefix("exit code 3: ").splitlines()
    assert before == list(words)
    assert shlex.split(line) == [f"{tmp_path}/ballast", "wave", "off", "--by", "a'b; c"]


def test_a_plan_that_was_refused_is_not_planned_again(in_airflow: InAirflow) -> None:
    """Exit codes 2 and 3 of the job fail its task without a retry."""
    ended = ["done", "AirflowException", "AirflowFailException", "AirflowFailException", "AirflowException"]
    assert [result for result, _ in in_airflow("submit", "{}", "0", "1", "2", "3", "23")] == ended


def test_a_plan_without_a_connection_is_an_error(in_airflow: InAirflow) -> None:
    """Airflow does not use YARN instead."""
    ((error, output),) = in_airflow("submit", "{}", "0", spark_connection="nowhere")
    assert error == "AirflowNotFoundException"
    assert "nowhere" in output


def test_run_parameters_become_options_of_the_job(in_airflow: InAirflow) -> None:
    """After --, so that none is read as an option of Spark; defaults are left out."""
    params = {"cluster": "a.1", "only": "drain", "drain": [3, 7], "max_moved_gb": 2.5, "throttle_mb_per_s": 20}
    ((_, output),) = in_airflow("submit", json.dumps(params), "1")
    words = shlex.split(output.partition("Cannot execute: ")[2].partition(". Error code")[0])
    always, requested = (
        ["--config", "/c.toml", "--run-id", "p1"],
        ["--cluster", "a.1", "--only", "drain", "--drain", "3,7"],
    )
    knobs = ["--set", "policy.max_moved_gb=2.5", "--set", "schedule.throttle_mb_per_s=20"]
    assert words[words.index("pipeline") :] == ["pipeline", "--", *always, *requested, *knobs]
    ((_, output),) = in_airflow("submit", "{}", "1")
    assert output.partition("pipeline ")[2].partition(". Error")[0] == "-- --config /c.toml --run-id p1"
