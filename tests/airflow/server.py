"""A real Airflow on loopback: scheduler, API server and DAG processor as processes, used over the REST API."""

import base64
import json
import os
import re
import secrets
import shlex
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from setup.paths import AIRFLOW, HOME
from tour.ports import free_ports

# Limits for what never comes. A whole night takes two minutes alone, and up to six beside two other test processes.
START_SECONDS, RUN_SECONDS = 120, 600
USERS = {"ann": "op", "bob": "op", "vic": "viewer", "root": "admin"}
PARTS = {"api-server": ("--workers", "1"), "scheduler": ("--skip-serve-logs",), "dag-processor": ()}
ENDED = {"success", "failed"}
PAGE = HOME / "docs" / "airflow.md"


class RefusedByAirflow(Exception):
    """The API refused a request; has the HTTP status."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{status}: {message}")
        self.status = status


class Airflow:
    """One Airflow with its own database.

    Parameters
    ----------
    home : Path
        Folder for the database, DAGs and logs.
    """

    def __init__(self, home: Path) -> None:
        self.home, self.dags = home, home / "dags"
        self.dags.mkdir(parents=True)
        (port,) = free_ports(1)
        self.address = f"http://127.0.0.1:{port}"
        passwords = home / "passwords.json"
        passwords.write_text(json.dumps({name: name for name in USERS}))
        settings = {
            "API__BASE_URL": self.address,
            "API__HOST": "127.0.0.1",
            "API__PORT": str(port),
            "API__SECRET_KEY": secrets.token_hex(16),
            "API_AUTH__JWT_SECRET": secrets.token_hex(32),
            "CORE__DAGS_FOLDER": str(self.dags),
            "CORE__EXECUTION_API_SERVER_URL": f"{self.address}/execution/",
            "CORE__FERNET_KEY": base64.urlsafe_b64encode(secrets.token_bytes(32)).decode(),
            "CORE__LOAD_EXAMPLES": "False",
            "CORE__PARALLELISM": "4",
            "CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(passwords),
            "CORE__SIMPLE_AUTH_MANAGER_USERS": ",".join(":".join(pair) for pair in USERS.items()),
            "DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "3600",
            "DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home}/airflow.db",
            # A process that was killed is noticed after seconds, not after five minutes.
            "SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "15",
            "SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL": "3",
            "SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL": "10",
            "WORKERS__MIN_HEARTBEAT_INTERVAL": "1",
        }
        plain = {name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW", "PYTHON"))}
        self.environ = {**plain, "AIRFLOW_HOME": str(home), "NO_PROXY": "127.0.0.1"}
        self.environ |= {f"AIRFLOW__{name}": value for name, value in settings.items()}
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self._tokens: dict[str, str] = {}

    def command(self, *words: str) -> str:
        """Run Airflow's command line; returns the output."""
        command = [str(AIRFLOW / "bin" / "airflow"), *words]
        done = subprocess.run(command, env=self.environ, cwd=self.home, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def start(self, part: str) -> None:
        """Start one of its processes in its own process group."""
        with (self.home / f"{part}.log").open("ab") as log:
            self.processes[part] = subprocess.Popen(
                [str(AIRFLOW / "bin" / "airflow"), part, *PARTS[part]],
                env=self.environ,
                cwd=self.home,
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )

    def kill(self, part: str) -> None:
        """Kill a process and its child processes."""
        process = self.processes.pop(part)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def call(self, method: str, path: str, body: object = None, *, user: str = "root") -> Any:
        """One call of the API.

        Raises
        ------
        RefusedByAirflow
        """
        headers = {"Content-Type": "application/json"}
        if path != "/auth/token":
            headers["Authorization"] = f"Bearer {self._token(user)}"
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.address + path, data=data, headers=headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return json.loads(answer.read() or b"null")
        except urllib.error.HTTPError as error:
            raise RefusedByAirflow(error.code, error.read().decode()[:2000]) from error

    def _token(self, user: str) -> str:
        if user not in self._tokens:
            body = {"username": user, "password": user}
            self._tokens[user] = self.call("POST", "/auth/token", body)["access_token"]
        return self._tokens[user]

    def known(self) -> set[str]:
        """Ids of the DAGs that have been read."""
        return {dag["dag_id"] for dag in self.call("GET", "/api/v2/dags?limit=100")["dags"]}

    def trigger(self, dag_id: str, run_id: str, conf: Mapping[str, object] = {}, **more: object) -> None:
        """Start a run."""
        body = {"dag_run_id": run_id, "logical_date": None, "conf": dict(conf), **more}
        self.call("POST", f"/api/v2/dags/{dag_id}/dagRuns", body)

    def runs(self, dag_id: str) -> dict[str, str]:
        """States of a DAG's runs by id."""
        runs = self.call("GET", f"/api/v2/dags/{dag_id}/dagRuns?limit=100")["dag_runs"]
        return {run["dag_run_id"]: run["state"] for run in runs}

    def tasks(self, dag_id: str, run_id: str) -> dict[str, str]:
        """States of a run's tasks by id."""
        tasks = self.call("GET", f"/api/v2/dags/{dag_id}/dagRuns/{run_id}/taskInstances?limit=100")["task_instances"]
        return {task["task_id"]: str(task["state"]) for task in tasks}

    def tries(self, dag_id: str, run_id: str, task_id: str) -> int:
        """How often a task was tried."""
        return int(self.call("GET", f"/api/v2/dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}")["try_number"])

    def clear(self, dag_id: str, run_id: str, **which: object) -> None:
        """Clear tasks of a run, as the web page does."""
        body = {"dry_run": False, "dag_run_id": run_id, "reset_dag_runs": True, "only_failed": False, **which}
        self.call("POST", f"/api/v2/dags/{dag_id}/clearTaskInstances", body)

    def answer(self, dag_id: str, run_id: str, option: str, *, user: str) -> None:
        """Answer a question after it has been open for some seconds."""
        self.until(lambda: self.tasks(dag_id, run_id).get("question") == "awaiting_input")
        # A task that is answered while it is parked may be taken for failed.
        time.sleep(3)
        path = f"/api/v2/dags/{dag_id}/dagRuns/{run_id}/taskInstances/question/-1/hitlDetails"
        self.call("PATCH", path, {"chosen_options": [option], "params_input": {}}, user=user)

    def question(self, dag_id: str, run_id: str) -> tuple[str, str]:
        """Title and text of the question of a run."""
        path = f"/api/v2/dags/{dag_id}/dagRuns/{run_id}/taskInstances/question/-1/hitlDetails"
        details = self.call("GET", path)
        return details["subject"], details["body"]

    def ended(self, dag_id: str, run_id: str) -> dict[str, str]:
        """Wait for the end of a run; returns its tasks' states, with the run's own under an empty id."""
        self.until(lambda: self.runs(dag_id).get(run_id) in ENDED, f"{dag_id} {run_id}")
        return {**self.tasks(dag_id, run_id), "": self.runs(dag_id)[run_id]}

    def log(self, dag_id: str, run_id: str, task_id: str) -> str:
        """The logs of all tries of a task."""
        folder = self.home / "logs" / f"dag_id={dag_id}" / f"run_id={run_id}" / f"task_id={task_id}"
        return "\n".join(path.read_text(errors="replace") for path in sorted(folder.glob("*.log")))

    def until(self, condition: Any, what: str = "", seconds: float = RUN_SECONDS) -> None:
        """Wait for a condition; the error after the time limit has the end of the processes' logs."""
        deadline = time.monotonic() + seconds
        while not condition():
            tail = [(self.home / f"{part}.log").read_text(errors="replace")[-1500:] for part in PARTS]
            assert time.monotonic() < deadline, "\n".join((f"did not come: {what}", *tail))
            time.sleep(0.5)

    def is_healthy(self) -> bool:
        """Whether every part reports that it is healthy."""
        try:
            health = self.call("GET", "/api/v2/monitor/health")
        except (OSError, RefusedByAirflow):
            return False
        return all(health[part]["status"] == "healthy" for part in ("metadatabase", "scheduler", "dag_processor"))


@contextmanager
def running(airflow: Airflow) -> Iterator[Airflow]:
    """Make the database, set Airflow up as in docs/airflow.md, start its parts, and stop them at the end."""
    airflow.command("db", "migrate")
    for line in re.findall(r"^ *airflow ((?:connections|pools) .*)$", PAGE.read_text(), re.M):
        airflow.command(*shlex.split(line))
    try:
        for part in PARTS:
            airflow.start(part)
        airflow.until(airflow.is_healthy, "health", START_SECONDS)
        yield airflow
    finally:
        for part in list(airflow.processes):
            airflow.kill(part)
