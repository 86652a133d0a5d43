"""Stage 1: what the sources say -> bronze_records and bronze_metrics, row by row with source and line.

A cluster is read from a folder (every file in it, whatever it is called), from a live cluster, or from both. Rows that
can't be read are records of kind ``malformed``: validate sets them aside with the reason.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from fnmatch import fnmatchcase, translate
from functools import partial, reduce

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from optimizer.errors import ConfigError, InputError
from optimizer.frames.metrics import literal_path, read_metrics
from optimizer.frames.names import known_of_records, names_any, refuse_unknown
from optimizer.frames.typed import SAMPLE
from optimizer.frames.wishes import without_wishes
from optimizer.settings import ClusterInput
from optimizer.stages import Frames, Run
from schemas.bronze import BRONZE_METRICS, BRONZE_RECORDS
from schemas.table import conform, small_frame
from sources import kafka_live, metrics_csv
from sources.detect import parse_file, refused
from sources.record import UNREADABLE_FILE, Record
from sources.unused import copy_of

_PARSED = "ordinal long, kind string, source string, line int, payload string"
_ROWS_AT_ONCE = 20_000
_HEAD_LINES = 50
_TABLES = (".csv", ".tsv", ".csv.gz", ".tsv.gz")
_REPLICAS = '"replicas"'


@dataclass(frozen=True)
class _File:
    """One file of a folder; ``path`` as Spark names it; whether it may hold reassignment JSON."""

    path: str
    modified: datetime
    size_bytes: int
    digest: str
    has_replicas: bool


@dataclass(frozen=True)
class _Reading:
    """How the texts of a folder are read, by their names below it.

    Parameters
    ----------
    copies : mapping of str to str
        Files with the bytes of another, which is read.
    allowed : tuple of str
        Globs of files that may stay unread.
    """

    copies: Mapping[str, str] = field(default_factory=dict)
    allowed: tuple[str, ...] = ()


def build(inputs: Frames, run: Run) -> Frames:
    """Read every cluster of the configuration.

    Raises
    ------
    ConfigError
        When the configuration names no cluster, or a time that is none.
    InputError
        When a folder is missing or empty.
    """
    if not run.settings.clusters:
        raise ConfigError("no cluster is configured: add a [[clusters]] table, or give --input FOLDER")
    clusters = [_cluster(run, cluster) for cluster in run.settings.clusters]
    records = reduce(DataFrame.unionByName, [frame for records, _ in clusters for frame in records])
    metrics = reduce(
        DataFrame.unionByName, [frame for _, metrics in clusters for frame in metrics], _no_metrics(run.spark)
    )
    return {"bronze_records": records, "bronze_metrics": metrics}


def gate(frames: Frames, run: Run) -> None:
    """Refuse brokers and racks that no record names: minutes before the snapshot would.

    Raises
    ------
    ConfigError
    """
    if names_any(run.settings):
        refuse_unknown(known_of_records(frames["bronze_records"]), run.settings)


def _cluster(run: Run, cluster: ClusterInput) -> tuple[list[DataFrame], list[DataFrame]]:
    """Records and metric samples of one cluster, from all its sources."""
    records: list[DataFrame] = []
    metrics: list[DataFrame] = []
    if cluster.input:
        files = _files(run.spark, cluster)
        copies, allowed = _copies(files), run.settings.quality.allow_unreadable_files
        tables = [file.path for file in files if file.path not in copies and _is_metrics(run.spark, file.path)]
        captured_at = _captured_at(cluster, files)
        texts = [file.path for file in files if file.path not in set(tables)]
        if texts:
            parsed = _parsed(run.spark, texts, cluster.input, copies=copies, allowed=allowed)
            records.append(_as_bronze(parsed, run, cluster, captured_at))
        if tables:
            samples, broken = read_metrics(
                run.spark, tables, cluster_id=cluster.id, run_id=run.run_id, root=_root(tables[0], cluster.input)
            )
            metrics.append(samples)
            records.append(_as_bronze(_as_malformed(broken, allowed=allowed), run, cluster, captured_at))
    if cluster.bootstrap_servers:
        now = datetime.now(tz=UTC).replace(microsecond=0)
        records.append(_as_bronze(_live(run.spark, cluster), run, cluster, now))
    if cluster.input and any(file.has_replicas for file in files):
        are_state = run.settings.quality.assignment_is_state
        records = [without_wishes(reduce(DataFrame.unionByName, records), are_state=are_state)]
    return records, metrics


def _no_metrics(spark: SparkSession) -> DataFrame:
    return small_frame(spark, [], BRONZE_METRICS.schema)


def _as_bronze(frame: DataFrame, run: Run, cluster: ClusterInput, captured_at: datetime) -> DataFrame:
    identified = {
        "cluster_id": F.lit(cluster.id),
        "run_id": F.lit(run.run_id),
        "captured_at": F.lit(captured_at),
    }
    return conform(frame.withColumns(identified), BRONZE_RECORDS)


def _files(spark: SparkSession, cluster: ClusterInput) -> list[_File]:
    """Files of the folder and its subfolders, by path; those that start with a dot or underscore are no input."""
    where = f"--input DIR, or as input of [[clusters]] {cluster.id!r}"
    remedy = f"name a folder with the outputs of Kafka's tools as {where}"
    try:
        found = _listing(spark, cluster.input).select(*_about()).collect()
    except AnalysisException as error:
        raise InputError(f"there is no folder {cluster.input}: {remedy}") from error
    if not found:
        raise InputError(f"the folder {cluster.input} holds no file: {remedy}")
    return sorted((_File(*row) for row in found), key=lambda file: file.path)


def _listing(spark: SparkSession, path: str) -> DataFrame:
    return spark.read.format("binaryFile").option("recursiveFileLookup", "true").load(literal_path(path))


def _about() -> list[Column]:
    """The fields of ``_File``."""
    encoded = (_REPLICAS.encode(encoding) for encoding in ("utf-8", "utf-16-le", "utf-16-be"))
    found = reduce(Column.__or__, (F.contains(F.col("content"), F.lit(name)) for name in encoded))
    return [F.col("path"), F.col("modificationTime"), F.col("length"), F.sha2("content", 256), found]


def _copies(files: Sequence[_File]) -> dict[str, str]:
    """Files with the same bytes as an earlier one, and that one; empty files are no copies."""
    first: dict[str, str] = {}
    named = [(file.path, first.setdefault(file.digest, file.path)) for file in files if file.size_bytes]
    return {path: original for path, original in named if path != original}


def _captured_at(cluster: ClusterInput, files: list[_File]) -> datetime:
    """When the folder was captured: as configured, else the time of its newest file, in whole seconds (UTC)."""
    if not cluster.captured_at:
        newest = max(file.modified for file in files)
        return newest.replace(microsecond=0).astimezone(UTC)
    try:
        given = datetime.fromisoformat(cluster.captured_at)
    except ValueError as error:
        raise ConfigError(
            f"[[clusters]] {cluster.id!r} captured_at = {cluster.captured_at!r} is no time: "
            "write it like 2026-01-31T02:00:00Z"
        ) from error
    return (given if given.tzinfo else given.replace(tzinfo=UTC)).astimezone(UTC)


def _is_metrics(spark: SparkSession, path: str) -> bool:
    """Whether a file is a table of metrics: Parquet, or a CSV whose first line names a topic and a measure."""
    if path.endswith(".parquet"):
        return True
    if not path.endswith(_TABLES):
        return False
    lines = (row.value.strip() for row in spark.read.text(literal_path(path)).head(_HEAD_LINES))
    header = next((line for line in lines if line and not line.startswith("#")), "")
    return metrics_csv.recognises(header)


def _root(path: str, folder: str) -> str:
    """The folder as it stands in Spark's name of a file below it."""
    plain = folder.rstrip("/")
    start = path.find(plain + "/")
    return path[: start + len(plain)] if start >= 0 else path.rpartition("/")[0]


