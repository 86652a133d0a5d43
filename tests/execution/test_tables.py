"""Rows as Arrow tables, for tables with many rows."""

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError

import schemas
from optimizer.errors import ConfigError
from schemas.table import column
from stored import tables
from stored.tables import Overtaken, VersionGone, Warehouse, one_line

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


def remove_files(table: DeltaTable) -> None:
    """Remove the files that only older versions need."""
    table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)


def test_an_older_version_is_read_until_its_files_are_removed(warehouse: Warehouse) -> None:
    """The deleted row is in the version before. Afterwards, the error names the table and the version."""
    version = warehouse.version("instance") - 1
    old = sorted(row["partition"] for row in warehouse.rows("instance", version=version, run_id="r"))
    assert old == [0, 1, 2]
    table = warehouse.table("instance", columns=["partition"], version=version, run_id="r")
    assert sorted(table["partition"].to_pylist()) == [0, 1, 2]
    remove_files(DeltaTable(f"{warehouse.path}/instance"))
    for read in (warehouse.rows, warehouse.table):
        with pytest.raises(VersionGone, match=f"^version {version} of table instance in .* cannot be read: .* not f"):
            read("instance", version=version)
    assert len(warehouse.rows("instance", run_id="r")) == 2


@pytest.mark.parametrize(("table", "version"), [("instance", 77), ("moves", 1)])
def test_a_version_that_never_existed_is_gone(warehouse: Warehouse, table: str, version: int) -> None:
    """So is the version of a missing table."""
    with pytest.raises(VersionGone, match=f"version {version} of table {table}"):
        warehouse.table(table, version=version)


def test_a_version_of_another_contract_is_refused(warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not reported as gone."""
    required = replace(INSTANCE, columns=(*INSTANCE.columns, column("ticket", "string", "where it was agreed")))
    monkeypatch.setitem(schemas.ALL, "instance", required)
    with pytest.raises(ConfigError, match="column ticket is missing"):
        warehouse.rows("instance", version=1)


@pytest.mark.parametrize("is_own", [True, False])
def test_a_commit_whose_answer_was_lost_counts(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch, is_own: bool
) -> None:
    """The store refuses the repeated request, as it refuses that of a process which was not first."""

    def refused(*arguments: Any, **options: Any) -> None:
        write_deltalake(*arguments, **options if is_own else {**options, "commit_properties": None})
        raise CommitFailedError("the version exists already")

    version = warehouse.version("instance")
    monkeypatch.setattr(tables, "write_deltalake", refused)
    with nullcontext() if is_own else pytest.raises(Overtaken):
        warehouse.append("instance", [partition(8)], after=version)
    assert warehouse.version("instance") == version + 1


def test_a_file_that_is_gone_is_an_error_of_delta(warehouse: Warehouse) -> None:
    """Commands print it as one line; deltalake itself raises Exception."""
    for file in Path(warehouse.path, "instance").glob("*.parquet"):
        file.unlink()
    with pytest.raises(DeltaError, match="parquet"):
        warehouse.rows("instance")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("Generic S3 error\n \x1b[31m↳\x1b[0m in 2 s\n  \x1b[31m↳\x1b[0m refused", "Generic S3 error: in 2 s: refused"),
        (
            "400 Bad: <?xml version='1.0'?>\n<Error><Code>ExpiredToken</Code><Message>Too old.</Message></Error>",
            "400 Bad: ExpiredToken Too old.",
        ),
        ("<?xml version='1.0'?><Error><Code>Busy</Code></Error>", "Busy"),
        ("<?xml version='1.0'?><html/>", "<?xml version='1.0'?><html/>"),
    ],
)
def test_an_error_of_a_store_is_one_line(text: str, line: str) -> None:
    """Without colours, and without the XML of its answer."""
    assert one_line(OSError(text)) == line
