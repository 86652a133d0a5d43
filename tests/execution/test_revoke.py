"""The revocation of an approval: who may not execute any more, and what the tables keep."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from execution import journal
from execution.in_charge import in_charge
from execution.journal import Journal
from execution.planned import in_words
from stored.approvals import in_force, revocation
from stored.verdicts import Refused
from tests.execution import rows
from tests.execution.test_cli import Commands, Ended
from tests.execution.warehouse import CLUSTER, RUN, load_plan, usual_plan, write_plan

NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)
KEY = {"cluster_id": CLUSTER, "run_id": RUN, "manifest_sha256": "0"}


@pytest.fixture
def commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Commands:
    """Commands on a warehouse with a plan that nobody has approved."""
    return Commands(write_plan(tmp_path / "w", usual_plan()), capsys)


def row(by: str, minute: int, *, revokes: bool = False) -> dict[str, Any]:
    """A row of ``approvals``."""
    time = NOON + timedelta(minutes=minute)
    return {**KEY, "approved_by": by, "approved_at": time, "approved_from": "here", "is_revocation": revokes}


@pytest.mark.parametrize(
    ("rows", "names", "revoked_by"),
    [
        ([], [], None),
        ([row("ann", 0), row("bob", 1)], ["ann", "bob"], None),
        ([row("ann", 0), row("bob", 1), row("eve", 2, revokes=True)], [], "eve"),
        ([row("ann", 0), row("eve", 1, revokes=True), row("bob", 2)], ["bob"], None),
        ([row("ann", 0), row("eve", 1, revokes=True), row("ann", 2), row("dan", 3, revokes=True)], [], "dan"),
        ([row("ann", 0), row("eve", 0, revokes=True)], [], "eve"),
    ],
    ids=["none", "two", "revoked", "approved again", "revoked again", "at the same time"],
)
def test_the_newest_row_decides(rows: list[dict[str, Any]], names: list[str], revoked_by: str | None) -> None:
    """In whatever order the table has its rows; approvals before a revocation never count again."""
    for in_any_order in permutations(rows):
        assert [approval["approved_by"] for approval in in_force(in_any_order)] == names
        revoked = revocation(in_any_order)
        assert (revoked and revoked["approved_by"]) == revoked_by


@pytest.mark.parametrize("other", [{"cluster_id": "d"}, {"run_id": "s"}, {"manifest_sha256": "1"}], ids=str)
def test_a_revocation_is_of_one_plan(other: dict[str, str]) -> None:
    """Approvals of another cluster, run or manifest stay in force."""
    rows = [row("ann", 0), row("bob", 0) | other, row("eve", 1, revokes=True)]
    assert [approval["approved_by"] for approval in in_force(rows)] == ["bob"]


def test_a_revocation_is_printed_and_stored(commands: Commands) -> None:
    """The output names the plan and its approvers. Show, its JSON and the list of runs have no approver any more."""
    sha256 = load_plan(commands.warehouse).manifest_sha256
    for by in ("bob", "ann", "bob"):
        commands.run("approve", "--by", by)
    assert commands.run("revoke", "--by", "eve", "--manifest", sha256[:8]) == Ended(
        0,
        f"Revoked by eve: run r, cluster c, manifest {sha256[:8]}\n"
        "ann and bob had approved it. Its steps refuse now, except wave off, wave status and rollback. A living run "
        "ends after its current wave.\n",
        "",
    )
    newest = max(commands.warehouse.rows("approvals"), key=lambda stored: stored["approved_at"])
    assert (newest["approved_by"], newest["manifest_sha256"], newest["is_revocation"]) == ("eve", sha256, True)
    assert f"  not approved: revoked by eve at {in_words(newest['approved_at'])}\n" in commands.run("show").out
    assert json.loads(commands.run("show", "--json").out)["approved_by"] == []
    commands.run("approve", "--by", "dan")
    assert "  approved by dan\n" in commands.run("show").out
    assert json.loads(commands.run("show", "--json").out)["approved_by"] == ["dan"]


def test_without_a_name_this_user_revokes(commands: Commands) -> None:
    """The default is the current user."""
    commands.run("approve")
    assert commands.run("revoke").out.startswith(f"Revoked by {journal.user_name()}: run r, cluster c, manifest ")


def test_only_an_approval_in_force_is_revoked(commands: Commands) -> None:
    """A plan without approval, a second revocation and another manifest are refused, and nothing is stored."""
    nothing = "error: this plan is not approved: there is nothing to revoke\n"
    assert commands.run("revoke") == Ended(3, "", nothing)
    commands.run("approve", "--by", "ann")
    ended = commands.run("revoke", "--manifest", "0" * 8)
    assert (ended.code, "not 00000000: nothing is revoked" in ended.err) == (3, True)
    commands.run("revoke", "--by", "bob")
    ended = commands.run("revoke", "--by", "eve")
    assert (ended.code, ended.out) == (3, "")
    assert ended.err.startswith("error: bob revoked the approval of this plan at ")
    assert ended.err.endswith(" UTC: there is nothing to revoke\n")
    assert len(commands.warehouse.rows("approvals")) == 2


@pytest.mark.parametrize("event", [journal.HELD, journal.EXECUTED, journal.CANCELLED])
def test_a_wave_that_holds_the_cluster_is_named(commands: Commands, event: str) -> None:
    """The approval is revoked anyway; the output has the command that ends the wave."""
    commands.run("approve")
    plan = load_plan(commands.warehouse)
    rows.record(commands.warehouse, plan, 2, event)
    [held] = commands.warehouse.rows("executions")
    assert commands.run("revoke").out.splitlines()[2:] == [
        f"Wave 2 still holds the cluster ({held['holder']}; {event} at {in_words(held['happened_at'])}): copies that "
        "run go on. To end the wave: ./ballast wave off --run-id r --cluster c --wave 2 (add --on-failure cancel to "
        "stop its copies)"
    ]
    with pytest.raises(Refused, match="revoked the approval"):
        load_plan(commands.warehouse).check_approved()


@pytest.mark.parametrize("where", ["this host", "another host"])
def test_a_wave_that_a_run_executes_is_cancelled(commands: Commands, where: str) -> None:
    """The output names the command for it: ``wave off`` ends no wave that a process executes."""
    commands.run("approve")
    plan = load_plan(commands.warehouse)
    rows.record(commands.warehouse, plan, 1, journal.EXECUTED)
    if where == "this host":
        with in_charge(Journal(commands.warehouse, plan.cluster_id), plan, take_over=False):
            out = commands.run("revoke").out
    else:
        rows.record_of_run(commands.warehouse, plan, journal.RUNNING, "another")
        out = commands.run("revoke").out
    assert out.splitlines()[1].endswith(" A living run ends after its current wave.")
    command = "./ballast cancel --cluster c (it stops the copies; the run that executes the wave ends)"
    assert out.splitlines()[2].endswith(f": copies that run go on. To end the wave: {command}")


@pytest.mark.parametrize("case", ["released", "of another run"])
def test_a_wave_that_does_not_hold_for_this_plan_is_not_named(commands: Commands, case: str) -> None:
    """One that was released, and one of another run."""
    commands.run("approve")
    plan = load_plan(commands.warehouse)
    plan = plan if case == "released" else replace(plan, run_id="next")
    for event in (journal.HELD, journal.RELEASED)[: 2 if case == "released" else 1]:
        rows.record(commands.warehouse, plan, 1, event)
    assert len(commands.run("revoke").out.splitlines()) == 2


def test_a_slow_clock_changes_no_order(commands: Commands) -> None:
    """A new row is newer than the plan's earlier rows, even if another machine's clock wrote a later time."""
    ahead = datetime.now(tz=UTC) + timedelta(hours=1)
    sha256 = load_plan(commands.warehouse).manifest_sha256
    commands.warehouse.append("approvals", [row("ann", 0) | {"manifest_sha256": sha256, "approved_at": ahead}])
    commands.run("revoke", "--by", "bob")
    assert load_plan(commands.warehouse).approvals == ()
    commands.run("approve", "--by", "dan")
    assert [approval["approved_by"] for approval in load_plan(commands.warehouse).approvals] == ["dan"]
    microseconds = [(each["approved_at"] - ahead).microseconds for each in commands.warehouse.rows("approvals")]
    assert sorted(microseconds) == [0, 1, 2]


def test_steps_that_end_a_wave_accept_a_revoked_approval(commands: Commands) -> None:
    """But not a plan that was never approved."""
    with pytest.raises(Refused, match="this plan is not approved"):
        load_plan(commands.warehouse).check_approved(even_if_revoked=True)
    commands.run("approve")
    commands.run("revoke")
    load_plan(commands.warehouse).check_approved(even_if_revoked=True)
