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
    log_bytes : (P,) int64
        Bytes on the leader's disk.
    log_records : (P,) int64
        Their records; -1 if that is unknown.
    lacking_bytes : (P, W) int64
        Bytes of the log that each replica lacks; 0 if it is in sync, or eligible and producers wait for all replicas.
    unacked_bytes : (P,) int64
        Acknowledged bytes that in-sync followers lack, the most of them; 0 where producers wait for all of them.
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
    log_bytes: Ints
    log_records: Ints
    lacking_bytes: Ints
    unacked_bytes: Ints
    target: Ints
    wave: Ints
    rack: Ints
    is_living: Bools
    counts_all: bool


@dataclass(frozen=True)
class State:
    """Some partitions in one state.

    Parameters
    ----------
    hosts : (P, W) int64
        Their lists.
    in_sync : (P, W) bool
    rank : (P, W) int64
        The order in which the replicas may lead.
    needed : (P,) int64
        Replicas in sync that writes need.
    lacking_bytes : (P, W) int64
        Bytes that are gone if the replica leads: all bytes of one that is dead, or whose copy is not in sync yet.
    log_bytes : (P,) int64
        All of their bytes.
    """

    hosts: Ints
    in_sync: Bools
    rank: Ints
    needed: Ints
    lacking_bytes: Ints
    log_bytes: Ints


def _ranked(hosts: Ints, in_sync: Bools, eligible: Bools, leader: Ints, allows_unclean: Bools, living: Bools) -> Ints:
    """The order in which the replicas of each list may lead: the present leader, in sync, eligible, any that lives."""
    width = hosts.shape[1]
    slot = np.arange(width)
    kinds = (in_sync & (hosts == leader[:, None]), in_sync, eligible, living & allows_unclean[:, None])
    return np.select(kinds, [slot + number * width for number in range(len(kinds))], default=_NEVER)


def _needed(exposed: Exposed, rows: Ints, hosts: Ints) -> Ints:
    min_isr = exposed.min_isr[rows]
    return min_isr if exposed.counts_all else np.minimum(min_isr, (hosts >= 0).sum(axis=1))


def _lacking(exposed: Exposed, rows: Ints, same: Bools, in_sync: Bools, living: Bools) -> Ints:
    """``State.lacking_bytes``. ``same``: which slot of the old lists has the broker of each slot, (P, V, W)."""
    log, before = exposed.log_bytes[rows][:, None], (same * exposed.lacking_bytes[rows][:, None, :]).sum(axis=2)
    lagging = np.where(in_sync, exposed.unacked_bytes[rows][:, None], np.where(same.any(axis=2), before, log))
    return np.where(living, lagging, log)


def begun(exposed: Exposed, rows: Ints, hosts: Ints) -> State:
    """The state with the old replicas in sync, in lists that have all of them."""
    same = same_slots(hosts, exposed.replicas[rows])
    living = (hosts >= 0) & exposed.is_living[hosts]
    in_sync, eligible = (
        (same & marked[rows][:, None, :]).any(axis=2) for marked in (exposed.in_sync, exposed.eligible)
    )
    in_sync &= living
    rank = _ranked(hosts, in_sync, eligible & living, exposed.leader[rows], exposed.allows_unclean[rows], living)
    lacking = _lacking(exposed, rows, same, in_sync, living)
    return State(hosts, in_sync, rank, _needed(exposed, rows, hosts), lacking, exposed.log_bytes[rows])


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
    lacking = _lacking(exposed, rows, same, in_sync, living)
    return State(hosts, in_sync, rank, _needed(exposed, rows, hosts), lacking, exposed.log_bytes[rows])


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
    """What the loss of each slot's broker, or of its whole rack, does to its partition, (P, W); its state now, (P,).

    ``lost_bytes``: acknowledged bytes that are gone once another replica leads; ``sole_bytes``: those that no other
    living replica has, gone if the disks do not come back. Where nobody measured what a replica lacks, both are upper
    bounds.
    """

    group: Ints
    offline: Bools
    stopped: Bools
    under_replicated: Bools
    moved: Bools
    heir: Ints
    lost_bytes: Ints
    sole_bytes: Ints
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
            lost_bytes=np.maximum(self.lost_bytes, other.lost_bytes),
            sole_bytes=np.maximum(self.sole_bytes, other.sole_bytes),
            is_offline=is_offline,
            is_stopped=is_stopped,
            leader=self.leader,
        )


