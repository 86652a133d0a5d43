"""Disjoint groups of brokers that can be solved alone and lose (nearly) nothing.

A shard holds brokers of every rack, sits near the cluster's mean in every resource, and has as much to shed as to
take; where the
replication factor reaches the number of racks, replicas stay inside racks, and all this must hold for each rack of each
shard. Brokers are dealt in a snake by disk load and then improved by swaps inside racks (random restarts are not
needed: the swaps are drawn from a seed, so equal inputs give equal shards).
"""

import hashlib
from dataclasses import dataclass

import numpy as np

from optimizer.domain import Bands, Brokers, Floats, Ints

SWAPS = 20_000
DEVIATION = 1.0


def seed_of(*parts: object) -> int:
    """A stable 63-bit seed from names and numbers."""
    digest = hashlib.sha256("\x1f".join(map(str, parts)).encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def shard_count(brokers: Brokers, *, shard_brokers: int) -> int:
    """Shards of about ``shard_brokers`` brokers; never more than the smallest rack can serve."""
    used = brokers.accepts_replicas
    wanted = max(1, round(int(used.sum()) / shard_brokers))
    if not brokers.racks_matter:
        return wanted
    sizes = np.bincount(brokers.rack[used], minlength=len(brokers.rack_names))
    return int(max(1, min(wanted, sizes[sizes > 0].min(initial=wanted))))


def _deal(rack: Ints, load: Floats, n_shards: int) -> Ints:
    order = np.lexsort((np.arange(len(rack)), -load, rack))
    position = np.arange(len(rack))
    lap, step = np.divmod(position, n_shards)
    shard = np.empty(len(rack), dtype=np.int64)
    shard[order] = np.where(lap % 2 == 0, step, n_shards - 1 - step)
    return shard


@dataclass
class _Groups:
    """Sums per group (shard, or shard and rack): deviation from the mean, load to shed, load to take; (G, D) each."""

    features: Floats
    sums: Floats
    dims: int

    def cost(self, sums: Floats) -> Floats:
        """Cost of groups with the given feature sums, (N,)."""
        d = self.dims
        deviation, shed, take = sums[:, :d], sums[:, d : 2 * d], sums[:, 2 * d :]
        return np.asarray(DEVIATION * (deviation**2).sum(axis=1) + np.maximum(shed, take).sum(axis=1))


def _features(loads: Floats, limits: Bands, scale: Floats) -> Floats:
    upper = np.where(np.isfinite(limits.upper), limits.upper, loads)
    lower = np.where(np.isfinite(limits.upper), limits.lower, loads)
    middle = (upper + lower) / 2
    parts = (loads - middle, np.maximum(loads - upper, 0), np.maximum(lower - loads, 0))
    return np.concatenate([part / scale for part in parts], axis=1)


def _improve(shard: Ints, rack: Ints, groups: _Groups, per_rack: bool, n_racks: int, seed: int) -> None:
    generator = np.random.default_rng(seed)
    members = [np.flatnonzero(rack == r) for r in range(n_racks)]
    members = [m for m in members if len(np.unique(shard[m])) > 1]
    if not members:
        return
    share = np.array([len(m) for m in members], dtype=float)
    racks = generator.choice(len(members), size=SWAPS, p=share / share.sum())
    draws = generator.random((SWAPS, 2))
    for r, (x, y) in zip(racks, draws, strict=True):
        pool = members[r]
        a, b = int(pool[int(x * len(pool))]), int(pool[int(y * len(pool))])
        if shard[a] == shard[b]:
            continue
        width = n_racks if per_rack else 1
        offset = rack[a] if per_rack else 0
        pair = np.array([shard[a] * width + offset, shard[b] * width + offset])
        change = groups.features[b] - groups.features[a]
        old = groups.sums[pair]
        new = old + np.stack([change, -change])
        if groups.cost(new).sum() < groups.cost(old).sum() - 1e-12:
            groups.sums[pair] = new
            shard[a], shard[b] = shard[b], shard[a]


def make_shards(
    brokers: Brokers, loads: Floats, limits: Bands, scale: Floats, *, n_shards: int, per_rack: bool, seed: int
) -> Ints:
    """Shard of each broker, (B,).

    Parameters
    ----------
    loads : (B, D) float64
        Absolute loads now.
    per_rack : bool
        Balance each rack of each shard (replicas can't leave their racks).
    """
    if n_shards == 1:
        return np.zeros(len(brokers), dtype=np.int64)
    n_racks = len(brokers.rack_names) if brokers.racks_matter else 1
    rack = brokers.rack if brokers.racks_matter else np.zeros(len(brokers), dtype=np.int64)
    shard = _deal(rack, loads[:, 1], n_shards)
    features = _features(loads, limits, scale)
    group = shard * n_racks + rack if per_rack else shard
    sums = np.zeros((n_shards * (n_racks if per_rack else 1), features.shape[1]))
    np.add.at(sums, group, features)
    _improve(shard, rack, _Groups(features, sums, loads.shape[1]), per_rack, n_racks, seed)
    return shard
