"""Copies with fewer bytes than replicas: the plan, its proof and its limits count the copies, by their targets."""

from dataclasses import replace

import numpy as np
from hypothesis import HealthCheck, given, settings

from benchmarks.generate import generate
from benchmarks.planned import cluster_of, policy_of
from optimizer.configuration import build
from optimizer.domain import Cluster
from optimizer.settings import Policy
from optimizer.shipped import defaults
from optimizer.solve.bounds.bound import widen
from tests.examples import examples
from tests.solve.clusters import (
    brute_force,
    loads_of,
    make_brokers,
    make_cluster,
    make_partitions,
    middling_clusters,
    moved_bytes,
    plan_cluster,
    tiny_clusters,
    with_factors,
    with_pins,
    with_tiers,
)

WIDE = Policy(disk_band=0.6, replicas_band=1.0, in_band=2.0)
RELAXED = settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])


@RELAXED
@given(cluster=with_tiers(tiny_clusters() | with_pins(tiny_clusters()) | with_factors(tiny_clusters())))
def test_no_placement_copies_less_than_the_bound(cluster: Cluster) -> None:
    """Whichever brokers skip what is tiered: the bound is no more than the least of all placements as balanced."""
    planned = plan_cluster(cluster, WIDE, brief=True)
    least = brute_force(cluster, widen(planned.bands, loads_of(cluster, planned.replicas)), planned.scale)
    moved = moved_bytes(cluster, planned.replicas)
    assert planned.best_bound <= moved
    if least is not None:
        assert planned.best_bound <= least
    if planned.search_bytes is not None:
        assert planned.search_bytes <= moved


@settings(RELAXED, max_examples=examples(20))
@given(cluster=with_tiers(middling_clusters()))
def test_every_bound_is_below_the_plan(cluster: Cluster) -> None:
    """Forced, flow and prices, also if copies have a tenth of the bytes that move between disks."""
    planned = plan_cluster(cluster, Policy(), brief=True)
    moved = moved_bytes(cluster, planned.replicas)
    assert all(bound <= moved for bound in planned.bounds().values())


def test_a_plan_moves_what_is_cheap_to_copy_to_brokers_where_it_is_cheap() -> None:
    """Of equal partitions the tiered leave the full broker, one of them to the broker that skips what is tiered."""
    brokers = replace(make_brokers([0, 1, 2]), skips_tiered=np.array([False, False, True]))
    partitions = make_partitions([[0]] * 6 + [[1]] * 3 + [[2]] * 3, [10] * 12)
    copied = np.full(12, 10)
    copied[3] = 9
    tiered = np.where(np.arange(12) == 4, 1, copied)
    cluster = make_cluster(brokers, replace(partitions, copy_bytes=copied, tiered_copy_bytes=tiered))
    planned = plan_cluster(cluster, Policy(disk_band=0.2, replicas_band=0.2, in_band=9.0))
    hosts = planned.replicas[:, 0].tolist()
    assert [hosts[3], hosts[4]] == [1, 2]
    assert moved_bytes(cluster, planned.replicas) == planned.best_bound == 10


def test_the_bound_of_a_benchmark_with_tiered_topics_is_close() -> None:
    """Thirty brokers, half of them skip; two thirds of the topics are tiered. Bytes and bound are those of copies."""
    instance = generate("S", "decom", 7)
    cluster, made = cluster_of(instance, "tiered"), build(defaults())
    partitions, brokers = cluster.partitions, cluster.brokers
    numbers = np.unique(partitions.topic.astype(str), return_inverse=True)[1]
    copied = np.where(numbers % 3 > 0, partitions.size_bytes // 4, partitions.size_bytes)
    tiered = np.where(numbers % 3 > 0, copied // 10, copied)
    cluster = make_cluster(
        replace(brokers, skips_tiered=np.arange(len(brokers)) % 2 == 0),
        replace(partitions, copy_bytes=copied, tiered_copy_bytes=tiered),
    )
    policy = policy_of(instance, made.policy)
    planned = plan_cluster(cluster, policy, shard_brokers=made.solver.shard_brokers)
    moved = moved_bytes(cluster, planned.replicas)
    plain = plan_cluster(make_cluster(brokers, partitions), policy, shard_brokers=made.solver.shard_brokers)
    assert planned.best_bound <= moved <= 1.02 * planned.best_bound
    assert moved < moved_bytes(cluster, plain.replicas)
