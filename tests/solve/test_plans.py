"""Plans of one shard: legal, never worse than what they start from, and between the bound and the optimum's other
side."""

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings

from optimizer.domain import FIXED, FORCED_ONLY, Cluster
from optimizer.settings import Policy
from optimizer.solve.rules.bands import broker_loads, replica_weights
from optimizer.solve.tuning import TUNED
from tests.examples import examples
from tests.solve.clusters import (
    brute_force,
    is_in_order,
    make_brokers,
    make_cluster,
    make_partitions,
    middling_clusters,
    moved_bytes,
    out_of_band,
    plan_cluster,
    rack_breaches,
    tiny_clusters,
    tiny_with_policies,
)

WIDE = Policy(disk_band=0.6, replicas_band=1.0, in_band=2.0)
RELAXED = settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])


@RELAXED
@given(middling_clusters())
def test_plan_is_legal_no_worse_and_above_every_bound(cluster: Cluster) -> None:
    """Lists keep their length and distinct brokers, draining brokers end empty, racks end in order, bands come closer;
    forced, flow and Lagrangian bounds never exceed the bytes of the plan that they are given for."""
    planned = plan_cluster(cluster, Policy(), rounds=1, brief=True)
    assert planned.best_bound <= moved_bytes(cluster, planned.replicas)
    before, after = cluster.partitions.replicas, planned.replicas
    assert ((after >= 0) == (before >= 0)).all()
    for row in after:
        held = row[row >= 0]
        assert len(set(held.tolist())) == len(held)
    assert not cluster.brokers.must_empty[after[after >= 0]].any()
    assert rack_breaches(cluster, after) == 0
    new = (after[:, :, None] != before[:, None, :]).all(axis=2) & (after >= 0)
    assert cluster.brokers.accepts_replicas[after[new]].all()
    ends, scale = planned.bands, planned.scale
    must_move = rack_breaches(cluster, before) or cluster.brokers.must_empty[before[before >= 0]].any()
    if not must_move:
        assert out_of_band(cluster, after, ends, scale) <= out_of_band(cluster, before, ends, scale) + 1e-9


@RELAXED
@given(tiny_clusters() | tiny_with_policies())
def test_bound_optimum_plan_are_in_this_order(cluster: Cluster) -> None:
    """On tiny clusters the plan is the best of all placements, and the bounds are not above it."""
    planned = plan_cluster(cluster, WIDE)
    optimum, moved = brute_force(cluster, planned.bands, planned.scale), moved_bytes(cluster, planned.replicas)
    best = planned.best_bound
    assert best <= moved
    assert is_in_order(cluster, planned) is (optimum is not None)
    assert optimum is None or best <= optimum == moved


def test_wide_shard_repairs_racks_from_brokers_that_are_not_full() -> None:
    """If only full brokers are considered for balance, a replica that breaks the rack rule may leave any broker."""
    replicas = [[0, 2], [1, 3], [0, 1], *([2, 5] for _ in range(9))]
    cluster = make_cluster(make_brokers([0, 0, 1, 1, 2, 2]), make_partitions(replicas, [10] * 12))
    planned = plan_cluster(
        cluster, Policy(disk_band=100, replicas_band=100, in_band=100), tuning=replace(TUNED, wide_cells=0)
    )
    assert rack_breaches(cluster, planned.replicas) == 0
    assert moved_bytes(cluster, planned.replicas) == 10


def test_balanced_cluster_is_left_alone() -> None:
    """Where every band holds and every rack is in order, nothing moves."""
    replicas = [[i % 6, (i + 1) % 6] for i in range(36)]
    cluster = make_cluster(make_brokers([0, 1, 2, 0, 1, 2]), make_partitions(replicas, [100] * 36))
    planned = plan_cluster(cluster, Policy())
    assert (planned.replicas == cluster.partitions.replicas).all()


def test_empty_broker_is_filled_at_the_least_bytes() -> None:
    """A new broker receives exactly what its band's lower limit asks for, from brokers that can spare it."""
    replicas = [[i % 3] for i in range(90)]
    cluster = make_cluster(make_brokers([0, 0, 0, 0]), make_partitions(replicas, [10] * 90))
    planned = plan_cluster(cluster, Policy(disk_band=0.04, replicas_band=0.1))
    loads = broker_loads(4, planned.replicas, replica_weights(cluster.partitions))
    assert loads[3].tolist() == [22, 220, 0]
    assert moved_bytes(cluster, planned.replicas) == 220


@pytest.mark.parametrize(
    ("mobility", "draining", "moves"),
    [
        (FIXED, (), False),
        (FORCED_ONLY, (), False),
        (FORCED_ONLY, (0,), True),
        (FIXED, (0,), False),
    ],
)
def test_mobility_is_kept(mobility: int, draining: tuple[int, ...], moves: bool) -> None:
    """Fixed partitions never move; excluded ones leave only brokers that are emptied."""
    partitions = make_partitions([[0]] * 12, [10] * 12)
    partitions.mobility[:] = mobility
    cluster = make_cluster(make_brokers([0, 0, 0], draining=draining), partitions)
    planned = plan_cluster(cluster, Policy())
    assert bool((planned.replicas != partitions.replicas).all()) is moves
    assert bool((planned.replicas != partitions.replicas).any()) is moves


def test_excluded_broker_receives_nothing_and_may_keep_its_own() -> None:
    """A broker that accepts no replicas gets none, and nothing is forced off it."""
    replicas = [[0]] * 30 + [[2]] * 5
    brokers = make_brokers([0, 0, 0], excluded=(2,))
    cluster = make_cluster(brokers, make_partitions(replicas, [10] * 35))
    planned = plan_cluster(cluster, Policy())
    assert (planned.replicas == 2).sum() <= 5
    assert (planned.replicas == 1).sum() > 10


def test_replication_above_racks_keeps_two_in_each() -> None:
    """RF 4 on two racks: at most two and at least two replicas in each rack."""
    racks = [0, 0, 0, 1, 1, 1]
    replicas = [[0, 1, 2, 3]] * 6
    cluster = make_cluster(make_brokers(racks), make_partitions(replicas, [10] * 6))
    planned = plan_cluster(cluster, Policy(disk_band=0.5, replicas_band=0.5))
    assert rack_breaches(cluster, planned.replicas) == 0
    assert ((planned.replicas <= 2).sum(axis=1) == 2).all()
