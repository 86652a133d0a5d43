"""A cluster waits until a load is outside ``start_at``, or until something is urgent that the plan can change."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from benchmarks.planned import rows_of
from optimizer.cluster_policy import NO_LIMIT
from optimizer.domain import FIXED, FORCED_ONLY, FREE, ORDER_ONLY, RACKS_ONLY, Cluster, FindingCode
from optimizer.planning.memory_placement import MemoryPlacement, in_memory
from optimizer.settings import ClusterInput, Policy, Settings
from optimizer.solve import driver
from optimizer.solve.rules.resources import DISK
from tests.solve.clusters import BRIEF, make_brokers, make_partitions, pinned
from tests.solve.nights import BURN_IN, Month, drift, month
from tests.solve.test_driver import with_dead

WAIT = Policy(disk_band=0.10, replicas_band=0.5, in_band=0.5, start_at=0.15)
# Only bytes out have a band: nothing starts replicas but what is urgent.
URGENT_ONLY = replace(WAIT, disk_band=100.0, in_band=100.0, replicas_band=100.0, leaders_band=100.0)
SIZE, COUNT = 25, 48  # bytes, partitions
QUICK = replace(BRIEF, exact_cells=0)
Change = Callable[[Cluster], Cluster]


def even(first: int = SIZE, mobility: int = FREE) -> Cluster:
    """Six brokers on three racks; 48 partitions on two racks each, 16 replicas on each broker; the first partition, on
    the brokers 0 and 1, has another size."""
    lists = [[n % 6, (n + 1 + n // 6 % 2) % 6] for n in range(COUNT)]
    partitions = make_partitions(lists, [first, *[SIZE] * (COUNT - 1)], [10] * COUNT)
    mobilities = np.full(COUNT, mobility)
    return Cluster("c", make_brokers([0, 1, 2, 0, 1, 2]), replace(partitions, mobility=mobilities))


def planned(
    cluster: Cluster, policy: Policy = WAIT, *, started: bool = False, **of_cluster: Any
) -> driver.Solved[MemoryPlacement]:
    """The plan of one cluster, c."""
    settings = Settings(clusters=(ClusterInput(id="c", input="/unused", **of_cluster),), policy=policy)
    placement = in_memory(rows_of(cluster), {"c": cluster.brokers})
    return driver.solve(placement, settings, QUICK, started=["c"] if started else [])


def waits(solved: driver.Solved[MemoryPlacement]) -> bool:
    """Whether the cluster waits: then no replica changes its broker, and a finding says so."""
    is_waiting = solved.clusters["c"].waits
    assert is_waiting == (FindingCode.WAITS_TO_START in {*solved.tables["findings"]["code"]})
    assert not (is_waiting and len(solved.tables["moves"]))
    return is_waiting


def of_brokers(cluster: Cluster, **changed: Any) -> Cluster:
    """The cluster with other brokers."""
    return replace(cluster, brokers=replace(cluster.brokers, **changed))


def of_partitions(cluster: Cluster, **changed: Any) -> Cluster:
    """The cluster with other columns of its partitions."""
    return replace(cluster, partitions=replace(cluster.partitions, **changed))


def drained(cluster: Cluster) -> Cluster:
    """Broker 5 must be emptied."""
    return replace(cluster, brokers=make_brokers([0, 1, 2, 0, 1, 2], draining=(5,)))


def dead(cluster: Cluster) -> Cluster:
    """Broker 5 is dead."""
    return replace(cluster, brokers=with_dead(cluster.brokers, [5]))


def in_one_rack(cluster: Cluster) -> Cluster:
    """Partition 0 has both replicas in rack 0."""
    lists = cluster.partitions.replicas.copy()
    lists[0] = [0, 3]
    return of_partitions(cluster, replicas=lists, isr=lists)


def off_its_pin(cluster: Cluster) -> Cluster:
    """Topic t may use the brokers 0 to 4."""
    return replace(pinned(cluster, {"t": [0, 1, 2, 3, 4]}, ["t"] * COUNT), cluster_id="c")


def grown(cluster: Cluster) -> Cluster:
    """Partition 0 should have three replicas."""
    lists = np.pad(cluster.partitions.replicas, ((0, 0), (0, 1)), constant_values=-1)
    factor = np.where(np.arange(COUNT) == 0, 3, 2)
    columns = {"replicas": lists, "isr": lists, "elr": np.full_like(lists, -1)}
    return of_partitions(cluster, replication_factor=factor, **columns)


def shrunk(cluster: Cluster) -> Cluster:
    """Partition 0 should have one replica: nothing is copied."""
    return of_partitions(cluster, replication_factor=np.where(np.arange(COUNT) == 0, 1, 2))


def filled(cluster: Cluster) -> Cluster:
    """The disk of broker 0 is over its limit; all others have space."""
    return of_brokers(cluster, disk_capacity_bytes=np.array([420, 2000, 2000, 2000, 2000, 2000]))


def without_room(cluster: Cluster) -> Cluster:
    """Every disk is over its limit."""
    return of_brokers(cluster, disk_capacity_bytes=np.full(6, 420))


def drained_without_room(cluster: Cluster) -> Cluster:
    """Broker 5 must be emptied, and no other disk has space for a replica."""
    return of_brokers(drained(cluster), disk_capacity_bytes=np.full(6, 450))


def in_one_rack_without_room(cluster: Cluster) -> Cluster:
    """Partition 0 has both replicas in rack 0, and no disk has space for a replica before another one leaves."""
    return of_brokers(in_one_rack(cluster), disk_capacity_bytes=np.array([445, 440, 445, 473, 445, 445]))


def crowded(cluster: Cluster) -> Cluster:
    """Broker 0 has two replicas of topic u, and may have one."""
    of_u = np.isin(np.arange(COUNT), (0, 6))
    topics = np.where(of_u, "u", "t").astype(object)
    return of_partitions(cluster, topic=topics, topic_most_replicas=np.where(of_u, 1, NO_LIMIT))


URGENT: dict[str, Change] = {
    "drain": drained,
    "dead": dead,
    "racks": in_one_rack,
    "pin": off_its_pin,
    "more replicas": grown,
    "fewer replicas": shrunk,
    "disk": filled,
}
BLOCKED: dict[tuple[int, str], Change] = {
    **{(mobility, name): URGENT[name] for mobility in (FIXED, ORDER_ONLY) for name in URGENT},
    **{(FORCED_ONLY, name): URGENT[name] for name in ("racks", "pin", "more replicas", "fewer replicas", "disk")},
    **{(RACKS_ONLY, name): URGENT[name] for name in ("pin", "more replicas", "fewer replicas", "disk")},
    (FREE, "no disk has space"): without_room,
    (FREE, "no disk has space for a drain"): drained_without_room,
    (FREE, "no order of copies"): in_one_rack_without_room,
    (FREE, "a topic is crowded"): crowded,
}


@pytest.mark.parametrize("name", URGENT)
def test_what_is_urgent_starts_a_cluster(name: str) -> None:
    """Nothing else could start it."""
    assert not waits(planned(URGENT[name](even()), URGENT_ONLY))


@pytest.mark.parametrize(("mobility", "name"), BLOCKED)
def test_what_the_plan_cannot_change_starts_nothing(mobility: int, name: str) -> None:
    """Mobility, disks or racks forbid it; or only the spread of a topic could be better."""
    assert waits(planned(BLOCKED[mobility, name](even(mobility=mobility)), URGENT_ONLY))


@pytest.mark.parametrize(
    ("first", "knobs", "is_waiting"),
    [
        (102, {}, True),
        (102, {"start_at": 0.0}, False),
        (102, {"start_at": 0.11}, False),
        (175, {}, False),
        (175, {"start_at": 0.25}, True),
        (175, {"disk_band": 0.3}, True),
        (175, {"disk_band": 100.0}, True),
    ],
)
def test_a_load_outside_the_start_width_starts_a_cluster(first: int, knobs: dict[str, Any], is_waiting: bool) -> None:
    """The fullest disk is 12 or 22 % over its mean; the width is never less than the band of its resource. A cluster
    that starts is planned to its band."""
    policy = replace(WAIT, **knobs)
    solved = planned(even(first), policy)
    assert waits(solved) == is_waiting
    assert bool(len(solved.tables["moves"])) != is_waiting
    disks = solved.clusters["c"].loads[:, DISK]
    assert disks.max() / disks.mean() - 1 <= (max(policy.disk_band, policy.start_at) if is_waiting else 0.10)
    assert {row.bound_bytes for row in solved.bounds.rows["c"]} == {0} or not is_waiting


def test_the_finding_names_the_load_that_is_nearest_to_its_start() -> None:
    """The text has the distances from the mean."""
    findings = planned(even(102)).tables["findings"]
    row = findings[findings["code"] == FindingCode.WAITS_TO_START].iloc[0]
    assert row["detail"] == "fullest disk 12.1 % over its mean; starts at 15 %"
    assert (row["resource"], row["when"], row["cause"]) == ("disk", "both", None)


def with_leaders_on_0(more: int) -> Cluster:
    """Broker 0 leads so many partitions more than its eight."""
    lists = even().partitions.replicas.copy()
    rows = np.flatnonzero(lists[:, 1] == 0)[:more]
    lists[rows] = lists[rows][:, ::-1]
    return of_partitions(even(), replicas=lists, leader=lists[:, 0], isr=lists)


@pytest.mark.parametrize(
    ("cluster", "start_at", "least", "most"),
    [
        (even(), 0.15, 0, 0),
        (with_leaders_on_0(1), 0.15, 0, 0),
        (with_leaders_on_0(1), 0.0, 1, 1),
        (with_leaders_on_0(4), 0.15, 4, 8),
        (of_brokers(even(), accepts_leadership=np.arange(6) != 0), 0.15, 8, 24),
    ],
    ids=["even", "a little", "a little, every night", "much", "demoted"],
)
def test_leaders_start_for_themselves(cluster: Cluster, start_at: float, least: int, most: int) -> None:
    """While the replicas wait, a broker to demote or a load outside the start width changes leaders, down to their
    bands."""
    policy = replace(WAIT, leaders_band=0.0, out_band=0.0, start_at=start_at)
    solved = planned(cluster, policy)
    assert waits(solved) == bool(start_at)
    assert least <= len(solved.tables["leaders"]) <= most
    assert len(solved.tables["proposal"]) == len(solved.tables["leaders"])


@pytest.mark.parametrize(
    ("cluster", "start_at", "codes"),
    [
        (even(), 0.0, {FindingCode.TOPIC_SPREAD, FindingCode.TOPIC_LEADER_SPREAD}),
        (even(), 0.15, set()),
        (with_leaders_on_0(4), 0.15, {FindingCode.TOPIC_LEADER_SPREAD}),
    ],
    ids=["every night", "waits", "leaders have started"],
)
def test_the_spread_of_topics_waits_without_a_finding(cluster: Cluster, start_at: float, codes: set[str]) -> None:
    """Broker 0 has and leads two partitions of topic u that may not change, and may have one."""
    cluster = crowded(cluster)
    most = cluster.partitions.topic_most_replicas
    mobility = np.where(most == 1, FIXED, FREE)
    cluster = of_partitions(cluster, topic_most_leaders=most, mobility=mobility)
    solved = planned(cluster, replace(WAIT, leaders_band=0.0, out_band=0.0, start_at=start_at))
    assert waits(solved) == bool(start_at)
    found = {*solved.tables["findings"]["code"]}
    assert found & {FindingCode.TOPIC_SPREAD, FindingCode.TOPIC_LEADER_SPREAD} == codes


def test_followers_keep_their_order_on_a_night_that_waits() -> None:
    """Although a failure of broker 0 would leave all its leaders to broker 1."""
    lists = [[0, 1, 2], [0, 1, 3], [0, 1, 4], [0, 1, 5]] * 2 + [[b, 0, (b % 5) + 1] for b in (1, 2, 3, 4, 5)] * 8
    partitions = make_partitions(lists, [SIZE] * COUNT, [10] * COUNT)
    cluster = Cluster("c", make_brokers([0, 1, 2, 3, 4, 5]), partitions)
    nightly, waiting = (planned(cluster, replace(URGENT_ONLY, out_band=w, start_at=w)) for w in (0.0, 100.0))
    assert waits(waiting)
    assert (len(waiting.tables["proposal"]), len(nightly.tables["proposal"]) > 0) == (0, True)


def test_only_does_not_wait_and_says_so() -> None:
    """The finding names the ignored width."""
    solved = planned(even(102), only="racks")
    assert not waits(solved)
    findings = solved.tables["findings"]
    details = [*findings[findings["subject"] == "start_at"]["detail"]]
    assert details == ['only = "racks" does not wait: start_at = 0.15 is ignored']


def test_a_cluster_that_has_started_goes_on() -> None:
    """Also below the start width."""
    solved = planned(even(102), started=True)
    assert not waits(solved)
    assert len(solved.tables["moves"])


def test_a_fleet_decides_by_cluster() -> None:
    """The plan of each cluster is that of the cluster alone."""
    clusters = {"a": replace(even(102), cluster_id="a"), "b": replace(even(175), cluster_id="b")}
    inputs = tuple(ClusterInput(id=name, input="/unused") for name in clusters)

    def solved(*names: str) -> driver.Solved[MemoryPlacement]:
        rows = pd.concat([rows_of(clusters[name]) for name in names])
        placement = in_memory(rows, {name: clusters[name].brokers for name in names})
        return driver.solve(placement, Settings(clusters=inputs, policy=WAIT), QUICK)

    fleet, alone = solved("a", "b"), {name: solved(name) for name in clusters}
    assert {name: cluster.waits for name, cluster in fleet.clusters.items()} == {"a": True, "b": False}
    for name in clusters:
        assert fleet.clusters[name].progress.curve == alone[name].clusters[name].progress.curve
        assert fleet.bounds.rows[name] == alone[name].bounds.rows[name]
        for table, made in fleet.tables.items():
            of_cluster = made[made["cluster_id"] == name].reset_index(drop=True)
            pd.testing.assert_frame_equal(of_cluster, alone[name].tables[table], check_dtype=False)


@pytest.fixture(scope="module")
def months() -> dict[tuple[float, float], Month]:
    """Thirty nights of six brokers, by the disk's band and ``start_at``."""
    load = drift(6, 90, nights=30, seed=2)

    def nights(band: float, start_at: float) -> Month:
        policy = Policy(disk_band=band, in_band=band, leaders_band=100, out_band=100, start_at=start_at)
        return month(load, policy, range(BURN_IN, BURN_IN + 30))

    return {pair: nights(*pair) for pair in ((0.10, 0.0), (0.10, 0.15), (0.05, 0.15))}


@pytest.mark.all_only
def test_thirty_nights_with_a_start_width_need_fewer_plans(months: dict[tuple[float, float], Month]) -> None:
    """Half the plans and no more bytes; the worst disk stays within a tenth of that of a plan every night."""
    nightly, started, deep = months[0.10, 0.0], months[0.10, 0.15], months[0.05, 0.15]
    assert 1 <= started.plans <= 0.6 * nightly.plans
    assert started.bytes_share < nightly.bytes_share
    assert started.worst_disk < 1.1 * nightly.worst_disk
    assert deep.plans <= started.plans
    assert deep.worst_disk < started.worst_disk
