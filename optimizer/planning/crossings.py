"""Bytes that the copies of one cluster send from rack to rack, by the broker that sends them."""

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
    rack, source, size = known_racks(brokers), partitions.leader, partitions.size_bytes
    added, removed = without(after, before), without(before, after)
    can_lead = _may_lead_meanwhile(brokers)[removed] & same_slots(removed, in_sync).any(axis=2)
    crossing = cross_rack_bytes(added, source, size, rack)
    saved = crossing - near_leader_bytes(added, source, size, rack, np.where(can_lead, removed, -1))

    def per_leader(amounts: Ints) -> Ints:
        return bytes_per_broker(source[:, None], amounts, len(brokers))

    return Crossings(
        copied_bytes=per_leader(size * (added >= 0).sum(axis=1)),
        cross_rack_bytes=per_leader(crossing),
        near_leader_bytes=per_leader(saved),
        near_leader_partitions=per_leader((saved > 0).astype(np.int64)),
    )


def _may_lead_meanwhile(brokers: Brokers) -> Bools:
    """Live brokers, (B,), except those that the policy demotes: these should lead nothing."""
    is_draining = np.array([state == "draining" for state in brokers.state], dtype=bool)
    return brokers.is_live & (brokers.accepts_leadership | is_draining)
