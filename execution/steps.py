"""The steps of a wave. Each step checks the state, skips finished work and reports what it did."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import NoReturn

from execution import claims, preflight
from execution.admin import Admin
from execution.cancel import cancel_wave
from execution.describe import describe_state, describe_throttles
from execution.directories import Misplaced, announce, misplaced, report_misplaced
from execution.election import Elected, elect, not_led
from execution.health import Baseline, Sign, baseline_of, full_directories
from execution.inside_moves import move_inside
from execution.journal import changes_of, entries_of, never_set, never_set_of, stored_baseline
from execution.kafka_tools import KafkaTools
from execution.lock_files import path_of
from execution.measured import measured
from execution.observed import Observed, Stored, TopicPartition, report_long_wait
from execution.planned import Plan, plan_documents
from execution.progress import brokers_of
from execution.starting import next_moves, start
from execution.throttles import Entries, Entry, describe
from execution.throttling import Left, remove_throttles, set_throttles
from execution.wanted import SLOW, Wanted, history, own_rates
from execution.wave import MoveState, Wave, replica_lists
from optimizer import locks
from optimizer.errors import BallastError, bullets
from optimizer.units import agree, first_of, plural
from stored.tables import Warehouse
from stored.verdicts import Refused

_REMOVED = "somebody removed throttles"
# Brokers need a moment to agree that a move has ended: an unexpected state must be read 3 times, 1 s apart.
READS, READ_AGAIN_SECONDS = 3, 1.0


class StillMoving(BallastError):
    """Copies still run: run the step again later."""

    exit_code = 4


class Incomplete(BallastError):
    """The work has ended, but some partitions are not as planned; the message names them."""

    exit_code = 6


class Owed(BallastError):
    """Only rates of brokers that do not answer are left: they can be removed when the brokers are back."""


@dataclass(frozen=True)
class Execution:
    """Runs the steps of one wave of one cluster.

    Parameters
    ----------
    warehouse : Warehouse
    plan : Plan
    wave : Wave
    earlier : sequence of Wave
        The waves before this one.
    tools : KafkaTools
    admin : Admin
    client : mapping
        Options of the client, for messages.
    say : callable
        Gets each progress line.
    is_strict : bool
        Whether partitions that the plan cannot move any more stop the wave; else they are skipped.
    accepts_risk : bool
        Whether the wave begins although partitions of the cluster are offline or under-replicated.
    any_dir : bool
        Whether Kafka may choose the directory of a replica whose planned directory is refused.
    fix_dirs : bool
        Whether replicas in another directory than planned are moved inside their brokers when a wave has ended.
    max_moves_per_broker : int
        How many moves of the wave a broker sends or receives at once; 0: the whole wave at once.
    on_pressure : str
        What ``run`` does while the cluster is worse than it was when the wave began: slow, hold or stop.
    command : str
        The command that executes the wave, for messages: only ``wave`` has steps.
    disk_headroom : float
        Share of each disk that has to stay free.
    check_in_charge : callable
        Called before each change, inside the lock; raises if another process has taken over.
    """

    warehouse: Warehouse
    plan: Plan
    wave: Wave
    earlier: Sequence[Wave]
    tools: KafkaTools
    admin: Admin
    client: Mapping[str, object]
    say: Callable[[str], None]
    is_strict: bool = False
    accepts_risk: bool = False
    any_dir: bool = False
    fix_dirs: bool = False
    max_moves_per_broker: int = 0
    on_pressure: str = SLOW
    command: str = "wave"
    disk_headroom: float = 0.0
    check_in_charge: Callable[[], None] = lambda: None
    # Partitions whose unexpected state was read often enough.
    _known_unexpected: set[TopicPartition] = field(default_factory=set)

    def preflight(self) -> None:
        """Raise ``Refused`` with every problem that stops the wave; changes nothing."""
        problems: list[str] = []
        try:
            version = self.tools.check()
            self.say(
                f"Kafka's tools have version {version}"
                if version
                else "kafka-reassign-partitions.sh is not on PATH: Ballast starts the copies itself"
            )
        except Refused as error:
            problems += error.problems
        try:
            self._check_free()
        except Refused as error:
            problems += error.problems
        now = self.observe_settled()
        problems += [*self._problems(now), *self.at_risk(now)]
        if problems:
            raise Refused(*problems)
        self.say_skips(now)
        for line in (*preflight.warnings(self.wave), *preflight.without_spare(self.wave, now)):
            self.say(line)
        self.say(f"no problem found for {self.name}: {describe_state(self.wave, now)}")

    def throttle(self) -> None:
        """Hold the cluster for this wave, then set the wave's throttles."""
        with self.locked():
            self._check_free()
            now = self.observe_settled()
            if problems := [*self._problems(now), *self.at_risk(now)]:
                raise Refused(*problems)
            self._check_has_throttles()
            self.say_skips(now)
            for line in preflight.without_spare(self.wave, now):
                self.say(line)
            risks = self.risks(now)
            for line in risks:
                self.say(f"accepted: {line}")
            changes = changes_of(self.wave, self.wave.entries(now), self.baseline(now))
            is_new = not self.is_held()
            self.record(claims.HELD, changes=changes, result="; ".join(risks) or None)
            self._set_throttles(now)
            # A killed step may have set rates that it did not record.
            dead = self.wave.throttled_brokers - now.alive if is_new else self.never_set()
            self.record(claims.THROTTLED, result=never_set_of(dead))
            if self.wave.throttles:
                self.say(f"the throttles of {self.name} are set")

    def execute(self, *, is_watched: bool = False) -> None:
        """Start the copies, once, and only under throttles.

        Parameters
        ----------
        is_watched : bool
            Whether somebody looks again soon; then a wave that is held back is only said.

        Raises
        ------
        StillMoving
            When nothing is started because the wave is held back, and nobody looks again.
        """
        with self.locked():
            self._check_held()
            now = self.observe_settled()
            by_state = self.wave.by_state(now)
            if not by_state[MoveState.NOT_STARTED] and not (self.is_strict and self.wave.skipped(now)):
                self.restore_throttles(self.wave)
                self.record(claims.EXECUTED)
                self.say(f"{self.name} was already started: {describe_state(self.wave, now)}")
                return
            if (wanted := self.wanted_states()[-1]).holds_back:
                reason = wanted.because or "it is paused or was stopped"
                line = f"nothing of {self.name} is started, because {reason}: ./ballast resume lets it go on"
                if not is_watched:
                    raise StillMoving(line)
                self.say(line)
                return
            self._check_has_throttles()
            if problems := self._problems(now):
                raise Refused(*problems)
            if missing := self.wave.missing_throttles(now):
                raise Refused(
                    f"not set: {first_of(missing)}",
                    f"run the step throttle of {self.name} first" if self.has_steps else "run the command again",
                )
            if full := preflight.without_room(self.wave, now, self.ends(now), self.disk_headroom):
                raise Refused(*full)
            self.say_skips(now)
            if self.tools.is_there and not self.wave.inside:
                _ = self.tools.path  # a missing tool is reported before the journal says that copies start
            partitions = self._announce_next(now)
            self.record(claims.STARTING)
            self._start(partitions, now)
            self.restore_throttles(self.wave)
            self.record(claims.EXECUTED)
            self.say(f"{self.name} is started: {plural(len(partitions), 'partition')}")

    def wait(self, *, every_seconds: float, once: bool) -> None:
        """Return when every partition has its planned replicas. Only the live cluster decides what is done.

        The first check that finds all partitions done records the time, except for a wave with skipped partitions: it
        has copied less than planned.

        Raises
        ------
        StillMoving
            With ``once``, if copies run.
        Refused
            When nothing runs but partitions are not done; with ``is_strict`` also when somebody else has moved some.
        """
        last_line, unexpected_reads = "", 0
        while True:
            now = self.observe_settled()
            line = describe_state(self.wave, now)
            if line != last_line:
                self.say(f"{self.name}: {line}")
                last_line = line
            by_state = self.wave.by_state(now)
            in_flight = by_state[MoveState.IN_FLIGHT]
            is_unexpected = (by_state[MoveState.OTHER] and self.is_strict) or (
                by_state[MoveState.NOT_STARTED] and not in_flight
            )
            # A move that has just ended may look like this until all brokers know that it ended.
            unexpected_reads = unexpected_reads + 1 if is_unexpected else 0
            if unexpected_reads == READS:
                self.raise_unfinished(by_state)
            if is_unexpected:
                time.sleep(READ_AGAIN_SECONDS)
                continue
            if not in_flight:
                self.say_skips(now)
                if not self.wave.skipped(now):
                    self.record_copied()
                self.say_misplaced(now)
                return
            if self.wave.absent_throttles(now):
                with self.locked():
                    self.restore_throttles(self.wave)
            if once:
                raise StillMoving(f"{self.name}: copies still run: {preflight.partition_names(in_flight)}")
            time.sleep(every_seconds)

    def elect(self, misplaced: Sequence[str] = ()) -> None:
        """Elect the first replica of every planned list; allowed only when all waves between brokers are done.

        Parameters
        ----------
        misplaced : sequence of str
            A line for each replica that could not be moved to its planned directory.

        Raises
        ------
        Incomplete
            When another replica leads any partition afterwards, when partitions were skipped, or when replicas are
            misplaced.
        """
        now = self.observe_settled()
        waves = (*self.earlier, self.wave)
        unfinished = preflight.unfinished([wave for wave in waves if not wave.inside], now)
        if self.wave.number < self.plan.last_between_brokers or unfinished:
            rest = f"; not done yet: {preflight.partition_names(unfinished)}" if unfinished else ""
            raise Refused(f"leaders are elected when all waves between brokers are done: this is {self.name}{rest}")
        planned = self._planned_lists()
        elected, lines = self._elect(planned)
        led = len(not_led({p: brokers for p, brokers in now.replicas.items() if p not in planned}, now))
        if led:
            are = agree(led, "is", "are")
            self.say(f"{plural(led, 'partition')} that the plan does not change {are} not led by the first replica")
        problems = [f"not led by the first replica: {line}" for line in lines]
        problems += [*(line for wave in waves for line in preflight.skips(wave, now)), *misplaced]
        if problems:
            raise Incomplete(f"the waves are done, except for:{bullets(problems)}")
        self.say(f"the first replica leads each partition of the plan ({elected.count} elected)")

    def elect_early(self) -> None:
        """Elect before the waves inside brokers, which may run much later; the end of the plan elects what is left."""
        planned = self._planned_lists()
        if not not_led(planned, self.observe_settled()):
            return
        elected, lines = self._elect(planned)
        for line in lines:
            self.say(f"not led by the first replica: {line}")
        if not lines:
            name = "the first replica leads each partition of the waves between brokers"
            self.say(f"{name} ({elected.count} elected)")

    def _planned_lists(self) -> dict[TopicPartition, tuple[int, ...]]:
        waves = (*self.earlier, self.wave)
        return {partition: after for wave in waves for partition, after in wave.new_lists.items()}

    def _elect(self, planned: Mapping[TopicPartition, tuple[int, ...]]) -> tuple[Elected, list[str]]:
        """Elect leaders; returns also a line for each partition that another replica leads."""
        with self.locked():
            self.record(claims.ELECTING)
            elected = elect(self.admin, planned, self.observe)
            lines = preflight.with_reasons(elected.reasons)
            self.record(claims.ELECTED, result="; ".join(lines) or None)
        return elected, lines

    def off(self, *, cancel: bool, accept_owed: bool) -> None:
        """Remove the throttles and free the cluster, if no copy runs; finish a cancel that has begun.

        Parameters
        ----------
        cancel : bool
            Whether to cancel running copies first.
        accept_owed : bool
            Whether to free the cluster even if brokers that do not answer keep their throttle rates.

        Raises
        ------
        StillMoving
            When copies run: the throttles stay.
        Owed
            When only rates of brokers that do not answer are left. The wave still holds the cluster.
        BallastError
            When throttles could not be removed; the message lists them. The wave still holds the cluster.
        """
        with self.locked():
            self._check_free()
            journal = claims.of_last_hold(self.warehouse, self.plan, self.wave.number)
            is_unfinished = claims.is_unfinished_cancel(journal)
            if is_unfinished and not cancel:
                self.say(f"a cancel of {self.name} has begun, so it is finished first")
            if cancel or is_unfinished:
                self.cancel(is_unfinished=is_unfinished)
            if moving := self.wave.moving(self.observe_settled(), of_dead=False):
                names = preflight.partition_names(moving)
                raise StillMoving(f"{self.name}: copies still run, so the throttles stay: {names}")
            if self.is_held():
                self.record(claims.REMOVING)
            left = self._remove_throttles(journal, accept_owed=accept_owed)
            now = self.observe_settled()
            if self.wave.moving(now, of_dead=False):
                self._set_throttles(now)
                raise StillMoving(
                    f"{self.name} was started meanwhile, so its throttles are set again: "
                    f"run the {self._off} again when the copies are done"
                )
            if self.is_held():
                self.record(claims.RELEASED, result="; ".join(left) or None)
            removed = f"the throttles of {self.name} are removed" if self.wave.throttles else f"{self.name} has ended"
            self.say(f"{removed}, the cluster is free")

    def verify(self) -> None:
        """Check that every partition has its planned replicas and that ``off`` has freed the cluster.

        Raises
        ------
        Refused
            When partitions are not done, or the wave holds the cluster.
        Incomplete
            When all is done except for skipped partitions.
        """
        now = self.observe_settled()
        by_state = self.wave.by_state(now)
        unfinished = sorted((*by_state[MoveState.NOT_STARTED], *by_state[MoveState.IN_FLIGHT]))
        skipped = self.wave.skipped(now)
        if self.is_strict:
            unfinished, skipped = sorted((*unfinished, *skipped)), []
        names = preflight.partition_names(unfinished)
        problems = [f"partitions without their planned replicas: {names}"] if unfinished else []
        if self.is_held():
            problems.append(f"{self.name} still holds the cluster and may have throttles: run its step off")
        if problems:
            raise Refused(*problems)
        self.say_misplaced(now)
        if skipped:
            lines = bullets(preflight.skips(self.wave, now))
            raise Incomplete(f"{self.name} is done, except for {plural(len(skipped), 'skipped partition')}:{lines}")
        self.say(f"{self.name} is done, its throttles are removed and the cluster is free")

    def status(self) -> None:
        """Report progress, throttles, the wave that holds the cluster, and the problems that stop the wave."""
        now = self.observe_settled()
        self.say(f"{self.name}: {describe_state(self.wave, now)}")
        self.say(describe_throttles(self.wave, now))
        last = self._last()
        if last is None or last["event"] == claims.RELEASED:
            self.say("no wave holds the cluster")
        else:
            self.say(claims.describe_holder(last))
        self.say_skips(now)
        for line in self._problems(now):
            self.say(f"problem: {line}")

    @property
    def name(self) -> str:
        """The wave in messages."""
        return f"{claims.wave_name(self.wave.number)} of {len(self.plan.waves)}"

    @property
    def has_steps(self) -> bool:
        """Whether an operator runs the steps one by one."""
        return self.command == "wave"

    @property
    def _off(self) -> str:
        return "step off" if self.has_steps else "command"

    def say_skips(self, now: Observed) -> None:
        """Say which partitions are skipped, and why."""
        if not self.is_strict:
            for line in preflight.skips(self.wave, now):
                self.say(f"skipped: {line}")

    def misplaced(self, now: Observed) -> list[Misplaced]:
        """Replicas of finished copies that are in another directory than planned."""
        return misplaced(self.wave, now, self.admin.stored)

    def say_misplaced(self, now: Observed) -> None:
        """Say which replicas are in another directory than planned, and the command that moves them."""
        for line in report_misplaced(self.plan, self.wave, self.misplaced(now)):
            self.say(line)

    def baseline(self, now: Observed) -> Baseline:
        """What is wrong with the cluster already."""
        return baseline_of(now, self.full_directories(now))

    def full_directories(self, now: Observed) -> list[Sign]:
        """Directories of living brokers over their limit, without those that a rollback fills again."""
        if not self.disk_headroom:
            return []
        expected = self.wave.target_directories if self.wave.is_rollback else set()
        full = full_directories(self.admin.stored(now.alive), self.disk_headroom)
        return [
            (kind, path, broker) for kind, path, broker in full if expected.isdisjoint({(broker, path), (broker, "")})
        ]

    def held_baseline(self) -> Baseline:
        """The cluster when the wave last began."""
        return stored_baseline(claims.of_last_hold(self.warehouse, self.plan, self.wave.number)[0]["changes"])

    def at_risk(self, now: Observed) -> list[str]:
        """Problems of partitions of the cluster that must be well before the wave begins, unless this is accepted."""
        if self.accepts_risk:
            return []
        remedy = "wait until the brokers are well, or give --accept-under-replicated"
        return [f"{line}; {remedy}" for line in self.risks(now)]

    def risks(self, now: Observed) -> list[str]:
        """Partitions of the cluster that are not well before the wave begins; nothing once it holds the cluster."""
        if self.is_held():
            return []
        if not preflight.at_risk(now, {}):
            return []
        return preflight.at_risk(now, replica_lists(plan_documents(self.warehouse, self.plan, "reassignment")))

    def _problems(self, now: Observed) -> list[str]:
        return preflight.problems(self.wave, now, earlier=self.earlier, strict=self.is_strict)

    def observe_settled(self, *, only_own: bool = False) -> Observed:
        """The cluster's state; read again if a partition is in an unexpected state, as when a move ends meanwhile.

        Parameters
        ----------
        only_own : bool
            Whether to read only the throttles of the wave's topics.
        """
        wave = self.wave if only_own else None
        for _ in range(READS - 1):
            now = self.observe(wave)
            if set(self.wave.by_state(now)[MoveState.OTHER]) <= self._known_unexpected:
                return now
            time.sleep(READ_AGAIN_SECONDS)
        now = self.observe(wave)
        self._known_unexpected.update(self.wave.by_state(now)[MoveState.OTHER])
        return now

    def observe(self, wave: Wave | None = None) -> Observed:
        """The cluster's state; with ``wave`` only the throttles of its topics.

        It has the directories of the brokers inside which this wave, and without ``wave`` earlier ones, move replicas.
        """
        waves = (self.wave,) if wave else (self.wave, *self.earlier)
        brokers = {broker for one in waves for _, _, broker in one.inside}
        with report_long_wait(self.client, self.say):
            now = self.admin.observe({topic for topic, _ in wave.after} if wave else None)
            return replace(now, stored=self.admin.stored(brokers & now.alive)) if brokers else now

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other steps on this machine from changing the cluster; tools of a killed step keep the lock."""
        path = path_of(self.warehouse, f"execution-{self.plan.cluster_id}")
        with locks.exclusive(path, with_children=True):
            self.check_in_charge()
            yield

    @contextmanager
    def changing(self) -> Iterator[None]:
        """``locked``, for a wave that must hold the cluster.

        Raises
        ------
        Refused
            When somebody has ended the wave.
        """
        with self.locked():
            self.check_still_held()
            yield

    def check_still_held(self) -> None:
        """Raise ``Refused`` if somebody has ended the wave."""
        if not self.is_held():
            raise Refused(f"{self.name} does not hold the cluster any more: somebody has ended it")

    def wanted_states(self) -> list[Wanted]:
        """What operators have wanted since the wave holds the cluster, the newest last; the first is the plan's."""
        return history(claims.since_hold(self.warehouse, self.plan, self.wave.number), claims.WANTED)

    def never_set(self) -> frozenset[int]:
        """Brokers whose rates this wave has never set, because they were dead."""
        return never_set(claims.since_hold(self.warehouse, self.plan, self.wave.number))

    def note_returned(self, now: Observed) -> None:
        """Record which of the brokers whose rates were never set are alive: from now on they may have them."""
        dead = self.never_set()
        if dead & now.alive:
            claims.record_throttled(self.warehouse, self.plan, self.wave.number, never_set_of(dead - now.alive))

    def _last(self) -> claims.Row | None:
        return claims.last_event(self.warehouse, self.plan.cluster_id)

    def record_copied(self) -> None:
        """Record that all copies are done, with predicted and measured seconds and bytes."""

        def result() -> str:
            return measured(self.warehouse, self.plan, self.wave, self.admin.stored)

        claims.record_copied(self.warehouse, self.plan, self.wave.number, result)

    def is_held(self) -> bool:
        """Whether this wave holds the cluster."""
        return claims.is_held_for(self._last(), self.plan, self.wave.number)

    def _check_free(self) -> None:
        rows = claims.events(self.warehouse, cluster_id=self.plan.cluster_id)
        claims.check_free(rows, self.plan, self.wave.number)

    def record(self, event: str, *, changes: str | None = None, result: str | None = None) -> None:
        """Add a row to the journal."""
        claims.record(self.warehouse, self.plan, self.wave.number, event, changes=changes, result=result)

    def _check_held(self) -> None:
        rows = claims.events(self.warehouse, cluster_id=self.plan.cluster_id)
        claims.check_free(rows, self.plan, self.wave.number)
        if not claims.is_held_for(claims.newest(rows), self.plan, self.wave.number):
            raise Refused(f"{self.name} does not hold the cluster: run its step throttle first")

    def cancel(self, *, is_unfinished: bool = False) -> None:
        """Cancel what is in flight and restore the old lists.

        Parameters
        ----------
        is_unfinished : bool
            Whether a killed step has begun this before.
        """
        if self.is_held():
            self.record(claims.CANCELLING)
        is_cancelled = bool(cancel_wave(self.wave, self.admin, observe=self.observe_settled, say=self.say))
        if is_unfinished and not is_cancelled:  # a killed step may have cancelled what is not in flight any more
            done = self.wave.by_state(self.observe_settled())[MoveState.DONE]
            is_cancelled = len(done) < len(self.wave.after)
        if is_cancelled:
            self.record(claims.CANCELLED)

    def _entries(self, journal: Sequence[claims.Row]) -> Entries:
        """The throttles of this wave: from the journal, or from the plan if it never held the cluster."""
        if journal:
            entries = entries_of(journal[0]["changes"])
            own = own_rates(self.wave, history(journal, claims.WANTED))
            return {key: replace(one, own=own.get(key, frozenset())) for key, one in entries.items()}
        previous = self.wave.previous_throttles
        return {key: Entry(previous.get(key), wanted) for key, wanted in self.wave.throttles.items()}

    def _set_throttles(self, now: Observed) -> None:
        if not self.wave.throttles:
            self.say(f"{self.name} copies nothing, so it has no throttles")
            return
        self.note_returned(now)
        if refused := set_throttles(self.admin, self.wave.entries(now), now):
            raise BallastError(f"some throttles are not set, run the step again:{bullets(refused)}")
        gone = [key for key in sorted(self.wave.throttles) if not now.exists(*key[:2])]
        if gone:
            names = first_of(list(dict.fromkeys(" ".join(key[:2]) for key in gone)))
            self.say(f"throttles of dead brokers and deleted topics are not set: {names}")

    def ends(self, now: Observed) -> Stored:
        """What the leaders and targets of partitions that move or wait have."""
        if self.wave.inside and now.stored:
            return now.stored
        return self.admin.stored(brokers_of(self.wave, now))

    def start_next(self, now: Observed) -> None:
        """Start the waiting partitions, as many as ``max_moves_per_broker`` allows and whose brokers answer."""
        self._start(self._announce_next(now, is_watched=True), now, is_watched=True)

    def _announce_next(self, now: Observed, *, is_watched: bool = False) -> list[TopicPartition]:
        """Announce the directories of the waiting partitions that may start; returns these partitions."""
        partitions = next_moves(self.wave, now, self.max_moves_per_broker)
        limits = {"any_dir": self.any_dir, "is_watched": is_watched}
        return announce(self.wave, partitions, self.admin, self.say, **limits)

    def _start(self, partitions: Sequence[TopicPartition], now: Observed, *, is_watched: bool = False) -> None:
        if self.wave.inside:
            move_inside(self.wave, partitions, now, self.admin, is_watched=is_watched)
        elif partitions:
            with_tool = self.tools.is_there and not self.max_moves_per_broker
            start(self.wave, partitions, self.tools if with_tool else None, self.admin)

    def _check_has_throttles(self) -> None:
        """Raise ``Refused`` if the wave copies replicas without throttles."""
        if self.wave.copies and not self.wave.throttles:
            raise Refused(f"{self.name} copies replicas, but the plan has no throttles for it: plan again")

    def restore_throttles(self, wave: Wave, *, is_watched: bool = False, why: str = _REMOVED) -> None:
        """Set throttles again that somebody has removed while the wave runs.

        Parameters
        ----------
        wave : Wave
            The wave with the throttles that it has now.
        is_watched : bool
            Whether somebody looks again soon; then throttles that cannot be set are only said.
        why : str
            Begins the message.

        Raises
        ------
        BallastError
            When throttles cannot be set and nobody looks again.
        """
        now = self.observe(wave)
        if absent := wave.absent_throttles(now):
            names = first_of([describe(key, wave.throttles[key]) for key in absent])
            self.say(f"{why}, they are set again: {names}")
            self.note_returned(now)
            entries = {key: Entry(None, wave.throttles[key]) for key in absent}
            refused = set_throttles(self.admin, entries, now)
            if refused and not is_watched:
                raise BallastError(f"throttles are missing, run the step again:{bullets(refused)}")
            if refused:
                self.say(f"not set yet: {first_of(refused)}")

    def raise_unfinished(self, by_state: Mapping[MoveState, list[TopicPartition]]) -> NoReturn:
        """Raise ``Refused``: nothing moves, but partitions are not done."""
        remedy = (
            "run the step execute again, or the step off to end the wave"
            if self.has_steps
            else f"./ballast {self.command} goes on, ./ballast cancel ends the wave"
        )
        raise Refused(*preflight.unfinished_lines(by_state, remedy, strict=self.is_strict))

    def _remove_throttles(self, journal: Sequence[claims.Row], *, accept_owed: bool) -> Sequence[str]:
        """Remove the wave's own throttles; returns the lines about those that somebody else has changed."""
        entries, unset = self._entries(journal), never_set(journal)
        left: Left = remove_throttles(self.admin, entries, lambda: self.observe(self.wave), never_set=unset)
        for line in left.foreign:
            self.say(f"left: {line}")
        for line in left.owed:
            self.say(f"owed: {line}")
        if left.refused or (left.owed and not accept_owed):
            lines = [*left.refused, *(f"owed: {line}" for line in left.owed)]
            when = f" when the brokers are back{self._accepting()}" if left.owed else ""
            message = f"some throttles of {self.name} are not removed: run the {self._off} again{when}{bullets(lines)}"
            raise BallastError(message) if left.refused else Owed(message)
        return left.foreign

    def _accepting(self) -> str:
        """How to go on if brokers that keep a rate never come back."""
        if self.wave.is_rollback:
            return ", or with --accept-owed if they never come back"
        key = f"--run-id {self.plan.run_id} --cluster {self.plan.cluster_id} --wave {self.wave.number}"
        return f"; if they never come back: ./ballast wave off {key} --accept-owed"
