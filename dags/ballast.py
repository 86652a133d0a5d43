"""Ballast on Airflow: plans every night, asks for approval per cluster, executes approved waves, removes old runs.

Copy this file into Airflow's DAG folder and write your site into ``SITE``; docs/airflow.md describes the steps. Airflow
needs the providers ``standard`` and ``apache-spark``. It does not need Ballast, because commands run on Ballast's host.
"""

import json
import logging
import os
import re
import shlex
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator
from airflow.sdk import DAG, BaseHook, BaseSensorOperator, Context, Param, PokeReturnValue, TaskGroup, TriggerRule, task
from airflow.sdk.exceptions import (
    AirflowException,
    AirflowFailException,
    AirflowSensorTimeout,
    AirflowSkipException,
)

Callback = Callable[[Context], None]


@dataclass(frozen=True)
class Site:
    """The settings of a site.

    Parameters
    ----------
    name : str
        Prefix of the DAG ids; choose another for a second copy of this file.
    clusters : tuple of str
        Ids of ``[[clusters]]`` in ``config`` whose plans may be approved and executed.
    home : str
        Folder of Ballast on the host where commands run.
    config : str
        The job's TOML file on that host. Secrets are in the file that its ``client_config`` names.
    run_with : tuple of str
        Program that gets each command as its last argument, one line of shell: ``("ssh", "-o", "BatchMode=yes",
        "edge-1")``, ``("kubectl", "exec", "deploy/ballast", "--", "bash", "-c")``.
    queue : str
        Airflow queue for these commands. Its worker must be one machine: the lock between two steps is a file on it.
    pool : str
        Airflow pool with one slot: only one Spark driver at a time writes the warehouse, and none while old runs are
        removed.
    spark_connection : str
        Airflow connection of type ``spark`` with the master.
    schedule : str or None
        When to plan; None: only by hand.
    tidy_schedule : str or None
        When to remove old runs; None: only by hand.
    keep_days : int
        Runs stay for this time: ``./ballast tidy --keep-days``.
    by_rules : bool
        Whether the rules of ``[approval]`` in ``config`` approve plans; they ask a person about the others.
    approvers : tuple of str
        User ids that may approve; empty: everybody who may answer Airflow's questions.
    answer_hours : float
        After this time a question without an answer counts as rejected.
    wave_hours : float
        After this time a wave that still copies is marked as failed; its copies continue under their throttles.
    plan_age_hours : float
        Plans with an older snapshot are neither approved nor started; 0: they expire as their manifests say. Each
        later wave of a plan may start ``wave_hours`` later.
    report_url : str
        Where the job's output folder can be read in a browser; the question links the report below it. Empty: no link.
    kafka_bin : str
        Folder of Kafka's tools; empty: they are on PATH.
    on_late_wave : str
        After ``wave_hours``: ``keep`` lets the copies run, ``cancel`` cancels them and restores the replica lists.
    watch_minutes : float
        How long ``run`` watches running copies, every two seconds, before it frees its worker for ``poll_seconds``.
        Only a watch of more than 15 minutes can notice that copies do not get on.
    poll_seconds : float
        Seconds between two commands while copies run; below 5 the scheduler may treat a task as lost.
    retries : int
        How often a failed task is tried again; a refused task is not.
    retry_seconds : float
        Seconds between two tries.
    plan_hours, command_hours : float
        Time limits of the job and of one command; a command over its limit is killed. The limit of ``run`` is
        ``watch_minutes`` longer.
    off_minutes : float
        How long to try to remove throttles before the task fails.
    on_failed, on_waiting : tuple of callable
        Airflow notifiers for failed tasks and for waiting questions.
    """

    clusters: tuple[str, ...]
    home: str
    config: str
    name: str = "ballast"
    run_with: tuple[str, ...] = ("bash", "-c")
    queue: str = "default"
    pool: str = "ballast"
    spark_connection: str = "ballast_spark"
    schedule: str | None = "0 1 * * *"
    tidy_schedule: str | None = "0 12 * * 0"
    keep_days: int = 90
    by_rules: bool = False
    approvers: tuple[str, ...] = ()
    answer_hours: float = 12
    wave_hours: float = 24
    plan_age_hours: float = 0
    report_url: str = ""
    kafka_bin: str = ""
    on_late_wave: str = "keep"
    watch_minutes: float = 20
    poll_seconds: float = 10
    retries: int = 2
    retry_seconds: float = 60
    plan_hours: float = 6
    command_hours: float = 2
    off_minutes: float = 10
    on_failed: tuple[Callback, ...] = ()
    on_waiting: tuple[Callback, ...] = ()

    def __post_init__(self) -> None:
        """Check the time to watch: a late wave is noticed only when ``run`` ends.

        Raises
        ------
        ValueError
        """
        if not 0 < self.watch_minutes <= self.wave_hours * 60:
            raise ValueError(
                f"watch_minutes of SITE is {self.watch_minutes}: give more than 0, and at most wave_hours "
                f"({self.wave_hours * 60:g} minutes)"
            )


