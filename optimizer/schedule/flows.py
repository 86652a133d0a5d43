"""Where the copies of a plan go: between which racks, and what would stay inside a rack with another leader.

Kafka reads every copy from the partition's leader, so its present leader decides which bytes cross racks.
"""

from dataclasses import dataclass

import numpy as np

from optimizer.domain import Bools, Brokers, Ints
from optimizer.schedule.wave_changes import WaveChanges


@dataclass(frozen=True)
class RackFlow:
    """Copies between pairs of racks; one element for each wave and pair that has any, ascending.

    Parameters
    ----------
    wave, from_rack, to_rack : (K,) int64
        Number of the wave; numbers of the racks.
    copies, copied_bytes : (K,) int64
    """

    wave: Ints
    from_rack: Ints
    to_rack: Ints
    copies: Ints
    copied_bytes: Ints


def known_racks(brokers: Brokers) -> Ints:
    """The number of each broker's rack, (B,), an index into ``rack_names``; -1 if it is unknown or does not matter."""
    is_named = np.array([bool(name) for name in brokers.rack_names], dtype=bool)
    return np.where(is_named[brokers.rack] & brokers.racks_matter, brokers.rack, -1)


def rack_flow(changes: WaveChanges, wave: Ints, rack: Ints) -> RackFlow:
    """Sum the copies by wave and racks; without copies of leaderless partitions, and without unknown racks.

    Parameters
    ----------
    wave : (N,) int64
        Wave of each change.
    rack : (B,) int64
        See ``known_racks``.
    """
    row, slot = np.nonzero((changes.added >= 0) & (changes.source >= 0)[:, None])
    ends = np.stack([wave[row], rack[changes.source[row]], rack[changes.added[row, slot]]], axis=1)
    is_known = (ends[:, 1:] >= 0).all(axis=1)
    keys, number = np.unique(ends[is_known], axis=0, return_inverse=True)
    copied_bytes = np.zeros(len(keys), dtype=np.int64)
    np.add.at(copied_bytes, number.ravel(), changes.copy_bytes[row[is_known], slot[is_known]])
    copies = np.bincount(number.ravel(), minlength=len(keys))
    waves, from_rack, to_rack = keys.T
    return RackFlow(waves, from_rack, to_rack, copies, copied_bytes)


def cross_rack_bytes(added: Ints, source: Ints, copy_bytes: Ints, rack: Ints) -> Ints:
    """Bytes that the copies of each partition send to another rack, (N,).

    Parameters
    ----------
    added : (N, W) int64
        Brokers that receive a copy, padded with -1.
    source : (N,) int64
        Broker that sends the copies; -1 if leaderless.
    copy_bytes : (N, W) int64
        Bytes of each copy.
    rack : (B,) int64
        See ``known_racks``.
    """
    here, there = np.where(source >= 0, rack[source], -1)[:, None], np.where(added >= 0, rack[added], -1)
    return (copy_bytes * ((here >= 0) & (there >= 0) & (here != there))).sum(axis=1)


def near_leader_bytes(added: Ints, source: Ints, copy_bytes: Ints, rack: Ints, candidates: Ints) -> Ints:
    """Bytes that the copies of each partition send to another rack at least, (N,), if a candidate may send them.

    Parameters
    ----------
    candidates : (N, C) int64
        Brokers that could lead instead of ``source`` during the copies, padded with -1.
    """
    least = cross_rack_bytes(added, source, copy_bytes, rack)
    for candidate in candidates.T:
        other = np.where((candidate >= 0) & (source >= 0), candidate, source)
        least = np.minimum(least, cross_rack_bytes(added, other, copy_bytes, rack))
    return least


def takes_part(changes: WaveChanges, n_brokers: int) -> Bools:
    """Brokers that send or receive a copy, (B,)."""
    copied = changes.select(changes.copies > 0)
    involved = np.zeros(n_brokers, dtype=bool)
    involved[copied.source[copied.source >= 0]] = True
    involved[copied.added[copied.added >= 0]] = True
    return involved
