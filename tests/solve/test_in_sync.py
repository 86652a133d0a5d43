"""A replica that is out of sync is not a copy: which replicas leave, who leads, and what Kafka would not end."""

from dataclasses import replace
from itertools import combinations, product

import numpy as np
import pytest

from optimizer.domain import FREE, RACKS_ONLY, Cluster, Ints, only_in
from optimizer.kafka.partition_state import CompletionRule, complete, start
from optimizer.settings import Policy
from optimizer.solve.leaders.failover_order import order_followers
from optimizer.solve.leaders.leaders import may_lead
from optimizer.solve.limit.second_choice import second_choices
from optimizer.solve.rounds.start import size_and_pin_lists
from optimizer.solve.rules.bands import bands
from optimizer.solve.tuning import TUNED, Tuning
from tests.solve.clusters import (
    ALONE,
    loads_of,
    make_brokers,
    make_cluster,
    make_partitions,
    out_of_sync,
    plan_cluster,
    rack_breaches,
    with_requested_factors,
)

SLOTS = [set(some) for n in range(4) for some in combinations(range(3), n)]  # of a list of three replicas
WIDE = Policy(replicas_band=10.0, disk_band=10.0, in_band=10.0)


def _shorter(draining: int | None, factor: int) -> Cluster:
    """A partition for each way to be out of sync, with three replicas on brokers 0 to 2, shortened to ``factor``."""
    brokers = make_brokers([0, 1, 2, 0, 1, 2], draining=() if draining is None else (draining,))
    partitions = make_partitions([[0, 1, 2]] * len(SLOTS), [10] * len(SLOTS))
    stuck = np.array([[slot in slots for slot in range(3)] for slots in SLOTS])
    return with_requested_factors(make_cluster(brokers, out_of_sync(partitions, stuck)), [factor] * len(SLOTS))


def _in_sync(cluster: Cluster, lists: Ints) -> list[int]:
    stuck = only_in(lists, cluster.partitions.isr) & ~only_in(lists, cluster.partitions.replicas)
    return ((lists >= 0) & ~stuck).sum(axis=1).tolist()


@pytest.mark.parametrize(("draining", "factor"), [*product((None, 0, 1, 2), (1, 2))])
def test_shorter_lists_lose_replicas_out_of_sync_first(draining: int | None, factor: int) -> None:
    """At the start and after all rounds as many are in sync as could be, also where another replica must leave."""
    cluster = _shorter(draining, factor)
    needed = [min(3 - len(slots), factor) for slots in SLOTS]
    ends = bands(cluster, Policy())
    first = size_and_pin_lists(
        cluster.brokers, cluster.partitions, ends, loads_of(cluster, cluster.partitions.replicas)
    )
    planned = plan_cluster(cluster, Policy())
    assert ((first >= 0).sum(axis=1) == factor).all()
    for lists in (first, planned.replicas):
        assert [*map(min, zip(_in_sync(cluster, lists), needed, strict=True))] == needed
    dropped = [{*np.flatnonzero(row)} for row in only_in(cluster.partitions.replicas, first)]
    assert all(lost <= slots or slots <= lost for lost, slots in zip(dropped, SLOTS, strict=True))
    if draining is not None:
        assert not (planned.replicas == draining).any()


@pytest.mark.parametrize("tuning", [TUNED, ALONE], ids=["search", "single moves"])
def test_no_round_brings_a_replica_out_of_sync_back(tuning: Tuning) -> None:
    """Its broker is empty after the list was shortened, and would take it at no bytes."""
    brokers = make_brokers([0, 1, 2])
    partitions = make_partitions([[0, 1, 2]] * 6, [10] * 6)
    stuck = np.array([[False, False, True]] * 6)
    cluster = with_requested_factors(make_cluster(brokers, out_of_sync(partitions, stuck)), [2] * 6)
    planned = plan_cluster(cluster, Policy(), tuning=tuning)
    assert _in_sync(cluster, planned.replicas) == [2] * 6
    assert not (planned.replicas == 2).any()


def _crowded(racks: list[int], stuck_slot: int, count: int, mobility: int) -> Cluster:
    """Partitions with two replicas in a rack, one of which is out of sync, and one in another rack."""
    by_rack = [[b for b, rack in enumerate(racks) if rack == r] for r in sorted(set(racks))]
    lists = []
    for p in range(count):
        home, other = by_rack[p % len(by_rack)], by_rack[(p + 1) % len(by_rack)]
        lists.append([home[p % len(home)], home[(p + 1) % len(home)], other[p % len(other)]])
    partitions = make_partitions(lists, [10 + p % 7 for p in range(count)])
    stuck = np.arange(3)[None, :] == np.full((count, 1), stuck_slot)
    partitions = out_of_sync(replace(partitions, mobility=np.full(count, mobility)), stuck)
    return make_cluster(make_brokers(racks), partitions)


@pytest.mark.parametrize(
    ("racks", "shard_brokers", "tuning"),
    [
        ([0, 0, 1, 1, 2, 2], 200, TUNED),
        ([0, 0, 1, 1, 2, 2], 200, ALONE),
        ([b % 4 for b in range(12)], 4, ALONE),
        ([b % 4 for b in range(120)], 30, ALONE),
    ],
    ids=["search", "one shard", "three shards", "four shards of 120 brokers"],
)
@pytest.mark.parametrize(("stuck_slot", "mobility"), [*product((0, 1), (FREE, RACKS_ONLY))])
def test_the_replica_out_of_sync_repairs_the_racks(
    racks: list[int], shard_brokers: int, tuning: Tuning, stuck_slot: int, mobility: int
) -> None:
    """Of two in a rack it leaves, whichever leads, in one shard or several; also where only racks may be repaired."""
    cluster = _crowded(racks, stuck_slot, 12 if len(racks) < 20 else 60, mobility)
    replicas = plan_cluster(cluster, WIDE, shard_brokers=shard_brokers, brief=True, tuning=tuning).replicas
    assert rack_breaches(cluster, replicas) == 0
    assert (replicas[:, stuck_slot] != cluster.partitions.replicas[:, stuck_slot]).all()
    stays = [slot for slot in range(3) if slot != stuck_slot]
    assert (replicas[:, stays] == cluster.partitions.replicas[:, stays]).all()


