"""The journal: table ``executions``. Which wave holds a cluster, in which phase, and what it was about to change.

Before each change a row says what is about to change, after it a row has the result. So another process, on another
host too, can finish or undo what a killed one has begun. From ``held`` to ``released`` only one wave may change a
cluster.
"""

import getpass
import json
import os
import random
import shlex
import socket
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import StrEnum
from functools import cached_property
from typing import Any, NamedTuple

from execution.planned import Plan, in_words
from stored.cordons import Cordon, in_force, last_cordons
from stored.tables import Overtaken, Warehouse
from stored.verdicts import Refused

HELD, THROTTLED, STARTING, EXECUTED, COPIED = "held", "throttled", "starting", "executed", "copied"
CANCELLING, CANCELLED, REMOVING, RELEASED = "cancelling", "cancelled", "removing", "released"
# These change nothing in who holds the cluster.
ELECTING, ELECTED = "electing", "elected"
WANTED = "wanted"  # an operator wants another rate, a pause or an end of the wave that holds the cluster
RUNNING, ENDED = "running", "ended"  # of a process of ./ballast run, for all its waves
FIXING, FIXED = "fixing", "fixed"  # replicas are moved into their planned directories (--fix-dirs)
ROLLBACK, TAKEN_BACK = "rollback", "taken_back"  # somebody takes waves back; all of that has ended
_SMALL = ("cluster_id", "run_id", "number", "wave", "event", "holder", "happened_at", "result")
_TRIES = 10  # a write fails if another process writes first; more than 10 processes at once are unlikely

Row = Mapping[str, Any]
WaveKey = tuple[str, str, int]  # run, cluster and number of a wave of a plan


class Phase(StrEnum):
    """How far a wave is that holds a cluster; each row of the journal begins a phase or stays in it."""

    FREE = "free"
    HELD = "held"  # what it changes is in the journal, its throttles may be set in part
    THROTTLED = "throttled"
    STARTING = "starting"  # copies may have been started
    COPYING = "copying"
    COPIED = "copied"
    CANCELLING = "cancelling"
    CANCELLED = "cancelled"
    REMOVING = "removing"  # its throttles may be removed in part


_BEGINS = {
    HELD: Phase.HELD,
    STARTING: Phase.STARTING,
    EXECUTED: Phase.COPYING,
    COPIED: Phase.COPIED,
    CANCELLING: Phase.CANCELLING,
    CANCELLED: Phase.CANCELLED,
    REMOVING: Phase.REMOVING,
    RELEASED: Phase.FREE,
}


class WaveId(NamedTuple):
    """A wave of a plan, or its rollback; the journal has the rollback of wave 3 as -3."""

    number: int
    is_rollback: bool = False

    @property
    def column(self) -> int:
        """Its value in column ``wave``."""
        return -self.number if self.is_rollback else self.number

    @property
    def name(self) -> str:
        """In messages."""
        return f"the rollback of wave {self.number}" if self.is_rollback else f"wave {self.number}"


def wave_id(column: int) -> WaveId:
    """From the value in column ``wave``."""
    return WaveId(abs(column), column < 0)


@dataclass(frozen=True)
class Hold:
    """What the journal says since a wave began to hold a cluster.

    Parameters
    ----------
    phase : Phase
        ``FREE`` if the wave has released the cluster.
    first, last : mapping
        Its first row, and the newest that began a phase or ended one.
    wanted : tuple of str
        The states that operators want, as JSON, the newest last.
    never_set : frozenset of int
        Brokers whose rates were never set, because they were dead.
    started_at : datetime or None
        When its copies began; a cancel ends them.
    is_executed : bool
        Whether the step execute has ended.
    is_copied : bool
        Whether the time of its copies is known, since the last cancel.
    is_unfinished_cancel, was_cancelled : bool
        Whether a cancel has begun and not ended; whether one has ended with cancelled copies, and nothing was started
        since.
    """

    cluster_id: str
    run_id: str
    wave: WaveId
    first: Row
    last: Row
    phase: Phase = Phase.HELD
    wanted: tuple[str, ...] = ()
    never_set: frozenset[int] = frozenset()
    started_at: datetime | None = None
    is_executed: bool = False
    is_copied: bool = False
    is_unfinished_cancel: bool = False
    was_cancelled: bool = False

    @property
    def has_changes(self) -> bool:
        """Whether its first row says what it changes: a cancel of copies that no wave held begins without that."""
        return bool(self.first["event"] == HELD)

    @property
    def kafka_cluster_id(self) -> str | None:
        """Kafka's own id of the cluster that it holds."""
        return result_of(self.first).get("kafka_cluster_id") if self.has_changes else None

    def is_of(self, plan: Plan) -> bool:
        """Whether the wave, or its rollback, is of this plan."""
        return (self.cluster_id, self.run_id) == (plan.cluster_id, plan.run_id)

    @property
    def by_since(self) -> str:
        """The process that wrote its newest row, the event and its time, in words."""
        return f"{self.last['holder']}; {self.last['event']} at {in_words(self.last['happened_at'])}"

    def describe(self) -> str:
        """Which wave holds the cluster, since which event."""
        return f"{self.wave.name} of run {self.run_id} holds the cluster ({self.by_since})"

    def ending_command(self) -> str:
        """The command that ends the wave."""
        if self.wave.is_rollback:
            return f"./ballast cancel --cluster {self.cluster_id}"
        return f"./ballast wave off --run-id {self.run_id} --cluster {self.cluster_id} --wave {self.wave.number}"