SITE = Site(
    clusters=("orders",),
    home="/opt/ballast",
    config="/opt/ballast/conf/site.toml",
)

PLAN_ID = "{{ (dag_run.logical_date or dag_run.run_after) | ts_nodash }}"
START = datetime(2026, 1, 1)
LATE = "late"
# Exit codes of ./ballast. The same command would give FINAL codes again, so they are not retried.
DONE, RUNS, INCOMPLETE = 0, 4, 6
FINAL = (2, 3, 5, INCOMPLETE)
# Parameters of a nightly run; each overrides the configuration file.
PLAN_PARAMS = {
    "cluster": Param("all", enum=["all", *SITE.clusters], description="plan only this cluster"),
    "only": Param("all", enum=["all", "drain", "racks", "leaders", "demote", "dirs"], description="fix only this"),
    "drain": Param(
        [], type="array", items={"type": "integer", "minimum": 0}, description="brokers to empty; needs one cluster"
    ),
    "max_moved_gb": Param(0, type="number", minimum=0, description="limit of copied data in GB; 0: as configured"),
    "throttle_mb_per_s": Param(
        0, type="number", minimum=0, description="copy rate per broker and direction in MB/s; 0: as configured"
    ),
}
PLAN_RUN_PARAMS = {"plan": Param(type="string", pattern=r"^[A-Za-z0-9._-]{1,100}$", description="run id of the plan")}
WAVE_PARAMS = {
    **PLAN_RUN_PARAMS,
    "wave": Param(type="string", pattern=r"^[1-9][0-9]{0,5}$", description="number of the wave"),
    "waves": Param(type="string", pattern=r"^[1-9][0-9]{0,5}$", description="number of waves in the plan"),
    "manifest": Param(type="string", pattern=r"^[0-9a-f]{64}$", description="sha256 of the approved manifest"),
    "valid_hours": Param("24", type="string", pattern=r"^[0-9.]{1,20}$", description="hours that the plan is valid"),
}
# The head of the question: why the rules have not approved the plan.
WHY_A_PERSON = """\
You are asked because of these rules:
{% for reason in macros.json.loads(ti.xcom_pull(task_ids='rules'))['reasons'] %}
- {{ reason }}
{%- endfor %}

"""
FAILED_WAVE_HELP = """\
**If a task is red**: its log lists the problems. Running copies keep their throttles, and tasks can safely run
again.

- Fix what the log names, then clear the red task *with those downstream*.
- `run` with exit code 5: copies run but do not get on. The log has the rate that they need.
- `elect` with exit code 6: all waves are done. The log names the partitions that were skipped or have another leader.
- To end the wave instead: `./ballast wave off --on-failure cancel` with the run, cluster and wave of this run.
"""


