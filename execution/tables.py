"""Tables of the warehouse without Spark: rows of one cluster, and appends that no other process can have overtaken."""

import json
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, QueryBuilder, write_deltalake
from deltalake.exceptions import CommitFailedError, TableNotFoundError

import schemas
from optimizer import locks, places
from optimizer.contracts import missing_columns
from optimizer.errors import BallastError, StageError
from schemas.table import PROPERTIES, Column, Table

Row = Mapping[str, Any]
# As Spark's own to_arrow_type has them.
_ARROW: dict[str, pa.DataType] = {
    "string": pa.string(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "array<int>": pa.list_(pa.int32()),
    "array<string>": pa.list_(pa.string()),
}


class Overtaken(BallastError):
    """Another process wrote the table since it was read."""


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

    def rows(self, table: str, **equal: str | int) -> list[dict[str, Any]]:
        """The rows of a table as it is now whose columns have these values; none where there is no table."""
        found = self._table(table)
        return self._selected(table, found, equal) if found else []

    def needed(self, table: str, **equal: str | int) -> list[dict[str, Any]]:
        """``rows`` of a table that a job must have written.

        Raises
        ------
        StageError
            When there is no such table.
        """
        found = self._table(table)
        if found is None:
            raise StageError(f"there is no table {table} in {self.path}: name the warehouse of a run by --warehouse")
        return self._selected(table, found, equal)

    def written_at(self, table: str, run_ids: Iterable[str]) -> dict[str, datetime]:
        """When the newest rows of each run were written, by the times of the table's files in Delta's log.

        A run is missing where Delta's statistics allow a file rows of several runs: after an OPTIMIZE, or where run ids
        begin with the same 32 characters, which is all that Spark keeps of them there.

        Parameters
        ----------
        run_ids : iterable of str
            All runs of the table.
        """
        found, known = self._table(table), sorted(set(run_ids))
        result: dict[str, datetime] = {}
        for file in pa.table(found.get_add_actions(flatten=True)).to_pylist() if found else []:
            lowest, highest = file.get("min.run_id"), file.get("max.run_id")
            # Spark shortens long texts in these statistics: they are bounds, not run ids.
            inside = known[bisect_left(known, lowest) : bisect_right(known, highest)] if lowest and highest else []
            if len(inside) == 1:
                time = datetime.fromtimestamp(file["modification_time"] / 1000, tz=UTC)
                result[inside[0]] = max(time, result.get(inside[0], time))
        return result

    def version(self, table: str) -> int:
        """Version of a table, made now where it is missing."""
        found = self._table(table) or self._created(schemas.ALL[table])
        return int(found.version())

    def append(self, table: str, rows: Iterable[Row], *, after: int | None = None) -> None:
        """Add rows, and the columns that the table of an older release lacks; with ``after`` only where it still has
        that version.

        Raises
        ------
        Overtaken
        ConfigError
            When the table differs from its contract by more than nullable columns.
        """
        contract = schemas.ALL[table]
        found = self._table(table, after) or self._created(contract)
        known = _columns(found)
        missing_columns(contract, known, self.path)
        content = pa.Table.from_pylist([dict(row) for row in rows], schema=_arrow(contract, known))
        once = CommitProperties(max_commit_retries=0) if after is not None else None
        try:
            write_deltalake(found, content, mode="append", schema_mode="merge", commit_properties=once)
        except CommitFailedError as error:
            raise Overtaken(f"another process wrote table {table} of {self.path} at the same time") from error

    def _table(self, table: str, version: int | None = None) -> DeltaTable | None:
        try:
            return DeltaTable(f"{self.path}/{table}", version=version)
        except TableNotFoundError:
            return None

    def _selected(self, table: str, found: DeltaTable, equal: Mapping[str, str | int]) -> list[dict[str, Any]]:
        """Rows with these values; None in columns that the table of an older release lacks."""
        missing = missing_columns(schemas.ALL[table], _columns(found), self.path)
        empty = dict.fromkeys(column.name for column in missing)
        # Arrow's own readers fail on files that deltalake has written anew (a string view is no string to them).
        wanted = " AND ".join(f"{name} = {_literal(value)}" for name, value in equal.items()) or "true"
        read = QueryBuilder().register("found", found).execute(f"SELECT * FROM found WHERE {wanted}")
        return [{**row, **empty} for row in pa.table(read.read_all()).to_pylist()]

    def _created(self, contract: Table) -> DeltaTable:
        path = f"{self.path}/{contract.name}"
        schema = _arrow(contract)
        if self.folder is None:
            return _create(path, schema, contract.doc)
        with locks.exclusive(places.lock_of_table(self.folder, contract.name)):
            return _create(path, schema, contract.doc)


def _literal(value: str | int) -> str:
    return str(value) if isinstance(value, int) else "'" + value.replace("'", "''") + "'"


def _create(path: str, schema: pa.Schema, doc: str) -> DeltaTable:
    return DeltaTable.create(path, schema=schema, mode="ignore", configuration=PROPERTIES, description=doc)


def _columns(found: DeltaTable) -> list[Column]:
    """The columns of a table, with Spark's names of types."""
    return [
        Column(field["name"], spark_type(field["type"]), field["metadata"].get("comment", ""), field["nullable"])
        for field in json.loads(found.schema().to_json())["fields"]
    ]


def spark_type(of_delta: str | Mapping[str, Any]) -> str:
    """Spark's name of a type in Delta's JSON."""
    if isinstance(of_delta, str):
        return {"integer": "int", "long": "bigint"}.get(of_delta, of_delta)
    if of_delta["type"] == "struct":
        fields = (f"{field['name']}:{spark_type(field['type'])}" for field in of_delta["fields"])
        return f"struct<{','.join(fields)}>"
    parts = (of_delta[part] for part in ("elementType", "keyType", "valueType") if part in of_delta)
    return f"{of_delta['type']}<{','.join(map(spark_type, parts))}>"


def _arrow(contract: Table, known: Iterable[Column] = ()) -> pa.Schema:
    """The columns of a contract with their comments; of those that a table has, its own: deltalake merges no others."""
    of = {column.name: column.comment for column in (*contract.columns, *known)}
    return pa.schema(
        pa.field(c.name, _ARROW[c.type], c.nullable, metadata={"comment": of[c.name]}) for c in contract.columns
    )
