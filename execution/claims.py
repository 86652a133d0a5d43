"""Lets one wave of a cluster run at a time: the table ``executions`` records which wave holds the cluster."""

import getpass
import os
import random
import socket
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from execution.planned import Plan, Refused
from execution.tables import Overtaken, Warehouse

HELD, THROTTLED, EXECUTED, COPIED = "held", "throttled", "executed", "copied"
CANCELLED, RELEASED = "cancelled", "released"
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


def last_event(warehouse: Warehouse, cluster_id: str) -> Row | None:
    """The newest row of a cluster in ``executions``."""
    return _newest(warehouse.rows("executions", cluster_id=cluster_id))


def is_held_for(row: Row | None, plan: Plan, wave: int) -> bool:
    """Whether this wave holds the cluster."""
    return row is not None and row["event"] != RELEASED and (row["run_id"], row["wave"]) == (plan.run_id, wave)


def check_free(row: Row | None, plan: Plan, wave: int) -> None:
    """Raise ``Refused`` if another wave holds the cluster."""
    if row is not None and row["event"] != RELEASED and not is_held_for(row, plan, wave):
        holding_wave = f"--run-id {row['run_id']} --cluster {plan.cluster_id} --wave {row['wave']}"
        raise Refused(
            f"cluster {plan.cluster_id!r} is held by wave {row['wave']} of run {row['run_id']!r} ({row['holder']}; "
            f"{row['event']} at {row['happened_at']:%Y-%m-%d %H:%M} UTC). "
            f"To end that wave: ./ballast wave off {holding_wave}"
        )


def waves_executed(rows: Iterable[Row]) -> set[WaveKey]:
    """The waves that were executed and released, and not cancelled in between."""
    started, done = set(), set()
    for wave, row in _in_order(rows):
        if row["event"] == EXECUTED:
            started.add(wave)
        elif row["event"] == CANCELLED:
            started.discard(wave)
            done.discard(wave)
        elif row["event"] == RELEASED and wave in started:
            done.add(wave)
    return done


def copy_seconds(rows: Iterable[Row]) -> dict[WaveKey, float | None]:
    """Seconds from the start to ``copied`` for each wave that has ended and was never cancelled.

    None if the wave was released without ``copied``: by an earlier release, or before its copies were done. A second
    start after a release or a cancel copies only the rest, so it does not count.
    """
    started: dict[WaveKey, datetime] = {}
    seconds: dict[WaveKey, float | None] = {}
    cancelled = set()
    for wave, row in _in_order(rows):
        if row["event"] == EXECUTED:
            started.setdefault(wave, row["happened_at"])
        elif row["event"] == CANCELLED:
            cancelled.add(wave)
        elif row["event"] == COPIED and wave in started:
            seconds.setdefault(wave, (row["happened_at"] - started[wave]).total_seconds())
        elif row["event"] == RELEASED and wave in started:
            seconds.setdefault(wave, None)
    return {wave: measured for wave, measured in seconds.items() if wave not in cancelled}


def check_not_overtaken(warehouse: Warehouse, plan: Plan) -> None:
    """Raise ``Refused`` if another run has executed a wave since the plan's snapshot: the plan is out of date."""
    rows = warehouse.rows("executions", cluster_id=plan.cluster_id)
    since = plan.captured_at
    later = [row for row in rows if row["run_id"] != plan.run_id and since and row["happened_at"] > since]
    if later:
        last = max(later, key=lambda row: int(row["number"]))
        run = f"wave {last['wave']} of run {last['run_id']!r}"
        raise Refused(f"{run} was executed after this plan's snapshot of {since}: plan again")


def record(warehouse: Warehouse, plan: Plan, wave: int, event: str) -> None:
    """Add a row for a wave.

    Nothing is added if the wave holds the cluster and the event is HELD, or its newest row already has the event.

    Raises
    ------
    Refused
        When another wave holds the cluster.
    Overtaken
        When other processes wrote first in every try.
    """

    def is_due(rows: Iterable[Row]) -> bool:
        last = _newest(rows)
        check_free(last, plan, wave)
        return not (last and is_held_for(last, plan, wave) and event in (HELD, last["event"]))

    _append(warehouse, plan, wave, event, is_due)


def record_copied(warehouse: Warehouse, plan: Plan, wave: int) -> None:
    """Add the row COPIED for a wave that was executed and holds the cluster; nothing if it has this row already.

    Raises
    ------
    Overtaken
        When other processes wrote first in every try.
    """

    def is_due(rows: Iterable[Row]) -> bool:
        return _lacks_copied(rows, plan, wave)

    if is_due(warehouse.rows("executions", cluster_id=plan.cluster_id)):
        _append(warehouse, plan, wave, COPIED, is_due)


def _lacks_copied(rows: Iterable[Row], plan: Plan, wave: int) -> bool:
    """Whether a wave holds the cluster, was executed, and has no COPIED; events before a cancel do not count."""
    rows, events = list(rows), list[str]()
    for key, row in _in_order(rows):
        if key == (plan.run_id, plan.cluster_id, wave):
            events = [] if row["event"] == CANCELLED else [*events, row["event"]]
    # Without a wave that holds the cluster the newest row is RELEASED, and must stay so.
    return is_held_for(_newest(rows), plan, wave) and EXECUTED in events and COPIED not in events


def _newest(rows: Iterable[Row]) -> Row | None:
    return max(rows, key=lambda row: int(row["number"]), default=None)


def _in_order(rows: Iterable[Row]) -> list[tuple[WaveKey, Row]]:
    """Each row with its wave, in the order of the events."""
    in_order = sorted(rows, key=lambda row: int(row["number"]))
    return [((row["run_id"], row["cluster_id"], int(row["wave"])), row) for row in in_order]


def _append(warehouse: Warehouse, plan: Plan, wave: int, event: str, is_due: Callable[[Iterable[Row]], bool]) -> None:
    """Add a row if it is due. After each row of another process, check again."""
    for attempt in range(_TRIES):
        version = warehouse.version("executions")
        rows = warehouse.rows("executions", cluster_id=plan.cluster_id)
        if not is_due(rows):
            return
        last = _newest(rows)
        number = last["number"] + 1 if last else 1
        try:
            warehouse.append("executions", [_row(plan, wave, event, number)], after=version)
        except Overtaken:
            if attempt == _TRIES - 1:
                raise
            time.sleep(random.uniform(0.1, 1.0))
        else:
            return


def _row(plan: Plan, wave: int, event: str, number: int) -> Row:
    return {
        "cluster_id": plan.cluster_id,
        "run_id": plan.run_id,
        "number": number,
        "wave": wave,
        "event": event,
        "holder": process_name(),
        "happened_at": datetime.now(tz=UTC),
    }