def job_options(params: Mapping[str, Any]) -> list[str]:
    """The job's options for the parameters of a run that differ from their defaults."""
    words = []
    if params["cluster"] != "all":
        words += ["--cluster", params["cluster"]]
    if params["only"] != "all":
        words += ["--only", params["only"]]
    if params["drain"]:
        words += ["--drain", ",".join(map(str, params["drain"]))]
    if params["max_moved_gb"]:
        words += ["--set", f"policy.max_moved_gb={params['max_moved_gb']}"]
    if params["throttle_mb_per_s"]:
        words += ["--set", f"schedule.throttle_mb_per_s={params['throttle_mb_per_s']}"]
    return words


class PlanOperator(SparkSubmitOperator):
    """Submits the job ``pipeline``. Exit codes 2 (usage or configuration error) and 3 (refused) are not retried."""

    template_fields = (*SparkSubmitOperator.template_fields, "plan_id")

    def __init__(self, *, plan_id: str, **kwargs: Any) -> None:
        binary = f"{SITE.home}/spark-submit.sh"
        target = {"conn_id": SITE.spark_connection, "deploy_mode": "client"}
        super().__init__(application="pipeline", spark_binary=binary, **target, **kwargs)
        self.plan_id = plan_id

    def execute(self, context: Context) -> None:
        """Submit the job. A missing connection raises an error here, because the hook would use YARN instead."""
        BaseHook.get_connection(SITE.spark_connection)
        words = ["--config", SITE.config, "--run-id", self.plan_id, *job_options(context["params"])]
        # Everything after -- goes to the job, not to Spark.
        self.application_args = ["--", *words]
        try:
            super().execute(context)
        except AirflowException as error:
            if re.search(r"Error code is: [23]\b", str(error)):
                raise AirflowFailException(str(error)) from error
            raise


class CommandOperator(BaseSensorOperator):
    """Runs a command of ``./ballast`` on Ballast's host.

    The exit code decides:

    - 0: the task is done; its result is the command's line of JSON, if there is one.
    - 4: copies still run; the task runs again later and holds no worker meanwhile.
    - 2, 3, 5: usage error, refused, or copies do not get on; the task fails without a retry.
    - 6: done, except for some partitions; the task fails without a retry, or is done with a warning.
    - Any other code: the task fails and may be retried.

    Parameters
    ----------
    words : sequence of str
        Arguments of ``./ballast``, templated; each stays one argument, whatever it contains.
    only_for : str
        A cluster. The task is skipped if the run plans only another cluster.
    late : str
        Advice in the error message after the time limit.
    is_patient : bool
        Whether to run the command again after failures, until the time limit. Codes 2, 3 and 5 still fail at once.
    may_skip : bool
        Whether the task is done after code 6. Its result then is the command's message.
    watch_minutes : float
        How long the command watches copies, in addition to the time limit of each command.
    """

    template_fields = ("words",)

    def __init__(
        self,
        *,
        words: Sequence[str],
        only_for: str = "",
        late: str = "",
        is_patient: bool = False,
        may_skip: bool = False,
        watch_minutes: float = 0,
        **kwargs: Any,
    ) -> None:
        polling = {"mode": "reschedule", "poke_interval": SITE.poll_seconds, "queue": SITE.queue}
        limit = timedelta(hours=SITE.command_hours, minutes=watch_minutes)
        super().__init__(execution_timeout=limit, **polling, **kwargs)
        self.words, self.only_for, self.late = list(words), only_for, late
        self.is_patient, self.may_skip = is_patient, may_skip
        self._process: subprocess.Popen[str] | None = None

    def execute(self, context: Context) -> Any:
        """Run the command until it is done; after the time limit, mark the run as late for the next tasks and fail."""
        if self.only_for and context["params"]["cluster"] not in ("all", self.only_for):
            raise AirflowSkipException("this run plans only another cluster")
        try:
            return super().execute(context)
        except AirflowSensorTimeout as error:
            context["ti"].xcom_push(LATE, True)
            raise AirflowSensorTimeout(f"{error} {self.late}") from error

    def poke(self, context: Context) -> PokeReturnValue:
        """Run the command once."""
        code, lines = self._run([*SITE.run_with, shlex.join([f"{SITE.home}/ballast", *self.words])])
        message = "\n".join(lines[-30:])
        if code == INCOMPLETE and self.may_skip:
            self.log.warning("Done, except for some partitions: the next tasks go on without them.\n%s", message)
            return PokeReturnValue(True, message)
        if code in (DONE, RUNS) or (self.is_patient and code not in FINAL):
            json_lines = (line for line in reversed(lines) if line.startswith("{"))
            return PokeReturnValue(code == DONE, next(json_lines, None))
        failure = AirflowFailException if code in FINAL else AirflowException
        raise failure(f"exit code {code}: {message}")

    def on_kill(self) -> None:
        """End the command, because Airflow stops the task; else ``run`` would watch and start copies for minutes."""
        if self._process:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGTERM)

    def _run(self, command: Sequence[str]) -> tuple[int, list[str]]:
        """Exit code and output lines. If the task ends first, by its time limit or by hand, the command is killed."""
        self.log.info("%s", shlex.join(command))
        lines = []
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
        ) as process:
            assert process.stdout is not None
            self._process = process
            try:
                for line in process.stdout:
                    self.log.info("%s", line.rstrip())
                    lines.append(line.rstrip())
            except BaseException:
                self.on_kill()
                raise
        self._process = None
        return process.returncode, lines


