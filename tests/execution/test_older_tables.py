"""Tables of another release, without Spark: they get missing columns, or are refused with a message."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

import schemas
from optimizer.errors import ConfigError
from schemas.spark import schema_of
from schemas.table import Table, column
from stored import tables
from stored.tables import Overtaken, Warehouse

APPROVALS = schemas.ALL["approvals"]
ROW = {
    "cluster_id": "c",
    "run_id": "r",
    "manifest_sha256": "0",
    "approved_by": "me",
    "approved_at": datetime(2026, 11, 1, tzinfo=UTC),
    "approved_from": "here",
    "is_revocation": False,
}
TICKET = column("ticket", "string", "where it was agreed", nullable=True)
LONGER = replace(APPROVALS, columns=(*APPROVALS.columns[:3], TICKET, *APPROVALS.columns[3:]))


@pytest.mark.parametrize("table", schemas.ALL.values(), ids=schemas.ALL)
def test_the_types_of_every_table_are_read_as_its_contract_names_them(table: Table) -> None:
    """The types come from the table's Delta log, as Spark writes it."""
    fields = schema_of(table).jsonValue()["fields"]
    assert [tables.spark_type(field["type"]) for field in fields] == [column.type for column in table.columns]


def with_contract(monkeypatch: pytest.MonkeyPatch, contract: Table, folder: Path) -> Warehouse:
    """A warehouse as a release with another contract sees it."""
    monkeypatch.setitem(schemas.ALL, "approvals", contract)
    return Warehouse(str(folder))


def tickets(warehouse: Warehouse) -> list[Any]:
    """The tickets of all approvals."""
    return sorted((row["ticket"] for row in warehouse.rows("approvals")), key=str)


def test_rows_are_selected_by_values(tmp_path: Path) -> None:
    """All values must match, also texts with quotes. Without values every row is selected, without a table none."""
    warehouse = Warehouse(str(tmp_path))
    assert warehouse.rows("approvals") == []
    warehouse.append("approvals", [ROW, {**ROW, "run_id": "o'r"}, {**ROW, "cluster_id": "d"}])
    assert [row["cluster_id"] for row in warehouse.rows("approvals", cluster_id="c", run_id="o'r")] == ["c"]
    assert len(warehouse.rows("approvals", cluster_id="c")) == 2
    assert len(warehouse.rows("approvals")) == 3
    assert warehouse.rows("approvals", run_id="' OR true --") == []


def test_a_remote_warehouse_has_no_folder() -> None:
    """A local URI becomes a path; a remote URI loses the slash at its end."""
    assert Warehouse("file:///a%20b").path == "/a b"
    remote = Warehouse("s3a://bucket/w/")
    assert (remote.path, remote.folder) == ("s3a://bucket/w", None)


def test_an_older_table_grows(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Before that, the missing column reads as None; one commit adds the column and a row."""
    Warehouse(str(tmp_path)).append("approvals", [ROW])
    longer = with_contract(monkeypatch, LONGER, tmp_path)
    assert tickets(longer) == [None]
    version = longer.version("approvals")
    longer.append("approvals", [{**ROW, "ticket": "T-1"}], after=version)
    assert tickets(longer) == [None, "T-1"]
    assert longer.version("approvals") == version + 1
    (field,) = [f for f in DeltaTable(f"{tmp_path}/approvals").schema().fields if f.name == "ticket"]
    assert (field.nullable, field.metadata["comment"]) == (True, "where it was agreed")
    with pytest.raises(Overtaken):
        longer.append("approvals", [{**ROW, "ticket": "T-2"}], after=version)


def test_an_earlier_release_can_append(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A column that only a later release knows stays and gets null."""
    with_contract(monkeypatch, LONGER, tmp_path).append("approvals", [{**ROW, "ticket": "T-1"}])
    with_contract(monkeypatch, APPROVALS, tmp_path).append("approvals", [ROW])
    assert tickets(with_contract(monkeypatch, LONGER, tmp_path)) == [None, "T-1"]


def test_any_other_difference_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A required column cannot be added: the error names it, both types and the remedy."""
    Warehouse(str(tmp_path)).append("approvals", [ROW])
    needed = replace(APPROVALS, columns=(*APPROVALS.columns, column("ticket", "string", "where it was agreed")))
    later = with_contract(monkeypatch, needed, tmp_path)
    message = "table approvals of .* column ticket is missing in the table, string NOT NULL in this release; name "
    for call in (lambda: later.append("approvals", [{**ROW, "ticket": "T-1"}]), lambda: later.rows("approvals")):
        with pytest.raises(ConfigError, match=message):
            call()


def test_another_column_comment_is_no_difference(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Rows are appended if another release has other column comments; the table keeps its own."""
    columns = tuple(replace(c, comment="in other words") for c in LONGER.columns)
    clearer = replace(LONGER, columns=columns)
    with_contract(monkeypatch, LONGER, tmp_path).append("approvals", [{**ROW, "ticket": "T-1"}])
    with_contract(monkeypatch, clearer, tmp_path).append("approvals", [{**ROW, "ticket": "T-2"}])
    assert tickets(with_contract(monkeypatch, LONGER, tmp_path)) == ["T-1", "T-2"]
    fields = {field.name: field.metadata["comment"] for field in DeltaTable(f"{tmp_path}/approvals").schema().fields}
    assert fields["ticket"] == "where it was agreed"
