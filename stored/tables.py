"""Reads and appends Delta tables without Spark. An append can fail if another process has written in between."""

import json
import re
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime
from typing import Any, NamedTuple
from uuid import uuid4

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, QueryBuilder, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError

import schemas
from optimizer import locks, places
from optimizer.contracts import missing_columns
from optimizer.errors import BallastError, StageError
from schemas.table import PROPERTIES, Column, Table

Row = Mapping[str, Any]
_TRIES = 5  # of an append: rows of the table may be deleted meanwhile (./ballast tidy)
_NAME = "ballastCommit"  # a random name of each append, in Delta's log
_SHORTENED = 32  # characters: Spark shortens longer texts in statistics
# The same types as Spark's to_arrow_type.
_ARROW: dict[str, pa.DataType] = {
    "string": pa.string(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "array<int>": pa.list_(pa.int32()),
    "array<bigint>": pa.list_(pa.int64()),
    "array<string>": pa.list_(pa.string()),
    "map<string,string>": pa.map_(pa.string(), pa.string()),
    "map<string,bigint>": pa.map_(pa.string(), pa.int64()),
    "array<struct<path:string,capacity_bytes:bigint,used_bytes:bigint,logs:int,is_open:boolean>>": pa.list_(
        pa.struct(
            [
                ("path", pa.string()),
                ("capacity_bytes", pa.int64()),
                ("used_bytes", pa.int64()),
                ("logs", pa.int32()),
                ("is_open", pa.bool_()),
            ]
        )
    ),
    "array<struct<topic:string,partitions:array<int>>>": pa.list_(
        pa.struct([("topic", pa.string()), ("partitions", pa.list_(pa.int32()))])
    ),
    "array<struct<wave:int,rack_set_changes:int,rack_list_changes:int,leader_changes:int,copied:int>>": pa.list_(
        pa.struct(
            [
                ("wave", pa.int32()),
                ("rack_set_changes", pa.int32()),
                ("rack_list_changes", pa.int32()),
                ("leader_changes", pa.int32()),
                ("copied", pa.int32()),
            ]
        )
    ),
}


class File(NamedTuple):
    """A data file of a table.

    Parameters
    ----------
    path : str
        In the table's folder.
    runs : list of str
        The runs of which it may have rows.
    has_others : bool
        Whether it may have rows of other runs, too.
    written_at : datetime
    """

    path: str
    runs: list[str]
    has_others: bool
    written_at: datetime


class Overtaken(BallastError):
    """Another process has written the table since it was read."""


class VersionGone(BallastError):
    """A version of a table that cannot be read any more: a vacuum has removed its files, or Delta its log."""


class Warehouse:
    """The Delta tables of one warehouse.

    Parameters
    ----------
    path : str
        Folder or URI.
    """

    def __init__(self, path: str) -> None:
        folder = places.local(path)
        self.path = str(folder) if folder else path.rstrip("/")
        self.folder = folder

    def rows(self, table: str, *, version: int | None = None, **equal: str | int) -> list[dict[str, Any]]:
        """The rows of a table with these column values; none if the table does not exist.

        Parameters
        ----------
        version : int, optional
            Read this version of the table; the newest by default.

        Raises
        ------
        VersionGone
            When this version of the table cannot be read any more.
        """
        rows = self._read(table, version, equal)
        return rows.to_pylist() if rows is not None else []

    def table(
        self, name: str, /, *, columns: Sequence[str] = (), version: int | None = None, **equal: str | int
    ) -> pa.Table:
        """``rows`` as an Arrow table, for tables with many rows; empty if the table does not exist.

        Parameters
        ----------
        columns : sequence of str
            Columns of the result, in this order; all columns of the contract by default.
        version : int, optional
            Read this version of the table; the newest by default.

        Raises
        ------
        VersionGone
            When this version of the table cannot be read any more.
        """
        contract = schemas.ALL[name]
        names = list(columns) or contract.names
        schema = pa.schema([(each, _ARROW[contract.type_of(each)]) for each in names])
        rows = self._read(name, version, equal, names)
        # pandas accepts no lists of the type string view, which the query returns.
        return rows.cast(schema) if rows is not None else schema.empty_table()

    def required_rows(self, table: str, **equal: str | int) -> list[dict[str, Any]]:
        """``rows`` of a table that must exist.

        Raises
        ------
        StageError
            When the table does not exist.
        """
        delta = self.open_table(table)
        if delta is None:
            raise StageError(
                f"there is no table {table} in {self.path}: give the warehouse of the run with --warehouse"
            )
        return self._select(table, delta, equal).to_pylist()

    def written_at(self, table: str, run_ids: Iterable[str]) -> dict[str, datetime]:
        """When the newest rows of each run were written: the times of the table's files in Delta's log.

        The result lacks a run if Delta's statistics do not show which run a file belongs to. This happens after an
        OPTIMIZE, and if run ids have the same first 32 characters, because Spark keeps only these in statistics.

        Parameters
        ----------
        run_ids : iterable of str
            All run ids of the table.
        """
        result: dict[str, datetime] = {}
        for file in self.files(table, run_ids):
            if len(file.runs) == 1:
                result[file.runs[0]] = max(file.written_at, result.get(file.runs[0], file.written_at))
        return result

    def files(self, table: str, run_ids: Iterable[str]) -> list[File]:
        """The files of a table that may have rows of these runs, by Delta's statistics."""
        delta = self.open_table(table)
        return files_of(delta, run_ids) if delta else []

    def version(self, table: str, *, creates: bool = True) -> int:
        """Version of a table; a missing one is created, or has the version -1."""
        delta = self.open_table(table) or (self._create(schemas.ALL[table]) if creates else None)
        return int(delta.version()) if delta else -1

    def append(self, table: str, rows: Collection[Row], *, after: int | None = None) -> None:
        """Append rows; a table of an older release first gets the columns that it lacks.

        Parameters
        ----------
        after : int, optional
            Append only if the table still has this version.

        Raises
        ------
        Overtaken
            When another process has written the table since; or without ``after``, in every try.
        ConfigError
            When the table differs from its contract by more than missing nullable columns.
        """
        tries = 1 if after is not None else _TRIES
        name = uuid4().hex
        for number in range(1, tries + 1):
            try:
                self._append(table, rows, after, name)
                return
            except CommitFailedError as error:
                if after is not None and self._has_commit(table, after, name):
                    return
                if number == tries:
                    message = f"another process wrote table {table} of {self.path} at the same time: try again"
                    raise Overtaken(message) from error

    def _has_commit(self, table: str, after: int, name: str) -> bool:
        """Whether a commit after this version is ours: if its answer was lost, the store refuses it when repeated."""
        delta = self.open_table(table)
        commits = delta.history(delta.version() - after) if delta else []
        return any(commit.get(_NAME) == name for commit in commits)

    def _append(self, table: str, rows: Collection[Row], after: int | None, name: str) -> None:
        contract = schemas.ALL[table]
        delta = self.open_table(table, after) or self._create(contract)
        existing = _columns(delta)
        missing_columns(contract, existing, self.path)
        content = pa.Table.from_pylist([dict(row) for row in rows], schema=_arrow_schema(contract, existing))
        commit = CommitProperties(custom_metadata={_NAME: name}, max_commit_retries=None if after is None else 0)
        write_deltalake(delta, content, mode="append", schema_mode="merge", commit_properties=commit)

    def open_table(self, table: str, version: int | None = None) -> DeltaTable | None:
        """A table, by default its newest version; None if it does not exist."""
        try:
            return DeltaTable(f"{self.path}/{table}", version=version)
        except TableNotFoundError:
            return None

    def _read(
        self, table: str, version: int | None, equal: Mapping[str, str | int], columns: Sequence[str] = ()
    ) -> pa.Table | None:
        """Rows with these values; None if the table does not exist."""
        if version is None:
            delta = self.open_table(table)
            return self._select(table, delta, equal, columns) if delta else None
        try:
            return self._select(table, DeltaTable(f"{self.path}/{table}", version=version), equal, columns)
        except BallastError:
            raise
        except Exception as error:  # DeltaError; OSError if the log of the version is gone
            message = f"version {version} of table {table} in {self.path} cannot be read: {one_line(error)}"
            raise VersionGone(message) from error

    def _select(
        self, table: str, delta: DeltaTable, equal: Mapping[str, str | int], columns: Sequence[str] = ()
    ) -> pa.Table:
        """Rows with these values; columns that the table of an older release lacks are null."""
        missing = {c.name: c for c in missing_columns(schemas.ALL[table], _columns(delta), self.path)}
        condition = " AND ".join(f"{name} = {literal(value)}" for name, value in equal.items()) or "true"
        selected = ", ".join(f'"{name}"' for name in columns if name not in missing) if columns else "*"
        # Arrow's own readers fail on files that deltalake has rewritten: they reject the type string view.
        try:
            result = QueryBuilder().register("t", delta).execute(f"SELECT {selected or '1'} FROM t WHERE {condition}")
            rows = pa.table(result.read_all())
        except Exception as error:  # deltalake raises Exception itself
            raise DeltaError(str(error)) from error
        for name in [name for name in missing if not columns or name in columns]:
            rows = rows.append_column(name, pa.nulls(len(rows), _ARROW[missing[name].type]))
        return rows.select(list(columns)) if columns else rows

    def _create(self, contract: Table) -> DeltaTable:
        path, schema = f"{self.path}/{contract.name}", _arrow_schema(contract)
        with self.locked(contract.name):
            return _create_table(path, schema, contract.doc)

    def locked(self, table: str) -> AbstractContextManager[None]:
        """Lock a table of a local warehouse against jobs, and against other processes that create or clean it."""
        return locks.exclusive(places.lock_of_table(self.folder, table)) if self.folder else nullcontext()


def files_of(delta: DeltaTable, run_ids: Iterable[str]) -> list[File]:
    """The files of a version of a table that may have rows of these runs, by Delta's statistics."""
    known, files = sorted(set(run_ids)), []
    for file in pa.table(delta.get_add_actions(flatten=True)).to_pylist():
        lowest, highest = file.get("min.run_id"), file.get("max.run_id")
        # Spark shortens long texts in statistics: these are bounds, not run ids.
        runs = known[bisect_left(known, lowest) : bisect_right(known, highest)] if lowest and highest else known
        if runs:
            is_of_one = lowest == highest and len(runs[0]) < _SHORTENED
            time = datetime.fromtimestamp(file["modification_time"] / 1000, tz=UTC)
            files.append(File(file["path"], runs, not is_of_one, time))
    return files


def one_line(error: Exception) -> str:
    """An error of deltalake without colours and line breaks; of a store's answer in XML, only code and message."""
    text = " ".join(re.sub(r"\x1b\[\d*m", "", str(error)).split()).replace(" ↳ ", ": ")
    return re.sub(r"<\?xml.*?<Code>(.*?)</Code>(?:.*?<Message>(.*?)</Message>)?.*", r"\1 \2", text).strip()


def literal(value: str | int) -> str:
    """A value in SQL."""
    return str(value) if isinstance(value, int) else "'" + value.replace("'", "''") + "'"


def _create_table(path: str, schema: pa.Schema, doc: str) -> DeltaTable:
    return DeltaTable.create(path, schema=schema, mode="ignore", configuration=PROPERTIES, description=doc)


def _columns(delta: DeltaTable) -> list[Column]:
    """The columns of a table, with Spark's type names."""
    return [
        Column(field["name"], spark_type(field["type"]), field["metadata"].get("comment", ""), field["nullable"])
        for field in json.loads(delta.schema().to_json())["fields"]
    ]


def spark_type(delta_type: str | Mapping[str, Any]) -> str:
    """Spark's name for a type in Delta's JSON schema."""
    if isinstance(delta_type, str):
        return {"integer": "int", "long": "bigint"}.get(delta_type, delta_type)
    if delta_type["type"] == "struct":
        fields = (f"{field['name']}:{spark_type(field['type'])}" for field in delta_type["fields"])
        return f"struct<{','.join(fields)}>"
    parts = (delta_type[part] for part in ("elementType", "keyType", "valueType") if part in delta_type)
    return f"{delta_type['type']}<{','.join(map(spark_type, parts))}>"


def _arrow_schema(contract: Table, existing: Iterable[Column] = ()) -> pa.Schema:
    """The columns of a contract; existing columns keep their comments, because deltalake merges no other schema."""
    comments = {column.name: column.comment for column in (*contract.columns, *existing)}
    return pa.schema(
        pa.field(c.name, _ARROW[c.type], c.nullable, metadata={"comment": comments[c.name]}) for c in contract.columns
    )
