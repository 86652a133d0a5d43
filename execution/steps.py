"""The steps of a wave. Each step checks the state, skips finished work and reports what it did."""

import shlex
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import NoReturn

from execution import journal as events
from execution import preflight
from execution.actions import READS, REMOVED
from execution.admin import Admin
from execution.cordons import Cordons, brokers_of_lines, uncordon_command
from execution.directories import Misplaced, announce, misplaced, report_misplaced
from execution.health import Baseline, Sign, baseline_of, full_directories
from execution.held import changes_of, entries_to_end, measured, stored_baseline, with_own_rates
from execution.in_charge import lock_file
from execution.journal import Hold, Journal, Ledger, WaveId
from execution.kafka_tools import KafkaTools
from execution.moves import Elected, cancel_wave, elect, move_inside, next_moves, not_led, start
from execution.observed import Observed, Stored, Throttle, TopicPartition, report_long_wait
from execution.planned import Plan, plan_documents
from execution.progress import brokers_of, describe_state, describe_throttles
from execution.throttles import Entry, describe
from execution.throttling import Left, remove_throttles, set_throttles
from execution.transitions import Act, Command, decide
from execution.wanted import SLOW, Wanted, history
from execution.wave import MoveState, Wave, replica_lists
from optimizer import locks
from optimizer.errors import BallastError, bullets
from optimizer.kafka.cordon import delete_command
from optimizer.units import agree, first_of, plural
from stored.tables import Warehouse
from stored.verdicts import Refused

_AGAIN_SECONDS = 60.0  # between two tries to cordon a broker that is back
READ_AGAIN_SECONDS = 1.0  # seconds between the reads of an unexpected state


class StillMoving(BallastError):
    """Copies still run: run the step again later."""

    exit_code = 4


class Incomplete(BallastError):
    """The work has ended, but some partitions are not as planned; the message names them."""

    exit_code = 6


class Owed(BallastError):
    """Only rates of brokers that do not answer are left: they can be removed when the brokers are back."""

    exit_code = 4


