"""Makes an archive of loaded classes (Java's class data sharing).

With the archive, a driver need not read and verify the 17,000 classes of Spark and Delta that a run uses. This saves
about 9 s of CPU time per run. If the archive does not fit, Java ignores it, so a run never needs it.
"""

import hashlib
import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from setup.jars import DELTA
from setup.java import QUIET_HOME, java, spark_java
from setup.locking import exclusive
from setup.paths import BUILD, HOME, site_packages, spark_home, venv_python

TRAINING = HOME / "setup" / "load_classes.py"
_TRAINING_FILES = (TRAINING, QUIET_HOME / "bin" / "java")
_LIMIT_S = 300  # seconds; a much slower machine may need minutes
# The first three would put folders into the class path. Java archives no class that comes after a folder.
_DROPPED_VARIABLES = ("HADOOP_CONF_DIR", "YARN_CONF_DIR", "SPARK_DIST_CLASSPATH", "PYTHONPATH", "PYSPARK_SUBMIT_ARGS")


def class_path(jars: Sequence[Path]) -> str:
    """Class path before Spark's own JARs: Java archives Delta's classes only if it loads them from the class path."""
    return os.pathsep.join(map(str, jars))


def archive(program: Path, jars: Sequence[Path]) -> Path:
    """Path of the archive for a Java program and a set of JARs; the file is empty if the archive could not be made.

    The name is a hash of Java's launcher, the lock of Delta's JARs, pyspark's list of checksums, and paths and sizes
    of the JARs. It does not use file times, because image builders round them to seconds.
    """
    digest = hashlib.sha256()
    for path in (*jars, *sorted((spark_home() / "jars").glob("*.jar"))):
        digest.update(f"{path}\0{path.stat().st_size}\0".encode())
    for path in (program, *_TRAINING_FILES, DELTA.lock, *site_packages().glob("pyspark-*.dist-info/RECORD")):
        digest.update(f"{path}\0".encode() + hashlib.sha256(path.read_bytes()).digest())
    return BUILD / f"classes-{digest.hexdigest()[:16]}.jsa"


def is_made(jars: Sequence[Path]) -> bool:
    """Whether making the archive was tried, with or without success."""
    return archive(java(), jars).exists()


def make(jars: Sequence[Path]) -> float:
    """Make the archive if it does not exist; returns the seconds that this took."""
    started = time.monotonic()
    with exclusive("classes"):
        target = archive(java(), jars)
        if not target.exists():
            folder = BUILD / "classes"
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            result = folder / "top.jsa"
            for command, environ in _steps(target.with_suffix(".base.jsa"), result, jars):
                _run(command, environ)
            if not result.exists():
                result.touch()
            result.replace(target)
            shutil.rmtree(folder, ignore_errors=True)
    return time.monotonic() - started


def _steps(base: Path, result: Path, jars: Sequence[Path]) -> Iterator[tuple[list[str], dict[str, str]]]:
    """Commands and environments: archive Java's own classes, which trimmed runtimes lack, then Spark's."""
    inherited = {name: value for name, value in os.environ.items() if name not in _DROPPED_VARIABLES}
    yield [str(java()), "-XX:+UseSerialGC", "-Xshare:dump", f"-XX:SharedArchiveFile={base}"], inherited
    data = result.parent / "data"
    data.mkdir()
    command = [str(spark_home() / "bin" / "spark-submit"), "--master", "local[2]", "--conf", "spark.ui.enabled=false"]
    command += ["--driver-class-path", class_path(jars), "--jars", ",".join(map(str, jars)), str(TRAINING), str(data)]
    variables = {
        "BALLAST_CLASSES": str(base),
        "BALLAST_CLASSES_MADE": str(result),
        "SPARK_HOME": str(spark_home()),
        "SPARK_CONF_DIR": str(HOME / "conf"),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": str(venv_python()),
        "PYSPARK_DRIVER_PYTHON": str(venv_python()),
    }
    yield command, {**inherited, **spark_java(), **variables}


def _run(command: list[str], environ: dict[str, str]) -> None:
    """Run a step; a failure is no error, it only leaves no archive."""
    try:
        subprocess.run(command, env=environ, check=False, timeout=_LIMIT_S, capture_output=True)
    except subprocess.TimeoutExpired:
        return
