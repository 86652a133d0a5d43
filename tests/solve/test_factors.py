"""Changed replication factors: lists get the length asked for, at the least bytes, and bounds count what comes and
goes."""

from math import prod

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings

from optimizer.domain import FIXED, FREE, Cluster, Ints
from optimizer.settings import Policy
from optimizer.solve.findings.net_moves import reasons, settle
from optimizer.solve.rounds.start import packed, size_and_pin_lists
from optimizer.solve.rules.bands import bands
from tests.examples import examples
from tests.solve.clusters import (
    brute_force,
    is_in_order,
    legal_sets,
    loads_of,
    make_brokers,
    make_cluster,
    make_partitions,
    middling_clusters,
    moved_bytes,
    out_of_band,
    outside_pins,
    plan_cluster,
    rack_breaches,
    tiny_clusters,
    with_factors,
    with_pins,
    with_requested_factors,
)

WIDE = Policy(disk_band=0.9, replicas_band=2.0, in_band=9.0)
OPEN = Policy(disk_band=100, replicas_band=100, in_band=100)
RELAXED = settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
MOST_PLACEMENTS = 2000
RACKS = [0, 0, 1, 1, 2, 2]


def one_partition(replicas: list[int], factor: int, *, draining: tuple[int, ...] = ()) -> Cluster:
    """A partition of 10 bytes on six brokers in three racks, with a requested replication factor."""
    return with_requested_factors(
        make_cluster(make_brokers(RACKS, draining=draining), make_partitions([replicas], [10])), [factor]
    )


def resized(cluster: Cluster, policy: Policy) -> Ints:
    """Where the rounds begin."""
    brokers, partitions = cluster.brokers, cluster.partitions
    return size_and_pin_lists(brokers, partitions, bands(cluster, policy), loads_of(cluster, partitions.replicas))


def lengths(replicas: np.ndarray) -> list[int]:
    """Replicas of each partition."""
    return [int(n) for n in (replicas >= 0).sum(axis=1)]


@RELAXED
@given(with_factors(tiny_clusters()))
def test_bound_optimum_plan_are_in_this_order_with_other_factors(cluster: Cluster) -> None:
    """The best placement of the requested replicas is not below the bounds, and is the plan."""
    planned = plan_cluster(cluster, WIDE)
    best, moved = planned.best_bound, moved_bytes(cluster, planned.replicas)
    assert best <= moved
    assume(prod(len(legal_sets(cluster, row)) for row in range(len(cluster.partitions))) <= MOST_PLACEMENTS)
    optimum = brute_force(cluster, planned.bands, planned.scale)
    assert is_in_order(cluster, planned) is (optimum is not None)
    assert optimum is None or best <= optimum == moved


@RELAXED
@given(with_pins(with_factors(middling_clusters(), most=5)))
def test_every_list_gets_the_requested_length(cluster: Cluster) -> None:
    """Lengths, distinct brokers, racks, pins and empty brokers hold after the plan, and every bound is below it."""
    planned = plan_cluster(cluster, Policy(), rounds=3, brief=True)
    after, brokers = planned.replicas, cluster.brokers
    assert lengths(after) == cluster.partitions.replication_factor.tolist()
    assert all(len({b for b in row if b >= 0}) == n for row, n in zip(after.tolist(), lengths(after), strict=True))
    assert rack_breaches(cluster, after) == 0
    assert not outside_pins(cluster, after).any()
    assert not brokers.must_empty[after[after >= 0]].any()
    assert planned.best_bound <= moved_bytes(cluster, after)


@RELAXED
@given(with_factors(middling_clusters(), most=5))
def test_the_start_changes_lengths_alone(cluster: Cluster) -> None:
    """Longer lists keep all they had, shorter ones lose only; no list loses a leader that may stay."""
    cluster.partitions.mobility[::7] = FIXED
    placed = resized(cluster, Policy())
    now, asked = cluster.partitions.replicas, cluster.partitions.replication_factor
    free = cluster.partitions.mobility == FREE
    assert lengths(placed) == np.where(free, asked, (now >= 0).sum(axis=1)).tolist()
    for before, after, leader in zip(now.tolist(), placed.tolist(), cluster.partitions.leader.tolist(), strict=True):
        old, new = {b for b in before if b >= 0}, {b for b in after if b >= 0}
        assert old <= new or new <= old
        assert cluster.brokers.accepts_replicas[list(new - old)].all()
        assert leader in new or cluster.brokers.must_empty[leader]
    assert (packed(placed) == placed).all()


def test_a_broker_that_takes_nothing_and_keeps_its_replica_counts_where_it_is_needed() -> None:
    """Five replicas on all five brokers left are spread as evenly as they can be, though only four accept any."""
    brokers = make_brokers([0, 1, 0, 1, 1, 1], draining=(0,), excluded=(1,))
    cluster = with_requested_factors(make_cluster(brokers, make_partitions([[1], [2, 3]], [10, 10])), [5, 2])
    planned = plan_cluster(cluster, Policy(disk_band=9, replicas_band=9, in_band=9))
    assert sorted(planned.replicas[0].tolist()) == [1, 2, 3, 4, 5]
    assert rack_breaches(cluster, planned.replicas) == 0


STARTS = [
    ("a replica more goes to the free rack", [0, 2], 3, (), {0, 2}, {4, 5}),
    ("two more go to one rack each", [0], 3, (), {0}, {2, 3, 4, 5}),
    ("above the racks every rack has one more", [0, 2, 4], 6, (), {0, 1, 2, 3, 4, 5}, set()),
    ("a rack over its cap gives up", [0, 1, 2], 2, (), {0, 2}, set()),
    ("a broker to empty gives up first", [2, 0, 4], 2, (0,), {2, 4}, set()),
    ("even the leader's", [0, 2, 4], 2, (0,), {2, 4}, set()),
    ("an even spread stays one", [0, 1, 2, 3, 4], 4, (), {0, 4}, {1, 2, 3}),
]