@dataclass(frozen=True)
class Rollback:
    """Waves of a plan that somebody takes back, the last one first, until all of that has ended."""

    run_id: str
    cluster_id: str
    waves: tuple[int, ...]
    by: str

    @property
    def command(self) -> str:
        """The command that goes on with it."""
        which = "--all" if len(self.waves) > 1 else f"--wave {self.waves[0]}"
        by = f" --by {shlex.quote(self.by)}" if self.by else ""
        return f"./ballast rollback --run-id {self.run_id} --cluster {self.cluster_id} {which}{by}"

    def may_begin(self, holder: Hold | None) -> bool:
        """Whether no other rollback of the plan holds the cluster: then this one is refused."""
        is_own = holder is not None and holder.run_id == self.run_id and holder.wave.is_rollback
        return not is_own or (holder is not None and holder.wave.number in self.waves)

    def describe(self) -> str:
        """In messages."""
        return (
            f"the rollback of {names_of_waves(self.waves)} of run {self.run_id!r} by {self.by} has begun and not ended"
        )


@dataclass(frozen=True)
class Ledger:
    """All that the journal says about a cluster.

    Parameters
    ----------
    holder : Hold or None
        The wave that holds the cluster.
    holds : mapping
        The last hold of each wave that ever held it, by run and wave.
    process : mapping or None
        The newest row about a process that executes waves.
    rollbacks : mapping of run to Rollback
        Those that have begun and not ended.
    executed : set of WaveKey
        Waves that were executed and released, and not cancelled in between or taken back since.
    """

    rows: tuple[Row, ...] = ()
    holder: Hold | None = None
    holds: Mapping[tuple[str, WaveId], Hold] = field(default_factory=dict)
    process: Row | None = None
    rollbacks: Mapping[str, Rollback] = field(default_factory=dict)
    executed: frozenset[WaveKey] = frozenset()

    @cached_property
    def last_cordons(self) -> Mapping[int, Cordon]:
        """The last cordon of each broker, also if it has ended."""
        return last_cordons(self.rows)

    @property
    def cordons(self) -> Mapping[int, Cordon]:
        """The cordons in force, by broker."""
        return in_force(self.last_cordons)

    def hold_of(self, plan: Plan, wave: WaveId) -> Hold | None:
        """The hold of a wave, if it holds the cluster."""
        is_own = self.holder is not None and self.holder.is_of(plan) and self.holder.wave == wave
        return self.holder if is_own else None

    def last_hold_of(self, plan: Plan, wave: WaveId) -> Hold | None:
        """The last hold of a wave, also if it has released the cluster."""
        return self.holds.get((plan.run_id, wave))

    def rollback_of(self, plan: Plan) -> Rollback | None:
        """A rollback of the plan's waves that has begun and not ended."""
        return self.rollbacks.get(plan.run_id)

    def has_begun(self, plan: Plan) -> bool:
        """Whether a wave of the plan was executed and released."""
        return any(key[:2] == (plan.run_id, plan.cluster_id) for key in self.executed)

    def overtaken_by(self, plan: Plan) -> str | None:
        """The last wave of another run that has started copies since the plan's snapshot, in words."""
        since = plan.captured_at
        others = [row for row in self.rows if row["run_id"] != plan.run_id and row["event"] in (STARTING, EXECUTED)]
        later = [row for row in others if since and row["happened_at"] > since]
        return f"{wave_id(later[-1]['wave']).name} of run {later[-1]['run_id']!r}" if later else None

    def check_not_overtaken(self, plan: Plan) -> None:
        """Raise ``Refused`` if another run has started copies since the plan's snapshot: the plan is out of date."""
        if wave := self.overtaken_by(plan):
            raise Refused(f"{wave} was executed after this plan's snapshot of {plan.captured_at}: plan again")

    def check_may_start(self, plan: Plan, wave: WaveId, max_hours: float | None) -> None:
        """Raise ``Refused`` if the plan has expired or is out of date; a wave that holds the cluster may continue.

        Waves of a plan that has begun expire only if a limit is given: half a plan is worse than an old one.
        """
        if self.hold_of(plan, wave) is None:
            if max_hours is not None or not self.has_begun(plan):
                plan.check_age(max_hours)
            self.check_not_overtaken(plan)

    def going_on(self, cluster_id: str, run_id: str) -> str:
        """The command that goes on with a run: with its rollback, if one has begun, or else with its waves."""
        begun = self.rollbacks.get(run_id)
        if begun and begun.may_begin(self.holder):
            return begun.command
        key = f"--run-id {run_id} --cluster {cluster_id}"
        if self.holder and self.holder.run_id == run_id and self.holder.wave.is_rollback:
            return f"./ballast rollback {key} --wave {self.holder.wave.number}"
        return f"./ballast run {key}"

    def check_free(self, plan: Plan, wave: WaveId) -> None:
        """Raise ``Refused`` if another wave holds the cluster."""
        hold = self.holder
        if hold is None or self.hold_of(plan, wave):
            return
        raise Refused(
            f"cluster {plan.cluster_id!r} is held by {hold.wave.name} of run {hold.run_id!r} ({hold.by_since}). "
            f"To go on with it: {self.going_on(hold.cluster_id, hold.run_id)}. "
            f"To end that wave: {hold.ending_command()}"
        )


