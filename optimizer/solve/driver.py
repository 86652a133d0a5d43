"""Plan every cluster of a fleet, and prove how good the plans are.

With ``[policy] start_at`` every cluster is first planned with bands that are at least so wide. If its plan changes
nothing, the cluster waits; the others are planned again with their own bands.

1. Rounds: a round splits each cluster into disjoint shards of brokers, and solves each shard alone. Rounds repeat until
   every band is met and no rule is broken, or until they make no progress.
2. Limits: if a plan copies more than allowed, or fills a disk, the driver reduces it.
3. Leaders, moves and findings of each cluster become tables.
4. Lower bounds: bytes that any equally balanced plan must copy.

This module keeps brokers and their loads in memory, because they are small. Partitions stay in the placement.
"""

import itertools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic

import numpy as np

from optimizer.cluster_policy import ClusterPolicy, MoveLimit
from optimizer.domain import Floats
from optimizer.settings import Policy, Settings, start_policy
from optimizer.solve.bounds.bound import widen
from optimizer.solve.certificate import Bounds, bounds_of
from optimizer.solve.findings.limit_findings import OverLimits
from optimizer.solve.findings.shard_findings import ShardResult, shard_findings
from optimizer.solve.placement import P, Totals
from optimizer.solve.rounds.cluster_round import ClusterRound
from optimizer.solve.rounds.next_round import next_round
from optimizer.solve.rounds.progress import Copies, Progress, after_round
from optimizer.solve.rounds.solved_cluster import Clusters, SolvedCluster
from optimizer.solve.rules.bands import bands_for, disk_limit, load_scale
from optimizer.solve.rules.resources import DISK
from optimizer.solve.shard.shard_status import ShardStatus
from optimizer.solve.tuning import TUNED, Tuning

_NO_LOADS: Mapping[str, Floats] = {}


@dataclass(frozen=True)
class Solved(Generic[P]):
    """Plans of all clusters.

    Parameters
    ----------
    placement : FleetPlacement
        All replicas after the plan.
    shards : sequence of ShardResult
        Every shard of every round.
    tables : mapping by name
        Leaders, moves and findings: as arrays or as frames, like the partitions of the placement.
    bounds : Bounds
    """

    placement: P
    clusters: Clusters
    shards: Sequence[ShardResult]
    tables: Mapping[str, Any]
    bounds: Bounds


def solve(
    placement: P,
    settings: Settings,
    tuning: Tuning = TUNED,
    *,
    also_allowed: Mapping[str, Floats] = _NO_LOADS,
    started: Collection[str] = (),
) -> Solved[P]:
    """Plan every cluster.

    Parameters
    ----------
    also_allowed : mapping
        By cluster, loads that its bands also include, (B, D): the plan may be as unbalanced as another plan is.
    started : collection of str
        Clusters that do not wait.

    Raises
    ------
    AssertionError
        A bug: some partitions have no order of copies, although such partitions got their old replicas back before.
    """
    may_wait = _may_wait(placement, settings) - {*started}
    planned = _plan(placement, settings, tuning, also_allowed, may_wait)
    changed = _changed(planned, may_wait)
    if changed:
        planned = _plan(placement, settings, tuning, also_allowed, may_wait - changed)
    return replace(planned, bounds=bounds_of(planned.placement, planned.clusters, tuning))


def _may_wait(placement: P, settings: Settings) -> frozenset[str]:
    """Clusters that wait for ``start_at`` if nothing is urgent; a cluster with ``only`` does not."""
    policies = settings.cluster_policies() if settings.policy.start_at else {}
    return frozenset(c for c in placement.brokers if c in policies and not policies[c].only)


def _changed(planned: Solved[P], cluster_ids: Collection[str]) -> frozenset[str]:
    """Clusters whose plan copies a replica, or removes one."""
    copies = planned.placement.copies(cluster_ids) if cluster_ids else {}
    return frozenset(
        c
        for c, copied in copies.items()
        if copied.moves or (planned.clusters[c].loads != planned.clusters[c].loads_before).any()
    )


