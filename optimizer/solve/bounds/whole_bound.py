"""The Lagrangian bound with the bands of one broker kept instead of priced.

With the prices of the other brokers alone each partition has a cheapest placement without the broker, and one with it.
Which are taken so that the broker is inside its bands is a problem of whole replicas (``one_broker``); its least value,
less the price of the other bands, is a bound at least as good as that of all prices, but for what rounding to whole
numbers takes. It is better where few replicas have to leave a broker, and whole ones do not add up to what they must.
"""

import numpy as np

from optimizer.domain import Floats, Ints, Partitions
from optimizer.solve.bounds.bound import band_price
from optimizer.solve.bounds.terms import split_terms
from optimizer.solve.rules.bands import replica_weights
from optimizer.solve.rules.resources import DISK
from optimizer.solve.shard.assemble import ClusterFrame
from optimizer.solve.shard.one_broker import cheapest, scarcest

MOST_BROKERS = 4  # scarce brokers that are tried one by one: each is a pass over all partitions


def whole_bound(frame: ClusterFrame, partitions: Partitions, prices: Floats, reached: Ints, broker: int) -> float:
    """Bytes that any plan within the bands moves at least (formula 19 of docs/solver.md); -inf without a proof.

    Parameters
    ----------
    frame : ClusterFrame
        With the bands that the bound speaks of.
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
    """The best of the bounds that keep one of the scarcest brokers, and which; -inf where there is none.

    Parameters
    ----------
    frame : ClusterFrame
        With the loads before the plan, and the bands that the bound speaks of.
    """
    brokers = frame.brokers
    tried = scarcest(prices, frame.loads, frame.bands, brokers.must_empty)[:MOST_BROKERS]
    bounds = [(whole_bound(frame, partitions, prices, reached, b), int(brokers.ids[b])) for b in tried]
    return max(bounds, key=lambda bound: bound[0], default=(-np.inf, None))
