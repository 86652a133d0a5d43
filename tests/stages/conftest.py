"""What several tests of stages look at."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from optimizer.stages.stage import Frames
from tests.stages import asked


@pytest.fixture(scope="session")
def fleet(spark: SparkSession) -> Iterator[Frames]:
    """The tables of clusters that are asked something each."""
    yield asked.planned(spark)
    spark.catalog.clearCache()
