"""How near the plan comes to its bound, on clusters of 30 brokers and 3,000 partitions."""

from dataclasses import replace
from functools import cache

import pytest

from benchmarks.generate import generate
from benchmarks.planned import Outcome, cluster_of, solve
from optimizer.configuration import build, read_toml
from optimizer.domain import Cluster
from optimizer.settings import Policy
from optimizer.solve.bounds.bound import band_price, flow_bytes, flow_prices, usable_prices, widen
from optimizer.solve.bounds.terms import partition_terms
from optimizer.solve.bounds.tighter_bounds import cluster_prices
from optimizer.solve.rules.bands import bands, broker_loads, demand_of, load_scale, replica_weights
from optimizer.solve.rules.resources import DISK
from optimizer.solve.shard.assemble import ClusterFrame
from optimizer.solve.tuning import TUNED
from setup.paths import HOME
from tests.solve.clusters import Planned, loads_of, moved_bytes, out_of_band, plan_cluster, rack_breaches

SETTINGS = build(read_toml(HOME / "conf" / "default.toml"))


@cache
def planned_of(scenario: str) -> tuple[Cluster, Planned]:
    """A cluster and its plan in one shard, or in one of each rack."""
    cluster = cluster_of(generate("S", scenario, 1), scenario)
    return cluster, plan_cluster(cluster, Policy())


@cache
def in_shards_of_ten(scenario: str) -> Outcome:
    """The plan of such a cluster in shards of ten brokers."""
    settings = replace(SETTINGS, solver=replace(SETTINGS.solver, shard_brokers=10, curve_brokers=0))
    return solve(cluster_of(generate("S", scenario, 1), scenario), settings)


@pytest.mark.parametrize("scenario", ["expand", "decom", "legacy", "drift", "uneven"])
def test_plan_is_within_a_thousandth_of_its_bound(scenario: str) -> None:
    """Every band holds, every rack is in order, and the bytes are at most 0.1 % over the best of the three bounds."""
    cluster, planned = planned_of(scenario)
    bound = planned.best_bound
    moved = moved_bytes(cluster, planned.replicas)
    assert out_of_band(cluster, planned.replicas, planned.bands, planned.scale) < 1e-6
    assert rack_breaches(cluster, planned.replicas) == 0
    assert not cluster.brokers.must_empty[planned.replicas].any()
    assert bound <= moved <= 1.001 * bound


@pytest.mark.parametrize(
    ("scenario", "gap"),
    [
        pytest.param("expand", 0.02, marks=pytest.mark.all_only),
        ("decom", 0.002),
        ("legacy", 0.002),
        ("drift", 0.02),
    ],
)
def test_shards_of_ten_brokers_lose_little(scenario: str, gap: float) -> None:
    """Cut in three, a cluster's plan keeps bands and racks and stays near the bound over all brokers."""
    cluster = cluster_of(generate("S", scenario, 1), scenario)
    found = in_shards_of_ten(scenario)
    assert found.shards >= 3 and found.violation < 1e-6
    assert rack_breaches(cluster, found.replicas) == 0
    assert found.bound_bytes <= found.moved_bytes <= (1 + gap) * found.bound_bytes


def test_prices_of_the_whole_cluster_prove_what_those_of_shards_cannot() -> None:
    """Shards of ten brokers prove too little; the relaxation around their plan proves more, and never too much."""
    cluster = cluster_of(generate("S", "drift", 1), "drift")
    brokers, partitions = cluster.brokers, cluster.partitions
    found = in_shards_of_ten("drift")
    before, after = (loads_of(cluster, placed) for placed in (partitions.replicas, found.replicas))
    ends, scale = widen(bands(cluster, Policy()), after), load_scale(brokers, demand_of(partitions))
    prices = cluster_prices(ClusterFrame(brokers, ends, before, scale, TUNED), partitions, found.replicas)
    prices = usable_prices(prices * scale[DISK] / scale, ends)
    bound = partition_terms(brokers, partitions, prices, found.replicas).sum() - band_price(prices, ends)
    _, whole = planned_of("drift")
    assert 0.998 * moved_bytes(cluster, whole.replicas) <= bound <= moved_bytes(cluster, whole.replicas)


def test_flow_prices_prove_what_the_flow_bound_does() -> None:
    """At prices of 1 on brokers that must shed, the Lagrangian is within a millionth of the closed form."""
    cluster = cluster_of(generate("S", "drift", 1), "drift")
    brokers, partitions = cluster.brokers, cluster.partitions
    ends = bands(cluster, Policy())
    loads = broker_loads(len(brokers), partitions.replicas, replica_weights(partitions))
    prices = flow_prices(loads, ends)
    terms = partition_terms(brokers, partitions, prices, partitions.replicas).sum()
    flow = flow_bytes(loads, ends, loads)
    assert terms - band_price(prices, ends) == pytest.approx(flow, rel=1e-6)