def _parsed(
    spark: SparkSession, paths: list[str], folder: str, *, copies: Mapping[str, str], allowed: tuple[str, ...]
) -> DataFrame:
    """Records of text files, parsed where the executors are."""
    skip = len(_root(paths[0], folder)) + 2
    below = {path[skip - 1 :]: original[skip - 1 :] for path, original in copies.items()}
    content = _listing(spark, folder).where(F.col("path").isin(paths))
    named = content.select(F.expr(f"substring(path, {skip})").alias("name"), "content")
    return named.mapInArrow(partial(_parse_files, _Reading(below, allowed)), _PARSED)


def _parse_files(reading: _Reading, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Parse files (columns ``name``, ``content``) into rows, a limited number at a time.

    Arrow, not pandas: importing pandas costs each worker more than parsing a small cluster.
    """
    for batch in batches:
        for name, content in zip(batch["name"].to_pylist(), batch["content"].to_pylist(), strict=True):
            records = _records(content, name, reading)
            for start in range(0, len(records), _ROWS_AT_ONCE):
                yield _as_batch(records[start : start + _ROWS_AT_ONCE], name, start)


def _records(content: bytes, name: str, reading: _Reading) -> list[Record]:
    """Records of one file: of a copy one that says so, and of a file that may stay unread no errors of that."""
    if name in reading.copies:
        return [refused(copy_of(reading.copies[name]), name=name, size_bytes=len(content))]
    records = parse_file(content, name=name)
    if not any(fnmatchcase(name, pattern) for pattern in reading.allowed):
        return records
    return [
        replace(record, payload={**record.payload, "severity": "warning"})
        if record.payload.get("rule") == UNREADABLE_FILE
        else record
        for record in records
    ]


def _as_batch(records: Sequence[Record], name: str, start: int) -> pa.RecordBatch:
    """Rows of ``_PARSED``."""
    return pa.RecordBatch.from_pydict(
        {
            "ordinal": pa.array(range(start, start + len(records)), pa.int64()),
            "kind": pa.array([record.kind for record in records], pa.string()),
            "source": pa.array([name] * len(records), pa.string()),
            "line": pa.array([record.line for record in records], pa.int32()),
            "payload": pa.array([_as_json(record.payload) for record in records], pa.string()),
        }
    )


def _as_json(payload: Mapping[str, object]) -> str:
    return json.dumps(payload, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def _as_malformed(broken: DataFrame, *, allowed: tuple[str, ...]) -> DataFrame:
    """Rows that reading the metrics set aside, as records of kind ``malformed``."""
    told = {name: F.col(name) for name in ("rule", "severity", "reason", "remedy")}
    patterns = (F.col("source").rlike(translate(pattern)) for pattern in allowed)
    may_stay = (F.col("rule") == UNREADABLE_FILE) & reduce(Column.__or__, patterns, F.lit(False))
    told["severity"] = F.when(may_stay, F.lit("warning")).otherwise(F.col("severity"))
    fields = {"expected": F.lit(SAMPLE), **told}
    text = F.substring("payload", 1, 2000).alias("text")
    payload = F.to_json(F.struct(*(value.alias(name) for name, value in fields.items()), text))
    order = Window.partitionBy("source").orderBy("line", "rule", "payload")
    return broken.select(
        (F.row_number().over(order) - 1).alias("ordinal"),
        F.lit("malformed").alias("kind"),
        "source",
        F.col("line").cast("int").alias("line"),
        payload.alias("payload"),
    )


def _live(spark: SparkSession, cluster: ClusterInput) -> DataFrame:
    """Records of a live cluster; the file of client properties goes by its path: secrets are no options."""
    kafka_live.register(spark)
    reader = spark.read.format(kafka_live.FORMAT).option("bootstrap.servers", cluster.bootstrap_servers)
    if cluster.client_config:
        reader = reader.option("client.config", cluster.client_config)
    order = Window.partitionBy("source").orderBy("kind", "payload", "line")
    return reader.load().withColumn("ordinal", F.row_number().over(order) - 1)
