"""Tables that another release made, without Spark: they grow to their contract, or are refused in words."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

import schemas
from execution import tables
from execution.tables import Overtaken, Warehouse
from optimizer.errors import ConfigError
from schemas.spark import schema_of
from schemas.table import Table, column

APPROVALS = schemas.ALL["approvals"]
ROW = {
    "cluster_id": "c",
    "run_id": "r",
    "manifest_sha256": "0",
    "approved_by": "me",
    "approved_at": datetime(2026, 11, 1, tzinfo=UTC),
    "approved_from": "here",
}
TICKET = column("ticket", "string", "where it was agreed", nullable=True)
LONGER = replace(APPROVALS, columns=(*APPROVALS.columns[:3], TICKET, *APPROVALS.columns[3:]))


@pytest.mark.parametrize("table", schemas.ALL.values(), ids=schemas.ALL)
def test_the_types_of_every_table_are_read_as_its_contract_names_them(table: Table) -> None:
    """From what Spark writes in the log of a table."""
    fields = schema_of(table).jsonValue()["fields"]
    assert [tables.spark_type(field["type"]) for field in fields] == [column.type for column in table.columns]


def with_contract(monkeypatch: pytest.MonkeyPatch, contract: Table, folder: Path) -> Warehouse:
    """A warehouse as a release with another contract sees it."""
    monkeypatch.setitem(schemas.ALL, "approvals", contract)
    return Warehouse(str(folder))


def tickets(warehouse: Warehouse) -> list[Any]:
    """Of all approvals."""
    return sorted((row["ticket"] for row in warehouse.rows("approvals")), key=str)


def test_rows_are_chosen_by_their_values(tmp_path: Path) -> None:
    """All of them, texts with quotes and numbers; without values it is every row, without a table none."""
    warehouse = Warehouse(str(tmp_path))
    assert warehouse.rows("approvals") == []
    warehouse.append("approvals", [ROW, {**ROW, "run_id": "o'r"}, {**ROW, "cluster_id": "d"}])
    assert [row["cluster_id"] for row in warehouse.rows("approvals", cluster_id="c", run_id="o'r")] == ["c"]
    assert len(warehouse.rows("approvals", cluster_id="c")) == 2
    assert len(warehouse.rows("approvals")) == 3
    assert warehouse.rows("approvals", run_id="' OR true --") == []


def test_a_warehouse_elsewhere_is_no_folder() -> None:
    """Of this machine it is a path, also by its URI; elsewhere a URI without a slash at its end."""
    assert Warehouse("file:///a%20b").path == "/a b"
    remote = Warehouse("s3a://bucket/w/")
    assert (remote.path, remote.folder) == ("s3a://bucket/w", None)


def test_an_older_table_grows(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Rows are read before it does, with None in the column that it lacks; one commit adds column and row."""
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


def test_an_earlier_release_goes_on(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A column that only a later release knows stays, and gets null."""
    with_contract(monkeypatch, LONGER, tmp_path).append("approvals", [{**ROW, "ticket": "T-1"}])
    with_contract(monkeypatch, APPROVALS, tmp_path).append("approvals", [ROW])
    assert tickets(with_contract(monkeypatch, LONGER, tmp_path)) == [None, "T-1"]


def test_any_other_difference_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A column that must be given can't be added: the error names it, both forms and the remedy."""
    Warehouse(str(tmp_path)).append("approvals", [ROW])
    needed = replace(APPROVALS, columns=(*APPROVALS.columns, column("ticket", "string", "where it was agreed")))
    later = with_contract(monkeypatch, needed, tmp_path)
    message = "table approvals of .* column ticket is missing in the table, string NOT NULL in this release; name "
    for ask in (lambda: later.append("approvals", [{**ROW, "ticket": "T-1"}]), lambda: later.rows("approvals")):
        with pytest.raises(ConfigError, match=message):
            ask()


def test_a_comment_that_says_it_better_stops_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Rows are added to a table whose columns another release explains in other words; the table keeps its own."""
    words = (replace(c, comment="in other words") for c in LONGER.columns)
    clearer = replace(LONGER, columns=tuple(words))
    with_contract(monkeypatch, LONGER, tmp_path).append("approvals", [{**ROW, "ticket": "T-1"}])
    with_contract(monkeypatch, clearer, tmp_path).append("approvals", [{**ROW, "ticket": "T-2"}])
    assert tickets(with_contract(monkeypatch, LONGER, tmp_path)) == ["T-1", "T-2"]
    fields = {field.name: field.metadata["comment"] for field in DeltaTable(f"{tmp_path}/approvals").schema().fields}
    assert fields["ticket"] == "where it was agreed"
