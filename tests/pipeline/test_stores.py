"""Warehouse and inputs in S3 and HDFS, on servers of packages: the same plan as locally, and what commands do there.

The S3 server fails now and then: it is busy, and connections break before and after a commit.
"""

import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import pytest
from pyarrow import fs

import schemas
from setup.paths import AIRFLOW, HOME
from stored.tables import Overtaken, Row, Warehouse
from tests.pipeline import hadoop
from tests.pipeline.test_at_once import MEMORY, submit_command
from tests.pipeline.test_fleet import TABLES, folder_of
from tour.ports import free_ports

pytestmark = pytest.mark.all_only

BUCKET, SECONDS = "ballast", 600
KEYS = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "s3cr3t-of-the-site", "AWS_REGION": "us-east-1"}


class Server(NamedTuple):
    """An S3 server: its address, that of the faulty server in front of it, and the file of the next faults."""

    address: str
    front: str
    faults: Path

    @property
    def environment(self) -> dict[str, str]:
        """The variables of a client."""
        return {**KEYS, "AWS_ENDPOINT_URL": f"http://{self.front}", "AWS_ALLOW_HTTP": "true"}

    def fail(self, *faults: str) -> None:
        """The next requests to commit fail so."""
        self.faults.write_text("".join(f"{fault}\n" for fault in faults))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """moto's server with an empty bucket."""
    program = AIRFLOW / "bin" / "moto_server"
    if not program.exists():
        pytest.skip(f"there is no {program}: run ./run-tests.sh")
    home = tmp_path_factory.mktemp("s3")
    ports = free_ports(2)
    address, front = (f"127.0.0.1:{port}" for port in ports)
    made = Server(address, front, home / "faults")
    made.fail()
    commands = [
        [str(program), "-H", "127.0.0.1", "-p", str(ports[0])],
        [sys.executable, "-m", "tests.pipeline.faulty_store", str(ports[1]), address, str(made.faults)],
    ]
    log = home / "log"
    with log.open("wb") as output:
        processes = [subprocess.Popen(command, stdout=output, stderr=output, cwd=HOME) for command in commands]
    try:
        for port, process in zip(ports, processes, strict=True):
            _wait_for(port, process, log)
        files(address).create_dir(BUCKET)
        yield made
    finally:
        for process in processes:
            process.kill()
            process.wait()


def _wait_for(port: int, process: "subprocess.Popen[bytes]", log: Path) -> None:
    until = time.monotonic() + 60
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return
        except OSError:
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < until
            time.sleep(0.1)


def files(address: str) -> fs.S3FileSystem:
    """The files of the server."""
    return fs.S3FileSystem(
        access_key=KEYS["AWS_ACCESS_KEY_ID"],
        secret_key=KEYS["AWS_SECRET_ACCESS_KEY"],
        region=KEYS["AWS_REGION"],
        endpoint_override=f"http://{address}",
        allow_bucket_creation=True,
    )


def ended(home: Path, variables: Mapping[str, str], *words: str) -> "subprocess.CompletedProcess[str]":
    """A command of the checkout that has ended, in an empty folder."""
    _, environment, _ = submit_command(home, "r")
    program, *rest = words
    command = [str(HOME / program), *rest]
    environment = {**environment, **variables}
    return subprocess.run(
        command, cwd=home, env=environment, text=True, capture_output=True, timeout=SECONDS, check=False
    )


SETTINGS = """
[[clusters]]
id = "c"
input = "{uri}/in"
captured_at = "2026-01-31T02:00:00Z"
[policy]
drain_brokers = [1]
[solver]
rounds = 1
curve_brokers = 0
[schedule]
valid_hours = 0
[storage]
warehouse = "{warehouse}"
single_writer = true
"""


