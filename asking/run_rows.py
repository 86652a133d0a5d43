"""Reads the rows of one cluster in a finished run; where they were deleted, from the version that the run recorded."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from execution import journal
from stored.runs import StoredRun
from stored.tables import VersionGone, Warehouse

# The columns that a comparison needs, by table.
COLUMNS: Mapping[str, Sequence[str]] = {
    "sources": ("captured_at", "has_state"),
    "brokers": (
        *("broker_id", "rack", "state", "closed_cause"),
        *("disk_capacity_bytes", "in_capacity_bytes_per_s", "out_capacity_bytes_per_s"),
    ),
    "topics": ("topic", "topic_id", "partitions", "replication_factor", "min_insync_replicas"),
    "instance": (
        *("topic", "partition", "replicas", "leader", "isr"),
        *("size_bytes", "in_bytes_per_s", "out_bytes_per_s", "controller_replicas"),
    ),
    "plan": (
        *("topic", "partition", "current_replicas", "proposed_replicas"),
        *("moved_bytes", "is_changed", "wave", "reason_codes"),
    ),
    "moves": ("to_broker", "size_bytes", "reason"),
    "plan_summary": ("figure", "before", "after"),
    "waves": ("wave", "partitions", "moved_bytes", "estimated_seconds", "least_seconds", "most_seconds"),
}


@dataclass(frozen=True)
class RunRows:
    """The rows of one cluster in one run.

    Parameters
    ----------
    run_id, verdict : str
    tables : mapping of str to DataFrame
        By name. Lists are texts such as ``101,103``. A table whose rows are gone is missing.
    settings : mapping, optional
        The configuration of the plan; None if the run's record is gone.
    code_version : str, optional
        None if the run's record is gone.
    measured : mapping of int to float or None
        Seconds of each wave that has ended and was not cancelled, by its number; None: not measured.
    notes : tuple of str
        For each table whose rows are not in its newest version: where they come from, or that they are gone.
    """

    run_id: str
    verdict: str
    tables: Mapping[str, pd.DataFrame]
    settings: Mapping[str, Any] | None = None
    code_version: str | None = None
    measured: Mapping[int, float | None] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def captured_at(self) -> datetime | None:
        """Time of the newest source with the cluster's state; None without a time."""
        sources = self.tables.get("sources")
        newest = sources.loc[sources["has_state"], "captured_at"].max() if sources is not None else pd.NaT
        return None if pd.isna(newest) else newest.to_pydatetime()


def read_run(warehouse: Warehouse, run_id: str, cluster_id: str) -> RunRows:
    """The rows of a run that has a plan for the cluster.

    Raises
    ------
    StageError
        When the run is unknown, or has no such cluster.
    Refused
        When the cluster has no plan.
    """
    stored = StoredRun(warehouse, run_id, cluster_id).planned()
    notes: list[str] = []
    tables = {name: _read(stored, name, columns, notes) for name, columns in COLUMNS.items()}
    solve = stored.records.get("solve")
    seconds = journal.copy_seconds(journal.events(warehouse, **stored.key))
    return RunRows(
        run_id,
        stored.verdict["verdict"],
        {name: frame for name, frame in tables.items() if frame is not None},
        stored.settings,
        solve["code_version"] if solve else None,
        {wave: measured for (_, _, wave), measured in seconds.items()},
        tuple(notes),
    )


def _read(stored: StoredRun, table: str, columns: Sequence[str], notes: list[str]) -> pd.DataFrame | None:
    """The rows of a table; None if they are gone. Adds a note if the newest version does not have them."""
    rows = stored.table(table, *columns)
    if len(rows) or stored.is_complete(table):
        return frame_of(rows)
    version = stored.recorded(table)
    deleted = f"run {stored.run_id}: the rows of table {table} were deleted"
    if version is None:
        notes.append(f"{deleted}, and table runs does not say from which version to read them")
        return None
    try:
        rows = stored.table(table, *columns, version=version)
        if len(rows) or stored.is_complete(table, version):
            notes.append(f"{deleted}; they come from version {version}, which the run recorded")
            return frame_of(rows)
    except VersionGone:
        pass
    notes.append(f"{deleted}, and version {version}, which the run recorded, is gone too")
    return None


def frame_of(rows: pa.Table) -> pd.DataFrame:
    """The rows in pandas, with each list as a text: texts are compared and merged without a loop."""
    columns = {
        name: _joined(column) if pa.types.is_list(column.type) else column
        for name, column in zip(rows.column_names, rows.columns, strict=True)
    }
    return pa.table(columns).to_pandas()


def _joined(lists: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.binary_join(lists.cast(pa.list_(pa.string())), ",")
