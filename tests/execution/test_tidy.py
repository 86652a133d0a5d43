"""Old runs are removed from tables and output folder; what is needed stays, also after a kill."""

import fcntl
import json
import os
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError
from hypothesis import given, settings
from hypothesis import strategies as st

import schemas
from asking.cli import main as ask
from execution.cli import main
from execution.in_charge import is_alive, lock_file
from execution.journal import FIXED, Journal
from execution.planned import Plan
from execution.tidy import HISTORY, Limits, select, tidy
from optimizer import locks, places
from optimizer.errors import BallastError, StageError, UnderWay
from optimizer.settings import Storage
from schemas.runs import BEGIN
from schemas.verdicts import NOTHING_TO_DO, PLANNED
from stored import removal, tables
from stored.removal import clean
from stored.tables import Overtaken, Warehouse
from tests.execution.old_runs import NOW, OldRun, forge

LIMITS = Limits(keep_days=90, history_days=1000, now=NOW)
LISTED = ("runs", "verdicts", "approvals", "executions")  # what decides which runs go
PLANS = ("bronze_records", "plan", "documents")
SOME = (*LISTED, *PLANS, "waves")
REFUSED = "refused"
# Three newer plans of cluster c, so that age alone decides about the others.
NEWEST = [OldRun(run_id=f"z{number}", age=1) for number in range(3)]
OLDER = [OldRun(run_id="ancient", age=2000, approved=1999), OldRun(run_id="old", age=100), OldRun(run_id="new", age=89)]


def storage_of(warehouse: Warehouse) -> Storage:
    """The warehouse, with an output folder next to it."""
    return Storage(warehouse=warehouse.path, output=f"{warehouse.path}-out")


def run_tidy(warehouse: Warehouse, limits: Limits = LIMITS, *, dry_run: bool = False) -> list[str]:
    """Its report."""
    lines: list[str] = []
    tidy(storage_of(warehouse), limits, dry_run=dry_run, say=lines.append)
    return lines


def content(warehouse: Warehouse) -> Mapping[str, Any]:
    """Runs with rows in each table, stages of each run, and the output folders."""
    tables = [name for name in schemas.ALL if warehouse.version(name, creates=False) >= 0]
    rows = {name: sorted({*warehouse.table(name, columns=["run_id"])["run_id"].to_pylist()}) for name in tables}
    stages = sorted(tuple(row.values()) for row in warehouse.table("runs", columns=["run_id", "stage"]).to_pylist())
    output = Path(storage_of(warehouse).output)
    return {**rows, "stages": stages, "output": sorted(path.name for path in output.glob("*"))}


