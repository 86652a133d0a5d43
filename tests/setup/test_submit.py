"""./spark-submit.sh as a user runs it."""

import os
import re
import shlex
import subprocess
import sys
from importlib.util import cache_from_source
from pathlib import Path

import pandas
import pytest

from optimizer.job_options import LOCAL_INPUT
from setup import classes, environment, locking
from setup.options import split
from setup.paths import HOME, SETUP, SetupError, venv_python
from setup.submit import list_jobs, spark_environment

JOB = '''"""Ends with the exit code of its option.

More.
"""

import argparse
import os
import sys

parser = argparse.ArgumentParser()
parser.add_argument("--exit", type=int, default=0)
options = parser.parse_args()

from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
import optimizer

print(optimizer.__file__)
print(os.environ["BALLAST_CODE_VERSION"])
spark.stop()
sys.exit(options.exit)
'''

# A proxy that does not exist: every use of the network fails at once.
NO_NETWORK = {
    f"{scheme}_{word}": "http://127.0.0.1:9"
    for scheme, word in [("http", "proxy"), ("https", "proxy"), ("all", "proxy")]
}


@pytest.fixture
def jobs(tmp_path: Path) -> Path:
    """A folder with one job."""
    (tmp_path / "leave.py").write_text(JOB)
    return tmp_path


def submit(jobs: Path, *words: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run the script from another folder, without a network."""
    clean = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTHONPATH", "PYSPARK", "SPARK"))
    }
    return subprocess.run(
        [str(HOME / "spark-submit.sh"), *words],
        capture_output=True,
        text=True,
        check=False,
        cwd=jobs,
        env={**clean, **NO_NETWORK, "BALLAST_JOBS": str(jobs), **environ},
        stdin=subprocess.DEVNULL,
    )


def dry_run(jobs: Path, *words: str, **environ: str) -> list[str]:
    """The command that BALLAST_DRY_RUN prints."""
    result = submit(jobs, *words, BALLAST_DRY_RUN="1", **environ)
    assert result.returncode == 0, result.stderr
    return shlex.split(result.stdout)


def value_of(command: list[str], option: str) -> list[str]:
    """Every value of an option in a command."""
    return [command[index + 1] for index, word in enumerate(command) if word == option]


def test_help_lists_the_jobs(jobs: Path) -> None:
    """--help names each job with the first line of its docstring, and the exit codes."""
    result = submit(jobs, "--help")
    assert result.returncode == 0
    assert "  leave  Ends with the exit code of its option.\n" in result.stdout
    assert "exit codes: 0 done, 1 failed, 2 usage or configuration error" in result.stdout


def test_help_of_a_job(jobs: Path) -> None:
    """A job's help needs no JVM and shows the name that the user typed."""
    result = submit(jobs, "leave", "--help", JAVA_HOME="/nowhere", BALLAST_JAVA="/nowhere")
    assert result.returncode == 0
    assert result.stdout.startswith("usage: spark-submit.sh leave [-h] [--exit EXIT]")


@pytest.mark.parametrize(
    ("words", "remedy"),
    [
        (["show", "--run-id", "a b"], "./ballast show --run-id 'a b'"),
        (["--master", "yarn", "wave", "off", "--wave", "1"], "./ballast wave off --wave 1"),
        (["approve", "--help"], "./ballast approve --help"),
        (["revoke", "--run-id", "r"], "./ballast revoke --run-id r"),
    ],
)
def test_a_command_is_refused_with_the_call_of_ballast(jobs: Path, words: list[str], remedy: str) -> None:
    """./spark-submit.sh only submits jobs: show, approve, revoke and wave end with 2 and the right command."""
    result = submit(jobs, *words)
    message = f"spark-submit.sh: {words[2 if words[0] == '--master' else 0]} is a command, not a job: run {remedy}\n"
    assert (result.returncode, result.stdout, result.stderr) == (2, "", message)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nope"], "spark-submit.sh: there is no job 'nope'; jobs: leave; see ./spark-submit.sh --help"),
        (["leaf"], "spark-submit.sh: there is no job 'leaf' (did you mean 'leave'?); jobs: leave; "),
        (["--exit", "1"], "spark-submit.sh: --exit is not an option of Spark"),
        (["leave", "--queue"], "spark-submit.sh: --queue needs a value"),
    ],
)
def test_wrong_use(jobs: Path, words: list[str], message: str) -> None:
    """Wrong use ends with 2 and one line."""
    result = submit(jobs, *words)
    assert result.returncode == 2
    assert result.stderr.startswith(message)
    assert result.stderr.count("\n") == 1
    assert result.stdout == ""


