"""What a look at a running wave calls for. Pure: ``watch`` looks and performs; here is decided.

The same look and the same memory give the same actions, and nothing is changed, so each decision can be tested alone.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from itertools import pairwise

from execution import preflight
from execution.guard import Guard, describe_signs
from execution.health import Sign
from execution.journal import Hold
from execution.observed import Observed, Place, Replica, Stored, Throttle, TopicPartition
from execution.progress import (
    Copy,
    CopySize,
    Gauge,
    describe_state,
    describe_unknown,
    left_seconds,
    unknown_sizes,
    waiting_bytes,
)
from execution.throttles import Setting, elements_of, follower_elements, leader_elements, shortened
from execution.wanted import (
    CANCEL,
    HOLD,
    SLOW,
    STEP_SECONDS,
    STOP,
    Wanted,
    describe_wanted,
    history,
    next_rates,
    own_rates,
    rates,
)
from execution.wave import MoveState, Wave
from optimizer.errors import bullets
from optimizer.kafka.throttle import FOLLOWER_RATE, FOLLOWER_REPLICAS
from optimizer.units import first_of, human_bytes, human_rate, human_time

CHECK_SECONDS = 2.0  # seconds between two looks; a look costs a broker one answer of some kilobytes
# Brokers need a moment to agree that a move has ended: an unexpected state must be read 3 times.
READS = 3
# A copy is released from its follower throttle when this is left, or twice its last gain. Else producers with acks=all
# wait for it: for its leader it is in sync, but its own throttle still delays it. (40 copies at 10 MB/s: worst send 3.1
# to 6.4 s, with the release 1.0 to 1.2 s.)
LAST_STRETCH_BYTES = 2_000_000
REACTIONS = {
    SLOW: "nothing is started, and followers copy at half the rate, until the cluster is well again",
    HOLD: "nothing is started until the cluster is well again",
    STOP: "nothing more is started, and the wave ends after its running copies",
}
REMOVED, LIFTED = "somebody removed throttles", "throttles of leaders were lifted"


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

    def is_over(self, at_seconds: float) -> bool:
        """Whether the next look would come too late."""
        return self.until_seconds is not None and at_seconds + CHECK_SECONDS > self.until_seconds


@dataclass(frozen=True)
class Course:
    """What stays the same while a wave is watched.

    Parameters
    ----------
    wave : Wave
    name : str
        The wave in messages.
    cluster_id : str
    patience : Patience
    is_capped : bool
        Whether only some moves of a broker run at once.
    """

    wave: Wave
    name: str
    cluster_id: str
    patience: Patience
    is_capped: bool


@dataclass(frozen=True)
class Look:
    """What was observed at one time.

    Parameters
    ----------
    at_seconds : float
        On the clock ``time.monotonic``.
    now : Observed
    hold : Hold
        The wave's hold, by the journal.
    stored : Stored
        What the brokers that send and receive have.
    copies : mapping of Copy to CopySize
        The copies that run.
    full : frozenset of Sign
        Directories over their limit.
    gauge : Gauge
        The sizes of the running copies, at this look and at those before.
    is_line_due : bool
        Whether a line of progress is due.
    """

    at_seconds: float
    now: Observed
    hold: Hold
    stored: Stored
    copies: Mapping[Copy, CopySize]
    full: frozenset[Sign]
    gauge: Gauge
    is_line_due: bool


@dataclass(frozen=True)
class Memory:
    """What counts of the looks before.

    Parameters
    ----------
    guard : Guard
    known_states : int
        How many wanted states are known; the first is the plan's.
    is_first : bool
        Whether no look was there before.
    rates : mapping of Throttle to str
        Rates as the wave last had them.
    next_step_seconds : float
        When a rate may be raised again, on the clock ``time.monotonic``.
    released : frozenset of Copy
        Copies that need no entry in the lists of followers any more.
    failed : frozenset of (broker, path)
        Directories that have failed.
    seen : frozenset
        What was in flight: partitions, or replicas that move inside their brokers.
    unexpected_reads : int
        How many looks in a row were unexpected.
    skipped_start : bool
        Whether a look did not start what waits, because throttles were missing.
    """

    guard: Guard
    known_states: int = 1
    is_first: bool = True
    rates: Mapping[Throttle, str] = field(default_factory=dict)
    next_step_seconds: float = 0.0
    released: frozenset[Copy] = frozenset()
    failed: frozenset[tuple[int, str]] = frozenset()
    seen: frozenset[TopicPartition | Replica] = frozenset()
    unexpected_reads: int = 0
    skipped_start: bool = False


@dataclass(frozen=True)
class Say:
    """Say a line; one of progress is due again a minute later."""

    line: str
    is_progress: bool = False


@dataclass(frozen=True)
class React:
    """Write what the cluster's state calls for to the journal."""

    wanted: Wanted