def test_balance_does_not_look_at_the_isr() -> None:
    """A third of the replicas out of sync changes no placement where Kafka ends every reassignment."""
    rng = np.random.default_rng(5)
    lists = [rng.choice(9, 2, replace=False).tolist() for _ in range(60)]
    partitions = make_partitions(lists, rng.integers(1, 90, 60).tolist())
    stuck = (rng.random((60, 2)) < 0.4) & (np.arange(2) == 1)
    healthy = make_cluster(make_brokers([0] * 9), partitions)
    sick = make_cluster(healthy.brokers, out_of_sync(partitions, stuck))
    policy = Policy(disk_band=0.05)
    for tuning in (TUNED, ALONE):
        plans = [
            plan_cluster(cluster, policy, tuning=tuning, kafka_version="4.3").replicas for cluster in (healthy, sick)
        ]
        assert (plans[0] == plans[1]).all()
        assert (plans[0] != partitions.replicas).any()
    waiting = plan_cluster(sick, policy, tuning=ALONE).replicas
    stays = (stuck & ~only_in(partitions.replicas, waiting)).any(axis=1)
    assert stays.any() and (waiting[stays] == partitions.replicas[stays]).all()


@pytest.mark.parametrize(
    ("before", "stuck", "eligible", "demoted", "after", "expected"),
    [
        ([0, 1, 2], (), (), (), [0, 1, 2], [0, 1, 2]),
        ([0, 1, 2], (1,), (), (), [0, 1, 2], [0, 2]),
        ([0, 1, 2], (1,), (1,), (), [0, 1, 2], [0, 1, 2]),
        ([0, 1, 2], (0,), (), (), [0, 1, 2], [0, 1, 2]),
        ([0, 1, 2], (1, 2), (), (0,), [0, 1, 2], [0]),
        ([0, 1, 2], (1,), (), (0,), [0, 1, 2], [2]),
        ([0, 1, 2], (1,), (), (0, 2), [0, 1, 2], [0]),
        ([0, 1, 2], (1, 2), (), (0,), [0, 3, 2], [3]),
        ([0, 1, 2], (0, 1), (), (), [3, 1, 2], [3, 2]),
    ],
)
def test_a_new_leader_is_in_sync(
    before: list[int],
    stuck: tuple[int, ...],
    eligible: tuple[int, ...],
    demoted: tuple[int, ...],
    after: list[int],
    expected: list[int],
) -> None:
    """New replicas and eligible ones may lead, and who leads now; the order stays where no other replica may."""
    partitions = make_partitions([before], [1])
    partitions = out_of_sync(partitions, np.isin(partitions.replicas, stuck))
    partitions = replace(partitions, elr=np.array([[*eligible, *[-1] * (3 - len(eligible))]]))
    brokers = replace(make_brokers([0, 0, 0, 0]), accepts_leadership=~np.isin(np.arange(4), demoted))
    lists = np.array([after])
    assert lists[may_lead(brokers, lists, partitions)].tolist() == expected


@pytest.mark.parametrize(
    ("before", "after", "stuck", "expected"),
    [
        ([0, 1, 2], [3, 1, 2], (1,), [3, 2, 1]),
        ([0, 1, 2], [3, 1, 2], (2,), [3, 1, 2]),
        ([0, 1, 2], [3, 1, 2], (1, 2), [3, 1, 2]),
        ([0, 1, 2], [0, 1, 2], (1,), [0, 1, 2]),
    ],
)
def test_heirs_are_in_sync(before: list[int], after: list[int], stuck: tuple[int, ...], expected: list[int]) -> None:
    """In a list that changes followers out of sync come last; a list that stays is not named for them."""
    partitions = make_partitions([before], [10], [10])
    partitions = out_of_sync(partitions, np.isin(partitions.replicas, stuck))
    for spread in ("changed", "few"):
        ordered = order_followers(make_brokers([0, 1, 2, 3]), partitions, np.array([after]), spread=spread)
        assert ordered.tolist() == [expected]


@pytest.mark.parametrize(("rule", "stuck_slot"), [*product(CompletionRule, (0, 1, 2))])
def test_second_choices_end(rule: CompletionRule, stuck_slot: int) -> None:
    """Two replicas share a rack. A repair that Kafka would not end is none; else the replica out of sync is moved."""
    partitions = make_partitions([[0, 1, 2]], [5])
    partitions = out_of_sync(partitions, np.arange(3)[None, :] == stuck_slot)
    chosen, _ = second_choices(
        make_brokers([0, 0, 1, 2]),
        partitions,
        np.zeros(1, dtype=bool),
        planned=partitions.replicas,
        unchanged=partitions.rows(np.zeros(0, dtype=np.int64)),
        room_bytes=np.array([0.0, 0.0, 0.0, 9.0]),
        allowed=np.array([100, 100]),
        frees_disk=True,
        completion=rule,
    )
    old, new = partitions.replicas[0].tolist(), chosen[0].tolist()
    isr = {*old} - {old[stuck_slot]} | {*new} - {*old}
    state = start(old, new)
    if old == new:
        assert rule is CompletionRule.TARGET and stuck_slot == 2
    else:
        assert complete(state, sorted(isr), rule) is not None
        assert new[stuck_slot] == 3 or stuck_slot == 2
