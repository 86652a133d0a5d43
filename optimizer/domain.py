"""One cluster as arrays: the data of the pure code (solve, schedule, audit's callers).

Sets: brokers b = 0..B-1 (ascending broker id), partitions p = 0..P-1 (ascending topic, partition), racks r = 0..R-1
(ascending name). Data are integers: bytes and bytes per second. A replica list is a row of ``replicas``, padded with
-1.
"""

from dataclasses import dataclass, fields
from enum import Enum, StrEnum, auto
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from optimizer.cluster_policy import NO_LIMIT

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

FREE, FORCED_ONLY, FIXED, RACKS_ONLY, ORDER_ONLY = range(5)  # codes of mobility in arrays: indices into MOBILITY
STAYING = (FIXED, ORDER_ONLY)  # no replica of such a partition moves
NOT_LIVE = ("dead", "fenced")
MOBILITY = ("free", "forced_only", "fixed", "racks_only", "order_only")
# A topic config of Confluent: which brokers may hold its replicas.
PLACEMENT_RULE = "confluent.placement.constraints"
# A config of brokers: their new replicas copy only what is not in tiered storage yet (KIP-1023, Kafka 4.3).
TIERED_FETCH = "follower.fetch.last.tiered.offset.enable"
# Values of ``copy_source`` of tiered topics: the offsets of the partition are known, or not.
TIERED_SOURCES = OFFSETS, UPPER_BOUND = "offsets", "upper_bound"
WHOLE_PLAN = 0  # wave number that means the whole plan
CORDON_LEFT = "cordon_left"  # finding about the input: an earlier plan's cordon of a broker that no plan empties now
# Why a replica moves, most urgent first: data at risk, then requests, then balance. A partition counts by its most
# urgent replica. Limited plans and waves both use this order.
URGENCY = ("dead", "rack", "drain", "pin", "replication", "balance")
REORDERED = "leader"  # the reason if only the order of a list changes: nothing is copied
# Why a partition changes, most urgent first.
REASONS = (*URGENCY, REORDERED)


class FindingCode(StrEnum):
    """The kind of a finding. Code compares these; ``optimizer.wording`` has the texts for people."""

    STOPS_WRITES = "stops_writes"
    RACK_EMPTIED = "rack_emptied"
    NEWLY_EXPOSED = "newly_exposed"
    UNDER_REPLICATED = "under_replicated"
    LOSES_RECORDS = "loses_records"
    WAVE_TOO_LONG = "wave_too_long"
    BAND = "band"
    LEADER_BAND = "leader_band"
    RACK_SPREAD = "rack_spread"
    TOPIC_SPREAD = "topic_spread"
    TOPIC_LEADER_SPREAD = "topic_leader_spread"
    NOT_EMPTIED = "not_emptied"
    NOT_PINNED = "not_pinned"
    NOT_RESIZED = "not_resized"
    NOT_FREE = "not_free"
    UNEXPLAINED = "unexplained"
    LIMITED = "limited"
    LEFT_FOR_DISK = "left_for_disk"
    NOT_ASKED_NOW = "not_asked_now"
    WAITS_TO_START = "waits_to_start"
    ONE_REPLICA = "one_replica"
    PIN = "pin"
    REPLICATION_FACTOR = "replication_factor"
    NO_SPARE_REPLICA = "no_spare_replica"
    COPIED_FOR_SYNC = "copied_for_sync"
    LOG_DIR_FILLS = "log_dir_fills"
    LOG_DIR_OVER = "log_dir_over"
    DIR_BAND = "dir_band"
    DIRS_NOT_BALANCED = "dirs_not_balanced"
    PIN_UNUSED = "pin_unused"
    FACTOR_UNUSED = "factor_unused"
    TOPICS_UNUSED = "topics_unused"
    EXCLUDE_UNUSED = "exclude_unused"
    ACKS_UNUSED = "acks_unused"
    SHARD_FAILED = "shard_failed"
    SHARD_OUT_OF_TIME = "shard_out_of_time"
    DEAD_BROKER = "dead_broker"
    FENCED_BROKER = "fenced_broker"
    NO_RACKS = "no_racks"
    NESTED_RACKS = "nested_racks"
    NO_DISK_CAPACITY = "no_disk_capacity"
    NO_LOG_DIR_CAPACITY = "no_log_dir_capacity"
    NO_NETWORK_CAPACITY = "no_network_capacity"
    NO_RATES = "no_rates"
    TIERED_UPPER_BOUND = "tiered_upper_bound"


