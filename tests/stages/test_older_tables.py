"""Tables that another release made: they grow to their contract, or are refused in words."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import schemas
from optimizer.errors import ConfigError
from optimizer.store import Store
from schemas.spark import columns_of
from schemas.table import Table, Type, column
from stored.tables import Warehouse
from tests.stages.test_store import brokers, record

GROWN = (
    column("cause", "string", "why it's so", nullable=True),
    column("places", "array<int>", "where", nullable=True),
)
BROKERS = schemas.ALL["brokers"]
WITHOUT_STATE = tuple(c for c in BROKERS.columns if c.name != "state")
TOPICS = schemas.ALL["topics"]
OTHER_TOPICS = replace(
    TOPICS,
    columns=tuple(replace(c, type="string", nullable=True) if c.name == "partitions" else c for c in TOPICS.columns),
)


def without_rack(contract: Table) -> Table:
    """What an older release had."""
    return replace(contract, columns=tuple(c for c in contract.columns if c.name != "rack"))


@pytest.fixture
def made(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Table], Store]:
    """Makes a table with another contract; returns a store of this release, as a process of its own has it."""

    def make(contract: Table) -> Store:
        with monkeypatch.context() as other:
            other.setitem(schemas.ALL, contract.name, contract)
            Store(str(tmp_path / "ware house"), spark).ensure(contract.name)
        return Store(str(tmp_path / "ware house"), spark)

    return make


def test_an_older_table_gets_the_columns_that_it_lacks(
    spark: SparkSession, made: Callable[[Table], Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Types, comments and checks are the contract's; older rows have null there."""
    store = made(BROKERS)
    store.write("brokers", brokers(spark, {}), run_id="r1")
    check = ("places_few", "places IS NULL OR  size(places) < 3")
    monkeypatch.setitem(
        schemas.ALL, "brokers", replace(BROKERS, columns=(*BROKERS.columns, *GROWN), checks=(*BROKERS.checks, check))
    )
    grown = Store(store.warehouse, spark)
    rows = brokers(spark, {"cause": "new", "places": [1, 2]}, run_id="r2")
    new = grown.write("brokers", rows, run_id="r2")
    for run_id, cause in (("r1", None), ("r2", "new")):
        assert [row.cause for row in grown.read("brokers", run_id=run_id).collect()] == [cause]
    assert [row.cause for row in grown.current_rows("brokers", "r1")] == [None]
    columns = columns_of(spark.read.format("delta").load(grown.path("brokers")).schema)
    assert tuple(columns[-len(GROWN) :]) == GROWN
    with pytest.raises(Exception, match="places_few"):
        grown.write("brokers", brokers(spark, {"places": [1, 2, 3]}, run_id="r3"), run_id="r3")
    Store(store.warehouse, spark).ensure("brokers")
    assert grown.latest_version("brokers") == new


def test_columns_come_in_the_contracts_order(spark: SparkSession, made: Callable[[Table], Store]) -> None:
    """An added column is the last one in the table; reads return it in the order of the contract."""
    store = made(without_rack(BROKERS))
    store.write("brokers", brokers(spark, {"rack": "b"}), run_id="r1")
    assert store.read("brokers", run_id="r1").columns == BROKERS.names
    assert spark.read.format("delta").load(store.path("brokers")).columns[-1] == "rack"


