"""Which cluster, plan and waves a step gets, before it asks Kafka anything."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from execution import claims, run_step
from execution.options import STEPS
from execution.tables import Warehouse
from tests.execution.test_cli import Commands
from tests.execution.warehouse import load_plan, usual_plan, write_plan

OLD = ("--max-plan-age-hours", "1e9")
FIRST = {("stays", 0): (1, 3)}


class Recorder:
    """Stands in for the steps: what they are made of, and which is asked for."""

    def __init__(self) -> None:
        self.names = "warehouse", "plan", "wave", "earlier", "tools", "client", "say"
        self.made: dict[str, Any] = {}
        self.asked: list[tuple[str, tuple[Any, ...], Mapping[str, Any]]] = []

    def __call__(self, *given: Any) -> "Recorder":
        self.made = dict(zip(self.names, given, strict=True))
        return self

    def __getattr__(self, step: str) -> Any:
        return lambda *words, **options: self.asked.append((step, words, options))


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    """In place of every step."""
    result = Recorder()
    monkeypatch.setattr(run_step, "Execution", result)
    return result


@pytest.fixture
def commands(tmp_path: Path, capsys: pytest.CaptureFixture[str], recorder: Recorder) -> Commands:
    """Commands on a warehouse with an approved plan of two waves."""
    result = Commands(write_plan(tmp_path / "w", usual_plan()), capsys)
    result.run("approve", "--by", "ann")
    return result


def without_first_wave(warehouse: Warehouse) -> None:
    """Remove a document of the first wave from the tables."""
    DeltaTable(f"{warehouse.path}/documents").delete("path = 'c/wave-01/throttle.json'")


@pytest.mark.parametrize(
    ("step", "words", "called"),
    [
        ("preflight", OLD, ((), {})),
        ("throttle", OLD, ((), {})),
        ("execute", (), ((), {})),
        ("wait", (), ((), {"every_seconds": 10.0, "once": False})),
        ("wait", ("--once", "--every", "0.5"), ((), {"every_seconds": 0.5, "once": True})),
        ("off", (), ((), {"cancel": False, "accept_owed": False})),
        ("off", ("--on-failure", "keep", "--accept-owed"), ((), {"cancel": False, "accept_owed": True})),
        ("off", ("--on-failure", "cancel"), ((), {"cancel": True, "accept_owed": False})),
        ("verify", (), ((), {})),
        ("elect", (), (([],), {})),
        ("status", (), ((), {})),
    ],
)
def test_a_step_gets_its_options(
    commands: Commands, recorder: Recorder, step: str, words: tuple[str, ...], called: tuple[Any, ...]
) -> None:
    """And no other step is run."""
    assert commands.wave(step, *words).code == 0
    assert recorder.asked == [(step, *called)]
    assert (recorder.made["wave"].number, recorder.made["plan"]) == (1, load_plan(commands.warehouse))


@pytest.mark.parametrize("step", STEPS)
def test_waves_before_are_read_where_they_count(commands: Commands, recorder: Recorder, step: str) -> None:
    """What begins or ends a plan knows where they put their partitions; what ends a wave works without them."""
    words = ("wave", step, "--wave", "2", "--bootstrap-server", "h:1", *OLD)
    looks_back = step not in ("wait", "off", "verify", "status")
    assert commands.run(*words).code == 0
    assert recorder.made["earlier"] == (FIRST if looks_back else {})
    assert recorder.made["wave"].after == {("stays", 1): (2, 4)}
    without_first_wave(commands.warehouse)
    ended = commands.run(*words)
    assert ended.code == (3 if looks_back else 0)
    assert ("wave-01/throttle.json is missing from table documents" in ended.err) is looks_back


def test_a_step_knows_what_kafka_takes_back_nowhere(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], recorder: Recorder
) -> None:
    """Partitions of a dead broker: their lists of before stand in a document of the whole plan."""
    plan = usual_plan()
    dead = [replace(row, state="dead" if row.broker_id == 2 else "alive") for row in plan.brokers]
    assert Commands(write_plan(tmp_path / "w", replace(plan, brokers=dead)), capsys).wave("status").code == 0
    assert recorder.made["wave"].before == {("stays", 0): (1, 2)}
    assert recorder.made["wave"].stuck == {("stays", 0)}


@pytest.mark.parametrize("step", STEPS)
def test_only_status_needs_no_approval(commands: Commands, recorder: Recorder, step: str) -> None:
    """Every other step is refused before the cluster is asked."""
    DeltaTable(f"{commands.warehouse.path}/approvals").delete()
    ended = commands.wave(step, *OLD)
    assert ended.code == (0 if step == "status" else 3)
    assert bool(recorder.asked) is (step == "status")
    assert ("this plan is not approved" in ended.err) is (step != "status")


@pytest.mark.parametrize("step", STEPS)
def test_only_what_begins_a_wave_asks_how_old_the_plan_is(commands: Commands, recorder: Recorder, step: str) -> None:
    """A wave that holds the cluster has begun and goes on; one that another wave of the plan keeps out has not."""
    begins = step in ("preflight", "throttle")
    assert commands.wave(step).code == (3 if begins else 0)
    claims.record(commands.warehouse, load_plan(commands.warehouse), 1, claims.HELD)
    assert commands.run("wave", step, "--wave", "2", "--bootstrap-server", "h:1").code == (3 if begins else 0)
    assert commands.wave(step).code == 0


@pytest.mark.parametrize("step", STEPS)
def test_only_what_begins_a_wave_asks_for_other_runs(commands: Commands, recorder: Recorder, step: str) -> None:
    """What runs already is ended, whoever came meanwhile."""
    other = replace(load_plan(commands.warehouse), run_id="other")
    for event in (claims.HELD, claims.RELEASED):
        claims.record(commands.warehouse, other, 1, event)
    ended = commands.wave(step, *OLD)
    begins = step in ("preflight", "throttle")
    assert (ended.code, "was executed after this plan's snapshot" in ended.err) == (3 if begins else 0, begins)


TWO = """
[[clusters]]
id = "other"
bootstrap_servers = "other:9"

