"""What an operator may ask of a cluster: in its own table, or in ``[policy]`` of every cluster."""

from dataclasses import dataclass

from optimizer.setting_checks import between, refuse
from optimizer.topic_policy import Pin, TopicFactor

NO_LIMIT = 2**62  # more than there is of anything, and still a 64-bit number
ONLY = RACKS, DRAIN, LEADERS, DEMOTE = "racks", "drain", "leaders", "demote"
BYTES_PER_GB = 10**9  # as people say GB: a power of 1000
BROKER_LISTS = ("drain_brokers", "exclude_brokers", "demote_brokers")


@dataclass(frozen=True, kw_only=True)
class MoveLimit:
    """What the plan of one cluster may copy at most: bytes, and replicas; ``NO_LIMIT`` where nothing is asked."""

    moved_bytes: int = NO_LIMIT
    moves: int = NO_LIMIT


@dataclass(frozen=True, kw_only=True)
class ClusterPolicy:
    """What is asked of a cluster; empty and 0 where nothing is.

    Parameters
    ----------
    drain_brokers, exclude_brokers, demote_brokers : tuple of int
        Ids of brokers to empty, to give no replica, to take preferred leaders off.
    pins : tuple of Pin
    replication_factors : tuple of TopicFactor
    max_moved_gb, max_moves : float, int
        What the plan may copy at most: 10^9 bytes, replicas.
    only : str
        One of ``ONLY``: what alone is to be mended.
    """

    section = "wishes"

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
            remedy = f"use one of {', '.join(ONLY)}, or leave it out to have all of it mended"
            refuse(f"{self.section} only", self.only, remedy)
        limits = {"max_moved_gb": self.max_moved_gb, "max_moves": self.max_moves}
        between(self.section.strip("[]"), limits, 0, 10**9)

    def over(self, policy: "ClusterPolicy") -> "ClusterPolicy":
        """The wishes of one cluster over those of all: of lists both, of the rest its own where it has any."""
        brokers = {name: tuple(sorted({*getattr(self, name), *getattr(policy, name)})) for name in BROKER_LISTS}
        return ClusterPolicy(
            **brokers,
            pins=(*policy.pins, *self.pins),
            replication_factors=(*policy.replication_factors, *self.replication_factors),
            max_moved_gb=self.max_moved_gb or policy.max_moved_gb,
            max_moves=self.max_moves or policy.max_moves,
            only=self.only or policy.only,
        )

    def brokers(self, name: str) -> tuple[int, ...]:
        """One of ``BROKER_LISTS``."""
        listed: tuple[int, ...] = getattr(self, name)
        return listed

    @property
    def move_limit(self) -> MoveLimit:
        """What the plan may copy at most."""
        moved_bytes = round(self.max_moved_gb * BYTES_PER_GB) if self.max_moved_gb else NO_LIMIT
        return MoveLimit(moved_bytes=moved_bytes, moves=self.max_moves or NO_LIMIT)
