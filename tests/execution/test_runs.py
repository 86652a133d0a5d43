"""The list of runs that ./ballast show prints without a run id."""

import json
import os
import re
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from deltalake import DeltaTable

from execution import journal
from execution.cli import main
from stored.tables import Warehouse
from tests.execution.warehouse import add_waves

NOW = datetime(2026, 11, 1, 12, tzinfo=UTC)


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    """An empty warehouse."""
    return Warehouse(str(tmp_path))


def end(
    warehouse: Warehouse,
    run_id: str,
    *,
    attempt: int = 1,
    moved_bytes: int | None = None,
    until: datetime | None = None,
    **verdicts: str,
) -> None:
    """Store the verdicts of an attempt by cluster, each call with a new file time."""
    time.sleep(0.01)  # file times are in milliseconds
    rows = [
        {
            "cluster_id": cluster,
            "run_id": run_id,
            "attempt": attempt,
            "verdict": verdict,
            "stage": None,
            "exit_code": 0,
            "reason": None,
            "manifest_sha256": f"{run_id} {attempt}" if verdict == "planned" else None,
            "moved_bytes": moved_bytes,
            "valid_until": until,
        }
        for cluster, verdict in verdicts.items()
    ]
    warehouse.append("verdicts", rows)


def approve(
    warehouse: Warehouse,
    run_id: str,
    cluster: str,
    by: str,
    *,
    attempt: int = 1,
    at: datetime = NOW,
    is_revocation: bool = False,
) -> None:
    """Store an approval of the plan that an attempt made, or its revocation."""
    key = {"cluster_id": cluster, "run_id": run_id, "manifest_sha256": f"{run_id} {attempt}"}
    row = {"approved_by": by, "approved_at": at, "approved_from": "here", "is_revocation": is_revocation}
    warehouse.append("approvals", [key | row])


def revoke(warehouse: Warehouse, run_id: str, cluster: str, by: str, *, at: datetime = NOW) -> None:
    """Store that the approval of the first attempt's plan is revoked."""
    approve(warehouse, run_id, cluster, by, at=at, is_revocation=True)


def execute(warehouse: Warehouse, run_id: str, cluster: str, wave: int, events: Sequence[str]) -> None:
    """Store the events of a wave."""
    first = len(warehouse.rows("executions", cluster_id=cluster)) + 1
    key = {"cluster_id": cluster, "run_id": run_id, "wave": wave, "holder": "me", "happened_at": NOW}
    warehouse.append("executions", [{**key, "number": n, "event": event} for n, event in enumerate(events, first)])


def listed(warehouse: Warehouse, capsys: pytest.CaptureFixture[str], *words: str) -> list[list[str]]:
    """The cells of the list, without header, times of verdicts, bytes and validity."""
    assert main(["show", "--warehouse", warehouse.path, *words]) == 0
    header, *lines = capsys.readouterr().out.splitlines()
    names = ("RUN", "VERDICT AT", "CLUSTERS", "VERDICT  ", "COPIES", "VALID", "APPROVED", "WAVES")
    starts = [header.index(name) for name in names]
    cells = [[line[a:b].strip() for a, b in zip(starts, [*starts[1:], None], strict=True)] for line in lines]
    return [[row[0], *row[2:4], *row[6:]] for row in cells]


def test_runs_are_listed_newest_first(warehouse: Warehouse, capsys: pytest.CaptureFixture[str]) -> None:
    """By the time of the last verdict, not by id: a repeated run is as new as its last attempt."""
    end(warehouse, "b", c="planned")
    end(warehouse, "c", c="started")
    end(warehouse, "a", c="refused")
    assert [row[0] for row in listed(warehouse, capsys)] == ["a", "c", "b"]
    end(warehouse, "b", attempt=2, c="nothing_to_do")
    assert listed(warehouse, capsys) == [
        ["b", "c", "nothing_to_do", "-", "-"],
        ["a", "c", "refused", "-", "-"],
        ["c", "c", "started", "-", "-"],
    ]


def test_the_time_is_that_of_the_stored_verdict(warehouse: Warehouse, capsys: pytest.CaptureFixture[str]) -> None:
    """In UTC and in minutes; run ids of any length have a time."""
    before = datetime.now(tz=UTC)
    end(warehouse, "x" * 60 + "1", c="planned")
    end(warehouse, "x" * 60, c="planned")
    assert main(["show", "--warehouse", warehouse.path, "--json"]) == 0
    runs = json.loads(capsys.readouterr().out)
    assert [run["run_id"][60:] for run in runs] == ["", "1"]
    times = [datetime.fromisoformat(run["verdict_at"]) for run in reversed(runs)]
    assert before.replace(microsecond=0) <= times[0] < times[1] <= datetime.now(tz=UTC)
    assert main(["show", "--warehouse", warehouse.path]) == 0
    assert f" {times[1]:%Y-%m-%d %H:%M} " in capsys.readouterr().out.splitlines()[1]


