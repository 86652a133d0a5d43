"""A limit on what a plan copies: which of its changes are kept.

The solver plans without the limit; then changes are removed until the plan is within it. The change of one partition
does not depend on other partitions as far as pins and racks go. Only the bands, the disks and the spread of topics
connect them. So this is a choice of whole changes, z_p in {0, 1}::

    minimise   violation of the bands by  start load + sum_p z_p effect_p        (in mean broker loads)
    subject to sum_p z_p bytes_p <= bytes allowed,  sum_p z_p moves_p <= moves allowed
               disk of each broker <= its limit, or what it held before where that is more
               replicas of a topic on a broker <= its most, or what it held before or would hold where that is more

Urgent changes come first, whatever they do to the bands: level by level, and inside a level the cheapest first, so
that as many partitions as possible benefit. ``limit_choice`` chooses among the rest.
"""

from dataclasses import dataclass

import numpy as np

from optimizer.cluster_policy import NO_LIMIT, MoveLimit
from optimizer.domain import Bands, Bools, Brokers, Floats, Ints, Partitions, only_in
from optimizer.solve.bounds.bound import copied_bytes, copies_of
from optimizer.solve.rules.bands import load_outside, replica_weights
from optimizer.solve.rules.resources import DISK
from optimizer.solve.rules.urgency import BALANCE, urgency


@dataclass(frozen=True)
class PlanChanges:
    """The changes of a plan, one for each partition, and the cluster that they change; loads are absolute.

    Parameters
    ----------
    change, broker : (E,) int64
        The change and the broker of each entry: a replica that a change adds to a broker, or removes from it.
    sign : (E,) float64
        1 for an added replica, -1 for a removed replica.
    weights : (N, D) float64
        Load of one replica.
    costs : (N, 2) int64
        Bytes copied, and replicas copied.
    allowed : (2,) int64
        Most bytes and replicas that the whole plan may copy.
    level : (N,) int64
        Index into ``URGENCY``.
    loads, lower, upper : (B, D) float64
        Loads before the plan, and the bands.
    disk_limit : (B,) float64
        Most bytes on a broker: its disk minus headroom, or the bytes it held before; +inf if the disk is unknown.
    spot : (E,) int64
        Number of the entry's (topic, broker) pair: index into ``room``.
    room : (Q,) int64
        Replicas of the topic that the broker may gain, for each pair.
    scale : (D,) float64
        Mean broker load.
    """

    change: Ints
    broker: Ints
    sign: Floats
    weights: Floats
    costs: Ints
    allowed: Ints
    level: Ints
    loads: Floats
    lower: Floats
    upper: Floats
    disk_limit: Floats
    spot: Ints
    room: Ints
    scale: Floats

    def __len__(self) -> int:
        return len(self.level)

    @property
    def effects(self) -> Floats:
        """Load that each replica of a kept change adds to its broker, (E, D)."""
        return np.asarray(self.sign[:, None] * self.weights[self.change])

    def loads_with(self, kept: Bools) -> Floats:
        """Loads of the brokers if these changes are kept, (B, D)."""
        loads = self.loads.copy()
        at = kept[self.change]
        np.add.at(loads, self.broker[at], self.effects[at])
        return loads

    def violation(self, loads: Floats) -> float:
        """Load outside the bands, in mean broker loads (formula 13 of docs/solver.md)."""
        return float(self.violations_at(np.arange(len(loads)), loads).sum())

    def violations_at(self, brokers: Ints, loads: Floats) -> Floats:
        """Load outside the bands of some brokers, in mean broker loads, (N,) (formula 13 of docs/solver.md).

        Parameters
        ----------
        brokers : (N,) int64
        loads : (N, D) float64
        """
        return load_outside(loads, self.lower[brokers], self.upper[brokers], self.scale)

    def gains(self, kept: Bools) -> Ints:
        """Replicas that each (topic, broker) pair gains if these changes are kept, (Q,)."""
        return np.bincount(self.spot, self.sign * kept[self.change], len(self.room)).astype(np.int64)

    def overfull(self, kept: Bools, loads: Floats) -> Bools:
        """Entries on an overfull disk, or of a pair with too many replicas, if these changes are kept, (E,)."""
        disk = loads[:, DISK] > self.disk_limit
        return np.asarray(disk[self.broker] | (self.gains(kept) > self.room)[self.spot])

    def remaining(self, kept: Bools) -> Ints:
        """Bytes and replicas that may still be copied, (2,)."""
        return np.asarray(self.allowed - self.costs[kept].sum(axis=0))


def _spots(topic: Ints, host: Ints, entry_topic: Ints, entry_broker: Ints, brokers: int) -> tuple[Ints, Ints, Ints]:
    """The (topic, broker) pair of each entry, numbered, (E,); the topic of each pair, (Q,), and its replicas, (Q,).

    Parameters
    ----------
    topic, host : (R,) int64
        Topic and broker of every replica before the plan.
    """
    spots, spot = np.unique(entry_topic * brokers + entry_broker, return_inverse=True)
    at = np.searchsorted(spots, key := topic * brokers + host)
    hit = np.append(spots, -1)[at] == key
    return spot.astype(np.int64), spots // brokers, np.bincount(at[hit], minlength=len(spots)).astype(np.int64)


