"""Bytes that the copies of one cluster send from rack to rack, and what leading from leaving replicas would save."""

from dataclasses import dataclass

import numpy as np

from optimizer.domain import Bools, Brokers, Cluster, Ints
from optimizer.schedule.flows import cross_rack_bytes, known_racks, near_leader_bytes
from optimizer.schedule.wave_changes import bytes_per_broker, same_slots, without

COLUMNS = ("copied_bytes", "cross_rack_bytes", "near_leader_bytes", "near_leader_partitions")


@dataclass(frozen=True)
class Crossings:
    """Sums over the partitions that each broker leads at present, each (B,).

    Parameters
    ----------
    copied_bytes, cross_rack_bytes : int64
        Bytes of the copies that it sends; of them, those to other racks.
    near_leader_bytes : int64
        Bytes that would not cross racks if a leaving replica in the target's rack led during the copy.
    near_leader_partitions : int64
        Partitions that would need this other leader.
    """

    copied_bytes: Ints
    cross_rack_bytes: Ints
    near_leader_bytes: Ints
    near_leader_partitions: Ints


def crossings(cluster: Cluster, before: Ints, after: Ints, in_sync: Ints) -> Crossings | None:
    """The sums for the copies from the lists ``before`` to ``after``; None if racks are unknown or do not matter.

    Parameters
    ----------
    before, after, in_sync : (P, W) int64
        Broker indices, padded with -1; the widths may differ.
    """
    brokers, partitions = cluster.brokers, cluster.partitions
    if not brokers.racks_matter:
        return None
    source, copied, added = partitions.leader, partitions.bytes_to(brokers.skips_tiered[after]), without(after, before)
    crossing = cross_rack_bytes(added, source, copied, known_racks(brokers))
    saved = near_leaders(brokers, before, after, in_sync, source, copied).saved_bytes

    def per_leader(amounts: Ints) -> Ints:
        return bytes_per_broker(source[:, None], amounts, len(brokers))

    return Crossings(
        copied_bytes=per_leader((copied * (added >= 0)).sum(axis=1)),
        cross_rack_bytes=per_leader(crossing),
        near_leader_bytes=per_leader(saved),
        near_leader_partitions=per_leader((saved > 0).astype(np.int64)),
    )


@dataclass(frozen=True)
class NearLeaders:
    """Leaving replicas in the racks of the copies' targets, which could lead while the copies run.

    Parameters
    ----------
    leader : (P,) int64
        The replica that saves most bytes between racks; -1 if none saves any.
    saved_bytes : (P,) int64
    """

    leader: Ints
    saved_bytes: Ints


def near_leaders(
    brokers: Brokers, before: Ints, after: Ints, in_sync: Ints, source: Ints, copy_bytes: Ints
) -> NearLeaders:
    """The near leader of each partition for the copies from the lists ``before`` to ``after``.

    Parameters
    ----------
    before, after, in_sync : (P, W) int64
        Broker indices, padded with -1; the widths may differ.
    source : (P,) int64
        Present leader, -1 without one.
    copy_bytes : (P, W) int64
        Of a copy to each broker of ``after``.
    """
    rack, added, removed = known_racks(brokers), without(after, before), without(before, after)
    can_lead = _may_lead_meanwhile(brokers)[removed] & same_slots(removed, in_sync).any(axis=2)
    candidates = np.where(can_lead, removed, -1)
    crossing = [near_leader_bytes(added, source, copy_bytes, rack, candidate[:, None]) for candidate in candidates.T]
    saved = cross_rack_bytes(added, source, copy_bytes, rack) - np.array(crossing)
    best, column = saved.argmax(axis=0), np.arange(len(source))
    return NearLeaders(np.where(saved[best, column] > 0, candidates[column, best], -1), saved[best, column])


def _may_lead_meanwhile(brokers: Brokers) -> Bools:
    """Live brokers, (B,), except those that the policy demotes: these should lead nothing."""
    is_draining = np.array([state == "draining" for state in brokers.state], dtype=bool)
    return brokers.is_live & (brokers.accepts_leadership | is_draining)
