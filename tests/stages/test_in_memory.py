"""Plans in memory are those of the stages: tables of solve and plan, for small unusual clusters of every kind."""

from dataclasses import replace

import pandas as pd
import pytest
from pyspark.sql import SparkSession

from benchmarks.fuzz.unusual_clusters import with_directories
from benchmarks.small_fleet import POLICIES, instance_frames, policy_fleet
from optimizer.domain import FindingCode
from optimizer.planning.in_memory import plan_in_memory
from optimizer.stages.baseline import baseline
from optimizer.stages.plan import plan
from optimizer.stages.solve import solve
from optimizer.stages.stage import Run
from tests.asking.same_tables import OF_PLAN, tables_that_differ, with_restarts

pytestmark = pytest.mark.all_only

CLUSTERS = 16  # of each policy, half of them with directories
FEW = 10  # with ``start_at``: the ninth would wait, but goes on


@pytest.mark.parametrize(("policy", "start_at"), [*((policy, 0.0) for policy in range(0, POLICIES, 3)), (0, 1.5)])
def test_a_plan_in_memory_is_that_of_the_stages(spark: SparkSession, policy: int, start_at: float) -> None:
    """Clusters with one policy are a fleet in the stages, single ones in memory. Half have directories.

    With every second policy, replicas also move inside brokers. With ``start_at`` some of the clusters wait, and
    one goes on.
    """
    settings, clusters = policy_fleet(policy)
    balanced = replace(settings.policy, balance_dirs=policy % 4 == 0, dir_band=0.3, start_at=start_at)
    settings = replace(settings, policy=balanced)
    count = FEW if start_at else CLUSTERS
    chosen = dict([*clusters.items()][:count])
    chosen |= {name: with_directories(chosen[name], policy) for name in [*chosen][: count // 2]}
    started = {*[*chosen][8:9]} if start_at else set()
    run = Run(spark, "fuzz", settings, "test", started)
    frames = instance_frames(spark, chosen)
    for stage in (baseline, solve, plan):
        built = stage.build(frames, run).items()
        frames |= {name: frame.localCheckpoint() for name, frame in built if name != "alternatives"}
    stored = {name: [row.asDict(recursive=True) for row in frames[name].collect()] for name in OF_PLAN}
    assert stored["dir_balance"]
    assert bool(stored["dir_moves"]) == settings.policy.balance_dirs
    waiting = {row["cluster_id"] for row in stored["findings"] if row["code"] == FindingCode.WAITS_TO_START}
    assert (0 < len(waiting) < len(chosen)) == bool(start_at)
    assert waiting.isdisjoint({*started, *(row["cluster_id"] for row in stored["moves"])})
    spark.catalog.clearCache()
    for name, cluster in chosen.items():
        instance = pd.DataFrame(cluster.partitions).assign(cluster_id=name)
        hosts = pd.DataFrame(cluster.brokers).assign(cluster_id=name, run_id="fuzz")
        tables = {**plan_in_memory(instance, hosts, settings, started=name in started).tables}
        tables |= with_restarts(tables, hosts, [])
        of_cluster = {t: [row for row in rows if row["cluster_id"] == name] for t, rows in stored.items()}
        assert [*tables_that_differ(of_cluster, tables)] == [], name
