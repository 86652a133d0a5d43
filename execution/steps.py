"""The steps of a wave. Each looks first, does nothing that is done already, and says what it did."""

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
from execution.observed import Observed, Place, observe, waiting_said
from execution.planned import Plan, Refused
from execution.tables import Warehouse
from execution.wave import REASSIGNMENT, Stand, Wave
from optimizer import locks
from optimizer.errors import BallastError
from optimizer.units import agree, plural

_LOOKS, _AGAIN_SECONDS = 3, 1.0  # times, a second apart: brokers tell each other within it what a move has ended as
STARTED = "Successfully started"


class StillMoving(BallastError):
    """Copies run: come again later."""

    exit_code = 4


@dataclass(frozen=True)
class Execution:
    """One wave of one cluster, with what its steps need.

    Parameters
    ----------
    warehouse : Warehouse
    plan : Plan
    wave : Wave
    earlier : mapping of (topic, partition) to brokers
        Where the waves before it put their partitions.
    tools : KafkaTools
    client : mapping
        Options of the client that looks at the cluster.
    say : callable
        Told a line at a time what is done.
    """

    warehouse: Warehouse
    plan: Plan
    wave: Wave
    earlier: Mapping[Place, tuple[int, ...]]
    tools: KafkaTools
    client: Mapping[str, object]
    say: Callable[[str], None]

    def preflight(self) -> None:
        """Raise ``Refused`` with everything that is in the way of the wave; nothing is touched."""
        problems: list[str] = []
        try:
            self.say(f"Kafka's tools are of {self.tools.check()}")
        except Refused as error:
            problems += error.problems
        try:
            self._check_free()
        except Refused as error:
            problems += error.problems
        now = self._look()
        problems += self._problems(now)
        if problems:
            raise Refused(*problems)
        for line in preflight.notes(self.wave, self.plan.manifest["topic_ids"]):
            self.say(line)
        self.say(f"nothing is in the way of {self._name()}: {self._told(now)}")

    def throttle(self) -> None:
        """Hold the cluster and set the wave's throttles."""
        with self._alone():
            self._check_free()
            if problems := self._problems(self._look()):
                raise Refused(*problems)
            self._check_throttleable()
            self._note(claims.HELD)
            self._set_throttles()
            self._note(claims.THROTTLED)
            self.say(f"the throttles of {self._name()} are set")

    def execute(self) -> None:
        """Start the copies, once, and only under throttles."""
        with self._alone():
            self._check_held()
            now = self._look()
            stands = self.wave.stands(now)
            if not stands[Stand.UNTOUCHED] and not stands[Stand.OTHER]:
                self._throttled_still()
                self._note(claims.EXECUTED)
                self.say(f"{self._name()} has been started already: {self._told(now)}")
                return
            self._check_throttleable()
            if problems := self._problems(now):
                raise Refused(*problems)
            if missing := self.wave.missing_throttles(now):
                raise Refused(*(f"not set: {one}" for one in missing), f"run the step throttle of {self._name()} first")
            self._start(stands)
            self._throttled_still()
            self._note(claims.EXECUTED)
            self.say(f"{self._name()} is started: {plural(len(self.wave.after), 'partition')}")

    def wait(self, *, every_seconds: float, once: bool) -> None:
        """Return when every partition is where the wave wants it; what runs is asked of Kafka alone.

        Raises
        ------
        StillMoving
            With ``once``: while copies run.
        Refused
            When something else was done to them, or nothing.
        """
        told, odd = "", 0
        while True:
            now = self._look()
            line = self._told(now)
            if line != told:
                self.say(f"{self._name()}: {line}")
                told = line
            stands = self.wave.stands(now)
            is_odd = stands[Stand.OTHER] or (stands[Stand.UNTOUCHED] and not stands[Stand.IN_FLIGHT])
            # A move that has just ended looks so, until all brokers know of it.
            odd = odd + 1 if is_odd else 0
            if odd == _LOOKS:
                self._raise_unfinished(stands)
            if is_odd:
                time.sleep(_AGAIN_SECONDS)
                continue
            if not stands[Stand.IN_FLIGHT]:
                return
            if self.wave.absent_throttles(now):
                with self._alone():
                    self._throttled_still()
            if once:
                raise StillMoving(f"{self._name()}: still moving: {preflight.names(stands[Stand.IN_FLIGHT])}")
            time.sleep(every_seconds)

    def elect(self, documents: Iterable[str]) -> None:
        """Let the plan's preferred leaders lead, where no copy makes them: after the last wave.

        Parameters
        ----------
        documents : iterable of str
            Texts for kafka-leader-election.sh.
        """
        now = self._look()
        undone = preflight.undone({**self.earlier, **self.wave.after}, now)
        if self.wave.number != len(self.plan.waves) or undone:
            left = f", and {preflight.names(undone)} are not done" if undone else ""
            raise Refused(f"leaders are elected after the last wave: this is {self._name()}{left}")
        for text in documents:
            self.tools.elect(text)
        self.say("the plan's preferred leaders lead")

    def off(self, *, cancel: bool, accept_owed: bool) -> None:
        """Take the throttles off and free the cluster, once nothing is in flight.

        Parameters
        ----------
        cancel : bool
            Whether what is in flight is ended before.
        accept_owed : bool
            Whether rates that only brokers without an answer still have keep the cluster held no longer.

        Raises
        ------
        StillMoving
            When copies run, and are not to be cancelled: nothing is touched.
        BallastError
            When something is left: says what. The cluster stays held.
        """
        with self._alone():
            self._check_free()
            if cancel and cancel_wave(self.wave, self.tools, look=self._look, say=self.say):
                self._note(claims.CANCELLED)
            if moving := self.wave.stands(self._look())[Stand.IN_FLIGHT]:
                raise StillMoving(f"{self._name()}: still moving, throttles stay: {preflight.names(moving)}")
            self._take_off(accept_owed=accept_owed)
            if moving := self.wave.stands(self._look())[Stand.IN_FLIGHT]:
                self._set_throttles()
                raise StillMoving(f"{self._name()} was started meanwhile; its throttles are set again")
            if self._is_held():
                self._note(claims.RELEASED)
            self.say(f"no throttle of {self._name()} is left, the cluster is free")

    def verify(self) -> None:
        """Raise ``Refused`` unless every partition is where the wave wants it, and ``off`` has freed the cluster."""
        stands = self.wave.stands(self._look())
        undone = [place for stand, places in stands.items() if stand is not Stand.DONE for place in places]
        problems = [f"not where they should be: {preflight.names(undone)}"] if undone else []
        if self._is_held():
            problems.append(f"{self._name()} still holds the cluster, throttles may be set: run its step off")
        if problems:
            raise Refused(*problems)
        self.say(f"{self._name()} is done, its throttles are off and the cluster is free")

    def status(self) -> None:
        """Say how far the wave is, what is set, and who holds the cluster."""
        now = self._look()
        self.say(f"{self._name()}: {self._told(now)}")
        missing = len(self.wave.missing_throttles(now))
        self.say(f"throttles set: {len(self.wave.throttles) - missing} of {len(self.wave.throttles)}")
        last = self._last()
        if last is None or last["event"] == claims.RELEASED:
            self.say("nobody holds the cluster")
        else:
            self.say(
                f"held for wave {last['wave']} of run {last['run_id']} by {last['holder']}: {last['event']} at "
                f"{last['happened_at']:%Y-%m-%d %H:%M} UTC"
            )
        for line in self._problems(now):
            self.say(f"in the way: {line}")

    def _name(self) -> str:
        return f"wave {self.wave.number} of {len(self.plan.waves)}"

    def _told(self, now: Observed) -> str:
        """How far it is; while copies run also which brokers they wait for, and whose throttles are not known."""
        stands = self.wave.stands(now)
        counts = [f"{len(places)} {stand}" for stand, places in stands.items() if places]
        line = f"of {plural(len(self.wave.after), 'partition')} {', '.join(counts)}"
        if dead := {broker for place in stands[Stand.IN_FLIGHT] for broker in self.wave.after[place]} - now.alive:
            are, them = agree(len(dead), "is", "are"), agree(len(dead), "it", "them")
            line += f"; {preflight.broker_names(dead)} {are} not alive, copies wait for {them}"
        if stands[Stand.IN_FLIGHT] and (silent := self.wave.unseen(now)):
            line += f"; {preflight.unanswered(silent)}"
        return line

    def _problems(self, now: Observed) -> list[str]:
        topic_ids = self.plan.manifest["topic_ids"]
        return preflight.problems(self.wave, now, topic_ids=topic_ids, earlier=self.earlier)

    def _look(self) -> Observed:
        """The cluster now; once more where a move ended between two answers, which looks like somebody else's."""
        for _ in range(_LOOKS - 1):
            now = self._observe()
            if not self.wave.stands(now)[Stand.OTHER]:
                return now
            time.sleep(_AGAIN_SECONDS)
        return self._observe()

    def _observe(self) -> Observed:
        with waiting_said(self.client.get("bootstrap_servers"), self.say):
            return observe(self.client)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """No other step on this machine touches the cluster meanwhile; a tool that outlives a killed step counts."""
        name = f"execution-{self.plan.cluster_id}"
        if self.warehouse.folder is None:
            where = hashlib.sha256(self.warehouse.path.encode()).hexdigest()[:16]
            path = Path(tempfile.gettempdir()) / f"ballast-{where}-{name}"
        else:
            path = self.warehouse.folder / ".locks" / name
        with locks.exclusive(path, with_children=True):
            yield

    def _last(self) -> claims.Row | None:
        return claims.last_of(self.warehouse, self.plan.cluster_id)

    def _is_held(self) -> bool:
        return claims.is_of(self._last(), self.plan, self.wave.number)

    def _check_free(self) -> None:
        claims.check_free(self._last(), self.plan, self.wave.number)

    def _note(self, event: str) -> None:
        claims.note(self.warehouse, self.plan, self.wave.number, event)

    def _check_held(self) -> None:
        last = self._last()
        claims.check_free(last, self.plan, self.wave.number)
        if not claims.is_of(last, self.plan, self.wave.number):
            raise Refused(f"{self._name()} does not hold the cluster: run its step throttle first")

    def _set_throttles(self) -> None:
        name = f"throttle-{self.wave.style}.sh"
        if name not in self.wave.documents:
            self.say(f"{self._name()} copies nothing, so it has no throttles")
            return
        done = self.tools.script(self.wave.documents, name)
        if missing := self.wave.missing_throttles(self._observe()):
            raise BallastError(f"{name}: {done.reason}" + "".join(f"\n- not set: {one}" for one in missing))
        if done.exit_code:
            self.say(f"only what nobody can set is not set: {done.reason}")

    def _start(self, stands: Mapping[Stand, list[Place]]) -> None:
        """All partitions by the approved document; the rest by their lists where some are in flight already."""
        if stands[Stand.IN_FLIGHT]:
            rest = {place: self.wave.after[place] for place in stands[Stand.UNTOUCHED]}
            said = self.tools.reassign(rest, "--execute", "--additional")
        else:
            said = self.tools.reassign_document(self.wave.documents[REASSIGNMENT], "--execute")
        if STARTED not in said:
            raise BallastError(f"kafka-reassign-partitions.sh --execute does not say that it started: {said.strip()}")

    def _check_throttleable(self) -> None:
        """Refuse copies that the plan has no throttles for."""
        if self.wave.copies and not self.wave.throttles:
            raise Refused(f"{self._name()} copies replicas, but the plan has no throttles for it: plan again")

    def _throttled_still(self) -> None:
        """Set throttles again that somebody took off while the wave runs."""
        if absent := self.wave.absent_throttles(self._observe()):
            self.say(f"somebody took throttles off, they are set again: {'; '.join(absent)}")
            self._set_throttles()

    def _raise_unfinished(self, stands: Mapping[Stand, list[Place]]) -> None:
        problems = []
        if stands[Stand.OTHER]:
            problems.append(f"somebody else moved {preflight.names(stands[Stand.OTHER])}; plan again")
        if stands[Stand.UNTOUCHED]:
            remedy = "run the step execute again, or off to end the wave"
            names = preflight.names(stands[Stand.UNTOUCHED])
            problems.append(f"not in flight and not where they should be: {names}: {remedy}")
        raise Refused(*problems)

    def _take_off(self, *, accept_owed: bool) -> None:
        name = f"unthrottle-{self.wave.style}.sh"
        if name not in self.wave.documents:
            return
        done = self.tools.script(self.wave.documents, name)
        left = done.err.strip()
        if done.exit_code == STILL_MOVING:
            moving = preflight.names(self._look().in_flight)
            why = f"partitions move: {moving}" if moving else "partitions moved until just now; run the step off again"
            raise StillMoving(f"{self._name()}: throttles stay, {why}")
        if done.exit_code == ONLY_OWED and accept_owed:
            self.say(left)
        elif done.exit_code:
            raise BallastError(f"not all throttles of {self._name()} are off:\n{left}")
