"""What an operator may request for a cluster: in its own table, or in ``[policy]`` for every cluster."""

from dataclasses import dataclass

from optimizer.setting_checks import between, refuse
from optimizer.topic_policy import Pin, TopicFactor

NO_LIMIT = 2**62  # larger than any quantity, and still a 64-bit number
ONLY = RACKS, DRAIN, LEADERS, DEMOTE, DIRS = "racks", "drain", "leaders", "demote", "dirs"
FAILOVER_SPREADS = FEW, CHANGED, OFF = "few", "changed", "off"
BYTES_PER_GB = 10**9  # decimal unit, a power of 1000
BROKER_LISTS = ("drain_brokers", "exclude_brokers", "demote_brokers")


@dataclass(frozen=True, kw_only=True)
class MoveLimit:
    """The most that the plan of one cluster may copy, in bytes and replicas; ``NO_LIMIT`` if there is no limit."""

    moved_bytes: int = NO_LIMIT
    moves: int = NO_LIMIT


@dataclass(frozen=True, kw_only=True)
class ClusterPolicy:
    """What is requested for a cluster; an empty value or 0 requests nothing.

    Parameters
    ----------
    drain_brokers, exclude_brokers, demote_brokers : tuple of int
        Ids of brokers to empty; that accept no replicas; that should not be preferred leaders.
    pins : tuple of Pin
    replication_factors : tuple of TopicFactor
    max_moved_gb, max_moves : float, int
        The most that the plan may copy: 10^9 bytes, replicas.
    only : str
        One of ``ONLY``: the only thing that the plan changes.
    """

    section = "policy of a cluster"

    drain_brokers: tuple[int, ...] = ()
    exclude_brokers: tuple[int, ...] = ()
    demote_brokers: tuple[int, ...] = ()
    pins: tuple[Pin, ...] = ()
    replication_factors: tuple[TopicFactor, ...] = ()
    max_moved_gb: float = 0.0
    max_moves: int = 0
    only: str = ""

    def __post_init__(self) -> None:
        if self.only and self.only not in ONLY:
            remedy = f"use one of {', '.join(ONLY)}, or leave it out for a plan that may change everything"
            refuse(f"{self.section} only", self.only, remedy)
        limits = {"max_moved_gb": self.max_moved_gb, "max_moves": self.max_moves}
        between(self.section.strip("[]"), limits, 0, 10**9)

    def over(self, general_policy: "ClusterPolicy") -> "ClusterPolicy":
        """Merge this policy with that of all clusters: lists are joined; this policy's other values override."""
        brokers = {name: tuple(sorted({*getattr(self, name), *getattr(general_policy, name)})) for name in BROKER_LISTS}
        return ClusterPolicy(
            **brokers,
            pins=(*general_policy.pins, *self.pins),
            replication_factors=(*general_policy.replication_factors, *self.replication_factors),
            max_moved_gb=self.max_moved_gb or general_policy.max_moved_gb,
            max_moves=self.max_moves or general_policy.max_moves,
            only=self.only or general_policy.only,
        )

    def brokers(self, name: str) -> tuple[int, ...]:
        """One of ``BROKER_LISTS``."""
        listed: tuple[int, ...] = getattr(self, name)
        return listed

    @property
    def move_limit(self) -> MoveLimit:
        """The most that the plan may copy."""
        moved_bytes = round(self.max_moved_gb * BYTES_PER_GB) if self.max_moved_gb else NO_LIMIT
        return MoveLimit(moved_bytes=moved_bytes, moves=self.max_moves or NO_LIMIT)
