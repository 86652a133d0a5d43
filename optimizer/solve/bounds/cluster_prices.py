"""Prices of load for the whole cluster, from its relaxation around the plan.

Shards that could not agree on what a move is worth prove little together. The relaxation of all brokers at once would
take long to find its columns; but the plan has found most of them, so column generation starts with the plan's moves
and ends after a few solves. In a wide cluster it sees the replicas of the fuller brokers alone (``Tuning.wide_cells``);
any prices prove a bound (``terms.partition_terms``).
"""

import numpy as np

from optimizer.domain import Floats, Ints, Partitions
from optimizer.solve.shard.assemble import ClusterFrame, assemble
from optimizer.solve.shard.choice import seed
from optimizer.solve.shard.legal_options import legal_options
from optimizer.solve.shard.relaxation import prove_around

MOST_PAIRS = 8_000_000  # (replica, broker): some 60 MB for each of a dozen arrays


def is_small_enough(brokers: int, replicas: int) -> bool:
    """Whether the relaxation of the whole cluster fits one task."""
    return brokers * replicas <= MOST_PAIRS


def cluster_prices(frame: ClusterFrame, partitions: Partitions, reached: Ints) -> Floats:
    """Price of one mean broker load on each broker, in bytes per mean broker loads, (B, D); 0 where nothing may move.

    Parameters
    ----------
    frame : ClusterFrame
        With the loads before the plan, and the bands that the bound speaks of.
    partitions : Partitions
        All of the cluster, with the replicas before the plan.
    reached : (P, W) int64
        Replicas after the plan, slot by slot against those before.
    """
    members, n = np.arange(len(frame.brokers)), len(frame.brokers)
    problem = assemble(frame, members, partitions, partitions.replicas, np.ones(len(partitions), dtype=bool))
    options = legal_options(problem)
    if not len(options.partition):
        return np.zeros_like(problem.members.loads)
    target = reached[problem.rows.of[options.partition], options.slot]
    taken = np.flatnonzero((target >= 0) & (target != options.source))
    taken = taken[options.allowed[taken, target[taken]]]
    return prove_around(problem, options, seed(problem, options), taken * n + target[taken]).prices
