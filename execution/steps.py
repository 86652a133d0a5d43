"""The steps of a wave. Each step checks the state, skips finished work and reports what it did."""

import hashlib
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from execution import claims, preflight
from execution.cancel import cancel_wave
from execution.kafka_tools import ONLY_OWED, STILL_MOVING, KafkaTools
from execution.observed import Observed, TopicPartition, observe, report_long_wait
from execution.planned import Plan, Refused
from execution.tables import Warehouse
from execution.wave import REASSIGNMENT, MoveState, Wave
from optimizer import locks
from optimizer.errors import BallastError
from optimizer.units import agree, plural

# Brokers need a moment to agree that a move has ended: an unexpected state must be read 3 times, 1 s apart.
_READS, _READ_AGAIN_SECONDS = 3, 1.0
STARTED = "Successfully started"


class StillMoving(BallastError):
    """Copies still run: run the step again later."""

    exit_code = 4


@dataclass(frozen=True)
class Execution:
    """Runs the steps of one wave of one cluster.

    Parameters
    ----------
    warehouse : Warehouse
    plan : Plan
    wave : Wave
    earlier : mapping of (topic, partition) to brokers
        Planned replicas of the waves before this one.
    tools : KafkaTools
    client : mapping
        Options of the client that reads the cluster's state.
    say : callable
        Gets each progress line.
    """

    warehouse: Warehouse
    plan: Plan
    wave: Wave
    earlier: Mapping[TopicPartition, tuple[int, ...]]
    tools: KafkaTools
    client: Mapping[str, object]
    say: Callable[[str], None]

    def preflight(self) -> None:
        """Raise ``Refused`` with every problem that stops the wave; changes nothing."""
        problems: list[str] = []
        try:
            self.say(f"Kafka's tools have version {self.tools.check()}")
        except Refused as error:
            problems += error.problems
        try:
            self._check_free()
        except Refused as error:
            problems += error.problems
        now = self._observe_settled()
        problems += self._problems(now)
        if problems:
            raise Refused(*problems)
        for line in preflight.warnings(self.wave, self.plan.manifest["topic_ids"]):
            self.say(line)
        self.say(f"no problem found for {self._name()}: {self._describe_state(now)}")

    def throttle(self) -> None:
        """Hold the cluster for this wave, then set the wave's throttles."""
        with self._locked():
            self._check_free()
            if problems := self._problems(self._observe_settled()):
                raise Refused(*problems)
            self._check_has_throttles()
            self._record(claims.HELD)
            self._set_throttles()
            self._record(claims.THROTTLED)
            self.say(f"the throttles of {self._name()} are set")

    def execute(self) -> None:
        """Start the copies, once, and only under throttles."""
        with self._locked():
            self._check_held()
            now = self._observe_settled()
            by_state = self.wave.by_state(now)
            if not by_state[MoveState.NOT_STARTED] and not by_state[MoveState.OTHER]:
                self._restore_throttles()
                self._record(claims.EXECUTED)
                self.say(f"{self._name()} was already started: {self._describe_state(now)}")
                return
            self._check_has_throttles()
            if problems := self._problems(now):
                raise Refused(*problems)
            if missing := self.wave.missing_throttles(now):
                raise Refused(
                    *(f"not set: {throttle}" for throttle in missing), f"run the step throttle of {self._name()} first"
                )
            self._start(by_state)
            self._restore_throttles()
            self._record(claims.EXECUTED)
            self.say(f"{self._name()} is started: {plural(len(self.wave.after), 'partition')}")

    def wait(self, *, every_seconds: float, once: bool) -> None:
        """Return when every partition has its planned replicas. Only the live cluster decides what is done.

        The first check that finds all partitions done records the time, except for a wave with a deleted topic: it has
        copied less than planned.

        Raises
        ------
        StillMoving
            With ``once``, if copies run.
        Refused
            When somebody else has moved partitions, or when nothing runs but partitions are not done.
        """
        last_line, unexpected_reads = "", 0
        while True:
            now = self._observe_settled()
            line = self._describe_state(now)
            if line != last_line:
                self.say(f"{self._name()}: {line}")
                last_line = line
            by_state = self.wave.by_state(now)
            in_flight = by_state[MoveState.IN_FLIGHT]
            is_unexpected = by_state[MoveState.OTHER] or (by_state[MoveState.NOT_STARTED] and not in_flight)
            # A move that has just ended may look like this until all brokers know that it ended.
            unexpected_reads = unexpected_reads + 1 if is_unexpected else 0
            if unexpected_reads == _READS:
                self._raise_unfinished(by_state)
            if is_unexpected:
                time.sleep(_READ_AGAIN_SECONDS)
                continue
            if not in_flight:
                if not by_state[MoveState.DELETED]:
                    claims.record_copied(self.warehouse, self.plan, self.wave.number)
                return
            if self.wave.absent_throttles(now):
                with self._locked():
                    self._restore_throttles()
            if once:
                raise StillMoving(f"{self._name()}: copies still run: {preflight.partition_names(in_flight)}")
            time.sleep(every_seconds)

    def elect(self, documents: Iterable[str]) -> None:
        """Elect the plan's preferred leaders; allowed only when all waves are done.

        Parameters
        ----------
        documents : iterable of str
            Contents of the plan's files for kafka-leader-election.sh.
        """
        now = self._observe_settled()
        unfinished = preflight.unfinished({**self.earlier, **self.wave.after}, now)
        if self.wave.number != len(self.plan.waves) or unfinished:
            rest = f"; not done yet: {preflight.partition_names(unfinished)}" if unfinished else ""
            raise Refused(f"leaders are elected when all waves are done: this is {self._name()}{rest}")
        for text in documents:
            self.tools.elect(text)
        self.say("the plan's preferred leaders are elected")

    def off(self, *, cancel: bool, accept_owed: bool) -> None:
        """Remove the throttles and free the cluster, if no copy runs.

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
        BallastError
            When throttles could not be removed; the message lists them. The wave still holds the cluster.
        """
        with self._locked():
            self._check_free()
            if cancel and cancel_wave(self.wave, self.tools, observe=self._observe_settled, say=self.say):
                self._record(claims.CANCELLED)
            if moving := self.wave.by_state(self._observe_settled())[MoveState.IN_FLIGHT]:
                names = preflight.partition_names(moving)
                raise StillMoving(f"{self._name()}: copies still run, so the throttles stay: {names}")
            self._remove_throttles(accept_owed=accept_owed)
            if moving := self.wave.by_state(self._observe_settled())[MoveState.IN_FLIGHT]:
                self._set_throttles()
                raise StillMoving(
                    f"{self._name()} was started while this step ran, so its throttles are set again: "
                    "run the step off again when the copies are done"
                )
            if self._is_held():
                self._record(claims.RELEASED)
            self.say(f"the throttles of {self._name()} are removed, the cluster is free")

    def verify(self) -> None:
        """Raise ``Refused`` unless every partition has its planned replicas and ``off`` has freed the cluster."""
        by_state = self.wave.by_state(self._observe_settled())
        unfinished = [
            partition
            for state, partitions in by_state.items()
            if state is not MoveState.DONE
            for partition in partitions
        ]
        names = preflight.partition_names(unfinished)
        problems = [f"partitions without their planned replicas: {names}"] if unfinished else []
        if self._is_held():
            problems.append(f"{self._name()} still holds the cluster and may have throttles: run its step off")
        if problems:
            raise Refused(*problems)
        self.say(f"{self._name()} is done, its throttles are removed and the cluster is free")

    def status(self) -> None:
        """Report progress, throttles, the wave that holds the cluster, and the problems that stop the wave."""
        now = self._observe_settled()
        self.say(f"{self._name()}: {self._describe_state(now)}")
        missing = len(self.wave.missing_throttles(now))
        self.say(f"throttles set: {len(self.wave.throttles) - missing} of {len(self.wave.throttles)}")
        last = self._last()
        if last is None or last["event"] == claims.RELEASED:
            self.say("no wave holds the cluster")
        else:
            self.say(
                f"wave {last['wave']} of run {last['run_id']} holds the cluster ({last['holder']}; {last['event']} at "
                f"{last['happened_at']:%Y-%m-%d %H:%M} UTC)"
            )
        for line in self._problems(now):
            self.say(f"problem: {line}")

    def _name(self) -> str:
        return f"wave {self.wave.number} of {len(self.plan.waves)}"

    def _describe_state(self, now: Observed) -> str:
        """Progress; while copies run, also the brokers that they wait for, and brokers with unknown throttles."""
        by_state = self.wave.by_state(now)
        counts = [f"{len(partitions)} {state}" for state, partitions in by_state.items() if partitions]
        line = f"{plural(len(self.wave.after), 'partition')}, {', '.join(counts)}"
        in_flight = by_state[MoveState.IN_FLIGHT]
        if dead := {broker for partition in in_flight for broker in self.wave.after[partition]} - now.alive:
            are, them = agree(len(dead), "is", "are"), agree(len(dead), "it", "them")
            line += f"; {preflight.broker_names(dead)} {are} not alive, copies wait for {them}"
        if in_flight and (silent := self.wave.silent_brokers(now)):
            line += f"; {preflight.describe_silent(silent)}"
        return line

    def _problems(self, now: Observed) -> list[str]:
        topic_ids = self.plan.manifest["topic_ids"]
        return preflight.problems(self.wave, now, topic_ids=topic_ids, earlier=self.earlier)

    def _observe_settled(self) -> Observed:
        """The cluster's state; read again if a partition is in an unexpected state, as when a move ends meanwhile."""
        for _ in range(_READS - 1):
            now = self._observe()
            if not self.wave.by_state(now)[MoveState.OTHER]:
                return now
            time.sleep(_READ_AGAIN_SECONDS)
        return self._observe()

    def _observe(self) -> Observed:
        with report_long_wait(self.client.get("bootstrap_servers"), self.say):
            return observe(self.client)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Keep other steps on this machine from changing the cluster; tools of a killed step keep the lock."""
        name = f"execution-{self.plan.cluster_id}"
        if self.warehouse.folder is None:
            digest = hashlib.sha256(self.warehouse.path.encode()).hexdigest()[:16]
            path = Path(tempfile.gettempdir()) / f"ballast-{digest}-{name}"
        else:
            path = self.warehouse.folder / ".locks" / name
        with locks.exclusive(path, with_children=True):
            yield

    def _last(self) -> claims.Row | None:
        return claims.last_event(self.warehouse, self.plan.cluster_id)

    def _is_held(self) -> bool:
        return claims.is_held_for(self._last(), self.plan, self.wave.number)

    def _check_free(self) -> None:
        claims.check_free(self._last(), self.plan, self.wave.number)

    def _record(self, event: str) -> None:
        claims.record(self.warehouse, self.plan, self.wave.number, event)

    def _check_held(self) -> None:
        last = self._last()
        claims.check_free(last, self.plan, self.wave.number)
        if not claims.is_held_for(last, self.plan, self.wave.number):
            raise Refused(f"{self._name()} does not hold the cluster: run its step throttle first")

    def _set_throttles(self) -> None:
        name = f"throttle-{self.wave.style}.sh"
        if name not in self.wave.documents:
            self.say(f"{self._name()} copies nothing, so it has no throttles")
            return
        result = self.tools.script(self.wave.documents, name)
        if missing := self.wave.missing_throttles(self._observe()):
            raise BallastError(f"{name}: {result.reason}" + "".join(f"\n- not set: {throttle}" for throttle in missing))
        if result.exit_code:
            self.say(f"throttles of dead brokers and deleted topics are not set: {result.reason}")

    def _start(self, by_state: Mapping[MoveState, list[TopicPartition]]) -> None:
        """Start all partitions with the approved document; if some are in flight already, only the rest."""
        if by_state[MoveState.IN_FLIGHT]:
            rest = {partition: self.wave.after[partition] for partition in by_state[MoveState.NOT_STARTED]}
            output = self.tools.reassign(rest, "--execute", "--additional")
        else:
            output = self.tools.reassign_document(self.wave.documents[REASSIGNMENT], "--execute")
        if STARTED not in output:
            raise BallastError(f"kafka-reassign-partitions.sh --execute did not print {STARTED!r}: {output.strip()}")

    def _check_has_throttles(self) -> None:
        """Raise ``Refused`` if the wave copies replicas without throttles."""
        if self.wave.copies and not self.wave.throttles:
            raise Refused(f"{self._name()} copies replicas, but the plan has no throttles for it: plan again")

    def _restore_throttles(self) -> None:
        """Set the throttles again if somebody has removed any while the wave runs."""
        if absent := self.wave.absent_throttles(self._observe()):
            self.say(f"somebody removed throttles, they are set again: {'; '.join(absent)}")
            self._set_throttles()

    def _raise_unfinished(self, by_state: Mapping[MoveState, list[TopicPartition]]) -> None:
        problems = []
        if by_state[MoveState.OTHER]:
            problems.append(f"somebody else moved {preflight.partition_names(by_state[MoveState.OTHER])}: plan again")
        if by_state[MoveState.NOT_STARTED]:
            remedy = "run the step execute again, or the step off to end the wave"
            names = preflight.partition_names(by_state[MoveState.NOT_STARTED])
            problems.append(f"neither in flight nor done: {names}: {remedy}")
        raise Refused(*problems)

    def _remove_throttles(self, *, accept_owed: bool) -> None:
        name = f"unthrottle-{self.wave.style}.sh"
        if name not in self.wave.documents:
            return
        result = self.tools.script(self.wave.documents, name)
        message = result.err.strip()
        if result.exit_code == STILL_MOVING:
            moving = preflight.partition_names(self._observe_settled().in_flight)
            reason = f"still move: {moving}" if moving else "moved until just now: run the step off again"
            raise StillMoving(f"{self._name()}: the throttles stay, because partitions {reason}")
        if result.exit_code == ONLY_OWED and accept_owed:
            self.say(message)
        elif result.exit_code:
            raise BallastError(f"some throttles of {self._name()} are not removed:\n{message}")
