"""Ballast on Airflow: a plan of all clusters every night, a question for each, and its waves after a yes.

Copy this file into Airflow's folder of DAGs and write your site into ``SITE``; docs/airflow.md has the steps. Airflow
needs the providers ``standard`` and ``apache-spark``, and nothing of Ballast: every command runs where Ballast is.
"""

import json
import logging
import os
import re
import shlex
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator
from airflow.sdk import DAG, BaseHook, BaseSensorOperator, Context, Param, PokeReturnValue, TaskGroup, task
from airflow.sdk.exceptions import (
    AirflowException,
    AirflowFailException,
    AirflowSensorTimeout,
    AirflowSkipException,
)

Callback = Callable[[Context], None]


@dataclass(frozen=True)
class Site:
    """What differs from site to site.

    Parameters
    ----------
    name : str
        First part of the DAGs' ids: another one for a second copy of this file.
    clusters : tuple of str
        Ids of ``[[clusters]]`` in ``config`` that are to be asked for and executed.
    home : str
        Folder of Ballast, where the commands run.
    config : str
        The job's TOML file there. Secrets stand in the file that its ``client_config`` names.
    run_with : tuple of str
        Program that gets each wave command as its last argument, one line of shell: ``("ssh", "-o", "BatchMode=yes",
        "edge-1")``, ``("kubectl", "exec", "deploy/ballast", "--", "bash", "-c")``.
    queue : str
        Airflow's queue whose worker runs these commands: one machine, for they keep each other out there alone.
    pool : str
        A pool of one slot: one Spark driver at a time writes the warehouse.
    spark_connection : str
        Airflow's connection of type ``spark`` with the master.
    schedule : str or None
        When plans are made; None: only by hand.
    approvers : tuple of str
        User ids that may answer; none: everybody who may answer questions.
    answer_hours : float
        A question without an answer ends as "no" after that.
    wave_hours : float
        A wave that still copies after that is told as failed; its copies go on, throttled.
    plan_age_hours : float
        Older snapshots are not begun with.
    kafka_bin : str
        Folder of Kafka's tools, where they are not on the PATH.
    on_late_wave : str
        After ``wave_hours``: ``keep`` leaves the copies alone, ``cancel`` ends them and puts the lists back.
    poll_seconds : float
        Between two looks at running copies; under 5 the scheduler can take a task for lost.
    retries : int
        How often what failed is tried again, but for what was refused.
    retry_seconds : float
        Between two tries.
    plan_hours, command_hours : float
        The most that the job, and one command, may take; a command that hangs is ended.
    off_minutes : float
        How long throttles are tried to be taken off before that is told as failed.
    on_failed, on_waiting : tuple of callable
        Airflow's notifiers: for failed tasks, and for questions that wait.
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
    approvers: tuple[str, ...] = ()
    answer_hours: float = 12
    wave_hours: float = 24
    plan_age_hours: float = 24
    kafka_bin: str = ""
    on_late_wave: str = "keep"
    poll_seconds: float = 60
    retries: int = 2
    retry_seconds: float = 60
    plan_hours: float = 6
    command_hours: float = 2
    off_minutes: float = 10
    on_failed: tuple[Callback, ...] = ()
    on_waiting: tuple[Callback, ...] = ()


SITE = Site(
    clusters=("orders",),
    home="/opt/ballast",
    config="/opt/ballast/conf/site.toml",
)

PLAN_ID = "{{ (dag_run.logical_date or dag_run.run_after) | ts_nodash }}"
START = datetime(2026, 1, 1)
LATE = "late"
# What a person may ask of one night's plan; each is laid over the configuration file.
WISHES = {
    "cluster": Param("all", enum=["all", *SITE.clusters], description="plan just this cluster"),
    "only": Param("all", enum=["all", "drain", "racks", "leaders", "demote"], description="mend just that"),
    "drain": Param(
        [], type="array", items={"type": "integer", "minimum": 0}, description="brokers to empty (one cluster)"
    ),
    "max_moved_gb": Param(0, type="number", minimum=0, description="most that is copied; 0: as configured"),
    "throttle_mb_per_s": Param(0, type="number", minimum=0, description="most that copies may take; 0: as configured"),
}
NAMES_A_PLAN = {"plan": Param(type="string", pattern=r"^[A-Za-z0-9._-]{1,100}$", description="run id of the plan")}
NAMES_A_WAVE = {
    **NAMES_A_PLAN,
    "wave": Param(type="string", pattern=r"^[1-9][0-9]{0,5}$", description="its number"),
    "waves": Param(type="string", pattern=r"^[1-9][0-9]{0,5}$", description="how many the plan has"),
    "manifest": Param(type="string", pattern=r"^[0-9a-f]{64}$", description="sha256 of the approved manifest"),
}
OF_RED_WAVE = """\
**When this is red**: the log of the red task says what is in the way. Nothing is copied without a throttle meanwhile,
and a task that runs twice does nothing twice.