def result_of(row: Row) -> Mapping[str, Any]:
    """Column ``result`` of a row; empty without one."""
    return json.loads(row["result"]) if row["result"] else {}


def fold(rows: Iterable[Row]) -> Ledger:
    """What the rows of one cluster say, in the order of their numbers."""
    in_order = tuple(sorted(rows, key=lambda row: int(row["number"])))
    holds: dict[tuple[str, WaveId], Hold] = {}
    holding: tuple[str, WaveId] | None = None  # the key of the wave that holds the cluster
    rollbacks: dict[str, Rollback] = {}
    process: Row | None = None
    started, executed = set[WaveKey](), set[WaveKey]()
    for row in in_order:
        event, key = row["event"], (row["run_id"], wave_id(int(row["wave"])))
        if event in (RUNNING, ENDED):
            process = row
        elif event == ROLLBACK:
            content = result_of(row)
            begun = Rollback(row["run_id"], row["cluster_id"], tuple(content["waves"]), content["by"])
            if begun.may_begin(holds[holding] if holding else None):
                rollbacks[begun.run_id] = begun
        elif event == TAKEN_BACK:
            rollbacks.pop(row["run_id"], None)
        elif event == WANTED:
            if key in holds:
                holds[key] = replace(holds[key], wanted=(*holds[key].wanted, row["result"]))
        elif event in _BEGINS or event == THROTTLED:
            is_new = event == HELD or holding is None or key not in holds
            was_copied = key in holds and holds[key].is_copied  # a second hold copies only the rest: it has no time
            before = Hold(row["cluster_id"], *key, row, row, is_copied=was_copied) if is_new else holds[key]
            holds[key] = _after(before, row)
            holding = None if event == RELEASED else key
            _count(row, started, executed)
    holder = holds[holding] if holding else None
    return Ledger(in_order, holder, holds, process, rollbacks, frozenset(executed))


def _after(hold: Hold, row: Row) -> Hold:
    """A hold after one more of its rows."""
    event = row["event"]
    hold = replace(hold, last=row, phase=_BEGINS.get(event, hold.phase))
    if event == THROTTLED:  # a later row only has another ``never_set``
        phase = Phase.THROTTLED if hold.phase is Phase.HELD else hold.phase
        return replace(hold, phase=phase, never_set=frozenset(result_of(row).get("never_set", ())))
    if event == EXECUTED:
        return replace(hold, is_executed=True, was_cancelled=False, started_at=hold.started_at or row["happened_at"])
    if event == COPIED:
        return replace(hold, is_copied=True)
    if event == CANCELLING:
        return replace(hold, is_unfinished_cancel=True)
    if event == CANCELLED:
        hold = replace(hold, is_unfinished_cancel=False, was_cancelled=True)
        return replace(hold, started_at=None, is_copied=False, is_executed=False)
    return hold


