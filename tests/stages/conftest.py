"""Tables that several tests of stages use."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from optimizer.stages.stage import Frames
from tests.stages import requested_fleet


@pytest.fixture(scope="session")
def fleet(spark: SparkSession) -> Iterator[Frames]:
    """The tables of clusters with a request each."""
    yield requested_fleet.planned(spark)
    spark.catalog.clearCache()