def with_output(warehouse: Warehouse, runs: Sequence[OldRun]) -> Warehouse:
    """The warehouse, with an output folder of each run."""
    for run in runs:
        folder = Path(storage_of(warehouse).output) / run.run_id / "c"
        folder.mkdir(parents=True)
        (folder / "report.html").write_text("x")
    return warehouse


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A warehouse with old and new runs in some tables, and output folders."""
    path = tmp_path_factory.mktemp("nights") / "w"
    with_output(forge(path, [*OLDER, *NEWEST], tables=SOME), [*OLDER, *NEWEST])
    return path


@pytest.fixture
def warehouse(kept: Path, tmp_path: Path) -> Warehouse:
    """A copy of it."""
    return copy_of(kept, tmp_path / "w")


def copy_of(source: Path, target: Path) -> Warehouse:
    """A copy of a warehouse and of its output folder."""
    shutil.copytree(source, target)
    shutil.copytree(f"{source}-out", f"{target}-out")
    return Warehouse(str(target))


CLUSTERS = st.dictionaries(
    st.sampled_from("cd"), st.sampled_from([PLANNED, PLANNED, NOTHING_TO_DO, REFUSED]), min_size=1
)
DAYS = st.none() | st.floats(0, 1200)
EVENTS = st.sampled_from([("held", "released"), ("held",), ("held", "released", "running"), ("rollback",)])


@st.composite
def old_runs(draw: st.DrawFn) -> list[OldRun]:
    """Some runs of one or two clusters."""
    return [
        OldRun(
            run_id=f"{draw(st.sampled_from('abc'))}{number}",
            age=draw(st.floats(0, 1200)),
            verdicts=draw(CLUSTERS),
            approved=draw(DAYS),
            executed=draw(DAYS),
            events=draw(EVENTS),
        )
        for number in range(draw(st.integers(1, 9)))
    ]


def open_at_the_end(runs: Sequence[OldRun]) -> set[str]:
    """Runs that hold a cluster, whose process has not ended, or whose rollback has not; events are in their order."""
    result = set()
    for cluster in "cd":
        executed = [run for run in runs if run.executed is not None and next(iter(run.verdicts)) == cluster]
        held = [run for run in executed if "held" in run.events]
        result |= {run.run_id for run in held[-1:] if run.events == ("held",)}
        result |= {run.run_id for run in [run for run in executed if "running" in run.events][-1:]}
        # A rollback begins only while no other run holds the cluster.
        for run in (run for run in executed if run.events == ("rollback",)):
            before = [other for other in held if executed.index(other) < executed.index(run)]
            if not (before and before[-1].events == ("held",)):
                result.add(run.run_id)
    return result


@settings(max_examples=25, deadline=None)
@given(runs=old_runs(), keep_days=st.integers(8, 400), more_days=st.integers(0, 900), keeps=st.booleans())
def test_a_run_stays_as_long_as_somebody_may_need_it(
    tmp_path_factory: pytest.TempPathFactory, runs: list[OldRun], keep_days: int, more_days: int, keeps: bool
) -> None:
    """Young runs, the last three plans of each cluster, named runs, and runs that are executed; all others go."""
    warehouse = forge(tmp_path_factory.mktemp("nights") / "w", runs, tables=LISTED)
    keep_runs = (runs[0].run_id,) if keeps else ()
    limits = Limits(keep_days=keep_days, history_days=keep_days + more_days, now=NOW, keep_runs=keep_runs)
    age = {run.run_id: min(days for days in (run.age, run.approved, run.executed) if days is not None) for run in runs}
    staying = {run for run, days in age.items() if days < keep_days} | set(limits.keep_runs) | open_at_the_end(runs)
    for cluster in "cd":
        planned = [run.run_id for run in runs if run.verdicts.get(cluster) == PLANNED]
        staying |= set(sorted(planned, key=lambda run: (-round(age[run] * 1e6), run))[-3:])
    selection = select(warehouse, limits)
    assert selection.staying.keys() == staying
    assert selection.going.keys() == age.keys() - staying
    assert selection.old == {run for run in age.keys() - staying if age[run] >= limits.history_days}


@pytest.mark.parametrize(
    ("events", "stays"),
    [
        (("held",), True),
        (("held", "executed", "released"), False),
        (("running", "held"), True),
        (("running", "held", "released"), True),
        (("running", "held", "released", "ended"), False),
        (("rollback",), True),
        (("rollback", "taken_back"), False),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, tuple) else "",
)
def test_a_run_that_is_executed_stays(tmp_path: Path, events: tuple[str, ...], stays: bool) -> None:
    """However old: until it has released its cluster, its process has ended, and all is taken back."""
    run = OldRun(run_id="x", age=1000, executed=1000, events=events)
    selection = select(forge(tmp_path / "w", [run, *NEWEST], tables=LISTED), LIMITS)
    assert (selection.staying.get("x") == "executed or taken back now") == stays
    assert ("x" in selection.going) != stays


def test_a_removed_run_keeps_its_history(warehouse: Warehouse) -> None:
    """Its other rows and its folder go; after three years the history goes, too. Other runs keep everything."""
    before = content(warehouse)
    lines = run_tidy(warehouse)
    after = content(warehouse)
    new = ["new", "z0", "z1", "z2"]
    for table in PLANS:
        assert after[table] == new
    assert after["verdicts"] == after["waves"] == ["new", "old", *new[1:]]
    assert after["approvals"] == []
    stages = [(run, stage) for run, stage in before["stages"] if run in new]
    assert after["stages"] == sorted([*stages, ("old", BEGIN)])
    assert after["output"] == new
    assert [line.partition(":")[0] for line in lines[:-1]] == ["run ancient", "run old"]
    assert ", with its history" in lines[0]
    assert "with its history" not in lines[1]
    assert lines[-1] == "2 runs removed; 4 stay (4 younger than 90 days); 0 unused files deleted"


def test_records_that_were_written_meanwhile_are_read(warehouse: Warehouse) -> None:
    """A selection uses the records of an earlier one only if the table is the same."""
    earlier = select(warehouse, LIMITS)
    known = replace(earlier, stages={**earlier.stages, "old": {"known"}})
    assert select(warehouse, LIMITS, known).stages["old"] == {"known"}
    [row] = warehouse.rows("runs", run_id="old", stage=BEGIN)
    warehouse.append("runs", [{**row, "stage": "solve"}])
    assert select(warehouse, LIMITS, earlier).stages["old"] == {"solve", *earlier.stages["old"]}


def test_a_tidy_that_finds_nothing_writes_no_version(warehouse: Warehouse) -> None:
    """The second tidy changes no table, and lists no run again."""
    run_tidy(warehouse)
    versions = {name: warehouse.version(name, creates=False) for name in SOME}
    assert run_tidy(warehouse)[0].startswith("0 runs removed; 4 stay ")
    assert {name: warehouse.version(name, creates=False) for name in SOME} == versions


def test_a_dry_run_reports_the_same_and_changes_nothing(warehouse: Warehouse) -> None:
    """The last line says what would be removed."""
    before = content(warehouse)
    *lines, last = run_tidy(warehouse, dry_run=True)
    assert last == "2 runs would be removed; 4 stay (4 younger than 90 days)"
    assert content(warehouse) == before
    assert run_tidy(warehouse)[:-1] == lines


class Killed(Exception):
    """Ends the command as a kill does."""


@pytest.fixture
def killed_after(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], list[str]]:
    """Lets the next changes pass, then raises ``Killed``; returns the list of changes."""
    done: list[str] = []
    limit = [10**9]

    def watch(owner: Any, name: str) -> None:
        original = getattr(owner, name)

        def changed(*args: Any, **options: Any) -> Any:
            result = original(*args, **options)
            done.append(name)
            if len(done) >= limit[0]:
                limit[0] = 10**9
                raise Killed
            return result

        monkeypatch.setattr(owner, name, changed)

    watch(DeltaTable, "delete")
    watch(DeltaTable, "create_write_transaction")
    watch(DeltaTable, "vacuum")
    watch(shutil, "rmtree")

    def after(changes: int) -> list[str]:
        done.clear()
        limit[0] = changes
        return done

    return after


def test_a_killed_tidy_is_finished_by_the_next(
    kept: Path, tmp_path: Path, killed_after: Callable[[int], list[str]]
) -> None:
    """Whatever was its last change. Until then no run has records without all its rows, or rows without ``begin``."""
    changes = killed_after(10**9)
    whole = copy_of(kept, tmp_path / "whole")
    run_tidy(whole)
    expected, commits = content(whole), changes.index("vacuum") + 1
    assert changes[:commits] == [
        *("delete", *["create_write_transaction"] * 3, "rmtree", "rmtree"),
        *(*["create_write_transaction"] * 4, "vacuum"),
    ]
    for number in range(1, commits + 1):
        warehouse = copy_of(kept, tmp_path / str(number))
        killed_after(number)
        with pytest.raises(Killed):
            run_tidy(warehouse)
        state = content(warehouse)
        recorded = {run for run, stage in state["stages"] if stage != BEGIN}
        begun = {run for run, stage in state["stages"] if stage == BEGIN}
        for table in PLANS:
            assert recorded <= set(state[table]) <= begun
        assert {*state["waves"], *state["approvals"], *state["verdicts"]} <= begun
        run_tidy(warehouse)
        assert content(warehouse) == expected, number


def test_half_a_run_is_removed_whatever_the_options_are_now(
    warehouse: Warehouse, killed_after: Callable[[int], list[str]]
) -> None:
    """After a kill the next tidy keeps runs for longer; records are gone, so nobody can use the other rows."""
    killed_after(1)
    with pytest.raises(Killed):
        run_tidy(warehouse)
    run_tidy(warehouse, replace(LIMITS, keep_days=3000, history_days=3000))
    after = content(warehouse)
    assert [after[table] for table in PLANS] == [["new", "z0", "z1", "z2"]] * len(PLANS)
    assert after["verdicts"] == ["ancient", "new", "old", "z0", "z1", "z2"]


def test_only_one_tidy_works_at_a_time(warehouse: Warehouse) -> None:
    """The second ends with an error and changes nothing."""
    before = content(warehouse)
    with locks.exclusive_now(lock_file(warehouse, "tidy")), pytest.raises(UnderWay, match="another tidy works on"):
        run_tidy(warehouse)
    assert content(warehouse) == before


def test_a_run_whose_job_runs_stays(warehouse: Warehouse) -> None:
    """With all rows and its folder; the others go."""
    lock = places.locks_of_run(storage_of(warehouse), "old")[-1]
    with locks.lock_run("old", [lock]):
        last = run_tidy(warehouse)[-1]
    assert "1 run removed; 4 stay " in last
    assert "; 1 run stays because somebody works on it; " in last
    after = content(warehouse)
    assert "old" in after["plan"]
    assert "old" in after["output"]
    assert not any(run == "ancient" for run, _ in after["stages"])


@pytest.mark.parametrize(
    ("table", "meanwhile"),
    [
        ("approvals", OldRun(run_id="old", age=100, approved=1)),
        ("executions", OldRun(run_id="old", age=100, executed=95, events=("held",))),
    ],
)
def test_a_run_that_is_used_before_it_is_locked_stays(tmp_path: Path, table: str, meanwhile: OldRun) -> None:
    """It was listed as old, then a person approved it, or a process executes it. The other run goes."""
    warehouse = forge(tmp_path / "w", [OldRun(run_id="older", age=200), OldRun(run_id="old", age=100), *NEWEST])
    lines: list[str] = []

    def say(line: str) -> None:
        lines.append(line)
        if line.startswith("run old:"):
            forge(tmp_path / "w", [meanwhile], tables=[table])

    tidy(storage_of(warehouse), LIMITS, dry_run=False, say=say)
    assert "; 1 run stays because somebody works on it; " in lines[-1]
    after = content(warehouse)
    assert after["plan"] == ["old", "z0", "z1", "z2"]
    assert len([run for run, _ in after["stages"] if run == "old"]) == 3


@pytest.mark.parametrize("exists", [True, False])
def test_of_a_link_only_the_link_goes(warehouse: Warehouse, tmp_path: Path, exists: bool) -> None:
    """What it points to stays."""
    link, target = Path(storage_of(warehouse).output) / "old", tmp_path / "elsewhere"
    shutil.move(link, target)
    link.symlink_to(target if exists else tmp_path / "missing")
    run_tidy(warehouse)
    assert not link.is_symlink()
    assert (target / "c" / "report.html").is_file()
    assert "old" not in content(warehouse)["plan"]


def test_a_folder_that_cannot_be_deleted_stops_nothing_else(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tidy ends with an error that names it. The history stays, so that the next tidy finds the folder."""
    whole, rmtree = copy_of(Path(warehouse.path), Path(f"{warehouse.path}2")), shutil.rmtree
    run_tidy(whole)

    def refuses(folder: Path) -> None:
        if folder.name == "ancient":
            raise PermissionError(13, "Permission denied", "report.html")
        rmtree(folder)

    monkeypatch.setattr(shutil, "rmtree", refuses)
    lines: list[str] = []
    folder = Path(storage_of(warehouse).output) / "ancient"
    with pytest.raises(BallastError, match=rf"can't be deleted:\n- {folder}: Permission denied$") as error:
        tidy(storage_of(warehouse), LIMITS, dry_run=False, say=lines.append)
    assert error.value.exit_code == 1
    assert lines[-1].startswith("2 runs removed; ")
    after = content(warehouse)
    assert after["plan"] == ["new", "z0", "z1", "z2"]
    assert after["output"] == ["ancient", *after["plan"]]
    assert "ancient" in after["verdicts"]
    monkeypatch.undo()
    run_tidy(warehouse)
    assert content(warehouse) == content(whole)


