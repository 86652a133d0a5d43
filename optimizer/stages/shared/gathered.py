"""All rows of a cluster in one group, as JSON in one frame; and the tables of a cluster in one row, as arrays."""

from collections.abc import Mapping
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from schemas.keys import CLUSTER_RUN
from schemas.spark import conform, nullable_struct_of
from schemas.table import Table

_KEEP_NULLS = {"ignoreNullFields": "false"}


def gather_rows(frames: Mapping[str, DataFrame]) -> DataFrame:
    """Rows of several tables as JSON in one frame; grouped by cluster, a group has all rows of the cluster."""
    parts = [
        frame.select("cluster_id", F.lit(name).alias("table"), F.to_json(F.struct("*"), _KEEP_NULLS).alias("row"))
        for name, frame in frames.items()
    ]
    return reduce(DataFrame.unionByName, parts)


def rows_field(table: Table) -> T.StructField:
    """A field that has all rows of a table of one cluster, without the columns that name cluster and run."""
    row = nullable_struct_of(column for column in table.columns if column.name not in CLUSTER_RUN)
    return T.StructField(table.name, T.ArrayType(row))


def table_of(stored: DataFrame, table: Table) -> DataFrame:
    """A table from rows with cluster, run and its ``rows_field``."""
    rows = stored.select(*CLUSTER_RUN, F.explode(table.name).alias("row"))
    return conform(rows.select(*CLUSTER_RUN, "row.*"), table)
