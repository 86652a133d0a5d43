"""Paths in a checkout, and the error of the set-up."""

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
    """The set-up failed; the message is one line and includes the remedy."""


def build_folder(folder: Path = BUILD) -> Path:
    """Create and return the folder for files that the set-up makes; call it only before writing.

    Raises
    ------
    SetupError
        When this user cannot write to it.
    """
    with suppress(OSError):
        folder.mkdir(exist_ok=True)
    if not os.access(folder, os.W_OK):
        raise SetupError(
            f"the set-up must write to {folder}, but this user has no permission: "
            f"run 'cd {HOME} && python3.11 -m setup.environment' as its owner"
        )
    return folder


def venv_python(venv: Path = VENV) -> Path:
    """The environment's interpreter. It is a link that must not be resolved: the link selects the environment."""
    return venv / "bin" / "python"


def site_packages(venv: Path = VENV) -> Path:
    """The environment's site-packages folder.

    Raises
    ------
    SetupError
        When the environment does not exist.
    """
    folders = sorted(venv.glob("lib/python3.*/site-packages"))
    if not folders:
        raise SetupError(f"{venv} has no packages; remove it and run ./spark-submit.sh again")
    return folders[0]


def spark_home(venv: Path = VENV) -> Path:
    """Pyspark's own folder, which contains a complete Spark."""
    return site_packages(venv) / "pyspark"
