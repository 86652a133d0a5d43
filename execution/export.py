"""Writes the files of a finished run again, from its tables: the same bytes that the job wrote."""

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from optimizer import places
from optimizer.emit.quality_rows import first_rows, in_order, page_of
from optimizer.errors import ConfigError, StageError
from optimizer.folders import RUN_PAGE, quality_page, supersede, write_cluster, write_page
from optimizer.locks import lock_run
from optimizer.run_page import write_run_page
from schemas.verdicts import WITH_PLAN
from stored.runs import StoredRun, StoredRuns
from stored.tables import Warehouse
from stored.verdicts import Refused

_ROWS = 10_000  # rows of quarantine that are Python objects at a time: some MB


def export_run(warehouse: Warehouse, run_id: str, cluster_id: str | None, to: str) -> list[str]:
    """Write the files of the last attempt at a run below ``to/run_id``: of all its clusters, or of one.

    These are documents, quality pages, and the page of the run. A folder of a cluster that has no plan any more is
    superseded, as by the job. Returns a line for each cluster: its verdict, and what was written.

    Raises
    ------
    StageError
        When the run is unknown, has no such cluster, or its documents are gone.
    Refused
        When a document was changed after the run.
    ConfigError
        When the folder cannot be written.
    """
    chosen, whole_run = StoredRuns(warehouse, run_id, cluster_id), StoredRuns(warehouse, run_id)
    chosen_runs = [*chosen]  # refuses an unknown cluster
    folder, lines = local_folder(to) / run_id, []
    with _locked(run_id, folder):
        checked = quality_pages(chosen)
        for stored in chosen_runs:
            cluster, verdict = stored.cluster_id, stored.verdict["verdict"]
            documents = _documents(stored) if verdict in WITH_PLAN else []
            written = _write(folder, cluster, documents, checked.get(cluster))
            lines.append(f"{cluster}: {verdict}: {', '.join(map(str, written)) or 'no files'}")
        write_page_of_run(folder, whole_run)
    return [*lines, f"all clusters: {folder / RUN_PAGE}"]


def write_page_of_run(folder: Path, stored: StoredRuns) -> None:
    """Write the page about all clusters of a run into the run's folder."""
    verdicts = {cluster: row for (_, cluster), row in stored.verdicts.items()}
    decisions = {run.cluster_id: run.decision for run in stored}
    with writing_to(folder):
        write_run_page(folder, folder.name, verdicts, {cluster: d for cluster, d in decisions.items() if d})


@contextmanager
def _locked(run_id: str, folder: Path) -> Iterator[None]:
    """Hold the lock that a job holds while it writes this folder. A folder without a lock gets none."""
    lock = places.lock_of_output(folder)
    with writing_to(folder):
        is_locked = lock.exists()
    with lock_run(run_id, [lock] if is_locked else []):
        yield


def _write(folder: Path, cluster: str, documents: Sequence[tuple[str, str]], checked: str | None) -> list[Path]:
    """Write the documents and the quality page of a cluster, if it has any; returns the new folder and page."""
    written, target = [], folder / cluster
    with writing_to(target):
        if documents:
            write_cluster(folder, cluster, documents)
            written.append(target)
        elif target.exists():
            supersede(target)
        if checked is not None:
            page = quality_page(folder, cluster)
            write_page(page, checked)
            written.append(page)
    return written


def local_folder(to: str) -> Path:
    """The folder of ``--to``; raises ``ConfigError`` if it is not on this machine."""
    folder = places.local(to) if to else None
    if folder is None:
        raise ConfigError(f"--to {to!r} is not usable: give a folder of this machine, and copy the files from there")
    return folder


@contextmanager
def writing_to(path: Path) -> Iterator[None]:
    """Report a file or folder that cannot be written as a ``ConfigError``."""
    try:
        yield
    except OSError as error:
        cause = f"{error.filename or path}: {error.strerror or error}"
        remedy = "give --to a folder that this user can write and that has free space"
        raise ConfigError(f"{path} can't be written ({cause}): {remedy}") from error


def quality_pages(stored: StoredRuns) -> dict[str, str]:
    """The quality page of each cluster of a run that has results."""
    results = stored.rows("quality_results")
    quarantine = stored.table("quarantine") if results else None
    return {
        cluster: page_of(in_order(rows), first_rows(_rows_of(quarantine, cluster)), cluster_id=cluster, run_id=run_id)
        for (run_id, cluster), rows in sorted(results.items())
    }


def _rows_of(quarantine: pa.Table, cluster: str) -> Iterator[dict[str, Any]]:
    for batch in quarantine.filter(pc.field("cluster_id") == cluster).to_batches(max_chunksize=_ROWS):
        yield from batch.to_pylist()


def _documents(stored: StoredRun) -> list[tuple[str, str]]:
    """Path and content of each document of a plan, sorted by path."""
    rows = stored.table("documents", "path", "content", "sha256").sort_by("path").to_pylist()
    if not rows:
        raise StageError(
            f"table documents in {stored.warehouse.path} has no rows of run {stored.run_id!r} and cluster "
            f"{stored.cluster_id!r}: they were deleted after the run; the job emit with this --run-id writes them again"
        )
    changed = [row["path"] for row in rows if hashlib.sha256(row["content"].encode()).hexdigest() != row["sha256"]]
    if changed:
        raise Refused(*(f"{path} differs from its sha256: it was changed after the run" for path in changed))
    return [(row["path"], row["content"]) for row in rows]
