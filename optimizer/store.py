"""Writes, reads and checks the rows of a run in the Delta tables of a warehouse.

Writes are idempotent by content: the store skips rows that a table already has
(docs/decisions/0002-idempotent-runs.md). Reads return the current rows, without time travel: Delta refuses versions
that are older than a week (docs/decisions/0017-old-runs.md).
"""

import os
import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from itertools import compress
from typing import Any

from delta.tables import DeltaTable
from pyspark.sql import DataFrame, Row, SparkSession

import schemas
from optimizer import delta_tables, locks, places
from optimizer.declared import NAMES, WRITERS
from optimizer.delta_errors import retry_conflicts, short_errors
from optimizer.delta_tables import literal
from optimizer.errors import RowsChanged, StageError
from optimizer.fingerprint import count_and_hash, fingerprint_of, row_count_of
from optimizer.shipped import UNKNOWN
from schemas.runs import BEGIN
from schemas.spark import compute_once, conform, schema_of, small_frame
from schemas.table import Table

_THREADS = 4  # tables processed at the same time: a small commit mostly waits for files
_FEW_ROWS = 100_000  # one task hashes up to this number of rows: several tasks take twice as long


@dataclass(frozen=True, kw_only=True)
class RunRecord:
    """One row of ``runs``: what a stage read and wrote.

    Parameters
    ----------
    reads, writes : mapping of str to int
        Delta version by table.
    fingerprints : mapping of str to str
        ``rows:hash`` of each table written, without volatile columns.
    """

    run_id: str
    stage: str
    code_version: str
    config_hash: str
    config_json: str
    reads: Mapping[str, int]
    writes: Mapping[str, int]
    fingerprints: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class _Prepared:
    """Computed rows of one table; ``is_stored``: the table already has the same rows."""

    rows: DataFrame
    fingerprint: str
    is_stored: bool


def _do_nothing() -> None:
    pass


