"""From a cluster in any state and a limit to documents: the cut plan passes the audit, and its bounds lie below it."""

from dataclasses import replace

import numpy as np
import pandas as pd
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from optimizer.domain import Cause, Cluster, FindingCode, Floats, Ints
from optimizer.settings import Policy
from optimizer.solve.bounds.bound import copies_of
from optimizer.solve.findings.limit_findings import DISK_REMEDY, REMEDY, Cut
from optimizer.solve.limit.limit import changes_of
from optimizer.solve.limit.limit_choice import keep_within
from optimizer.solve.rules.bands import broker_loads, disk_limit, replica_weights
from optimizer.solve.rules.resources import DISK
from optimizer.stages.shared.arrays import replica_lists
from optimizer.stages.solve.finish import Finished, finish_cluster
from optimizer.wishes import MoveLimit
from tests.examples import examples
from tests.solve.clusters import Planned, bounds, make_cluster, plan_one_shard, solved_cluster
from tests.solve.troubled import audited, partition_rows, troubled_clusters

POLICY = Policy()


def loads_of(cluster: Cluster, replicas: Ints) -> Floats:
    """Loads of the brokers under a placement."""
    return broker_loads(len(cluster.brokers), replicas, replica_weights(cluster.partitions))


def cut(cluster: Cluster, planned: Planned, whole: Ints, allowed: MoveLimit) -> Ints:
    """The replicas of a plan after its limit, as the solve stage takes it."""
    before = cluster.partitions.replicas
    differs = (np.sort(whole, axis=1) != np.sort(before, axis=1)).any(axis=1)
    changed = np.flatnonzero(differs)
    changes = changes_of(
        cluster.brokers,
        cluster.partitions.rows(changed),
        whole[changed],
        unchanged=cluster.partitions.rows(np.flatnonzero(~differs)),
        bands=planned.bands,
        loads=loads_of(cluster, before),
        scale=planned.scale,
        disk_limit=disk_limit(cluster.brokers, POLICY),
        allowed=allowed,
    )
    left = changed[~keep_within(changes)]
    result = whole.copy()
    result[left] = before[left]
    return result


def finished(cluster: Cluster, planned: Planned, whole: Ints, reached: Ints, limit: Cut) -> Finished:
    """Rows of the finished plan."""
    frame = pd.DataFrame(partition_rows(cluster))
    frame["current"] = replica_lists(reached, cluster.brokers.ids)
    frame["held_back"] = (whole != reached).any(axis=1)
    before, after = loads_of(cluster, cluster.partitions.replicas), loads_of(cluster, reached)
    solved = solved_cluster(cluster.brokers, planned.bands, before, after, cut=limit)
    return finish_cluster(frame, solved, POLICY)


@settings(max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(troubled_clusters(), st.sampled_from([0.0, 0.1, 0.5, 0.9]), st.booleans())
def test_every_cut_plan_passes_the_audit(cluster: Cluster, share: float, by_moves: bool) -> None:
    """Whatever is dead, draining, pinned or fixed: a cut plan keeps its limit and every rule, findings say what it
    leaves, and no bound is above it."""
    brokers, partitions = cluster.brokers, cluster.partitions
    planned = plan_one_shard(cluster, POLICY, rounds=3, brief=True)
    gone = (planned.replicas >= 0) & ~brokers.is_live[np.maximum(planned.replicas, 0)]
    whole = np.where(gone.any(axis=1, keepdims=True), partitions.replicas, planned.replicas)
    copies = copies_of(partitions.replicas, whole)
    moves, moved_bytes = int(copies.sum()), int((copies * partitions.size_bytes).sum())
    allowed = MoveLimit(moves=int(moves * share)) if by_moves else MoveLimit(moved_bytes=int(moved_bytes * share))
    reached = cut(cluster, planned, whole, allowed)

    records = finished(cluster, planned, whole, reached, Cut(allowed, moved_bytes, moves, loads_of(cluster, whole)))
    findings = records["findings"]
    assert (findings["code"] == FindingCode.LIMITED).sum() == 1
    rows = np.flatnonzero((whole != reached).any(axis=1))
    left = {(partitions.topic[p], partitions.partition[p]) for p in rows}
    named = findings[findings["code"].isin(["not_emptied", "not_pinned", "rack_spread"]) & findings["topic"].notna()]
    keys = pd.Series(zip(named["topic"], named["partition"], strict=True), index=named.index, dtype=object)
    for blamed in (named["remedy"] == REMEDY, named["cause"] == Cause.MOVE_LIMIT):
        assert set(keys[blamed]) == left & set(keys)

    assert audited(cluster, records, max(bounds(cluster, planned, reached)), allowed) == []


@settings(max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(troubled_clusters(), st.floats(0.8, 1.6), st.integers(0, 2**32 - 1))
def test_no_plan_fills_a_disk(cluster: Cluster, room: float, seed: int) -> None:
    """Where what must leave finds no room, the plan is cut until every disk holds, or holds no more than before."""
    n, used = len(cluster.brokers), loads_of(cluster, cluster.partitions.replicas)[:, DISK].sum()
    capacity = used / n * room * np.random.default_rng(seed).uniform(0.8, 1.6, n)
    brokers = replace(cluster.brokers, disk_capacity_bytes=capacity.astype(np.int64))
    cluster = make_cluster(brokers, cluster.partitions)
    planned = plan_one_shard(cluster, POLICY, rounds=3, brief=True)
    gone = (planned.replicas >= 0) & ~brokers.is_live[np.maximum(planned.replicas, 0)]
    whole = np.where(gone.any(axis=1, keepdims=True), cluster.partitions.replicas, planned.replicas)
    before, after = (loads_of(cluster, replicas)[:, DISK] for replicas in (cluster.partitions.replicas, whole))
    may = np.maximum(disk_limit(brokers, POLICY), before)
    assume((after > may).any())

    reached = cut(cluster, planned, whole, MoveLimit())
    assert (loads_of(cluster, reached)[:, DISK] <= may).all()
    limit = Cut(MoveLimit(), 0, 0, loads_of(cluster, whole), disk_headroom=POLICY.disk_headroom)
    records = finished(cluster, planned, whole, reached, limit)
    findings = records["findings"]
    (told,) = findings[findings["code"] == FindingCode.LIMITED].to_dict("records")
    assert (told["subject"], told["remedy"]) == ("disk_headroom = 0.1", DISK_REMEDY)
    assert audited(cluster, records, max(bounds(cluster, planned, reached))) == []
