"""A Spark standalone cluster on loopback, from the installed pyspark: a master and some workers."""

import os
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from setup.java import spark_java
from setup.paths import HOME, spark_home
from tour.ports import free_ports

START_SECONDS = 120


@contextmanager
def running(home: Path, *, workers: int, cores: int, memory: str) -> Iterator[str]:
    """The URL of a master with its workers; all processes are stopped at the end.

    Parameters
    ----------
    home : Path
        Folder for logs and for what executors write.
    cores, memory : int, str
        Cores and memory of each worker.

    Raises
    ------
    TimeoutError
        When the workers do not register; the message has the end of a log.
    """
    master_port, *pages = free_ports(workers + 2)
    url = f"spark://127.0.0.1:{master_port}"
    host = ["--host", "127.0.0.1"]
    processes = []
    try:
        address = ["--port", str(master_port), "--webui-port", str(pages[0])]
        processes.append(_start(home / "master.log", "master.Master", *host, *address))
        _wait(home, ["master.log"], "i have been elected leader")
        for number, page in enumerate(pages[1:], start=1):
            share = ["--cores", str(cores), "--memory", memory, "--work-dir", str(home / f"worker-{number}")]
            name = f"worker-{number}.log"
            processes.append(_start(home / name, "worker.Worker", url, *host, *share, "--webui-port", str(page)))
        _wait(home, [f"worker-{number}.log" for number in range(1, workers + 1)], "registered with master")
        yield url
    finally:
        _end(processes)


def _start(log: Path, name: str, *arguments: str) -> subprocess.Popen[bytes]:
    """Start a daemon of Spark with a small heap and its output in ``log``."""
    log.parent.mkdir(parents=True, exist_ok=True)
    unset = {"PYTHONPATH", "PYSPARK_PYTHON", "SPARK_HOME", "SPARK_CONF_DIR"}
    environment = {key: value for key, value in os.environ.items() if key not in unset}
    environment |= {**spark_java(), "SPARK_HOME": str(spark_home()), "SPARK_LOCAL_IP": "127.0.0.1"}
    # The logs show when a daemon is ready; with conf/ they would be empty.
    environment |= {"SPARK_DAEMON_MEMORY": "256m", "SPARK_CONF_DIR": str(log.parent), "SPARK_NO_DAEMONIZE": "1"}
    # The REST server has a fixed port and is not needed.
    environment["SPARK_DAEMON_JAVA_OPTS"] = "-Dspark.master.rest.enabled=false"
    command = [str(spark_home() / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}", *arguments]
    with log.open("wb") as output:
        return subprocess.Popen(
            command, stdout=output, stderr=output, stdin=subprocess.DEVNULL, cwd=HOME, env=environment
        )


def _wait(home: Path, logs: Sequence[str], text: str) -> None:
    deadline = time.monotonic() + START_SECONDS
    waiting = list(logs)
    while waiting:
        waiting = [name for name in waiting if text not in (home / name).read_text(errors="replace").lower()]
        if waiting and time.monotonic() > deadline:
            tail = (home / waiting[0]).read_text(errors="replace")[-3000:]
            raise TimeoutError(f"{waiting[0]} did not log {text!r} in {START_SECONDS} s:\n{tail}")
        time.sleep(0.1)


def _end(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    """Stop the processes, workers before the master, because workers stop their executors."""
    for process in reversed(processes):
        process.terminate()
        try:
            process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(timeout=30)