def start(task_id: str, dag_id: str, run_id: str, **conf: str) -> TriggerDagRunOperator:
    """A task that starts a run of another DAG; if that run already exists, the task is skipped."""
    options = {"skip_when_already_exists": True, "fail_when_dag_is_paused": True}
    return TriggerDagRunOperator(task_id=task_id, trigger_dag_id=dag_id, trigger_run_id=run_id, conf=conf, **options)


def dag_arguments(**kwargs: Any) -> dict[str, Any]:
    """Arguments of a DAG: those that all DAGs share, and ``kwargs``."""
    retry = {"retries": SITE.retries, "retry_delay": timedelta(seconds=SITE.retry_seconds)}
    args = {**retry, "on_failure_callback": list(SITE.on_failed)}
    return {"start_date": START, "catchup": False, "default_args": args, "tags": ["ballast"], **kwargs}


def approval_dag_id(cluster: str) -> str:
    """Id of the DAG that asks for approval of a cluster's plan."""
    return f"{SITE.name}_approval__{cluster}"


def wave_dag_id(cluster: str) -> str:
    """Id of the DAG that executes a cluster's waves."""
    return f"{SITE.name}_wave__{cluster}"


def show_plan(task_id: str, cluster: str, plan_id: str, **kwargs: Any) -> CommandOperator:
    """A task whose result is a cluster's plan as JSON; it fails if there is no plan."""
    plan = ("--config", SITE.config, f"--run-id={plan_id}", "--cluster", cluster)
    return CommandOperator(task_id=task_id, words=("show", *plan, "--json"), **kwargs)


@task.short_circuit
def summary(plan_json: str) -> bool:
    """Log the plan's summary; without waves the next tasks are skipped."""
    plan = json.loads(plan_json)
    logging.getLogger("airflow.task").info("%s", plan["summary"])
    return bool(plan["waves"])


@task
def facts(plan_json: str) -> dict[str, Any]:
    """What the next tasks show and pass on."""
    plan: dict[str, Any] = json.loads(plan_json)
    return {
        "manifest_sha256": plan["manifest_sha256"],
        "waves": str(plan["waves"]),
        "valid_hours": str(plan["valid_hours"] or 24),
        "title": plan["decision"]["title"],
        "text": plan["decision"]["text"],
    }


