"""The contract of one Delta table: columns, key, checks. Only ``schemas/spark.py`` needs Spark."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from schemas.keys import CLUSTER_RUN

# Names of Spark types.
Type = Literal[
    "string",
    "int",
    "bigint",
    "double",
    "boolean",
    "timestamp",
    "array<int>",
    "array<bigint>",
    "array<string>",
    "array<struct<path:string,capacity_bytes:bigint,used_bytes:bigint,logs:int,is_open:boolean>>",
    "array<struct<topic:string,partitions:array<int>>>",
    "array<struct<wave:int,rack_set_changes:int,rack_list_changes:int,leader_changes:int,copied:int>>",
    "map<string,string>",
    "map<string,bigint>",
]
# Of every table. No deletion vectors and no column mapping: some engines that read the tables do not support the first
# and return nulls with the second. Reads select by cluster and run: only statistics of these two columns skip files.
PROPERTIES = {"delta.enableDeletionVectors": "false", "delta.dataSkippingNumIndexedCols": "2"}


@dataclass(frozen=True)
class Column:
    """A documented column; NOT NULL unless ``nullable``."""

    name: str
    type: str
    comment: str = ""
    nullable: bool = False

    def __str__(self) -> str:
        return self.type + ("" if self.nullable else " NOT NULL")


def column(name: str, type_: Type, comment: str, *, nullable: bool = False) -> Column:
    """A column of a contract."""
    return Column(name, type_, comment, nullable)


@dataclass(frozen=True)
class Table:
    """A Delta table.

    Parameters
    ----------
    name : str
        Folder name below the warehouse.
    doc : str
        One sentence that says what a row is.
    columns : tuple of Column
        In order.
    key : tuple of str
        Columns that identify a row within a cluster and run.
    checks : tuple of (name, SQL)
        CHECK constraints.
    volatile : tuple of str
        Columns that may differ between two identical runs (measured seconds); comparisons of runs ignore them.
    """

    name: str
    doc: str
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    checks: tuple[tuple[str, str], ...] = ()
    volatile: tuple[str, ...] = ()

    @property
    def names(self) -> list[str]:
        """Names of the columns, in order."""
        return [c.name for c in self.columns]

    @property
    def full_key(self) -> tuple[str, ...]:
        """The key across clusters and runs."""
        return (*CLUSTER_RUN, *self.key)

    def type_of(self, column: str) -> str:
        """Type of a column."""
        return next(c.type for c in self.columns if c.name == column)


def keyed(*columns: Column) -> tuple[Column, ...]:
    """Columns of a table, after the two with which every table starts."""
    return (
        column("cluster_id", "string", "cluster that the row belongs to"),
        column("run_id", "string", "run that wrote the row"),
        *columns,
    )


def by_name(tables: Iterable[Table]) -> dict[str, Table]:
    """Tables by their names."""
    return {table.name: table for table in tables}
