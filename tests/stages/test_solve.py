"""The solve stage in Spark: a task a shard, the same plan however the rows lie, a failed shard that loses nothing."""

import os
import re
import signal
from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pandas as pd
import pyspark
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import schemas
from benchmarks.rows import broker_row, partition_row
from optimizer.configuration import build
from optimizer.domain import Bands
from optimizer.errors import BallastError
from optimizer.planning.arrays import to_brokers
from optimizer.planning.classes import resource_names
from optimizer.planning.memory_placement import in_memory
from optimizer.settings import Settings
from optimizer.solve import driver
from optimizer.solve.rounds.cluster_round import ClusterRound
from optimizer.solve.rules import resources
from optimizer.solve.shard.search import Search
from optimizer.solve.tuning import TUNED, Tuning
from optimizer.stages.solve import shard_rounds, solve
from optimizer.stages.solve.spark_placement import SparkPlacement, resource_columns, resource_sums
from optimizer.stages.stage import Frames, Run
from tests.solve.clusters import SEARCH
from tests.stages.placed import in_key_order, solved_in_process
from tests.stages.planned import solved_by
from tests.stages.tables import table

SHARDS = 3
# Small shards; the long curve takes most of the time, and is looked at where tables are held against each other.
SOLVER = {"shard_brokers": 8, "rounds": 3, "curve_brokers": 0}
SETTINGS: Settings = build({"solver": SOLVER})