def report_link(cluster: str, plan_id: str) -> str:
    """A link to the report of a plan in Markdown; empty if the site publishes no reports."""
    return f"[Report]({SITE.report_url.rstrip('/')}/{plan_id}/{cluster}/report.html)\n\n" if SITE.report_url else ""


@task.branch
def decide(answer_json: str) -> str:
    """Choose the next task: the first wave if the rules have approved the plan, or else the question."""
    return "approved" if json.loads(answer_json)["approved"] else "question"


@task.branch
def more(params: Mapping[str, str]) -> str:
    """Choose the next task: start the next wave, or after the last wave elect leaders."""
    return "next_wave" if int(params["wave"]) < int(params["waves"]) else "elect"


def nightly() -> DAG:
    """Plan all clusters in one job; start the approval of each plan that has waves."""
    arguments = dag_arguments(params=PLAN_PARAMS, max_active_runs=1)
    with DAG(f"{SITE.name}_nightly", schedule=SITE.schedule, **arguments) as dag:
        limit = timedelta(hours=SITE.plan_hours)
        plan = PlanOperator(task_id="plan", plan_id=PLAN_ID, pool=SITE.pool, queue=SITE.queue, execution_timeout=limit)
        for cluster in SITE.clusters:
            with TaskGroup(cluster.replace(".", "__")):
                # If one cluster of many is refused, the job fails, but the plans of the others are used.
                gate = show_plan("gate", cluster, PLAN_ID, trigger_rule="all_done", only_for=cluster)
                ask = start("ask", approval_dag_id(cluster), PLAN_ID, plan=PLAN_ID)
                plan >> gate >> summary(gate.output) >> ask
    return dag


def tidy() -> DAG:
    """Remove old runs and unused files."""
    with DAG(f"{SITE.name}_tidy", schedule=SITE.tidy_schedule, **dag_arguments(max_active_runs=1)) as dag:
        words = ("tidy", "--config", SITE.config, "--keep-days", str(SITE.keep_days))
        CommandOperator(task_id="tidy", words=words, pool=SITE.pool)
    return dag


def approval(cluster: str) -> DAG:
    """Ask for approval of one plan of a cluster; after approval start its first wave."""
    arguments = dag_arguments(params=PLAN_RUN_PARAMS, is_paused_upon_creation=False)
    with DAG(approval_dag_id(cluster), schedule=None, **arguments) as dag:
        plan_id = "{{ params.plan }}"
        look = show_plan("look", cluster, plan_id)
        plan_facts = facts(look.output)
        facts_xcom = "ti.xcom_pull(task_ids='facts')"
        manifest = f"{{{{ {facts_xcom}['manifest_sha256'] }}}}"
        question = ApprovalOperator(
            task_id="question",
            subject=f"{{{{ {facts_xcom}['title'] }}}}",
            body=f"{WHY_A_PERSON if SITE.by_rules else ''}"
            f"```text\n{{{{ {facts_xcom}['text'] }}}}\n```\n{report_link(cluster, plan_id)}"
            f"Plan {plan_id}, manifest `{manifest}`",
            defaults=ApprovalOperator.REJECT,
            response_timeout=timedelta(hours=SITE.answer_hours),
            assigned_users=[{"id": name, "name": name} for name in SITE.approvers] or None,
            notifiers=list(SITE.on_waiting),
            retries=0,
        )
        by = "{{ ti.xcom_pull(task_ids='question')['responded_by_user']['name'] }}"
        run = ("--config", SITE.config, f"--run-id={plan_id}", "--cluster", cluster)
        age = ("--max-plan-age-hours", str(SITE.plan_age_hours)) if SITE.plan_age_hours else ()
        approve_words = ("approve", *run, "--manifest", manifest, *age)
        approve = CommandOperator(task_id="approve", words=(*approve_words, f"--by={by}"))
        from_facts = {name: f"{{{{ {facts_xcom}['{name}'] }}}}" for name in ("waves", "valid_hours")}
        waves = {"wave": "1", "manifest": manifest, **from_facts}
        first_wave = start("first_wave", wave_dag_id(cluster), f"{plan_id}__wave-001", plan=plan_id, **waves)
        question >> approve >> first_wave
        if SITE.by_rules:
            rules = CommandOperator(task_id="rules", words=(*approve_words, "--by-rules", "--json"))
            # After Reject both tasks before the first wave are skipped, so no wave starts.
            approved = EmptyOperator(task_id="approved")
            first_wave.trigger_rule = TriggerRule.NONE_FAILED_MIN_ONE_SUCCESS
            look >> plan_facts >> rules >> decide(rules.output) >> [approved, question]
            approved >> first_wave
        else:
            look >> plan_facts >> question
    return dag


