"""Preferred leaders: legal, in their bands where they can be, and between what is proven and what trying all finds."""

import itertools
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from benchmarks.generate import generate
from benchmarks.planned import cluster_of
from optimizer.domain import FIXED, Cluster, Ints
from optimizer.solve.leaders.leader_bounds import LeaderBound, leader_bounds, least_changes
from optimizer.solve.leaders.leader_flow import PRICE_UNITS, LeaderChoices, crowd_counts, host_loads
from optimizer.solve.leaders.leader_steps import descend
from optimizer.solve.leaders.leaders import ChosenLeaders, assign_leaders, lead_with, leader_choices
from optimizer.solve.rules.bands import leader_loads
from tests.examples import examples
from tests.solve.clusters import make_brokers, make_cluster, make_partitions, middling_clusters

RELAXED = settings(max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.too_slow])
BANDS = {"leaders_band": 0.1, "out_band": 0.1}


@st.composite
def few_lists(draw: st.DrawFn) -> Cluster:
    """Three or four brokers and up to six partitions of one to three replicas, led by few brokers."""
    n, count = draw(st.integers(3, 4)), draw(st.integers(1, 6))
    lists = [draw(st.permutations(range(n)))[: draw(st.integers(1, 3))] for _ in range(count)]
    lists = [sorted(x) if draw(st.booleans()) else list(x) for x in lists]
    rates = [draw(st.sampled_from([0, 1, 5, 40, 10**9 + 7])) for _ in range(count)]
    brokers = make_brokers(list(range(n)), draining=draw(st.sampled_from([(), (0,)])))
    return make_cluster(brokers, make_partitions(lists, [1] * count, rates))


def with_most_leaders(cluster: Cluster, most: int, *, per_topic: int) -> Cluster:
    """The cluster cut into topics of so many partitions, with a most of leaders for each of them."""
    partitions = cluster.partitions
    names = np.array([f"t{row // per_topic}" for row in range(len(partitions))], dtype=object)
    most_leaders = np.full(len(partitions), most, dtype=np.int64)
    return replace(cluster, partitions=replace(partitions, topic=names, topic_most_leaders=most_leaders))


def over_the_most(choices: LeaderChoices, arcs: Ints) -> int:
    """Leaders over the most of their topic, summed."""
    return int(np.maximum(crowd_counts(choices, arcs) - choices.most, 0).sum())


def choices_of(cluster: Cluster, *, band: float) -> LeaderChoices:
    """The choices of the lists as they are, both bands of the same width."""
    lists = cluster.partitions.replicas
    return leader_choices(cluster.brokers, cluster.partitions, lists, leaders_band=band, out_band=band)


def chosen_of(cluster: Cluster) -> ChosenLeaders:
    """Leaders of the lists as they are."""
    return assign_leaders(cluster.brokers, cluster.partitions, cluster.partitions.replicas, **BANDS)


def by_measure(leaders: ChosenLeaders) -> dict[str, LeaderBound]:
    """The three bounds."""
    return {bound.measure: bound for bound in leader_bounds(leaders)}


def all_orders(choices: LeaderChoices) -> Iterator[Ints]:
    """Every choice of one arc for each partition."""
    edges = np.append(choices.first, len(choices.row))
    for arcs in itertools.product(*(range(a, b) for a, b in itertools.pairwise(edges.tolist()))):
        yield np.array(arcs)


@RELAXED
@given(few_lists())
def test_bounds_optimum_plan_are_in_this_order(cluster: Cluster) -> None:
    """The best of all orders, measure by measure, is between the lower bound and the plan."""
    leaders = chosen_of(cluster)
    bands, choices, bounds = leaders.choices.bands, leaders.choices, by_measure(leaders)
    lower, upper = np.floor(bands.lower), np.ceil(bands.upper)
    reached = bands.widened(host_loads(choices, leaders.arc))
    outside, changes = [], []
    for arcs in all_orders(choices):
        loads = host_loads(choices, arcs)
        outside.append((np.maximum(loads - upper, 0) + np.maximum(lower - loads, 0)).sum(axis=0))
        if ((loads >= reached.lower) & (loads <= reached.upper)).all():
            changes.append(int(choices.change[arcs].sum()))
    count, out = np.array(outside).min(axis=0)
    assert bounds["leaders_outside"].bound == count <= bounds["leaders_outside"].planned
    assert bounds["out_outside_bytes_per_s"].bound <= out <= bounds["out_outside_bytes_per_s"].planned
    assert bounds["leader_changes"].bound <= min(changes) <= bounds["leader_changes"].planned