def _count(row: Row, started: set[WaveKey], executed: set[WaveKey]) -> None:
    """Keep the waves that were started, and those that were released afterwards with nothing that waits."""
    event, wave = row["event"], wave_id(int(row["wave"]))
    key = row["run_id"], row["cluster_id"], wave.number
    is_partial = event == RELEASED and bool(result_of(row).get("waiting"))
    if event == (EXECUTED if wave.is_rollback else CANCELLED) or (is_partial and not wave.is_rollback):
        started.discard(key)
        executed.discard(key)
    elif event == EXECUTED:
        started.add(key)
    elif event == RELEASED and key in started and not wave.is_rollback:
        executed.add(key)


def events(warehouse: Warehouse, **equal: str) -> list[Row]:
    """Rows of ``executions`` with these column values, without the large column ``changes``."""
    rows: list[Row] = warehouse.table("executions", columns=_SMALL, version=None, **equal).to_pylist()
    return rows


def ledgers(rows: Iterable[Row]) -> list[Ledger]:
    """What the rows of several clusters say, cluster by cluster."""
    by_cluster = defaultdict[str, list[Row]](list)
    for row in rows:
        by_cluster[row["cluster_id"]].append(row)
    return [fold(some) for some in by_cluster.values()]


def waves_executed(rows: Iterable[Row]) -> set[WaveKey]:
    """The waves of several clusters that were executed and released, and not cancelled or taken back since."""
    return {key for ledger in ledgers(rows) for key in ledger.executed}


def copy_seconds(rows: Iterable[Row]) -> dict[WaveKey, float | None]:
    """Seconds from the start to ``copied`` for each wave that has ended and was never cancelled.

    None if the wave was released before its copies were done. A second start after a release or a cancel copies only
    the rest, so it does not count. Rollbacks are no waves of the plan.
    """
    seconds: dict[WaveKey, float | None] = {}
    begun: dict[WaveKey, datetime | None] = {}
    cancelled = set()
    for row in sorted(rows, key=lambda row: int(row["number"])):
        key, event = (row["run_id"], row["cluster_id"], int(row["wave"])), row["event"]
        if event in (HELD, CANCELLED):
            begun[key] = None
        if event == CANCELLED:
            cancelled.add(key)
        elif event == EXECUTED and begun.get(key) is None:
            begun[key] = row["happened_at"]
        elif event in (COPIED, RELEASED) and (start := begun.get(key)):
            seconds.setdefault(key, (row["happened_at"] - start).total_seconds() if event == COPIED else None)
    return {key: measured for key, measured in seconds.items() if key not in cancelled and key[2] > 0}


def process_name() -> str:
    """User, host and number of this process, for messages to other operators."""
    return f"{user_name()} on {socket.gethostname()}, process {os.getpid()}"


