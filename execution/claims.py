"""Lets one wave of a cluster run at a time: the table ``executions`` records which wave holds the cluster.

The table is also the journal of a wave: before each change a row says what is about to change, after it a row has the
result. So another process, on another host too, can finish or undo what a killed one has begun.
"""

import getpass
import os
import random
import re
import shlex
import socket
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from execution.planned import Plan, in_words
from optimizer.units import agree
from stored.tables import Overtaken, Warehouse
from stored.verdicts import Refused

HELD, THROTTLED, STARTING, EXECUTED, COPIED = "held", "throttled", "starting", "executed", "copied"
CANCELLING, CANCELLED, REMOVING, RELEASED = "cancelling", "cancelled", "removing", "released"
ELECTING, ELECTED = "electing", "elected"
WANTED = "wanted"  # an operator wants another rate, a pause or an end of the wave that holds the cluster
RUNNING, ENDED = "running", "ended"  # of a process of ./ballast run, for all its waves
FIXING, FIXED = "fixing", "fixed"  # replicas are moved into their planned directories (--fix-dirs)
ROLLBACK = "rollback"  # somebody takes waves back; the rollback of wave 3 has the number -3
# They change nothing in who holds the cluster.
_NO_CLAIMS = (ELECTING, ELECTED, RUNNING, ENDED, WANTED, ROLLBACK, FIXING, FIXED)
_SMALL = ("cluster_id", "run_id", "number", "wave", "event", "holder", "happened_at", "result")
_TRIES = 10  # a write fails if another process writes first; more than 10 processes at once are unlikely

Row = Mapping[str, Any]
WaveKey = tuple[str, str, int]  # run, cluster and number


def process_name() -> str:
    """User, host and number of this process, for messages to other operators."""
    return f"{user_name()} on {socket.gethostname()}, process {os.getpid()}"


