"""From any cluster and a limit to documents: the limited plan passes the audit, and no bound is above it."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import product

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from benchmarks.rows import partition_rows
from optimizer.cluster_policy import BYTES_PER_GB, MoveLimit
from optimizer.domain import FIXED, FORCED_ONLY, FREE, MOBILITY, Cause, Cluster, FindingCode, Ints
from optimizer.planning.memory_placement import ClusterPlacement, MemoryPlacement, in_memory
from optimizer.settings import ClusterInput, Policy, Settings, Solver
from optimizer.solve.driver import Solved, solve
from optimizer.solve.rounds.solved_cluster import SolvedCluster
from optimizer.solve.rules.bands import disk_limit
from optimizer.solve.rules.resources import DISK
from tests.examples import examples
from tests.solve.clusters import BRIEF, ID, loads_of, make_brokers, make_cluster, make_partitions, with_states
from tests.solve.troubled import audited, troubled_clusters


@dataclass(frozen=True)
class Remembering(MemoryPlacement):
    """A placement that still knows where replicas were before its cut."""

    whole: Mapping[str, ClusterPlacement] = field(default_factory=dict)

    def reduce_to_limits(self, clusters: Mapping[str, SolvedCluster], settings: Settings) -> "Remembering":
        """Within the limits."""
        return replace(self, fleet=super().reduce_to_limits(clusters, settings).fleet, whole=self.fleet)


def solved(cluster: Cluster, policy: Policy) -> Solved[MemoryPlacement]:
    """The plan under a policy."""
    hosts = {ID: cluster.brokers}
    fleet = in_memory(pd.DataFrame(partition_rows(cluster)), hosts).fleet
    run_settings = Settings(clusters=(ClusterInput(id=ID, input="/unused"),), policy=policy, solver=Solver(rounds=1))
    placement: MemoryPlacement = Remembering(hosts, fleet)
    return solve(placement, run_settings, BRIEF)


def whole_and_reached(plan: Solved[MemoryPlacement]) -> tuple[Ints, Ints]:
    """Replicas before and after the cut, where there is one."""
    placement, reached = plan.placement, plan.placement.fleet[ID].current
    assert isinstance(placement, Remembering)
    return (placement.whole[ID].current if plan.clusters[ID].over_limits else reached), reached


def best_bound(plan: Solved[MemoryPlacement]) -> int:
    """The best bound in bytes."""
    return max(row.bound_bytes for row in plan.bounds.rows[ID])


def limited(cluster: Cluster, share: float, by_moves: bool) -> Policy:
    """A limit of a share of all replicas, or of all bytes; one at the least."""
    replicas = int(share * cluster.partitions.replication_factor.sum())
    size_bytes = int(share * (cluster.partitions.replication_factor * cluster.partitions.size_bytes).sum())
    return Policy(max_moves=max(replicas, 1)) if by_moves else Policy(max_moved_gb=max(size_bytes, 1) / BYTES_PER_GB)


@settings(max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(troubled_clusters(), st.sampled_from([0.0, 0.02, 0.1, 0.3]), st.booleans())
def test_every_limited_plan_passes_the_audit(cluster: Cluster, share: float, by_moves: bool) -> None:
    """Whatever is dead, draining, pinned or fixed: a cut plan keeps its limit and every rule, findings say what it
    leaves, and no bound is above it."""
    policy = limited(cluster, share, by_moves)
    plan = solved(cluster, policy)
    whole, reached = whole_and_reached(plan)
    findings = plan.tables["findings"]
    assert (findings["code"] == FindingCode.LIMITED).sum() == (plan.clusters[ID].over_limits is not None)
    partitions = plan.placement.fleet[ID].partitions
    rows = np.flatnonzero((whole != reached).any(axis=1))
    left = {(partitions.topic[p], partitions.partition[p]) for p in rows}
    named = findings[findings["code"].isin(["not_emptied", "not_pinned", "rack_spread"]) & findings["topic"].notna()]
    keys = pd.Series(zip(named["topic"], named["partition"], strict=True), index=named.index, dtype=object)
    assert set(keys[named["cause"] == Cause.MOVE_LIMIT]) == left & set(keys)

    assert audited(cluster, plan.tables, best_bound(plan), policy.move_limit) == []


def small_rack(brokers_of_rack: tuple[int, ...], *, room: int, **fields: list[int]) -> Cluster:
    """Six partitions in each rack except the last; brokers of the last rack have space for ``room`` partitions."""
    racks = np.repeat(np.arange(len(brokers_of_rack)), brokers_of_rack)
    lists = [np.flatnonzero(racks == rack)[:3].tolist() for rack in range(len(brokers_of_rack) - 1)]
    partitions = make_partitions([replicas for replicas in lists for _ in range(6)], [10] * 6 * len(lists))
    is_last = racks == racks.max()
    brokers = replace(make_brokers(racks.tolist()), disk_capacity_bytes=np.where(is_last, room * 10 / 0.9 + 1, 1000))
    brokers = replace(brokers, disk_capacity_bytes=brokers.disk_capacity_bytes.astype(np.int64))
    given = {name: np.array(value) for name, value in fields.items()}
    return make_cluster(brokers, replace(partitions, **given))


@pytest.mark.parametrize("room", [0, 1, 5, 11, 12])
def test_a_full_rack_keeps_no_partition_in_one_rack(room: int) -> None:
    """What finds no room in the last rack is spread over the others, and the full disk is the reason of what is left;
    no other reason is accepted."""
    cluster = small_rack((3, 3, 1), room=room)
    plan = solved(cluster, Policy())
    reached = plan.placement.fleet[ID].current
    in_last = (reached == 6).any(axis=1)
    assert in_last.sum() == room
    assert [len(set(cluster.brokers.rack[row])) for row in reached] == np.where(in_last, 3, 2).tolist()
    findings = plan.tables["findings"]
    left = findings[(findings["code"] == FindingCode.RACK_SPREAD) & findings["topic"].notna()]
    assert sorted(left["partition"]) == np.flatnonzero(~in_last).tolist()
    assert set(left["cause"]) <= {Cause.NO_DISK_ROOM}
    assert audited(cluster, plan.tables, best_bound(plan), max_unexplained=0) == []


def test_what_a_full_rack_spreads_otherwise_keeps_the_other_rules() -> None:
    """Partitions that may not move stay; of those whose racks alone may change no other replica does; a topic gets no
    more than its most on a broker; and a limit of copies holds."""
    only_racks = MOBILITY.index("racks_only")
    kinds = [FIXED, FORCED_ONLY, only_racks, FREE, FREE, FREE] * 2
    cluster = small_rack((3, 3, 1), room=0, mobility=kinds, topic_most_replicas=[7] * 12)
    for most, changed in ((0, 8), (4, 4)):
        plan = solved(cluster, Policy(max_moves=most))
        reached, before = plan.placement.fleet[ID].current, cluster.partitions.replicas
        moved = (reached[:, :, None] != before[:, None, :]).all(axis=2).sum(axis=1)
        assert moved.sum() == changed
        assert set(moved[np.isin(kinds, (FIXED, FORCED_ONLY))]) == {0}
        assert moved.max() == 1
        assert np.bincount(reached.ravel()).max() <= 7
        limit = MoveLimit(moves=most) if most else MoveLimit()
        assert audited(cluster, plan.tables, best_bound(plan), limit, max_unexplained=0) == []


@pytest.mark.parametrize("states", [*product(("dead", "drained fenced", "draining"), repeat=2)])
@pytest.mark.parametrize("room", [0, 2, 4])
def test_no_new_list_names_a_broker_that_is_not_live(states: tuple[str, str], room: int) -> None:
    """Four partitions leave brokers 0 and 1. Where broker 3 is full only one replica can leave: if the other stays on a
    broker that is not live, Kafka refuses the list, so the partition keeps its own."""
    cluster = make_cluster(make_brokers([0] * 4), make_partitions([[0, 1]] * 4, [10] * 4))
    capacity = np.array([1000, 1000, 1000, int(room * 10 / 0.9) + 1])
    brokers = replace(with_states(cluster.brokers, [*states, "alive", "alive"]), disk_capacity_bytes=capacity)
    cluster = make_cluster(brokers, cluster.partitions)
    plan = solved(cluster, Policy())
    reached = [set(row) for row in plan.placement.fleet[ID].current.tolist()]
    assert reached.count({2, 3}) == room
    half = [{0, 1}, {2, 1}, {2, 0}]
    stays_live = [True, brokers.is_live[1], brokers.is_live[0]]
    assert all(hosts == {2, 3} or stays_live[half.index(hosts)] for hosts in reached)
    assert {0, 1} not in reached or not brokers.is_live[:2].any()
    findings = plan.tables["findings"]
    down = findings[findings["code"].isin([FindingCode.DEAD_BROKER, FindingCode.FENCED_BROKER])]
    amounts = dict(zip(down["broker_id"], down["amount"], strict=True))
    assert amounts == {b: sum(b in hosts for hosts in reached) for b in (0, 1) if not brokers.is_live[b]}
    assert audited(cluster, plan.tables, best_bound(plan), max_unexplained=0) == []


@settings(max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    troubled_clusters(),
    st.floats(0.8, 1.2),
    st.integers(0, 2**32 - 1),
    st.sampled_from([None, (0.1, True), (0.3, False)]),
)
def test_no_plan_fills_a_disk(cluster: Cluster, room: float, seed: int, limit: tuple[float, bool] | None) -> None:
    """If disks have no space for replicas that must leave, the plan is reduced until no disk is over its limit.

    A disk that was over its limit before may keep its bytes. A limit on copies holds, too.
    """
    n, before = len(cluster.brokers), loads_of(cluster, cluster.partitions.replicas)[:, DISK]
    capacity = before.sum() / n * room * np.random.default_rng(seed).uniform(0.8, 1.6, n)
    brokers = replace(cluster.brokers, disk_capacity_bytes=capacity.astype(np.int64))
    cluster = make_cluster(brokers, cluster.partitions)
    policy = limited(cluster, *limit) if limit else Policy()
    plan = solved(cluster, policy)
    may = np.maximum(disk_limit(brokers, policy), before)
    reached = plan.clusters[ID].loads[:, DISK]
    assert (reached <= may).all()
    over_limits, findings = plan.clusters[ID].over_limits, plan.tables["findings"]
    reported = findings[findings["code"] == FindingCode.LIMITED]
    assert reported["cause"].tolist() == ([over_limits.cause] if over_limits else [])
    if limit is None:
        assert set(zip(reported["subject"], reported["cause"], strict=True)) <= {
            ("disk_headroom = 0.1", Cause.NO_DISK_ROOM)
        }
        assert over_limits is None or (over_limits.loads[:, DISK] > may).any()
    assert audited(cluster, plan.tables, best_bound(plan), policy.move_limit) == []
