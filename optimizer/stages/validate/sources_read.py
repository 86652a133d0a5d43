"""What was read: the sources of each cluster with their times and records."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from optimizer.stages.stage import Frames
from schemas.bronze import SOURCES
from schemas.spark import conform


def sources_read(inputs: Frames) -> DataFrame:
    """Rows of ``sources``, of ``bronze_records`` and ``bronze_metrics``; samples have times of their own."""
    key = ("cluster_id", "run_id", "source")
    records = inputs["bronze_records"].select(*key, "captured_at")
    samples = inputs["bronze_metrics"].select(*key, F.lit(None).cast("timestamp").alias("captured_at"))
    both = records.unionByName(samples).groupBy(*key)
    return conform(both.agg(F.count("*").alias("records"), F.max("captured_at").alias("captured_at")), SOURCES)
