"""Lower bounds for any choice of leaders from the same replica lists.

leaders_outside
    Least leaders outside the bands of the count: the flow without prices reaches it.
out_outside_bytes_per_s
    Least bytes out outside their bands: a flow that may split the leadership of a partition.
leader_changes
    Least changes of any choice that is as balanced, broker by broker. The bands are first widened to the loads that the
    plan reached. For any prices of bytes out, the bound is the cost of the cheapest flow within the bands of the count,
    minus the price of the bands of bytes out.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from optimizer.domain import Floats
from optimizer.solve.leaders.leader_flow import LeaderBands, LeaderChoices, flow, host_loads, least_out_violation
from optimizer.solve.leaders.leaders import ChosenLeaders

DUST = 1e-6  # leader changes: rounding of prices in floats


@dataclass(frozen=True)
class LeaderBound:
    """One measure of the preferred leaders: the plan's value and its lower bound, as whole numbers."""

    measure: str
    planned: int
    bound: int
    detail: str


def leader_bounds(leaders: ChosenLeaders) -> Iterator[LeaderBound]:
    """The three bounds for chosen leaders; none if there are no partitions."""
    choices = leaders.choices
    if not len(choices):
        return
    arc = leaders.arc
    loads = host_loads(choices, arc)
    fewest = host_loads(choices, leaders.fewest)
    (leaders_outside, out), (least_outside, _) = (
        np.abs(choices.bands.excess(x)).sum(axis=0).astype(int).tolist() for x in (loads, fewest)
    )
    yield LeaderBound(
        "leaders_outside", leaders_outside, least_outside, "min-cost flow of leaders over the replica lists"
    )
    lower, upper = np.floor(choices.bands.lower[:, 1]), np.ceil(choices.bands.upper[:, 1])
    least = least_out_violation(choices, lower.astype(np.int64), upper.astype(np.int64)) if out else 0
    yield LeaderBound("out_outside_bytes_per_s", out, least, "flow of bytes out, partitions led in parts")
    changes, bands = int(choices.change[arc].sum()), choices.bands.widened(loads)
    plain = least_changes(choices, bands, np.zeros(len(loads)))
    priced = least_changes(choices, bands, leaders.prices) if leaders.prices.any() else 0
    how = "min-cost flow of leaders" + (", priced for bytes out" if priced > plain else "")
    yield LeaderBound("leader_changes", changes, max(plain, priced), f"{how}, in the bands as the plan reached them")


def least_changes(choices: LeaderChoices, bands: LeaderBands, prices: Floats) -> int:
    """Least changes of any choice within the bands (formula 20 of docs/solver.md).

    Weak duality: valid for any prices of bytes out, (B,).
    """
    cost, units = choices.priced(prices)
    cheapest = int(cost[flow(choices, cost, bands)].sum()) / units
    lower, upper = bands.lower[:, 1] / bands.scale[1], bands.upper[:, 1] / bands.scale[1]
    worth = float((np.maximum(prices, 0) * upper - np.maximum(-prices, 0) * lower).sum())
    return max(0, int(np.ceil(cheapest - worth - DUST)))
