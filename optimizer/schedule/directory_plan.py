"""Directories of all brokers of a cluster: who fits where, and in which order.

Whether a replica fits must not depend on the waves, because ``solve`` drops what fits nowhere before they exist. So
changes are placed in *rounds*: first those that fit into the space that is free now, whatever the waves; then those
that fit when all replicas of earlier rounds have left. The waves of a round come after those of the round before. If
the dealt directories keep their limits in the usual waves, nobody needs the rounds.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from optimizer.domain import REASONS, Ints, LogDir
from optimizer.schedule.directories import NO_DIRECTORY, Directories, Visits, deal, directories_of, kafka_choice
from optimizer.schedule.wave_changes import WaveChanges
from optimizer.schedule.waves import UNPLACED

NO_ROUND = -1  # number of no round: the change fits into no directory
_BALANCE = REASONS.index("balance")


@dataclass(frozen=True)
class Rounds:
    """Changes by the space that they need.

    Parameters
    ----------
    round_of : (N,) int64
        From 0; ``NO_ROUND`` if a replica fits into no directory of its broker.
    chosen : (N, W) int64
        A directory of each added replica that keeps all limits if the rounds follow each other; ``NO_DIRECTORY`` if
        any does, or on brokers with one directory.
    full_broker : (N,) int64
        A broker whose directories have no room for the change before its round; -1 in the first round.
    most_bytes : mapping of broker index to bytes
        The largest replica that still fits into a directory, of brokers with several directories, when all rounds have
        ended.
    """

    round_of: Ints
    chosen: Ints
    full_broker: Ints
    most_bytes: Mapping[int, int]


@dataclass(frozen=True)
class DirectoryPlan:
    """The changes of a cluster, and the brokers that have several directories.

    Parameters
    ----------
    changes : WaveChanges
    brokers : mapping of broker index to Directories
        Those with several directories.
    left_from : (N, W) int64
        The directory of each replica in ``changes.removed``; ``NO_DIRECTORY`` if that is unknown.
    """

    changes: WaveChanges
    brokers: Mapping[int, Directories]
    left_from: Ints

    def deal(self, wave_of: Ints) -> Ints:
        """The directory of each added replica in these waves, (N, W); ``NO_DIRECTORY`` on other brokers."""
        return self._choose(wave_of, deal)

    def kafka_choice(self, wave_of: Ints) -> Ints:
        """The directory that Kafka would choose for each added replica (an estimate), (N, W)."""
        return self._choose(wave_of, kafka_choice)

    def _choose(self, wave_of: Ints, choose: Callable[[Directories, Visits], Ints]) -> Ints:
        chosen = np.full_like(self.changes.added, NO_DIRECTORY)
        for broker, directories in self.brokers.items():
            visits, slots = self.visits(broker, wave_of)
            chosen[slots] = choose(directories, visits)
        return chosen

    def over_limit(self, wave_of: Ints, chosen: Ints) -> list[int]:
        """Brokers with a directory over its limit while replicas arrive there, or with an unnamed replica."""
        over = []
        for broker, directories in self.brokers.items():
            visits, slots = self.visits(broker, wave_of)
            is_unnamed = directories.is_open.any() and (chosen[slots] == NO_DIRECTORY).any()
            if is_unnamed or visits.over_limit(directories, chosen[slots]).any():
                over.append(broker)
        return over

    def loads(self, broker: int, wave_of: Ints, chosen: Ints) -> Ints:
        """Bytes in each directory of a broker in each wave and after the last one, (D, waves + 1)."""
        visits, slots = self.visits(broker, wave_of)
        return visits.loads(self.brokers[broker], chosen[slots])

    def visits(self, broker: int, wave_of: Ints) -> tuple[Visits, tuple[Ints, Ints]]:
        """What a broker gets and loses; and the rows and columns of what it gets in ``changes.added``."""
        added, removed = (
            self._slots[name].get(broker, np.zeros((2, 0), dtype=np.int64)) for name in ("added", "removed")
        )
        added, removed = (slots[:, wave_of[slots[0]] != UNPLACED] for slots in (added, removed))
        size = self.changes.size_bytes
        visits = Visits(
            size_bytes=size[added[0]],
            wave=wave_of[added[0]],
            left_bytes=size[removed[0]],
            left_wave=wave_of[removed[0]],
            left_from=self.left_from[removed[0], removed[1]],
            n_waves=int(wave_of.max(initial=0)),
        )
        return visits, (added[0], added[1])

    @cached_property
    def _slots(self) -> Mapping[str, Mapping[int, Ints]]:
        """Rows and columns, (2, n), of each broker with directories in ``changes.added`` and ``changes.removed``."""
        return {name: _slots_by_broker(getattr(self.changes, name), self.brokers) for name in ("added", "removed")}

    def rounds(self) -> Rounds:
        """Place the changes in rounds, the urgent and the largest first."""
        changes, tight = self.changes, self._tight_brokers()
        round_of = np.zeros(len(changes), dtype=np.int64)
        chosen, full_broker = np.full_like(changes.added, NO_DIRECTORY), np.full(len(changes), -1, dtype=np.int64)
        loads = {broker: directories.used_bytes.copy() for broker, directories in tight.items()}
        order = np.lexsort((-changes.size_bytes, np.minimum(changes.urgency, _BALANCE)))
        needs = np.asarray(np.isin(changes.added, [*tight]).any(axis=1))
        waiting, number, placed = order[needs[order]].tolist(), 0, np.flatnonzero(~needs).tolist()
        while waiting:
            rest = list[int]()
            for i in waiting:
                full = self._place(i, tight, loads, chosen)
                (placed if full is None else rest).append(i)
                full_broker[i] = full_broker[i] if full is None else full
                round_of[i] = number
            if not placed:
                break
            self._leave(placed, loads)
            waiting, number, placed = rest, number + 1, []
        round_of[waiting] = NO_ROUND
        return Rounds(round_of, chosen, full_broker, self._most_bytes(loads))

    def _most_bytes(self, loads: Mapping[int, Ints]) -> dict[int, int]:
        """The largest free space of an open directory of each broker, if its other directories fill first."""
        most, one_wave = dict[int, int](), np.ones(len(self.changes), dtype=np.int64)
        for broker, directories in self.brokers.items():
            visits, is_open = self.visits(broker, one_wave)[0], directories.is_open
            arriving = 0 if broker in loads else int(visits.size_bytes.sum())
            held = loads[broker] if broker in loads else visits.loads(directories)[:, -1]
            free = (directories.limit_bytes - held)[is_open]
            most[broker] = max(int(min(free.max(initial=0), free.astype(float).sum() - arriving)), 0)
        return most

    def _tight_brokers(self) -> dict[int, Directories]:
        """Brokers with an open directory that has no room for everything that arrives there."""
        slots = self._slots["added"]
        return {
            broker: directories
            for broker, directories in self.brokers.items()
            if broker in slots
            and directories.is_open.any()
            and (directories.limit_bytes - directories.used_bytes)[directories.is_open].min()
            < self.changes.size_bytes[slots[broker][0]].sum()
        }

    def _place(self, i: int, tight: Mapping[int, Directories], loads: Mapping[int, Ints], chosen: Ints) -> int | None:
        """Place all replicas of a change, or none; returns a broker without room for one, if there is one."""
        size, found = int(self.changes.size_bytes[i]), dict[int, int]()
        for slot, broker in enumerate(self.changes.added[i].tolist()):
            if broker in tight:
                directories, after = tight[broker], loads[broker] + size
                fits = directories.is_open & (after <= directories.limit_bytes)
                if not fits.any():
                    return broker
                found[slot] = int(np.where(fits, after / directories.whole_bytes, np.inf).argmin())
        for slot, directory in found.items():
            chosen[i, slot] = directory
            loads[int(self.changes.added[i, slot])][directory] += size
        return None

    def _leave(self, placed: Sequence[int], loads: Mapping[int, Ints]) -> None:
        """Take away the replicas that these changes remove."""
        for i in placed:
            for broker, directory in zip(self.changes.removed[i].tolist(), self.left_from[i].tolist(), strict=True):
                if broker in loads and directory != NO_DIRECTORY:
                    loads[broker][directory] -= int(self.changes.size_bytes[i])


def _slots_by_broker(matrix: Ints, brokers: Mapping[int, Directories]) -> dict[int, Ints]:
    """Rows and columns, (2, n), of each of these brokers in a matrix, in the order of the rows."""
    slots = np.array(np.nonzero(np.isin(matrix, [*brokers])))
    of_broker = matrix[slots[0], slots[1]]
    return {int(broker): slots[:, of_broker == broker] for broker in np.unique(of_broker)}


def directory_plan(
    changes: WaveChanges,
    log_dirs: Sequence[Sequence[LogDir]],
    paths: Sequence[Sequence[str]],
    headroom: float,
) -> DirectoryPlan:
    """The directories for the changes of a cluster.

    Parameters
    ----------
    log_dirs : of each broker
        Empty if they are unknown.
    paths : of each change
        The directory of each replica before the plan, or ``any``; in the order of the slots of ``changes.removed``.
    headroom : float
        Share of each directory that must stay free.
    """
    brokers = {b: directories_of(dirs, headroom) for b, dirs in enumerate(log_dirs) if len(dirs) > 1}
    left_from = np.full_like(changes.removed, NO_DIRECTORY)
    several = _numbers_of_paths(log_dirs)
    for row, slot in zip(*np.nonzero(np.isin(changes.removed, [*several])), strict=True):
        broker = int(changes.removed[row, slot])
        left_from[row, slot] = several[broker].get(paths[row][slot], NO_DIRECTORY)
    return DirectoryPlan(changes, brokers, left_from)


def _numbers_of_paths(log_dirs: Sequence[Sequence[LogDir]]) -> dict[int, dict[str, int]]:
    """The index of each path, by broker with several directories."""
    return {b: {d.path: k for k, d in enumerate(dirs)} for b, dirs in enumerate(log_dirs) if len(dirs) > 1}