- Mend what the log names, then clear the red task *with those downstream*.
- To end the wave instead: `./ballast wave off --on-failure cancel` with the run, cluster and wave of this run.
"""


def wish_arguments(wishes: Mapping[str, Any]) -> list[str]:
    """Options of the job for what was asked; what was not asked is left out."""
    words = []
    if wishes["cluster"] != "all":
        words += ["--cluster", wishes["cluster"]]
    if wishes["only"] != "all":
        words += ["--only", wishes["only"]]
    if wishes["drain"]:
        words += ["--drain", ",".join(map(str, wishes["drain"]))]
    if wishes["max_moved_gb"]:
        words += ["--set", f"policy.max_moved_gb={wishes['max_moved_gb']}"]
    if wishes["throttle_mb_per_s"]:
        words += ["--set", f"schedule.throttle_mb_per_s={wishes['throttle_mb_per_s']}"]
    return words


class PlanOperator(SparkSubmitOperator):
    """Submits the job ``pipeline``; exit codes 2 and 3 (wrong settings, refused) would be the same when tried again."""

    template_fields = (*SparkSubmitOperator.template_fields, "plan_id")

    def __init__(self, *, plan_id: str, **kwargs: Any) -> None:
        binary = f"{SITE.home}/spark-submit.sh"
        where = {"conn_id": SITE.spark_connection, "deploy_mode": "client"}
        super().__init__(application="pipeline", spark_binary=binary, **where, **kwargs)
        self.plan_id = plan_id

    def execute(self, context: Context) -> None:
        """Submit; a missing connection is an error, which the hook would take for YARN."""
        BaseHook.get_connection(SITE.spark_connection)
        words = ["--config", SITE.config, "--run-id", self.plan_id, *wish_arguments(context["params"])]
        # Behind -- nothing is an option of Spark.
        self.application_args = ["--", *words]
        try:
            super().execute(context)
        except AirflowException as error:
            if re.search(r"Error code is: [23]\b", str(error)):
                raise AirflowFailException(str(error)) from error
            raise


class CommandOperator(BaseSensorOperator):
    """Runs a command of ``./ballast`` where Ballast is.

    Exit code 0: done, a line of JSON is the task's result. 4: copies still run, it is tried again later, without
    holding a worker. 2 and 3: wrong use, refused; the task fails and is not tried again. Any other may be retried.

    Parameters
    ----------
    words : sequence of str
        Templated; each stays one word whatever is in it.
    only_for : str
        Skipped where the run is for another cluster alone.
    late : str
        What is to be done when the time is over.
    is_patient : bool
        Whether only the time ends it: what fails, like a look at a cluster that does not answer, is looked at again.
    """

    template_fields = ("words",)

    def __init__(
        self, *, words: Sequence[str], only_for: str = "", late: str = "", is_patient: bool = False, **kwargs: Any
    ) -> None:
        often = {"mode": "reschedule", "poke_interval": SITE.poll_seconds, "queue": SITE.queue}
        super().__init__(execution_timeout=timedelta(hours=SITE.command_hours), **often, **kwargs)
        self.words, self.only_for, self.late, self.is_patient = list(words), only_for, late, is_patient

    def execute(self, context: Context) -> Any:
        """Run it until it is done; what is late says what to do, and tells the tasks behind it."""
        if self.only_for and context["params"]["cluster"] not in ("all", self.only_for):
            raise AirflowSkipException("this run is for another cluster alone")
        try:
            return super().execute(context)
        except AirflowSensorTimeout as error:
            context["ti"].xcom_push(LATE, True)
            raise AirflowSensorTimeout(f"{error} {self.late}") from error

    def poke(self, context: Context) -> PokeReturnValue:
        """Run it once."""
        code, said = self._run([*SITE.run_with, shlex.join([f"{SITE.home}/ballast", *self.words])])
        if code in (0, 4) or (self.is_patient and code not in (2, 3)):
            told = (line for line in reversed(said) if line.startswith("{"))
            return PokeReturnValue(code == 0, next(told, None))
        failure = AirflowFailException if code in (2, 3) else AirflowException
        raise failure(f"exit code {code}: " + "\n".join(said[-30:]))

    def _run(self, command: Sequence[str]) -> tuple[int, list[str]]:
        """Exit code and lines; a task that ends before its command, by its time or by hand, ends that too."""
        self.log.info("%s", shlex.join(command))
        said = []
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
        ) as process:
            assert process.stdout is not None
            try:
                for line in process.stdout:
                    self.log.info("%s", line.rstrip())
                    said.append(line.rstrip())
            except BaseException:
                os.killpg(process.pid, signal.SIGTERM)
                raise
        return process.returncode, said


def start(task_id: str, dag_id: str, run_id: str, **conf: str) -> TriggerDagRunOperator:
    """Start the run of another DAG, once: where it exists already this one is skipped."""
    once = {"skip_when_already_exists": True, "fail_when_dag_is_paused": True}
    return TriggerDagRunOperator(task_id=task_id, trigger_dag_id=dag_id, trigger_run_id=run_id, conf=conf, **once)


def usual(**kwargs: Any) -> dict[str, Any]:
    """Arguments that all DAGs share."""
    retry = {"retries": SITE.retries, "retry_delay": timedelta(seconds=SITE.retry_seconds)}
    args = {**retry, "on_failure_callback": list(SITE.on_failed)}
    return {"start_date": START, "catchup": False, "default_args": args, "tags": ["ballast"], **kwargs}


def question_of(cluster: str) -> str:
    """Id of the DAG that asks for a cluster."""
    return f"{SITE.name}_approval__{cluster}"


def waves_of(cluster: str) -> str:
    """Id of the DAG that executes a cluster's waves."""
    return f"{SITE.name}_wave__{cluster}"


