"""The start of a plan with pins or changed replication factors, before anything is balanced.

Every list gets its requested length and goes inside its pin. Target brokers may be in other shards than the current
ones, so this is done for the whole cluster. It makes no copy that a plan could avoid. The rounds compare everything
with the lists before the plan, so they may move a new replica on, or restore a removed one, at no extra bytes.
"""

from dataclasses import dataclass

import numpy as np

from optimizer.domain import FREE, Bands, Bools, Brokers, Floats, Ints, Partitions
from optimizer.solve.rules.bands import replica_weights
from optimizer.solve.rules.pins import PinGroups, RackRule, group_by_pins, rack_rule
from optimizer.solve.rules.racks import rack_histogram


@dataclass
class _Draft:
    """The new lists while they are made.

    Parameters
    ----------
    stuck : (P, W) bool
        Replicas that are out of sync before the plan.
    not_again : list of (N,) int64
        Brokers that a shorter list may not name again: their replicas are out of sync.
    outside_pin : (P, W) bool
        Replicas outside their pin; ``counts`` excludes them.
    placed : (P, W) int64
        May have gaps of -1 anywhere.
    counts : (P, R) int64
    loads, ceiling : (B, D) float64
        The fullness of a broker is its load divided by its ceiling, the upper end of its band.
    may_host : (G, B) bool
    """

    brokers: Brokers
    partitions: Partitions
    groups: PinGroups
    rule: RackRule
    stuck: Bools
    not_again: list[Ints]
    outside_pin: Bools
    placed: Ints
    counts: Ints
    loads: Floats
    ceiling: Floats
    weights: Floats
    may_host: Bools

    def drop(self, p: int) -> None:
        """Remove one replica: first one out of sync, then one that must leave, then one that its rack can spare.

        The leader comes last; among equals the replica on the fullest broker comes first.
        """
        slots = np.flatnonzero(self.placed[p] >= 0)
        hosts = self.placed[p, slots]
        must_go = self.outside_pin[p, slots] | self.brokers.must_empty[hosts]
        rank = np.where(must_go, -1, self._spare(p)[self.brokers.rack[hosts]])
        leads = 2 * (hosts == self.partitions.leader[p]) + (slots == 0)
        full = (self.loads[hosts] / self.ceiling[hosts]).max(axis=1)
        in_sync = ~self.stuck[p, slots]
        self._clear(p, int(slots[np.lexsort((-full, leads, rank, in_sync))[0]]))

    def add(self, p: int, slot: int) -> bool:
        """Put a replica into a slot: in the rack that needs one most, on its least full broker.

        Returns whether there was a broker.
        """
        held = self.placed[p][self.placed[p] >= 0]
        open_ = self.may_host[self.groups.of[p]].copy()
        open_[held] = False
        open_[self.not_again[p]] = False
        hosts = np.flatnonzero(open_)
        if not len(hosts):
            return False
        rank = self._rack_need(p)[self.brokers.rack[hosts]]
        hosts = hosts[rank == rank.min()]
        full = ((self.loads[hosts] + self.weights[p]) / self.ceiling[hosts]).max(axis=1)
        target = int(hosts[full.argmin()])
        if self.placed[p, slot] >= 0:
            self._clear(p, slot)
        self.placed[p, slot] = target
        self.loads[target] += self.weights[p]
        self.counts[p, self.brokers.rack[target]] += 1
        return True

    def _clear(self, p: int, slot: int) -> None:
        host = int(self.placed[p, slot])
        self.loads[host] -= self.weights[p]
        self.counts[p, self.brokers.rack[host]] -= not self.outside_pin[p, slot]
        self.placed[p, slot], self.outside_pin[p, slot] = -1, False

    def _floor(self, p: int) -> Ints:
        return np.minimum(self.rule.floor[p], self.rule.sizes[self.groups.of[p]])

    def _rack_need(self, p: int) -> Ints:
        """Rank of each rack for one more replica, (R,): 0 if one is missing, 1 below the cap, else 2."""
        counts = self.counts[p]
        return np.where(counts < self._floor(p), 0, np.where(counts < self.rule.cap[p], 1, 2))

    def _spare(self, p: int) -> Ints:
        """Rank of each rack for removing a replica, (R,): 0 over the cap, 1 above its least number, else 2."""
        counts = self.counts[p]
        return np.where(counts > self.rule.cap[p], 0, np.where(counts > self._floor(p), 1, 2))


def size_and_pin_lists(brokers: Brokers, partitions: Partitions, bands: Bands, loads: Floats) -> Ints:
    """Replica lists of free partitions with the requested length and inside their pins, (P, W)
    (formula 1 of docs/solver.md).

    First, lists that are too long lose replicas. Then replicas outside a pin go inside it, and short lists grow. The
    largest partitions come first. If there is no broker for a replica, it stays, or is not added.

    Parameters
    ----------
    bands : Bands
    loads : (B, D) float64
        Of the whole cluster, absolute.
    """
    draft = _draft(brokers, partitions, bands, loads)
    missing = partitions.replication_factor - (partitions.replicas >= 0).sum(axis=1)
    missing = np.where(partitions.mobility == FREE, missing, 0)
    for p in _largest_first(partitions, missing < 0):
        for _ in range(-missing[p]):
            draft.drop(p)
    for p in _largest_first(partitions, draft.outside_pin.any(axis=1) | (missing > 0)):
        gaps = np.flatnonzero(draft.placed[p] < 0)[: max(missing[p], 0)]
        for slot in [*np.flatnonzero(draft.outside_pin[p]).tolist(), *gaps.tolist()]:
            if not draft.add(p, slot):
                break
    return packed(draft.placed)


def packed(replicas: Ints) -> Ints:
    """Lists without gaps, in their order, (P, W)."""
    order = np.argsort(replicas < 0, axis=1, kind="stable")
    return np.take_along_axis(replicas, order, axis=1)


def _draft(brokers: Brokers, partitions: Partitions, bands: Bands, loads: Floats) -> _Draft:
    groups = group_by_pins(brokers, partitions.topic)
    placed = partitions.replicas.copy()
    outside_pin = groups.outside_pin(placed) & (partitions.mobility == FREE)[:, None]
    stuck = partitions.stuck(placed)
    barred = stuck & partitions.shrinks[:, None]
    return _Draft(
        brokers=brokers,
        partitions=partitions,
        groups=groups,
        rule=rack_rule(brokers, groups, partitions.replication_factor),
        stuck=stuck,
        not_again=[row[is_barred] for row, is_barred in zip(placed, barred, strict=True)],
        outside_pin=outside_pin,
        placed=placed,
        counts=rack_histogram(np.where(outside_pin, -1, placed), brokers.rack, len(brokers.rack_names)),
        loads=loads.copy(),
        ceiling=np.where(np.isfinite(bands.upper), np.maximum(bands.upper, 1.0), np.inf),
        weights=replica_weights(partitions),
        may_host=groups.allowed & brokers.accepts_replicas & ~brokers.must_empty,
    )


def _largest_first(partitions: Partitions, chosen: Bools) -> list[int]:
    rows = np.flatnonzero(chosen)
    return [int(p) for p in rows[np.argsort(-partitions.size_bytes[rows], kind="stable")]]
