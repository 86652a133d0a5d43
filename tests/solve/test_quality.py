"""How near the plan comes to its bound, on clusters of 30 brokers and 3,000 partitions."""

import pandas as pd
import pytest

from benchmarks.generate import generate
from optimizer.domain import Cluster
from optimizer.frames.cluster import to_cluster
from optimizer.settings import Policy
from tests.solve.clusters import bounds, moved_bytes, out_of_band, plan_one_shard, rack_breaches

MB = 1 << 20


def cluster_of(scenario: str, seed: int = 1) -> Cluster:
    """A generated cluster of size S."""
    made = generate("S", scenario, seed)
    leaving = set(made["decommission"])
    brokers = [
        {
            "broker_id": b["id"],
            "rack": b["rack"],
            "state": "draining" if b["id"] in leaving else "alive",
            "accepts_replicas": b["id"] not in leaving,
            "accepts_leadership": b["id"] not in leaving,
            "must_empty": b["id"] in leaving,
            "disk_capacity_bytes": int(b["disk_capacity_mb"] * MB),
            "in_capacity_bytes_per_s": None,
            "out_capacity_bytes_per_s": None,
            "pinned_topics": [],
        }
        for b in made["brokers"]
    ]
    partitions = [
        {
            "topic": p["topic"],
            "partition": p["partition"],
            "replicas": p["replicas"],
            "leader": p["leader"],
            "replication_factor": len(p["replicas"]),
            "size_bytes": int(p["size_mb"] * MB),
            "in_bytes_per_s": int(p["nw_in_kbps"] * 1024),
            "out_bytes_per_s": int(p["nw_out_kbps"] * 1024),
            "mobility": "free",
            "topic_most_replicas": None,
        }
        for p in made["partitions"]
    ]
    return to_cluster(pd.DataFrame(partitions), pd.DataFrame(brokers), scenario)


@pytest.mark.parametrize("scenario", ["expand", "decom", "legacy", "drift", "uneven"])
def test_plan_is_within_a_thousandth_of_its_bound(scenario: str) -> None:
    """Every band holds, every rack is in order, and the bytes are at most 0.1 % over the best of the three bounds."""
    cluster = cluster_of(scenario)
    planned = plan_one_shard(cluster, Policy())
    bound = max(bounds(cluster, planned, planned.replicas))
    moved = moved_bytes(cluster, planned.replicas)
    assert out_of_band(cluster, planned.replicas, planned.limits, planned.scale) < 1e-6
    assert rack_breaches(cluster, planned.replicas) == 0
    assert not cluster.brokers.must_empty[planned.replicas].any()
    assert bound <= moved <= 1.001 * bound
