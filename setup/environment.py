"""Makes the virtual environment from the locks, once. A stamp file in it records the locks.

``python -m setup.environment [dev]`` prepares everything that a run (or, with ``dev``, a test) needs. Later calls only
compare stamps and write nothing.
"""

import hashlib
import os
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

from setup import app_zip, classes
from setup.jars import DELTA, KAFKA, KAFKA39, KAFKA_TIERED, delta_jars, fetch
from setup.java import java
from setup.locking import exclusive
from setup.paths import AIRFLOW, SETUP, VENV, SetupError, build_folder, venv_python

REPORT_SECONDS = 20.0  # between progress lines: they show that a slow download still runs

_LOCKS = {"runtime": "requirements.lock", "dev": "requirements-dev.lock", "airflow": "requirements-airflow.lock"}

# Compile now: with PYTHONDONTWRITEBYTECODE every process would compile all its imports, 10 s of a run.
_INSTALL_OPTIONS = ("--no-build-isolation", "--require-hashes", "--compile-bytecode")


def say(text: str) -> None:
    """Print progress on standard error, because standard output belongs to the job."""
    print(f"setup: {text}", file=sys.stderr, flush=True)


def lock_digest(kind: str) -> str:
    """Sha256 of the lock files of a kind of environment."""
    content = b"".join((SETUP / name).read_bytes() for name in ("tools.lock", _LOCKS[kind]))
    return hashlib.sha256(content).hexdigest()


def is_ready(kind: str, *, venv: Path) -> bool:
    """Whether the packages of a kind were installed from the current locks."""
    stamp = venv / f"{kind}.stamp"
    return stamp.exists() and stamp.read_text() == lock_digest(kind)


def prepare(*, dev: bool = False, spark: bool = True) -> None:
    """Make what is missing: packages, Delta's JARs, the archive of classes.

    Parameters
    ----------
    dev : bool
        Also prepare the test tools, Kafka's JARs and an environment with Airflow.
    spark : bool
        False: prepare only the packages.

    Raises
    ------
    SetupError
        When the machine lacks something, or a download fails.
    """
    for kind in ("runtime", "dev") if dev else ("runtime",):
        if not is_ready(kind, venv=VENV):
            with exclusive("environment"):
                _install(kind, VENV)
    if not spark:
        return
    fetch(DELTA)
    if dev:
        if not is_ready("airflow", venv=AIRFLOW):
            with exclusive("airflow"):
                _install("airflow", AIRFLOW)
        fetch(KAFKA)
        fetch(KAFKA39)
        fetch(KAFKA_TIERED)
    if not classes.is_made(delta_jars()):
        _archive_classes()


def _archive_classes() -> None:
    """Make the archive; if this user cannot write it, runs work without it."""
    try:
        build_folder()
    except SetupError as error:
        say(f"{error}; until then each run with {java()} takes about 9 s more CPU time")
        return
    say("making the archive of Spark's and Delta's classes (only once; about a minute of CPU time)")
    say(f"the archive of classes is made after {classes.make(delta_jars()):.0f} s")


def _install(kind: str, venv: Path) -> None:
    if is_ready(kind, venv=venv):  # another process installed them while this one waited for the lock
        return
    started = time.monotonic()
    if kind == "runtime":
        _make_venv()
    elif kind == "airflow":
        _run([*_uv("venv"), "--clear", "--python", sys.executable, str(venv)], f"making {venv.name}")
        _run(
            [*_uv("pip", "install", *_INSTALL_OPTIONS), "--python", str(venv), "-r", str(SETUP / "tools.lock")],
            "installing tools.lock",
        )
    lock = SETUP / _LOCKS[kind]
    say(f"installing {lock.name} into {venv.name} (only once; about a minute of CPU time)")
    _run(
        [*_uv("pip", "install", *_INSTALL_OPTIONS), "--python", str(venv_python(venv)), "-r", str(lock)],
        f"installing {lock.name}",
    )
    (venv / f"{kind}.stamp").write_text(lock_digest(kind))
    say(f"{lock.name} is installed after {time.monotonic() - started:.0f} s")


def _uv(*words: str) -> list[str]:
    return [str(VENV / "bin" / "uv"), *words, "--quiet"]


def _make_venv() -> None:
    """Make the environment with the tools that install everything else; an incomplete one is made again."""
    stamp = VENV / "tools.stamp"
    if not stamp.exists():
        if find_spec("ensurepip") is None:
            raise SetupError("this Python has no ensurepip: run 'apt-get install python3-venv', then start again")
        say(f"making {VENV.name}")
        _run([sys.executable, "-m", "venv", "--clear", str(VENV)], "making the virtual environment")
    pip = [str(venv_python()), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    _run([*pip, "--require-hashes", "-r", str(SETUP / "tools.lock")], "installing tools.lock")
    stamp.touch()


def _run(command: list[str], description: str) -> None:
    environ = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    with subprocess.Popen(command, stdout=sys.stderr, env=environ) as process:
        code = _wait(process, description)
    if code:
        raise SetupError(f"{description} failed (exit code {code}); the reason is above")


def _wait(process: "subprocess.Popen[bytes]", description: str) -> int:
    """Wait for the process and report progress; returns the exit code."""
    started = time.monotonic()
    while True:
        try:
            return process.wait(REPORT_SECONDS)
        except subprocess.TimeoutExpired:
            say(f"{description}: {time.monotonic() - started:.0f} s so far")


def main(arguments: list[str]) -> int:
    """Prepare the environment and zip the packages; returns the exit code."""
    try:
        prepare(dev="dev" in arguments)
        app_zip.build()
    except SetupError as error:
        say(str(error))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
