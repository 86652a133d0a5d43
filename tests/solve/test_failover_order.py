"""The order of followers: nothing is copied, few lists are named, and leaders of a failed broker spread over others."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from benchmarks.generate import generate
from benchmarks.planned import cluster_of
from optimizer.cluster_policy import CHANGED, FAILOVER_SPREADS, FEW, OFF
from optimizer.domain import FIXED, FORCED_ONLY, ORDER_ONLY, Brokers, Cluster, Ints, Partitions
from optimizer.schedule.exposed_states import Exposed
from optimizer.schedule.exposure import exposure
from optimizer.solve.leaders.failover_order import LEAST_GAIN, MOST_LISTS, order_followers
from tests.examples import examples
from tests.solve.clusters import make_brokers, make_cluster, make_partitions
from tests.solve.troubled import troubled_clusters

EQUAL = make_brokers([0, 1, 2, 3])


def busiest(brokers: Brokers, partitions: Partitions, lists: Ints) -> float:
    """The busiest leader over the mean after the worst failure of a broker, as the exposure of a plan counts it."""
    held, nothing = lists >= 0, np.zeros(len(lists), dtype=np.int64)
    state = Exposed(
        replicas=lists,
        in_sync=held,
        eligible=np.zeros_like(held),
        leader=lists[:, 0],
        min_isr=np.ones(len(lists), dtype=np.int64),
        allows_unclean=np.zeros(len(lists), dtype=bool),
        load_bytes_per_s=partitions.out_bytes_per_s + (held.sum(axis=1) - 1) * partitions.in_bytes_per_s,
        log_bytes=nothing,
        log_records=nothing,
        lacking_bytes=np.zeros_like(lists),
        unacked_bytes=nothing,
        target=lists,
        wave=nothing,
        rack=np.full(len(brokers), -1),
        is_living=brokers.is_live,
        counts_all=False,
    )
    ratios = exposure(state).moments[-1].brokers.busiest_over_mean
    return float(np.nan_to_num(ratios[brokers.is_live], nan=0.0).max(initial=0.0))


def changed_lists(cluster: Cluster, seed: int) -> Ints:
    """Lists of a plan: some partitions that are free get another leader, or a broker that accepts replicas."""
    draw, brokers, partitions = np.random.default_rng(seed), cluster.brokers, cluster.partitions
    lists = partitions.replicas.copy()
    for row in np.flatnonzero(draw.random(len(lists)) < 0.4).tolist():
        held = int((lists[row] >= 0).sum())
        others = np.setdiff1d(np.flatnonzero(brokers.accepts_replicas), lists[row])
        if partitions.mobility[row] == 0 and held == partitions.replication_factor[row] and len(others):
            lists[row, draw.integers(held)] = draw.choice(others)
    return lists


@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(troubled_clusters(), st.integers(0, 2**32 - 1), st.sampled_from(FAILOVER_SPREADS))
def test_only_followers_of_lists_that_may_change_are_ordered(cluster: Cluster, seed: int, spread: str) -> None:
    """Leaders and replicas stay; no list that is not free is named; no failure becomes worse."""
    brokers, partitions, lists = cluster.brokers, cluster.partitions, changed_lists(cluster, seed)
    ordered = order_followers(brokers, partitions, lists, spread=spread)
    assert (ordered[:, 0] == lists[:, 0]).all()
    assert (np.sort(ordered, axis=1) == np.sort(lists, axis=1)).all()
    named = (ordered != lists).any(axis=1) & (lists == partitions.replicas).all(axis=1)
    assert named.sum() <= (MOST_LISTS if spread == FEW else 0)
    assert (partitions.mobility[named] == 0).all()
    new = ordered[(ordered != lists).any(axis=1)]
    assert brokers.is_live[new[new >= 0]].all()
    assert busiest(brokers, partitions, ordered) <= busiest(brokers, partitions, lists) + 1e-9
    assert spread != OFF or (ordered == lists).all()


@pytest.mark.parametrize("scenario", ["expand", "decom"])
def test_few_lists_spread_the_leaders_of_the_worst_failure(scenario: str) -> None:
    """An unchanged cluster of 30 brokers: all that is gained comes from the named lists, and a second plan has none."""
    cluster = cluster_of(generate("S", scenario, 1), scenario)
    brokers, partitions, lists = cluster.brokers, cluster.partitions, cluster.partitions.replicas
    assert (order_followers(brokers, partitions, lists, spread=CHANGED) == lists).all()
    ordered = order_followers(brokers, partitions, lists, spread=FEW)
    named = (ordered != lists).any(axis=1)
    assert 0 < named.sum() <= MOST_LISTS
    assert busiest(brokers, partitions, ordered) <= busiest(brokers, partitions, lists) - LEAST_GAIN
    again = order_followers(brokers, replace(partitions, replicas=ordered), ordered, spread=FEW)
    assert (again == ordered).all()


def planned(
    lists: list[list[int]], rates: list[int], *, were: list[list[int]] | None = None
) -> tuple[Partitions, Ints]:
    """Partitions before a plan, and their lists after it."""
    before = make_partitions(were or lists, [1] * len(lists), rates)
    return before, make_partitions(lists, [1] * len(lists), rates).replicas


# Broker 0 leads all; broker 3 leads as much as 1 and 2, so that only the order decides.
LED_BY_0 = [[0, 1, 2], [0, 1, 2], [0, 1, 3], [0, 1, 3]]
OTHERS = [[1, 2, 0], [2, 3, 0], [3, 1, 0]]
RATES = [9, 5, 5, 1, 4, 4, 4]


def test_changed_lists_are_dealt_largest_first() -> None:
    """All would be led by broker 1 if 0 fails; now the heirs have 9, 6 and 5."""
    partitions, lists = planned(LED_BY_0 + OTHERS, RATES, were=[[0, 2, 1], [0, 2, 1], [0, 3, 1], [0, 3, 1], *OTHERS])
    ordered = order_followers(EQUAL, partitions, lists, spread=CHANGED)
    heirs = np.bincount(ordered[:4, 1], RATES[:4], 4)
    assert sorted(heirs.tolist()) == [0, 5, 6, 9]
    assert (ordered[4:] == lists[4:]).all()


@pytest.mark.parametrize(
    ("mobility", "named"), [(None, True), (FIXED, False), (FORCED_ONLY, False), (ORDER_ONLY, False)]
)
def test_an_unchanged_list_is_named_only_if_it_is_free(mobility: int | None, named: bool) -> None:
    """With ``only`` no partition is free, so no unchanged list is named."""
    partitions, lists = planned(LED_BY_0 + OTHERS, RATES)
    if mobility is not None:
        partitions = replace(partitions, mobility=np.full(len(lists), mobility))
    assert (order_followers(EQUAL, partitions, lists, spread=FEW) != lists).any() == named


@pytest.mark.parametrize(("uneven", "named"), [(1, 0), (14, 22), (80, 44)])
def test_no_list_is_named_for_little(uneven: int, named: int) -> None:
    """Each broker leads 249 partitions, which the others inherit in equal parts; but of broker 0 one inherits more.

    28 lists would make that even; the last six gain less than 2 %. Of 160 lists at most 50 may be named.
    """
    others = [[broker for broker in range(4) if broker != led] for led in range(4)]
    lists = [[led, *np.roll(others[led], -n)] for led in range(4) for n in range(249)]
    lists[: 3 * uneven] = [[0, 1, *sorted(row[1:])[1:]] for row in lists[: 3 * uneven]]
    partitions, after = planned(lists, [10] * len(lists))
    assert (order_followers(EQUAL, partitions, after, spread=FEW) != after).any(axis=1).sum() == named


def test_brokers_that_should_not_lead_come_last() -> None:
    """Broker 1 is demoted: in the changed lists it is the last follower, and it inherits nothing."""
    brokers = replace(EQUAL, accepts_leadership=np.arange(4) != 1)
    partitions, lists = planned([[0, 1, 2, 3]] * 4, [9, 5, 5, 1], were=[[0, 1, 3, 2]] * 4)
    ordered = order_followers(brokers, partitions, lists, spread=CHANGED)
    assert (ordered[:, 3] == 1).all()
    assert set(ordered[:, 1].tolist()) == {2, 3}


@pytest.mark.parametrize(("most_lists", "reached"), [(3, [[0, 2, 1], [0, 3, 2], [0, 3, 2]]), (2, None)])
def test_the_heir_of_a_large_partition_gives_its_own_to_others(
    most_lists: int, reached: list[list[int]] | None
) -> None:
    """Broker 2 can take the largest partition only if it passes on both that it has: no other step helps."""
    lists = [[0, 1, 2], [0, 2, 3], [0, 2, 3], [1, 3, 2], [2, 3, 1], [3, 2, 1]]
    partitions, after = planned(lists, [10, 2, 2, 10, 8, 5])
    ordered = order_followers(EQUAL, partitions, after, spread=FEW, most_lists=most_lists)
    assert ordered[:3].tolist() == (reached or lists[:3])


def test_lists_that_kafka_or_the_audit_would_refuse_stay() -> None:
    """A list on a broker that is not live, and one without the requested length."""
    partitions, lists = planned(LED_BY_0 + OTHERS, RATES)
    dead = replace(EQUAL, state=("alive", "alive", "alive", "dead"))
    assert (order_followers(dead, partitions, lists, spread=FEW)[2:] == lists[2:]).all()
    longer = replace(partitions, replication_factor=np.full(len(lists), 4))
    assert (order_followers(EQUAL, longer, lists, spread=FEW) == lists).all()


def test_a_cluster_of_pairs_has_no_order() -> None:
    """Two replicas leave no choice."""
    cluster = make_cluster(EQUAL, make_partitions([[0, 1], [0, 1]], [1, 1], [5, 5]))
    lists = cluster.partitions.replicas
    assert order_followers(EQUAL, cluster.partitions, lists, spread=FEW) is lists
