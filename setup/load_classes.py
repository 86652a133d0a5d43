"""Uses Spark and Delta as a run does, on a few rows: ``setup/classes.py`` archives the classes that this loads.

``spark-submit`` runs this file. Nothing imports it, because the set-up itself runs without any packages.
"""

import sys
from collections.abc import Iterable
from pathlib import Path

import pandas as pd
import pyarrow as pa
from delta.tables import DeltaTable
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql import types as T

_ROW = "id bigint, cluster_id string, name string, parts array<bigint>"
_COLUMNS = (
    T.StructField("id", T.LongType(), False, {"comment": "a number"}),
    T.StructField("cluster_id", T.StringType()),
    T.StructField("name", T.StringType()),
    T.StructField("parts", T.ArrayType(T.LongType())),
)


def _batches(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
    yield from batches


def _return_rows(rows: pd.DataFrame) -> pd.DataFrame:
    return rows


def _return_left_rows(rows: pd.DataFrame, _: pd.DataFrame) -> pd.DataFrame:
    return rows


def _records(spark: SparkSession, folder: Path) -> DataFrame:
    """Rows from files; loads readers, parsers, JSON and windows."""
    (folder / "input.json").write_text('{"id": 1}\n', encoding="utf-8")
    read = spark.read.format("binaryFile").option("recursiveFileLookup", "true").load(str(folder))
    read.select("path", "modificationTime").collect()
    texts = read.select(F.col("path").alias("name"), F.col("content").cast("string").alias("text"))
    parsed = texts.mapInArrow(_batches, "name string, text string")
    records = parsed.withColumn("fields", F.from_json("text", "id bigint, x array<bigint>"))
    ordered = Window.partitionBy("name").orderBy(F.desc("text"), "name")
    return records.withColumns({"position": F.row_number().over(ordered), "first": F.first("text").over(ordered)})


def _rows(records: DataFrame) -> DataFrame:
    """Rows of ``_ROW``; loads aggregates and joins."""
    lists = records.groupBy("name").agg(
        F.array_sort(F.collect_set("position")).alias("positions"),
        F.min(F.struct("name", "text")).alias("least"),
        F.max_by("text", "position").alias("last"),
        F.count_distinct("text").alias("texts"),
    )
    joined = records.join(F.broadcast(lists), "name", "left").join(lists.drop("least"), ["name", "positions"], "full")
    number = F.explode(F.sequence(F.lit(1), F.lit(4)).cast("array<bigint>")).alias("id")
    with_json = joined.select("name", number, F.to_json(F.struct("position", "first")).alias("json"))
    return with_json.select(
        "id",
        F.lit("c").alias("cluster_id"),
        F.concat_ws("-", "name", F.coalesce("json", F.lit("none"))).alias("name"),
        F.array("id").alias("parts"),
    )


def _write_table(spark: SparkSession, rows: DataFrame, path: str) -> DataFrame:
    """The rows of a Delta table with a constraint, after an append and a replacement."""
    builder = DeltaTable.createIfNotExists(spark).location(path).addColumns(T.StructType([*_COLUMNS])).comment("rows")
    builder.property("delta.constraints.positive", "id >= 0").property("delta.enableDeletionVectors", "false").execute()
    content = F.sum(F.xxhash64("id", "name").cast("decimal(38,0)"))
    rows.agg(content, F.count_distinct("id"), F.count_if(F.col("id") == 1)).first()
    rows.write.format("delta").mode("append").save(path)
    rows.write.format("delta").mode("overwrite").option("replaceWhere", "cluster_id = 'c'").save(path)
    return spark.read.format("delta").option("versionAsOf", 2).load(path).where("cluster_id = 'c'")


def load(spark: SparkSession, folder: Path) -> None:
    """Run queries that load the classes of a run."""
    rows = _rows(_records(spark, folder).localCheckpoint()).localCheckpoint()
    stored = _write_table(spark, rows, str(folder / "table"))
    hosts = spark.createDataFrame(pd.DataFrame({"cluster_id": ["c"], "host": [1]}), "cluster_id string, host bigint")
    grouped = stored.groupBy("cluster_id").applyInPandas(_return_rows, _ROW).persist()
    pairs = grouped.groupBy("cluster_id").cogroup(hosts.groupBy("cluster_id"))
    pairs.applyInPandas(_return_left_rows, _ROW).repartition(1).sortWithinPartitions("id").toPandas()
    spark.catalog.clearCache()
    list(stored.orderBy("id").toLocalIterator())


if __name__ == "__main__":
    session = SparkSession.builder.getOrCreate()
    load(session, Path(sys.argv[1]))
    session.stop()