def test_bounds_are_the_plan_where_lists_leave_no_choice() -> None:
    """Each partition has one replica, one of them most bytes out: what is outside the bands is proven to a byte."""
    cluster = make_cluster(make_brokers([0, 1]), make_partitions([[0], [0], [1], [1]], [1] * 4, [900, 10, 10, 10]))
    bounds = by_measure(chosen_of(cluster))
    assert all(bound.bound == bound.planned for bound in bounds.values())
    assert bounds["out_outside_bytes_per_s"].bound > 0


@RELAXED
@given(few_lists(), st.integers(1, 2))
def test_topics_crowd_as_little_as_can_be(cluster: Cluster, most: int) -> None:
    """Of all orders the plan's leads least over the most of a topic; its bounds speak of the orders that do."""
    leaders = chosen_of(with_most_leaders(cluster, most, per_topic=3))
    choices, bounds = leaders.choices, by_measure(leaders)
    lower, upper = np.floor(choices.bands.lower), np.ceil(choices.bands.upper)
    reached = choices.bands.widened(host_loads(choices, leaders.arc))
    orders = list(all_orders(choices))
    crowd = [over_the_most(choices, arcs) for arcs in orders]
    assert over_the_most(choices, leaders.arc) == min(crowd)
    loads = [host_loads(choices, arcs) for arcs, over in zip(orders, crowd, strict=True) if over == min(crowd)]
    outside = [(np.maximum(at - upper, 0) + np.maximum(lower - at, 0)).sum(axis=0) for at in loads]
    assert bounds["leaders_outside"].bound == np.array(outside).min(axis=0)[0]
    as_good = [((at >= reached.lower) & (at <= reached.upper)).all() for at in loads]
    least = [arcs for arcs, over in zip(orders, crowd, strict=True) if over == min(crowd)]
    changes = [choices.change[arcs].sum() for arcs, good in zip(least, as_good, strict=True) if good]
    assert bounds["leader_changes"].bound <= min(changes) <= bounds["leader_changes"].planned


@RELAXED
@given(middling_clusters(), st.integers(1, 3))
def test_levelling_bytes_out_adds_no_crowd(cluster: Cluster, most: int) -> None:
    """What hand-overs do for the bands, they never do with a leader more over the most of its topic."""
    leaders = chosen_of(with_most_leaders(cluster, most, per_topic=12))
    assert over_the_most(leaders.choices, leaders.arc) == over_the_most(leaders.choices, leaders.fewest)


def test_a_topic_is_led_by_more_brokers_though_the_bands_hold() -> None:
    """Two topics of four partitions, each led by one broker: counts are even, but a broker may lead two of a topic."""
    lists = [[0, 1]] * 4 + [[1, 0]] * 4
    partitions = make_partitions(lists, [1] * 8, [10] * 8)
    names = np.array(["a"] * 4 + ["b"] * 4, dtype=object)
    cluster = make_cluster(make_brokers([0, 1]), replace(partitions, topic=names))
    assert not chosen_of(cluster).chosen.any()
    spread = chosen_of(with_most_leaders(cluster, 2, per_topic=4))
    assert [spread.chosen[:4].sum(), spread.chosen[4:].sum()] == [2, 2]


@RELAXED
@given(few_lists(), st.lists(st.floats(-50, 50), min_size=4, max_size=4))
def test_any_prices_bound_the_changes(cluster: Cluster, prices: list[float]) -> None:
    """Whatever the prices of bytes out, no order inside the bands changes fewer leaders than they say."""
    leaders = chosen_of(cluster)
    choices = leaders.choices
    reached = choices.bands.widened(host_loads(choices, leaders.arc))
    bound = least_changes(choices, reached, np.array(prices)[: len(cluster.brokers)])
    assert bound <= choices.change[leaders.arc].sum()


