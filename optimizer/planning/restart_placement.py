"""Replicas of all partitions before or after a plan: what a batch of restarted brokers does to them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from optimizer.domain import Bools, Brokers, Floats, Ints
from optimizer.kafka.throttle import FOLLOWER_RATE
from optimizer.planning.arrays import replica_matrix
from optimizer.planning.exposed import UNKNOWN_MIN_ISR, members

NEVER = -1  # seconds
# Why a partition takes no writes, or keeps no spare replica, in any order.
ONE_REPLICA, ALL_REQUIRED, SHORT, NO_SPARE = "one_replica", "min_isr_is_factor", "already_short", "no_spare"


@dataclass(frozen=True)
class Placement:
    """Replicas of all partitions, and the batches that they allow.

    Parameters
    ----------
    in_sync : (P, W) int64
        Broker indices, -1 pads.
    leader : (P,) int64
        Its index, -1 without one.
    min_isr, factor : (P,) int64
        min.insync.replicas, and the number of replicas without observers.
    may_restart : (B,) bool
    spare : int
        Replicas above min.insync.replicas that stay up where there are so many.
    clients : (P,) int64
        Bytes per second that clients write and read.
    received, limit : (B,) float64
        Bytes per second that are written to the replicas of each broker; the most that it can receive: its throttle,
        or its network; NaN if unknown.
    seconds : int
        How long a broker is down.
    """

    in_sync: Ints
    leader: Ints
    min_isr: Ints
    factor: Ints
    may_restart: Bools
    spare: int
    clients: Ints
    received: Floats
    limit: Floats
    seconds: int

    @cached_property
    def count(self) -> Ints:
        """Replicas in sync, (P,)."""
        return np.asarray((self.in_sync >= 0).sum(axis=1))

    @property
    def slack(self) -> Ints:
        """How many in-sync replicas may be down while writes go on, (P,); a spare never makes it less than 1."""
        slack = self.count - self.min_isr
        return np.where(slack > 0, np.maximum(slack - self.spare, 1), slack)

    @property
    def may_be_down(self) -> Ints:
        """How many in-sync replicas may be down together, (P,). If writes stop in any order, one stays for reads."""
        return np.where(self.slack > 0, self.slack, self.count - 1)

    def down(self, batch: Sequence[int]) -> Ints:
        """How many in-sync replicas of each partition are in a batch, (P,)."""
        return np.asarray(((self.in_sync >= 0) & np.isin(self.in_sync, batch)).sum(axis=1))

    def effects(self, batch: Sequence[int]) -> dict[str, Any]:
        """Partitions that stand at min.insync.replicas or below it while a batch is down, and leaders that move."""
        down = self.down(batch)
        left = self.count - down
        return {
            "partitions_at_min_isr": int(((down > 0) & (left == self.min_isr)).sum()),
            "partitions_stopped": int(((down > 0) & (left < self.min_isr)).sum()),
            "leaders_to_move": int((np.isin(self.leader, batch) & (left > 0)).sum()),
            "others_load_ratio": self.others_load_ratio(batch, left > 0),
            **self.pace(batch),
        }

    @property
    def served(self) -> Ints:
        """Bytes per second that the leaders on each broker exchange with clients, (B,)."""
        has_leader, size = self.leader >= 0, len(self.may_restart)
        return np.bincount(self.leader[has_leader], self.clients[has_leader], size).astype(np.int64)

    def others_load_ratio(self, batch: Sequence[int], stays: Bools) -> float | None:
        """Load of the brokers that stay up while a batch is down, over their usual load; None if they have none.

        Parameters
        ----------
        stays : (P,) bool
            Partitions that keep a replica, and with it a leader.
        """
        moves = np.isin(self.leader, batch)
        usual = int(self.clients[~moves & (self.leader >= 0)].sum())
        return 1 + int(self.clients[moves & stays].sum()) / usual if usual else None

    def pace(self, batch: Sequence[int]) -> dict[str, Any]:
        """Bytes that a batch misses while it is down, and seconds from its start until all of it is in sync.

        What is written meanwhile also has to be copied: missed / (limit - received). None if rates or limits are
        unknown, ``NEVER`` if more is written than a broker can receive.
        """
        received, limit = self.received[list(batch)], self.limit[list(batch)]
        if not self.received.any():
            return {"missed_bytes": None, "in_sync_seconds": None}
        missed = received * self.seconds
        seconds: int | None = None
        if (received >= limit).any():
            seconds = NEVER
        elif not np.isnan(limit).any():
            seconds = int(np.ceil(missed / (limit - received)).max())
        return {"missed_bytes": int(missed.sum()), "in_sync_seconds": seconds}

    def blocks(self, batches: Sequence[Sequence[int]]) -> Bools:
        """Partitions that these batches would bring below min.insync.replicas, or cost their spare, (P,)."""
        slack = self.slack
        worst = np.max([self.down(batch) for batch in batches], axis=0, initial=0)
        return np.asarray((slack > 0) & (worst > slack))

    def causes(self) -> list[str]:
        """Why no order saves each partition; "" if one does, or if none of its brokers restarts."""
        slack, restarts = self.count - self.min_isr, self.down(np.flatnonzero(self.may_restart).tolist()) > 0
        conditions = [~restarts | (slack > self.spare), slack > 0, self.factor == 1, self.min_isr >= self.factor]
        return np.select(conditions, ["", NO_SPARE, ONE_REPLICA, ALL_REQUIRED], SHORT).tolist()


def slows(row: Mapping[str, Any]) -> bool:
    """Whether a row of ``throttles_found`` is a rate for what a broker receives; text that is no rate is ignored."""
    return row["config_name"] == FOLLOWER_RATE and str(row["config_value"]).isdecimal()


def limits(hosts: pd.DataFrame, throttles: Iterable[Mapping[str, Any]]) -> Floats:
    """The most bytes per second that each broker can receive by its network and throttle, (B,); NaN if unknown."""
    rates = {row["entity_name"]: float(row["config_value"]) for row in throttles if slows(row)}
    default = rates.get("<default>", np.inf)
    throttle = np.array([rates.get(str(broker), default) for broker in hosts["broker_id"]])
    network = hosts["in_capacity_bytes_per_s"].to_numpy("float64", na_value=np.nan)
    limit = np.fmin(network, throttle)
    return np.where(np.isinf(limit), np.nan, limit)


def placement_of(rows: pd.DataFrame, brokers: Brokers, *, is_now: bool, **own: Any) -> Placement:
    """Now: the live ISR and leaders. After the plan: all proposed replicas on living brokers, the first one leads."""
    listed = replica_matrix(rows["current_replicas" if is_now else "proposed_replicas"], brokers.ids)
    replicas = np.where(members(listed, rows["observers"], brokers.ids), -1, listed)
    in_sync = replica_matrix(rows["isr"], brokers.ids) if is_now else replicas
    in_sync = np.where((in_sync >= 0) & brokers.is_live[in_sync], in_sync, -1)
    known = rows["leader"].to_numpy(dtype="float64", na_value=-1.0).astype(np.int64)
    leader = np.where(known >= 0, np.searchsorted(brokers.ids, known), -1)
    if not is_now:
        leader = np.take_along_axis(in_sync, (in_sync >= 0).argmax(axis=1)[:, None], axis=1)[:, 0]
    rates = np.broadcast_to(rows["in_bytes_per_s"].to_numpy(dtype=np.float64)[:, None], in_sync.shape)
    received: Floats = np.bincount(in_sync[in_sync >= 0], rates[in_sync >= 0], len(brokers.ids)).astype(np.float64)
    return Placement(
        in_sync=in_sync,
        leader=leader,
        min_isr=rows["min_insync_replicas"].to_numpy("float64", na_value=float(UNKNOWN_MIN_ISR)).astype(np.int64),
        factor=np.asarray((replicas >= 0).sum(axis=1)),
        clients=(rows["in_bytes_per_s"] + rows["out_bytes_per_s"]).to_numpy(dtype=np.int64),
        received=received,
        **own,
    )
