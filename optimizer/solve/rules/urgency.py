"""How urgent changes are: the same order for plans that a limit reduces and for the waves."""

from dataclasses import dataclass

import numpy as np

from optimizer.domain import FREE, URGENCY, Bools, Brokers, Ints, Partitions
from optimizer.solve.rules.pins import group_by_pins, rack_rule
from optimizer.solve.rules.racks import rack_histogram

DEAD, RACK, DRAIN, PIN = map(URGENCY.index, ("dead", "rack", "drain", "pin"))
REPLICATION, BALANCE = map(URGENCY.index, ("replication", "balance"))


@dataclass(frozen=True)
class Urgency:
    """Why replicas change, as indices into ``URGENCY``: the first reason that applies.

    Parameters
    ----------
    leaving : (P, W) int64
        Reason of each replica, if it goes to another broker.
    is_short : (P, R) bool
        Racks with too few replicas of a partition: a replica that comes to such a rack repairs it.
    is_resized : (P,) bool
        Another replication factor is requested.
    """

    leaving: Ints
    is_short: Bools
    is_resized: Bools

    @property
    def levels(self) -> Ints:
        """The reason of each partition, (P,): that of its most urgent replica."""
        arriving = np.where(self.is_short.any(axis=1), RACK, np.where(self.is_resized, REPLICATION, BALANCE))
        return np.minimum(self.leaving.min(axis=1), arriving)


def urgency(brokers: Brokers, partitions: Partitions) -> Urgency:
    """The urgency of changes to partitions, from their lists before the plan and the current length of these lists.

    A partition outside its pin is judged by the rack rule only after it is inside.
    """
    replicas = partitions.replicas
    held, host = replicas >= 0, np.maximum(replicas, 0)
    groups, length = group_by_pins(brokers, partitions.topic), held.sum(axis=1)
    outside = groups.outside_pin(replicas) & (partitions.mobility == FREE)[:, None]
    rule, inside = rack_rule(brokers, groups, length), ~outside.any(axis=1, keepdims=True)
    in_rack = rack_histogram(replicas, brokers.rack, len(brokers.rack_names))
    crowded = (in_rack > rule.cap[:, None]) & inside
    empties = held & brokers.must_empty[host]
    causes = {
        DEAD: empties & ~brokers.is_live[host],
        RACK: held & np.take_along_axis(crowded, brokers.rack[host], axis=1),
        DRAIN: empties,
        PIN: outside,
    }
    return Urgency(
        leaving=np.select([causes[level] for level in sorted(causes)], sorted(causes), BALANCE).astype(np.int64),
        is_short=(in_rack < np.minimum(rule.floor[:, None], rule.sizes[groups.of])) & inside,
        is_resized=partitions.replication_factor != length,
    )
