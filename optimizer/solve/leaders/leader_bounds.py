"""What any choice of leaders from the same replica lists must leave or change, at least.

leaders_outside
    Leaders outside the count's bands: the flow without prices has the least.
out_outside_bytes_per_s
    Bytes out outside their bands: a flow that may split the leadership of a partition.
leader_changes
    Changes of any choice that is as balanced, broker by broker: the bands are first widened to what the plan reached.
    For any prices of bytes out, the cheapest flow within the count's bands, less what the bands of bytes out are worth.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from optimizer.domain import Floats
from optimizer.solve.leaders.leader_flow import LeaderBands, LeaderChoices, flow, host_loads, least_out_violation
from optimizer.solve.leaders.leaders import ChosenLeaders

DUST = 1e-6  # changes of leaders: what prices in floats are off by


@dataclass(frozen=True)
class LeaderBound:
    """One measure of the preferred leaders: the plan's value and the least, whole numbers."""

    measure: str
    planned: int
    bound: int
    detail: str


def leader_bounds(leaders: ChosenLeaders) -> Iterator[LeaderBound]:
    """The three bounds of chosen leaders; none without partitions."""
    choices = leaders.choices
    if not len(choices):
        return
    arc = leaders.arc
    loads = host_loads(choices, arc)
    fewest = host_loads(choices, leaders.fewest)
    (off, out), (least_off, _) = (
        np.abs(choices.bands.excess(x)).sum(axis=0).astype(int).tolist() for x in (loads, fewest)
    )
    yield LeaderBound("leaders_outside", off, least_off, "min-cost flow of leaders over the replica lists")
    lower, upper = np.floor(choices.bands.lower[:, 1]), np.ceil(choices.bands.upper[:, 1])
    least = least_out_violation(choices, lower.astype(np.int64), upper.astype(np.int64)) if out else 0
    yield LeaderBound("out_outside_bytes_per_s", out, least, "flow of bytes out, partitions led in parts")
    changes, bands = int(choices.change[arc].sum()), choices.bands.widened(loads)
    plain = least_changes(choices, bands, np.zeros(len(loads)))
    priced = least_changes(choices, bands, leaders.prices) if leaders.prices.any() else 0
    how = "min-cost flow of leaders" + (", priced for bytes out" if priced > plain else "")
    yield LeaderBound("leader_changes", changes, max(plain, priced), f"{how}, in the bands as the plan reached them")


def least_changes(choices: LeaderChoices, bands: LeaderBands, prices: Floats) -> int:
    """Changes of any choice within the bands, at least: weak duality, valid for any prices of bytes out, (B,)
    (formula 20 of docs/solver.md)."""
    cost, units = choices.priced(prices)
    cheapest = int(cost[flow(choices, cost, bands)].sum()) / units
    lower, upper = bands.lower[:, 1] / bands.scale[1], bands.upper[:, 1] / bands.scale[1]
    worth = float((np.maximum(prices, 0) * upper - np.maximum(-prices, 0) * lower).sum())
    return max(0, int(np.ceil(cheapest - worth - DUST)))