@dataclass(frozen=True)
class NoteReturned:
    """Record the brokers that are back, whose rates were never set."""


@dataclass(frozen=True)
class SetRates:
    """Give rates these values, in bytes per second."""

    values: Mapping[Throttle, int]


@dataclass(frozen=True)
class Restore:
    """Set the throttles of the wave, as it is now, that are missing; ``why`` begins the line about them."""

    wave: Wave
    why: str


@dataclass(frozen=True)
class Start:
    """Start what waits and has room; with ``own_rates`` as the step execute, which a wave held back has not had yet."""

    own_rates: Mapping[Throttle, frozenset[str]] | None


@dataclass(frozen=True)
class Release:
    """Shorten lists of throttled replicas."""

    changes: Mapping[Throttle, Setting]


@dataclass(frozen=True)
class RecordCopied:
    """Record that all copies are done."""


class How(Enum):
    """How a watch ends."""

    DONE = auto()
    CANCELLED = auto()
    STOPPED = auto()
    UNFINISHED = auto()
    STALLED = auto()
    TIME_OVER = auto()


@dataclass(frozen=True)
class End:
    """End the watch, with this message."""

    how: How
    message: str = ""


Action = Say | React | NoteReturned | SetRates | Restore | Start | Release | RecordCopied | End


def reaction(course: Course, memory: Memory, look: Look) -> tuple[list[Action], Memory]:
    """Hold the wave back while the cluster is worse than at its begin: what to do before ``next_actions``.

    What is wanted is then read again: somebody may have written meanwhile.
    """
    name, wanted = course.name, history(look.hold)[-1]
    seen = memory.guard.seen(course.wave, look.now, look.full, look.at_seconds)
    actions: list[Action] = []
    if seen.kinds != memory.guard.kinds:
        actions += [Say(f"{name}: {line}") for line in describe_signs(seen.worse)]
    changed, guard = seen.reaction(wanted, look.at_seconds)
    memory = replace(memory, guard=guard)
    if changed != wanted:
        actions.append(React(changed))
    if changed.because and (changed != wanted or memory.is_first):
        actions.append(Say(f"{name}: {REACTIONS[changed.pressure or STOP]}"))
    elif changed != wanted:
        actions.append(Say(f"{name} goes on: the cluster is as it was when the wave began"))
        if wanted.pressure == SLOW:
            wave = course.wave.with_rates(memory.rates).without(follower_elements(memory.released))
            actions.append(Restore(wave, LIFTED))
    return actions, memory


def next_actions(course: Course, memory: Memory, look: Look) -> tuple[list[Action], Memory]:
    """What to do now, in this order, and what to remember of this look."""
    deciding = _Deciding(course, look, memory)
    deciding.decide()
    return deciding.actions, replace(deciding.memory, is_first=False)


