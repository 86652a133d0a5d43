"""Compares a table of another release with its contract: what can be added, or why the table can't be used."""

import re
from collections.abc import Iterable, Mapping, Sequence

from optimizer.errors import ConfigError
from optimizer.units import plural
from schemas.table import Column, Table


def missing_columns(contract: Table, columns: Iterable[Column], warehouse: str) -> list[Column]:
    """Columns that the contract has and the table lacks. All are nullable: older rows have null in them.

    Nullable columns that only the table has are allowed and get null: an earlier release can use a later one's tables.

    Parameters
    ----------
    columns : iterable of Column
        The columns of the table.

    Raises
    ------
    ConfigError
        When the table has other differences: the first one, with both definitions, and the remedy.
    """
    actual, declared = _by_name(columns), _by_name(contract.columns)
    missing = [column for name, column in declared.items() if name not in actual]
    required = [column.name for column in missing if not column.nullable]
    surplus = [name for name, column in actual.items() if name not in declared and not column.nullable]
    changed = [name for name in declared if name in actual and str(declared[name]) != str(actual[name])]
    _refuse(
        contract,
        warehouse,
        [
            (f"column {name}", str(actual.get(name, "missing")), str(declared.get(name, "missing")))
            for name in (*required, *changed, *surplus)
        ],
    )
    return missing


def missing_checks(contract: Table, checks: Mapping[str, str], warehouse: str) -> dict[str, str]:
    """CHECK constraints, SQL by name, that the contract has and the table lacks.

    Checks of a column that only the table has are allowed: they are true if the column is null.

    Parameters
    ----------
    checks : mapping of str to str
        The checks of the table.

    Raises
    ------
    ConfigError
        When a check of the table has other SQL, or the contract lacks it: a write could fail on it after all the work.
    """
    declared = dict(contract.checks)
    changed = [
        name for name in declared if name in checks and _without_spaces(checks[name]) != _without_spaces(declared[name])
    ]
    surplus = [
        name for name, sql in checks.items() if name not in declared and not _is_of_unknown_column(sql, contract)
    ]
    _refuse(
        contract,
        warehouse,
        [(f"check {name}", checks[name], declared.get(name, "missing")) for name in (*changed, *surplus)],
    )
    return {name: sql for name, sql in declared.items() if name not in checks}


def _is_of_unknown_column(sql: str, contract: Table) -> bool:
    """Whether a check is true for all rows without a column that the contract lacks: ``column IS NULL OR ...``."""
    begins = re.match(r"\s*(\w+)\s+IS\s+NULL\s+OR\b", sql, re.IGNORECASE)
    return begins is not None and begins[1] not in contract.names


def _by_name(columns: Iterable[Column]) -> dict[str, Column]:
    return {column.name: column for column in columns}


def _without_spaces(sql: str) -> str:
    """Delta changes the spaces of constraints that ALTER TABLE adds."""
    return "".join(sql.split())


def _refuse(contract: Table, warehouse: str, differences: Sequence[tuple[str, str, str]]) -> None:
    """Raise ``ConfigError`` if there is any difference: its part, and what that is in the table and in the contract."""
    if not differences:
        return
    part, actual, declared = differences[0]
    others = f" ({plural(len(differences) - 1, 'more difference')})" if differences[1:] else ""
    raise ConfigError(
        f"table {contract.name} of {warehouse} was made by another release: {part} is {actual} in the table, "
        f"{declared} in this release{others}; name another warehouse ([storage] warehouse, --warehouse), or run the "
        "release that made it"
    )
