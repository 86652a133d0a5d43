"""An archive of loaded classes (Java's class data sharing): a driver that starts from it need not read and verify the
17,000 classes of Spark and Delta that a run uses, about 9 s of CPU time.

Java goes on without the archive where it does not fit, so nothing depends on it.
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
_MAKERS = (TRAINING, QUIET_HOME / "bin" / "java")
_LIMIT_S = 300  # seconds: on a machine that is many times slower than ours it may take minutes
# The first three would be folders in the class path, behind which Java archives nothing.
_LEFT_OUT = ("HADOOP_CONF_DIR", "YARN_CONF_DIR", "SPARK_DIST_CLASSPATH", "PYTHONPATH", "PYSPARK_SUBMIT_ARGS")


def class_path(jars: Sequence[Path]) -> str:
    """What goes before Spark's own JARs: Delta's classes can be archived only where Java itself loads them."""
    return os.pathsep.join(map(str, jars))


def archive(program: Path, jars: Sequence[Path]) -> Path:
    """Where the archive of a Java and a set of JARs lies; empty where it could not be made.

    Its name knows no file times, which builders of images cut to seconds. What the JARs hold is told by the lock of
    Delta's and the list of pyspark's files with their sums; which Java it is, by its launcher, which holds the version.
    """
    digest = hashlib.sha256()
    for path in (*jars, *sorted((spark_home() / "jars").glob("*.jar"))):
        digest.update(f"{path}\0{path.stat().st_size}\0".encode())
    for path in (program, *_MAKERS, DELTA.lock, *site_packages().glob("pyspark-*.dist-info/RECORD")):
        digest.update(f"{path}\0".encode() + hashlib.sha256(path.read_bytes()).digest())
    return BUILD / f"classes-{digest.hexdigest()[:16]}.jsa"


def is_made(jars: Sequence[Path]) -> bool:
    """Whether the archive was made, or could not be."""
    return archive(java(), jars).exists()


def make(jars: Sequence[Path]) -> float:
    """Make the archive unless it is there; returns the seconds that it took."""
    started = time.monotonic()
    with exclusive("classes"):
        target = archive(java(), jars)
        if not target.exists():
            folder = BUILD / "classes"
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            made = folder / "top.jsa"
            for command, environ in _steps(target.with_suffix(".base.jsa"), made, jars):
                _run(command, environ)
            if not made.exists():
                made.touch()
            made.replace(target)
            shutil.rmtree(folder, ignore_errors=True)
    return time.monotonic() - started


def _steps(base: Path, made: Path, jars: Sequence[Path]) -> Iterator[tuple[list[str], dict[str, str]]]:
    """Commands and environments: archive Java's own classes, which trimmed runtimes lack, then ours above them."""
    plain = {name: value for name, value in os.environ.items() if name not in _LEFT_OUT}
    yield [str(java()), "-XX:+UseSerialGC", "-Xshare:dump", f"-XX:SharedArchiveFile={base}"], plain
    data = made.parent / "data"
    data.mkdir()
    command = [str(spark_home() / "bin" / "spark-submit"), "--master", "local[2]", "--conf", "spark.ui.enabled=false"]
    command += ["--driver-class-path", class_path(jars), "--jars", ",".join(map(str, jars)), str(TRAINING), str(data)]
    ours = {
        "BALLAST_CLASSES": str(base),
        "BALLAST_CLASSES_MADE": str(made),
        "SPARK_HOME": str(spark_home()),
        "SPARK_CONF_DIR": str(HOME / "conf"),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": str(venv_python()),
        "PYSPARK_DRIVER_PYTHON": str(venv_python()),
    }
    yield command, {**plain, **spark_java(), **ours}


def _run(command: list[str], environ: dict[str, str]) -> None:
    """Run a step; one that fails leaves no archive, and that is all."""
    try:
        subprocess.run(command, env=environ, check=False, timeout=_LIMIT_S, capture_output=True)
    except subprocess.TimeoutExpired:
        return