def user_name() -> str:
    """The name of this user; its number if the system knows no name, as in many containers."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"uid {os.getuid()}"


def events(warehouse: Warehouse, **equal: str) -> list[Row]:
    """Rows of ``executions`` with these column values, without the large column ``changes``."""
    rows: list[Row] = warehouse.table("executions", columns=_SMALL, version=None, **equal).to_pylist()
    return rows


def last_event(warehouse: Warehouse, cluster_id: str, *, until: datetime | None = None) -> Row | None:
    """The newest row of a cluster that says which wave holds it, or held it at the time ``until``."""
    rows = events(warehouse, cluster_id=cluster_id)
    return newest(row for row in rows if until is None or row["happened_at"] <= until)


def of_last_hold(warehouse: Warehouse, plan: Plan, wave: int) -> list[Row]:
    """All rows of a wave since it last began to hold the cluster, in order, with ``changes``; empty if it never did."""
    rows = warehouse.rows("executions", cluster_id=plan.cluster_id, run_id=plan.run_id, wave=wave)
    return _from_last_held(row for _, row in _in_order(rows))


def since_hold(warehouse: Warehouse, plan: Plan, wave: int) -> list[Row]:
    """``of_last_hold`` without ``changes``."""
    rows = events(warehouse, cluster_id=plan.cluster_id, run_id=plan.run_id)
    return _from_last_held(row for (_, _, number), row in _in_order(rows) if number == wave)


def _from_last_held(rows: Iterable[Row]) -> list[Row]:
    in_order = list(rows)
    begins = [position for position, row in enumerate(in_order) if row["event"] == HELD]
    return in_order[begins[-1] :] if begins else []


def is_unfinished_cancel(rows: Iterable[Row]) -> bool:
    """Whether a cancel has begun and was not finished, in rows of one hold. The release ends it too."""
    cancels = [row["event"] for row in rows if row["event"] in (CANCELLING, CANCELLED, RELEASED)]
    return bool(cancels) and cancels[-1] == CANCELLING


def is_held_for(row: Row | None, plan: Plan, wave: int) -> bool:
    """Whether this wave holds the cluster."""
    return row is not None and row["event"] != RELEASED and (row["run_id"], row["wave"]) == (plan.run_id, wave)


def wave_name(number: int) -> str:
    """A wave in messages, or the rollback of one."""
    return f"wave {number}" if number > 0 else f"the rollback of wave {-number}"


def describe_holder(row: Row) -> str:
    """Which wave holds the cluster, since which event."""
    since = f"{row['event']} at {in_words(row['happened_at'])}"
    return f"{wave_name(row['wave'])} of run {row['run_id']} holds the cluster ({row['holder']}; {since})"


def ending_command(row: Row) -> str:
    """The command that ends the wave of a row."""
    if row["wave"] < 0:
        return f"./ballast cancel --cluster {row['cluster_id']}"
    return f"./ballast wave off --run-id {row['run_id']} --cluster {row['cluster_id']} --wave {row['wave']}"


def continuing_command(rows: Iterable[Row], row: Row) -> str:
    """The command that goes on with the wave of a row, or with the process of a row RUNNING.

    Parameters
    ----------
    rows : iterable of mapping
        All rows of the cluster.
    """
    key, wave = f"--run-id {row['run_id']} --cluster {row['cluster_id']}", int(row["wave"])
    since = int(row["number"]) if row["event"] == RUNNING else 0
    rollbacks = [
        _waves_and_name(each)
        for (run_id, _, _), each in _in_order(rows)
        if run_id == row["run_id"] and each["event"] == ROLLBACK and each["number"] > since
    ]
    of_wave = [(numbers, name) for numbers, name in rollbacks if wave == 0 or -wave in numbers]
    if wave > 0 or (wave == 0 and not of_wave):
        return f"./ballast run {key}"
    numbers, name = of_wave[-1] if of_wave else ([-wave], "")
    which = "--all" if len(numbers) > 1 else f"--wave {numbers[0]}"
    return f"./ballast rollback {key} {which}{f' --by {shlex.quote(name)}' if name else ''}"


def _waves_and_name(row: Row) -> tuple[list[int], str]:
    """The waves of a row ROLLBACK, and who takes them back."""
    names, _, name = str(row["result"]).partition(", by ")
    return [int(number) for number in re.findall(r"\d+", names)], name


def check_free(rows: Iterable[Row], plan: Plan, wave: int) -> None:
    """Raise ``Refused`` if another wave holds the cluster.

    Parameters
    ----------
    rows : iterable of mapping
        All rows of the cluster.
    """
    rows = list(rows)
    row = newest(rows)
    if row is not None and row["event"] != RELEASED and not is_held_for(row, plan, wave):
        since = f"{row['event']} at {row['happened_at']:%Y-%m-%d %H:%M} UTC"
        going_on = f"To go on with it: {continuing_command(rows, row)}. " if row["wave"] < 0 else ""
        raise Refused(
            f"cluster {plan.cluster_id!r} is held by {wave_name(row['wave'])} of run {row['run_id']!r} "
            f"({row['holder']}; {since}). {going_on}To end that wave: {ending_command(row)}"
        )


def waves_executed(rows: Iterable[Row]) -> set[WaveKey]:
    """The waves that were executed and released, and not cancelled in between or taken back since."""
    started, done = set(), set()
    for wave, row in _in_order(rows):
        if wave[2] < 0:
            if row["event"] == EXECUTED:
                started.discard((*wave[:2], -wave[2]))
                done.discard((*wave[:2], -wave[2]))
        elif row["event"] == EXECUTED:
            started.add(wave)
        elif row["event"] == CANCELLED:
            started.discard(wave)
            done.discard(wave)
        elif row["event"] == RELEASED and wave in started:
            done.add(wave)
    return done


def has_begun(warehouse: Warehouse, plan: Plan) -> bool:
    """Whether a wave of the plan was executed and released."""
    return bool(waves_executed(events(warehouse, cluster_id=plan.cluster_id, run_id=plan.run_id)))


def started_at(rows: Iterable[Row]) -> datetime | None:
    """When the copies of a wave began: its first ``executed`` since it holds the cluster, and since the last cancel.

    Parameters
    ----------
    rows : iterable of mapping
        Rows of one wave, in order.
    """
    started: datetime | None = None
    for row in rows:
        if row["event"] in (HELD, CANCELLED):
            started = None
        elif row["event"] == EXECUTED and started is None:
            started = row["happened_at"]
    return started


def copy_seconds(rows: Iterable[Row]) -> dict[WaveKey, float | None]:
    """Seconds from the start to ``copied`` for each wave that has ended and was never cancelled.

    None if the wave was released before its copies were done. A second start after a release or a cancel copies only
    the rest, so it does not count. Rollbacks are no waves of the plan.
    """
    earlier = defaultdict[WaveKey, list[Row]](list)
    seconds: dict[WaveKey, float | None] = {}
    cancelled = set()
    for wave, row in _in_order(rows):
        if row["event"] == CANCELLED:
            cancelled.add(wave)
        elif row["event"] in (COPIED, RELEASED) and (begun := started_at(earlier[wave])):
            is_copied = row["event"] == COPIED
            seconds.setdefault(wave, (row["happened_at"] - begun).total_seconds() if is_copied else None)
        earlier[wave].append(row)
    return {wave: measured for wave, measured in seconds.items() if wave not in cancelled and wave[2] > 0}


def check_not_overtaken(warehouse: Warehouse, plan: Plan) -> None:
    """Raise ``Refused`` if another run has started copies since the plan's snapshot: the plan is out of date."""
    if wave := overtaking_wave(warehouse, plan):
        raise Refused(f"{wave} was executed after this plan's snapshot of {plan.captured_at}: plan again")


