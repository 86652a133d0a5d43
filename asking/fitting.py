"""Whether the bytes of a cluster fit on the disks that accept replicas: sums that need no solver."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from asking.question import Question
from optimizer.domain import FORCED_ONLY, STAYING, Floats, Ints, less_headroom
from optimizer.planning.arrays import to_brokers, to_partitions
from optimizer.solve.rules.pins import group_by_pins
from optimizer.units import human_bytes

# Knobs of the policy that decide which brokers may hold replicas, how many there are, and how full disks may be.
_KNOBS = {"drain_brokers", "exclude_brokers", "pins", "replication_factors", "rack_policy", "disk_headroom"}


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


def may_change_fit(question: Question) -> bool:
    """Whether a question changes bytes, disks or the brokers that may hold replicas; other bands and limits do not."""
    lists = [ids for name, ids in question.added_to.items() if name in _KNOBS]
    changes_policy = any(lists) or question.keep or _KNOBS & question.knobs.get("policy", {}).keys()
    return question.changes_cluster or bool(changes_policy)


def shortage(instance: pd.DataFrame, hosts: pd.DataFrame, *, headroom: float) -> Shortage | None:
    """Disks that cannot hold what any plan puts on them; None if sums show no shortage, or a capacity is unknown.

    A partition that stays counts where it is. With R racks that accept replicas, and racks that matter, each rack holds
    at least ``factor // R`` replicas of a free partition, or one on each of its brokers. Partitions with fewer replicas
    than racks may leave a rack out, and pinned partitions may use some racks only: so only the whole cluster counts
    them.

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
    placed, broker = partitions.replicas >= 0, np.maximum(partitions.replicas, 0)
    on_open = placed & open_[broker]
    # Replicas that may stay on a broker that accepts none, such as an excluded one, need no other disk.
    kept = placed & (~open_ & ~brokers.must_empty)[broker]
    staying = np.isin(partitions.mobility, STAYING)

    def short(rack: str, least: Ints, limits: Floats) -> Shortage:
        return Shortage(rack, int((least * partitions.size_bytes).sum()), int(limits.sum()))

    moving = np.maximum(partitions.replication_factor - kept.sum(axis=1), 0)
    shortages = [short("", np.where(staying, on_open.sum(axis=1), moving), limit)]
    if brokers.racks_matter:
        is_pinned = group_by_pins(brokers, partitions.topic).of > 0
        racks = np.unique(brokers.rack[open_])
        elsewhere = (kept & ~np.isin(brokers.rack, racks)[broker]).sum(axis=1)
        share = np.where(is_pinned, 0, np.maximum(partitions.replication_factor - elsewhere, 0) // len(racks))
        for rack in racks:
            in_rack = brokers.rack == rack
            in_this = in_rack[broker]
            spread = np.minimum(share, (open_ & in_rack).sum()) - (kept & in_this).sum(axis=1)
            # An excluded partition keeps its replicas, except on brokers to empty.
            unmoved = staying | (partitions.mobility == FORCED_ONLY)
            least = np.where(unmoved, (on_open & in_this).sum(axis=1), np.maximum(spread, 0))
            shortages.append(short(brokers.rack_names[rack], least, limit[in_rack]))
    missing = [each for each in shortages if each.needed_bytes > each.limit_bytes]
    return max(missing, key=lambda each: each.needed_bytes - each.limit_bytes, default=None)
