"""The Delta tables of a warehouse: writes a run's rows once, and reads them as they are now.

A write is idempotent by content: rows that are already stored are not written again
(docs/decisions/0002-idempotent-runs.md). Reads do not travel in time: Delta refuses versions that are older than a week
(docs/decisions/0017-old-runs.md).
"""

import os
import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

from delta.tables import DeltaTable
from pyspark.sql import DataFrame, Row, SparkSession

import schemas
from optimizer import delta_tables, locks, places
from optimizer.declared import NAMES, WRITERS
from optimizer.delta_errors import again, one_line
from optimizer.delta_tables import literal
from optimizer.errors import RowsChanged, StageError
from optimizer.fingerprint import content_of, fingerprint_of, rows_in
from optimizer.shipped import UNKNOWN
from schemas.spark import conform, schema_of, small_frame
from schemas.table import Table

# What ``runs`` calls the row that a run puts there before its first row in any other table.
BEGIN = "begin"
_WRITERS_AT_ONCE = 4  # tables written at the same time: commits wait for files more than for cores
_FEW_ROWS = 100_000  # up to here rows are hashed in one task: several tasks take twice as long


@dataclass(frozen=True, kw_only=True)
class RunRecord:
    """One row of ``runs``: what a stage read and wrote.

    Parameters
    ----------
    reads, writes : mapping of str to int
        Delta version by table.
    fingerprints : mapping of str to str
        ``rows:hash`` of each table written, volatile columns left out.
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
    """Rows of one table that a stage has computed; ``is_stored``: the table holds the same rows already."""

    rows: DataFrame
    fingerprint: str
    is_stored: bool


def _nothing() -> None:
    """The default of ``before_change``."""


class Store:
    """The Delta tables of one warehouse.

    Parameters
    ----------
    warehouse : str
        Folder or URI; a table lies at ``<warehouse>/<table>``.
    spark : SparkSession
    keeps_rows : bool
        Keep rows that this process wrote or checked in memory until ``release``: opening a small table costs more
        than processing it. Only on a local master: a lost executor would lose them.
    """

    def __init__(self, warehouse: str, spark: SparkSession, *, keeps_rows: bool = False) -> None:
        self.warehouse = warehouse.rstrip("/") if "://" in warehouse else os.path.abspath(warehouse)
        self.spark = spark
        self._ensured: set[str] = set()
        self._new_runs: set[str] = set()
        self._touched: set[tuple[str, str]] = set()
        self._records: dict[str, dict[str, RunRecord]] = {}
        self._written: dict[tuple[str, str], tuple[int, str]] = {}
        self._withdrawn: set[tuple[str, str]] = set()
        self._withdrawing = threading.Lock()
        self._keeps_rows = keeps_rows
        self._rows: dict[tuple[str, str], DataFrame] = {}
        self._committed: dict[tuple[str, str], int] = {}
        self._checked: set[tuple[str, str]] = set()
        self._held: dict[tuple[str, str], bool] | None = None

    def path(self, table: str) -> str:
        """Where a table lies."""
        return f"{self.warehouse}/{_contract(table).name}"

    def exists(self, table: str) -> bool:
        """Whether the table has been created."""
        return table in self._ensured or DeltaTable.isDeltaTable(self.spark, self.path(table))

    def ensure(self, table: str) -> None:
        """Create the table, or add the nullable columns that one of an older release lacks.

        Raises
        ------
        ConfigError
            When the table differs from its contract otherwise.
        """
        if table in self._ensured:
            return
        with one_line(table), self._alone(table):
            again(lambda: delta_tables.create_or_grow(self.spark, self.warehouse, _contract(table)))
        self._ensured.add(table)

    def grow(self, tables: Iterable[str]) -> None:
        """``ensure`` those of some tables that are there: what can't be used is refused before any work."""
        with ThreadPoolExecutor(_WRITERS_AT_ONCE) as pool:
            list(pool.map(self.ensure, filter(self.exists, tables)))

    def _alone(self, table: str) -> AbstractContextManager[None]:
        """No other process changes the table meanwhile: on local disks Delta does not keep two commits apart."""
        folder = places.local(self.warehouse)
        return locks.exclusive(places.lock_of_table(folder, table)) if folder else nullcontext()

    def latest_version(self, table: str) -> int:
        """Version of the newest commit.

        Raises
        ------
        StageError
            When the table is missing: names the stage that writes it.
        """
        if not self.exists(table):
            raise _missing(table, self.warehouse)
        return delta_tables.newest_version(self.spark, self.path(table))

    def read(self, table: str, *, run_id: str) -> DataFrame:
        """Rows of a run: as this process wrote them, else as they are in the table now.

        Raises
        ------
        StageError
            When the table is missing.
        """
        if (table, run_id) in self._rows:
            return self._rows[table, run_id]
        if not self.exists(table):
            raise _missing(table, self.warehouse)
        with one_line(table):
            version = self._committed.get((table, run_id))
            return delta_tables.rows(self.spark, self.warehouse, _contract(table), run_id, version=version)

    def check(self, tables: Iterable[str], run_id: str, *, code_version: str) -> None:
        """Compare rows that other processes wrote with what ``runs`` recorded when they were written.

        Other releases may have had other columns, which changes the hash: of their rows only the number is compared.

        Raises
        ------
        RowsChanged
            When rows are missing or changed: names every such table.
        StageError
            When a stage that writes one of the tables has not run.
        """
        open_ = [name for name in tables if not self._is_trusted(name, run_id)]
        for name in open_:
            self.pinned(name, run_id)
        with ThreadPoolExecutor(_WRITERS_AT_ONCE) as pool:
            problems = list(pool.map(lambda name: self._difference(name, run_id, code_version), open_))
        if any(problems):
            raise RowsChanged(run_id, *filter(None, problems))
        self._checked |= {(name, run_id) for name in open_}

    def _is_trusted(self, table: str, run_id: str) -> bool:
        """Whether this process wrote or checked the rows."""
        return (table, run_id) in self._checked or (table, run_id) in self._written

    def _content_now(self, table: str, rows: DataFrame, run_id: str) -> str:
        """Count and hash of rows, in one task if the record says that they are few."""
        few = rows_in(self._fingerprint_of(table, run_id)) <= _FEW_ROWS
        return content_of(rows.coalesce(1) if few else rows, _contract(table))

    def _difference(self, table: str, run_id: str, code_version: str) -> str:
        """What is wrong with the rows of a run; empty where they are those that were recorded."""
        contract, stage = _contract(table), WRITERS[table]
        remedy = f"run the stage {stage!r} again, and what follows it"
        if not self.exists(table):
            return f"the table {table} is gone: {remedy}"
        recorded = self._fingerprint_of(table, run_id)
        with one_line(table):
            rows = delta_tables.rows(self.spark, self.warehouse, contract, run_id)
            rows = rows.localCheckpoint() if self._keeps_rows else rows
            content = self._content_now(table, rows, run_id)
        if self._keeps_rows:
            self._rows[table, run_id] = rows
        if rows_in(content) != rows_in(recorded):
            return f"table {table} has {rows_in(content)} rows of the run, {rows_in(recorded)} are recorded: {remedy}"
        record = self.run_record(run_id, stage)
        is_comparable = record is not None and record.code_version == code_version != UNKNOWN
        if content != recorded and is_comparable:
            return f"table {table} has other rows than {stage!r} wrote: {remedy}"
        return ""

    def write(self, table: str, frame: DataFrame, *, run_id: str) -> int:
        """``write_all`` of one table; returns the version that holds the rows."""
        return self.write_all({table: frame}, run_id=run_id)[table]

    def write_all(
        self,
        frames: Mapping[str, DataFrame],
        *,
        run_id: str,
        few_rows: bool = False,
        before_change: Callable[[], None] = _nothing,
    ) -> dict[str, int]:
        """Replace the rows of a run in some tables, where they are others; return the versions that hold them.

        All rows are computed before the first is written: an error in between changes nothing. A few tables are
        written at once, because most of a small write is waiting.

        Parameters
        ----------
        few_rows : bool
            They are counted and hashed in one task, which takes half the time that several tasks do.
        before_change : callable
            Called once before the first row changes; not called if all rows are stored already.

        Raises
        ------
        BallastError
            When the rows break the contract: a NOT NULL, a CHECK, the key, or another run's id.
        """
        self._load_records(run_id)
        with ThreadPoolExecutor(_WRITERS_AT_ONCE) as pool:
            jobs = {name: pool.submit(self._prepared, name, frame, run_id, few_rows) for name, frame in frames.items()}
            ready = {name: job.result() for name, job in jobs.items()}
            if not all(each.is_stored for each in ready.values()):
                before_change()
            written = {name: pool.submit(self._stored, name, each, run_id) for name, each in ready.items()}
        return {name: job.result() for name, job in written.items()}

    def _prepared(self, table: str, frame: DataFrame, run_id: str, few_rows: bool) -> _Prepared:
        contract = _contract(table)
        self.ensure(table)
        with one_line(table):
            # A checkpoint, not a cache: it also cuts the plan off, which each of the three uses would drag along.
            rows = conform(frame, contract).localCheckpoint()
            fingerprint = fingerprint_of(rows.coalesce(1) if few_rows else rows, contract, run_id)
            is_stored = self._is_stored(table, run_id, fingerprint)
        return _Prepared(rows=rows, fingerprint=fingerprint, is_stored=is_stored)

    def _is_stored(self, table: str, run_id: str, fingerprint: str) -> bool:
        """Whether the table holds these rows. What another process wrote is read: somebody may have deleted it."""
        known = self._known(table, run_id)
        if known is None or known[1] != fingerprint:
            return False
        if self._is_trusted(table, run_id):
            return True
        rows = delta_tables.rows(self.spark, self.warehouse, _contract(table), run_id)
        return self._content_now(table, rows, run_id) == fingerprint

    def _stored(self, table: str, ready: _Prepared, run_id: str) -> int:
        """Write what was prepared, where it is not stored; returns the version that holds it."""
        known, place = self._known(table, run_id), (table, run_id)
        with one_line(table):
            if known and not ready.is_stored:
                self._withdraw(table, run_id)
            version = known[0] if known and ready.is_stored else self._replace(table, ready.rows, run_id)
            committed = version
            if known and known[1] == ready.fingerprint and known[0] < version:
                version = known[0]  # the same rows as then: what was made from that version still belongs to them
        self._rows.pop(place, None)
        # Stored rows may differ from computed ones in volatile columns: those are read from the table.
        if self._keeps_rows and not (ready.is_stored and _contract(table).volatile):
            self._rows[place] = ready.rows
        if not ready.is_stored:
            self._committed[place] = committed
        self._written[place] = (version, ready.fingerprint)
        return version

    def release(self, *, keep: Collection[str]) -> None:
        """Forget the rows in memory of all tables but ``keep``."""
        self._rows = {key: rows for key, rows in self._rows.items() if key[0] in keep}

    def run_record(self, run_id: str, stage: str) -> RunRecord | None:
        """What ``runs`` holds about a stage of a run; None before it has run."""
        return self._load_records(run_id).get(stage)

    def pinned(self, table: str, run_id: str) -> int:
        """Version of a table as the stage that wrote it recorded it.

        Raises
        ------
        StageError
            When that stage has not run: says which to run first.
        """
        stage = WRITERS[_contract(table).name]
        record = self.run_record(run_id, stage)
        if record is None or table not in record.writes:
            raise StageError(f"run {run_id!r} has no table {table} in {self.warehouse}: run the stage {stage!r} first")
        return record.writes[table]

    def is_current(self, stage: str, run_id: str) -> bool:
        """Whether the rows of a stage are complete, and made from what the run holds now."""
        record = self.run_record(run_id, stage)
        if record is None or (run_id, stage) in self._withdrawn:
            return False
        now = {table: self._known(table, run_id) for table in record.reads}
        return all(known is not None and known[0] == record.reads[table] for table, known in now.items())

    def rows(self, table: str, run_id: str) -> int:
        """How many rows of a run were written; 0 before."""
        return rows_in(self._fingerprint_of(table, run_id))

    def is_new(self, run_id: str) -> bool:
        """Whether the run has begun here, so that no table held a row of it."""
        return run_id in self._new_runs

    def newest(self, table: str, run_id: str) -> list[Row]:
        """The rows of a run as they are now; none where there is no table."""
        if not self.exists(table):
            return []
        with one_line(table):
            return delta_tables.rows(self.spark, self.warehouse, _contract(table), run_id).collect()

    def put(self, table: str, rows: Iterable[Mapping[str, Any]], *, replacing: str | None) -> None:
        """Write rows that the driver holds in place of those that a condition selects, or beside what is there."""
        self.ensure(table)
        with one_line(table):
            self._put(table, small_frame(self.spark, list(rows), schema_of(_contract(table))), replacing)

    def remove(self, stages: Collection[str], run_id: str) -> None:
        """Delete the rows of a run that some stages wrote, and before them the records of these stages."""
        for stage in stages:
            self._withdraw_record(run_id, stage)
            self._records[run_id].pop(stage, None)
        tables = [table for table, stage in WRITERS.items() if stage in stages and self.exists(table)]
        with ThreadPoolExecutor(_WRITERS_AT_ONCE) as pool:
            list(pool.map(lambda table: self._delete(table, f"run_id = {literal(run_id)}"), tables))

    def _delete(self, table: str, where: str) -> None:
        with one_line(table), self._alone(table):
            DeltaTable.forPath(self.spark, self.path(table)).delete(where)

    def _withdraw(self, table: str, run_id: str) -> None:
        """Before rows change that a stage's record names: a run that ends now must not find them named by it."""
        if (table, run_id) not in self._written:
            self._withdraw_record(run_id, WRITERS[table])

    def _withdraw_record(self, run_id: str, stage: str) -> None:
        with self._withdrawing:
            if (run_id, stage) not in self._withdrawn and self.run_record(run_id, stage):
                self._delete("runs", f"run_id = {literal(run_id)} AND stage = {literal(stage)}")
                self._withdrawn.add((run_id, stage))

    def begin(self, *, run_id: str, code_version: str, config_hash: str, config_json: str) -> None:
        """Note in ``runs`` that a run will write, unless it holds the run; to be called before the run's first write.

        No table has rows of a run that was not there: they are appended without looking, which for the tables of a run
        takes a quarter of its CPU time (docs/decisions/0010-begun-runs.md).
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
        """Store which versions a stage read and wrote; an equal record is not written again.

        Raises
        ------
        StageError
            When ``writes`` names a table that this store did not write in this run.
        """
        unknown = sorted(name for name in writes if self._known(name, run_id) is None)
        if unknown:
            raise StageError(f"run {run_id!r}, stage {stage!r}: {unknown} were not written by it; write them first")
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
        place = (run_id, stage)
        if self.run_record(*place) != record or place in self._withdrawn:
            is_known = self.run_record(*place) is not None and place not in self._withdrawn
            self._records[run_id][stage] = record
            if self._held is None:
                self._save(record, is_known)
            else:
                self._held[place] = is_known
        return record

    def hold_records(self) -> None:
        """Keep records in memory until ``save_records``: until then this process has changed nothing."""
        self._held = {}

    def save_records(self) -> None:
        """Store the records that were held, and from now on each at once."""
        held, self._held = self._held or {}, None
        for (run_id, stage), is_known in held.items():
            self._save(self._records[run_id][stage], is_known)

    def _save(self, record: RunRecord, is_known: bool) -> None:
        self.ensure("runs")
        row = {"cluster_id": "*", **{name: getattr(record, name) for name in record.__dataclass_fields__}}
        frame = small_frame(self.spark, [row], schema_of(_contract("runs")))
        where = f"run_id = {literal(record.run_id)} AND stage = {literal(record.stage)}"
        with one_line("runs"):
            self._put("runs", frame, where if is_known else None)
        self._withdrawn.discard((record.run_id, record.stage))

    def _replace(self, table: str, rows: DataFrame, run_id: str) -> int:
        """Append where the run has no rows yet (a fifth of the time of a replacement), else replace them."""
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
        with self._alone(table):
            again(lambda: writer.save(self.path(table)))

    def _known(self, table: str, run_id: str) -> tuple[int, str] | None:
        """Version and fingerprint of a run's rows, as written here or as recorded."""
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
        raise StageError(f"no table is named {table!r}; known are {sorted(schemas.ALL)}")
    return schemas.ALL[table]


def _missing(table: str, warehouse: str) -> StageError:
    stage = WRITERS.get(table, NAMES[0])
    return StageError(f"there is no table {table} in {warehouse}: run the stage {stage!r} first")
