"""Prices of bytes out for the flow of leaders, from a smoothed dual.

With prices theta >= 0 on the four sides of a broker's bands (leaders and bytes out, over and under) the dual is::

    maximise sum_p min_b (change_pb + sum_d (over_bd - under_bd) w_pd) - sum_bd (over_bd upper_bd - under_bd lower_bd)

It is concave and any prices bound the changes from below, but it has an edge wherever two brokers are equally good.
The minimum is therefore softened at a falling temperature, and each soft dual is maximised from where the last one
ended.

References
----------
Nesterov, Smooth minimization of non-smooth functions, Mathematical Programming 103 (2005).
"""

import numpy as np
from scipy.optimize import minimize

from optimizer.domain import Floats
from optimizer.solve.leaders.leader_flow import LeaderChoices

# Changes, as the cost of a choice: choices this near to the best share. Below a change, so that it still counts; each
# temperature starts near the end of the last.
TEMPERATURES = (0.2, 0.05, 0.02)
ITERATIONS = 30  # of the descent at each temperature: mostly all are made, and the next goes on; any prices will do
MEMORY = 20  # steps that the descent remembers: scipy's maxcor
HIGHEST = 2000.0  # changes per mean broker load: what a band that can't be met would drive to infinity


class SoftDual:
    """The softened dual of some choices, to be maximised over prices theta >= 0."""

    def __init__(self, choices: LeaderChoices) -> None:
        bands = choices.bands
        self.row, self.host, self.change, self.first = choices.row, choices.host, choices.change, choices.first
        self.weights = (choices.weight / bands.scale).T.copy()
        self.lower, self.upper = (bands.lower / bands.scale).T, (bands.upper / bands.scale).T

    def at(self, theta: Floats, temperature: float) -> tuple[float, Floats]:
        """Value and gradient.

        Parameters
        ----------
        theta : (2 * 2 * B,) float64
            Price of each side (over, under), resource and broker, in changes per mean broker load.
        """
        over, under = theta.reshape(2, *self.upper.shape)
        cost = self.change.astype(np.float64)
        for price, weight in zip(over - under, self.weights, strict=True):
            cost += price[self.host] * weight
        least = np.minimum.reduceat(cost, self.first)
        share = np.exp((least[self.row] - cost) / temperature)
        total = np.add.reduceat(share, self.first)
        value = (least - temperature * np.log(total)).sum() - (over * self.upper - under * self.lower).sum()
        share /= total[self.row]
        loads = np.stack([np.bincount(self.host, share * weight, self.upper.shape[1]) for weight in self.weights])
        return float(value), np.stack([loads - self.upper, self.lower - loads]).ravel()


def out_prices(choices: LeaderChoices) -> Floats:
    """Price of bytes out on each broker, in changes per mean broker load, (B,) (formula 25 of docs/solver.md)."""
    brokers, dual = len(choices.bands.lower), SoftDual(choices)
    theta = np.zeros(4 * brokers)
    for temperature in TEMPERATURES:

        def descent(at: Floats, temperature: float = temperature) -> tuple[float, Floats]:
            value, gradient = dual.at(at, temperature)
            return -value, -gradient

        options = {"maxiter": ITERATIONS, "maxcor": MEMORY}
        box = [(0.0, HIGHEST)] * len(theta)
        theta = minimize(descent, theta, jac=True, method="L-BFGS-B", bounds=box, options=options).x
    over, under = theta.reshape(2, 2, brokers)
    return np.asarray((over - under)[1])
