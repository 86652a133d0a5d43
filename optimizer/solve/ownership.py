"""Which shard may change a partition's racks in a round: exactly one, so that shards never conflict."""

import numpy as np

from optimizer.domain import Brokers, Ints
from optimizer.solve.racks import rack_histogram


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