def wave(cluster: str) -> DAG:
    """Execute one wave of an approved plan, then start the next."""
    number, plan_id = "{{ params.wave }}", "{{ params.plan }}"

    def command(task_id: str, first: Sequence[str], *words: str, **kwargs: Any) -> CommandOperator:
        plan = (f"--run-id={plan_id}", "--cluster", cluster, "--manifest", "{{ params.manifest }}")
        tools = ("--kafka-bin", SITE.kafka_bin) if SITE.kafka_bin else ()
        return CommandOperator(
            task_id=task_id, words=(*first, "--config", SITE.config, *plan, *tools, *words), **kwargs
        )

    def step(name: str, *words: str, **kwargs: Any) -> CommandOperator:
        return command(name, ("wave", name), "--wave", number, *words, **kwargs)

    options = {
        "params": WAVE_PARAMS,
        "max_active_runs": 1,
        "doc_md": FAILED_WAVE_HELP,
        "is_paused_upon_creation": False,
    }
    with DAG(wave_dag_id(cluster), schedule=None, **dag_arguments(**options)) as dag:
        # Earlier waves took time, so the limit for the snapshot's age grows with each wave.
        valid = SITE.plan_age_hours or "params.valid_hours | float"
        hours = f"{{{{ ({valid}) + {SITE.wave_hours} * (params.wave | int - 1) }}}}"
        age = ("--max-plan-age-hours", hours)
        # The setup of the teardown `off`. It cannot fail, so from here on `off` always runs and removes the throttles.
        begin = EmptyOperator(task_id="begin")
        late = "The log names what the copies wait for. Their throttles stay. " + FAILED_WAVE_HELP
        run = command(
            *("run", ("run",), "--waves", number, "--for", str(SITE.watch_minutes), *age),
            timeout=SITE.wave_hours * 3600,
            late=late,
            is_patient=True,
            may_skip=True,
            watch_minutes=SITE.watch_minutes,
        )
        is_late = f"ti.xcom_pull(task_ids='run', key='{LATE}')"
        ending = f"{{{{ '{SITE.on_late_wave}' if {is_late} else 'keep' }}}}"
        off = step("off", "--on-failure", ending, timeout=SITE.off_minutes * 60, late=late)
        verify = step("verify", may_skip=True)
        next_id = f"{plan_id}__wave-{{{{ '%03d' % (params.wave | int + 1) }}}}"
        conf = {name: f"{{{{ params.{name} }}}}" for name in ("plan", "waves", "manifest", "valid_hours")}
        next_wave = start("next_wave", wave_dag_id(cluster), next_id, wave="{{ params.wave | int + 1 }}", **conf)
        step("preflight", *age) >> begin >> run
        run >> off.as_teardown(setups=begin, on_failure_fail_dagrun=True)
        [run, off] >> verify >> more() >> [next_wave, step("elect")]
    return dag


DAGS = [nightly(), tidy(), *(make(cluster) for cluster in SITE.clusters for make in (approval, wave))]
