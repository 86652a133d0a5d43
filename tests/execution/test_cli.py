"""The command line of ./ballast: exit codes, messages, and refusals before any call to Kafka."""

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import pytest
from deltalake.exceptions import DeltaError

from execution import cli, journal
from execution.cli import main
from execution.command import load_settings
from execution.steps import Incomplete, StillMoving
from setup.ballast_options import parser
from stored.tables import Warehouse
from stored.verdicts import Refused
from tests.execution import rows
from tests.execution.warehouse import (
    CLUSTER,
    DECISION_CONTENT,
    RUN,
    VALID_HOURS,
    add_verdict,
    load_plan,
    usual_plan,
    write_plan,
)

UNTIL = datetime(2026, 11, 1, tzinfo=UTC) + timedelta(hours=VALID_HOURS)
VALID = f"  valid until {UNTIL:%Y-%m-%d %H:%M} UTC\n"


class Ended(NamedTuple):
    """Exit code and output of a command."""

    code: int
    out: str
    err: str


class Commands:
    """Commands on one warehouse."""

    def __init__(self, warehouse: Warehouse, capsys: pytest.CaptureFixture[str]) -> None:
        self.warehouse, self._capsys = warehouse, capsys

    def run(self, *words: str) -> Ended:
        """Run a command for the plan in the warehouse; commands in its output are shown without where things are."""
        plan = ("--run-id", RUN, "--cluster", CLUSTER, "--warehouse", self.warehouse.path)
        code = main([*words, *plan])
        output = self._capsys.readouterr()
        where = rf" (--warehouse {re.escape(self.warehouse.path)}|--bootstrap-server 127.0.0.1:1)(?= )"
        return Ended(code, *(re.sub(where, "", text) for text in output))

    def printed(self) -> str:
        """The output since the last command."""
        return self._capsys.readouterr().out

    def wave(self, step: str, *words: str, servers: Sequence[str] = ("--bootstrap-server", "127.0.0.1:1")) -> Ended:
        """Run a step of the first wave."""
        return self.run("wave", step, "--wave", "1", *servers, *words)


@pytest.fixture
def commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Commands:
    """Commands on a warehouse with a plan."""
    return Commands(write_plan(tmp_path / "w", usual_plan()), capsys)


def test_an_approval_is_printed_and_stored(commands: Commands) -> None:
    """The output has the whole sha256; a wrong manifest, and one that is no sha256, change nothing."""
    sha256 = load_plan(commands.warehouse).manifest_sha256
    assert commands.run("approve", "--manifest", "0" * 8).code == 3
    assert commands.run("approve", "--manifest", "XYZ") == Ended(
        2, "", "error: --manifest 'XYZ': give 8 or more of the first characters of the sha256\n"
    )
    assert commands.warehouse.rows("approvals") == []
    approved = commands.run("approve", "--manifest", sha256[:10], "--by", "ann")
    assert (approved.code, approved.out.splitlines()[0]) == (
        0,
        f"Approved by ann: run r, cluster c, manifest {sha256[:8]}",
    )
    (row,) = commands.warehouse.rows("approvals")
    assert (row["approved_by"], row["manifest_sha256"]) == ("ann", sha256)


def test_an_expired_plan_is_refused_and_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """approve ends with 3 and one line; the option allows it. A plan of inputs without a time never expires."""
    commands = Commands(write_plan(tmp_path / "w", replace(usual_plan(), valid_hours=24.0)), capsys)
    ended = commands.run("approve", "--max-plan-age-hours", "0")
    assert (ended.code, ended.out) == (3, "")
    assert ended.err.startswith("error: the plan of run 'r' for cluster 'c' expired at 2026-11-01 00:00 UTC, because ")
    assert "expired at 2026-11-02 00:00 UTC" in commands.run("approve").err
    assert commands.warehouse.rows("approvals") == []
    assert commands.run("show").out.splitlines()[2:4] == ["  not approved", "  expired at 2026-11-02 00:00 UTC"]
    assert json.loads(commands.run("show", "--json").out)["valid_until"] == "2026-11-02T00:00:00+00:00"
    assert commands.run("approve", "--max-plan-age-hours", "1e9").code == 0
    timeless = Commands(write_plan(tmp_path / "t", replace(usual_plan(), sources=[])), capsys)
    assert timeless.run("approve", "--max-plan-age-hours", "0").code == 0
    assert "  never expires\n" in timeless.run("show").out
    assert json.loads(timeless.run("show", "--json").out)["valid_until"] is None


@pytest.mark.parametrize("manifest", ["0" * 7, "0" * 65, "ABCDEF01", "0000000g"])
def test_a_manifest_is_named_by_eight_characters_or_more(commands: Commands, manifest: str) -> None:
    """Fewer than 8, more than 64 and other characters are usage errors, for revoke and wave too."""
    for words in (("approve",), ("revoke",), ("wave", "status", "--wave", "1")):
        assert commands.run(*words, "--manifest", manifest).code == 2


