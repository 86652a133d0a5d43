"""Watches a running wave: looks, asks ``next_actions`` what to do, and does it, every two seconds."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from execution.actions import (
    CHECK_SECONDS,
    Action,
    Course,
    End,
    How,
    Look,
    Memory,
    NoteReturned,
    Patience,
    React,
    RecordCopied,
    Release,
    Restore,
    Say,
    SetRates,
    Start,
    next_actions,
    reaction,
)
from execution.admin import NoController
from execution.guard import Guard
from execution.health import Sign
from execution.observed import Observed
from execution.progress import Gauge, running_copies
from execution.steps import Execution, StillMoving
from execution.wanted import Wanted, history
from optimizer.errors import BallastError
from stored.verdicts import Refused

_LINE_SECONDS = 60.0  # seconds between two lines of progress: copies take hours
_DIRECTORY_SECONDS = 60.0  # seconds between two looks at the directories of all brokers


class Stopped(Refused):
    """An operator has stopped or cancelled the wave."""


class Stalled(BallastError):
    """Copies run, but nothing gets on; the message has the bytes left and the rate that would do."""

    exit_code = 5


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
        """Whether a line is due."""
        return self.last_seconds is None or at_seconds - self.last_seconds >= _LINE_SECONDS

    def take_turn(self, at_seconds: float) -> bool:
        """Take the turn to write a line, if one is due; returns whether it was."""
        is_due = self.is_due(at_seconds)
        self.last_seconds = at_seconds if is_due else self.last_seconds
        return is_due


@dataclass
class Watch:
    """One wave that is watched until its partitions are done or skipped."""

    step: Execution
    patience: Patience
    gauge: Gauge = field(default_factory=Gauge)
    _full: frozenset[Sign] = frozenset()  # directories over their limit, as read a minute ago at most
    _full_seconds: float | None = None
    _lines: EveryMinute = field(default_factory=EveryMinute)

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
        step = self.step
        course = Course(step.wave, step.name, step.plan.cluster_id, self.patience, bool(step.max_moves_per_broker))
        memory = Memory(self._guard())
        away: float | None = None  # since when the controller does not answer
        while True:
            begun = time.monotonic()
            try:
                look = self._look(begun)
                actions, memory = reaction(course, memory, look)
                self._perform(actions, look)
                if actions:
                    look = replace(look, hold=step.check_still_held())
                actions, memory = next_actions(course, memory, look)
                if self._perform(actions, look):
                    return
                away = None
            except NoController as error:
                if self._lines.take_turn(begun) or away is None:
                    step.say(f"{step.name}: {error}")
                away = begun if away is None else away
                if begun - away >= self.patience.stall_seconds or self.patience.is_over(begun):
                    raise
            time.sleep(max(0.0, begun + CHECK_SECONDS - time.monotonic()))

    def _guard(self) -> Guard:
        """With the baseline of the journal."""
        step, now = self.step, self.step.observe()
        guard = Guard(step.held_baseline(), now.min_isr, step.on_pressure)
        if step.wanted_states()[-1].pressure:  # a killed process has seen it
            at_seconds = time.monotonic()
            guard = guard.seen(step.wave, now, self._full_directories(now, at_seconds), at_seconds)
        return replace(guard, kinds=frozenset())

    def _look(self, at_seconds: float) -> Look:
        """Observe the wave, and at last what operators want of it."""
        step = self.step
        now = step.observe_settled(only_own=True)
        step.cordon_returned(now, at_seconds)
        stored = step.ends(now)
        full = self._full_directories(now, at_seconds)
        hold = step.check_still_held()
        copies = running_copies(step.wave, now, stored)
        self.gauge = (Gauge() if history(hold)[-1].is_paused else self.gauge).seen(at_seconds, copies)
        return Look(at_seconds, now, hold, stored, copies, full, self.gauge, self._lines.is_due(at_seconds))

    def _full_directories(self, now: Observed, at_seconds: float) -> frozenset[Sign]:
        """Directories over their limit; they are looked at once a minute."""
        if self._full_seconds is None or at_seconds - self._full_seconds >= _DIRECTORY_SECONDS:
            self._full_seconds = at_seconds
            self._full = frozenset(self.step.full_directories(now))
        return self._full

    def _perform(self, actions: Sequence[Action], look: Look) -> bool:
        """Do these actions; whether the watch has ended. Each change of the cluster is made under the lock."""
        step = self.step
        for action in actions:
            match action:
                case Say(line, is_progress):
                    step.say(line)
                    if is_progress:
                        self._lines.take_turn(look.at_seconds)
                case RecordCopied():
                    step.record_copied()
                case Start(own_rates) if own_rates is not None:
                    replace(step, wave=replace(step.wave, own_rates=own_rates)).execute(is_watched=True)
                case End():
                    self._end(action, look)
                case _:
                    with step.changing():
                        self._change(action, look)
        return any(isinstance(action, End) for action in actions)

    def _change(self, action: Action, look: Look) -> None:
        """Change the cluster or the journal."""
        step = self.step
        match action:
            case React(wanted):
                self._record(wanted)
            case NoteReturned():
                step.note_returned(look.now)
            case SetRates(values):
                for line in step.set_rates(values):
                    step.say(f"rate not set: {line}")
            case Restore(wave, why):
                step.restore_throttles(wave, is_watched=True, why=why)
            case Start():
                if not step.wanted_states()[-1].holds_back:  # since the look
                    step.start_next(look.now)
            case Release(changes):
                step.admin.alter(changes)

    def _record(self, reaction: Wanted) -> None:
        """Write a reaction to the journal; what operators want meanwhile stays."""
        step = self.step

        def text() -> str:
            newest = step.wanted_states()[-1]
            ending = newest.ending or reaction.ending
            return replace(newest, pressure=reaction.pressure, because=reaction.because, ending=ending).to_json()

        step.journal.record_wanted(step.plan, step.wave.id, text)

    def _end(self, end: End, look: Look) -> None:
        """Do what an end needs; raises unless the wave is done."""
        step = self.step
        if end.how is How.UNFINISHED:
            step.raise_unfinished(step.wave.by_state(look.now))
        if end.how is How.CANCELLED:
            with step.changing():
                step.cancel()
        if end.how in (How.CANCELLED, How.STOPPED):
            step.off(cancel=False, accept_owed=False)
            raise Stopped(end.message)
        if end.how in (How.STALLED, How.TIME_OVER):
            raise {How.STALLED: Stalled, How.TIME_OVER: StillMoving}[end.how](end.message)
