"""The command ``tidy``: removes old runs from the tables and from the output folder, and files that no table needs.

docs/decisions/0035-tidy.md says why rows are deleted in this order.
"""

import shutil
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import schemas
from execution import journal
from execution.in_charge import lock_file
from execution.planned import in_words
from execution.rules import DAYS
from optimizer import locks, places
from optimizer.errors import BallastError, ConfigError, UnderWay, bullets
from optimizer.setting_checks import is_folder_name
from optimizer.settings import Storage
from optimizer.similar import did_you_mean
from optimizer.units import agree, clause, plural
from schemas.runs import BEGIN
from schemas.verdicts import PLANNED, WITH_PLAN
from stored.removal import clean, delete_runs
from stored.runs import Key, StoredRuns
from stored.tables import Warehouse
from stored.verdicts import Verdict

LEAST_DAYS = 8  # days: Delta keeps removed files for seven
_SUMMED_DAYS = max(DAYS.values())  # what rules of approval read
HISTORY = ("approvals", "executions", "plan_summary", "bounds", "waves", "verdicts")  # verdicts last: it lists the runs
_PLANS = tuple(name for name in schemas.ALL if name not in ("runs", *HISTORY))
_LAST_PLANS = 3  # of each cluster
_MOST_LOCKED = 500  # runs: a process may open about a thousand files


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What stays.

    Parameters
    ----------
    keep_days : int
        Days since the last verdict, approval or event of a run after which it goes.
    history_days : int
        Days after which its history goes too.
    now : datetime
        The days end here.
    keep_runs : tuple of str
        Runs that stay.
    """

    keep_days: int
    history_days: int
    now: datetime
    keep_runs: tuple[str, ...] = ()

    def problems(self) -> Iterator[str]:
        """Days that are out of range."""
        if self.keep_days < LEAST_DAYS:
            yield f"--keep-days {self.keep_days}: give at least {LEAST_DAYS}, because Delta keeps removed files a week"
        if self.history_days <= _SUMMED_DAYS:
            why = f"because rules of approval add up the waves of {_SUMMED_DAYS} days"
            yield f"--history-days {self.history_days}: give at least {_SUMMED_DAYS + 1}, {why}"
        if self.history_days < self.keep_days:
            yield f"--history-days {self.history_days}: give as many as --keep-days ({self.keep_days}) or more"


@dataclass(frozen=True, kw_only=True)
class Selection:
    """What happens to each run.

    Parameters
    ----------
    going : mapping of str to datetime
        When each run was last written that goes, or that an earlier tidy has removed; the oldest first.
    old : frozenset of str
        Those of them whose history goes too.
    stages : mapping of str to set of str
        Stages of which each run has a record.
    version : int
        Version of table ``runs`` that has these records.
    staying : mapping of str to str
        Why each other run stays.
    clusters : frozenset of str
        All clusters that have a verdict.
    """

    going: Mapping[str, datetime]
    old: frozenset[str]
    stages: Mapping[str, set[str]]
    version: int
    staying: Mapping[str, str]
    clusters: frozenset[str]


def select(warehouse: Warehouse, limits: Limits, earlier: Selection | None = None) -> Selection:
    """Which runs go and which stay.

    Parameters
    ----------
    earlier : Selection, optional
        Its stages are used if table ``runs`` has not changed since: to read them takes most of the time.

    Raises
    ------
    StageError
        When the warehouse has no tables.
    ConfigError
        When a run to keep is unknown.
    """
    verdicts = StoredRuns(warehouse).verdicts
    version = warehouse.version("runs", creates=False)
    recorded = earlier.stages if earlier and earlier.version == version else _stages(warehouse)
    stages = {**{run: set[str]() for run, _ in verdicts}, **recorded}
    if unknown := [run for run in limits.keep_runs if run not in stages]:
        remedy = "./ballast show lists the runs"
        raise ConfigError(*(f"--keep-run {run}: no such run{did_you_mean(run, stages)}; {remedy}" for run in unknown))
    times = _last_written(warehouse, stages)
    staying = _staying(warehouse, verdicts, times, limits)
    # An earlier tidy may have been killed. This one finishes its work, whatever the limits are now.
    planned = {run for (run, _), row in verdicts.items() if row["verdict"] in WITH_PLAN}
    removed = {run for run in planned if stages[run] == {BEGIN}}
    going = [run for run in stages if run in removed or run not in staying]
    oldest = limits.now - timedelta(days=limits.history_days)
    return Selection(
        going={run: times[run] for run in sorted(going, key=lambda run: (times[run], run))},
        old=frozenset(run for run in going if run not in staying and times[run] <= oldest),
        stages=stages,
        version=version,
        staying={run: why for run, why in staying.items() if run not in removed},
        clusters=frozenset(cluster for _, cluster in verdicts),
    )


def _stages(warehouse: Warehouse) -> dict[str, set[str]]:
    stages = defaultdict[str, set[str]](set)
    for row in warehouse.table("runs", columns=("run_id", "stage")).to_pylist():
        stages[row["run_id"]].add(row["stage"])
    return dict(stages)


def _last_written(warehouse: Warehouse, runs: Iterable[str]) -> dict[str, datetime]:
    """When the newest row of each run was written, or later: a file may have rows of several runs."""
    times: dict[str, datetime] = {}
    for table in ("verdicts", "approvals", "executions", "runs"):
        # An old run that was killed before its first verdict has only records.
        known = [run for run in runs if run not in times] if table == "runs" else runs
        for file in warehouse.files(table, known):
            times |= {run: max(file.written_at, times.get(run, file.written_at)) for run in file.runs}
    return times


def _staying(
    warehouse: Warehouse, verdicts: Mapping[Key, Verdict], times: Mapping[str, datetime], limits: Limits
) -> dict[str, str]:
    """Why runs stay, by run."""
    plans = defaultdict[str, list[tuple[datetime, str]]](list)
    for (run, cluster), row in verdicts.items():
        if row["verdict"] == PLANNED:
            plans[cluster].append((times[run], run))
    last = (run for of_cluster in plans.values() for _, run in sorted(of_cluster)[-_LAST_PLANS:])
    young = (run for run, time in times.items() if time > limits.now - timedelta(days=limits.keep_days))
    return {
        **dict.fromkeys(limits.keep_runs, "named by --keep-run"),
        **dict.fromkeys(_in_use(warehouse), "executed or taken back now"),
        **dict.fromkeys(last, f"among the last {_LAST_PLANS} plans of a cluster"),
        **dict.fromkeys(young, f"younger than {limits.keep_days} days"),
    }


def _in_use(warehouse: Warehouse) -> Iterator[str]:
    """Runs that hold a cluster, that a process executes, or whose rollback has not ended."""
    for ledger in journal.ledgers(journal.events(warehouse)):
        yield from ledger.rollbacks
        if ledger.holder:
            yield ledger.holder.run_id
        if ledger.process and ledger.process["event"] == journal.RUNNING:
            yield ledger.process["run_id"]


def tidy(storage: Storage, limits: Limits, *, dry_run: bool, say: Callable[[str], None]) -> None:
    """Remove old runs with their output folders, then the files that no table needs.

    It may be killed at any time: the next tidy finishes its work.

    Parameters
    ----------
    dry_run : bool
        Whether to report only what would be removed.
    say : callable
        Gets the lines of the report.

    Raises
    ------
    StageError
        When the warehouse has no tables.
    ConfigError
        When a run to keep is unknown.
    UnderWay
        When another tidy works on this warehouse.
    Overtaken
        When other processes wrote a table first in every try.
    BallastError
        When output folders cannot be deleted; everything else is done.
    """
    warehouse = Warehouse(storage.warehouse)
    selection = select(warehouse, limits)  # refuses a missing warehouse, before the lock creates its folder
    runs = _unfinished(warehouse, storage, selection)
    for run in runs:
        history = ", with its history" if run in selection.old else ""
        say(f"run {run}: last written {in_words(selection.going[run])}{history}")
    if dry_run:
        say(f"{plural(len(runs), 'run')} would be removed; {_describe_staying(selection)}")
        return
    with locks.exclusive_now(lock_file(warehouse, "tidy")) as is_free:
        if not is_free:
            raise UnderWay(f"another tidy works on {warehouse.path}: wait until it ends")
        batches = (runs[first : first + _MOST_LOCKED] for first in range(0, len(runs), _MOST_LOCKED))
        left = dict[Path, OSError]()
        removed = sum(_remove(storage, batch, limits, selection, left) for batch in batches)
        files = sum(clean(warehouse, table) for table in schemas.ALL)
    busy = len(runs) - removed
    used = f"; {clause(busy, 'run', 'stays', 'stay')} because somebody works on {agree(busy, 'it', 'them')}"
    unused = f"; {plural(files, 'unused file')} deleted"
    say(f"{plural(removed, 'run')} removed; {_describe_staying(selection)}{used if busy else ''}{unused}")
    if left:
        reasons = bullets(f"{folder}: {error.strerror or error}" for folder, error in left.items())
        raise BallastError(f"everything else is done, but these output folders can't be deleted:{reasons}")


def _describe_staying(selection: Selection) -> str:
    counts = sorted(Counter(selection.staying.values()).items())
    reasons = f" ({', '.join(f'{count} {why}' for why, count in counts)})" if counts else ""
    return f"{len(selection.staying)} {agree(len(selection.staying), 'stays', 'stay')}{reasons}"


def _unfinished(warehouse: Warehouse, storage: Storage, selection: Selection) -> list[str]:
    """The runs that go and have more than their history; the oldest first."""
    going = selection.going
    left = {run for run in going if selection.stages[run] - {BEGIN} or _output_folder(storage, run)} | selection.old
    for table in _PLANS:
        left.update(run for file in warehouse.files(table, going) for run in file.runs)
    return [run for run in going if run in left]


def _remove(
    storage: Storage, runs: Sequence[str], limits: Limits, earlier: Selection, left: dict[Path, OSError]
) -> int:
    """Remove these runs, except those that somebody uses; returns how many were removed.

    Without records of its stages no plan is approved, executed or continued, so they go first. The row ``begin`` goes
    last: as long as it exists, a job that starts the run again searches for rows to replace. A run whose output folder
    cannot be deleted keeps its history, so the next tidy finds it; ``left`` gets the folder.
    """
    warehouse = Warehouse(storage.warehouse)
    with ExitStack() as stack:
        paths = {run: places.locks_of_run(storage, run)[-1] for run in runs}
        free = [run for run, path in paths.items() if stack.enter_context(locks.exclusive_now(path))]
        # Somebody may have planned, approved or executed one of them before it was locked.
        selection = select(warehouse, limits, earlier)
        going = [run for run in free if run in selection.going]
        delete_runs(warehouse, "runs", going, where=f"stage <> '{BEGIN}'")
        for table in _PLANS:
            delete_runs(warehouse, table, going)
        for run in going:
            _delete_output(storage, run, left)
        old = [run for run in going if run in selection.old and _output_folder(storage, run) not in left]
        for table in (*HISTORY, "runs"):
            delete_runs(warehouse, table, old)
        # A cluster of this name has the same lock file: a process may wait for it, and others must see its lock.
        for run in set(going) - selection.clusters:
            paths[run].unlink(missing_ok=True)
    return len(going)


def _output_folder(storage: Storage, run: str) -> Path | None:
    """The output folder of a run or a link to it, if it exists. Only jobs check names: rows may have any."""
    folder = Path(storage.output) / run
    return folder if is_folder_name(run) and (folder.is_dir() or folder.is_symlink()) else None


def _delete_output(storage: Storage, run: str, left: dict[Path, OSError]) -> None:
    """Delete the output folder of a run. If it is a link, only the link goes. A folder that stays is added to left."""
    if folder := _output_folder(storage, run):
        try:
            if folder.is_symlink():
                folder.unlink()
            else:
                shutil.rmtree(folder)
        except OSError as error:
            left[folder] = error
