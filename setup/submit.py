"""What ./spark-submit.sh runs: prepares the environment once, zips the packages, and becomes Spark's spark-submit."""

import ast
import fcntl
import os
import re
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path

from setup import app_zip, classes, site_conf
from setup.environment import prepare, say
from setup.jars import delta_jars
from setup.java import java, spark_java
from setup.options import CommandLine, UsageError, split
from setup.paths import HOME, SetupError, spark_home, venv_python

SAMPLE = ("pipeline", ["--config", str(HOME / "conf" / "sample.toml")])
COMMANDS = {
    "show": "Say what a run has planned: of all clusters, or one with its summary.",
    "approve": "Say yes to the plan of one cluster.",
    "wave": "Run a step of a wave of an approved plan: preflight, throttle, execute, wait, off, verify, elect, status.",
}
_LOOPBACK = re.compile(r"(local\b.*|spark://(127\.[\d.]+|localhost|\[::1\])(:.*)?)")

USAGE = """\
usage: spark-submit.sh [SPARK OPTIONS] JOB [SPARK OPTIONS] [OPTIONS OF THE JOB]
       spark-submit.sh                 the job pipeline on the bundled sample cluster
       spark-submit.sh JOB --help      options of a job
       spark-submit.sh COMMAND         without Spark

jobs:
{jobs}

commands:
{commands}

Spark's own options (--master, --deploy-mode, --conf, --driver-memory, ...) pass through; the master is local[*] unless
one is given. What stands behind -- belongs to the job.

exit codes: 0 done, 1 failed, 2 wrong use or configuration, 3 refused: by a data-quality gate, by the audit, because
the plan of the run is approved, or by a command; 4 copies still run (wave)"""

# Runs a file under a program name of our choice, which its usage then shows.
_AS_TYPED = """\
import sys
path, *sys.argv = sys.argv[1:]
exec(compile(open(path, "rb").read(), path, "exec"), {"__name__": "__main__", "__file__": path})
"""


def jobs_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Where the jobs lie; tests bring their own."""
    return Path(environ.get("BALLAST_JOBS", HOME / "jobs"))


def list_jobs(folder: Path) -> dict[str, str]:
    """Map each job's name to the first line of its docstring."""
    jobs = {}
    for path in sorted(folder.glob("*.py")):
        text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
        jobs[path.stem] = text.partition("\n")[0]
    return jobs


def usage(jobs: Mapping[str, str]) -> str:
    """The help text."""

    def listed(named: Mapping[str, str]) -> str:
        width = max(map(len, named), default=0)
        return "\n".join(f"  {name:{width}}  {text}" for name, text in named.items())

    return USAGE.format(jobs=listed(jobs), commands=listed(COMMANDS))


def master(line: CommandLine) -> str:
    """The master that the job will run on; empty where a properties file or Spark Connect decides."""
    given = line.values("--master")
    if given:
        return given[-1]
    decided = line.conf("spark.master")
    if decided:
        return decided
    return "" if line.values("--properties-file") or line.values("--remote") else "local[*]"


def spark_command(
    line: CommandLine, *, job: Path, package: Path, jars: list[Path], cores: int, properties: Mapping[str, str]
) -> list[str]:
    """The call of Spark's own spark-submit.

    Parameters
    ----------
    job, package : Path
        The job's file and the zip of our packages.
    jars : list of Path
        Delta's JARs; those that the user names follow them.
    cores : int
        Of this machine: how many partitions a local shuffle gets.
    properties : mapping
        Spark properties that stand in no file that Spark reads.
    """
    command = [str(spark_home() / "bin" / "spark-submit")]
    where = master(line)
    if not line.values("--master") and where:
        command += ["--master", where]
    if not line.values("--name"):
        command += ["--name", f"ballast {job.stem}"]
    if where.startswith("local") and line.conf("spark.sql.shuffle.partitions") is None:
        command += ["--conf", f"spark.sql.shuffle.partitions={max(2, cores)}"]
    if where.startswith("local") and not line.values("--driver-class-path"):
        command += ["--driver-class-path", classes.class_path(jars)]
    for pair in properties.items():
        command += ["--conf", "=".join(pair)]
    command += ["--jars", ",".join([*map(str, jars), *line.values("--jars")])]
    command += ["--py-files", ",".join([str(package), *line.values("--py-files")])]
    for name, value in line.spark:
        if name not in ("--jars", "--py-files"):
            command += [name] if value is None else [name, value]
    return [*command, str(job), *line.arguments]


