"""Rows of documents against the contracts of their tables."""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, get_type_hints

import pytest

import schemas
from optimizer.emit import rows

TABLES: dict[type[rows.TableRow], str] = {
    rows.PlanRow: "plan",
    rows.MoveRow: "moves",
    rows.WaveRow: "waves",
    rows.ThrottleRow: "throttles",
    rows.EarlierThrottleRow: "throttles_found",
    rows.LoadRow: "broker_balance",
    rows.FigureRow: "plan_summary",
    rows.BoundRow: "bounds",
    rows.FindingRow: "findings",
    rows.InputFindingRow: "input_findings",
    rows.QualityRow: "quality_results",
    rows.BrokerRow: "instance_brokers",
    rows.SourceRow: "sources",
    rows.RackFlowRow: "rack_flow",
    rows.BrokerWaveRow: "broker_waves",
    rows.DirectoryRow: "dir_balance",
    rows.DirMoveRow: "dir_moves",
    rows.ConsumerLoadRow: "consumer_load",
    rows.ConsumerImpactRow: "consumer_impact",
    rows.AlternativeRow: "alternatives",
    rows.CurveRow: "curve",
}
# Columns of other tables, which the stage joins to those of ``plan``.
JOINED = {c.name: c for table in ("topics", "instance") for c in schemas.ALL[table].columns}
# Null in no row that comes so far.
OTHERWISE = {
    ("plan", "wave"): int,
    ("plan", "reason_codes"): Sequence[str],
    ("findings", "code"): str,
}
TYPES: dict[str, Any] = {
    "string": str,
    "int": int,
    "bigint": int,
    "double": float,
    "boolean": bool,
    "timestamp": int,  # seconds of Unix time
    "array<int>": Sequence[int],
    "array<string>": Sequence[str],
    "array<struct<path:string,capacity_bytes:bigint,used_bytes:bigint,logs:int,is_open:boolean>>": Sequence[
        Mapping[str, Any]
    ],
    "array<struct<wave:int,rack_set_changes:int,rack_list_changes:int,leader_changes:int,copied:int>>": Sequence[
        Mapping[str, Any]
    ],
}


def test_every_row_has_its_table() -> None:
    """Each row class has a table contract."""
    assert {value for value in vars(rows).values() if isinstance(value, type) and issubclass(value, rows.TableRow)} == {
        rows.TableRow,
        rows.ConfigRow,
        *TABLES,
    }


@pytest.mark.parametrize("row_class", TABLES, ids=lambda row_class: str(row_class.__name__))
def test_rows_are_as_their_contract_says(row_class: type[rows.TableRow]) -> None:
    """Each field is a column of the same type, optional if the column may be null."""
    joined = JOINED if row_class in (rows.PlanRow, rows.DirMoveRow) else {}
    columns = joined | {c.name: c for c in schemas.ALL[TABLES[row_class]].columns}
    hints = get_type_hints(row_class)
    columns_of = {field.name: columns[field.name] for field in fields(row_class)}
    expected = {name: TYPES[c.type] | None if c.nullable else TYPES[c.type] for name, c in columns_of.items()}
    expected |= {name: hint for (table, name), hint in OTHERWISE.items() if table == TABLES[row_class]}
    assert hints == expected


ROW = {"source": "x", "captured_at": None, "records": 1, "has_state": False, "kafka_cluster_id": None}


def test_a_row_needs_its_columns_alone() -> None:
    """A missing column is an error; further columns are ignored."""
    (row,) = rows.SourceRow.of([{**ROW, "run_id": "r"}])
    assert row == rows.SourceRow("x", None, 1, has_state=False)
    with pytest.raises(KeyError, match="records"):
        rows.SourceRow.of([{name: value for name, value in ROW.items() if name != "records"}])