def job(home: Path, variables: Mapping[str, str], uri: str, *words: str, warehouse: str = "") -> str:
    """What run ``r`` of the cluster in ``uri/in`` writes; it must succeed."""
    text = SETTINGS.format(uri=uri, warehouse=warehouse or f"{uri}/tables")
    (home / "c.toml").write_text(text, encoding="utf-8")
    given = ("--config", "c.toml", "--run-id", "r", "--output", "out")
    done = ended(home, variables, "spark-submit.sh", *MEMORY, *words, "pipeline", *given)
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a local run ``r`` of one cluster."""
    home = tmp_path_factory.mktemp("local")
    folder_of(home, "in")
    job(home, {}, str(home))
    return home


class Both(NamedTuple):
    """A local run and the same in S3, which had two attempts."""

    local: Path
    home: Path
    text: str


@pytest.fixture(scope="module")
def both(local: Path, server: Server, tmp_path_factory: pytest.TempPathFactory) -> Both:
    """Runs ``r`` of one cluster."""
    home, uri = tmp_path_factory.mktemp("remote"), f"s3a://{BUCKET}"
    for file in (local / "in").iterdir():
        with files(server.address).open_output_stream(f"{BUCKET}/in/{file.name}") as stream:
            stream.write(file.read_bytes())
    server.fail("busy", "done-but-lost", "lost", "", "busy", "busy", "done-but-lost", "lost")
    text = job(home, server.environment, uri)
    assert not server.faults.read_text()
    return Both(local, home, text + job(home, server.environment, uri, warehouse=f"s3://{BUCKET}/tables"))


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
    shown = ended(both.home, server.environment, "ballast", "show", *at)
    assert (shown.returncode, "planned" in shown.stdout) == (0, True), shown.stderr
    asked = ended(both.home, server.environment, "ballast", "ask", "--cluster", "c", *at)
    assert (asked.returncode, asked.stderr) == (0, ""), asked.stderr
    approve = ("ballast", "approve", "--cluster", "c", "--run-id", "r", "--by", "anna", *at)
    approved = ended(both.home, server.environment, *approve)
    assert (approved.returncode, approved.stderr) == (0, ""), approved.stderr
    assert "anna" in ended(both.home, server.environment, "ballast", "show", "--run-id", "r", *at).stdout


def test_two_jobs_at_once_are_refused_in_words(server: Server, tmp_path: Path) -> None:
    """Spark may lose one of two commits to S3, so a site must say that there is one writer."""
    given = ("--cluster", "c", "--input", f"s3a://{BUCKET}/in", "--warehouse", f"s3a://{BUCKET}/other")
    done = ended(tmp_path, server.environment, "spark-submit.sh", "pipeline", *given)
    assert done.returncode == 2
    assert "set [storage] single_writer = true" in done.stderr
    assert not [info for info in files(server.address).get_file_info(fs.FileSelector(BUCKET)) if "other" in info.path]


def _row() -> Row:
    values = {"string": "x", "timestamp": datetime(2026, 1, 1, tzinfo=UTC), "boolean": True}
    return {column.name: values[column.type] for column in schemas.ALL["approvals"].columns}


@pytest.mark.usefixtures("warehouse")
@pytest.mark.parametrize("faults", [("busy",) * 3, ("lost", "lost"), ("done-but-lost",), ("done-but-lost", "busy")])
def test_a_row_is_added_once_although_the_store_fails(server: Server, faults: tuple[str, ...]) -> None:
    """Also if the answer to the commit is lost, with and without a version after which it must come."""
    warehouse = Warehouse(f"s3://{BUCKET}/failing")
    for names_version in (False, True):
        version = warehouse.version("approvals")
        count = len(warehouse.rows("approvals"))
        server.fail(*faults)
        warehouse.append("approvals", [_row()], after=version if names_version else None)
        assert (len(warehouse.rows("approvals")), server.faults.read_text()) == (count + 1, "")
        with pytest.raises(Overtaken):
            warehouse.append("approvals", [_row()], after=version)


def test_keys_that_expire_change_nothing_and_are_one_line(both: Both, server: Server, warehouse: Warehouse) -> None:
    """The store's code and message, without its XML and without colours."""
    count = len(warehouse.rows("approvals"))
    server.fail(*["expired"] * 100)
    revoke = ("ballast", "revoke", "--cluster", "c", "--run-id", "r", "--by", "anna", "--warehouse", warehouse.path)
    refused = ended(both.home, server.environment, *revoke)
    server.fail()
    assert refused.returncode == 1
    assert refused.stderr.endswith("400 Bad Request: ExpiredToken The token has expired.\n")
    assert (refused.stderr.count("\n"), "\x1b" in refused.stderr) == (1, False)
    assert len(warehouse.rows("approvals")) == count


@pytest.fixture(scope="module")
def of_hadoop(local: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[hadoop.Hadoop]:
    """HDFS with the inputs of the local run, and YARN."""
    with hadoop.running(tmp_path_factory.mktemp("hadoop")) as running:
        running.put(local / "in", "/in")
        yield running


@pytest.mark.parametrize("master", ["local", "yarn"])
def test_the_plan_is_the_same_from_hdfs(of_hadoop: hadoop.Hadoop, local: Path, tmp_path: Path, master: str) -> None:
    """With a local master, and with a driver in a container of YARN: every document, byte for byte, and all rows."""
    words = of_hadoop.in_cluster_mode() if master == "yarn" else ("--master", "local[2]")
    warehouse = f"{of_hadoop.uri}/{master}"
    job(tmp_path, of_hadoop.variables, of_hadoop.uri, *words, warehouse=warehouse)
    stores = [Warehouse(path) for path in (str(local / "tables"), warehouse)]
    documents = [{row["path"]: row["content"] for row in store.rows("documents", run_id="r")} for store in stores]
    assert documents[0] == documents[1]
    counts = [{table: len(store.rows(table, run_id="r")) for table in TABLES} for store in stores]
    assert counts[0] == counts[1]
    shown = ended(tmp_path, of_hadoop.variables, "ballast", "show", "--warehouse", warehouse)
    assert (shown.returncode, "planned" in shown.stdout) == (0, True), shown.stderr


def test_yarn_starts_a_failed_run_once(of_hadoop: hadoop.Hadoop, tmp_path: Path) -> None:
    """YARN's own default is two attempts; its exit code is 1 for each failure."""
    missing = f"{of_hadoop.uri}/missing"
    (tmp_path / "c.toml").write_text(SETTINGS.format(uri=missing, warehouse=f"{missing}/tables"), encoding="utf-8")
    words = (*MEMORY, *of_hadoop.in_cluster_mode(), "pipeline", "--config", "c.toml", "--run-id", "r")
    done = ended(tmp_path, of_hadoop.variables, "spark-submit.sh", *words)
    assert done.returncode == 1
    attempts = [file.parent.name for file in of_hadoop.home.rglob("container_*_000001/stdout")]
    [failed] = [file for file in of_hadoop.home.rglob("stdout") if f"there is no folder {missing}" in file.read_text()]
    application = failed.parent.name[: -len("_01_000001")]
    assert [name for name in attempts if name.startswith(application)] == [failed.parent.name]