def test_the_lock_of_a_cluster_with_the_name_of_a_run_stays(tmp_path: Path) -> None:
    """A process that waits for it during tidy is then in charge, and others see that."""
    runs = [OldRun(run_id="c", age=200), OldRun(run_id="old", age=100), *NEWEST]
    warehouse = forge(tmp_path / "w", runs, tables=SOME)
    with lock_file(warehouse, "run-c").open("a+") as waiting:
        run_tidy(warehouse)
        fcntl.flock(waiting, fcntl.LOCK_EX)
        assert is_alive(Journal(warehouse, "c"))
    assert content(warehouse)["plan"] == ["z0", "z1", "z2"]
    assert not lock_file(warehouse, "run-old").exists()


def test_files_of_several_runs_are_rewritten(warehouse: Warehouse) -> None:
    """After a site's OPTIMIZE the rows of other runs stay, and ages are those of the newest run in a file."""
    DeltaTable(f"{warehouse.path}/plan").optimize.compact()
    run_tidy(warehouse)
    assert content(warehouse)["plan"] == ["new", "z0", "z1", "z2"]
    DeltaTable(f"{warehouse.path}/verdicts").optimize.compact()
    in_two_days = datetime.now(tz=UTC) + timedelta(days=2)
    selection = select(warehouse, Limits(keep_days=8, history_days=8, now=in_two_days))
    assert selection.going.keys() == {"old"}  # it was removed before the files were merged


