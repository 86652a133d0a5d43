"""Which shard may change a partition's racks in a round: exactly one, so that shards never conflict."""

import numpy as np

from optimizer.domain import Bools, Brokers, Ints
from optimizer.solve.racks import live_rack_sizes, rack_caps, rack_disorder, rack_floors, rack_histogram


def owner_slots(brokers: Brokers, replicas: Ints, cap: Ints, tie: Ints) -> Ints:
    """Slot of the replica whose shard owns each partition, (P,).

    A replica that must leave its broker comes first, then one in a rack over its cap; else ``tie`` (any stable
    number) decides.
    """
    held = replicas >= 0
    host = np.maximum(replicas, 0)
    counts = rack_histogram(replicas, brokers.rack, len(brokers.rack_names))
    over = np.take_along_axis(counts, brokers.rack[host], axis=1) > cap[:, None]
    width = replicas.shape[1]
    factor = np.maximum(held.sum(axis=1), 1)[:, None]
    turn = (np.arange(width)[None, :] - tie[:, None]) % factor
    urgency = 4 * (brokers.must_empty[host] & held) + 2 * (over & held)
    score = np.where(held, urgency * factor - turn, -(10**6))
    return np.asarray(score.argmax(axis=1))


def must_change_racks(brokers: Brokers, replicas: Ints, replication_factor: Ints) -> Bools:
    """Partitions that only a move to another rack can mend, (P,): the rack rule is broken, or a rack is to be empty."""
    sizes = live_rack_sizes(brokers)
    counts = rack_histogram(replicas, brokers.rack, len(brokers.rack_names))
    caps, floors = rack_caps(replication_factor, sizes), rack_floors(replication_factor, sizes)
    broken = rack_disorder(counts, caps, floors, sizes) > 0
    host = np.maximum(replicas, 0)
    stranded = (replicas >= 0) & brokers.must_empty[host] & (sizes[brokers.rack[host]] == 0)
    return np.asarray(broken | stranded.any(axis=1))