[[clusters]]
id = "c"
bootstrap_servers = "file:9"
client_config = "client.properties"
"""


@pytest.mark.parametrize(
    ("words", "servers", "client_id"),
    [
        ((), "file:9", "of file"),
        (("--bootstrap-server", "h:1"), "h:1", "of file"),
        (("--client-config", "mine.properties"), "file:9", "mine"),
        (("--bootstrap-server", "h:1", "--client-config", "mine.properties"), "h:1", "mine"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_tools_and_client_ask_the_same_cluster(
    commands: Commands,
    recorder: Recorder,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    words: tuple[str, ...],
    servers: str,
    client_id: str,
) -> None:
    """Options come before the file's own cluster; servers in the client's properties never count."""
    monkeypatch.chdir(tmp_path)
    paths = {"of file": tmp_path / "client.properties", "mine": tmp_path / "mine.properties"}
    for name, path in paths.items():
        path.write_text(f"bootstrap.servers=elsewhere:9\nclient.id={name}\n")
    (tmp_path / "c.toml").write_text(TWO)
    step = ("--kafka-bin", "/kafka/bin", "--config", "c.toml", *words)
    assert commands.wave("status", *step, servers=()).code == 0
    tools = recorder.made["tools"]
    assert (tools.bootstrap_servers, tools.client_config) == (servers, str(paths[client_id]))
    assert tools.folder == "/kafka/bin"
    assert recorder.made["client"] == {"bootstrap_servers": servers, "client_id": client_id}


def test_without_properties_there_are_none(commands: Commands, recorder: Recorder) -> None:
    """No file is made up from an empty name, and the tools are those on PATH."""
    commands.wave("status")
    tools = recorder.made["tools"]
    assert (tools.client_config, tools.folder) == ("", "")
    assert recorder.made["client"] == {"bootstrap_servers": "127.0.0.1:1"}


def test_the_plan_that_was_approved_may_be_named(commands: Commands, recorder: Recorder) -> None:
    """By the first characters of its manifest; another one is refused by every step."""
    sha256 = load_plan(commands.warehouse).manifest_sha256
    assert commands.wave("status", "--manifest", sha256[:8]).code == 0
    recorder.asked.clear()
    for step in STEPS:
        assert commands.wave(step, "--manifest", sha256[1:9], *OLD).code == 3
    assert recorder.asked == []
