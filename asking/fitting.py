"""Whether the bytes of a cluster fit on the disks that accept replicas: sums that need no solver."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from optimizer.domain import less_headroom
from optimizer.planning.arrays import to_brokers, to_partitions
from optimizer.units import human_bytes


@dataclass(frozen=True)
class Shortage:
    """Disks that cannot hold what they must.

    Parameters
    ----------
    rack : str
        The rack that is too small; empty if the whole cluster is.
    needed_bytes, limit_bytes : int
        What it must hold at least, and what its disks may hold.
    """

    rack: str
    needed_bytes: int
    limit_bytes: int

    def words(self) -> str:
        """One sentence."""
        where = f"rack {self.rack}" if self.rack else "the brokers that accept replicas"
        missing = human_bytes(self.needed_bytes - self.limit_bytes)
        held = f"may hold {human_bytes(self.limit_bytes)}, but must hold {human_bytes(self.needed_bytes)}"
        return f"does not fit: {where} {held}: {missing} more"


def shortage(instance: pd.DataFrame, hosts: pd.DataFrame, *, headroom: float) -> Shortage | None:
    """Disks that cannot hold what any plan puts on them; None if sums show no shortage, or a capacity is unknown.

    With R racks that accept replicas, and racks that matter, each rack holds at least ``factor // R`` replicas of a
    partition. Partitions with fewer replicas than racks may leave a rack out, so only the whole cluster counts them.

    Parameters
    ----------
    instance, hosts : DataFrame
        Rows of ``instance`` and ``instance_brokers`` of one cluster.
    """
    brokers = to_brokers(hosts)
    partitions = to_partitions(instance, brokers.ids)
    open_ = brokers.accepts_replicas
    if (brokers.disk_capacity_bytes[open_] < 0).any():
        return None
    limit = np.where(open_, less_headroom(brokers.disk_capacity_bytes, headroom), 0)
    # Replicas that may stay on a broker that accepts none, such as a fenced one, need no other disk.
    stays = ~open_ & ~brokers.must_empty
    held = np.where(partitions.replicas >= 0, stays[np.maximum(partitions.replicas, 0)], False).sum(axis=1)
    factor = np.maximum(partitions.replication_factor - held, 0)
    shortages = [Shortage("", int((factor * partitions.size_bytes).sum()), int(limit.sum()))]
    if brokers.racks_matter:
        racks = np.unique(brokers.rack[open_])
        per_rack = int((factor // len(racks) * partitions.size_bytes).sum())
        sums = [int(limit[brokers.rack == rack].sum()) for rack in racks]
        shortages += [
            Shortage(brokers.rack_names[rack], per_rack, total) for rack, total in zip(racks, sums, strict=True)
        ]
    missing = [each for each in shortages if each.needed_bytes > each.limit_bytes]
    return max(missing, key=lambda each: each.needed_bytes - each.limit_bytes, default=None)
