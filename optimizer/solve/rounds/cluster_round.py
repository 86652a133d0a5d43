"""One cluster in one round: its shards, and how they are searched.

Exactly one shard *owns* a partition in a round: it alone may change the partition's racks, so shards never conflict.
"""

from dataclasses import dataclass

import numpy as np

from optimizer.domain import Bools, Brokers, Floats, Ints
from optimizer.solve.rules.bands import fullness
from optimizer.solve.rules.racks import (
    hosting_rack_sizes,
    live_rack_sizes,
    rack_caps,
    rack_disorder,
    rack_floors,
    rack_histogram,
)
from optimizer.solve.shard.assemble import ClusterFrame
from optimizer.solve.shard.search import Search


@dataclass(frozen=True)
class ClusterRound:
    """One cluster in one round.

    Parameters
    ----------
    frame : ClusterFrame
        Brokers, bands, loads now, scale.
    shard : (B,) int64
        Shard of each broker, numbered across the fleet; -1 if its shard has nothing to do.
    round : int
    within_racks : bool
        Each shard has brokers of one rack.
    repairs_racks : bool
        The round only repairs racks: partitions that must change racks take part, and nothing is balanced.
    search : Search
    gap : float
        Another round follows if the shards copy more than their own bounds by over this share of the bytes copied.
    ignores_topics : bool
        The limits of topics do not count.
    """

    frame: ClusterFrame
    shard: Ints
    round: int
    within_racks: bool
    repairs_racks: bool
    search: Search
    gap: float
    ignores_topics: bool = False

    @property
    def first_shard(self) -> int:
        """The lowest number of its shards."""
        return int(self.shard[self.shard >= 0].min())

    def shards_of(self, current: Ints, stuck: Bools, replication_factor: Ints, tie: Ints) -> tuple[Ints, Ints]:
        """Shard of each replica, (P, W), -1 as padding; and the shard that owns each partition, (P,).

        Parameters
        ----------
        stuck : (P, W) bool
            Replicas that were out of sync before the plan.
        tie : (P,) int64
            A number for each partition that does not depend on the others.
        """
        brokers = self.frame.brokers
        sizes = live_rack_sizes(brokers)
        caps = rack_caps(replication_factor, sizes, hosting_rack_sizes(brokers))
        floors = np.minimum(rack_floors(replication_factor, sizes)[:, None], sizes)
        full = fullness(self.frame.loads, self.frame.bands)
        if not self.frame.tuning.owners_by_fullness:
            full = np.zeros_like(full)
        slot = owner_slots(brokers, current, stuck, caps, floors, tie + self.round, full)
        shard = np.where(current >= 0, self.shard[np.maximum(current, 0)], -1)
        return shard, shard[np.arange(len(shard)), slot]


def owner_slots(
    brokers: Brokers, replicas: Ints, stuck: Bools, cap: Ints, floor: Ints, tie: Ints, fullness: Floats
) -> Ints:
    """Slot of a replica of each partition, (P,): the shard of that replica owns the partition.

    Replicas are ranked in this order:

    1. In a rack over its cap, or in a rack to empty: one of these must change racks. A replica that is out of sync
       comes first, also if another rack has too few and its own more than it needs; then that on the fullest broker,
       because it must shed load anyway.
    2. On a broker to empty. Such a replica may stay in its rack, so any shard can move it.
    3. On a broker above its band.
    4. By ``tie``.

    Parameters
    ----------
    stuck : (P, W) bool
        Replicas that were out of sync before the plan.
    cap, floor : (P,), (P, R) int64
        Most replicas in any rack, least in each.
    tie : (P,) int64
        A number for each partition that does not depend on the others.
    fullness : (B,) float64
        Load divided by the upper end of the band, for the resource with the largest ratio (``bands.fullness``).
    """
    held = replicas >= 0
    host = np.maximum(replicas, 0)
    counts = rack_histogram(replicas, brokers.rack, len(brokers.rack_names))
    leaves = brokers.must_empty[host] & held
    rack = brokers.rack[host]
    over = np.asarray(np.take_along_axis(counts, rack, axis=1) > cap[:, None])
    is_short = (counts < floor).any(axis=1, keepdims=True)
    spare = over | (is_short & np.take_along_axis(counts > floor, rack, axis=1))
    over |= leaves & (live_rack_sizes(brokers) == 0)[rack]
    full = fullness[host]
    factor = np.maximum(held.sum(axis=1), 1)[:, None]
    turn = (np.arange(replicas.shape[1])[None, :] - tie[:, None]) % factor
    urgency = 8 * (spare & stuck) + 4 * over + 2 * leaves + (full > 1)
    within = np.where(over, 1 - 1 / (1 + full), 1 - turn / factor)
    return np.asarray(np.where(held, urgency + within / 2, -1.0).argmax(axis=1))


def must_change_racks(brokers: Brokers, replicas: Ints, replication_factor: Ints) -> Bools:
    """Partitions that must use other racks, (P,): they break the rack rule, or one of their racks is to be emptied."""
    sizes = live_rack_sizes(brokers)
    counts = rack_histogram(replicas, brokers.rack, len(brokers.rack_names))
    caps = rack_caps(replication_factor, sizes, hosting_rack_sizes(brokers))
    floors = rack_floors(replication_factor, sizes)
    broken = rack_disorder(counts, caps, floors, sizes) > 0
    host = np.maximum(replicas, 0)
    stranded = (replicas >= 0) & brokers.must_empty[host] & (sizes[brokers.rack[host]] == 0)
    return np.asarray(broken | stranded.any(axis=1))