def _plan(
    placement: P, settings: Settings, tuning: Tuning, also_allowed: Mapping[str, Floats], waiting: Collection[str]
) -> Solved[P]:
    """The plans without bounds; ``waiting`` clusters are planned with the bands of ``start_policy``."""
    placement, clusters, shards = solve_rounds(placement, settings, tuning, also_allowed=also_allowed, waiting=waiting)
    placement, clusters = _restore_impossible_lists(placement, clusters)
    placement, clusters = _reduce_to_limits(placement, clusters, settings)
    tables, left_for_disk = placement.result_tables(clusters, settings)
    if left_for_disk:
        placement = placement.restore_left_for_disk(left_for_disk)
        clusters = {c: replace(cluster, left_for_disk=left_for_disk.get(c)) for c, cluster in clusters.items()}
        clusters = _with_current_loads(placement, clusters)
        tables, left_for_disk = placement.result_tables(clusters, settings)
    if left_for_disk:
        raise AssertionError(
            f"clusters {sorted(left_for_disk)} have no order of copies, although partitions without an order got their "
            "old replicas back"
        )
    return Solved(placement, clusters, shards, tables, Bounds({}, ()))


def solve_rounds(
    placement: P,
    settings: Settings,
    tuning: Tuning,
    *,
    also_allowed: Mapping[str, Floats] = _NO_LOADS,
    waiting: Collection[str] = (),
) -> tuple[P, Clusters, Sequence[ShardResult]]:
    """Run only the rounds: no limits, tables or bounds.

    Parameters
    ----------
    also_allowed : mapping
        As for ``solve``.
    waiting : collection of str
        Clusters that wait to start.

    Returns
    -------
    tuple
        The placement after the rounds, the clusters, and the result of every shard.
    """
    clusters = _clusters_before_rounds(placement, settings, waiting)
    clusters = {
        c: replace(x, bands=widen(x.bands, also_allowed[c])) if c in also_allowed else x for c, x in clusters.items()
    }
    if any(cluster.brokers.pins or cluster.is_resized for cluster in clusters.values()):
        placement = placement.with_sized_and_pinned_lists(clusters)
        clusters = _with_current_loads(placement, clusters)
    results: list[ShardResult] = []
    for number in itertools.count():
        tasks = _next_rounds(clusters, settings, number, tuning)
        if not tasks:
            break
        copies = _copies_before_balancing(placement, clusters, tasks)
        placement, statuses = placement.after_round(tasks)
        results.extend(
            ShardResult(number, status.shard - tasks[status.cluster_id].first_shard, status) for status in statuses
        )
        if any(status.moves for status in statuses):
            clusters = _with_current_loads(placement, clusters)
        clusters = {
            c: _after_round(cluster, c, statuses, tasks.get(c), copies.get(c)) for c, cluster in clusters.items()
        }
    failures = shard_findings(results)
    clusters = {c: replace(cluster, failures=tuple(failures.get(c, ()))) for c, cluster in clusters.items()}
    return placement, clusters, results


def _clusters_before_rounds(placement: P, settings: Settings, waiting: Collection[str] = ()) -> Clusters:
    policies = {True: start_policy(settings.policy) if waiting else settings.policy, False: settings.policy}
    loads, cluster_policies, versions = placement.loads(), settings.cluster_policies(), settings.kafka_versions()

    def before_rounds(cluster_id: str, totals: Totals) -> SolvedCluster:
        brokers, current_loads = placement.brokers[cluster_id], loads[cluster_id]
        return SolvedCluster(
            brokers=brokers,
            demand=totals.demand,
            bands=bands_for(brokers, totals.demand, current_loads, policies[cluster_id in waiting]),
            waits=cluster_id in waiting,
            scale=load_scale(brokers, totals.demand),
            loads_before=current_loads,
            loads=current_loads,
            is_resized=totals.is_resized,
            has_stuck=totals.has_stuck,
            kafka_version=versions.get(cluster_id, ""),
            progress=Progress(np.zeros_like(current_loads)),
            cluster_policy=cluster_policies.get(cluster_id, ClusterPolicy()),
        )

    return {cluster_id: before_rounds(cluster_id, totals) for cluster_id, totals in placement.totals().items()}


