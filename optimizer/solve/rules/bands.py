"""Loads of brokers, the load that each rack can reach, and the balance bands around it.

For resource d with load w_pd per replica, rack r can hold between ``lo_rd = sum_p w_pd * floor_p`` and
``hi_rd = sum_p w_pd * min(cap_p, n_r)``, because the rack rule limits its replicas of each partition. Water filling
shares the total over the racks between these two. Inside a rack the load is shared by weight: by capacity if brokers
differ, else equally. The band of broker b is ``mu_bd * (1 -+ width_d)``.
"""

from dataclasses import dataclass

import numpy as np

from optimizer.domain import Bands, Bools, Brokers, Cluster, Floats, Ints, Partitions, less_headroom
from optimizer.settings import Policy
from optimizer.solve.rules import resources
from optimizer.solve.rules.racks import hosting_rack_sizes, live_rack_sizes, rack_caps, rack_floors
from optimizer.solve.rules.resources import DISK, REPLICAS

SETTLED = 1e-9  # mean broker loads outside the bands that count as none: rounding of float sums
ROUNDING = 1e-12  # share of a load: rounding of a band's end
COUNT_ROUNDING = 1e-9  # replicas, leaders: rounding of a band's end that is a whole number
POURED = 1e-9  # share of the total: rounding of the sum of all shares


def replica_weights(partitions: Partitions) -> Floats:
    """Load of one replica, (P, D), in the units of the resources."""
    names = [resource.column for resource in resources.PLACEMENT_RESOURCES]
    columns = [np.ones(len(partitions)) if name is None else getattr(partitions, name) for name in names]
    return np.stack([c.astype(np.float64) for c in columns], axis=1)


def broker_loads(n_brokers: int, replicas: Ints, weights: Floats) -> Floats:
    """Load of each broker, (B, D), for a placement of broker indices padded with -1."""
    row, slot = np.nonzero(replicas >= 0)
    host = replicas[row, slot]
    return np.stack([np.bincount(host, weights[row, d], n_brokers) for d in range(weights.shape[1])], axis=1)


def led_bytes_per_s(replicas: Ints, partitions: Partitions) -> Ints:
    """Bytes out of the leader of each partition, (P,): what consumers read, and what is produced for each follower."""
    followers = (replicas >= 0).sum(axis=1) - 1
    return partitions.out_bytes_per_s + followers * partitions.in_bytes_per_s


def leader_loads(n_brokers: int, replicas: Ints, partitions: Partitions) -> Floats:
    """Leaders and bytes out per second of each broker, (B, 2), when the first replica leads."""
    out, first = led_bytes_per_s(replicas, partitions), replicas[:, 0]
    return np.stack([np.bincount(first, None, n_brokers), np.bincount(first, out, n_brokers)], axis=1).astype(
        np.float64
    )


def pour(total: float, weight: Floats, low: Floats, high: Floats) -> Floats:
    """Share ``total`` in proportion to ``weight`` with each share kept in [low, high] (water filling).

    If the shares can't add up to the total, their sum is as near to it as possible.

    References
    ----------
    S. Boyd, L. Vandenberghe, Convex Optimization, Cambridge 2004, section 5.5.3.
    """
    share = np.zeros_like(weight)
    open_ = weight > 0
    share[~open_] = 0.0
    while open_.any():
        remaining = total - share[~open_].sum()
        level = remaining / weight[open_].sum()
        trial = weight * level
        over = np.where(open_, np.maximum(trial - high, 0), 0).sum()
        under = np.where(open_, np.maximum(low - trial, 0), 0).sum()
        if over <= POURED * max(total, 1) and under <= POURED * max(total, 1):
            share[open_] = trial[open_]
            return share
        fixed = open_ & ((trial > high) if over >= under else (trial < low))
        share[fixed] = high[fixed] if over >= under else low[fixed]
        open_ &= ~fixed
    return share


