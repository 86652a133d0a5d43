"""The balance of a plan in its tables says what its findings say."""

import numpy as np
import pandas as pd
import pytest

from benchmarks.rows import broker_row, partition_row
from optimizer.planning.arrays import to_cluster
from optimizer.planning.balance_rows import measure
from optimizer.settings import Policy
from optimizer.solve.findings.band_findings import band_findings
from optimizer.solve.rules.bands import bands, broker_loads, replica_weights

GB = 10**9
POLICY = Policy(disk_band=0.0005, replicas_band=100, in_band=100)
LISTS = ("replicas", "current_replicas", "baseline_replicas", "proposed_replicas")
KEY = {"cluster_id": "c", "run_id": "r"}


def hosts() -> pd.DataFrame:
    """Three brokers, the first with most of all disks."""
    capacities = ((1, 10_000), (2, 10), (3, 10))
    return pd.DataFrame([broker_row(b, **KEY, disk_capacity_bytes=capacity * GB) for b, capacity in capacities])


def partitions(sizes: list[int]) -> pd.DataFrame:
    """One partition on each broker."""
    rows = [
        {**partition_row([n], **KEY, topic=f"t{n}", size_bytes=size), **{name: [n] for name in LISTS}}
        for n, size in enumerate(sizes, start=1)
    ]
    return pd.DataFrame(rows)


@pytest.mark.parametrize("over_bytes", [-100, 100, 2_000, 20_000])
def test_findings_name_the_brokers_that_are_counted(over_bytes: int) -> None:
    """However little a broker's load is over its band, and however much larger it is than the mean broker's."""
    total = 3 * GB
    first = int(total * 1000 / 1002 * (1 + POLICY.disk_band)) + over_bytes
    rest = (total - first) // 2
    rows = partitions([first, rest, total - first - rest])
    measured = measure(rows, hosts(), policy=POLICY)
    counted = measured.loc[(measured["placement"] == "after") & ~measured["in_band"], "broker_id"].tolist()
    cluster = to_cluster(rows, hosts(), "c")
    now = broker_loads(3, cluster.partitions.replicas, replica_weights(cluster.partitions))
    findings = band_findings(
        cluster.brokers,
        bands(cluster, POLICY),
        now,
        now,
        partitions=cluster.partitions,
        placed=cluster.partitions.replicas,
        policy=POLICY,
        only="",
    )
    named = [int(finding.broker_id or -1) for finding in findings]
    assert named == counted
    assert (1 in named) == (over_bytes > 0)
    assert np.isin([2, 3], named).all()