class Store:
    """The Delta tables of one warehouse.

    Parameters
    ----------
    warehouse : str
        Folder or URI; a table is at ``<warehouse>/<table>``.
    spark : SparkSession
    keeps_rows : bool
        Whether rows that this process wrote or checked stay in memory until ``release``. This saves time, because
        Spark needs longer to open a small table than to process it. Use it only with a local master: in a cluster a
        lost executor would lose the rows.
    """

    def __init__(self, warehouse: str, spark: SparkSession, *, keeps_rows: bool = False) -> None:
        self.warehouse = warehouse.rstrip("/") if "://" in warehouse else os.path.abspath(warehouse)
        self.spark = spark
        # Keys are (table, run_id); for records they are (run_id, stage).
        self._ensured: set[str] = set()
        self._new_runs: set[str] = set()
        self._touched: set[tuple[str, str]] = set()  # this process has put rows there
        self._records: dict[str, dict[str, RunRecord]] = {}  # by run_id and stage
        self._written: dict[tuple[str, str], tuple[int, str]] = {}  # version and fingerprint
        self._deleted_records: set[tuple[str, str]] = set()  # of ``runs``
        self._record_lock = threading.Lock()
        self._keeps_rows = keeps_rows
        self._rows: dict[tuple[str, str], DataFrame] = {}
        self._committed: dict[tuple[str, str], int] = {}  # version of this process's own commit
        self._checked: set[tuple[str, str]] = set()
        # Records in memory until ``save_records``, and whether each replaces a stored record; None: store immediately.
        self._held_records: dict[tuple[str, str], bool] | None = None

    def path(self, table: str) -> str:
        """Path of a table."""
        return f"{self.warehouse}/{_contract(table).name}"

    def exists(self, table: str) -> bool:
        """Whether the table has been created."""
        return table in self._ensured or DeltaTable.isDeltaTable(self.spark, self.path(table))

    def ensure(self, table: str) -> None:
        """Create the table; if an older release created it, add the nullable columns and checks that it lacks.

        Raises
        ------
        ConfigError
            When the table has any other difference from its contract.
        """
        if table in self._ensured:
            return
        with short_errors(table), self._locked(table):
            retry_conflicts(lambda: delta_tables.create_or_grow(self.spark, self.warehouse, _contract(table)))
        self._ensured.add(table)

    def ensure_existing(self) -> None:
        """``ensure`` all tables that exist, so that an unusable table stops a run before any table is changed.

        Raises
        ------
        ConfigError
            When a table has other differences from its contract; the message names the first such table.
        """
        with ThreadPoolExecutor(_THREADS) as pool:
            existing = list(compress(schemas.ALL, pool.map(self.exists, schemas.ALL)))
            lacking = list(compress(existing, pool.map(self._lacks_parts, existing)))
            self._ensured |= {*existing} - {*lacking}
            list(pool.map(self.ensure, lacking))

    def _lacks_parts(self, table: str) -> bool:
        """Whether an existing table lacks columns or checks of its contract."""
        with short_errors(table):
            return any(delta_tables.missing_parts(self.spark, self.warehouse, _contract(table)))

    def _locked(self, table: str) -> AbstractContextManager[None]:
        """Lock the table against other processes: on local disks Delta does not serialise concurrent commits."""
        folder = places.local(self.warehouse)
        return locks.exclusive(places.lock_of_table(folder, table)) if folder else nullcontext()

    def latest_version(self, table: str) -> int:
        """Version of the newest commit.

        Raises
        ------
        StageError
            When the table is missing; the message names the stage that writes it.
        """
        if not self.exists(table):
            raise _missing(table, self.warehouse)
        return delta_tables.newest_version(self.spark, self.path(table))

    def read(self, table: str, *, run_id: str) -> DataFrame:
        """Rows of a run: those that this process wrote or checked, else the current rows of the table.

        Raises
        ------
        StageError
            When the table is missing.
        """
        if (table, run_id) in self._rows:
            return self._rows[table, run_id]
        if not self.exists(table):
            raise _missing(table, self.warehouse)
        with short_errors(table):
            version = self._committed.get((table, run_id))
            return delta_tables.rows(self.spark, self.warehouse, _contract(table), run_id, version=version)

    def check(self, tables: Iterable[str], run_id: str, *, code_version: str) -> None:
        """Compare rows that other processes wrote with the counts and hashes in ``runs``.

        If another release wrote the rows, the store compares only their number: other columns may give other hashes.

        Raises
        ------
        RowsChanged
            When rows are missing or changed; the message names every such table.
        StageError
            When a stage that writes one of the tables has not run.
        """
        unchecked = [name for name in tables if not self._is_trusted(name, run_id)]
        for name in unchecked:
            self.recorded_version(name, run_id)
        with ThreadPoolExecutor(_THREADS) as pool:
            problems = list(pool.map(lambda name: self._difference(name, run_id, code_version), unchecked))
        if any(problems):
            raise RowsChanged(run_id, *filter(None, problems))
        self._checked |= {(name, run_id) for name in unchecked}

    def _is_trusted(self, table: str, run_id: str) -> bool:
        """Whether this process wrote or checked the rows."""
        return (table, run_id) in self._checked or (table, run_id) in self._written

    def _content_now(self, table: str, rows: DataFrame, run_id: str) -> str:
        """Count and hash of rows. One task computes them if the recorded number is small."""
        few = row_count_of(self._fingerprint_of(table, run_id)) <= _FEW_ROWS
        return count_and_hash(rows.coalesce(1) if few else rows, _contract(table))

    def _difference(self, table: str, run_id: str, code_version: str) -> str:
        """How the rows of a run differ from what ``runs`` records; empty if they are the same."""
        contract, stage = _contract(table), WRITERS[table]
        remedy = f"run the stage {stage!r} again, then all later stages"
        if not self.exists(table):
            return f"the table {table} does not exist any more: {remedy}"
        recorded = self._fingerprint_of(table, run_id)
        with short_errors(table):
            rows = delta_tables.rows(self.spark, self.warehouse, contract, run_id)
            rows = compute_once(rows) if self._keeps_rows else rows
            content = self._content_now(table, rows, run_id)
        if self._keeps_rows:
            self._rows[table, run_id] = rows
        count, recorded_count = row_count_of(content), row_count_of(recorded)
        if count != recorded_count:
            return f"table {table} has {count} rows of the run, {recorded_count} were written: {remedy}"
        record = self.run_record(run_id, stage)
        is_same_release = record is not None and record.code_version == code_version != UNKNOWN
        if content != recorded and is_same_release:
            return f"table {table} has other rows than {stage!r} wrote: {remedy}"
        return ""

    def write(self, table: str, frame: DataFrame, *, run_id: str) -> int:
        """``write_all`` for one table; returns the version that has the rows."""
        return self.write_all({table: frame}, run_id=run_id)[table]

    def write_all(
        self,
        frames: Mapping[str, DataFrame],
        *,
        run_id: str,
        few_rows: bool = False,
        before_change: Callable[[], None] = _do_nothing,
    ) -> dict[str, int]:
        """Write the rows of a run to some tables, and return the version of each table that has them.

        The new rows replace older rows of the run. The store skips a table that has the same rows already. It computes
        all rows before it writes the first one, so an error during the computation changes nothing.

        Parameters
        ----------
        few_rows : bool
            Whether the tables are small: one task then counts and hashes the rows, in half the time of several tasks.
        before_change : callable
            Called once before the first row changes; not called if all rows are stored already.

        Raises
        ------
        BallastError
            When rows break the contract: a NOT NULL, a CHECK, a repeated key, or the id of another run.
        """
        self._load_records(run_id)
        with ThreadPoolExecutor(_THREADS) as pool:
            jobs = {name: pool.submit(self._prepare, name, frame, run_id, few_rows) for name, frame in frames.items()}
            tables = {name: job.result() for name, job in jobs.items()}
            if not all(prepared.is_stored for prepared in tables.values()):
                before_change()
            writes = {name: pool.submit(self._store, name, prepared, run_id) for name, prepared in tables.items()}
        return {name: job.result() for name, job in writes.items()}

    def _prepare(self, table: str, frame: DataFrame, run_id: str, few_rows: bool) -> _Prepared:
        contract = _contract(table)
        self.ensure(table)
        with short_errors(table):
            rows = compute_once(conform(frame, contract))
            fingerprint = fingerprint_of(rows.coalesce(1) if few_rows else rows, contract, run_id)
            is_stored = self._is_stored(table, run_id, fingerprint)
        return _Prepared(rows=rows, fingerprint=fingerprint, is_stored=is_stored)

    def _is_stored(self, table: str, run_id: str, fingerprint: str) -> bool:
        """Whether the table has these rows.

        Rows that another process wrote are read again, because somebody may have deleted them.
        """
        known = self._known(table, run_id)
        if known is None or known[1] != fingerprint:
            return False
        if self._is_trusted(table, run_id):
            return True
        rows = delta_tables.rows(self.spark, self.warehouse, _contract(table), run_id)
        return self._content_now(table, rows, run_id) == fingerprint

    def _store(self, table: str, prepared: _Prepared, run_id: str) -> int:
        """Write the rows unless they are stored; return the version that has them."""
        recorded, key = self._known(table, run_id), (table, run_id)  # recorded: (version, fingerprint) or None
        with short_errors(table):
            if recorded and not prepared.is_stored:
                self._delete_record_before_change(table, run_id)
            version = recorded[0] if recorded and prepared.is_stored else self._replace(table, prepared.rows, run_id)
            committed = version
            # The recorded rows were missing and are back: keep their version, so that rows of later stages stay valid.
            if recorded and recorded[1] == prepared.fingerprint and recorded[0] < version:
                version = recorded[0]
        self._rows.pop(key, None)
        # Volatile columns of stored rows may differ from the computed rows, so the next read opens the table.
        if self._keeps_rows and not (prepared.is_stored and _contract(table).volatile):
            self._rows[key] = prepared.rows
        if not prepared.is_stored:
            self._committed[key] = committed
        self._written[key] = (version, prepared.fingerprint)
        return version

    def release(self, *, keep: Collection[str]) -> None:
        """Free the rows in memory, except those of the tables in ``keep``."""
        self._rows = {key: rows for key, rows in self._rows.items() if key[0] in keep}

    def run_record(self, run_id: str, stage: str) -> RunRecord | None:
        """The row of ``runs`` for a stage of a run; None if the stage has not run."""
        return self._load_records(run_id).get(stage)

    def has_only_begun(self, run_id: str) -> bool:
        """Whether the run has no record of a stage: it has just begun, its first stage failed, or it was removed."""
        return self._load_records(run_id).keys() == {BEGIN}

    def recorded_version(self, table: str, run_id: str) -> int:
        """Version of a table that its stage recorded after writing it.

        Raises
        ------
        StageError
            When that stage has not run; the message names the stage to run first.
        """
        stage = WRITERS[_contract(table).name]
        record = self.run_record(run_id, stage)
        if record is None or table not in record.writes:
            raise StageError(f"run {run_id!r} has no table {table} in {self.warehouse}: run the stage {stage!r} first")
        return record.writes[table]

    def is_current(self, stage: str, run_id: str) -> bool:
        """Whether the stage has finished, and its inputs have not changed since."""
        record = self.run_record(run_id, stage)
        if record is None or (run_id, stage) in self._deleted_records:
            return False
        inputs = {table: self._known(table, run_id) for table in record.reads}
        return all(known is not None and known[0] == record.reads[table] for table, known in inputs.items())

    def row_count(self, table: str, run_id: str) -> int:
        """Recorded number of rows of a run; 0 if none is recorded."""
        return row_count_of(self._fingerprint_of(table, run_id))

    def is_new(self, run_id: str) -> bool:
        """Whether this process began the run, so that no table had rows of it before."""
        return run_id in self._new_runs

    def current_rows(self, table: str, run_id: str) -> list[Row]:
        """The current rows of a run, collected; empty if the table does not exist."""
        if not self.exists(table):
            return []
        with short_errors(table):
            return delta_tables.rows(self.spark, self.warehouse, _contract(table), run_id).collect()

    def all_rows(self, table: str) -> DataFrame:
        """The current rows of all runs in a table that exists."""
        with short_errors(table):
            return self.spark.read.format("delta").load(self.path(table))

    def put(self, table: str, rows: Iterable[Mapping[str, Any]], *, replacing: str | None) -> None:
        """Append rows. With ``replacing`` (an SQL condition), replace the rows that it selects."""
        self.ensure(table)
        with short_errors(table):
            self._put(table, small_frame(self.spark, list(rows), schema_of(_contract(table))), replacing)

    def remove(self, stages: Collection[str], run_id: str) -> None:
        """Delete the records of some stages of a run, then the rows that they wrote."""
        for stage in stages:
            self._delete_record(run_id, stage)
            self._records[run_id].pop(stage, None)
        tables = [table for table, stage in WRITERS.items() if stage in stages and self.exists(table)]
        with ThreadPoolExecutor(_THREADS) as pool:
            list(pool.map(lambda table: self._delete(table, f"run_id = {literal(run_id)}"), tables))

    def _delete(self, table: str, where: str) -> None:
        with short_errors(table), self._locked(table):
            retry_conflicts(lambda: DeltaTable.forPath(self.spark, self.path(table)).delete(where))

    def _delete_record_before_change(self, table: str, run_id: str) -> None:
        """Delete the record of the table's stage before its rows change.

        Otherwise, after a crash, the record would describe rows that are not there.
        """
        if (table, run_id) not in self._written:
            self._delete_record(run_id, WRITERS[table])

    def _delete_record(self, run_id: str, stage: str) -> None:
        with self._record_lock:
            if (run_id, stage) not in self._deleted_records and self.run_record(run_id, stage):
                self._delete("runs", f"run_id = {literal(run_id)} AND stage = {literal(stage)}")
                self._deleted_records.add((run_id, stage))

    def begin(self, *, run_id: str, code_version: str, config_hash: str, config_json: str) -> None:
        """Add a new run to ``runs``, before its first write to any other table.

        Then no other table can have rows of this run, so the store appends without a search for them. The search would
        take a quarter of the run's CPU time (docs/decisions/0010-begun-runs.md).
        """
        if not self._load_records(run_id):
            self.record_run(
                run_id=run_id,
                stage=BEGIN,
                code_version=code_version,
                config_hash=config_hash,
                config_json=config_json,
                reads={},
                writes={},
            )
            self._new_runs.add(run_id)

    def record_run(
        self,
        *,
        run_id: str,
        stage: str,
        code_version: str,
        config_hash: str,
        config_json: str,
        reads: Mapping[str, int],
        writes: Mapping[str, int],
    ) -> RunRecord:
        """Record which versions a stage read and wrote; skip a record that is already stored.

        Raises
        ------
        StageError
            When ``writes`` names a table that this store did not write in this run.
        """
        unknown = sorted(name for name in writes if self._known(name, run_id) is None)
        if unknown:
            raise StageError(f"run {run_id!r}, stage {stage!r}: the stage did not write {unknown}; write them first")
        record = RunRecord(
            run_id=run_id,
            stage=stage,
            code_version=code_version,
            config_hash=config_hash,
            config_json=config_json,
            reads=dict(sorted(reads.items())),
            writes=dict(sorted(writes.items())),
            fingerprints={name: self._fingerprint_of(name, run_id) for name in sorted(writes)},
        )
        key = (run_id, stage)
        if self.run_record(*key) != record or key in self._deleted_records:
            is_known = self.run_record(*key) is not None and key not in self._deleted_records
            self._records[run_id][stage] = record
            if self._held_records is None:
                self._save(record, is_known)
            else:
                self._held_records[key] = is_known
        return record

    def hold_records(self) -> None:
        """Keep new records in memory until ``save_records``: an attempt that fails earlier does not change ``runs``."""
        self._held_records = {}

    def save_records(self) -> None:
        """Store the records that are in memory. From now on, store new records immediately."""
        held, self._held_records = self._held_records or {}, None
        for (run_id, stage), is_known in held.items():
            self._save(self._records[run_id][stage], is_known)

    def _save(self, record: RunRecord, is_known: bool) -> None:
        self.ensure("runs")
        row = {"cluster_id": "*", **{name: getattr(record, name) for name in record.__dataclass_fields__}}
        frame = small_frame(self.spark, [row], schema_of(_contract("runs")))
        where = f"run_id = {literal(record.run_id)} AND stage = {literal(record.stage)}"
        with short_errors("runs"):
            self._put("runs", frame, where if is_known else None)
        self._deleted_records.discard((record.run_id, record.stage))

    def _replace(self, table: str, rows: DataFrame, run_id: str) -> int:
        """Replace the rows of the run. If the table has none yet, append: this takes a fifth of the time."""
        where = f"run_id = {literal(run_id)}"
        is_first = (run_id in self._new_runs and (table, run_id) not in self._touched) or (
            self.spark.read.format("delta").load(self.path(table)).where(where).isEmpty()
        )
        self._touched.add((table, run_id))
        self._put(table, rows, None if is_first else where)
        return self.latest_version(table)

    def _put(self, table: str, rows: DataFrame, where: str | None) -> None:
        writer = rows.write.format("delta")
        writer = writer.mode("append") if where is None else writer.mode("overwrite").option("replaceWhere", where)
        with self._locked(table):
            retry_conflicts(lambda: writer.save(self.path(table)))

    def _known(self, table: str, run_id: str) -> tuple[int, str] | None:
        """Version and fingerprint of a run's rows: from this process, else from ``runs``."""
        if (table, run_id) in self._written:
            return self._written[table, run_id]
        for record in self._load_records(run_id).values():
            if table in record.writes:
                return record.writes[table], record.fingerprints[table]
        return None

    def _fingerprint_of(self, table: str, run_id: str) -> str:
        known = self._known(table, run_id)
        return known[1] if known else ""

    def _load_records(self, run_id: str) -> dict[str, RunRecord]:
        if run_id not in self._records:
            self._records[run_id] = {}
            if self.exists("runs"):
                frame = delta_tables.rows(self.spark, self.warehouse, _contract("runs"), run_id)
                for row in frame.drop("cluster_id").collect():
                    self._records[run_id][row.stage] = RunRecord(**row.asDict())
        return self._records[run_id]


def _contract(table: str) -> Table:
    if table not in schemas.ALL:
        raise StageError(f"there is no table {table!r}; the tables are {sorted(schemas.ALL)}")
    return schemas.ALL[table]


def _missing(table: str, warehouse: str) -> StageError:
    stage = WRITERS.get(table, NAMES[0])
    return StageError(f"there is no table {table} in {warehouse}: run the stage {stage!r} first")
