"""Files of metrics -> bronze_metrics and quarantined rows; every rule is a column expression."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from urllib.parse import unquote, urlsplit

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql import types as T

from optimizer.errors import InputError
from optimizer.stages.ingest.metric_rules import (
    Slot,
    location_problems,
    problem,
    slot_problems,
    typed_location,
    value_of,
)
from schemas import bronze
from schemas.spark import conform, small_frame
from sources import metrics_csv
from sources.record import UNREADABLE_FILE

HEAD_LINES = 50  # lines in which the header of a CSV file must be
_PATTERN = re.compile(r"([\[\]{}*?\\])")
_BOM = "\ufeff"
_MEASURED = (
    "source string, line long, payload string, topic string, partition int, broker_id int, observed_at timestamp, "
    "instance string, "
    "slots array<struct<metric: string, value: double>>, "
    "problems array<struct<rule: string, severity: string, reason: string, remedy: string>>, is_located boolean"
)


@dataclass(frozen=True)
class _Table:
    """Files with the same header: the header line ('' for Parquet) and the names of the columns."""

    header: str
    names: tuple[str, ...]


def read_metrics(
    spark: SparkSession, paths: Sequence[str], *, cluster_id: str, run_id: str, root: str = ""
) -> tuple[DataFrame, DataFrame]:
    """Read tables of metrics.

    Parameters
    ----------
    paths : sequence of str
        CSV files (also compressed), and Parquet files or folders with a name that ends with ``.parquet``.
    root : str, optional
        Folder that ``source`` is relative to; for files outside it ``source`` is the file's name.

    Returns
    -------
    (bronze_metrics, quarantine)
        The second has a row for each rule that a row breaks, and one for each file with an unusable header.
    """
    tables = {path: _table(spark, path) for path in sorted(set(paths))}
    frames = [small_frame(spark, [], _MEASURED)]
    unusable: list[tuple[str, str, str]] = []
    for table in sorted(set(tables.values()), key=lambda t: (t.header, t.names)):
        files = [path for path, table_of_path in tables.items() if table_of_path == table]
        try:
            columns = metrics_csv.map_columns(table.names)
        except InputError as error:
            unusable += [(_source(path, root), str(error), table.header or ", ".join(table.names)) for path in files]
            continue
        rows = _csv_rows(spark, files, table, root) if table.header else _parquet_rows(spark, files, table, root)
        frames.append(_measure(rows, columns))
    measured = reduce(DataFrame.unionByName, frames)
    ids = {"cluster_id": F.lit(cluster_id), "run_id": F.lit(run_id)}
    quarantine = _quarantine(spark, measured, unusable).withColumns(ids)
    return _samples(measured.withColumns(ids)), conform(quarantine, bronze.QUARANTINE)


def _table(spark: SparkSession, path: str) -> _Table:
    if path.rstrip("/").endswith(".parquet"):
        return _Table("", tuple(spark.read.parquet(literal_path(path)).columns))
    for row in spark.read.text(literal_path(path)).head(HEAD_LINES):
        line = row.value.removeprefix(_BOM).strip()
        if line and not line.startswith("#"):
            return _Table(line, tuple(metrics_csv.split_header(line)))
    return _Table("", ())


def literal_path(path: str) -> str:
    """The path with escapes: Spark would read brackets, braces, stars and question marks as patterns."""
    return _PATTERN.sub(r"\\\1", path)


def _plain(path: str) -> str:
    return unquote(urlsplit(path).path) if ":/" in path else path


def _source(path: str, root: str) -> str:
    """The path below ``root``, else the file's name."""
    plain, prefix = _plain(path).rstrip("/"), _plain(root).rstrip("/") + "/"
    return plain.removeprefix(prefix) if root and plain.startswith(prefix) else plain.rpartition("/")[2]


def _source_column(root: str) -> Column:
    """``_source`` of a row's file as a column; Spark gives a URI in which only some characters are encoded."""
    decoded = F.url_decode(F.replace(F.col("_metadata.file_path"), F.lit("+"), F.lit("%2B")))
    plain = F.regexp_replace(decoded, "^[a-z0-9]+:(//[^/]*)?/+", "/")
    prefix = F.lit(_plain(root).rstrip("/") + "/")
    below = F.substring(plain, F.length(prefix) + 1, F.length(plain))
    name = F.substring_index(plain, "/", -1)
    return F.when(F.lit(bool(root)) & F.startswith(plain, prefix), below).otherwise(name)


def _csv_rows(spark: SparkSession, paths: Sequence[str], table: _Table, root: str) -> DataFrame:
    """Rows of CSV files: source, line, payload (the line), columns as ``c``; without blank lines, comments, headers."""
    fields = [T.StructField(f"c{i}", T.StringType()) for i in range(len(table.names))]
    schema = T.StructType([*fields, T.StructField("broken", T.StringType())])
    options = {"sep": metrics_csv.delimiter(table.header), "columnNameOfCorruptRecord": "broken"}
    text = F.trim(F.replace("value", F.lit(_BOM), F.lit("")))
    content = (text != "") & (text != F.lit(table.header)) & ~F.startswith(text, F.lit("#"))
    parsed = F.from_csv("value", ", ".join(f"{f.name} string" for f in schema), options)
    lines = _numbered_lines(spark, paths, root)
    return lines.where(content).select("source", "line", F.col("value").alias("payload"), parsed.alias("c"))


