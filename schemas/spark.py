"""Contracts as Spark schemas, and ``conform``, the last select of every stage."""

from collections.abc import Iterable, Sequence
from typing import Any, cast

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from schemas.table import Column, Table

_TYPES: dict[str, T.DataType] = {
    "string": T.StringType(),
    "int": T.IntegerType(),
    "bigint": T.LongType(),
    "double": T.DoubleType(),
    "boolean": T.BooleanType(),
    "timestamp": T.TimestampType(),
    "array<int>": T.ArrayType(T.IntegerType()),
    "array<bigint>": T.ArrayType(T.LongType()),
    "array<string>": T.ArrayType(T.StringType()),
    "map<string,string>": T.MapType(T.StringType(), T.StringType(), valueContainsNull=False),
    "array<struct<path:string,capacity_bytes:bigint,used_bytes:bigint,logs:int,is_open:boolean>>": T.ArrayType(
        T.StructType()
        .add("path", T.StringType())
        .add("capacity_bytes", T.LongType())
        .add("used_bytes", T.LongType())
        .add("logs", T.IntegerType())
        .add("is_open", T.BooleanType())
    ),
    "array<struct<topic:string,partitions:array<int>>>": T.ArrayType(
        T.StructType().add("topic", T.StringType()).add("partitions", T.ArrayType(T.IntegerType()))
    ),
    "array<struct<wave:int,rack_set_changes:int,rack_list_changes:int,leader_changes:int,copied:int>>": T.ArrayType(
        T.StructType()
        .add("wave", T.IntegerType())
        .add("rack_set_changes", T.IntegerType())
        .add("rack_list_changes", T.IntegerType())
        .add("leader_changes", T.IntegerType())
        .add("copied", T.IntegerType())
    ),
    "map<string,bigint>": T.MapType(T.StringType(), T.LongType(), valueContainsNull=False),
}


def field_of(column: Column) -> T.StructField:
    """A column as a Spark field."""
    return T.StructField(column.name, _TYPES[column.type], column.nullable, {"comment": column.comment})


def struct_of(columns: Iterable[Column]) -> T.StructType:
    """Columns as a Spark schema."""
    return T.StructType([field_of(column) for column in columns])


def nullable_struct_of(columns: Iterable[Column]) -> T.StructType:
    """Columns as a Spark schema with every column nullable: only a write checks for nulls, not the steps before it."""
    return T.StructType([T.StructField(column.name, _TYPES[column.type], True) for column in columns])


def schema_of(table: Table) -> T.StructType:
    """The Spark schema of a table, in column order."""
    return struct_of(table.columns)


def columns_of(schema: T.StructType) -> list[Column]:
    """A Spark schema as columns, of any types."""
    return [Column(f.name, f.dataType.simpleString(), f.metadata.get("comment", ""), f.nullable) for f in schema.fields]


def compute_once(frame: DataFrame) -> DataFrame:
    """Compute a frame now and drop its query plan.

    The rows are in ``spark.checkpoint.dir`` if that is set, else in the executors, and lost with one of them. A cached
    frame would keep its whole plan: analysing it for each use, and looking it up in the cache, took most of the time.
    """
    is_stored = frame.sparkSession.sparkContext.getCheckpointDir()
    return frame.checkpoint() if is_stored else frame.localCheckpoint()


def conform(frame: DataFrame, table: Table) -> DataFrame:
    """Select, order and cast ``frame`` to the columns of ``table``.

    Raises
    ------
    ValueError
        When a column is missing. Extra columns are dropped; missing columns are never filled.
    """
    missing = [name for name in table.names if name not in frame.columns]
    if missing:
        raise ValueError(f"table {table.name}: columns {missing} are missing; the frame has {sorted(frame.columns)}")
    return frame.select(*(F.col(f.name).cast(f.dataType).alias(f.name) for f in schema_of(table).fields))


def small_frame(spark: SparkSession, rows: Sequence[Any], schema: T.StructType | str) -> DataFrame:
    """A frame of rows in the driver's memory, each a mapping or a tuple in the order of ``schema``.

    It uses Arrow: otherwise Spark starts a kind of Python worker that nothing else here needs.
    """
    import pandas as pd  # imported here: workers that parse files import this module but do not need pandas

    fields = cast(T.StructType, T.StructType.fromDDL(schema)) if isinstance(schema, str) else schema
    if not rows:
        return spark.range(0).select(*(F.lit(None).cast(f.dataType).alias(f.name) for f in fields))
    return spark.createDataFrame(pd.DataFrame(list(rows), columns=fields.fieldNames(), dtype=object), fields)