def broker_weights(brokers: Brokers, live: Bools) -> Floats:
    """Relative strength of each broker per resource, (B, D): its capacity if that is known for all living brokers.

    Replicas and disk follow the disk capacity. Bytes in follow the network capacity, or the disk capacity if the
    network's is unknown. Without any known capacity all brokers are equal.
    """
    disk = _relative(live.astype(np.float64), brokers.disk_capacity_bytes, live)
    return np.stack(
        [_relative(disk, getattr(brokers, resource.capacity), live) for resource in resources.PLACEMENT_RESOURCES],
        axis=1,
    )


def leader_weights(brokers: Brokers, may_lead: Bools) -> Floats:
    """Relative strength of each broker as a leader, (B,): network capacity out, else disk capacity, else equal."""
    disk = _relative(may_lead.astype(np.float64), brokers.disk_capacity_bytes, may_lead)
    return _relative(disk, brokers.out_capacity_bytes_per_s, may_lead)


def _relative(fallback: Floats, capacity: Ints, live: Bools) -> Floats:
    """Capacities divided by the mean of the living brokers, (B,); ``fallback`` if not all of these are known."""
    known = capacity[live]
    if not len(known) or (known <= 0).any():
        return fallback
    return np.where(live, capacity / known.mean(), 0.0)


@dataclass(frozen=True)
class Demand:
    """The load of the partitions, summed by replication factor.

    Parameters
    ----------
    replication_factor : (F,) int64
    load : (F, D) float64
        Load of one replica of each partition, summed over the partitions of that factor.
    """

    replication_factor: Ints
    load: Floats

    @property
    def total(self) -> Floats:
        """Load of all replicas, (D,)."""
        return np.asarray((self.load * self.replication_factor[:, None]).sum(axis=0))


def demand_of(partitions: Partitions) -> Demand:
    """Demand of explicit partitions."""
    factors, inverse = np.unique(partitions.replication_factor, return_inverse=True)
    load = np.zeros((len(factors), len(resources.PLACEMENT_RESOURCES)))
    np.add.at(load, inverse, replica_weights(partitions))
    return Demand(factors, load)


def reachable_means(brokers: Brokers, demand: Demand, loads: Floats) -> Floats:
    """Target load of each broker, absolute, (B, D) (formula 11 of docs/solver.md); 0 for brokers outside the balance.

    Load on brokers that keep their replicas and accept none is not shared.
    """
    live = brokers.accepts_replicas
    strength = broker_weights(brokers, live)
    sizes = live_rack_sizes(brokers)
    caps = rack_caps(demand.replication_factor, sizes, hosting_rack_sizes(brokers))
    floors = rack_floors(demand.replication_factor, sizes)
    n_racks = len(brokers.rack_names)
    means = np.zeros(strength.shape)
    stays = ~live & ~brokers.must_empty
    for d in range(strength.shape[1]):
        total = float(demand.total[d] - loads[stays, d].sum())
        rack_weight = np.bincount(brokers.rack, strength[:, d], n_racks).astype(np.float64)
        most = np.array([(demand.load[:, d] * np.minimum(caps, n)).sum() for n in sizes])
        least = np.array([(demand.load[:, d] * np.minimum(floors, n)).sum() for n in sizes])
        rack_total = pour(total, rack_weight, least, most)
        per_strength = np.divide(rack_total, rack_weight, out=np.zeros(n_racks), where=rack_weight > 0)
        means[:, d] = strength[:, d] * per_strength[brokers.rack]
    return means