def _rooms(
    change: Ints, broker: Ints, sign: Floats, partitions: Partitions, unchanged: Partitions, brokers: int
) -> tuple[Ints, Ints]:
    """The (topic, broker) pair of each entry, numbered, (E,), and the replicas that each pair may gain, (Q,)."""
    if not (partitions.topic_most_replicas < NO_LIMIT).any():
        return np.zeros(len(change), dtype=np.int64), np.array([NO_LIMIT])
    topic = np.unique(np.concatenate([partitions.topic, unchanged.topic]), return_inverse=True)[1].astype(np.int64)
    replicas = [partitions.replicas, unchanged.replicas]
    host = np.concatenate([r[r >= 0] for r in replicas])
    held = np.concatenate([(r >= 0).sum(axis=1) for r in replicas])
    spot, of, before = _spots(np.repeat(topic, held), host, topic[change], broker, brokers)
    most = np.full(int(topic.max()) + 1, NO_LIMIT, dtype=np.int64)
    most[topic[: len(partitions)]] = partitions.topic_most_replicas
    planned = before + np.bincount(spot, sign, len(before)).astype(np.int64)
    return spot, np.maximum(most[of], np.maximum(before, planned)) - before


def plan_changes(
    brokers: Brokers,
    partitions: Partitions,
    planned: Ints,
    *,
    unchanged: Partitions,
    bands: Bands,
    loads: Floats,
    scale: Floats,
    disk_limit: Floats,
    allowed: MoveLimit,
) -> PlanChanges:
    """The changes from the replicas of some partitions to those of a plan, (P, W).

    Parameters
    ----------
    unchanged : Partitions
        The other partitions of topics with a limit.
    loads : (B, D) float64
        Absolute loads of all partitions before the plan.
    disk_limit : (B,) float64
        Bytes that each broker may hold.
    """
    before = partitions.replicas
    (row_in, slot_in), (row_out, slot_out) = np.nonzero(only_in(planned, before)), np.nonzero(only_in(before, planned))
    copies = copies_of(before, planned)
    change = np.concatenate([row_in, row_out])
    broker = np.concatenate([planned[row_in, slot_in], before[row_out, slot_out]])
    sign = np.repeat([1.0, -1.0], [len(row_in), len(row_out)])
    spot, room = _rooms(change, broker, sign, partitions, unchanged, len(brokers))
    return PlanChanges(
        change=change,
        broker=broker,
        sign=sign,
        weights=replica_weights(partitions),
        costs=np.stack([copied_bytes(brokers, partitions, planned), copies], axis=1),
        allowed=np.array([allowed.moved_bytes, allowed.moves], dtype=np.int64),
        level=urgency(brokers, partitions).levels,
        loads=loads,
        lower=bands.lower,
        upper=bands.upper,
        disk_limit=np.maximum(disk_limit, loads[:, DISK]),
        spot=spot,
        room=room,
        scale=scale,
    )


def urgent_first(changes: PlanChanges) -> Bools:
    """Urgent changes that the limit allows, (N,): level by level, the cheapest first, and only where there is space."""
    kept = np.zeros(len(changes), dtype=bool)
    share = (changes.costs / np.maximum(changes.allowed, 1)).max(axis=1, initial=0)
    for level in range(BALANCE):
        rows = np.flatnonzero(changes.level == level)
        rows = rows[np.argsort(share[rows], kind="stable")]
        while len(rows):
            remaining = changes.remaining(kept)
            fits = (np.cumsum(changes.costs[rows], axis=0) <= remaining).all(axis=1)
            kept[rows[fits]] = True
            # If bytes and moves are both limited, a change that has too many bytes may precede one that fits.
            rows = rows[~fits & (changes.costs[rows] <= changes.remaining(kept)).all(axis=1)]
        _remove_overfull(changes, kept, level)
    return kept


def _remove_overfull(changes: PlanChanges, kept: Bools, level: int) -> None:
    """Remove changes of a level, the largest first, until no disk and no (topic, broker) pair is over its limit."""
    added = (changes.sign > 0) & (changes.level[changes.change] == level)
    size = changes.weights[changes.change, DISK]
    while True:
        over = changes.overfull(kept, changes.loads_with(kept))
        at = np.flatnonzero(added & over & kept[changes.change])
        if not len(at):
            return
        # Drop one change of each overfull broker in a pass.
        at = at[np.lexsort((changes.change[at], -size[at], changes.broker[at]))]
        first = np.r_[True, np.diff(changes.broker[at]) > 0]
        kept[changes.change[at[first]]] = False
