"""Makes the virtual environment from the locks, once; a stamp beside it says from which locks.

``python -m setup.environment [dev]`` prepares what running (or testing) needs; later calls only compare stamps, and
write nothing.
"""

import hashlib
import os
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

from setup import app_zip, classes
from setup.jars import DELTA, KAFKA, KAFKA39, delta_jars, fetch
from setup.java import java
from setup.locking import exclusive
from setup.paths import AIRFLOW, SETUP, VENV, SetupError, build_folder, venv_python

REPORT_SECONDS = 20.0  # between lines: who waits for a download sees that it lives

_LOCKS = {"runtime": "requirements.lock", "dev": "requirements-dev.lock", "airflow": "requirements-airflow.lock"}

# Compiled now: where PYTHONDONTWRITEBYTECODE is set every process would compile all that it imports, 10 s of a run.
_EXACTLY = ("--no-build-isolation", "--require-hashes", "--compile-bytecode")


def say(text: str) -> None:
    """Show progress; standard output belongs to the job."""
    print(f"setup: {text}", file=sys.stderr, flush=True)


def lock_digest(kind: str) -> str:
    """sha256 over the locks that a kind of environment is made from."""
    content = b"".join((SETUP / name).read_bytes() for name in ("tools.lock", _LOCKS[kind]))
    return hashlib.sha256(content).hexdigest()


def is_ready(kind: str, *, venv: Path) -> bool:
    """Whether the packages of a kind were installed from the locks as they are now."""
    stamp = venv / f"{kind}.stamp"
    return stamp.exists() and stamp.read_text() == lock_digest(kind)


def prepare(*, dev: bool = False, spark: bool = True) -> None:
    """Make what is missing: packages, Delta's JARs, the archive of classes.

    With ``dev`` the test tools, Kafka's JARs and an environment with Airflow too; without ``spark`` the packages alone.

    Raises
    ------
    SetupError
        When the machine lacks something or a download fails.
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
    if not classes.is_made(delta_jars()):
        _archive_classes()


def _archive_classes() -> None:
    """Make the archive; where this user can't, a run does without it."""
    try:
        build_folder()
    except SetupError as error:
        say(f"{error}; until then each start with {java()} takes about 9 s of CPU time more")
        return
    say("archiving the classes of Spark and Delta (once; about a minute of CPU time)")
    say(f"the classes are archived after {classes.make(delta_jars()):.0f} s")


def _install(kind: str, venv: Path) -> None:
    if is_ready(kind, venv=venv):  # another first run did it while this one waited
        return
    started = time.monotonic()
    if kind == "runtime":
        _make_venv()
    elif kind == "airflow":
        _run([*_uv("venv"), "--clear", "--python", sys.executable, str(venv)], f"making {venv.name}")
        _run(
            [*_uv("pip", "install", *_EXACTLY), "--python", str(venv), "-r", str(SETUP / "tools.lock")],
            "installing tools.lock",
        )
    lock = SETUP / _LOCKS[kind]
    say(f"installing {lock.name} into {venv.name} (once; about a minute of CPU time)")
    _run(
        [*_uv("pip", "install", *_EXACTLY), "--python", str(venv_python(venv)), "-r", str(lock)],
        f"installing {lock.name}",
    )
    (venv / f"{kind}.stamp").write_text(lock_digest(kind))
    say(f"{lock.name} is installed after {time.monotonic() - started:.0f} s")


def _uv(*words: str) -> list[str]:
    return [str(VENV / "bin" / "uv"), *words, "--quiet"]


def _make_venv() -> None:
    """Make the environment with the tools that install the rest; one that was cut off halfway is made again."""
    made = VENV / "tools.stamp"
    if not made.exists():
        if find_spec("ensurepip") is None:
            raise SetupError("this Python has no ensurepip: run 'apt-get install python3-venv', then start again")
        say(f"making {VENV.name}")
        _run([sys.executable, "-m", "venv", "--clear", str(VENV)], "making the virtual environment")
    pip = [str(venv_python()), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    _run([*pip, "--require-hashes", "-r", str(SETUP / "tools.lock")], "installing tools.lock")
    made.touch()


def _run(command: list[str], doing: str) -> None:
    environ = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    with subprocess.Popen(command, stdout=sys.stderr, env=environ) as process:
        code = _waited_for(process, doing)
    if code:
        raise SetupError(f"{doing} failed (exit code {code}); the reason is above")


def _waited_for(process: "subprocess.Popen[bytes]", doing: str) -> int:
    """The exit code; meanwhile a line now and then."""
    started = time.monotonic()
    while True:
        try:
            return process.wait(REPORT_SECONDS)
        except subprocess.TimeoutExpired:
            say(f"{doing}: {time.monotonic() - started:.0f} s so far")


def main(arguments: list[str]) -> int:
    """Prepare, and zip the packages; returns the exit code."""
    try:
        prepare(dev="dev" in arguments)
        app_zip.build()
    except SetupError as error:
        say(str(error))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