def bands_for(brokers: Brokers, demand: Demand, loads: Floats, policy: Policy) -> Bands:
    """Bands of the placement resources (formula 12 of docs/solver.md); the disk limit lowers the upper end.

    Brokers that must empty have the band [0, 0]. Brokers that neither receive nor must empty have no band.
    """
    names = tuple(resource.name for resource in resources.PLACEMENT_RESOURCES)
    width = np.array([resource.band(policy) for resource in resources.PLACEMENT_RESOURCES])
    mean = reachable_means(brokers, demand, loads)
    lower, upper = mean * (1 - np.minimum(width, 1)), mean * (1 + width)
    lower[:, REPLICAS], upper[:, REPLICAS] = whole_band(lower[:, REPLICAS], upper[:, REPLICAS], mean[:, REPLICAS])
    upper[:, DISK] = np.minimum(upper[:, DISK], disk_limit(brokers, policy))
    lower = np.minimum(lower, upper)
    idle = ~brokers.accepts_replicas & ~brokers.must_empty
    lower[idle], upper[idle] = 0.0, np.inf
    lower[brokers.must_empty] = upper[brokers.must_empty] = 0.0
    return Bands(names, lower, upper)


def whole_band(lower: Floats, upper: Floats, mean: Floats) -> tuple[Floats, Floats]:
    """Least and largest whole number inside the band of a count, (B,) each.

    A band always includes the whole numbers around its mean, even if it is narrower.
    """
    least = np.minimum(np.ceil(lower - COUNT_ROUNDING), np.floor(mean))
    return least, np.maximum(np.floor(upper + COUNT_ROUNDING), np.ceil(mean))


def disk_limit(brokers: Brokers, policy: Policy) -> Floats:
    """Most bytes that each broker may hold, (B,); +inf if the disk is unknown."""
    return less_headroom(brokers.disk_capacity_bytes, policy.disk_headroom)


def bands(cluster: Cluster, policy: Policy) -> Bands:
    """Bands of a cluster given by its partitions."""
    partitions = cluster.partitions
    loads = broker_loads(len(cluster.brokers), partitions.replicas, replica_weights(partitions))
    return bands_for(cluster.brokers, demand_of(partitions), loads, policy)


def excess(loads: Floats, bands: Bands) -> Floats:
    """Load above (positive) or below (negative) the band, (B, D), in absolute units."""
    return np.maximum(loads - bands.upper, 0) - np.maximum(bands.lower - loads, 0)


def is_outside(loads: Floats, bands: Bands) -> Bools:
    """Whether a load counts as outside its band, (B, D); findings and figures use it for replicas and for leaders."""
    return np.asarray(np.abs(excess(loads, bands)) > ROUNDING * np.maximum(loads, bands.lower))


def broker_violations(loads: Floats, bands: Bands, scale: Floats) -> Floats:
    """Load of each broker outside its bands, in mean broker loads, summed over the resources, (B,)
    (formula 13 of docs/solver.md)."""
    return load_outside(loads, bands.lower, bands.upper, scale)


def load_outside(loads: Floats, lower: Floats, upper: Floats, scale: Floats) -> Floats:
    """Load outside bands, in mean broker loads, summed over the resources, (N,) (formula 13 of docs/solver.md).

    Parameters
    ----------
    loads, lower, upper : (N, D) float64
        Loads, and the ends of their bands.
    scale : (D,) float64
        Mean broker load.
    """
    return np.asarray(((np.maximum(loads - upper, 0) + np.maximum(lower - loads, 0)) / scale).sum(axis=1))


def fullness(loads: Floats, bands: Bands) -> Floats:
    """Load divided by the upper end of the band, for the resource with the largest ratio, (B,); above 1: over the band.

    Brokers without a band have 0; loaded brokers that must empty have infinity.
    """
    share = np.divide(loads, bands.upper, out=np.where(loads > 0, np.inf, 0.0), where=bands.upper > 0)
    return np.asarray(share.max(axis=1))


def load_scale(brokers: Brokers, demand: Demand) -> Floats:
    """Mean load of a broker that accepts replicas, per resource, (D,); at least 1, so that it can be a divisor."""
    return np.asarray(np.maximum(demand.total / max(int(brokers.accepts_replicas.sum()), 1), 1.0))
