"""``policy.only``: the changes that each mobility allows, and the findings of the rest."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from optimizer.cluster_policy import ClusterPolicy
from optimizer.domain import (
    FIXED,
    FORCED_ONLY,
    FREE,
    ORDER_ONLY,
    RACKS_ONLY,
    Brokers,
    Cause,
    Cluster,
    FindingCode,
    Ints,
    Partitions,
)
from optimizer.settings import Policy
from optimizer.solve.findings.finding import Finding
from optimizer.solve.findings.net_moves import settle
from optimizer.solve.findings.only_findings import with_only
from optimizer.solve.leaders.leader_bounds import leader_bounds
from optimizer.solve.leaders.leader_flow import host_loads
from optimizer.solve.leaders.leaders import ChosenLeaders, assign_leaders, lead_with
from optimizer.solve.rules.pins import rack_breaks
from optimizer.topic_policy import TopicFactor
from tests.examples import examples
from tests.in_full import in_full
from tests.solve.clusters import (
    make_brokers,
    make_cluster,
    make_partitions,
    middling_clusters,
    moved_bytes,
    out_of_band,
    plan_cluster,
    rack_breaches,
    tiny_clusters,
)

NARROW = Policy(disk_band=0.05, replicas_band=0.1, in_band=0.1)
FEW = settings(max_examples=examples(25), deadline=None, suppress_health_check=[HealthCheck.too_slow])
BOTH_SIZES = st.one_of(tiny_clusters(), middling_clusters())


def with_mobility(cluster: Cluster, mobility: Ints) -> Cluster:
    """The cluster with the mobility of each partition."""
    return make_cluster(cluster.brokers, replace(cluster.partitions, mobility=mobility))


def on_brokers_to_empty(cluster: Cluster, replicas: Ints) -> Ints:
    """Replicas of each partition on brokers that must empty, (P,)."""
    return np.asarray(((replicas >= 0) & cluster.brokers.must_empty[np.maximum(replicas, 0)]).sum(axis=1))


def copies(cluster: Cluster, replicas: Ints) -> Ints:
    """Replicas of each partition that are copied, (P,)."""
    before = cluster.partitions.replicas
    return np.asarray(((replicas[:, :, None] != before[:, None, :]).all(axis=2) & (replicas >= 0)).sum(axis=1))


@FEW
@given(cluster=BOTH_SIZES)
def test_a_drain_alone_copies_what_must_leave(cluster: Cluster) -> None:
    """Just the replicas on brokers to empty are copied, once each, whatever the bands and racks of others are."""
    drained = with_mobility(cluster, np.full(len(cluster.partitions), FORCED_ONLY))
    planned = plan_cluster(drained, NARROW, brief=True)
    leaving = on_brokers_to_empty(drained, drained.partitions.replicas)
    assert (copies(drained, planned.replicas) == leaving).all()
    assert not on_brokers_to_empty(drained, planned.replicas).any()
    assert moved_bytes(drained, planned.replicas) == planned.bounds()["forced"]


@FEW
@given(cluster=BOTH_SIZES)
def test_racks_alone_are_repaired_by_as_many_copies_as_that_takes(cluster: Cluster) -> None:
    """Only partitions that break the rack rule change; each copy repairs one replica, and no copy serves a band."""
    keeps = replace(cluster.brokers, must_empty=np.zeros_like(cluster.brokers.must_empty))
    broken = rack_breaks(keeps, cluster.partitions, cluster.partitions.replicas)
    racks_only = with_mobility(make_cluster(keeps, cluster.partitions), np.where(broken > 0, RACKS_ONLY, FIXED))
    planned = plan_cluster(racks_only, NARROW, brief=True)
    gain = broken - rack_breaks(keeps, racks_only.partitions, planned.replicas)
    assert (copies(racks_only, planned.replicas) <= gain).all()
    assert rack_breaches(racks_only, planned.replicas) == 0
    assert moved_bytes(racks_only, planned.replicas) == planned.bounds()["forced"]


def test_racks_alone_are_repaired_where_there_is_room() -> None:
    """If a repair has a choice of brokers, the copies go to the emptier ones."""
    brokers = make_brokers([0, 0, 0, 0, 1, 1, 1, 1])
    replicas = [[0, 1]] * 4 + [[2, 4]] * 8 + [[3, 5]] * 8
    partitions = make_partitions(replicas, [10] * 20)
    mobility = np.where(np.arange(20) < 4, RACKS_ONLY, FIXED)
    planned = plan_cluster(with_mobility(make_cluster(brokers, partitions), mobility), NARROW)
    arrived = planned.replicas[:4][~np.isin(planned.replicas[:4], [0, 1])]
    assert sorted(np.bincount(arrived, minlength=8)[6:].tolist()) == [2, 2]


def test_a_search_of_all_placements_does_not_balance_what_only_repairs_racks() -> None:
    """A small cluster with a broker that stays empty gets no second copy of a partition to fill it."""
    brokers = make_brokers([0, 0, 0, 1, 1])
    cluster = make_cluster(brokers, make_partitions([[0, 1]] * 4, [10] * 4))
    counts = Policy(disk_band=9.0, replicas_band=0.1, in_band=9.0)
    planned = plan_cluster(with_mobility(cluster, np.full(4, RACKS_ONLY)), counts)
    assert rack_breaches(cluster, planned.replicas) == 0
    assert copies(cluster, planned.replicas).tolist() == [1] * 4


def led(cluster: Cluster, mobility: Ints) -> tuple[ChosenLeaders, Ints]:
    """Leaders and lists of a cluster that nothing moves in."""
    partitions = replace(cluster.partitions, mobility=mobility)
    leaders = assign_leaders(cluster.brokers, partitions, partitions.replicas, leaders_band=0.1, out_band=0.1)
    return leaders, lead_with(partitions.replicas, leaders.chosen)


@FEW
@given(cluster=middling_clusters())
def test_leaders_alone_copy_nothing_and_lead_as_well_as_may_be(cluster: Cluster) -> None:
    """Lists keep their brokers, also those that must empty; their order is as good as that of free partitions."""
    order = np.full(len(cluster.partitions), ORDER_ONLY)
    planned = plan_cluster(with_mobility(cluster, order), NARROW, brief=True)
    assert (planned.replicas == cluster.partitions.replicas).all()
    leaders, final = led(cluster, order)
    free, same = led(cluster, np.full(len(cluster.partitions), FREE))
    assert (final == same).all()
    assert list(leader_bounds(leaders)) == list(leader_bounds(free))
    assert out_of_band(cluster, final, planned.bands, planned.scale) == out_of_band(
        cluster, cluster.partitions.replicas, planned.bands, planned.scale
    )


@FEW
@given(cluster=middling_clusters(), demoted=st.integers(0, 5))
def test_a_demotion_alone_moves_no_other_leader(cluster: Cluster, demoted: int) -> None:
    """Every preferred leader on the demoted broker goes to another replica that may lead, and no other one changes."""
    accepts = cluster.brokers.accepts_leadership & (np.arange(len(cluster.brokers)) != demoted)
    demoting = make_cluster(replace(cluster.brokers, accepts_leadership=accepts), cluster.partitions)
    before = demoting.partitions.replicas
    leaders, final = led(demoting, np.where(before[:, 0] == demoted, ORDER_ONLY, FIXED))
    others = ((before >= 0) & accepts[np.maximum(before, 0)]).any(axis=1)
    assert ((final[:, 0] != before[:, 0]) == ((before[:, 0] == demoted) & others)).all()
    assert host_loads(leaders.choices, leaders.arc)[demoted, 0] == ((before[:, 0] == demoted) & ~others).sum()


@pytest.mark.parametrize("mobility", [FORCED_ONLY, RACKS_ONLY])
def test_a_leader_that_stays_goes_on_leading(mobility: int) -> None:
    """Where a replica moves off a broker or out of a rack, its partition's preferred leader stays if it can."""
    brokers = make_brokers([0, 0, 1, 1, 2, 2], draining=(5,))
    partitions = make_partitions([[0, 1, 2], [0, 5, 3]] * 6, [10] * 12)
    cluster = with_mobility(make_cluster(brokers, partitions), np.full(12, mobility))
    planned = plan_cluster(cluster, NARROW)
    settled = settle(partitions.replicas, planned.replicas)
    final = lead_with(
        settled, assign_leaders(brokers, cluster.partitions, settled, leaders_band=0.1, out_band=0.1).chosen
    )
    stays = (planned.replicas == 0).any(axis=1)
    assert (final[stays, 0] == 0).all()
    assert (settled != partitions.replicas).any()


