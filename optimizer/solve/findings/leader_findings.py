"""Preferred leaders and bytes out that stay outside a broker's band: the cause, if it is known."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from optimizer.domain import Bools, Brokers, Cause, FindingCode, Floats, Ints, Partitions
from optimizer.solve.findings.band_findings import UNKNOWN, Why, least_widths
from optimizer.solve.findings.finding import Finding, partition_name
from optimizer.solve.leaders.leader_flow import host_loads
from optimizer.solve.leaders.leaders import ChosenLeaders
from optimizer.solve.rules.bands import leader_loads
from optimizer.solve.rules.mobility import may_reorder

RESOURCES = ("leaders", "out")


@dataclass(frozen=True)
class _Led:
    """The leaders of each broker, and the leaders it may have; loads are (B, 2), absolute.

    Parameters
    ----------
    bound_to : (B, 2) float64
        Load of the partitions that no other broker may lead.
    within_reach : (B, 2) float64
        Load of all partitions that the broker may lead.
    out_of_sync : (B,) int64
        Partitions that no other broker may lead because replicas are out of sync.
    """

    partitions: Partitions
    leaders: ChosenLeaders
    bound_to: Floats
    within_reach: Floats
    out_of_sync: Ints

    def why_above(self, b: int, d: int) -> Why:
        """The first cause that is sufficient, and its facts."""
        choices, upper = self.leaders.choices, self.leaders.choices.bands.upper[b, d]
        if self.bound_to[b, d] > upper:
            return Cause.MAY_NOT_LEAVE, {"bound": float(self.bound_to[b, d]), "out_of_sync": int(self.out_of_sync[b])}
        led = self.leaders.arc[choices.host[self.leaders.arc] == b]
        largest = led[np.argmax(choices.weight[led, d])]
        if choices.weight[largest, d] > upper:
            name = partition_name(self.partitions, choices.row[largest])
            return Cause.LARGE_PARTITION, {"name": name, "load": float(choices.weight[largest, d])}
        return UNKNOWN

    def why_below(self, b: int, d: int) -> Why:
        """The first cause that is sufficient, and its facts."""
        if self.within_reach[b, d] < self.leaders.choices.bands.lower[b, d]:
            return Cause.MAY_NOT_COME, {"reach": float(self.within_reach[b, d])}
        return UNKNOWN


def _led(partitions: Partitions, leaders: ChosenLeaders, accepts: Bools) -> _Led:
    choices, brokers = leaders.choices, len(leaders.choices.bands.lower)
    alone = np.bincount(choices.row, minlength=len(choices))[choices.row] == 1

    def summed(arcs: Bools) -> Floats:
        weights = (np.bincount(choices.host, weight * arcs, brokers) for weight in choices.weight.T)
        return np.stack(list(weights), axis=1)

    host = np.maximum(partitions.replicas, 0)
    may_lose = partitions.may_lose_records(partitions.replicas) & accepts[host]
    is_stuck = np.asarray(may_lose.any(axis=1) & may_reorder(partitions.mobility))
    out_of_sync = np.bincount(choices.host, alone & is_stuck[choices.row], brokers).astype(np.int64)
    return _Led(partitions, leaders, summed(alone), summed(np.ones_like(alone)), out_of_sync)


def leader_findings(brokers: Brokers, partitions: Partitions, leaders: ChosenLeaders) -> Iterator[Finding]:
    """Brokers outside a band of leaders or of bytes out: the cause, if it is known, and a width that is enough with
    these leaders."""
    bands, loads = leaders.choices.bands, host_loads(leaders.choices, leaders.arc)
    gap, outside = bands.excess(loads), bands.is_outside(loads)
    if not outside.any():
        return
    was_outside = bands.is_outside(leader_loads(len(brokers), partitions.replicas, partitions))
    led = _led(partitions, leaders, brokers.accepts_leadership)
    widths = least_widths(loads, bands.mean)
    for b, d in zip(*(index.tolist() for index in np.nonzero(outside)), strict=True):
        above, resource = gap[b, d] > 0, RESOURCES[d]
        end = (bands.upper if above else bands.lower)[b, d]
        cause, why = led.why_above(b, d) if above else led.why_below(b, d)
        when = "both" if was_outside[b, d] else "after"
        yield Finding(
            FindingCode.LEADER_BAND,
            when,
            cause=cause,
            broker_id=int(brokers.ids[b]),
            resource=resource,
            amount=float(loads[b, d]),
            limit=float(end),
            facts={**why, "width": float(widths[b, d])},
        )
