"""A cluster that asks everything of the rounds, and its solved tables as bytes; run as a program, on another master.

``python -m tests.stages.planned MASTER FOLDER`` solves it in a session of its own where the first attempt at every
shard of a balancing round ends its worker. It writes the tables to FOLDER, and an empty file for each of these ends to
``FOLDER/deaths``.
"""

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyspark
from pyspark.sql import DataFrame, SparkSession

import schemas
from benchmarks.rows import broker_row, partition_row
from optimizer.configuration import build
from optimizer.settings import Settings
from optimizer.solve import driver
from optimizer.solve.rounds.cluster_round import ClusterRound
from optimizer.solve.shard.search import Search
from optimizer.solve.shard.shard_status import ShardStatus
from optimizer.solve.tuning import TUNED, Tuning
from optimizer.stages.baseline import baseline
from optimizer.stages.emit import emit
from optimizer.stages.plan import plan
from optimizer.stages.solve import solve
from optimizer.stages.solve.spark_placement import SparkPlacement
from optimizer.stages.stage import Frames, Run
from schemas.spark import conform, schema_of
from tests.stages.tables import table

# Rounds of every kind: racks repaired over all racks, then shards of one rack, then over all racks again.
SETTINGS: Settings = build({"solver": {"shard_brokers": 6, "rack_shard_brokers": 3, "rounds": 3}})
DEAD = 137
SOLVED = ("proposal", "moves", "leaders", "leader_bounds", "shard_results", "bounds", "curve", "findings")
Rows = list[dict[str, Any]]
# Tables of validate that a fleet of solved clusters has no rows of.
EMPTY = (
    *("quality_results", "input_findings", "sources", "topics", "throttles_found"),
    *("brokers", "consumer_groups", "consumer_members"),
)


def cluster() -> dict[str, Rows]:
    """18 brokers on three racks, one to drain, one new, 120 partitions of RF 3, some with two replicas in a rack."""
    generator = np.random.default_rng(2)
    key = {"cluster_id": "a", "run_id": "r"}
    states = {0: "draining", 17: "new"}
    brokers: Rows = [broker_row(100 + b, **key, rack=f"r{b % 3}", state=states.get(b, "alive")) for b in range(18)]
    partitions: Rows = [{**_partition(p, generator), **key} for p in range(120)]
    return {"instance": partitions, "instance_brokers": brokers}


def _partition(number: int, generator: np.random.Generator) -> dict[str, Any]:
    """A partition on brokers 100 to 116, more often on the lower ones; every fifteenth breaks the rack rule."""
    racks = generator.permutation(3)
    column = (generator.random(3) ** 1.5 * 5).astype(int)
    replicas = [100 + int(r) + 3 * int(c) for r, c in zip(racks, column, strict=True)]
    if number % 15 == 0:
        replicas[1] = 103 + (replicas[0] - 100) % 15
    size = int(generator.lognormal(20, 1))
    loads = {"size_bytes": size, "in_bytes_per_s": size // 10_000, "out_bytes_per_s": size // 4_000}
    return partition_row(replicas, topic=f"t{number % 7}", partition=number // 7, **loads)


def run_of(spark: SparkSession, settings: Settings = SETTINGS) -> Run:
    """A run, with small shards unless given otherwise."""
    return Run(spark, "r", settings, "test")


def frames_of(spark: SparkSession, tables: dict[str, Rows], *, slices: int) -> dict[str, DataFrame]:
    """The tables as frames of so many partitions."""
    frames = {}
    for name, rows in tables.items():
        values = [tuple(row[c.name] for c in schemas.ALL[name].columns) for row in rows]
        frames[name] = table(spark, name, values, slices=slices)
    return frames


def table_bytes(frame: DataFrame, name: str) -> bytes:
    """All rows of a table without its volatile columns, in order, as bytes."""
    table = schemas.ALL[name]
    columns = [c.name for c in table.columns if c.name not in table.volatile]
    rows = conform(frame, table).select(*columns).toJSON().collect()
    return "\n".join(sorted(rows)).encode()


def solved(run: Run, tables: dict[str, Rows], *, slices: int = 2, tuning: Tuning = TUNED) -> Frames:
    """Every table that solve makes of the cluster, with those that it is made from."""
    return solved_of(run, frames_of(run.spark, tables, slices=slices), tuning)


def solved_of(run: Run, inputs: Frames, tuning: Tuning = TUNED) -> Frames:
    """The same of ``instance`` and ``instance_brokers`` as frames."""
    return {**inputs, **_conformed(solve.build(inputs, run, tuning))}


def _conformed(frames: Frames) -> dict[str, DataFrame]:
    return {name: conform(frame, schemas.ALL[name]).localCheckpoint() for name, frame in frames.items()}


def solved_bytes(frames: Frames) -> dict[str, bytes]:
    """The tables of solve as bytes."""
    return {name: table_bytes(frame, name) for name, frame in frames.items() if name in SOLVED}


def finished(run: Run, frames: Frames) -> dict[str, DataFrame]:
    """Solved tables with the tables that plan and emit make of them."""
    known = {**frames, **baseline.build(frames, run)}
    for name in EMPTY:
        known[name] = run.spark.createDataFrame([], schema_of(schemas.ALL[name]))
    known |= plan.build(known, run)
    return {**known, **emit.build(known, run)}


def document_bytes(run: Run, frames: Frames) -> bytes:
    """Every document of the plan that follows from solved tables."""
    return table_bytes(finished(run, frames)["documents"], "documents")


@dataclass(frozen=True)
class Searching(SparkPlacement):
    """A placement that searches in its rounds for something other than requested."""

    search: Callable[[str, ClusterRound], Search]

    def after_round(self, tasks: Mapping[str, ClusterRound]) -> tuple[Self, list[ShardStatus]]:
        """The round with other searches."""
        return super().after_round({c: replace(task, search=self.search(c, task)) for c, task in tasks.items()})


def solved_by(inputs: Frames, run: Run, search: Callable[[str, ClusterRound], Search]) -> Frames:
    """The tables of solve, each round by the search that a function makes of it."""
    placement = Searching(**vars(solve.placement_of(inputs, run)), search=search)
    return solve.tables_of(driver.solve(placement, run.settings), run)


@dataclass(frozen=True)
class DiesOnce(Search):
    """A search that kills the process when it first reads the prices of moves, in the first attempt of a task."""

    deaths: str = ""

    def __getattribute__(self, name: str) -> Any:
        task = pyspark.TaskContext.get()
        if name == "move_prices" and task is not None and task.attemptNumber() == 0:
            Path(self.deaths, f"{task.stageId()}-{task.partitionId()}").touch()
            os._exit(DEAD)
        return super().__getattribute__(name)


def _main(master: str, folder: Path) -> None:
    from tests.conftest import FAST

    builder = SparkSession.builder.master(master).appName("elsewhere")
    other = {**FAST, "spark.sql.shuffle.partitions": "5", "spark.sql.extensions": "", "spark.driver.memory": "1g"}
    other["spark.sql.catalog.spark_catalog"] = ""
    for name, value in other.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    deaths = folder / "deaths"
    deaths.mkdir()

    def dying(_: str, task: ClusterRound) -> Search:
        return DiesOnce(**vars(task.search), deaths=str(deaths))

    made = _conformed(solved_by(frames_of(spark, cluster(), slices=3), run_of(spark), dying))
    for name, content in solved_bytes(made).items():
        (folder / name).write_bytes(content)
    spark.stop()


if __name__ == "__main__":
    _main(sys.argv[1], Path(sys.argv[2]))