class Cause(StrEnum):
    """Why something stays as it is, if that is known."""

    # Why a living broker receives no replica; the first also why a partition is not free.
    FAILED_DIRECTORY = "failed_directory"
    IN_SYNC_NOWHERE = "in_sync_nowhere"
    CORDONED = "cordoned"
    ONLY_LISTED = "only_listed"
    # Why a partition is not free.
    IN_FLIGHT = "in_flight"
    MOVE_CANNOT_END = "move_cannot_end"
    LEADERLESS = "leaderless"
    NO_IN_SYNC_REPLICA = "no_in_sync_replica"
    ALL_REPLICAS_DEAD = "all_replicas_dead"
    ON_FENCED_BROKER = "on_fenced_broker"
    OUT_OF_SYNC = "out_of_sync"  # also of a replication factor: Kafka would not end the reassignment
    PIN_TOO_SMALL = "pin_too_small"
    OWN_PLACEMENT_RULE = "own_placement_rule"
    TOPIC_EXCLUDED = "topic_excluded"
    ONLY = "only"
    # Why a partition keeps its replication factor.
    TOO_FEW_BROKERS = "too_few_brokers"
    UNDER_MIN_IN_SYNC = "under_min_in_sync"
    # Why a partition is not repaired.
    NOT_FREE = "not_free"
    NO_MORE_ROUNDS = "no_more_rounds"
    MOVE_LIMIT = "move_limit"
    NO_DISK_ROOM = "no_disk_room"
    NO_ORDER_OF_COPIES = "no_order_of_copies"
    NO_DIRECTORY_ROOM = "no_directory_room"
    # Why a load is outside its band.
    BAND_ENDS_AT_DISK = "band_ends_at_disk"
    MAY_NOT_LEAVE = "may_not_leave"
    MAY_NOT_COME = "may_not_come"
    LARGE_PARTITION = "large_partition"
    WHOLE_RACK = "whole_rack"
    STEPS_TOO_LARGE = "steps_too_large"


@dataclass(frozen=True)
class PinMask:
    """Topics that may have replicas on some brokers only.

    Parameters
    ----------
    topics : str
        Regular expression, whole name.
    allowed : (B,) bool
    """

    topics: str
    allowed: Bools


@dataclass(frozen=True)
class LogDir:
    """A log directory of a broker.

    Parameters
    ----------
    path : str
    capacity_bytes : int, optional
        None if unknown.
    used_bytes, logs : int
        Bytes and logs that it holds.
    is_open : bool
        The directory has not failed, so the broker creates logs in it.
    """

    path: str
    capacity_bytes: int | None
    used_bytes: int
    logs: int
    is_open: bool

    def limit_bytes(self, headroom: float) -> int | None:
        """Most bytes at any time if this share must stay free; None if the capacity is unknown."""
        return int(self.capacity_bytes * (1 - headroom)) if self.capacity_bytes else None


@dataclass(frozen=True)
class Brokers:
    """Brokers of one cluster, ascending by id.

    Parameters
    ----------
    ids : (B,) int64
    rack : (B,) int64
        Index into ``rack_names``; if racks are not used, every broker is its own rack.
    rack_names : tuple of str
        Empty for a dead broker without a known rack.
    accepts_replicas, accepts_leadership, must_empty : (B,) bool
    disk_capacity_bytes, in_capacity_bytes_per_s, out_capacity_bytes_per_s : (B,) int64
        -1 if unknown. The disk is a limit; all three are weights for the bands.
    state : tuple of str
        alive, new, draining, dead or fenced.
    racks_matter : bool
        False if no broker has a rack or the policy ignores racks.
    pins : tuple of PinMask
        Ascending by pattern; if several pins match a topic, all of them apply.
    log_dirs : tuple of tuple of LogDir
        Directories of each broker, ascending by path; empty if none are known.
    skips_tiered : (B,) bool
        A new replica copies only what is not in tiered storage yet (``TIERED_FETCH``).
    """

    ids: Ints
    rack: Ints
    rack_names: tuple[str, ...]
    accepts_replicas: Bools
    accepts_leadership: Bools
    must_empty: Bools
    disk_capacity_bytes: Ints
    in_capacity_bytes_per_s: Ints
    out_capacity_bytes_per_s: Ints
    state: tuple[str, ...]
    racks_matter: bool
    skips_tiered: Bools
    pins: tuple[PinMask, ...] = ()
    log_dirs: tuple[tuple[LogDir, ...], ...] = ()

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def is_live(self) -> Bools:
        """Brokers that Kafka's tool accepts in a replica list, (B,)."""
        return np.array([state not in NOT_LIVE for state in self.state], dtype=bool)


def only_in(lists: Ints, others: Ints) -> Bools:
    """Replicas of ``lists`` on brokers that ``others``, of the same partitions, do not name, (P, W)."""
    return np.asarray((lists[:, :, None] != others[:, None, :]).all(axis=2) & (lists >= 0))


def less_headroom(capacity_bytes: Ints, headroom: float) -> Floats:
    """Most bytes that each broker may hold, (B,) (formula 6 of docs/solver.md); +inf if unknown (-1, 0)."""
    return np.where(capacity_bytes > 0, capacity_bytes.astype(np.float64) * (1 - headroom), np.inf)


