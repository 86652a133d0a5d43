"""Pins restrict the replicas of some topics to some brokers; the rack rule then applies among these.

Partitions with topics that match the same pins are a *group*; group 0 has no pin. The rack rule of a group is that of a
cluster of its brokers only: if a pin allows one rack, all replicas may be in it.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optimizer.domain import FREE, Bools, Brokers, Ints, Partitions
from optimizer.solve.rules.racks import live_rack_sizes, rack_caps, rack_disorder, rack_floors, rack_histogram


@dataclass(frozen=True)
class PinGroups:
    """The group of each partition, and the brokers that each group may use.

    Parameters
    ----------
    of : (P,) int64
    allowed : (G, B) bool
        Row 0 is all True.
    patterns : tuple of tuple of str
        Pins of each group.
    """

    of: Ints
    allowed: Bools
    patterns: tuple[tuple[str, ...], ...]

    @property
    def any(self) -> bool:
        """Whether any partition is pinned."""
        return len(self.allowed) > 1

    def rows(self, rows: Ints) -> "PinGroups":
        """The groups of some partitions; a partition may appear more than once."""
        return PinGroups(self.of[rows], self.allowed, self.patterns)

    def outside_pin(self, replicas: Ints) -> Bools:
        """Replicas on brokers that their pin does not allow, (P, W) (formula 8 of docs/solver.md)."""
        if not self.any:
            return np.zeros(replicas.shape, dtype=bool)
        return (replicas >= 0) & ~self.allowed[self.of[:, None], np.maximum(replicas, 0)]


def group_by_pins(brokers: Brokers, topics: NDArray[np.object_]) -> PinGroups:
    """Groups of the partitions of the given topics, (P,)."""
    groups: dict[tuple[int, ...], int] = {(): 0}
    patterns = [re.compile(pin.topics) for pin in brokers.pins]
    matched: dict[str, int] = {}
    for topic in dict.fromkeys(topics) if patterns else ():
        hits = tuple(i for i, pattern in enumerate(patterns) if pattern.fullmatch(topic))
        matched[topic] = groups.setdefault(hits, len(groups))
    of = [matched[topic] for topic in topics] if len(groups) > 1 else np.zeros(len(topics))
    allowed = np.ones((len(groups), len(brokers)), dtype=bool)
    for hits, group in groups.items():
        for i in hits:
            allowed[group] &= brokers.pins[i].allowed
    return PinGroups(np.array(of, dtype=np.int64), allowed, tuple(_names(brokers, hits) for hits in groups))


def _names(brokers: Brokers, hits: Sequence[int]) -> tuple[str, ...]:
    return tuple(brokers.pins[i].topics for i in hits)


@dataclass(frozen=True)
class RackRule:
    """The limits of the rack rule for each partition, within its pin.

    Parameters
    ----------
    cap, floor : (P,) int64
        Most and least replicas in a rack with enough brokers.
    sizes : (G, R) int64
        Brokers of each rack that may hold replicas of the group after the plan.
    """

    cap: Ints
    floor: Ints
    sizes: Ints


def rack_rule(brokers: Brokers, groups: PinGroups, replication_factor: Ints) -> RackRule:
    """The rack rule of partitions by their groups; a pin that leaves no broker has no rack rule."""
    sizes = np.stack([_sizes(brokers, allowed) for allowed in groups.allowed])
    cap, floor = np.zeros_like(replication_factor), np.zeros_like(replication_factor)
    hosts = np.stack([_by_rack(brokers, allowed & ~brokers.must_empty) for allowed in groups.allowed])
    for group, of_rack in enumerate(sizes):
        rows = groups.of == group
        if not of_rack.any():
            cap[rows] = replication_factor[rows]
        elif rows.any():
            cap[rows] = rack_caps(replication_factor[rows], of_rack, hosts[group])
            floor[rows] = rack_floors(replication_factor[rows], of_rack)
    return RackRule(cap, floor, sizes)


def _sizes(brokers: Brokers, allowed: Bools) -> Ints:
    if allowed.all():
        return live_rack_sizes(brokers)
    return _by_rack(brokers, allowed & brokers.accepts_replicas & ~brokers.must_empty)


def _by_rack(brokers: Brokers, counted: Bools) -> Ints:
    return np.bincount(brokers.rack[counted], minlength=len(brokers.rack_names)).astype(np.int64)


def disorder_by_group(histogram: Ints, rule: RackRule, of: Ints) -> Ints:
    """Rack disorder of each partition, (P,), from its replicas by rack, (P, R)."""
    result = np.zeros(len(histogram), dtype=np.int64)
    for group, sizes in enumerate(rule.sizes):
        rows = of == group
        result[rows] = rack_disorder(histogram[rows], rule.cap[rows], rule.floor[rows], sizes)
    return result


def rack_breaks(brokers: Brokers, partitions: Partitions, replicas: Ints) -> Ints:
    """Replicas of each partition that break the rack rule, within its pin, (P,); for lists of their current length."""
    groups = group_by_pins(brokers, partitions.topic)
    rule = rack_rule(brokers, groups, (replicas >= 0).sum(axis=1))
    return disorder_by_group(rack_histogram(replicas, brokers.rack, len(brokers.rack_names)), rule, groups.of)


def must_leave(brokers: Brokers, partitions: Partitions, groups: PinGroups, replicas: Ints) -> Bools:
    """Replicas that must leave their broker, (P, W): on brokers to empty (formula 3 of docs/solver.md); for free
    partitions also outside their pin."""
    emptied = (replicas >= 0) & brokers.must_empty[np.maximum(replicas, 0)]
    return emptied | (groups.outside_pin(replicas) & (partitions.mobility == FREE)[:, None])


def disorder(brokers: Brokers, partitions: Partitions, replicas: Ints) -> Ints:
    """Replicas of each partition that break the rack rule or are outside their pin, (P,)."""
    groups = group_by_pins(brokers, partitions.topic)
    misplaced = must_leave(brokers, partitions, groups, replicas) & groups.outside_pin(replicas)
    return np.asarray(rack_breaks(brokers, partitions, replicas) + misplaced.sum(axis=1))
