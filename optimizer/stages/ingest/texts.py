"""Text files -> records, parsed where the executors are; of what is not read, a record that says so."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import partial

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from optimizer.stages.ingest.listing import File, listing, root_of
from schemas.spark import small_frame
from sources.detect import parse_file, refused
from sources.record import ALLOWED_FILE, TOOL_ERROR, UNREADABLE_FILE, Record, malformed
from sources.refused_formats import copy_of, explain, too_large

_PARSED = "ordinal long, kind string, source string, line int, payload string"
_ROWS_AT_ONCE = 20_000  # records: some MB to a batch of Arrow


# What becomes of errors in a file that may stay unread.
_ALLOWED = {
    UNREADABLE_FILE: {"rule": ALLOWED_FILE, "severity": "warning"},
    TOOL_ERROR: {"severity": "warning"},
}


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


def parsed(
    spark: SparkSession, paths: list[str], folder: str, *, copies: Mapping[str, str], allowed: tuple[str, ...]
) -> DataFrame:
    """Records of text files, parsed where the executors are."""
    skip = len(root_of(paths[0], folder)) + 2
    below = {path[skip - 1 :]: original[skip - 1 :] for path, original in copies.items()}
    content = listing(spark, folder).where(F.col("path").isin(paths))
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


def unopened_files(spark: SparkSession, files: Sequence[File], folder: str, *, allowed: tuple[str, ...]) -> DataFrame:
    """Records of files that are not opened: empty ones, and texts too large to be a tool's output."""
    skip = len(root_of(files[0].path, folder)) + 1
    names = [file.path[skip:] for file in files]
    reasons = [too_large() if file.size_bytes else explain("", name) for file, name in zip(files, names, strict=True)]
    refusals = (
        [refused(reason, name=name, size_bytes=file.size_bytes)]
        for reason, name, file in zip(reasons, names, files, strict=True)
    )
    records = [_softened(one, name, allowed)[0] for one, name in zip(refusals, names, strict=True)]
    rows = [(0, one.kind, name, one.line, _as_json(one.payload)) for name, one in zip(names, records, strict=True)]
    return small_frame(spark, rows, _PARSED)


def hidden(spark: SparkSession, names: Sequence[str]) -> DataFrame:
    """Records of files that Spark passes over, by their paths below the folder: each is told, none is read."""
    reason, remedy = "is not read, as its name or its folder's starts with a dot or an underscore", "rename it"
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
    rows = [(0, one.kind, name, one.line, _as_json(one.payload)) for name, one in zip(names, records, strict=True)]
    return small_frame(spark, rows, _PARSED)


def _records(content: bytes, name: str, reading: _Reading) -> list[Record]:
    """Records of one file: of a copy one that says so."""
    if name in reading.copies:
        return [refused(copy_of(reading.copies[name]), name=name, size_bytes=len(content))]
    return _softened(parse_file(content, name=name), name, reading.allowed)


def _softened(records: list[Record], name: str, allowed: tuple[str, ...]) -> list[Record]:
    """The records; of a file that may stay unread it is no error that it could not be read, or that a tool failed."""
    if not any(fnmatchcase(name, pattern) for pattern in allowed):
        return records
    return [
        replace(record, payload={**record.payload, **_ALLOWED[record.payload["rule"]]})
        if record.payload.get("rule") in _ALLOWED and record.payload["severity"] == "error"
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
    """JSON that UTF-8 can hold: half a surrogate pair, which JSON's escapes allow, stays an escape."""
    text = json.dumps(payload, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return text.encode(errors="backslashreplace").decode()