@dataclass(frozen=True)
class _Now:
    """Partitions without a loss: the leader's slot, whether there is one, whether writes are stopped, all (P,); and
    ``State.lacking_bytes``, 0 for the leader."""

    first: Ints
    has_leader: Bools
    is_stopped: Bools
    lacking_bytes: Ints

    @classmethod
    def of(cls, state: State) -> "_Now":
        first, in_sync = state.rank.argmin(axis=1), state.in_sync.sum(axis=1)
        has_leader = state.rank.min(axis=1) < _NEVER
        lacking = state.lacking_bytes.copy()
        lacking[has_leader, first[has_leader]] = 0
        # A leader that was not in sync is alone in the ISR.
        is_stopped = (np.where(in_sync > 0, in_sync, has_leader) < state.needed) | ~has_leader
        return cls(first, has_leader, is_stopped, lacking)


def _after(state: State, now: _Now, gone: Bools) -> tuple[Ints, Bools, Bools, Ints]:
    """The heir's slot, whether there is one, whether writes stop, and the least that a living replica lacks, (P, W).

    ``gone``: for each slot, the slots that are lost with it, (P, W, W).
    """
    rank = np.where(gone, _NEVER, state.rank[:, None, :])
    has_heir = rank.min(axis=2) < _NEVER
    left = (state.in_sync[:, None, :] & ~gone).sum(axis=2)
    stopped = (np.where(left > 0, left, has_heir) < state.needed[:, None]) | ~has_heir
    least = np.where(gone, state.log_bytes[:, None, None], now.lacking_bytes[:, None, :]).min(axis=2)
    return rank.argmin(axis=2), has_heir, stopped & ~now.is_stopped[:, None], least


def effects_of(state: State, groups: Ints) -> Effects:
    """The effects of losing each group of brokers. A group counts once for each partition, at its first slot."""
    hosts, now = state.hosts, _Now.of(state)
    group = np.where(hosts >= 0, groups[hosts], -1)
    same = same_slots(group, group)
    is_first = (group >= 0) & ~np.tril(same, -1).any(axis=2)
    best, has_heir, stopped, least = _after(state, now, same)
    row, has_leader = np.arange(len(hosts)), now.has_leader[:, None]
    moved = is_first & has_leader & np.take_along_axis(same, now.first[:, None, None], axis=2)[:, :, 0]
    lost = np.where(moved & has_heir, np.take_along_axis(now.lacking_bytes, best, axis=1), 0)
    sole = least - now.lacking_bytes.min(axis=1, keepdims=True)
    return Effects(
        group=np.where(is_first, group, -1),
        offline=is_first & ~has_heir & has_leader,
        stopped=is_first & stopped,
        under_replicated=is_first & (same & state.in_sync[:, None, :]).any(axis=2),
        moved=moved,
        heir=np.where(has_heir, np.take_along_axis(hosts, best, axis=1), -1),
        lost_bytes=lost,
        sole_bytes=np.where(is_first & has_leader, np.maximum(sole, lost), 0),
        is_offline=~now.has_leader,
        is_stopped=now.is_stopped,
        leader=np.where(now.has_leader, hosts[row, now.first], -1),
    )


def lost_in_turn(state: State, first: int, then: int) -> Ints:
    """Stopped and offline partitions, and bytes lost, (3, P), if the brokers of two slots fail, one after the other.

    Nothing catches up between the failures: what the first heir lacked stays lost.
    """
    now, width = _Now.of(state), state.hosts.shape[1]
    slot = np.arange(width)
    gone = np.stack([slot == first, (slot == first) | (slot == then)])
    heirs, has_heir, stopped, _ = _after(state, now, np.broadcast_to(gone, (len(state.hosts), 2, width)))
    lacking = np.where(has_heir, np.take_along_axis(now.lacking_bytes, heirs, axis=1), 0)
    leads_first, leads_then = now.first == first, np.where(now.first == first, heirs[:, 0], now.first) == then
    lost = np.maximum(np.where(leads_first, lacking[:, 0], 0), np.where(leads_then, lacking[:, 1], 0))
    offline = now.has_leader & ~has_heir[:, 1]
    return np.stack([stopped[:, 1], offline, np.where(now.has_leader, lost, 0)])
