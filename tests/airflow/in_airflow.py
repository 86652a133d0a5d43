"""Runs in Airflow's own environment: loads a file of DAGs and tells of it in JSON.

``FILE shape`` lists tasks with those before them. ``FILE poke EXIT_CODE...`` runs a command with each of these codes,
``FILE submit PARAMS EXIT_CODE...`` the operator of the plan, and tells how they end.
"""

import importlib.util
import json
import os
import sys
from collections.abc import Callable
from typing import Any


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


def poke(dags: Any, *codes: str) -> object:
    """How a command with each of these exit codes ends."""

    def run() -> tuple[object, object]:
        told = dags.CommandOperator(task_id="t", words=["wave", "off", "--by", "a'b; c"]).poke({})
        return told.is_done, told.xcom_value

    return [_ended(code, run) for code in codes]


def submit(dags: Any, params: str, *codes: str) -> object:
    """How the plan's operator ends."""
    wishes = {name: param.value for name, param in dags.WISHES.items()} | json.loads(params)

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
