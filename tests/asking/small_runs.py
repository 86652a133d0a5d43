"""Small runs of one cluster: as rows for pure tests, and as tables of a warehouse, as jobs write them."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pandas as pd
import pyarrow as pa

import schemas
from asking.run_rows import COLUMNS, RunRows, frame_of
from optimizer.declared import DECLARED, NAMES
from optimizer.settings import ClusterInput, Settings
from stored.tables import Warehouse

CLUSTER = "c"
NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)
Row = Mapping[str, Any]
Rows = Mapping[str, Iterable[Row]]
_EMPTY = {"string": "", "int": 0, "bigint": 0, "double": 0.0, "boolean": False, "timestamp": NOON}


def full_row(table: str, row: Row) -> dict[str, Any]:
    """A row with all columns of the contract: the others are null, or empty where null is not allowed."""
    columns = schemas.ALL[table].columns
    return {c.name: None if c.nullable else _EMPTY.get(c.type, []) for c in columns} | {**row}


def frame(table: str, rows: Iterable[Row]) -> pd.DataFrame:
    """The frame that a comparison gets of these rows."""
    types = {c.name: c.type for c in schemas.ALL[table].columns}
    arrow = {"int": pa.int32(), "bigint": pa.int64(), "double": pa.float64(), "boolean": pa.bool_()}
    lists = {
        "array<int>": pa.list_(pa.int32()),
        "array<bigint>": pa.list_(pa.int64()),
        "array<string>": pa.list_(pa.string()),
    }
    known = {"string": pa.string(), "timestamp": pa.timestamp("us", tz="UTC"), **arrow, **lists}
    schema = pa.schema([(name, known[types[name]]) for name in COLUMNS[table]])
    return frame_of(pa.Table.from_pylist([full_row(table, row) for row in rows], schema=schema))


def run_rows(run_id: str, rows: Rows, **values: Any) -> RunRows:
    """A run with the rows of these tables; other tables are empty."""
    return RunRows(run_id, "planned", {name: frame(name, rows.get(name, ())) for name in COLUMNS}, **values)


def partition(number: int, replicas: list[int], topic: str = "t", **values: Any) -> dict[str, Any]:
    """A row of ``instance``: 10 bytes, in sync, the first replica leads."""
    loads = {"size_bytes": 10, "in_bytes_per_s": 2, "out_bytes_per_s": 3, "mobility": "free"}
    state = {"replicas": replicas, "isr": sorted(replicas), "leader": replicas[0], "replication_factor": len(replicas)}
    return {"topic": topic, "partition": number, **state, **loads, **values}


def planned(
    number: int, before: list[int], after: list[int], *reasons: str, topic: str = "t", **values: Any
) -> dict[str, Any]:
    """A row of ``plan``: each added replica copies 10 bytes, in wave 1."""
    moved = 10 * len({*after} - {*before})
    is_changed = before != after
    row = {"current_replicas": before, "proposed_replicas": after, "moved_bytes": moved, "is_changed": is_changed}
    key = {"topic": topic, "partition": number, "wave": 1 if is_changed else None}
    return {**key, **row, "reason_codes": [*reasons], **values}


def settings_of(**sections: Mapping[str, Any]) -> dict[str, Any]:
    """The recorded configuration, with other values of some knobs; ``cluster`` is the cluster's own entry."""
    settings = json.loads(Settings(clusters=(ClusterInput(id=CLUSTER, input="any"),)).planning_json())
    settings["clusters"][0].update(sections.pop("cluster", {}))
    for name, knobs in sections.items():
        settings[name].update(knobs)
    return dict(settings)


@dataclass(frozen=True)
class StoredRun:
    """A run in a warehouse: rows by table, its verdict and configuration."""

    run_id: str
    rows: Rows
    verdict: str = "planned"
    exit_code: int | None = 0
    reason: str | None = None
    settings: Mapping[str, Any] = field(default_factory=settings_of)

    def write(self, warehouse: Warehouse) -> None:
        """Append the rows, then the verdict and the record of each stage, as the runner does."""
        key = {"cluster_id": CLUSTER, "run_id": self.run_id}
        for stage in NAMES:
            writes, fingerprints = {}, {}
            for table in DECLARED[stage].writes:
                rows = [full_row(table, {**row, **key}) for row in self.rows.get(table, ())]
                if rows:
                    warehouse.append(table, rows)
                writes[table], fingerprints[table] = warehouse.version(table), f"{len(rows)}:1"
            record = {"stage": stage, "code_version": "v1", "config_hash": "", "config_json": json.dumps(self.settings)}
            kept = {name: list(found.items()) for name, found in (("writes", writes), ("fingerprints", fingerprints))}
            warehouse.append("runs", [{"cluster_id": "*", "run_id": self.run_id, **record, "reads": [], **kept}])
        verdict = {"verdict": self.verdict, "exit_code": self.exit_code, "reason": self.reason, "attempt": 1}
        warehouse.append("verdicts", [full_row("verdicts", {**key, **verdict})])
