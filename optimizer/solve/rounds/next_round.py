"""How a cluster is cut into shards in its next round."""

import numpy as np

from optimizer.domain import Ints
from optimizer.settings import Settings
from optimizer.solve.rounds.cluster_round import ClusterRound
from optimizer.solve.rounds.progress import Progress
from optimizer.solve.rounds.sharding import make_shards, replicas_stay_in_racks, seed_of, shard_counts
from optimizer.solve.rounds.solved_cluster import SolvedCluster
from optimizer.solve.rules.bands import SETTLED, outside
from optimizer.solve.rules.resources import REPLICAS
from optimizer.solve.shard.assemble import ClusterFrame
from optimizer.solve.shard.exact import is_small
from optimizer.solve.shard.search import Search
from optimizer.solve.tuning import Tuning

CLOSER = 0.3  # of the usual gap, for a round that looks for fewer bytes: it has no other task


def next_round(
    cluster: SolvedCluster, settings: Settings, cluster_id: str, number: int, first: int, tuning: Tuning
) -> ClusterRound:
    """How a cluster is cut in a round; its shards are numbered from ``first``.

    Where replicas stay in racks, shards are of one rack, but for clusters small enough to be searched whole: first what
    must change racks is mended in shards over all racks, and a round over all racks also follows one that left a band
    broken.
    """
    progress, knobs = cluster.progress, settings.solver
    within = replicas_stay_in_racks(cluster.brokers, cluster.demand.replication_factor)
    replicas = float(cluster.demand.load[:, REPLICAS].sum())
    within &= not is_small(tuning, round(replicas), len(cluster.brokers))
    mends = within and progress.to_mend
    within = within and not mends and not (progress.balanced_within and progress.unsettled)
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
    # A partition makes one move a round: there may be as many more rounds as the longest list is long.
    is_last = number + 1 >= knobs.rounds + int(cluster.demand.replication_factor.max())
    # What the tolerance has spent on fewer moves is not to be had back.
    gap = max(knobs.shard_gap if counts.sum() > 1 else knobs.cluster_gap, settings.policy.bytes_tolerance)
    return ClusterRound(
        frame=ClusterFrame(cluster.brokers, cluster.bands, cluster.loads, cluster.scale, tuning),
        shard=np.where(shard < 0, -1, shard + first),
        round=number,
        within_racks=within,
        mends=mends,
        search=search_for(progress, settings, tuning, brokers=len(cluster.brokers), is_last=is_last),
        gap=gap,
    )


def search_for(progress: Progress, settings: Settings, tuning: Tuning, *, brokers: int, is_last: bool) -> Search:
    """What is tried in a round: the policy's price on moves, or a few; the first round that balances has the curve, a
    longer one on smaller clusters."""
    policy, solver = settings.policy, settings.solver
    curve = tuning.curve_prices if brokers <= solver.curve_brokers else tuning.short_curve_prices
    prices = tuning.plan_prices if progress.balanced else curve
    asked = (policy.move_price,) if policy.move_price > 0 else prices
    gap = tuning.gap * CLOSER if progress.improving else tuning.gap
    return Search(asked, policy.bytes_tolerance, solver.lp_deterministic_time, gap, progress.improving, is_last)


def _with_work(cluster: SolvedCluster, shard: Ints) -> Ints:
    """The shards numbered anew, -1 where all brokers are inside their bands and nothing else is left to do."""
    if cluster.progress.improving or not cluster.progress.in_order:
        return shard
    works = np.bincount(shard, outside(cluster.loads, cluster.bands, cluster.scale)) > SETTLED
    return np.where(works, np.cumsum(works) - 1, -1)[shard] if works.any() else shard
