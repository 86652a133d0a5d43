"""The rack rule: how many replicas of a partition a rack may and must hold.

With R racks that have living brokers, each rack holds at most ``ceil(RF / R)`` replicas and, if RF > R, at least
``floor(RF / R)``. If racks are too small for that (a rack of one broker), the cap is the smallest k with
``sum_r min(k, n_r) >= RF``: the most even spread. If fewer than RF brokers accept replicas, brokers that keep their
replicas count too.
"""

import numpy as np

from optimizer.domain import Brokers, Ints


def live_rack_sizes(brokers: Brokers) -> Ints:
    """Brokers that may hold replicas after the plan, per rack, (R,)."""
    return np.bincount(brokers.rack, ~brokers.must_empty & brokers.accepts_replicas, len(brokers.rack_names)).astype(
        np.int64
    )


def hosting_rack_sizes(brokers: Brokers) -> Ints:
    """Brokers that may hold or keep replicas, per rack, (R,): all except those to be emptied."""
    return np.bincount(brokers.rack, ~brokers.must_empty, len(brokers.rack_names)).astype(np.int64)


def busiest_share(replication_factor: int, sizes: Ints) -> float:
    """Replicas of one partition that the busiest broker holds on average, if replicas spread as evenly as racks allow
    (formula 10 of docs/solver.md).

    Parameters
    ----------
    sizes : (R,) int64
        Brokers of each rack that may hold replicas.

    Returns
    -------
    float
        The least f with ``sum_r min(f n_r, cap_r) >= RF`` and ``f n_r >= floor_r``; with even racks RF / brokers. A
        small rack fills up to its cap, so the brokers of the others hold more. At most 1.
    """
    used = sizes[sizes > 0]
    cap = np.minimum(_cap(replication_factor, used), used)
    floor = np.minimum(rack_floors(np.array([replication_factor]), used)[0], used)
    remaining, open_brokers = float(replication_factor), int(used.sum())
    for rack in np.argsort(cap / used, kind="stable") if cap.sum() > replication_factor else ():
        if remaining * used[rack] <= cap[rack] * open_brokers:
            return float(max(remaining / open_brokers, (floor / used).max()))
        remaining, open_brokers = remaining - float(cap[rack]), open_brokers - int(used[rack])
    return 1.0 if cap.sum() < replication_factor else float((cap / used).max(initial=0.0))


def _cap(replication_factor: int, sizes: Ints) -> int:
    k = 1
    while np.minimum(sizes, k).sum() < replication_factor and k < sizes.max(initial=1):
        k += 1
    return k


def rack_caps(replication_factor: Ints, sizes: Ints, hosts: Ints) -> Ints:
    """Most replicas of each partition in one rack, (P,) (formula 4 of docs/solver.md).

    Parameters
    ----------
    sizes, hosts : (R,) int64
        Brokers of each rack that may hold replicas; brokers that may hold or keep them.
    """
    values, inverse = np.unique(replication_factor, return_inverse=True)
    enough = sizes.sum()
    return np.array([_cap(int(rf), sizes if rf <= enough else hosts) for rf in values], dtype=np.int64)[inverse]


def rack_floors(replication_factor: Ints, sizes: Ints) -> Ints:
    """Least replicas of each partition in a rack that is large enough, (P,): 0 if RF <= racks
    (formula 5 of docs/solver.md)."""
    racks = max(int((sizes > 0).sum()), 1)
    return np.where(replication_factor > racks, replication_factor // racks, 0)


def rack_histogram(replicas: Ints, rack: Ints, n_racks: int) -> Ints:
    """Replicas of each partition per rack, (P, R)."""
    counts = np.zeros((len(replicas), n_racks), dtype=np.int64)
    row, slot = np.nonzero(replicas >= 0)
    np.add.at(counts, (row, rack[replicas[row, slot]]), 1)
    return counts


def rack_disorder(histogram: Ints, cap: Ints, floor: Ints, sizes: Ints) -> Ints:
    """Replicas over the cap plus replicas missing to the floor, (P,): 0 if the rack rule is met."""
    over = np.maximum(histogram - cap[:, None], 0).sum(axis=1)
    missing = np.minimum(floor[:, None], sizes[None, :]) - histogram
    return np.asarray(over + np.maximum(missing, 0).sum(axis=1))
