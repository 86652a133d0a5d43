"""Lets one wave of a cluster run at a time: the table ``executions`` records which wave holds the cluster."""

import getpass
import os
import random
import socket
import time
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from execution.planned import Plan, Refused
from execution.tables import Overtaken, Warehouse

HELD, THROTTLED, EXECUTED, CANCELLED, RELEASED = "held", "throttled", "executed", "cancelled", "released"
_TRIES = 10  # a write fails if another process writes first; more than 10 processes at once are unlikely

Row = Mapping[str, Any]


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
    rows = warehouse.rows("executions", cluster_id=cluster_id)
    return max(rows, key=lambda row: int(row["number"]), default=None)


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


def waves_executed(rows: Iterable[Row]) -> set[tuple[str, str, int]]:
    """Run, cluster and wave of each wave that was executed and released, and not cancelled in between."""
    started, done = set(), set()
    for row in sorted(rows, key=lambda row: int(row["number"])):
        wave = row["run_id"], row["cluster_id"], int(row["wave"])
        if row["event"] == EXECUTED:
            started.add(wave)
        elif row["event"] == CANCELLED:
            started.discard(wave)
            done.discard(wave)
        elif row["event"] == RELEASED and wave in started:
            done.add(wave)
    return done


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
    for attempt in range(_TRIES):
        version = warehouse.version("executions")
        last = last_event(warehouse, plan.cluster_id)
        check_free(last, plan, wave)
        if last and is_held_for(last, plan, wave) and event in (HELD, last["event"]):
            return
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