class As(Enum):
    """How a column of ``instance`` becomes an array."""

    OBJECT = auto()
    NUMBER = auto()
    BROKER = auto()  # index of a broker; -1 if there is none or it is unknown
    REPLICAS = auto()  # a row of indices for each list; null is an empty list
    MOBILITY = auto()  # index into MOBILITY


@dataclass(frozen=True)
class Column:
    """How a field is made from the column of the same name; ``missing``, a value or another column, replaces null."""

    how: As
    missing: int | str | None = None


@dataclass(frozen=True)
class Partitions:
    """Partitions of one cluster, ascending by topic and partition.

    Parameters
    ----------
    topic : (P,) object
    partition : (P,) int64
    replicas : (P, W) int64
        Broker *indices* in order, padded with -1. W is at least the largest ``replication_factor``.
    leader : (P,) int64
        Broker index of the current leader, -1 when leaderless.
    isr, elr : (P, W) int64
        Broker indices of the in-sync and of the eligible leader replicas, padded with -1; none if they are unknown.
    replication_factor : (P,) int64
        Requested replication factor: the length of the list unless the policy changes it.
    size_bytes, in_bytes_per_s, out_bytes_per_s : (P,) int64
    copy_bytes, tiered_copy_bytes : (P,) int64
        Bytes of one copy, to a broker that does not skip tiered segments and to one that does: at most ``size_bytes``.
    mobility : (P,) int64
        FREE, FORCED_ONLY, FIXED, RACKS_ONLY or ORDER_ONLY.
    topic_most_replicas : (P,) int64
        Most replicas of the partition's topic on one broker; ``NO_LIMIT`` if there is no limit.
    topic_most_leaders : (P,) int64
        Most preferred leaders of the partition's topic on one broker; ``NO_LIMIT`` if there is no limit.
    """

    topic: Annotated[NDArray[np.object_], Column(As.OBJECT)]
    partition: Annotated[Ints, Column(As.NUMBER)]
    replicas: Annotated[Ints, Column(As.REPLICAS)]
    leader: Annotated[Ints, Column(As.BROKER, missing=-1)]
    isr: Annotated[Ints, Column(As.REPLICAS)]
    elr: Annotated[Ints, Column(As.REPLICAS)]
    replication_factor: Annotated[Ints, Column(As.NUMBER)]
    size_bytes: Annotated[Ints, Column(As.NUMBER)]
    in_bytes_per_s: Annotated[Ints, Column(As.NUMBER)]
    out_bytes_per_s: Annotated[Ints, Column(As.NUMBER)]
    copy_bytes: Annotated[Ints, Column(As.NUMBER, missing="size_bytes")]
    tiered_copy_bytes: Annotated[Ints, Column(As.NUMBER, missing="copy_bytes")]
    mobility: Annotated[Ints, Column(As.MOBILITY)]
    topic_most_replicas: Annotated[Ints, Column(As.NUMBER, missing=NO_LIMIT)]
    topic_most_leaders: Annotated[Ints, Column(As.NUMBER, missing=NO_LIMIT)]

    def __len__(self) -> int:
        return len(self.partition)

    @property
    def shrinks(self) -> Bools:
        """Whether a smaller replication factor is requested, (P,)."""
        return np.asarray(self.replication_factor < (self.replicas >= 0).sum(axis=1))

    def bytes_to(self, skips_tiered: Bools) -> Ints:
        """Bytes of a copy of each partition to brokers, (P, N), from their ``skips_tiered``, (N,) or (P, N)."""
        return np.where(skips_tiered, self.tiered_copy_bytes[:, None], self.copy_bytes[:, None])

    def stuck(self, lists: Ints) -> Bools:
        """Replicas of ``lists`` that were out of sync before the plan, (P, W). A new replica is in sync after it."""
        return only_in(lists, self.isr) & ~only_in(lists, self.replicas)

    def may_lose_records(self, lists: Ints) -> Bools:
        """Replicas of ``lists`` that may lack committed records: out of sync and not eligible to lead, (P, W)."""
        return self.stuck(lists) & only_in(lists, self.elr)

    def rows(self, rows: Ints) -> "Partitions":
        """Some of the partitions; a partition may appear more than once."""
        return Partitions(*(getattr(self, field.name)[rows] for field in fields(self)))


@dataclass(frozen=True)
class Cluster:
    """Brokers and partitions together."""

    cluster_id: str
    brokers: Brokers
    partitions: Partitions


@dataclass(frozen=True)
class Bands:
    """The range for each broker's load, per resource, in absolute units.

    Parameters
    ----------
    lower, upper : (B, D) float64
        D = len(``resources``); brokers that must empty have upper 0.
    """

    resources: tuple[str, ...]
    lower: Floats
    upper: Floats
