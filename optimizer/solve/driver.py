"""The algorithm from a fleet as it is to plans with their proof: rounds of disjoint shards until every band holds and
nothing is left to mend, then limits, then leaders, then the bounds.

Brokers and their loads (a row per broker) are small and are held here; partitions are in the placement.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic

import numpy as np

from optimizer.cluster_policy import ClusterPolicy, MoveLimit
from optimizer.settings import Policy, Settings
from optimizer.solve.certificate import Bounds, bounds_of
from optimizer.solve.findings.limit_findings import Cut
from optimizer.solve.findings.shard_findings import ShardResult, shard_findings
from optimizer.solve.placement import P, Totals
from optimizer.solve.rounds.cluster_round import ClusterRound
from optimizer.solve.rounds.next_round import next_round
from optimizer.solve.rounds.progress import Copies, Progress, after
from optimizer.solve.rounds.solved_cluster import Clusters, SolvedCluster
from optimizer.solve.rules.bands import bands_for, disk_limit, load_scale
from optimizer.solve.rules.resources import DISK
from optimizer.solve.shard.shard_status import ShardStatus
from optimizer.solve.tuning import TUNED, Tuning


@dataclass(frozen=True)
class Solved(Generic[P]):
    """Plans of all clusters.

    Parameters
    ----------
    tables : by name
        What the placement's last step made.
    bounds : Bounds
    """

    placement: P
    clusters: Clusters
    shards: Sequence[ShardResult]
    tables: Mapping[str, Any]
    bounds: Bounds


def solve(placement: P, settings: Settings, tuning: Tuning = TUNED) -> Solved[P]:
    """Plan every cluster.

    Raises
    ------
    AssertionError
        Partitions that no order of copies had room for are taken out, and there is still none: a bug.
    """
    placement, clusters, shards = solve_rounds(placement, settings, tuning)
    placement, clusters = _acceptable(placement, clusters)
    placement, clusters = _within_limits(placement, clusters, settings)
    tables, left = placement.finished(clusters, settings)
    if left:
        placement = placement.without(left)
        clusters = {c: replace(one, left=left.get(c)) for c, one in clusters.items()}
        clusters = _with_loads(placement, clusters)
        tables, left = placement.finished(clusters, settings)
    if left:
        raise AssertionError(f"what is left was taken out, and there is still no order of copies for {sorted(left)}")
    return Solved(placement, clusters, shards, tables, bounds_of(placement, clusters, tuning))


def solve_rounds(placement: P, settings: Settings, tuning: Tuning) -> tuple[P, Clusters, Sequence[ShardResult]]:
    """The rounds alone: the placement after them, and what became of every shard."""
    clusters: Clusters = _clusters(placement, settings)
    if any(one.brokers.pins or one.is_resized for one in clusters.values()):
        placement = placement.started(clusters)
        clusters = _with_loads(placement, clusters)
    results: list[ShardResult] = []
    for number in itertools.count():
        tasks = _tasks(clusters, settings, number, tuning)
        if not tasks:
            break
        copies = _copies_before(placement, clusters, tasks)
        placement, statuses = placement.after_round(tasks)
        results.extend(ShardResult(number, one.shard - tasks[one.cluster_id].first, one) for one in statuses)
        if any(one.moves for one in statuses):
            clusters = _with_loads(placement, clusters)
        clusters = {c: _after(one, c, statuses, tasks.get(c), copies.get(c)) for c, one in clusters.items()}
    found = shard_findings(results)
    return placement, {c: replace(one, failures=tuple(found.get(c, ()))) for c, one in clusters.items()}, results


def _clusters(placement: P, settings: Settings) -> Clusters:
    """All that is known before the first round."""
    loads, policies = placement.loads(), settings.cluster_policies()

    def of(cluster_id: str, totals: Totals) -> SolvedCluster:
        hosts, now = placement.brokers[cluster_id], loads[cluster_id]
        return SolvedCluster(
            brokers=hosts,
            demand=totals.demand,
            bands=bands_for(hosts, totals.demand, now, settings.policy),
            scale=load_scale(hosts, totals.demand),
            loads_before=now,
            loads=now,
            is_resized=totals.is_resized,
            progress=Progress(np.zeros_like(now)),
            policy=policies.get(cluster_id, ClusterPolicy()),
        )

    return {cluster_id: of(cluster_id, totals) for cluster_id, totals in placement.totals().items()}


def _with_loads(placement: P, clusters: Clusters) -> Clusters:
    loads = placement.loads()
    return {c: replace(one, loads=loads[c]) for c, one in clusters.items()}


def _tasks(clusters: Clusters, settings: Settings, number: int, tuning: Tuning) -> dict[str, ClusterRound]:
    """Shards of the open clusters, numbered over the fleet."""
    tasks: dict[str, ClusterRound] = {}
    first = 0
    for cluster_id, one in clusters.items():
        if one.progress.open:
            tasks[cluster_id] = next_round(one, settings, cluster_id, number, first, tuning)
            first = int(tasks[cluster_id].shard.max()) + 1
    return tasks


def _copies_before(placement: P, clusters: Clusters, tasks: Mapping[str, ClusterRound]) -> Mapping[str, Copies]:
    """The copies that clusters have made before they are balanced: by rounds that mend, by longer lists, by pins."""
    first = [c for c, task in tasks.items() if not (task.mends or clusters[c].progress.balanced)]
    moved = [c for c in first if tasks[c].round or clusters[c].is_resized or clusters[c].brokers.pins]
    return placement.copies(moved) if moved else {}


def _after(
    cluster: SolvedCluster,
    cluster_id: str,
    statuses: Sequence[ShardStatus],
    task: ClusterRound | None,
    copied: Copies | None,
) -> SolvedCluster:
    """A cluster after a round; those that took no part stay as they are."""
    if task is None:
        return cluster
    mine = [one for one in statuses if one.cluster_id == cluster_id]
    return replace(cluster, progress=after(cluster.progress, mine, task, cluster.loads, copied))


def _acceptable(placement: P, clusters: Clusters) -> tuple[P, Clusters]:
    """Partitions that still name a broker which is not live have their old list: Kafka would refuse a new one."""
    gone = {c: one.brokers.ids[~one.brokers.is_live].tolist() for c, one in clusters.items()}
    gone = {c: ids for c, ids in gone.items() if ids}
    if not gone:
        return placement, clusters
    placement = placement.given_back(gone)
    return placement, _with_loads(placement, clusters)


def _within_limits(placement: P, clusters: Clusters, settings: Settings) -> tuple[P, Clusters]:
    """Plans that copy more than they may, or fill a disk, are cut."""
    cuts = _cuts(placement, clusters, settings)
    if not cuts:
        return placement, clusters
    clusters = {c: replace(one, cut=cuts.get(c)) for c, one in clusters.items()}
    placement = placement.cut({c: clusters[c] for c in cuts}, settings)
    return placement, _with_loads(placement, clusters)


def _cuts(placement: P, clusters: Clusters, settings: Settings) -> dict[str, Cut]:
    """The clusters whose plans copy more than they may, or fill a disk."""
    limits = {c: asked.move_limit for c, asked in settings.cluster_policies().items() if c in clusters}
    filled = {c for c in limits if _fills(clusters[c], settings.policy)}
    asked = sorted(filled | {c for c, limit in limits.items() if limit != MoveLimit()})
    headroom = settings.policy.disk_headroom
    cuts = {
        c: Cut(
            limits[c],
            made.moved_bytes,
            made.moves,
            clusters[c].loads,
            disk_headroom=headroom if c in filled else None,
        )
        for c, made in (placement.copies(asked) if asked else {}).items()
    }
    return {c: cut for c, cut in cuts.items() if cut.binds}


def _fills(cluster: SolvedCluster, policy: Policy) -> bool:
    """Whether a plan fills a disk over its limit, or one that was over it further."""
    may = np.maximum(disk_limit(cluster.brokers, policy), cluster.loads_before[:, DISK])
    return bool((cluster.loads[:, DISK] > may).any())
