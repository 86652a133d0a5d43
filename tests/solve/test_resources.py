"""One table of the resources that brokers are balanced by."""

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.planned import rows_of
from optimizer.domain import Cluster
from optimizer.settings import Policy, Settings
from optimizer.solve import driver
from optimizer.solve.rules import resources
from optimizer.solve.rules.bands import replica_weights
from optimizer.solve.rules.resources import PLACEMENT, Resource
from optimizer.stages.solve.memory_placement import MemoryPlacement, in_memory
from optimizer.units import human_rate
from tests.solve.clusters import make_brokers, make_cluster, make_partitions

OUT = Resource("out", "out_bytes_per_s", "out_capacity_bytes_per_s", human_rate)


def hot_readers() -> Cluster:
    """Six brokers that differ in nothing but what is read from them."""
    lists = [[b] for b in range(6) for _ in range(40)]
    partitions = make_partitions(lists, [1000 + n % 7 for n in range(240)], [5] * 240)
    read = np.array([100 + 900 * (host == 0) for (host,) in lists])
    return make_cluster(make_brokers([0, 1, 2] * 2), replace(partitions, out_bytes_per_s=read))


def solved(cluster: Cluster) -> driver.Solved[MemoryPlacement]:
    """The plan by the whole algorithm, in this process."""
    hosts = {cluster.cluster_id: cluster.brokers}
    settings = Settings(policy=Policy(out_band=0.1, leaders_band=9.0))
    return driver.solve(in_memory(rows_of(cluster), hosts), settings)


def test_a_fourth_resource_is_summed_banded_balanced_and_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """One row more in the table: without it nothing moves, with it what is read is levelled, at a proven cost."""
    cluster = hot_readers()
    without = solved(cluster)
    assert not len(without.tables["moves"])
    monkeypatch.setattr(resources, "PLACEMENT", (*PLACEMENT, OUT))
    assert (replica_weights(cluster.partitions)[:, 3] == cluster.partitions.out_bytes_per_s).all()
    found = solved(cluster)
    one, rows = found.clusters["test"], found.bounds.rows["test"]
    assert one.loads_before[:, 3].tolist() == [40_000.0, *[4_000.0] * 5]
    assert one.bands.resources == ("replicas", "disk", "in", "out")
    assert (one.loads >= one.bands.lower - 1e-6).all() and (one.loads <= one.bands.upper + 1e-6).all()
    moved = int(found.tables["moves"]["size_bytes"].sum())
    best = max(row.bound_bytes for row in rows)
    assert 0 < 0.9 * moved <= best <= moved
    assert all(row.bound_bytes <= moved for row in rows)
