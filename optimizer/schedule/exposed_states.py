"""The states of partitions while a plan is executed, and what the loss of a broker or a rack does in each state."""

from dataclasses import dataclass

import numpy as np

from optimizer.domain import Bools, Ints
from optimizer.schedule.wave_changes import same_slots

_NEVER = np.iinfo(np.int32).max  # rank of a replica that cannot lead


@dataclass(frozen=True)
class Exposed:
    """The partitions of a cluster and their plan. Brokers are indices; lists are padded with -1.

    Parameters
    ----------
    replicas : (P, W) int64
        The controller's lists; in flight: the target, then the replicas that are removed.
    in_sync, eligible : (P, W) bool
        Which of them are in the ISR, and in the ELR.
    leader : (P,) int64
        Present leader, -1 without one.
    min_isr : (P,) int64
    allows_unclean : (P,) bool
        unclean.leader.election.enable.
    load_bytes_per_s : (P,) int64
        Bytes out of the leader, to consumers and followers.
    target : (P, V) int64
        Lists after the plan; for unchanged partitions the same as ``replicas``.
    wave : (P,) int64
        From 1; 0 if the partition does not change.
    rack : (B,) int64
        Rack of each broker; -1 without one.
    is_living : (B,) bool
    counts_all : bool
        Before Kafka 3.7: the whole ``min_isr`` must be in sync, even if the list is shorter.
    """

    replicas: Ints
    in_sync: Bools
    eligible: Bools
    leader: Ints
    min_isr: Ints
    allows_unclean: Bools
    load_bytes_per_s: Ints
    target: Ints
    wave: Ints
    rack: Ints
    is_living: Bools
    counts_all: bool


@dataclass(frozen=True)
class State:
    """Some partitions in one state: lists, which replicas are in sync, the order in which they may lead, and the number
    that writes need."""

    hosts: Ints
    in_sync: Bools
    rank: Ints
    needed: Ints


def _ranked(hosts: Ints, in_sync: Bools, eligible: Bools, leader: Ints, allows_unclean: Bools, living: Bools) -> Ints:
    """The order in which the replicas of each list may lead: the present leader, in sync, eligible, any that lives."""
    width = hosts.shape[1]
    slot = np.arange(width)
    kinds = (in_sync & (hosts == leader[:, None]), in_sync, eligible, living & allows_unclean[:, None])
    return np.select(kinds, [slot + number * width for number in range(len(kinds))], default=_NEVER)


def _needed(exposed: Exposed, rows: Ints, hosts: Ints) -> Ints:
    min_isr = exposed.min_isr[rows]
    return min_isr if exposed.counts_all else np.minimum(min_isr, (hosts >= 0).sum(axis=1))


def begun(exposed: Exposed, rows: Ints, hosts: Ints) -> State:
    """The state with the old replicas in sync, in lists that have all of them."""
    same = same_slots(hosts, exposed.replicas[rows])
    living = (hosts >= 0) & exposed.is_living[hosts]
    in_sync, eligible = (
        (same & marked[rows][:, None, :]).any(axis=2) for marked in (exposed.in_sync, exposed.eligible)
    )
    in_sync &= living
    rank = _ranked(hosts, in_sync, eligible & living, exposed.leader[rows], exposed.allows_unclean[rows], living)
    return State(hosts, in_sync, rank, _needed(exposed, rows, hosts))


def ended(exposed: Exposed, rows: Ints, width: int, *, is_elected: bool) -> State:
    """The state with the new list: what is added is in sync, and so is what was before and stays."""
    target = exposed.target[rows]
    hosts = np.pad(target, ((0, 0), (0, width - target.shape[1])), constant_values=-1)
    same = same_slots(hosts, exposed.replicas[rows])
    living = (hosts >= 0) & exposed.is_living[hosts]
    in_sync = living & (~same.any(axis=2) | (same & exposed.in_sync[rows][:, None, :]).any(axis=2))
    leader = np.full(len(rows), -1) if is_elected else exposed.leader[rows]
    none = np.zeros_like(in_sync)
    rank = _ranked(hosts, in_sync, none, leader, exposed.allows_unclean[rows], living)
    return State(hosts, in_sync, rank, _needed(exposed, rows, hosts))