def test_without_a_name_this_user_approves(commands: Commands) -> None:
    """The approver's default is the current user."""
    assert commands.run("approve").out.startswith(f"Approved by {journal.user_name()}: run r, cluster c, manifest ")


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (OSError("no\n  such disk"), 1, "OSError: no such disk"),
        (DeltaError("log\nis torn"), 1, "DeltaError: log is torn"),
        (KeyboardInterrupt(), 1, "interrupted; run the same command again to continue"),
        (StillMoving("x"), 4, "x"),
        (Incomplete("x"), 6, "x"),
        (Refused("a", "b"), 3, "2 problems to fix first:\n- a\n- b"),
        (Refused("a"), 3, "a"),
    ],
)
def test_errors_have_exit_codes(
    commands: Commands, monkeypatch: pytest.MonkeyPatch, error: BaseException, code: int, message: str
) -> None:
    """The message is on stderr, without a traceback."""

    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(cli, "run", fail)
    assert commands.run("show") == Ended(code, "", f"error: {message}\n")


def test_the_option_for_the_warehouse_overrides_the_file(tmp_path: Path) -> None:
    """Without both it is the default."""
    file = tmp_path / "c.toml"
    file.write_text('[storage]\nwarehouse = "/of/file"\n')
    config, option = ["--config", str(file)], ["--warehouse", "/of/option"]
    calls = {"/of/file": config, "/of/option": [*config, *option], "warehouse": []}
    for warehouse, words in calls.items():
        assert load_settings(parser().parse_args(["show", *words])).storage.warehouse == warehouse


def test_another_plan_than_the_approved_is_refused(commands: Commands) -> None:
    """A scheduler gives the approved manifest: another plan of the same run is not executed."""
    commands.run("approve")
    ended = commands.wave("execute", "--manifest", "0" * 64)
    assert (ended.code, "another plan was approved" in ended.err) == (3, True)


def test_bootstrap_servers_come_from_the_file(commands: Commands, tmp_path: Path) -> None:
    """If no option gives them; without both the message names both ways."""
    ended = commands.wave("status", servers=())
    assert ended.code == 2
    assert ended.err == (
        "error: cluster 'c' has no bootstrap servers: give --bootstrap-server HOST:PORT, or set bootstrap_servers of "
        "[[clusters]] 'c' in --config\n"
    )
    properties = tmp_path / "client.properties"
    properties.write_text("sasl.password=hunter2\nno.such.option=1\n")
    file = tmp_path / "c.toml"
    file.write_text('[[clusters]]\nid = "c"\nbootstrap_servers = "127.0.0.1:1"\nclient_config = "client.properties"\n')
    ended = commands.wave("status", "--config", str(file), servers=())
    assert (ended.code, "unknown option 'no.such.option' of the live cluster" in ended.err) == (2, True)
    assert "hunter2" not in ended.err
    properties.unlink()
    ended = commands.wave("status", "--config", str(file), servers=())
    assert (ended.code, f"cannot read client_config {properties}: No such file" in ended.err) == (2, True)


def test_servers_that_are_no_addresses_are_refused(commands: Commands) -> None:
    """They are a usage error, before anything connects."""
    ended = commands.wave("status", servers=("--bootstrap-server", "127.0.0.1:1,HOST:PORT"))
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith("error: --bootstrap-server = 'HOST:PORT' is not usable: write HOST:PORT, with a port")


@pytest.mark.parametrize("number", ["-1", "x", "1.5"])
def test_a_wave_is_a_number(commands: Commands, number: str) -> None:
    """Any other value is a usage error."""
    with pytest.raises(SystemExit) as ended:
        commands.run("wave", "status", f"--wave={number}")
    assert ended.value.code == 2


@pytest.mark.parametrize("step", ["preflight", "wait"])
@pytest.mark.parametrize("number", ["0", "3", "9"])
def test_a_wave_that_the_plan_does_not_have_is_wrong_use(commands: Commands, step: str, number: str) -> None:
    """The message names the existing waves, also for steps that read earlier waves."""
    ended = commands.run("wave", step, "--wave", number, "--bootstrap-server", "127.0.0.1:1")
    assert ended == Ended(2, "", f"error: the plan has no wave {number}: it has waves 1 to 2\n")


