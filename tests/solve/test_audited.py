"""From a cluster in any state to documents: every plan passes the audit, or says in a finding what it could not do."""

import numpy as np
import pandas as pd
from hypothesis import HealthCheck, given, settings

from optimizer.domain import Cluster
from optimizer.settings import Policy
from optimizer.solve.rules.bands import broker_loads, replica_weights
from optimizer.stages.shared.arrays import replica_lists
from optimizer.stages.solve.finish import finish_cluster
from tests.examples import examples
from tests.solve.clusters import bounds, plan_one_shard, solved_cluster
from tests.solve.troubled import audited, partition_rows, troubled_clusters

POLICY = Policy()


@settings(max_examples=examples(80), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(troubled_clusters())
def test_every_plan_passes_the_audit(cluster: Cluster) -> None:
    """Whatever is dead, draining, excluded, pinned, fixed, resized, spread: no rule is broken, the bounds lie below."""
    brokers, partitions = cluster.brokers, cluster.partitions
    planned = plan_one_shard(cluster, POLICY, rounds=4, brief=True)
    names_gone = (planned.replicas >= 0) & ~brokers.is_live[np.maximum(planned.replicas, 0)]
    reached = np.where(names_gone.any(axis=1, keepdims=True), partitions.replicas, planned.replicas)

    weights = replica_weights(partitions)
    before, after = (broker_loads(len(brokers), placed, weights) for placed in (partitions.replicas, reached))
    frame = pd.DataFrame(partition_rows(cluster))
    frame["current"] = replica_lists(reached, brokers.ids)
    records = finish_cluster(frame, solved_cluster(brokers, planned.bands, before, after), POLICY)
    assert audited(cluster, records, max(bounds(cluster, planned, reached))) == []
