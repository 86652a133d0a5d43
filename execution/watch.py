"""Watches a running wave: starts what has room, keeps its throttles, lets copies join, notices if nothing gets on."""

import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise

from execution import claims, preflight
from execution.describe import describe_state
from execution.guard import Guard
from execution.inside import Place
from execution.journal import never_set
from execution.observed import Observed, Replica, Stored, Throttle, TopicPartition
from execution.progress import (
    Copy,
    CopySize,
    Gauge,
    describe_unknown,
    running_copies,
    unknown_sizes,
    waiting_bytes,
)
from execution.steering import is_there, steer
from execution.steps import READS, Execution, StillMoving
from execution.throttles import elements_of, follower_elements, shortened
from execution.wanted import CANCEL, HOLD, SLOW, STEP_SECONDS, STOP, Wanted, describe_wanted, history, own_rates, rates
from execution.wave import MoveState
from optimizer.errors import BallastError, bullets
from optimizer.kafka.throttle import FOLLOWER_RATE, FOLLOWER_REPLICAS
from optimizer.units import human_bytes, human_rate, human_time
from stored.verdicts import Refused

CHECK_SECONDS = 2.0  # seconds between two looks; a look costs a broker one answer of some kilobytes
_LINE_SECONDS = 60.0  # seconds between two lines of progress: copies take hours
# A copy is released from its follower throttle when this is left, or twice its last gain. Else producers with acks=all
# wait for it: for its leader it is in sync, but its own throttle still delays it. (40 copies at 10 MB/s: worst send 3.1
# to 6.4 s, with the release 1.0 to 1.2 s.)
LAST_STRETCH_BYTES = 2_000_000
REACTIONS = {
    SLOW: "nothing is started, and followers copy at half the rate, until the cluster is well again",
    HOLD: "nothing is started until the cluster is well again",
    STOP: "nothing more is started, and the wave ends after its running copies",
}


class Stopped(Refused):
    """An operator has stopped or cancelled the wave."""


class Stalled(BallastError):
    """Copies run, but nothing gets on; the message has the bytes left and the rate that would do."""

    exit_code = 5


@dataclass(frozen=True)
class Patience:
    """How long to watch.

    Parameters
    ----------
    stall_seconds : float
        Without any progress for this time the watch ends with ``Stalled``.
    until_seconds : float or None
        When the watch ends although copies run, on the clock ``time.monotonic``; None: it does not.
    """

    stall_seconds: float
    until_seconds: float | None = None

    @classmethod
    def of(cls, stall_seconds: float, for_seconds: float | None) -> "Patience":
        """From now on, for a time."""
        return cls(stall_seconds, None if for_seconds is None else time.monotonic() + for_seconds)

    def is_over(self, at_seconds: float) -> bool:
        """Whether the next look would come too late."""
        return self.until_seconds is not None and at_seconds + CHECK_SECONDS > self.until_seconds


@dataclass
class EveryMinute:
    """When a line is due: at once, and then a minute after each line.

    So a command whose output nobody reads any more ends within a minute: it cannot write its next line.

    Parameters
    ----------
    last_seconds : float or None
        When the last line was written, on the clock ``time.monotonic``.
    """

    last_seconds: float | None = None

    def is_due(self, at_seconds: float) -> bool:
        """Whether a line is due; then it is written now."""
        if self.last_seconds is not None and at_seconds - self.last_seconds < _LINE_SECONDS:
            return False
        self.last_seconds = at_seconds
        return True


