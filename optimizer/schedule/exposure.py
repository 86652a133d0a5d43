"""What the loss of a broker or a rack would do: before a plan, while each wave runs, between waves, and after it.

The partitions are in one state until their wave begins, in another while it runs, and in a third from its end on. While
a wave runs, each of its partitions counts by the worse of its beginning (the old replicas are in sync, the list already
has those that are added) and its end. Who leads after a failure: the rules of Kafka's
PartitionChangeBuilder are an order of the replicas here. Between waves the present leader leads, because elections come
after the last wave. A partition that is in flight at the snapshot stays so: nobody knows when it ends.

Counts are sums over partitions. So each moment is the one before it, without the old states of a wave's partitions and
with their new ones.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import permutations

import numpy as np

from optimizer.domain import Bools, Floats, Ints
from optimizer.schedule.exposed_states import (
    Effects,
    Exposed,
    State,
    begun,
    effects_of,
    ended,
    lost_in_turn,
    moving_lists,
)

_ROWS = 20_000  # partitions at a time: bounds the memory

BEFORE, WHILE, BETWEEN, AFTER = "before", "while_moving", "between_waves", "after"


@dataclass(frozen=True)
class Losses:
    """What each possible loss would do at one moment; G brokers or racks.

    Parameters
    ----------
    offline, stopped, under_replicated, leaders_moved : (G,) int64
        Partitions that would have no leader, would take no writes with ``acks=all``, would have a replica less in sync,
        or would get another leader or none, because of this loss.
    busiest_over_mean : (G,) float64
        The busiest leader's bytes out, over the mean of the brokers that are left; nan if these send nothing.
    lost_bytes, lost_records, sole_bytes : (G,) int64
        ``Effects.lost_bytes`` and the records in them, -1 if these are unknown; ``Effects.sole_bytes``.
    stopped_by_some : int
        Partitions that would take no writes after one loss or another.
    """

    offline: Ints
    stopped: Ints
    under_replicated: Ints
    leaders_moved: Ints
    busiest_over_mean: Floats
    lost_bytes: Ints
    lost_records: Ints
    sole_bytes: Ints
    stopped_by_some: int

    @property
    def worst(self) -> int:
        """The loss that stops most writes; among equals, leaves most offline; then has the busiest leader."""
        ratio = np.nan_to_num(self.busiest_over_mean, nan=-1.0)
        return int(np.lexsort((-np.arange(len(ratio)), ratio, self.offline, self.stopped))[-1])


@dataclass(frozen=True)
class InTurn:
    """The worst loss of two brokers, one after the other: it stops most writes; among equals leaves most partitions
    offline, then loses most bytes, then has the first brokers."""

    brokers: tuple[int, int]
    offline: int
    stopped: int
    lost_bytes: int


@dataclass(frozen=True)
class Moment:
    """One moment.

    Parameters
    ----------
    name : str
        BEFORE, WHILE, BETWEEN or AFTER.
    wave : int
        The wave that runs, or that has ended; 0 before and after the plan.
    offline, stopped : int
        Partitions without a leader, and without writes, although nothing fails.
    busiest_over_mean : float
        As in ``Losses``, without a loss.
    brokers, racks : Losses
    in_turn : InTurn, optional
        Only before and after the plan, and of two living brokers.
    """

    name: str
    wave: int
    offline: int
    stopped: int
    busiest_over_mean: float
    brokers: Losses
    racks: Losses
    in_turn: InTurn | None = None


class _Tally:
    """Sums over all partitions at one moment, for one way of grouping brokers."""

    def __init__(self, exposed: Exposed, groups: Ints) -> None:
        self.groups, self.n_groups, self.n_brokers = groups, int(groups.max(initial=-1)) + 1, len(groups)
        self._is_lost = groups == np.arange(self.n_groups)[:, None]
        self.sums = np.zeros((4, self.n_groups), dtype=np.int64)
        self.amounts = np.zeros((4, self.n_groups), dtype=np.int64)  # lost bytes, records, unknown records; sole bytes
        self.inherited = np.zeros((self.n_groups, self.n_brokers), dtype=np.int64)  # load that moves in a loss
        self.load = np.zeros(self.n_brokers, dtype=np.int64)
        self.held = np.zeros(self.n_brokers, dtype=np.int64)
        self.stopped_by_some = np.zeros(len(exposed.wave), dtype=bool)
        self.lost_bytes = np.zeros(len(exposed.wave), dtype=np.int64)  # by the worst loss, of each partition
        self.is_stopped, self.is_offline = np.zeros((2, len(exposed.wave)), dtype=bool)
        self._exposed = exposed

    def count(self, rows: Ints, state: State, effects: Effects, sign: int = 1) -> None:
        """Add partitions in a state, or remove them again (sign -1)."""
        for sums, marked in zip(
            self.sums, (effects.offline, effects.stopped, effects.under_replicated, effects.moved), strict=True
        ):
            sums += sign * np.bincount(effects.group[marked], minlength=self.n_groups)
        self._add_amounts(rows, effects, sign)
        load = self._exposed.load_bytes_per_s[rows]
        np.add.at(self.load, effects.leader[effects.leader >= 0], sign * load[effects.leader >= 0])
        row, slot = np.nonzero(effects.moved & (effects.heir >= 0) & (effects.leader >= 0)[:, None])
        np.add.at(self.inherited, (effects.group[row, slot], effects.heir[row, slot]), sign * load[row])
        self.held += sign * np.bincount(state.hosts[state.hosts >= 0], minlength=self.n_brokers)
        if sign > 0:
            self.stopped_by_some[rows] = effects.stopped.any(axis=1)
            self.lost_bytes[rows] = effects.lost_bytes.max(axis=1)
            self.is_stopped[rows], self.is_offline[rows] = effects.is_stopped, effects.is_offline

    def _add_amounts(self, rows: Ints, effects: Effects, sign: int) -> None:
        lost, sole = self.amounts[:3], self.amounts[3]
        row, slot = np.nonzero(effects.lost_bytes)
        bytes_, log = effects.lost_bytes[row, slot], self._exposed.log_bytes[rows[row]]
        records = self._exposed.log_records[rows[row]]
        is_known = records >= 0
        in_them = np.where(is_known, np.round(bytes_ * (records / np.maximum(log, 1))), 0).astype(np.int64)
        for sums, values in zip(lost, (bytes_, in_them, ~is_known), strict=True):
            np.add.at(sums, effects.group[row, slot], sign * values)
        row, slot = np.nonzero(effects.sole_bytes)
        np.add.at(sole, effects.group[row, slot], sign * effects.sole_bytes[row, slot])

    def losses(self) -> Losses:
        """The losses at this moment."""
        lost, records, unknown, sole = self.amounts.copy()
        offline, stopped, under_replicated, moved = self.sums.copy()
        return Losses(
            offline,
            stopped,
            under_replicated,
            moved,
            busiest_over_mean=self._ratios(),
            lost_bytes=lost,
            lost_records=np.where(unknown > 0, -1, records),
            sole_bytes=sole,
            stopped_by_some=int(self.stopped_by_some.sum()),
        )

    def _ratios(self) -> Floats:
        after = np.where(self._is_lost, 0, self.load + self.inherited)
        hosts = (~self._is_lost & (self.held > 0) & self._exposed.is_living).sum(axis=1)
        return _over_mean(after, hosts)

    def ratio_now(self) -> float:
        """The busiest leader over the mean without a loss."""
        return float(_over_mean(self.load[None], np.array([((self.held > 0) & self._exposed.is_living).sum()]))[0])


def _over_mean(loads: Ints, hosts: Ints) -> Floats:
    total = loads.sum(axis=1)
    most = loads.max(axis=1, initial=0)
    return np.where(total > 0, most * hosts / np.maximum(total, 1), np.nan)


def _parts(n_partitions: int) -> list[Ints]:
    return np.split(np.arange(n_partitions), range(_ROWS, n_partitions, _ROWS))


def _corrections_of_pairs(state: State, n_brokers: int) -> Iterator[tuple[Ints, Ints]]:
    """Pairs of brokers (first * B + then) with a partition on both, and what they do to it in turn instead of each
    alone: stopped, offline and lost bytes, (3, N)."""
    effects = effects_of(state, np.arange(n_brokers))
    alone = np.stack([effects.stopped, effects.offline, effects.lost_bytes])
    for first, then in permutations(range(state.hosts.shape[1]), 2):
        more = lost_in_turn(state, first, then) - alone[:, :, first] - alone[:, :, then]
        counts = (state.hosts[:, first] >= 0) & (state.hosts[:, then] >= 0) & more.any(axis=0)
        yield (state.hosts[:, first] * n_brokers + state.hosts[:, then])[counts], more[:, counts]


class _Cluster:
    """The cluster as it passes from moment to moment."""

    def __init__(self, exposed: Exposed) -> None:
        self.exposed = exposed
        self.tallies = [_Tally(exposed, np.arange(len(exposed.rack))), _Tally(exposed, exposed.rack)]
        for rows in _parts(len(exposed.wave)):
            self._change(rows, [begun(exposed, rows, exposed.replicas[rows])])

    def _change(self, rows: Ints, states: list[State], sign: int = 1) -> None:
        """Count partitions in the worse of the states."""
        for tally in self.tallies:
            effects = [effects_of(state, tally.groups) for state in states]
            tally.count(rows, states[0], effects[0] if len(effects) == 1 else effects[0].worse(effects[1]), sign)

    def moves(self, rows: Ints, old: list[State], new: list[State]) -> None:
        self._change(rows, old, -1)
        self._change(rows, new)

    def moment(self, name: str, wave: int = 0) -> Moment:
        brokers, racks = (tally.losses() for tally in self.tallies)
        tally = self.tallies[0]
        offline, stopped = int(tally.is_offline.sum()), int(tally.is_stopped.sum())
        in_turn = self._in_turn(brokers, is_over=name == AFTER) if name in (BEFORE, AFTER) else None
        return Moment(name, wave, offline, stopped, tally.ratio_now(), brokers, racks, in_turn)

    def _in_turn(self, single: Losses, *, is_over: bool) -> InTurn | None:
        """The worst loss of two brokers: the sum of both losses, corrected for the partitions that both have."""
        living, n_brokers = np.flatnonzero(self.exposed.is_living), len(self.exposed.rack)
        if len(living) < 2:
            return None
        alone = np.stack([single.stopped, single.offline, single.lost_bytes])
        corrections = [(np.empty(0, dtype=np.int64), np.empty((3, 0), dtype=np.int64))]
        for state in self._states(is_over=is_over):
            corrections += _corrections_of_pairs(state, n_brokers)
        pair, more = (np.concatenate(values, axis=-1) for values in zip(*corrections, strict=True))
        sums = alone[:, :, None] + alone[:, None, :]
        for plane, values in zip(sums, more, strict=True):
            if values.any():
                added = np.bincount(pair, weights=values, minlength=n_brokers**2)
                plane += added.astype(np.int64).reshape(n_brokers, n_brokers)
        pairs = sums[:, living][:, :, living]
        pairs[:, np.arange(len(living)), np.arange(len(living))] = -1
        stopped, offline, lost = pairs.reshape(3, -1)
        worst = int(np.lexsort((-np.arange(len(lost)), lost, offline, stopped))[-1])
        a, b = (int(living[i]) for i in divmod(worst, len(living)))
        return InTurn((a, b), *(int(sums[i, a, b]) for i in (1, 0, 2)))

    def _states(self, *, is_over: bool) -> Iterator[State]:
        """All partitions before the plan, or after it and its elections."""
        exposed = self.exposed
        for rows in _parts(len(exposed.wave)):
            is_changed = is_over & (exposed.wave[rows] > 0)
            yield begun(exposed, rows[~is_changed], exposed.replicas[rows[~is_changed]])
            yield ended(exposed, rows[is_changed], exposed.target.shape[1], is_elected=True)

    @property
    def stopped_by_some(self) -> Bools:
        """Partitions that one loss or another would stop, (P,)."""
        return np.logical_or(*(tally.stopped_by_some for tally in self.tallies))

    @property
    def lost_bytes(self) -> Ints:
        """What one loss or another loses of each partition at most, (P,)."""
        return np.maximum(*(tally.lost_bytes for tally in self.tallies))


@dataclass(frozen=True)
class Exposure:
    """All moments, and partitions to report.

    Parameters
    ----------
    moments : tuple of Moment
        In the order of time.
    stops : (P,) bool
        Partitions whose wave stops their writes although nothing fails.
    newly_exposed : (P,) bool
        No loss of one broker or one rack stopped their writes before the plan; after it one would.
    lost_bytes : (3, P) int64
        Acknowledged bytes that one loss loses of each partition at most: before, at the worst moment, after.
    """

    moments: tuple[Moment, ...]
    stops: Bools
    newly_exposed: Bools
    lost_bytes: Ints


def exposure(exposed: Exposed) -> Exposure:
    """What losses would do at every moment of a plan."""
    cluster = _Cluster(exposed)
    before, was_stopped = cluster.stopped_by_some, cluster.tallies[0].is_stopped.copy()
    stops = np.zeros(len(exposed.wave), dtype=bool)
    lost_before = lost_at_worst = cluster.lost_bytes
    moments = [cluster.moment(BEFORE)]
    last = int(exposed.wave.max(initial=0))
    for wave, rows, states in _waves(exposed, last):
        cluster.moves(rows, [states.old], [states.begun, states.ended])
        moments.append(cluster.moment(WHILE, wave))
        stops[rows] = cluster.tallies[0].is_stopped[rows] & ~was_stopped[rows]
        lost_at_worst = np.maximum(lost_at_worst, cluster.lost_bytes)
        cluster.moves(rows, [states.begun, states.ended], [states.ended])
        if wave < last:
            moments.append(cluster.moment(BETWEEN, wave))
    rows = np.flatnonzero(exposed.wave)
    width = exposed.target.shape[1]
    still, elected = (ended(exposed, rows, width, is_elected=is_elected) for is_elected in (False, True))
    cluster.moves(rows, [still], [elected])
    moments.append(cluster.moment(AFTER))
    lost_after = cluster.lost_bytes
    lost = np.stack([lost_before, np.maximum(lost_at_worst, lost_after), lost_after])
    return Exposure(tuple(moments), stops, cluster.stopped_by_some & ~before, lost)


@dataclass(frozen=True)
class _WaveStates:
    """A wave's partitions before it, as it begins, and when it has ended."""

    old: State
    begun: State
    ended: State


def _waves(exposed: Exposed, last: int) -> Iterator[tuple[int, Ints, _WaveStates]]:
    for wave in range(1, last + 1):
        rows = np.flatnonzero(exposed.wave == wave)
        lists = moving_lists(exposed, rows)
        yield (
            wave,
            rows,
            _WaveStates(
                old=begun(exposed, rows, exposed.replicas[rows]),
                begun=begun(exposed, rows, lists),
                ended=ended(exposed, rows, lists.shape[1], is_elected=False),
            ),
        )