def user_name() -> str:
    """The name of this user; its number if the system knows no name, as in many containers."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"uid {os.getuid()}"


class Journal:
    """The journal of one cluster. It is read again only when the table has a new version.

    Parameters
    ----------
    warehouse : Warehouse
    cluster_id : str
    """

    def __init__(self, warehouse: Warehouse, cluster_id: str) -> None:
        self.warehouse, self.cluster_id = warehouse, cluster_id
        self._version, self._ledger = -1, Ledger()  # the version of a table that is missing
        self._changes: dict[int, str] = {}

    def look(self) -> Ledger:
        """What the journal says now."""
        version = self.warehouse.version("executions", creates=False)
        if version != self._version:
            self._ledger = fold(events(self.warehouse, cluster_id=self.cluster_id))
            self._version = version
        return self._ledger

    def changes(self, hold: Hold) -> str:
        """What a wave was about to change when it began to hold the cluster, as JSON."""
        number = int(hold.first["number"])
        if number not in self._changes:
            [row] = self.warehouse.rows("executions", cluster_id=self.cluster_id, number=number)
            self._changes[number] = row["changes"]
        return self._changes[number]

    def record(
        self,
        plan: Plan,
        wave: WaveId,
        event: str,
        *,
        changes: str | None = None,
        result: Mapping[str, Any] | None = None,
    ) -> None:
        """Add a row for a wave.

        Nothing is added if the wave holds the cluster and the event is HELD, or its newest row already has the event
        with this result.

        Raises
        ------
        Refused
            When another wave holds the cluster.
        Overtaken
            When other processes wrote first in every try.
        """
        text = json.dumps(result) if result else None

        def is_due(ledger: Ledger) -> bool:
            ledger.check_free(plan, wave)
            hold = ledger.hold_of(plan, wave)
            return hold is None or (event != HELD and (event, text) != (hold.last["event"], hold.last["result"]))

        self._append(plan, wave.column, event, is_due, changes=changes, result=text)

    def record_throttled(self, plan: Plan, wave: WaveId, never_set: Iterable[int]) -> None:
        """Add another row THROTTLED for a wave, if it still holds the cluster."""
        dead = sorted(never_set)
        text = json.dumps({"never_set": dead}) if dead else None
        self._append(plan, wave.column, THROTTLED, lambda ledger: bool(ledger.hold_of(plan, wave)), result=text)

    def record_copied(self, plan: Plan, wave: WaveId, measured: Callable[[], str]) -> None:
        """Add the row COPIED for a wave that was executed and holds the cluster; nothing if it has this row already.

        Parameters
        ----------
        measured : callable
            Returns what was predicted and measured, for column ``result``.

        Raises
        ------
        Overtaken
            When other processes wrote first in every try.
        """

        def is_due(ledger: Ledger) -> bool:
            hold = ledger.hold_of(plan, wave)
            return hold is not None and hold.is_executed and not hold.is_copied

        self._append(plan, wave.column, COPIED, is_due, result=measured)

    def record_wanted(self, plan: Plan, wave: WaveId, wanted: str | Callable[[], str]) -> None:
        """Add the row WANTED for a wave that holds the cluster.

        Parameters
        ----------
        wanted : str or callable
            The wanted state, or what returns it; called again if another process has written meanwhile.
        """

        def is_due(ledger: Ledger) -> bool:
            if ledger.hold_of(plan, wave) is None:
                raise Refused(f"{wave.name} of run {plan.run_id!r} does not hold the cluster any more")
            return True

        self._append(plan, wave.column, WANTED, is_due, result=wanted)

    def note(self, plan: Plan, event: str, result: Mapping[str, Any], wave: WaveId | None = None) -> int | None:
        """Add a row that changes nothing in who holds the cluster; returns its number."""
        column = wave.column if wave else 0
        return self._append(plan, column, event, lambda _: True, result=json.dumps(result))

    def _append(
        self,
        plan: Plan,
        wave: int,
        event: str,
        is_due: Callable[[Ledger], bool],
        *,
        changes: str | None = None,
        result: str | Callable[[], str] | None = None,
    ) -> int | None:
        """Add a row if it is due, and return its number. After each row of another process, check again."""
        for attempt in range(_TRIES):
            ledger = self.look()
            if not is_due(ledger):
                return None
            number = 1 + (int(ledger.rows[-1]["number"]) if ledger.rows else 0)
            text = result() if callable(result) else result
            if self._version < 0:
                self._version = self.warehouse.version("executions")
            row = _row(plan, wave, event, number, changes, text)
            try:
                self.warehouse.append("executions", [row], after=self._version)
            except Overtaken:
                if attempt == _TRIES - 1:
                    raise
                time.sleep(random.uniform(0.1, 1.0))
            else:
                self._version += 1
                self._ledger = fold([*ledger.rows, {name: row[name] for name in _SMALL}])
                if changes is not None:
                    self._changes[number] = changes
                return number
        return None


def _row(plan: Plan, wave: int, event: str, number: int, changes: str | None, result: str | None) -> Row:
    return {
        "cluster_id": plan.cluster_id,
        "run_id": plan.run_id,
        "number": number,
        "wave": wave,
        "event": event,
        "holder": process_name(),
        "happened_at": datetime.now(tz=UTC),
        "changes": changes,
        "result": result,
    }


def names_of_waves(numbers: Sequence[int]) -> str:
    """``wave 2`` or ``waves 1, 3``."""
    return f"wave {numbers[0]}" if len(numbers) == 1 else f"waves {', '.join(map(str, numbers))}"
