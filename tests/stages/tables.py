"""Rows as frames of the tables' types."""

from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession

import schemas
from schemas.spark import schema_of


def table(spark: SparkSession, name: str, rows: Sequence[Any], *, slices: int = 0) -> DataFrame:
    """Rows of a table, spread over a number of partitions if given.

    They are read once: without the checkpoint each job that asks for them would make Spark's rows of them again, which
    takes most of a small test's time.
    """
    frame = spark.createDataFrame(rows, schema_of(schemas.ALL[name]))
    return (frame.repartition(slices) if slices else frame).localCheckpoint()
