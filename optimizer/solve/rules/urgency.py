"""How urgent changes are: one classification for the cut to a limit and for the reasons that waves are filled by."""

from dataclasses import dataclass

import numpy as np

from optimizer.domain import FREE, URGENCY, Bools, Brokers, Ints, Partitions
from optimizer.solve.rules.pins import group_by_pins, rack_rule
from optimizer.solve.rules.racks import rack_histogram

DEAD, RACK, DRAIN, PIN = map(URGENCY.index, ("dead", "rack", "drain", "pin"))
REPLICATION, BALANCE = map(URGENCY.index, ("replication", "balance"))


@dataclass(frozen=True)
class Urgency:
    """Why replicas would change, as indices into ``URGENCY``: the first reason that holds.

    Parameters
    ----------
    leaving : (P, W) int64
        Of a replica that goes to another broker.
    is_short : (P, R) bool
        Racks that hold fewer replicas of a partition than they must: what comes to one mends the racks.
    is_resized : (P,) bool
        Another replication factor is asked for.
    """

    leaving: Ints
    is_short: Bools
    is_resized: Bools

    @property
    def levels(self) -> Ints:
        """A partition counts by its most urgent replica, (P,)."""
        arriving = np.where(self.is_short.any(axis=1), RACK, np.where(self.is_resized, REPLICATION, BALANCE))
        return np.minimum(self.leaving.min(axis=1), arriving)


def urgency(brokers: Brokers, partitions: Partitions) -> Urgency:
    """How urgent it is that replicas of partitions change, as they lie before the plan and by the length they have.

    Racks of a partition that has to go into its pin count once it is there.
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