def test_ids_of_many_characters_are_told_apart(tmp_path: Path) -> None:
    """Statistics may have only the first 32 characters of them."""
    night = "n" * 40
    runs = [OldRun(run_id=f"{night}{number}", age=1000 - number) for number in range(6)]
    warehouse = forge(tmp_path / "w", runs, tables=SOME, shortened=32)
    run_tidy(warehouse, replace(LIMITS, history_days=2000))
    assert content(warehouse)["plan"] == [f"{night}{number}" for number in range(3, 6)]


def test_unused_files_go_after_a_week(warehouse: Warehouse) -> None:
    """Files that were removed just now stay for their readers. A table that keeps files for longer keeps them."""
    run_tidy(warehouse)
    folder = Path(warehouse.path) / "plan"
    removed = len([*folder.glob("*.parquet")]) - len(DeltaTable(folder).file_uris())
    assert removed == 2
    unused = folder / "unused.parquet"
    old = time.time() - 30 * 86400
    for days, left in ((4000, True), (7, False)):
        retention = {"delta.deletedFileRetentionDuration": f"interval {days} days"}
        DeltaTable(folder).alter.set_table_properties({**retention, "delta.logRetentionDuration": "interval 4000 days"})
        unused.write_text("x")
        os.utime(unused, (old, old))
        assert clean(warehouse, "plan") == (0 if left else 1)
        assert unused.exists() == left
    assert len([*folder.glob("*.parquet")]) == removed + 4


