"""A warehouse and inputs in S3, on a server of a package: the same plan as locally, and what commands do there."""

import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from pyarrow import fs

from setup.paths import AIRFLOW, HOME
from stored.tables import Warehouse
from tests.pipeline.test_at_once import MEMORY, submit_command
from tests.pipeline.test_fleet import TABLES, folder_of

pytestmark = pytest.mark.all_only

BUCKET, SECONDS = "ballast", 600
KEYS = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "s3cr3t-of-the-site", "AWS_REGION": "us-east-1"}


class Server(NamedTuple):
    """An S3 server: its address, and the file with a line for each request."""

    address: str
    log: Path

    @property
    def environment(self) -> dict[str, str]:
        """The variables of a client."""
        return {**KEYS, "AWS_ENDPOINT_URL": f"http://{self.address}", "AWS_ALLOW_HTTP": "true"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """moto's server with an empty bucket."""
    program = AIRFLOW / "bin" / "moto_server"
    if not program.exists():
        pytest.skip(f"there is no {program}: run ./run-tests.sh")
    log = tmp_path_factory.mktemp("s3") / "requests"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with log.open("wb") as output:
        process = subprocess.Popen([program, "-H", "127.0.0.1", "-p", str(port)], stdout=output, stderr=output)
    try:
        address, until = f"127.0.0.1:{port}", time.monotonic() + 60
        while True:
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                break
            except OSError:
                assert process.poll() is None, log.read_text()
                assert time.monotonic() < until
                time.sleep(0.1)
        files(address).create_dir(BUCKET)
        yield Server(address, log)
    finally:
        process.kill()
        process.wait()


def files(address: str) -> fs.S3FileSystem:
    """The files of the server."""
    return fs.S3FileSystem(
        access_key=KEYS["AWS_ACCESS_KEY_ID"],
        secret_key=KEYS["AWS_SECRET_ACCESS_KEY"],
        region=KEYS["AWS_REGION"],
        endpoint_override=f"http://{address}",
        allow_bucket_creation=True,
    )


def ended(home: Path, server: Server, *words: str, **changed: str) -> "subprocess.CompletedProcess[str]":
    """A command of the checkout that has ended, in an empty folder."""
    _, environment, _ = submit_command(home, "r")
    program, *rest = words
    command = [str(HOME / program), *rest]
    environment = {**environment, **server.environment, **changed}
    return subprocess.run(
        command, cwd=home, env=environment, text=True, capture_output=True, timeout=SECONDS, check=False
    )


def job(home: Path, server: Server, run_id: str, *words: str, warehouse: str = f"s3a://{BUCKET}/tables") -> str:
    """What a run of the cluster in the bucket writes on the error output; it must succeed."""
    knobs = ("policy.drain_brokers=[1]", "solver.rounds=1", "solver.curve_brokers=0", "storage.single_writer=true")
    sets = [word for knob in knobs for word in ("--set", knob)]
    given = ("--cluster", "c", "--input", f"s3a://{BUCKET}/in", "--run-id", run_id, "--warehouse", warehouse)
    done = ended(home, server, "spark-submit.sh", *MEMORY, "pipeline", *given, "--output", "out", *sets, *words)
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout + done.stderr


class Both(NamedTuple):
    """A local run and the same in S3, which had two attempts."""

    local: Path
    home: Path
    text: str


@pytest.fixture(scope="module")
def both(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Both:
    """Runs ``r`` of one cluster."""
    local, home = (tmp_path_factory.mktemp(name) for name in ("local", "remote"))
    folder = Path(folder_of(local, "in"))
    for file in folder.iterdir():
        with files(server.address).open_output_stream(f"{BUCKET}/in/{file.name}") as stream:
            stream.write(file.read_bytes())
    command, environment, _ = submit_command(local, "r")
    subprocess.run(command, cwd=local, env=environment, check=True, capture_output=True, timeout=SECONDS)
    text = job(home, server, "r")
    return Both(local, home, text + job(home, server, "r", warehouse=f"s3://{BUCKET}/tables"))


@pytest.fixture
def warehouse(server: Server, monkeypatch: pytest.MonkeyPatch) -> Warehouse:
    """The warehouse in S3, as commands open it."""
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    return Warehouse(f"s3a://{BUCKET}/tables")


def test_the_plan_is_the_same_as_in_a_local_warehouse(both: Both) -> None:
    """Every document, byte for byte; the second attempt, by the other name of the scheme, wrote nothing new."""
    names = ("reassignment.json", "rollback.json", "runbook.md", "moves.csv")
    documents = [{name: (home / "out" / "r" / "c" / name).read_bytes() for name in names} for home in both[:2]]
    assert documents[0] == documents[1]
    assert "s3cr3t" not in both.text


def test_the_tables_have_the_same_rows_once(both: Both, warehouse: Warehouse) -> None:
    """Deltalake reads in S3 what Spark wrote there."""
    local = Warehouse(str(both.local / "tables"))
    counts = [{table: len(store.rows(table, run_id="r")) for table in TABLES} for store in (local, warehouse)]
    assert counts[0] == counts[1]
    assert {table for table in ("instance", "plan", "waves") if not counts[1][table]} == set()


def test_commands_read_and_write_there(both: Both, server: Server) -> None:
    """``show``, ``ask`` and ``approve``; an approval is there once, and then nobody may plan the run again."""
    at = ("--warehouse", f"s3a://{BUCKET}/tables")
    shown = ended(both.home, server, "ballast", "show", *at)
    assert (shown.returncode, "planned" in shown.stdout) == (0, True), shown.stderr
    asked = ended(both.home, server, "ballast", "ask", "--cluster", "c", *at)
    assert (asked.returncode, asked.stderr) == (0, ""), asked.stderr
    approve = ("ballast", "approve", "--cluster", "c", "--run-id", "r", "--by", "anna", *at)
    approved = ended(both.home, server, *approve)
    assert (approved.returncode, approved.stderr) == (0, ""), approved.stderr
    assert "anna" in ended(both.home, server, "ballast", "show", "--run-id", "r", *at).stdout


def test_two_jobs_at_once_are_refused_in_words(server: Server, tmp_path: Path) -> None:
    """Spark may lose one of two commits to S3, so a site must say that there is one writer."""
    given = ("--cluster", "c", "--input", f"s3a://{BUCKET}/in", "--warehouse", f"s3a://{BUCKET}/other")
    done = ended(tmp_path, server, "spark-submit.sh", "pipeline", *given)
    assert done.returncode == 2
    assert "set [storage] single_writer = true" in done.stderr
    assert not [info for info in files(server.address).get_file_info(fs.FileSelector(BUCKET)) if "other" in info.path]