def test_a_merged_file_has_no_time(warehouse: Warehouse, capsys: pytest.CaptureFixture[str]) -> None:
    """After an OPTIMIZE Delta's log has only the time of the merge: these runs come last, without a time."""
    end(warehouse, "b", c="planned")
    end(warehouse, "a", c="planned")
    DeltaTable(f"{warehouse.path}/verdicts").optimize.compact()
    end(warehouse, "0", c="planned")
    assert main(["show", "--warehouse", warehouse.path]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()[1:]]
    assert [row[0] for row in rows] == ["0", "b", "a"]
    assert [row[1] == "-" for row in rows] == [False, True, True]


def test_only_approvals_of_the_last_plan_count(warehouse: Warehouse, capsys: pytest.CaptureFixture[str]) -> None:
    """Approvals of an earlier attempt's plan do not count; if only some plans are approved, their number is shown."""
    end(warehouse, "r", c="planned")
    add_waves(warehouse, "r", "c", 1)
    approve(warehouse, "r", "c", "ann")
    assert listed(warehouse, capsys) == [["r", "c", "planned", "ann", "0 of 1"]]
    end(warehouse, "r", attempt=2, c="planned", d="planned")
    assert listed(warehouse, capsys) == [["r", "c, d", "planned", "-", "0 of 1"]]
    approve(warehouse, "r", "d", "bob", attempt=2)
    approve(warehouse, "r", "d", "ann", attempt=2)
    assert listed(warehouse, capsys) == [["r", "c, d", "planned", "ann, bob (1 of 2)", "0 of 1"]]


def test_a_revoked_approval_does_not_count(warehouse: Warehouse, capsys: pytest.CaptureFixture[str]) -> None:
    """For its own plan only, and until the plan is approved again; then earlier approvals still do not count."""
    end(warehouse, "r", c="planned", d="planned")
    approve(warehouse, "r", "c", "ann")
    approve(warehouse, "r", "d", "bob")
    revoke(warehouse, "r", "c", "eve", at=NOW + timedelta(hours=1))
    assert listed(warehouse, capsys)[0][3] == "bob (1 of 2)"
    approve(warehouse, "r", "c", "dan", at=NOW + timedelta(hours=2))
    assert listed(warehouse, capsys)[0][3] == "bob, dan"


def test_a_fleet_is_one_line(warehouse: Warehouse, capsys: pytest.CaptureFixture[str]) -> None:
    """More than three clusters and different verdicts are counted; --cluster shows one cluster."""
    end(warehouse, "other", e="planned", f="planned", g="planned")
    end(warehouse, "fleet", a="planned", b="refused", c="planned", d="nothing_to_do")
    add_waves(warehouse, "fleet", "a", 2)
    add_waves(warehouse, "fleet", "c", 3)
    fleet, other = listed(warehouse, capsys)
    assert other == ["other", "e, f, g", "planned", "-", "0 of 0"]
    assert fleet == ["fleet", "4 clusters", "2 planned, 1 refused, 1 nothing_to_do", "-", "0 of 5"]
    assert listed(warehouse, capsys, "--all", "--cluster", "c") == [["fleet", "c", "planned", "-", "0 of 3"]]


DONE = (journal.HELD, journal.THROTTLED, journal.EXECUTED, journal.RELEASED)


@pytest.mark.parametrize(
    ("events", "executed"),
    [
        (DONE, 1),
        (DONE[:3], 0),
        ((journal.HELD, journal.THROTTLED, journal.RELEASED), 0),
        ((*DONE[:3], journal.CANCELLED, journal.RELEASED), 0),
        ((*DONE, journal.HELD, journal.RELEASED), 1),
        ((*DONE[:3], journal.CANCELLED, journal.RELEASED, *DONE), 1),
    ],
    ids=["done", "under way", "never started", "cancelled", "released twice", "cancelled and done again"],
)
def test_a_wave_is_executed_when_it_is_released(
    warehouse: Warehouse, capsys: pytest.CaptureFixture[str], events: Sequence[str], executed: int
) -> None:
    """A wave counts if it was started and released. Running, never started and cancelled waves do not count."""
    end(warehouse, "r", c="planned", d="planned")
    end(warehouse, "s", c="planned")
    add_waves(warehouse, "r", "c", 3)
    execute(warehouse, "s", "c", 1, DONE)
    execute(warehouse, "r", "c", 2, events)
    assert listed(warehouse, capsys, "--all", "--cluster", "c")[1][-1] == f"{executed} of 3"


