"""Runs in Airflow's own environment: loads DAG files and writes facts about them as JSON.

Airflow's imports take seconds, so one process has them and answers each request in a process of its own.
``shape`` lists tasks with their upstream tasks. The other functions run an operator with fake programs and say how it
ends.
"""

import importlib.util
import json
import os
import signal
import sys
import traceback
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


def tidying(dags: Any) -> object:
    """Words and pool of the task that removes old runs, and the schedule of its DAG."""
    [(dag, task)] = [(dag, task) for dag in dags.DAGS for task in dag.tasks if task.task_id == "tidy"]
    return [list(task.words), task.pool, dag.schedule]


def second_hand_on(dags: Any) -> object:
    """Id and configuration of the run that wave 2 of 3 starts."""
    starts = next(task for dag in dags.DAGS for task in dag.tasks if task.task_id == "next_wave")
    context = {"params": {"plan": "p", "wave": "2", "waves": "3", "manifest": "m", "valid_hours": "30.5"}}
    return starts.render_template([starts.trigger_run_id, starts.conf], context)


def ages(dags: Any) -> object:
    """The limits for the snapshot's age that waves 1 and 3 and the approval get; None: the option is not given."""
    tasks = {task.task_id: task for dag in dags.DAGS for task in dag.tasks}
    steps = [tasks["preflight"], tasks["run"]]
    params = [{"plan": "p", "manifest": "m", "wave": wave, "valid_hours": "30.5"} for wave in ("1", "3")]
    words = [step.render_template(step.words, {"params": values}) for values in params for step in steps]
    option = "--max-plan-age-hours"
    limits = [each[each.index(option) + 1] if option in each else None for each in (*words, tasks["approve"].words)]
    return [None if limit is None else float(limit) for limit in limits]


def question(dags: Any, answer: str, *plans: str) -> object:
    """Title and text of the question for each of these plans, which ``show --json`` printed, after this answer."""
    import airflow.sdk.execution_time.macros as macros

    asked = next(task for dag in dags.DAGS for task in dag.tasks if task.task_id == "question")

    class Pulling:
        def __init__(self, plan: str) -> None:
            self.facts = dags.facts.function(plan)

        def xcom_pull(self, *, task_ids: str) -> object:
            return {"facts": self.facts, "rules": answer}[task_ids]

    contexts = [{"params": {"plan": "p"}, "ti": Pulling(plan), "macros": macros} for plan in plans]
    return [asked.render_template([asked.subject, asked.body], context) for context in contexts]


def decide(dags: Any, *answers: str) -> object:
    """The next task for each of these answers of the rules."""
    return [dags.decide.function(answer) for answer in answers]


def poke(dags: Any, *codes: str) -> object:
    """How the task of a command ends for each of these exit codes."""

    def run() -> tuple[object, object]:
        result = dags.CommandOperator(task_id="t", words=["wave", "off", "--by", "a'b; c"]).poke({})
        return result.is_done, result.xcom_value

    return [_ended(code, run) for code in codes]


def wave(dags: Any, task_ids: str, *codes: str) -> object:
    """How these tasks of a wave end for each of these exit codes."""
    tasks = {task.task_id: task for dag in dags.DAGS for task in dag.tasks}

    def run(task_id: str) -> tuple[object, object]:
        result = tasks[task_id].poke({})
        return result.is_done, result.xcom_value

    return [_ended(code, partial(run, task_id)) for task_id in task_ids.split(",") for code in codes]


def words(dags: Any, task_id: str) -> object:
    """The rendered command of a task of wave 2, and its time limit in minutes."""
    command = next(task for dag in dags.DAGS for task in dag.tasks if task.task_id == task_id)
    params = {"plan": "p", "manifest": "m", "wave": "2", "valid_hours": "24"}
    minutes = command.execution_timeout.total_seconds() / 60
    return [command.render_template(command.words, {"params": params}), minutes]


def watches(dags: Any, wave_hours: str, *minutes: str) -> object:
    """The errors of sites with these values of ``watch_minutes``; empty without an error."""

    def run(value: str) -> tuple[object, object]:
        own = {"wave_hours": float(wave_hours), "watch_minutes": float(value)}
        dags.Site(clusters=("c",), home="/h", config="/c", **own)
        return "", ""

    return [_ended("0", partial(run, value))[1] for value in minutes]


def hang(dags: Any) -> object:
    """How a task ends if its command hangs."""

    def late(*_: object) -> None:
        raise TimeoutError

    signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, 1.0)
    return _ended("hang", lambda: dags.CommandOperator(task_id="t", words=["wave"]).poke({}))[0]


def stop(dags: Any) -> object:
    """How the task ``run`` ends if Airflow stops it while its command runs."""
    command = next(task for dag in dags.DAGS for task in dag.tasks if task.task_id == "run")
    signal.signal(signal.SIGALRM, lambda *_: command.on_kill())
    signal.setitimer(signal.ITIMER_REAL, 1.0)
    return _ended("hang", lambda: (command.poke({}).is_done, ""))[0]


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


def answer(file: str, folder: str, words: list[str]) -> None:
    """Write what a function of this module says about a DAG file to ``result``, and what it prints to ``output``."""
    os.chdir(folder)
    output = os.open("output", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for descriptor in (sys.stdout.fileno(), sys.stderr.fileno()):
        os.dup2(output, descriptor)
    with open("result", "w", encoding="utf-8") as result:
        json.dump(globals()[words[0]](load_module(file), *words[1:]), result)


def serve(example: str) -> None:
    """Answer the requests of standard input, a line each; print a line with the exit code of each."""
    load_module(example)
    for line in sys.stdin:
        child = os.fork()
        if not child:
            code = 1
            try:
                answer(**json.loads(line))
                code = 0
            except Exception:
                traceback.print_exc()
            finally:
                sys.stderr.flush()
                os._exit(code)
        _, status = os.waitpid(child, 0)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(status)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    serve(sys.argv[1])