def test_what_a_run_has_planned_is_shown_from_its_tables(commands: Commands) -> None:
    """Verdict, manifest, approval and expiry of each cluster; of one cluster the summary, or why it has no plan."""
    sha256 = load_plan(commands.warehouse).manifest_sha256
    summary = {"kind": "summary", "wave": 0, "content": "all is well\n", "sha256": ""}
    commands.warehouse.append("documents", [{"cluster_id": CLUSTER, "run_id": RUN, "path": "c/summary.txt", **summary}])
    shown = f"c: planned\n  manifest {sha256}\n"
    assert commands.run("show") == Ended(0, f"{shown}  not approved\n{VALID}all is well\n\n", "")
    commands.run("approve", "--by", "ann")
    assert commands.run("show").out.startswith(f"{shown}  approved by ann\n{VALID}")
    add_verdict(commands.warehouse, None, verdict="refused", attempt=2, exit_code=3)
    refused = "error: run 'r' has no plan for cluster 'c', its verdict is refused\n"
    assert commands.run("show") == Ended(3, "c: refused\n", refused)
    assert commands.run("show", "--json") == Ended(3, "", refused)
    add_verdict(commands.warehouse, None, verdict="unreadable", attempt=3, exit_code=1, reason="there is no folder x")
    why = "error: run 'r' has no plan for cluster 'c', its verdict is unreadable"
    assert commands.run("show") == Ended(3, "c: unreadable: there is no folder x\n", f"{why}\n")
    assert commands.run("show", "--json") == Ended(3, "", f"{why}: there is no folder x\n")


def test_a_scheduler_gets_one_line_of_json(commands: Commands) -> None:
    """Verdict, manifest, approvals, validity, decision, summary and number of waves; 0 if there is nothing to do."""
    sha256 = load_plan(commands.warehouse).manifest_sha256
    commands.run("approve", "--by", "ann")
    whole = {"run_id": RUN, "cluster_id": CLUSTER, "reason": None, "summary": "", "decision": DECISION_CONTENT}
    planned = {**whole, "verdict": "planned", "manifest_sha256": sha256, "waves": 2, "approved_by": ["ann"]}
    validity = {"valid_until": UNTIL.isoformat(), "valid_hours": VALID_HOURS}
    assert json.loads(commands.run("show", "--json").out) == {**planned, **validity}
    add_verdict(commands.warehouse, None, verdict="nothing_to_do", attempt=2)
    idle: dict[str, object] = {
        **whole,
        "verdict": "nothing_to_do",
        "manifest_sha256": None,
        "waves": 0,
        "approved_by": [],
        "valid_until": None,
        "valid_hours": None,
    }
    assert json.loads(commands.run("show", "--json").out) == idle
    assert main(["show", "--run-id", RUN, "--warehouse", commands.warehouse.path, "--json"]) == 2


def test_each_cluster_of_a_run_is_shown_with_its_own_approvals(commands: Commands) -> None:
    """Only approvals of this plan, each person once; and the stage that refused a cluster."""
    sha256 = load_plan(commands.warehouse).manifest_sha256
    for by in ("bob", "ann", "bob"):
        commands.run("approve", "--by", by)
    (row, *_) = commands.warehouse.rows("approvals")
    others = {"cluster_id": "d", "approved_by": "eve"}, {"manifest_sha256": "0" * 64, "approved_by": "eve"}
    commands.warehouse.append("approvals", [{**row, **other} for other in others])
    (row,) = commands.warehouse.rows("verdicts")
    refused = {"verdict": "refused", "stage": "validate", "reason": "x", "exit_code": 3, "manifest_sha256": None}
    commands.warehouse.append("verdicts", [{**row, "cluster_id": "a", **refused}])
    assert main(["show", "--run-id", RUN, "--warehouse", commands.warehouse.path]) == 0
    lines = commands.printed().splitlines()
    assert lines[:3] == ["a: refused in validate: x", "c: planned", f"  manifest {sha256}"]
    approved = lines.pop(3).removeprefix("  approved by ")
    assert (sorted(approved.split(", ")), lines[3:]) == (["ann", "bob"], [VALID.rstrip()])
    assert json.loads(commands.run("show", "--json").out)["approved_by"] == ["ann", "bob"]


def test_a_plan_that_a_run_would_refuse_is_not_approved(commands: Commands) -> None:
    """Because another plan was executed since its snapshot: the message names the oldest source with the state."""
    plan = load_plan(commands.warehouse)
    other = replace(plan, run_id="other")
    for event in (journal.HELD, journal.EXECUTED, journal.RELEASED):
        rows.record(commands.warehouse, other, 1, event)
    key = {"cluster_id": CLUSTER, "run_id": RUN, "records": 1, "kafka_cluster_id": None}
    times = {"new.txt": (2, True), "old.txt": (1, True), "capacity.csv": (0, False)}
    sources = [
        {**key, "source": name, "captured_at": datetime(2026, 11, 1, hour, tzinfo=UTC), "has_state": has_state}
        for name, (hour, has_state) in times.items()
    ]
    commands.warehouse.append("sources", sources)
    ended = commands.run("approve")
    assert (ended.code, commands.warehouse.rows("approvals")) == (3, [])
    assert "wave 1 of run 'other' was executed after this plan's snapshot of " in ended.err
    assert ended.err.endswith("plan again. Its oldest source is old.txt\n")
