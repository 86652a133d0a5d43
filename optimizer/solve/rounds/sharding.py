"""Split the brokers of a cluster into disjoint shards that can be solved alone with (nearly) no loss.

A shard is near the cluster's mean in every resource, and has as much load to shed as to take. It has brokers of every
rack. If every rack must hold the same number of replicas of each partition, replicas can't leave their racks, and a
shard has brokers of one rack: that loses nothing, and shards are as wide as possible. Brokers are dealt to shards in a
snake order by disk load, then improved by swaps inside racks. A seed draws the swaps: equal inputs give equal shards.
"""

import hashlib
from dataclasses import dataclass

import numpy as np

from optimizer.domain import Bands, Brokers, Floats, Ints
from optimizer.solve.rules.bands import SETTLED
from optimizer.solve.rules.resources import DISK
from optimizer.solve.tuning import Tuning

DEVIATION = 1.0  # weight of a shard's distance from the mean, relative to the load that it must shed or take
BETTER = 1e-12  # mean broker loads: a smaller gain may be rounding, and the next swap would undo it


def seed_of(*parts: object) -> int:
    """A stable 63-bit seed from names and numbers."""
    digest = hashlib.sha256("\x1f".join(map(str, parts)).encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def shard_counts(brokers: Brokers, replicas: float, *, shard_brokers: int, within_racks: bool, tuning: Tuning) -> Ints:
    """Number of shards of about ``shard_brokers`` brokers: for each rack, (R,), or for the whole cluster, (1,).

    Shards are smaller if one task could not check all their (replica, broker) pairs. Over all racks there are at most
    as many shards as the smallest rack has brokers.

    Parameters
    ----------
    replicas : float
        Of the whole cluster.
    """
    used = brokers.accepts_replicas
    sizes = np.bincount(brokers.rack[used], minlength=len(brokers.rack_names))
    count = int(used.sum())
    widest = max(1.0, np.sqrt(tuning.wide_cells * max(count, 1) / max(replicas, 1.0)))
    if within_racks:
        return np.maximum(np.ceil(sizes / min(shard_brokers, widest)), 1).astype(np.int64)
    shards = max(1, round(count / shard_brokers), int(np.ceil(count / widest)))
    most = int(sizes[sizes > 0].min(initial=shards)) if brokers.racks_matter else shards
    return np.array([max(1, min(shards, most))], dtype=np.int64)


def replicas_stay_in_racks(brokers: Brokers, replication_factor: Ints) -> bool:
    """Whether replicas can't change racks: RF is a multiple of racks, so every rack has the same number of replicas."""
    racks = len(np.unique(brokers.rack[brokers.accepts_replicas]))
    return brokers.racks_matter and racks > 1 and not bool((replication_factor % racks).any())


def _deal(rack: Ints, load: Floats, n_shards: int) -> Ints:
    order = np.lexsort((np.arange(len(rack)), -load, rack))
    lap, step = np.divmod(np.arange(len(rack)), n_shards)
    shard = np.empty(len(rack), dtype=np.int64)
    shard[order] = np.where(lap % 2 == 0, step, n_shards - 1 - step)
    return shard


@dataclass
class _Groups:
    """Sums of each shard: deviation from the mean, load to shed, load to take; (S, D) each."""

    features: Floats
    sums: Floats
    dims: int

    def cost(self, sums: Floats) -> Floats:
        """Cost of shards with the given feature sums, (N,)."""
        d = self.dims
        deviation, shed, take = sums[:, :d], sums[:, d : 2 * d], sums[:, 2 * d :]
        return np.asarray(DEVIATION * (deviation**2).sum(axis=1) + np.maximum(shed, take).sum(axis=1))


def _features(loads: Floats, bands: Bands, scale: Floats) -> Floats:
    upper = np.where(np.isfinite(bands.upper), bands.upper, loads)
    lower = np.where(np.isfinite(bands.upper), bands.lower, loads)
    middle = (upper + lower) / 2
    parts = (loads - middle, np.maximum(loads - upper, 0), np.maximum(lower - loads, 0))
    return np.concatenate([part / scale for part in parts], axis=1)


def _improve(shard: Ints, rack: Ints, groups: _Groups, seed: int, swaps: int) -> None:
    generator = np.random.default_rng(seed)
    members = [np.flatnonzero(rack == r) for r in np.unique(rack)]
    members = [m for m in members if len(np.unique(shard[m])) > 1]
    if not members:
        return
    share = np.array([len(m) for m in members], dtype=float)
    racks = generator.choice(len(members), size=swaps, p=share / share.sum())
    draws = generator.random((swaps, 2))
    for r, (x, y) in zip(racks, draws, strict=True):
        pool = members[r]
        a, b = int(pool[int(x * len(pool))]), int(pool[int(y * len(pool))])
        if shard[a] == shard[b]:
            continue
        pair = np.array([shard[a], shard[b]])
        change = groups.features[b] - groups.features[a]
        old = groups.sums[pair]
        new = old + np.stack([change, -change])
        if groups.cost(new).sum() < groups.cost(old).sum() - BETTER:
            groups.sums[pair] = new
            shard[a], shard[b] = shard[b], shard[a]


def _out_of_reach(shard: Ints, features: Floats, bands: Bands, scale: Floats) -> float:
    """Load of the shards outside the summed bands of their brokers, in mean broker loads."""
    d = scale.size
    n = int(shard.max(initial=0)) + 1
    width = np.where(np.isfinite(bands.upper), (bands.upper - bands.lower) / 2, 0.0) / scale
    total, room = np.zeros((n, d)), np.zeros((n, d))
    np.add.at(total, shard, features[:, :d])
    np.add.at(room, shard, width)
    return float(np.maximum(np.abs(total) - room, 0).sum())


def _split(
    rack: Ints, loads: Floats, features: Floats, bands: Bands, scale: Floats, count: int, seed: int, tuning: Tuning
) -> Ints:
    """Split brokers into ``count`` shards, or fewer if a broker is so full that only more brokers together can help."""
    whole = np.zeros(len(rack), dtype=np.int64)
    reach = _out_of_reach(whole, features, bands, scale) + SETTLED
    order = loads[:, DISK] if tuning.deals_by_load else np.random.default_rng(seed).random(len(rack))
    while count > 1:
        shard = _deal(rack, order, count)
        sums = np.zeros((count, features.shape[1]))
        np.add.at(sums, shard, features)
        _improve(shard, rack, _Groups(features, sums, loads.shape[1]), seed, tuning.deal_swaps)
        if _out_of_reach(shard, features, bands, scale) <= reach:
            return shard
        count //= 2
    return whole


def make_shards(
    brokers: Brokers, loads: Floats, bands: Bands, scale: Floats, *, counts: Ints, seed: int, tuning: Tuning
) -> Ints:
    """Shard of each broker, (B,), numbered from 0.

    Parameters
    ----------
    loads : (B, D) float64
        Current absolute loads.
    counts : (1,) or (R,) int64
        Number of shards over all racks, or in each rack: ``shard_counts``.
    """
    rack = brokers.rack if brokers.racks_matter else np.zeros(len(brokers), dtype=np.int64)
    features = _features(loads, bands, scale)
    groups = [np.arange(len(brokers))] if len(counts) == 1 else [np.flatnonzero(rack == r) for r in range(len(counts))]
    shard, first = np.zeros(len(brokers), dtype=np.int64), 0
    for members, count in zip(groups, counts.tolist(), strict=True):
        of_rack = Bands(bands.resources, bands.lower[members], bands.upper[members])
        shard_of_member = _split(rack[members], loads[members], features[members], of_rack, scale, count, seed, tuning)
        shard[members] = first + shard_of_member
        first = int(shard[members].max(initial=first - 1)) + 1
    return shard