def test_without_arguments_the_sample_is_planned(jobs: Path) -> None:
    """The pipeline runs on the bundled sample, on this machine's cores."""
    (jobs / "pipeline.py").write_text('"""All stages."""\n')
    command = dry_run(jobs)
    assert command[-3:] == [str(jobs / "pipeline.py"), "--config", str(HOME / "conf" / "sample.toml")]
    assert value_of(command, "--master") == ["local[*]"]


def test_options_go_to_spark_or_to_the_job(jobs: Path) -> None:
    """Spark's options come before the job, the job's after it; the user's options replace ours or are added to them."""
    command = dry_run(
        jobs,
        "leave",
        "--exit",
        "3",
        "--master=yarn",
        "--jars",
        "/x.jar",
        "--py-files=/y.zip",
        "--name",
        "mine",
        "--supervise",
    )
    position = command.index(str(jobs / "leave.py"))
    assert command[position + 1 :] == ["--exit", "3"]
    assert value_of(command, "--master") == ["yarn"]
    assert value_of(command, "--name") == ["mine"]
    assert "--supervise" in command[:position]
    [our_jars], [our_zip] = value_of(command, "--jars"), value_of(command, "--py-files")
    assert re.fullmatch(r"\S+/delta-spark_4\.1_2\.13-4\.4\.0\.jar,\S+/delta-storage-4\.4\.0\.jar,/x\.jar", our_jars)
    assert re.fullmatch(r"\S+/\.build/ballast-[0-9a-f]{16}\.zip,/y\.zip", our_zip)
    assert value_of(command, "--conf") == []


@pytest.mark.parametrize(
    ("words", "masters"),
    [
        (["leave"], ["local[*]"]),
        (["leave", "--conf", "spark.master=local[3]"], ["local[3]"]),
        (["leave", "--properties-file", "x.conf"], []),
        (["leave", "--remote", "sc://h"], []),
    ],
)
def test_default_master(jobs: Path, words: list[str], masters: list[str]) -> None:
    """The master is this machine, unless an option or a file sets it."""
    assert value_of(dry_run(jobs, *words), "--master") == masters


@pytest.mark.parametrize(
    ("words", "environ", "is_set"),
    [
        ([], {}, True),
        (["--master", "local[2]"], {}, True),
        (["--master", "yarn"], {}, False),
        (["--properties-file", "x.conf"], {}, False),
        (["--conf", "spark.hadoop.fs.defaultFS=hdfs://h"], {}, False),
        ([], {"HADOOP_CONF_DIR": "/etc/hadoop"}, False),
        ([], {"SPARK_CONF_DIR": "/etc/spark"}, False),
    ],
)
def test_a_local_master_reads_what_this_machine_sees(words: list[str], environ: dict[str, str], is_set: bool) -> None:
    """Only then a job may check its inputs before Spark starts; a site's settings may name another file system."""
    assert (LOCAL_INPUT in spark_environment(split(["ingest", *words]), environ)) is is_set