def overtaking_wave(warehouse: Warehouse, plan: Plan) -> str | None:
    """The last wave of another run that has started copies since the plan's snapshot, in words."""
    rows = events(warehouse, cluster_id=plan.cluster_id)
    since = plan.captured_at
    others = [row for row in rows if row["run_id"] != plan.run_id and row["event"] in (STARTING, EXECUTED)]
    later = [row for row in others if since and row["happened_at"] > since]
    last = max(later, key=lambda row: int(row["number"]), default=None)
    return f"{wave_name(last['wave'])} of run {last['run_id']!r}" if last else None


def last_of_run(warehouse: Warehouse, cluster_id: str) -> Row | None:
    """The newest row of a cluster that says which process executes its waves."""
    rows = [row for row in events(warehouse, cluster_id=cluster_id) if row["event"] in (RUNNING, ENDED)]
    return max(rows, key=lambda row: int(row["number"]), default=None)


def record_of_run(warehouse: Warehouse, plan: Plan, event: str, host: str) -> int | None:
    """Add the row RUNNING or ENDED of a process; returns its number."""
    return _append(warehouse, plan, 0, event, lambda _: True, result=host)


def record_rollback(warehouse: Warehouse, plan: Plan, waves: Sequence[int], by: str) -> None:
    """Add the row ROLLBACK: which waves are taken back, and by whom."""
    text = f"{agree(len(waves), 'wave', 'waves')} {', '.join(map(str, waves))}, by {by}"
    _append(warehouse, plan, 0, ROLLBACK, lambda _: True, result=text)


def record_fix(warehouse: Warehouse, plan: Plan, wave: int, event: str, result: str) -> None:
    """Add the row FIXING or FIXED of a wave, whichever wave holds the cluster."""
    _append(warehouse, plan, wave, event, lambda _: True, result=result)


