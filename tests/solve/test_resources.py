"""One table of the resources that brokers are balanced by."""

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.planned import rows_of
from optimizer.domain import FIXED, Cluster, FindingCode
from optimizer.planning.memory_placement import MemoryPlacement, in_memory
from optimizer.settings import Policy, Settings
from optimizer.solve import driver
from optimizer.solve.rules import resources
from optimizer.solve.rules.bands import replica_weights
from optimizer.solve.rules.resources import PLACEMENT_RESOURCES, Resource
from optimizer.units import human_rate
from tests.solve.clusters import make_brokers, make_cluster, make_partitions

OUT = Resource("out", "out_bytes_per_s", "out_capacity_bytes_per_s", lambda policy: policy.out_band)


def hot_readers() -> Cluster:
    """Six brokers that differ in what is read from them, and the last one in how much may be read from it: twice."""
    lists = [[b] for b in range(6) for _ in range(40)]
    partitions = make_partitions(lists, [1000 + n % 7 for n in range(240)], [5] * 240)
    read = np.array([100 + 900 * (host == 0) for (host,) in lists])
    brokers = replace(make_brokers([0, 1, 2] * 2), out_capacity_bytes_per_s=np.array([*[10**6] * 5, 2 * 10**6]))
    return make_cluster(brokers, replace(partitions, out_bytes_per_s=read))


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
    monkeypatch.setattr(resources, "PLACEMENT_RESOURCES", (*PLACEMENT_RESOURCES, OUT))
    assert (replica_weights(cluster.partitions)[:, 3] == cluster.partitions.out_bytes_per_s).all()
    found = solved(cluster)
    one, rows = found.clusters["test"], found.bounds.rows["test"]
    assert one.loads_before[:, 3].tolist() == [40_000.0, *[4_000.0] * 5]
    assert one.bands.resources == ("replicas", "disk", "in", "out")
    mean = 60_000 / 7 * np.array([1, 1, 1, 1, 1, 2])
    assert one.bands.lower[:, 3] == pytest.approx(mean * 0.9)
    assert one.bands.upper[:, 3] == pytest.approx(mean * 1.1)
    assert (one.loads >= one.bands.lower - 1e-6).all() and (one.loads <= one.bands.upper + 1e-6).all()
    moved = int(found.tables["moves"]["size_bytes"].sum())
    best = max(row.bound_bytes for row in rows)
    assert 0 < 0.9 * moved <= best <= moved
    assert all(row.bound_bytes <= moved for row in rows)


def test_a_finding_names_a_fourth_resource_in_its_unit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where what is read may not leave its broker, a finding says how much that is, per second."""
    cluster = hot_readers()
    cluster.partitions.mobility[cluster.partitions.replicas[:, 0] == 0] = FIXED
    monkeypatch.setattr(resources, "PLACEMENT_RESOURCES", (*PLACEMENT_RESOURCES, OUT))
    findings = solved(cluster).tables["findings"]
    placed = findings[(findings["code"] == FindingCode.BAND) & (findings["resource"] == "out")]
    (detail,) = placed[placed["broker_id"] == 0]["detail"]
    above = human_rate(40_000 - 1.1 * 60_000 / 7)
    assert detail.startswith(f"bytes out: {human_rate(40_000)}, {above} above the band, which ends at ")
    assert human_rate(40_000) == "40.0 kB/s"