@pytest.mark.all_only
def test_a_missing_folder_is_reported_before_spark_starts(tmp_path: Path) -> None:
    """The run ends with 1 and one line; nothing is written."""
    folder = f"{tmp_path}/nowhere"
    result = submit(tmp_path, "ingest", "--cluster", "a", "--input", folder, BALLAST_JOBS=str(HOME / "jobs"))
    remedy = "name a folder with the outputs of Kafka's tools as --input DIR, or as input of [[clusters]] 'a'"
    assert (result.returncode, result.stderr) == (1, f"error: there is no folder {folder}: {remedy}\n")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("master", "given", "python", "address"),
    [
        ("local[2]", "/theirs", str(venv_python()), "127.0.0.1"),
        ("local[2]", "", str(venv_python()), "127.0.0.1"),
        ("yarn", "/theirs", "/theirs", None),
        ("yarn", "", str(venv_python()), None),
        ("spark://127.0.0.1:7077", "/theirs", "/theirs", "127.0.0.1"),
        ("spark://localhost:7077", "/theirs", "/theirs", "127.0.0.1"),
        ("spark://localhosts:7077", "/theirs", "/theirs", None),
    ],
)
def test_workers_of_this_machine_run_our_python(
    monkeypatch: pytest.MonkeyPatch, master: str, given: str, python: str, address: str | None
) -> None:
    """The user's PYSPARK_PYTHON counts on clusters of other machines; the driver's Python is always ours."""
    monkeypatch.setattr(classes, "archive", lambda *_: "classes")
    theirs = {"PYSPARK_PYTHON": given, "PYSPARK_DRIVER_PYTHON": "/theirs", "PYTHONPATH": f"{HOME}{os.pathsep}/mine"}
    environ = {name: value for name, value in os.environ.items() if name != "SPARK_LOCAL_IP"} | theirs
    result = spark_environment(split(["leave", "--master", master]), environ)
    assert (result["PYSPARK_PYTHON"], result["PYSPARK_DRIVER_PYTHON"]) == (python, str(venv_python()))
    assert result.get("SPARK_LOCAL_IP") == address
    assert result["PYTHONPATH"] == "/mine"
    assert result.get("BALLAST_CLASSES") == ("classes" if master.startswith("local") else None)


@pytest.mark.all_only
@pytest.mark.parametrize("code", [0, 2, 3])
def test_exit_codes_arrive(jobs: Path, code: int) -> None:
    """The script ends with the job's exit code; code comes from the zip, no network is used, and logs are quiet."""
    result = submit(jobs, "leave", "--master", "local[1]", "--exit", str(code))
    assert result.returncode == code, result.stderr
    origin, version = result.stdout.splitlines()
    assert re.search(r"/ballast-[0-9a-f]{16}\.zip/optimizer/__init__\.py$", origin)
    assert re.fullmatch("[0-9a-f]{16}", version)
    assert result.stderr == ""


@pytest.mark.all_only
def test_errors_go_to_stderr(tmp_path: Path) -> None:
    """All errors are reported there together, before Spark starts; also in a file that several processes write."""
    words = [str(HOME / "spark-submit.sh"), "ingest", "--cluster", "a", "--input", "x", "--set", "solver.rounds=0"]
    with (tmp_path / "out").open("w") as out, (tmp_path / "err").open("w") as err:
        err.write("before\n")
        err.flush()
        code = subprocess.run([*words, "--set", "policy.in_band=-1"], stdout=out, stderr=err, check=False).returncode
    assert code == 2
    assert (tmp_path / "out").read_text() == ""
    lines = (tmp_path / "err").read_text().splitlines()
    assert lines[:2] == ["before", "error: 2 problems:"]
    assert len(lines) == 4


def test_every_job_says_what_it_does() -> None:
    """Each job of the project has a first line for --help."""
    assert all(text.endswith(".") for text in list_jobs(HOME / "jobs").values())


def test_locks_name_no_host() -> None:
    """Locks have only versions and hashes, so that any mirror can be used."""
    locks = sorted(SETUP.glob("*.lock"))
    assert len(locks) >= 5
    for lock in locks:
        assert not re.search(r"://|--index|--find-links|@ ", lock.read_text()), lock.name