def rows_of(cluster_id: str, *, seed: int) -> dict[str, list[dict[str, Any]]]:
    """24 brokers on four racks, the last one new and the first to drain; 360 partitions of RF 3 in skewed places."""
    generator = np.random.default_rng(seed)
    key = {"cluster_id": cluster_id, "run_id": "r"}
    states = {0: "draining", 23: "new"}
    brokers = [broker_row(100 + b, **key, rack=f"r{b % 4}", state=states.get(b, "alive")) for b in range(24)]
    partitions = []
    for p in range(360):
        racks = generator.permutation(4)[:3]
        replicas = [100 + int(r) + 4 * int(generator.integers(0, 6)) for r in racks]
        replicas = [119 if b == 123 else b for b in replicas]
        size = int(generator.lognormal(20, 1))
        loads = {"size_bytes": size, "in_bytes_per_s": size // 10_000, "out_bytes_per_s": size // 4_000}
        partitions.append(partition_row(replicas, **key, topic=f"t{p % 9}", partition=p // 9, **loads))
    return {"instance": partitions, "instance_brokers": brokers}


def frames_of(spark: SparkSession, *clusters: dict[str, list[dict[str, Any]]], slices: int = 2) -> Frames:
    """Both input tables of one or more clusters, spread over some partitions."""
    tables = {}
    for name in ("instance", "instance_brokers"):
        rows = [tuple(row[c.name] for c in schemas.ALL[name].columns) for cluster in clusters for row in cluster[name]]
        tables[name] = table(spark, name, rows, slices=slices)
    return tables


def run_of(spark: SparkSession) -> Run:
    """A run with small shards."""
    return Run(spark, "r", SETTINGS, "test")


class OneTaskIsSlow(Search):
    """A search that leaves the first task of the second cluster no time for a linear program."""

    def __getattribute__(self, name: str) -> Any:
        task = pyspark.TaskContext.get()
        if name == "lp_time_limit" and task is not None and task.partitionId() == SHARDS:
            return 1e-6
        return super().__getattribute__(name)


class OneWorkerDies(Search):
    """A search that ends the process of the first task of the third, as the system does when memory is out."""

    def __getattribute__(self, name: str) -> Any:
        task = pyspark.TaskContext.get()
        if name == "lp_time_limit" and task is not None and task.partitionId() == 2 * SHARDS:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().__getattribute__(name)


@pytest.fixture(scope="module")
def left(spark: SparkSession) -> Frames:
    """Three clusters: a shard of the second runs out of time, a worker of the third dies in the first round."""
    inputs = frames_of(spark, rows_of("a", seed=1), rows_of("b", seed=2), rows_of("c", seed=1))

    def search(name: str, task: ClusterRound) -> Search:
        if name == "b":
            return OneTaskIsSlow(**vars(replace(SEARCH, is_last=task.search.is_last)))
        return OneWorkerDies(**vars(SEARCH)) if name == "c" and not task.round else task.search

    return {name: frame.localCheckpoint() for name, frame in solved_by(inputs, run_of(spark), search).items()}


@pytest.fixture(scope="module")
def solved(left: Frames) -> Frames:
    """The cluster of the fleet that nothing happens to."""
    return {name: frame.where("cluster_id = 'a'") for name, frame in left.items()}


def test_plan_drains_and_stays_above_its_bound(solved: Frames) -> None:
    """Nothing stays on the draining broker, and the bytes moved lie between the best bound and a little above it."""
    proposed = solved["proposal"].collect()
    assert not any(100 in row.replicas for row in proposed)
    assert all(len(set(row.replicas)) == 3 for row in proposed)
    moved = sum(row.size_bytes for row in solved["moves"].collect())
    best = [row.bound_bytes for row in solved["bounds"].collect() if row.is_best]
    assert best[0] <= moved <= 1.2 * best[0]
    (lagrangian,) = solved["bounds"].where("kind = 'lagrangian'").collect()
    # Three shards prove less than all brokers together, and prices less than whole replicas.
    assert re.search(r"at the brokers' prices \(cluster, whole replicas for broker 1\d\d\)", lagrangian.detail)
    reasons = {row.reason for row in solved["moves"].collect()}
    assert reasons == {"drain", "balance"}


def test_every_shard_reports_and_has_a_task_of_its_own(spark: SparkSession) -> None:
    """As many status rows as shards in the first round, and as many tasks as shards in the step that solves them."""
    inputs = frames_of(spark, rows_of("a", seed=1))
    start = inputs["instance"].drop("run_id").withColumn("current", inputs["instance"]["replicas"]).localCheckpoint()
    brokers = solve.read_brokers(inputs["instance_brokers"])
    placement = SparkPlacement(start, brokers, "r1")
    tasks = driver._next_rounds(driver._clusters_before_rounds(placement, SETTINGS), SETTINGS, 0, TUNED)
    output = shard_rounds.solve_shards(start, tasks)
    assert output.rdd.getNumPartitions() == SHARDS
    rows = output.collect()
    assert sorted(row.shard for row in rows) == list(range(SHARDS))
    used = output.rdd.mapPartitions(lambda part: [len({row.shard for row in part})]).collect()
    assert used == [1] * SHARDS


def test_a_cluster_is_solved_as_it_is_alone(solved: Frames) -> None:
    """Its proposal doesn't depend on the other clusters of the run: this process makes the same of it by itself."""
    rows = rows_of("a", seed=1)
    alone = solved_in_process(rows["instance"], rows["instance_brokers"], SETTINGS)
    proposed = [row.asDict(recursive=True) for row in solved["proposal"].collect()]
    assert len(proposed) > 0
    assert in_key_order("proposal", proposed) == in_key_order("proposal", alone.tables["proposal"].to_dict("records"))


def test_a_shard_out_of_time_leaves_the_rest_of_the_plan(left: Frames) -> None:
    """It says so in its row and in a finding; the others move replicas, and the bounds still lie below the plan."""
    rows = [row for row in left["shard_results"].collect() if row.cluster_id == "b"]
    slow = [row for row in rows if row.status == "OUT_OF_TIME"]
    assert {row.shard_id for row in slow} == {0}
    assert all(row.violation_before == row.violation_after > 0 for row in slow if row.round == 0)
    assert all(row.moves == 0 and "did not end in 1e-06 of deterministic time" in row.message for row in slow)
    assert sum(row.moves for row in rows if row.status in ("OPTIMAL", "FEASIBLE")) > 0
    details = {row.subject: row.detail for row in left["findings"].collect() if row.rule == "shard_out_of_time"}
    last = max(row.round for row in rows)
    assert details.keys() == {f"shard 0 of round {row.round}" for row in slow}
    goes_on = {row.round: "the next round takes" in details[f"shard 0 of round {row.round}"] for row in slow}
    assert goes_on == {number: number < last for number in goes_on}
    moved = sum(row.size_bytes for row in left["moves"].collect() if row.cluster_id == "b")
    bounds = [row for row in left["bounds"].collect() if row.cluster_id == "b"]
    assert all(row.bound_bytes <= moved for row in bounds)
    gaps = {row.kind: row.gap_percent for row in bounds if row.bound_bytes}
    assert gaps == pytest.approx({r.kind: 100 * (moved / r.bound_bytes - 1) for r in bounds if r.bound_bytes})


def test_a_shard_whose_worker_is_killed_leaves_the_rest(left: Frames) -> None:
    """The round continues without it, and a finding says so; others move replicas, the next round catches up."""
    rows = left["shard_results"].where("cluster_id = 'c'").collect()
    (killed,) = (row for row in rows if row.status == "FAILED")
    assert (killed.round, killed.shard_id, killed.moves) == (0, 0, 0)
    assert "was killed at every attempt" in killed.message
    assert sum(row.moves for row in rows if row.round == 0) > 0
    (finding,) = (row for row in left["findings"].collect() if (row.cluster_id, row.rule) == ("c", "shard_failed"))
    assert "the next round takes its replicas" in finding.detail
    assert "lower solver.shard_brokers" in finding.remedy


@pytest.mark.all_only
def test_a_tuning_reaches_every_task(spark: SparkSession) -> None:
    """Without exchanges Spark makes the plan that this process makes without them, and not the one with them."""
    rows = rows_of("a", seed=1)
    tuning = replace(TUNED, exchanges=False)
    brief = build({"solver": {**SOLVER, "rounds": 1}})
    brokers = {"a": to_brokers(pd.DataFrame(rows["instance_brokers"]))}

    def moves(made: Iterable[Mapping[str, Any]]) -> list[tuple[Any, ...]]:
        return sorted((row["topic"], row["partition"], row["from_broker"], row["to_broker"]) for row in made)

    def here(tuning: Tuning) -> list[tuple[Any, ...]]:
        placement = in_memory(pd.DataFrame(rows["instance"]), brokers)
        return moves(driver.solve(placement, brief, tuning).tables["moves"].to_dict("records"))

    plain = solve.build(frames_of(spark, rows), Run(spark, "r", brief, "test"), tuning)["moves"].collect()
    assert moves(row.asDict() for row in plain) == here(tuning) != here(TUNED)


@pytest.mark.parametrize(
    ("message", "shard"),
    [
        (
            "Job aborted due to stage failure: Task 7 in stage 31.0 failed 4 times, most recent failure: Lost task 7.3 "
            "in stage 31.0 (TID 90) (10.0.0.7 executor 3): org.apache.spark.SparkException: Python worker exited "
            "unexpectedly (crashed)",
            7,
        ),
        ("Task 2 in stage 5.0 failed 1 times, most recent failure: ... ValueError: no such broker", None),
        ("[UNRESOLVED_COLUMN] Python worker exited unexpectedly", None),
    ],
    ids=["worker gone at every attempt", "an error of the code", "no task named"],
)
def test_only_a_process_that_is_gone_takes_its_shard_out(message: str, shard: int | None) -> None:
    """Any other error of Spark ends the run."""
    assert shard_rounds.shard_without_worker(message) == shard


def test_failed_shard_keeps_its_replicas_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """An error inside a shard becomes a status row with its text, and no moves."""

    def broken(*arguments: object) -> None:
        raise BallastError("no memory left")

    monkeypatch.setattr(shard_rounds, "_solve", broken)
    frame = pd.DataFrame({"cluster_id": ["a"], "shard": [0]})
    bands = Bands(("replicas", "disk", "in"), np.zeros((4, 3)), np.ones((4, 3)))
    loaded = cast(Any, SimpleNamespace(loads=np.full((4, 3), 3.0), bands=bands, scale=np.full(3, 2.0)))
    task = ClusterRound(
        loaded, np.zeros(4, dtype=np.int64), 0, within_racks=False, repairs_racks=False, search=SEARCH, gap=0.01
    )
    rows = shard_rounds.solve_group(frame, {"a": task})
    assert rows["moved"].tolist() == [[]]
    assert rows["status"].tolist() == ["FAILED"]
    assert rows["message"].tolist() == ["BallastError: no memory left"]
    assert rows[["moves", "violation_before", "violation_after"]].to_numpy().tolist() == [[0, 12.0, 12.0]]


def test_sums_have_the_names_of_all_resources(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the table of resources holds, the sums in Spark are in its order and under its names."""
    fourth = resources.Resource("out", "out_bytes_per_s", "out_capacity_bytes_per_s", lambda policy: policy.out_band)
    monkeypatch.setattr(resources, "PLACEMENT_RESOURCES", (*resources.PLACEMENT_RESOURCES, fourth))
    rows = spark.range(3).select(*(F.lit(number).alias(name) for number, name in enumerate(resource_columns(), 1)))
    assert rows.agg(*resource_sums()).collect()[0].asDict() == {"replicas": 3, "disk": 3, "in": 6, "out": 9}
    assert resource_names() == ["replicas", "disk", "in", "out"]
