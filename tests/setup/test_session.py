"""The session that all tests share."""

import json
from pathlib import Path
from typing import Any

import pandas as pd
from pyspark.errors.utils import is_debugging_enabled
from pyspark.sql import SparkSession
from pyspark.sql import functions as F


def test_it_writes_delta_and_merges(spark: SparkSession, tmp_path: Path) -> None:
    """A Delta table is written, changed by MERGE and read back."""
    path = str(tmp_path / "table")
    spark.range(3).withColumn("size_bytes", F.lit(1)).write.format("delta").save(path)
    spark.sql(
        f"MERGE INTO delta.`{path}` t USING (SELECT 2L AS id) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET size_bytes = 7"
    )
    rows = spark.read.format("delta").load(path).orderBy("id").collect()
    assert [(row.id, row.size_bytes) for row in rows] == [(0, 1), (1, 1), (2, 7)]


def _name_of_error(frame: pd.DataFrame) -> pd.DataFrame:
    from optimizer.errors import ConfigError

    return frame.assign(name=ConfigError.__name__)


def test_workers_import_our_packages(spark: SparkSession) -> None:
    """A grouped pandas function in a worker process imports from the checkout."""
    rows = spark.range(2).groupBy("id").applyInPandas(_name_of_error, "id long, name string").collect()
    assert {row.name for row in rows} == {"ConfigError"}


def test_the_settings_of_a_run_are_used(spark: SparkSession) -> None:
    """The session uses conf/spark-defaults.conf."""
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.conf.get("spark.sql.execution.arrow.pyspark.fallback.enabled") == "false"
    assert spark.conf.get("spark.sql.execution.arrow.maxBytesPerBatch") == str(2**31 - 1)


def test_call_sites_are_not_recorded(spark: SparkSession) -> None:
    """PySpark does not send the call site of every column to the JVM: that took a third of the driver's CPU time."""
    assert is_debugging_enabled() is False


def test_a_checksum_file_has_no_list_of_files(spark: SparkSession, tmp_path: Path) -> None:
    """A commit's checksum file is written by the configured class and has only counts."""
    spark.range(3).write.format("delta").save(str(tmp_path))
    checksum = json.loads((tmp_path / "_delta_log" / f"{0:020}.crc").read_text())
    assert checksum["numFiles"] > 0
    assert "allFiles" not in checksum
    jvm: Any = spark.sparkContext._jvm
    manager = getattr(jvm, "org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager").create(
        getattr(jvm, "org.apache.hadoop.fs.Path")(str(tmp_path)), spark._jsparkSession.sessionState().newHadoopConf()
    )
    assert manager.getClass().getSimpleName() == "FileSystemBasedCheckpointFileManager"
