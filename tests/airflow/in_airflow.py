"""Runs in Airflow's own environment: loads a file of DAGs and tells of it in JSON.

``FILE shape`` lists tasks with those before them; the other functions run an operator, over programs that end as they
are told, and tell how it ends.
"""

import importlib.util
import json
import os
import signal
import sys
from collections.abc import Callable
from functools import partial
from typing import Any
from unittest.mock import patch


def loaded(path: str) -> Any:
    """The file as a module."""
    spec = importlib.util.spec_from_file_location("ballast_dags", path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules["ballast_dags"] = module
    spec.loader.exec_module(module)
    return module


def shape(dags: Any) -> object:
    """Ids of tasks, and of those before them, by DAG."""
    return {dag.dag_id: {one.task_id: sorted(one.upstream_task_ids) for one in dag.tasks} for dag in dags.DAGS}


def second_hand_on(dags: Any) -> object:
    """Id and configuration of the run that wave 2 of 3 starts."""
    starts = next(one for dag in dags.DAGS for one in dag.tasks if one.task_id == "next_wave")
    context = {"params": {"plan": "p", "wave": "2", "waves": "3", "manifest": "m"}}
    return starts.render_template([starts.trigger_run_id, starts.conf], context)


def poke(dags: Any, *codes: str) -> object:
    """How a command with each of these exit codes ends."""

    def run() -> tuple[object, object]:
        told = dags.CommandOperator(task_id="t", words=["wave", "off", "--by", "a'b; c"]).poke({})
        return told.is_done, told.xcom_value

    return [_ended(code, run) for code in codes]


def wait(dags: Any, *codes: str) -> object:
    """How the task that waits for copies takes these exit codes."""
    patient = next(one for dag in dags.DAGS for one in dag.tasks if one.task_id == "wait")

    def run() -> tuple[object, object]:
        told = patient.poke({})
        return told.is_done, told.xcom_value

    return [_ended(code, run) for code in codes]


def hang(dags: Any) -> object:
    """How a task ends whose command hangs."""

    def late(*_: object) -> None:
        raise TimeoutError

    signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, 1.0)
    return _ended("hang", lambda: dags.CommandOperator(task_id="t", words=["wave"]).poke({}))[0]


def gate(dags: Any, *clusters: str) -> object:
    """How the gate of the first cluster ends in runs for these clusters."""
    found = next(one for dag in dags.DAGS for one in dag.tasks if one.task_id.endswith(".gate"))

    def run(cluster: str) -> tuple[object, object]:
        with patch.object(dags.BaseSensorOperator, "execute"):
            found.execute({"params": {"cluster": cluster}})
        return "done", ""

    return [_ended("0", partial(run, cluster))[0] for cluster in clusters]


def submit(dags: Any, params: str, *codes: str) -> object:
    """How the plan's operator ends."""
    wishes = {name: param.value for name, param in dags.PLAN_PARAMS.items()} | json.loads(params)

    def run() -> tuple[object, object]:
        dags.PlanOperator(task_id="t", plan_id="p1").execute({"params": wishes})
        return "done", ""

    return [_ended(code, run) for code in codes]


def _ended(code: str, run: Callable[[], tuple[object, object]]) -> tuple[object, object]:
    os.environ["FAKE_EXIT"] = code
    try:
        return run()
    except Exception as error:
        return type(error).__name__, str(error)[:400]


if __name__ == "__main__":
    told = globals()[sys.argv[2]](loaded(sys.argv[1]), *sys.argv[3:])
    sys.stdout.write("\n" + json.dumps(told) + "\n")