def shown(task_id: str, cluster: str, plan_id: str, **kwargs: Any) -> CommandOperator:
    """How a cluster's plan stands; fails where there is none."""
    where = ("--config", SITE.config, f"--run-id={plan_id}", "--cluster", cluster)
    return CommandOperator(task_id=task_id, words=("show", *where, "--json"), **kwargs)


@task.short_circuit
def summary(told: str) -> bool:
    """Log the summary; a plan without waves ends here."""
    plan = json.loads(told)
    logging.getLogger("airflow.task").info("%s", plan["summary"])
    return bool(plan["waves"])


@task
def facts(told: str) -> dict[str, Any]:
    """What the question and the waves need of a plan."""
    plan: dict[str, Any] = json.loads(told)
    return {**plan, "waves": str(plan["waves"])}


@task.branch
def more(params: Mapping[str, str]) -> str:
    """After the last wave leaders are elected; after each other one the next is started."""
    return "next_wave" if int(params["wave"]) < int(params["waves"]) else "elect"


def nightly() -> DAG:
    """Plan all clusters in one job; who has a plan that is worth executing is asked for."""
    with DAG(f"{SITE.name}_nightly", schedule=SITE.schedule, max_active_runs=1, params=WISHES, **usual()) as dag:
        limit = timedelta(hours=SITE.plan_hours)
        plan = PlanOperator(task_id="plan", plan_id=PLAN_ID, pool=SITE.pool, queue=SITE.queue, execution_timeout=limit)
        for cluster in SITE.clusters:
            with TaskGroup(cluster.replace(".", "__")):
                # The job fails where one cluster of many is refused: the others go on.
                gate = shown("gate", cluster, PLAN_ID, trigger_rule="all_done", only_for=cluster)
                ask = start("ask", question_of(cluster), PLAN_ID, plan=PLAN_ID)
                plan >> gate >> summary(gate.output) >> ask
    return dag


