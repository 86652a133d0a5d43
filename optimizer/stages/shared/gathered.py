"""All rows of a cluster in one group: the rows of several tables as JSON in one frame."""

from collections.abc import Mapping
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

_KEEP_NULLS = {"ignoreNullFields": "false"}


def gather_rows(frames: Mapping[str, DataFrame]) -> DataFrame:
    """Rows of several tables as JSON in one frame; grouped by cluster, a group has all rows of the cluster."""
    parts = [
        frame.select("cluster_id", F.lit(name).alias("table"), F.to_json(F.struct("*"), _KEEP_NULLS).alias("row"))
        for name, frame in frames.items()
    ]
    return reduce(DataFrame.unionByName, parts)