@pytest.mark.parametrize(
    ("replicas", "factor", "draining", "surely", "others"), [row[1:] for row in STARTS], ids=[row[0] for row in STARTS]
)
def test_where_a_list_grows_and_shrinks(
    replicas: list[int], factor: int, draining: tuple[int, ...], surely: set[int], others: set[int]
) -> None:
    """What comes goes where the rack rule wants it, what goes is what had to leave or a rack can spare."""
    cluster = one_partition(replicas, factor, draining=draining)
    placed = set(resized(cluster, OPEN)[0].tolist()) - {-1}
    assert surely <= placed <= surely | others
    assert len(placed) == factor


@pytest.mark.parametrize(
    ("replicas", "factor", "draining", "forced"),
    [
        ([0, 2], 3, (), 10),
        ([0], 3, (), 20),
        ([0, 1], 3, (), 20),
        ([0, 2, 4], 2, (), 0),
        ([0, 2, 4], 2, (0,), 0),
        ([0, 2, 4], 2, (0, 2), 10),
        ([0, 2], 3, (0,), 20),
        ([0, 1, 2], 2, (), 0),
    ],
)
def test_forced_bound_counts_what_is_missing(
    replicas: list[int], factor: int, draining: tuple[int, ...], forced: int
) -> None:
    """Copies that every plan makes: the requested factor minus the replicas that may stay; the plan makes no others."""
    cluster = one_partition(replicas, factor, draining=draining)
    planned = plan_cluster(cluster, OPEN)
    assert planned.bounds()["forced"] == moved_bytes(cluster, planned.replicas) == forced


def test_what_is_given_up_need_not_be_copied() -> None:
    """A full broker that gives up replicas is levelled for nothing, and no bound asks for a byte."""
    replicas = [[0, 1 + i % 5] for i in range(30)]
    cluster = make_cluster(make_brokers([0] * 6), make_partitions(replicas, [10] * 30))
    planned = plan_cluster(with_requested_factors(cluster, [1] * 30), Policy(disk_band=0.2, replicas_band=0.2))
    assert moved_bytes(cluster, planned.replicas) == 0
    assert out_of_band(cluster, planned.replicas, planned.bands, planned.scale) == 0
    assert planned.best_bound <= 0


def test_new_replicas_level_the_brokers_and_the_bound_says_so() -> None:
    """New replicas fill the emptier brokers: all bytes are those of the replicas that are missing."""
    replicas = [[0, 2], [0, 3], [1, 2]] * 10
    cluster = with_requested_factors(make_cluster(make_brokers(RACKS), make_partitions(replicas, [10] * 30)), [3] * 30)
    planned = plan_cluster(cluster, Policy(disk_band=0.4, replicas_band=0.4))
    assert moved_bytes(cluster, planned.replicas) == planned.best_bound == 300
    assert rack_breaches(cluster, planned.replicas) == 0


def test_two_and_four_replicas_side_by_side() -> None:
    """RF 2 and 4 on three racks, asked the other way round: each list spreads as its own length asks."""
    replicas = [[0, 2], [0, 2, 4, 5]] * 8
    cluster = with_requested_factors(
        make_cluster(make_brokers(RACKS), make_partitions(replicas, [10] * 16)), [4, 2] * 8
    )
    planned = plan_cluster(cluster, Policy(disk_band=0.3, replicas_band=0.3))
    assert lengths(planned.replicas) == [4, 2] * 8
    assert rack_breaches(cluster, planned.replicas) == 0
    bound = planned.best_bound
    assert bound == moved_bytes(cluster, planned.replicas) == 200


SETTLED = [
    ("more", [1, 2, -1, -1], [1, 2, 7, -1], [1, 2, 7, -1], [(-1, 7, "replication")]),
    ("more and another one", [1, 2, -1], [3, 2, 5], [3, 2, 5], [(1, 3, "balance"), (-1, 5, "replication")]),
    ("fewer", [1, 2, 3], [1, 3, -1], [1, 3, -1], [(2, -1, "replication")]),
    ("fewer and another one", [1, 2, 3], [4, 3, -1], [4, 3, -1], [(1, -1, "replication"), (2, 4, "balance")]),
    ("the drained one goes", [1, 0, 3], [4, 3, -1], [4, 3, -1], [(0, -1, "replication"), (1, 4, "balance")]),
    ("as many", [1, 0, 3], [1, 4, 3], [1, 4, 3], [(0, 4, "drain")]),
]


@pytest.mark.parametrize(
    ("before", "chosen", "settled", "moves"), [row[1:] for row in SETTLED], ids=[row[0] for row in SETTLED]
)
def test_lists_and_moves_of_another_length(
    before: list[int], chosen: list[int], settled: list[int], moves: list[tuple[int, int, str]]
) -> None:
    """Who stays keeps the order, who comes fills gaps, and each move names who goes for whom, or the factor."""
    partitions = make_partitions([[b for b in before if b >= 0]], [10])
    cluster = make_cluster(make_brokers([0, 1, 2, 3, 4, 5, 6, 7], draining=(0,)), partitions)
    cluster = with_requested_factors(cluster, [sum(b >= 0 for b in chosen)])
    width = cluster.partitions.replicas.shape[1]
    result = settle(cluster.partitions.replicas, np.array([chosen[:width]]))
    assert result[0].tolist() == settled[:width]
    net_moves = reasons(cluster.brokers, cluster.partitions, result)
    assert [(move.from_broker, move.to_broker, move.reason) for move in net_moves] == moves
