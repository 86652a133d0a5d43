"""Pins: replicas sit where their topic may, at the least bytes, and the racks of the pin alone count."""

from dataclasses import replace

import numpy as np
from hypothesis import HealthCheck, given, settings

from optimizer.domain import FIXED, FORCED_ONLY, FREE, Cluster
from optimizer.settings import Policy
from optimizer.solve.findings.net_moves import reasons
from optimizer.solve.rounds.start import size_and_pin_lists
from optimizer.solve.rules.bands import bands, broker_loads, replica_weights
from optimizer.solve.rules.pins import group_by_pins, rack_breaks
from tests.examples import examples
from tests.solve.clusters import (
    brute_force,
    is_in_order,
    make_brokers,
    make_cluster,
    make_partitions,
    middling_clusters,
    moved_bytes,
    outside_pins,
    pinned,
    plan_cluster,
    rack_breaches,
    tiny_clusters,
    with_pins,
)

WIDE = Policy(disk_band=0.9, replicas_band=2.0, in_band=9.0)
RELAXED = settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
RACKS = [0, 0, 0, 1, 1, 1, 2, 2, 2]


def one_rack(replicas: list[list[int]]) -> Cluster:
    """Partitions of topic a, pinned to the brokers 0, 1 and 2 of rack 0."""
    partitions = make_partitions(replicas, [10] * len(replicas))
    return pinned(make_cluster(make_brokers(RACKS), partitions), {"a": [0, 1, 2]}, ["a"] * len(replicas))


@RELAXED
@given(with_pins(tiny_clusters()))
def test_bound_optimum_plan_are_in_this_order_with_pins(cluster: Cluster) -> None:
    """The best of all placements within the pins is between the bounds and the plan."""
    planned = plan_cluster(cluster, WIDE)
    assert not outside_pins(cluster, planned.replicas).any()
    assert rack_breaches(cluster, planned.replicas) == 0
    best, moved = planned.best_bound, moved_bytes(cluster, planned.replicas)
    assert best <= moved
    optimum = brute_force(cluster, planned.bands, planned.scale)
    assert is_in_order(cluster, planned) is (optimum is not None)
    assert optimum is None or best <= optimum == moved


@RELAXED
@given(with_pins(middling_clusters()))
def test_no_replica_stays_outside_its_pin(cluster: Cluster) -> None:
    """From any start: pins are met, brokers to empty are empty, racks are in order, no bound is above the plan."""
    planned = plan_cluster(cluster, Policy(), brief=True)
    assert not outside_pins(cluster, planned.replicas).any()
    assert not cluster.brokers.must_empty[planned.replicas[planned.replicas >= 0]].any()
    assert rack_breaches(cluster, planned.replicas) == 0
    assert planned.best_bound <= moved_bytes(cluster, planned.replicas)


def test_replicas_may_share_the_rack_that_they_are_pinned_to() -> None:
    """Three replicas pinned to one rack gather in it, each move says why, and the forced bound is all of them."""
    cluster = one_rack([[3, 4, 6]] * 4)
    planned = plan_cluster(cluster, WIDE)
    assert np.sort(planned.replicas, axis=1).tolist() == [[0, 1, 2]] * 4
    moves = list(reasons(cluster.brokers, cluster.partitions, planned.replicas))
    assert [move.reason for move in moves] == ["pin"] * 12
    assert planned.bounds()["forced"] == moved_bytes(cluster, planned.replicas) == 120


def test_a_pin_forces_free_partitions_only() -> None:
    """Fixed and excluded partitions stay outside their pin, and what an excluded one must leave goes inside."""
    cluster = one_rack([[3], [4], [5]])
    cluster.partitions.mobility[:] = [FIXED, FORCED_ONLY, FORCED_ONLY]
    drained = replace(make_brokers(RACKS, draining=(5,)), pins=cluster.brokers.pins)
    planned = plan_cluster(make_cluster(drained, cluster.partitions), WIDE)
    assert planned.replicas[:2].tolist() == [[3], [4]]
    assert planned.replicas[2, 0] in (0, 1, 2)


@RELAXED
@given(with_pins(middling_clusters()))
def test_the_start_is_inside_the_pins(cluster: Cluster) -> None:
    """Every replica outside its pin goes inside, no other one moves, and racks that were free are in order."""
    brokers, partitions = cluster.brokers, cluster.partitions
    partitions.mobility[::7] = FIXED
    away = outside_pins(cluster, partitions.replicas)
    weights = replica_weights(partitions)
    loads = broker_loads(len(brokers), partitions.replicas, weights)
    placed = size_and_pin_lists(brokers, partitions, bands(cluster, Policy()), loads)
    free = partitions.mobility == FREE
    assert ((placed != partitions.replicas).sum(axis=1) == np.where(free, away, 0)).all()
    assert not outside_pins(cluster, placed)[free].any()
    assert (np.sort(placed, axis=1)[:, 1:] != np.sort(placed, axis=1)[:, :-1])[placed[:, 1:] >= 0].all()
    chosen = free & (away == partitions.replication_factor)
    assert not rack_breaks(brokers, partitions, placed)[chosen].any()


def test_all_replicas_leave_racks_that_are_drained() -> None:
    """Two replicas on brokers to empty leave them also where only other racks may take them, for a pin or a drain."""
    one = pinned(
        make_cluster(make_brokers(RACKS, draining=(3, 6)), make_partitions([[3, 6]] * 3, [10] * 3)),
        {"a": [0, 1, 2]},
        ["a"] * 3,
    )
    racks = make_brokers([0, 0, 1, 1, 2, 2, 3, 3], draining=(0, 1, 2, 3))
    two = make_cluster(racks, make_partitions([[0, 2], [1, 3], [0, 3]], [10] * 3))
    for cluster in (one, two):
        planned = plan_cluster(cluster, WIDE)
        assert not cluster.brokers.must_empty[planned.replicas].any()
        assert not outside_pins(cluster, planned.replicas).any()


def test_overlapping_pins_leave_what_all_of_them_name() -> None:
    """A topic that matches two pins may use the brokers of both only; patterns match whole names."""
    cluster = pinned(
        make_cluster(make_brokers(RACKS), make_partitions([[0]] * 4, [1] * 4)),
        {"a.*": [0, 1, 4], "ab": [1, 2, 4]},
        ["ab", "a", "xab", "ab"],
    )
    groups = group_by_pins(cluster.brokers, cluster.partitions.topic)
    allowed = [np.flatnonzero(groups.allowed[group]).tolist() for group in groups.of]
    assert allowed == [[1, 4], [0, 1, 4], list(range(9)), [1, 4]]
    assert [groups.patterns[group] for group in groups.of] == [("a.*", "ab"), ("a.*",), (), ("a.*", "ab")]