def test_one_table_that_differs_keeps_all_tables_as_they_are(
    spark: SparkSession, made: Callable[[Table], Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No table gets a column if a later one cannot be used; the error names that table. Else all get what they lack."""
    store = made(BROKERS)
    store.write("brokers", brokers(spark, {}), run_id="r1")
    made(OTHER_TOPICS)
    monkeypatch.setitem(schemas.ALL, "brokers", replace(BROKERS, columns=(*BROKERS.columns, *GROWN)))
    later = Store(store.warehouse, spark)
    with pytest.raises(ConfigError, match=r"^table topics of .*: column partitions is string in the table"):
        later.ensure_existing()
    assert store.latest_version("brokers") == 1
    monkeypatch.setitem(schemas.ALL, "topics", OTHER_TOPICS)
    later.ensure_existing()
    assert store.latest_version("brokers") == 2
    assert not later.exists("replicas")


def test_an_earlier_release_goes_on(spark: SparkSession, made: Callable[[Table], Store]) -> None:
    """Nullable columns that only a later release knows stay, with their checks, and get null."""
    check = ("places_few", "places IS NULL OR size(places) < 3")
    store = made(replace(BROKERS, columns=(*BROKERS.columns, *GROWN), checks=(*BROKERS.checks, check)))
    for rack in ("a", "b"):
        store.write("brokers", brokers(spark, {"rack": rack}), run_id="r1")
    assert store.read("brokers", run_id="r1").columns == BROKERS.names
    rows = spark.read.format("delta").load(store.path("brokers")).collect()
    assert [(row.rack, row.cause) for row in rows] == [("b", None)]


def changed(name: str, type_: Type, *, nullable: bool) -> Table:
    """The contract with another column of a name."""
    other = column(name, type_, "other", nullable=nullable)
    return replace(BROKERS, columns=tuple(other if c.name == name else c for c in BROKERS.columns))


@pytest.mark.parametrize(
    ("contract", "message"),
    [
        (changed("rack", "int", nullable=True), "column rack is int in the table, string in this release"),
        (
            changed("rack", "string", nullable=False),
            "column rack is string NOT NULL in the table, string in this release",
        ),
        (
            changed("is_controller", "boolean", nullable=True),
            "column is_controller is boolean in the table, boolean NOT NULL in this release",
        ),
        (
            replace(BROKERS, columns=WITHOUT_STATE, checks=()),
            "column state is missing in the table, string NOT NULL in this release",
        ),
        (
            replace(BROKERS, columns=(*BROKERS.columns, column("cause", "string", "why"))),
            "column cause is string NOT NULL in the table, missing in this release",
        ),
        (
            replace(BROKERS, checks=(("state_known", "state <> ''"),)),
            "check state_known is state <> '' in the table, state IN ('alive', 'fenced', 'dead') in this release",
        ),
    ],
)
def test_any_other_difference_is_refused(
    spark: SparkSession, made: Callable[[Table], Store], contract: Table, message: str
) -> None:
    """The error names table, column, both forms and the remedy. Exit code 2; nothing is written."""
    store = made(contract)
    with pytest.raises(ConfigError, match=re.escape(message)) as caught:
        store.write("brokers", brokers(spark, {}), run_id="r1")
    assert str(caught.value).startswith(f"table brokers of {store.warehouse} was made by another release: ")
    assert "name another warehouse ([storage] warehouse, --warehouse)" in str(caught.value)
    assert store.latest_version("brokers") == 0
    if "check" not in message:
        with pytest.raises(ConfigError, match=re.escape(message)):
            store.read("brokers", run_id="r1")
        with pytest.raises(ConfigError, match=re.escape(message)):
            store.current_rows("brokers", "r1")


def test_an_earlier_release_finds_what_was_recorded(spark: SparkSession, made: Callable[[Table], Store]) -> None:
    """Also after a later one has added a column to ``runs``."""
    store = made(BROKERS)
    written = record(store, store.write("brokers", brokers(spark, {}), run_id="r1"))
    longer = replace(schemas.ALL["runs"], columns=(*schemas.ALL["runs"].columns, GROWN[0]))
    assert made(longer).run_record("r1", "validate") == written


@pytest.mark.parametrize("name", ["approvals", "executions", "verdicts", "documents"])
def test_both_writers_make_the_same_table(spark: SparkSession, tmp_path: Path, name: str) -> None:
    """Jobs can use tables that execution made without Spark, and the other way round."""
    by_spark, without_spark = Store(str(tmp_path / "spark"), spark), Warehouse(str(tmp_path / "deltalake"))
    by_spark.ensure(name)
    Warehouse(by_spark.warehouse).append(name, [])
    without_spark.version(name)
    Store(without_spark.path, spark).ensure(name)