def spark_environment(line: CommandLine, environ: Mapping[str, str]) -> dict[str, str]:
    """The environment of the driver; a worker's Python may be named by the user on clusters of several machines."""
    where = master(line)
    result = {**environ, **spark_java(environ)}
    result["PYTHONPATH"] = _without_home(environ.get("PYTHONPATH", ""))
    result["SPARK_HOME"] = str(spark_home())
    result["SPARK_CONF_DIR"] = site_conf.folder_of(environ)
    result["PYSPARK_DRIVER_PYTHON"] = str(venv_python())
    if where.startswith("local") or not environ.get("PYSPARK_PYTHON"):
        result["PYSPARK_PYTHON"] = str(venv_python())
    if where.startswith("local"):
        result["BALLAST_CLASSES"] = str(classes.archive(java(environ), delta_jars()))
    if _LOOPBACK.fullmatch(where):
        result["SPARK_LOCAL_IP"] = "127.0.0.1"
    result["BALLAST_CODE_VERSION"] = app_zip.code_version()
    return result


def _without_home(pythonpath: str) -> str:
    """Drop what spark-submit.sh added: the packages come from the zip, as on executors."""
    return os.pathsep.join(part for part in pythonpath.split(os.pathsep) if part and Path(part) != HOME)


def help_command(job: Path) -> list[str]:
    """Runs a job's file for its help: no JVM, and the name that the user typed."""
    return [str(venv_python()), "-c", _AS_TYPED, str(job), f"spark-submit.sh {job.stem}", "--help"]


def without_spark(words: list[str], environ: Mapping[str, str] = os.environ) -> int:
    """Run one of the commands that need no Spark."""
    prepare(spark=False)
    command = [str(venv_python()), "-P", "-m", "execution", *words]
    return _run(command, {**environ, "PYTHONPATH": str(HOME)})


def _run(command: list[str], environ: Mapping[str, str]) -> int:
    """Become the command; only show it where BALLAST_DRY_RUN is set."""
    if not environ.get("BALLAST_DRY_RUN"):
        _append(sys.stderr.fileno())
        os.execve(command[0], command, environ)
    print(shlex.join(command))
    return 0


def _append(descriptor: int) -> None:
    """Let every process write at the end: Java and the driver open the same file, each with a position of its own."""
    fcntl.fcntl(descriptor, fcntl.F_SETFL, fcntl.fcntl(descriptor, fcntl.F_GETFL) | os.O_APPEND)


def submit(line: CommandLine, environ: Mapping[str, str] = os.environ) -> int:
    """Do what a command line asks; does not return when a program takes over.

    Raises
    ------
    UsageError
        For an unknown job.
    SetupError
        When the environment can't be prepared.
    """
    folder = jobs_folder(environ)
    jobs = list_jobs(folder)
    if line.help and not line.job:
        print(usage(jobs))
        return 0
    if not line.job:
        line.job, line.arguments = SAMPLE
    if line.job not in jobs:
        known = f"jobs: {', '.join(jobs)}; commands: {', '.join(COMMANDS)}"
        raise UsageError(f"there is no job or command {line.job!r}; {known}")
    job = folder / f"{line.job}.py"
    prepare()
    if line.help:
        return _run(help_command(job), {**environ, "PYTHONPATH": str(HOME)})
    command = spark_command(
        line,
        job=job,
        package=app_zip.build(),
        jars=delta_jars(),
        cores=os.cpu_count() or 1,
        properties=site_conf.properties(line, environ),
    )
    return _run(command, spark_environment(line, environ))


def main(words: list[str]) -> int:
    """Run; returns the exit code."""
    try:
        return without_spark(words) if words[:1] and words[0] in COMMANDS else submit(split(words))
    except UsageError as error:
        print(f"spark-submit.sh: {error}; see spark-submit.sh --help", file=sys.stderr)
        return 2
    except SetupError as error:
        say(str(error))
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
