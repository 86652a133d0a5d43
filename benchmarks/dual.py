"""A lower bound on moved MB by prices. It is valid for any prices, however they were found.

With prices pi_bd for a unit of resource d on broker b, loads w_pd, sizes s_p and bands [L, U], every plan inside the
bands moves at least ::

    sum_p  min over feasible broker sets T of  sum_{b in T} (pi_b . w_p + s_p [b does not hold p])        (1)
    - sum_bd (max(pi_bd, 0) U_bd - max(-pi_bd, 0) L_bd)                                                  (2)

where T has RF brokers that stay, each in another rack. The prices maximise (1) + (2) with a soft minimum, whose
temperature falls from step to step, so that equal choices share. The reported bound uses the hard minimum.

References
----------
Y. Nesterov: Smooth minimization of non-smooth functions. Mathematical Programming 103 (2005).
D. P. Kingma, J. Ba: Adam: a method for stochastic optimization (2015), for the size of the steps.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from benchmarks.case import Case, Floats, Ints

CELLS = 1_000_000  # of one block of the partitions x brokers matrix
HEAT = (0.3, 0.0003)  # temperature at the first and the last step, in sizes of the partition
RATE = (0.1, 0.0005)  # step at the first and the last step, in MB per MB
KEEP_MEAN, KEEP_SQUARE, CALM = 0.9, 0.95, 1e-3  # Adam: decay of its averages; avoids division by 0


@dataclass(frozen=True)
class Problem:
    """The case in units of a mean broker load.

    Parameters
    ----------
    case : Case
    weights : (P, 3) float64
    lower, upper : (B, 3) float64
        Bands; both 0 for brokers to empty.
    unit_mb : float
        MB of a mean load: the unit of a price.
    racks : list of int64 arrays
        Brokers that stay, by rack.
    """

    case: Case
    weights: Floats
    lower: Floats
    upper: Floats
    unit_mb: float
    racks: list[Ints]


def problem(case: Case, limits: tuple[Floats, Floats]) -> Problem:
    """Scale a case and its bands."""
    scale = np.maximum(case.weights.T @ case.factor / max(int(case.stays.sum()), 1), 1e-12)
    stays = case.stays[:, None]
    lower, upper = (np.where(stays, limit / scale, 0.0) for limit in limits)
    racks = [np.flatnonzero((case.rack == r) & case.stays) for r in np.unique(case.rack[case.stays])]
    return Problem(case, case.weights / scale, lower, upper, float(scale[1]), racks)


def _blocks(case: Case) -> Iterator[Ints]:
    """Partitions of one replication factor, in blocks that fit the memory."""
    rows = max(CELLS // len(case.broker_ids), 1)
    for factor in np.unique(case.factor):
        same = np.flatnonzero(case.factor == factor)
        yield from (same[i : i + rows] for i in range(0, len(same), rows))


def _soft_share(value: Floats, factor: int, heat: Floats) -> Floats:
    """Share of each rack, (n, R), that adds up to ``factor``: logistic in its value, by bisection on the threshold."""
    low, high = value.min(axis=1) - 50 * heat, value.max(axis=1) + 50 * heat
    for _ in range(40):
        middle = (low + high) / 2
        few = _logistic(value, middle, heat).sum(axis=1) < factor
        low, high = np.where(few, middle, low), np.where(few, high, middle)
    return _logistic(value, high, heat)


def _logistic(value: Floats, threshold: Floats, heat: Floats) -> Floats:
    scaled = np.clip((value - threshold[:, None]) / heat[:, None], -50, 50)
    return np.asarray(1 / (1 + np.exp(scaled)), dtype=np.float64)


def _choose(task: Problem, block: Ints, prices: Floats, temperature: float) -> tuple[float, Floats]:
    """The hard minimum of (1) over a block in MB, and the loads of the soft one."""
    case, size = task.case, task.case.size_mb[block]
    cost = task.weights[block] @ (prices.T * task.unit_mb) + size[:, None]
    row, slot = np.nonzero(case.replicas[block] >= 0)
    cost[row, case.replicas[block][row, slot]] -= size[row]
    heat = temperature * size + 1e-9
    share = np.zeros_like(cost)
    hard, soft = np.empty((len(block), len(task.racks))), np.empty((len(block), len(task.racks)))
    for r, members in enumerate(task.racks):
        within = cost[:, members]
        hard[:, r] = within.min(axis=1)
        grown = np.exp((hard[:, [r]] - within) / heat[:, None])
        total = grown.sum(axis=1)
        share[:, members] = grown / total[:, None]
        soft[:, r] = hard[:, r] - heat * np.log(total)
    factor = int(case.factor[block[0]])
    if factor < len(task.racks):
        for r, part in enumerate(_soft_share(soft, factor, heat).T):
            share[:, task.racks[r]] *= part[:, None]
    return float(np.sort(hard, axis=1)[:, :factor].sum()), share.T @ task.weights[block]


def evaluate(task: Problem, prices: Floats, temperature: float) -> tuple[float, Floats]:
    """The bound in MB at some prices (MB per MB of a mean load), and the loads that the soft choices make, (B, 3)."""
    total, loads = 0.0, np.zeros_like(prices)
    for block in _blocks(task.case):
        spent, part = _choose(task, block, prices, temperature)
        total += spent
        loads += part
    band = (np.maximum(prices, 0) * task.upper - np.maximum(-prices, 0) * task.lower)[task.case.stays]
    return total - float(band.sum()) * task.unit_mb, loads


def _slope(task: Problem, prices: Floats, loads: Floats) -> Floats:
    """The derivative of (1) + (2) by each price; 0 if the load is inside its band and the price is 0."""
    above, below = loads - task.upper, loads - task.lower
    outside = np.maximum(above, 0) + np.minimum(below, 0)
    slope = np.where(prices > 0, above, np.where(prices < 0, below, outside))
    return np.where(task.case.stays[:, None], slope, 0.0)


def dual_mb(case: Case, most: Ints, limits: tuple[Floats, Floats], *, steps: int) -> float:
    """The best bound after ``steps`` steps, in MB; 0 without steps, or if a rack may have two replicas of a partition.

    Parameters
    ----------
    case : Case
    most : (P, R) int64
        Replicas of a partition that each rack may hold.
    limits : pair of (B, 3) float64
        Lower and upper end of the bands.
    steps : int
    """
    if steps <= 0 or most.max(initial=0) > 1 or not np.isfinite(limits[1]).all():
        return 0.0
    task = problem(case, limits)
    prices, mean, square = (np.zeros_like(task.lower) for _ in range(3))
    best = 0.0
    for step in range(1, steps + 1):
        done = step / steps
        value, loads = evaluate(task, prices, HEAT[0] * (HEAT[1] / HEAT[0]) ** done)
        best = max(best, value)
        slope = _slope(task, prices, loads)
        mean = KEEP_MEAN * mean + (1 - KEEP_MEAN) * slope
        square = KEEP_SQUARE * square + (1 - KEEP_SQUARE) * slope**2
        spread = np.sqrt(square / (1 - KEEP_SQUARE**step)) + CALM
        change = RATE[0] * (RATE[1] / RATE[0]) ** done * mean / (1 - KEEP_MEAN**step) / spread
        prices = np.where((prices + change) * prices < 0, 0.0, prices + change)  # a price stops at 0 on its way
    return best
