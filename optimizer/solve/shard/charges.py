"""What an option costs at given prices of load, and the bound that any prices prove."""

import numpy as np

from optimizer.domain import Floats
from optimizer.solve.shard.legal_options import Options
from optimizer.solve.shard.shard_problem import ShardProblem

FIXED_COST = 1e-7  # mean broker loads: of two options that cost no bytes none is better than both, so each has a price


def tie_broken_cost(problem: ShardProblem, options: Options, tie_break: float) -> Floats:
    """Cost of each option, (K, n), with a tie-break towards small replicas: a replica of mean size costs this share
    more, one of twice the size twice this share."""
    size = problem.rows.size
    moving = size[size > 0]
    mean = float(moving.mean()) if len(moving) else 1.0
    factor = 1.0 + tie_break * size / mean
    return np.asarray(options.cost * factor[options.partition][:, None] + FIXED_COST)


def charges(problem: ShardProblem, options: Options, cost: Floats, prices: Floats) -> Floats:
    """Cost of every option plus the prices of the load it shifts, (K, n); +inf where not allowed."""
    price = problem.rows.weights[options.partition] @ prices.T
    paid = np.take_along_axis(price, options.source[:, None], axis=1)
    return np.where(options.allowed, cost + price - paid, np.inf)


def dual_value(problem: ShardProblem, options: Options, charge: Floats, prices: Floats) -> float:
    """Cost that any single moves within the bands have at least, by weak duality at the given prices.

    Every partition takes its cheapest option at the prices (``charge``), or stays where it may; the bands are paid for.
    """
    members = problem.members
    best = np.where(options.needed, np.inf, 0.0)
    np.minimum.at(best, options.partition, charge.min(axis=1))
    finite = np.isfinite(members.upper)
    rising = np.where(finite, np.maximum(prices, 0), 0.0)
    upper = np.where(finite, members.upper, 0.0)
    falling = np.maximum(-prices, 0)
    paid = (rising * (members.loads - upper)).sum() - (falling * (members.loads - members.lower)).sum()
    return float(best.sum() + paid)
