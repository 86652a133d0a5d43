"""Which shard may change a partition's racks in a round: exactly one, so that shards never conflict."""

import numpy as np

from optimizer.domain import Bools, Brokers, Floats, Ints
from optimizer.solve.rules.racks import (
    hosting_rack_sizes,
    live_rack_sizes,
    rack_caps,
    rack_disorder,
    rack_floors,
    rack_histogram,
)


def owner_slots(brokers: Brokers, replicas: Ints, cap: Ints, tie: Ints, fullness: Floats) -> Ints:
    """Slot of the replica whose shard owns each partition, (P,).

    A replica in a rack over its cap, or in a rack that is to be empty, comes first: one of these must go to another
    rack, best from the fullest broker, for that one has to shed load anyway. Then one that must leave its broker: it
    may stay in its rack, which any shard sees to. Then one on a broker above its band; else ``tie`` decides.

    Parameters
    ----------
    tie : (P,) int64
        Any stable number.
    fullness : (B,) float64
        Load over the upper end of the band, in the resource where it is largest (``bands.fullness``).
    """
    held = replicas >= 0
    host = np.maximum(replicas, 0)
    counts = rack_histogram(replicas, brokers.rack, len(brokers.rack_names))
    leaves = brokers.must_empty[host] & held
    over = np.take_along_axis(counts, brokers.rack[host], axis=1) > cap[:, None]
    over |= leaves & (live_rack_sizes(brokers) == 0)[brokers.rack[host]]
    full = fullness[host]
    factor = np.maximum(held.sum(axis=1), 1)[:, None]
    turn = (np.arange(replicas.shape[1])[None, :] - tie[:, None]) % factor
    urgency = 4 * over + 2 * leaves + (full > 1)
    within = np.where(over, 1 - 1 / (1 + full), 1 - turn / factor)
    return np.asarray(np.where(held, urgency + within / 2, -1.0).argmax(axis=1))


def must_change_racks(brokers: Brokers, replicas: Ints, replication_factor: Ints) -> Bools:
    """Partitions that only a move to another rack can mend, (P,): the rack rule is broken, or a rack is to be empty."""
    sizes = live_rack_sizes(brokers)
    counts = rack_histogram(replicas, brokers.rack, len(brokers.rack_names))
    caps = rack_caps(replication_factor, sizes, hosting_rack_sizes(brokers))
    floors = rack_floors(replication_factor, sizes)
    broken = rack_disorder(counts, caps, floors, sizes) > 0
    host = np.maximum(replicas, 0)
    stranded = (replicas >= 0) & brokers.must_empty[host] & (sizes[brokers.rack[host]] == 0)
    return np.asarray(broken | stranded.any(axis=1))
