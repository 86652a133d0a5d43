"""Contracts of every table."""

from schemas import bronze, output, planning, runs, silver
from schemas.table import Table, by_name, conform

ALL = by_name((*runs.TABLES, *bronze.TABLES, *silver.TABLES, *planning.TABLES, *output.TABLES))

__all__ = ["ALL", "Table", "conform"]