@RELAXED
@given(middling_clusters())
def test_leaders_are_legal(cluster: Cluster) -> None:
    """Leaders are chosen among the replicas of brokers that accept leadership; the sets stay, fixed lists too."""
    brokers, partitions = cluster.brokers, cluster.partitions
    partitions = replace(partitions, mobility=np.where(partitions.partition % 5 == 0, FIXED, partitions.mobility))
    leaders = chosen_of(make_cluster(brokers, partitions))
    final = lead_with(partitions.replicas, leaders.chosen)
    assert (np.sort(final, axis=1) == np.sort(partitions.replicas, axis=1)).all()
    changed = final[:, 0] != partitions.replicas[:, 0]
    assert not changed[partitions.mobility == FIXED].any()
    assert brokers.accepts_leadership[final[changed, 0]].all()
    assert (host_loads(leaders.choices, leaders.arc) == leader_loads(len(brokers), final, partitions)).all()


def test_both_bands_hold_at_few_changes() -> None:
    """On 30 brokers no leader and no byte is outside its band, and at most a quarter more leaders change than must."""
    bounds = by_measure(chosen_of(cluster_of(generate("S", "drift", 1), "drift")))
    assert bounds["leaders_outside"].planned == bounds["out_outside_bytes_per_s"].planned == 0
    changes = bounds["leader_changes"]
    assert changes.bound <= changes.planned <= 1.25 * changes.bound


def test_a_chain_of_two_fixes_what_one_hand_over_cannot() -> None:
    """Broker 0 leads too many and shares no list with broker 2, which leads too few: broker 1 passes one on."""
    lists = [[0, 1]] * 4 + [[1, 2]] * 3 + [[2, 1]] * 2
    choices = choices_of(make_cluster(make_brokers([0, 1, 2]), make_partitions(lists, [1] * 9, [10] * 9)), band=0.0)
    arcs = descend(choices, choices.first)
    assert host_loads(choices, arcs)[:, 0].tolist() == [3, 3, 3]
    assert choices.change[arcs].sum() == 2


def test_leaders_follow_the_capacity_of_the_network() -> None:
    """A broker with twice the capacity out leads twice as much; if some capacities are unknown, disks count instead."""
    lists = [[p % 3, (p + 1) % 3, (p + 2) % 3] for p in range(40)]
    partitions, brokers = make_partitions(lists, [1] * 40, [10] * 40), make_brokers([0, 1, 2])
    twice = np.array([1, 2, 1])
    by_network = replace(brokers, out_capacity_bytes_per_s=twice, disk_capacity_bytes=twice[::-1] * [1, 1, 4])
    for known in (by_network, replace(brokers, disk_capacity_bytes=twice)):
        leaders = chosen_of(make_cluster(known, partitions))
        led = host_loads(leaders.choices, leaders.arc)[:, 0]
        assert (led >= [9, 18, 9]).all()
    equal = chosen_of(make_cluster(brokers, partitions))
    assert np.allclose(host_loads(equal.choices, equal.arc)[:, 0], 40 / 3, atol=1.4)


def test_prices_are_coarser_where_costs_would_overflow() -> None:
    """2,000 topics with a most of leaders and one partition with most of the bytes out: OR-Tools multiplies costs by
    the number of nodes, which takes so high prices in fine units out of its range. Bounds hold in any units."""
    lists = [[p % 60, (p + 1 + p % 7) % 60, (p + 20 + p % 11) % 60] for p in range(2000)]
    rates = [10**6] + [1 + p % 7 for p in range(1, 2000)]
    cluster = make_cluster(make_brokers([b % 3 for b in range(60)]), make_partitions(lists, [1] * 2000, rates))
    leaders = chosen_of(with_most_leaders(cluster, 1, per_topic=1))
    assert leaders.prices.max() > 0
    assert 1 < leaders.choices.priced(leaders.prices)[1] < PRICE_UNITS
    assert all(0 <= bound.bound <= bound.planned for bound in leader_bounds(leaders))


def test_no_partitions_no_bounds() -> None:
    """A cluster without partitions has no leaders and nothing to prove."""
    cluster = make_cluster(make_brokers([0, 1]), make_partitions([[0]], [1]).rows(np.zeros(0, dtype=np.int64)))
    leaders = chosen_of(cluster)
    assert len(leaders.chosen) == 0
    assert list(leader_bounds(leaders)) == []
