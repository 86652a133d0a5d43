"""Counts in a query read as counts on a page."""

from pyspark.sql import SparkSession

from optimizer import units
from optimizer.stages.shared.sql_words import agree, plural


def test_a_query_counts_as_pages_do(spark: SparkSession) -> None:
    """None, one and two, with the words that go with them."""
    rows = spark.range(3).selectExpr("id", plural("id", "broker"), agree("id", "is", "are")).collect()
    assert [tuple(row)[1:] for row in sorted(rows)] == [
        (units.plural(n, "broker"), units.agree(n, "is", "are")) for n in range(3)
    ]
