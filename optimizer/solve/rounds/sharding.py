"""Disjoint groups of brokers that can be solved alone and lose (nearly) nothing.

A shard sits near the cluster's mean in every resource and has as much to shed as to take. It holds brokers of every
rack; where every rack must hold the same number of replicas of each partition, so that replicas can't leave their
racks, it holds brokers of one rack instead: nothing is lost by that, and shards are as wide as they can be. Brokers are
dealt in a snake by disk load and then improved by swaps inside racks (the swaps are drawn from a seed, so equal inputs
give equal shards).
"""

import hashlib
from dataclasses import dataclass

import numpy as np

from optimizer.domain import Bands, Brokers, Floats, Ints
from optimizer.solve.rules.bands import SETTLED
from optimizer.solve.rules.resources import DISK
from optimizer.solve.tuning import Tuning

DEVIATION = 1.0  # weight of a shard's distance from the mean beside what it has to shed or to take
BETTER = 1e-12  # mean broker loads: a swap that gains less may be rounding, which the next one would turn back


def seed_of(*parts: object) -> int:
    """A stable 63-bit seed from names and numbers."""
    digest = hashlib.sha256("\x1f".join(map(str, parts)).encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def shard_counts(brokers: Brokers, replicas: float, *, shard_brokers: int, within_racks: bool, tuning: Tuning) -> Ints:
    """Shards of about ``shard_brokers`` brokers: of each rack, (R,), or one number for the cluster, (1,).

    They are smaller where so many brokers hold more (replica, broker) pairs than one task looks at whole, and over all
    racks never more than the smallest rack can serve.

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
    wanted = max(1, round(count / shard_brokers), int(np.ceil(count / widest)))
    most = int(sizes[sizes > 0].min(initial=wanted)) if brokers.racks_matter else wanted
    return np.array([max(1, min(wanted, most))], dtype=np.int64)


def replicas_stay_in_racks(brokers: Brokers, replication_factor: Ints) -> bool:
    """Every legal placement has the same number of replicas of a partition in each rack: RF is a multiple of racks."""
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
    """Sums per shard: deviation from the mean, load to shed, load to take; (S, D) each."""

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
    """Load that the shards hold above or below what the bands of their brokers hold together, in mean broker loads."""
    d = scale.size
    n = int(shard.max(initial=0)) + 1
    width = np.where(np.isfinite(bands.upper), (bands.upper - bands.lower) / 2, 0.0) / scale
    total, room = np.zeros((n, d)), np.zeros((n, d))
    np.add.at(total, shard, features[:, :d])
    np.add.at(room, shard, width)
    return float(np.maximum(np.abs(total) - room, 0).sum())


def _cut(
    rack: Ints, loads: Floats, features: Floats, bands: Bands, scale: Floats, count: int, seed: int, tuning: Tuning
) -> Ints:
    """Brokers in ``count`` shards, or fewer where a broker is so full that only more brokers together can level it."""
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
        Absolute loads now.
    counts : (1,) or (R,) int64
        Shards over all racks, or of each rack: ``shard_counts``.
    """
    rack = brokers.rack if brokers.racks_matter else np.zeros(len(brokers), dtype=np.int64)
    features = _features(loads, bands, scale)
    groups = [np.arange(len(brokers))] if len(counts) == 1 else [np.flatnonzero(rack == r) for r in range(len(counts))]
    shard, first = np.zeros(len(brokers), dtype=np.int64), 0
    for members, count in zip(groups, counts.tolist(), strict=True):
        of_rack = Bands(bands.resources, bands.lower[members], bands.upper[members])
        cut = _cut(rack[members], loads[members], features[members], of_rack, scale, count, seed, tuning)
        shard[members] = first + cut
        first = int(shard[members].max(initial=first - 1)) + 1
    return shard