def test_expired_entries_of_the_log_go(warehouse: Warehouse) -> None:
    """After a checkpoint; the table stays readable."""
    log = Path(warehouse.path) / "plan" / "_delta_log"
    rows = len(warehouse.rows("plan"))
    DeltaTable(log.parent).alter.set_table_properties({"delta.logRetentionDuration": "interval 1 days"})
    old = time.time() - 3 * 86400
    for file in log.iterdir():
        os.utime(file, (old, old))
    before = len([*log.glob("*.json")])
    of_spark = log / "._last_checkpoint.crc"  # of a pointer that is written again
    of_spark.write_bytes(b"crc")
    clean(warehouse, "plan")
    assert len([*log.glob("*.json")]) < before
    assert len(warehouse.rows("plan")) == rows
    assert not of_spark.exists()


def test_a_write_that_others_overtake_is_tried_again(warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on storage without locks; after some tries it is an error."""
    failures = iter([True, True, False])
    original = removal._clean

    def overtaken(delta: DeltaTable) -> list[str]:
        if next(failures, True):
            raise CommitFailedError("conflict")
        return original(delta)

    monkeypatch.setattr(removal, "_clean", overtaken)
    assert clean(warehouse, "plan") == 0
    with pytest.raises(Overtaken, match=r"other processes wrote table plan of .* at the same time"):
        clean(warehouse, "plan")


def test_an_append_that_a_deletion_overtakes_is_tried_again(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only without a version: with one the caller decides. After some tries it is an error."""
    failures = [True, True]

    def overtaken(*args: Any, **options: Any) -> None:
        if failures and failures.pop():
            raise CommitFailedError("a concurrent transaction deleted data this operation read")
        write_deltalake(*args, **options)

    monkeypatch.setattr(tables, "write_deltalake", overtaken)
    [row] = warehouse.rows("verdicts", run_id="old")
    warehouse.append("verdicts", [{**row, "run_id": "r"}])
    assert len(warehouse.rows("verdicts", run_id="r")) == 1
    for version, tries in ((None, 5), (warehouse.version("verdicts"), 1)):
        failures.extend([True] * 9)
        with pytest.raises(Overtaken, match="another process wrote table verdicts"):
            warehouse.append("verdicts", [row], after=version)
        assert len(failures) == 9 - tries
        failures.clear()


@pytest.mark.parametrize(
    ("words", "problems"),
    [
        (["--keep-days", "7"], ["--keep-days 7: give at least 8, "]),
        (
            ["--keep-days", "0", "--history-days", "0", "--output", "/no/such"],
            ["--keep-days 0: ", "--history-days 0: ", "--output /no/such: "],
        ),
        (
            ["--keep-days", "8", "--history-days", "30"],
            ["--history-days 30: give at least 31, because rules of approval add up the waves of 30 days"],
        ),
        (["--keep-days", "90", "--history-days", "89"], ["--history-days 89: give as many as --keep-days (90)"]),
        (["--keep-days", "90", "--keep-run", "olt"], ["--keep-run olt: no such run (did you mean 'old'?)"]),
    ],
)
def test_wrong_options_change_nothing(
    warehouse: Warehouse, capsys: pytest.CaptureFixture[str], words: list[str], problems: list[str]
) -> None:
    """Exit code 2, with all problems."""
    before = content(warehouse)
    assert main(["tidy", "--warehouse", warehouse.path, *words]) == 2
    printed = capsys.readouterr().err
    assert all(problem in printed for problem in problems)
    assert content(warehouse) == before


@pytest.mark.parametrize("days", ["x", "-1", "8.5", ""])
def test_days_are_whole_numbers(warehouse: Warehouse, days: str) -> None:
    """Anything else is a usage error."""
    with pytest.raises(SystemExit, match="2"):
        main(["tidy", "--warehouse", warehouse.path, f"--keep-days={days}"])


def test_a_missing_warehouse_is_not_created(tmp_path: Path) -> None:
    """Exit code 2."""
    assert main(["tidy", "--warehouse", str(tmp_path / "w"), "--keep-days", "90"]) == 2
    assert not (tmp_path / "w").exists()


def test_the_command_removes_what_is_old_by_the_clock(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A run of the future is young. The folder of outputs is that of the option."""
    runs = [OldRun(run_id=f"n{number}", age=age) for number, age in enumerate((5000, 4000, 3000, 2000, -9000))]
    warehouse = with_output(forge(tmp_path / "w", runs, tables=SOME), runs)
    words = ["--warehouse", warehouse.path, "--output", storage_of(warehouse).output, "--history-days", "20000"]
    assert main(["tidy", "--keep-days", "90", "--keep-run", "n0", *words]) == 0
    assert "1 run removed; 4 stay (" in capsys.readouterr().out
    assert content(warehouse)["plan"] == content(warehouse)["output"] == ["n0", "n2", "n3", "n4"]


def test_names_that_no_job_accepts_delete_no_folder(tmp_path: Path) -> None:
    """A row may have any text as its run."""
    runs = [OldRun(run_id=name, age=1000, verdicts={"c": REFUSED}) for name in ("..", "a/b", "x")]
    warehouse = with_output(forge(tmp_path / "w" / "w", runs, tables=SOME), runs[1:])
    run_tidy(warehouse)
    assert [path.name for path in Path(storage_of(warehouse).output).iterdir()] == ["a"]
    assert content(warehouse)["plan"] == []


@pytest.fixture
def removed(warehouse: Warehouse) -> Warehouse:
    """The warehouse, in which run ``old`` was removed."""
    run_tidy(warehouse)
    return warehouse


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (main, ["approve", "--run-id", "old", "--cluster", "c"]),
        (main, ["run", "--run-id", "old", "--cluster", "c"]),
        (main, ["show", "--run-id", "old", "--cluster", "c", "--json"]),
        (main, ["report", "--run-id", "old", "--to", "{out}"]),
        (ask, ["ask", "--run-id", "old", "--cluster", "c", "--only", "racks"]),
        (ask, ["compare", "old", "new", "--cluster", "c"]),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_commands_refuse_a_removed_run(
    removed: Warehouse,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    command: Callable[[Sequence[str]], int],
    words: list[str],
) -> None:
    """The message says that it was removed."""
    out = tmp_path / "pages"
    assert command([*(word.format(out=out) for word in words), "--warehouse", removed.path]) == 3
    assert "error: run 'old' was removed by tidy: " in capsys.readouterr().err


def test_a_removed_run_is_shown_as_removed(
    removed: Warehouse, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With its verdict and approvals; it is in the list of runs, and on the site without a report."""
    for words in (["--run-id", "old"], ["--run-id", "old", "--cluster", "c"]):
        assert main(["show", *words, "--warehouse", removed.path]) == 0
        out = capsys.readouterr().out
        assert out.startswith("c: planned\n")
        assert "  the run was removed by tidy: " in out
    assert main(["show", "--run-id", "new", "--warehouse", removed.path]) == 0
    assert "removed" not in capsys.readouterr().out
    assert main(["show", "--warehouse", removed.path]) == 0
    assert "\nold " in capsys.readouterr().out
    assert main(["report", "--all", "--to", str(tmp_path / "site"), "--warehouse", removed.path]) == 0
    assert (tmp_path / "site" / "old" / "index.html").is_file()


def test_a_warehouse_without_runs_is_refused(tmp_path: Path) -> None:
    """The message says what to give."""
    with pytest.raises(StageError, match=r"there is no table verdicts in .*: give the warehouse of the run"):
        run_tidy(Warehouse(str(tmp_path)))


def test_many_nights_take_seconds(tmp_path: Path, killed_after: Callable[[int], list[str]]) -> None:
    """Forty nights in all tables: files are removed without being read, except those of table ``runs``."""
    runs = [OldRun(run_id=f"n{number:02}", age=65 - number, approved=65 - number) for number in range(40)]
    warehouse = forge(tmp_path / "w", runs)
    changes, begun = killed_after(10**9), time.process_time()
    run_tidy(warehouse, replace(LIMITS, keep_days=45))
    assert time.process_time() - begun < 15
    assert changes.count("delete") == 1
    kept_runs = [run.run_id for run in runs if run.age < 45]
    after = content(warehouse)
    assert all(after[name] == kept_runs for name in schemas.ALL if name not in ("runs", "executions", *HISTORY))


def test_commands_write_while_runs_are_removed(tmp_path: Path) -> None:
    """Approvals and events of waves are all stored, while tidy deletes history and cleans the same tables."""
    runs = [OldRun(run_id=f"n{number}", age=2000, approved=2000, executed=2000 - number) for number in range(9)]
    warehouse = forge(tmp_path / "w", [*runs, *NEWEST], tables=LISTED)
    executed = SimpleNamespace(cluster_id="c", run_id="z0")
    approval = {"cluster_id": "c", "run_id": "z0", "manifest_sha256": "m", "approved_from": "h", "is_revocation": False}

    def work() -> None:
        book = Journal(Warehouse(warehouse.path), "c")
        for number in range(12):
            book.note(cast("Plan", executed), FIXED, {"number": number})
            warehouse.append("approvals", [{**approval, "approved_by": f"p{number}", "approved_at": NOW}])

    with ThreadPoolExecutor(1) as pool:
        working = pool.submit(work)
        for number in range(8):
            run_tidy(warehouse, replace(LIMITS, history_days=2000 - number))
        working.result()
    numbers = [json.loads(row["result"])["number"] for row in warehouse.rows("executions", event=FIXED)]
    assert sorted(numbers) == [*range(12)]
    approvers = {row["approved_by"] for row in warehouse.rows("approvals", run_id="z0")}
    assert approvers == {f"p{number}" for number in range(12)}
    assert {row["run_id"] for row in warehouse.rows("executions")} == {"n8", "z0"}
