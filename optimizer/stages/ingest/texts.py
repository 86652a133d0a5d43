"""Text files -> records, parsed by the executors; a file that is not read gets a record with the reason."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import partial

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from optimizer.stages.ingest.listing import TEXT_BYTES, File, listing, root_of
from schemas.spark import small_frame
from sources.detect import parse_file, refused
from sources.record import ALLOWED_FILE, TOOL_ERROR, UNREADABLE_FILE, Record, malformed
from sources.refused_formats import copy_of, explain, too_large

_ROW = "ordinal long, kind string, source string, line int, payload string"
_PARSED = f"{_ROW}, written_s long"
_ROWS_AT_ONCE = 20_000  # records in a batch of Arrow: a few MB


# Changes to the errors of a file that may stay unread.
_ALLOWED = {
    UNREADABLE_FILE: {"rule": ALLOWED_FILE, "severity": "warning"},
    TOOL_ERROR: {"severity": "warning"},
}


@dataclass(frozen=True)
class _Reading:
    """How the texts of a folder are read; names are relative to the folder.

    Parameters
    ----------
    copies : mapping of str to str
        Files that are not read, by each the file with the same bytes that is read.
    allowed : tuple of str
        Globs of files that may stay unread.
    """

    copies: Mapping[str, str] = field(default_factory=dict)
    allowed: tuple[str, ...] = ()


def parse_texts(
    spark: SparkSession, paths: list[str], folder: str, *, copies: Mapping[str, str], allowed: tuple[str, ...]
) -> DataFrame:
    """Records of text files, parsed by the executors."""
    skip = len(root_of(paths[0], folder)) + 2
    below = {path[skip - 1 :]: original[skip - 1 :] for path, original in copies.items()}
    # Spark loads a file before it compares its path; the length is compared before.
    content = listing(spark, folder).where((F.col("length") <= TEXT_BYTES) & F.col("path").isin(paths))
    written = F.unix_seconds("modificationTime").alias("written_s")
    named = content.select(F.expr(f"substring(path, {skip})").alias("name"), "content", written)
    parsed = named.mapInArrow(partial(_parse_files, _Reading(below, allowed)), _PARSED)
    return parsed.withColumn("written_at", F.timestamp_seconds("written_s"))


def _parse_files(reading: _Reading, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Parse files (columns ``name``, ``content``, ``written_s``) into batches of rows.

    With Arrow, not pandas: importing pandas costs each worker more than parsing a small cluster.
    """
    for batch in batches:
        columns = (batch[column].to_pylist() for column in ("name", "content", "written_s"))
        for name, content, written_s in zip(*columns, strict=True):
            records = _records(content, name, reading)
            for start in range(0, len(records), _ROWS_AT_ONCE):
                yield _as_batch(records[start : start + _ROWS_AT_ONCE], name, start, written_s)


def report_unopened(spark: SparkSession, files: Sequence[File], folder: str, *, allowed: tuple[str, ...]) -> DataFrame:
    """Records about files that are not opened: empty files, and texts too large for a tool's output."""
    skip = len(root_of(files[0].path, folder)) + 1
    names = [file.path[skip:] for file in files]
    reasons = [too_large() if file.size_bytes else explain("", name) for file, name in zip(files, names, strict=True)]
    refusals = (
        [refused(reason, name=name, size_bytes=file.size_bytes)]
        for reason, name, file in zip(reasons, names, files, strict=True)
    )
    records = [_apply_allowed(refusal, name, allowed)[0] for refusal, name in zip(refusals, names, strict=True)]
    return _as_frame(spark, names, records)


def report_hidden(spark: SparkSession, names: Sequence[str]) -> DataFrame:
    """Records about files that Spark skips, by their paths below the folder: they are reported, not read."""
    reason = "is not read, because its name or its folder's name starts with a dot or an underscore"
    remedy = "rename it if it is an input"
    records = [
        malformed(
            line=0,
            expected="a file of the input",
            reason=f"{name} {reason}",
            remedy=remedy,
            text="",
            rule=ALLOWED_FILE,
            severity="warning",
        )
        for name in names
    ]
    return _as_frame(spark, names, records)


def _as_frame(spark: SparkSession, names: Sequence[str], records: Sequence[Record]) -> DataFrame:
    """Rows of ``_ROW`` with one record of each file."""
    rows = [
        (0, record.kind, name, record.line, _as_json(record.payload))
        for name, record in zip(names, records, strict=True)
    ]
    return small_frame(spark, rows, _ROW)


def _records(content: bytes, name: str, reading: _Reading) -> list[Record]:
    """Records of one file; a copy has one record, which names the original."""
    if name in reading.copies:
        return [refused(copy_of(reading.copies[name]), name=name, size_bytes=len(content))]
    return _apply_allowed(parse_file(content, name=name), name, reading.allowed)


def _apply_allowed(records: list[Record], name: str, allowed: tuple[str, ...]) -> list[Record]:
    """The records. In a file that may stay unread, unreadable parts and failed tools are warnings, not errors."""
    if not any(fnmatchcase(name, pattern) for pattern in allowed):
        return records
    return [
        replace(record, payload={**record.payload, **_ALLOWED[record.payload["rule"]]})
        if record.payload.get("rule") in _ALLOWED and record.payload["severity"] == "error"
        else record
        for record in records
    ]


def _as_batch(records: Sequence[Record], name: str, start: int, written_s: int) -> pa.RecordBatch:
    """Rows of ``_PARSED``."""
    return pa.RecordBatch.from_pydict(
        {
            "ordinal": pa.array(range(start, start + len(records)), pa.int64()),
            "kind": pa.array([record.kind for record in records], pa.string()),
            "source": pa.array([name] * len(records), pa.string()),
            "line": pa.array([record.line for record in records], pa.int32()),
            "payload": pa.array([_as_json(record.payload) for record in records], pa.string()),
            "written_s": pa.array([written_s] * len(records), pa.int64()),
        }
    )


def _as_json(payload: Mapping[str, object]) -> str:
    """JSON that can be encoded as UTF-8: half a surrogate pair, which JSON allows as an escape, stays an escape."""
    text = json.dumps(payload, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return text.encode(errors="backslashreplace").decode()
