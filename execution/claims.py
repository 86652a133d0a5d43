"""Who executes which wave of a cluster: one at a time, told by a table that outlives every process."""

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
_TRIES = 10  # writes that other processes may overtake, up to a second apart: as many hardly run at once

Row = Mapping[str, Any]


def me() -> str:
    """This process, as others are told of it."""
    return f"{user()} on {socket.gethostname()}, process {os.getpid()}"


def user() -> str:
    """The name of this user; its number where the system knows no name, as in many containers."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"uid {os.getuid()}"


def last_of(warehouse: Warehouse, cluster_id: str) -> Row | None:
    """The last row of a cluster."""
    rows = warehouse.rows("executions", cluster_id=cluster_id)
    return max(rows, key=lambda row: int(row["number"]), default=None)


def is_of(row: Row | None, plan: Plan, wave: int) -> bool:
    """Whether a cluster is held for just this wave."""
    return row is not None and row["event"] != RELEASED and (row["run_id"], row["wave"]) == (plan.run_id, wave)


def check_free(row: Row | None, plan: Plan, wave: int) -> None:
    """Raise where a cluster is held for another wave."""
    if row is not None and row["event"] != RELEASED and not is_of(row, plan, wave):
        other = f"--run-id {row['run_id']} --cluster {plan.cluster_id} --wave {row['wave']}"
        raise Refused(
            f"cluster {plan.cluster_id!r} is held for wave {row['wave']} of run {row['run_id']!r} by {row['holder']}, "
            f"{row['event']} at {row['happened_at']:%Y-%m-%d %H:%M} UTC: end that by ./ballast wave off {other}"
        )


def waves_executed(rows: Iterable[Row]) -> set[tuple[str, str, int]]:
    """Run, cluster and wave of each wave that was executed and then released, and not cancelled in between."""
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
    """Raise where another run has executed since the plan's snapshot: the cluster is not what was planned on."""
    rows = warehouse.rows("executions", cluster_id=plan.cluster_id)
    since = plan.captured_at
    later = [row for row in rows if row["run_id"] != plan.run_id and since and row["happened_at"] > since]
    if later:
        last = max(later, key=lambda row: int(row["number"]))
        run = f"wave {last['wave']} of run {last['run_id']!r}"
        raise Refused(f"{run} was executed after this plan's snapshot of {since}: plan again")


def note(warehouse: Warehouse, plan: Plan, wave: int, event: str) -> None:
    """Add a row, unless the last one says the same, or the cluster is to be held and is.

    Raises
    ------
    Refused
        When another wave holds the cluster.
    Overtaken
        When other processes were faster again and again.
    """
    for attempt in range(_TRIES):
        version = warehouse.version("executions")
        last = last_of(warehouse, plan.cluster_id)
        check_free(last, plan, wave)
        if last and is_of(last, plan, wave) and event in (HELD, last["event"]):
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
        "holder": me(),
        "happened_at": datetime.now(tz=UTC),
    }
