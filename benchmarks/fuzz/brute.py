"""Tries all placements of a small cluster.

Gives the least bytes of those that are inside all bands, or as balanced as a plan.
"""

import itertools
from collections.abc import Sequence

import numpy as np

from optimizer.domain import FREE, Bands, Cluster, Floats, Ints
from optimizer.solve.rules.pins import group_by_pins, rack_breaks

MAX_PLACEMENTS = 30_000  # of one cluster; a cluster with more is not searched
TOLERANCE = 1e-9  # mean broker loads; less than this outside the bands counts as inside, as SETTLED of the product
Choice = tuple[int, ...]


def choices_of(cluster: Cluster, row: int, planned: Choice, *, needs_all: bool) -> list[Choice]:
    """The sets of brokers that one partition may have: those that keep every rule, and the planned set.

    A partition that is not free has only its planned set. With ``needs_all`` Kafka waits for all replicas of a new set.
    """
    brokers, partitions = cluster.brokers, cluster.partitions
    held = {int(b) for b in partitions.replicas[row] if b >= 0}
    if partitions.mobility[row] != FREE:
        return [planned]
    stays = [b for b in range(len(brokers)) if b in held and not brokers.must_empty[b]]
    usable = sorted({*np.flatnonzero(brokers.accepts_replicas).tolist(), *stays})
    factor = int(partitions.replication_factor[row])
    partition = partitions.rows(np.array([row]))
    groups = group_by_pins(brokers, partition.topic)
    choices = {planned}
    in_sync = {int(b) for b in partitions.isr[row] if b >= 0}
    needed = min(len(held & in_sync), factor)
    for choice in itertools.combinations(usable, factor):
        placed = np.array([choice])
        stuck = set(choice) & (held - in_sync)
        if len(choice) - len(stuck) < needed or (stuck and needs_all and set(choice) != held):
            continue
        if not rack_breaks(brokers, partition, placed).any() and not groups.outside_pin(placed).any():
            choices.add(choice)
    return sorted(choices)


def _loads_of(cluster: Cluster, row: int, choice: Choice, topics: Sequence[str]) -> Floats:
    """Loads on each broker, and replicas of each topic, (B, D + T)."""
    partitions = cluster.partitions
    loads = np.zeros((len(cluster.brokers), 3 + len(topics)))
    weight = [1.0, float(partitions.size_bytes[row]), float(partitions.in_bytes_per_s[row])]
    loads[list(choice), :3] = weight
    loads[list(choice), 3 + topics.index(str(partitions.topic[row]))] = 1.0
    return loads


def placements(cluster: Cluster, replicas: Ints, *, needs_all: bool = False) -> tuple[Floats, Ints] | None:
    """Loads and replicas of each topic, (N, B, D + T), and bytes copied, (N,), of all placements; None if too many."""
    partitions = cluster.partitions
    topics = sorted({str(topic) for topic in partitions.topic})
    planned = [tuple(sorted(int(b) for b in row if b >= 0)) for row in replicas]
    choices = [choices_of(cluster, row, planned[row], needs_all=needs_all) for row in range(len(partitions))]
    if np.prod([len(of_row) for of_row in choices], dtype=float) > MAX_PLACEMENTS:
        return None
    loads, copied = np.zeros((1, len(cluster.brokers), 3 + len(topics))), np.zeros(1, dtype=np.int64)
    for row, of_row in enumerate(choices):
        held = {int(b) for b in partitions.replicas[row] if b >= 0}
        each = np.stack([_loads_of(cluster, row, choice, topics) for choice in of_row])
        cost = np.array([len(set(choice) - held) * int(partitions.size_bytes[row]) for choice in of_row])
        loads = (loads[:, None] + each[None]).reshape(-1, *each.shape[1:])
        copied = (copied[:, None] + cost[None]).ravel()
    return loads, copied


def topic_limits(cluster: Cluster) -> Floats:
    """The most replicas of each topic that a broker may hold, (T,)."""
    partitions = cluster.partitions
    limits = {str(t): float(m) for t, m in zip(partitions.topic, partitions.topic_most_replicas, strict=True)}
    return np.array([limits[topic] for topic in sorted(limits)])


def least_bytes(loads: Floats, copied: Ints, bands: Bands, scale: Floats, limits: Floats) -> int | None:
    """Least bytes copied by a placement inside the bands and topic limits; None if there is no such placement.

    Parameters
    ----------
    limits : (T,) or (B, T) float64
        The most replicas of each topic on a broker.
    """
    outside = np.maximum(loads[:, :, :3] - bands.upper, 0) + np.maximum(bands.lower - loads[:, :, :3], 0)
    inside = (outside / scale).sum(axis=(1, 2)) <= TOLERANCE
    inside &= (loads[:, :, 3:] <= limits).all(axis=(1, 2))
    return int(copied[inside].min()) if inside.any() else None
