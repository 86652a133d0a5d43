"""Lists the files of an input folder, with what is known about each file before it is parsed."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import reduce
from pathlib import Path
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from optimizer.stages.ingest.metric_files import literal_path
from sources.refused_formats import is_consumer_file

_REPLICAS = '"replicas"'
# Files that macOS, NFS, Git, Spark, Hadoop and editors write.
_SYSTEM_FILES = re.compile(
    r"(?:^|/)(?:\.DS_Store|\._.*|\.nfs.*|\.git(?:/.*|ignore|keep)|_SUCCESS|[^/]*\.(?:crc|sw[op]))$"
)
LOADED_BYTES = 64 * 2**20  # larger files are only read line by line: here Spark loads the whole content
# Outputs of Kafka's tools are far smaller: those of log directories take about 100 bytes a replica.
TEXT_BYTES = 2**30


@dataclass(frozen=True)
class File:
    """One file of a folder: ``path`` as Spark names it; ``has_replicas``: it may contain reassignment JSON.

    The digest is empty for files over ``LOADED_BYTES``.
    """

    path: str
    modified: datetime
    size_bytes: int
    digest: str
    has_replicas: bool


def files_of(spark: SparkSession, folder: str) -> list[File]:
    """Files of a folder and its subfolders, by path; without ``hidden_files``.

    Raises
    ------
    AnalysisException
        When there is no such folder.
    """
    # The content of large files, such as a month of metrics, is not loaded: Spark's reader holds it in memory.
    small = F.col("length") <= LOADED_BYTES
    about = listing(spark, folder).where(~small).select("path", "modificationTime", "length")
    files = [File(row.path, row.modificationTime, row.length, "", True) for row in about.collect()]
    files += [File(*row) for row in listing(spark, folder).where(small).select(*_file_fields()).collect()]
    return sorted([*files, *_empty_files(spark, folder)], key=lambda file: file.path)


def hidden_files(spark: SparkSession, folder: str) -> list[str]:
    """Files that Spark skips: their name, or that of a subfolder, starts with a dot or an underscore.

    Paths relative to the folder, ascending; without files that desktops and file systems write themselves.
    """
    names = ("/".join(below) for below, _ in _statuses(spark, folder) if _is_hidden(below))
    return sorted(name for name in names if not _SYSTEM_FILES.search(name))


def _empty_files(spark: SparkSession, folder: str) -> list[File]:
    """Empty files, which Spark skips: without this nobody would notice a lost output."""
    return [
        File(status.getPath().toString(), datetime.fromtimestamp(status.getModificationTime() / 1000), 0, "", False)
        for below, status in _statuses(spark, folder)
        if status.getLen() == 0 and not _is_hidden(below)
    ]


def _is_hidden(below: tuple[str, ...]) -> bool:
    return any(part.startswith((".", "_")) for part in below)


def _statuses(spark: SparkSession, folder: str) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Hadoop's status of every file, with the parts of its path below the folder."""
    jvm: Any = spark.sparkContext._jvm
    path = getattr(jvm, "org.apache.hadoop.fs.Path")(folder)
    system = path.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())
    above = len(Path(system.makeQualified(path).toUri().getPath()).parts)
    statuses = system.listFiles(path, True)
    while statuses.hasNext():
        status = statuses.next()
        yield Path(status.getPath().toUri().getPath()).parts[above:], status


def listing(spark: SparkSession, path: str) -> DataFrame:
    return spark.read.format("binaryFile").option("recursiveFileLookup", "true").load(literal_path(path))


def _file_fields() -> list[Column]:
    """The fields of ``File``."""
    encoded = (_REPLICAS.encode(encoding) for encoding in ("utf-8", "utf-16-le", "utf-16-be"))
    has_replicas = reduce(Column.__or__, (F.contains(F.col("content"), F.lit(name)) for name in encoded))
    return [F.col("path"), F.col("modificationTime"), F.col("length"), F.sha2("content", 256), has_replicas]


def copies_of(files: Sequence[File]) -> dict[str, str]:
    """The earlier file by each file with the same bytes; empty and large files are not compared.

    Files about consumer groups come last: the faults of such a file are warnings, those of another file may be errors.
    """
    first: dict[str, str] = {}
    ordered = sorted(files, key=lambda file: is_consumer_file(file.path))
    named = [(file.path, first.setdefault(file.digest, file.path)) for file in ordered if file.digest]
    return {path: original for path, original in named if path != original}


def root_of(path: str, folder: str) -> str:
    """The folder as it is written in Spark's path of a file below it."""
    plain = folder.rstrip("/")
    start = path.find(plain + "/")
    return path[: start + len(plain)] if start >= 0 else path.rpartition("/")[0]