def approval(cluster: str) -> DAG:
    """Ask for one plan of a cluster; after a yes its first wave is started."""
    with DAG(question_of(cluster), schedule=None, params=NAMES_A_PLAN, is_paused_upon_creation=False, **usual()) as dag:
        plan_id = "{{ params.plan }}"
        told = shown("look", cluster, plan_id)
        known = facts(told.output)
        pulled = "ti.xcom_pull(task_ids='facts')"
        question = ApprovalOperator(
            task_id="question",
            subject=f"Move replicas of cluster {cluster}? Plan {plan_id}, {{{{ {pulled}['waves'] }}}} wave(s)",
            body=f"```text\n{{{{ {pulled}['summary'] }}}}\n```\nmanifest `{{{{ {pulled}['manifest_sha256'] }}}}`",
            defaults=ApprovalOperator.REJECT,
            response_timeout=timedelta(hours=SITE.answer_hours),
            assigned_users=[{"id": name, "name": name} for name in SITE.approvers] or None,
            notifiers=list(SITE.on_waiting),
            retries=0,
        )
        by = "{{ ti.xcom_pull(task_ids='question')['responded_by_user']['name'] }}"
        manifest = f"{{{{ {pulled}['manifest_sha256'] }}}}"
        where = ("--config", SITE.config, f"--run-id={plan_id}", "--cluster", cluster)
        words = ("approve", *where, f"--by={by}", "--manifest", manifest)
        yes = CommandOperator(task_id="approve", words=words)
        waves = {"wave": "1", "waves": f"{{{{ {pulled}['waves'] }}}}", "manifest": manifest}
        first = start("first_wave", waves_of(cluster), f"{plan_id}__wave-001", plan=plan_id, **waves)
        told >> known >> question >> yes >> first
    return dag


def wave(cluster: str) -> DAG:
    """Execute one wave of an approved plan, then start the next."""
    number, plan_id = "{{ params.wave }}", "{{ params.plan }}"

    def step(name: str, *words: str, task_id: str = "", **kwargs: Any) -> CommandOperator:
        plan = (f"--run-id={plan_id}", "--cluster", cluster, "--manifest", "{{ params.manifest }}", "--wave", number)
        tools = ("--kafka-bin", SITE.kafka_bin) if SITE.kafka_bin else ()
        whole = ("wave", name, "--config", SITE.config, *plan, *tools, *words)
        return CommandOperator(task_id=task_id or name, words=whole, **kwargs)

    once = {"params": NAMES_A_WAVE, "max_active_runs": 1, "doc_md": OF_RED_WAVE, "is_paused_upon_creation": False}
    with DAG(waves_of(cluster), schedule=None, **usual(**once)) as dag:
        # The snapshot is as old as the waves before took: their ends are looked at, not their age.
        hours = f"{{{{ {SITE.plan_age_hours} + {SITE.wave_hours} * (params.wave | int - 1) }}}}"
        age = ("--max-plan-age-hours", hours)
        # A setup that can't fail: from here on the throttles come off, whatever happens in between.
        begin = EmptyOperator(task_id="begin")
        throttle = step("throttle", *age)
        late = "The log names what copies wait for. Their throttles stay. " + OF_RED_WAVE
        wait = step("wait", "--once", timeout=SITE.wave_hours * 3600, late=late, is_patient=True)
        is_late = f"ti.xcom_pull(task_ids='wait', key='{LATE}')"
        ending = f"{{{{ '{SITE.on_late_wave}' if {is_late} else 'keep' }}}}"
        off = step("off", "--on-failure", ending, timeout=SITE.off_minutes * 60, late=late)
        verify = step("verify")
        next_id = f"{plan_id}__wave-{{{{ '%03d' % (params.wave | int + 1) }}}}"
        same = {name: f"{{{{ params.{name} }}}}" for name in ("plan", "waves", "manifest")}
        next_wave = start("next_wave", waves_of(cluster), next_id, wave="{{ params.wave | int + 1 }}", **same)
        step("preflight", *age) >> begin >> throttle >> step("execute") >> wait
        wait >> off.as_teardown(setups=begin, on_failure_fail_dagrun=True)
        [wait, off] >> verify >> more() >> [next_wave, step("elect")]
    return dag


DAGS = [nightly(), *(make(cluster) for cluster in SITE.clusters for make in (approval, wave))]
