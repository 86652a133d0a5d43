"""Entry point of ./spark-submit.sh: prepares the environment once, zips the packages, runs Spark's spark-submit."""

import ast
import os
import re
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path

from optimizer.job_options import LOCAL_INPUT
from optimizer.similar import did_you_mean
from setup import app_zip, classes, object_storage, site_conf
from setup.ballast_options import COMMANDS
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
       spark-submit.sh                 run the job pipeline on the bundled sample cluster
       spark-submit.sh JOB --help      show the options of a job

jobs:
{jobs}

Use ./ballast to show, approve and execute the plans that jobs make.

Spark's own options (--master, --deploy-mode, --conf, --driver-memory, ...) go to Spark; the default master is local[*].
Everything after -- goes to the job.

exit codes: 0 done, 1 failed, 2 usage or configuration error, 3 refused by a data-quality gate, by the audit, or because
the run's plan is already approved or removed"""

# Runs a file with the program name that the user typed, so that its usage shows this name.
_RUN_AS_TYPED = """\
import sys
path, *sys.argv = sys.argv[1:]
exec(compile(open(path, "rb").read(), path, "exec"), {"__name__": "__main__", "__file__": path})
"""


def jobs_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Folder of the jobs; tests use their own folder."""
    return Path(environ.get("BALLAST_JOBS", HOME / "jobs"))


def list_jobs(folder: Path) -> dict[str, str]:
    """The first line of each job's docstring, by job name."""
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
    """The Spark master of the job; empty if a properties file or Spark Connect decides."""
    options = line.values("--master")
    if options:
        return options[-1]
    configured = line.conf("spark.master")
    if configured:
        return configured
    return "" if line.values("--properties-file") or line.values("--remote") else "local[*]"


def spark_command(
    line: CommandLine, *, job: Path, package: Path, jars: list[Path], cores: int, properties: Mapping[str, str]
) -> list[str]:
    """The command line for Spark's own spark-submit.

    Parameters
    ----------
    job, package : Path
        The job's file and the zip of our packages.
    jars : list of Path
        Delta's JARs, and perhaps those for S3; the user's JARs follow them.
    cores : int
        Cores of this machine: the number of shuffle partitions of a local run.
    properties : mapping
        Spark properties to add to those in the files that Spark reads.
    """
    command = [str(spark_home() / "bin" / "spark-submit")]
    spark_master = master(line)
    if not line.values("--master") and spark_master:
        command += ["--master", spark_master]
    if not line.values("--name"):
        command += ["--name", f"ballast {job.stem}"]
    if spark_master.startswith("local") and line.conf("spark.sql.shuffle.partitions") is None:
        command += ["--conf", f"spark.sql.shuffle.partitions={max(2, cores)}"]
    if spark_master.startswith("local") and not line.values("--driver-class-path"):
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
    """The driver's environment. Unless the master is local, the user's PYSPARK_PYTHON selects the workers' Python."""
    spark_master = master(line)
    result = {**environ, **spark_java(environ)}
    result["PYTHONPATH"] = _without_home(environ.get("PYTHONPATH", ""))
    result["SPARK_HOME"] = str(spark_home())
    result["SPARK_CONF_DIR"] = site_conf.folder_of(environ)
    result["PYSPARK_DRIVER_PYTHON"] = str(venv_python())
    if spark_master.startswith("local") or not environ.get("PYSPARK_PYTHON"):
        result["PYSPARK_PYTHON"] = str(venv_python())
    if spark_master.startswith("local"):
        result["BALLAST_CLASSES"] = str(classes.archive(java(environ), delta_jars()))
    if spark_master.startswith("local") and not _has_remote_file_system(line, environ):
        result[LOCAL_INPUT] = "1"
    if _LOOPBACK.fullmatch(spark_master):
        result["SPARK_LOCAL_IP"] = "127.0.0.1"
    result["BALLAST_CODE_VERSION"] = app_zip.code_version()
    return result


def _has_remote_file_system(line: CommandLine, environ: Mapping[str, str]) -> bool:
    """Whether a path may mean another file system than this machine's, because a site's settings can configure that."""
    site_folder = environ.get("HADOOP_CONF_DIR") or environ.get("SPARK_CONF_DIR")
    return bool(site_folder or line.conf("spark.hadoop.fs.defaultFS"))


def _without_home(pythonpath: str) -> str:
    """Remove the checkout, which spark-submit.sh added: the driver uses the packages of the zip, as executors do."""
    return os.pathsep.join(part for part in pythonpath.split(os.pathsep) if part and Path(part) != HOME)


def help_command(job: Path) -> list[str]:
    """The command that prints a job's help without a JVM, with the program name that the user typed."""
    return [str(venv_python()), "-c", _RUN_AS_TYPED, str(job), f"spark-submit.sh {job.stem}", "--help"]


def refuse_command(line: CommandLine) -> int:
    """Report that the job is a command of ./ballast; returns the exit code."""
    command = shlex.join(["./ballast", line.job, *line.arguments, *(["--help"] if line.help else [])])
    print(f"spark-submit.sh: {line.job} is a command, not a job: run {command}", file=sys.stderr)
    return 2


def submit(line: CommandLine, environ: Mapping[str, str] = os.environ) -> int:
    """Run a command line. Does not return if another program replaces this process.

    Raises
    ------
    UsageError
        For an unknown job.
    SetupError
        When the environment cannot be prepared.
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
    more_jars, more_properties = object_storage.needed(line, environ)
    command = spark_command(
        line,
        job=job,
        package=app_zip.build(),
        jars=[*delta_jars(), *more_jars],
        cores=os.cpu_count() or 1,
        properties=site_conf.properties(line, environ) | more_properties,
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