@dataclass
class _Deciding:
    """The actions of one look, as they are found."""

    course: Course
    look: Look
    memory: Memory
    actions: list[Action] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.wave = self.course.wave
        self.states = history(self.look.hold)
        self.wanted = self.states[-1]

    def decide(self) -> None:
        """Find all actions."""
        self.say_news()
        if self.look.hold.never_set & self.look.now.alive:
            self.actions.append(NoteReturned())
        if self.wanted.ending == CANCEL:
            self.end(How.CANCELLED, " was cancelled")
            return
        self.steer()
        due = self.due()
        may_start = self.restore()
        if not self.go_on(may_start=may_start):
            self.release(due)
            self.say_progress()
            self.check_patience()

    def say(self, line: str, *, is_progress: bool = False) -> None:
        self.actions.append(Say(f"{self.course.name}: {line}", is_progress))

    def end(self, how: How, message: str = "") -> None:
        self.actions.append(End(how, f"{self.course.name}{message}"))

    def say_news(self) -> None:
        """Say what operators want since the last look (at the first only the newest), and which directories failed."""
        changes = list(pairwise(self.states[self.memory.known_states - 1 :]))
        for before, state in changes[-1:] if self.memory.is_first else changes:
            if replace(state, pressure=before.pressure, because=before.because) != before:
                self.say(f"wanted is now: {describe_wanted(state)}")
        failed = self.look.stored.failed
        for broker, path in sorted(failed - self.memory.failed):
            self.say(f"directory {path} of broker {broker} has failed")
        self.memory = replace(self.memory, known_states=len(self.states), failed=self.memory.failed | failed)

    def steer(self) -> None:
        """Bring the rates nearer to the wanted ones.

        A rate that somebody has removed is set again with its last value, by ``restore``. Another value is somebody
        else's: it stays while it is there, and is not set again.
        """
        look, memory = self.look, self.memory
        if look.at_seconds >= memory.next_step_seconds:
            seen = replace(look.now, throttles={**memory.rates, **look.now.throttles})
            if values := next_rates(self.wave, self.states, seen):
                memory = replace(memory, next_step_seconds=look.at_seconds + STEP_SECONDS)
                self.actions.append(SetRates(values))
        own = own_rates(self.wave, self.states)
        found = {key: value for key, value in look.now.throttles.items() if value in own.get(key, ())}
        self.memory = replace(memory, rates={**memory.rates, **found})

    def due(self) -> set[Copy]:
        """Copies that are nearly done or done: from here on they need no entry in the list of followers.

        Entries that were there before the wave are somebody else's and stay.
        """
        look, wave = self.look, self.wave
        if wave.inside:  # there is no such list
            return set()
        near = {
            copy
            for copy, size in look.copies.items()
            if size.left_bytes <= max(LAST_STRETCH_BYTES, 2 * look.gauge.last_gain_bytes(copy))
        }
        if self.memory.is_first and look.hold.is_executed:
            near |= set(self.released_before())
        done = wave.by_state(look.now)[MoveState.DONE]
        near |= {(*partition, broker) for partition in done for broker in wave.added(partition)}
        before = {
            key[1]: value.split(",") for key, value in wave.previous_throttles.items() if key[2] == FOLLOWER_REPLICAS
        }
        due = {copy for copy in near if f"{copy[1]}:{copy[2]}" not in before.get(copy[0], ())}
        self.memory = replace(self.memory, released=self.memory.released | due)
        return due

    def released_before(self) -> Iterator[Copy]:
        """Copies that an earlier process has released, as they are in no list and little is left.

        Little is what they copy in two looks at the highest rate of their broker, because their gain is unknown.
        """
        for (topic, number, broker), size in self.look.copies.items():
            key = "brokers", str(broker), FOLLOWER_RATE
            most_bytes_per_s = max(rates(self.wave, state).get(key, 0) for state in self.states)
            listed = elements_of(self.look.now.throttles.get(("topics", topic, FOLLOWER_REPLICAS)))
            if f"{number}:{broker}" not in listed and size.left_bytes <= 2 * CHECK_SECONDS * most_bytes_per_s:
                yield topic, number, broker

    def lifted(self) -> dict[Throttle, set[str]]:
        """What is taken out of the lists of leaders, so that old replicas that fell out of sync catch up."""
        if self.wanted.pressure != SLOW:
            return {}
        return leader_elements(self.memory.guard.lifted, self.wave.throttles, self.wave.previous_throttles)

    def restore(self) -> bool:
        """Set throttles again that somebody has removed; whether all were there."""
        now, elements = self.look.now, {**follower_elements(self.memory.released), **self.lifted()}
        wave = self.wave.with_rates(self.memory.rates).without(elements)
        runs = wave.by_state(now)[MoveState.NOT_STARTED] or wave.moving(now)
        if not runs or not wave.absent_throttles(now):
            return True
        self.actions.append(Restore(wave, REMOVED))
        return False

    def go_on(self, *, may_start: bool) -> bool:
        """Start what waits, or end the watch if nothing moves and nothing waits any more; whether it ends.

        Parameters
        ----------
        may_start : bool
            Whether all throttles were there at this look.
        """
        now, wave, memory = self.look.now, self.wave, self.memory
        by_state = wave.by_state(now)
        waiting, in_flight = by_state[MoveState.NOT_STARTED], wave.moving(now)
        lost = self.lost(waiting, in_flight)
        # A move that has just ended may look like this until all brokers know that it ended.
        was_held_back = any(state.holds_back for state in self.states)
        # A broker inside which nothing was started because it did not answer may answer now.
        must_run = not self.course.is_capped and not was_held_back and not wave.inside
        skipped_start = memory.skipped_start or (bool(waiting) and not may_start)
        is_unexpected = bool(lost) or bool(waiting and not in_flight and must_run and not skipped_start)
        reads = memory.unexpected_reads + 1 if is_unexpected else 0
        starts = bool(waiting) and not is_unexpected and not self.wanted.holds_back
        skipped_start = skipped_start and not (starts and may_start)
        self.memory = replace(self.memory, unexpected_reads=reads, skipped_start=skipped_start)
        if reads >= READS:
            if lost:
                cause = "somebody cancelled moves" + (", or a directory failed" if wave.inside else "")
                self.actions.append(Say(f"{cause}: {preflight.partition_names(lost)}"))
            self.end(How.UNFINISHED)
            return True
        if starts and may_start:
            self.actions.append(Start(None if self.look.hold.is_executed else own_rates(wave, self.states)))
        if is_unexpected or starts or self.wanted.is_paused:
            return False
        if not in_flight and not waiting and not wave.skipped(now):
            self.actions.append(RecordCopied())
        if in_flight or (waiting and self.wanted.ending != STOP):
            return False
        if self.wanted.ending == STOP:
            because = f", because {self.wanted.because}" if self.wanted.because else ""
            state = f"{describe_state(wave, now)}; nothing more is started{because}"
            self.end(How.STOPPED, f" was stopped: {state}")
        else:
            self.end(How.DONE)
        return True

    def lost(
        self, waiting: Collection[TopicPartition], in_flight: Collection[TopicPartition]
    ) -> Collection[TopicPartition]:
        """Partitions that wait although they were in flight."""
        wave, now = self.wave, self.look.now
        moving: Collection[TopicPartition | Replica] = wave.replicas_at(now, Place.MOVING) if wave.inside else in_flight
        self.memory = replace(self.memory, seen=self.memory.seen.union(moving))
        if not wave.inside:
            return [partition for partition in waiting if partition in self.memory.seen]
        return sorted({replica[:2] for replica in wave.replicas_at(now, Place.OLD) if replica in self.memory.seen})

    def release(self, due: Collection[Copy]) -> None:
        """Take copies out of the lists of followers; the leader's rate still limits them.

        While the wave is slowed down, partitions that lack an old replica are taken out of the lists of leaders too.
        """
        elements = {**follower_elements(due), **self.lifted()}
        if changes := shortened(self.look.now.throttles, elements):
            self.actions.append(Release(changes))

    def say_progress(self) -> None:
        """Say in each minute how far the copies are."""
        look, wave = self.look, self.wave
        if not look.is_line_due:
            return
        waiting = waiting_bytes(wave, look.now, look.stored)
        left = sum(size.left_bytes for size in look.copies.values()) + sum(waiting.values())
        rate = look.gauge.rate_bytes_per_s
        unknown = unknown_sizes(wave, look.now, look.stored, look.copies)
        pace = f", {human_rate(rate)}" if rate else ""
        seconds = left_seconds(look.copies, waiting, look.gauge.rates_bytes_per_s)
        if seconds is not None and not unknown:
            pace += f", about {human_time(seconds)} more"
        is_over = not (wave.by_state(look.now)[MoveState.NOT_STARTED] or wave.moving(look.now))
        if is_over and self.wanted.is_paused:
            pace += f"; all is copied, ./ballast resume --cluster {self.course.cluster_id} ends the wave"
        progress = f"{human_bytes(left)} left to copy{pace}{describe_unknown(unknown)}"
        self.say(f"{describe_state(wave, look.now)}; {progress}", is_progress=True)

    def check_patience(self) -> None:
        """End the watch if nothing gets on, or if its time is over."""
        look, patience, idle_seconds = self.look, self.course.patience, self.look.gauge.idle_seconds
        if idle_seconds >= patience.stall_seconds:
            held_back = [f"held back: {self.wanted.because}"] if self.wanted.because else []
            lines = bullets([*held_back, *self.hanging(), *look.gauge.stalled()])
            state = f"{describe_state(self.wave, look.now)}{lines}"
            self.end(How.STALLED, f": no progress for {human_time(idle_seconds)}, the throttles stay: {state}")
        elif patience.is_over(look.at_seconds):
            names = preflight.partition_names(self.wave.by_state(look.now)[MoveState.IN_FLIGHT])
            self.end(How.TIME_OVER, f": copies still run under their throttles: {names}")

    def hanging(self) -> Iterator[str]:
        """Copies that nothing is known of, with the reason: their target is dead, or one of its directories failed."""
        wave, now = self.wave, self.look.now
        moving = [] if wave.inside else wave.by_state(now)[MoveState.IN_FLIGHT]
        for broker in sorted({broker for partition in moving for broker in wave.added(partition)}):
            names = preflight.partition_names(p for p in moving if broker in wave.added(p))
            failed = sorted(path for each, path in self.look.stored.failed if each == broker)
            if broker not in now.alive:
                yield f"{names} to broker {broker}: broker {broker} is not alive"
            elif failed:
                yield f"{names} to broker {broker}: its directory {first_of(failed)} has failed"
