"""Contracts of every table."""

from schemas import bronze, output, planning, runs, silver, verdicts
from schemas.table import Table, by_name, conform

ALL = by_name((*runs.TABLES, *verdicts.TABLES, *bronze.TABLES, *silver.TABLES, *planning.TABLES, *output.TABLES))

__all__ = ["ALL", "Table", "conform"]
