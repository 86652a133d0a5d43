"""Makes warehouses with many old runs of the job, without Spark: one small file for each run and table."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake.transaction import AddAction

import schemas
from optimizer.declared import NAMES
from schemas.runs import BEGIN
from schemas.verdicts import PLANNED
from stored.tables import Warehouse

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)
# A value of each type for columns that no reader of these runs interprets.
_VALUES: Mapping[str, Any] = {"string": "x", "int": 1, "bigint": 1, "double": 1.0, "boolean": False, "timestamp": NOW}


@dataclass(frozen=True, kw_only=True)
class OldRun:
    """A run and the age of its files in days.

    Parameters
    ----------
    verdicts : mapping of str to str
        By cluster.
    approved, executed : float or None
        Days since its approval, and since its last event.
    events : tuple of str
        Its events, of the first cluster.
    """

    run_id: str
    age: float
    verdicts: Mapping[str, str] = field(default_factory=lambda: {"c": PLANNED})
    approved: float | None = None
    executed: float | None = None
    events: tuple[str, ...] = ("held", "released")


def forge(
    folder: Path, runs: Sequence[OldRun], *, tables: Iterable[str] = tuple(schemas.ALL), shortened: int = 1000
) -> Warehouse:
    """A warehouse with these runs: each table has a row of each run and cluster.

    Parameters
    ----------
    shortened : int
        Longest text in statistics, as Spark writes them.
    """
    warehouse = Warehouse(str(folder))
    for name in tables:
        warehouse.version(name)
        files = [file for number, run in enumerate(runs) for file in _files(name, run, number)]
        _add(warehouse, name, files, shortened)
    return warehouse


def _files(table: str, run: OldRun, number: int) -> Iterable[tuple[float, list[dict[str, Any]]]]:
    """Age and rows of each file of a run in a table."""
    keys = [{"cluster_id": cluster, "run_id": run.run_id} for cluster in run.verdicts]
    if table == "runs":
        key = {"cluster_id": "*", "run_id": run.run_id}
        return [(run.age, [{**key, "stage": stage}]) for stage in (BEGIN, NAMES[0], NAMES[-1])]
    if table == "verdicts":
        rows = [{**key, "attempt": 1, "verdict": run.verdicts[key["cluster_id"]], "exit_code": 0} for key in keys]
        return [(run.age, rows)]
    if table == "approvals":
        return [] if run.approved is None else [(run.approved, keys[:1])]
    if table == "executions":
        results = {**dict.fromkeys(("running", "ended"), '{"host": "h"}'), "rollback": '{"waves": [1], "by": "ann"}'}
        rows = [
            {**keys[0], "number": n, "event": event, "result": results.get(event), "changes": None}
            for n, event in enumerate(run.events, start=1000 * number)
        ]
        return [] if run.executed is None else [(run.executed, rows)]
    return [(run.age, keys)]


def _add(warehouse: Warehouse, table: str, files: Iterable[tuple[float, list[dict[str, Any]]]], shortened: int) -> None:
    """Add files to a table in one commit, with the statistics that Spark writes."""
    delta = warehouse.open_table(table)
    assert delta
    columns, actions = schemas.ALL[table].columns, []
    schema = pa.schema(delta.schema().to_arrow())
    usual = {each.name: None if each.nullable else _VALUES.get(each.type, []) for each in columns}
    for number, (age, rows) in enumerate(files):
        path = Path(warehouse.path) / table / f"part-{number:06}.parquet"
        pq.write_table(pa.Table.from_pylist([{**usual, **row} for row in rows], schema=schema), path)
        keys = {name: sorted(row[name] for row in rows) for name in ("cluster_id", "run_id")}
        lowest = {name: values[0][:shortened] for name, values in keys.items()}
        highest = {
            name: values[-1][:shortened] + "\U0010ffff" * (len(values[-1]) > shortened) for name, values in keys.items()
        }
        stats = {"numRecords": len(rows), "minValues": lowest, "maxValues": highest, "nullCount": {}}
        written = int((NOW - timedelta(days=age)).timestamp() * 1000)
        actions.append(AddAction(path.name, path.stat().st_size, {}, written, True, json.dumps(stats)))
    if actions:
        delta.create_write_transaction(actions, "append", delta.schema())
