"""Rows of several tables from one pandas function: they are computed once, and each table selects its own."""

from collections.abc import Mapping, Sequence

import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from optimizer.planning.arrays import with_nulls
from schemas.spark import schema_of
from schemas.table import Table

_TABLE = "table_name"


def schema_of_all(tables: Sequence[Table]) -> T.StructType:
    """The name of the table and the columns of all: those of the others are null in a row."""
    fields = {field.name: field.dataType for table in tables for field in schema_of(table)}
    return T.StructType([T.StructField(name, kind) for name, kind in {_TABLE: T.StringType(), **fields}.items()])


def rows_of_all(frames: Mapping[str, pd.DataFrame], names: Sequence[str], **common: str) -> pd.DataFrame:
    """The rows of all tables with the columns of ``schema_of_all``.

    Parameters
    ----------
    frames : mapping
        Rows by the name of their table.
    names : sequence of str
        Names of all columns.
    common : str
        Values that are the same in every row, by column.
    """
    tagged = [frame.assign(**{_TABLE: name}) for name, frame in frames.items() if len(frame)]
    if not tagged:
        return pd.DataFrame(columns=list(names))
    return with_nulls(pd.concat(tagged).reindex(columns=list(names)).assign(**common))


def split(rows: DataFrame, tables: Sequence[Table]) -> dict[str, DataFrame]:
    """The frame of each table, by its name."""
    return {table.name: rows.filter(F.col(_TABLE) == table.name).select(*table.names) for table in tables}
