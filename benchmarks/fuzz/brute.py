"""All placements of a small cluster: the least bytes of those that are as balanced as a plan, or inside all bands."""

import itertools
from collections.abc import Sequence

import numpy as np

from optimizer.domain import FREE, Bands, Cluster, Floats, Ints
from optimizer.solve.rules.pins import group_by_pins, rack_breaks

MOST_PLACEMENTS = 30_000  # of a cluster that are all tried, in one array
TOLERANCE = 1e-9  # mean broker loads outside the bands that count as none, as the product's SETTLED
Choice = tuple[int, ...]


def choices_of(cluster: Cluster, row: int, planned: Choice) -> list[Choice]:
    """Sets of brokers that one partition may have: those that keep every rule; and the one that the plan gives it.

    What is not free may only be where the plan has it: the plan's own choice for it is judged by the rules.
    """
    brokers, partitions = cluster.brokers, cluster.partitions
    held = {int(b) for b in partitions.replicas[row] if b >= 0}
    if partitions.mobility[row] != FREE:
        return [planned]
    stays = [b for b in range(len(brokers)) if b in held and not brokers.must_empty[b]]
    usable = sorted({*np.flatnonzero(brokers.accepts_replicas).tolist(), *stays})
    factor = int(partitions.replication_factor[row])
    alone = partitions.rows(np.array([row]))
    groups = group_by_pins(brokers, alone.topic)
    found = {planned}
    for chosen in itertools.combinations(usable, factor):
        placed = np.array([chosen])
        if not rack_breaks(brokers, alone, placed).any() and not groups.outside_pin(placed).any():
            found.add(chosen)
    return sorted(found)


def _loads_of(cluster: Cluster, row: int, choice: Choice, topics: Sequence[str]) -> Floats:
    """Loads on each broker, and replicas of each topic, (B, D + T)."""
    partitions = cluster.partitions
    loads = np.zeros((len(cluster.brokers), 3 + len(topics)))
    weight = [1.0, float(partitions.size_bytes[row]), float(partitions.in_bytes_per_s[row])]
    loads[list(choice), :3] = weight
    loads[list(choice), 3 + topics.index(str(partitions.topic[row]))] = 1.0
    return loads


def placements(cluster: Cluster, replicas: Ints) -> tuple[Floats, Ints] | None:
    """Loads with counts of topics, (N, B, D + T), and bytes copied, (N,), of every placement; None for too many."""
    partitions = cluster.partitions
    topics = sorted({str(topic) for topic in partitions.topic})
    planned = [tuple(sorted(int(b) for b in row if b >= 0)) for row in replicas]
    choices = [choices_of(cluster, row, planned[row]) for row in range(len(partitions))]
    if np.prod([len(found) for found in choices], dtype=float) > MOST_PLACEMENTS:
        return None
    loads, copied = np.zeros((1, len(cluster.brokers), 3 + len(topics))), np.zeros(1, dtype=np.int64)
    for row, found in enumerate(choices):
        held = {int(b) for b in partitions.replicas[row] if b >= 0}
        each = np.stack([_loads_of(cluster, row, choice, topics) for choice in found])
        cost = np.array([len(set(choice) - held) * int(partitions.size_bytes[row]) for choice in found])
        loads = (loads[:, None] + each[None]).reshape(-1, *each.shape[1:])
        copied = (copied[:, None] + cost[None]).ravel()
    return loads, copied


def most_of_topics(cluster: Cluster) -> Floats:
    """Most replicas of each topic on one broker, (T,)."""
    partitions = cluster.partitions
    most = {str(t): float(m) for t, m in zip(partitions.topic, partitions.topic_most_replicas, strict=True)}
    return np.array([most[topic] for topic in sorted(most)])


def least_bytes(loads: Floats, copied: Ints, bands: Bands, scale: Floats, most: Floats) -> int | None:
    """Least bytes copied by a placement inside bands and mosts; None where there is none.

    Parameters
    ----------
    most : (T,) or (B, T) float64
    """
    over = np.maximum(loads[:, :, :3] - bands.upper, 0) + np.maximum(bands.lower - loads[:, :, :3], 0)
    inside = (over / scale).sum(axis=(1, 2)) <= TOLERANCE
    inside &= (loads[:, :, 3:] <= most).all(axis=(1, 2))
    return int(copied[inside].min()) if inside.any() else None
