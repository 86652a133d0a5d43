"""The contract of one Delta table: columns, key, checks; and ``conform``, the last select of every stage."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, cast

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

# Of every table. People read them with engines that can't follow deletion vectors, and return nulls under column
# mapping. Reads select by run: statistics of the first two columns (cluster and run) are all that skips a file.
PROPERTIES = {"delta.enableDeletionVectors": "false", "delta.dataSkippingNumIndexedCols": "2"}


@dataclass(frozen=True)
class Table:
    """A Delta table.

    Parameters
    ----------
    name : str
        Folder name below the warehouse.
    doc : str
        One sentence: what a row is.
    columns : tuple of StructField
        In order; ``nullable=False`` becomes NOT NULL; the comment is the field's metadata ``comment``.
    key : tuple of str
        Columns that identify a row within a run; rows are unique on ``cluster_id, run_id`` and these.
    checks : tuple of (name, SQL)
        CHECK constraints.
    volatile : tuple of str
        Columns that may differ between two identical runs (measured seconds); equality of reruns leaves them out.
    """

    name: str
    doc: str
    columns: tuple[T.StructField, ...]
    key: tuple[str, ...]
    checks: tuple[tuple[str, str], ...] = ()
    volatile: tuple[str, ...] = ()

    @property
    def schema(self) -> T.StructType:
        """The StructType, in column order."""
        return T.StructType(list(self.columns))

    @property
    def full_key(self) -> tuple[str, ...]:
        """The key across clusters and runs."""
        return ("cluster_id", "run_id", *self.key)


def column(name: str, dtype: T.DataType, comment: str, *, nullable: bool = False) -> T.StructField:
    """A documented column; NOT NULL unless said otherwise."""
    return T.StructField(name, dtype, nullable, {"comment": comment})


def keyed(*columns: T.StructField) -> tuple[T.StructField, ...]:
    """Columns of a table behind the two that every table starts with."""
    return (
        column("cluster_id", T.StringType(), "cluster that the row belongs to"),
        column("run_id", T.StringType(), "run that wrote the row"),
        *columns,
    )


def conform(frame: DataFrame, table: Table) -> DataFrame:
    """Select, order and cast ``frame`` to the columns of ``table``.

    Raises
    ------
    ValueError
        When a column is missing; a surplus column is dropped on purpose, a missing one never filled.
    """
    missing = [c.name for c in table.columns if c.name not in frame.columns]
    if missing:
        raise ValueError(f"table {table.name}: columns {missing} are missing; the frame has {sorted(frame.columns)}")
    return frame.select(*(F.col(c.name).cast(c.dataType).alias(c.name) for c in table.columns))


def small_frame(spark: SparkSession, rows: Sequence[Any], schema: T.StructType | str) -> DataFrame:
    """A frame of rows that the driver holds, each a mapping or a tuple in the order of ``schema``.

    Handed over by Arrow: Spark sends other rows through Python workers of a kind that nothing else here needs.
    """
    import pandas as pd  # here, for workers that parse files import this module and have no use for it

    fields = cast(T.StructType, T.StructType.fromDDL(schema)) if isinstance(schema, str) else schema
    if not rows:
        return spark.range(0).select(*(F.lit(None).cast(f.dataType).alias(f.name) for f in fields))
    return spark.createDataFrame(pd.DataFrame(list(rows), columns=fields.fieldNames(), dtype=object), fields)


def by_name(tables: Iterable[Table]) -> dict[str, Table]:
    """Tables by their names."""
    return {table.name: table for table in tables}
