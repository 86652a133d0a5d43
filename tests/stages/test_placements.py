"""The algorithm over a placement in Spark and over one in this process: the same tables, whatever is asked."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from enum import Enum
from typing import Any

import numpy as np
import pandas as pd
import pytest
from pyspark.sql import SparkSession

import schemas
from benchmarks.fuzz.odd_clusters import OddCluster, odd_cluster
from benchmarks.small_fleet import instance_frames
from optimizer.settings import ClusterInput, Settings
from optimizer.solve import driver
from optimizer.stages.shared.arrays import to_brokers
from optimizer.stages.solve import solve
from optimizer.stages.solve.memory_placement import in_memory
from optimizer.stages.stage import Run

CLUSTERS = 16
Row = Mapping[str, Any]


def plain(value: Any, kind: str) -> Any:
    """A value as a table holds it in a column of this type, None where it is missing."""
    if isinstance(value, list):
        return [plain(one, "") for one in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, float) and np.isnan(value):
        return None
    return float(value) if kind == "double" and value is not None else value


def stable(table: str, rows: Iterable[Row]) -> list[str]:
    """What rows hold, less what differs from run to run."""
    contract = schemas.ALL[table]
    columns = [c for c in contract.columns if c.name not in (*contract.volatile, "run_id")]
    return sorted(repr([plain(row[c.name], c.dataType.typeName()) for c in columns]) for row in rows)


def in_spark(spark: SparkSession, clusters: Mapping[str, OddCluster], settings: Settings) -> dict[str, list[str]]:
    """All tables of stage solve."""
    made = solve.build(instance_frames(spark, clusters), Run(spark, "fuzz", settings, "test"))
    return {
        table: stable(table, [row.asDict(recursive=True) for row in rows.collect()]) for table, rows in made.items()
    }


def in_process(clusters: Mapping[str, OddCluster], settings: Settings) -> dict[str, list[str]]:
    """The same, without Spark."""
    rows = [{**row, "cluster_id": name} for name, one in clusters.items() for row in one.partitions]
    brokers = {name: to_brokers(pd.DataFrame(one.brokers)) for name, one in clusters.items()}
    solved = driver.solve(in_memory(pd.DataFrame(rows), brokers), settings)
    tables = {table: frame.to_dict("records") for table, frame in solved.tables.items()}
    made = {**tables, **solve.small_tables(solved)}
    return {table: stable(table, rows) for table, rows in made.items()}


@pytest.mark.slow
@pytest.mark.parametrize("first", [1000, 2013, 3001])
def test_both_placements_give_the_same_tables(spark: SparkSession, first: int) -> None:
    """Brokers in every state, pins, limits, spreads, changed factors: every row of every table, to the last digit."""
    asked = odd_cluster(first).settings
    clusters = {f"c{seed}": odd_cluster(seed, asked) for seed in range(first, first + CLUSTERS)}
    named = tuple(ClusterInput(id=name, input="/unused") for name in clusters)
    settings = replace(asked, clusters=named)
    spark_tables, process_tables = in_spark(spark, clusters, settings), in_process(clusters, settings)
    assert spark_tables.keys() == process_tables.keys()
    assert {table: process_tables[table] == rows for table, rows in spark_tables.items()} == dict.fromkeys(
        spark_tables, True
    )
    assert len(spark_tables["moves"]) > CLUSTERS // 2
