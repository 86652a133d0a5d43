"""Choose the replicas that bring one broker into its bands at the least cost, in whole replicas, by CP-SAT.

    minimise   sum_i cost_i x_i                                 x_i in {0, 1}: candidate i changes the broker
    subject to low_d <= sum_i effect_id x_i <= high_d           for each resource

A linear program may take a part of a replica. If only few replicas move, this explains most of its bound's gap. All
numbers are rounded to whole ones. For a bound, no choice inside the limits is excluded; for a plan, every choice that
remains is inside. One worker, a fixed seed and a limit in deterministic time.

References
----------
L. Perron, F. Didier, S. Gay, The CP-SAT-LP solver, CP 2023.
"""

from dataclasses import dataclass

import numpy as np
from ortools.sat.python import cp_model

from optimizer.domain import Bands, Bools, Floats
from optimizer.solve.ortools.cp_sat import careful_solver

UNIT = 2.0**-30  # mean broker loads in one whole unit: a kilobyte of a terabyte; scaling by a power of 2 is exact
MOST = 2.0**22  # most mean broker loads of all candidates together: the bound is a float, exact up to 2^53 units
DUST = 1e-6  # share of the largest value of a load; a smaller one may be a linear program's rounding of 0
# Limit for one broker, in OR-Tools' units: up to 10,000 candidates took at most 1.3 CPU seconds (docs/decisions/0009).
DETERMINISTIC_TIME = 0.2


def scarcest(prices: Floats, loads: Floats, bands: Bands, must_empty: Bools) -> list[int]:
    """Scarce brokers: those with a price, the scarcest first.

    They are ordered by the price of their load outside the bands, then by the price of their whole load.

    Parameters
    ----------
    prices, loads : (n, D) float64
        Prices in bytes per unit of load; loads in that unit.
    """
    beyond = np.maximum(np.maximum(loads - bands.upper, bands.lower - loads), 0)
    price = np.where(must_empty[:, None], 0.0, np.abs(prices))
    worth = (price * np.maximum(loads, bands.lower)).sum(axis=1)
    order = np.lexsort((-worth, -(price * beyond).sum(axis=1)))
    return [int(broker) for broker in order if worth[broker] > DUST * worth.max()]


@dataclass(frozen=True)
class Whole:
    """The chosen candidates, (N,), and a proven lower bound on the cost of any choice."""

    takes: Bools
    least: float


def cheapest(cost: Floats, effect: Floats, low: Floats, high: Floats, *, close: float, for_bound: bool) -> Whole | None:
    """The cheapest choice found (formula 24 of docs/solver.md).

    None if there is none, or if the numbers are too large.

    Parameters
    ----------
    cost : (N,) float64
    effect : (N, D) float64
    low, high : (D,) float64
        Infinite if there is no limit.
    close : float
        The search stops at a choice this near to its bound, in the units of ``cost``.
    for_bound : bool
        If True, ``least`` is valid for every choice inside the limits, and ``takes`` may be slightly outside. Else
        ``takes`` is inside, and ``least`` is valid only for choices that are inside after rounding too.
    """
    if max((float(np.abs(x[np.isfinite(x)]).sum()) for x in (cost, effect, low, high)), default=0.0) > MOST:
        return None
    model = cp_model.CpModel()
    takes = [model.new_bool_var("") for _ in range(len(cost))]
    down, up = (np.floor, np.ceil) if for_bound else (np.ceil, np.floor)
    for column, least, most in zip(effect.T / UNIT, low / UNIT, high / UNIT, strict=True):
        if np.isfinite(most):
            model.add(_sum(takes, down(column)) <= int(up(most)))
        if np.isfinite(least):
            model.add(_sum(takes, up(column)) >= int(down(least)))
    model.minimize(_sum(takes, np.floor(cost / UNIT)))
    solver = careful_solver(DETERMINISTIC_TIME)
    solver.parameters.absolute_gap_limit = close / UNIT
    if solver.solve(model) not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return None
    return Whole(np.array(solver.values(takes), dtype=bool), float(np.floor(solver.best_objective_bound)) * UNIT)


def _sum(variables: list[cp_model.IntVar], factors: Floats) -> cp_model.LinearExprT:
    return cp_model.LinearExpr.weighted_sum(variables, factors.astype(np.int64).tolist())