def _numbered_lines(spark: SparkSession, paths: Sequence[str], root: str) -> DataFrame:
    """Lines of text files with their numbers, from 1, even if Spark splits a file.

    A task numbers the lines of its split; an extra pass counts the lines before each split.
    """
    split = ("path", "start")
    lines = spark.read.text([literal_path(path) for path in paths]).select(
        "value",
        _source_column(root).alias("source"),
        F.col("_metadata.file_path").alias("path"),
        F.col("_metadata.file_block_start").alias("start"),
        F.monotonically_increasing_id().alias("id"),
    )
    earlier = Window.partitionBy("path").orderBy("start").rowsBetween(Window.unboundedPreceding, -1)
    splits = (
        lines.groupBy(*split)
        .agg(F.count(F.lit(1)).alias("lines"), F.min("id").alias("first"))
        .withColumn("before", F.coalesce(F.sum("lines").over(earlier), F.lit(0)))
    )
    line = F.col("id") - F.col("first") + F.col("before") + 1
    return lines.join(F.broadcast(splits), list(split), "inner").select("value", "source", line.alias("line"))


def _parquet_rows(spark: SparkSession, paths: Sequence[str], table: _Table, root: str) -> DataFrame:
    """Rows of Parquet files in the shape of ``_csv_rows``; the line is the row's number in its file, from 1."""
    columns = [F.col(f"`{name}`") for name in table.names]
    texts = [column.cast("string").alias(f"c{i}") for i, column in enumerate(columns)]
    return spark.read.parquet(*map(literal_path, paths)).select(
        _source_column(root).alias("source"),
        (F.col("_metadata.row_index") + 1).alias("line"),
        F.to_json(F.struct(*columns)).alias("payload"),
        F.struct(*texts, F.lit(None).cast("string").alias("broken")).alias("c"),
    )


def _measure(rows: DataFrame, columns: metrics_csv.Columns) -> DataFrame:
    """Rows with typed topic, partition, broker and time, their measures (``slots``) and broken rules (``problems``)."""

    def text(index: int | None) -> Column:
        return F.lit(None).cast("string") if index is None else F.nullif(F.trim(f"c.c{index}"), F.lit(""))

    location = {
        "topic": text(columns.topic),
        "partition": text(columns.partition),
        "broker_id": text(columns.broker_id),
        "observed_at": text(columns.observed_at),
    }
    broken = F.col("c.broken").isNotNull()
    slots = [(Slot.fixed(measure, text(index)), F.lit(measure.metric)) for index, measure in columns.wide]
    if columns.metric is not None:
        slots = [(Slot.named(text(columns.metric), text(columns.value)), F.coalesce(text(columns.metric), F.lit("")))]
    values = F.array(*(F.struct(slot.metric.alias("metric"), value_of(slot).alias("value")) for slot, _ in slots))
    of_location = [
        *location_problems(location, broken=broken, timed=columns.observed_at is not None),
        _not_utf8(F.col("payload")),
    ]
    wrong_location = F.array_compact(F.array(*of_location))
    wrong_value = F.array_compact(
        F.array(*(p for slot, name in slots for p in slot_problems(slot, name=name, broken=broken)))
    )
    return rows.select(
        *("source", "line", "payload"),
        *(column.alias(name) for name, column in typed_location(location).items()),
        text(columns.instance).alias("instance"),
        values.alias("slots"),
        F.concat(wrong_location, wrong_value).alias("problems"),
        (F.size(wrong_location) == 0).alias("is_located"),
    )


def _not_utf8(line: Column) -> Column:
    """Spark replaces bytes that are not UTF-8 by this character."""
    reason = F.lit("the line has bytes that are not UTF-8 text")
    return problem(F.contains(line, F.lit("\ufffd")), "line_is_text", reason, "save the table as UTF-8")


def _samples(measured: DataFrame) -> DataFrame:
    samples = measured.where("is_located").select("*", F.inline("slots"))
    return conform(samples.where("metric IS NOT NULL AND value IS NOT NULL"), bronze.BRONZE_METRICS)


def _quarantine(spark: SparkSession, measured: DataFrame, unusable: Sequence[tuple[str, str, str]]) -> DataFrame:
    """One row for each broken rule, and one for each file with an unusable header."""
    files = small_frame(spark, unusable, "source string, reason string, payload string").withColumns(
        _literals(
            line=1, rule=UNREADABLE_FILE, severity="error", remedy="rename the columns as in docs/formats-metrics.md"
        )
    )
    rows = measured.select("source", "line", "payload", F.inline("problems"))
    return rows.unionByName(files).withColumn("kind", F.lit("metric"))


def _literals(**values: object) -> dict[str, Column]:
    return {name: F.lit(value) for name, value in values.items()}
