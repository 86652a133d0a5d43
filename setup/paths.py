"""Where things lie in a checkout, and the one error of the set-up."""

import os
from contextlib import suppress
from pathlib import Path

HOME = Path(__file__).resolve().parent.parent
SETUP = HOME / "setup"
VENV = HOME / ".venv"
AIRFLOW = HOME / ".airflow"
JARS = HOME / ".jars"
BUILD = HOME / ".build"


class SetupError(Exception):
    """The machine lacks something; the message is one line and names the remedy."""


def build_folder(folder: Path = BUILD) -> Path:
    """The folder for what the set-up makes; asked for only where something is to be made.

    Raises
    ------
    SetupError
        When this user can't write to it.
    """
    with suppress(OSError):
        folder.mkdir(exist_ok=True)
    if not os.access(folder, os.W_OK):
        raise SetupError(
            f"something is to be made in {folder}, which this user can't write to: "
            f"as its owner run 'cd {HOME} && python3.11 -m setup.environment'"
        )
    return folder


def venv_python(venv: Path = VENV) -> Path:
    """The interpreter of the environment; a link, which must not be resolved."""
    return venv / "bin" / "python"


def site_packages(venv: Path = VENV) -> Path:
    """The folder that the environment's packages lie in.

    Raises
    ------
    SetupError
        When the environment is not there.
    """
    found = sorted(venv.glob("lib/python3.*/site-packages"))
    if not found:
        raise SetupError(f"{venv} holds no packages; remove it and run ./spark-submit.sh again")
    return found[0]


def spark_home(venv: Path = VENV) -> Path:
    """pyspark's own folder, which is a whole Spark."""
    return site_packages(venv) / "pyspark"