BROKEN = tuple(
    Finding(FindingCode(code), when, broker_id=broker, partition=partition)
    for code, when, broker, partition in (
        ("band", "both", 1, None),
        ("band", "after", 2, None),
        ("leader_band", "both", 3, None),
        ("leader_band", "both", 1, None),
        ("rack_spread", "both", None, 1),
        ("rack_spread", "both", None, 2),
        ("rack_spread", "before", None, None),
        ("not_emptied", "both", 2, 0),
        ("not_pinned", "both", 9, 2),
        ("not_free", "both", None, 2),
    )
)
Kept = tuple[str, int | None, int | None]  # code, broker and partition
NEVER_LEFT: list[Kept] = [("band", 2, None), ("rack_spread", None, None), ("not_free", None, 2)]
LEFT = {
    "bands": "1 load of a broker is outside its band",
    "bands of leaders": "2 loads of leaders are outside their bands",
    "racks": "2 partitions break the rack rule",
    "pins": "1 replica is outside its pin",
    "drain_brokers": "3 replicas are on brokers to empty (2)",
    "demote_brokers": "2 preferred leaders are on brokers to demote (3)",
    "replication_factors": "2 partitions have another replication factor than requested",
}


def small() -> tuple[Brokers, Partitions]:
    """Broker 2 is to be emptied, 3 to be demoted."""
    brokers = make_brokers([0, 1, 2, 0, 1], draining=(2,))
    partitions = make_partitions([[2, 1], [3, 2], [3, 2]], [10] * 3)
    return brokers, replace(partitions, topic=np.array(["a", "b", "b"], dtype=object))


