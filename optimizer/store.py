"""The Delta tables of a warehouse: writes a run's rows once, reads pinned versions.

A write is idempotent by content: the rows of a run are replaced, and not even that when the fingerprint of the new rows
equals the one that ``runs`` recorded (docs/decisions/0002-idempotent-runs.md).
"""

import os
import threading
from collections.abc import Collection, Iterable, Mapping
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
from optimizer.errors import StageError
from optimizer.fingerprint import fingerprint_of, rows_in
from schemas.table import Table, conform, small_frame

# What ``runs`` calls the row that a run puts there before its first row in any other table.
BEGIN = "begin"
_WRITERS_AT_ONCE = 4  # tables written at the same time: commits wait for files more than for cores


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


class Store:
    """The Delta tables of one warehouse.

    Parameters
    ----------
    warehouse : str
        Folder or URI; a table lies at ``<warehouse>/<table>``.
    spark : SparkSession
    keeps_rows : bool
        Keep written rows in memory until ``release``, for later reads of the same version in this process: opening a
        small table costs more than processing it. Only on a local master: a lost executor would lose them.
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
        self._rows: dict[tuple[str, int, str], DataFrame] = {}

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

    def read(self, table: str, *, version: int, run_id: str) -> DataFrame:
        """Rows of one run at a pinned version: a later commit changes nothing.

        Rows that this store wrote come from memory, where it keeps them.

        Raises
        ------
        StageError
            When the table or the version is missing.
        """
        if (table, version, run_id) in self._rows:
            return self._rows[table, version, run_id]
        if not self.exists(table):
            raise _missing(table, self.warehouse)
        with one_line(table):
            return delta_tables.rows(self.spark, self.warehouse, _contract(table), run_id, version=version)

    def write(self, table: str, frame: DataFrame, *, run_id: str, few_rows: bool = False) -> int:
        """Replace the rows of a run, unless they are the same; return the version that holds them.

        ``few_rows`` are counted and hashed in one task, which takes half the time that several tasks do.

        Raises
        ------
        BallastError
            When the rows break the contract: a NOT NULL, a CHECK, the key, or another run's id.
        """
        contract = _contract(table)
        self.ensure(table)
        with one_line(table):
            # A checkpoint, not a cache: it also cuts the plan off, which each of the three uses would drag along.
            rows = conform(frame, contract).localCheckpoint()
            fingerprint = fingerprint_of(rows.coalesce(1) if few_rows else rows, contract, run_id)
            known = self._known(table, run_id)
            is_same = known is not None and known[1] == fingerprint
            if known and not is_same:
                self._withdraw(table, run_id)
            version = known[0] if known and is_same else self._replace(table, rows, run_id)
        if self._keeps_rows and not (is_same and contract.volatile):
            self._rows[table, version, run_id] = rows
        self._written[table, run_id] = (version, fingerprint)
        return version

    def release(self, *, keep: Collection[str]) -> None:
        """Forget the rows in memory of all tables but ``keep``."""
        self._rows = {key: rows for key, rows in self._rows.items() if key[0] in keep}

    def write_all(self, frames: Mapping[str, DataFrame], *, run_id: str, few_rows: bool = False) -> dict[str, int]:
        """``write`` several tables, a few at once (most of a small write is waiting); versions by table."""
        self._load_records(run_id)
        with ThreadPoolExecutor(_WRITERS_AT_ONCE) as pool:
            jobs = {
                name: pool.submit(self.write, name, frame, run_id=run_id, few_rows=few_rows)
                for name, frame in frames.items()
            }
        return {name: job.result() for name, job in jobs.items()}

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
            self._put(table, small_frame(self.spark, list(rows), _contract(table).schema), replacing)

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
        if self.run_record(run_id, stage) != record or (run_id, stage) in self._withdrawn:
            self._save(record)
        return record

    def _save(self, record: RunRecord) -> None:
        self.ensure("runs")
        row = {"cluster_id": "*", **{name: getattr(record, name) for name in record.__dataclass_fields__}}
        frame = small_frame(self.spark, [row], _contract("runs").schema)
        where = f"run_id = {literal(record.run_id)} AND stage = {literal(record.stage)}"
        place = (record.run_id, record.stage)
        known = self.run_record(*place) is not None and place not in self._withdrawn
        with one_line("runs"):
            self._put("runs", frame, where if known else None)
        self._records[record.run_id][record.stage] = record
        self._withdrawn.discard(place)

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