def test_a_run_says_what_it_copies_and_until_when(warehouse: Warehouse, capsys: pytest.CaptureFixture[str]) -> None:
    """All plans of a run together, and the first that expires; "-" for plans whose waves were deleted."""
    end(warehouse, "old", c="planned")
    later = NOW.replace(hour=13)
    end(warehouse, "new", until=NOW, c="planned")
    end(warehouse, "new", until=later, d="planned")
    add_waves(warehouse, "new", "c", 2, moved_bytes=10**12)
    add_waves(warehouse, "new", "d", 1, moved_bytes=5 * 10**11)
    end(warehouse, "idle", moved_bytes=0, until=NOW, c="nothing_to_do")
    assert main(["show", "--warehouse", warehouse.path]) == 0
    header, *lines = capsys.readouterr().out.splitlines()
    a, b = header.index("COPIES"), header.index("APPROVED")
    assert [line[a:b].split() for line in lines] == [["0", "B", "-"], ["2.50", "TB", "2026-11-01", "12:00"], ["-", "-"]]
    assert main(["show", "--warehouse", warehouse.path, "--json"]) == 0
    _, new, _ = json.loads(capsys.readouterr().out)
    assert [(c["moved_bytes"], c["valid_until"]) for c in new["clusters"]] == [
        (2 * 10**12, NOW.isoformat()),
        (5 * 10**11, later.isoformat()),
    ]


def test_each_cell_is_below_its_header(warehouse: Warehouse, capsys: pytest.CaptureFixture[str]) -> None:
    """Of a run with other values in each column: the first plan that expires, and all bytes, waves and approvals."""
    end(warehouse, "one", until=NOW + timedelta(days=2), c="planned")
    end(warehouse, "one", until=NOW + timedelta(days=1), d="planned")
    add_waves(warehouse, "one", "c", 4, moved_bytes=25 * 10**7)
    add_waves(warehouse, "one", "d", 1, moved_bytes=2 * 10**9)
    approve(warehouse, "one", "d", "eve")
    execute(warehouse, "one", "c", 2, DONE)
    execute(warehouse, "one", "c", 3, DONE)
    assert main(["show", "--warehouse", warehouse.path]) == 0
    header, line = (re.split("  +", text) for text in capsys.readouterr().out.splitlines())
    row = dict(zip(header, line, strict=True))
    assert abs(datetime.fromisoformat(f"{row.pop('VERDICT AT (UTC)')}Z") - datetime.now(tz=UTC)) < timedelta(hours=1)
    assert row == {
        "RUN": "one",
        "CLUSTERS": "c, d",
        "VERDICT": "planned",
        "COPIES": "3.00 GB",
        "VALID UNTIL (UTC)": "2026-11-02 12:00",
        "APPROVED BY": "eve (1 of 2)",
        "WAVES EXECUTED": "2 of 5",
    }


def test_a_run_that_only_moves_inside_brokers_copies_something(
    warehouse: Warehouse, capsys: pytest.CaptureFixture[str]
) -> None:
    """Copies inside brokers are named next to those between brokers."""
    end(warehouse, "inside", moved_bytes=0, c="planned")
    add_waves(warehouse, "inside", "c", 1, moved_bytes=3 * 10**9, inside_brokers=True)
    end(warehouse, "both", moved_bytes=10**9, c="planned")
    end(warehouse, "both", d="refused")
    add_waves(warehouse, "both", "c", 1, moved_bytes=10**9, inside_brokers=False)
    add_waves(warehouse, "both", "d", 1, moved_bytes=5 * 10**9, inside_brokers=True)
    add_waves(warehouse, "both", "c", 1, moved_bytes=2 * 10**9, inside_brokers=True)
    assert main(["show", "--warehouse", warehouse.path]) == 0
    _, both, inside = capsys.readouterr().out.splitlines()
    assert "  1.00 GB and 2.00 GB inside brokers  " in both
    assert "  3.00 GB inside brokers  " in inside


def test_a_plan_that_a_later_attempt_deleted_is_none(warehouse: Warehouse, capsys: pytest.CaptureFixture[str]) -> None:
    """It had other clusters: the list shows neither bytes nor validity of the plan; a refusal stays a refusal."""
    end(warehouse, "r", moved_bytes=10**9, until=NOW, c="planned")
    end(warehouse, "r", d="refused")
    end(warehouse, "r", attempt=2, e="planned")
    assert main(["show", "--warehouse", warehouse.path]) == 0
    line = capsys.readouterr().out.splitlines()[1]
    assert "1 replaced, 1 refused, 1 planned" in line
    assert "GB" not in line
    assert main(["show", "--warehouse", warehouse.path, "--run-id", "r", "--cluster", "c"]) == 3
    assert "c: replaced: a later attempt at this run" in capsys.readouterr().out


