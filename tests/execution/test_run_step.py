"""The cluster, plan and waves that a step gets, before any call to Kafka."""

import re
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from execution import journal, run_step
from execution.health import Baseline
from execution.held import changes_of, held_wave
from execution.options import STEPS
from execution.throttles import Entry
from stored.tables import Warehouse
from tests.execution import rows
from tests.execution.test_cli import Commands
from tests.execution.warehouse import add_waves, load_plan, load_wave, usual_plan, write_plan

OLD = ("--max-plan-age-hours", "1e9")
FIRST = {("stays", 0): (1, 3)}


class Recorder:
    """Replaces the steps: records their arguments and which step is called."""

    def __init__(self) -> None:
        self.names = "warehouse", "plan", "wave", "earlier", "tools", "admin", "client", "say"
        self.arguments: dict[str, Any] = {}
        self.calls: list[tuple[str, tuple[Any, ...], Mapping[str, Any]]] = []

    def __call__(self, *given: Any, **named: Any) -> "Recorder":
        self.arguments = dict(zip(self.names, given, strict=True)) | named
        return self

    def __getattr__(self, step: str) -> Any:
        return lambda *words, **options: self.calls.append((step, words, options))


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    """A recorder that replaces every step."""
    result = Recorder()
    monkeypatch.setattr(run_step, "Execution", result)
    monkeypatch.setattr(run_step, "check_cluster", lambda *_, **__: None)
    monkeypatch.setattr(run_step, "saying_what_is_left", nullcontext)
    return result


@pytest.fixture
def commands(tmp_path: Path, capsys: pytest.CaptureFixture[str], recorder: Recorder) -> Commands:
    """Commands on a warehouse with an approved plan of two waves, which has expired since."""
    result = Commands(write_plan(tmp_path / "w", replace(usual_plan(), valid_hours=24.0)), capsys)
    result.run("approve", "--by", "ann", *OLD)
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
        ("elect", (), ((), {})),
        ("status", (), ((), {})),
    ],
)
def test_a_step_gets_its_options(
    commands: Commands, recorder: Recorder, step: str, words: tuple[str, ...], called: tuple[Any, ...]
) -> None:
    """No other step runs."""
    assert commands.wave(step, *words).code == 0
    assert recorder.calls == [(step, *called)]
    assert (recorder.arguments["wave"].number, recorder.arguments["plan"]) == (1, load_plan(commands.warehouse))


@pytest.mark.parametrize("step", STEPS)
def test_earlier_waves_are_read_if_the_step_needs_them(commands: Commands, recorder: Recorder, step: str) -> None:
    """Steps that start a wave or end a plan get the lists of earlier waves; steps that end a wave do not need them."""
    words = ("wave", step, "--wave", "2", "--bootstrap-server", "h:1", *OLD)
    needs_earlier = step not in ("wait", "off", "verify", "status")
    assert commands.run(*words).code == 0
    assert [wave.after for wave in recorder.arguments["earlier"]] == ([FIRST] if needs_earlier else [])
    assert recorder.arguments["wave"].after == {("stays", 1): (2, 4)}
    without_first_wave(commands.warehouse)
    ended = commands.run(*words)
    assert ended.code == (3 if needs_earlier else 0)
    assert ("wave-01/throttle.json is missing from table documents" in ended.err) is needs_earlier


def test_a_step_knows_which_partitions_cannot_move_back(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], recorder: Recorder
) -> None:
    """Partitions of a dead broker: their old lists are in a document of the whole plan."""
    plan = usual_plan()
    dead = [replace(row, state="dead" if row.broker_id == 2 else "alive") for row in plan.brokers]
    assert Commands(write_plan(tmp_path / "w", replace(plan, brokers=dead)), capsys).wave("status").code == 0
    assert recorder.arguments["wave"].before == {("stays", 0): (1, 2)}
    assert recorder.arguments["wave"].stuck == {("stays", 0)}


@pytest.mark.parametrize("step", STEPS)
def test_only_status_needs_no_approval(commands: Commands, recorder: Recorder, step: str) -> None:
    """Every other step is refused before any call to the cluster."""
    DeltaTable(f"{commands.warehouse.path}/approvals").delete()
    ended = commands.wave(step, *OLD)
    assert ended.code == (0 if step == "status" else 3)
    assert bool(recorder.calls) is (step == "status")
    assert ("this plan is not approved" in ended.err) is (step != "status")


