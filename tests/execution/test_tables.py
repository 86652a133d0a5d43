"""Rows as Arrow tables, for tables with many rows."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

import schemas
from execution.tables import Warehouse

INSTANCE = schemas.ALL["instance"]


def partition(number: int, **values: Any) -> dict[str, Any]:
    """A row of ``instance``."""
    lists = {"replicas": [1, 2], "log_dirs": ["/a", "any"], "isr": [1]}
    loads = {"size_bytes": 8, "in_bytes_per_s": 1, "out_bytes_per_s": 1, "replication_factor": 2}
    row = {"cluster_id": "c", "run_id": "r", "topic": "t", "partition": number, "mobility": "free"}
    return {**row, **lists, **loads, **values}


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    """Two runs, in a table that deltalake has rewritten."""
    warehouse = Warehouse(str(tmp_path))
    warehouse.append("instance", [partition(0), partition(1, elr=[3]), partition(2), partition(0, run_id="s")])
    DeltaTable(f"{tmp_path}/instance").delete("partition = 2")
    return warehouse


def test_a_table_has_the_rows_with_these_values_in_the_types_of_the_contract(warehouse: Warehouse) -> None:
    """It has the same rows as ``rows``, and pandas accepts its types."""
    table = warehouse.table("instance", run_id="r", cluster_id="c")
    assert table.to_pylist() == warehouse.rows("instance", run_id="r", cluster_id="c")
    assert table.column_names == INSTANCE.names
    frame = table.sort_by("partition").to_pandas()
    assert [list(paths) for paths in frame["log_dirs"]] == [["/a", "any"]] * 2
    assert frame["partition"].tolist() == [0, 1]


def test_a_table_has_the_given_columns_in_their_order(warehouse: Warehouse) -> None:
    """Other columns are not read."""
    table = warehouse.table("instance", columns=["elr", "partition"], run_id="s")
    assert table.to_pylist() == [{"elr": None, "partition": 0}]
    assert table.column_names == ["elr", "partition"]


def test_columns_that_an_older_table_lacks_are_null(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """They have the type of the contract, also if they are the only ones."""
    with monkeypatch.context() as older:
        shorter = replace(INSTANCE, columns=tuple(c for c in INSTANCE.columns if c.name != "elr"))
        older.setitem(schemas.ALL, "instance", shorter)
        Warehouse(str(tmp_path)).append("instance", [partition(0)])
    warehouse = Warehouse(str(tmp_path))
    assert warehouse.table("instance").to_pylist() == warehouse.rows("instance")
    table = warehouse.table("instance", columns=["elr"])
    assert (table.to_pylist(), table.schema.field("elr").type) == ([{"elr": None}], pa.list_(pa.int32()))


@pytest.mark.parametrize("name", schemas.ALL)
def test_a_missing_table_is_empty(name: str, tmp_path: Path) -> None:
    """It has the columns of its contract."""
    table = Warehouse(str(tmp_path)).table(name)
    assert (len(table), table.column_names) == (0, schemas.ALL[name].names)
    assert not (tmp_path / name).exists()
