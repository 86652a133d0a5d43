"""Contracts against tables that another release made: what such a table lacks, or why it can't be used."""

from collections.abc import Mapping

from pyspark.sql import types as T

from optimizer.errors import ConfigError
from schemas.table import Table


def missing_columns(contract: Table, found: T.StructType, warehouse: str) -> list[T.StructField]:
    """Columns that a table lacks and can be given: all are nullable, so that older rows have null in them.

    Nullable columns that only the table has stay, and get null: an earlier release can go on with a later one's tables.

    Raises
    ------
    ConfigError
        For each other difference: table, column, what it is there and in the contract, and the remedy.
    """
    there, asked = _by_name(found), _by_name(contract.schema)
    missing = [column for name, column in asked.items() if name not in there]
    needed = [column.name for column in missing if not column.nullable]
    surplus = [name for name, column in there.items() if name not in asked and not column.nullable]
    changed = [name for name in asked if name in there and _told(asked[name]) != _told(there[name])]
    problems = [
        _differs(contract, warehouse, f"column {name}", _told(there.get(name)), _told(asked.get(name)))
        for name in (*needed, *changed, *surplus)
    ]
    if problems:
        raise ConfigError(*problems)
    return missing


def missing_checks(contract: Table, found: Mapping[str, str], warehouse: str) -> dict[str, str]:
    """CHECK constraints, SQL by name, that a table lacks and can be given.

    Raises
    ------
    ConfigError
        Where the table checks something else by one of these names.
    """
    problems = [
        _differs(contract, warehouse, f"check {name}", found[name], asked)
        for name, asked in contract.checks
        if name in found and _without_spaces(found[name]) != _without_spaces(asked)
    ]
    if problems:
        raise ConfigError(*problems)
    return {name: asked for name, asked in contract.checks if name not in found}


def _by_name(schema: T.StructType) -> dict[str, T.StructField]:
    return {column.name: column for column in schema.fields}


def _told(column: T.StructField | None) -> str:
    if column is None:
        return "missing"
    return column.dataType.simpleString() + ("" if column.nullable else " NOT NULL")


def _without_spaces(sql: str) -> str:
    """Delta writes constraints that were added later with other spaces."""
    return "".join(sql.split())


def _differs(contract: Table, warehouse: str, what: str, there: str, asked: str) -> str:
    return (
        f"table {contract.name} of {warehouse} was made by another release: {what} is {there} there, {asked} in this "
        "one; name another warehouse ([storage] warehouse, --warehouse), or run the release that made this one"
    )