@dataclass
class Watch:
    """One wave that is watched until its partitions are done or skipped.

    ``_next_step`` is when a rate may be raised again, on the clock ``time.monotonic``. ``_unexpected_reads`` counts
    reads in a row whose state is unexpected. ``_version`` is that of the journal when the wanted states were read.
    """

    step: Execution
    patience: Patience
    gauge: Gauge = field(default_factory=Gauge)
    _states: list[Wanted] = field(default_factory=lambda: [Wanted()])
    _version: int = -1
    _is_executed: bool = False  # whether the step execute has ended, by the journal
    _never_set: frozenset[int] = frozenset()  # brokers whose rates were never set, by the journal
    _rates: dict[Throttle, str] = field(default_factory=dict)  # as the wave last had them
    _next_step: float = 0.0
    _released: set[Copy] = field(default_factory=set)
    _is_first_look: bool = True
    _skipped_start: bool = False  # whether an earlier look did not start what waits, because throttles were missing
    # What was in flight: partitions, or replicas that move inside their brokers.
    _seen: set[TopicPartition | Replica] = field(default_factory=set)
    _unexpected_reads: int = 0
    _lines: EveryMinute = field(default_factory=EveryMinute)
    _guard: Guard = field(init=False)

    def to_the_end(self) -> None:
        """Check every two seconds until the wave is done.

        Raises
        ------
        Refused
            When somebody has cancelled moves of the wave, or nothing moves although partitions wait.
        StillMoving
            When the time is over.
        Stalled
            When nothing gets on.
        """
        self._guard = self._new_guard()
        while True:
            begun = time.monotonic()
            now = self.step.observe_settled(only_own=True)
            self._react(now, begun)
            self._obey(now, begun)
            copies = running_copies(self.step.wave, now, stored := self.step.ends(now))
            self.gauge.add(begun, copies)
            due = self._due(now, copies)
            is_throttled = self._keep_throttles(now)
            if self._is_done(now, may_start=is_throttled):
                self._end_if_stopped(now)
                return
            self._release(now, due)
            self._say(now, copies, stored, begun)
            self._check_patience(begun, now)
            time.sleep(max(0.0, begun + CHECK_SECONDS - time.monotonic()))

    def _is_done(self, now: Observed, *, may_start: bool) -> bool:
        """Whether nothing moves and nothing waits any more; starts what waits and has room.

        Parameters
        ----------
        may_start : bool
            Whether all throttles were there at this look.
        """
        wave, by_state = self.step.wave, self.step.wave.by_state(now)
        waiting, in_flight = by_state[MoveState.NOT_STARTED], wave.moving(now)
        lost = self._lost(now, waiting, in_flight)
        # A move that has just ended may look like this until all brokers know that it ended.
        was_held_back = any(state.holds_back for state in self._states)
        # A broker inside which nothing was started because it did not answer may answer now.
        must_run = not self.step.max_moves_per_broker and not was_held_back and not wave.inside
        self._skipped_start |= bool(waiting) and not may_start
        is_unexpected = bool(lost) or (waiting and not in_flight and must_run and not self._skipped_start)
        self._unexpected_reads = self._unexpected_reads + 1 if is_unexpected else 0
        if self._unexpected_reads == READS:
            if lost:
                cause = "somebody cancelled moves" + (", or a directory failed" if wave.inside else "")
                self.step.say(f"{cause}: {preflight.partition_names(lost)}")
            self.step.raise_unfinished(by_state)
        if is_unexpected:
            return False
        if waiting and not self._states[-1].holds_back:
            if may_start:
                self._skipped_start = False
                self._start(now)
            return False
        if self._states[-1].is_paused:
            return False
        if not in_flight and not waiting and not wave.skipped(now):
            self.step.record_copied()
        return not in_flight and (not waiting or self._states[-1].ending == STOP)

    def _lost(
        self, now: Observed, waiting: Collection[TopicPartition], in_flight: Collection[TopicPartition]
    ) -> list[TopicPartition]:
        """Partitions that wait although they were in flight."""
        wave = self.step.wave
        if not wave.inside:
            self._seen.update(in_flight)
            return [partition for partition in waiting if partition in self._seen]
        self._seen.update(wave.replicas_at(now, Place.MOVING))
        return sorted({replica[:2] for replica in wave.replicas_at(now, Place.OLD) if replica in self._seen})

    def _start(self, now: Observed) -> None:
        """Start what waits and has room; a wave that was held back until now begins with the step execute."""
        if not self._is_executed:
            wave = replace(self.step.wave, own_rates=own_rates(self.step.wave, self._states))
            replace(self.step, wave=wave).execute(is_watched=True)
            return
        with self.step.changing():
            self.step.start_next(now)

    def _end_if_stopped(self, now: Observed) -> None:
        if self._states[-1].ending == STOP:
            self.step.off(cancel=False, accept_owed=False)
            state = f"{describe_state(self.step.wave, now)}; nothing more is started"
            because = f", because {self._states[-1].because}" if self._states[-1].because else ""
            raise Stopped(f"{self.step.name} was stopped: {state}{because}")

    def _new_guard(self) -> Guard:
        """With the baseline of the journal."""
        step, now = self.step, self.step.observe()
        guard = Guard(step, step.held_baseline(), now.min_isr)
        if self.step.wanted_states()[-1].pressure:  # a killed process has seen it
            guard.look(now, time.monotonic())
        return guard

    def _react(self, now: Observed, at_seconds: float) -> None:
        """Hold the wave back while the cluster is worse than at its begin."""
        step, wanted = self.step, self._states[-1]
        self._guard.look(now, at_seconds)
        reaction = self._guard.reaction(wanted, at_seconds)
        if reaction == wanted:
            return
        with step.changing():
            self._guard.record(reaction)
            if reaction.because:
                step.say(f"{step.name}: {REACTIONS[step.on_pressure]}")
            else:
                step.say(f"{step.name} goes on: the cluster is as it was when the wave began")
                wave = step.wave.with_rates(self._rates).without(follower_elements(self._released))
                step.restore_throttles(wave, is_watched=True, why="throttles of leaders were lifted")

    def _obey(self, now: Observed, at_seconds: float) -> None:
        """Do what the operator wants since the last look."""
        step = self.step
        if (version := step.warehouse.version("executions")) != self._version:
            known = len(self._states)
            self._version = version
            step.check_still_held()
            rows = claims.since_hold(step.warehouse, step.plan, step.wave.number)
            self._states = history(rows, claims.WANTED)
            self._is_executed = any(row["event"] == claims.EXECUTED for row in rows)
            self._never_set = never_set(rows)
            for before, state in pairwise(self._states[known - 1 :]):
                if replace(state, pressure=before.pressure, because=before.because) != before:
                    step.say(f"{step.name}: wanted is now: {describe_wanted(state)}")
        if self._never_set & now.alive:
            with step.changing():
                step.note_returned(now)
        if self._states[-1].ending == CANCEL:
            with step.changing():
                step.cancel()
            step.off(cancel=False, accept_owed=False)
            raise Stopped(f"{step.name} was cancelled")
        # A rate that somebody has removed is set again with its last value, by _keep_throttles.
        seen = replace(now, throttles={**self._rates, **now.throttles})
        if at_seconds >= self._next_step and not is_there(step.wave, self._states, seen):
            self._next_step = at_seconds + STEP_SECONDS
            with step.changing():
                for line in steer(step.admin, step.wave, self._states, seen):
                    step.say(f"rate not set: {line}")
        own = rates(step.wave, Wanted())
        self._rates.update({key: value for key, value in now.throttles.items() if key in own})

    def _due(self, now: Observed, copies: Mapping[Copy, CopySize]) -> set[Copy]:
        """Copies that are nearly done or done: from here on they need no entry in the list of followers.

        Entries that were there before the wave are somebody else's and stay.
        """
        wave, done = self.step.wave, self.step.wave.by_state(now)[MoveState.DONE]
        if wave.inside:  # there is no such list
            return set()
        near = {
            copy
            for copy, size in copies.items()
            if size.left_bytes <= max(LAST_STRETCH_BYTES, 2 * self.gauge.last_gain_bytes(copy))
        }
        near |= self._released_before(now, copies)
        near |= {(*partition, broker) for partition in done for broker in wave.added(partition)}
        before = {
            key[1]: value.split(",") for key, value in wave.previous_throttles.items() if key[2] == FOLLOWER_REPLICAS
        }
        due = {copy for copy in near if f"{copy[1]}:{copy[2]}" not in before.get(copy[0], ())}
        self._released |= due
        return due

    def _released_before(self, now: Observed, copies: Mapping[Copy, CopySize]) -> set[Copy]:
        """At the first look: copies that an earlier process has released, as they are in no list and little is left.

        Little is what they copy in two looks at the highest rate of their broker, because their gain is unknown.
        """
        if not self._is_first_look:
            return set()
        self._is_first_look = False
        result = set()
        for (topic, number, broker), size in copies.items() if self._is_executed else ():
            is_listed = f"{number}:{broker}" in elements_of(now.throttles.get(("topics", topic, FOLLOWER_REPLICAS)))
            if not is_listed and size.left_bytes <= 2 * CHECK_SECONDS * self._most_bytes_per_s(broker):
                result.add((topic, number, broker))
        return result

    def _most_bytes_per_s(self, broker: int) -> int:
        """The highest rate of a follower since the wave holds the cluster."""
        key = "brokers", str(broker), FOLLOWER_RATE
        return max(rates(self.step.wave, state).get(key, 0) for state in self._states)

    def _keep_throttles(self, now: Observed) -> bool:
        """Set throttles again that somebody has removed; whether all were there."""
        elements = {**follower_elements(self._released), **self._guard.lifted(self._states[-1])}
        wave = self.step.wave.with_rates(self._rates).without(elements)
        by_state = wave.by_state(now)
        if not wave.absent_throttles(now) or not (by_state[MoveState.NOT_STARTED] or wave.moving(now)):
            return True
        with self.step.changing():
            self.step.restore_throttles(wave, is_watched=True)
        return False

    def _release(self, now: Observed, due: set[Copy]) -> None:
        """Take copies out of the lists of followers; the leader's rate still limits them.

        While the wave is slowed down, partitions that lack an old replica are taken out of the lists of leaders too.
        """
        elements = {**follower_elements(due), **self._guard.lifted(self._states[-1])}
        if changes := shortened(now.throttles, elements):
            with self.step.changing():
                self.step.admin.alter(changes)

    def _say(self, now: Observed, copies: Mapping[Copy, CopySize], stored: Stored, at_seconds: float) -> None:
        if self._lines.is_due(at_seconds):
            left = sum(size.left_bytes for size in copies.values()) + waiting_bytes(self.step.wave, now, stored)
            rate = self.gauge.rate_bytes_per_s
            unknown = unknown_sizes(self.step.wave, now, stored, copies)
            pace = f", {human_rate(rate)}" if rate else ""
            if rate and not unknown:
                pace += f", about {human_time(left / rate)} more"
            progress = f"{human_bytes(left)} left to copy{pace}{describe_unknown(unknown)}"
            self.step.say(f"{self.step.name}: {describe_state(self.step.wave, now)}; {progress}")

    def _held_back(self) -> list[str]:
        """Why nothing is started, if the cluster is the reason."""
        because = self._states[-1].because
        return [f"held back: {because}"] if because else []

    def _check_patience(self, at_seconds: float, now: Observed) -> None:
        if self._states[-1].is_paused:
            self.gauge = Gauge()
        if self.gauge.idle_seconds >= self.patience.stall_seconds:
            raise Stalled(
                f"{self.step.name}: no progress for {human_time(self.gauge.idle_seconds)}, the throttles stay: "
                f"{describe_state(self.step.wave, now)}{bullets([*self._held_back(), *self.gauge.stalled()])}"
            )
        if self.patience.is_over(at_seconds):
            moving = self.step.wave.by_state(now)[MoveState.IN_FLIGHT]
            raise StillMoving(
                f"{self.step.name}: copies still run under their throttles: {preflight.partition_names(moving)}"
            )
