"""What the scarcest brokers give and take, decided with whole replicas before the rest of a shard is solved.

At the prices of a relaxation each partition has a cheapest option that changes a broker's load, and a cheapest one that
does not. Which of them change it is a small problem of its own (``one_broker``). Once that is decided for the few
brokers that are short of something, the rest has room enough, and rounds nearly exactly.
"""

from dataclasses import dataclass

import numpy as np

from optimizer.domain import Bands, Bools, Floats, Ints
from optimizer.solve.rules.resources import REPLICAS
from optimizer.solve.shard.charges import charges
from optimizer.solve.shard.legal_options import Options
from optimizer.solve.shard.one_broker import cheapest, scarcest
from optimizer.solve.shard.shard_problem import ShardProblem

FEW_BROKERS = 3  # scarce ones: what is decided for one leaves less to the next (with five, 14 % over the bound)


@dataclass(frozen=True)
class _Change:
    """What changing one broker's load costs each partition beside not changing it.

    Parameters
    ----------
    touches : (K, n) bool
        Options that change the broker's load.
    stay, change : (m,) float64
        Least charge without and with a change; infinite where there is no such option.
    effect : (m, D) float64
        Change of the broker's load.
    """

    touches: Bools
    stay: Floats
    change: Floats
    effect: Floats


def _changes(problem: ShardProblem, options: Options, prices: Floats, broker: int) -> _Change:
    charge = charges(problem, options, options.cost, prices)
    leaves = options.source == broker
    touches = leaves[:, None] | (np.arange(len(problem.members.rack)) == broker)
    stay = np.where(options.needed, np.inf, 0.0)
    change = np.full(len(stay), np.inf)
    np.minimum.at(stay, options.partition, np.where(touches, np.inf, charge).min(axis=1))
    np.minimum.at(change, options.partition, np.where(touches, charge, np.inf).min(axis=1))
    sign = np.ones(len(stay))
    sign[options.partition[leaves]] = -1.0
    return _Change(touches, stay, change, sign[:, None] * problem.rows.weights)


def _decided(problem: ShardProblem, options: Options, prices: Floats, broker: int) -> tuple[Options, Ints] | None:
    """The options, and which rows they are, once it is decided what changes a broker: that must, and nothing else may;
    None where no choice is inside its bands."""
    members = problem.members
    others = prices.copy()
    others[broker] = 0.0
    found = _changes(problem, options, others, broker)
    must = np.isinf(found.stay) & np.isfinite(found.change)
    free = np.flatnonzero(np.isfinite(found.stay) & np.isfinite(found.change))
    load = members.loads[broker] + found.effect[must].sum(axis=0)
    # Counts are whole: half a replica of slack allows no other choice, and absorbs rounding.
    spare = np.zeros(len(load))
    spare[REPLICAS] = 0.5 / members.scale[REPLICAS]
    low, high = members.lower[broker] - load - spare, members.upper[broker] - load + spare
    whole = cheapest(
        found.change[free] - found.stay[free],
        found.effect[free],
        low,
        high,
        close=problem.tuning.scarce_close,
        for_bound=False,
    )
    if whole is None:
        return None
    goes = must.copy()
    goes[free[whole.takes]] = True
    return options.only(found.touches == goes[options.partition][:, None], goes)


def scarce_decided(problem: ShardProblem, options: Options, prices: Floats) -> tuple[Options, Ints] | None:
    """The options, and which rows they are, once the scarce brokers are decided, one after the other; None where these
    are not few, or nothing comes of it."""
    members = problem.members
    scarce = scarcest(
        prices,
        members.loads,
        Bands((), members.lower, members.upper),
        members.must_empty,
    )
    if not 0 < len(scarce) <= FEW_BROKERS:
        return None
    rows, any_ = np.arange(len(options.partition)), False
    for broker in scarce:
        decided = _decided(problem, options, prices, broker)
        if decided:
            options, kept = decided
            rows, any_ = rows[kept], True
    return (options, rows) if any_ else None
