"""What ./spark-submit.sh runs: prepares the environment once, zips the packages, and becomes Spark's spark-submit."""

import ast
import os
import re
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path

from execution.options import COMMANDS
from optimizer.job_options import LOCAL_INPUT
from optimizer.similar import did_you_mean
from setup import app_zip, classes, site_conf
from setup.environment import prepare, say
from setup.jars import delta_jars
from setup.java import java, spark_java
from setup.launch import launch
from setup.options import CommandLine, UsageError, check_arguments, split
from setup.paths import HOME, SetupError, spark_home, venv_python

SAMPLE = ("pipeline", ["--config", str(HOME / "conf" / "sample.toml")])
_LOOPBACK = re.compile(r"(local\b.*|spark://(127\.[\d.]+|localhost|\[::1\])(:.*)?)")

USAGE = """\
usage: spark-submit.sh [SPARK OPTIONS] JOB [SPARK OPTIONS] [OPTIONS OF THE JOB]
       spark-submit.sh                 the job pipeline on the bundled sample cluster
       spark-submit.sh JOB --help      options of a job

jobs:
{jobs}

./ballast shows, approves and executes the plans that jobs have made.

Spark's own options (--master, --deploy-mode, --conf, --driver-memory, ...) pass through; the master is local[*] unless
one is given. What stands behind -- belongs to the job.

exit codes: 0 done, 1 failed, 2 wrong use or configuration, 3 refused: by a data-quality gate, by the audit, or because
the plan of the run is approved"""

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
    width = max(map(len, jobs), default=0)
    return USAGE.format(jobs="\n".join(f"  {name:{width}}  {text}" for name, text in jobs.items()))


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
    if where.startswith("local") and not _knows_other_disks(line, environ):
        result[LOCAL_INPUT] = "1"
    if _LOOPBACK.fullmatch(where):
        result["SPARK_LOCAL_IP"] = "127.0.0.1"
    result["BALLAST_CODE_VERSION"] = app_zip.code_version()
    return result


def _knows_other_disks(line: CommandLine, environ: Mapping[str, str]) -> bool:
    """Whether a path may be one of another file system than this machine's: a site's own settings can say so."""
    of_site = environ.get("HADOOP_CONF_DIR") or environ.get("SPARK_CONF_DIR")
    return bool(of_site or line.conf("spark.hadoop.fs.defaultFS"))


def _without_home(pythonpath: str) -> str:
    """Drop what spark-submit.sh added: the packages come from the zip, as on executors."""
    return os.pathsep.join(part for part in pythonpath.split(os.pathsep) if part and Path(part) != HOME)


def help_command(job: Path) -> list[str]:
    """Runs a job's file for its help: no JVM, and the name that the user typed."""
    return [str(venv_python()), "-c", _AS_TYPED, str(job), f"spark-submit.sh {job.stem}", "--help"]


def refuse_command(line: CommandLine) -> int:
    """Name the call of ./ballast that was meant; returns the exit code."""
    meant = shlex.join(["./ballast", line.job, *line.arguments, *(["--help"] if line.help else [])])
    print(f"spark-submit.sh: {line.job} is a command, not a job: run {meant}", file=sys.stderr)
    return 2


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
        raise UsageError(f"there is no job {line.job!r}{did_you_mean(line.job, jobs)}; jobs: {', '.join(jobs)}")
    if folder == HOME / "jobs":
        check_arguments(line)
    job = folder / f"{line.job}.py"
    prepare()
    if line.help:
        return launch(help_command(job), {**environ, "PYTHONPATH": str(HOME)})
    command = spark_command(
        line,
        job=job,
        package=app_zip.build(),
        jars=delta_jars(),
        cores=os.cpu_count() or 1,
        properties=site_conf.properties(line, environ),
    )
    return launch(command, spark_environment(line, environ))


def main(words: list[str]) -> int:
    """Run; returns the exit code."""
    try:
        line = split(words)
        return refuse_command(line) if line.job in COMMANDS else submit(line)
    except UsageError as error:
        call = " ".join(filter(None, ("./spark-submit.sh", error.job, "--help")))
        print(f"spark-submit.sh: {error}; see {call}", file=sys.stderr)
        return 2
    except SetupError as error:
        say(str(error))
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
