"""The start of a plan with pins: every replica outside its pin goes to a broker inside, before anything is balanced.

The brokers of a pin need not share a shard with those that its replicas must leave, so this is done for the cluster as
a whole. It costs what any plan must copy; where inside the pin a replica goes is left to the rounds.
"""

import numpy as np

from optimizer.domain import FREE, Bands, Bools, Brokers, Floats, Ints, Partitions
from optimizer.solve.bands import replica_weights
from optimizer.solve.pins import group_by_pins, rack_rule
from optimizer.solve.racks import rack_histogram


def _rank(counts: Ints, floor: int, cap: int, sizes: Ints) -> Ints:
    """How welcome one replica more is in each rack, (R,): 0 where one is missing, 1 below the cap, else 2."""
    return np.where(counts < np.minimum(floor, sizes), 0, np.where(counts < cap, 1, 2))


def start_inside_pins(brokers: Brokers, partitions: Partitions, limits: Bands, loads: Floats) -> Ints:
    """Replicas with those of free partitions inside their pins, slot by slot, (P, W).

    Each goes to the rack that the rack rule wants most, and there to the broker that is least full. Largest first; a
    replica that finds no broker stays.

    Parameters
    ----------
    limits : Bands
    loads : (B, D) float64
        Of the whole cluster, absolute.
    """
    groups = group_by_pins(brokers, partitions.topic)
    rule = rack_rule(brokers, groups, partitions.replication_factor)
    placed, loads, weights = partitions.replicas.copy(), loads.copy(), replica_weights(partitions)
    outside = groups.outside(placed) & (partitions.mobility == FREE)[:, None]
    counts = rack_histogram(np.where(outside, -1, placed), brokers.rack, len(brokers.rack_names))
    open_ = groups.allowed & brokers.accepts_replicas & ~brokers.must_empty
    ceiling = np.where(np.isfinite(limits.upper), np.maximum(limits.upper, 1.0), np.inf)
    rows = np.flatnonzero(outside.any(axis=1))
    for p in rows[np.argsort(-partitions.size_bytes[rows], kind="stable")].tolist():
        group = groups.of[p]
        for slot in np.flatnonzero(outside[p]).tolist():
            hosts = np.flatnonzero(open_[group] & ~_held(brokers, placed[p]))
            if not len(hosts):
                break
            rank = _rank(counts[p], int(rule.floor[p]), int(rule.cap[p]), rule.sizes[group])[brokers.rack[hosts]]
            full = ((loads[hosts] + weights[p]) / ceiling[hosts]).max(axis=1)
            target = int(hosts[np.lexsort((full, rank))[0]])
            loads[placed[p, slot]] -= weights[p]
            loads[target] += weights[p]
            placed[p, slot] = target
            counts[p, brokers.rack[target]] += 1
    return placed


def _held(brokers: Brokers, replicas: Ints) -> Bools:
    held = np.zeros(len(brokers), dtype=bool)
    held[replicas[replicas >= 0]] = True
    return held
