"""The next round of a cluster: its shards, and how they are searched."""

import numpy as np

from optimizer.domain import Ints
from optimizer.settings import Settings
from optimizer.solve.rounds.cluster_round import ClusterRound
from optimizer.solve.rounds.progress import Progress
from optimizer.solve.rounds.sharding import make_shards, replicas_stay_in_racks, seed_of, shard_counts
from optimizer.solve.rounds.solved_cluster import SolvedCluster
from optimizer.solve.rules.bands import SETTLED, broker_violations
from optimizer.solve.rules.resources import REPLICAS
from optimizer.solve.shard.assemble import ClusterFrame
from optimizer.solve.shard.exact import is_small
from optimizer.solve.shard.search import Search
from optimizer.solve.tuning import Tuning

CLOSER = 0.3  # share of the usual gap; used in a round that only looks for fewer bytes


def next_round(
    cluster: SolvedCluster, settings: Settings, cluster_id: str, number: int, first_shard: int, tuning: Tuning
) -> ClusterRound:
    """Split a cluster into shards for its next round; shards are numbered from ``first_shard``.

    Shards span all racks, except if replicas stay in their racks: then a shard has brokers of one rack. Such a cluster
    first gets rounds over all racks that repair racks, and gets another one if a round within racks leaves a band
    unmet. A cluster that is small enough to be searched as a whole always has shards over all racks.
    """
    progress, knobs = cluster.progress, settings.solver
    within = replicas_stay_in_racks(cluster.brokers, cluster.demand.replication_factor)
    replicas = float(cluster.demand.load[:, REPLICAS].sum())
    within &= not is_small(tuning, round(replicas), len(cluster.brokers))
    repairs_racks = within and progress.has_racks_to_repair
    within = within and not repairs_racks and not (progress.balanced_within and progress.unsettled)
    size = knobs.rack_shard_brokers if within else knobs.shard_brokers
    counts = shard_counts(cluster.brokers, replicas, shard_brokers=size, within_racks=within, tuning=tuning)
    shard = make_shards(
        cluster.brokers,
        cluster.loads,
        cluster.bands,
        cluster.scale,
        counts=counts,
        seed=seed_of(knobs.seed, cluster_id, number),
        tuning=tuning,
    )
    shard = _with_work(cluster, shard)
    # A partition makes one move in a round, so allow as many more rounds as the longest list has replicas.
    is_last = number + 1 >= knobs.rounds + int(cluster.demand.replication_factor.max())
    # Gaps below ``bytes_tolerance`` are intended: the tolerance was spent on fewer moves.
    gap = max(knobs.shard_gap if counts.sum() > 1 else knobs.cluster_gap, settings.policy.bytes_tolerance)
    return ClusterRound(
        frame=ClusterFrame(cluster.brokers, cluster.bands, cluster.loads, cluster.scale, tuning, cluster.completion),
        shard=np.where(shard < 0, -1, shard + first_shard),
        round=number,
        within_racks=within,
        repairs_racks=repairs_racks,
        # If a round only repairs racks, not every partition of a topic takes part, so its spread is unknown.
        ignores_topics=repairs_racks or cluster.waits,
        search=search_for(
            progress, settings, tuning, brokers=len(cluster.brokers), is_last=is_last, waits=cluster.waits
        ),
        gap=gap,
    )


def search_for(
    progress: Progress, settings: Settings, tuning: Tuning, *, brokers: int, is_last: bool, waits: bool = False
) -> Search:
    """The prices on moves that a round tries: the policy's price if it sets one, else the tuning's.

    The first balancing round also gives the curve, so it tries more prices; on small clusters it tries most. A cluster
    that waits needs one price: its rounds only show whether anything must change.
    """
    policy, solver = settings.policy, settings.solver
    curve = tuning.curve_prices if brokers <= solver.curve_brokers else tuning.short_curve_prices
    prices = tuning.plan_prices if progress.balanced else curve
    move_prices = (policy.move_price,) if policy.move_price > 0 else prices[:1] if waits else prices
    gap = tuning.gap * CLOSER if progress.improving else tuning.gap
    return Search(move_prices, policy.bytes_tolerance, solver.lp_deterministic_time, gap, progress.improving, is_last)


def _with_work(cluster: SolvedCluster, shard: Ints) -> Ints:
    """Renumber the shards; -1 for a shard without work: all brokers are inside their bands, and no rule is broken."""
    if cluster.progress.improving or not cluster.progress.in_order:
        return shard
    has_work = np.bincount(shard, broker_violations(cluster.loads, cluster.bands, cluster.scale)) > SETTLED
    return np.where(has_work, np.cumsum(has_work) - 1, -1)[shard] if has_work.any() else shard
