"""The contracts of all tables, by name."""

from schemas import bronze, consumers, execution, output, planning, runs, silver, verdicts
from schemas.table import Column, Table, by_name

ALL = by_name(
    (
        *runs.TABLES,
        *verdicts.TABLES,
        *execution.TABLES,
        *bronze.TABLES,
        *silver.TABLES,
        *planning.TABLES,
        *consumers.TABLES,
        *output.TABLES,
    )
)

__all__ = ["ALL", "Column", "Table"]
