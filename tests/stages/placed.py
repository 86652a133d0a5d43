"""The tables of stage solve over either placement, as rows that can be held against each other."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame

import schemas
from optimizer.planning.arrays import to_brokers
from optimizer.planning.memory_placement import MemoryPlacement, in_memory
from optimizer.planning.solved_rows import small_tables
from optimizer.settings import Settings
from optimizer.solve import driver

Rows = Sequence[Mapping[str, Any]]
Tables = dict[str, list[tuple[Any, ...]]]
PYTHON = {"string": str, "int": int, "bigint": int, "double": float, "boolean": bool}


def typed(value: Any, kind: str) -> Any:
    """A value as a column of this type holds it, None where it is missing."""
    if kind.startswith("array<"):
        return [typed(item, kind[len("array<") : -1]) for item in value]
    if pd.isna(value):
        return None
    held = PYTHON[kind](value)
    assert held == value
    return held


def in_key_order(table: str, rows: Iterable[Mapping[str, Any]]) -> list[tuple[Any, ...]]:
    """What rows hold in the columns of their contract, less what differs from run to run, in the order of its key."""
    contract = schemas.ALL[table]
    columns = [c for c in contract.columns if c.name not in (*contract.volatile, "run_id")]
    made = [{c.name: typed(row[c.name], c.type) for c in columns} for row in rows]
    key = ("cluster_id", *contract.key)
    made.sort(key=lambda row: [(row[name] is not None, row[name]) for name in key])
    return [tuple(row.values()) for row in made]


def of_frames(frames: Mapping[str, DataFrame]) -> Tables:
    """Tables that Spark has made: of the contract's columns, and no other."""
    for table, frame in frames.items():
        assert frame.columns == schemas.ALL[table].names
    return {
        table: in_key_order(table, [row.asDict(recursive=True) for row in frame.collect()])
        for table, frame in frames.items()
    }


def solved_in_process(partitions: Rows, brokers: Rows, settings: Settings) -> driver.Solved[MemoryPlacement]:
    """The plan of rows of ``instance`` and ``instance_brokers``."""
    frame = pd.DataFrame([*brokers])
    hosts = {str(name): to_brokers(rows) for name, rows in frame.groupby("cluster_id", sort=True)}
    return driver.solve(in_memory(pd.DataFrame([*partitions]), hosts), settings)


def of_process(solved: driver.Solved[MemoryPlacement]) -> Tables:
    """The same tables of a plan in this process: those of the last step have no other columns than Spark's."""
    for table, frame in solved.tables.items():
        assert {*frame.columns, "run_id"} == set(schemas.ALL[table].names)
    made = {table: frame.to_dict("records") for table, frame in solved.tables.items()}
    return {table: in_key_order(table, rows) for table, rows in {**made, **small_tables(solved)}.items()}