def record_wanted(warehouse: Warehouse, plan: Plan, wave: int, wanted: str | Callable[[], str]) -> None:
    """Add the row WANTED for a wave that holds the cluster.

    Parameters
    ----------
    wanted : str or callable
        The wanted state, or what returns it; called again if another process has written meanwhile.
    """

    def is_due(rows: Iterable[Row]) -> bool:
        last = newest(rows)
        if not is_held_for(last, plan, wave):
            raise Refused(f"{wave_name(wave)} of run {plan.run_id!r} does not hold the cluster any more")
        return True

    _append(warehouse, plan, wave, WANTED, is_due, result=wanted)


def record(
    warehouse: Warehouse, plan: Plan, wave: int, event: str, *, changes: str | None = None, result: str | None = None
) -> None:
    """Add a row for a wave.

    Nothing is added if the wave holds the cluster and the event is HELD, or its newest row already has the event with
    this result.

    Raises
    ------
    Refused
        When another wave holds the cluster.
    Overtaken
        When other processes wrote first in every try.
    """

    def is_due(rows: Iterable[Row]) -> bool:
        rows = list(rows)
        check_free(rows, plan, wave)
        last = newest(rows)
        if last is None or not is_held_for(last, plan, wave):
            return True
        return event != HELD and (event, result) != (last["event"], last["result"])

    _append(warehouse, plan, wave, event, is_due, changes=changes, result=result)


def record_throttled(warehouse: Warehouse, plan: Plan, wave: int, result: str | None) -> None:
    """Add another row THROTTLED for a wave, if it still holds the cluster."""
    _append(warehouse, plan, wave, THROTTLED, lambda rows: is_held_for(newest(rows), plan, wave), result=result)


def record_copied(warehouse: Warehouse, plan: Plan, wave: int, measured: Callable[[], str]) -> None:
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

    def is_due(rows: Iterable[Row]) -> bool:
        return _lacks_copied(rows, plan, wave)

    if is_due(events(warehouse, cluster_id=plan.cluster_id)):
        _append(warehouse, plan, wave, COPIED, is_due, result=measured)


def _lacks_copied(rows: Iterable[Row], plan: Plan, wave: int) -> bool:
    """Whether a wave holds the cluster, was executed, and has no COPIED; events before a cancel do not count."""
    rows, since_cancel = list(rows), list[str]()
    for key, row in _in_order(rows):
        if key == (plan.run_id, plan.cluster_id, wave):
            since_cancel = [] if row["event"] == CANCELLED else [*since_cancel, row["event"]]
    # Without a wave that holds the cluster the newest row is RELEASED, and must stay so.
    return is_held_for(newest(rows), plan, wave) and EXECUTED in since_cancel and COPIED not in since_cancel


def newest(rows: Iterable[Row]) -> Row | None:
    """The newest row that says which wave holds the cluster."""
    claims = (row for row in rows if row["event"] not in _NO_CLAIMS)
    return max(claims, key=lambda row: int(row["number"]), default=None)


def _in_order(rows: Iterable[Row]) -> list[tuple[WaveKey, Row]]:
    """Each row with its wave, in the order of the events."""
    in_order = sorted(rows, key=lambda row: int(row["number"]))
    return [((row["run_id"], row["cluster_id"], int(row["wave"])), row) for row in in_order]


def _append(
    warehouse: Warehouse,
    plan: Plan,
    wave: int,
    event: str,
    is_due: Callable[[Iterable[Row]], bool],
    *,
    changes: str | None = None,
    result: str | Callable[[], str] | None = None,
) -> int | None:
    """Add a row if it is due, and return its number. After each row of another process, check again."""
    for attempt in range(_TRIES):
        version = warehouse.version("executions")
        rows = events(warehouse, cluster_id=plan.cluster_id)
        if not is_due(rows):
            return None
        number = 1 + max((int(row["number"]) for row in rows), default=0)
        text = result() if callable(result) else result
        try:
            warehouse.append("executions", [_row(plan, wave, event, number, changes, text)], after=version)
        except Overtaken:
            if attempt == _TRIES - 1:
                raise
            time.sleep(random.uniform(0.1, 1.0))
        else:
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
