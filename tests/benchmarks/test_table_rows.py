"""Rows of tables that benchmarks and tests make from arrays."""

from dataclasses import replace

import numpy as np
import pandas as pd
from hypothesis import HealthCheck, given, settings

from benchmarks.rows import partition_rows
from optimizer.domain import Cluster
from optimizer.planning.arrays import COLUMNS, to_partitions
from tests.examples import examples
from tests.solve.clusters import make_brokers, make_cluster, make_partitions
from tests.solve.troubled import troubled_clusters


@settings(max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(troubled_clusters())
def test_rows_of_partitions_become_the_same_arrays(cluster: Cluster) -> None:
    """Every field of the partitions comes back from its column."""
    partitions = cluster.partitions
    order = np.lexsort((partitions.partition, partitions.topic.astype(str)))
    rows = partition_rows(replace(cluster, partitions=partitions.rows(order)))
    again = to_partitions(pd.DataFrame(rows, dtype=object), cluster.brokers.ids)
    for name in COLUMNS.keys() - {"replicas", "isr", "elr"}:  # lists: as wide as they need to be
        assert (getattr(again, name) == getattr(partitions, name)[order]).all()
    assert partition_rows(replace(cluster, partitions=again)) == rows


def test_what_is_not_there_is_null() -> None:
    """No leader and no limit of a topic are null in the rows."""
    partitions = make_partitions([[0, 1]], [7])
    partitions = replace(partitions, leader=np.array([-1]))
    [row] = partition_rows(make_cluster(make_brokers([0, 1]), partitions))
    assert (row["leader"], row["topic_most_replicas"], row["pinned_brokers"]) == (None, None, None)
    assert (row["replicas"], row["mobility"], row["size_bytes"]) == ([0, 1], "free", 7)