def test_missing_ensurepip_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a Python without ensurepip the message names the package to install, and nothing is made."""
    monkeypatch.setattr(environment, "VENV", tmp_path / "venv")
    monkeypatch.setattr(environment, "find_spec", lambda name: None)
    with pytest.raises(SetupError, match=r"^this Python has no ensurepip: run 'apt-get install python3-venv'.*$"):
        environment.prepare()
    assert not (tmp_path / "venv").exists()


def test_a_long_installation_reports_progress(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Lines show what is being done and for how long; then a failure is reported."""
    lines = iter(["import time; time.sleep(0.7)", "raise SystemExit(3)"])
    monkeypatch.setattr(environment, "REPORT_SECONDS", 0.2)
    monkeypatch.setattr(environment, "VENV", tmp_path / "venv")
    monkeypatch.setattr(environment, "_uv", lambda *words: [sys.executable, "-c", next(lines)])
    monkeypatch.setattr(environment, "_make_venv", lambda: None)
    venv = tmp_path / "other"
    venv.mkdir()
    with pytest.raises(SetupError, match=r"installing tools.lock failed \(exit code 3\); the reason is above"):
        environment._install("airflow", venv)
    assert "setup: making other: 0 s so far\n" in capfd.readouterr().err


def test_a_changed_lock_is_installed_again(tmp_path: Path) -> None:
    """An environment is ready only for the locks that it was made from."""
    assert not environment.is_ready("runtime", venv=tmp_path)
    (tmp_path / "runtime.stamp").write_text(environment.lock_digest("runtime"))
    assert environment.is_ready("runtime", venv=tmp_path)
    (tmp_path / "runtime.stamp").write_text("older")
    assert not environment.is_ready("runtime", venv=tmp_path)


def test_installed_packages_are_compiled() -> None:
    """Even a module that nothing here imports: no run spends time on compiling its imports."""
    unused = Path(pandas.__file__).parent / "io" / "sas" / "sas_xport.py"
    assert "pandas.io.sas.sas_xport" not in sys.modules
    assert Path(cache_from_source(str(unused))).exists()


def test_preparations_wait_for_each_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While one process prepares, another cannot take the lock; afterwards it can."""
    monkeypatch.setattr(locking, "BUILD", tmp_path / "build")
    attempt = ["flock", "--nonblock", str(tmp_path / "build" / "environment.lock"), "true"]
    with locking.exclusive("environment"):
        assert subprocess.run(attempt, check=False).returncode == 1
    assert subprocess.run(attempt, check=False).returncode == 0


def test_missing_python_is_one_line(tmp_path: Path) -> None:
    """Without a Python 3.11 the script says so in one line."""
    (tmp_path / "setup").mkdir()
    for name in ("spark-submit.sh", "setup/find-python.sh"):
        (tmp_path / name).write_bytes((HOME / name).read_bytes())
    environ = {"PATH": "/usr/bin:/bin", "BALLAST_PYTHON": "/nowhere/python"}
    result = subprocess.run(
        ["bash", tmp_path / "spark-submit.sh"], capture_output=True, text=True, check=False, env=environ
    )
    assert result.returncode == 1
    assert re.fullmatch(r"setup: no Python 3\.11 found: .*\n", result.stderr)


def test_a_sites_own_settings_are_kept(jobs: Path, tmp_path: Path) -> None:
    """Spark reads the site's folder; settings that it lacks are added as options."""
    folder = tmp_path / "site"
    folder.mkdir()
    (folder / "spark-defaults.conf").write_text("# ours\nspark.driver.memory 9g\nspark.sql.extensions=a.B\n")
    command = dry_run(jobs, "leave", "--conf", "spark.sql.session.timeZone=CET", SPARK_CONF_DIR=str(folder))
    given = [pair.partition("=")[::2] for pair in value_of(command, "--conf")]
    assert len(dict(given)) == len(given)
    assert dict(given)["spark.sql.extensions"] == "a.B,io.delta.sql.DeltaSparkSessionExtension"
    assert dict(given)["spark.sql.codegen.wholeStage"] == "false"
    assert "spark.driver.memory" not in dict(given)
    assert dict(given)["spark.sql.session.timeZone"] == "CET"
    ours = dry_run(jobs, "leave", SPARK_CONF_DIR=str(HOME / "conf"))
    assert ours == dry_run(jobs, "leave")