def _with_current_loads(placement: P, clusters: Clusters) -> Clusters:
    loads = placement.loads()
    return {c: replace(cluster, loads=loads[c]) for c, cluster in clusters.items()}


def _next_rounds(clusters: Clusters, settings: Settings, number: int, tuning: Tuning) -> dict[str, ClusterRound]:
    """The next round of each cluster that needs one. Shard numbers are unique in the fleet."""
    tasks: dict[str, ClusterRound] = {}
    first_shard = 0
    for cluster_id, cluster in clusters.items():
        if cluster.progress.open:
            tasks[cluster_id] = next_round(cluster, settings, cluster_id, number, first_shard, tuning)
            first_shard = int(tasks[cluster_id].shard.max()) + 1
    return tasks


def _copies_before_balancing(
    placement: P, clusters: Clusters, tasks: Mapping[str, ClusterRound]
) -> Mapping[str, Copies]:
    """Copies that pins, longer lists and rack repairs caused before a cluster's first balancing round."""
    first_balancing = [c for c, task in tasks.items() if not (task.repairs_racks or clusters[c].progress.balanced)]
    with_copies = [c for c in first_balancing if tasks[c].round or clusters[c].is_resized or clusters[c].brokers.pins]
    return placement.copies(with_copies) if with_copies else {}


def _after_round(
    cluster: SolvedCluster,
    cluster_id: str,
    statuses: Sequence[ShardStatus],
    task: ClusterRound | None,
    copies_before: Copies | None,
) -> SolvedCluster:
    """The cluster with its new progress; unchanged if it had no task in this round."""
    if task is None:
        return cluster
    cluster_statuses = [status for status in statuses if status.cluster_id == cluster_id]
    return replace(
        cluster, progress=after_round(cluster.progress, cluster_statuses, task, cluster.loads, copies_before)
    )


def _restore_impossible_lists(placement: P, clusters: Clusters) -> tuple[P, Clusters]:
    """Restore the old lists of partitions that Kafka would refuse to change, or whose reassignment would not end."""
    doubtful = {c: cluster for c, cluster in clusters.items() if cluster.may_have_impossible_lists}
    if not doubtful:
        return placement, clusters
    placement = placement.restore_impossible_lists(doubtful)
    return placement, _with_current_loads(placement, clusters)


def _reduce_to_limits(placement: P, clusters: Clusters, settings: Settings) -> tuple[P, Clusters]:
    """Reduce plans that copy more than allowed, or that fill a disk."""
    over_limits = _plans_over_limits(placement, clusters, settings)
    if not over_limits:
        return placement, clusters
    clusters = {c: replace(cluster, over_limits=over_limits.get(c)) for c, cluster in clusters.items()}
    placement = placement.reduce_to_limits({c: clusters[c] for c in over_limits}, settings)
    return placement, _with_current_loads(placement, clusters)


def _plans_over_limits(placement: P, clusters: Clusters, settings: Settings) -> dict[str, OverLimits]:
    limits = {
        c: cluster_policy.move_limit for c, cluster_policy in settings.cluster_policies().items() if c in clusters
    }
    filling = {c for c in limits if _fills_a_disk(clusters[c], settings.policy)}
    to_check = sorted(filling | {c for c, limit in limits.items() if limit != MoveLimit()})
    headroom = settings.policy.disk_headroom
    plans = {
        c: OverLimits(
            limits[c],
            copies.moved_bytes,
            copies.moves,
            clusters[c].loads,
            disk_headroom=headroom if c in filling else None,
        )
        for c, copies in (placement.copies(to_check) if to_check else {}).items()
    }
    return {c: plan for c, plan in plans.items() if plan.exceeds_any}


def _fills_a_disk(cluster: SolvedCluster, policy: Policy) -> bool:
    """Whether the plan fills a disk above its limit, or adds bytes to a disk that was already above it."""
    allowed = np.maximum(disk_limit(cluster.brokers, policy), cluster.loads_before[:, DISK])
    return bool((cluster.loads[:, DISK] > allowed).any())
