"""The algorithm over a placement in Spark and over one in this process: the same tables, for every request; through
rounds of every kind in ``test_determinism``."""

from dataclasses import replace
from itertools import combinations, product
from typing import Any

import numpy as np
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from benchmarks.fuzz.unusual_clusters import unusual_cluster
from benchmarks.small_fleet import instance_frames
from optimizer.kafka.partition_state import CompletionRule, reassignments_end
from optimizer.settings import ClusterInput, Settings, Solver
from optimizer.stages.solve import solve
from optimizer.stages.solve.spark_placement import SQL_ENDS
from optimizer.stages.stage import Run
from tests.stages import planned
from tests.stages.placed import Tables, of_frames, of_process, solved_in_process

CLUSTERS = 9
_LISTS = "replicas array<int>, current array<int>, isr array<int>"
# In shards of two brokers, so that owners matter; a window in which not every order of copies has room.
IN_SHARDS: Settings = replace(unusual_cluster(1000).settings, solver=Solver(shard_brokers=2, rack_shard_brokers=2))
# At most one move, and both spreads of topics.
LIMITED: Settings = replace(
    unusual_cluster(3001).settings, policy=replace(unusual_cluster(3001).settings.policy, max_moves=1)
)


@pytest.mark.all_only
def test_a_cluster_has_the_tables_that_it_has_alone() -> None:
    """Beside a smaller one, before and behind it: its terms, prices, bounds and findings are its own."""
    unusual, mine = unusual_cluster(1000, IN_SHARDS), planned.cluster()
    small = {"instance": unusual.partitions, "instance_brokers": unusual.brokers}
    settings = replace(planned.SETTINGS, clusters=tuple(ClusterInput(id=c, input="/unused") for c in ("0", "a", "b")))

    def rows(table: str, *names: str) -> list[dict[str, Any]]:
        return [{**row, "cluster_id": c} for c in names for row in (mine if c == "a" else small)[table]]

    def tables(*names: str) -> Tables:
        return of_process(solved_in_process(rows("instance", *names), rows("instance_brokers", *names), settings))

    fleet, alone = tables("0", "a", "b"), tables("a")
    assert {table: [row for row in rows if row[0] == "a"] for table, rows in fleet.items()} == alone
    assert alone["moves"] and {row[0] for row in fleet["bounds"]} == {"0", "a", "b"}


def test_spark_knows_which_reassignments_end(spark: SparkSession) -> None:
    """Each rule, for all lists of three and two brokers of five, and every way to be in sync: as in this process."""
    before, five = [0, 1, 2], range(5)
    lists = [[*listed] for n in (2, 3) for listed in combinations(five, n)] + [[0, 1, 2, 3], [2, 1, 0], [0]]
    synced = [[*some] for n in range(1, 4) for some in combinations(before, n)]
    rows = [*product(lists, synced)]
    columns = [F.expr(SQL_ENDS[rule]).alias(rule.name) for rule in CompletionRule]
    frame = spark.createDataFrame([(before, listed, isr) for listed, isr in rows], _LISTS).select(*columns)
    target = np.array([[*listed, *[-1] * (4 - len(listed))] for listed, _ in rows])
    in_sync = np.array([[b in isr for b in before] for _, isr in rows])
    current = np.array([before] * len(rows))
    expected = [reassignments_end(current, target, in_sync, rule).tolist() for rule in CompletionRule]
    assert [[*row] for row in frame.collect()] == [[*row] for row in zip(*expected, strict=True)]


@pytest.mark.all_only
@pytest.mark.parametrize(("first", "template", "shards"), [(1000, IN_SHARDS, 3), (3001, LIMITED, 1)])
def test_both_placements_give_the_same_tables(spark: SparkSession, first: int, template: Settings, shards: int) -> None:
    """Brokers in every state, pins, limits, spreads, changed factors: every row of every table, to the last digit."""
    clusters = {f"c{seed}": unusual_cluster(seed, template) for seed in range(first, first + CLUSTERS)}
    settings = replace(template, clusters=tuple(ClusterInput(id=name, input="/unused") for name in clusters))
    frames = solve.build(instance_frames(spark, clusters), Run(spark, "fuzz", settings, "test"))
    solved = solved_in_process(
        [{**row, "cluster_id": name} for name, cluster in clusters.items() for row in cluster.partitions],
        [{**row, "cluster_id": name} for name, cluster in clusters.items() for row in cluster.brokers],
        settings,
    )
    assert of_process(solved) == of_frames(frames)
    assert len(solved.tables["moves"]) > CLUSTERS // 2
    assert any(cluster.over_limits for cluster in solved.clusters.values())
    assert any(cluster.left_for_disk for cluster in solved.clusters.values()) is (template is IN_SHARDS)
    assert 1 + max(shard.shard_id for shard in solved.shards) == shards