@dataclass
class Shared:
    """What all waves share: the journal, what was read often enough or said, brokers that answered at a cordon."""

    journal: Journal | None = None
    known_unexpected: dict[WaveId, set[TopicPartition]] = field(default_factory=lambda: defaultdict(set))
    said: set[str] = field(default_factory=set)
    met: set[int] = field(default_factory=set)
    next_cordon_seconds: float = 0.0


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
    cordons_drained : bool
        Whether the brokers that the plan empties are cordoned.
    cordons_anyway : bool
        Whether they are although new topics then break racks or cannot be created.
    accepts_owed : bool
        Whether a rollback begins although brokers that do not answer keep their cordon.
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
    cordons_drained: bool = False
    cordons_anyway: bool = False
    accepts_owed: bool = False
    check_in_charge: Callable[[], None] = lambda: None
    shared: "Shared" = field(default_factory=lambda: Shared())

    def __post_init__(self) -> None:
        if self.shared.journal is None:
            self.shared.journal = Journal(self.warehouse, self.plan.cluster_id)

    def preflight(self) -> None:
        """Raise ``Refused`` with every problem that stops the wave; changes nothing."""
        problems: list[str] = []
        self.check_rights([self.wave])
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
            self.decide(Command.THROTTLE)
        except Refused as error:
            problems += error.problems
        now = self.observe_settled()
        problems += [*self._problems(now), *self.at_risk(now), *self.without_room(now)]
        preflight.refuse(problems)
        self.say_skips(now)
        for line in (*preflight.warnings(self.wave), *preflight.without_spare(self.wave, now)):
            self.say(line)
        self.say(f"no problem found for {self.name}: {describe_state(self.wave, now)}")

    def throttle(self) -> None:
        """Hold the cluster for this wave, then set the wave's throttles."""
        with self.locked():
            is_new = self.decide(Command.THROTTLE) is Act.BEGIN
            if is_new:
                self.check_rights([self.wave])
            now = self.observe_settled()
            preflight.refuse([*self._problems(now), *self.at_risk(now), *self.without_room(now)])
            self._check_has_throttles()
            self.say_skips(now)
            for line in preflight.without_spare(self.wave, now):
                self.say(line)
            risks = self.risks(now)
            for line in risks:
                self.say(f"accepted: {line}")
            if is_new:
                changes = changes_of(self.wave, self.wave.entries(now), self.baseline(now))
                result = {"kafka_cluster_id": now.kafka_cluster_id, "accepted": risks}
                self.record(events.HELD, changes=changes, result=result)
            if self.wave.is_rollback and (own := [*self.cordons.own]):
                self._uncordon(own, accept_owed=self.accepts_owed)
            self._cordon(now)
            self._set_throttles(now)
            # A killed step may have set rates that it did not record.
            dead = self.wave.throttled_brokers - now.alive if is_new else self.never_set()
            self.record(events.THROTTLED, result={"never_set": sorted(dead)} if dead else None)
            if self.wave.throttles:
                self.say(f"the throttles of {self.name} are set")

    @property
    def cordons(self) -> Cordons:
        """The cordons of the plan."""
        wanted = self.cordons_drained and not self.wave.is_rollback
        return Cordons(self.admin, self.journal, self.plan, self._say_once, wanted, self.cordons_anyway)

    def _cordon(self, now: Observed) -> None:
        """Cordon the brokers that the plan empties, and say what the plan leaves there as the cluster is then."""
        is_due = self.cordons.due(now)
        planned = replica_lists(plan_documents(self.warehouse, self.plan, "reassignment")) if is_due else {}
        self.shared.met |= now.alive - now.silent
        brokers = self.cordons.set(self.wave.id, now)
        if is_due:
            now = self.observe() if brokers else now
            for line in self.cordons.in_no_wave(is_due, planned, now):
                self.say(line)

    def cordon_returned(self, now: Observed, at_seconds: float) -> None:
        """Cordon brokers that the plan empties and that are back since the wave began; one try a minute."""
        is_early = at_seconds < self.shared.next_cordon_seconds
        if not self.cordons_drained or is_early or not {*self.plan.drain_brokers} & now.alive - self.shared.met:
            return
        self.shared.next_cordon_seconds = at_seconds + _AGAIN_SECONDS
        with self.changing():
            now = self.observe()
            if problems := self.cordons.problems(now):
                for line in problems:
                    self._say_once(f"not cordoned: {line}")
            else:
                self._cordon(now)

    def uncordon(self, brokers: Collection[int], *, accept_owed: bool = False, by: str | None = None) -> None:
        """End the plan's cordon of some brokers.

        Parameters
        ----------
        by : str, optional
            Who wants it, if it was a person: then the plan does not cordon them again.

        Raises
        ------
        Owed
            When a broker does not answer, so it keeps its cordon.
        BallastError
            When Kafka refused.
        """
        if brokers:
            with self.locked():
                self._uncordon(brokers, accept_owed=accept_owed, by=by)

    def _uncordon(self, brokers: Collection[int], *, accept_owed: bool, by: str | None = None) -> None:
        left = self.cordons.remove(brokers, self.observe, accept_owed=accept_owed, by=by)
        for line in left.foreign:
            self.say(f"left: {line}")
        if left.refused:
            raise BallastError(f"some cordons are not removed, run the command again:{bullets(left.refused)}")
        owed = sorted(brokers_of_lines(left.owed))
        if owed:
            keep = agree(len(owed), "does not answer and keeps its cordon", "do not answer and keep their cordons")
            commands = bullets(map(self._delete_cordon, owed))
            ended = by is not None or not self.wave.is_rollback
            again = uncordon_command(self.plan.cluster_id, owed[0]) if ended else self._going_on
            remedy = f"when it is back: {again}. If it never comes back: {again} --accept-owed, and at the controllers:"
            if not accept_owed:
                raise Owed(f"{preflight.broker_names(owed)} {keep}; {remedy}{commands}")
            self.say(f"owed: {preflight.broker_names(owed)} {keep}; at the controllers:{commands}")
        if restored := sorted({*brokers} - brokers_of_lines([*left.foreign, *left.owed])):
            self.say(f"{preflight.broker_names(restored)} may get replicas again")

    @property
    def _going_on(self) -> str:
        """The command that goes on with the plan."""
        return self.ledger.going_on(self.plan.cluster_id, self.plan.run_id)

    def _delete_cordon(self, broker: int) -> str:
        config = self.tools.client_config
        options = f" --command-config {shlex.quote(config)}" if config else ""
        return delete_command(broker, self.admin.controllers(), options)

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
            self.decide(Command.EXECUTE)
            now = self.observe_settled()
            by_state = self.wave.by_state(now)
            if not by_state[MoveState.NOT_STARTED] and not (self.is_strict and self.wave.skipped(now)):
                self.restore_throttles(self.wave)
                self.record(events.EXECUTED)
                self.say(f"{self.name} was already started: {describe_state(self.wave, now)}")
                return
            if (wanted := self.wanted_states()[-1]).holds_back:
                reason = wanted.because or "it is paused or was stopped"
                resume = f"./ballast resume --cluster {self.plan.cluster_id} lets it go on"
                line = f"nothing of {self.name} is started, because {reason}: {resume}"
                if not is_watched:
                    raise StillMoving(line)
                self.say(line)
                return
            self._check_has_throttles()
            preflight.refuse(self._problems(now))
            if missing := self.wave.missing_throttles(now):
                first = f"run the step throttle of {self.name} first" if self.has_steps else "run the command again"
                silent = self.wave.silent_brokers(now)
                lines = f"not set: {first_of(missing)}", first
                preflight.refuse([preflight.Passing(line) if silent else line for line in lines])
            preflight.refuse(self.without_room(now))
            self.say_skips(now)
            if self.tools.is_there and not self.wave.inside:
                _ = self.tools.path  # a missing tool is reported before the journal says that copies start
            partitions = self._announce_next(now)
            self.record(events.STARTING)
            self._start(partitions, now)
            self.restore_throttles(self.wave)
            self.record(events.EXECUTED)
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
        for line in self.cordons.emptied(self.observe(), self._delete_cordon) if self.plan.drain_brokers else ():
            self.say(line)
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
            self.decide(Command.ELECT)
            self.journal.note(self.plan, events.ELECTING, {}, self.wave.id)
            elected = elect(self.admin, planned, self.observe)
            lines = preflight.with_reasons(elected.reasons)
            self.journal.note(self.plan, events.ELECTED, {"not_led": lines}, self.wave.id)
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
            act = self.decide(Command.OFF)
            if act is Act.CANCEL and not cancel:
                self.say(f"a cancel of {self.name} has begun, so it is finished first")
            if cancel or act is Act.CANCEL:
                self.cancel()
            if moving := self.wave.moving(self.observe_settled(), of_dead=False):
                names = preflight.partition_names(moving)
                raise StillMoving(f"{self.name}: copies still run, so the throttles stay: {names}")
            if self.is_held():
                self.record(events.REMOVING)
            left = self._remove_throttles(accept_owed=accept_owed)
            now = self.observe_settled()
            if self.wave.moving(now, of_dead=False):
                self._set_throttles(now)
                if self.is_held():
                    self.record(events.EXECUTED)
                raise StillMoving(
                    f"{self.name} was started meanwhile, so its throttles are set again: "
                    f"run the {self._off} again when the copies are done"
                )
            if self.is_held():
                waiting = len(self.wave.by_state(now)[MoveState.NOT_STARTED])
                result = {**({"left": list(left)} if left else {}), **({"waiting": waiting} if waiting else {})}
                self.record(events.RELEASED, result=result or None)
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
        holder = self.ledger.holder
        self.say(holder.describe() if holder else "no wave holds the cluster")
        self.say_skips(now)
        for line in self._problems(now):
            self.say(f"problem: {line}")

    @property
    def name(self) -> str:
        """The wave in messages."""
        return f"{self.wave.id.name} of {len(self.plan.waves)}"

    @property
    def journal(self) -> Journal:
        """The journal of the cluster."""
        assert self.shared.journal is not None
        return self.shared.journal

    @property
    def ledger(self) -> Ledger:
        """What the journal says now."""
        return self.journal.look()

    @property
    def hold(self) -> Hold | None:
        """The hold of this wave, if it holds the cluster."""
        return self.ledger.hold_of(self.plan, self.wave.id)

    def decide(self, command: Command) -> Act:
        """What a command does with this wave now; raises ``Refused`` if it refuses."""
        return decide(command, self.ledger, self.plan, self.wave.id)

    def on(self, wave: Wave, earlier: Sequence[Wave] = ()) -> "Execution":
        """The steps of another wave; if it holds the cluster, with the rates that commands may have set."""
        wave = with_own_rates(self.ledger.hold_of(self.plan, wave.id), wave)
        return replace(self, wave=wave, earlier=earlier)

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
        hold = self.ledger.last_hold_of(self.plan, self.wave.id)
        assert hold is not None, "a wave that is watched has begun"
        return stored_baseline(self.journal.changes(hold))

    def without_room(self, now: Observed) -> list[str]:
        """Brokers and directories without room for what waits, one line each; nothing waits if the wave has ended."""
        if not (self.wave.copies and self.wave.by_state(now)[MoveState.NOT_STARTED]):
            return []
        return preflight.without_room(self.wave, now, self.ends(now), self.disk_headroom)

    def at_risk(self, now: Observed) -> list[str]:
        """Problems of partitions of the cluster that must be well before the wave begins, unless this is accepted."""
        if self.accepts_risk:
            return []
        remedy = "wait until the brokers are well, or give --accept-under-replicated"
        return [preflight.Passing(f"{line}; {remedy}") for line in self.risks(now)]

    def risks(self, now: Observed) -> list[str]:
        """Partitions of the cluster that are not well before the wave begins; nothing once it holds the cluster."""
        if self.is_held():
            return []
        if not preflight.at_risk(now, {}):
            return []
        return preflight.at_risk(now, replica_lists(plan_documents(self.warehouse, self.plan, "reassignment")))

    def _say_once(self, line: str) -> None:
        if line not in self.shared.said:
            self.shared.said.add(line)
            self.say(line)

    def _problems(self, now: Observed) -> list[str]:
        return self.problems(now, self.earlier)

    def check_rights(self, waves: Sequence[Wave]) -> None:
        """Raise ``Refused`` with every right that the user lacks for some waves.

        Before anything is looked at: a topic that the user may not describe would seem to be deleted.
        """
        rights = self.admin.rights({topic for wave in waves for topic, _ in wave.after})
        lines = [line for wave in waves for line in preflight.missing_rights(wave, rights)]
        preflight.refuse(list(dict.fromkeys(lines)))

    def problems(self, now: Observed, earlier: Sequence[Wave]) -> list[str]:
        """Every problem that stops the wave, one line each."""
        config = self.tools.client_config
        configs = f"kafka-configs.sh --bootstrap-server {self.client['bootstrap_servers']}"
        configs += f" --command-config {shlex.quote(config)}" if config else ""
        own = self.cordons.own if self.wave.is_rollback else {}  # ended before its first copy
        lines = preflight.problems(
            self.wave,
            now,
            earlier=earlier,
            strict=self.is_strict,
            configs=configs,
            own=own,
            uncordon={broker: uncordon_command(self.plan.cluster_id, broker) for broker in self.ledger.cordons},
        )
        return [*lines, *self.cordons.problems(now)]

    def observe_settled(self, *, only_own: bool = False) -> Observed:
        """The cluster's state; read again if a partition is in an unexpected state, as when a move ends meanwhile.

        Parameters
        ----------
        only_own : bool
            Whether to read only the throttles of the wave's topics.
        """
        wave, known = self.wave if only_own else None, self.shared.known_unexpected[self.wave.id]
        for _ in range(READS - 1):
            now = self.observe(wave)
            if set(self.wave.by_state(now)[MoveState.OTHER]) <= known:
                return now
            time.sleep(READ_AGAIN_SECONDS)
        now = self.observe(wave)
        known.update(self.wave.by_state(now)[MoveState.OTHER])
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
        path = lock_file(self.warehouse, f"execution-{self.plan.cluster_id}")
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

    def check_still_held(self) -> Hold:
        """The wave's hold; raises ``Refused`` if somebody has ended the wave."""
        if (hold := self.hold) is None:
            raise Refused(f"{self.name} does not hold the cluster any more: somebody has ended it")
        return hold

    def wanted_states(self) -> list[Wanted]:
        """What operators have wanted since the wave holds the cluster, the newest last; the first is the plan's."""
        return history(self.hold)

    def never_set(self) -> frozenset[int]:
        """Brokers whose rates this wave has never set, because they were dead."""
        hold = self.ledger.last_hold_of(self.plan, self.wave.id)
        return hold.never_set if hold else frozenset()

    def note_returned(self, now: Observed) -> None:
        """Record which of the brokers whose rates were never set are alive: from now on they may have them."""
        dead = self.never_set()
        if dead & now.alive:
            self.journal.record_throttled(self.plan, self.wave.id, dead - now.alive)

    def record_copied(self) -> None:
        """Record that all copies are done, with predicted and measured seconds and bytes."""

        def result() -> str:
            return measured(self.warehouse, self.plan, self.wave, self.hold, self.admin.stored)

        self.journal.record_copied(self.plan, self.wave.id, result)

    def is_held(self) -> bool:
        """Whether this wave holds the cluster."""
        return self.hold is not None

    def record(self, event: str, *, changes: str | None = None, result: Mapping[str, object] | None = None) -> None:
        """Add a row to the journal."""
        self.journal.record(self.plan, self.wave.id, event, changes=changes, result=result)

    def cancel(self) -> None:
        """Cancel what is in flight and restore the old lists; finish it if a killed step has begun it."""
        is_unfinished = bool(self.hold and self.hold.is_unfinished_cancel)
        if self.is_held():
            self.record(events.CANCELLING)
        is_cancelled = bool(cancel_wave(self.wave, self.admin, observe=self.observe_settled, say=self.say))
        if is_unfinished and not is_cancelled:  # a killed step may have cancelled what is not in flight any more
            done = self.wave.by_state(self.observe_settled())[MoveState.DONE]
            is_cancelled = len(done) < len(self.wave.after)
        if is_cancelled:
            self.record(events.CANCELLED)

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

    def restore_throttles(self, wave: Wave, *, is_watched: bool = False, why: str = REMOVED) -> None:
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

    def set_rates(self, values: Mapping[Throttle, int]) -> list[str]:
        """Give rates their values, in bytes per second; returns what Kafka refused."""
        refused = self.admin.alter({key: ("SET", str(value)) for key, value in values.items()})
        return [f"{describe(key, str(values[key]))}: {reason}" for key, reason in sorted(refused.items())]

    def raise_unfinished(self, by_state: Mapping[MoveState, list[TopicPartition]]) -> NoReturn:
        """Raise ``Refused``: nothing moves, but partitions are not done."""
        remedy = (
            "run the step execute again, or the step off to end the wave"
            if self.has_steps
            else f"{self._going_on} goes on, ./ballast cancel --cluster {self.plan.cluster_id} ends the wave"
        )
        raise Refused(*preflight.unfinished_lines(by_state, remedy, strict=self.is_strict))

    def _remove_throttles(self, *, accept_owed: bool) -> Sequence[str]:
        """Remove the wave's own throttles; returns the lines about those that somebody else has changed."""
        last = self.ledger.last_hold_of(self.plan, self.wave.id)
        entries, unset = entries_to_end(self.journal, last, self.wave), self.never_set()
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
            return f"; if they never come back: {self._going_on} --accept-owed"
        key = f"--run-id {self.plan.run_id} --cluster {self.plan.cluster_id} --wave {self.wave.number}"
        return f"; if they never come back: ./ballast wave off {key} --accept-owed"
