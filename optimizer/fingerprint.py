"""Count and hash of a table's rows: equal fingerprints are equal rows."""

from collections.abc import Iterable
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from optimizer.errors import BallastError
from optimizer.units import clause
from schemas.table import Column as Field
from schemas.table import Table


def count_and_hash(rows: DataFrame, contract: Table) -> str:
    """Count and hash of the rows in one pass, in any order; volatile columns are left out."""
    totals: Any = rows.agg(*_content(contract)).first()
    return f"{totals.rows}:{totals.content or 0}"


def fingerprint_of(rows: DataFrame, contract: Table, run_id: str) -> str:
    """``count_and_hash``, with a check of the key and the run id in the same pass.

    Raises
    ------
    BallastError
        When rows repeat the key, or have another run's id.
    """
    key_hash = F.xxhash64(*_with_null_flags(c for c in contract.columns if c.name in contract.full_key))
    totals: Any = rows.agg(
        *_content(contract),
        F.count_distinct(key_hash).alias("keys"),
        F.count_if(F.col("run_id") != run_id).alias("foreign"),
    ).first()
    if totals.foreign:
        rows_have = clause(totals.foreign, "row", "has", "have")
        raise BallastError(f"table {contract.name}: {rows_have} another run id than {run_id!r}")
    if totals.keys != totals.rows:
        key = ", ".join(contract.full_key)
        rows_repeat = clause(totals.rows - totals.keys, "row", "repeats", "repeat")
        raise BallastError(f"table {contract.name}: {rows_repeat} the key ({key})")
    return f"{totals.rows}:{totals.content or 0}"


def _content(contract: Table) -> list[Column]:
    row_hash = F.xxhash64(*_with_null_flags(c for c in contract.columns if c.name not in contract.volatile))
    return [F.count("*").alias("rows"), F.sum(row_hash.cast("decimal(38,0)")).alias("content")]


def _with_null_flags(columns: Iterable[Field]) -> list[Column]:
    """Columns to hash. xxhash64 skips nulls: without the flags, (null, 'a') and ('a', null) have the same hash."""
    listed = list(columns)
    return [F.col(c.name) for c in listed] + [F.col(c.name).isNull() for c in listed if c.nullable]


def row_count_of(fingerprint: str) -> int:
    """The row count of a fingerprint; 0 if the fingerprint is empty."""
    return int(fingerprint.partition(":")[0] or 0)
