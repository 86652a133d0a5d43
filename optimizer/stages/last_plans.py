"""What earlier plans left: clusters that go on below ``start_at``, and brokers that nobody empties any more."""

import json
from collections.abc import Mapping
from itertools import groupby
from operator import attrgetter

from pyspark.sql import functions as F

from optimizer.configuration import only_of
from optimizer.domain import FindingCode
from optimizer.stages.stage import CordonLeft, Run
from optimizer.store import Store
from schemas.verdicts import PLANNED, WITH_PLAN
from stored.cordons import CORDONED, CORDONING, UNCORDONED, in_force, last_cordons

_TABLES = ("verdicts", "sources", "findings", "waves", "runs")


def going_on(store: Store, run: Run) -> frozenset[str]:
    """Clusters whose newest plan was reduced by a limit, or has waves in several nights.

    The newest plan of a cluster is that of the newest snapshot, of all other runs without ``only``: those plan a part
    by request. If it changes nothing, the cluster does not go on. Without ``start_at`` nothing is read.
    """
    if not run.settings.policy.start_at or not all(map(store.exists, _TABLES)):
        return frozenset()
    newest = _newest_runs(store, run)
    ran = F.col("run_id").isin(*newest.values())
    limited = store.all_rows("findings").where(ran & (F.col("code") == FindingCode.LIMITED.value))
    nights = store.all_rows("waves").where(ran).groupBy("cluster_id", "run_id")
    several = nights.agg(F.count_distinct("night_ends_at").alias("nights")).where("nights > 1")
    key = ("cluster_id", "run_id")
    cut = limited.select(*key).union(several.select(*key)).distinct().collect()
    return frozenset(row.cluster_id for row in cut if newest.get(row.cluster_id) == row.run_id)


def cordons_left(store: Store, run: Run) -> tuple[CordonLeft, ...]:
    """Brokers that an earlier plan cordoned to empty them, and that the policy does not empty now."""
    if not store.exists("executions"):
        return ()
    is_about_cordons = F.col("event").isin(CORDONING, CORDONED, UNCORDONED)
    rows = store.all_rows("executions").where(is_about_cordons).orderBy("cluster_id", "number").collect()
    drained = {cluster_id: policy.drain_brokers for cluster_id, policy in run.settings.cluster_policies().items()}
    return tuple(
        CordonLeft(cluster_id, cordon)
        for cluster_id, of_cluster in groupby(rows, key=attrgetter("cluster_id"))
        for cordon in in_force(last_cordons(row.asDict() for row in of_cluster)).values()
        if cordon.broker not in drained.get(cluster_id, (cordon.broker,))
    )


def _newest_runs(store: Store, run: Run) -> Mapping[str, str]:
    """The run of the newest plan by cluster, if that plan changes something. The last attempt of a run counts."""
    ids = [cluster.id for cluster in run.settings.clusters]
    others = F.col("run_id") != run.run_id
    rows = store.all_rows("verdicts").where(others).select("cluster_id", "run_id", "attempt", "verdict").collect()
    last: dict[str, int] = {}
    for row in rows:
        last[row.run_id] = max(row.attempt, last.get(row.run_id, 0))
    verdicts = {
        (row.cluster_id, row.run_id): row.verdict
        for row in rows
        if row.attempt == last[row.run_id] and row.verdict in WITH_PLAN
    }
    states = store.all_rows("sources").where(others & F.col("has_state") & F.col("cluster_id").isin(*ids))
    captured = states.groupBy("cluster_id", "run_id").agg(F.min("captured_at").alias("at")).where("at IS NOT NULL")
    solved = store.all_rows("runs").where(others & (F.col("stage") == "solve")).select("run_id", "config_json")
    contents = {row.run_id: json.loads(row.config_json) for row in solved.collect()}
    newest = {
        row.cluster_id: row.run_id
        for row in captured.orderBy("at", "run_id").collect()
        if (row.cluster_id, row.run_id) in verdicts and not only_of(contents.get(row.run_id, {}), row.cluster_id)
    }
    return {cluster: run_id for cluster, run_id in newest.items() if verdicts[cluster, run_id] == PLANNED}