def test_a_cluster_without_a_run_is_its_last_run(warehouse: Warehouse, capsys: pytest.CaptureFixture[str]) -> None:
    """Also if that one has no plan, with its name first; --all lists all runs of the cluster."""
    end(warehouse, "old", c="planned")
    end(warehouse, "z", d="planned")
    end(warehouse, "new", c="refused")
    words = ["show", "--warehouse", warehouse.path, "--cluster", "c"]
    assert main(words) == 3
    assert capsys.readouterr().out.splitlines()[:2] == ["run new", "c: refused"]
    assert [row[0] for row in listed(warehouse, capsys, "--all", "--cluster", "c")] == ["new", "old"]
    assert main([*words, "--all", "--run-id", "new"]) == 2
    assert "--all lists runs, --run-id shows one" in capsys.readouterr().err


def test_a_program_gets_the_list_on_one_line(warehouse: Warehouse, capsys: pytest.CaptureFixture[str]) -> None:
    """--json without a run id: every run with each of its clusters, newest first."""
    end(warehouse, "old", c="refused")
    end(warehouse, "new", c="planned", d="refused")
    add_waves(warehouse, "new", "c", 2)
    approve(warehouse, "new", "c", "ann")
    execute(warehouse, "new", "c", 1, DONE)
    assert main(["show", "--warehouse", warehouse.path, "--json"]) == 0
    [line] = capsys.readouterr().out.splitlines()
    runs = json.loads(line)
    unknown = {"moved_bytes": None, "inside_bytes": 0, "valid_until": None}
    refused: dict[str, object] = {"verdict": "refused", "approved_by": [], "waves": 0, "waves_executed": 0, **unknown}
    planned: dict[str, object] = {
        "cluster_id": "c",
        "verdict": "planned",
        "approved_by": ["ann"],
        "waves": 2,
        "waves_executed": 1,
    }
    planned |= unknown | {"moved_bytes": 0}
    assert [(run["run_id"], run["clusters"]) for run in runs] == [
        ("new", [planned, {"cluster_id": "d", **refused}]),
        ("old", [{"cluster_id": "c", **refused}]),
    ]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--run-id", "fisrt"], "{w} has no run 'fisrt' (did you mean 'first'?); ./ballast show lists the runs"),
        (["--run-id", ""], "{w} has no run ''; ./ballast show lists the runs"),
        (["--cluster", "ordres"], "{w} has no cluster 'ordres' (did you mean 'orders'?); ./ballast show lists "),
        (
            ["--run-id", "first", "--cluster", "order"],
            "run 'first' in {w} has no cluster 'order' (did you mean 'orders'?",
        ),
        (
            ["--run-id", "first", "--cluster", ""],
            "run 'first' in {w} has no cluster ''; ./ballast show --run-id first ",
        ),
    ],
)
def test_an_unknown_run_or_cluster_is_reported_with_the_closest_one(
    warehouse: Warehouse, capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    """The exit code is 2; show, approve, revoke and wave say the same."""
    end(warehouse, "first", orders="planned")
    end(warehouse, "second", orders="planned", payments="planned")
    error = f"error: {message.replace('{w}', warehouse.path)}"
    calls = [["show", *words]]
    if len(words) == 4:
        calls += [["approve", *words], ["revoke", *words], ["wave", "status", "--wave", "1", *words]]
    for call in calls:
        assert main([*call, "--warehouse", warehouse.path]) == 2
        assert capsys.readouterr().err.replace(f" --warehouse {warehouse.path}", "").startswith(error)


@pytest.mark.parametrize("known", [(), ("20261125T010000", "20261124T010000Z")])
@pytest.mark.parametrize("words", [["show", "--json"], ["show"], ["approve"], ["wave", "preflight", "--wave", "1"]])
def test_the_message_for_an_unknown_run_refers_to_the_jobs_log(
    warehouse: Warehouse, capsys: pytest.CaptureFixture[str], words: list[str], known: tuple[str, ...]
) -> None:
    """In the first night there is no table; later the most similar time is another night, which is not suggested."""
    for run_id in known:
        end(warehouse, run_id, orders="planned")
    assert main([*words, "--run-id", "20261126T010000", "--cluster", "orders", "--warehouse", warehouse.path]) == 2
    error = capsys.readouterr().err
    assert "A job that ends before its first stage stores no run: its log says why" in error
    assert "did you mean" not in error


def test_without_tables_the_remedy_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A folder without a warehouse is a usage error."""
    assert main(["show", "--warehouse", str(tmp_path / "nowhere")]) == 2
    assert "give the warehouse of the run with --warehouse" in capsys.readouterr().err
    assert os.listdir(tmp_path) == []