@pytest.mark.parametrize("step", STEPS)
def test_after_a_revocation_only_status_and_off_run(commands: Commands, recorder: Recorder, step: str) -> None:
    """``off`` must still free the cluster. Every other step reports who revoked, and runs again after an approval."""
    commands.run("revoke", "--by", "bob")
    ended = commands.wave(step, *OLD)
    runs_on = step in ("status", "off")
    assert (ended.code, bool(recorder.calls)) == (0 if runs_on else 3, runs_on)
    approve = r"\./ballast approve --run-id r --cluster c approves it again"
    assert (
        bool(re.match(f"error: bob revoked the approval of this plan at .* UTC: {approve}", ended.err)) is not runs_on
    )
    commands.run("approve", *OLD)
    assert commands.wave(step, *OLD).code == 0


@pytest.mark.parametrize("step", STEPS)
def test_only_steps_that_start_a_wave_check_the_age(commands: Commands, recorder: Recorder, step: str) -> None:
    """A wave that holds the cluster has started and continues; a wave that another wave blocks has not."""
    starts = step in ("preflight", "throttle")
    assert commands.wave(step).code == (3 if starts else 0)
    rows.record(commands.warehouse, load_plan(commands.warehouse), 1, journal.HELD)
    assert commands.run("wave", step, "--wave", "2", "--bootstrap-server", "h:1").code == (3 if starts else 0)
    assert commands.wave(step).code == 0


@pytest.mark.parametrize("step", ["preflight", "throttle"])
def test_an_expired_plan_that_has_begun_goes_on(commands: Commands, recorder: Recorder, step: str) -> None:
    """After its first wave is executed and released, not before; a limit that is given still counts."""
    second = ("wave", step, "--wave", "2", "--bootstrap-server", "h:1")
    plan = load_plan(commands.warehouse)
    for event in (journal.HELD, journal.THROTTLED, journal.EXECUTED):
        rows.record(commands.warehouse, plan, 1, event)
        assert commands.run(*second).code == 3
    rows.record(commands.warehouse, plan, 1, journal.RELEASED)
    assert commands.run(*second).code == 0
    assert "expired at" in commands.run(*second, "--max-plan-age-hours", "24").err


@pytest.mark.parametrize("step", ["preflight", "throttle"])
def test_a_valid_plan_starts_without_the_option(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], recorder: Recorder, step: str
) -> None:
    """The manifest says how long a plan is valid; the option can also set a lower limit."""
    valid = Commands(write_plan(tmp_path / "w", usual_plan()), capsys)
    valid.run("approve")
    assert valid.wave(step).code == 0
    ended = valid.wave(step, "--max-plan-age-hours", "1")
    assert (ended.code, "expired at 2026-11-01 01:00 UTC" in ended.err) == (3, True)


@pytest.mark.parametrize("step", STEPS)
def test_only_steps_that_start_a_wave_check_for_other_runs(commands: Commands, recorder: Recorder, step: str) -> None:
    """A running wave can be ended, even if another run has executed since."""
    other = replace(load_plan(commands.warehouse), run_id="other")
    for event in (journal.HELD, journal.STARTING, journal.RELEASED):
        rows.record(commands.warehouse, other, 1, event)
    ended = commands.wave(step, *OLD)
    starts = step in ("preflight", "throttle")
    assert (ended.code, "was executed after this plan's snapshot" in ended.err) == (3 if starts else 0, starts)


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
def test_tools_and_client_use_the_same_cluster(
    commands: Commands,
    recorder: Recorder,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    words: tuple[str, ...],
    servers: str,
    client_id: str,
) -> None:
    """Options override the file's cluster; servers in the client properties are ignored."""
    monkeypatch.chdir(tmp_path)
    paths = {"of file": tmp_path / "client.properties", "mine": tmp_path / "mine.properties"}
    for name, path in paths.items():
        path.write_text(f"bootstrap.servers=elsewhere:9\nclient.id={name}\n")
    (tmp_path / "c.toml").write_text(TWO)
    step = ("--kafka-bin", "/kafka/bin", "--config", "c.toml", *words)
    assert commands.wave("status", *step, servers=()).code == 0
    tools = recorder.arguments["tools"]
    assert (tools.bootstrap_servers, tools.client_config) == (servers, str(paths[client_id]))
    assert tools.folder == "/kafka/bin"
    assert recorder.arguments["client"] == {"bootstrap_servers": servers, "client_id": client_id}


