"""Tighter bounds, used if the other bounds leave a gap.

*Prices for the whole cluster* come from its relaxation around the plan. Prices of separate shards do not agree, so they
prove little together. Column generation for all brokers at once would be slow; but the plan has found most columns, so
it starts with the plan's moves and ends after a few solves. In a wide cluster it sees only the replicas of the fuller
brokers (``Tuning.wide_cells``); any prices prove a bound (``terms.partition_terms``).

*The bands of one broker* can be kept whole instead of priced. At the prices of the other brokers, each partition has a
cheapest placement without the broker and a cheapest one with it. Choosing between the two, so that the broker is inside
its bands, is a problem of whole replicas (``one_broker``). Its least value, minus the price of the other bands, is a
bound. Except for rounding, it is at least as good as the bound by all prices. It is better if only few replicas have to
leave a broker, and no set of whole replicas has just the load that must leave.
"""

import numpy as np

from optimizer.domain import Floats, Ints, Partitions
from optimizer.solve.bounds.bound import band_price
from optimizer.solve.bounds.terms import split_terms
from optimizer.solve.rules.bands import replica_weights
from optimizer.solve.rules.resources import DISK
from optimizer.solve.shard.assemble import ClusterFrame, assemble
from optimizer.solve.shard.choice import seed
from optimizer.solve.shard.legal_options import legal_options
from optimizer.solve.shard.one_broker import cheapest, scarcest
from optimizer.solve.shard.relaxation import prove_around

MOST_PAIRS = 8_000_000  # (replica, broker) pairs: about 60 MB for each of a dozen arrays
MOST_BROKERS = 4  # scarce brokers to try, one by one: each needs a pass over all partitions


def is_small_enough(brokers: int, replicas: int) -> bool:
    """Whether the relaxation of the whole cluster fits one task."""
    return brokers * replicas <= MOST_PAIRS


def cluster_prices(frame: ClusterFrame, partitions: Partitions, reached: Ints) -> Floats:
    """Price of one mean broker load on each broker, in bytes per mean broker loads, (B, D); 0 if nothing may move.

    Parameters
    ----------
    frame : ClusterFrame
        With the loads before the plan, and the bands of the bound.
    partitions : Partitions
        All partitions of the cluster, with the replicas before the plan.
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


def whole_bound(frame: ClusterFrame, partitions: Partitions, prices: Floats, reached: Ints, broker: int) -> float:
    """Least bytes that any plan within the bands copies (formula 19 of docs/solver.md); -inf without a proof.

    Parameters
    ----------
    frame : ClusterFrame
        With the bands of the bound.
    prices : (B, D) float64
        Bytes per absolute unit of load.
    reached : (P, W) int64
        Replicas after the plan.
    """
    brokers, bands, scale = frame.brokers, frame.bands, frame.scale
    others = prices.copy()
    others[broker] = 0.0
    without, through = split_terms(brokers, partitions, others, reached, broker).T
    weights = replica_weights(partitions) / scale
    open_, must = np.isfinite(without) & np.isfinite(through), np.isinf(without)
    held = weights[must].sum(axis=0)
    low, high = (end[broker] / scale - held for end in (bands.lower, bands.upper))
    cost = (through - without)[open_] / scale[DISK]
    whole = cheapest(cost, weights[open_], low, high, close=frame.tuning.scarce_close, for_bound=True)
    if whole is None:
        return -np.inf
    rest = np.floor(np.where(must, through, without)).sum()
    return float(rest + np.floor(whole.least * scale[DISK]) - band_price(others, bands))


def best_whole_bound(
    frame: ClusterFrame, partitions: Partitions, prices: Floats, reached: Ints
) -> tuple[float, int | None]:
    """The best bound that keeps the bands of one of the scarcest brokers, and the id of that broker; -inf if none.

    Parameters
    ----------
    frame : ClusterFrame
        With the loads before the plan, and the bands of the bound.
    """
    brokers = frame.brokers
    tried = scarcest(prices, frame.loads, frame.bands, brokers.must_empty)[:MOST_BROKERS]
    bounds = [(whole_bound(frame, partitions, prices, reached, b), int(brokers.ids[b])) for b in tried]
    return max(bounds, key=lambda bound: bound[0], default=(-np.inf, None))
