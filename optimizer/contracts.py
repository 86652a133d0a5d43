"""Contracts against tables that another release made: what such a table lacks, or why it can't be used."""

import re
from collections.abc import Iterable, Mapping

from optimizer.errors import ConfigError
from schemas.table import Column, Table


def missing_columns(contract: Table, found: Iterable[Column], warehouse: str) -> list[Column]:
    """Columns that a table lacks and can be given: all are nullable, so that older rows have null in them.

    Nullable columns that only the table has stay, and get null: an earlier release can go on with a later one's tables.

    Raises
    ------
    ConfigError
        For each other difference: table, column, what it is there and in the contract, and the remedy.
    """
    there, asked = _by_name(found), _by_name(contract.columns)
    missing = [column for name, column in asked.items() if name not in there]
    needed = [column.name for column in missing if not column.nullable]
    surplus = [name for name, column in there.items() if name not in asked and not column.nullable]
    changed = [name for name in asked if name in there and str(asked[name]) != str(there[name])]
    problems = [
        _differs(
            contract, warehouse, f"column {name}", str(there.get(name, "missing")), str(asked.get(name, "missing"))
        )
        for name in (*needed, *changed, *surplus)
    ]
    if problems:
        raise ConfigError(*problems)
    return missing


def missing_checks(contract: Table, found: Mapping[str, str], warehouse: str) -> dict[str, str]:
    """CHECK constraints, SQL by name, that a table lacks and can be given.

    Those of a column that only the table has stay: they hold where it is null.

    Raises
    ------
    ConfigError
        Where the table checks something else by one of these names, or something that the contract does not: rows could
        break it, which only the write would tell.
    """
    asked = dict(contract.checks)
    changed = [name for name in asked if name in found and _without_spaces(found[name]) != _without_spaces(asked[name])]
    surplus = [name for name, sql in found.items() if name not in asked and not _holds(sql, contract)]
    problems = [
        _differs(contract, warehouse, f"check {name}", found[name], asked.get(name, "missing"))
        for name in (*changed, *surplus)
    ]
    if problems:
        raise ConfigError(*problems)
    return {name: sql for name, sql in asked.items() if name not in found}


def _holds(sql: str, contract: Table) -> bool:
    """Whether a check holds for all rows that lack what the contract lacks: a check of an added column begins so."""
    begins = re.match(r"\s*(\w+)\s+IS\s+NULL\s+OR\b", sql, re.IGNORECASE)
    return begins is not None and begins[1] not in contract.names


def _by_name(columns: Iterable[Column]) -> dict[str, Column]:
    return {column.name: column for column in columns}


def _without_spaces(sql: str) -> str:
    """Delta writes constraints that were added later with other spaces."""
    return "".join(sql.split())


def _differs(contract: Table, warehouse: str, what: str, there: str, asked: str) -> str:
    return (
        f"table {contract.name} of {warehouse} was made by another release: {what} is {there} there, {asked} in this "
        "one; name another warehouse ([storage] warehouse, --warehouse), or run the release that made this one"
    )