def findings_with_only(only: str) -> list[Finding]:
    """Findings under ``only`` of a plan that changes nothing."""
    factors = (TopicFactor(topics="b", factor=3), TopicFactor(topics="a", factor=2))
    brokers, partitions = small()
    cluster_policy = ClusterPolicy(only=only, drain_brokers=(2,), demote_brokers=(3,), replication_factors=factors)
    return with_only(BROKEN, cluster_policy, brokers, partitions, partitions.replicas, is_excluded=lambda topic: False)


@pytest.mark.parametrize(
    ("only", "kept", "left"),
    [
        ("drain", [("not_emptied", 2, 0)], set(LEFT) - {"drain_brokers"}),
        ("racks", [("rack_spread", None, 1), ("rack_spread", None, 2)], set(LEFT) - {"racks"}),
        (
            "leaders",
            [("leader_band", 3, None), ("leader_band", 1, None)],
            set(LEFT) - {"bands of leaders", "demote_brokers"},
        ),
        ("demote", [("leader_band", 3, None)], set(LEFT) - {"demote_brokers"}),
    ],
)
def test_what_only_leaves_is_reported_in_one_line_each(only: str, kept: list[Kept], left: set[str]) -> None:
    """Each excluded kind of request has one finding with its count; findings caused or fixed by the plan stay."""
    findings = findings_with_only(only)
    others = [f for f in findings if f.code != FindingCode.NOT_ASKED_NOW]
    assert {(f.code, f.broker_id, f.partition) for f in others} == {*kept, *NEVER_LEFT}
    shown = {f.subject: f for f in in_full(f for f in findings if f.code == FindingCode.NOT_ASKED_NOW)}
    counts = LEFT | ({"bands of leaders": "1 load of leaders is outside its band"} if only == "demote" else {})
    assert {subject: f.detail for subject, f in shown.items()} == {
        subject: f'{counts[subject]}: only = "{only}" leaves that as it is' for subject in left
    }
    assert {(f.when, f.cause) for f in shown.values()} == {("both", Cause.ONLY)}
    assert all(f.detail.startswith(f"{f.amount} ") for f in shown.values())


def test_without_only_all_findings_stay() -> None:
    """All findings stay as they are."""
    assert findings_with_only("") == list(BROKEN)
