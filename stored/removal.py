"""Removes rows of runs from a table, and the files that no version of the last week needs."""

import time
from collections.abc import Callable, Collection, Iterable
from typing import TypeVar

from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.transaction import RemoveAction

from optimizer import places
from stored.tables import Overtaken, Warehouse, files_of, literal

LEAST_HOURS = 168  # hours: Delta's default; readers and writers of Spark rely on files that were removed since
T = TypeVar("T")
_TRIES = 5  # on storage without our locks a job may write the table at the same time


def delete_runs(warehouse: Warehouse, table: str, run_ids: Collection[str], *, where: str = "") -> None:
    """Delete rows of some runs. A table without such rows gets no new version.

    Parameters
    ----------
    where : str
        SQL condition on these rows; empty: all of them.

    Raises
    ------
    Overtaken
        When other processes wrote the table first in every try.
    """
    _change(warehouse, table, lambda delta: _delete(delta, run_ids, where))


def _delete(delta: DeltaTable, run_ids: Iterable[str], where: str) -> None:
    """Remove whole files without reading them, which takes a twentieth of the time; then rows of other files."""
    files, now = files_of(delta, run_ids), int(time.time() * 1000)
    whole = [RemoveAction(file.path, True, now) for file in files if not (where or file.has_others)]
    if whole:
        delta.create_write_transaction(whole, "append", delta.schema())
        delta.update_incremental()
    if runs := sorted({run for file in files if where or file.has_others for run in file.runs}):
        condition = f"run_id IN ({', '.join(map(literal, runs))})"
        delta.delete(f"{condition} AND {where}" if where else condition)


def clean(warehouse: Warehouse, table: str) -> int:
    """Delete unused data files, write a checkpoint, and delete expired log entries; returns the number of data files.

    A file is unused if the table has not needed it for a week, or for as long as the table's
    ``delta.deletedFileRetentionDuration`` if that is longer. Nothing happens if the table does not exist.

    Raises
    ------
    Overtaken
        When other processes wrote the table first in every try.
    """
    return len(_change(warehouse, table, _clean) or ())


def _clean(delta: DeltaTable) -> list[str]:
    # A full vacuum: a checkpoint of Spark may already have forgotten files that were removed more than a week ago.
    options = {"dry_run": False, "full": True}
    try:
        files = delta.vacuum(LEAST_HOURS, **options)
    except DeltaError as error:
        if "retention period" not in str(error):
            raise
        files = delta.vacuum(**options)
    if folder := places.local(delta.table_uri):
        # Hadoop's sum of the pointer to a checkpoint that Spark wrote would be wrong for the new one.
        (folder / "_delta_log" / "._last_checkpoint.crc").unlink(missing_ok=True)
    delta.create_checkpoint()
    delta.cleanup_metadata()
    return files


def _change(warehouse: Warehouse, table: str, work: Callable[[DeltaTable], T]) -> T | None:
    """Change the newest version of a table; None if the table does not exist."""
    for _ in range(_TRIES):
        with warehouse.locked(table):
            delta = warehouse.open_table(table)
            try:
                return work(delta) if delta else None
            except CommitFailedError as error:
                cause = error
    raise Overtaken(f"other processes wrote table {table} of {warehouse.path} at the same time: try again") from cause
