"""Inputs that this machine can't read are reported before Spark starts."""

import socket
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from optimizer import cli, inputs
from optimizer.errors import InputError
from optimizer.job_options import LOCAL_INPUT
from optimizer.settings import ClusterInput
from stored.tables import Warehouse
from tour.ports import free_ports

UNKNOWN = "no-such-host.invalid"
DESCRIBE = "\tTopic: t\tPartition: 0\tLeader: 1\tReplicas: 1,2\tIsr: 1,2\n"
BROKERS = "h1:9092 (id: 1 rack: a isFenced: false) -> (\n"


@pytest.fixture
def folders(tmp_path: Path) -> Path:
    """Folders with a file, without files, and with files that are no input."""
    for name in ("full", "empty", "hidden/_tmp"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "full/describe.txt").write_text(DESCRIBE)
    for name in ("hidden/.swp", "hidden/_tmp/part"):
        (tmp_path / name).touch()
    return tmp_path


@pytest.fixture
def listener() -> Iterator[str]:
    """The address of a server that accepts connections."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


def reported(*clusters: ClusterInput) -> list[str]:
    """The problems with the inputs of a run."""
    try:
        inputs.check(clusters)
    except InputError as error:
        return list(error.problems)
    return []


def test_a_folder_has_a_file(folders: Path) -> None:
    """A missing and an empty folder are two errors with a remedy. Other file systems are not checked."""
    remedy = "name a folder with the outputs of Kafka's tools as --input DIR, or as input of [[clusters]] 'a'"
    for name, wrong in {
        "nowhere": "there is no folder {}",
        "empty": "the folder {} is empty",
        "hidden": "the folder {} is empty",
    }.items():
        for path in (f"{folders}/{name}", f"file://{folders}/{name}"):
            assert reported(ClusterInput(id="a", input=path)) == [f"{wrong.format(path)}: {remedy}"]
    for path in (f"{folders}/full", f"{folders}/full/describe.txt", "s3a://bucket/nowhere", "hdfs://h/nowhere"):
        assert reported(ClusterInput(id="a", input=path)) == []


@pytest.mark.parametrize(
    ("contents", "reason"),
    [
        ({"b.txt": BROKERS, "load.csv": "x"}, "no file of the folder {} describes topics (it has b.txt, load.csv): "),
        ({"b.txt": BROKERS, "all.txt": BROKERS + DESCRIBE}, ""),
        ({"b.txt": BROKERS, "sub/topics.txt": DESCRIBE}, ""),
        ({"long.txt": BROKERS * 10_000}, ""),
        ({"key.p12": "\0\1"}, "no file of the folder {} describes topics (it has key.p12): "),
        ({"plan.json": '{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1]}]}'}, ""),
    ],
)
def test_a_folder_without_topics_is_reported(tmp_path: Path, contents: dict[str, str], reason: str) -> None:
    """Unless a file is longer than its part that was read, or a live cluster describes the topics."""
    for name, content in contents.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content)
    remedy = "put the output of kafka-topics.sh --describe into it"
    expected = [f"{reason.format(tmp_path)}{remedy}"] if reason else []
    assert reported(ClusterInput(id="a", input=str(tmp_path))) == expected
    with socket.create_server(("127.0.0.1", 0)) as server:
        live = f"127.0.0.1:{server.getsockname()[1]}"
        assert reported(ClusterInput(id="a", input=str(tmp_path), bootstrap_servers=live)) == []


def test_a_file_that_is_no_folder_is_reported(tmp_path: Path) -> None:
    """A file is read, if it describes topics."""
    file = tmp_path / "brokers.txt"
    file.write_text(BROKERS)
    remedy = "name a folder with the outputs of Kafka's tools as --input DIR, or as input of [[clusters]] 'a'"
    assert reported(ClusterInput(id="a", input=str(file))) == [f"the file {file} does not describe topics: {remedy}"]


def test_a_server_is_there(listener: str) -> None:
    """An unknown host and a refused connection are two errors. One server that answers is enough."""
    refusing = f"127.0.0.1:{free_ports(1)[0]}"
    unknown = (
        "this machine cannot resolve the host name of {}: correct bootstrap_servers of [[clusters]] 'a', or the DNS of "
        "this machine"
    )
    refused = (
        "nothing accepts connections at {}: start the brokers, or correct the ports in bootstrap_servers of "
        "[[clusters]] 'a'"
    )
    for servers, wrong in {
        f"{UNKNOWN}:9092, {UNKNOWN}": [unknown.format(f"{UNKNOWN}:9092, {UNKNOWN}")],
        refusing: [refused.format(refusing)],
        f"SSL://{refusing},{UNKNOWN}:1": [unknown.format(f"{UNKNOWN}:1"), refused.format(f"SSL://{refusing}")],
        f"{refusing},{listener},{UNKNOWN}": [],
    }.items():
        assert reported(ClusterInput(id="a", bootstrap_servers=servers)) == wrong, servers


def test_a_server_that_is_silent_may_answer_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that does not refuse within some seconds is left to the client."""
    monkeypatch.setattr(inputs, "_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0), backlog=0) as server, socket.create_connection(server.getsockname()):
        port = server.getsockname()[1]
        with socket.socket() as waiting:
            waiting.setblocking(False)
            waiting.connect_ex(("127.0.0.1", port))
            assert reported(ClusterInput(id="a", bootstrap_servers=f"127.0.0.1:{port}")) == []


def test_all_clusters_are_reported_at_once_and_one_that_can_be_read_is_enough(folders: Path) -> None:
    """A run starts if it can read any cluster; else it ends with every problem."""
    missing, empty = (ClusterInput(id=name, input=str(folders / name)) for name in ("gone", "empty"))
    unreachable = ClusterInput(
        id="both", input=str(folders / "gone"), bootstrap_servers=f"127.0.0.1:{free_ports(1)[0]}"
    )
    messages = reported(unreachable, missing, empty)
    starts = ("there is no folder", f"the folder {folders}/empty", "there is no folder", "nothing accepts connections")
    assert [line.startswith(start) for line, start in zip(messages, starts, strict=True)] == [True] * 4
    assert reported(unreachable, missing, empty, ClusterInput(id="full", input=str(folders / "full"))) == []


@pytest.mark.parametrize(
    ("stages", "is_local", "code"), [(["ingest"], True, 1), (["ingest"], False, 0), (["emit"], True, 0)]
)
def test_a_run_looks_only_where_it_reads(
    folders: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    stages: list[str],
    is_local: bool,
    code: int,
) -> None:
    """A job on a local master that reads inputs ends with exit code 1 and one line; others start."""
    monkeypatch.setenv(LOCAL_INPUT, "1" if is_local else "")
    monkeypatch.setattr(cli, "_plan", lambda *_: 0)
    places = [f"--{name}={folders / name}" for name in ("warehouse", "output")]
    words = ["job", "--cluster", "a", "--input", str(folders / "empty"), "--run-id", "r", *places]
    monkeypatch.setattr("sys.argv", words)
    assert cli.main(stages, "test") == code
    error = f"error: the folder {folders / 'empty'} is empty: name a folder"
    assert capsys.readouterr().err.startswith(error if code else "")


@pytest.mark.parametrize("is_revoked", [False, True])
def test_an_approved_run_is_refused_before_spark(
    folders: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *, is_revoked: bool
) -> None:
    """Also if the approval was revoked since. A run of another id starts."""
    monkeypatch.setattr(cli, "_plan", lambda *_: 0)
    row = {
        **{"cluster_id": "a", "run_id": "r", "manifest_sha256": "ab", "approved_by": "ann", "approved_from": "here"},
        **{"approved_at": datetime(2026, 11, 1, tzinfo=UTC), "is_revocation": False},
    }
    rows = [row, {**row, "approved_by": "bob", "is_revocation": True}][: 1 + is_revoked]
    Warehouse(str(folders / "warehouse")).append("approvals", rows)
    places = [f"--{name}={folders / name}" for name in ("warehouse", "output")]
    for run_id, code in (("r", 3), ("s", 0)):
        monkeypatch.setattr("sys.argv", ["job", "--cluster", "a", "--input", str(folders), "--run-id", run_id, *places])
        assert cli.main(["emit"], "test") == code
    error = "error: ann has approved the plan of run 'r' for cluster a, so this run is not planned again: give another"
    assert capsys.readouterr().err.startswith(error)
