"""Runs in Airflow's own environment: loads a DAG file and prints facts about it as JSON.

``FILE shape`` lists tasks with their upstream tasks. The other functions run an operator with fake programs and print
how it ends.
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


def load_module(path: str) -> Any:
    """The file as a module."""
    spec = importlib.util.spec_from_file_location("ballast_dags", path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules["ballast_dags"] = module
    spec.loader.exec_module(module)
    return module


def shape(dags: Any) -> object:
    """Ids of tasks with the ids of their upstream tasks, by DAG."""
    return {dag.dag_id: {task.task_id: sorted(task.upstream_task_ids) for task in dag.tasks} for dag in dags.DAGS}


def second_hand_on(dags: Any) -> object:
    """Id and configuration of the run that wave 2 of 3 starts."""
    starts = next(task for dag in dags.DAGS for task in dag.tasks if task.task_id == "next_wave")
    context = {"params": {"plan": "p", "wave": "2", "waves": "3", "manifest": "m"}}
    return starts.render_template([starts.trigger_run_id, starts.conf], context)


def poke(dags: Any, *codes: str) -> object:
    """How the task of a command ends for each of these exit codes."""

    def run() -> tuple[object, object]:
        result = dags.CommandOperator(task_id="t", words=["wave", "off", "--by", "a'b; c"]).poke({})
        return result.is_done, result.xcom_value

    return [_ended(code, run) for code in codes]


def wait(dags: Any, *codes: str) -> object:
    """How the task ``wait`` ends for each of these exit codes."""
    patient = next(task for dag in dags.DAGS for task in dag.tasks if task.task_id == "wait")

    def run() -> tuple[object, object]:
        result = patient.poke({})
        return result.is_done, result.xcom_value

    return [_ended(code, run) for code in codes]


def hang(dags: Any) -> object:
    """How a task ends if its command hangs."""

    def late(*_: object) -> None:
        raise TimeoutError

    signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, 1.0)
    return _ended("hang", lambda: dags.CommandOperator(task_id="t", words=["wave"]).poke({}))[0]


def gate(dags: Any, *clusters: str) -> object:
    """How the gate of the first cluster ends in runs for these clusters."""
    gate_task = next(task for dag in dags.DAGS for task in dag.tasks if task.task_id.endswith(".gate"))

    def run(cluster: str) -> tuple[object, object]:
        with patch.object(dags.BaseSensorOperator, "execute"):
            gate_task.execute({"params": {"cluster": cluster}})
        return "done", ""

    return [_ended("0", partial(run, cluster))[0] for cluster in clusters]


def submit(dags: Any, params: str, *codes: str) -> object:
    """How the operator that plans ends for each of these exit codes."""
    run_params = {name: param.value for name, param in dags.PLAN_PARAMS.items()} | json.loads(params)

    def run() -> tuple[object, object]:
        dags.PlanOperator(task_id="t", plan_id="p1").execute({"params": run_params})
        return "done", ""

    return [_ended(code, run) for code in codes]


def _ended(code: str, run: Callable[[], tuple[object, object]]) -> tuple[object, object]:
    os.environ["FAKE_EXIT"] = code
    try:
        return run()
    except Exception as error:
        return type(error).__name__, str(error)[:400]


if __name__ == "__main__":
    result = globals()[sys.argv[2]](load_module(sys.argv[1]), *sys.argv[3:])
    sys.stdout.write("\n" + json.dumps(result) + "\n")