def test_client_properties_are_optional(commands: Commands, recorder: Recorder) -> None:
    """Without them there is no file, and the tools are those on PATH."""
    commands.wave("status")
    tools = recorder.arguments["tools"]
    assert (tools.client_config, tools.folder) == ("", "")
    assert recorder.arguments["client"] == {"bootstrap_servers": "127.0.0.1:1"}


def test_the_approved_manifest_may_be_given(commands: Commands, recorder: Recorder) -> None:
    """By its first characters; every step refuses another manifest."""
    sha256 = load_plan(commands.warehouse).manifest_sha256
    assert commands.wave("status", "--manifest", sha256[:8]).code == 0
    recorder.calls.clear()
    for step in STEPS:
        assert commands.wave(step, "--manifest", sha256[1:9], *OLD).code == 3
    assert recorder.calls == []


@pytest.mark.parametrize(("words", "is_strict"), [((), False), (("--strict",), True)])
def test_a_step_is_strict_if_requested(
    commands: Commands, recorder: Recorder, words: tuple[str, ...], is_strict: bool
) -> None:
    """The default skips partitions that the plan cannot move any more."""
    assert commands.wave("verify", *words).code == 0
    assert recorder.arguments["is_strict"] is is_strict


def test_a_wave_is_ended_without_its_documents(commands: Commands, recorder: Recorder) -> None:
    """The step off gets lists, throttles and ids from the row ``held``. Other steps are refused."""
    plan = load_plan(commands.warehouse)
    wave = load_wave(commands.warehouse, 1)
    before = {key: "7" if key[0] == "brokers" else None for key in wave.throttles}
    entries = {key: Entry(before[key], value) for key, value in wave.throttles.items()}
    changes = changes_of(wave, entries, Baseline(frozenset(), frozenset()))
    rows.record(commands.warehouse, plan, 1, journal.HELD, changes=changes)
    DeltaTable(f"{commands.warehouse.path}/documents").delete("wave > 0")
    assert commands.wave("off").code == 0
    held = recorder.arguments["wave"]
    assert (held.number, held.before, held.after) == (1, wave.before, wave.after)
    assert (held.throttles, held.topic_ids, held.stuck) == (wave.throttles, wave.topic_ids, wave.stuck)
    for step in sorted(STEPS.keys() - {"off"}):
        assert commands.wave(step, *OLD).code == 3
    assert [call[0] for call in recorder.calls] == ["off"]


@pytest.mark.parametrize("changed", [{"content": "'{}'"}, None], ids=["changed", "gone"])
def test_a_wave_is_ended_and_steered_without_its_manifest(
    commands: Commands, recorder: Recorder, changed: dict[str, str] | None
) -> None:
    """While it holds the cluster: the journal, the verdict and the table of waves are enough. Not after its release."""
    plan = load_plan(commands.warehouse)
    wave = load_wave(commands.warehouse, 1)
    entries = {key: Entry(None, value) for key, value in wave.throttles.items()}
    changes = changes_of(wave, entries, Baseline(frozenset(), frozenset()))
    rows.record(commands.warehouse, plan, 1, journal.HELD, changes=changes)
    add_waves(commands.warehouse, "r", "c", len(plan.waves), estimated_seconds=int(plan.wave_seconds[1]))
    documents = DeltaTable(f"{commands.warehouse.path}/documents")
    if changed:
        documents.update(updates=changed, predicate="path = 'c/manifest.json'")
    else:
        documents.delete()
    steered, _, _ = held_wave(commands.warehouse, "c")
    assert (list(steered.waves), steered.manifest_sha256) == (list(plan.waves), plan.manifest_sha256)
    assert steered.wave_seconds == plan.wave_seconds
    assert commands.wave("off", "--manifest", plan.manifest_sha256[:8]).code == 0
    assert recorder.arguments["wave"].after == wave.after
    assert commands.wave("verify").code == commands.wave("off", "--manifest", "0" * 8).code == 3
    commands.run("revoke")
    rows.record(commands.warehouse, plan, 1, journal.RELEASED)
    assert commands.wave("off").code == 3
    assert [call[0] for call in recorder.calls] == ["off"]
