"""Rows of the driver as a frame: as they are, and without Python workers."""

from typing import Any

import pytest
from pyspark.sql import SparkSession

from schemas.spark import small_frame

DDL = "name string, count bigint, share double, sizes map<string,bigint>, ids array<int>, holds boolean"
FULL = ("a", 2**60 + 1, 0.25, {"x": 1}, [1, 2], True)
SPARSE: tuple[Any, ...] = ("b", None, None, {}, [], None)


@pytest.mark.parametrize("rows", [[FULL, SPARSE], [SPARSE], []], ids=["full and sparse", "missing values", "none"])
def test_rows_arrive_as_they_are(spark: SparkSession, rows: list[tuple[Any, ...]]) -> None:
    """Integers next to missing values stay integers; an empty frame has the same columns."""
    frame = small_frame(spark, rows, DDL)
    assert [tuple(row) for row in frame.collect()] == rows
    assert frame.schema.simpleString() == f"struct<{DDL.replace(' ', ':').replace(',:', ',')}>"


def test_mappings_need_not_be_in_order(spark: SparkSession) -> None:
    """Each value goes to the column of its name."""
    frame = small_frame(spark, [{"n": 1, "name": "a"}, {"name": "b", "n": None}], "name string, n int")
    assert [tuple(row) for row in frame.collect()] == [("a", 1), ("b", None)]


def test_no_python_worker_hands_them_over(spark: SparkSession) -> None:
    """A plan of Python rows would show as a scan of an existing RDD that a worker pickles again."""
    plan = small_frame(spark, [("a",)], "name string")._jdf.queryExecution().toString()
    assert "ExistingRDD" not in plan