def moving_lists(exposed: Exposed, rows: Ints) -> Ints:
    """The controller's lists while the partitions move: the target, then the replicas that are removed, ascending.

    If nothing is added and the whole target is in sync, what is removed is gone at once.
    """
    old, target = exposed.replicas[rows], exposed.target[rows]
    same = same_slots(target, old)
    is_living = (target >= 0) & exposed.is_living[target]
    in_sync = is_living & (same & exposed.in_sync[rows][:, None, :]).any(axis=2)
    is_done: Bools = np.asarray((in_sync | (target < 0)).all(axis=1))
    removed = np.where(same.any(axis=1) | is_done[:, None], -1, old)
    return np.concatenate((target, np.sort(removed, axis=1)), axis=1)


@dataclass(frozen=True)
class Effects:
    """What the loss of each slot's broker, or of its whole rack, does to its partition, (P, W); its state now, (P,)."""

    group: Ints
    offline: Bools
    stopped: Bools
    under_replicated: Bools
    moved: Bools
    heir: Ints
    is_offline: Bools
    is_stopped: Bools
    leader: Ints

    def worse(self, other: "Effects") -> "Effects":
        """The worse of two states of the same partitions; the leaders' load is that of the first."""
        is_stopped, is_offline = self.is_stopped | other.is_stopped, self.is_offline | other.is_offline
        return Effects(
            group=self.group,
            offline=(self.offline | other.offline) & ~is_offline[:, None],
            stopped=(self.stopped | other.stopped) & ~is_stopped[:, None],
            under_replicated=self.under_replicated | other.under_replicated,
            moved=self.moved | other.moved,
            heir=np.where(self.moved, self.heir, -1),
            is_offline=is_offline,
            is_stopped=is_stopped,
            leader=self.leader,
        )


def effects_of(state: State, groups: Ints) -> Effects:
    """The effects of losing each group of brokers. A group counts once for each partition, at its first slot."""
    hosts = state.hosts
    group = np.where(hosts >= 0, groups[hosts], -1)
    same = same_slots(group, group)
    is_first = (group >= 0) & ~np.tril(same, -1).any(axis=2)
    lost = (same & state.in_sync[:, None, :]).sum(axis=2)
    in_sync = state.in_sync.sum(axis=1)
    left = in_sync[:, None] - lost
    rank = np.where(same, _NEVER, state.rank[:, None, :])
    best = rank.argmin(axis=2)
    has_heir = rank.min(axis=2) < _NEVER
    first = state.rank.argmin(axis=1)
    has_leader = state.rank.min(axis=1) < _NEVER
    row = np.arange(len(hosts))
    leader = np.where(has_leader, hosts[row, first], -1)
    # A leader that was not in sync is alone in the ISR.
    is_stopped = np.where(in_sync > 0, in_sync, has_leader) < state.needed
    stopped = np.where(left > 0, left, has_heir) < state.needed[:, None]
    return Effects(
        group=np.where(is_first, group, -1),
        offline=is_first & ~has_heir & has_leader[:, None],
        stopped=is_first & (stopped | ~has_heir) & ~(is_stopped | ~has_leader)[:, None],
        under_replicated=is_first & (lost > 0),
        moved=is_first & has_leader[:, None] & np.take_along_axis(same, first[:, None, None], axis=2)[:, :, 0],
        heir=np.where(has_heir, np.take_along_axis(hosts, best, axis=1), -1),
        is_offline=~has_leader,
        is_stopped=is_stopped | ~has_leader,
        leader=leader,
    )
