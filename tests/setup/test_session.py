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


def test_settings_are_those_of_a_run(spark: SparkSession) -> None:
    """conf/spark-defaults.conf is in force."""
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.conf.get("spark.sql.execution.arrow.pyspark.fallback.enabled") == "false"


def test_the_lines_of_calls_are_not_noted(spark: SparkSession) -> None:
    """PySpark does not ask the JVM for the origin of every column: it took a third of the driver's CPU."""
    assert is_debugging_enabled() is False


def test_a_commit_is_summed_up_without_a_list_of_its_files(spark: SparkSession, tmp_path: Path) -> None:
    """The checksum file is written, by the class that the settings name, and holds counts alone."""
    spark.range(3).write.format("delta").save(str(tmp_path))
    summed_up = json.loads((tmp_path / "_delta_log" / f"{0:020}.crc").read_text())
    assert summed_up["numFiles"] > 0
    assert "allFiles" not in summed_up
    jvm: Any = spark.sparkContext._jvm
    manager = getattr(jvm, "org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager").create(
        getattr(jvm, "org.apache.hadoop.fs.Path")(str(tmp_path)), spark._jsparkSession.sessionState().newHadoopConf()
    )
    assert manager.getClass().getSimpleName() == "FileSystemBasedCheckpointFileManager"
