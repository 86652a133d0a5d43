"""From a cluster in any state to documents: every plan passes the audit, or says in a finding what it could not do."""

from dataclasses import replace

import pandas as pd
from hypothesis import HealthCheck, example, given, settings

from benchmarks.rows import partition_rows
from optimizer.audit import AuditLimits, brokers_from_rows, partitions_from_rows
from optimizer.audit.instance import Instance
from optimizer.configuration import build
from optimizer.domain import Cluster
from optimizer.planning.memory_placement import in_memory
from optimizer.solve.driver import solve
from optimizer.solve.rules.pins import rack_breaks
from optimizer.solve.tuning import TUNED
from tests.examples import examples
from tests.solve.clusters import BRIEF_TIME, make_brokers, make_cluster, make_partitions
from tests.solve.test_driver import with_dead
from tests.solve.troubled import audited, broker_rows, troubled_clusters

BRIEF = replace(TUNED, exact_time_limit=BRIEF_TIME, feasible_time_limit=BRIEF_TIME)
SETTINGS = build({"solver": {"rounds": 3}, "policy": {"move_price": 0.01}, "clusters": [{"id": "test", "input": "x"}]})

HALF_DEAD = make_cluster(
    with_dead(make_brokers([0, 0, 0, 0]), [2, 3]),
    make_partitions([[0, 2, 3], [1, 2, 3], [0, 1, 2], [0, 2]], [10, 20, 30, 40]),
)


@settings(max_examples=examples(80), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(troubled_clusters())
@example(HALF_DEAD)
def test_every_plan_passes_the_audit(cluster: Cluster) -> None:
    """With dead, draining, excluded, pinned, fixed or resized parts: no rule is broken, no bound is above the plan."""
    hosts = {"test": cluster.brokers}
    plan = solve(in_memory(pd.DataFrame(partition_rows(cluster)), hosts), SETTINGS, BRIEF)
    best = max(row.bound_bytes for row in plan.bounds.rows["test"])
    assert audited(cluster, plan.tables, best) == []


@settings(max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(troubled_clusters())
def test_planner_and_audit_have_one_rack_rule(cluster: Cluster) -> None:
    """Both count as many replicas against the rack rule, also where few brokers accept any or pins leave few."""
    instance = Instance(
        brokers=brokers_from_rows(broker_rows(cluster)),
        partitions=partitions_from_rows(partition_rows(cluster)),
        limits=AuditLimits(disk_headroom=0.1),
    )
    audits = [instance.rack_misses(p.replicas, len(p.replicas), p.pinned_brokers) for p in instance.partitions.values()]
    planners = rack_breaks(cluster.brokers, cluster.partitions, cluster.partitions.replicas)
    assert audits == planners.tolist()
